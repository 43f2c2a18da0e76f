"""Boxes that take all they can get of what the kernel charges to nobody, or counts for a user and not for a box: the
machine, its root and the neighbours keep theirs."""

import fcntl
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

from fixtures import SLOW, Daemon, main, wait_until
from box import JOBS, Box
from host import has_loop_devices
from oci_case import RUNTIME, BoxCase

on_this_kernel = unittest.skipIf("runsc" in RUNTIME, "ends in the box's own kernel")
NS_GET_OWNER_UID = 0xB704
SOCKETS_MAX = 32  # netlink sockets of a box, src/helper/netlink_loop.h

# Opens sockets, in several processes and some of them on their way in a message only, and fills each.
TAKE_NETLINK = r"""
import errno, json, os, signal, socket, struct
def fill(s):
    s.settimeout(0)
    request = struct.pack("IHHIIB", 17 + 3, 18, 0x301, 1, 0, 0) + bytes(3)  # RTM_GETLINK, all of them
    try:
        for _ in range(1000):
            s.send(request)
    except OSError:
        pass
def take(count):
    kept = []
    try:
        for _ in range(count):
            kept.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
            fill(kept[-1])
    except OSError as e:
        return kept, errno.errorcode[e.errno]
    return kept, "none"
first, end = take(10)
a, b = socket.socketpair()
flying, end = take(10)
socket.send_fds(a, [b"x"], [s.fileno() for s in flying])
count = len(first) + len(flying)
for s in flying:
    s.close()
read, write = os.pipe()
child = os.fork()
if child == 0:
    for s in first:
        s.close()
    kept, end = take(3000)
    os.write(write, json.dumps([len(kept), end]).encode())
    signal.pause()
theirs, end = json.loads(os.read(read, 100))
for s in first:
    s.close()
again = len(take(3000)[0])
os.kill(child, signal.SIGKILL)
print(json.dumps({"all": count + theirs, "end": end, "again": again}))
"""

# What needs netlink: each prints something that depends on it.
NEEDS_NETLINK = {
    "python3": ["python3", "-c", "import socket; print(socket.if_nameindex())"],
    "node": ["node", "-e", "console.log(Object.keys(require('os').networkInterfaces()))"],
    "ip": ["ip", "-o", "link"],
}


class Netlink(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 1}, "limits": {"memory": "256m"}}}

    @on_this_kernel
    def test_sockets_are_counted(self):
        for user in ("root", "user"):
            box = self.acquire("taker-" + user)
            found = json.loads(box.sh(["python3", "-c", TAKE_NETLINK], user=user))
            self.assertEqual(found, {"all": SOCKETS_MAX, "end": "ENOBUFS", "again": 10})
            # All have gone with their processes.
            self.assertIn("'lo'", box.sh(NEEDS_NETLINK["python3"], user=user))

    def test_interfaces_are_listed(self):
        box = self.acquire("lister")
        for name, argv in NEEDS_NETLINK.items():
            if shutil.which(name):
                self.assertIn("lo", box.sh(argv), name)
        many = f"import socket\nfor _ in range({3 * SOCKETS_MAX}): socket.if_nameindex()\nprint('all')"
        self.assertEqual(box.sh(["python3", "-c", many]), "all\n")  # one after the other
        self.server.kill()
        self.server.start()
        self.assertIn("'lo'", box.sh(NEEDS_NETLINK["python3"]))  # nothing of it is the daemon's

    @on_this_kernel
    def test_other_kinds_are_missing(self):
        box = self.acquire("other")
        probe = ("import errno, socket\n"
                 "for protocol in (2, 4, 9, 12, 15, 16):\n"
                 "    try: print(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol))\n"
                 "    except OSError as e: print(errno.errorcode[e.errno])\n")
        self.assertEqual(box.sh(["python3", "-c", probe], user="root").split(), ["EPROTONOSUPPORT"] * 6)
        # Programs that write to the audit log take that for a kernel without one.
        if shutil.which("useradd"):
            box.sh("useradd somebody && grep somebody /etc/passwd", user="root")


