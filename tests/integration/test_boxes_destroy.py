"""Boxes whose removal hangs: their callers get an answer in time, everybody is shown that they are not gone yet, other
boxes are made and removed meanwhile, and in the end all of them are gone."""

from fixtures import in_threads, main, wait_until
from oci_case import BoxCase

TIMEOUT_S = 1
BUSY = 10  # more than the processes that the daemon starts at once

# In the place of sandpool-helper. `exec`, so that the process that hangs is the one the daemon knows of.
HELPER = """#!/bin/sh
if [ "$1" = remove ]; then
    echo "$$" >> "{log}"
    [ -e "{hang}" ] && exec sleep 100000
fi
exec "{real}" "$@"
"""


class SlowDestroy(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 0}, "destroy_timeout_s": TIMEOUT_S}}
    config = {"pool": {"max_boxes": BUSY + 4}}

    @classmethod
    def make_config(cls):
        config = super().make_config()
        cls.hang = cls.home / "hang"
        cls.log = cls.home / "removals"
        cls.log.write_text("")
        helper = cls.home / "helper"
        helper.write_text(HELPER.format(log=cls.log, hang=cls.hang, real=config["helper"]["path"]))
        helper.chmod(0o755)
        config["helper"]["path"] = str(helper)
        return config

    def setUp(self):
        super().setUp()
        self.addCleanup(self.let_go)

    def let_go(self):
        self.hang.unlink(missing_ok=True)

    def get(self, box):
        return self.pool.get(f"/v1/sandboxes/{box.id}")

    def delete(self, box, client=None):
        return (client or self.pool).delete(f"/v1/sandboxes/{box.id}")

    def removals(self):
        return len(self.log.read_text().split())

    def wait_gone(self, box):
        wait_until(lambda: self.get(box).status == 404, "the box is gone")

    def test_the_id_is_deleting_until_the_box_is_gone(self):
        box = self.acquire("slow")
        self.hang.touch()
        answer = self.delete(box)
        self.assertEqual((answer.status, answer.json["state"]), (202, "deleting"), answer)
        seen = self.get(box)
        self.assertEqual((seen.status, seen.json["state"]), (200, "deleting"), seen)
        self.assertFalse(seen.json.get("token"), "what is being removed shows no token")
        self.assertEqual(self.counts()["deleting"], 1)
        for verb in ("renew", "release", "pause", "resume", "exec", "jobs", "snapshots", "fork"):
            body = {"command": "true"} if verb in ("exec", "jobs") else {"count": 1} if verb == "fork" else {}
            answer = self.pool.post(f"/v1/sandboxes/{box.id}/{verb}", body)
            self.assertCode(answer, 410, "sandbox_lost")
        again = self.delete(box)  # joins, and is answered in time, too
        self.assertEqual((again.status, again.json["state"]), (202, "deleting"), again)
        self.let_go()
        self.wait_gone(box)
        self.assertEqual(self.delete(box).status, 404)

    def test_a_removal_that_hangs_is_ended_and_tried_again(self):
        box = self.acquire("again")
        self.hang.touch()
        before = self.removals()
        self.assertEqual(self.delete(box).status, 202)
        wait_until(lambda: self.removals() >= before + 3, "it is tried again")
        self.let_go()
        self.wait_gone(box)

    def test_others_are_made_and_removed_meanwhile(self):
        slow = [self.acquire(f"slow-{i}") for i in range(BUSY)]
        self.hang.touch()

        def delete(i):
            client = self.server.client()
            try:
                return self.delete(slow[i], client).status
            finally:
                client.close()

        self.assertEqual(in_threads(BUSY, delete), [202] * BUSY)
        self.assertEqual(self.counts()["deleting"], BUSY)  # they count until they are gone
        other = self.acquire("other")
        self.assertEqual(other.sh("echo made"), "made\n")
        self.let_go()
        for box in slow:
            self.wait_gone(box)
        self.assertIn(self.delete(other).status, (200, 202))  # a busy machine needs longer
        self.wait_gone(other)

    def test_a_thread_gets_a_new_box_while_its_old_one_is_removed(self):
        old = self.acquire("same")
        self.hang.touch()
        self.assertEqual(self.delete(old).status, 202)
        new = self.acquire("same")
        self.assertEqual(new.id, old.id)
        self.assertNotEqual(new.box_id, old.box_id)
        seen = self.get(new)
        self.assertEqual((seen.json["state"], seen.json["box_id"]), ("leased", new.box_id))
        self.let_go()
        wait_until(lambda: self.counts()["deleting"] == 0, "the old one is gone")
        self.assertEqual(new.sh("echo here"), "here\n")


if __name__ == "__main__":
    main()
