"""Long answers that many ask for at once: short requests are answered in between, and each list is whole."""

import json
import select
import signal
import socket
import time

from harness import WAIT_S, in_threads, main
from provisioner import KEY, Caller, ProvisionerCase

BOXES = 1000
CALLERS = 48
TRIES = 6


def request_of(target, headers=""):
    return f"GET {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode()


def read_body(sock):
    """The body of one answer, by its length or in chunks; and the sizes of its chunks."""
    file, length, is_chunked, chunks = sock.makefile("rb"), 0, False, []
    assert file.readline().split()[1] == b"200"
    for line in iter(file.readline, b"\r\n"):
        name, _, value = line.decode().partition(":")
        if name.lower() == "content-length":
            length = int(value)
        is_chunked = is_chunked or name.lower() == "transfer-encoding"
    if not is_chunked:
        return file.read(length), chunks
    body = b""
    while size := int(file.readline(), 16):
        chunks.append(size)
        body += file.read(size)
        file.readline()
    file.readline()
    return body, chunks


def is_begun(sock):
    return bool(select.select([sock], [], [], 0)[0])


class Crowd:
    """Connections that all ask for the same long answer while the daemon stands still, and one that asks last for a short
    one. So the daemon finds all of them at once when it goes on."""

    def __init__(self, daemon, connect, target, headers=""):
        self.daemon = daemon
        self.long = request_of(target, headers)
        self.short = request_of("/health" if headers else "/healthz", headers)
        self.socks = [connect() for _ in range(CALLERS + 1)]
        for sock in self.socks:
            sock.settimeout(2 * WAIT_S)
            sock.sendall(self.short)
            read_body(sock)

    def ask(self):
        """Sends everything; the number of long answers that were begun when the short one was there, and all long ones."""
        *many, last = self.socks
        self.daemon.process.child.send_signal(signal.SIGSTOP)
        try:
            for sock in many:
                sock.sendall(self.long)
            last.sendall(self.short)
        finally:
            self.daemon.process.child.send_signal(signal.SIGCONT)
        read_body(last)
        begun = sum(is_begun(sock) for sock in many)
        return begun, [read_body(sock) for sock in many]

    def close(self):
        for sock in self.socks:
            sock.close()


class Pages(ProvisionerCase):
    def assertBetween(self, crowd, check):
        """The short answer came before most of the long ones were begun. What is begun while this program is not running
        cannot be distinguished: a few tries, of which one has to show it."""
        self.addCleanup(crowd.close)
        fewest = CALLERS
        for _ in range(TRIES):
            begun, answers = crowd.ask()
            for body, chunks in answers:
                check(json.loads(body), chunks)
            fewest = min(fewest, begun)
            if fewest <= CALLERS // 2:
                return
        self.fail(f"{fewest} of {CALLERS} long answers were begun before the short one was there")

    def test_pages(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 0}, "create": {"concurrency": 64}},
                             pool={"max_boxes": 2 * BOXES, "reconcile_interval_s": 3600})

        def fill(k):
            client = self.client(daemon)
            for i in range(BOXES // 8):
                self.assertOk(client.acquire(f"{k}-{i}"))

        def connect():
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(str(daemon.socket))
            return sock

        def check(page, _):
            self.assertEqual((len(page["sandboxes"]), page["next_cursor"]), (BOXES, None))

        in_threads(8, fill)
        self.assertBetween(Crowd(daemon, connect, "/v1/sandboxes?limit=1000"), check)

    def test_lists_of_the_provisioner(self):
        daemon = self.serve(profile={"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 0}, "create": {"concurrency": 64}},
                            pool={"max_boxes": 2 * BOXES, "reconcile_interval_s": 3600})
        names = {f"s-{i}" for i in range(BOXES)}

        def fill(k):
            caller = Caller(self.port)
            for name in sorted(names)[k::8]:
                self.assertEqual(caller.create(name).status, 200)
            caller.close()

        def check(listed, chunks):
            self.assertEqual((len(listed["sandboxes"]), listed["count"]), (BOXES, BOXES))
            self.assertEqual({box["sandbox_id"] for box in listed["sandboxes"]}, names)
            self.assertGreater(len(chunks), 2)  # it was written in parts

        in_threads(8, fill)
        self.assertBetween(Crowd(daemon, lambda: socket.create_connection(("127.0.0.1", self.port)), "/api/sandboxes",
                                 f"X-API-Key: {KEY}\r\n"), check)
        self.check_slow_reader(names)
        self.check_changes(names)

    def check_slow_reader(self, names):
        """One that does not read makes nobody wait; what it asked for is there when it does."""
        slow = socket.socket()
        self.addCleanup(slow.close)
        slow.settimeout(2 * WAIT_S)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", self.port))
        # Its name for the daemon is in every address: more than the kernel takes for it.
        slow.sendall(request_of("/api/sandboxes", f"X-API-Key: {KEY}\r\n").replace(b"Host: x", b"Host: " + b"x" * 140))
        self.assertEqual(set(self.caller().ids()), names)
        self.assertEqual({box["sandbox_id"] for box in json.loads(read_body(slow)[0])["sandboxes"]}, names)

    def check_changes(self, names):
        """While boxes end, those that stay are in every list, once."""
        ending = sorted(names)[::10]
        staying = names - set(ending)

        def work(k):
            caller = Caller(self.port)
            if k == 0:
                for name in ending:
                    caller.delete(name)
            else:
                end = time.monotonic() + WAIT_S
                while True:
                    ids = caller.ids()
                    self.assertEqual(len(ids), len(set(ids)))
                    self.assertLessEqual(staying, set(ids))
                    if set(ids) == staying:
                        break
                    self.assertLess(time.monotonic(), end)
            caller.close()

        in_threads(3, work)


if __name__ == "__main__":
    main()