# Takes what there is of one kind, keeps it, and prints how much it was.
TAKE = r"""
import ctypes, itertools, os, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def take_inotify():
    while (fd := libc.inotify_init()) >= 0:
        yield fd
def take_queues():
    class Attr(ctypes.Structure):
        _fields_ = [(n, ctypes.c_long) for n in ("flags", "maxmsg", "msgsize", "curmsgs", "a", "b", "c", "d")]
    librt = ctypes.CDLL("librt.so.1", use_errno=True)
    number = 0
    while True:
        name = b"/q-%d-%d" % (os.getpid(), number)
        fd = librt.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, ctypes.byref(Attr(0, 10, 8192)))
        if fd < 0:
            return
        number += 1
        librt.mq_unlink(name)
        yield fd
def take_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    value = ctypes.c_void_p(0)
    while libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), value) == 0:
        yield 1
kept = sum(1 for _ in itertools.islice(globals()["take_" + sys.argv[1]](), int(sys.argv[2])))
print(kept, flush=True)
if len(sys.argv) > 3:
    time.sleep(600)
"""


@on_this_kernel
class PerUser(BoxCase):
    """What the kernel counts per user: a box has its own share, its neighbours and this machine's root theirs."""
    profiles = {"default": {"warm": {"min": 0, "max": 1}, "limits": {"memory": "512m", "pids": 64}}}

    def taken(self, box, kind, user="root"):
        return int(box.sh(["python3", "-c", TAKE, kind, "1000000"], user=user))

    def on_host(self, kind, count):
        return int(subprocess.check_output(["/usr/bin/python3", "-c", TAKE, kind, str(count)], timeout=60 * SLOW))

    def take(self, box, kind):
        """All that the box's root can get; it keeps it."""
        ident = box.start(["python3", "-c", TAKE, kind, "1000000", "keep"], user="root")
        wait_until(lambda: box.output(ident).strip(), f"the box has taken all {kind}", 60 * SLOW)
        return int(box.output(ident))

    def test_a_neighbour_and_the_host_keep_theirs(self):
        greedy, neighbour = self.acquire("greedy"), self.acquire("neighbour")
        for kind in ("inotify", "queues", "signals"):
            first = self.taken(neighbour, kind)
            took = self.take(greedy, kind)
            self.assertGreater(took, 0, kind)
            self.assertEqual(self.taken(greedy, kind), 0, kind)  # it is all there was
            self.assertEqual(self.taken(neighbour, kind), first, kind)
            self.assertEqual(self.on_host(kind, 5), 5, kind)  # not more: others need them, too

    def test_whose_the_namespace_is(self):
        box = self.acquire("owned")
        record = json.loads((self.server.state / "oci" / "boxes" / box.box_id / "box.json").read_text())
        init = (self.server.state / "oci" / "boxes" / box.box_id / "init").read_text().split()[0]
        with open(f"/proc/{init}/ns/user") as ns:
            owner = struct.unpack("I", fcntl.ioctl(ns, NS_GET_OWNER_UID, b"\0" * 4))[0]
        self.assertEqual(owner, record["id_base"])

    def test_open_files(self):
        box = self.acquire("files")
        soft, hard = (int(n) for n in box.sh("ulimit -Sn; ulimit -Hn").split())
        self.assertEqual(soft, hard)
        self.assertLessEqual(hard, 65536)
        self.assertEqual(box.sh("ulimit -Hc").strip(), "0")
        table = int(pathlib.Path("/proc/sys/fs/file-max").read_text())
        self.assertLessEqual(hard * 64, max(table // 2, 1024 * 64))

    def test_locked_pages(self):
        """Those of shared files are charged to the box that read them first."""
        lock = ("import ctypes, errno, mmap, os, sys\n"
                "libc = ctypes.CDLL(None, use_errno=True)\n"
                "libc.mmap.restype = ctypes.c_void_p\n"
                "fd = os.open(os.path.realpath(sys.executable), os.O_RDONLY)\n"
                "at = libc.mmap(None, ctypes.c_size_t(1 << 20), 1, 1, fd, ctypes.c_long(0))\n"
                "for size in (32 << 10, 1 << 20):\n"
                "    rc = libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(size))\n"
                "    print('locked' if rc == 0 else errno.errorcode[ctypes.get_errno()])\n")
        for user in ({}, {"user": "root"}):
            self.assertEqual(self.acquire("locks").sh(["python3", "-c", lock], **user).split(), ["locked", "ENOMEM"])


@on_this_kernel
class Neighbours(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 1}, "limits": {"memory": "256m", "disk": "64m"}}}

    @unittest.skipUnless(has_loop_devices(), "no loop devices: boxes have no disks of their own")
    def test_their_disks_are_not_seen(self):
        """What the kernel reports about each disk: how much is written there, and how many there are."""
        self.acquire("writer").sh("head -c 1M /dev/urandom > /workspace/a; sync")
        box = self.acquire("curious")
        for path in ("/proc/diskstats", "/proc/partitions", "/proc/swaps"):
            self.assertNotEqual(pathlib.Path(path).read_text(), "", path)  # so there is something to hide
            for user in ("root", "user"):
                self.assertEqual(box.sh(["cat", path], user=user), "", path)
        places = ("/proc/fs", "/sys/fs/ext4", "/sys/devices/virtual/block", "/sys/devices/virtual/bdi", "/sys/block",
                  "/sys/class/block", "/sys/dev/block", "/sys/kernel/irq")
        for path in filter(os.path.exists, places):
            self.assertNotEqual(os.listdir(path), [], path)
            self.assertEqual(box.sh(["ls", "-A", path], user="root"), "", path)

    def test_disks_of_the_machine_are_not_seen(self):
        disks = [path.resolve() for path in pathlib.Path("/sys/block").iterdir()]
        box = self.acquire("reader")
        probe = "import os, sys\nprint([p for p in sys.argv[1:] if os.path.exists(p)])"
        self.assertEqual(box.sh(["python3", "-c", probe, *map(str, disks)], user="root"), "[]\n")
        # Directories may go while it looks, which is an error of find's.
        # Queues of the box's own network may have a file of that name.
        self.assertEqual(box.sh("find /sys -name inflight -not -path '*/net/*' 2> /dev/null || true", user="root"), "")
        # What programs ask of /sys.
        wanted = ["/sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible", "/sys/class/net/lo/mtu",
                  "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/devices/system/node/online"]
        for path in filter(os.path.exists, wanted):
            self.assertNotEqual(box.sh(["cat", path]), "", path)


