"""Calls to a box through the daemon: who may call, what reaches the box, what comes back when something ends in the middle, how many."""

import http.client
import http.server
import json
import socket
import threading

from calls_case import ALICE, BOB, CallsCase, begin, chunk, sse, wait_gone
from fixtures import WAIT_S, Answer, free_port, main, wait_until

EVENT = b'event: stdout\ndata: {"offset":0,"data":"b25l"}\n\n'
LINE = b'{"event":"stdout","offset":0,"data":"b25l"}\n'


class Passing(CallsCase):
    def test_what_reaches_the_box(self):
        self.serve()
        self.lease("t", user_id="u")
        cases = [("POST", "/exec"), ("GET", "/jobs"), ("POST", "/jobs"), ("GET", "/jobs/7"), ("DELETE", "/jobs/7"),
                 ("POST", "/jobs/7/wait"), ("GET", "/jobs/7/output?stream=both&offset=3&x=%2F"),
                 ("POST", "/jobs/7/stdin?eof=1"), ("POST", "/jobs/7/signal"), ("POST", "/jobs/7/resize"),
                 ("GET", "/files?path=%2Ftmp%2Fa%20b"), ("HEAD", "/files?path=a"), ("PUT", "/files?path=a&mode=0600"),
                 ("DELETE", "/files?path=a"), ("GET", "/files/stat?path=a"), ("GET", "/files/list?path=."),
                 ("POST", "/files/mkdir"), ("POST", "/files/move"), ("POST", "/files/copy"), ("GET", "/files/tar?path=."),
                 ("PUT", "/files/tar?path=."), ("GET", "/files/watch?path=."), ("GET", "/ports")]
        for method, rest in cases:
            answer = self.call(method, self.base + rest, b"12345" if method in ("POST", "PUT") else None,
                               {"X-Mine": "yes", "Authorization": "Bearer mine", "Range": "bytes=0-1"})
            self.assertEqual(answer.status, 200, (method, rest, answer))
            seen = self.up.seen[-1]
            self.assertEqual((seen.method, seen.path), (method, "/v1/agent" + rest))
            self.assertEqual((seen.names.get("x-mine"), seen.names.get("range")), ("yes", "bytes=0-1"))
            self.assertEqual(seen.names["authorization"], f"Bearer {self.box['token']}")
            if method != "HEAD":
                self.assertEqual(answer.json["size"], 5 if method in ("POST", "PUT") else 0)
        self.assertEqual(len(self.up.seen), len(cases))

    def test_names_of_a_box(self):
        self.serve()
        self.lease("t", user_id="u")
        for name in (self.box["sandbox_id"], f"box:{self.box['box_id']}", "thread:u%2Ft", "thread:u/t", "thread%3Au/%74"):
            self.assertOk(self.call("GET", f"/v1/sandboxes/{name}/jobs"))
            self.assertEqual(self.up.seen[-1].path, "/v1/agent/jobs")
            self.assertEqual(self.call("GET", f"/v1/sandboxes/{name}").json["box_id"], self.box["box_id"])
        self.assertCode(self.call("GET", "/v1/sandboxes/thread:u%2Fother/jobs"), 404, "not_found")
        self.assertCode(self.call("GET", "/v1/sandboxes/a%2Fb/jobs"), 404, "not_found")
        self.assertCode(self.call("GET", self.base + "/nosuch"), 404, "no_route")
        self.assertCode(self.call("GET", self.base + "/exec"), 405, "method_not_allowed")

    def test_a_thread_in_a_path(self):
        """The part behind the user is always the thread, also one that is called like a route, and never more than one part."""
        self.serve()
        boxes = {name: self.lease(name, user_id="u") for name in ("exec", "jobs", "ports", "..", "t")}
        for name, box in boxes.items():
            for slash in ("/", "%2F"):
                where = f"/v1/sandboxes/thread:u{slash}{name}"
                self.assertEqual(self.call("GET", where).json["box_id"], box["box_id"], where)
                self.assertOk(self.call("POST", where + "/exec?a=/b", {}))
                self.assertEqual(self.up.seen[-1].path, "/v1/agent/exec?a=/b")
                self.assertOk(self.call("POST", where + "/renew", {}))
        seen = len(self.up.seen)
        wrong = {"not_found": ("u", "u/", "u//jobs", "/t/jobs", "u/t%2Fjobs", "u/nobody/jobs", "u/a%20b/jobs", f"u/{'t' * 129}/jobs"),
                 "no_route": ("u%2Ft/t/jobs", "u/t/../jobs", f"{'u' * 400}/t/jobs"), "bad_request": ("u/%00/jobs",)}
        for code, target in ((code, target) for code, targets in wrong.items() for target in targets):
            answer = self.call("GET", "/v1/sandboxes/thread:" + target)
            self.assertCode(answer, 400 if code == "bad_request" else 404, code)
        self.assertCode(self.call("POST", "/v1/sandboxes/thread:u/exec", {}), 405, "method_not_allowed")  # of no box "u"
        self.assertEqual(len(self.up.seen), seen)

    def test_who_may_call(self):
        self.serve()
        self.lease("t", ALICE)
        self.assertOk(self.call("GET", self.base + "/jobs", token=ALICE))
        self.assertEqual(self.up.seen[-1].names["authorization"], f"Bearer {self.box['token']}")
        self.assertCode(self.call("GET", self.base + "/jobs", token=BOB), 404, "not_found")
        self.assertCode(self.call("GET", self.base + "/jobs", token="wrong" * 8), 401, "unauthorized")
        self.assertOk(self.call("GET", self.base + "/jobs"))  # an operator, on the Unix socket
        self.assertCode(self.call("GET", "/v1/sandboxes/nobody/jobs", token=ALICE), 404, "not_found")
        self.assertEqual(len(self.up.seen), 2)

    def test_only_while_it_is_leased(self):
        self.serve(profile={"park_timeout_s": 600})
        self.lease("t", ALICE)
        self.assertOk(self.call("POST", self.base + "/release", {}, token=ALICE))
        answer = self.call("POST", self.base + "/exec", {}, token=ALICE)
        self.assertCode(answer, 409, "not_leased")
        self.assertIn("parked", self.message(answer))
        self.lease("t", ALICE)
        self.assertOk(self.call("POST", self.base + "/exec", {}, token=ALICE))
        self.call("DELETE", self.base, token=ALICE)
        answer = self.call("POST", self.base + "/exec", {}, token=ALICE)
        self.assertCode(answer, 410, "sandbox_lost")
        self.assertIn("destroyed", self.message(answer))
        self.assertCode(self.call("POST", self.base + "/exec", {}, token=BOB), 404, "not_found")

    def test_a_box_without_our_agent(self):
        self.serve()
        self.lease()
        for reply in (b'{"detail":"Not Found"}', b'{"success":false,"message":"no such path","data":null}', b"", b"404",
                      b'{"error":"Not Found, no such thing"}'):
            self.up.acts["/v1/agent/exec"] = lambda call: (list(call.pieces()), call.reply(404, reply))[1]
            self.assertCode(self.call("POST", self.base + "/exec", {}), 501, "unsupported")
        ours = b'{"error":{"code":"file_not_found","message":"no such file","path":"a"}}'
        self.up.acts["/v1/agent/files"] = lambda call: call.reply(404, ours)
        self.assertCode(self.call("GET", self.base + "/files?path=a"), 404, "file_not_found")
        self.assertEqual(self.call("HEAD", self.base + "/files?path=a").status, 404)

    def test_bodies_of_any_size_both_ways(self):
        self.serve()
        self.lease()
        size = 48 * 1024 * 1024
        self.assertEqual(self.assertOk(self.call("PUT", self.base + "/files?path=big", b"x" * size))["size"], size)
        self.up.acts["/v1/agent/files"] = lambda call: (setattr(call, "path", f"/big?{size}"), call.do_big())[1]
        self.assertEqual(len(self.call("GET", self.base + "/files?path=big").data), size)

    def test_it_counts_as_use(self):
        self.serve(profile={"idle_timeout_s": 1})
        self.lease()
        self.up.acts["/v1/agent/exec"] = lambda call: call.do_wait()
        connection = self.open("POST", self.base + "/exec", {})
        wait_until(lambda: self.up.seen, "it is at the box")
        wait_until(lambda: self.api.get(self.base).json["age_s"] > 2.5, "longer than it may be idle")
        shown = self.assertOk(self.api.get(self.base))
        self.assertEqual((shown["state"], shown["idle_s"]), ("leased", 0))
        self.up.go.set()
        self.assertEqual(connection.getresponse().read(), b"at last")
        wait_until(lambda: self.api.get(self.base).status == 410, "then it is idle")


