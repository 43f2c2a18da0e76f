"""What the tests of calls that end share: a daemon with operators and other callers, a box that begins what it is asked for and
then says nothing more, and what becomes of that."""

import contextlib
import json
import socket

from calls_case import ALICE, BOB, CallsCase, begin, chunk, sse, wait_gone
from fixtures import WAIT_S, UnixConnection, receive, wait_until

EVENT = b'event: stdout\ndata: {"offset":0,"data":"b25l"}\n\n'
PATIENCE_S = 10 * WAIT_S  # of the box: longer than any client's
CAROL = "carol-token-of-more-than-16-chars"
TOKENS = {"alice": ALICE, "bob": BOB, "carol": CAROL}


def closed(connection):
    """All that still came; a connection that is cut ends in either way."""
    with contextlib.suppress(ConnectionResetError):
        return receive(connection)
    return b""


class EndsCase(CallsCase):
    def begin(self, **config):
        """A box that begins a stream and opens upgrades, and then says nothing more. `left` has those the daemon closed."""
        config.setdefault("profile", {"park_timeout_s": 600})
        config.setdefault("tcp", {"operators": "carol"})
        tcp = config.pop("tcp")
        self.serve_with(tcp, **config)
        self.left = []

        def stream(call):
            for _ in call.pieces():
                pass
            begin(call, "text/event-stream")
            call.connection.sendall(chunk(EVENT))
            self.left.append(wait_gone(call.connection, PATIENCE_S))
            return False

        def silent(call):
            for _ in call.pieces():
                pass
            self.left.append(wait_gone(call.connection, PATIENCE_S))
            return False

        def upgrade(call):
            call.connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
            self.left.append(wait_gone(call.connection, PATIENCE_S))
            return False

        self.up.acts.update({"/v1/agent/exec": stream, "/v1/agent/files": silent, "/v1/agent/jobs/1/attach": upgrade})

    def serve_with(self, tcp, **config):
        self.serve(**config)
        self.configure(tcp={**json.loads(self.server.config.read_text())["tcp"], "tokens": TOKENS, **tcp})

    def configure(self, **changes):
        config = {**json.loads(self.server.config.read_text()), **changes}
        self.server.write_config(config)
        self.assertOk(self.api.post("/v1/pool/reload"))

    def tokens(self, **changes):
        tcp = json.loads(self.server.config.read_text())["tcp"]
        self.configure(tcp={**tcp, **changes})

    def upgrade(self, path, token=None, protocol="websocket"):
        if token is None:
            connection = UnixConnection(self.server.socket)
            connection.connect()
            s = connection.sock
        else:
            s = socket.create_connection(("127.0.0.1", self.port))
        s.settimeout(WAIT_S)
        self.addCleanup(s.close)
        auth = f"Authorization: Bearer {token}\r\n" if token else ""
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n{auth}\r\n".encode())
        return s

    def attach(self, token=None):
        s = self.upgrade(self.base + "/jobs/1/attach", token)
        self.assertTrue(receive(s, until=b"hello").startswith(b"HTTP/1.1 101 "))
        return s

    def stream(self, token=None):
        response = self.open("POST", self.base + "/exec", {}, {"Accept": "text/event-stream"}, token).getresponse()
        self.assertEqual(response.read(len(EVENT)), EVENT)
        return response

    def all_kinds(self, token=None):
        """A stream, a call that is not answered yet, an attached terminal."""
        asked = len(self.up.seen)
        kinds = self.stream(token), self.open("GET", self.base + "/files?path=a", token=token), self.attach(token)
        wait_until(lambda: len(self.up.seen) == asked + 3, "they are at the box")
        return kinds

    def assertEnded(self, kinds, status, code, why):
        stream, waiting, attached = kinds
        (kind, end), = sse(stream.read().decode())
        self.assertEqual((kind, end["outcome"], end["exit_code"]), ("end", "sandbox_lost", None))
        self.assertIn(why, end["message"])
        answer = waiting.getresponse()
        body = json.loads(answer.read())
        self.assertEqual((answer.status, body["error"]["code"]), (status, code))
        self.assertIn(why, body["error"]["message"])
        self.assertEqual(closed(attached), b"")

    def assertGoesOn(self, kinds):
        """The box has not been hung up on, and what it says arrives."""
        stream, waiting, attached = kinds
        self.assertIsNotNone(stream.fp)
        for s in (waiting.sock, attached):
            s.settimeout(0)
            with self.assertRaises(BlockingIOError):
                s.recv(1)
            s.settimeout(WAIT_S)
