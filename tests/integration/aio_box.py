"""Boxes that serve the AIO API and nothing else, for a daemon whose provisioner hands them out: our agent with all its other
paths hidden, and a server of its own that follows the published API and shares no code with the agent. It runs commands on
this machine, in a directory of the test."""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.parse

from fixtures import BIN, WAIT_S
from http_peer import Upstream

OPEN = ("/v1/sandbox", "/v1/bash/", "/v1/shell/", "/v1/file/")
NOT_FOUND = {"detail": "Not Found"}


class AioUpstream(Upstream):
    """Its boxes are all served by `box`."""

    def __init__(self, box):
        self.box = box
        self.calls = []  # (path, body) of what came for the box
        self.overrides = {}  # path: what is called with the call, in place of the box
        super().__init__()
        self.acts = self

    def __contains__(self, path):
        return True

    def __getitem__(self, path):
        return lambda call: self.answer(call, path)

    def answer(self, call, path):
        if call.target.split("/")[2] not in self.boxes:
            return call.reply_json(404, NOT_FOUND)
        if path == "/v1/file/read":
            stat = "1 (init) S " + " ".join(str(n) for n in range(0, 60))
            b"".join(call.pieces())
            return call.reply_json(200, {"success": True, "message": None, "data": {"content": stat, "file": "/proc/1/stat"}})
        if path in self.overrides:
            return self.overrides[path](call)
        return self.box.answer(call, path, self.calls)


