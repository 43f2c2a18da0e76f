"""The proxy of the provisioner between ends that mean harm: boxes whose answers are no answers, and what
their clients are answered; clients that leave at any moment."""

import gzip
import http.client
import json
import random
import socket
import time

from fixtures import at_most, main, wait_until
from proxy_case import ProxyCase

OK = b"HTTP/1.1 200 OK\r\n"
SECOND = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"


def chunked(data):
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)


def repeat(begin, piece):
    """Sends `piece` until the other end has had enough."""
    def send(connection):
        connection.sendall(begin)
        while True:
            connection.sendall(piece)
    return send


class TestBoxes(ProxyCase):
    def ask(self, raw, method="GET"):
        """All that a client gets that asks a second thing behind what the box answers with `raw`."""
        self.up.raw = raw
        return self.raw(f"{method} {self.base}/raw HTTP/1.1\r\nHost: x\r\n\r\n"
                        "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())

    def test_no_box_answers_for_another(self):
        """A client has one connection for all its boxes."""
        self.start()
        hello = b"hello" + SECOND
        for raw in (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + chunked(hello),
                    OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(hello)):
            answer = self.ask(raw)
            self.assertIn(b"\r\n%x\r\n%s\r\n0\r\n\r\nHTTP/1.1 200" % (len(hello), hello), answer)
            self.assertNotIn(b"Content-Length: 5", answer)
        for raw in (OK + b"Content-Length: 5\r\n\r\n" + hello,
                    OK + b"Content-Length: 50\r\nContent-Length: 5\r\n\r\n" + hello,
                    OK + b"Content-Length: 5, 50\r\n\r\n" + hello,
                    b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n" + hello,
                    b"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(hello)):
            answer = self.ask(raw)
            self.assertNotIn(b"EVIL", answer)
            self.assertTrue(answer.endswith(b'{"status":"ok"}'), answer)
        self.assertNotIn(b"EVIL", self.ask(OK + b"Content-Length: 5\r\n\r\n" + hello, "HEAD"))

    def test_a_length_that_means_nothing(self):
        caller = self.start()
        self.up.raw = OK + b"Transfer-Encoding: chunked\r\nContent-Length: 50\r\n\r\n" + chunked(b"short")
        self.assertEqual(caller.call("GET", self.base + "/raw").data, b"short")

    def test_what_is_no_answer(self):
        self.start()
        for raw in (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n" + SECOND,
                    b"HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n",
                    b"HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n",
                    b"HTTP/3 200\r\nContent-Length: 0\r\n\r\n",
                    OK + b"X: a\x00b\r\nContent-Length: 0\r\n\r\n",
                    OK + b"Content-Length: -5\r\n\r\nhello",
                    OK + b"Transfer-Encoding: x\r\n\r\nhello",
                    OK + b"a:\r\n" * 15000 + b"Content-Length: 0\r\n\r\n",  # takes long to look through
                    OK + b"Connection: abcdefghijklm\r\n" * 120 + b"Content-Length: 0\r\n\r\n",
                    OK + b"a: b\r\n" * 15000 + b"Content-Length: 0\r\n\r\n"):
            begun = time.monotonic()
            answer = self.ask(raw)
            self.assertTrue(answer.startswith(b"HTTP/1.1 502"), (raw[:60], answer))
            self.assertTrue(answer.endswith(b'{"status":"ok"}'), answer)
            self.assertLess(time.monotonic() - begun, at_most(5))

    def test_a_folded_line_before_any_other(self):
        """libcurl would look for the one before it in what is left of another answer."""
        caller = self.start()
        for _ in range(10):
            self.up.raw = OK + b"X: y\r\nContent-Length: 2\r\n\r\nhi"
            self.assertEqual(caller.call("GET", self.base + "/raw").data, b"hi")
            self.up.raw = OK + b" folded\r\nContent-Length: 2\r\n\r\nhi"
            self.assertIn(caller.call("GET", self.base + "/raw").status, (200, 502))

    def test_without_end(self):
        self.start()
        before = self.memory()
        for raw in (repeat(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
                    repeat(OK, b"X: y\r\n" * 100),
                    repeat(b"HTTP/1.1 200 ", b"x" * 10000)):
            answer = self.ask(raw)
            self.assertTrue(answer.startswith(b"HTTP/1.1 502"), answer)
        answer = self.ask(repeat(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 100))
        is_cut = b"chunked" in answer and not answer.endswith(b"0\r\n\r\n")  # its head had passed already
        self.assertTrue(answer.startswith(b"HTTP/1.1 502") or is_cut, answer)
        self.assertFlat(self.memory() - before, 8 * 1024 * 1024)

    def test_bombs(self):
        """Nobody asks for compressed transfers, and libcurl unpacks them all the same."""
        self.start()
        before = self.memory()
        bomb = gzip.compress(bytes(64 << 20))
        for coding, body in ((b"gzip", bomb), (b"gzip, chunked", chunked(bomb)),
                             (b"gzip, gzip", gzip.compress(bomb))):
            answer = self.ask(OK + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + body)
            self.assertTrue(answer.startswith(b"HTTP/1.1 502"), answer)
        self.assertFlat(self.memory() - before, 16 * 1024 * 1024)


class TestProvisioners(ProxyCase):
    """Where the daemon gets its boxes from."""

    def listed(self, ids, status):
        boxes = list(self.up.boxes.values()) + [
            {"sandbox_id": i, "status": status, "sandbox_url": "http://a"} for i in ids]
        self.up.listing = json.dumps({"sandboxes": boxes, "count": len(boxes)}).encode()
        for _ in range(2):
            begun = time.monotonic()
            self.assertOk(self.client(self.server).post("/v1/pool/reconcile"))
            self.assertLess(time.monotonic() - begun, at_most(10))
        self.assertEqual(self.caller().get("a").json["status"], "Running")

    def test_that_list_without_measure(self):
        self.start()
        ours = next(iter(self.up.boxes))
        self.listed((f"a{i}" for i in range(40000)), "Running")
        self.listed((f"a{i}" for i in range(300000)), "Running")
        self.listed([ours] * 40000, "Running")
        self.listed((f"{ours[:12]}{i:016x}" for i in range(1, 20000)), "Failed")
        wait_until(lambda: self.up.deleted, "some are deleted")
        self.assertLess(self.up.deleted, 100)


class TestClients(ProxyCase):
    def test_that_want_the_token(self):
        self.start()
        for method in ("TRACE", "CONNECT"):
            answer = self.raw(f"{method} {self.base}/x HTTP/1.1\r\nHost: x\r\n"
                              "Connection: close\r\n\r\n".encode())
            self.assertTrue(answer.startswith(b"HTTP/1.1 405"), answer)
        self.assertEqual(self.up.seen, [])

    def test_that_leave_at_any_moment(self):
        """Whatever was under way, in the end nothing is: the box is idle again, and then expires."""
        self.start({"idle_timeout_s": 2, "max_requests_per_box": 1000})
        chance = random.Random(11)
        for _ in range(200):
            path = chance.choice(("/x", "/wait", "/big?3000000", "/events", "/stuck", "/half", "/die"))
            size = chance.choice((0, 0, 10, 300000))
            text = (f"POST {self.base}{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
                    .encode() + b"x" * size)
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
                if chance.random() < 0.3:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes((1, 0, 0, 0, 0, 0, 0, 0)))
                s.settimeout(chance.choice((0.001, 0.01, 0.03)))
                try:
                    s.sendall(text[:chance.randrange(len(text) + 1)])
                    s.recv(chance.choice((1, 100, 100000)))
                except OSError:
                    pass  # that is the point
        wait_until(lambda: self.caller().get("a").status == 404, "nobody is busy with it")

    def ask(self, s, base, path="/x"):
        """The status of a request by this address; 0 when the connection was closed."""
        s.sendall(f"GET {base}{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return self.status(s)

    @staticmethod
    def status(s):
        response = http.client.HTTPResponse(s)
        try:
            response.begin()
            response.read()
        except ConnectionError:
            return 0
        return response.status

    def dial(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(s.close)
        return s

    def test_that_keep_connections_keep_nobody_out(self):
        """Addresses of boxes are lent to programs in them and beside them: neither one nor many of them can close the
        listener for whoever has the key, or for another box."""
        self.start({"max_connections": 40})
        patient = self.dial()
        patient.sendall(f"GET {self.base}/wait HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        wait_until(lambda: self.up.seen, "one request is under way")
        known = self.caller()
        self.assertOk(known.create("b"))
        other = self.url_of("b")
        for _ in range(60):
            self.assertEqual(self.ask(self.dial(), self.base), 200)
        self.assertOk(self.caller().get("a"))
        self.assertEqual(self.ask(self.dial(), other), 200)
        bases = [self.base]
        for name in "cdefgh":
            self.assertOk(self.caller().create(name))
            bases.append(self.url_of(name))
        for base in bases * 10:
            self.ask(self.dial(), base)
        first = self.dial()
        self.assertEqual(self.ask(first, other), 200)
        for base in bases * 2:  # all have more connections than this one, which stays
            self.ask(self.dial(), base)
        self.assertEqual(self.ask(first, other), 200)
        self.assertOk(self.caller().get("a"))
        self.assertOk(known.get("a"))  # never closed
        self.up.go.set()
        self.assertEqual(self.status(patient), 200)  # nor is one with a request under way


if __name__ == "__main__":
    main()
