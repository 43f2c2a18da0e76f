"""Callers that vanish, and everything at once: nothing may be lost, leaked or late."""

import json
import os
import random
import signal
import threading
import time
import unittest

from fixtures import Client, at_most, in_threads, main, wait_until
from hostile import Hostile, dial, open_files, post, send_and_vanish


class Vanishing(Hostile):
    def test_a_lease_nobody_was_told_of_is_undone(self):
        daemon = self.daemon({"warm": {"min": 2, "max": 2}, "discover": False}, sim=self.sim())
        client = self.client(daemon)
        self.wait_blank(client, 2)
        # All are gone before the first is answered: one who hangs up with the answer in its socket was given the box.
        os.kill(daemon.process.pid, signal.SIGSTOP)
        try:
            for i in range(50):
                send_and_vanish(daemon.socket, post("/v1/acquire", {
                    "thread_id": f"v{i}", "user_id": "alice", "metadata": {"secret": i}}))
        finally:
            os.kill(daemon.process.pid, signal.SIGCONT)
        # The last requests may still be unread when the first ones are undone: ask until all is still.
        # What was said of a box goes with its lease.
        wait_until(lambda: all(box["state"] == "blank" and "metadata" not in box
                               for box in self.rows(client)), "no lease for callers who are gone")
        self.wait_blank(client, 2)
        for i in range(6):
            self.assertNotIn("metadata", self.assertOk(client.acquire(f"b{i}", user_id="bob")))

    def test_thousands_who_vanish_leave_nothing_behind(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 4, "max": 8}, "sim": {"create_ms": 2}}, sim=sim)
        client = self.client(daemon)
        self.wait_blank(client, 4)

        def vanish(k):
            rng = random.Random(k)
            for i in range(150):
                send_and_vanish(daemon.socket, post("/v1/acquire", {"thread_id": f"v{k}-{i}"}),
                                rng.random() * 0.008)

        files = []
        for _ in range(2):
            in_threads(6, vanish)
            # A caller that hung up with the answer in its socket was answered: that lease stands.
            self.destroy_all(client)
            self.wait_equal(client, sim)
            files.append(open_files(daemon.process.pid))
        self.assertEqual(client.get("/v1/pool").json["waiting"], 0)
        # 900 callers came and went each time; how many connections to the backend are kept open differs.
        self.assertLess(files[1], files[0] + 300)
        daemon.stop()
        self.assertSane(daemon)

    def test_waiters_who_vanish_make_room(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"hang_percent": 100}},
                             pool={"max_waiters": 10, "max_boxes": 2, "share_percent": 100})
        client = self.client(daemon)
        waiting = [dial(daemon.socket) for _ in range(12)]
        for i, sock in enumerate(waiting):
            sock.sendall(post("/v1/acquire", {"thread_id": f"w{i}", "wait_ms": 600000}))
        wait_until(lambda: client.get("/v1/pool").json["waiting"] == 10, "the queue is full")
        self.assertCode(client.acquire("more", wait_ms=1000), 429, "queue_full")
        for sock in waiting:
            sock.close()
        wait_until(lambda: client.get("/v1/pool").json["waiting"] == 0, "the queue is empty")
        self.assertNotEqual(client.acquire("more", wait_ms=100).code, "queue_full")

    def test_readers_of_events_who_do_not_read(self):
        daemon = self.daemon({"warm": {"min": 2, "max": 4}, "create": {"concurrency": 16},
                              "sim": {"create_ms": 0, "create_jitter_ms": 0, "destroy_ms": 0}},
                             http={"write_timeout_s": 1})
        client = self.client(daemon)
        before = open_files(daemon.process.pid)
        readers = [dial(daemon.socket) for _ in range(10)]
        try:
            for sock in readers:
                sock.sendall(b"GET /v1/events?since=0 HTTP/1.1\r\nHost: x\r\n\r\n")

            def churn(k):
                own = daemon.client()
                for i in range(100):
                    lease = own.acquire(f"e{k}-{i}")
                    if lease.status == 200:
                        own.release(lease.json["sandbox_id"], destroy=True)
                own.close()

            in_threads(6, churn)
            self.assertOk(client.get("/v1/pool"))
            wait_until(lambda: open_files(daemon.process.pid) <= before + 2,
                       "who takes nothing is cut off")
        finally:
            for sock in readers:
                sock.close()
        daemon.stop()
        self.assertSane(daemon)


