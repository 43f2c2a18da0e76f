"""Long answers that many ask for at once: short requests are answered in between, and each list is whole."""

import json
import select
import signal
import socket
import time

from fixtures import WAIT_S, in_threads, main
from provisioner import KEY, Caller, ProvisionerCase

BOXES = 1000
CALLERS = 48
TRIES = 40


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


def is_made(sock):
    """A page: one piece of which the kernel keeps a part. A list: written in parts, and the kernel keeps all of it."""
    if sock.family == socket.AF_UNIX:
        return bool(select.select([sock], [], [], 0)[0])
    try:
        return sock.recv(1 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT).rstrip().endswith((b"}", b"}\r\n0"))
    except BlockingIOError:
        return False


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
        """Sends everything; the number of long answers that were made when the short one was there, and all long ones."""
        *many, last = self.socks
        self.daemon.process.child.send_signal(signal.SIGSTOP)
        try:
            for sock in many:
                sock.sendall(self.long)
            last.sendall(self.short)
        finally:
            self.daemon.process.child.send_signal(signal.SIGCONT)
        read_body(last)
        made = sum(is_made(sock) for sock in many)
        last.sendall(self.short)  # and once more, now that they are being made
        read_body(last)
        return made, [read_body(sock) for sock in many]

    def close(self):
        for sock in self.socks:
            sock.close()


class Pages(ProvisionerCase):
    def assertBetween(self, crowd, check):
        """The short answers came before all of the long ones were made, though they were asked for last. What is made while this
        program is not running cannot be distinguished: a few tries, of which one has to show it."""
        self.addCleanup(crowd.close)
        fewest = CALLERS
        for _ in range(TRIES):
            made, answers = crowd.ask()
            for body, chunks in answers:
                check(json.loads(body), chunks)
            fewest = min(fewest, made)
            if fewest <= CALLERS - CALLERS // 8:
                return
        self.fail(f"{fewest} of {CALLERS} long answers were made before the short ones were there")

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
        client = self.client(daemon)
        self.assertEqual(self.assertOk(client.post("/v1/pool/reconcile"))["boxes_seen"], BOXES)  # in more than one part
        counts = client.get("/v1/pool").json
        self.assertEqual((counts["by_state"]["leased"], counts["boxes"]["lost"]), (BOXES, 0))
        self.assertNotIn("does not show", client.get("/v1/events?since=0&follow=0").text)

    def test_lists_of_the_provisioner(self):
        daemon = self.serve(profile={"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 0}, "create": {"concurrency": 64}},
                            pool={"max_boxes": 2 * BOXES, "reconcile_interval_s": 3600})
        names = {f"s-{i}" for i in range(BOXES)}
        more = {f"s-{i}".ljust(64, "x") for i in range(BOXES, BOXES + 400)}

        def fill(k, names=frozenset(names)):
            caller = Caller(self.port)
            for name in sorted(names)[k::8]:
                self.assertEqual(caller.create(name).status, 200)
            caller.close()

        def check(listed, chunks):
            self.assertEqual((len(listed["sandboxes"]), listed["count"]), (BOXES, BOXES))
            self.assertEqual({box["sandbox_id"] for box in listed["sandboxes"]}, names)
            self.assertGreater(len(chunks), 2)  # it was written in parts

        def connect():
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            sock.connect(("127.0.0.1", self.port))
            return sock

        in_threads(8, fill)
        self.assertBetween(Crowd(daemon, connect, "/api/sandboxes", f"X-API-Key: {KEY}\r\n"), check)
        in_threads(8, lambda k: fill(k, more))
        self.check_slow_reader(names | more)
        self.check_changes(names | more)

    def check_slow_reader(self, names):
        """One that does not read makes nobody wait; what it asked for is there when it does."""
        slow = socket.socket()
        self.addCleanup(slow.close)
        slow.settimeout(2 * WAIT_S)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # the kernel keeps less for it, at the other end, too
        slow.connect(("127.0.0.1", self.port))
        # Its name for the daemon is in every address: more than the kernel takes for it.
        slow.sendall(request_of("/api/sandboxes", f"X-API-Key: {KEY}\r\n").replace(b"Host: x", b"Host: " + b"x" * 120))
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
