"""A provisioner for tests: the HTTP API of DeerFlow's, in a process of its own, with boxes that answer GET /v1/sandbox,
and every misbehaviour as a switch.

`fake_provisioner.py PROGRAM [ARGUMENT]...` runs a program beside it, which finds it in SANDPOOL_TEST_PROVISIONER, and fails
when the program leaves boxes behind. As a module it is the fixture of tests/integration/test_remote.py;
`fake_provisioner.py --serve PORT STATE` is the server alone (what it has survives it in the file STATE).

Switches, by POST /control:
  {"rules": [{"on": "create", "do": "lost", "times": 1, "id": "..."}]}    replaces all rules; see Rule.act
  {"old": true}            as before container_id, max_shell_sessions, /presence and /api/capabilities
  {"pending_s": 2}         new boxes are Pending for so long
  {"lingers_s": 2}         deleted ones are Terminating for so long
  {"sessions": 5}          max_shell_sessions that new boxes have
  {"box": {"id": "...", "status": "Failed", "uid": "..."}}                changes one
  {"add": {"id": "..."}}   one that somebody else has made; with "deaf": true it does not answer
GET /control tells what is there and what was asked."""

import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

KEY = "key-of-the-provisioner-0123456789"
SLOW_SESSIONS = 7  # a create that asks for so many takes its time
HUGE = b"x" * (40 << 20)


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

    def answer(self, status, value):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
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
    def do_GET(self):
        if self.path == "/v1/sandbox":
            is_up = self.server.box.phase() == "Running" and not self.server.box.is_deaf
            self.answer(200 if is_up else 503, {"success": True})
        elif self.path == "/env":
            self.answer(200, self.server.box.env)
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        body = self.read_body()
        if self.path == "/v1/agent/env" and self.server.box.world.has_agent:
            envs = json.loads(body)["set"]
            if "SIM_UPDATE_MS" in envs:  # as with simulated boxes
                time.sleep(min(int(envs["SIM_UPDATE_MS"]) / 1000, 3))
            self.server.box.env.update(envs)
            self.answer(200, {"success": True})
        else:
            self.answer(404, {"detail": "Not Found"})


class Box:
    """A Pod and its Service."""

    def __init__(self, world, name, request, port=0, uid=None):
        self.world = world
        self.name = name
        self.request = request
        self.uid = uid or str(uuid.uuid4())
        self.status = None  # set by the test
        self.is_deaf = False  # Running, as the provisioner has it
        self.env = {}
        self.running_at = time.monotonic() + world.pending_s
        self.gone_at = None
        self.sessions = world.sessions
        self.server = Server(("127.0.0.1", port), BoxHandler)
        self.server.box = self
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def phase(self):
        if self.status is not None:
            return self.status
        if self.gone_at is not None:
            return "Terminating"
        return "Running" if time.monotonic() >= self.running_at else "Pending"

    @property
    def port(self):
        return self.server.server_address[1]

    def describe(self):
        value = {"sandbox_id": self.name, "sandbox_url": f"http://127.0.0.1:{self.port}", "status": self.phase()}
        if not self.world.old:
            value.update(container_id=self.uid, max_shell_sessions=self.sessions, lark_cli_broker=False)
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
        self.made = {}  # name: how often a box was made under it
        self.asked = []
        self.reset()
        if state is not None and os.path.exists(state):
            with open(state) as f:
                for name, (request, port, uid) in json.load(f).items():
                    self.boxes[name] = Box(self, name, request, port, uid)

    def reset(self):
        self.rules = []
        self.old = False
        self.has_agent = True
        self.pending_s = 0
        self.lingers_s = 0
        self.sessions = 10
        self.freed = threading.Event()  # lets go of what hangs

    def save(self):
        if self.state is None:
            return
        with open(self.state + ".new", "w") as f:
            json.dump({b.name: (b.request, b.port, b.uid) for b in self.boxes.values()}, f)
        os.replace(self.state + ".new", self.state)

    def sweep(self):
        """What lingered long enough is gone."""
        for box in list(self.boxes.values()):
            if box.gone_at is not None and time.monotonic() >= box.gone_at:
                box.close()
                del self.boxes[box.name]
                self.save()

    def make(self, name, request):
        self.boxes[name] = Box(self, name, request)
        self.made[name] = self.made.get(name, 0) + 1
        self.save()

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
            for name in ("old", "has_agent", "pending_s", "lingers_s", "sessions", "key"):
                if name in change:
                    setattr(self, name, change[name])
            if "add" in change:
                self.make(change["add"]["id"], {})
                self.boxes[change["add"]["id"]].is_deaf = change["add"].get("deaf", False)
            if "box" in change:
                box = self.boxes[change["box"]["id"]]
                box.status = change["box"].get("status", box.status)
                box.uid = change["box"].get("uid", box.uid)
            if "lose" in change:
                self.boxes.pop(change["lose"]).close()
                self.save()
            return self.tell()

    def tell(self):
        self.sweep()
        return {"boxes": {b.name: {**b.describe(), "request": b.request, "env": b.env} for b in self.boxes.values()},
                "made": self.made, "asked": self.asked[-2000:]}

    def rule(self, kind, name):
        with self.lock:
            for r in self.rules:
                if r["on"] == kind and r.get("times", 1) != 0 and r.get("id") in (None, name):
                    r["times"] = r.get("times", 1) - 1
                    return r["do"]
        return None


