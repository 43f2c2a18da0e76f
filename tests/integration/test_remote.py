"""The daemon with boxes of a provisioner, which runs in a process of its own and misbehaves on request: what a thread was
promised stays its own, and nothing is lost or left through restarts and a provisioner that is down, stuck or does not
delete."""

import json
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

from fixtures import BIN, Daemon, TestCase, at_most, main, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "unit" / "remote"))
import fake_provisioner  # noqa: E402

FOREIGN = "fe0dc8182dec7b77"  # the public id of thread-1 of user default


class RemoteCase(TestCase):
    def setUp(self):
        super().setUp()
        self.others = set()
        self.provisioner = fake_provisioner.Provisioner(self.directory).start()
        self.addCleanup(self.provisioner.kill)

    def make(self, directory, mounts=None, warm=1, config=None, remote=None, **profile):
        """A daemon, not started."""
        return Daemon(directory, {
            "instance": "test-remote",
            "profiles": {"default": {
                "backend": "remote", "park_timeout_s": 600, "warm": {"min": warm, "max": warm},
                "create": {"backoff_max_ms": 500}, "destroy_timeout_s": 3,
                "remote": {"provisioner_url": self.provisioner.url, "provisioner_api_key": "${PROVISIONER_API_KEY}",
                           **(remote or {})},
                **profile}},
            **({"mounts": {"allow": [mounts]}} if mounts else {}), **(config or {})}, env={"PROVISIONER_API_KEY": fake_provisioner.KEY})

    def start(self, **settings):
        daemon = self.make(self.directory, **settings)
        self.addCleanup(lambda: daemon.process and daemon.kill())  # whatever becomes of its end
        self.addCleanup(self.end, daemon)
        return daemon.start()

    def end(self, daemon):
        """Takes all boxes along; then the provisioner has nothing of ours, and the key was never written."""
        self.provisioner.control(rules=[], lingers_s=0, pending_s=0, ready=True, key=fake_provisioner.KEY)
        daemon.kill()
        daemon.args = ["--destroy-on-exit"]
        daemon.start()
        client = daemon.client()
        wait_until(lambda: self.agrees(client), f"rows and boxes agree: {self.state(client)}")
        client.close()
        daemon.stop()
        wait_until(lambda: set(self.provisioner.boxes()) <= self.others, "the provisioner has nothing left", 10)
        for path in [daemon.log, *daemon.state.rglob("*")]:
            if path.is_file():
                self.assertNotIn(fake_provisioner.KEY.encode(), path.read_bytes(), path)

    def ours(self):
        """box id: its description, of those with a name of our own."""
        return {name.rsplit("-", 1)[1]: box for name, box in self.provisioner.boxes().items()
                if name.startswith("sp-")}

    def rows(self, client):
        return client.get("/v1/sandboxes?limit=1000").json["sandboxes"]

    def agrees(self, client):
        state = client.get("/v1/pool").json["by_state"]
        rows = self.rows(client)
        names = set(self.provisioner.boxes()) - self.others
        known = [{b["box_id"], b.get("sandbox_id")} for b in rows]  # by the one or by the other
        return (state["starting"] == 0 and state["deleting"] == 0 and len(names) == len(rows) and
                all(any(n.rsplit("-", 1)[-1] in k for k in known) for n in names))

    def state(self, client):
        return [(b["box_id"], b["state"]) for b in self.rows(client)], list(self.provisioner.boxes())

    def box(self, daemon, thread, **fields):
        answer = daemon.acquire(thread, **fields)
        self.assertEqual(answer.status, 200, (answer, daemon.process.output()[-3000:]))
        return answer.json

    def reconcile(self, daemon, times=1):
        client = daemon.client()
        try:
            for _ in range(times):
                self.assertEqual(client.post("/v1/pool/reconcile").status, 200)
        finally:
            client.close()


