"""Upgraded connections into real boxes without a network: a terminal through the daemon's address, and a server inside."""

import asyncio
import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import threading
import urllib.parse

from fixtures import SOURCE, WAIT_S, UnixConnection, free_port, is_alive, main, receive, wait_until
from certificates import Authority
from host import inside_of, read_of
from oci_case import BoxCase

sys.path.append("/usr/lib/python3/dist-packages")  # the system's, also for another Python
try:
    import websockets
except ImportError:
    websockets = None
sys.path.pop()

ALICE = "alice-token-of-32-characters-xxxx"
PORT = free_port()


class Tunnels(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 1}, "network": "none"}}
    config = {"tcp": {"listen": f"127.0.0.1:{PORT}", "tokens": {"alice": ALICE}}}

    def request(self, address, method, target, body=None, token=None):
        c = http.client.HTTPConnection(*address, timeout=WAIT_S)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        c.request(method, target, json.dumps(body) if body is not None else None, headers)
        response = c.getresponse()
        text = response.read()
        c.close()
        return response.status, json.loads(text) if text[:1] == b"{" else text

    def lease(self):
        status, lease = self.request(("127.0.0.1", PORT), "POST", "/v1/acquire", {"thread_id": "t"}, ALICE)
        self.assertEqual(status, 200, lease)
        return urllib.parse.urlsplit(lease["sandbox_url"]).path

    def start(self, base, **fields):
        """Either name of the route."""
        for name in ("jobs", "processes"):
            status, job = self.request(("127.0.0.1", PORT), "POST", f"{base}/v1/agent/{name}", fields)
            if status < 300:
                return job.get("job") or job["id"]
        self.fail(job)

    def test_terminal_through_the_daemon(self):
        if websockets is None:
            self.skipTest("python3-websockets is not installed")
        base = self.lease()
        job = self.start(base, command="stty -echo; echo ready; read x; echo got $x; exit 5", pty={"cols": 80, "rows": 24})

        async def run():
            url = f"ws://127.0.0.1:{PORT}{base}/v1/agent/jobs/{job}/attach"
            async with websockets.connect(url, open_timeout=WAIT_S) as ws:
                out = b""
                while b"ready" not in out:
                    out += await asyncio.wait_for(ws.recv(), WAIT_S)
                await ws.send(b"\0word\n")
                while True:
                    message = await asyncio.wait_for(ws.recv(), WAIT_S)
                    if isinstance(message, str):
                        return out, json.loads(message)
                    out += message
        out, end = asyncio.run(run())
        self.assertIn(b"got word", out)
        self.assertEqual((end["event"], end["exit_code"]), ("end", 5))

    def test_the_end_of_the_box_ends_it(self):
        base = self.lease()
        job = self.start(base, command="sleep 1000")
        s = socket.create_connection(("127.0.0.1", PORT), timeout=WAIT_S)
        self.addCleanup(s.close)
        key = base64.b64encode(os.urandom(16)).decode()
        s.sendall(f"GET {base}/v1/agent/jobs/{job}/attach HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                  f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 101"))
        self.destroy_all()
        try:
            while s.recv(4096):
                pass
        except ConnectionResetError:
            pass

    def test_all_of_it_with_tls(self):
        """Turned on by a reload: commands, files, a terminal and raw bytes to a port pass through the same sessions."""
        authority = Authority(self.home)
        cert, key = authority.sign("localhost", "server")
        config = json.loads(self.server.config.read_text())
        self.server.write_config({**config, "tls": {"cert": str(cert), "key": str(key)}})
        self.assertOk(self.pool.post("/v1/pool/reload"))
        try:
            self.use_with_tls(str(authority.cert))
        finally:
            self.server.write_config(config)
            self.assertOk(self.pool.post("/v1/pool/reload"))

    def use_with_tls(self, ca):
        sys.path.insert(0, str(SOURCE / "clients/python"))
        import sandpool
        with sandpool.Client(f"https://127.0.0.1:{PORT}", token=ALICE, ca=ca) as pool, pool.acquire("tls", auto_renew=False) as box:
            lines = []
            result = box.run("for i in 1 2 3; do echo $i; done; exit 7", on_stdout=lines.append)
            self.assertEqual((result.exit_code, lines), (7, ["1", "2", "3"]))
            self.assertEqual(box.run("cat", stdin="x" * 300000).stdout, "x" * 300000)
            data = os.urandom(20 * 1024 * 1024)
            box.files.write("/tmp/data", data)
            self.assertEqual(box.files.read("/tmp/data"), data)
            with box.shell("stty -echo; read x; echo got $x; exit 5") as shell:
                shell.send("word\n")
                self.assertIn(b"got word", b"".join(chunk.data for chunk in shell))
            box.start("exec python3 -c 'import socket\n"
                      "c = socket.create_server((\"127.0.0.1\", 7100)).accept()[0]\n"
                      "while True:\n d = c.recv(65536)\n if not d: break\n c.sendall(d)'")
            wait_until(lambda: [p for p in box.ports.list() if p.port == 7100], "it listens")
            tunnel = box.ports[7100].connect()
            sender = threading.Thread(target=tunnel.send, args=(data[:4000000],))
            sender.start()
            back = b""
            while len(back) < 4000000:
                piece = tunnel.recv()
                self.assertTrue(piece)
                back += piece
            sender.join(WAIT_S)
            tunnel.close()
            self.assertEqual(back, data[:4000000])

    def reach(self, box):
        """An attached job and a connection to a port of the box, through the daemon."""
        job = box.start("exec sleep 1000")
        box.start("exec python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 7000)); "
                  "held = [s.accept() for _ in range(9)]'")
        wait_until(lambda: [p for p in box.json("GET", "/v1/agent/ports")["ports"] if p["port"] == 7000], "it listens")
        base = f"/v1/sandboxes/{box.id}"
        websocket = "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode()
        reached = []
        for path, protocol in ((f"/jobs/{job}/attach", websocket), ("/ports/7000", "tcp")):
            connection = UnixConnection(self.server.socket)
            connection.connect()
            connection.sock.settimeout(WAIT_S)
            self.addCleanup(connection.close)
            connection.sock.sendall(f"GET {base}{path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
                                    .encode())
            self.assertTrue(receive(connection.sock, until=b"\r\n\r\n").startswith(b"HTTP/1.1 101 "))
            reached.append(connection.sock)
        return job, reached

    def assertClosed(self, reached):
        for connection in reached:
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(receive(connection), b"")

    def test_a_release_ends_them(self):
        box = self.acquire("r")
        job, reached = self.reach(box)
        self.assertEqual(self.assertOk(self.pool.release(box.id))["state"], "parked")
        self.assertClosed(reached)
        again = self.acquire("r", "parked")
        self.assertEqual(again.process(job)["outcome"], "running")

    def test_a_frozen_box_is_destroyed(self):
        """All of it stands still, the relay outside as well, so none of its connections is closed from there."""
        box = self.acquire("f")
        _, reached = self.reach(box)
        outside = {pid for pid in self.left.running() if box.box_id in read_of(pid, "cgroup") + read_of(pid, "cmdline")}
        frozen = outside | set(inside_of(self.init_of(box)))
        self.assertGreater(len(outside), 0)
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        self.addCleanup(lambda: [os.kill(pid, signal.SIGCONT) for pid in frozen if is_alive(pid)])
        remover = threading.Thread(target=self.destroy, args=(box, True))
        remover.start()
        self.assertClosed(reached)
        remover.join(WAIT_S)
        self.assertFalse(remover.is_alive())

    def test_server_inside(self):
        box = self.acquire("p")
        there = (box.url.hostname, box.url.port)
        token = box.lease["token"]
        box.run(["mkdir", "-p", "/tmp/www"])
        box.run(["sh", "-c", "echo hello from inside > /tmp/www/index.html"])
        for name in ("jobs", "processes"):
            status, _ = self.request(there, "POST", f"/v1/agent/{name}", {
                "command": "exec python3 -m http.server 8000 --bind 127.0.0.1 --directory /tmp/www"}, token)
            if status < 300:
                break

        def ports():
            return self.request(there, "GET", "/v1/agent/ports", token=token)[1]["ports"]
        wait_until(lambda: [p for p in ports() if p["port"] == 8000], "it listens")
        self.assertEqual([(p["address"], p["port"]) for p in ports()], [("127.0.0.1", 8000)])
        c = http.client.HTTPConnection(*there, timeout=WAIT_S)
        self.addCleanup(c.close)
        c.set_tunnel("127.0.0.1", 8000, {"Authorization": f"Bearer {token}"})
        for _ in range(3):
            c.request("GET", "/index.html")
            self.assertEqual(c.getresponse().read(), b"hello from inside\n")


if __name__ == "__main__":
    main()
