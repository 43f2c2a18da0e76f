"""What the tests with hostile callers share."""

import ctypes
import json
import os
import socket
import time

from fixtures import TestCase, wait_until

OK_BODY = b'{"status":"ok"}'
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def post(target, body, headers=""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {target} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def dial(path, timeout=20):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(timeout)
    sock.connect(str(path))
    return sock


def send_and_vanish(path, data, delay_s=0.0):
    with dial(path) as sock:
        sock.sendall(data)
        if delay_s > 0:
            time.sleep(delay_s)


def ask_raw(path, data):
    """Status code and body of one answer; the daemon closes the connection or is asked to."""
    got = b""
    with dial(path) as sock:
        try:
            sock.sendall(data)
        except OSError:
            pass  # refused before all was sent: the answer is there already
        while True:
            part = sock.recv(65536)
            if not part:
                break
            got += part
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def as_nobody(work):
    """Runs work() in a child of another uid; what it returns comes back as JSON."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            text = json.dumps(work())
        except BaseException as problem:  # a child must not return into the test
            text = json.dumps({"failed": repr(problem)})
        with os.fdopen(writer, "w") as out:
            out.write(text)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as got:
        text = got.read()
    os.waitpid(pid, 0)
    return json.loads(text)


class HangingDisk:
    """Stops every thread of the daemon but its loop, so that no commit ends; they go on at exit, and by
    themselves should the test die."""

    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, pid):
        self.threads = [int(t) for t in os.listdir(f"/proc/{pid}/task") if int(t) != pid]
        self.libc = ctypes.CDLL(None, use_errno=True)

    def trace(self, what, thread):
        if self.libc.ptrace(ctypes.c_long(what), ctypes.c_long(thread), None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        for thread in self.threads:
            self.trace(self.SEIZE, thread)
            self.trace(self.INTERRUPT, thread)
            os.waitpid(thread, self.WALL)

    def __exit__(self, *_):
        for thread in self.threads:
            self.trace(self.DETACH, thread)


class Hostile(TestCase):
    def rows(self, client):
        return client.get("/v1/sandboxes?limit=1000").json["sandboxes"]

    def destroy_all(self, client):
        for box in self.rows(client):
            if box["sandbox_id"]:
                client.delete(f"/v1/sandboxes/{box['sandbox_id']}?quick=1")

    def wait_equal(self, client, sim):
        """What runs is what is recorded, and nothing is under way or leased."""
        def is_equal():
            counts = client.get("/v1/pool").json["by_state"]
            return (counts["starting"] + counts["deleting"] + counts["leased"] == 0 and
                    {b["box_id"] for b in self.rows(client)} == set(sim.boxes()))
        wait_until(is_equal, "boxes that run == rows")

    def assertSane(self, daemon):
        text = daemon.process.output()
        for word in ("AddressSanitizer", "LeakSanitizer", "runtime error", "Assertion"):
            self.assertNotIn(word, text)