class Life(RemoteCase):
    def test_warm_and_cold(self):
        daemon = self.start(warm=2)
        client = self.client(daemon)
        self.wait_blank(client, 2)
        lease = self.box(daemon, "one", envs={"LATE": "yes"})
        self.assertEqual(lease["source"], "warm")
        with urllib.request.urlopen(lease["sandbox_url"] + "/v1/sandbox", timeout=10) as answer:
            self.assertEqual(answer.status, 200)
        made = self.ours()[lease["box_id"]]
        self.assertEqual(made["env"], {"LATE": "yes"})
        self.assertIsNone(made["request"]["thread_id"])
        for i in range(4):  # more than are warm
            self.box(daemon, f"more-{i}")
        boxes = {b["box_id"] for b in self.rows(client)}
        self.assertTrue(boxes <= set(self.ours()) | {b["box_id"] for b in self.rows(client)
                                                     if b["state"] == "starting"})
        self.assertEqual(client.delete(f"/v1/sandboxes/{lease['sandbox_id']}").status, 200)
        wait_until(lambda: lease["box_id"] not in self.ours(), "it is deleted")

    def test_restarts(self):
        daemon = self.start()
        lease = self.box(daemon, "one")
        for again in (daemon.restart, lambda: (daemon.kill(), daemon.start())):
            again()
            kept = self.box(daemon, "one")
            self.assertEqual((kept["box_id"], kept["source"], kept["generation"]),
                             (lease["box_id"], "kept", lease["generation"]))
        self.provisioner.kill()
        self.provisioner.start()
        self.reconcile(daemon)
        self.assertEqual(self.box(daemon, "one")["box_id"], lease["box_id"])

    def test_key_from_a_file(self):
        path = pathlib.Path(self.directory) / "key"
        path.write_text(fake_provisioner.KEY + "\n")
        remote = {"provisioner_url": self.provisioner.url, "provisioner_api_key_file": str(path)}
        daemon = self.start(remote={"provisioner_api_key": ""}, config={"profiles": {
            "default": {"backend": "remote", "remote": {"provisioner_url": self.provisioner.url}},
            "second": {"backend": "remote", "remote": remote}}})  # one that has it is enough
        self.box(daemon, "one")
        self.provisioner.control(key="a-new-key-for-everybody")
        path.write_text("a-new-key-for-everybody\n")
        client = self.client(daemon)
        self.assertEqual(client.post("/v1/pool/reload").status, 200)
        self.reconcile(daemon)
        self.assertEqual(client.get("/v1/pool").json.get("trouble") or "", "")
        self.box(daemon, "two")
        self.assertEqual(client.delete(f"/v1/sandboxes/{self.box(daemon, 'one')['sandbox_id']}").status, 200)
        path.write_text(fake_provisioner.KEY + "\n")

    def test_host_name(self):
        url = self.provisioner.url.replace("127.0.0.1", "localhost")
        daemon = self.start(remote={"provisioner_url": url + "/"})
        self.box(daemon, "one")

    def test_pending(self):
        self.provisioner.control(pending_s=1.5)
        daemon = self.start(warm=0)
        started = time.monotonic()
        self.box(daemon, "one")
        self.assertGreater(time.monotonic() - started, 1.2)
        self.assertEqual(len(self.ours()), 1)  # it was waited for, not replaced

    def test_never_ready(self):
        self.provisioner.control(pending_s=1000)
        daemon = self.start(warm=0, ready_timeout_s=1)
        answer = daemon.acquire("one", wait_ms=2500)
        self.assertEqual(answer.status, 503, answer)
        self.provisioner.control(pending_s=0)

    def test_doctor(self):
        config = pathlib.Path(self.directory) / "doctor.yaml"
        config.write_text(json.dumps({"profiles": {"default": {"backend": "remote", "remote": {
            "provisioner_url": self.provisioner.url, "provisioner_api_key": fake_provisioner.KEY}}}}))
        for key, status in ((fake_provisioner.KEY, 0), ("another-key", 1)):
            self.provisioner.control(key=key)
            done = subprocess.run([BIN / "sandpoold", "--doctor", "--config", config], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, status, (done.stdout, done.stderr))
            self.assertNotIn(fake_provisioner.KEY, done.stdout + done.stderr)
            findings = {f["subject"]: f for f in json.loads(done.stdout)["backends"][0]["findings"]}
            self.assertEqual(findings["key"]["level"], "ok" if status == 0 else "fail")


