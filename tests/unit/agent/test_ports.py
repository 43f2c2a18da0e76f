"""/v1/agent/ports and CONNECT: servers inside the box, through the agent."""

import contextlib
import socket
import threading

from agent_client import IS_SANITIZED, TOKEN, WAIT_S, AgentTest, main, receive, wait_until


class Ports(AgentTest):
    def assertFlat(self, before, kb):
        if not IS_SANITIZED:  # a sanitizer keeps what is freed
            self.assertLess(self.memory_kb() - before, kb)

    def listen(self, address="127.0.0.1", family=socket.AF_INET):
        server = socket.create_server((address, 0), family=family)
        server.settimeout(WAIT_S)
        self.addCleanup(server.close)
        return server, server.getsockname()[1]

    def tunnel(self, port, host="127.0.0.1", token=TOKEN, more="", early=b""):
        """The connection, and the head of the answer."""
        c = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        self.addCleanup(c.close)
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        c.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: x\r\n{authorization}{more}\r\n".encode() + early)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = c.recv(1)
            if not piece:
                break
            head += piece
        return c, head.decode()

    def test_list(self):
        _, four = self.listen()
        _, six = self.listen("::1", socket.AF_INET6)

        def all_ports():
            """Processes of this machine with thousands of open files are in the way of what the agent looks at."""
            ports = self.get("/v1/agent/ports").json["ports"]
            return ports if {p["port"]: p for p in ports}[self.port]["pid"] is not None else None
        ports = wait_until(all_ports, "it is found who listens")
        found = {p["port"]: p for p in ports}
        self.assertEqual(found[four]["address"], "127.0.0.1")
        self.assertEqual(found[six]["address"], "::1")
        self.assertEqual(found[self.port]["command"], "sandpool-agent")
        self.assertEqual(found[self.port]["pid"], self.agent.pid)
        self.assertEqual([p["port"] for p in ports], sorted(p["port"] for p in ports))
        self.assertEqual(self.get("/v1/agent/ports", token=None).status, 401)

    def test_both_ways_and_half_close(self):
        server, port = self.listen()
        client, head = self.tunnel(port, early=b"early")
        self.assertTrue(head.startswith("HTTP/1.1 200 OK\r\n"), head)
        there, _ = server.accept()
        self.addCleanup(there.close)
        there.settimeout(WAIT_S)
        self.assertEqual(receive(there, size=5), b"early")
        client.sendall(b"request")
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(receive(there), b"request")
        there.sendall(b"answer" * 100000)
        there.close()
        self.assertEqual(receive(client), b"answer" * 100000)

    def test_server_that_speaks_and_ends_first(self):
        server, port = self.listen("::1", socket.AF_INET6)
        client, head = self.tunnel(port, host="localhost")
        there, _ = server.accept()
        there.settimeout(WAIT_S)
        there.sendall(b"hello")
        there.shutdown(socket.SHUT_WR)
        self.assertEqual(receive(client), b"hello")
        client.sendall(b"bye")
        client.close()
        self.assertEqual(receive(there), b"bye")
        there.close()

    def test_server_that_breaks(self):
        server, port = self.listen()
        client, _ = self.tunnel(port)
        there, _ = server.accept()
        client.sendall(b"x" * 1000)
        receive(there, size=1)
        there.close()  # unread bytes: a reset
        with contextlib.suppress(ConnectionResetError):
            self.assertEqual(receive(client), b"")

    def test_refusals(self):
        server, port = self.listen()
        server.close()
        _, head = self.tunnel(port)
        self.assertTrue(head.startswith("HTTP/1.1 502 "), head)
        for host, want in (("127.0.0.2", 400), ("10.0.0.1", 400), ("example.com", 400), ("0.0.0.0", 400),
                           ("127.1", 400), ("[::ffff:127.0.0.1]", 400)):
            self.assertIn(f" {want} ", self.tunnel(80, host=host)[1], host)
        for wrong in (0, 65536, "", "x", "-1"):
            self.assertIn(" 400 ", self.tunnel(wrong)[1], wrong)
        self.assertIn(" 401 ", self.tunnel(port, token=None)[1])
        self.assertIn(" 401 ", self.tunnel(port, token="other")[1])
        self.assertIn(" 400 ", self.tunnel(port, more="Content-Length: 1\r\n", early=b"x")[1])
        answer = self.call("CONNECT", "/v1/agent/ports")
        self.assertEqual(answer.status, 405)

    def test_what_follows_a_refusal_is_no_request(self):
        _, port = self.listen()
        request = f"GET /v1/agent HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        client, head = self.tunnel(port, host="127.0.0.9", early=request)
        self.assertIn("Connection: close", head)
        self.assertNotIn(b"HTTP/1.1 ", receive(client))

    def test_back_pressure(self):
        server, port = self.listen()
        client, _ = self.tunnel(port)
        there, _ = server.accept()
        self.addCleanup(there.close)
        client.setblocking(False)
        before = self.memory_kb()
        piece = b"x" * 65536
        sent = 0
        idle = 0
        while idle < 50:  # nobody reads there
            try:
                sent += client.send(piece)
                idle = 0
            except BlockingIOError:
                idle += 1
                threading.Event().wait(0.01)
        self.assertFlat(before, 8 * 1024)
        there.settimeout(WAIT_S)
        got = 0
        while got < sent:
            got += len(there.recv(1024 * 1024))
        self.assertEqual(got, sent)

    def test_limit(self):
        server, port = self.listen()
        server.listen(256)
        before = self.descriptors()
        clients = [self.tunnel(port)[0] for _ in range(128)]
        self.assertIn(" 429 ", self.tunnel(port)[1])
        for client in clients:
            client.close()
        server.close()
        wait_until(lambda: self.descriptors() <= before, "all are closed")


if __name__ == "__main__":
    main()
