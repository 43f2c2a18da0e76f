"""What the tests of calls to boxes of the AIO API share: a daemon whose one box serves that and nothing else."""

import json
import pathlib

from aio_box import AioUpstream, StandIn
from calls_case import ALICE, BOB, KEY, CallsCase
from fixtures import free_port, wait_until


class AioCase(CallsCase):
    KIND = StandIn

    def setUp(self):
        super().setUp()
        directory = pathlib.Path(self.directory) / "box"
        directory.mkdir()
        self.inside = self.KIND(directory)
        self.addCleanup(self.inside.kill)
        self.home = self.inside.home
        self.up = AioUpstream(self.inside)
        self.addCleanup(self.up.close)
        self.port = free_port()
        self.server = self.daemon(
            {"backend": "remote", "warm": {"min": 0, "max": 0},
             "remote": {"provisioner_url": f"http://127.0.0.1:{self.up.port}", "provisioner_api_key": KEY}},
            tcp={"listen": f"127.0.0.1:{self.port}", "tokens": {"alice": ALICE, "bob": BOB}})
        self.api = self.client(self.server)
        self.lease()

    def run_exec(self, **body):
        return self.assertOk(self.call("POST", self.base + "/exec", body))

    def events(self, **body):
        answer = self.open("POST", self.base + "/exec", body, {"Accept": "application/x-ndjson"}).getresponse()
        self.assertEqual(answer.status, 200, answer)
        return [json.loads(line) for line in answer.read().decode().splitlines()]

    def sessions_are_closed(self):
        """Nothing of ours is left in the box."""
        wait_until(lambda: sum(p.endswith("/close") for p, _ in self.up.calls) >=
                   sum(p == "/v1/bash/exec" for p, _ in self.up.calls), "all sessions are closed")
