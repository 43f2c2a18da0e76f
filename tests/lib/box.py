"""A box, as the client of its agent sees it."""

import http.client
import json
import urllib.parse

from testlib import WAIT_S

JOBS = "/v1/agent/jobs"


class Ended(dict):
    """What the agent says of a process that is over, with its output."""

    def __getattr__(self, name):
        return self[name]


class Box:
    """A client of the agent of one lease."""

    def __init__(self, lease, timeout=WAIT_S):
        self.lease = lease
        self.id = lease["sandbox_id"]
        self.box_id = lease["box_id"]
        self.url = urllib.parse.urlsplit(lease["sandbox_url"])
        self.timeout = timeout

    def call(self, method, target, body=None, token=None):
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port,
                                                timeout=self.timeout)
        try:
            connection.request(method, target, json.dumps(body) if body is not None else None,
                               {"Authorization": f"Bearer {token or self.lease['token']}"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def json(self, method, target, body=None, expect=200):
        status, data = self.call(method, target, body)
        assert status == expect, (method, target, status, data[:500])
        return json.loads(data)

    def start(self, command, **fields):
        key = "argv" if isinstance(command, list) else "command"
        return self.json("POST", JOBS, {key: command, **fields})["job"]

    def process(self, pid):
        return self.json("GET", f"{JOBS}/{pid}")

    def wait(self, pid, timeout_s=WAIT_S):
        return self.json("POST", f"{JOBS}/{pid}/wait", {"timeout_s": timeout_s})

    def output(self, pid, stream="stdout"):
        status, data = self.call("GET", f"{JOBS}/{pid}/output?stream={stream}")
        assert status == 200, (status, data)
        return data.decode(errors="replace")

    def run(self, command, **fields):
        """Waits for its end; .out and .err are what it wrote."""
        pid = self.start(command, **fields)
        ended = Ended(self.wait(pid))
        ended["out"] = self.output(pid)
        ended["err"] = self.output(pid, "stderr")
        return ended

    def sh(self, command, **fields):
        """The output of a command that must succeed."""
        ended = self.run(command, **fields)
        assert (ended.outcome, ended.exit_code) == ("exited", 0), ended
        return ended.out
