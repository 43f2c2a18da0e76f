"""Boxes that reach only what is on a list. The test is alone in a network namespace in which it plays the internet: servers on
addresses that look public, private or like a cloud's, and servers of DNS, one of which lies."""

import contextlib
import ipaddress
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

if __name__ == "__main__" and os.geteuid() == 0 and "SANDPOOL_TEST_APART" not in os.environ:
    os.environ["SANDPOOL_TEST_APART"] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv])

from fixtures import WAIT_S, is_alive, main, skip, wait_until
from host import read_of
from oci_case import HAS_CGROUPS, BoxCase

PUBLIC = "203.0.113.10"
OTHER = "203.0.113.11"
NAMED_NET = "198.51.100.7"
PRIVATE = "10.9.9.9"
NAMED_PRIVATE = "10.7.0.1"
METADATA = "169.254.169.254"
SERVERS = (PUBLIC, OTHER, NAMED_NET, PRIVATE, NAMED_PRIVATE, METADATA)
RESOLVER = "203.0.113.53"
OTHER_RESOLVER = "203.0.113.54"
INSIDE = "192.0.0.1"  # what boxes ask

ALLOW = ["good.test", "*.below.test", "rebind.test", "alias.test", "many.test", "brief.test", "mixed.test", "slow.test", "spoof.test",
         "named.test", "198.51.100.0/24", "10.7.0.0/16"]


# --- the internet ---

class Names:
    """A server of DNS. What it answers to a name: addresses, ("alias", name), or a function of how often it was asked."""

    def __init__(self):
        self.records = {
            "good.test": [PUBLIC], "a.below.test": [PUBLIC], "below.test": [PUBLIC], "secret.test": [PUBLIC],
            "rebind.test": lambda n: [PUBLIC] if n == 1 else [METADATA], "alias.test": ("alias", "inner.elsewhere.test"),
            "inner.elsewhere.test": [PRIVATE], "many.test": [f"203.0.113.{i}" for i in range(100, 164)],
            "brief.test": [OTHER], "mixed.test": [PRIVATE, PUBLIC, METADATA, "127.0.0.1"],
            "named.test": [NAMED_PRIVATE], "spoof.test": [PUBLIC]}
        self.asked = []
        self.lock = threading.Lock()

    def answer(self, query):
        name, at = read_name(query, 12)
        kind = struct.unpack_from(">H", query, at)[0]
        with self.lock:
            self.asked.append((name, kind))
            count = sum(1 for n, _ in self.asked if n == name)
        if name == "slow.test":
            return []
        records = b""
        found = self.records.get(name)
        owner = b"\xc0\x0c"
        n = 0
        while isinstance(found, tuple):
            target = put_name(found[1])
            records += owner + struct.pack(">HHIH", 5, 1, 60, len(target)) + target
            owner, found, n = target, self.records.get(found[1]), n + 1
        if callable(found):
            found = found(count)
        for address in found or []:
            records += owner + struct.pack(">HHIH", 1, 1, 0 if name == "brief.test" else 60, 4) + socket.inet_aton(address)
            n += 1
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | (3 if found is None else 0), 1, n, 0, 0)
        right = head + query[12:at + 4] + records
        wrong = [bytes([right[0] ^ 1]) + right[1:]] if name == "spoof.test" else []
        return [*wrong, right]


def put_name(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"


def read_name(data, at):
    parts = []
    while data[at]:
        parts.append(data[at + 1:at + 1 + data[at]].decode())
        at += data[at] + 1
    return ".".join(parts).lower(), at + 1


class Internet:
    def __init__(self):
        self.reached = []
        self.sockets = []
        self.names = Names()
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=30)
        for address in (*SERVERS, RESOLVER, OTHER_RESOLVER):
            subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True, timeout=30)
        for address in SERVERS:
            for port in (80, 853):
                self.serve(socket.SOCK_STREAM, address, port, self.greet)
            self.serve(socket.SOCK_DGRAM, address, 9000, self.echo)
        for address in (RESOLVER, OTHER_RESOLVER):
            self.serve(socket.SOCK_DGRAM, address, 53, self.resolve)
            self.serve(socket.SOCK_STREAM, address, 53, self.greet)

    def serve(self, kind, address, port, work):
        server = socket.socket(socket.AF_INET, kind)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        if kind == socket.SOCK_STREAM:
            server.listen(64)
        self.sockets.append(server)
        threading.Thread(target=self.loop, args=(server, work), daemon=True).start()

    @staticmethod
    def loop(server, work):
        with contextlib.suppress(OSError):
            while True:
                work(server)

    def greet(self, server):
        connection, _ = server.accept()
        self.reached.append(server.getsockname())
        with contextlib.suppress(OSError):
            connection.sendall(b"hello from " + server.getsockname()[0].encode())
        threading.Thread(target=self.keep, args=(connection,), daemon=True).start()

    @staticmethod
    def keep(connection):
        with contextlib.suppress(OSError):
            while data := connection.recv(100):
                connection.sendall(data)
        connection.close()

    def echo(self, server):
        data, source = server.recvfrom(2048)
        self.reached.append(server.getsockname())
        server.sendto(data, source)

    def resolve(self, server):
        query, source = server.recvfrom(2048)
        if server.getsockname()[0] == OTHER_RESOLVER:
            self.reached.append(server.getsockname())
        for answer in self.names.answer(query):
            server.sendto(answer, source)


