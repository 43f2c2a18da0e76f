"""The boxes of the provisioner for tests (fake_provisioner.py): Pods that answer GET /v1/sandbox, the Services that lead to them,
and the switches."""

import http.server
import json
import os
import socket
import threading
import time
import uuid

KEY = "key-of-the-provisioner-0123456789"


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        pass  # the other side has gone: that is what many tests are about


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def read_body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status, value, headers=None):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def vanish(self):
        """Closes without an answer."""
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class BoxHandler(Handler):
    @property
    def pod(self):
        return self.server.box.pod

    def is_reached(self):
        box = self.server.box
        if box.is_reached():
            return True
        self.vanish()  # a Service without endpoints
        return False

    def do_GET(self):
        if not self.is_reached():
            return
        if self.path == "/v1/sandbox":
            is_up = self.pod.is_up() and not self.server.box.is_deaf
            self.answer(200 if is_up else 503, {"success": True},
                        {"X-Sandbox-Life": self.pod.life} if self.server.box.world.has_agent else {})
        elif self.path == "/env":
            self.answer(200, self.pod.env)
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        body = self.read_body()
        if not self.is_reached():
            return
        world = self.server.box.world
        if self.path == "/v1/agent/env" and world.has_agent:
            envs = json.loads(body)["set"]
            if "SIM_UPDATE_MS" in envs:  # as with simulated boxes
                time.sleep(min(int(envs["SIM_UPDATE_MS"]) / 1000, 3))
            self.pod.env.update(envs)
            self.answer(200, {"success": True})
        elif self.path == "/v1/file/read" and not world.has_agent:
            self.answer(200, {"success": True, "data": {
                "file": "/proc/1/stat", "content": "1 (a (b) c) S " + "0 " * 18 + f"{int(self.pod.life, 16)} 9 9\n"}})
        else:
            self.answer(404, {"detail": "Not Found"})


class Pod:
    def __init__(self, world, uid=None, life=None):
        self.uid = uid or str(uuid.uuid4())
        self.running_at = time.monotonic() + world.pending_s
        self.gone_at = None
        self.is_lost = False  # by somebody else's hand
        self.restart(life)

    def restart(self, life=None):
        self.life = life or uuid.uuid4().hex[:12]
        self.env = {}

    def is_up(self):
        return time.monotonic() >= self.running_at

    def is_gone(self):
        return self.gone_at is not None and time.monotonic() >= self.gone_at

    def end(self, lingers_s):
        if self.gone_at is None:
            self.gone_at = time.monotonic() + lingers_s


class Box:
    """A Service, and the Pod it leads to, if there is one."""

    def __init__(self, world, name, request, port=0, pod=None):
        self.world = world
        self.name = name
        self.request = request
        self.pod = pod or Pod(world)
        self.status = None  # set by the test
        self.is_deaf = False  # Running, as the provisioner has it
        self.sessions = world.sessions
        self.server = Server(("127.0.0.1", port), BoxHandler)
        self.server.box = self
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def phase(self):
        if self.world.unreadable:
            return "NotFound"
        if self.status is not None:
            return self.status
        if self.pod.is_gone():
            return "NotFound"
        if self.pod.gone_at is not None and not self.world.old:
            return "Terminating"
        return "Running" if self.pod.is_up() else "Pending"

    def is_reached(self):
        if self.pod.is_gone():
            return False
        return self.pod.gone_at is None or self.world.serves_ending

    @property
    def port(self):
        return self.server.server_address[1]

    def describe(self):
        value = {"sandbox_id": self.name, "sandbox_url": f"http://127.0.0.1:{self.port}", "status": self.phase()}
        if not self.world.old:
            value.update(container_id=self.pod.uid, max_shell_sessions=self.sessions, lark_cli_broker=False)
        return value

    def close(self):
        threading.Thread(target=self.server.shutdown, daemon=True).start()
        self.server.server_close()


