"""Real boxes that are paused: they use no CPU, keep their lease, go on when a call needs them, and are what their row says
after a restart, also when the daemon is killed in the middle."""

import time
import unittest

from fixtures import Client, in_threads, main, wait_until
from host import can_reclaim, group_of, is_frozen, memory_of
from oci_case import RUNTIME, BoxCase
from test_crash import fault_names

POINTS = ("pause.before_freeze", "pause.after_freeze", "pause.before_thaw", "pause.after_thaw")
LOOP = "while :; do :; done"


@unittest.skipIf(RUNTIME == "runsc", "its boxes have no control group that can be frozen")
class PauseCase(BoxCase):
    profiles = {"default": {"warm": {"min": 1, "max": 1}},
                "cold": {"warm": {"min": 0, "max": 0}, "park": "freeze"},
                "brief": {"warm": {"min": 0, "max": 0}, "idle_timeout_s": 1, "ttl_s": 3600}}

    def group(self, box):
        return group_of(self.instance, box.box_id, "freezer")

    def is_frozen(self, box):
        return is_frozen(self.instance, box.box_id)

    def cpu_time(self, box):
        """Ticks of all processes of the box."""
        total = 0
        for pid in (self.group(box) / "cgroup.procs").read_text().split():
            fields = open(f"/proc/{pid}/stat", encoding="utf-8").read().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total

    def pause(self, box):
        answer = self.pool.post(f"/v1/sandboxes/{box.id}/pause", {})
        self.assertEqual(answer.status, 200, answer)
        self.assertTrue(answer.json["paused"])
        self.assertTrue(self.is_frozen(box))
        return answer.json

    def is_paused(self, box):
        return self.pool.get(f"/v1/sandboxes/{box.id}").json.get("paused", False)

    def exec(self, box, command):
        answer = self.pool.post(f"/v1/sandboxes/{box.id}/exec", {"command": command})
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def restart(self, kill=False, **options):
        if kill:
            self.server.kill()
        else:
            self.server.stop()
        self.server.start(**options)
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)

    def tearDown(self):
        self.destroy_all()
        super().tearDown()


