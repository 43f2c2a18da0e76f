"""A full disk: the daemon says so, refuses new leases, serves what it can, and recovers alone."""

import os
import pathlib
import shutil
import subprocess
import threading
import time
import unittest

from fixtures import BIN, TestCase, at_most, main, wait_until


@unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small disk")
class DiskFull(TestCase):
    def small_disk(self, daemon):
        daemon.state.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs",
                        str(daemon.state)], check=True, timeout=20)
        self.addCleanup(subprocess.run, ["umount", "-l", str(daemon.state)], timeout=20)

    def fill(self, daemon):
        path = daemon.state / "filler"
        with open(path, "wb", buffering=0) as file:
            for size in (65536, 4096, 512):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass
        return path

    def until_down(self, client):
        deadline = time.monotonic() + 20
        i = 0
        while time.monotonic() < deadline:
            answer = client.acquire(f"fill-{i}", wait_ms=2000)
            i += 1
            if answer.status == 503:
                return answer
        self.fail("the store never went down")

    def test_full_disk_and_back(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 4, "max": 8}}, sim=sim, start=False,
                             store={"min_free": 0})
        self.small_disk(daemon)
        self.addCleanup(lambda: daemon.process and daemon.kill())  # before the disk goes
        daemon.start()
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t"))
        filler = self.fill(daemon)
        self.assertCode(self.until_down(client), 503, "store_unavailable")
        self.assertEqual(client.get("/v1/pool").json["store"]["state"], "down")
        self.assertEqual(client.get("/readyz").status, 503)
        self.assertEqual(client.get("/healthz").status, 200)
        kept = self.assertOk(client.acquire("t"))
        self.assertEqual((kept["source"], kept["box_id"]), ("kept", lease["box_id"]))
        self.assertCode(client.release(lease["sandbox_id"]), 503, "store_unavailable")
        filler.unlink()
        wait_until(lambda: client.get("/readyz").status == 200, "the store is back")
        self.assertOk(client.acquire("after"))
        self.assertOk(client.release(lease["sandbox_id"]))
        # What was acknowledged is there after a crash, and the machine holds nothing else.
        listed = {b["sandbox_id"] for b in
                  client.get("/v1/sandboxes?state=leased&limit=1000").json["sandboxes"]}
        daemon.kill()
        daemon.start()
        client = self.client(daemon)
        again = {b["sandbox_id"] for b in
                 client.get("/v1/sandboxes?state=leased&limit=1000").json["sandboxes"]}
        self.assertEqual(again, listed)

        def agrees():
            pool = {b["box_id"] for b in
                    client.get("/v1/sandboxes?limit=1000").json["sandboxes"]}
            return pool == set(sim.boxes())

        wait_until(agrees, "pool and machine agree")


