"""Admission: the hard cap, the queue and its fairness, deadlines, callers that hang up."""

import json
import select
import signal
import socket
import threading
import time

from fixtures import TestCase, at_most, in_threads, main, wait_until


def raw_acquire(path, thread, user="default", wait_ms=20000):
    """A connection with an acquire sent and no answer read."""
    body = json.dumps({"thread_id": thread, "user_id": user, "wait_ms": wait_ms}).encode()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(str(path))  # blocking: waits its turn when the backlog is full
    sock.settimeout(20)
    sock.sendall(b"POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                 % (len(body), body))
    return sock


class Queue(TestCase):
    def capped(self, boxes, **profile):
        return self.daemon({"warm": {"min": 0, "max": 0}, **profile},
                           pool={"max_boxes": boxes, "max_waiters": 64})

    def waiting(self, client):
        return client.get("/v1/pool").json["waiting"]

    def test_the_cap_is_hard_and_the_refusal_says_when(self):
        client = self.client(self.capped(3))
        for i in range(3):
            self.assertOk(client.acquire(f"t{i}"))
        answer = client.acquire("late", wait_ms=50)
        self.assertCode(answer, 429, "pool_exhausted")
        self.assertIn("Retry-After", answer.headers)
        self.assertGreater(answer.json["error"]["retry_after_ms"], 0)
        self.assertEqual(client.get("/v1/pool").json["total"], 3)

    def test_a_destroyed_box_makes_room_for_the_waiter(self):
        daemon = self.capped(1)
        client = self.client(daemon)
        first = self.assertOk(client.acquire("a"))
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(daemon.acquire("b")))
        waiter.start()
        wait_until(lambda: self.waiting(client) == 1, "one waiter")
        self.assertOk(client.release(first["sandbox_id"], destroy=True))
        waiter.join(20)
        self.assertEqual(self.assertOk(answers[0])["source"], "cold")

    def test_the_longest_parked_box_is_evicted(self):
        client = self.client(self.capped(3))
        leases = [self.assertOk(client.acquire(f"t{i}")) for i in range(3)]
        self.assertOk(client.release(leases[1]["sandbox_id"]))
        self.assertOk(client.release(leases[0]["sandbox_id"]))
        self.assertOk(client.acquire("new"))
        self.assertCode(client.get("/v1/sandboxes/" + leases[1]["sandbox_id"]), 410, "sandbox_lost")
        self.assertEqual(self.assertOk(client.acquire("t0"))["source"], "parked")

    def test_a_caller_that_hangs_up_frees_its_place(self):
        daemon = self.capped(1)
        client = self.client(daemon)
        first = self.assertOk(client.acquire("a"))
        sock = raw_acquire(daemon.socket, "b")
        wait_until(lambda: self.waiting(client) == 1, "one waiter")
        sock.close()
        wait_until(lambda: self.waiting(client) == 0, "the waiter has left")
        self.assertOk(client.release(first["sandbox_id"], destroy=True))
        self.assertOk(client.acquire("c"))
        listed = self.assertOk(client.get("/v1/sandboxes?thread_id=b"))["sandboxes"]
        self.assertEqual(listed, [])

    def test_a_box_made_for_a_caller_that_left_becomes_blank(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 4}, "sim": {"create_ms": 200}})
        client = self.client(daemon)
        sock = raw_acquire(daemon.socket, "gone")
        wait_until(lambda: self.waiting(client) == 1, "one waiter")
        sock.close()
        wait_until(lambda: client.get("/v1/pool").json["by_state"]["blank"] >= 1, "a blank box")

    def test_an_answer_nobody_reads_is_no_lease(self):
        daemon = self.daemon({"warm": {"min": 2, "max": 2}})
        client = self.client(daemon)
        self.wait_blank(client, 2)
        for _ in range(20):
            sock = raw_acquire(daemon.socket, "careless")
            select.select([sock], [], [], 20)  # the answer is there
            sock.close()
            wait_until(lambda: client.get("/v1/pool").json["by_state"]["leased"] == 0, "undone")
        # One that reads its answer and then leaves keeps the box.
        sock = raw_acquire(daemon.socket, "careful")
        sock.recv(65536)
        sock.close()
        self.assertEqual(self.assertOk(client.acquire("careful"))["source"], "kept")

    def test_a_question_to_a_stuck_backend_ends_with_the_callers_wait(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 2, "max": 2}, "discover": True}, sim=sim)
        client = self.client(daemon)
        self.wait_blank(client, 2)
        sim.child.send_signal(signal.SIGSTOP)
        self.addCleanup(sim.child.send_signal, signal.SIGCONT)
        for wait_ms in (0, 300):
            start = time.monotonic()
            lease = self.assertOk(client.acquire(f"new-{wait_ms}", wait_ms=wait_ms))
            self.assertLess(time.monotonic() - start, at_most(2))
            self.assertEqual(lease["source"], "warm")  # the backend did not say: a blank box

    def test_users_take_turns(self):
        daemon = self.capped(1)
        client = self.client(daemon)
        held = self.assertOk(client.acquire("holder"))
        order = []
        lock = threading.Lock()

        def wait_for(user, i):
            own = daemon.client()
            lease = self.assertOk(own.acquire(f"{user}-{i}", user_id=user, wait_ms=20000))
            with lock:
                order.append(user)
            self.assertOk(own.release(lease["sandbox_id"], destroy=True))
            own.close()

        threads = []
        for user, count in (("greedy", 6), ("modest", 2)):
            for i in range(count):
                threads.append(threading.Thread(target=wait_for, args=(user, i)))
                threads[-1].start()
                wait_until(lambda: self.waiting(client) == len(threads), "queued")
        self.assertOk(client.release(held["sandbox_id"], destroy=True))
        for thread in threads:
            thread.join(20)
        self.assertEqual(len(order), 8)
        self.assertEqual(order[:4].count("modest"), 2, order)

    def test_the_queue_is_bounded(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, pool={"max_boxes": 1, "max_waiters": 8})
        client = self.client(daemon)
        self.assertOk(client.acquire("holder"))
        socks = [raw_acquire(daemon.socket, f"w{i}") for i in range(8)]
        try:
            # A place is kept for the requests that wait for a commit, so the queue may be full
            # a little earlier than its size.
            wait_until(lambda: self.waiting(client) >= 4, "waiters")
            answers = in_threads(8, lambda i: daemon.acquire(f"x{i}", wait_ms=300))
            self.assertIn("queue_full", {a.code for a in answers})
        finally:
            for sock in socks:
                sock.close()

    def test_a_burst_on_a_small_pool_is_served_without_errors(self):
        daemon = self.daemon({"warm": {"min": 4, "max": 8}, "create": {"concurrency": 8},
                              "sim": {"create_ms": 5}},
                             pool={"max_boxes": 16, "max_waiters": 1024})

        def use(i):
            own = daemon.client()
            for n in range(4):
                lease = self.assertOk(own.acquire(f"t{i}-{n}", wait_ms=60000))
                self.assertOk(own.release(lease["sandbox_id"], destroy=True))
            own.close()

        in_threads(48, use)
        pool = self.client(daemon).get("/v1/pool").json
        self.assertLessEqual(pool["total"], 16)
        self.assertEqual(pool["waiting"], 0)

    def test_own_deadline(self):
        client = self.client(self.capped(1))
        self.assertOk(client.acquire("a"))
        start = time.monotonic()
        self.assertCode(client.acquire("b", wait_ms=200), 429, "pool_exhausted")
        self.assertLess(time.monotonic() - start, at_most(2))
        start = time.monotonic()
        self.assertCode(client.acquire("b", wait_ms=0), 429, "pool_exhausted")
        self.assertLess(time.monotonic() - start, at_most(0.5))


if __name__ == "__main__":
    main()
