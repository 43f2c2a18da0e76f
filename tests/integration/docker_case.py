"""What the tests with a Docker or Podman engine share: an engine of their own for a class of tests, daemons on it, and
what both say of the boxes."""

import os
import pathlib

from fixtures import BIN, SLOW, Daemon, TestCase, happens, main, skip, wait_until
from box import Box
from host import GROUPS, copy_program, mark_of, processes, runs_one_of

import engine as engines

engines.isolate()

INSTANCE = "test-docker-" + os.urandom(4).hex()  # control groups are named after it
AGREE_S = 30 * SLOW


class DockerCase(TestCase):
    kind = "docker"
    options = ()  # of the engine
    elsewhere = ()  # profiles of other backends
    engine_class = engines.Engine

    @classmethod
    def setUpClass(cls):
        why = engines.is_possible(cls.kind)
        if why is not None:
            skip(f"no {cls.kind} can run here: {why}")
        cls.addClassCleanup(lambda: happens(lambda: not cls.groups(), AGREE_S))
        cls.engine = cls.engine_class(cls.kind, cls.options)
        cls.engine.__enter__()
        cls.addClassCleanup(cls.engine.__exit__)

    def profile(self, warm=1, docker=None, **fields):
        return {"backend": "docker", "image": engines.IMAGE, "park_timeout_s": 600,
                "docker": {"host": self.engine.address, **(docker or {})},
                "warm": {"min": warm, "max": max(warm, 2)}, "limits": {"memory": "64M"}, **fields}

    def start(self, start=True, config=None, profiles=None, **profile):
        """With an agent of its own, so that its processes can be recognised."""
        self.agent = pathlib.Path(self.directory) / "sandpool-agent"
        self.helper = pathlib.Path(self.directory) / "sandpool-helper"
        copy_program(engines.static_agent(BIN), self.agent)
        copy_program(BIN / "sandpool-helper", self.helper)
        daemon = Daemon(self.directory, {
            "instance": INSTANCE, "agent": {"path": str(self.agent)}, "helper": {"path": str(self.helper)},
            "profiles": {"default": self.profile(**profile), **(profiles or {})}, **(config or {})})
        self.addCleanup(self.end, daemon)
        return daemon.start() if start else daemon

    def end(self, daemon):
        """Takes all boxes along; then the engine has nothing of ours."""
        daemon.kill()
        daemon.args = ["--destroy-on-exit"]
        daemon.start()
        self.assertAgree(daemon)
        daemon.stop()
        self.assertNothingLeft(daemon)

    # -- boxes --

    def box(self, daemon, thread, **fields):
        answer = daemon.acquire(thread, **fields)
        self.assertEqual(answer.status, 200, (answer, daemon.process.output()[-3000:]))
        return Box(answer.json)

    def containers(self):
        """Box id -> container, of this instance."""
        return {c["Labels"]["sandpool.box"]: c for c in self.engine.json("GET", "/containers/json?all=1")
                if (c["Labels"] or {}).get("sandpool.instance") == INSTANCE}

    def container(self, box):
        return self.engine.json("GET", f"/containers/{self.containers()[box.box_id]['Id']}/json")

    def rows(self, daemon):
        client = daemon.client()
        try:
            return {b["box_id"]: b for b in client.get("/v1/sandboxes?limit=1000").json["sandboxes"]}
        finally:
            client.close()

    # -- truth --

    def differences(self, daemon):
        """What rows, containers, owners, processes and sockets do not agree about; {} when they do."""
        client = daemon.client()
        state = client.get("/v1/pool").json["by_state"]
        client.close()
        rows = {b for b, row in self.rows(daemon).items()
                if row["profile"] not in self.elsewhere}
        found = self.containers()
        owned = [v["Labels"]["sandpool.box"] for v in self.engine.volumes()
                 if v["Labels"].get("sandpool.instance") == INSTANCE]
        checks = {
            "under way": state["starting"] + state["deleting"],
            "rows without a container": rows - set(found),
            "containers without a row": set(found) - rows,
            "not running": [(b, c["State"]) for b, c in found.items() if c["State"] not in ("running", "paused")],
            "owners of nothing": set(owned) - rows,
            "several owners": len(owned) != len(set(owned)),
            "sockets": [name for name in self.relay_files(daemon) if not name.endswith(".leash") or name[:16] not in found],
            "processes": self.running(self.agent) > len(found),
            "relays": self.running(self.helper) > len(found),
        }
        return {what: value for what, value in checks.items() if value}

    def assertAgree(self, daemon, limit=AGREE_S):
        try:
            wait_until(lambda: not self.differences(daemon), "containers and rows agree", limit)
        except AssertionError as problem:
            raise AssertionError(f"{problem}: {self.differences(daemon)} "
                                 f"{daemon.process.output()[-4000:]}") from None

    def assertNothingLeft(self, daemon, limit=AGREE_S):
        def left():
            return (self.engine.left() or self.relay_files(daemon) or self.running(self.agent) or self.running(self.helper) or
                    self.groups())
        try:
            wait_until(lambda: not left(), "nothing is left", limit)
        except AssertionError as problem:
            raise AssertionError(f"{problem}: {left()} {daemon.process.output()[-3000:]}") from None

    def running(self, program):
        """How many processes run this program of the test's own."""
        marks = {mark_of(program)}
        return sum(runs_one_of(pid, marks) for pid in processes())

    @staticmethod
    def groups():
        """Control groups with something in them. One may be left empty, when a relay ended after its daemon."""
        tops = [*GROUPS.glob(f"sandpool-{INSTANCE}"), *GROUPS.glob(f"*/sandpool-{INSTANCE}")]
        for group in [below for top in tops for below in (top / "relays", top)]:
            try:
                group.rmdir()
            except OSError:
                pass  # not there, or in use
        return [str(top) for top in tops if top.exists()]

    def relay_files(self, daemon):
        path = daemon.state / "docker"
        return sorted(os.listdir(path)) if path.exists() else []


