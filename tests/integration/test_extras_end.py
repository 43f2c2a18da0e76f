"""Late binding that does not go well: a box that was changed for one caller never meets another, and
what a thread has of its own is not taken from it."""

import http.client
import random
import threading
import time

from extras import ExtrasCase, failing, slow
from fixtures import SLOW, at_most, in_threads, main, wait_until


class TestFailure(ExtrasCase):
    def test_fresh_box_is_destroyed(self):
        client = self.start()
        before = set(self.machine.boxes())
        for code, status in (("backend_failed", 502), ("forbidden", 403), ("invalid_field", 422)):
            answer = client.acquire("t1", envs=failing(code))
            self.assertCode(answer, status, code)
            self.assertIn("asked to fail", answer.json["error"]["message"])
        answer = client.acquire("t1", envs=failing("spec_conflict"))
        self.assertCode(answer, 409, "spec_conflict")
        self.assertEqual(answer.json["error"]["message"], "the simulated machine was asked to fail")
        self.assertCode(client.acquire("t1", envs=failing("sandbox_lost")), 410, "sandbox_lost")
        self.assertCode(client.acquire("t1", envs=failing("not_found")), 502, "backend_failed")
        self.assertCode(client.acquire("t1", envs=failing("io")), 502, "backend_failed")
        wait_until(lambda: self.machine.client.get("/stats").json["destroyed"] == 7, "all removed")
        self.assertTrue(before.isdisjoint(self.machine.boxes()))
        self.assertEqual([b for b in self.boxes_of("t1") if b["state"] == "leased"], [])
        self.assertEqual(self.assertOk(client.acquire("t1"))["state"], "leased")

    def test_anonymous_box_is_destroyed(self):
        client = self.start()
        self.assertCode(client.acquire(envs=failing()), 502, "backend_failed")
        wait_until(lambda: self.machine.client.get("/stats").json["destroyed"] == 1, "removed")

    def test_kept_box_stays(self):
        client = self.start()
        lease = self.assertOk(client.acquire("t1", envs={"A": "1"}))
        self.assertCode(client.acquire("t1", envs=failing()), 502, "backend_failed")
        again = self.assertOk(client.acquire("t1"))
        self.assertEqual((again["source"], again["box_id"], again["generation"]),
                         ("kept", lease["box_id"], lease["generation"]))
        self.assertEqual(self.machine.client.get("/stats").json["destroyed"], 0)

    def test_parked_box_is_parked_again(self):
        client = self.start()
        lease = self.assertOk(client.acquire("t1"))
        self.assertOk(client.release(lease["sandbox_id"]))
        self.assertCode(client.acquire("t1", envs=failing()), 502, "backend_failed")
        self.assertEqual([b["state"] for b in self.boxes_of("t1")], ["parked"])
        again = self.assertOk(client.acquire("t1"))
        self.assertEqual((again["source"], again["box_id"]), ("parked", lease["box_id"]))

    def test_takes_too_long(self):
        client = self.start()
        begun = time.monotonic()
        answer = client.acquire("t1", wait_ms=0, envs=slow(60000))
        self.assertCode(answer, 504, "timeout")
        self.assertGreater(time.monotonic() - begun, 0.9)  # it has a moment, although it does not wait
        self.assertLess(time.monotonic() - begun, at_most(8))
        wait_until(lambda: self.machine.client.get("/stats").json["destroyed"] == 1, "removed")

    def test_box_ends_meanwhile(self):
        client = self.start()
        for how in ("delete", "kill"):
            thread = threading.Thread(target=lambda: results.append(
                self.server.acquire("t1", envs=slow(700))))
            results = []
            thread.start()
            box = self.being_changed("t1")
            if how == "delete":
                self.assertOk(client.delete(f"/v1/sandboxes/{box['sandbox_id']}"))
            else:
                self.machine.kill_box(box["box_id"])
            thread.join(20 * SLOW)
            self.assertCode(results[0], 410, "sandbox_lost")
            self.assertTrue(self.is_gone(box["box_id"]))

    def test_released_meanwhile(self):
        client = self.start()
        results = []
        thread = threading.Thread(target=lambda: results.append(
            self.server.acquire("t1", envs=slow(500))))
        thread.start()
        box = self.being_changed("t1")
        self.assertOk(client.release(box["sandbox_id"]))
        thread.join(20 * SLOW)
        self.assertCode(results[0], 409, "not_leased")
        self.assertEqual([b["state"] for b in self.boxes_of("t1")], ["parked"])


