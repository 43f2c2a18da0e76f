"""Boxes of each kind: from the host's programs, a directory, an image; without a network, with the host's, by nat."""

import os
import pathlib
import shutil
import subprocess

from fixtures import BIN, is_alive, main
from box import JOBS
from host import read_of
from oci_case import HAS_CGROUPS, BoxCase


BUSYBOX = shutil.which("busybox")
APPLETS = ("sh", "cat", "id", "ls", "echo", "env", "pwd", "sleep", "touch")


def is_static(program):
    done = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=30, check=False)
    text = done.stdout + done.stderr
    return "not a dynamic" in text or "statically linked" in text


def make_tree(top):
    """A whole system of one program."""
    (top / "bin").mkdir(parents=True)
    shutil.copy(BUSYBOX, top / "bin" / "busybox")
    for name in APPLETS:
        (top / "bin" / name).symlink_to("busybox")
    (top / "etc").mkdir()
    (top / "etc" / "motd").write_text("a tree of its own\n")
    (top / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n"
                                        "user:x:1000:1000::/home/user:/bin/sh\n")
    (top / "etc" / "group").write_text("root:x:0:\nuser:x:1000:\n")


def make_image(top, tree):
    """An OCI layout with one layer, made by umoci."""
    layout = f"{top}/layout"
    bundle = f"{top}/bundle"
    for args in (["init", "--layout", layout], ["new", "--image", f"{layout}:t"],
                 ["unpack", "--image", f"{layout}:t", bundle]):
        subprocess.run(["umoci", *args], check=True, capture_output=True, timeout=60)
    shutil.copytree(tree, f"{bundle}/rootfs", symlinks=True, dirs_exist_ok=True)
    subprocess.run(["umoci", "repack", "--image", f"{layout}:t", bundle], check=True,
                   capture_output=True, timeout=60)
    subprocess.run(["umoci", "config", "--image", f"{layout}:t", "--config.env", "FROM_IMAGE=yes"],
                   check=True, capture_output=True, timeout=60)
    return f"oci:{layout}:t"


