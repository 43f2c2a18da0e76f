"""What the tests of the agent share: the program on a free port, and a client of it."""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from testlib import BIN, IS_SANITIZED, WAIT_S, QuietHandler, at_most, is_alive, main, receive, wait_until  # noqa: E402

__all__ = ["BIN", "IS_SANITIZED", "TOKEN", "WAIT_S", "AgentTest", "Answer", "QuietHandler", "at_most", "is_alive", "main", "receive",
           "wait_until"]

TOKEN = "test-token"


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body
        self.json = json.loads(body) if body[:1] in (b"{", b"[") else None

    @property
    def data(self):
        return self.json["data"]

    def __repr__(self):
        return f"<{self.status} {self.body[:400]}>"


class AgentTest(unittest.TestCase):
    """Starts an agent for each test; at its end nothing of it may be left."""

    def prepare_agent(self):
        """Runs in the child before it becomes the agent."""

    def agent_fds(self):
        """Descriptors that it inherits."""
        return ()

    def agent_argv(self, argv):
        """The whole command line."""
        return argv

    env = {}  # more of its environment

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="sandpool-agent-")
        self.addCleanup(self.dir.cleanup)
        self.home = pathlib.Path(self.dir.name) / "home"
        self.spill = pathlib.Path(self.dir.name) / "spill"
        self.home.mkdir()
        self.spill.mkdir()
        env = {**os.environ, "SANDPOOL_AGENT_TOKEN": TOKEN, "HOME": str(self.home), **self.env}
        self.agent = subprocess.Popen(
            self.agent_argv([str(BIN / "sandpool-agent"), "--port", "0",
                             "--spill-dir", str(self.spill)]),
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env, pass_fds=self.agent_fds(),
            preexec_fn=self.prepare_agent)
        self.addCleanup(self.stop_agent)
        line = self.agent.stdout.readline().decode()
        self.port = int(re.search(r":(\d+)\s*$", line).group(1))

    def stop_agent(self):
        if self.agent.poll() is None:
            self.agent.send_signal(signal.SIGTERM)
        try:
            self.assertEqual(self.agent.wait(WAIT_S), 0)
        finally:
            if self.agent.poll() is None:
                self.agent.kill()
                self.agent.wait(WAIT_S)
            self.agent.stdout.close()

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        self.addCleanup(connection.close)
        return connection

    def open(self, method, target, body=None, headers=None, token=TOKEN):
        """A response that is not read yet, with its connection."""
        connection = self.connect()
        all_headers = {"Authorization": f"Bearer {token}"} if token else {}
        all_headers.update(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection.request(method, target, body, all_headers)
        return connection, connection.getresponse()

    def call(self, method, target, body=None, headers=None, token=TOKEN):
        connection, response = self.open(method, target, body, headers, token)
        answer = Answer(response.status, dict(response.getheaders()), response.read())
        connection.close()
        return answer

    def get(self, target, **kw):
        return self.call("GET", target, **kw)

    def post(self, target, body=None, **kw):
        return self.call("POST", target, {} if body is None else body, **kw)

    def bash(self, command, **fields):
        answer = self.post("/v1/bash/exec", {"command": command, **fields})
        self.assertEqual(answer.status, 200, answer)
        return answer.data

    def start(self, **fields):
        answer = self.post("/v1/agent/jobs", fields)
        self.assertEqual(answer.status, 200, answer)
        return answer.json["job"]

    def assertRefusedPrograms(self, route):
        """A program that is not there differs from a sandbox or job that is not, and from other fields."""
        for program, code in (("/no/such/program", "program_not_found"), ("no-such-program", "program_not_found"),
                              ("/etc/passwd/x", "program_not_found"), ("/etc/passwd", "program_not_executable"),
                              ("/", "program_not_executable")):
            answer = self.post(route, {"argv": [program]})
            self.assertEqual((answer.status, answer.json["error"]["code"]), (422, code), program)
        answer = self.post(route, {"argv": ["passwd"], "env": {"PATH": "/no/such:/etc"}})
        self.assertEqual((answer.status, answer.json["error"]["code"]), (422, "program_not_executable"))

    def process(self, pid, what="", **kw):
        return self.get(f"/v1/agent/jobs/{pid}{what}", **kw)

    def wait(self, pid, timeout_s=WAIT_S):
        answer = self.post(f"/v1/agent/jobs/{pid}/wait", {"timeout_s": timeout_s})
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def children(self):
        path = f"/proc/{self.agent.pid}/task/{self.agent.pid}/children"
        return [int(p) for p in pathlib.Path(path).read_text().split()]

    def descriptors(self):
        """How many; only root may look, for others it is always none."""
        if os.geteuid() != 0:
            return 0
        return len(os.listdir(f"/proc/{self.agent.pid}/fd"))

    def memory_kb(self, field="VmRSS"):
        status = pathlib.Path(f"/proc/{self.agent.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+)", status).group(1))
