"""What the tests of the hand-over share: callers that never try twice, and a peer made by hand."""

import array
import http.client
import json
import os
import random
import socket
import threading

from fixtures import WAIT_S, Client, TestCase, free_port, wait_until


class TcpClient(Client):
    """The same over TCP; every request carries the token."""

    def __init__(self, port):
        super().__init__(None)
        self.port = port

    def call(self, method, target, body=None, headers=None):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        return super().call(method, target, body, {"Authorization": "Bearer " + "s" * 32})


class Caller(threading.Thread):
    """Uses one sandbox until asked to stop. Never tries anything twice: whatever does not work is a
    failure of the daemon."""

    def __init__(self, name, client, is_kept):
        super().__init__(name=name)
        self.client = client
        self.is_kept = is_kept  # one connection for all, or one for each request
        self.stop = threading.Event()
        self.dice = random.Random(name)
        self.lease = None
        self.answers = 0
        self.failure = None

    def run(self):
        try:
            while not self.stop.is_set():
                self.act()
                self.answers += 1
                if not self.is_kept:
                    self.client.close()
        except Exception as problem:  # reported by the test
            self.failure = f"{self.name} after {self.answers} answers: {problem!r}"
        self.client.close()

    def expect(self, answer, **fields):
        assert answer.status == 200, answer
        for key, value in fields.items():
            assert answer.json[key] == value, (key, value, answer)

    def act(self):
        what = self.dice.choice(["healthz", "acquire", "renew", "release", "get"])
        if what == "healthz":
            self.expect(self.client.get("/healthz"), status="ok")
        elif self.lease is None or what == "acquire":
            answer = self.client.acquire(self.name, wait_ms=int(WAIT_S * 1000))
            self.expect(answer, thread_id=self.name)
            if self.lease is not None:
                self.expect(answer, box_id=self.lease["box_id"], token=self.lease["token"],
                            generation=self.lease["generation"])
            self.lease = answer.json
        elif what == "release":  # parked: the next acquire gives the same box
            self.expect(self.client.release(self.lease["sandbox_id"]), state="parked")
            answer = self.client.acquire(self.name, wait_ms=int(WAIT_S * 1000))
            self.expect(answer, source="parked", box_id=self.lease["box_id"],
                        generation=self.lease["generation"])
        else:
            target = "/v1/sandboxes/" + self.lease["sandbox_id"]
            answer = (self.client.get(target) if what == "get"
                      else self.client.post(target + "/renew", {"ttl_s": 900}))
            self.expect(answer, box_id=self.lease["box_id"], state="leased",
                        generation=self.lease["generation"])


class TakeoverCase(TestCase):
    def setting(self, **config):
        sim = self.sim()
        self.port = free_port()
        daemon = self.daemon({"warm": {"min": 2, "max": 8}, "park_timeout_s": 600}, sim=sim,
                             pool={"max_boxes": 60}, tcp={
                                 "listen": f"127.0.0.1:{self.port}", "tokens": {"t": "s" * 32}},
                             **config)
        return sim, daemon

    def watch(self, process):
        self.addCleanup(process.kill)
        return process

    def takeover(self, daemon, **kw):
        self.watch(daemon.process)
        daemon.takeover(**kw)
        self.watch(daemon.process)

    def callers(self, daemon, count, timeout=WAIT_S):
        made = []
        for i in range(count):
            client = TcpClient(self.port) if i % 4 == 3 else Client(daemon.socket, timeout)
            made.append(Caller(f"caller-{i}", client, is_kept=i % 2 == 0 or i % 4 == 3))
        for caller in made:
            caller.start()
        return made

    def finish(self, callers):
        for caller in callers:
            caller.stop.set()
        for caller in callers:
            caller.join(WAIT_S)
        self.assertEqual([c.failure for c in callers if c.failure], [])
        return sum(c.answers for c in callers)

    def check_leases(self, daemon, sim, callers):
        client = self.client(daemon)
        for caller in callers:
            if caller.lease is not None:
                box = self.assertOk(client.acquire(caller.name))
                self.assertEqual((box["box_id"], box["generation"]),
                                 (caller.lease["box_id"], caller.lease["generation"]))
        wait_until(lambda: {b["box_id"] for b in client.get("/v1/sandboxes?limit=1000").json[
            "sandboxes"]} == set(sim.boxes()), "rows and boxes agree")


class Peer:
    """Speaks the hand-over's words by hand."""

    def __init__(self, daemon):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(WAIT_S)
        self.socket.connect(str(daemon.state / "takeover.sock"))

    def send(self, kind, value=b""):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.socket.send(kind + data)

    def receive(self):
        """Kind, text, descriptors; kind b"" at the end."""
        fds = array.array("i")
        data, ancillary, _, _ = self.socket.recvmsg(70000, socket.CMSG_SPACE(64 * fds.itemsize))
        for level, kind, raw in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(raw[:len(raw) - len(raw) % fds.itemsize])
        for fd in fds:
            os.close(fd)
        return data[:1], data[1:].decode(), len(fds)

    def close(self):
        self.socket.close()
