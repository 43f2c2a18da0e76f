"""The idle clock on real boxes: what works at a box's own address keeps it, and callers are shown when it ends."""

import subprocess
import time

from fixtures import BIN, WAIT_S, main, wait_until
from oci_case import BoxCase

IDLE_S = 1


class Idle(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 0}, "ttl_s": 3600, "park_timeout_s": 600}}

    def cli(self, *args):
        return subprocess.run([BIN / "sandpool", "--socket", self.server.socket, *args], check=True, timeout=WAIT_S,
                              stdout=subprocess.PIPE, text=True)

    def sandbox(self, box):
        return self.pool.get(f"/v1/sandboxes/{box.id}")

    def outlive(self, box, client=None):
        """Until its idle time has been over, and begun again, three times."""
        ends = {(client or self.pool).get(f"/v1/sandboxes/{box.id}").json["ends_at"]}

        def look():
            answer = (client or self.pool).get(f"/v1/sandboxes/{box.id}")
            self.assertEqual(answer.status, 200, answer)
            ends.add(answer.json["ends_at"])
            return len(ends) > 3

        wait_until(look, "its time begins anew")

    def test_a_job_keeps_its_box(self):
        box = self.acquire("job", idle_timeout_s=IDLE_S)
        job = box.start("read x", stdin=True)
        self.outlive(box)
        box.call("POST", f"/v1/agent/jobs/{job}/stdin?eof=1")
        wait_until(lambda: self.sandbox(box).status == 410, "it ends when the job has")
        self.assertIn("idle", self.sandbox(box).json["error"]["message"])

    def test_what_was_left_in_the_background_keeps_it(self):
        box = self.acquire("left", idle_timeout_s=IDLE_S)
        box.sh("(sleep 600 & echo $! > pid) >/dev/null 2>&1 </dev/null")
        self.outlive(box)
        box.sh("kill $(cat pid)")
        wait_until(lambda: self.sandbox(box).status == 410, "it ends when that has")

    def test_requests_to_its_own_address_keep_it(self):
        box = self.acquire("used", idle_timeout_s=IDLE_S)
        until = time.monotonic() + 3 * IDLE_S
        while time.monotonic() < until:
            box.json("GET", "/v1/agent/jobs")  # fails when the box is gone
            time.sleep(0.05)
        wait_until(lambda: self.sandbox(box).status == 410, "then it is idle")

    def test_a_ttl_ends_a_job(self):
        box = self.acquire("ttl", idle_timeout_s=IDLE_S, ttl_s=3)
        box.start("sleep 600")
        wait_until(lambda: self.sandbox(box).status == 410, "its lease is over")
        self.assertIn("ttl", self.sandbox(box).json["error"]["message"])

    def test_callers_are_told(self):
        lease = self.pool.acquire("told").json
        self.assertEqual(lease["ends_by"], "idle")
        self.assertLess(lease["ends_at"], lease["expires_at"])
        self.assertLessEqual(lease["ends_in_s"], 600)
        shown = self.cli("ls", "--thread", "told")
        self.assertRegex(shown.stdout, r"ENDS .*\n.*\d+[sm] \(idle\)")
        self.assertRegex(self.cli("acquire", "told").stdout, r"ends in +\d+[sm] \(idle\)")
        lease = self.pool.acquire("told", ttl_s=60).json
        self.assertEqual((lease["ends_by"], lease["ends_at"]), ("ttl", lease["expires_at"]))
        self.assertEqual(self.pool.release(lease["sandbox_id"]).status, 200)
        parked = self.pool.get(f"/v1/sandboxes/{lease['sandbox_id']}").json
        self.assertEqual(parked["ends_by"], "parked")
        self.assertGreater(parked["ends_at"], parked["expires_at"], "its deadline no longer counts")
        self.assertRegex(self.cli("ls", "--state", "parked").stdout, r"\d+[sm] \(parked\)")

    def test_zz_a_restart(self):
        """The row says that it is idle for long; the agent knows better. Last: its daemon is killed."""
        box = self.acquire("again", idle_timeout_s=IDLE_S)
        box.start("sleep 600")
        self.server.kill()
        time.sleep(2 * IDLE_S)
        self.server.start()
        client = self.server.client()
        self.outlive(box, client)
        self.assertEqual(client.delete(f"/v1/sandboxes/{box.id}").status, 200)


if __name__ == "__main__":
    main()