class ApiHandler(Handler):
    def do_GET(self):
        self.serve("GET")

    def do_POST(self):
        self.serve("POST")

    def do_DELETE(self):
        self.serve("DELETE")

    @property
    def world(self):
        return self.server.world

    def serve(self, method):
        body = self.read_body()
        if self.path == "/control":
            self.answer(200, self.world.control(json.loads(body) if body else {}))
            return
        kind, name = self.route(method)
        with self.world.lock:
            self.world.asked.append([kind, name])
        if kind is None or (self.world.old and kind in ("presence", "capabilities")):
            self.answer(404, {"detail": "Not Found"})
        elif kind == "health":
            self.reply(kind, name, lambda: (200, {"status": "ok"}))
        elif self.headers.get("X-API-Key") != self.world.key:
            self.answer(401, b"Unauthorized")
        else:
            request = json.loads(body) if body else {}
            if kind == "create":
                name = request["sandbox_id"]
            self.reply(kind, name, lambda: getattr(self, "on_" + kind)(name, request))

    def route(self, method):
        m = re.fullmatch(r"/api/sandboxes/([^/]+)(/presence)?", self.path)
        if m:
            return ("presence" if m[2] else {"GET": "get", "DELETE": "delete"}.get(method)), m[1]
        return {("GET", "/health"): "health", ("GET", "/api/capabilities"): "capabilities",
                ("GET", "/api/sandboxes"): "list", ("POST", "/api/sandboxes"): "create"}.get((method, self.path)), None

    def reply(self, kind, name, work):
        """Does the work, and what a rule makes of it."""
        do = self.world.rule(kind, name)
        if do is None:
            self.answer(*work())
            return
        word, _, rest = do.partition(":")
        if word == "status":  # nothing is done
            status, _, text = rest.partition(" ")
            self.answer(int(status), {"detail": text or "it went wrong"})
        elif word == "done_status":  # done, and told otherwise
            work()
            self.answer(int(rest), {"detail": "it went wrong after all"})
        elif word == "echo_key":
            self.answer(400, {"detail": "bad key " + self.headers["X-API-Key"]})
        elif word == "slow":
            time.sleep(float(rest))
            self.answer(*work())
        elif word == "hang":
            freed = self.world.freed
            freed.wait(60)
            self.vanish()
        elif word == "lost":
            work()
            self.vanish()
        elif word == "late":  # the answer is lost, the work is done afterwards
            self.vanish()
            time.sleep(float(rest))
            work()
        elif word == "drop":
            self.vanish()
        else:
            self.twist(word, rest, *work())

    def twist(self, word, rest, status, value):
        """The work is done, the answer is not what it should be."""
        if word == "malformed":
            self.answer(status, b'{"sandbox_id": ')
        elif word == "not_http":
            self.wfile.write(b"what?\r\n\r\n")
            self.vanish()
        elif word == "huge":
            self.answer(status, HUGE)
        elif word == "set":  # a field of the answer, or of its first entry
            key, _, text = rest.partition("=")
            target = value["sandboxes"][0] if key.startswith("first.") else value
            target[key.removeprefix("first.")] = json.loads(text)
            self.answer(status, value)
        elif word == "unset":
            value.pop(rest)
            self.answer(status, value)
        elif word == "partial":
            value["sandboxes"] = value["sandboxes"][1:]
            self.answer(status, value)
        else:
            raise ValueError(word)

    # --- the API itself ---

    def on_capabilities(self, _name, _request):
        return 200, {"lark_cli_init_image": False, "lark_cli_broker_image": True}

    def on_create(self, name, request):
        w = self.world
        if request.get("max_shell_sessions") == SLOW_SESSIONS:
            time.sleep(0.15)
        with w.lock:
            w.sweep()
            thread = request.get("thread_id")
            user = request.get("user_id", "default")
            mounts = request.get("extra_mounts", [])
            if thread is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", thread):
                return 422, {"detail": [{"loc": ["body", "thread_id"], "msg": "String should match pattern"}]}
            if not re.fullmatch(r"[A-Za-z0-9_-]+", user):
                return 422, {"detail": [{"loc": ["body", "user_id"], "msg": "String should match pattern"}]}
            if len(mounts) > 10 or any(not m["host_path"].startswith("/srv") for m in mounts):
                return 400, {"detail": "host path is not below the base directory\nat all"}
            if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,49}[a-z0-9])?", name):
                return 500, {"detail": "Pod creation failed: name"}
            box = w.boxes.get(name)
            if box is not None and box.gone_at is not None:
                return 409, {"detail": f"Sandbox '{name}' is still terminating"}
            if box is None:
                w.make(name, request)
            return 200, w.boxes[name].describe()

    def on_get(self, name, _request):
        w = self.world
        with w.lock:
            w.sweep()
            if name not in w.boxes or (w.old and w.boxes[name].gone_at is not None):
                return 404, {"detail": f"Sandbox '{name}' not found"}
            return 200, w.boxes[name].describe()

    def on_delete(self, name, _request):
        w = self.world
        with w.lock:
            if name in w.boxes and w.boxes[name].gone_at is None:
                w.boxes[name].gone_at = time.monotonic() + w.lingers_s
            w.sweep()
            return 200, {"ok": True, "sandbox_id": name}

    def on_presence(self, name, _request):
        w = self.world
        with w.lock:
            w.sweep()
            box = w.boxes.get(name)
            return 200, {"sandbox_id": name, "exists": box is not None, "container_id": box.uid if box else None}

    def on_list(self, _name, _request):
        w = self.world
        with w.lock:
            w.sweep()
            boxes = [b.describe() for b in w.boxes.values()]
            return 200, {"sandboxes": boxes, "count": len(boxes)}