class World:
    def __init__(self, state=None):
        self.lock = threading.RLock()
        self.state = state
        self.key = KEY
        self.boxes = {}
        self.ending = {}  # name: Pods that outlive their Service
        self.creates_now = 0
        self.creates_at_once = 0  # at most
        self.made = {}  # name: how often a box was made under it
        self.asked = []
        self.reset()
        if state is not None and os.path.exists(state):
            with open(state) as f:
                for name, (request, port, uid, life) in json.load(f).items():
                    self.boxes[name] = Box(self, name, request, port, Pod(self, uid, life))

    def reset(self):
        self.rules = []
        self.old = False
        self.has_agent = True
        self.pending_s = 0
        self.lingers_s = 0
        self.serves_ending = False
        self.unreadable = False
        self.sessions = 10
        self.freed = threading.Event()  # lets go of what hangs

    def save(self):
        if self.state is None:
            return
        with open(self.state + ".new", "w") as f:
            json.dump({b.name: (b.request, b.port, b.pod.uid, b.pod.life) for b in self.boxes.values()}, f)
        os.replace(self.state + ".new", self.state)

    def sweep(self):
        """What lingered long enough is gone."""
        self.ending = {name: pod for name, pod in self.ending.items() if not pod.is_gone()}
        for box in list(self.boxes.values()):
            if box.pod.is_gone() and not self.old and not box.pod.is_lost:
                self.drop(box.name)

    def drop(self, name):
        self.boxes.pop(name).close()
        self.save()

    def make(self, name, request):
        pod = self.ending.get(name)
        self.boxes[name] = Box(self, name, request, pod=pod)
        if pod is None:
            self.made[name] = self.made.get(name, 0) + 1
        self.save()

    def delete(self, name):
        box = self.boxes.get(name)
        if box is None:
            return
        box.pod.end(self.lingers_s)
        if self.old or box.pod.is_lost:
            self.ending[name] = box.pod
            self.drop(name)

    def control(self, change):
        with self.lock:
            if change.get("reset"):
                self.freed.set()
                self.reset()
                for name in list(self.boxes):  # of a test that failed
                    self.boxes.pop(name).close()
            if "rules" in change:
                self.freed.set()
                self.freed = threading.Event()
                self.rules = [dict(r) for r in change["rules"]]
            for name in ("old", "has_agent", "pending_s", "lingers_s", "serves_ending", "unreadable", "sessions", "key"):
                if name in change:
                    setattr(self, name, change[name])
            if "add" in change:
                self.make(change["add"]["id"], {})
                self.boxes[change["add"]["id"]].is_deaf = change["add"].get("deaf", False)
            if "box" in change:
                box = self.boxes[change["box"]["id"]]
                box.status = change["box"].get("status", box.status)
                if change["box"].get("uid"):
                    box.pod = Pod(self, change["box"]["uid"])
            if change.get("ready"):
                for box in self.boxes.values():
                    box.pod.running_at = 0
            if "restart" in change:
                self.boxes[change["restart"]].pod.restart()
                self.save()
            if "lose_pod" in change:
                pod = self.boxes[change["lose_pod"]].pod
                pod.is_lost = True
                pod.end(self.lingers_s)
            if change.get("finish"):  # Pods that end have ended
                for pod in [*self.ending.values(), *(b.pod for b in self.boxes.values())]:
                    if pod.gone_at is not None:
                        pod.gone_at = 0
            if "lose" in change:
                self.drop(change["lose"])
            return self.report()

    def report(self):
        self.sweep()
        return {"boxes": {b.name: {**b.describe(), "request": b.request, "env": b.pod.env, "uid": b.pod.uid,
                                   "life": b.pod.life, "ends": b.pod.gone_at is not None} for b in self.boxes.values()},
                "creates_at_once": self.creates_at_once, "made": self.made, "asked": self.asked[-2000:]}

    def rule(self, kind, name):
        with self.lock:
            for r in self.rules:
                if r["on"] == kind and r.get("times", 1) != 0 and r.get("id") in (None, name):
                    r["times"] = r.get("times", 1) - 1
                    return r["do"]
        return None
