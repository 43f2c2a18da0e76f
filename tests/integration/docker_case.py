"""What the tests with a Docker or Podman engine share: an engine of their own for a class of tests, daemons on it, and
what both say of the boxes."""

import os
import pathlib
import shutil
import sys
import unittest

from harness import BIN, SLOW, Daemon, TestCase, main, wait_until
from oci_case import Box, processes, runs_one_of

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "unit" / "docker"))
import engine as engines  # noqa: E402

engines.isolate()

INSTANCE = "test-docker"
AGREE_S = 30 * SLOW


class DockerCase(TestCase):
    kind = "docker"

    @classmethod
    def setUpClass(cls):
        why = engines.is_possible(cls.kind)
        if why is not None:
            print(f"SKIPPED: no {cls.kind} can run here: {why}", file=sys.stderr)
            raise unittest.SkipTest(why)
        cls.engine = engines.Engine(cls.kind)
        cls.engine.__enter__()
        cls.addClassCleanup(cls.engine.__exit__)

    def profile(self, warm=1, docker=None, **fields):
        return {"backend": "docker", "image": engines.IMAGE, "park_timeout_s": 600,
                "docker": {"host": self.engine.address, **(docker or {})},
                "warm": {"min": warm, "max": max(warm, 2)}, "limits": {"memory": "64M"}, **fields}

    def start(self, start=True, config=None, profiles=None, **profile):
        """With an agent of its own, so that its processes can be told."""
        self.agent = pathlib.Path(self.directory) / "sandpool-agent"
        shutil.copy(BIN / "sandpool-agent", self.agent)
        daemon = Daemon(self.directory, {
            "instance": INSTANCE, "oci": {"agent": str(self.agent)},
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
                if row["profile"] not in getattr(self, "elsewhere", ())}
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
            "sockets": self.hands(daemon),
            "processes": self.agents() > len(found),
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
            return self.engine.left() or self.hands(daemon) or self.agents()
        try:
            wait_until(lambda: not left(), "nothing is left", limit)
        except AssertionError as problem:
            raise AssertionError(f"{problem}: {left()} {daemon.process.output()[-3000:]}") from None

    def agents(self):
        """How many processes run the agent of this test."""
        info = os.stat(self.agent)
        return sum(runs_one_of(pid, {(info.st_dev, info.st_ino)}) for pid in processes())

    def hands(self, daemon):
        path = daemon.state / "docker"
        return sorted(os.listdir(path)) if path.exists() else []


__all__ = ["AGREE_S", "INSTANCE", "Box", "DockerCase", "engines", "main", "wait_until"]
