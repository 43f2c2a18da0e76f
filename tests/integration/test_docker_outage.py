"""An engine that is down, restarted, stuck or killed, with boxes and callers on it: what is known is served, no caller
waits longer than it wanted to, other backends notice nothing, and in the end everything agrees."""

import http.client
import random
import shutil
import signal
import threading
import time

from docker_case import AGREE_S, DockerCase, FleetCase, main, wait_until
from fixtures import SLOW, Client, at_most


class OutageCase(FleetCase):
    def readiness(self, daemon):
        client = daemon.client()
        try:
            return client.get("/readyz")
        finally:
            client.close()

    def assertServesWhatIsKnown(self, daemon):
        """With no engine: owners keep their boxes, others are answered why there is none."""
        wait_until(lambda: self.readiness(daemon).status == 503, "it says that it is not ready")
        self.assertIn("docker", self.readiness(daemon).json["reason"])
        answer = daemon.acquire("nobody-yet", wait_ms=1000)
        self.assertIn(answer.status, (200, 503), answer)  # there may be a blank box


class LiveRestore(OutageCase):
    """Containers outlive the engine."""

    options = ("--live-restore",)

    def test_down_at_start(self):
        daemon = self.fleet()
        daemon.stop()
        self.engine.stop()
        try:
            daemon.start()
            self.assertKept(daemon, "leased", "kept")
            self.assertServesWhatIsKnown(daemon)
        finally:
            self.engine.start()
        wait_until(lambda: self.readiness(daemon).status == 200, "ready again", AGREE_S)
        self.assertAllKept(daemon)

    def test_restarted_meanwhile(self):
        """While the daemon runs, and while it does not."""
        daemon = self.fleet()
        for signum in (signal.SIGTERM, signal.SIGKILL):
            self.engine.stop(signum)
            self.assertKept(daemon, "leased", "kept")
            self.engine.start()
            self.assertAllKept(daemon)
            self.assertOk(self.client(daemon).release(self.held["parked"].id))
        daemon.kill()
        self.engine.stop()
        self.engine.start()
        daemon.start()
        self.assertAllKept(daemon)


    def test_forgotten(self):
        """An engine that was killed while it started a container may know nothing of it afterwards. Nothing of the
        box goes on."""
        daemon = self.fleet()
        container = self.containers()[self.held["leased"].box_id]["Id"]
        self.engine.stop(signal.SIGKILL)
        shutil.rmtree(f"{self.engine.dir}/data/containers/{container}")
        self.engine.start()
        self.assertLost(daemon, "leased")
        self.assertKept(daemon, "parked", "parked")
        self.assertAgree(daemon)

    def forgotten_meanwhile(self, daemon):
        container = self.containers()[self.held["leased"].box_id]["Id"]
        daemon.kill()
        self.engine.stop(signal.SIGKILL)
        shutil.rmtree(f"{self.engine.dir}/data/containers/{container}")
        self.engine.start()

    def test_forgotten_while_no_daemon_ran(self):
        """The row names the container."""
        daemon = self.fleet()
        self.forgotten_meanwhile(daemon)
        daemon.start()
        self.assertLost(daemon, "leased")
        self.assertKept(daemon, "parked", "parked")
        self.assertAgree(daemon)

    def test_forgotten_by_all(self):
        """No row, and no container: the relay is there."""
        daemon = self.fleet()
        self.forgotten_meanwhile(daemon)
        for path in daemon.state.glob("sandpool.db*"):
            path.unlink()
        daemon.start()
        self.assertKept(daemon, "parked", "parked")
        client = self.client(daemon)
        self.assertOk(client.post("/v1/pool/reconcile"))
        self.assertAgree(daemon)
        self.assertIn("docker.relay_left", daemon.process.output())


