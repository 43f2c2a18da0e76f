"""Boxes that make all the sockets they can and fill each with what the kernel charges to nobody; and programs that need
sockets like everybody."""

import json
import os
import pathlib
import shutil
import signal
import unittest

from fixtures import MIB, SLOW, main, wait_until
from host import group_of
from oci_case import RUNTIME, BoxCase

on_this_kernel = unittest.skipIf("runsc" in RUNTIME, "ends in the box's own kernel")
MEMORY = 64 * MIB
SOCKETS = 128  # of such a box, src/backends/oci/spec.c
UNIX = 8  # sockets that the agent has, and what is connected to it
WAIT_END = 4096  # files that one call waits for, src/backends/oci/seccomp_args.c

# Prints how many sockets it got, what they hold by the kernel's own count, and what ended it; then keeps them.
FLOOD = r"""
import ctypes, errno, json, os, signal, socket, struct, sys
TIMESTAMPING, MEMINFO = 37, 55
STAMP = struct.pack("I", 2 | 256)  # when a packet goes out, and into the queue of the device
LOOPBACK = ("127.0.0.1", 0)
libc = ctypes.CDLL(None)
kept, held = [], []
def attempt(f, *args):
    try:
        return f(*args)
    except BlockingIOError:
        return None
def enlarge(s):
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF, socket.SO_RCVLOWAT):
        try:
            s.setsockopt(socket.SOL_SOCKET, option, 1 << 29)
        except OSError:
            pass  # not of UDP
def holds(s):
    v = struct.unpack("9I", s.getsockopt(socket.SOL_SOCKET, MEMINFO, 36))
    return v[0] + v[2]  # came in and was not read, went out and is not gone
def new(kind):
    s = socket.socket(socket.AF_INET, kind)
    kept.append(s)
    enlarge(s)
    return s
def stamps(how):
    # Each time stamp keeps the packet, in a queue that nobody reads.
    s = new(socket.SOCK_DGRAM)
    s.bind(LOOPBACK)
    s.connect(s.getsockname())
    s.setblocking(False)
    if how == "option":
        s.setsockopt(socket.SOL_SOCKET, TIMESTAMPING, STAMP)
    control = [(socket.SOL_SOCKET, TIMESTAMPING, STAMP)] if how == "message" else []
    before = -1
    while holds(s) > before:
        before = holds(s)
        attempt(s.sendmsg, [bytes(30000)], control)
        while attempt(s.recv, 65536):
            pass
    return s
def corked():
    s = new(socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_UDP, 1, 1)
    s.connect(("127.0.0.1", 9))
    s.send(bytes(65000), socket.MSG_DONTWAIT)
    return s
def pair():
    # The stamps of a connection keep what was sent and received long ago.
    listener = new(socket.SOCK_STREAM)
    listener.bind(LOOPBACK)
    listener.listen(1)
    s = new(socket.SOCK_STREAM)
    s.connect(listener.getsockname())
    other = listener.accept()[0]
    kept[kept.index(listener)] = other
    listener.close()
    s.setsockopt(socket.SOL_SOCKET, TIMESTAMPING, STAMP)
    s.setblocking(False)
    other.setblocking(False)
    for _ in range(60):
        attempt(s.send, bytes(65000))
        while attempt(other.recv, 1 << 20):
            pass
    return s
def children():
    # One socket connects again and again; the other ends wait for an accept that never comes.
    listener, client = new(socket.SOCK_STREAM), new(socket.SOCK_STREAM)
    listener.bind(LOOPBACK)
    listener.listen(4096)
    for _ in range(MOST):
        client.connect(listener.getsockname())
        attempt(client.send, bytes(100000), socket.MSG_DONTWAIT)
        libc.connect(client.fileno(), bytes(16), 16)  # AF_UNSPEC: it is nobody's again
    return client
MOST, WAYS = 300, {"option": lambda: stamps("option"), "message": lambda: stamps("message"), "corked": corked, "pair": pair,
                    "children": children}
end = "none"
try:
    for _ in range(MOST):
        held.append(WAYS[sys.argv[1]]())
except OSError as e:
    end = errno.errorcode[e.errno]
print(json.dumps({"made": len(kept), "held": sum(map(holds, held)), "end": end}), flush=True)
signal.pause()
"""

