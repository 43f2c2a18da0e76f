"""The daemon with boxes of a provisioner, killed at every named point: nothing is lost or left."""

import http.client
import subprocess
import tempfile

from fixtures import BIN, fewer, main, wait_until
from test_remote import RemoteCase


class Crash(RemoteCase):
    """kill -9 at every named point: afterwards boxes and rows agree, and promises are kept."""

    def test_blank_boxes(self):
        self.at_every_point()

    def test_personal_boxes(self):
        self.at_every_point(personal=True)

    def at_every_point(self, **profile):
        names = subprocess.run([BIN / "sandpoold", "--fault-points"], capture_output=True, text=True, check=False,
                               timeout=60).stdout.split()
        names = [n for n in names if n.startswith(("remote.", "engine.", "recover."))]
        if not names:
            self.skipTest("this build has no crash points")
        died = 0
        hits = fewer((1, 3))
        for name in names:
            for hit in hits:
                with self.subTest(point=name, hit=hit):
                    daemon = self.make(tempfile.mkdtemp(dir=self.directory), **profile)
                    try:
                        died += self.one_point(daemon, name, hit)
                    finally:
                        daemon.kill()
                        self.provisioner.control(reset=True)
        # Most are hit once, many of them thrice.
        self.assertGreater(died, len(names) * len(hits) // 2)

    def one_point(self, daemon, name, hit):
        promised = {}
        daemon.start(env={"SANDPOOL_CRASH_AT": f"{name}:{hit}"}, wait=False)
        wait_until(lambda: not daemon.process.is_running() or daemon.answers(), "up or dead")
        if daemon.process.is_running() and not self.work(daemon, promised):
            wait_until(lambda: not daemon.process.is_running(), "it hung up because it died")
        has_died = not daemon.process.is_running()
        daemon.kill()  # hit fewer times: any moment will do
        daemon.start()
        client = daemon.client()
        self.addCleanup(client.close)
        wait_until(lambda: self.agrees(client), f"boxes and rows agree: {self.state(client)}")
        for lease in promised.values():
            row = client.get(f"/v1/sandboxes/{lease['sandbox_id']}")
            self.assertEqual((row.status, row.json.get("box_id"), row.json.get("state")),
                             (200, lease["box_id"], "leased"), row)
        return has_died

    def work(self, daemon, promised):
        """Threads keep boxes, others come and go, until the daemon dies: then False."""
        client = daemon.client()
        try:
            for i in range(4):
                answer = client.acquire(f"keeper-{i}")
                if answer.status == 200:
                    promised[f"keeper-{i}"] = answer.json
                guest = client.acquire(f"guest-{i}")
                if guest.status == 200:
                    client.delete(f"/v1/sandboxes/{guest.json['sandbox_id']}")
            return True
        except (OSError, http.client.HTTPException):
            return False
        finally:
            client.close()


if __name__ == "__main__":
    main()
