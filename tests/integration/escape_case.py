"""What the attempts to get out of a box share: two boxes of one daemon, and how a probe is run in them."""

import http.client
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import unittest

from fixtures import IS_SANITIZED, SLOW, Daemon, skip, wait_until

RUNTIME, PYTHON = os.environ.get("SANDPOOL_TEST_RUNTIME", "runc"), "/usr/bin/python3"
PROBE = pathlib.Path(__file__).with_name("escape_probe.py").read_text()
REFUSED = {"EPERM", "EACCES", "EROFS", "ENOSYS"}
UNREACHED = {"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH"}
WHO = ("root", "user")
JOBS, TCP_TOKEN = "/v1/agent/jobs", "escape-" + secrets.token_hex(16)
world = None
COMMAND_S = 50 * SLOW  # for one attempt
HOLD_S = 3 * min(SLOW, 4)  # what one box holds, for others to try
on_this_kernel = unittest.skipIf("runsc" in RUNTIME, "ends in the box's own kernel")


class Box:
    def __init__(self, lease):
        self.id = lease["sandbox_id"]
        self.token = lease["token"]
        self.address = lease["sandbox_url"].removeprefix("http://")
        self.port = int(self.address.split(":")[1])
        self.dir = world.daemon.state / "oci" / "boxes" / lease["box_id"]

    @property
    def pid(self):
        return int((self.dir / "pid").read_text())

    def call(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.address, timeout=60 * SLOW)
        try:
            headers = {"Authorization": f"Bearer {self.token}"} if headers is None else headers
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        finally:
            connection.close()

    def start(self, user, argv):
        status, text = self.call("POST", JOBS, {"argv": argv, "user": user, "timeout_s": COMMAND_S})
        assert status == 200, text
        return json.loads(text)["job"]

    def output(self, ident):
        return self.call("GET", f"{JOBS}/{ident}/output")[1]

    def finish(self, ident):
        self.call("POST", f"{JOBS}/{ident}/wait", {"timeout_s": COMMAND_S})
        return self.output(ident)

    def run(self, user, *argv):
        return self.finish(self.start(user, argv))

    def start_probe(self, user, *probes):
        return self.start(user, [PYTHON, "-c", PROBE, *map(json.dumps, probes)])

    def probe(self, user, *probe):
        return results(self.finish(self.start_probe(user, probe)))[0]


def results(text):
    last = text.rstrip("\n").rsplit("\n", 1)[-1]
    assert last.startswith("["), text[-3000:]
    return json.loads(last)


def on_host(*probe):
    """The same attempt where nothing hinders it."""
    ran = subprocess.run([PYTHON, "-c", PROBE, json.dumps(probe)], capture_output=True, text=True, timeout=60 * SLOW)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return results(ran.stdout)[0]


class World:
    """One daemon and two boxes for all tests; making them costs more than most attempts."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="sandpool-test-")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        profile = {"backend": "oci", "runtime": RUNTIME, "warm": {"min": 0, "max": 1}, "idle_timeout_s": 7200,
                   "limits": {"disk": 0, "memory": "256m"}}
        config = {"profiles": {"default": profile, "disk": {**profile, "limits": {"disk": "64m"}}},
                  "tcp": {"listen": f"127.0.0.1:{self.port}", "tokens": {"escape": TCP_TOKEN}}}
        self.daemon = Daemon(self.directory, config, args=["--destroy-on-exit"])
        self.client = self.daemon.client(60 * SLOW)

    def start(self):
        self.daemon.start()
        self.a, self.b = self.box("a"), self.box("b")

    def box(self, thread, **fields):
        self.client.close()  # one that was not used for minutes is closed by the daemon
        answer = self.client.acquire(thread, **fields)
        assert answer.status == 200, (answer, self.daemon.process.output()[-3000:])
        return Box(answer.json)

    def destroy(self, box):
        self.client.close()
        answer = self.client.delete(f"/v1/sandboxes/{box.id}")
        assert answer.status in (200, 202, 204), answer
        wait_until(lambda: not box.dir.exists(), "the box is gone", 60 * SLOW)

    def stop(self):
        self.client.close()
        if self.daemon.process is not None:
            self.daemon.process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def why_not():
    if os.geteuid() != 0:
        return "boxes are made by root here"
    if IS_SANITIZED:  # it keeps a copy of its environment, for one
        return "an instrumented agent is another program"
    for program in (RUNTIME, PYTHON):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None


def setUpModule():
    global world
    reason = why_not()
    if reason is not None:
        skip(reason)
    world = World()
    unittest.addModuleCleanup(world.stop)
    world.start()
    Attempt.world, Attempt.a, Attempt.b = world, world.a, world.b


class Attempt(unittest.TestCase):
    def assertRefused(self, seen, allowed=REFUSED):
        """Each of these attempts; those that were not refused are named."""
        self.assertEqual({k: v for k, v in seen.items() if v not in allowed}, {})

    def plant(self, directory, mode=0o600):
        """A file of the host with a secret in it."""
        secret = secrets.token_hex(16)
        path = pathlib.Path(directory) / f"sandpool-escape-{secrets.token_hex(8)}"
        path.touch(mode)
        self.addCleanup(path.unlink)
        path.write_text(secret)
        return str(path), secret
