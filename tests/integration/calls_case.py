"""What the tests of calls through the daemon share: a daemon with one box that does what the test says, and callers."""

import http.client
import json
import socket

from fixtures import WAIT_S, Answer, TestCase, UnixConnection, free_port
from http_peer import Upstream

KEY = "provisioner-key-of-the-tests"
ALICE = "alice-token-of-32-characters-xxxx"
BOB = "bob-token-of-more-than-16-chars-x"


class CallsCase(TestCase):
    def serve(self, is_root=False, profile=None, **config):
        self.up = Upstream(is_root)
        self.addCleanup(self.up.close)
        self.port = free_port()
        self.server = self.daemon(
            {"backend": "remote", "warm": {"min": 0, "max": 0}, **(profile or {}),
             "remote": {"provisioner_url": f"http://127.0.0.1:{self.up.port}", "provisioner_api_key": KEY}},
            tcp={"listen": f"127.0.0.1:{self.port}", "tokens": {"alice": ALICE, "bob": BOB}}, **config)
        self.api = self.client(self.server)

    def lease(self, thread="t", token=None, **fields):
        body = {"thread_id": thread, **fields}
        answer = self.call("POST", "/v1/acquire", body, token=token)
        self.box = self.assertOk(answer)
        self.base = f"/v1/sandboxes/{self.box['sandbox_id']}"
        return self.box

    def open(self, method, target, body=None, headers=None, token=None):
        """A connection whose request is sent; its answer is read by the test."""
        connection = (http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S) if token
                      else UnixConnection(self.server.socket))
        self.addCleanup(connection.close)
        headers = dict(headers or {})
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        connection.request(method, target, body, headers)
        return connection

    def call(self, method, target, body=None, headers=None, token=None):
        connection = self.open(method, target, body, headers, token)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        answer = Answer(response.status, dict(response.getheaders()), data.decode(errors="replace"))
        answer.data = data
        return answer

    def message(self, answer):
        return answer.json["error"]["message"]


def sse(text):
    """[(event, data)] of a stream of server-sent events."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and line[0] != ":")
        if "data" in fields:
            found.append((fields.get("event"), json.loads(fields["data"])))
    return found


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def begin(call, kind):
    call.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind.encode() +
                            b"\r\nTransfer-Encoding: chunked\r\n\r\n")


def wait_gone(connection, limit=WAIT_S):
    """Until the other end of a connection has hung up."""
    connection.settimeout(limit)
    try:
        return connection.recv(1) == b""
    except socket.timeout:
        return False
    except OSError:
        return True
