"""Boxes that take memory of the machine which is charged to nobody and has no limit in the kernel, by file locks and
open directories: they are ended, and neighbours that use both as programs do are not."""

import json
import unittest

from fixtures import MIB, main, wait_until
from host import group_of
from oci_case import RUNTIME, BoxCase

BOUND = 6 * MIB  # 31,457 locks or 256 open directories
TAKEN = 120000  # locks at the most, should nobody stop it: 23 MB
OPENED = 1500  # likewise directories: 36 MB

COMMON = r"""
import ctypes, fcntl, os, signal, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
limit = int(sys.argv[1])
def take_locks():
    # In many files: for each lock the kernel walks over all that its file has.
    for i in range(limit):
        if i % 400 == 0:
            fd = os.open("/tmp/locked-%d" % i, os.O_RDWR | os.O_CREAT)
        fcntl.lockf(fd, fcntl.LOCK_SH, 1, 2 * (i % 400))
    print("taken", flush=True)
    signal.pause() if threading.current_thread() is threading.main_thread() else threading.Event().wait()
def make_names(path, count, name):
    os.makedirs(path, exist_ok=True)
    for i in range(count):
        open(path + "/" + name % i, "w").close()
def open_part(path):
    fd = os.open(path, os.O_RDONLY)
    libc.syscall(217 if os.uname().machine == "x86_64" else 61, fd, ctypes.create_string_buffer(64), 64)  # getdents64
    return fd
"""
LOCKS = "take_locks()\n"
# A thread with a table of files of its own is not seen in its process's directory.
LOCKS_OF_A_THREAD = r"""
def own_table():
    assert libc.unshare(0x400) == 0
    take_locks()
threading.Thread(target=own_table, daemon=True).start()
signal.pause()
"""
DIRECTORIES = r"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
make_names("/tmp/names", 300, "%04d")
kept = [open_part("/tmp/names") for _ in range(limit)]
print("taken", flush=True)
signal.pause()
"""
# None of them is in a table of files.
PASSED = r"""
make_names("/tmp/names", 300, "%04d")
pairs = []
for _ in range(limit // 100):
    pairs.append(socket.socketpair())
    fds = [open_part("/tmp/names") for _ in range(100)]
    socket.send_fds(pairs[-1][0], [b"x"], fds)
    for fd in fds:
        os.close(fd)
print("taken", flush=True)
signal.pause()
"""
# Of a directory that both layers have the kernel keeps all names, once more for each time that it has changed.
MERGED = r"""
make_names("/etc", 2000, "%0200d")
kept = []
for i in range(limit // 50):
    kept.append(os.open("/etc", os.O_RDONLY))
    os.listdir(kept[-1])
    open("/etc/changed-%d" % i, "w").close()
print("taken", flush=True)
signal.pause()
"""
# Many connections of one process to a database, with the locks of each; children that have inherited directories.
ORDINARY = r"""
import sqlite3
files = [os.open("/usr/lib", os.O_RDONLY) for _ in range(20)]
for _ in range(20):
    if os.fork() == 0:
        signal.pause()
connections = [sqlite3.connect("/workspace/data.db", timeout=60, isolation_level=None) for _ in range(50)]
connections[0].execute("create table t (n)")
print("ready", flush=True)
for i in range(limit):
    c = connections[i % len(connections)]
    c.execute("begin immediate")
    c.execute("insert into t values (?)", (i,))
    c.execute("commit")
"""


def read_if(path):
    try:
        return path.read_text()
    except OSError:  # gone, perhaps while it was read
        return ""


@unittest.skipIf("runsc" in RUNTIME, "ends in the box's own kernel")
class Hoard(BoxCase):
    profiles = {"default": {"warm": {"min": 1, "max": 2}, "limits": {"memory": 256 * MIB, "disk": 64 * MIB}}}
    config = {"oci": {"kernel_memory": BOUND}}

    def begin(self, box, code, limit, **fields):
        return box.start(["python3", "-c", COMMON + code, str(limit)], **fields)

    def events(self):
        lines = self.pool.get("/v1/events?follow=0&since=0").text.splitlines()
        return [json.loads(line[len("data: "):]) for line in lines if line.startswith("data: ")]

    def assertEnded(self, thread, code, limit, found, **fields):
        box = self.acquire(thread)
        tasks = group_of(self.instance, box.box_id, "pids") / "cgroup.procs"
        self.begin(box, code, limit, **fields)
        answer = wait_until(lambda: (lambda a: a.status == 410 and a)(self.pool.get(f"/v1/sandboxes/{box.id}")),
                            f"the box is ended: {self.log_tail()}")
        self.assertCode(answer, 410, "sandbox_lost")
        self.assertIn("kernel_memory", answer.text)
        said = [e for e in self.events() if e["event"] == "box.kernel_memory" and e["box_id"] == box.box_id]
        self.assertGreaterEqual(len(said), 1, self.events())
        self.assertRegex(said[0]["status"], found)
        wait_until(lambda: not read_if(tasks), "its processes are gone")

    def test_boxes_that_hold_too_much_are_ended(self):
        neighbour = self.acquire("neighbour")
        program = self.begin(neighbour, ORDINARY, 1000000)
        wait_until(lambda: "ready" in neighbour.output(program), "the neighbour works")
        for thread, code, limit, found, fields in (
                ("locks", LOCKS, TAKEN, r"^\d{5,} file locks, ", {}),
                ("thread", LOCKS_OF_A_THREAD, TAKEN, r"^\d{5,} file locks, ", {}),
                ("directories", DIRECTORIES, OPENED, r", \d{3,} open directories", {}),
                ("passed", PASSED, OPENED, r", \d{3,} files on their way", {}),
                ("merged", MERGED, OPENED, r" open directories", {"user": "root"})):
            with self.subTest(thread):
                self.assertEnded(thread, code, limit, found, **fields)
        self.assertEqual(neighbour.process(program)["outcome"], "running")
        self.assertEqual(self.row(neighbour)["generation"], neighbour.lease["generation"])

    def test_doctor_says_that_it_is_watched(self):
        findings = self.assertOk(self.pool.get("/v1/doctor"))["backends"][0]["findings"]
        found = [f for f in findings if f["subject"] == "kernel memory"]
        self.assertEqual([f["level"] for f in found], ["ok"], findings)
        self.assertIn("6 MB", found[0]["text"])

    def test_locks_that_cannot_be_counted_are_refused(self):
        """Those of an open file, which stay when no process has it open by a number."""
        box = self.acquire("ofd")
        probe = ("import errno, fcntl, os, struct\n"
                 "fd = os.open('/tmp/f', os.O_RDWR | os.O_CREAT)\n"
                 "for command in (36, 37, 38, 0xffffffff00000025):\n"
                 "    try:\n"
                 "        import ctypes\n"
                 "        libc = ctypes.CDLL(None, use_errno=True)\n"
                 "        lock = ctypes.create_string_buffer(struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 1, 0))\n"
                 "        done = libc.syscall(72 if os.uname().machine == 'x86_64' else 25, fd, ctypes.c_long(command), lock)\n"
                 "        print('ok' if done == 0 else errno.errorcode[ctypes.get_errno()])\n"
                 "    except OSError as e:\n"
                 "        print(errno.errorcode[e.errno])\n"
                 "fcntl.lockf(fd, fcntl.LOCK_EX)\n"
                 "fcntl.flock(fd, fcntl.LOCK_EX)\n"
                 "fcntl.fcntl(fd, 1030, 0), fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, 1026, 0)\n"
                 "r, w = os.pipe()\n"
                 "print(fcntl.fcntl(r, 1031, 4096))\n")
        self.assertEqual(box.sh(["python3", "-c", probe]).split(), ["EINVAL"] * 4 + ["4096"])


if __name__ == "__main__":
    main()