def serve(port=0, state=None):
    server = Server(("127.0.0.1", port), ApiHandler)
    server.world = World(state)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


class Provisioner:
    """The server as a process, which can be stopped, killed and started again on the same port."""

    def __init__(self, directory):
        self.state = os.path.join(str(directory), "provisioner.json")
        self.port = 0
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        for _ in range(10):
            self.spawn()
            if self.is_reached():
                return self
            self.kill()  # rules of the machine's packet filter lead this port elsewhere
            self.port = 0
        raise RuntimeError("the provisioner cannot be reached")

    def is_reached(self):
        try:
            return "made" in self.control()
        except (OSError, ValueError):
            return False

    def spawn(self):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--serve", str(self.port), self.state],
            stdout=subprocess.PIPE, stdin=subprocess.PIPE)  # it ends with its input
        self.port = int(self.process.stdout.readline())

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None:
            self.process.wait(20)
            self.process.stdout.close()
            self.process.stdin.close()
        self.process = None

    def control(self, **change):
        request = urllib.request.Request(self.url + "/control", json.dumps(change).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def boxes(self):
        return self.control()["boxes"]


def main():
    if sys.argv[1] == "--serve":
        server = serve(int(sys.argv[2]), sys.argv[3])
        print(server.server_address[1], flush=True)
        sys.stdin.read()
        return 0
    server = serve()
    env = dict(os.environ, SANDPOOL_TEST_PROVISIONER=f"http://127.0.0.1:{server.server_address[1]}")
    code = subprocess.run(sys.argv[1:], env=env, check=False).returncode
    with server.world.lock:
        left = list(server.world.tell()["boxes"])
    if left:
        print(f"left with the provisioner: {left}", file=sys.stderr)
        code = code or 1
    return code


if __name__ == "__main__":
    sys.exit(main())