class FleetCase(DockerCase):
    """Boxes with owners and processes inside, which must be there again after whatever happens."""

    def fleet(self, **kw):
        """One box leased, one parked, at least one blank; a process inside each of the first two."""
        daemon = self.start(**kw)
        self.held = {name: self.box(daemon, name) for name in ("leased", "parked")}
        self.inside = {name: box.start("sleep 1000") for name, box in self.held.items()}
        client = self.client(daemon)
        self.assertOk(client.release(self.held["parked"].id))
        for box in self.held.values():
            wait_until(lambda box=box: self.container(box)["Name"] == f"/sandpool-{box.id}", "its name")
        self.assertAgree(daemon)
        self.wait_blank(client, 1)
        return daemon

    def assertKept(self, daemon, name, source=None):
        box = self.held[name]
        again = self.box(daemon, name)
        self.assertEqual([again.lease[k] for k in ("box_id", "generation", "token", "sandbox_url")],
                         [box.lease[k] for k in ("box_id", "generation", "token", "sandbox_url")])
        self.assertEqual(again.process(self.inside[name])["outcome"], "running")
        self.assertIn(again.lease["source"], (source,) if source else ("kept", "parked"))

    def assertAllKept(self, daemon, leased="kept"):
        self.assertKept(daemon, "leased", leased)
        self.assertKept(daemon, "parked", "parked")
        self.assertAgree(daemon)

    def assertLost(self, daemon, name):
        """Reported once to its owner, who then gets a new box."""
        client = self.client(daemon)

        def is_told():
            return client.get(f"/v1/sandboxes/{self.held[name].id}").status == 410
        wait_until(is_told, lambda: f"the box of {name} is lost; {daemon.process.output()[-4000:]}", AGREE_S)
        again = wait_until(lambda: self.try_acquire(daemon, name), "a new box", AGREE_S)
        self.assertNotEqual(again.box_id, self.held[name].box_id)
        self.assertEqual(again.lease["generation"], self.held[name].lease["generation"] + 1)

    def try_acquire(self, daemon, thread, **fields):
        answer = daemon.acquire(thread, wait_ms=5000, **fields)
        return Box(answer.json) if answer.status == 200 else None

    def by_hand(self, name, method, what):
        """As a person would, to the box of this owner."""
        self.engine.json(method, f"/containers/{self.containers()[self.held[name].box_id]['Id']}{what}")

    def stranger(self, name, labels, command=("/bin/sleep", "1000"), start=True):
        made = self.engine.json("POST", f"/containers/create?name={name}", {
            "Image": engines.IMAGE, "Cmd": list(command), "Labels": labels})["Id"]
        if start:
            self.engine.json("POST", f"/containers/{made}/start")
        return made


__all__ = ["AGREE_S", "INSTANCE", "Box", "DockerCase", "FleetCase", "engines", "main", "wait_until"]
