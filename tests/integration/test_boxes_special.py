"""Real boxes made for one thread: each bears its owner's name from birth, takes what an acquire brings, and is found
again by its thread and nobody else after a crash at any moment of its making."""

import json
import threading
import time

from harness import main, wait_until
from oci_case import BoxCase


class Personal(BoxCase):
    @classmethod
    def make_config(cls):
        cls.share = cls.home / "share"
        cls.share.mkdir()
        (cls.share / "hello").write_text("from the host\n")
        cls.home.chmod(0o755)
        cls.profiles = {"default": {"personal": True, "warm": {"min": 2, "max": 2}}}
        cls.config = {"mounts": {"allow": [str(cls.share)]}}
        return super().make_config()

    def labels(self):
        """What the boxes on disk say of themselves."""
        found = []
        for path in (self.server.state / "oci" / "boxes").glob("*/box.json"):
            try:
                found.append(json.loads(path.read_text()))
            except (OSError, ValueError):  # being made or removed
                pass
        return found

    def test_its_name_and_what_comes_later(self):
        box = self.acquire("one", "cold", user_id="ann", envs={"WORD": "given"}, mounts=[
            {"host_path": str(self.share), "container_path": "/data", "read_only": True}])
        self.assertEqual(box.sh("echo $WORD; cat /data/hello"), "given\nfrom the host\n")
        mine = [l for l in self.labels() if box.id in json.dumps(l)]
        self.assertEqual(len(mine), 1)
        self.assertIn('"ann"', json.dumps(mine[0]))
        self.assertEqual(self.counts()["blank"], 0)
        self.assertEqual(self.acquire("one", "kept", user_id="ann").box_id, box.box_id)

    def test_killed_while_it_is_made(self):
        for i in range(6):
            with self.subTest(i=i):
                thread = threading.Thread(target=self.try_acquire, args=(f"k{i}",))
                thread.start()
                time.sleep(i * 0.03)
                self.server.kill()
                thread.join()
                self.server.start()
                type(self).pool = self.server.client()
                box = self.acquire(f"k{i}", wait_ms=30000)
                self.assertEqual(box.sh("echo alive"), "alive\n")
                self.assertEqual(self.acquire(f"k{i}", "kept").box_id, box.box_id)
                self.assertEqual(self.counts()["blank"], 0)
                self.pool.close()

    def try_acquire(self, thread):
        try:
            self.server.acquire(thread, wait_ms=30000)
        except Exception:  # the daemon was killed
            pass

    def test_nobody_waits_any_more(self):
        before = len(self.rows())
        client = self.server.client(timeout=0.05)
        try:
            client.acquire("gone", wait_ms=30000)
        except OSError:
            pass
        client.close()
        wait_until(lambda: self.counts()["starting"] + self.counts()["deleting"] == 0, "settled")
        left = [r for r in self.rows() if r["thread_id"] == "gone" and r["state"] != "leased"]
        self.assertEqual((left, self.counts()["blank"]), ([], 0))
        self.assertLessEqual(len(self.rows()), before + 1)


if __name__ == "__main__":
    main()
