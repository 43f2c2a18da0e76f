"""Real boxes whose files outlive them (durable: true): after a start of the machine, a power cut, and their own death the
thread's next acquire gets a box with the same files; what its owner destroyed, or what had no thread, does not come back."""

import os
import shutil
import signal
import unittest

from fixtures import Client, main, wait_until
from host import has_loop_devices
from test_boxes_hibernate import HibernateCase
from test_crash import fault_names

# Where the daemon is killed while it keeps what a box has written.
POINTS = ("keep.begun", "keep.linked", "keep.recorded", "keep.sealed", "keep.reported")
NONE = {"warm": {"min": 0, "max": 0}, "limits": {"disk": "64M"}}


@unittest.skipUnless(has_loop_devices(), "a durable box has a disk of its own, which needs loop devices")
class DurableCase(HibernateCase):
    profiles = {"default": {**NONE, "durable": True},
                "usual": NONE,
                "asleep": {**NONE, "durable": True, "park": "snapshot", "park_timeout_s": 0},
                "brief": {**NONE, "durable": True, "ttl_s": 1}}

    def setUp(self):
        super().setUp()
        self.destroy_all()  # the first box of the class
        self.assertAgree()

    def disks(self):
        """How many there are."""
        return len(list((self.server.state / "oci").glob("*/*/disk")))


class Reboot(DurableCase):
    def test_files_are_kept_and_processes_are_not(self):
        leased = self.acquire("t", metadata={"of": "t"})
        leased.sh("echo mine > /workspace/f; echo two > ~/g; sleep 1000 >/dev/null 2>&1 &")
        leased.sh("rm /etc/hosts; echo box > /etc/motd", user="root")
        parked = self.acquire("p")
        parked.sh("echo parked > /workspace/f")
        self.release(parked)
        usual = self.acquire("u", profile="usual")
        nobody = self.acquire(None)
        self.reboot()
        seen = self.await_state(leased.id)
        self.assertEqual((seen["generation"], seen["thread_id"], seen["metadata"], seen["sandbox_url"]),
                         (leased.lease["generation"], "t", {"of": "t"}, None))
        self.assertTrue(300 < seen["ends_in_s"] <= 600, seen)  # its idle time begins anew
        self.assertEqual(self.hibernated(), {"t", "p"})
        self.assertIn("machine_restarted", self.wait_lost(usual).text)
        self.wait_lost(nobody)
        again = self.acquire("t", "restored")
        self.assertEqual((again.id, again.lease["generation"], again.lease["metadata"]),
                         (leased.id, leased.lease["generation"] + 1, {"of": "t"}))
        self.assertNotEqual(again.lease["token"], leased.lease["token"])
        self.assertEqual(again.sh("cat /workspace/f ~/g /etc/motd; pgrep -c sleep || true"), "mine\ntwo\nbox\n0\n")
        self.assertEqual(self.acquire("p", "restored").sh("cat /workspace/f"), "parked\n")
        self.assertEqual(self.hibernated(), set())

    def test_again_and_again(self):
        box = first = self.acquire("t")
        for cycle in range(3):
            box.sh(f"echo {cycle} >> /workspace/f; touch /workspace/{cycle}; rm -f /workspace/{cycle - 1}")
            self.reboot()
            box = self.acquire("t", "restored")
        self.assertEqual(box.sh("cat /workspace/f; ls /workspace"), "0\n1\n2\n2\nf\n")
        self.assertEqual(box.lease["generation"], first.lease["generation"] + 3)

    def test_as_after_a_power_cut(self):
        """The disk is what it is while the box runs: something is in its journal only."""
        box = self.acquire("t")
        box.sh("for i in 1 2 3; do echo $i > /workspace/$i; sync /workspace/$i; done")
        disk = self.server.state / "oci" / "boxes" / box.box_id / "disk"
        self.assertTrue(self.has_journal(disk))
        shutil.copy(disk, self.home / "cut")
        self.reboot(lambda: disk.write_bytes((self.home / "cut").read_bytes()))
        again = self.acquire("t", "restored")
        self.assertEqual(again.sh("cat /workspace/1 /workspace/2 /workspace/3"), "1\n2\n3\n")

    def has_journal(self, disk):
        """Something in it is not in its place: the file system cannot be mounted without writing."""
        with open(disk, "rb") as f:
            f.seek(1024 + 0x60)
            return f.read(1)[0] & 4 != 0

    def test_rows_are_on_the_disk(self):
        def commits():
            return self.pool.get("/v1/pool").json["store"]["power_commits"]
        before = commits()
        self.acquire("u", profile="usual")
        self.assertEqual(commits(), before)
        self.acquire("t")
        self.assertGreater(commits(), before)

    def test_it_ends_when_its_time_is_over(self):
        box = self.acquire("t", profile="brief")
        self.reboot()
        wait_until(lambda: self.disks() == 0, "its files are gone")
        self.assertIn(self.seen(box.id)["state"], (404, 410))

    def test_it_can_be_destroyed(self):
        box = self.acquire("t")
        box.sh("echo old > /workspace/f")
        self.reboot()
        self.await_state(box.id)
        self.assertEqual(self.pool.delete(f"/v1/sandboxes/{box.id}").status, 200)
        wait_until(lambda: self.disks() == 0, "the directory of the box that was lost is gone, too")
        self.assertEqual(self.acquire("t", "cold").sh("ls /workspace"), "")

    def test_without_the_database(self):
        box = self.acquire("t")
        box.sh("echo kept > /workspace/f")
        record = self.server.state / "oci" / "boxes" / box.box_id / "box.json"
        wait_until(lambda: '"t"' in record.read_text(), "its label is written")
        self.reboot(lambda: [f.unlink() for f in self.server.state.glob("sandpool.db*")])
        again = self.acquire("t", "restored")
        self.assertEqual((again.sh("cat /workspace/f"), again.lease["generation"]), ("kept\n", box.lease["generation"] + 1))

    def test_hibernated_ones_too(self):
        """One that was asleep, one that was not yet."""
        asleep = self.acquire("a", profile="asleep")
        asleep.sh("echo asleep > /workspace/f")
        self.hibernate(asleep)
        awake = self.acquire("b", profile="asleep")
        awake.sh("echo awake > /workspace/f")
        self.reboot()
        self.assertEqual(self.hibernated(), {"a", "b"})
        self.assertGreater(self.seen(awake.id)["ends_in_s"], 29 * 24 * 3600)
        self.assertEqual(self.acquire("a", "restored").sh("cat /workspace/f"), "asleep\n")
        self.assertEqual(self.acquire("b", "restored").sh("cat /workspace/f"), "awake\n")

    def test_a_snapshot_of_a_durable_box(self):
        box = self.acquire("t")
        box.sh("echo kept > /workspace/f")
        made = self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", {}).json
        copy = self.acquire("copy", "restored", snapshot_id=made["snapshot_id"])
        self.assertEqual(copy.sh("cat /workspace/f"), "kept\n")


