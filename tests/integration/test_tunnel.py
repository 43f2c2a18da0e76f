"""Upgrades through the daemon, to a box that notes every byte: what reaches it, bytes both ways, and boxes that answer
something else to see the client's next request."""

import contextlib
import json
import socket
import threading

from fixtures import SLOW, WAIT_S, main, receive, wait_until
from provisioner import KEY
from proxy_case import ProxyCase

MIB = 1024 * 1024
OPEN = (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, X-Hop\r\nUpgrade: echo\r\nX-Hop: 1\r\nX-Mine: 2\r\n"
        b"Authorization: Bearer x\r\n\r\n")
NEXT = b"GET /secret HTTP/1.1\r\nAuthorization: Bearer next-secret\r\n\r\n"


def echo(connection):
    """A box that upgrades, and says everything again."""
    connection.sendall(OPEN)
    while True:
        data = connection.recv(65536)
        if not data:
            break
        connection.sendall(data)
    connection.sendall(b"(end)")


class Tunnel(ProxyCase):
    def ask(self, path="/raw", more="", early=b"", method="GET"):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        self.addCleanup(s.close)
        s.sendall(f"{method} {self.base}{path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, X-Named\r\nUpgrade: echo\r\n"
                  f"X-Named: 1\r\n{more}\r\n".encode() + early)
        return s

    def head(self, s):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = s.recv(1)
            if not piece:
                break
            head += piece
        return head.decode()

    def refused(self, raw, early=NEXT):
        """What a client gets; the box must see nothing but the one request."""
        after = []

        def act(connection):
            connection.sendall(raw)
            connection.settimeout(WAIT_S)
            try:
                after.append(receive(connection))
            except OSError:
                after.append(b"")
        self.up.raw = act
        s = self.ask(early=early)
        answer = receive(s)
        wait_until(lambda: after, "the box sees the end")
        self.assertEqual(after, [b""])
        return answer

    def test_both_ways(self):
        self.start()
        self.up.raw = echo
        s = self.ask(more="Authorization: Bearer of-the-client\r\nX-API-Key: k\r\nX-AIO-API-Key: k\r\nCookie: a=b\r\n"
                          "Sec-WebSocket-Key: abc\r\n", early=b"early")
        head = self.head(s)
        self.assertTrue(head.startswith("HTTP/1.1 101 Switching Protocols\r\n"), head)
        self.assertIn("Upgrade: echo\r\n", head)
        self.assertIn("X-Mine: 2\r\n", head)
        self.assertIn("Connection: Upgrade\r\n", head)
        self.assertNotIn("X-Hop", head)
        self.assertEqual(receive(s, 5), b"early")
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        self.assertEqual(receive(s, 18), b"GET / HTTP/1.1\r\n\r\n")
        s.shutdown(socket.SHUT_WR)
        self.assertEqual(receive(s), b"(end)")
        names = self.up.seen[-1].names
        self.assertTrue(names.pop("authorization").startswith("Bearer "))
        self.assertNotIn("of-the-client", self.up.seen[-1].head.decode())
        self.assertEqual(names, {"host": f"127.0.0.1:{self.up.port}", "cookie": "a=b", "sec-websocket-key": "abc",
                                 "connection": "Upgrade", "upgrade": "echo"})
        self.assertEqual(self.up.seen[-1].path, "/raw")

    def test_much_in_both_directions_at_once(self):
        self.start()
        self.up.raw = echo
        size = 24 * MIB
        s = self.ask()
        self.head(s)
        before = self.memory()
        sender = threading.Thread(target=lambda: (s.sendall(b"x" * size), s.shutdown(socket.SHUT_WR)))
        sender.start()
        got = 0
        while True:
            data = s.recv(MIB)
            if not data:
                break
            got += len(data)
        sender.join(WAIT_S)
        self.assertEqual(got, size + 5)
        self.assertFlat(self.memory() - before, 8 * MIB)

    def test_a_client_that_never_reads(self):
        self.start()
        stopped = threading.Event()

        def flood(connection):
            connection.sendall(OPEN)
            connection.settimeout(1)
            try:
                while True:
                    connection.sendall(b"x" * 65536)
            except OSError:
                stopped.set()
        self.up.raw = flood
        s = self.ask()
        self.head(s)
        before = self.memory()
        self.assertTrue(stopped.wait(WAIT_S), "the box is slowed")
        self.assertFlat(self.memory() - before, 8 * MIB)

    def test_answers_that_open_nothing(self):
        self.start()
        for raw, want, body in (
                (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" + NEXT, b"200", b"hi"),
                (b"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n4;x=y\r\n one\r\n0\r\nT: 1\r\n\r\n", b"400", b"bad one"),
                (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", b"404", b""),
                (b"HTTP/1.1 204 No\r\nUpgrade: echo\r\n\r\n", b"204", b"")):
            answer = self.refused(raw)
            head, _, rest = answer.partition(b"\r\n\r\n")
            self.assertIn(b" " + want + b" ", head.split(b"\r\n")[0], answer)
            self.assertIn(b"Connection: close", head)
            self.assertEqual(rest, body)
        self.up.raw = lambda connection: connection.sendall(b"HTTP/1.0 403 No\r\n\r\nuntil the end")
        answer = receive(self.ask(early=NEXT))
        self.assertTrue(answer.endswith(b"\r\n\r\nuntil the end"), answer)
        self.assertEqual([call.path for call in self.up.seen if call.path != "/raw"], [])

    def test_what_is_no_answer(self):
        self.start()
        for raw in (b"HTTP/1.1 101 X\r\n\r\n", b"HTTP/2 200 OK\r\n\r\n", b"HTTP/1.1 200\r\nA b: c\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", b"junk\r\n\r\n", b"HTTP/1.1 2x0 OK\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
                    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
                    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 5000):
            answer = self.refused(raw)
            self.assertTrue(answer.startswith(b"HTTP/1.1 502"), (raw[:50], answer))
        self.up.raw = lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        self.assertTrue(receive(self.ask()).startswith(b"HTTP/1.1 502"))
        self.up.raw = lambda connection: None
        self.assertTrue(receive(self.ask()).startswith(b"HTTP/1.1 502"))

    def test_what_is_no_upgrade(self):
        """A request that asks for none, or for HTTP/2, is one like others."""
        self.start()
        s = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        self.addCleanup(s.close)
        for lines in ("Upgrade: websocket\r\n", "Connection: Upgrade\r\n", "Connection: Upgrade\r\nUpgrade: h2c\r\n",
                      "Connection: Upgrade\r\nUpgrade: echo\r\nContent-Length: 1\r\n"):
            s.sendall(f"GET {self.base}/x HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode() +
                      (b"x" if "Length" in lines else b""))
            head = self.head(s)
            self.assertTrue(head.startswith("HTTP/1.1 200"), (lines, head))
            receive(s, int(head.lower().split("content-length: ")[1].split("\r")[0]))
            self.assertNotIn("upgrade", self.up.seen[-1].names)
            self.assertNotIn("connection", self.up.seen[-1].names)
        for method in ("TRACE", "CONNECT"):
            self.assertIn(" 405 ", self.head(self.ask(method=method)))

    def test_limits_and_silence(self):
        self.start({"max_requests_per_box": 1, "request_idle_s": 2})
        self.up.raw = echo
        s = self.ask()
        self.assertIn(" 101 ", self.head(s))
        self.assertIn(" 429 ", self.head(self.ask()))
        self.assertEqual(receive(s), b"")  # silence
        wait_until(lambda: " 101 " in self.head(self.ask()), "it counts no more")

    def test_a_box_that_does_not_answer(self):
        self.start({"request_idle_s": 2})
        done = threading.Event()
        self.up.raw = lambda connection: done.wait(WAIT_S)
        self.assertIn(" 504 ", self.head(self.ask()))
        done.set()
        self.up.stop_listening()
        self.assertIn(" 502 ", self.head(self.ask()))

    def test_a_client_that_goes_and_a_box_that_breaks(self):
        self.start()
        ends = []

        def note(connection):
            connection.sendall(OPEN)
            try:
                ends.append(receive(connection))
            except OSError:
                ends.append(b"")
        self.up.raw = note
        s = self.ask()
        self.head(s)
        s.close()
        wait_until(lambda: ends == [b""], "the box sees it")

        def reset(connection):
            connection.sendall(OPEN + b"x")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.shutdown(socket.SHUT_RD)
        self.up.raw = reset
        s = self.ask()
        self.head(s)
        try:
            self.assertIn(receive(s), (b"", b"x"))
        except ConnectionResetError:
            pass

    def opened(self, path="/raw", more=""):
        s = self.ask(path, more)
        self.assertIn(" 101 ", self.head(s))
        return s

    def assertClosed(self, s):
        with contextlib.suppress(ConnectionResetError):
            self.assertEqual(receive(s), b"")

    def test_the_end_of_the_lease_ends_it(self):
        """The box says nothing, and does not hang up."""
        self.start()
        self.up.raw = echo
        by_release, api = self.opened(), self.client(self.server)
        self.assertOk(api.release("a"))
        self.assertClosed(by_release)
        held = self.opened()  # it is leased again by its use
        held.sendall(b"x")
        self.assertEqual(receive(held, 1), b"x")
        self.up.may_delete.clear()
        remover = threading.Thread(target=lambda: api.delete("/v1/sandboxes/a"))
        remover.start()
        self.assertClosed(held)
        self.up.may_delete.set()
        remover.join(WAIT_S)

    def test_a_new_key_ends_it(self):
        """Who has the box's address needs no key."""
        self.start()
        self.up.raw = echo
        by_address = self.opened()
        self.base = "/s/a"
        by_key = self.opened(more=f"X-API-Key: {KEY}\r\n")
        config = json.loads(self.server.config.read_text())
        config["provisioner"]["api_key"] = "another-key-of-the-tests"
        self.server.write_config(config)
        self.assertOk(self.client(self.server).post("/v1/pool/reload"))
        self.assertClosed(by_key)
        by_address.sendall(b"still")
        self.assertEqual(receive(by_address, 5), b"still")

    def test_it_is_use_of_the_box(self):
        self.start({"idle_timeout_s": 1})
        self.up.raw = echo
        s = self.ask()
        self.head(s)
        threading.Event().wait(2.5 * SLOW)
        s.sendall(b"still")
        self.assertEqual(receive(s, 5), b"still")
        self.assertEqual(self.leased()["state"], "leased")
        s.close()


if __name__ == "__main__":
    main()