class Losing(CallsCase):
    """`die` ends the connection to the box when the test says so."""

    def hang(self, first=b"", kind=None):
        """Answers nothing, or begins; goes on until the test lets it die. Notes when the daemon hangs up."""
        self.died = threading.Event()
        self.left = threading.Event()

        def act(call):
            for _ in call.pieces():
                pass
            if kind is not None:
                begin(call, kind)
                call.connection.sendall(first)
            call.connection.settimeout(0.05)
            while not self.died.is_set() and not self.left.is_set():
                try:
                    if call.connection.recv(1) == b"":
                        self.left.set()
                except TimeoutError:
                    pass
            return False

        self.up.acts["/v1/agent/exec"] = act
        self.addCleanup(self.died.set)

    def start(self, first=b"", kind=None, **kw):
        self.serve(**kw)
        self.lease()
        self.hang(first, kind)
        connection = self.open("POST", self.base + "/exec", {"command": "x"})
        wait_until(lambda: self.up.seen, "it is at the box")
        return connection

    def finish(self, connection):
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read().decode())

    def test_the_connection_breaks_and_the_box_lives(self):
        connection = self.start()
        self.died.set()
        answer = self.finish(connection)
        self.assertCode(answer, 502, "transport_lost")
        self.assertIn("may still run", self.message(answer))
        self.assertEqual(self.api.get(self.base).json["state"], "leased")

    def test_the_box_is_gone(self):
        connection = self.start()
        self.up.boxes.clear()
        self.died.set()
        answer = self.finish(connection)
        self.assertCode(answer, 410, "sandbox_lost")

    def test_the_box_was_replaced(self):
        """What answers at its address is another one."""
        connection = self.start()
        self.up.acts["/v1/sandbox"] = lambda call: call.reply(200, b"{}", "X-Sandbox-Life: other")
        self.died.set()
        self.assertCode(self.finish(connection), 410, "sandbox_lost")

    def test_it_is_destroyed(self):
        """At once: the box itself does not hang up."""
        connection = self.start()
        deleted = self.api.delete(self.base)
        self.assertIn(deleted.status, (200, 202))
        answer = self.finish(connection)
        self.assertCode(answer, 410, "sandbox_lost")
        self.assertIn("destroyed", self.message(answer))
        self.assertTrue(self.left.wait(WAIT_S), "the connection to the box is closed")

    def test_destroyed_in_a_stream(self):
        connection = self.start(chunk(EVENT), "text/event-stream")
        response = connection.getresponse()
        self.assertEqual(response.read(len(EVENT)), EVENT)
        self.api.delete(self.base)
        (name, last), = sse(response.read().decode())
        self.assertEqual((name, last["outcome"], last["exit_code"]), ("end", "sandbox_lost", None))

    def test_a_stream_breaks(self):
        """Half an event is not passed on: the next would be taken for a part of it."""
        self.serve()
        self.lease()
        for kind, whole, half in (("text/event-stream", EVENT, b'event: stdout\ndata: {"off'),
                                  ("application/x-ndjson; charset=utf-8", LINE, b'{"event":"std')):
            with self.subTest(kind):
                self.hang(chunk(whole) + chunk(whole + half), kind)
                response = self.open("POST", self.base + "/exec", {}).getresponse()
                self.assertEqual(response.getheader("Content-Type"), kind)
                self.assertEqual(response.read(2 * len(whole)), 2 * whole)
                self.died.set()
                rest = response.read().decode()
                if kind.startswith("text"):
                    (name, last), = sse(rest)
                else:
                    last = json.loads(rest)
                    name = last["event"]
                    self.assertTrue(rest.startswith('{"event":"end"') and rest.endswith("}\n"), rest)
                self.assertEqual((name, last["outcome"], last["exit_code"]), ("end", "transport_lost", None))

    def test_a_stream_that_has_its_end_gets_no_other(self):
        end = b'event: end\ndata: {"outcome":"exited","exit_code":0}\n\n'
        connection = self.start(chunk(EVENT + end), "text/event-stream")
        response = connection.getresponse()
        self.assertEqual(response.read(len(EVENT + end)), EVENT + end)
        self.died.set()
        self.assertEqual(response.read(), b"")

    def test_a_long_event_passes_in_parts(self):
        """It cannot be completed, so the connection says that something is missing."""
        part = b"data: " + b"x" * (300 * 1024)
        connection = self.start(chunk(part), "text/event-stream")
        response = connection.getresponse()
        self.assertEqual(len(response.read(200 * 1024)), 200 * 1024)
        self.died.set()
        with self.assertRaises(http.client.IncompleteRead):
            response.read()

    def test_bytes_are_cut(self):
        connection = self.start(chunk(b"half"), "application/octet-stream")
        response = connection.getresponse()
        self.assertEqual(response.read(4), b"half")
        self.died.set()
        with self.assertRaises(http.client.IncompleteRead):
            response.read()

    def test_a_kept_connection_breaks(self):
        """What may have been done is not repeated; a connection that is closed already is no trouble."""
        self.serve()
        self.lease()
        plan = ["keep", "keep", "close", "keep", "break", "keep"]
        done = []

        def act(call):
            step = plan[len(done)]
            done.append((step, id(call.connection), sum(len(piece) for piece in call.pieces())))
            if step != "break":
                call.reply(200, b"{}")
            if step == "close":
                call.connection.shutdown(socket.SHUT_RDWR)
                closed.set()
            return step == "keep"

        closed = threading.Event()
        self.up.acts["/v1/agent/exec"] = act
        codes = []
        for step in plan:
            codes.append(self.call("POST", self.base + "/exec", b"12345").code)
            if step == "close":
                self.assertTrue(closed.wait(WAIT_S))
        self.assertEqual(codes, [None, None, None, None, "transport_lost", None])
        self.assertEqual([step for step, _, _ in done], plan)
        self.assertEqual({size for _, _, size in done}, {5})
        self.assertEqual(done[0][1], done[1][1], "the connection is kept")

    def test_the_caller_goes(self):
        connection = self.start()
        connection.close()
        self.assertTrue(self.left.wait(WAIT_S), "the box hears of it")

    def test_nothing_moves(self):
        connection = self.start(calls={"idle_timeout_s": 1})
        self.assertCode(self.finish(connection), 504, "timeout")

    def test_a_stream_in_which_nothing_moves(self):
        self.serve(calls={"idle_timeout_s": 4})  # time enough for a busy machine to begin
        self.lease()
        self.hang(chunk(LINE), "application/x-ndjson")
        self.up.acts["/v1/agent/jobs"] = self.up.acts["/v1/agent/exec"]
        self.hang(chunk(EVENT), "text/event-stream")
        both = [self.open("POST", self.base + what, {}) for what in ("/jobs", "/exec")]
        text = b"".join(one.getresponse().read() for one in both)
        self.assertEqual((text.count(b'"transport_lost"'), b"has come from it for 4 s" in text), (2, True), text)

    def test_a_take_over_in_the_middle(self):
        connection = self.start(chunk(EVENT), "text/event-stream")
        response = connection.getresponse()
        self.assertEqual(response.read(len(EVENT)), EVENT)
        old = self.server.process
        self.addCleanup(old.kill)
        self.server.process = self.server.spawn(args=["--takeover"])
        wait_until(lambda: "daemon.handed_over" in old.output(), "it has handed over")
        self.server.wait_ready()
        self.assertIsNone(old.child.poll())
        self.assertOk(self.call("GET", self.base + "/jobs"))  # by the new one
        self.died.set()
        (name, last), = sse(response.read().decode())
        self.assertEqual((name, last["outcome"]), ("end", "transport_lost"))
        self.assertEqual(old.child.wait(WAIT_S), 0)

    def test_the_daemon_stops_while_it_asks(self):
        """The box does not answer, so nobody knows yet what became of it."""
        connection = self.start()
        asked = threading.Event()

        def stuck(call):
            asked.set()
            wait_gone(call.connection)
            return False

        self.up.acts["/v1/sandbox"] = stuck
        self.died.set()
        self.assertTrue(asked.wait(WAIT_S))
        self.server.stop()
        try:
            self.assertEqual(self.finish(connection).status // 100, 5)
        except (OSError, http.client.HTTPException):
            pass  # or it is cut


class Counting(CallsCase):
    def hold(self, count, token=None):
        """That many calls, which the box does not answer."""
        self.up.acts["/v1/agent/exec"] = lambda call: call.do_wait()
        before = len(self.up.seen)
        held = [self.open("POST", self.base + "/exec", {}, token=token) for _ in range(count)]
        wait_until(lambda: len(self.up.seen) == before + count, "they are at the box")
        return held

    def assertMany(self, answer, what, number):
        self.assertCode(answer, 429, "too_many_calls")
        self.assertIn(what, self.message(answer))
        self.assertIn(f" {number} ", self.message(answer))
        self.assertIn("Retry-After", answer.headers)

    def test_limits(self):
        limits = {"max": 11, "max_per_box": 4,  # one of them is for operators
                  "share_percent": 50}
        self.serve(calls=limits)
        self.lease("a", ALICE)
        self.hold(4, ALICE)
        self.assertMany(self.call("GET", self.base + "/jobs", token=ALICE), "calls.max_per_box", 4)
        self.lease("b", ALICE)
        self.hold(1, ALICE)
        self.assertMany(self.call("GET", self.base + "/jobs", token=ALICE), "calls.share_percent", 5)
        self.lease("c", BOB)
        held = self.hold(3, BOB)
        self.lease("d")
        held += self.hold(1)
        limits.update(max_per_box=9, share_percent=100)
        config = json.loads(self.server.config.read_text())
        config["calls"] = limits
        self.server.write_config(config)
        self.assertOk(self.api.post("/v1/pool/reload"))
        held += self.hold(1)
        self.lease("e", BOB)
        self.assertMany(self.call("GET", self.base + "/jobs", token=BOB), "calls.max)", 10)
        self.lease("d")
        held += self.hold(1)  # an operator gets in
        self.assertMany(self.call("GET", self.base + "/jobs"), "calls.max)", 11)
        held[0].close()
        wait_until(lambda: self.call("GET", self.base + "/jobs").status == 200, "there is room again")
        limits["max"] = 12
        config["calls"] = limits
        self.server.write_config(config)
        answer = self.api.post("/v1/pool/reload")
        self.assertIn("calls.max cannot change while the daemon runs", self.message(answer))


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = json.dumps({"line": self.requestline, "headers": dict(self.headers.items()),
                           "peer": self.client_address[1]}).encode()
        self.send_response(200 if self.path != "/moved" else 302)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", "/elsewhere")
        self.send_header("Set-Cookie", "a=b; Path=/")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Ports(CallsCase):
    def start(self):
        self.serve(is_root=True)
        self.lease()
        self.program = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.program.daemon_threads = True
        thread = threading.Thread(target=self.program.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(self.program.server_close)
        self.addCleanup(self.program.shutdown)
        self.at = f"{self.base}/ports/{self.program.server_port}"

    def test_a_server_in_the_box(self):
        self.start()
        answer = self.call("GET", self.at + "/a%20b/../c?q=/x",
                           headers={"Cookie": "c=d", "X-Forwarded-Prefix": "/lie", "Host": "pool.example"})
        seen = self.assertOk(answer)
        self.assertEqual(seen["line"], "GET /a%20b/../c?q=/x HTTP/1.1")
        headers = {k.lower(): v for k, v in seen["headers"].items()}
        self.assertEqual(headers["host"], f"127.0.0.1:{self.program.server_port}")
        self.assertEqual((headers["x-forwarded-prefix"], headers["x-forwarded-host"], headers["x-forwarded-proto"]),
                         (self.at, "pool.example", "http"))
        self.assertEqual((headers["cookie"], answer.headers["Set-Cookie"]), ("c=d", "a=b; Path=/"))
        self.assertIn(f"CONNECT 127.0.0.1:{self.program.server_port} ", self.up.tunnels[0])
        for rest, line in (("", "GET / HTTP/1.1"), ("/", "GET / HTTP/1.1"), ("?a=/b", "GET /?a=/b HTTP/1.1")):
            self.assertEqual(self.assertOk(self.call("GET", self.at + rest))["line"], line)
        answer = self.call("GET", self.at + "/moved")
        self.assertEqual((answer.status, answer.headers["Location"]), (302, "/elsewhere"))
        body = b"y" * 3_000_000
        answer = self.call("POST", self.at + "/post", body)
        self.assertEqual((answer.status, answer.data), (201, body))

    def test_an_upgrade_has_the_headers_of_a_request(self):
        self.start()
        sent = {"Cookie": "c=d", "X-Forwarded-Prefix": "/lie", "Host": "pool.example", "Authorization": "Basic of-the-program"}
        plain = self.assertOk(self.call("GET", self.at + "/x", headers=sent))["headers"]
        upgrade = self.assertOk(self.call("GET", self.at + "/x", headers={**sent, "Connection": "Upgrade", "Upgrade": "websocket"}))
        self.assertEqual((upgrade["headers"].pop("Connection"), upgrade["headers"].pop("Upgrade")), ("Upgrade", "websocket"))
        self.assertEqual(upgrade["headers"], plain)
        self.assertEqual((plain["X-Forwarded-Prefix"], plain["Authorization"]), (self.at, "Basic of-the-program"))

    def test_a_lying_answer_to_connect_without_an_end(self):
        self.start()
        self.addCleanup(self.up.is_flood_over.set)
        for head in (b"HTTP/1.1 407 No\r\nContent-Length: 9000000000000000000\r\n\r\n",
                     b"HTTP/1.1 407 No\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", b"HTTP/1.1 200 OK\r\n"):
            self.up.flood = head
            answer = self.call("GET", self.at + "/")
            self.assertGreaterEqual(answer.status, 500, answer)
            self.assertEqual(self.call("GET", "/healthz").status, 200)

    def test_the_caller_s_token_stays_here(self):
        self.start()
        self.lease("alice", ALICE)
        at = f"{self.base}/ports/{self.program.server_port}/"
        seen = self.assertOk(self.call("GET", at, token=ALICE))
        self.assertNotIn(ALICE, json.dumps(seen) + "".join(self.up.tunnels))
        self.assertNotIn("uthorization", seen["headers"])
        self.assertNotIn(self.box["token"], json.dumps(seen))
        self.assertIn(f"Authorization: Bearer {self.box['token']}", self.up.tunnels[-1])
        seen = self.assertOk(self.call("GET", at, headers={"Authorization": "Basic for-the-program"}))
        self.assertEqual(seen["headers"]["Authorization"], "Basic for-the-program")
        self.assertNotIn("for-the-program", "".join(self.up.tunnels))

    def test_connections_are_kept_for_one_box(self):
        self.start()
        peers = [self.assertOk(self.call("GET", self.at + "/"))["peer"] for _ in range(5)]
        self.assertEqual(len(set(peers)), 1)
        self.assertEqual(len(self.up.tunnels), 1)
        self.lease("other")  # at the same address
        other = self.assertOk(self.call("GET", f"{self.base}/ports/{self.program.server_port}/"))
        self.assertNotIn(other["peer"], peers)

    def test_nobody_listens(self):
        self.start()
        answer = self.call("GET", f"{self.base}/ports/{free_port()}/")
        self.assertCode(answer, 502, "port_closed")
        for port in ("0", "65536", "http", "-1"):
            self.assertCode(self.call("GET", f"{self.base}/ports/{port}/"), 422, "invalid_field")

    def test_a_box_behind_a_proxy(self):
        self.serve()
        self.lease()
        self.assertCode(self.call("GET", self.base + "/ports/80/"), 501, "unsupported")


if __name__ == "__main__":
    main()