class Blank(DurableCase):
    profiles = {"default": {"warm": {"min": 1, "max": 1}, "durable": True}}

    def test_a_blank_box_is_nobodys(self):
        self.wait_blank(self.pool, 1)
        self.reboot()
        self.wait_blank(self.pool, 1)
        self.assertEqual(self.hibernated(), set())
        box = self.acquire("t")
        box.sh("echo kept > /workspace/f")
        self.reboot()
        self.assertEqual(self.acquire("t", "restored").sh("cat /workspace/f"), "kept\n")


class Death(DurableCase):
    def kill(self, box):
        os.kill(self.init_of(box), signal.SIGKILL)

    def test_the_box_alone(self):
        for when in ("while the daemon watches", "while no daemon runs"):
            with self.subTest(when=when):
                box = self.acquire("t")
                box.sh("date >> /workspace/f")
                lines = box.sh("cat /workspace/f")
                if when == "while no daemon runs":
                    self.server.kill()
                self.kill(box)
                if when == "while no daemon runs":
                    self.serve()
                self.await_state(box.id)
                again = self.acquire("t", "restored")
                self.assertEqual((again.sh("cat /workspace/f"), again.lease["generation"]),
                                 (lines, box.lease["generation"] + 1))

    def test_one_that_cannot_be_kept_is_tried_again(self):
        box = self.acquire("t")
        box.sh("echo kept > /workspace/f")
        snapshots = self.server.state / "oci" / "snapshots"
        snapshots.rmdir()
        snapshots.write_text("")  # no directory can be made in it
        try:
            self.kill(box)
            wait_until(lambda: "oci.not_kept" in self.server.process.output(), "it cannot be kept")
        finally:
            snapshots.unlink()
            snapshots.mkdir()
        self.await_state(box.id)
        self.assertEqual(self.acquire("t", "restored").sh("cat /workspace/f"), "kept\n")


class Crash(DurableCase):
    def crash(self, name, act):
        """The daemon dies at this point; `act` leads it there, with a daemon that runs or with none."""
        self.server.start(env={"SANDPOOL_CRASH_AT": f"{name}:1"}, wait=False)
        act()
        wait_until(lambda: not self.server.process.is_running(), f"crash at {name}")
        self.serve()

    def check(self, thread):
        answer = self.pool.post("/v1/acquire", {"thread_id": thread, "wait_ms": 20000})
        self.assertEqual((answer.status, answer.json.get("source")), (200, "restored"), answer)
        box = self.acquire(thread, "kept")
        self.assertEqual(box.sh("cat /workspace/f"), f"{thread}\n")
        wait_until(lambda: self.pool.get("/v1/snapshots?all=1").json["snapshots"] == [], "no snapshot is shown")
        self.destroy(box)  # the next start would keep it, too

    def make(self, thread):
        box = self.acquire(thread)
        box.sh(f"echo {thread} > /workspace/f")
        return box

    def test_at_the_start(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        for i, name in enumerate(POINTS):
            with self.subTest(point=name):
                self.make(f"start-{i}")
                self.reboot(start=False)
                self.crash(name, lambda: None)
                self.check(f"start-{i}")

    def test_while_the_daemon_runs(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        for i, name in enumerate(POINTS):
            with self.subTest(point=name):
                box = self.make(f"run-{i}")
                self.server.kill()
                self.crash(name, lambda box=box: (self.server.wait_ready(),
                                                  os.kill(self.init_of(box), signal.SIGKILL)))
                self.check(f"run-{i}")

    def test_a_destroyed_one_does_not_come_back(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        box = self.make("gone")
        self.server.kill()

        def destroy():
            self.server.wait_ready()
            client = Client(self.server.socket)
            try:
                client.delete(f"/v1/sandboxes/{box.id}")
            except OSError:
                pass
            client.close()
        self.server.start(env={"SANDPOOL_CRASH_AT": "engine.before_destroy:1"}, wait=False)
        destroy()
        wait_until(lambda: not self.server.process.is_running(), "crash")
        self.reboot()
        wait_until(lambda: self.disks() == 0, "its files are gone")
        self.assertEqual(self.acquire("gone", "cold").sh("ls /workspace"), "")


if __name__ == "__main__":
    main()
