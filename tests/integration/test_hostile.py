"""Callers that mean harm, or have none left to mean: what the daemon must shrug off."""

import json
import os
import pathlib
import random
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import unittest

from harness import BIN, SLOW, Client, Daemon, Process, TestCase, in_threads, main, wait_until

OK_BODY = b'{"status":"ok"}'
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def post(target, body, headers=""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {target} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def dial(path, timeout=20):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(timeout)
    sock.connect(str(path))
    return sock


def send_and_vanish(path, data, delay_s=0.0):
    with dial(path) as sock:
        sock.sendall(data)
        if delay_s > 0:
            time.sleep(delay_s)


def ask_raw(path, data):
    """Status code and body of one answer; the daemon closes the connection or is asked to."""
    got = b""
    with dial(path) as sock:
        try:
            sock.sendall(data)
        except OSError:
            pass  # refused before all was sent: the answer is there already
        while True:
            part = sock.recv(65536)
            if not part:
                break
            got += part
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def as_nobody(work):
    """Runs work() in a child of another uid; what it returns comes back as JSON."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            text = json.dumps(work())
        except BaseException as problem:  # a child must not return into the test
            text = json.dumps({"failed": repr(problem)})
        with os.fdopen(writer, "w") as out:
            out.write(text)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as got:
        text = got.read()
    os.waitpid(pid, 0)
    return json.loads(text)


class Hostile(TestCase):
    def rows(self, client):
        return client.get("/v1/sandboxes?limit=1000").json["sandboxes"]

    def destroy_all(self, client):
        for box in self.rows(client):
            if box["sandbox_id"]:
                client.delete(f"/v1/sandboxes/{box['sandbox_id']}?quick=1")

    def wait_equal(self, client, sim):
        """What runs is what is recorded, and nothing is under way or leased."""
        def is_equal():
            counts = client.get("/v1/pool").json["by_state"]
            return (counts["starting"] + counts["deleting"] + counts["leased"] == 0 and
                    {b["box_id"] for b in self.rows(client)} == set(sim.boxes()))
        wait_until(is_equal, "boxes that run == rows")

    def assertSane(self, daemon):
        text = daemon.process.output()
        for word in ("AddressSanitizer", "LeakSanitizer", "runtime error", "Assertion"):
            self.assertNotIn(word, text)


class Requests(Hostile):
    def test_malformed_requests_are_answered_and_harm_nobody(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, http={"header_timeout_s": 1})
        start = b"POST /v1/acquire HTTP/1.1\r\nHost: x\r\n"
        cases = [
            (b"\x00\xff\x16\x03\x01 garbage\r\n\r\n", 400),
            (b"GET /heal", 408),
            (start + b"Content-Length: 100\r\n\r\n{", 408),
            (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100000 + b"\r\n\r\n", 431),
            (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 2000 + b"\r\n", 431),
            (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
            (post("/v1/acquire", b"x" * (2 << 20)), 413),
            (start + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
            (start + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
            (start + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            (start + b"Transfer-Encoding: gzip\r\n\r\n", 501),
            (start + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n", 400),
            (start + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"x" * 200000 + b"\r\n{}\r\n", 400),
            (b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", 400),
            (b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ]
        for data, status in cases:
            with self.subTest(data=data[:60]):
                self.assertEqual(ask_raw(daemon.socket, data)[0], status)
        self.assertTrue(daemon.answers())
        daemon.stop()
        self.assertSane(daemon)

    def test_json_that_bites_is_refused(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}})
        cases = [
            (b"[" * 400000, 400),
            (b'{"metadata":' + b'{"a":' * 1000 + b"1" + b"}" * 1001, 400),
            (b'{"thread_id":"a","thread_id":"b"}', 400),
            (b'{"wait_ms":1e999}', 400),
            (b'{"wait_ms":-1}', 422),
            (b'{"ttl_s":18446744073709551616}', 422),
            (b'{"thread_id":"a\\u0000b"}', 400),
            (b'{"thread_id":"\xff\xfe"}', 400),
            (b'{"metadata":{"k":"\\ud800"}}', 400),
            (b'{"metadata":{"x":"' + b"y" * 5000 + b'"}}', 422),
            (b"{}\x00", 400),
            (b"null", 400),
            (b'{"sandbox_id":"../x"}', 422),
            (b'{"sandbox_id":"box:1"}', 422),
            (b'{"user_id":"a:b"}', 422),
            (b'{"__proto__":1}', 422),
        ]
        for body, status in cases:
            with self.subTest(body=body[:60]):
                data = post("/v1/acquire", body, "Connection: close\r\n")
                self.assertEqual(ask_raw(daemon.socket, data)[0], status)

    def test_metadata_comes_back_as_it_went_in(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, sim=self.sim())
        client = self.client(daemon)
        metadata = {"k": '"},"token":"x\r\n\r\n', "é\u2028": ["\\", {"": None}], "n": -0.5}
        lease = self.assertOk(client.acquire("t", metadata=metadata))
        self.assertEqual(lease["metadata"], metadata)
        self.assertRegex(lease["token"], "^[0-9a-f]{32}$")
        daemon.restart()
        client = self.client(daemon)
        self.assertEqual(client.get("/v1/sandboxes/" + lease["sandbox_id"]).json["metadata"],
                         metadata)

    def test_odd_ids_name_nothing(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}})
        ids = ["..", "%2e%2e", "..%2f..", "%00", "a%00b", "box:", "box:xyz", "box:0",
               "box:" + "0" * 16, "box:" + "f" * 16, "a" * 65, "a" * 5000, "%", "%4", "%zz",
               "%ff%fe", "a%2fb", "%20", "a%0d%0aX:y"]
        for name in ids:
            for method, rest in (("GET", ""), ("GET", "?alive=1"), ("DELETE", ""),
                                 ("POST", "/release"), ("POST", "/renew")):
                with self.subTest(name=name[:30], method=method, rest=rest):
                    target = f"/v1/sandboxes/{name}{rest}"
                    data = f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                    self.assertIn(ask_raw(daemon.socket, data.encode())[0], (400, 404))

    def test_the_head_of_a_stream_ends(self):
        client = self.client(self.daemon({"warm": {"min": 0, "max": 0}}), timeout=5 * SLOW)
        self.assertEqual(client.call("HEAD", "/v1/events").status, 200)
        self.assertOk(client.get("/healthz"))

    def test_pipelines_slow_senders_and_hang_ups(self):
        daemon = self.daemon({"warm": {"min": 2, "max": 4}, "sim": {"create_ms": 1}})
        client = self.client(daemon)
        count = 1000
        with dial(daemon.socket) as sock:
            sender = threading.Thread(target=sock.sendall, args=(HEALTHZ * count,))
            sender.start()
            got = b""
            while got.count(OK_BODY) < count:
                part = sock.recv(65536)
                self.assertTrue(part, "closed in the middle of a pipeline")
                got += part
            sender.join(20)
        with dial(daemon.socket) as sock:
            for byte in post("/v1/acquire", {"thread_id": "slow"}):
                sock.send(bytes([byte]))
            self.assertTrue(sock.recv(4096).startswith(b"HTTP/1.1 200 "))
        before = open_files(daemon.process.pid)
        menu = [HEALTHZ, post("/v1/acquire", {"thread_id": "p"}), post("/v1/pool/reload", {}),
                post("/v1/pool/reconcile", {}), post("/v1/acquire", {"wait_ms": 10}),
                b"GET /v1/events?follow=0&since=0 HTTP/1.1\r\nHost: x\r\n\r\n",
                b"HEAD /v1/events HTTP/1.1\r\nHost: x\r\n\r\n"]

        def abuse(k):
            rng = random.Random(k)
            for _ in range(40):
                data = b"".join(rng.choice(menu) for _ in range(rng.randrange(1, 30)))
                try:
                    with dial(daemon.socket) as sock:
                        sock.sendall(data[:rng.randrange(len(data))] if rng.random() < .5 else data)
                        if rng.random() < .5:
                            sock.recv(rng.randrange(1, 3000))
                except OSError:
                    pass  # it is this side that misbehaves

        in_threads(6, abuse)
        wait_until(lambda: open_files(daemon.process.pid) <= before + 2, "connections are closed")
        wait_until(lambda: client.get("/v1/pool").json["waiting"] == 0, "nobody waits")
        daemon.stop()
        self.assertSane(daemon)

    def test_slow_senders_do_not_keep_others_out(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}},
                             http={"header_timeout_s": 1, "max_connections": 20})
        held = [dial(daemon.socket) for _ in range(30)]
        try:
            for sock in held:
                try:
                    sock.send(b"GET /healthz HTTP/1.1\r\nX: ")
                except OSError:
                    pass  # over the cap: refused
            wait_until(daemon.answers, "their time is over", 10 * SLOW)
        finally:
            for sock in held:
                sock.close()


class Vanishing(Hostile):
    def test_a_lease_nobody_was_told_of_is_undone(self):
        daemon = self.daemon({"warm": {"min": 2, "max": 2}, "discover": False}, sim=self.sim())
        client = self.client(daemon)
        self.wait_blank(client, 2)
        for i in range(50):
            send_and_vanish(daemon.socket, post("/v1/acquire", {
                "thread_id": f"v{i}", "user_id": "alice", "metadata": {"secret": i}}))
        wait_until(lambda: client.get("/v1/pool").json["by_state"]["leased"] == 0,
                   "no lease for callers who are gone")
        self.wait_blank(client, 2)
        for box in self.rows(client):
            self.assertNotIn("metadata", box)  # what was said of it went with the lease
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
            # A caller that hung up with the answer in its socket was told: that lease stands.
            self.destroy_all(client)
            self.wait_equal(client, sim)
            files.append(open_files(daemon.process.pid))
        self.assertEqual(client.get("/v1/pool").json["waiting"], 0)
        self.assertLess(files[1], files[0] + 40)  # kept connections to the backend, no more
        daemon.stop()
        self.assertSane(daemon)

    def test_waiters_who_vanish_make_room(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"hang_percent": 100}},
                             pool={"max_waiters": 10, "max_boxes": 2})
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
class Strangers(Hostile):
    def test_another_uid_sees_and_gets_nothing(self):
        daemon = self.daemon({"warm": {"min": 2, "max": 2}}, sim=self.sim(),
                             socket={"mode": "0666"}, log={"level": "debug"})
        os.chmod(self.directory, 0o755)
        client = self.client(daemon)
        secret = {"secret": "S3CRET"}
        leased = self.assertOk(client.acquire("mine", user_id="u", metadata=secret))
        parked = self.assertOk(client.acquire("parked", metadata=secret))
        self.assertOk(client.release(parked["sandbox_id"]))
        self.wait_blank(client, 1)
        blank = client.get("/v1/sandboxes?state=blank").json["sandboxes"][0]

        def pry():
            own = Client(daemon.socket, 20)
            seen = []
            for name in (leased["sandbox_id"], parked["sandbox_id"], "box:" + leased["box_id"],
                         "box:" + parked["box_id"], "box:" + blank["box_id"]):
                path = "/v1/sandboxes/" + name
                for method, rest, body in (
                        ("GET", "", None), ("GET", "?alive=1", None), ("DELETE", "", None),
                        ("DELETE", "?quick=1", None), ("POST", "/release", {"destroy": True}),
                        ("POST", "/release", {}), ("POST", "/renew", {"ttl_s": 1})):
                    answer = own.call(method, path + rest, body)
                    seen.append((f"{method} {rest} {name}", answer.status, answer.text))
            for body in ({"thread_id": "mine", "user_id": "u"}, {"thread_id": "parked"},
                         {"sandbox_id": leased["sandbox_id"]},
                         {"sandbox_id": leased["sandbox_id"], "user_id": "u", "thread_id": "mine",
                          "metadata": {"planted": 1}}):
                answer = own.post("/v1/acquire", body)
                seen.append((f"acquire {body}", answer.status, answer.text))
            for method, path in (("GET", "/v1/events?follow=0&since=0"), ("HEAD", "/v1/events"),
                                 ("POST", "/v1/pool/pause"), ("POST", "/v1/pool/drain"),
                                 ("POST", "/v1/pool/reload"), ("POST", "/v1/pool/reconcile")):
                answer = own.call(method, path, None, {"Authorization": "Bearer x"})
                seen.append((f"{method} {path}", answer.status, answer.text))
            for query in ("", "?state=leased", "?user_id=u", "?thread_id=mine", "?cursor=0"):
                seen.append(("list", own.get("/v1/sandboxes" + query).json["sandboxes"], ""))
            own.close()
            return seen

        seen = as_nobody(pry)
        self.assertIsInstance(seen, list, seen)
        for what, status, text in seen:
            with self.subTest(what=what):
                self.assertIn(status, ([], 403, 404, 409))
                for word in (leased["token"], parked["token"], "S3CRET", leased["sandbox_url"]):
                    self.assertNotIn(word, text)
        now = client.get("/v1/sandboxes/" + leased["sandbox_id"]).json
        for key in ("box_id", "state", "token", "metadata", "expires_at"):
            self.assertEqual(now[key], leased[key])
        self.assertEqual(client.get("/v1/sandboxes/" + parked["sandbox_id"]).json["state"],
                         "parked")

    def test_no_secret_is_told_to_logs_events_or_operators(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, sim=self.sim(),
                             socket={"mode": "0666"}, log={"level": "debug"})
        os.chmod(self.directory, 0o755)
        theirs = as_nobody(lambda: daemon.acquire("t", metadata={"secret": "S3CRET"}).json)
        self.assertIn("token", theirs)
        client = self.client(daemon)
        shown = client.get("/v1/sandboxes").text + client.acquire("t").text
        events = client.get("/v1/events?since=0&follow=0").text
        daemon.stop()
        with sqlite3.connect(daemon.state / "sandpool.db") as db:
            tokens = [row[0] for row in db.execute("SELECT token FROM boxes")]
        db.close()
        self.assertIn(theirs["token"], tokens)
        for token in tokens:
            for text in (shown, events, daemon.process.output()):
                self.assertNotIn(token, text)
        self.assertNotIn("S3CRET", events + daemon.process.output())
        for name in os.listdir(daemon.state):
            self.assertEqual(os.stat(daemon.state / name).st_mode & 0o077, 0, name)


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
                if time.monotonic() - begun > wait_ms / 1000 + 6 * SLOW:
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
            self.assertLess(time.monotonic() - begun, 2 * SLOW)  # none of these asks the backend
            new = client.acquire("new", wait_ms=500)
            self.assertIn(new.status, (200, 503), new)
            self.assertLess(time.monotonic() - begun, 8 * SLOW)
            begun = time.monotonic()
            daemon.stop()
            self.assertLess(time.monotonic() - begun, 3 * SLOW)
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
            self.assertLess(time.monotonic() - begun, 3 * SLOW)
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


class Starts(Hostile):
    """What cannot work ends at once, with one sentence and a status that is not 0."""

    def refuse(self, sentence, state=None, path=None, **config):
        config.setdefault("profiles", {"default": {"warm": {"min": 0, "max": 0}}})
        daemon = Daemon(self.directory, config)
        argv = [BIN / "sandpoold", "--config", daemon.config,
                "--state-dir", state or daemon.state, "--socket", path or daemon.socket]
        # The process ends without undoing what it has half done: leaks there mean nothing.
        env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        ended = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, env=env,
                               capture_output=True, text=True, timeout=20 * SLOW, check=False)
        said = [line for line in ended.stderr.splitlines() if line.startswith("sandpoold: ")]
        self.assertEqual((ended.returncode, len(said)), (1, 1), ended.stderr)
        self.assertIn(sentence, said[0])

    def make(self, name):
        path = pathlib.Path(self.directory) / name
        path.mkdir()
        return path

    def test_places_that_cannot_be(self):
        place = pathlib.Path(self.directory)
        (place / "file").write_text("x")
        self.refuse("Not a directory", state=place / "file")
        self.refuse("is no socket", path=place / "file")
        self.refuse("is no socket", path=self.make("dir"))
        self.refuse("No such file", path=place / "none" / "s.sock")
        self.refuse("1 to 107 characters", path=place / ("x" * 150))
        self.refuse("too long", path=place / ("x" * 300))
        self.refuse("too long", state=place / ("x" * 300))
        self.refuse("there is no group", socket={"group": "no-such-group"})
        self.assertEqual((place / "file").read_text(), "x")

    def test_databases_that_cannot_be(self):
        state = self.make("garbage")
        (state / "sandpool.db").write_bytes(os.urandom(8192))
        self.refuse("damaged or no database", state=state)
        state = self.make("foreign")
        with sqlite3.connect(state / "sandpool.db") as db:
            db.execute("CREATE TABLE a(b)")
        db.close()
        self.refuse("another program", state=state)
        daemon = self.daemon({"warm": {"min": 0, "max": 0}})
        daemon.stop()
        with sqlite3.connect(daemon.state / "sandpool.db") as db:
            db.execute("PRAGMA user_version=9999")
        db.close()
        self.refuse("schema version 9999")

    def test_a_stale_socket_is_replaced_and_a_live_one_is_not(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}})
        self.refuse("another daemon answers", state=self.make("other"))
        self.assertTrue(daemon.answers())
        daemon.kill()
        self.assertTrue(daemon.socket.exists())
        daemon.start()
        daemon.stop()

    def test_few_files_are_enough_to_refuse(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, start=False)
        argv = ["prlimit", "--nofile=48:48", BIN / "sandpoold", "--config", daemon.config,
                "--state-dir", daemon.state, "--socket", daemon.socket]
        daemon.process = Process(argv, daemon.log)
        daemon.wait_ready()
        held = [dial(daemon.socket) for _ in range(100)]
        for sock in held:
            sock.close()
        wait_until(daemon.answers, "connections are free again")
        self.assertOk(self.client(daemon).acquire("t"))
        daemon.stop()


if __name__ == "__main__":
    main()
