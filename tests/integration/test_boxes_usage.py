"""What real boxes use: processor, memory, network and disk, as the kernel counts them, now and in the meter."""

import os
import shutil
import signal
import subprocess
import unittest

from fixtures import BIN, MIB, main, wait_until
from host import group_of
from oci_case import BoxCase

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

    def rows_of(self, box):
        return self.assertOk(self.pool.get(f"/v1/usage?group_by=sandbox&sandbox_id={box.id}"))["usage"]

    def metered(self, box):
        rows = self.rows_of(box)
        self.assertEqual(len(rows), 1)
        return rows[0]

    def wait_sampled(self, box):
        """Its first sample is stored: what it uses from now on is its owner's."""
        wait_until(lambda: any(row["cpu_ms"] is not None for row in self.rows_of(box)), "a sample")

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
        self.assertRegex(self.cli("inspect", box.id, "--stats"), r"(?m)^cpu_ms +\d")
        self.assertNotIn("cpu_ms", self.cli("inspect", box.id))


class Metered(UsageCase):
    profiles = {"default": {"warm": {"min": 1, "max": 2}, "limits": {"memory": "512M", "pids": 64}},
                "paid": {"extends": "default", "warm": {"min": 0, "max": 0}, "ttl_s": 3600,
                         "price": {"currency": "EUR", "per_start": 1, "per_used_cpu_hour": 36}}}
    config = {"usage": {"sample_s": 1}, "budgets": {"currency": "EUR", "period": "total", "amount": 1.008}}

    def restart(self):
        self.server.kill()
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)

    def stand_still(self, box):
        self.assertOk(self.pool.post(f"/v1/sandboxes/{box.id}/pause", {}))

    def test_a_lease(self):
        box = self.acquire("lease")
        before = self.cpu_ms(box)
        self.python(box, BURN)
        box.sh("dd if=/dev/zero of=file bs=1M count=50 2>&1; sync")
        pid = box.start(["python3", "-c", HOLD])
        wait_until(lambda: box.output(pid) == "held\n", "it holds the memory")
        wait_until(lambda: self.metered(box)["cpu_ms"] is not None and self.metered(box)["cpu_ms"] >= 900, "the first samples")
        wait_until(lambda: self.metered(box)["memory_mb_s"] >= 100, "it holds it for a while")
        self.stand_still(box)
        kernel = self.cpu_ms(box)
        report = self.destroy(box)["report"]["usage"]
        self.assertLessEqual(900, report["cpu_ms"])
        self.assertLessEqual(report["cpu_ms"], kernel)
        self.assertLess(report["cpu_ms"], kernel - before + 500)
        self.assertLessEqual(50 << 20, report["disk_write_bytes"])
        self.assertLess(report["disk_write_bytes"], 70 << 20)
        self.assertLess(100, report["memory_mb_s"])
        self.assertLess(report["memory_mb_s"], 200 * (report["leased_ms"] + report["paused_ms"]) / 1000)
        self.assertIsNone(report["net_in_bytes"])
        row = self.metered(box)
        self.assertEqual({key: row[key] for key in report}, report)

    def refused(self, answer):
        self.assertCode(answer, 402, "budget_exceeded")

    def test_a_budget(self):
        """The start is 1, and a second of the processor a hundredth: then all is spent."""
        mine = {"user_id": "ana", "profile": "paid", "wait_ms": 20000}
        box = self.acquire("spender", **mine)
        path = f"/v1/sandboxes/{box.id}"
        snapshot = self.assertOk(self.pool.post(f"{path}/snapshots", {}))["snapshot_id"]
        self.assertOk(self.pool.post(f"{path}/renew", {}))
        self.python(box, BURN)
        wait_until(lambda: self.assertOk(self.pool.get("/v1/budgets/ana"))["spent_micros"] >= 1008000, "it is spent")
        before = self.counts()
        self.refused(self.pool.acquire("other", **mine))
        self.refused(self.pool.acquire("copy", snapshot_id=snapshot, **mine))
        self.refused(self.pool.post(f"{path}/fork", {"count": 1}))
        self.refused(self.pool.post(f"{path}/renew", {}))
        self.assertEqual(box.sh("echo $((6 * 7))"), "42\n")  # what runs goes on
        self.assertEqual(self.counts(), before)
        self.assertOk(self.pool.release(box.id))
        self.restart()
        self.refused(self.pool.acquire("spender", **mine))
        self.assertOk(self.pool.post("/v1/budgets/ana/credit", {"amount": "5"}))
        again = self.acquire("spender", source="parked", **mine)
        self.assertEqual(again.box_id, box.box_id)
        report = self.destroy(box)["report"]
        self.assertEqual(report["cost_micros"], self.metered(box)["cost_micros"])
        self.assertLessEqual(36e6 / 3600 * report["usage"]["cpu_ms"] / 1000, report["cost_micros"] - 1000000 + 0.5)
        self.assertLessEqual(report["cost_micros"] - 1000000, 36e6 / 3600 * (report["usage"]["cpu_ms"] + 1) / 1000 + 0.5)

    def test_what_came_before_it_is_not_its_owners(self):
        box = self.acquire("idle")
        self.wait_sampled(box)
        self.assertLess(self.metered(box)["cpu_ms"], 150)
        self.assertLess(self.metered(box)["cpu_ms"], self.cpu_ms(box))

    def test_crashes(self):
        box = self.acquire("worker")
        self.wait_sampled(box)
        before = self.cpu_ms(box)
        box.start("while :; do :; done")
        last = 0
        for point in ("usage.before_sample", "usage.after_sample", "store.before_commit", "store.after_commit", None):
            if point is not None:
                self.server.kill()
                self.server.start(env={"SANDPOOL_CRASH_AT": f"{point}:4"}, wait=False)
                wait_until(lambda: not self.server.process.is_running(), f"it died at {point}")
            self.restart()
            metered = self.metered(box)["cpu_ms"]
            self.assertLessEqual(metered, self.cpu_ms(box))
            self.assertLessEqual(last, metered)
            last = metered
            wait_until(lambda least=last: self.metered(box)["cpu_ms"] > least, "the next sample")
        self.stand_still(box)
        kernel = self.cpu_ms(box)
        report = self.destroy(box)["report"]["usage"]
        self.assertLessEqual(report["cpu_ms"], kernel)
        self.assertLessEqual(kernel - before - 1, report["cpu_ms"])  # also what it used while no daemon ran

    def test_takeover_and_its_death(self):
        box = self.acquire("taken")
        self.wait_sampled(box)
        box.start("while :; do :; done")
        self.server.takeover()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        wait_until(lambda: self.metered(box)["cpu_ms"] > 100, "it is sampled")
        least = self.metered(box)["cpu_ms"]
        kernel = self.cpu_ms(box)
        os.kill(self.init_of(box), signal.SIGKILL)
        wait_until(lambda: self.pool.get(f"/v1/sandboxes/{box.id}").status == 410, "it has died")
        self.assertLessEqual(least, self.metered(box)["cpu_ms"])
        self.assertLess(self.metered(box)["cpu_ms"], kernel + 60 * 1000)