@unittest.skipUnless(os.geteuid() == 0, "needs a second uid")
class Chaos(Hostile):
    def user(self, daemon, k, stop_at, late):
        rng = random.Random(k)
        own = daemon.client()
        while time.monotonic() < stop_at:
            owner = f"u{k}" if rng.random() < .8 else "shared"
            thread = f"{owner}-{rng.randrange(4)}"
            wait_ms = rng.choice([0, 50, 500, 2000])
            begun = time.monotonic()
            try:
                lease = own.acquire(thread, wait_ms=wait_ms, metadata={"k": k})
                # Looking for the thread's box in the backend has 5 s of its own.
                if time.monotonic() - begun > wait_ms / 1000 + at_most(6):
                    late.append((wait_ms, time.monotonic() - begun, lease))
                if lease.status != 200:
                    continue
                path = "/v1/sandboxes/" + lease.json["sandbox_id"]
                choice = rng.randrange(7)
                if choice == 0:
                    own.delete(path + "?quick=1")
                elif choice == 1:
                    own.post(path + "/renew", {"ttl_s": 30})
                elif choice == 2:
                    own.get(path + "?alive=1")
                elif choice == 3:
                    own.close()
                    send_and_vanish(daemon.socket, post("/v1/acquire", {"thread_id": thread}))
                else:
                    own.post(path + "/release", {"destroy": choice == 4})
            except OSError:
                own.close()
        own.close()

    def operator(self, daemon, config, stop_at):
        rng = random.Random(99)
        own = daemon.client()
        while time.monotonic() < stop_at:
            time.sleep(rng.random() * 0.1)
            choice = rng.randrange(5)
            if choice == 0:
                config["profiles"]["default"]["env"] = {"A": str(rng.randrange(3))}
                daemon.write_config(config)
                self.assertOk(own.post("/v1/pool/reload"))
            elif choice == 1:
                daemon.write_config("profiles: [")
                daemon.process.child.send_signal(signal.SIGHUP)
                self.assertEqual(own.post("/v1/pool/reload").status, 422)
                daemon.write_config(config)
            elif choice == 2:
                self.assertOk(own.post("/v1/pool/pause"))
                self.assertOk(own.post("/v1/pool/resume"))
            elif choice == 3:
                self.assertOk(own.post("/v1/pool/drain", {"evict_parked": rng.random() < .5}))
                self.assertOk(own.post("/v1/pool/resume"))
            else:
                self.assertOk(own.post("/v1/pool/reconcile"))
        own.close()

    def saboteur(self, sim, stop_at):
        """Boxes die, and the backend stands still now and then."""
        rng = random.Random(7)
        own = Client(sim.socket)
        while time.monotonic() < stop_at:
            time.sleep(0.05)
            boxes = own.get("/boxes").json["boxes"]
            if boxes:
                own.post(f"/boxes/{rng.choice(boxes)['box_id']}/kill")
            if rng.random() < .05:
                os.kill(sim.pid, signal.SIGSTOP)
                try:
                    time.sleep(0.7)
                finally:
                    os.kill(sim.pid, signal.SIGCONT)
        own.close()

    def test_everything_at_once_leaks_nothing(self):
        sim = self.sim()
        daemon = self.daemon(
            {"warm": {"min": 3, "max": 8}, "create": {"concurrency": 16, "backoff_min_ms": 10,
                                                      "backoff_max_ms": 100},
             "sim": {"create_ms": 5, "destroy_ms": 3, "ready_ms": 5, "fail_percent": 3}},
            sim=sim, pool={"max_boxes": 40, "max_waiters": 200, "reconcile_interval_s": 1})
        config = json.loads(daemon.config.read_text())
        stop_at = time.monotonic() + 6
        late = []
        work = [lambda k=k: self.user(daemon, k, stop_at, late) for k in range(20)]
        work += [lambda: self.operator(daemon, config, stop_at),
                 lambda: self.saboteur(sim, stop_at)]
        in_threads(len(work), lambda i: work[i]())
        self.assertEqual(late, [])
        client = self.client(daemon)
        self.assertOk(client.post("/v1/pool/resume"))
        self.destroy_all(client)
        self.wait_equal(client, sim)
        self.assertEqual(client.get("/v1/pool").json["waiting"], 0)
        daemon.stop()
        self.assertSane(daemon)

    def test_a_backend_that_stands_still(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 1, "max": 2}}, sim=sim)
        client = self.client(daemon)
        self.wait_blank(client, 1)
        lease = self.assertOk(client.acquire("kept"))
        os.kill(sim.pid, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            self.assertEqual(self.assertOk(client.acquire("kept"))["box_id"], lease["box_id"])
            self.assertOk(client.release(lease["sandbox_id"]))
            self.assertOk(client.acquire("kept"))
            self.assertLess(time.monotonic() - begun, at_most(2))  # none of these asks the backend
            new = client.acquire("new", wait_ms=500)
            self.assertIn(new.status, (200, 503), new)
            self.assertLess(time.monotonic() - begun, at_most(8))
            begun = time.monotonic()
            daemon.stop()
            self.assertLess(time.monotonic() - begun, at_most(3))
        finally:
            os.kill(sim.pid, signal.SIGCONT)
        daemon.start()
        client = self.client(daemon)
        self.assertEqual(self.assertOk(client.acquire("kept"))["box_id"], lease["box_id"])
        self.destroy_all(client)
        self.wait_equal(client, sim)

    def test_sigterm_under_load_loses_no_lease(self):
        daemon = self.daemon({"warm": {"min": 8, "max": 20}, "create": {"concurrency": 16},
                              "sim": {"create_ms": 5}}, sim=self.sim(), pool={"max_boxes": 300})
        told = {}
        is_over = threading.Event()

        def acquire(k):
            own = daemon.client()
            for i in range(1000):
                if is_over.is_set():
                    break
                try:
                    lease = own.acquire(f"{k}-{i % 8}", wait_ms=5000)
                except OSError:
                    break
                if lease.status == 200:
                    told[lease.json["sandbox_id"]] = lease.json
            own.close()

        threads = [threading.Thread(target=acquire, args=(k,)) for k in range(10)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: len(told) > 20, "leases are told")
            begun = time.monotonic()
            daemon.stop()
            self.assertLess(time.monotonic() - begun, at_most(3))
        finally:
            is_over.set()
            for thread in threads:
                thread.join(60)
        self.assertSane(daemon)
        daemon.start()
        client = self.client(daemon)
        now = {b["sandbox_id"]: b for b in self.rows(client)}
        for name, lease in told.items():
            self.assertEqual([now[name][k] for k in ("box_id", "generation", "token", "state")],
                             [lease[k] for k in ("box_id", "generation", "token", "state")])

    def test_impatient_signals_do_not_cut_a_stop_short(self):
        for count in (2, 3, 5):
            with self.subTest(count=count):
                daemon = self.daemon({"warm": {"min": 4, "max": 4}})
                child = daemon.process.child
                for _ in range(count):
                    child.send_signal(signal.SIGTERM)
                    time.sleep(0.002)
                self.assertEqual(child.wait(20), 0)


if __name__ == "__main__":
    main()
