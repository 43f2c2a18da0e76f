"""An engine that is not there, goes away and comes back, or keeps a reply to itself: what is known is served, what is
wrong is said, and one silence holds up nobody else."""

import datetime
import threading

from engine_case import EngineCase, Proxy
from fixtures import WAIT_S, at_most, main, wait_until


class Away:
    def ready(self, daemon):
        answer = self.get(daemon, "/readyz")
        return answer.status, answer.text

    def wait_not_ready(self, daemon, *words):
        def is_said():
            status, text = self.ready(daemon)
            return status == 503 and all(word in text for word in words)
        wait_until(is_said, f"/readyz says {words}; it says {self.ready(daemon)}")

    def wait_ready(self, daemon):
        # the next try may be a minute away
        wait_until(lambda: self.ready(daemon)[0] == 200, f"ready again; {self.ready(daemon)}", 3 * WAIT_S)

    def examined(self, daemon):
        found = [f for b in self.get(daemon, "/v1/doctor").json["backends"] for f in b["findings"]]
        return {f["subject"]: (f["level"], f["text"]) for f in found}

    def test_there_later(self):
        proxy = Proxy(self, self.engine.socket, start=False)
        daemon = self.daemon_on({"default": self.config(proxy.address, create={
            "backoff_min_ms": 50, "backoff_max_ms": 200, "breaker_failures": 3})})
        self.wait_not_ready(daemon, "backend docker:unix://")
        self.assertEqual(self.get(daemon, "/healthz").status, 200)
        answer = daemon.acquire("one", wait_ms=1000)
        self.assertEqual((answer.status, answer.code), (503, "backend_unavailable"), answer)
        self.assertIn("the engine at", answer.json["error"]["message"])
        level, text = self.examined(daemon)["engine"]
        self.assertEqual(level, "fail")
        self.assertIn(proxy.address, text)
        proxy.start()
        self.wait_ready(daemon)
        box = wait_until(lambda: self.try_box(daemon, "one"), "boxes are made")
        self.assertEqual(box["source"] in ("cold", "warm"), True, box)
        self.assertEqual(self.examined(daemon)["engine"][0], "ok")

    def test_it_does_not_fill_the_pool(self):
        """Creates that cannot have reached it leave nothing; those without an answer stop the others."""
        proxy = Proxy(self, self.engine.socket, start=False)
        daemon = self.daemon_on({"default": self.config(
            proxy.address, docker={"call_timeout_s": 1}, destroy_timeout_s=2, create={
                "backoff_min_ms": 20, "backoff_max_ms": 50, "breaker_failures": 3, "concurrency": 2})},
            pool={"max_boxes": 10})
        wait_until(lambda: len(self.events(daemon, "create_failed")) >= 30, "thirty creates have failed")
        self.assertLessEqual(len(self.rows(daemon)), 2)
        proxy.hook = lambda method, path: None if "/version" in path or "/images/" in path else "swallow"
        proxy.start()
        wait_until(lambda: daemon.process.output().count("event=box.destroy_failed ") >= 3, "destroys fail", 6 * WAIT_S)
        self.assertLessEqual(len(self.rows(daemon)), 2)
        answer = daemon.acquire("one", wait_ms=60000)
        self.assertEqual((answer.status, answer.code), (503, "backend_unavailable"), answer)
        proxy.hook = lambda method, path: None
        self.wait_ready(daemon)
        wait_until(lambda: self.try_box(daemon, "one"), "boxes are made")

    def try_box(self, daemon, thread):
        answer = daemon.acquire(thread, wait_ms=5000)
        return answer.json if answer.status == 200 else None

    def when(self, daemon, event):
        line = next(line for line in daemon.process.output().splitlines() if f"event={event} " in line)
        return datetime.datetime.fromisoformat(line.split(" ")[0][len("ts="):].rstrip("Z"))

    def test_gone_and_back(self):
        """Leases are answered all the time, by a daemon that starts meanwhile too."""
        proxy = Proxy(self, self.engine.socket)
        daemon = self.daemon_on({"default": self.config(proxy.address, warm=0)}, pool={"reconcile_interval_s": 3600})
        box = self.box(daemon, "one")
        self.wait_ready(daemon)
        proxy.hook = lambda method, path: "refuse"
        proxy.cut()
        self.wait_not_ready(daemon, "backend docker:unix://", "the engine at")
        lost, failed = (self.when(daemon, event) for event in ("docker.events_lost", "backend.list_failed"))
        self.assertLess((failed - lost).total_seconds(), at_most(5))  # not only by a listing that was due anyway
        self.assertEqual(self.box(daemon, "one").box_id, box.box_id)
        self.assertEqual(box.sh("echo on"), "on\n")
        self.assertIsNone(self.get(daemon, f"/v1/sandboxes/{box.id}?alive=1").json["alive"])
        daemon.kill()
        daemon.start()
        self.wait_not_ready(daemon, "backend docker:unix://")
        self.assertEqual(self.box(daemon, "one").box_id, box.box_id)
        answer = daemon.acquire("two", wait_ms=1000)
        self.assertEqual(answer.status, 503, answer)
        proxy.hook = lambda method, path: None
        self.wait_ready(daemon)  # without a new acquire: nothing is made for a profile without warm boxes
        wait_until(lambda: self.try_box(daemon, "two"), "boxes are made again")
        self.assertEqual(self.box(daemon, "one").box_id, box.box_id)
        self.assertEqual(self.events(daemon, "lost"), [])


class AwayDocker(Away, EngineCase):
    KIND = "docker"


class AwayPodman(Away, EngineCase):
    KIND = "podman"


