"""From a request of a client to a server inside a box: the daemon's tunnel (tests/unit/box/tunnel_server.c), the agent, and
the server, which must not learn the box's token nor the client's."""

import asyncio
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

from agent_client import TOKEN, WAIT_S, AgentTest, main, receive, wait_until

sys.path.append("/usr/lib/python3/dist-packages")  # the system's, also for another Python
try:
    import websockets
except ImportError:
    websockets = None
sys.path.pop()

SERVER = pathlib.Path(os.environ.get("SANDPOOL_BIN_DIR", "build/dev")) / "tests" / "tunnel_server"


class Port(AgentTest):
    def setUp(self):
        super().setUp()
        self.inside = socket.create_server(("127.0.0.1", 0))
        self.inside.settimeout(WAIT_S)
        self.addCleanup(self.inside.close)
        self.inside_port = self.inside.getsockname()[1]
        self.front = self.serve(f"http://127.0.0.1:{self.port}")

    def serve(self, url, token=TOKEN, port=None):
        child = subprocess.Popen([SERVER, url, token, str(port or self.inside_port)], stdout=subprocess.PIPE)
        self.addCleanup(self.end, child)
        return int(child.stdout.readline())

    def end(self, child):
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(WAIT_S), 0)
        child.stdout.close()

    def ask(self, front=None, path="/", upgrade="tcp", more="", early=b""):
        s = socket.create_connection(("127.0.0.1", front or self.front), timeout=WAIT_S)
        self.addCleanup(s.close)
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n{more}\r\n".encode() + early)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = s.recv(1)
            if not piece:
                break
            head += piece
        return s, head.decode()

    def accept(self):
        there, _ = self.inside.accept()
        there.settimeout(WAIT_S)
        self.addCleanup(there.close)
        return there

    def used(self):
        s = socket.create_connection(("127.0.0.1", self.front), timeout=WAIT_S)
        with s:
            s.sendall(b"GET /-used HTTP/1.1\r\nConnection: close\r\n\r\n")
            return int(receive(s).rsplit(b"\r\n", 1)[1])

    def test_raw_tcp(self):
        client, head = self.ask(early=b"early ")
        self.assertTrue(head.startswith("HTTP/1.1 101 "), head)
        self.assertIn("Upgrade: tcp\r\n", head)
        there = self.accept()
        client.sendall(b"words")
        self.assertEqual(self.used(), 1)
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(receive(there), b"early words")
        there.sendall(b"answer" * 200000)
        there.close()
        self.assertEqual(receive(client), b"answer" * 200000)
        wait_until(lambda: self.used() == 0, "it is over")

    def test_server_that_speaks_first(self):
        sender = threading.Thread(target=lambda: self.accept().sendall(b"SSH-2.0-x\r\n"))
        sender.start()
        client, _ = self.ask()
        self.assertEqual(receive(client, 11), b"SSH-2.0-x\r\n")
        sender.join(WAIT_S)

    def test_what_the_server_sees(self):
        seen = []

        def act():
            there = self.accept()
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += there.recv(1)
            seen.append(head.decode())
            there.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
            seen.append(receive(there))
        server = threading.Thread(target=act)
        server.start()
        client, head = self.ask(path="/chat?a=b", upgrade="websocket", early=b"GET /next HTTP/1.1\r\n\r\n",
                                more="Authorization: Bearer of-the-client\r\nX-API-Key: key-for-server\r\nCookie: a=b\r\n"
                                     "X-Forwarded-Host: lie\r\n")
        self.assertTrue(head.startswith("HTTP/1.1 200 "), head)
        self.assertEqual(receive(client), b"no")
        server.join(WAIT_S)
        self.assertTrue(seen[0].startswith("GET /chat?a=b HTTP/1.1\r\n"), seen)
        self.assertIn(f"Host: 127.0.0.1:{self.inside_port}\r\n", seen[0])
        self.assertIn("Upgrade: websocket\r\n", seen[0])
        for line in ("X-API-Key: key-for-server", "Cookie: a=b", "X-Forwarded-Host: x", "X-Forwarded-Proto: http"):
            self.assertIn(line + "\r\n", seen[0])
        for secret in (TOKEN, "of-the-client", "Authorization", "lie"):
            self.assertNotIn(secret, seen[0])
        self.assertEqual(seen[1], b"", "nothing of the client's next request")

    def test_websocket(self):
        if websockets is None:
            self.skipTest("python3-websockets is not installed")

        async def echo(ws, *_):
            async for message in ws:
                await ws.send(message)

        async def run():
            self.inside.close()
            async with websockets.serve(echo, "127.0.0.1", self.inside_port, max_size=None):
                async with websockets.connect(f"ws://127.0.0.1:{self.front}/x", open_timeout=WAIT_S, max_size=None) as ws:
                    for message in ("text", b"x" * 1000000, ""):
                        await ws.send(message)
                        self.assertEqual(await asyncio.wait_for(ws.recv(), WAIT_S), message)
        asyncio.run(run())

    def test_refusals(self):
        self.inside.close()
        client, head = self.ask()
        self.assertTrue(head.startswith("HTTP/1.1 502 "), head)
        self.assertIn(b'"code":"port_closed"', receive(client))
        wrong = self.serve(f"http://127.0.0.1:{self.port}", token="wrong")
        self.assertIn(" 501 ", self.ask(wrong)[1])
        self.assertIn(" 501 ", self.ask(self.serve(f"http://127.0.0.1:{self.port}/s/x"))[1])
        self.assertIn(" 501 ", self.ask(self.serve(f"https://127.0.0.1:{self.port}"))[1])
        self.assertIn(" 502 ", self.ask(self.serve("http://127.0.0.1:1"))[1])
        self.assertIn(" 101 ", self.ask(self.serve(f"http://localhost:{self.port}", port=self.port))[1])

    def test_agent_that_dies(self):
        client, _ = self.ask()
        self.accept()
        self.agent.send_signal(signal.SIGTERM)
        with contextlib.suppress(ConnectionResetError):
            self.assertEqual(receive(client), b"")
        client.close()
        wait_until(lambda: self.used() == 0, "it is over")
        self.assertEqual(self.agent.wait(WAIT_S), 0)  # another signal would meet it without its handlers


if __name__ == "__main__":
    main()