class TestTogether(ExtrasCase):
    def test_one_after_the_other(self):
        """The simulated machine refuses two updates at once."""
        self.start()
        leases = in_threads(6, lambda i: self.assertOk(self.server.acquire(
            "t1", envs=slow(60, WHO=str(i)))))
        self.assertEqual(len({lease["box_id"] for lease in leases}), 1)
        self.assertEqual(sorted(u["envs"]["WHO"] for u in self.updates(leases[0])),
                         [str(i) for i in range(6)])

    def test_each_is_answered_after_its_own(self):
        client = self.start()
        self.assertOk(client.acquire("t1"))
        seen = []

        def work(i):
            lease = self.assertOk(self.server.acquire("t1", envs=slow(100, WHO=str(i))))
            seen.append(i)
            self.assertIn(str(i), [u["envs"]["WHO"] for u in self.updates(lease)])
        in_threads(4, work)
        self.assertEqual(len(seen), 4)

    def both(self, first, second):
        """Two acquires of one thread that wait for the same new box."""
        answers = {}

        def ask(name, envs):
            answers[name] = self.server.acquire("t1", **({"envs": envs} if envs else {}))
        threads = []
        for name, envs in (("first", first), ("second", second)):
            threads.append(threading.Thread(target=ask, args=(name, envs)))
            threads[-1].start()
            time.sleep(0.15)
        for thread in threads:
            thread.join(20 * SLOW)
        return answers["first"], answers["second"]

    def test_who_was_told_keeps_it(self):
        slow_box = {"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 600}}
        client = self.start(slow_box)
        for turn in (0, 1):
            answers = self.both(*((failing(), None) if turn == 0 else (None, failing())))
            self.assertCode(answers[turn], 502, "backend_failed")
            lease = self.assertOk(answers[1 - turn])
            self.assertEqual(self.assertOk(client.acquire("t1"))["box_id"], lease["box_id"])
            self.assertOk(client.release(lease["sandbox_id"], destroy=True))
            wait_until(lambda: not self.boxes_of("t1"), "it is gone")

    def test_nobody_gets_a_half_changed_box(self):
        self.start({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 600}})
        first, second = self.both(failing(), {"A": "1"})
        self.assertCode(first, 502, "backend_failed")
        self.assertCode(second, 502, "backend_failed")
        wait_until(lambda: not self.machine.boxes(), "it is destroyed")
        self.assertOk(self.caller.acquire("t1"))

    def test_waiting_in_line_has_an_end(self):
        client = self.start()
        self.assertOk(client.acquire("t1"))
        first = self.begin({"thread_id": "t1", "wait_ms": 60000, "envs": slow(60000)})
        time.sleep(0.2)
        answer = client.acquire("t1", wait_ms=0, envs={"A": "1"})
        self.assertCode(answer, 504, "timeout")
        first.close()
        self.assertEqual(self.assertOk(client.acquire("t1"))["source"], "kept")


