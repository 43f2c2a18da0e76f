"""`sandpool run` with a real agent in place of a box; the daemon's two calls are answered from here. What the tests of it share."""

import json
import os
import pathlib
import select
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "agent"))
from agent_client import BIN, IS_SANITIZED, TOKEN, WAIT_S, AgentTest, QuietHandler, at_most, main, wait_until

__all__ = ["BIN", "ID", "IS_SANITIZED", "WAIT_S", "Relay", "RunTest", "at_most", "main", "wait_until"]

ID = "fe0dc8182dec7b77"

# A shell has what it starts in the background ignore these two, and a process inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


class Leases(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Hands out the one box there is and remembers what it was asked."""

    daemon_threads = True

    def __init__(self, path, port):
        self.asked = []
        self.came = threading.Condition()
        self.delay = threading.Event()
        self.delay.set()
        self.url = f"http://127.0.0.1:{port}"
        super().__init__(str(path), Handler)

    def acquired(self):
        return [body for target, body in self.asked if target == "/v1/acquire"]

    def released(self):
        return [body for target, body in self.asked if target == f"/v1/sandboxes/{ID}/release"]


class Handler(QuietHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        with self.server.came:
            self.server.asked.append((self.path, body))
            self.server.came.notify_all()
        self.server.delay.wait(WAIT_S)
        answer = json.dumps({"sandbox_id": ID, "generation": 3, "sandbox_url": self.server.url,
                             "token": TOKEN, "source": "warm", "state": "leased"}).encode()
        try:
            self.answer(answer)
        except OSError:
            pass  # it did not wait


class Relay:
    """Between the program and the agent; cuts the first connections after so many bytes each, of the agent or of the program.
    With a prefix it is a proxy that knows the agent by that path only."""

    def __init__(self, port, cuts=(), prefix="", input_cuts=()):
        self.to = port
        self.cuts = list(cuts)
        self.input_cuts = list(input_cuts)
        self.connections = 0
        self.prefix = prefix.encode()
        self.hosts = set()
        self.done = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def serve(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            left = self.cuts.pop(0) if self.cuts else None
            input_left = self.input_cuts.pop(0) if self.input_cuts else None
            self.threads.append(threading.Thread(target=self.join, args=(near, left, input_left)))
            self.threads[-1].start()

    def join(self, near, left, input_left):
        with near, socket.create_connection(("127.0.0.1", self.to)) as far:
            while True:
                ready, _, _ = select.select([near, far], [], [], WAIT_S)
                if not ready:
                    return
                for end in ready:
                    data = end.recv(65536)
                    if end is near and self.prefix:
                        data = self.behind_the_prefix(data)
                    if end is near and input_left is not None:
                        input_left -= len(data)
                        if input_left <= 0:
                            return
                    if end is far and left is not None:
                        data = data[:left]
                        left -= len(data)
                    if data:
                        (far if end is near else near).sendall(data)
                    self.done += left == 0
                    if not data or left == 0:
                        return

    def behind_the_prefix(self, data):
        """Every head comes whole: the program sends it at once."""
        self.hosts.update(line[6:] for line in data.split(b"\r\n") if line.startswith(b"Host: "))
        return data.replace(b" /v1/", b" /elsewhere/").replace(b" " + self.prefix + b"/v1/", b" /v1/")

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(WAIT_S)


class RunTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.socket = pathlib.Path(self.dir.name) / "d.sock"
        self.leases = Leases(self.socket, self.port)
        thread = threading.Thread(target=self.leases.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join, WAIT_S)
        self.addCleanup(self.leases.server_close)
        self.addCleanup(self.leases.shutdown)

    def spawn(self, *args, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        child = subprocess.Popen([BIN / "sandpool", "run", *args],
                                 env={**os.environ, "SANDPOOL_SOCKET": str(self.socket)}, **kw)
        self.addCleanup(self.end, child)
        return child

    @staticmethod
    def end(child):
        if child.poll() is None:
            child.kill()
        child.wait(WAIT_S)
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()

    def run_it(self, *args, data=None, status=0):
        child = self.spawn(*args, stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL)
        out, err = child.communicate(data, WAIT_S)
        self.assertEqual(child.returncode, status, (args, out[-500:], err[-500:]))
        return out, err

    def assertDestroyed(self):
        self.assertEqual(self.leases.released(), [{"generation": 3, "destroy": True, "quick": True}])

    def running(self):
        return [p for p in self.get("/v1/agent/jobs").json["jobs"]
                if p["outcome"] == "running"]

    def read_until(self, stream, wanted):
        """Reads a descriptor until `wanted` was in it."""
        got = b""
        deadline = time.monotonic() + WAIT_S
        while wanted not in got:
            ready, _, _ = select.select([stream], [], [], max(0, deadline - time.monotonic()))
            self.assertTrue(ready, f"{wanted} did not come: {got[-500:]}")
            piece = os.read(stream if isinstance(stream, int) else stream.fileno(), 65536)
            self.assertTrue(piece, f"ended before {wanted}: {got[-500:]}")
            got += piece
        return got