# As many processes as it is asked for make sockets until they are refused, all at once; the sum of what they got.
RACE = r"""
import os, signal, socket, sys
ends = []
for _ in range(int(sys.argv[1])):
    mine, theirs = os.pipe()
    ends.append(mine)
    if os.fork() == 0:
        kept = []
        try:
            while len(kept) < 100:
                kept.append(socket.socket())
        except OSError:
            pass
        os.write(theirs, b"%d" % len(kept))
        signal.pause()
print(sum(int(os.read(e, 20)) for e in ends), flush=True)
signal.pause()
"""

# Some processes make sockets while others make and close many Unix sockets. Prints how many the first have in the end.
CHURN = r"""
import os, signal, socket, sys, time
end, ends = time.monotonic() + float(sys.argv[1]), []
for _ in range(3):
    if os.fork() == 0:
        while time.monotonic() < end:
            [socket.socketpair() for _ in range(200)]
        os._exit(0)
for _ in range(4):
    mine, theirs = os.pipe()
    ends.append(mine)
    if os.fork() == 0:
        kept = []
        while time.monotonic() < end:
            try:
                kept.append(socket.socket())
            except OSError:
                time.sleep(0.0002)
        os.write(theirs, b"%d" % len(kept))
        signal.pause()
print(sum(int(os.read(e, 20)) for e in ends), flush=True)
signal.pause()
"""

# Connections that wait for room in a listener's queue, and others that wait for the first byte: their other ends come
# when no call is under way any more.
LATE = r"""
import os, signal, socket, sys, time
def used():
    with open("/proc/self/net/sockstat") as f:
        return int(f.read().split()[2])
clients, listeners, accepted = [], [], []
deferred = sys.argv[1] == "deferred"
try:
    for i in range(8):
        l = socket.socket()
        if deferred:
            l.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 60)
        l.bind(("127.0.0.1", 0))
        l.listen(100 if deferred else 0)
        l.setblocking(False)
        listeners.append(l)
    for i in range(400):
        s = socket.socket()
        s.setblocking(False)
        clients.append(s)
        s.connect_ex(listeners[i % 8].getsockname())
except OSError:
    pass
most, end = 0, time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    for s in clients:
        try:
            s.send(b"x") if deferred else None
        except OSError:
            pass
    for l in listeners:
        try:
            while True:
                accepted.append(l.accept()[0])
        except OSError:
            pass
    most = max(most, used())
    time.sleep(0.02)
print(most, flush=True)
signal.pause()
"""

# As many threads as it is asked for ask at the same moment, again and again.
CROWD = r"""
import signal, socket, sys, threading, time
kept, count = [], int(sys.argv[1])
gate = threading.Barrier(count)
def used():
    with open("/proc/self/net/sockstat") as f:
        return int(f.read().split()[2])
def make():
    gate.wait()
    try:
        while len(kept) < 2000:
            kept.append(socket.socket())
    except OSError:
        pass
threading.stack_size(65536)
threads = [threading.Thread(target=make) for _ in range(count)]
[t.start() for t in threads]
[t.join() for t in threads]
print(used(), flush=True)
signal.pause()
"""

MAKE = r"""
import socket, sys
kept = [socket.socket(family) for family in (socket.AF_INET, socket.AF_INET6) for _ in range(int(sys.argv[1]) // 2)]
print(len(kept))
"""


def used_in(init):
    """Sockets of a box's network, by the kernel's count."""
    return int(pathlib.Path(f"/proc/{init}/net/sockstat").read_text().split()[2])


