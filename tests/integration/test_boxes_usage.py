"""What real boxes use: processor, memory, network and disk, as the kernel counts them."""

import shutil
import subprocess
import unittest

from harness import BIN, main, wait_until
from oci_case import MIB, BoxCase, group_of

BURN = "import time\nwhile time.process_time() < 1: pass"
HAS_NAT = shutil.which("slirp4netns") is not None or shutil.which("pasta") is not None
HOLD = "import sys, time; held = b'x' * (100 << 20); print('held', flush=True); time.sleep(600)"


class UsageCase(BoxCase):
    def stats(self, box):
        return self.assertOk(self.pool.get(f"/v1/sandboxes/{box.id}?stats=1"))["stats"]

    def cpu_ms(self, box):
        """As the kernel shows it in the group of the box, whatever the daemon says."""
        group = group_of(self.instance, box.box_id, "cpuacct")
        if (group / "cpuacct.usage").exists():
            return int((group / "cpuacct.usage").read_text()) // 1000000
        return int((group / "cpu.stat").read_text().split()[1]) // 1000

    def cli(self, *args):
        return subprocess.run([BIN / "sandpool", "--socket", self.server.socket, *args], capture_output=True, text=True,
                              timeout=60, check=True).stdout

    def python(self, box, program):
        return box.sh(f"python3 -c \"{program}\"")


class Counted(UsageCase):
    profiles = {"default": {"warm": {"min": 0, "max": 0}, "limits": {"memory": "512M", "pids": 64}},
                **({"net": {"warm": {"min": 0, "max": 0}, "network": "nat"}} if HAS_NAT else {})}

    def test_processor(self):
        box = self.acquire("burner")
        before = self.stats(box)["cpu_ms"]
        self.python(box, BURN)
        after = self.stats(box)["cpu_ms"]
        self.assertLessEqual(900, after - before)
        self.assertLess(after - before, 1500)
        self.assertLessEqual(after, self.cpu_ms(box))

    def test_memory(self):
        box = self.acquire("holder")
        before = self.stats(box)["memory_bytes"]
        pid = box.start(["python3", "-c", HOLD])
        wait_until(lambda: box.output(pid) == "held\n", "it holds the memory")
        held = self.stats(box)["memory_bytes"] - before
        self.assertLessEqual(95 * MIB, held)
        self.assertLess(held, 130 * MIB)

    def test_disk(self):
        box = self.acquire("writer")
        before = self.stats(box)["disk_write_bytes"]
        box.sh("dd if=/dev/zero of=file bs=1M count=50 2>&1; sync")
        wrote = self.stats(box)["disk_write_bytes"] - before
        self.assertLessEqual(50 * MIB, wrote)
        self.assertLess(wrote, 60 * MIB)

    def test_nothing_is_counted_of_no_network(self):
        box = self.acquire("alone")
        stats = self.stats(box)
        self.assertEqual((stats["net_in_bytes"], stats["net_out_bytes"]), (None, None))

    @unittest.skipUnless(HAS_NAT, "no network for boxes here")
    def test_network(self):
        box = self.acquire("talker", profile="net")
        self.python(box, "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                         "for i in range(100): s.sendto(bytes(1000), ('192.0.2.1', 9))")
        stats = self.stats(box)
        self.assertLess(50 * 1000, stats["net_out_bytes"])  # some wait for the first answer of the network, and are dropped
        self.assertLess(stats["net_out_bytes"], 120 * 1000)
        lines = [line.split() for line in box.sh("cat /proc/net/dev").splitlines() if ": " in line and " lo:" not in line]
        self.assertLessEqual(stats["net_in_bytes"], sum(int(line[1]) for line in lines))
        self.assertLessEqual(stats["net_out_bytes"], sum(int(line[9]) for line in lines))

    def test_command_line(self):
        box = self.acquire("shown")
        self.assertIn('"cpu_ms":', self.cli("inspect", box.id, "--stats"))
        self.assertNotIn("cpu_ms", self.cli("inspect", box.id))


if __name__ == "__main__":
    main()
