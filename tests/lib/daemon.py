"""A daemon, a simulated machine, and a client of both: what the tests with real processes share.

Every process started here is stopped by its own handle when the test ends, whatever happens;
every wait has a limit; everything lives in one temporary directory per test.
"""

import atexit
import hashlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import threading
import unittest

from testlib import BIN, IS_SANITIZED, WAIT_S, UnixConnection, tmpdir, wait_until


def fewer(many):
    """Of rounds that only differ in the moment: sanitizers find in the first what they can find, and take long."""
    return many[:(len(many) + 2) // 3] if IS_SANITIZED else many


class Answer:
    def __init__(self, status, headers, text):
        self.status = status
        self.headers = headers
        self.text = text
        self.json = json.loads(text) if text and text[0] in "{[" else None

    @property
    def code(self):
        return self.json["error"]["code"] if self.json and "error" in self.json else None

    def __repr__(self):
        return f"<{self.status} {self.text[:300]}>"


class Client:
    """One kept-alive connection to a Unix socket."""

    def __init__(self, path, timeout=WAIT_S):
        self.path = path
        self.timeout = timeout
        self.connection = None

    def call(self, method, target, body=None, headers=None):
        if self.connection is None:
            self.connection = UnixConnection(self.path, self.timeout)
        data = json.dumps(body) if body is not None else None
        try:
            self.connection.request(method, target, data, headers or {})
            response = self.connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        if response.will_close:
            self.close()
        return Answer(response.status, dict(response.getheaders()), text)

    def get(self, target, **kw):
        return self.call("GET", target, **kw)

    def post(self, target, body=None, **kw):
        return self.call("POST", target, body, **kw)

    def delete(self, target, **kw):
        return self.call("DELETE", target, **kw)

    def acquire(self, thread=None, **fields):
        if thread is not None:
            fields["thread_id"] = thread
        return self.post("/v1/acquire", fields)

    def release(self, sandbox_id, **fields):
        return self.post(f"/v1/sandboxes/{sandbox_id}/release", fields)

    def reports(self, box_id):
        """What the audit trail says was released by the end of a box."""
        lines = self.get("/v1/events?follow=0&since=0").text.splitlines()
        events = [json.loads(line[len("data: "):]) for line in lines if line.startswith("data: ")]
        return [event["report"] for event in events if event.get("box_id") == box_id and "report" in event]

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def remove_groups(instance):
    """The control groups of the instance, empty by now: a group with a box in it stays."""
    top = pathlib.Path("/sys/fs/cgroup")
    for pattern in (f"sandpool-{instance}", f"*/sandpool-{instance}"):  # version 2, version 1
        for group in top.glob(pattern):
            group.rmdir()


class Process:
    """A child with its output in a file; stop() and kill() wait for it."""

    def __init__(self, argv, log, env=None, pass_fds=()):
        self.log = log
        with open(log, "ab") as out:
            self.child = subprocess.Popen(
                [str(a) for a in argv], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                pass_fds=pass_fds, env={**os.environ, **(env or {})})

    @property
    def pid(self):
        return self.child.pid

    def is_running(self):
        return self.child.poll() is None

    def stop(self, signum=signal.SIGTERM):
        if self.is_running():
            self.child.send_signal(signum)
            try:
                self.child.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait(WAIT_S)
                raise AssertionError(f"did not stop; {self.output()[-2000:]}")
        return self.child.returncode

    def kill(self):
        if self.is_running():
            self.child.kill()
        self.child.wait(WAIT_S)

    def output(self):
        return pathlib.Path(self.log).read_text(errors="replace")


class SimMachine(Process):
    """sandpool-sim: boxes that survive the daemon."""

    def __init__(self, directory):
        self.socket = pathlib.Path(directory) / "sim.sock"
        super().__init__([BIN / "sandpool-sim", "--socket", self.socket],
                         pathlib.Path(directory) / "sim.log")
        self.client = Client(self.socket)
        wait_until(self.answers, f"sandpool-sim answers; {self.output()}")

    def answers(self):
        try:
            return self.client.get("/healthz").status == 200
        except OSError:
            return False

    def boxes(self):
        """box id -> labels of everything that runs."""
        found = {}
        cursor = ""
        while True:
            answer = self.client.get("/boxes" + (f"?cursor={cursor}" if cursor else ""))
            assert answer.status == 200, answer
            for box in answer.json["boxes"]:
                found[box["box_id"]] = box
            cursor = answer.json["cursor"]
            if not cursor:
                return found

    def fail(self, **faults):
        """hide_lists=N: that many listings show nothing; fail_binds=N: that many binds fail."""
        answer = self.client.post("/faults", faults)
        assert answer.status == 204, answer

    def kill_box(self, box_id):
        answer = self.client.post(f"/boxes/{box_id}/kill")
        assert answer.status in (200, 204), answer


def forget_stamp(state):
    """The daemon leaves it in /run until the machine starts anew (store/stamp.c)."""
    name = hashlib.sha256(f"{state}/sandpool.db".encode()).hexdigest()[:16]
    pathlib.Path(f"/run/sandpool-stamp-{name}").unlink(missing_ok=True)


class Daemon:
    """sandpoold on a state directory of its own; can be stopped, killed and started again."""

    def __init__(self, directory, config, env=None, args=()):
        self.directory = pathlib.Path(directory)
        self.socket = self.directory / "sandpool.sock"
        self.state = self.directory / "state"
        self.config = self.directory / "sandpool.yaml"
        self.log = self.directory / "sandpoold.log"
        self.env = env or {}
        self.args = list(args)
        self.process = None
        self.write_config(config)
        atexit.register(forget_stamp, self.state)

    def write_config(self, config):
        # JSON is YAML, and Python writes JSON.
        self.config.write_text(json.dumps(config, indent=1) if isinstance(config, dict) else config)

    def spawn(self, env=None, args=(), prefix=()):
        argv = [*prefix, BIN / "sandpoold", "--config", self.config, "--state-dir", self.state,
                "--socket", self.socket, *self.args, *args]
        return Process(argv, self.log, {**self.env, **(env or {})})

    def start(self, env=None, wait=True):
        self.process = self.spawn(env)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self):
        def is_ready():
            if not self.process.is_running():
                raise AssertionError(f"the daemon ended: {self.process.output()[-3000:]}")
            return self.answers()
        wait_until(is_ready, "the daemon answers")

    def answers(self):
        client = Client(self.socket, timeout=5)
        try:
            return client.get("/healthz").status == 200
        except OSError:
            return False
        finally:
            client.close()

    def client(self, timeout=WAIT_S):
        return Client(self.socket, timeout)

    def acquire(self, thread, **fields):
        """On a connection of its own, so that threads can call it."""
        client = self.client()
        try:
            return client.acquire(thread, **fields)
        finally:
            client.close()

    def stop(self):
        status = self.process.stop()
        assert status == 0, f"exit status {status}: {self.process.output()[-3000:]}"

    def kill(self):
        self.process.kill()

    def restart(self):
        self.stop()
        self.start()

    def takeover(self, env=None):
        """A second daemon replaces the first, which ends by itself."""
        old = self.process
        self.process = self.spawn(env, args=["--takeover"])
        assert old.child.wait(WAIT_S) == 0, old.output()[-3000:]
        self.wait_ready()
        return self


    def replace(self, env=None):
        """The same, and the first may have calls left: gives its process, which the caller ends."""
        old = self.process
        self.process = self.spawn(env, args=["--takeover"])
        wait_until(lambda: "daemon.handed_over" in old.output(), "it has handed over")
        self.wait_ready()
        return old