class TestGone(ExtrasCase):
    def test_hang_up_destroys_a_fresh_box(self):
        client = self.start()
        sock = self.begin({"thread_id": "t1", "envs": slow(30000)})
        box = self.being_changed("t1")
        sock.close()
        wait_until(lambda: self.is_gone(box["box_id"]), "it is destroyed")
        self.wait_blank(client, 2)
        self.assertEqual(self.assertOk(client.acquire("t1"))["state"], "leased")

    def test_hang_up_leaves_a_kept_box(self):
        client = self.start()
        lease = self.assertOk(client.acquire("t1"))
        sock = self.begin({"thread_id": "t1", "envs": slow(300)})
        time.sleep(0.15)
        sock.close()
        wait_until(lambda: self.updates(lease), "what was asked is done")
        self.assertEqual(self.assertOk(client.acquire("t1"))["box_id"], lease["box_id"])

    def test_hang_up_parks_a_parked_box(self):
        client = self.start()
        lease = self.assertOk(client.acquire("t1"))
        self.assertOk(client.release(lease["sandbox_id"]))
        sock = self.begin({"thread_id": "t1", "envs": slow(300)})
        self.being_changed("t1")
        sock.close()
        wait_until(lambda: [b["state"] for b in self.boxes_of("t1")] == ["parked"], "parked")
        self.assertEqual(self.assertOk(client.acquire("t1"))["box_id"], lease["box_id"])

    def test_hang_up_in_line(self):
        client = self.start()
        lease = self.assertOk(client.acquire("t1"))
        first = self.begin({"thread_id": "t1", "envs": slow(500, WHO="first")})
        time.sleep(0.1)
        second = self.begin({"thread_id": "t1", "envs": {"WHO": "second"}})
        time.sleep(0.1)
        second.close()
        third = self.assertOk(client.acquire("t1", envs={"WHO": "third"}))
        self.assertEqual([u["envs"]["WHO"] for u in self.updates(third)], ["first", "third"])
        self.assertEqual(third["box_id"], lease["box_id"])
        self.assertIn(b"200 OK", first.recv(4096))

    def test_others_in_line_do_not_suffer(self):
        """The first of two hangs up: the box goes to the second."""
        client = self.start()
        first = self.begin({"thread_id": "t1", "envs": slow(500, WHO="first")})
        box = self.being_changed("t1")
        second = self.begin({"thread_id": "t1", "envs": {"WHO": "second"}})
        time.sleep(0.15)
        first.close()
        second.settimeout(20 * SLOW)
        self.assertIn(b"200 OK", second.recv(4096))
        self.assertEqual(self.assertOk(client.acquire("t1"))["box_id"], box["box_id"])

    def test_reply_that_nobody_reads(self):
        client = self.start()
        sock = self.begin({"thread_id": "t1", "envs": {"A": "1"}})
        box = self.being_changed("t1")
        wait_until(lambda: self.machine.boxes()[box["box_id"]].get("updates"), "applied")
        time.sleep(0.1)
        sock.close()  # with the answer in it
        wait_until(lambda: [b["state"] for b in self.boxes_of("t1")] == ["parked"], "parked")
        again = self.assertOk(client.acquire("t1"))
        self.assertEqual((again["source"], again["box_id"]), ("parked", box["box_id"]))
        # without a thread nobody can come back for it
        sock = self.begin({"user_id": "u1"})
        box = wait_until(lambda: [b for b in client.get("/v1/sandboxes?user_id=u1").json["sandboxes"]
                                  if b["state"] == "leased"], "leased")[0]
        sock.close()
        wait_until(lambda: self.is_gone(box["box_id"]), "it is destroyed")