class DiskHangs(TestCase):
    """A disk that does not fail but never answers: nobody waits longer than it wanted to."""

    def setUp(self):
        super().setUp()
        self.gate = pathlib.Path(self.directory) / "hang"
        self.server = self.daemon({"warm": {"min": 4, "max": 4}}, store={"timeout_s": 1},
                                  sim=self.sim(),
                                  env={"SANDPOOL_HANG_AT": f"store.before_commit={self.gate}"})
        self.addCleanup(lambda: self.gate.unlink(missing_ok=True))  # else it cannot stop

    def timed(self, call):
        begun = time.monotonic()
        answer = call()
        return answer, time.monotonic() - begun

    def test_everybody_is_answered(self):
        client = self.client(self.server)
        self.wait_blank(client, 4)
        held = [self.assertOk(client.acquire(f"h-{i}")) for i in range(3)]
        self.wait_blank(client, 4)
        self.gate.touch()
        answer, took = self.timed(lambda: client.acquire("new", wait_ms=100))
        self.assertCode(answer, 503, "store_unavailable")
        self.assertLess(took, at_most(5))
        answer, took = self.timed(lambda: client.release(held[0]["sandbox_id"]))
        self.assertCode(answer, 503, "store_unavailable")
        self.assertLess(took, at_most(5))
        wait_until(lambda: client.get("/readyz").status == 503, "the hang is noticed")
        self.assertIn("has not answered for 1 s", client.get("/readyz").json["reason"])
        self.assertIn("has not answered", client.get("/v1/pool").json["store"]["trouble"])
        kept = self.assertOk(client.acquire("h-1"))
        self.assertEqual((kept["source"], kept["box_id"]), ("kept", held[1]["box_id"]))
        self.assertOk(client.delete(f"/v1/sandboxes/{held[2]['sandbox_id']}"))
        self.gate.unlink()
        wait_until(lambda: client.get("/readyz").status == 200, "the disk is back")
        new = self.assertOk(client.acquire("new", wait_ms=10000))
        self.assertNotIn(new["box_id"], [h["box_id"] for h in held])
        leased = {b["sandbox_id"] for b in
                  client.get("/v1/sandboxes?state=leased&limit=100").json["sandboxes"]}
        self.assertLessEqual({new["sandbox_id"], held[1]["sandbox_id"]}, leased)
        self.assertNotIn(held[2]["sandbox_id"], leased)


    def test_a_mode_is_answered(self):
        client = self.client(self.server)
        self.wait_blank(client, 4)
        self.gate.touch()
        for call in ("pause", "drain"):  # the first is there before the hang is known
            answer, took = self.timed(lambda: client.post(f"/v1/pool/{call}", {}))
            self.assertCode(answer, 503, "store_unavailable")
            self.assertLess(took, at_most(5))
        self.gate.unlink()
        wait_until(lambda: client.post("/v1/pool/resume", {}).status == 200, "the disk is back")

    def test_the_daemon_stops(self):
        client = self.client(self.server)
        self.wait_blank(client, 4)
        held = self.assertOk(client.acquire("held"))
        self.gate.touch()
        self.assertCode(client.acquire("new", wait_ms=0), 503, "store_unavailable")
        client.close()
        self.assertEqual(self.server.process.stop(), 1)
        self.assertIn("daemon.stop_forced", self.server.process.output())
        self.gate.unlink()
        self.server.start()
        kept = self.assertOk(self.client(self.server).acquire("held"))
        self.assertEqual((kept["source"], kept["box_id"]), ("kept", held["box_id"]))


def mount_small(case, daemon, kind, size_mb=64):
    """A small disk of its own for the state directory."""
    daemon.state.mkdir()
    if kind == "tmpfs":
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=0700", "tmpfs",
                        str(daemon.state)], check=True, timeout=20)
    else:
        image = daemon.state.with_suffix(".img")
        with open(image, "wb") as file:
            file.truncate(size_mb << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True, timeout=20)
        subprocess.run(["mount", "-o", "loop", str(image), str(daemon.state)], check=True,
                       timeout=20)
    case.addCleanup(subprocess.run, ["umount", "-l", str(daemon.state)], timeout=20)


class Filler:
    """Takes every block of a file system that is free, and goes on until it is asked to stop."""

    def __init__(self, path):
        self.path = path
        self.is_stopped = threading.Event()
        self.is_full = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        with open(self.path, "wb", buffering=0) as file:
            while not self.is_stopped.is_set():
                for size in (65536, 4096):
                    try:
                        while not self.is_stopped.is_set():
                            file.write(b"x" * size)
                    except OSError:
                        pass
                self.is_full.set()
                self.is_stopped.wait(0.002)

    def stop(self):
        self.is_stopped.set()
        self.thread.join(20)


@unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small disk")
class DiskFilledByBoxes(TestCase):
    """Release and destroy work on a disk that somebody else has filled and keeps filling."""

    def mount(self, daemon, kind):
        mount_small(self, daemon, kind)

    def check(self, kind):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 4, "max": 8}}, sim=sim, start=False,
                             store={"min_free": 0})
        self.mount(daemon, kind)
        self.addCleanup(lambda: daemon.process and daemon.kill())  # before the disk goes
        daemon.start()
        client = self.client(daemon)
        leases = [self.assertOk(client.acquire(f"t-{i}"))["sandbox_id"] for i in range(12)]
        filler = Filler(daemon.state / "filler")
        self.addCleanup(filler.stop)
        self.assertTrue(filler.is_full.wait(20))
        for sandbox_id in leases[:3]:
            self.assertOk(client.release(sandbox_id))
        for sandbox_id in leases[3:6]:
            self.assertOk(client.delete(f"/v1/sandboxes/{sandbox_id}"))
        self.assertEqual(client.get("/v1/pool").json["store"]["state"], "up")
        daemon.kill()
        daemon.start()
        client = self.client(daemon)
        left = {b["sandbox_id"] for b in
                client.get("/v1/sandboxes?state=leased&limit=1000").json["sandboxes"]}
        self.assertEqual(left, set(leases[6:]))
        daemon.stop()
        daemon.start()
        client = self.client(daemon)
        for sandbox_id in leases[6:]:
            self.assertOk(client.release(sandbox_id, destroy=True))
        filler.stop()
        filler.path.unlink()
        self.assertOk(client.acquire("after", wait_ms=20000))

    def check_log_full(self, kind):
        """The log is used up several times while every free block goes to somebody else."""
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 4, "max": 8}}, sim=sim, start=False,
                             store={"min_free": 0})
        self.mount(daemon, kind)
        self.addCleanup(lambda: daemon.process and daemon.kill())
        daemon.start()
        client = self.client(daemon)
        leases = {self.assertOk(client.acquire(f"t-{i}"))["sandbox_id"] for i in range(4)}
        filler = Filler(daemon.state / "filler")
        self.addCleanup(filler.stop)
        self.assertTrue(filler.is_full.wait(20))
        for _ in range(2500):
            lease = self.assertOk(client.acquire("turn", metadata={"pad": "x" * 3000}))
            self.assertOk(client.release(lease["sandbox_id"]))
        daemon.kill()
        daemon.start()
        client = self.client(daemon)
        left = {b["sandbox_id"] for b in
                client.get("/v1/sandboxes?state=leased&limit=1000").json["sandboxes"]}
        self.assertEqual(left, leases)
        for sandbox_id in leases:
            self.assertOk(client.delete(f"/v1/sandboxes/{sandbox_id}"))

    def test_log_full_tmpfs(self):
        self.check_log_full("tmpfs")

    @unittest.skipUnless(shutil.which("mkfs.ext4"), "needs mkfs.ext4")
    def test_log_full_ext4(self):
        self.check_log_full("ext4")

    def test_no_new_box_below_the_floor(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 2, "max": 2}}, sim=sim, start=False,
                             store={"min_free": "16M"})
        self.mount(daemon, "tmpfs")
        self.addCleanup(lambda: daemon.process and daemon.kill())
        daemon.start()
        client = self.client(daemon)
        self.wait_blank(client, 2)
        filler = Filler(daemon.state / "filler")
        self.addCleanup(filler.stop)
        self.assertTrue(filler.is_full.wait(20))
        wait_until(lambda: "below the floor" in client.get("/readyz").text, "the daemon has noticed")
        warm = [self.assertOk(client.acquire(f"w-{i}"))["sandbox_id"] for i in range(2)]
        ready = client.get("/readyz")
        self.assertEqual(ready.status, 503, ready)  # now that there is no blank box any more
        why = ready.json["reason"]
        self.assertRegex(why, "^free space of the daemon's disk is 0 MB, below the floor of 16 MB$")
        answer = client.acquire("new", wait_ms=20000)
        self.assertCode(answer, 503, "backend_unavailable")
        self.assertIn(why, answer.json["error"]["message"])
        pool = client.get("/v1/pool").json
        self.assertEqual(pool["disk"]["trouble"], why)
        self.assertLess(pool["disk"]["free_bytes"], 16 << 20)
        self.assertEqual(pool["profiles"][0]["breaker"]["reason"], why)
        shown = subprocess.run([str(BIN / "sandpool"), "--socket", str(daemon.socket), "pool"],
                               capture_output=True, text=True, timeout=20)
        self.assertIn(why, shown.stdout)
        exam = {e["name"]: e for e in client.get("/v1/doctor").json["backends"]}["disk"]
        self.assertEqual(exam["findings"][0]["level"], "fail")
        self.assertIn(why, exam["findings"][0]["text"])
        for sandbox_id in warm:
            self.assertOk(client.delete(f"/v1/sandboxes/{sandbox_id}"))
        filler.stop()
        filler.path.unlink()
        wait_until(lambda: client.get("/readyz").status == 200, "there is space again")
        self.assertOk(client.acquire("new", wait_ms=20000))

    def test_tmpfs(self):
        self.check("tmpfs")

    @unittest.skipUnless(shutil.which("mkfs.ext4"), "needs mkfs.ext4")
    def test_ext4(self):
        self.check("ext4")


if __name__ == "__main__":
    main()
