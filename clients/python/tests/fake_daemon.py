"""A daemon of one box, for tests of the client: it does what it is asked, breaks off where the test wants it to, and
remembers what came."""

import base64
import contextlib
import hashlib
import json
import pathlib
import socket
import sys
import threading
import unittest
import urllib.parse

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[3] / "tests" / "lib")]

from testlib import WAIT_S, tmpdir  # noqa: E402

BOX = {"sandbox_id": "s1", "generation": 1, "box_id": "00000000000000b1", "state": "leased", "profile": "default",
       "user_id": "ana", "thread_id": "t", "token": "hidden", "sandbox_url": "http://127.0.0.1:1", "created_at": None,
       "expires_at": None, "ends_in_s": 600}
BASE = "/v1/sandboxes/box:00000000000000b1"
BREAK = object()  # in an answer: the connection is cut here


def job(outcome="exited", number="7", **fields):
    return {"job": number, "pid": 12, "command": "x", "tag": None, "pty": False, "outcome": outcome,
            "exit_code": 0 if outcome == "exited" else None, "signal": None, "started_at": "2026-01-02T03:04:05.678Z",
            "duration_ms": 12, "stdout_bytes": 0, "stderr_bytes": 0, **fields}


def line(event, **fields):
    return json.dumps({"event": event, **fields}).encode() + b"\n"


def output(stream, offset, data):
    return line(stream, offset=offset, data=base64.b64encode(data).decode())


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.headers, self.raw = method, headers, body
        parts = urllib.parse.urlsplit(target)
        self.path = parts.path
        self.query = {key: value[0] for key, value in urllib.parse.parse_qs(parts.query).items()}

    @property
    def json(self):
        return json.loads(self.raw)

    def __repr__(self):
        return f"{self.method} {self.path} {self.query} {self.raw[:80]!r}"


class FakeDaemon:
    """`answer(request, sock)` returns what is sent: an object (JSON), a status with one, or a list of pieces of a
    stream; None when it has sent everything itself."""

    def __init__(self, directory):
        self.path = str(directory / "daemon.sock")
        self.requests = []
        self.answer = lambda request, sock: (404, error("not_found"))
        self.box = dict(BOX)
        self.renewed = 0
        self._open = []
        self._listener = None
        self.start()

    def start(self):
        self._listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            pathlib.Path(self.path).unlink()
        self._listener.bind(self.path)
        self._listener.listen(100)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self):
        """As when the daemon is killed: nobody listens, and all connections end."""
        pathlib.Path(self.path).unlink()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def asked(self, method, path):
        return [r for r in self.requests if r.method == method and r.path == path]

    def _accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                self._open.append(sock)
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        with sock, contextlib.suppress(OSError), sock.makefile("rb") as stream:
            sock.settimeout(WAIT_S)
            while True:
                request = self._read(stream, sock)
                if request is None or not self._reply(request, sock):
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
                    return

    def _read(self, stream, sock):
        first = stream.readline().decode()
        if not first:
            return None
        method, target, _ = first.split(" ")
        headers = {}
        for text in iter(lambda: stream.readline().decode().strip(), ""):
            name, _, value = text.partition(":")
            headers[name.lower()] = value.strip()
        refuse = getattr(self, "refuse", None)
        if refuse is not None and method == "PUT":
            sock.sendall(refuse)
            while stream.read(65536):
                pass
            return None
        if headers.get("transfer-encoding") == "chunked":
            body = bytearray()
            while True:
                size = int(stream.readline(), 16)
                body += stream.read(size)
                stream.readline()
                if size == 0:
                    break
        else:
            body = stream.read(int(headers.get("content-length", 0)))
        request = Request(method, target, headers, bytes(body))
        self.requests.append(request)
        return request

    def _reply(self, request, sock):
        answer = self._lease(request)
        if answer is None:
            answer = self.answer(request, sock)
        if answer is None:
            return False
        if isinstance(answer, list):
            return self._stream(answer, sock)
        status, value = answer if isinstance(answer, tuple) else (200, answer)
        headers, body = "", value
        if isinstance(value, tuple):
            headers, body = value
        elif not isinstance(value, bytes):
            body = json.dumps(value).encode()
        sock.sendall(f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body)
        return True

    def _stream(self, pieces, sock):
        sock.sendall(b"HTTP/1.1 200 x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces:
            if piece is BREAK:
                return False
            if callable(piece):
                piece = piece()
            if piece:
                sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        sock.sendall(b"0\r\n\r\n")
        return True

    def _lease(self, request):
        """The calls of the pool."""
        if request.path == "/v1/acquire":
            return self.box
        if request.path == "/v1/sandboxes/s1/renew":
            self.renewed += 1
            return self.renew_answer() if hasattr(self, "renew_answer") else self.box
        if request.path == "/v1/sandboxes/s1/release" or (request.path == BASE and request.method in ("GET", "DELETE")):
            return getattr(self, "box_answer", self.box)
        return None


def error(code, **fields):
    return {"error": {"code": code, "message": f"this is {code}", **fields}}


def accept_of(request):
    key = request.headers["sec-websocket-key"].encode()
    return base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()


class FakeCase(unittest.TestCase):
    def setUp(self):
        self.directory = tmpdir(self)
        self.daemon = FakeDaemon(self.directory)
        self.addCleanup(self.stop)

    def stop(self):
        with contextlib.suppress(OSError):
            self.daemon.stop()
