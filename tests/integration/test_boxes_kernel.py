"""Boxes that take all they can get of what the kernel charges to nobody, or counts for a user and not for a box: the
machine, its root and the neighbours keep theirs."""

import json
import shutil
import unittest

from harness import main
from oci_case import RUNTIME, BoxCase

on_this_kernel = unittest.skipIf("runsc" in RUNTIME, "ends in the box's own kernel")
SOCKETS_MAX = 32  # netlink sockets of a box, src/hands/netlink_loop.h

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


if __name__ == "__main__":
    main()
