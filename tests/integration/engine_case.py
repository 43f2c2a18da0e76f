"""What the tests of the engine's side share: a daemon on an engine of our own, Docker's or Podman's, and a proxy in
front of it that breaks streams, swallows replies and steps between."""

import json
import os
import pathlib
import socket
import threading

from fixtures import BIN, Daemon, TestCase, skip, wait_until
from box import Box

import engine as engines

engines.isolate()

IMAGE = engines.IMAGE
# With sanitizers the agent is not static and runs in no image: then it is one of another build.
AGENT = pathlib.Path(os.environ.get("SANDPOOL_TEST_AGENT", BIN / "sandpool-agent")).resolve()


class EngineCase(TestCase):
    KIND = "docker"

    @classmethod
    def setUpClass(cls):
        why = engines.is_possible(cls.KIND)
        if why is not None:
            skip(f"no {cls.KIND} can run here: {why}")
        cls.engine = engines.Engine(cls.KIND)
        cls.engine.__enter__()
        cls.addClassCleanup(cls.engine.__exit__)

    def config(self, host=None, warm=1, docker=None, **profile):
        """One profile on the engine; `warm` boxes are kept."""
        return {"backend": "docker", "image": IMAGE, "park_timeout_s": 600, "limits": {"memory": "64M"},
                "warm": {"min": warm, "max": warm}, "create": {"backoff_max_ms": 500},
                "docker": {"host": host or self.engine.address, **(docker or {})}, **profile}

    def daemon_on(self, profiles, start=True, env=None, **config):
        daemon = Daemon(self.directory, {
            "instance": "t" + self.id().rsplit(".", 1)[1][:50], "profiles": profiles,
            "agent": {"path": str(AGENT)}, **config}, env=env)
        self.addCleanup(self.end, daemon)
        return daemon.start() if start else daemon

    def end(self, daemon):
        """Takes all boxes along; the engine has nothing of the daemon's then."""
        if daemon.process is None:
            return
        daemon.kill()
        daemon.args = ["--destroy-on-exit"]
        daemon.start()
        daemon.stop()
        wait_until(lambda: not self.ours(daemon), f"nothing is left: {daemon.process.output()[-2000:]}")

    def ours(self, daemon):
        instance = json.loads(daemon.config.read_text())["instance"]
        return [c["Id"] for c in self.engine.json("GET", "/containers/json?all=1")
                if (c["Labels"] or {}).get("sandpool.instance") == instance]

    def box(self, daemon, thread, **fields):
        answer = daemon.acquire(thread, **fields)
        self.assertEqual(answer.status, 200, (answer, daemon.process.output()[-3000:]))
        return Box(answer.json)

    def container(self, box):
        """The engine's id of a box's container."""
        for c in self.engine.json("GET", "/containers/json?all=1"):
            if (c["Labels"] or {}).get("sandpool.box") == box.box_id:
                return c["Id"]
        self.fail(f"no container of {box.box_id}")

    def rows(self, daemon, state=None):
        client = daemon.client()
        try:
            rows = client.get("/v1/sandboxes?limit=1000").json["sandboxes"]
        finally:
            client.close()
        return {r["box_id"]: r for r in rows if state is None or r["state"] == state}

    def get(self, daemon, target):
        client = daemon.client()
        try:
            return client.get(target)
        finally:
            client.close()

    def events(self, daemon, kind=None):
        found = [json.loads(line[len("data: "):]) for line in self.get(daemon, "/v1/events?follow=0&since=0").text.splitlines()
                 if line.startswith("data: ")]
        return [e for e in found if kind is None or e.get("event") == kind]

    def wait_event(self, daemon, kind, **fields):
        def match():
            for e in self.events(daemon, kind):
                if all(e.get(k) == v for k, v in fields.items()):
                    return e
            return None
        return wait_until(match, f"event {kind} {fields}")

    def foreign(self, name, labels=None, command=("/bin/sleep", "1000"), **body):
        """A container that is not ours; removed when the test ends."""
        made = self.engine.json("POST", f"/containers/create?name={name}", {
            "Image": IMAGE, "Cmd": list(command), "Labels": labels or {}, **body})["Id"]
        self.addCleanup(self.engine.call, "DELETE", f"/containers/{made}?force=1")
        self.engine.json("POST", f"/containers/{made}/start")
        return made

    def is_running(self, container):
        status, data = self.engine.call("GET", f"/containers/{container}/json")
        return status == 200 and json.loads(data)["State"]["Running"]


class Proxy:
    """Between the daemon and the engine. `hook(method, path)` sees each request and may return "swallow": the engine
    gets it, the reply is never given; "refuse": the connection is closed at once; or "fail": an error is answered, and the
    engine is not asked. It may also wait or act itself."""

    def __init__(self, case, target, wrap=None, tcp=False, start=True):
        self.target = target
        self.wrap = wrap
        self.hook = lambda method, path: None
        self.open = set()
        self.lock = threading.Lock()
        self.seen = []
        self.listener = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX)
        if tcp:
            self.listener.bind(("127.0.0.1", 0))
            self.address = "tcp://127.0.0.1:%d" % self.listener.getsockname()[1]
        else:
            self.path = case.directory + "/proxy"
            self.address = "unix://" + self.path
        case.addCleanup(self.close)
        if start:
            self.start()

    def start(self):
        if self.listener.family == socket.AF_UNIX:
            self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()
        self.cut()

    def cut(self, path=""):
        """Closes the connections whose request has this in its path."""
        with self.lock:
            cut = [pair for pair in self.open if path in pair[0]]
        for _, *sockets in cut:
            for s in sockets:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        return len(cut)

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            if self.wrap is not None:
                client = self.wrap(client)
            with client:
                self.pass_on(client)
        except (OSError, ValueError):
            pass

    def pass_on(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(65536)
            if not piece:
                return
            head += piece
        head, body = head.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        method, path, _ = lines[0].split(" ")
        length = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")), 0)
        if any(line.lower().startswith("expect:") for line in lines):
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(body) < length:
            body += client.recv(65536)
        self.seen.append((method, path))
        verdict = self.hook(method, path)
        if verdict == "refuse":
            return
        if verdict == "fail":
            client.sendall(b'HTTP/1.1 500 X\r\nConnection: close\r\nContent-Length: 18\r\n\r\n{"message":"busy"}')
            return
        kept = [line for line in lines if not line.lower().startswith(("connection:", "expect:"))]
        with socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(self.target)
            entry = (path, client, upstream)
            with self.lock:
                self.open.add(entry)
            try:
                upstream.sendall("\r\n".join([*kept, "Connection: close", "", ""]).encode() + body)
                while True:
                    data = upstream.recv(65536)
                    if not data:
                        break
                    if verdict != "swallow":
                        client.sendall(data)
                if verdict == "swallow":
                    client.recv(1)  # until the other side gives up
            finally:
                with self.lock:
                    self.open.discard(entry)