class NoLiveRestore(OutageCase):
    """Containers go with the engine."""

    def test_down_at_start(self):
        daemon = self.fleet()
        daemon.stop()
        self.engine.stop()
        try:
            daemon.start()
            self.assertServesWhatIsKnown(daemon)
        finally:
            self.engine.start()
        self.assertLost(daemon, "leased")
        self.assertLost(daemon, "parked")
        self.assertAgree(daemon)

    def test_restarted_meanwhile(self):
        daemon = self.fleet()
        self.engine.stop()
        self.engine.start()
        self.assertLost(daemon, "leased")
        self.assertLost(daemon, "parked")
        self.assertAgree(daemon)


class Caller(threading.Thread):
    """Acquires and releases until asked to stop; notes what it was answered and how long it took. The pauses leave
    processors to the engine: what is tested comes of who waits, not of how many turns there are."""

    WAIT_MS = 3000
    PAUSE_S = 0.1
    DESTROY = 0.5  # of releases

    def __init__(self, daemon, name, profile, seed):
        super().__init__(daemon=True)
        self.server, self.caller, self.profile = daemon, name, profile
        self.dice = random.Random(seed)
        self.stopped = threading.Event()
        self.longest, self.statuses, self.problem = 0.0, [], None
        self.start()

    def run(self):
        client = Client(self.server.socket, timeout=60 * SLOW)
        try:
            while not self.stopped.is_set():
                self.turn(client)
        except (OSError, http.client.HTTPException) as problem:
            self.problem = problem
        finally:
            client.close()

    def turn(self, client):
        started = time.monotonic()
        answer = client.acquire(f"{self.caller}-{self.dice.randrange(3)}", profile=self.profile, wait_ms=self.WAIT_MS)
        self.longest = max(self.longest, time.monotonic() - started)
        self.statuses.append(answer.status)
        if answer.status == 200:
            client.release(answer.json["sandbox_id"], destroy=self.dice.random() < self.DESTROY)
        self.stopped.wait(self.PAUSE_S)

    def end(self):
        self.stopped.set()
        self.join(120 * SLOW)


class UnderLoad(DockerCase):
    elsewhere = ("other",)

    def setUp(self):
        super().setUp()
        self.server = self.start(warm=2, profiles={
            "other": {"backend": "sim", "warm": {"min": 2, "max": 8}, "sim": {"create_ms": 5}}},
            config={"pool": {"max_boxes": 30}})
        self.callers = [Caller(self.server, f"caller-{i}", "default", i) for i in range(6)]
        self.others = [Caller(self.server, f"other-{i}", "other", 100 + i) for i in range(2)]
        self.addCleanup(lambda: [c.end() for c in self.callers + self.others])
        self.wait_served(self.callers, "callers get boxes")

    def wait_served(self, callers, what):
        for caller in callers:
            before = len(caller.statuses)
            wait_until(lambda caller=caller, before=before: 200 in caller.statuses[before:], what, AGREE_S)

    def assertGoodEnd(self):
        """Everybody is served again; nobody was cut off, or waited longer than asked for."""
        self.wait_served(self.callers, "callers get boxes again")
        for caller in self.callers + self.others:
            caller.stopped.set()
        for caller in self.callers + self.others:
            caller.end()
            self.assertFalse(caller.is_alive(), "a call hangs")
            self.assertIsNone(caller.problem)
        longest = max(c.longest for c in self.callers)
        self.assertLess(longest, Caller.WAIT_MS / 1000 + at_most(5))
        self.assertEqual({s for c in self.others for s in c.statuses}, {200})
        self.assertLess(max(c.longest for c in self.others), at_most(2.5))
        self.assertLessEqual({s for c in self.callers for s in c.statuses}, {200, 410, 503})
        self.assertAgree(self.server)

    def assertOthersGoOn(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.wait_served(self.others, "callers of another backend are served")
            time.sleep(0.1)

    def test_stalled(self):
        self.engine.process.send_signal(signal.SIGSTOP)
        try:
            self.assertOthersGoOn(Caller.WAIT_MS / 1000 + 3)
        finally:
            self.engine.process.send_signal(signal.SIGCONT)
        self.assertGoodEnd()

    def test_killed_and_restarted(self):
        self.engine.stop(signal.SIGKILL)
        self.assertOthersGoOn(2)
        self.engine.start()
        self.assertGoodEnd()


if __name__ == "__main__":
    main()