class Owners(RemoteCase):
    def test_lost_database(self):
        daemon = self.start()
        lease = self.box(daemon, "one")
        before = set(self.ours())
        daemon.stop()
        for path in daemon.state.glob("sandpool.db*"):
            path.unlink()
        daemon.start()
        fresh = self.box(daemon, "two")
        self.assertNotIn(fresh["box_id"], before)  # nobody knows whose they were: not for another thread
        self.assertIn(lease["box_id"], self.ours())  # seen once only
        self.reconcile(daemon, 2)
        wait_until(lambda: not before & set(self.ours()), "boxes of nobody are deleted")

    def test_others_are_not_touched(self):
        other = "sp-00000000-00000000000000aa"
        self.others = {FOREIGN, other}
        for name in self.others:
            self.provisioner.control(add={"id": name})
        daemon = self.start()
        lease = self.box(daemon, "thread-1", user_id="default")
        self.assertEqual(lease["sandbox_id"], FOREIGN)
        self.reconcile(daemon, 3)
        again = self.box(daemon, "thread-1", user_id="default")
        self.assertEqual((again["box_id"], again["sandbox_url"]), (lease["box_id"], lease["sandbox_url"]))
        daemon.restart()
        self.reconcile(daemon, 2)
        self.assertEqual(self.box(daemon, "thread-1", user_id="default")["sandbox_url"], lease["sandbox_url"])
        self.assertLessEqual(self.others, set(self.provisioner.boxes()))

    def test_discovered(self):
        self.provisioner.control(add={"id": FOREIGN})
        daemon = self.start(discover=True)
        lease = self.box(daemon, "thread-1", user_id="default")
        self.assertEqual(lease["source"], "discovered")
        self.assertEqual(lease["sandbox_url"], self.provisioner.boxes()[FOREIGN]["sandbox_url"])
        daemon.restart()
        self.reconcile(daemon)
        self.assertEqual(self.box(daemon, "thread-1", user_id="default")["box_id"], lease["box_id"])
        client = self.client(daemon)
        self.assertEqual(client.delete(f"/v1/sandboxes/{FOREIGN}").status, 200)
        wait_until(lambda: FOREIGN not in self.provisioner.boxes(), "it was the thread's, and is deleted")

    def test_discovered_but_deaf(self):
        """A box that the provisioner calls Running and that does not answer is given to nobody."""
        self.provisioner.control(add={"id": FOREIGN, "deaf": True})
        self.others.add(FOREIGN)
        daemon = self.start(discover=True)
        lease = self.box(daemon, "thread-1", user_id="default")
        self.assertNotEqual(lease["source"], "discovered")
        self.assertNotEqual(lease["sandbox_url"], self.provisioner.boxes()[FOREIGN]["sandbox_url"])

    def test_durability(self):
        """Boxes that outlive this machine are written down so that a power cut does not take the rows."""
        daemon = self.start()
        self.box(daemon, "thread-1")
        store = self.client(daemon).get("/v1/pool").json["store"]
        self.assertGreaterEqual(store["power_commits"], 2, store)
        daemon.stop()
        daemon.config.write_text(json.dumps({**json.loads(daemon.config.read_text()), "store": {"durability": "process"}}))
        daemon.start()
        self.box(daemon, "thread-2")
        store = self.client(daemon).get("/v1/pool").json["store"]
        self.assertEqual(store["power_commits"], 0, store)
        self.assertGreater(store["commits"], 0)