class Silent:
    """One reply is never given. What the engine did is found out, and others are served meanwhile."""

    CALL_S = 3

    def silenced(self, method, part, **fields):
        """A daemon whose first call like this gets no reply; the event says when that is."""
        proxy = Proxy(self, self.engine.socket)
        hit = threading.Event()

        def hook(m, path):
            if m == method and part in path and not hit.is_set():
                hit.set()
                return "swallow"
            return None
        # The first create is to make a container: no storage option is tried with it, which the engine would refuse.
        docker = {"call_timeout_s": self.CALL_S, "disk": "none"}
        daemon = self.daemon_on({"default": self.config(proxy.address, docker=docker, **fields)})
        proxy.hook = hook
        return daemon, hit

    def agree(self, daemon):
        """Containers and rows, one to one."""
        def is_so():
            return len(self.ours(daemon)) == len(self.rows(daemon)) and not [
                r for r in self.rows(daemon).values() if r["state"] not in ("leased", "blank", "parked")]
        wait_until(is_so, f"containers and rows agree: {self.ours(daemon)} {self.rows(daemon)}")

    def one_making(self, method, part, **fields):
        """Of two who wait, one gets the box that is not held up; who, is a matter of turns."""
        daemon, hit = self.silenced(method, part, warm=0, **fields)
        answers = []
        workers = [threading.Thread(target=lambda t=t: answers.append(daemon.acquire(t, wait_ms=60000)))
                   for t in ("first", "second")]
        workers[0].start()
        self.assertTrue(hit.wait(60))
        workers[1].start()
        wait_until(lambda: answers, "one is served", 60)
        self.assertEqual(len(answers), 1, "both had to wait for the reply")
        for worker in workers:
            worker.join(60)
        self.assertEqual([a.status for a in answers], [200, 200], answers)
        self.assertEqual(self.events(daemon, "create_failed"), [])
        self.agree(daemon)

    def test_create(self):
        self.one_making("POST", "/containers/create")

    def test_start(self):
        self.one_making("POST", "/start")

    def test_port(self):
        self.one_making("POST", "/start", network="nat")

    def test_removal(self):
        daemon, hit = self.silenced("DELETE", "/containers/", warm=0)
        box, other = self.box(daemon, "one"), self.box(daemon, "two")
        client = self.client(daemon, 60)
        worker = threading.Thread(target=lambda: client.delete(f"/v1/sandboxes/{box.id}"))
        worker.start()
        self.assertTrue(hit.wait(60))
        mine = self.client(daemon, 60)
        self.assertEqual(mine.delete(f"/v1/sandboxes/{other.id}").status, 200)
        self.assertTrue(worker.is_alive(), "the second had to wait for the first")
        worker.join(60)
        self.assertFalse(worker.is_alive())
        wait_until(lambda: not self.ours(daemon) and not self.rows(daemon), "both are gone")

    def test_list(self):
        daemon, hit = self.silenced("GET", "/containers/json")
        client = self.client(daemon, 60)
        self.wait_blank(client, 1)  # else the engine has to make one, on a busy machine for longer than a call may take
        hit.clear()  # a listing of the daemon's own may have been the first
        found = {}
        worker = threading.Thread(target=lambda: found.update(answer=client.post("/v1/pool/reconcile")))
        worker.start()
        self.assertTrue(hit.wait(60))
        box = self.box(daemon, "one")
        self.assertNotIn("answer", found)
        worker.join(60)
        self.assertEqual(found["answer"].json["backends_failed"], 1)
        self.assertEqual(self.box(daemon, "one").box_id, box.box_id)
        self.assertEqual(client.post("/v1/pool/reconcile").json["backends_failed"], 0)
        self.assertEqual(self.get(daemon, "/readyz").status, 200)

    def test_owner(self):
        """Made for a bind that fails then, and the box ends before anybody knows of it."""
        proxy = Proxy(self, self.engine.socket)
        daemon = self.daemon_on({"default": self.config(proxy.address, warm=0)}, pool={"reconcile_interval_s": 3600})
        wait_until(lambda: sum("/volumes?" in path for _, path in proxy.seen) >= 2, "the second look at the start", 30)
        proxy.hook = lambda method, path: "refuse" if "/rename" in path else None
        box = self.box(daemon, "one")
        wait_until(lambda: "box.bind_failed" in daemon.process.output(), "the bind fails")
        self.assertEqual(self.client(daemon, 60).delete(f"/v1/sandboxes/{box.id}").status, 200)
        wait_until(lambda: not self.engine.volumes(), "no owner of nothing is left", 3 * WAIT_S)

    def test_name_of_somebody_else(self):
        """A container that is not ours has the name when we ask for it."""
        proxy = Proxy(self, self.engine.socket)
        taken = []

        def hook(method, path):
            if method == "POST" and "/containers/create?name=" in path and not taken:
                taken.append(self.foreign(path.split("name=")[1]))

        proxy.hook = hook
        daemon = self.daemon_on({"default": self.config(proxy.address, warm=0, create={"backoff_min_ms": 20})})
        self.assertEqual(self.box(daemon, "one").sh("echo made"), "made\n")
        failure = self.wait_event(daemon, "create_failed")
        self.assertIn("belongs to a container that is not ours", failure["reason"])
        self.agree(daemon)
        self.assertTrue(self.is_running(taken[0]))


class SilentDocker(Silent, EngineCase):
    KIND = "docker"


class SilentPodman(Silent, EngineCase):
    KIND = "podman"
    CALL_S = 10  # on a busy machine it takes seconds for what Docker's engine has in memory
    test_port = test_removal = test_list = None  # nothing there is the engine's own way


if __name__ == "__main__":
    main()
