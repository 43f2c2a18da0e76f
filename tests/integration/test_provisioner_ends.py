"""What becomes of a box of the provisioner when boxes, callers and the daemon die, and of those who wait for it."""

import signal
import socket
import subprocess
import time

from fixtures import BIN, main, wait_until
from provisioner import KEY, ProvisionerCase, matches, sandbox


def mount(host, box, **more):
    return {"host_path": host, "container_path": box, **more}


BAD_MOUNTS = [
    ([mount("srv/a", "/mnt/a")], "host_path must be an absolute path without '..': 'srv/a'"),
    ([mount("/srv/../etc", "/mnt/a")],
     "host_path must be an absolute path without '..': '/srv/../etc'"),
    ([mount("/etc", "/mnt/a")], "host_path is not below any of mounts.allow of sandpool's configuration: list it there: '/etc'"),
    ([mount("/srv/a", "mnt")], "container_path must be an absolute path without '..': 'mnt'"),
    ([mount("/srv/a", "/proc")], "container_path is not allowed: '/proc'"),
    ([mount("/srv/a", "/mnt/a"), mount("/srv/b", "/mnt/a")],
     "duplicate container_path: '/mnt/a'"),
]


class TestEnds(ProvisionerCase):
    def test_a_lost_box_is_made_anew(self):
        sim = self.sim()
        self.serve(sim=sim)
        caller = self.caller()
        first = self.assertOk(caller.create("a"))
        sim.kill_box(first["container_id"])
        wait_until(lambda: caller.get("a").status == 404, "the death is seen")
        again = self.assertOk(caller.create("a"))
        self.assertNotEqual(again["container_id"], first["container_id"])
        self.assertNotEqual(again["sandbox_url"], first["sandbox_url"])
        self.assertEqual(caller.get("a").json, again)

    def test_pending_running_terminating(self):
        self.serve(profile={"warm": {"min": 0, "max": 0},
                            "sim": {"create_ms": 1500, "destroy_ms": 1500}})
        caller = self.caller()
        thread = self.meanwhile(lambda caller: caller.create("a"))
        seen = wait_until(lambda: caller.get("a").json.get("status") and caller.get("a"), "seen")
        self.assertTrue(matches({**sandbox("a", "Pending"), "sandbox_url": "",
                                 "container_id": None}, seen.json), seen)
        self.assertEqual(caller.presence("a").json["exists"], False)
        thread.join()
        box = caller.get("a").json
        self.assertEqual(box["status"], "Running")
        thread = self.meanwhile(lambda caller: caller.delete("a"))
        seen = wait_until(lambda: caller.get("a").json["status"] == "Terminating" and
                          caller.get("a"), "it ends").json
        self.assertEqual(seen["container_id"], box["container_id"])
        self.assertEqual(caller.presence("a").json,
                         {"sandbox_id": "a", "exists": True, "container_id": box["container_id"]})
        self.assertEqual(caller.ids(), [])
        self.assertOk(caller.delete("a"))  # waits for the same end
        self.assertEqual(caller.get("a").status, 404)
        thread.join()

    def test_deleted_while_it_is_made(self):
        client = self.client(self.serve(profile={"warm": {"min": 0, "max": 0},
                                                 "sim": {"create_ms": 2000}}))
        caller = self.caller()
        answers = []
        thread = self.meanwhile(lambda caller: answers.append(caller.create("a")))
        wait_until(lambda: caller.get("a").status == 200, "it is being made")
        self.assertOk(caller.delete("a"))
        thread.join()
        self.assertEqual((answers[0].status, answers[0].json), (409, {
            "detail": "Sandbox 'a' was deleted while it was being created"}))
        self.assertEqual(caller.get("a").status, 404)
        self.assertEqual(client.get("/v1/pool").json["by_state"]["leased"], 0)

    def test_no_box_in_time(self):
        self.serve({"wait_ms": 300}, profile={"warm": {"min": 0, "max": 0},
                                              "sim": {"create_ms": 60000}})
        answer = self.caller().create("a")
        self.assertEqual((answer.status, answer.json), (503, {
            "detail": "Pod creation failed: no box became ready in time"}))
        self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
        self.assertEqual(self.caller().get("a").status, 404)

    def test_no_box_left(self):
        self.serve({"wait_ms": 200}, pool={"max_boxes": 1},
                   profile={"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 1}})
        caller = self.caller()
        self.assertOk(caller.create("a"))
        answer = caller.create("b")
        self.assertEqual(answer.status, 503, answer)
        self.assertIn("Pod creation failed: all boxes are in use (of 1: 1 leased", answer.json["detail"])
        self.assertIn("Retry-After", answer.headers)
        self.assertOk(caller.delete("a"))
        self.assertOk(caller.create("b"))

    def test_a_destroy_that_takes_too_long_goes_on(self):
        self.serve(profile={"sim": {"destroy_ms": 14000}})
        caller = self.caller()
        self.assertOk(caller.create("a"))
        answer = caller.delete("a")
        self.assertEqual((answer.status, answer.json), (500, {
            "detail": "Partial cleanup: pod: it is still being destroyed"}))
        self.assertEqual(caller.get("a").json["status"], "Terminating")
        self.assertOk(caller.delete("a"))
        self.assertEqual(caller.get("a").status, 404)

    def test_a_parked_box_is_leased_again_by_its_use(self):
        """As the box of a client that was killed before it took the answer to its create."""
        client = self.client(self.serve())
        caller = self.caller()
        box = self.assertOk(caller.create("a"))
        path = "/s/" + box["sandbox_url"].split("/s/", 1)[1]
        uses = {"looked at": lambda: self.assertEqual(caller.get("a").json, box), "used": lambda: caller.call("GET", path + "/v1/sandbox")}
        for name, use in uses.items():
            with self.subTest(name):
                self.assertOk(client.release("a"))
                self.assertEqual(client.get("/v1/sandboxes/a").json["state"], "parked")
                use()
                wait_until(lambda: client.get("/v1/sandboxes/a").json["state"] == "leased", "leased again")
                wait_until(lambda: caller.get("a").json == box, "that is committed")

    def test_a_caller_that_hangs_up_keeps_nothing(self):
        client = self.client(self.serve(profile={"warm": {"min": 0, "max": 0},
                                                 "sim": {"create_ms": 300}}))
        body = '{"sandbox_id":"a"}'
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall((f"POST /api/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
            wait_until(lambda: self.caller().get("a").status == 200, "it is being made")
        wait_until(lambda: self.caller().get("a").status == 404, "it is given up")
        time.sleep(0.5)  # longer than the box takes
        self.assertEqual(client.get("/v1/pool").json["by_state"]["leased"], 0)
        self.assertOk(self.caller().create("a"))


class TestRestart(ProvisionerCase):
    def check(self, end):
        sim = self.sim()
        daemon = self.serve(sim=sim)
        before = {i: self.assertOk(self.caller().create(f"id-{i}", thread_id=f"t{i}",
                                                        max_shell_sessions=i + 1))
                  for i in range(5)}
        self.assertOk(self.caller().delete("id-4"))
        end(daemon)
        daemon.start()
        caller = self.caller()
        self.assertEqual(sorted(caller.ids()), [f"id-{i}" for i in range(4)])
        for i in range(4):
            self.assertEqual(caller.get(f"id-{i}").json, before[i])
            self.assertEqual(caller.create(f"id-{i}", thread_id=f"t{i}").json, before[i])
        self.assertEqual(caller.get("id-4").status, 404)
        for i in range(4):
            self.assertOk(caller.delete(f"id-{i}"))
        wait_until(lambda: not [b for b in sim.boxes().values() if b.get("sandbox_id")],
                   "nothing is left")

    def test_stopped(self):
        self.check(lambda daemon: daemon.stop())

    def test_killed(self):
        self.check(lambda daemon: daemon.kill())

    def test_killed_between_commit_and_answer(self):
        """The caller got no answer and asks again: it is the same box, not a second one."""
        if not subprocess.run([BIN / "sandpoold", "--fault-points"], stdout=subprocess.PIPE,
                              timeout=60, check=True).stdout:
            self.skipTest("the fault points are not compiled in")
        sim = self.sim()
        daemon = self.serve(sim=sim, env={"SANDPOOL_CRASH_AT": "engine.before_reply"}, start=False)
        daemon.start(wait=False)
        wait_until(lambda: daemon.answers() or not daemon.process.is_running(), "it answers")
        try:
            self.caller().create("a")
        except OSError:
            pass
        wait_until(lambda: not daemon.process.is_running(), "it dies")
        daemon.env = {}
        daemon.start()
        caller = self.caller()
        found = caller.get("a").json
        again = self.assertOk(caller.create("a"))
        if "container_id" in found:
            self.assertEqual(again["container_id"], found["container_id"])
        bound = [b for b in sim.boxes().values() if b.get("sandbox_id") == "a"]
        self.assertLessEqual(len(bound), 1)

    def test_taken_over_while_creates_and_deletes_wait(self):
        sim = self.sim()
        daemon = self.serve(sim=sim, profile={"warm": {"min": 0, "max": 0}, "sim": {
            "create_ms": 1500, "destroy_ms": 1500}})
        self.addCleanup(daemon.process.kill)
        kept = self.caller()
        before = self.assertOk(kept.create("a"))
        self.assertOk(kept.create("gone"))
        answers = {}
        threads = [self.meanwhile(lambda c: answers.update(b=c.create("b"))),
                   self.meanwhile(lambda c: answers.update(gone=c.delete("gone")))]
        wait_until(lambda: self.caller().get("b").status == 200 and
                   self.caller().get("gone").json.get("status") == "Terminating", "both wait")
        daemon.takeover()
        for thread in threads:
            thread.join()
        self.assertEqual(self.assertOk(answers["gone"])["ok"], True)
        self.assertEqual(kept.get("a").json, before)
        self.assertEqual(kept.get("b").json, self.assertOk(answers["b"]))
        self.assertEqual(kept.ids(), ["a", "b"])

    def test_a_stop_refuses_those_who_wait(self):
        daemon = self.serve(profile={"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 30000}})
        answers = []
        thread = self.meanwhile(lambda caller: answers.append(caller.create("a")))
        wait_until(lambda: self.caller().get("a").status == 200, "it is being made")
        daemon.process.child.send_signal(signal.SIGTERM)
        thread.join()
        self.assertEqual(answers[0].status, 503, answers)
        self.assertIn("Retry-After", answers[0].headers)
        daemon.stop()


class TestConnections(ProvisionerCase):
    def test_strangers_do_not_keep_callers_out(self):
        self.serve({"max_connections": 3})
        strangers = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(3)]
        for stranger in strangers:
            self.addCleanup(stranger.close)
        self.assertEqual(self.caller().ids(), [])  # the oldest of them is closed for it

    def test_one_more_than_allowed(self):
        self.serve({"max_connections": 3})
        for _ in range(3):
            self.assertEqual(self.caller().ids(), [])
        answer = self.caller().call("GET", "/api/sandboxes")
        self.assertEqual((answer.status, answer.json, answer.headers["Retry-After"]),
                         (503, {"detail": "the connection limit is reached"}, "1"))


class TestMounts(ProvisionerCase):
    def test_what_is_refused(self):
        self.serve(mounts={"allow": ["/srv"]})
        caller = self.caller()
        for mounts, why in BAD_MOUNTS:
            answer = caller.create("a", extra_mounts=mounts)
            self.assertEqual((answer.status, answer.json),
                             (400, {"detail": f"Invalid extra mount: {why}"}), mounts)
        self.assertEqual(caller.get("a").status, 404)

    def test_they_reach_the_box_also_again(self):
        sim = self.sim()
        self.serve(sim=sim, mounts={"allow": ["/srv"]})
        mounts = [mount("/srv/a", "/mnt/acp-workspace", read_only=True), mount("/srv/b", "/b")]
        caller = self.caller()
        box = self.assertOk(caller.create("a", extra_mounts=mounts))
        self.assertEqual(self.assertOk(caller.create("a", extra_mounts=mounts)), box)
        updates = sim.boxes()[box["container_id"]]["updates"]
        self.assertEqual(updates[0]["mounts"], [
            {"host_path": "/srv/a", "box_path": "/mnt/acp-workspace", "is_read_only": True},
            {"host_path": "/srv/b", "box_path": "/b", "is_read_only": False}])


    def test_a_box_that_dies_while_it_gets_them(self):
        """The caller does not hear of it: there are others."""
        sim = self.sim()
        self.serve(sim=sim, mounts={"allow": ["/srv"]})
        answers = []
        thread = self.meanwhile(lambda caller: answers.append(caller.create(
            "a", extra_mounts=[mount("/srv/a", "/mnt/SIM_UPDATE_MS=1500")])))
        first = wait_until(lambda: [b for b, labels in sim.boxes().items()
                                    if labels.get("sandbox_id") == "a"], "it has a box")[0]
        self.assertEqual(self.caller().get("a").json["status"], "Pending")
        sim.kill_box(first)
        thread.join()
        box = self.assertOk(answers[0])
        self.assertNotEqual(box["container_id"], first)
        self.assertEqual(self.caller().get("a").json, box)
        self.assertEqual(len(sim.boxes()[box["container_id"]]["updates"]), 1)


if __name__ == "__main__":
    main()