class AgentBox:
    """sandpool-agent; what it has beyond the AIO API is not there."""

    def __init__(self, directory):
        self.home = pathlib.Path(directory) / "home"
        spill = pathlib.Path(directory) / "spill"
        self.home.mkdir()
        spill.mkdir()
        self.process = subprocess.Popen(
            [str(BIN / "sandpool-agent"), "--port", "0", "--open", "--spill-dir", str(spill), "--workdir", str(self.home)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(self.home)})
        self.port = int(re.search(r":(\d+)\s*$", self.process.stdout.readline().decode()).group(1))

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(WAIT_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(WAIT_S)
            self.process.stdout.close()

    def answer(self, call, path, calls):
        if not path.startswith(OPEN):
            b"".join(call.pieces())
            return call.reply_json(404, NOT_FOUND)
        is_upload = path == "/v1/file/upload"
        body = call.pieces() if is_upload else b"".join(call.pieces())
        calls.append((path, None if is_upload else body))
        headers = {name: value for name, value in call.headers if name.lower() not in ("host", "authorization")}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.request(call.method, call.path, body or None, headers,
                               encode_chunked=headers.get("Transfer-Encoding") == "chunked")
            answer = connection.getresponse()
            length = answer.getheader("Content-Length")
            lines = [f"HTTP/1.1 {answer.status} X"] + [f"{name}: {value}" for name, value in answer.getheaders()
                                                       if name.lower() not in ("x-sandbox-life", "connection")]
            assert length is not None
            call.connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            while piece := answer.read(65536):
                call.connection.sendall(piece)
        finally:
            connection.close()
        return True


class Command:
    def __init__(self, box, number, body):
        self.text, self.id = body["command"], f"cmd_{number}"
        self.lock = threading.Condition()
        self.streams = {"stdout": bytearray(), "stderr": bytearray()}
        self.status, self.code, self.was_killed = "running", None, False
        self.process = subprocess.Popen(  # its input stays open, as the image leaves it
            ["/bin/bash", "-c", self.text], cwd=body.get("exec_dir") or box.home, start_new_session=True,
            env={**os.environ, "HOME": str(box.home), **(body.get("env") or {})},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.limit = body.get("hard_timeout")
        readers = [threading.Thread(target=self.read, args=(name,), daemon=True) for name in self.streams]
        for reader in readers:
            reader.start()
        threading.Thread(target=self.watch, args=(readers,), daemon=True).start()

    def read(self, name):
        stream = getattr(self.process, name)
        while data := stream.read1(65536):
            with self.lock:
                self.streams[name] += data
                self.lock.notify_all()

    def watch(self, readers):
        status = "completed"
        try:
            self.process.wait(self.limit)
        except subprocess.TimeoutExpired:
            status = "timed_out"
            self.signal(signal.SIGKILL)
            self.process.wait()
        for reader in readers:
            reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        with self.lock:
            self.status = "killed" if self.was_killed and self.process.returncode < 0 else status
            self.code = self.process.returncode
            self.lock.notify_all()

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def wait(self, seconds, until):
        end = None if seconds is None else time.monotonic() + seconds
        with self.lock:
            while self.status == "running" and not until():
                if not self.lock.wait(None if end is None else max(end - time.monotonic(), 0)) and end is not None:
                    return

    def facts(self):
        return {"command_id": self.id, "command": self.text, "status": self.status,
                "exit_code": None if self.code is None else self.code}


class StandIn:
    """The API as it is published: text with what is no UTF-8 replaced, negative exit codes for signals, sessions that stay
    until they are closed, no `outcome`, no ranges."""

    def __init__(self, directory):
        self.home = pathlib.Path(directory) / "home"
        self.home.mkdir()
        self.lock = threading.Lock()
        self.sessions = {}
        self.made = 0

    def kill(self):
        for command in [c for c in self.sessions.values() if c is not None and c.status == "running"]:
            command.signal(signal.SIGKILL)
            command.wait(WAIT_S, lambda: False)

    def number(self):
        with self.lock:
            self.made += 1
            return self.made

    def answer(self, call, path, calls):
        body = b"".join(call.pieces())
        calls.append((path, body))
        name = {"GET /v1/sandbox": "sandbox", "POST /v1/bash/sessions/create": "create", "GET /v1/bash/sessions": "list",
                "POST /v1/bash/exec": "exec", "POST /v1/bash/output": "output", "POST /v1/bash/kill": "kill_command",
                "POST /v1/file/upload": "upload", "GET /v1/file/download": "download"}.get(f"{call.method} {path}")
        closed = re.fullmatch(r"/v1/bash/sessions/([^/]+)/close", path)
        if closed:
            with self.lock:
                command = self.sessions.pop(closed.group(1), None)
            if command is not None and command.status == "running":
                command.signal(signal.SIGKILL)
            return self.good(call, None)
        if name is None:
            return call.reply_json(404, NOT_FOUND)
        if name in ("upload", "download", "sandbox"):
            return getattr(self, name)(call, body)
        return getattr(self, name)(call, json.loads(body or b"{}"))

    def good(self, call, data):
        return call.reply_json(200, {"success": True, "message": "Operation successful", "data": data, "hint": None})

    def bad(self, call, status, message, data=None):
        return call.reply_json(status, {"success": False, "message": message, "data": data, "hint": None})

    def sandbox(self, call, body):
        return call.reply_json(200, {
            "success": True, "message": "ok", "data": "running", "hint": None, "home_dir": str(self.home), "version": "1.9.4",
            "detail": {"system": {"occupied_ports": ["8080", "8091"]}, "runtime": {"python": [], "nodejs": []}, "utils": []}})

    def create(self, call, body):
        name = body.get("session_id") or f"auto-{self.number()}"
        self.sessions.setdefault(name, None)
        return self.good(call, {"session_id": name, "status": "ready", "working_dir": str(self.home), "created_at": "", "last_used_at": ""})

    def list(self, call, body):
        with self.lock:
            sessions = dict(self.sessions)
        return self.good(call, [{"session_id": name, "status": "ready", "working_dir": str(self.home), "command_count": 1,
                                 "current_command": c.text if c is not None and c.status == "running" else None}
                                for name, c in sessions.items()])

    def exec(self, call, body):
        name = body.get("session_id") or f"auto-{self.number()}"
        if "session_id" in body and name not in self.sessions:
            return self.bad(call, 404, "Session not found")
        if body.get("exec_dir") and not os.path.isdir(body["exec_dir"]):
            return self.bad(call, 400, f"exec_dir does not exist: {body['exec_dir']}")
        number = self.number()
        with self.lock:  # whoever sees what it does finds it
            command = self.sessions[name] = Command(self, number, body)
        if not body.get("async_mode"):
            command.wait(body.get("timeout"), lambda: False)
        limit = body.get("max_output_length", 50000)
        with command.lock:
            data = {"session_id": name, **command.facts(), "offset": len(command.streams["stdout"]),
                    "stderr_offset": len(command.streams["stderr"])}
            for stream, raw in command.streams.items():
                text = raw.decode(errors="replace")
                if limit and len(text) > limit:
                    text = f"{text[:limit // 2]}\n[... {len(text) - limit} characters left out ...]\n{text[-(limit // 2):]}"
                data[stream] = text
        return self.good(call, data)

    def output(self, call, body):
        command = self.sessions.get(body["session_id"])
        if command is None:
            return self.bad(call, 404, "Session not found")
        at = {"stdout": body.get("offset", 0), "stderr": body.get("stderr_offset", 0)}
        if body.get("wait"):
            command.wait(body.get("wait_timeout", 30), lambda: any(len(command.streams[s]) > at[s] for s in at))
        with command.lock:
            data = {s: bytes(command.streams[s][at[s]:]).decode(errors="replace") for s in at}
            data.update(session_id=body["session_id"], command=command.facts(),
                        offset=len(command.streams["stdout"]), stderr_offset=len(command.streams["stderr"]))
        return self.good(call, data)

    def kill_command(self, call, body):
        with self.lock:
            command = self.sessions.get(body["session_id"])
        if command is None:
            return self.bad(call, 404, "Session not found")
        command.was_killed = command.status == "running"
        command.signal(getattr(signal, body["signal"]))
        return self.good(call, None)

    def upload(self, call, body):
        boundary = call.names["content-type"].split("boundary=")[1].encode()
        fields = {}
        for part in body.split(b"--" + boundary)[1:-1]:
            head, content = part[2:-2].split(b"\r\n\r\n", 1)
            fields[re.search(rb'name="(\w+)"', head).group(1).decode()] = content
        path = fields["path"].decode()
        pathlib.Path(path).write_bytes(fields["file"])
        return self.good(call, {"file_path": path, "file_size": len(fields["file"]), "success": True})

    def download(self, call, body):
        path = urllib.parse.parse_qs(call.path.split("?", 1)[1])["path"][0]
        try:
            data = pathlib.Path(path).read_bytes()
        except OSError as error:
            return self.bad(call, 404, str(error))
        return call.reply(200, data, "Content-Type: application/octet-stream", f'ETag: "{len(data)}"')