class Kinds(BoxCase):
    """Profiles with another base or network; all cold."""
    config = {"mounts": {"allow": ["/nowhere"]}}

    @classmethod
    def make_config(cls):
        cold = {"warm": {"min": 0, "max": 0}}
        cls.profiles = {"default": cold, "host": {**cold, "network": "host"}}
        if shutil.which("slirp4netns"):
            cls.profiles["nat"] = {**cold, "network": "nat"}
        # An instrumented agent needs the host's libraries.
        if BUSYBOX and is_static(BUSYBOX) and is_static(BIN / "sandpool-agent"):
            make_tree(cls.home / "tree")
            cls.profiles["tree"] = {**cold, "rootfs": str(cls.home / "tree")}
            if shutil.which("umoci") and shutil.which("skopeo"):
                cls.profiles["image"] = {**cold, "image": make_image(cls.home, cls.home / "tree")}
        return super().make_config()

    def of(self, profile):
        if profile not in self.profiles:
            self.skipTest(f"what '{profile}' needs is not installed")
        return self.acquire(f"kind-{profile}", "cold", profile=profile)

    def test_mounts_do_not_name_the_places_of_the_host(self):
        """The programs, the state directory, trees and images all lie below the test's directory."""
        for profile in self.profiles:
            box = self.acquire(f"mounts-{profile}", "cold", profile=profile)
            for path in ("/proc/self/mountinfo", "/proc/mounts", "/proc/self/mountstats"):
                text = box.sh(["cat", path], user="root")
                self.assertIn(" /proc ", text)
                for word in (self.home.name, str(BIN), "sandpool.db", "/oci/"):
                    self.assertNotIn(word, text, f"{profile} {path}")

    def test_directory(self):
        box = self.of("tree")
        self.assertEqual(box.sh("cat /etc/motd; id -un"), "a tree of its own\nuser\n")
        self.assertEqual(box.call("POST", JOBS, {"argv": ["python3"]})[0], 422)
        box.sh("touch /workspace/x; echo changed > /etc/motd", user="root")
        self.assertEqual((self.home / "tree" / "etc" / "motd").read_text(), "a tree of its own\n")
        self.assertEqual(self.destroy(box)["sandbox_id"], box.id)
        self.assertEqual(self.of("tree").sh("cat /etc/motd"), "a tree of its own\n")

    def images(self):
        """Those that are unpacked, by what would be another if one was unpacked again."""
        found = (self.server.state / "oci" / "images").glob("*/rootfs")
        return {p: (p.stat().st_ino, p.stat().st_ctime_ns) for p in found}

    def test_image(self):
        box = self.of("image")
        self.assertEqual(box.sh("cat /etc/motd; echo $FROM_IMAGE; id -un"),
                         "a tree of its own\nyes\nuser\n")
        self.destroy(box)
        before = self.images()
        self.assertEqual(len(before), 1)
        self.of("image")
        self.assertEqual(self.images(), before, "unpacked once")

    def test_nat_takes_few_of_the_machines_own(self):
        """Neighbours of IPv6 and ports of UDP are the machine's: there is no IPv6 on the link, and whatever serves the
        network has few open files."""
        box = self.of("nat")
        self.assertNotIn("tap0", box.sh("cat /proc/net/if_inet6 2>/dev/null || true"))
        self.assertNotIn("tap0", box.sh("cat /proc/net/ipv6_route 2>/dev/null || true"))
        sent = box.run(["python3", "-c", NEIGHBOURS], user="root")
        self.assertEqual(sent.out, "0\n", sent)
        self.assertEqual(box.sh(["python3", "-c", LOOPBACK]), "hello\n")
        pid = (self.server.state / "oci" / "boxes" / box.box_id / "net.pid").read_text().split()[0]
        limits = read_of(pid, "limits")
        self.assertRegex(limits, r"Max open files\s+(\d{1,3}|10[0-2]\d)\s+(\d{1,3}|10[0-2]\d)\s")
        box.sh(["python3", "-c", MANY_PORTS])
        self.assertLessEqual(len(os.listdir(f"/proc/{pid}/fd")), 1024)
        self.assertTrue(is_alive(pid), "it goes on when it has no more")

    @staticmethod
    def interfaces(box):
        return set(box.sh("tail -n +3 /proc/net/dev | cut -d: -f1").split())

    def test_no_network(self):
        box = self.of("default")
        self.assertEqual(self.interfaces(box), {"lo"})
        self.assertEqual(box.sh(["python3", "-c", LOOPBACK]), "hello\n")
        for address in ("1.1.1.1", "10.0.2.2", "192.168.0.1"):
            refused = box.run(["python3", "-c", CONNECT, address, "80"])
            self.assertIn("unreachable", refused.err.lower(), refused)
        port = str(self.acquire("kind-other", profile="default").url.port)
        self.assertIn("refused", box.run(["python3", "-c", CONNECT, "127.0.0.1", port]).err.lower())

    def test_network_of_the_host(self):
        box = self.of("host")
        mine = {line.split(":")[0].strip()
                for line in pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]}
        self.assertEqual(self.interfaces(box), mine)
        port = str(box.url.port)
        self.assertEqual(box.sh(["python3", "-c", CONNECT, "127.0.0.1", port]), "connected\n")

    def helper_of(self, box):
        """The process that serves its network."""
        return int((self.server.state / "oci" / "boxes" / box.box_id / "net.pid").read_text().split()[0])

    def test_network_by_nat(self):
        box = self.of("nat")
        self.assertEqual(self.interfaces(box), {"lo", "tap0"})  # at once
        self.assertIn("\t00000000\t", box.sh("cat /proc/net/route"))
        self.assertIn("nameserver", box.sh("cat /etc/resolv.conf"))
        self.assertEqual(box.sh(["python3", "-c", LOOPBACK]), "hello\n")
        helper = self.helper_of(box)
        self.assertTrue(is_alive(helper))
        if HAS_CGROUPS:
            self.assertIn(f"/sandpool-{self.instance}/{box.box_id}\n", read_of(helper, "cgroup"))
        self.destroy(box)
        self.assertFalse(is_alive(helper))

    def test_a_box_whose_network_ended_is_lost(self):
        self.assertLostWithout(lambda: self.of("nat"), self.helper_of, "network")


LOOPBACK = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), 5)
server.accept()[0].sendall(b"hello")
print(client.recv(5).decode())
"""
# How many neighbours could be asked for by a link-local address of the box's link, and by multicast.
NEIGHBOURS = """
import socket
sent = 0
link = socket.if_nametoindex("tap0")
for to in ["fe80::%x" % i for i in range(1, 50)] + ["ff02::%x" % i for i in range(100, 150)]:
    try:
        s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        s.sendto(b"x", (to, 9, 0, link))
        sent += 1
    except OSError:
        pass
print(sent)
"""
# One at a time: the box needs no more than one socket for all of them.
MANY_PORTS = """
import socket
for i in range(3000):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", ("10.0.2.2", 9))
"""
CONNECT = """
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
print("connected")
"""


if __name__ == "__main__":
    main()