# --- what a box tries, all in one process: [what, arguments] in, [result, seconds] out ---

PROBE = r'''
import json, os, socket, struct, sys, time

def name(text):
    return b"".join(bytes([len(p)]) + p.encode() for p in text.split(".")) + b"\0"

def ask(text, kind=1, server="192.0.0.1", tcp=False, raw=None):
    query = raw or struct.pack(">HHHHHH", 77, 0x100, 1, 0, 0, 0) + name(text) + struct.pack(">HH", kind, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(8)
    s.connect((server, 53))
    s.sendall((struct.pack(">H", len(query)) if tcp else b"") + query)
    data = s.recv(4096)
    if tcp:
        while len(data) < 2 + struct.unpack(">H", data[:2])[0]:
            data += s.recv(4096)
        data = data[2:]
    count = struct.unpack_from(">H", data, 6)[0]
    found = []
    at = 12
    while data[at]:
        at += data[at] + 1
    at += 5
    for _ in range(count):
        found.append([socket.inet_ntoa(data[at + 12:at + 16]), struct.unpack_from(">I", data, at + 6)[0]])
        at += 16
    return [data[3] & 15, found]

def tcp(host, port=80):
    with socket.create_connection((host, port), 8) as s:
        return s.recv(100).decode()

def udp(host, port=9000):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(8)
    s.connect((host, port))
    s.send(b"x")
    return s.recv(10).decode()

def raw(kind):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, kind)
    return "made"

def packet():
    socket.socket(17, socket.SOCK_RAW, 0x300)
    return "made"

def ping(host):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    s.settimeout(8)
    s.connect((host, 1))
    s.send(struct.pack(">BBHHH", 8, 0, 0xf7fd, 1, 1))
    return len(s.recv(100))

def six(host):
    with socket.create_connection((host, 80), 8) as s:
        return "connected"

def netlink(kind, message):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, kind)
    s.settimeout(8)
    s.send(bytes.fromhex(message))
    data = s.recv(4096)
    return struct.unpack_from("i", data, 16)[0]

def run(*argv):
    import subprocess
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    return [done.returncode, (done.stdout + done.stderr)[:300]]

def users():
    os.unshare(0x10000000) if hasattr(os, "unshare") else None
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000 | 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    return "made"

for what, args in json.loads(sys.argv[1]):
    begun = time.monotonic()
    try:
        result = globals()[what](*args)
    except Exception as problem:
        result = f"{type(problem).__name__} {getattr(problem, 'errno', '')} {problem}"
    print(json.dumps([result, time.monotonic() - begun]), flush=True)
'''


class Egress(BoxCase):
    config = {"pool": {"max_boxes": 20}}

    @classmethod
    def setUpClass(cls):
        for program in ("nft", "slirp4netns", "unshare", "ip"):
            if os.geteuid() == 0 and shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
                skip(f"{program} is not installed")
        if "SANDPOOL_TEST_APART" not in os.environ:
            skip("network namespaces are made by root here")
        if not HAS_CGROUPS:
            skip("runsc has no network")
        cls.internet = Internet()
        conf = pathlib.Path("/etc/resolv.conf").resolve()
        own = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"resolv-{os.getpid()}"
        own.write_text(f"nameserver {RESOLVER}\n")
        subprocess.run(["mount", "--bind", own, conf], check=True, timeout=30)
        own.unlink()
        cold = {"warm": {"min": 0, "max": 0}}
        cls.profiles = {"default": {**cold, "network": {"mode": "nat", "allow": ALLOW}},
                        "closed": {**cold, "network": {"mode": "nat", "allow": ["only.test"]}}}
        super().setUpClass()

    def attempts(self, box, *tries, user="root"):
        """What came of each, and how long each took."""
        text = json.dumps([[what, args] for what, *args in tries])
        ended = box.run(["python3", "-c", PROBE, text], user=user)
        self.assertEqual(ended.exit_code, 0, ended)
        found = [json.loads(line) for line in ended.out.splitlines()]
        self.assertEqual(len(found), len(tries), ended)
        return found

    def results(self, box, *tries, user="root"):
        return [result for result, _ in self.attempts(box, *tries, user=user)]


    def test_one(self):
        box = self.acquire("one", "cold")
        print(box.run("cat /proc/net/dev /proc/net/route /etc/resolv.conf").out)
        for r in self.attempts(box, ("tcp", "good.test"), ("tcp", PUBLIC), ("tcp", OTHER), ("tcp", NAMED_NET), ("tcp", NAMED_PRIVATE), ("tcp", PRIVATE), ("tcp", METADATA), ("ask", "good.test"), ("ask", "secret.test"), ("ask", "good.test", 28)):
            print(r)


if __name__ == "__main__":
    main()
