"""A full disk: the daemon says so, refuses new leases, serves what it can, and recovers alone."""

import os
import subprocess
import time
import unittest

from harness import TestCase, main, wait_until


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
        daemon = self.daemon({"warm": {"min": 4, "max": 8}}, sim=sim, start=False)
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


if __name__ == "__main__":
    main()
