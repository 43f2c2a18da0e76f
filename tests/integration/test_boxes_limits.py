"""Boxes whose programs take all they can get: memory, processes, disk, output, time. The box and
its agent survive, this machine does not notice, and the box can be removed."""

import http.client
import json
import re
import subprocess
import sys
import time
import unittest

from fixtures import IS_SANITIZED, MIB, SLOW, at_most, free_port, main, wait_until
from box import JOBS
from host import GROUPS, group_of, has_loop_devices, read_of
from oci_case import HAS_CGROUPS, BoxCase

MEMORY = 128 * MIB
PIDS = 64
DISK = 96 * MIB
GIB = 1024 * MIB
SPILL = 256 * MIB  # what the agent keeps of one stream where there is room
# More than that, and than any box has memory. Where the processor is emulated a gigabyte takes ten minutes.
OUTPUT = GIB if SLOW <= 4 else SPILL + 64 * MIB


class Limits(BoxCase):
    profiles = {"default": {"warm": {"min": 1, "max": 1},
                            "limits": {"memory": MEMORY, "pids": PIDS, "disk": DISK, "cpus": 1}},
                "roomy": {"warm": {"min": 0, "max": 0},
                          "limits": {"memory": MEMORY, "disk": 2 * GIB}}}

    def pids_in(self, box):
        group = group_of(self.instance, box.box_id, "pids")
        return [int(p) for p in (group / "cgroup.procs").read_text().split()]

    def assertUsable(self, box):
        self.assertEqual(self.row(box)["state"], "leased")
        self.assertEqual(box.sh("echo fine > /tmp/fine; cat /tmp/fine"), "fine\n")

    def assertQuick(self, begin, limit, what):
        took = time.monotonic() - begin
        print(f"{what}: {took:.2f} s", file=sys.stderr)
        self.assertLess(took, at_most(limit), what)

    # -- memory --

    @unittest.skipUnless(HAS_CGROUPS, "this runtime is started without control groups")
    def test_out_of_memory(self):
        box = self.acquire("greedy")
        init = self.init_of(box)
        bystander = box.start("sleep 300")
        ended = box.run(["python3", "-c", "x = b'x' * (1 << 30)"])
        self.assertEqual((ended.outcome, ended.signal, ended.exit_code), ("oom", "SIGKILL", None))
        child = box.run("python3 -c 'x = b\"x\" * (1 << 30)'; echo shell goes on; exit 3")
        self.assertIn(child.outcome, ("oom", "exited"))
        if child.outcome == "exited":
            self.assertEqual((child.exit_code, child.out), (3, "shell goes on\n"))
        self.assertEqual(self.init_of(box), init)
        self.assertEqual(box.process(bystander)["outcome"], "running")
        self.assertUsable(box)

    @unittest.skipUnless(HAS_CGROUPS, "this runtime is started without control groups")
    def test_memory_is_limited_in_tmp_too(self):
        box = self.acquire("shm")
        box.run("head -c 512M /dev/zero > /dev/shm/a; rm -f /dev/shm/a")
        self.assertUsable(box)

    # -- processes --

    @unittest.skipUnless(HAS_CGROUPS, "this runtime is started without control groups")
    def test_fork_bomb(self):
        box = self.acquire("bomber")
        bomb = box.start("bomb() { bomb | bomb & }; bomb; sleep 300")
        group = group_of(self.instance, box.box_id, "pids")
        wait_until(lambda: int((group / "pids.current").read_text()) >= PIDS - 2, "it explodes")
        self.assertLessEqual(int((group / "pids.current").read_text()), PIDS)
        begin = time.monotonic()
        subprocess.run(["true"], check=True, timeout=30)
        self.assertQuick(begin, 2, "a process of the host beside a fork bomb")
        begin = time.monotonic()
        self.assertTrue(self.server.answers())
        self.assertQuick(begin, 2, "the daemon answers beside a fork bomb")
        self.assertEqual(box.call("GET", "/v1/sandbox")[0], 200)
        self.assertEqual(self.acquire("neighbour").sh("echo calm"), "calm\n")
        begin = time.monotonic()
        self.assertEqual(box.call("DELETE", f"{JOBS}/{bomb}")[0], 200)
        self.assertQuick(begin, 10, "the agent defuses it")
        begin = time.monotonic()
        self.destroy(box)
        self.assertQuick(begin, 10, "a box with a fork bomb is destroyed")
        self.assertFalse(group.exists())

    @unittest.skipUnless(HAS_CGROUPS, "this runtime is started without control groups")
    def test_fork_bomb_that_flees(self):
        """Every process is a session of its own, and none can be talked to."""
        box = self.acquire("fugitive")
        box.start(["python3", "-c", FUGITIVES])
        group = group_of(self.instance, box.box_id, "pids")
        wait_until(lambda: int((group / "pids.current").read_text()) >= PIDS - 2, "it explodes")
        begin = time.monotonic()
        self.destroy(box)
        self.assertQuick(begin, 10, "a box of fugitives is destroyed")
        self.assertFalse(group.exists())

    # -- disk --

    @unittest.skipUnless(has_loop_devices(), "no loop devices: disks are not limited")
    def test_disk_full(self):
        box = self.acquire("hoarder")
        ended = box.run("dd if=/dev/zero of=/workspace/big bs=1M count=1000")
        self.assertEqual(ended.exit_code, 1)
        self.assertIn("No space left", ended.err)
        self.assertIn("No space left", box.run("head -c 5M /dev/zero > /tmp/more").err)
        self.assertIn("No space left", box.run("head -c 5M /dev/zero > ~/more").err)
        taken = sum(p.stat().st_blocks * 512 for p in
                    (self.server.state / "oci" / "boxes" / box.box_id).rglob("*") if p.is_file())
        self.assertLessEqual(taken, DISK + MIB)
        self.assertEqual(box.sh("seq 100000 | tail -1"), "100000\n")  # no disk for its output
        self.assertEqual(self.row(box)["state"], "leased")
        self.assertEqual(self.acquire("other").sh("head -c 5M /dev/zero > a && stat -c %s a"),
                         f"{5 * MIB}\n")
        box.sh("rm -f /workspace/big ~/more /tmp/more")
        self.assertUsable(box)
        box.run("dd if=/dev/zero of=/workspace/big bs=1M count=1000")
        self.assertGreater(self.destroy(box)["report"]["bytes"], DISK // 2)
        self.assertFalse((self.server.state / "oci" / "boxes" / box.box_id).exists())

    @unittest.skipUnless(has_loop_devices(), "no loop devices: disks are not limited")
    def test_many_files(self):
        box = self.acquire("ant")
        ended = box.run(["python3", "-c", ANTS])
        self.assertIn("No space left", ended.err)
        begin = time.monotonic()
        self.destroy(box)
        self.assertQuick(begin, 10, "a disk full of files is removed")

    # -- output --

    def much_output(self, box):
        """The ended process, and how many bytes at its end were kept."""
        init = self.init_of(box)
        box.sh("head -c 4M /dev/zero")  # what the first output costs
        before = self.memory_kb(init)
        begin = time.monotonic()
        pid = box.start(["head", "-c", str(OUTPUT), "/dev/zero"])
        peak = 0
        while box.wait(pid, 0.02)["outcome"] == "running":
            peak = max(peak, self.memory_kb(init))
            self.assertLess(time.monotonic() - begin, at_most(120))
        ended = box.process(pid)
        print(f"{OUTPUT // MIB} MiB of output: {time.monotonic() - begin:.1f} s, memory {before} to {peak} "
              f"KB, kept {OUTPUT - ended['stdout']['tail_from']}", file=sys.stderr)
        self.assertEqual((ended["outcome"], ended["exit_code"]), ("exited", 0))
        self.assertEqual((ended["stdout"]["size"], ended["stdout"]["head"]), (OUTPUT, 32768))
        if not IS_SANITIZED:
            self.assertLess(peak - before, 2048, "flat")
        kept = OUTPUT - ended["stdout"]["tail_from"]
        status, tail = box.call("GET", f"{JOBS}/{pid}/output?offset={OUTPUT - min(kept, 10**6)}")
        self.assertEqual((status, len(tail)), (200, min(kept, 10**6)))
        return kept

    def test_much_output(self):
        box = self.acquire("loud", profile="roomy")
        kept = self.much_output(box)
        self.assertLessEqual(kept, SPILL)
        if has_loop_devices():
            self.assertGreater(kept, SPILL // 2)
            used = int(box.sh("df --output=used -B1 /workspace | tail -1"))
            self.assertLess(used, SPILL + 64 * MIB)
        self.assertUsable(box)

    def test_much_output_on_a_small_disk(self):
        box = self.acquire("cramped")
        writer = box.start("for i in $(seq 300); do head -c 8M /dev/zero > a || exit 1; done")
        kept = self.much_output(box)
        if has_loop_devices():
            self.assertGreater(kept, DISK // 16)
            self.assertLess(kept, DISK // 4)
        ended = box.call("DELETE", f"{JOBS}/{writer}")
        self.assertEqual(box.output(writer, "stderr"), "", ended)  # there was room for others
        self.assertUsable(box)

    @staticmethod
    def memory_kb(pid):
        return int(re.search(r"VmRSS:\s+(\d+)", read_of(pid, "status")).group(1))

    # -- time --

    def test_command_that_ignores_sigterm(self):
        box = self.acquire("stubborn")
        box.start("sleep 300")
        before = set(self.pids_in(box)) if HAS_CGROUPS else set()
        begin = time.monotonic()
        ended = box.run("trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & "
                        "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & "
                        "echo on; while :; do sleep 1; done", timeout_s=SLOW)
        self.assertQuick(begin, 11, "a command that ignores SIGTERM is over")
        self.assertEqual((ended.outcome, ended.out), ("timed_out", "on\n"))
        if HAS_CGROUPS:
            self.assertEqual(set(self.pids_in(box)), before, "all of it")
        self.assertUsable(box)

    # -- what the limits are --

    @unittest.skipUnless(HAS_CGROUPS, "this runtime is started without control groups")
    def test_numbers(self):
        box = self.acquire("numbers")
        wanted = {("memory", "memory.limit_in_bytes"): f"{MEMORY}", ("pids", "pids.max"): f"{PIDS}",
                  ("cpu", "cpu.cfs_quota_us"): "100000"}
        if (GROUPS / "cgroup.controllers").exists():
            wanted = {("", "memory.max"): f"{MEMORY}", ("", "pids.max"): f"{PIDS}", ("", "cpu.max"): "100000 100000"}
        if (group_of(self.instance, box.box_id, "") / "memory.swap.max").exists():
            wanted["", "memory.swap.max"] = "0"
        self.assertEqual({(kind, name): (group_of(self.instance, box.box_id, kind) / name).read_text().strip()
                          for kind, name in wanted}, wanted)
        if has_loop_devices():
            size = int(box.sh("df --output=size -B1 /workspace | tail -1"))
            self.assertLessEqual(size, DISK)
            self.assertGreater(size, DISK * 0.7)


FUGITIVES = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
    signal.signal(number, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0.01)
"""
ANTS = """
import os
os.chdir("/workspace")
for i in range(1000000):
    if i % 1000 == 0:
        os.mkdir(f"d{i}")
        os.chdir(f"/workspace/d{i}")
    os.close(os.open(f"f{i}", os.O_CREAT | os.O_WRONLY))
    if i % 1000 == 999:
        os.chdir("/workspace")
"""


class Largest(BoxCase):
    """When space is short, the pool says which boxes take it: all to operators, to others their own."""

    token = "a-token-of-at-least-sixteen-characters"
    port = free_port()
    config = {"tcp": {"listen": f"127.0.0.1:{port}", "tokens": {"alice": token}}}

    def largest(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20 * SLOW)
        try:
            connection.request("GET", "/v1/pool", headers={"Authorization": f"Bearer {self.token}"})
            return [b["box_id"] for b in json.loads(connection.getresponse().read())["disk"]["largest"]]
        finally:
            connection.close()

    def test_others_do_not_see_them(self):
        box = self.acquire("mine")
        self.server.write_config({**self.make_config(), "store": {"min_free": "10T"}})
        self.assertOk(self.pool.post("/v1/pool/reload"))
        wait_until(lambda: box.box_id in [b["box_id"] for b in self.pool.get("/v1/pool").json["disk"]["largest"]],
                   "operators see the largest")
        self.assertEqual(self.largest(), [])


if __name__ == "__main__":
    main()