class Personal(RemoteCase):
    """Boxes made for one thread, under its public id."""

    def test_made_for_a_thread(self):
        daemon = self.start(personal=True, warm=2)
        lease = self.box(daemon, "thread-1", user_id="ann", envs={"A": "b"})
        made = self.provisioner.boxes()
        self.assertEqual(list(made), [lease["sandbox_id"]])  # and none are warm
        made = made[lease["sandbox_id"]]
        self.assertEqual((made["request"]["thread_id"], made["request"]["user_id"]), ("thread-1", "ann"))
        self.assertEqual(made["env"], {"A": "b"})
        for again in (daemon.restart, lambda: (daemon.kill(), daemon.start())):
            again()
            self.reconcile(daemon)
            kept = self.box(daemon, "thread-1", user_id="ann")
            self.assertEqual((kept["box_id"], kept["source"]), (lease["box_id"], "kept"))
        client = self.client(daemon)
        self.provisioner.control(lingers_s=0.5)
        self.assertEqual(client.delete(f"/v1/sandboxes/{lease['sandbox_id']}").status, 200)
        fresh = self.box(daemon, "thread-1", user_id="ann")
        self.assertEqual(fresh["generation"], lease["generation"] + 1)
        self.assertNotEqual(self.provisioner.boxes()[lease["sandbox_id"]]["container_id"], made["container_id"])

    def test_mounts_of_an_acquire(self):
        daemon = self.start(mounts="/srv")
        mounts = [{"host_path": "/srv/sets", "container_path": "/mnt/acp-workspace", "read_only": True}]
        lease = self.box(daemon, "one", mounts=mounts, envs={"A": "b"})
        made = self.provisioner.boxes()[lease["sandbox_id"]]
        self.assertEqual(made["request"]["extra_mounts"], [
            {"host_path": "/srv/sets", "container_path": "/mnt/acp-workspace", "read_only": True}])
        self.assertEqual(made["env"], {"A": "b"})
        answer = daemon.acquire("two", limits={"memory": "64M"})
        self.assertEqual((answer.status, answer.code), (501, "unsupported"), answer)

    def test_replaced_by_somebody(self):
        daemon = self.start(personal=True)
        lease = self.box(daemon, "thread-1", user_id="default")
        self.provisioner.control(box={"id": FOREIGN, "uid": "made-anew"})
        self.others = {FOREIGN}
        self.reconcile(daemon)
        client = self.client(daemon)
        wait_until(lambda: not self.rows(client), "our box is gone")
        self.assertIn(FOREIGN, self.provisioner.boxes())  # theirs is not
        self.assertEqual(lease["sandbox_id"], FOREIGN)