class TestCase(unittest.TestCase):
    """Gives each test a directory and cleans up what it started."""

    def setUp(self):
        self.directory = str(tmpdir(self))
        self.daemons = []

    def sim(self):
        sim = SimMachine(self.directory)
        self.addCleanup(sim.kill)
        self.addCleanup(sim.client.close)
        return sim

    def daemon(self, profile=None, start=True, env=None, sim=None, args=(), **config):
        """A daemon with one profile; `sim` puts its boxes into that machine."""
        profile = {"backend": "sim", **(profile or {})}
        if sim is not None:
            profile["sim"] = {**profile.get("sim", {}), "socket": str(sim.socket)}
        config.setdefault("profiles", {"default": profile})
        daemon = Daemon(self.directory, config, env, args)
        self.addCleanup(lambda: daemon.process and daemon.kill())
        self.daemons.append(daemon)
        return daemon.start() if start else daemon

    def client(self, daemon, timeout=WAIT_S):
        client = daemon.client(timeout)
        self.addCleanup(client.close)
        return client

    def wait_blank(self, client, count):
        return wait_until(lambda: client.get("/v1/pool").json["by_state"]["blank"] >= count,
                          f"{count} blank boxes")

    def assertCode(self, answer, status, code):
        self.assertEqual((answer.status, answer.code), (status, code), answer)

    def assertOk(self, answer):
        self.assertEqual(answer.status, 200, answer)
        return answer.json


def in_threads(count, work):
    """Runs work(i) in `count` threads and returns the results; an exception is raised here."""
    results = [None] * count
    failures = []

    def run(i):
        try:
            results[i] = work(i)
        except Exception as problem:  # handed on below
            failures.append(problem)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S * 3)
    if failures:
        raise failures[0]
    return results
