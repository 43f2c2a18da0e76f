"""Callers that mean harm: garbage, other uids, impossible starts."""

import os
import pathlib
import random
import socket
import sqlite3
import subprocess
import threading

from fixtures import BIN, SLOW, Client, Daemon, Process, forget_stamp, free_port, in_threads, main, wait_until
from hostile import HEALTHZ, OK_BODY, Hostile, as_nobody, ask_raw, dial, open_files, post

TOKEN = "a-token-of-0123456789"


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
            for query in ("", "&box=" + blank["box_id"], "&id=" + leased["sandbox_id"], "&id=box:" + parked["box_id"], "&user=u"):
                answer = own.get("/v1/events?format=json&since=0" + query)  # of others, only how it was refused
                seen.append(("events" + query, [e for e in answer.json["events"] if e["event"] != "refused"], answer.text))
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


class Starts(Hostile):
    """What cannot work ends at once, with one sentence and a status that is not 0."""

    def refuse(self, sentence, state=None, path=None, **config):
        config.setdefault("profiles", {"default": {"warm": {"min": 0, "max": 0}}})
        daemon = Daemon(self.directory, config)
        self.addCleanup(forget_stamp, state or daemon.state)
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
        self.refuse("is not a socket", path=place / "file")
        self.refuse("is not a socket", path=self.make("dir"))
        self.refuse("No such file", path=place / "none" / "s.sock")
        self.refuse("1 to 107 characters", path=place / ("x" * 150))
        self.refuse("too long", path=place / ("x" * 300))
        self.refuse("too long", state=place / ("x" * 300))
        self.refuse("there is no group", socket={"group": "no-such-group"})
        self.assertEqual((place / "file").read_text(), "x")

    def test_databases_that_cannot_be(self):
        state = self.make("garbage")
        (state / "sandpool.db").write_bytes(os.urandom(8192))
        self.refuse("damaged or not a database", state=state)
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

    def test_two_listeners_leave_files_for_the_daemon(self):
        """Callers of both together cannot take all descriptors: boxes are made and removed, and root gets in."""
        ports = [free_port(), free_port()]
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, start=False, pool={"max_boxes": 8},
                             tcp={"listen": f"127.0.0.1:{ports[0]}", "tokens": {"alice": TOKEN}},
                             provisioner={"enabled": True, "listen": f"127.0.0.1:{ports[1]}", "api_key": TOKEN})
        argv = ["prlimit", "--nofile=256:256", BIN / "sandpoold", "--config", daemon.config,
                "--state-dir", daemon.state, "--socket", daemon.socket]
        daemon.process = Process(argv, daemon.log)
        daemon.wait_ready()
        self.assertIn("http.connections_limited", daemon.process.output())
        held = []
        self.addCleanup(lambda: [sock.close() for sock in held])
        for port, header in ((ports[1], f"X-API-Key: {TOKEN}"), (ports[0], f"Authorization: Bearer {TOKEN}")):
            target = "/api/capabilities" if port == ports[1] else "/v1/version"
            for _ in range(150):
                sock = socket.create_connection(("127.0.0.1", port), timeout=20 * SLOW)
                held.append(sock)
                try:
                    sock.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode())
                    sock.recv(4096)
                except ConnectionError:
                    pass  # it was refused
        used = open_files(daemon.process.pid)
        self.assertLess(used, 200)
        self.assertGreater(used, 60)  # they do have connections
        client = self.client(daemon)
        for i in range(8):
            self.assertOk(client.acquire(f"t{i}"))
        for i in range(8):
            self.assertOk(client.delete(f"/v1/sandboxes/thread:default%2Ft{i}"))
        daemon.stop()


if __name__ == "__main__":
    main()