class Paused(PauseCase):
    def test_it_stands_still_until_it_is_needed(self):
        box = self.acquire("worker")
        box.start(LOOP)
        before = self.cpu_time(box)
        wait_until(lambda: self.cpu_time(box) > before, "it works")
        self.assertEqual(self.pause(box)["state"], "leased")
        still = self.cpu_time(box)
        time.sleep(0.2)  # what does not move cannot be waited for
        self.assertEqual(self.cpu_time(box), still)
        self.assertEqual(self.pause(box)["ends_by"], "ttl")  # once more
        self.assertEqual(self.pool.get(f"/v1/sandboxes/{box.id}?alive=1").json["alive"], True)
        answers = in_threads(6, lambda i: Client(self.server.socket).post(f"/v1/sandboxes/{box.id}/exec",
                                                                          {"command": f"echo {i}"}))
        self.assertEqual([a.json["stdout"] for a in answers], [f"{i}\n" for i in range(6)])
        self.assertFalse(self.is_paused(box))
        wait_until(lambda: self.cpu_time(box) > still, "it goes on")

    def test_whatever_needs_it(self):
        box = self.acquire("needed")
        path = f"/v1/sandboxes/{box.id}"
        self.exec(box, "echo text > /workspace/f")
        for call in (lambda: self.pool.get(f"{path}/files?path=/workspace/f"),
                     lambda: self.pool.get(f"{path}/jobs"),
                     lambda: self.pool.get(f"{path}/ports"),
                     lambda: self.pool.post(f"{path}/resume", {}),
                     lambda: self.pool.post(f"{path}/resume", {}),
                     lambda: self.server.acquire("needed")):
            self.pause(box)
            answer = call()
            self.assertEqual(answer.status, 200, answer)
            self.assertFalse(self.is_frozen(box))
            self.assertFalse(self.is_paused(box))
        self.pause(box)
        answer = self.pool.call("PUT", f"{path}/files?path=/workspace/g", "x" * 299998)  # a body that comes in parts
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(self.exec(box, "wc -c < /workspace/g")["stdout"], "300000\n")

    def test_released_and_taken_up_again(self):
        box = self.acquire("back")
        box.start(LOOP)
        self.pause(box)
        self.pool.post(f"/v1/sandboxes/{box.id}/release", {})
        self.assertTrue(self.is_frozen(box))
        again = self.acquire("back", "parked")
        self.assertEqual(again.box_id, box.box_id)
        self.assertEqual(again.sh("echo on"), "on\n")
        self.pool.post(f"/v1/sandboxes/{box.id}/release", {})
        self.assertEqual(self.pause(box)["state"], "parked")
        self.assertEqual(self.acquire("back", "parked", envs={"NAME": "late"}).sh("echo $NAME"), "late\n")

    def test_parked_boxes_freeze_by_themselves(self):
        box = self.acquire("cold", profile="cold")
        box.start(LOOP)
        self.pool.post(f"/v1/sandboxes/{box.id}/release", {})
        wait_until(lambda: self.is_frozen(box), "it stands still")
        self.assertTrue(self.is_paused(box))
        self.assertEqual(self.acquire("cold", "parked", profile="cold").sh("echo on"), "on\n")

    @unittest.skipUnless(can_reclaim(), "this kernel cannot be asked for memory")
    def test_they_give_memory_back(self):
        """What is cached of their files goes, what their processes hold stays as it was; one that its owner pauses keeps both."""
        box = self.acquire("cold", profile="cold")
        job = box.start("x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo held; while [ ! -e go ]; do sleep 0.05; done; echo ${#x}")
        wait_until(lambda: box.output(job) == "held\n", "it holds memory")
        box.sh("head -c 48000000 /dev/urandom > /workspace/file; sync /workspace/file; sha256sum /workspace/file > /workspace/sum")
        group = group_of(self.instance, box.box_id, "memory")
        before = memory_of(group)
        self.assertGreater(before, 65e6)
        self.pause(box)
        self.assertGreater(memory_of(group), before - 20e6)
        self.pool.post(f"/v1/sandboxes/{box.id}/resume", {})
        self.pool.post(f"/v1/sandboxes/{box.id}/release", {})
        wait_until(lambda: memory_of(group) < before - 40e6, lambda: f"it has given memory back: {before} {memory_of(group)}")
        self.assertTrue(self.is_frozen(box))
        again = self.acquire("cold", "parked", profile="cold")
        self.assertIn("OK", again.sh("sha256sum -c /workspace/sum; touch go"))
        wait_until(lambda: again.output(job) == "held\n20000000\n", "its process has all that it had")
        wait_until(lambda: "event=box.reclaimed" in self.server.process.output(), "the log says how much it was")

    def test_its_end(self):
        box = self.acquire("ends")
        box.start(LOOP)
        self.pause(box)
        self.destroy(box)
        other = self.acquire("idle", profile="brief")
        self.pause(other)
        time.sleep(2.5)  # its idle time does not end it
        self.assertTrue(self.is_paused(other))
        self.pool.post(f"/v1/sandboxes/{other.id}/resume", {})
        wait_until(lambda: self.pool.get(f"/v1/sandboxes/{other.id}").status in (404, 410), "its idle time is over")

    def test_restarts(self):
        box = self.acquire("kept")
        box.start(LOOP)
        self.pause(box)
        for kill in (False, True):
            self.restart(kill)
            self.assertTrue(self.is_paused(box))
            self.assertTrue(self.is_frozen(box))
        self.assertEqual(self.exec(box, "echo on")["stdout"], "on\n")
        self.restart(kill=True)
        self.assertFalse(self.is_paused(box))
        self.assertFalse(self.is_frozen(box))

    def test_a_snapshot_of_it(self):
        box = self.acquire("source")
        self.pause(box)
        answer = self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", {})
        self.assertIn(answer.status, (200, 501), answer)
        self.assertFalse(self.is_frozen(box))
        if answer.status == 200:
            self.pool.delete(f"/v1/snapshots/{answer.json['snapshot_id']}")

    def test_who_may(self):
        self.assertCode(self.pool.post("/v1/sandboxes/nobody/pause", {}), 404, "not_found")
        self.assertCode(self.pool.post("/v1/sandboxes/nobody/resume", {}), 404, "not_found")
        box = self.acquire("mine")
        for what in ("pause", "resume"):
            self.assertCode(self.pool.post(f"/v1/sandboxes/{box.id}/{what}", {"generation": 99}), 409, "stale_generation")


@unittest.skipUnless(fault_names(), "this build has no crash points")
class Killed(PauseCase):
    def one_point(self, name):
        box = self.acquire("source")
        if "thaw" in name:
            self.pause(box)
        self.restart(kill=True, env={"SANDPOOL_CRASH_AT": f"{name}:1"})
        client = Client(self.server.socket)
        try:
            client.post(f"/v1/sandboxes/{box.id}/{'pause' if 'freeze' in name else 'resume'}", {})
        except OSError:
            pass
        client.close()
        wait_until(lambda: not self.server.process.is_running(), "crash")
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        wait_until(lambda: self.is_paused(box) == self.is_frozen(box), "box and row agree")
        self.assertTrue(self.is_paused(box))  # no caller has got another answer
        self.assertEqual(self.exec(box, "echo on")["stdout"], "on\n")

    def test_at_every_named_point(self):
        self.assertEqual({n for n in fault_names() if n.endswith(("_freeze", "_thaw"))}, set(POINTS))
        for name in POINTS:
            with self.subTest(point=name):
                self.one_point(name)
                self.destroy_all()


if __name__ == "__main__":
    main()