@on_this_kernel
class Shares(BoxCase):
    """What the machine has once for everybody."""
    profiles = {"default": {"warm": {"min": 0, "max": 1}},
                "local": {"warm": {"min": 0, "max": 1}, "sockets": "unix"},
                "few": {"warm": {"min": 0, "max": 1}, "terminals": 3},
                "mute": {"warm": {"min": 0, "max": 1}, "terminals": 0}}
    config = {"pool": {"max_boxes": 60}}

    def test_no_huge_pages(self):
        probe = ("import ctypes, errno, mmap\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                 "def tell(result):\n"
                 "    return 'made' if result >= 0 else errno.errorcode[ctypes.get_errno()]\n"
                 "print(tell(libc.memfd_create(b'x', 4)), tell(libc.memfd_create(b'x', 0)),\n"
                 "      tell(libc.shmget(0, 1 << 21, 0o1600 | 0o4000)), tell(libc.shmget(0, 4096, 0o1600)))\n"
                 "try: mmap.mmap(-1, 1 << 21, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)\n"
                 "except OSError as e: print(errno.errorcode[e.errno])\n")
        self.assertEqual(self.acquire("huge").sh(["python3", "-c", probe]).split(),
                         ["EINVAL", "made", "ENOMEM", "made", "ENOMEM"])

    def test_terminals(self):
        """All boxes that there may be get no more than the machine has."""
        most, reserve = (int(pathlib.Path(f"/proc/sys/kernel/pty/{name}").read_text()) for name in ("max", "reserve"))
        share = min(max((most - reserve) // 60, 16), 256)
        probe = ("import os\nkept = []\n"
                 "try:\n    while True: kept.append(os.openpty())\nexcept OSError: print(len(kept))\n")
        self.assertEqual(self.acquire("terminals").sh(["python3", "-c", probe]), f"{share}\n")

    def test_few_terminals(self):
        box = self.acquire("few", profile="few")
        jobs = [box.json("POST", JOBS, {"argv": ["cat"], "pty": {}}) for _ in range(3)]
        answer = box.json("POST", JOBS, {"argv": ["cat"], "pty": {}}, expect=429)
        self.assertIn("as many terminals as it may have", answer["error"]["message"])
        box.json("DELETE", f"{JOBS}/{jobs[0]['job']}")
        box.json("POST", JOBS, {"argv": ["cat"], "pty": {}})

    def test_no_terminals(self):
        """Nobody in the box makes one, not even its root; commands and jobs do without."""
        box = self.acquire("mute", profile="mute")
        probe = ("import os\n"
                 "for make in (os.openpty, lambda: os.open('/dev/ptmx', 2), lambda: os.open('/dev/pts/ptmx', 2),\n"
                 "             lambda: os.mknod('/tmp/ptmx', 0o20666, os.makedev(5, 2))):\n"
                 "    try: print('made', make())\n"
                 "    except OSError: pass\n"
                 "print('none')\n")
        self.assertEqual(box.sh(["python3", "-c", probe]), "none\n")
        self.assertEqual(box.sh(["python3", "-c", probe], user="root"), "none\n")
        answer = box.json("POST", JOBS, {"argv": ["cat"], "pty": {}}, expect=501)
        self.assertEqual(answer["error"]["code"], "unsupported")
        self.assertIn("terminals: 0", answer["error"]["message"])
        answer = box.json("POST", "/v1/shell/exec", {"command": "true"}, expect=501)
        self.assertIn("terminals: 0", answer["message"])
        box.json("POST", "/v1/bash/exec", {"command": "true"})

    def test_unix_sockets_only(self):
        probe = ("import errno, socket\n"
                 "for family in (socket.AF_INET, socket.AF_INET6):\n"
                 "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
                 "        try: socket.socket(family, kind)\n"
                 "        except OSError as e: print(errno.errorcode[e.errno])\n"
                 "a, b = socket.socketpair()\na.send(b'x')\n"
                 "l = socket.socket(socket.AF_UNIX)\nl.bind('')\nl.listen()\n"
                 "socket.socket(socket.AF_UNIX).connect(l.getsockname())\n"
                 "print(b.recv(1).decode(), socket.if_nameindex()[0][1])\n")
        box = self.acquire("local", profile="local")
        self.assertEqual(box.sh(["python3", "-c", probe]).split(), ["EAFNOSUPPORT"] * 4 + ["x", "lo"])


class TwoDaemons(BoxCase):
    """They know nothing of each other, and have the same configuration."""

    def id_base(self, server, box):
        return json.loads((server.state / "oci" / "boxes" / box.box_id / "box.json").read_text())["id_base"]

    def test_their_boxes_have_different_ids(self):
        home = tempfile.mkdtemp(prefix="sandpool-boxes-", dir=self.home)
        other = Daemon(home, {**self.make_config(), "instance": self.instance + "-2"}, args=["--destroy-on-exit"])
        self.addCleanup(other.stop)
        other.start()
        answer = other.acquire("theirs")
        self.assertEqual(answer.status, 200, answer)
        theirs = self.id_base(other, Box(answer.json))
        before = [self.id_base(self.server, self.acquire(f"before-{i}")) for i in range(2)]
        self.server.kill()
        self.server.start()
        ours = before + [self.id_base(self.server, self.acquire(f"after-{i}")) for i in range(2)]
        self.assertEqual(len({theirs, *ours}), 5)
        self.assertTrue(all(theirs < o for o in ours) or all(theirs > o for o in ours), (theirs, ours))
        self.assertLess(max(ours) - min(ours), 2048 << 16)  # the same range after a restart

    def range_of(self, server):
        claims = [line.split() for line in pathlib.Path("/run/sandpool-ids").read_text().splitlines()]
        return next(range(int(c[0]), int(c[1])) for c in claims if c[2] == str(server.state.resolve()))

    def live_as(self, user_id):
        """A process of a box that no record leads to."""
        child = subprocess.Popen(["sleep", "600"], user=user_id)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)

    def test_ids_of_living_processes_are_not_given_out(self):
        """Database and name were lost: the daemon does not know which of its ids are in use."""
        first = self.id_base(self.server, self.acquire("first-ids"))
        self.server.kill()
        taken = {self.range_of(self.server).start + (i << 16) for i in range(6)} - {first}
        for base in taken:
            self.live_as(base + 1000)
        self.server.start()
        self.pool.close()
        given = {self.id_base(self.server, self.acquire(f"given-{i}")) for i in range(3)}
        self.assertEqual(given & taken, set())

    def test_a_range_in_which_somebody_lives_is_not_claimed(self):
        """The state directory was moved while its boxes ran."""
        ranges = []
        for name in ("moved", "new"):
            home = tempfile.mkdtemp(prefix="sandpool-boxes-", dir=self.home)
            other = Daemon(home, {**self.make_config(), "instance": f"{self.instance}-{name}"},
                           args=["--destroy-on-exit"])
            self.addCleanup(other.stop)
            other.start()
            ranges.append(self.range_of(other))
            other.stop()
            if name == "moved":
                self.live_as(ranges[0].start + 1000)
                shutil.rmtree(home)
        self.assertNotIn(ranges[0].start + 1000, ranges[1])


if __name__ == "__main__":
    main()