class Trouble(RemoteCase):
    def test_dead_box_is_replaced(self):
        daemon = self.start()
        lease = self.box(daemon, "one")
        for change in ({"status": "Failed"}, {"uid": "made-anew"}):
            name = f"sp-{self.prefix()}-{lease['box_id']}"
            self.provisioner.control(box={"id": name, **change})
            self.reconcile(daemon)
            wait_until(lambda: lease["box_id"] not in self.ours(), "it is deleted")
            lease = self.box(daemon, "one")
        self.assertEqual(lease["generation"], 3)

    def prefix(self):
        return next(iter(n for n in self.provisioner.boxes() if n.startswith("sp-"))).split("-")[1]

    def test_down_and_back(self):
        daemon = self.start()
        lease = self.box(daemon, "one")
        self.provisioner.kill()
        started = time.monotonic()
        self.assertEqual(self.box(daemon, "one")["box_id"], lease["box_id"])  # what is known goes on
        self.assertLess(time.monotonic() - started, at_most(5))
        for i in range(4):  # one or two are warm; then nothing can be made
            answer = daemon.acquire(f"more-{i}", wait_ms=1500)
        self.assertEqual(answer.status, 503, answer)
        self.assertNotIn(fake_provisioner.KEY, answer.text)
        self.reconcile_fails(daemon)
        self.assertEqual(self.box(daemon, "one")["box_id"], lease["box_id"])  # not listed is not gone
        self.provisioner.start()
        wait_until(lambda: daemon.acquire("after", wait_ms=5000).status == 200, "boxes are made again")
        self.assertEqual(self.box(daemon, "one")["box_id"], lease["box_id"])

    def reconcile_fails(self, daemon):
        client = daemon.client()
        try:
            answer = client.post("/v1/pool/reconcile")
            self.assertEqual((answer.status, answer.json["backends_failed"]), (200, 1), answer)
        finally:
            client.close()

    def test_start_while_it_is_down(self):
        daemon = self.start()
        lease = self.box(daemon, "one")
        daemon.kill()
        self.provisioner.kill()
        daemon.start()
        client = self.client(daemon)
        row = client.get(f"/v1/sandboxes/{lease['sandbox_id']}").json
        self.assertEqual((row["box_id"], row["state"]), (lease["box_id"], "leased"))
        self.provisioner.start()
        self.reconcile(daemon)
        self.assertEqual(self.box(daemon, "one")["box_id"], lease["box_id"])

    def test_stuck(self):
        daemon = self.start(remote={"create_timeout_s": 1, "get_timeout_s": 1, "list_timeout_s": 1})
        lease = self.box(daemon, "one")
        self.provisioner.process.send_signal(signal.SIGSTOP)
        try:
            started = time.monotonic()
            self.assertEqual(self.box(daemon, "one")["box_id"], lease["box_id"])
            for i in range(4):
                answer = daemon.acquire(f"more-{i}", wait_ms=1000)
            self.assertEqual(answer.status, 503, answer)
            self.assertLess(time.monotonic() - started, at_most(20))
        finally:
            self.provisioner.process.send_signal(signal.SIGCONT)
        wait_until(lambda: daemon.acquire("after", wait_ms=5000).status == 200, "boxes are made again")

    def test_delete_that_fails(self):
        daemon = self.start(destroy_timeout_s=1)
        client = self.client(daemon)
        lease = self.box(daemon, "one")
        self.provisioner.control(rules=[{"on": "delete", "do": "status:500 Partial cleanup", "times": -1}])
        answer = client.delete(f"/v1/sandboxes/{lease['sandbox_id']}")
        self.assertEqual((answer.status, answer.json["state"]), (202, "deleting"), answer)
        self.reconcile(daemon, 2)
        wait_until(lambda: "box.destroy_failed" in daemon.process.output(), "the failure is told")
        self.reconcile(daemon, 2)
        self.assertIn(lease["box_id"], self.ours())
        self.assertEqual(client.get("/v1/pool").json["by_state"]["deleting"], 1)  # it is not forgotten
        self.provisioner.control(rules=[])
        wait_until(lambda: lease["box_id"] not in self.ours(), "it is deleted")
        wait_until(lambda: client.get("/v1/pool").json["by_state"]["deleting"] == 0, "its row is gone")

    def test_lost_answers(self):
        daemon = self.start(warm=0)
        for i, way in enumerate(("lost", "drop", "done_status:500", "huge")):
            self.provisioner.control(rules=[{"on": "create", "do": way}, {"on": "delete", "do": way}])
            lease = self.box(daemon, f"thread-{i}")
            self.assertIn(lease["box_id"], self.ours())
        told = self.provisioner.control()
        self.assertEqual(set(told["made"].values()), {1})
        client = self.client(daemon)
        wait_until(lambda: self.agrees(client), "none is left over")

    def test_refused_key(self):
        self.provisioner.control(key="another-key-entirely")
        daemon = self.start(warm=1)
        answer = daemon.acquire("one", wait_ms=2000)
        self.assertEqual(answer.status, 503, answer)
        self.assertIn("check remote.provisioner_api_key", daemon.process.output())
        self.assertNotIn(fake_provisioner.KEY, answer.text)
        self.provisioner.control(key=fake_provisioner.KEY)
        wait_until(lambda: daemon.acquire("one", wait_ms=5000).status == 200, "it works when the key is right")


if __name__ == "__main__":
    main()
