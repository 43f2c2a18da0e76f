"""A provisioner for tests: the HTTP API of DeerFlow's, in a process of its own, with boxes that answer GET /v1/sandbox,
and every misbehaviour as a switch.

`fake_provisioner.py PROGRAM [ARGUMENT]...` runs a program beside it, which finds it in SANDPOOL_TEST_PROVISIONER, and fails
when the program leaves boxes behind. As a module it is the fixture of tests/integration/test_remote.py;
`fake_provisioner.py --serve PORT STATE` is the server alone (what it has survives it in the file STATE).

Switches, by POST /control:
  {"rules": [{"on": "create", "do": "lost", "times": 1, "id": "..."}]}    replaces all rules; see Rule.act
  {"old": true}            as before container_id, max_shell_sessions, /presence and /api/capabilities. A delete then takes the
                           Service away at once, while its Pod ends unseen for lingers_s; a create meanwhile finds that
                           Pod, makes a Service for it and calls it Running
  {"pending_s": 2}         new boxes are Pending for so long
  {"ready": true}          those that are Pending run now
  {"lingers_s": 2}         deleted ones are Terminating for so long
  {"serves_ending": true}  a Service leads to its Pod also while that ends
  {"unreadable": true}     no Pod can be read: every box is reported as NotFound, with 200
  {"has_agent": false}     boxes are those of another image: no X-Sandbox-Life, but files can be read
  {"restart": "..."}       the container of a box is started again in its Pod: all is lost that was in it
  {"lose_pod": "..."}      the Pod is deleted behind everybody's back, its Service stays
  {"sessions": 5}          max_shell_sessions that new boxes have
  {"box": {"id": "...", "status": "Failed", "uid": "..."}}                changes one
  {"add": {"id": "..."}}   one that somebody else has made; with "deaf": true it does not answer
GET /control returns what is there and what was asked."""

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
        elif word == "done_status":  # done, but reported as not done
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
        with w.lock:
            w.creates_now += 1
            w.creates_at_once = max(w.creates_at_once, w.creates_now)
        try:
            return self.create(name, request)
        finally:
            with w.lock:
                w.creates_now -= 1

    def create(self, name, request):
        w = self.world
        time.sleep(0.15 if request.get("max_shell_sessions") == SLOW_SESSIONS else 0.01)
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
            if box is not None and not w.old and box.pod.gone_at is not None and not box.pod.is_lost:
                return 409, {"detail": f"Sandbox '{name}' is still terminating"}
            if box is None:
                w.make(name, request)
            return 200, w.boxes[name].describe()

    def on_get(self, name, _request):
        w = self.world
        with w.lock:
            w.sweep()
            if name not in w.boxes:
                return 404, {"detail": f"Sandbox '{name}' not found"}
            return 200, w.boxes[name].describe()

    def on_delete(self, name, _request):
        w = self.world
        with w.lock:
            w.delete(name)
            w.sweep()
            return 200, {"ok": True, "sandbox_id": name}

    def on_presence(self, name, _request):
        w = self.world
        with w.lock:
            w.sweep()
            box = w.boxes.get(name)
            exists = box is not None and not box.pod.is_gone()
            return 200, {"sandbox_id": name, "exists": exists, "container_id": box.pod.uid if exists else None}

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
        left = list(server.world.report()["boxes"])
    if left:
        print(f"left with the provisioner: {left}", file=sys.stderr)
        code = code or 1
    return code


if __name__ == "__main__":
    sys.exit(main())