class TestRestart(ExtrasCase):
    def test_extras_live_in_the_box(self):
        client = self.start()
        lease = self.assertOk(client.acquire("t1", envs={"A": "1"}))
        client.close()
        self.server.restart()
        again = self.assertOk(client.acquire("t1"))
        self.assertEqual((again["source"], again["box_id"]), ("kept", lease["box_id"]))
        self.assertEqual(len(self.updates(lease)), 1)

    def test_killed_during_an_update(self):
        client = self.start()
        sock = self.begin({"thread_id": "t1", "envs": slow(30000)})
        box = self.being_changed("t1")
        self.server.kill()
        sock.close()
        self.server.start()
        client.close()
        lease = self.assertOk(client.acquire("t1", envs={"A": "1"}))
        self.assertEqual((lease["source"], lease["box_id"]), ("kept", box["box_id"]))
        self.assertEqual([u["envs"] for u in self.updates(lease)], [{"A": "1"}])

    def killed_at(self, point):
        client = self.start()
        client.close()
        self.server.stop()
        self.server.start(env={"SANDPOOL_CRASH_AT": point})
        self.assertOk(client.acquire("t0"))
        try:
            client.acquire("t1", envs={"A": "1"})
        except (OSError, http.client.HTTPException):
            pass
        wait_until(lambda: not self.server.process.is_running(), "it dies")
        client.close()
        self.server.start()
        lease = self.assertOk(client.acquire("t1", envs={"B": "2"}))
        self.assertEqual(lease["source"], "kept")
        self.assertEqual([u["envs"] for u in self.updates(lease)], [{"A": "1"}, {"B": "2"}])

    def test_killed_before_the_reply(self):
        self.killed_at("engine.before_reply:2")

    def test_killed_after_the_reply(self):
        self.killed_at("engine.after_reply:2")

    def test_stop_during_an_update(self):
        """What can end does; what cannot is destroyed by the next start."""
        client = self.start()
        short = self.begin({"thread_id": "t1", "envs": slow(300)})
        box = self.being_changed("t1")
        self.server.stop()
        self.assertIn(b"200 OK", short.recv(4096))
        self.server.start()
        client.close()
        self.assertEqual(self.assertOk(client.acquire("t1"))["box_id"], box["box_id"])

        self.wait_blank(client, 1)
        self.begin({"thread_id": "t2", "envs": slow(60000)})
        box = self.being_changed("t2")
        self.server.stop()
        self.server.start()
        client.close()
        wait_until(lambda: self.is_gone(box["box_id"]), "it is destroyed")


class TestStorm(ExtrasCase):
    def take_unchanged(self, client):
        """A box for nobody in particular has never been changed, not even half."""
        answer = client.acquire(wait_ms=2000)
        if answer.status == 200:
            box = self.machine.client.get(f"/boxes/{answer.json['box_id']}").json
            self.assertNotIn("updates", box)
            self.assertOk(client.release(answer.json["sandbox_id"], destroy=True))

    def worker(self, seed, until):
        """Everything that can happen to a changed box, at random."""
        rng = random.Random(seed)
        client = self.server.client()
        while time.monotonic() < until:
            thread = f"t{rng.randrange(12)}"
            what = rng.randrange(10)
            envs = slow(rng.choice((0, 0, 5, 30)), WHO=thread)
            if what == 9:
                self.take_unchanged(client)
                continue
            if what < 3:
                sock = self.begin({"thread_id": thread, "envs": envs})
                time.sleep(rng.random() * 0.02)
                sock.close()
                continue
            if what < 5:
                envs.update(failing())
            answer = client.acquire(thread, wait_ms=2000, **({"envs": envs} if what < 8 else {}))
            if answer.status == 200:
                # Another worker may have ended the lease again already.
                box = self.machine.client.get(f"/boxes/{answer.json['box_id']}").json
                self.assertLessEqual({u["envs"]["WHO"] for u in box.get("updates", [])}, {thread})
                if rng.randrange(3) == 0:
                    client.release(answer.json["sandbox_id"], destroy=rng.randrange(2) == 0)
            else:
                self.assertIn(answer.code, ("backend_failed", "sandbox_lost", "not_leased",
                                            "acquire_timeout", "pool_exhausted", "timeout"))
        client.close()

    def test_no_changed_box_meets_another_thread(self):
        self.start({"warm": {"min": 3, "max": 3}}, pool={"max_boxes": 10})
        self.machine.client.close()
        until = time.monotonic() + 6
        lock = threading.Lock()
        ask = self.machine.client.get

        def get_alone(target):
            with lock:
                return ask(target)
        self.machine.client.get = get_alone
        in_threads(6, lambda i: self.worker(i, until))

        def is_still():
            counts = self.assertOk(self.caller.get("/v1/pool"))["by_state"]
            return counts["starting"] + counts["deleting"] == 0
        wait_until(is_still, "everything has come to its end")
        listed = self.assertOk(self.caller.get("/v1/sandboxes?limit=100"))["sandboxes"]
        boxes = self.machine.boxes()
        self.assertEqual({b["box_id"] for b in listed}, set(boxes))
        for box in listed:
            seen = {u["envs"]["WHO"] for u in boxes[box["box_id"]].get("updates", [])}
            self.assertLessEqual(seen, {box["thread_id"]}, box)
        self.server.stop()


if __name__ == "__main__":
    main()
