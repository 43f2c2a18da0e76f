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

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from provisioner_world import KEY, Handler, Server, World  # noqa: F401 (KEY: for those who import this)

SLOW_SESSIONS = 7  # a create that asks for so many takes its time
HUGE = b"x" * (40 << 20)


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