@on_this_kernel
class Floods(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 1}, "limits": {"memory": f"{MEMORY}", "pids": 64}}}

    def begin(self, box, program, *args, user="user"):
        ident = box.start(["python3", "-c", program, *args], user=user)
        wait_until(lambda: box.output(ident) or box.output(ident, "stderr"), "the box has all it gets", 120 * SLOW)
        self.assertEqual(box.output(ident, "stderr"), "")
        return ident, json.loads(box.output(ident))

    def stop(self, box, ident):
        box.json("POST", f"/v1/agent/jobs/{ident}/signal", {"signal": "KILL"})
        box.wait(ident)

    def test_what_sockets_hold(self):
        box, neighbour = self.acquire("greedy"), self.acquire("neighbour")
        init = self.init_of(box)
        for way in ("option", "message", "corked", "pair", "children"):
            with self.subTest(way):
                ident, found = self.begin(box, FLOOD, way)
                self.assertEqual(found["end"], "ENOBUFS")
                self.assertGreater(found["made"] if way != "children" else used_in(init), SOCKETS // 2)
                self.assertLessEqual(used_in(init), SOCKETS + UNIX)
                self.assertLess(found["held"], MEMORY)
                self.assertEqual(neighbour.sh(["python3", "-c", MAKE, "100"]), "100\n")
                self.stop(box, ident)
                wait_until(lambda: used_in(init) < 10, "its sockets are gone", 60 * SLOW)
                self.assertEqual(box.sh(["python3", "-c", MAKE, "100"]), "100\n")

    def test_connections_that_nobody_accepts(self):
        """What they hold is in no socket that the box has: the kernel's list of them shows it."""
        box = self.acquire("children")
        init = self.init_of(box)
        self.begin(box, FLOOD, "children", user="root")
        lines = pathlib.Path(f"/proc/{init}/net/tcp").read_text().splitlines()[1:]
        received = sum(int(line.split()[4].split(":")[1], 16) for line in lines if line.split()[3] != "0A")
        self.assertLess(received, MEMORY)
        self.assertLessEqual(len(lines), SOCKETS)

    def test_the_number_is_never_passed(self):
        """By whatever comes late, or comes and goes, while they are counted."""
        box = self.acquire("passed")
        for way, program, args in (("churn", CHURN, ["6"]), ("queue", LATE, ["queue", "8"]),
                                   ("deferred", LATE, ["deferred", "3"]), ("crowd", CROWD, ["40"])):
            with self.subTest(way):
                ident, most = self.begin(box, program, *args)
                self.assertGreater(most, SOCKETS // 2)
                self.assertLessEqual(most, SOCKETS + UNIX)
                self.stop(box, ident)
                wait_until(lambda: used_in(self.init_of(box)) < 10, "its sockets are gone", 60)

    def test_many_at_once(self):
        box = self.acquire("race")
        ident, made = self.begin(box, RACE, "40")
        self.assertGreaterEqual(made, SOCKETS - 40)  # one for each that may not have ended
        self.assertLessEqual(used_in(self.init_of(box)), SOCKETS + UNIX)
        self.stop(box, ident)

    def test_other_ways_to_a_socket(self):
        box = self.acquire("other")
        probe = ("import errno, os, socket\n"
                 "def tell(f, *args):\n"
                 "    try: return f(*args)\n"
                 "    except OSError as e: return errno.errorcode[e.errno]\n"
                 "print(tell(socket.socket, 2, 1, 262), tell(socket.socket, 10, 1, 132))\n"
                 "print(tell(socket.socket().sendto, b'x', 0x20000000, ('127.0.0.1', 9)))\n"
                 "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                 "before = s.getsockopt(1, 8), s.getsockopt(1, 7)\n"
                 "s.setsockopt(1, 8, 1 << 30), s.setsockopt(1, 7, 1 << 30)\n"
                 "print(before == (s.getsockopt(1, 8), s.getsockopt(1, 7)))\n")
        self.assertEqual(box.sh(["python3", "-c", probe], user="root").split(),
                         ["EPROTONOSUPPORT", "EPROTONOSUPPORT", "ENOTSUP", "True"])

    def test_what_the_guard_is(self):
        """One of the box's processes for the machine, not for the box."""
        box = self.acquire("guarded")
        pid = self.guard_of(box.box_id)
        for controller in ("memory", "cpu", "pids"):
            group = group_of(self.instance, box.box_id, controller)
            self.assertIn(str(pid), (group / "cgroup.procs").read_text().split(), controller)
        status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        self.assertNotIn("0", status["Uid"].split())
        for caps in ("CapPrm", "CapEff", "CapInh"):
            self.assertEqual(int(status[caps], 16), 0)
        self.assertEqual(status["NoNewPrivs"], "1")

    def guard_of(self, box_id):
        return int((self.server.state / "oci" / "boxes" / box_id / "guard.pid").read_text().split()[0])

    def test_a_box_without_its_guard_is_lost(self):
        """It could make no socket any more: its owner learns why."""
        self.assertLostWithout(lambda: self.acquire("alone"), lambda box: self.guard_of(box.box_id), "guard_ended")

    def test_a_box_that_ends_has_not_lost_its_guard(self):
        for i in range(3):
            box = self.acquire(f"ends-{i}")
            os.kill(self.init_of(box), signal.SIGKILL)
            self.assertNotIn("guard_ended", self.wait_lost(box).text)


WAIT = r"""
import ctypes, errno, os, select, sys
libc = ctypes.CDLL(None, use_errno=True)
end = int(sys.argv[1])
fds = (ctypes.c_uint64 * (2 * end))(*[0xffffffff] * (2 * end))  # pollfd with descriptor -1
sets, zero = [(ctypes.c_uint64 * end)() for _ in range(3)], (ctypes.c_long * 2)()
def tell(result):
    return result if result >= 0 else errno.errorcode[ctypes.get_errno()]
for count in (0, 1, 1024, end - 1, end, 2 * end, 65536):
    print(tell(libc.poll(fds, ctypes.c_ulong(count), 0)) if count <= 2 * end else "-",
          tell(libc.ppoll(fds, ctypes.c_ulong(count), zero, None)) if count <= 2 * end else "-",
          tell(libc.select(count, *sets, zero)), tell(libc.pselect(count, *sets, zero, None)))
"""

SERVE = r"""
import http.server, socket, threading, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "5"); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *args): pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size, daemon_threads = 128, True
server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
open_ones = [socket.create_connection(server.server_address) for _ in range(100)]
for s in open_ones:
    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
good = sum(s.makefile("rb").readline().split()[1] == b"200" for s in open_ones)
for _ in range(400):  # one after the other: none of them stays
    urllib.request.urlopen("http://127.0.0.1:%d/" % server.server_address[1]).read()
print(good)
"""

NODE = r"""
const http = require('http');
const server = http.createServer((q, r) => r.end('hello')).listen(0, '127.0.0.1', async () => {
  const one = () => new Promise((done, fail) => http.get({port: server.address().port, host: '127.0.0.1', agent: false}, r => {
    let text = ''; r.on('data', d => text += d); r.on('end', () => done(text)); }).on('error', fail));
  const all = await Promise.all(Array.from({length: 100}, one));
  console.log(all.filter(t => t === 'hello').length);
  server.close();
});
"""


class Ordinary(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 1}, "limits": {"memory": "512m", "pids": 256}},
                "small": {"warm": {"min": 0, "max": 1}, "limits": {"memory": f"{MEMORY}"}},
                "host": {"warm": {"min": 0, "max": 1}, "limits": {"memory": f"{MEMORY}"}, "network": "host"}}

    def test_servers(self):
        box = self.acquire("servers")
        self.assertEqual(box.sh(["python3", "-c", SERVE]), "100\n")
        if shutil.which("node"):
            self.assertEqual(box.sh(["node", "-e", NODE]), "100\n")

    @on_this_kernel
    def test_unix_sockets_do_not_count(self):
        box = self.acquire("unix", profile="small")
        probe = f"import socket\nkept = [socket.socketpair() for _ in range({2 * SOCKETS})]\n" + MAKE
        self.assertEqual(box.sh(["python3", "-c", probe, "100"]), "100\n")
        listen = ("import socket\nl = socket.socket(socket.AF_UNIX)\nl.bind('')\nl.listen(4096)\nkept = []\n"
                  f"for _ in range({2 * SOCKETS}):\n"
                  "    kept.append(socket.socket(socket.AF_UNIX))\n    kept[-1].connect(l.getsockname())\n" + MAKE)
        self.assertEqual(box.sh(["python3", "-c", listen, "100"]), "100\n")

    @on_this_kernel
    def test_in_the_hosts_network_they_are_the_hosts(self):
        box = self.acquire("host", profile="host")
        self.assertEqual(box.sh(["python3", "-c", MAKE, str(2 * SOCKETS)]), f"{2 * SOCKETS}\n")

    @on_this_kernel
    def test_tables_of_those_who_wait(self):
        box = self.acquire("waiter")
        rows = [line.split() for line in box.sh(["python3", "-c", WAIT, str(WAIT_END)]).splitlines()]
        self.assertEqual(rows[:4], [["0"] * 4] * 4)
        self.assertEqual(rows[4:6], [["EINVAL"] * 4] * 2)
        self.assertEqual(rows[6], ["-", "-", "EINVAL", "EINVAL"])


if __name__ == "__main__":
    main()