class AtTheEnds(UsageCase):
    """Sampled when it is ready and before its end, and not between."""
    profiles = {"default": {"warm": {"min": 0, "max": 0}}}
    config = {"usage": {"sample_s": 3600}}

    def test_all_of_it_is_metered(self):
        box = self.acquire("short")
        self.wait_sampled(box)
        self.python(box, BURN)
        box.sh("dd if=/dev/zero of=file bs=1M count=20 2>&1; sync")
        report = self.destroy(box)["report"]["usage"]
        self.assertLessEqual(900, report["cpu_ms"])
        self.assertLess(report["cpu_ms"], 2000)
        self.assertLessEqual(20 << 20, report["disk_write_bytes"])

    def test_a_box_that_ends_itself_is_metered_too(self):
        """Its root can end it whenever it likes: that is no way to use a processor for nothing."""
        box = self.acquire("cheap")
        self.wait_sampled(box)
        self.python(box, BURN)
        self.pool.post(f"/v1/sandboxes/{box.id}/exec", {"command": "kill 1; sleep 60", "user": "root"})
        wait_until(lambda: self.pool.get(f"/v1/sandboxes/{box.id}").status != 200, "it has died")
        wait_until(lambda: self.metered(box)["cpu_ms"] >= 900, lambda: self.rows_of(box))
        self.assertLess(self.metered(box)["cpu_ms"], 2000)


if __name__ == "__main__":
    main()
