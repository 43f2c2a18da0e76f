"""kill -9 of the daemon at every named point of create, lease, park, destroy and reconcile, on real containers. After
the next start containers, owners and rows agree one to one, what was promised is kept with the processes inside, and
nothing of what was under way is left."""

import http.client
import os
import subprocess

from docker_case import INSTANCE, Box, DockerCase, engines, main, wait_until
from fixtures import BIN, WAIT_S, Client, at_most, happens

KINDS = os.environ.get("SANDPOOL_TEST_ENGINES", "docker podman").split()


def fault_names(prefix):
    done = subprocess.run([BIN / "sandpoold", "--fault-points"], capture_output=True, text=True, check=False,
                          timeout=60)
    return [n for n in done.stdout.split() if n.startswith(prefix)]


class Promises:
    """What callers were answered: thread -> (lease, state, process inside). An answer that was lost leaves nothing."""

    def __init__(self):
        self.kept = {}

    def lease(self, client, thread, **fields):
        self.kept.pop(thread, None)
        answer = client.acquire(thread, wait_ms=int(WAIT_S * 500), **fields)
        if answer.status != 200:
            raise AssertionError(f"no box for {thread}: {answer}")
        self.kept[thread] = (answer.json, "leased", None)
        process = Box(answer.json).start("sleep 1000")
        self.kept[thread] = (answer.json, "leased", process)
        return answer.json["sandbox_id"]

    def park(self, client, thread):
        lease, _, process = self.kept.pop(thread)
        if client.release(lease["sandbox_id"]).status == 200:
            self.kept[thread] = (lease, "parked", process)

    def destroy(self, client, thread):
        lease, _, _ = self.kept.pop(thread)
        client.delete(f"/v1/sandboxes/{lease['sandbox_id']}")


class Crash:
    """With an engine of either kind. One daemon goes through all deaths; a new one comes only after a point that failed."""

    # Which hit of a point: those between two calls of the engine twice, those of every backend once. test_crash.py has more
    # of these.
    hits = {"docker.": (1, 3), "engine.": (2,), "recover.": (1,), "store.": (1,)}
    at_start = {"engine.before_listen"}  # only once
    extras = {"limits": {"memory": "96M"}}
    never = set()

    def test_every_named_point(self):
        points = [(name, hit) for prefix, hits in self.hits.items() for name in fault_names(prefix)
                  for hit in ((1,) if name in self.at_start else hits)]
        if not points:
            self.skipTest("this build has no crash points")
        died = set()
        daemon = None
        for name, hit in points:
            with self.subTest(point=name, hit=hit):
                daemon = daemon or self.make_daemon()
                try:
                    if self.one_point(daemon, name, hit):
                        died.add(name)
                except BaseException:
                    daemon = None
                    raise
                finally:
                    if daemon is None:
                        self.doCleanups()
                        self.setUp()
        self.assertEqual({name for name, _ in points} - died, self.never, "points that were never hit")

    def make_daemon(self):
        return self.start(start=False, profiles={
            "ports": self.profile(warm=0, network="nat", docker={"inject": "upload"})})

    def one_point(self, daemon, name, hit):
        self.leave_stray()
        promises = Promises()
        daemon.start(env={"SANDPOOL_CRASH_AT": f"{name}:{hit}"}, wait=False)
        wait_until(lambda: not daemon.process.is_running() or daemon.answers(), "up or dead")
        try:
            self.work(daemon, promises)
        except (OSError, http.client.HTTPException):
            pass
        has_died = self.is_dead(daemon)
        daemon.kill()  # hit fewer times: any moment will do
        daemon.start()
        self.assertAgree(daemon)
        self.assertKept(daemon, promises)
        self.forget_all(daemon)
        daemon.kill()
        return has_died

    def forget_all(self, daemon):
        """Of all threads, also those whose answer was lost: the next point begins with new boxes."""
        client = daemon.client()
        try:
            for row in self.rows(daemon).values():
                if row["state"] in ("leased", "parked"):
                    self.assertIn(client.delete(f"/v1/sandboxes/{row['sandbox_id']}").status, (200, 404), row)
        finally:
            client.close()

    def leave_stray(self):
        """For the reconciliation: a leftover of an earlier crash, which never started, and its owner."""
        labels = {"sandpool.instance": INSTANCE, "sandpool.box": "00000000000000aa", "sandpool.profile": "default"}
        self.engine.json("POST", "/containers/create?name=stray",
                         {"Image": engines.IMAGE, "Cmd": ["/bin/true"], "Labels": labels})
        self.engine.json("POST", "/volumes/create", {"Name": "stray", "Labels": labels})

    def is_dead(self, daemon):
        """The last steps are taken after the last answer."""
        return happens(lambda: not daemon.process.is_running(), at_most(0.5))

    def work(self, daemon, promises):
        """Everything a box can meet, until the daemon dies."""
        client = Client(daemon.socket)
        try:
            for i in range(2):
                promises.lease(client, f"keeper-{i}", envs={"LATE": "yes"}, **self.extras)
                promises.lease(client, f"parker-{i}")
                promises.park(client, f"parker-{i}")
                promises.lease(client, f"guest-{i}", profile="ports")
                promises.destroy(client, f"guest-{i}")
                client.post("/v1/pool/reconcile")
                promises.lease(client, f"parker-{i}")
                promises.lease(client, f"gone-{i}")
                promises.destroy(client, f"gone-{i}")
                promises.park(client, f"parker-{i}")
        finally:
            client.close()

    def assertKept(self, daemon, promises):
        client = daemon.client()
        try:
            for thread, (lease, state, process) in promises.kept.items():
                row = client.get(f"/v1/sandboxes/{lease['sandbox_id']}")
                self.assertEqual(row.status, 200, (thread, row, daemon.process.output()[-3000:]))
                self.assertEqual([row.json[k] for k in ("box_id", "generation", "state")],
                                 [lease["box_id"], lease["generation"], state], (thread, row))
                if process is not None:
                    inside = Box(lease).process(process)
                    self.assertEqual(inside["outcome"], "running", (thread, inside))
        finally:
            client.close()


class DockerCrash(Crash, DockerCase):
    pass


class PodmanCrash(Crash, DockerCase):
    """What lies between two calls of the engine; the rest does not depend on its kind."""

    kind = "podman"
    hits = {"docker.": (1,)}
    extras = {}
    never = {"docker.after_limits"}


def load_tests(loader, _tests, _pattern):
    classes = {"docker": DockerCrash, "podman": PodmanCrash}
    suite = loader.suiteClass()
    for kind in KINDS:
        suite.addTests(loader.loadTestsFromTestCase(classes[kind]))
    return suite


if __name__ == "__main__":
    main()
