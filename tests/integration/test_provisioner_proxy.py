"""The proxy of the provisioner, to a box that notes every byte: what reaches it and what does not, who
gets in, bodies of any length in little memory, slow and vanishing ends."""

import http.client
import json
import pathlib
import socket
import threading
import time

from fixtures import SLOW, in_threads, main, wait_until
from provisioner import KEY
from proxy_case import ProxyCase
from http_peer import CHUNK

MIB = 1024 * 1024


class TestThrough(ProxyCase):
    def test_every_method_path_and_query(self):
        caller = self.start()
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
            for rest in ("/v1/x", "/v1/x?a=b&c=%20d", "/", "//x", "/a/../b", "/./a", "/%2e%2e/%2F",
                         "/a;b=c,d'e(f)!*", "/?a?b", "/x?http://y/z", "/[x]{y}|z^`\""):
                answer = caller.call(method, self.base + rest)
                if answer.status == 400:  # what the server does not take in the first place
                    self.assertIn(rest[1], "[", (method, rest))
                    continue
                want = f"{method} /box/{self.id_there()}{rest} HTTP/1.1"
                self.assertEqual(answer.json["line"], want)
        for rest in ("", "?q=1"):
            answer = caller.call("GET", self.base + rest)
            self.assertEqual(answer.json["line"], f"GET /box/{self.id_there()}/{rest} HTTP/1.1")

    def id_there(self):
        return next(iter(self.up.boxes))

    def test_head(self):
        answer = self.start().call("HEAD", self.base + "/x")
        self.assertEqual((answer.status, answer.data), (200, b""))
        self.assertEqual(self.up.seen[-1].method, "HEAD")
        self.assertGreater(int(answer.headers["Content-Length"]), 10)

    def test_headers_that_pass_and_those_that_do_not(self):
        caller = self.start()
        answer = caller.call("POST", self.base + "/x", "body", {
            "Authorization": "Bearer of-the-client", "X-API-Key": KEY, "X-AIO-API-Key": "k",
            "Connection": "keep-alive, X-Named", "X-Named": "1", "TE": "trailers",
            "Keep-Alive": "5", "Proxy-Authorization": "p", "Cookie": "a=b", "X-Empty": "",
            "User-Agent": "tester", "Accept": "text/plain", "Content-Type": "text/x"})
        have = {name.lower(): value for name, value in answer.json["headers"]}
        token = have.pop("authorization")
        self.assertTrue(token.startswith("Bearer ") and len(token) > 30, token)
        self.assertNotIn("of-the-client", token)
        self.assertEqual(have.pop("host"), f"127.0.0.1:{self.up.port}")
        self.assertEqual(have, {"cookie": "a=b", "x-empty": "", "user-agent": "tester",
                                "accept": "text/plain", "content-type": "text/x",
                                "content-length": "4", "accept-encoding": "identity"})
        bare = caller.call("GET", self.base + "/x").json["headers"]
        self.assertEqual(sorted(name.lower() for name, _ in bare),
                         ["accept-encoding", "authorization", "host"])

    def test_headers_of_the_answer(self):
        self.start()
        data = self.raw(f"GET {self.base}/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                        .encode()).decode()
        head = data.split("\r\n\r\n")[0].split("\r\n")
        self.assertEqual([line for line in head if line.startswith("X-")],
                         ["X-Twice: a", "X-Twice: b"])
        self.assertIn("Set-Cookie: c=d", head)
        self.assertEqual(len([line for line in head if line.lower().startswith("content-")]), 2)
        self.assertNotIn("keep-alive", data.split("\r\n\r\n")[0].lower())

    def test_answers_without_a_body(self):
        caller = self.start()
        answer = caller.call("GET", self.base + "/nothing")
        self.assertEqual((answer.status, answer.data, answer.headers["X-A"]), (204, b"", "b"))
        answer = caller.call("GET", self.base + "/unmodified")
        self.assertEqual((answer.status, answer.data, answer.headers["ETag"]), (304, b"", '"1"'))

    def test_redirects_are_the_clients(self):
        answer = self.start().call("GET", self.base + "/moved")
        self.assertEqual((answer.status, answer.headers["Location"]),
                         (302, "http://127.0.0.1:1/elsewhere"))

    def test_bodies_with_a_length_and_in_chunks(self):
        caller = self.start()
        for size in (0, 1, 65536, 3 * MIB + 7):
            answer = caller.call("POST", self.base + "/x", b"x" * size)
            self.assertEqual(answer.json["size"], size)
        pieces = (b"y" * n for n in (1, 100000, 3, 2 * MIB))
        caller.connection.request("PUT", self.base + "/x", pieces, encode_chunked=True,
                                  headers={"Transfer-Encoding": "chunked"})
        answer = json.loads(caller.connection.getresponse().read())
        self.assertEqual(answer["size"], 100004 + 2 * MIB)
        self.assertIn(["Transfer-Encoding", "chunked"], answer["headers"])

    def test_one_connection_for_many(self):
        caller = self.start()
        for i in range(50):
            self.assertEqual(caller.call("POST", self.base + f"/{i}", b"x" * i).json["size"], i)

    def test_with_continue(self):
        self.start()
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            s.sendall(f"POST {self.base}/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
                      "Expect: 100-continue\r\nConnection: close\r\n\r\n".encode())
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
            s.sendall(b"abc")
            self.assertIn(b'"size": 3', s.makefile("rb").read())
        self.assertNotIn("expect", self.up.seen[-1].names)


class TestWhoGetsIn(ProxyCase):
    def test_by_address_key_or_token(self):
        caller = self.start()
        self.assertEqual(caller.call("GET", self.base + "/x").status, 200)
        self.assertEqual(caller.call("GET", "/s/a/x").status, 404)
        self.assertEqual(caller.call("GET", "/s/a/x", headers={"X-API-Key": KEY}).status, 200)
        token = self.up.seen[-1].names["authorization"]
        self.assertEqual(self.up.seen[-1].path, "/x")
        self.assertEqual(caller.call("GET", "/s/a/y", headers={"Authorization": token}).status, 200)
        self.assertEqual(self.up.seen[-1].path, "/y")

    def test_everybody_else_gets_the_same_answer(self):
        caller = self.start()
        self.assertOk(self.caller().create("b"))
        other = self.url_of("b").rsplit("/", 1)[1]
        cap = self.base.rsplit("/", 1)[1]
        wrong = [f"/s/a/{other}/x", f"/s/a/{cap[:-1]}/x", f"/s/a/{cap[:-1]}0/x", f"/s/a/{cap}0/x",
                 f"/s/a/{cap.upper()}/x", f"/s/nobody/{cap}/x", f"/s/b/{cap}/x", "/s/a", "/s/a/",
                 f"/s/%61/{cap}/x", "/s//x", "/s/", f"/%73/a/{cap}/x", f"/s/../s/a/{cap}/x"]
        first = None
        for target in wrong:
            if f"/s/a/{cap[:-1]}0/x" == target and cap.endswith("0"):
                continue
            answer = caller.call("GET", target)
            headers = {k: v for k, v in answer.headers.items()}
            first = first or (answer.status, answer.text, headers)
            self.assertEqual((answer.status, answer.text, headers), first, target)
        self.assertEqual(first[:2], (404, '{"detail":"Not Found"}'))
        for headers in ({"X-API-Key": KEY + "x"}, {"Authorization": "Bearer x"},
                        {"Authorization": f"Bearer {cap}"}, {"X-API-Key": cap}):
            self.assertEqual(caller.call("GET", "/s/a/x", headers=headers).status, 404)
        self.assertEqual(self.up.seen, [])

    def test_not_after_its_end_and_not_of_others(self):
        caller = self.start()
        native = self.client(self.server)
        lease = self.assertOk(native.acquire("theirs"))
        for headers in ({"X-API-Key": KEY}, {"Authorization": f"Bearer {lease['token']}"}):
            self.assertEqual(caller.call("GET", f"/s/{lease['sandbox_id']}/x",
                                         headers=headers).status, 404)
        self.assertOk(self.caller().delete("a"))
        self.assertEqual(caller.call("GET", self.base + "/x").status, 404)
        self.assertOk(self.caller().create("a"))
        self.assertEqual(caller.call("GET", self.base + "/x").status, 404)  # another box
        self.assertEqual(caller.call("GET", self.url_of("a") + "/x").status, 200)

    def test_the_address_outlives_the_daemon(self):
        self.start()
        self.server.kill()
        self.server.start()
        self.assertEqual(self.caller().get("a").json, self.box)
        self.assertEqual(self.caller(key="").call("GET", self.base + "/x").status, 200)

    def test_the_token_is_told_to_nobody(self):
        caller = self.start(log={"level": "debug"})
        caller.call("GET", self.base + "/x")
        token = self.up.seen[-1].names["authorization"].split()[1]
        for target in ("/api/sandboxes", "/api/sandboxes/a"):
            self.assertNotIn(token, self.caller().call("GET", target).text)
        log = self.server.process.output()
        self.assertNotIn(token, log)
        self.assertNotIn(self.base.rsplit("/", 1)[1], log)
        self.assertNotIn(KEY, log)


class TestUnwatched(ProxyCase):
    def absent(self, sandbox_id):
        answer = self.caller().get(sandbox_id)
        return answer if answer.status == 404 else None

    def test_a_get_asks_the_backend(self):
        """Whose boxes die without a word."""
        self.start(profile={"check_after_s": 3600})
        self.assertEqual(self.caller().get("a").json, self.box)
        self.up.boxes.clear()
        # it is asked itself, three times, before it counts as gone
        answer = wait_until(lambda: self.absent("a"), "the box is known to be gone")
        self.assertEqual(answer.json, {"detail": "Sandbox 'a' not found"})
        self.assertNotEqual(self.assertOk(self.caller().create("a"))["container_id"],
                            self.box["container_id"])
        self.up.stop_listening()
        self.assertEqual(self.caller().get("a").json["status"], "Running")  # unknown is not dead


class TestHostile(ProxyCase):
    def head(self, text):
        return self.raw(text.encode("latin-1"))

    def test_requests_that_two_would_read_differently(self):
        self.start()
        end = "\r\nHost: x\r\nConnection: close\r\n"
        for text in (
                f"POST {self.base}/x HTTP/1.1{end}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                f"POST {self.base}/x HTTP/1.1{end}Content-Length: 5\r\n"
                "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                f"POST {self.base}/x HTTP/1.1{end}Transfer-Encoding: chunked, chunked\r\n\r\n"
                "0\r\n\r\n",
                f"POST {self.base}/x HTTP/1.1{end}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
                f"GET {self.base}/a b HTTP/1.1{end}\r\n",
                f"GET {self.base}/x\tHTTP/1.1{end}\r\n",
                f"GET {self.base}/x HTTP/1.1{end}X-A: b\r\n c\r\n\r\n",
                f"GET {self.base}/x HTTP/1.1{end}X-A: b\x00c\r\n\r\n",
                f"GET {self.base}/x#y HTTP/1.1{end}\r\n",
                f"CONNECT 127.0.0.1:{self.up.port} HTTP/1.1{end}\r\n",
                f"GET {self.base}/\xe4 HTTP/1.1{end}\r\n"):
            answer = self.head(text)
            self.assertIn(answer[9:12], (b"400", b"404", b"501", b"405"), (text, answer[:200]))
        self.assertEqual(self.up.seen, [])

    def test_a_rest_with_line_ends_in_disguise(self):
        caller = self.start()
        answer = caller.call("GET", self.base + "/a%0d%0aX-Evil:%20b")
        self.assertEqual(answer.json["line"].split()[1].rsplit("/", 1)[1], "a%0d%0aX-Evil:%20b")
        self.assertNotIn("x-evil", self.up.seen[-1].names)

    def test_absolute_form_stays_here(self):
        self.start()
        answer = self.head(f"GET http://evil.example{self.base}/x HTTP/1.1\r\nHost: evil.example\r\n"
                           "Connection: close\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
        self.assertEqual(self.up.seen[-1].names["host"], f"127.0.0.1:{self.up.port}")

    def test_upgrade(self):
        self.start()
        answer = self.head(f"GET {self.base}/x HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                           "Connection: Upgrade\r\n\r\n" + "GET /health HTTP/1.1\r\nHost: x\r\n"
                           "Connection: close\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)  # it did not want to; test_tunnel.py has more
        self.assertEqual([call.path for call in self.up.seen], ["/x"])

    def test_boxes_that_misbehave(self):
        caller = self.start()
        for path in ("/die", "/junk"):
            answer = caller.call("GET", self.base + path)
            self.assertEqual(answer.status, 502, (path, answer))
            self.assertIn("The sandbox did not answer", answer.json["detail"])
        for path in ("/half", "/broken_chunks"):
            try:  # the head may have been passed on already, or not
                self.assertEqual(caller.call("GET", self.base + path).status, 502, path)
            except http.client.HTTPException:
                pass
        try:
            answer = caller.call("POST", self.base + "/early", b"x" * (8 * MIB))
            self.assertEqual((answer.status, answer.data), (413, b"too much"))
        except (BrokenPipeError, ConnectionResetError):
            pass  # whoever still sends when the connection is closed does not see the answer
        self.assertEqual(self.caller(key="").call("GET", self.base + "/x").status, 200)

    def test_a_box_that_is_not_there(self):
        caller = self.start()
        self.up.stop_listening()
        answer = caller.call("POST", self.base + "/x", b"x")
        self.assertEqual((answer.status, answer.json), (502, {
            "detail": "The sandbox cannot be reached"}))


class TestLimits(ProxyCase):
    def test_for_a_box_and_in_all(self):
        caller = self.start({"max_requests_per_box": 3, "max_requests": 5})
        self.assertOk(self.caller().create("b"))
        answers = []

        def ask(base):
            return self.meanwhile(lambda c: answers.append(
                c.call("GET", base + "/wait", headers={"X-API-Key": ""}).status))
        threads = [ask(self.base) for _ in range(3)]
        wait_until(lambda: len(self.up.seen) == 3, "three wait")
        answer = caller.call("GET", self.base + "/x")
        self.assertEqual((answer.status, answer.json, answer.headers["Retry-After"]),
                         (429, {"detail": "Too many requests to this sandbox"}, "1"))
        other = self.url_of("b")
        threads += [ask(other) for _ in range(2)]
        wait_until(lambda: len(self.up.seen) == 5, "five wait")
        answer = caller.call("GET", other + "/x")
        self.assertEqual((answer.status, answer.json, answer.headers["Retry-After"]),
                         (503, {"detail": "Too many requests are being passed on"}, "1"))
        self.up.go.set()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [200] * 5)
        self.assertEqual(caller.call("GET", self.base + "/x").status, 200)

    def test_standing_still(self):
        caller = self.start({"request_idle_s": 1})
        answer = caller.call("GET", self.base + "/wait")
        self.assertEqual((answer.status, answer.json), (504, {
            "detail": "The sandbox did not answer in time"}))
        wait_until(lambda: self.up.ended, "the box is told")
        with self.assertRaises(http.client.HTTPException):
            caller.call("GET", self.base + "/events")  # half of an answer

    def test_many_at_once(self):
        self.start()

        def ask(i):
            def work(caller):
                sizes = [caller.call("POST", f"{self.base}/{i}", b"x" * (i * 1000 + k),
                                     headers={"X-API-Key": ""}).json["size"] for k in range(10)]
                return sizes == [i * 1000 + k for k in range(10)]
            return self.once(work)
        self.assertEqual(in_threads(40, ask), [True] * 40)


class TestStreams(ProxyCase):
    def test_events_come_at_once(self):
        caller = self.start()
        caller.connection.request("GET", self.base + "/events")
        response = caller.connection.getresponse()
        self.assertEqual(response.getheader("Content-Type"), "text/event-stream")
        self.assertEqual(response.read1(100), b"data: one\n\n")
        self.up.go.set()
        self.assertEqual(response.read(), b"data: two\n\n")

    def test_a_request_that_runs_is_activity(self):
        caller = self.start({"idle_timeout_s": 1})
        caller.connection.request("GET", self.base + "/wait")
        wait_until(lambda: self.up.seen, "it runs")
        time.sleep(2.5)
        self.assertEqual(self.leased()["state"], "leased")
        self.up.go.set()
        self.assertEqual(caller.connection.getresponse().read(), b"at last")
        wait_until(lambda: self.caller().get("a").status == 404, "then it is idle")

    def test_a_client_that_goes_away(self):
        caller = self.start()
        caller.connection.request("GET", self.base + "/wait")
        wait_until(lambda: self.up.seen, "it runs")
        caller.close()
        wait_until(lambda: ("/wait", 0) in self.up.ended, "the box is told")
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            s.sendall(f"POST {self.base}/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nsome"
                      .encode())
            wait_until(lambda: len(self.up.seen) == 2, "it runs")
        wait_until(lambda: len(self.up.ended) == 2, "the box is told")
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            s.sendall(f"GET {self.base}/big?{1 << 30} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            s.recv(65536)
        wait_until(lambda: len(self.up.ended) == 3, "the box is told")

    def test_much_both_ways_in_little_memory(self):
        caller = self.start()
        caller.call("POST", self.base + "/x", b"x" * MIB)
        caller.call("GET", self.base + f"/big?{MIB}")
        before = self.memory()
        size = int(512 * MIB / SLOW)
        peak = []
        watching = threading.Event()

        def watch():
            while not watching.wait(0.05):
                peak.append(self.memory())
        thread = threading.Thread(target=watch)
        thread.start()
        begun = time.monotonic()
        caller.connection.request("GET", self.base + f"/big?{size}")
        response = caller.connection.getresponse()
        have = 0
        while True:
            piece = response.read(MIB)
            if not piece:
                break
            have += len(piece)
        down = time.monotonic() - begun
        self.assertEqual(have, size)
        begun = time.monotonic()
        pieces = (CHUNK for _ in range(size // len(CHUNK)))
        caller.connection.request("POST", self.base + "/x", pieces,
                                  {"Content-Length": str(size // len(CHUNK) * len(CHUNK))})
        answer = json.loads(caller.connection.getresponse().read())
        up = time.monotonic() - begun
        watching.set()
        thread.join()
        self.assertEqual(answer["size"], size // len(CHUNK) * len(CHUNK))
        print(f"{size // MIB} MiB: down {down:.1f} s, up {up:.1f} s, "
              f"memory {before // 1024} -> {max(peak) // 1024} KiB")
        self.assertFlat(max(peak) - before, 16 * MIB)

    def test_a_slow_reader_slows_the_box(self):
        caller = self.start()
        before = self.memory()
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            s.sendall(f"GET {self.base}/big?{1 << 30} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            self.assertTrue(s.recv(1000))
            moved = -1
            while moved != self.up.moved:  # until nothing moves any more
                moved = self.up.moved
                time.sleep(0.5)
            self.assertLess(moved, 64 * MIB)
            self.assertFlat(self.memory() - before, 8 * MIB)
            for _ in range(200):
                self.assertTrue(s.recv(MIB))
            wait_until(lambda: self.up.moved > moved, "it goes on")
            self.assertEqual(caller.call("GET", self.base + "/x").status, 200)  # others are served

    def test_a_slow_box_slows_the_writer(self):
        self.start()
        before = self.memory()
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            s.sendall(f"POST {self.base}/stuck HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                      f"Content-Length: {256 * MIB}\r\n\r\n".encode())
            s.settimeout(1)
            sent = 0
            try:
                while sent < 256 * MIB:
                    sent += s.send(CHUNK)
            except TimeoutError:
                pass
            self.assertLess(sent, 64 * MIB)
            self.assertFlat(self.memory() - before, 8 * MIB)
            self.up.go.set()
            s.settimeout(60)
            while sent < 256 * MIB:
                sent += s.send(CHUNK[:256 * MIB - sent])
            self.assertIn(f'"size": {256 * MIB}'.encode(), s.makefile("rb").read())

    def test_a_stop_ends_what_runs(self):
        caller = self.start()
        caller.connection.request("GET", self.base + "/wait")
        wait_until(lambda: self.up.seen, "it runs")
        self.server.stop()
        wait_until(lambda: self.up.ended, "the box is told")

    def test_nothing_stays(self):
        caller = self.start()
        for _ in range(20):
            caller.call("GET", self.base + "/die")
            caller.call("POST", self.base + "/x", b"x" * 100000)
        self.assertEqual(self.caller().get("a").status, 200)
        fds = len(list(pathlib.Path(f"/proc/{self.server.process.pid}/fd").iterdir()))
        for _ in range(100):
            caller.call("GET", self.base + "/die")
            caller.call("POST", self.base + "/x", b"x" * 100000)
        wait_until(lambda: len(list(pathlib.Path(
            f"/proc/{self.server.process.pid}/fd").iterdir())) <= fds + 3, "descriptors are closed")


if __name__ == "__main__":
    main()
