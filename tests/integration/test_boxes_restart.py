"""What a restart of the daemon means to real boxes: nothing."""

import os
import re
import signal

from fixtures import is_alive, main, wait_until
from box import Box
from oci_case import BoxCase


SAME = ("box_id", "sandbox_url", "token", "generation")


class Restart(BoxCase):
    """A new daemon finds every box as it was, with what runs inside."""

    def fleet(self):
        self.wait_blank(self.pool, 1)
        leased, parked = self.acquire("lives"), self.acquire("parked")
        counter = leased.start("i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done")
        brief = leased.start("sleep 1; echo over; exit 3")
        leased.sh("echo kept > /workspace/file")
        self.assertOk(self.pool.release(parked.id))
        self.wait_blank(self.pool, 1)
        wait_until(lambda: self.counts()["starting"] == 0, "still")
        blank = {r["box_id"] for r in self.rows() if r["state"] == "blank"}
        return leased, parked, counter, brief, blank

    def check(self, leased, parked, counter, brief, blank):
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        back = self.acquire("lives", "kept")
        for key in SAME:
            self.assertEqual(back.lease[key], leased.lease[key], key)
        self.check_inside(back, counter, brief)
        self.assertEqual(self.acquire("parked", "parked").box_id, parked.box_id)
        self.assertTrue(blank <= {r["box_id"] for r in self.rows()}, "blank boxes are kept")
        fresh = self.acquire("fresh", "warm")
        self.assertIn(fresh.box_id, blank)

    def check_inside(self, back, counter, brief):
        before = back.process(counter)
        self.assertEqual(before["outcome"], "running")
        wait_until(lambda: back.process(counter)["stdout"]["size"] > before["stdout"]["size"],
                   "it goes on writing")
        lines = back.output(counter).split()
        self.assertEqual(lines, [str(i + 1) for i in range(len(lines))], "nothing is missing")
        ended = back.wait(brief)
        self.assertEqual((ended["outcome"], ended["exit_code"], back.output(brief)),
                         ("exited", 3, "over\n"))
        self.assertEqual(back.sh("cat /workspace/file"), "kept\n")

    def test_stop_and_start(self):
        fleet = self.fleet()
        self.server.restart()
        self.check(*fleet)

    def test_kill_9_and_start(self):
        fleet = self.fleet()
        self.server.kill()
        self.server.start()
        self.check(*fleet)

    def test_while_nobody_serves_the_box_answers(self):
        box = self.acquire("alone")
        self.server.kill()
        self.assertEqual(box.sh("echo on my own"), "on my own\n")
        self.server.start()

    def test_a_lost_database_is_rebuilt_from_the_boxes(self):
        leased, parked, counter, brief, _ = self.fleet()
        other = self.acquire("theirs", user_id="bob")
        owned = {leased.box_id, parked.box_id, other.box_id}
        self.wait_blank(self.pool, 1)
        boxes = set(self.left.boxes())
        blank = {r["box_id"] for r in self.rows() if r["state"] == "blank"}
        self.server.stop()
        for file in self.server.state.glob("sandpool.db*"):
            file.unlink()
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        wait_until(lambda: self.counts()["starting"] == 0, "looked at")
        self.assertLessEqual(owned, {r["box_id"] for r in self.rows()})
        for thread, box, more in (("lives", leased, {}), ("parked", parked, {}),
                                  ("theirs", other, {"user_id": "bob"})):
            back = self.acquire(thread, "parked", **more)
            self.assertEqual([back.lease[k] for k in SAME], [box.lease[k] for k in SAME])
        self.check_inside(Box(self.acquire("lives").lease), counter, brief)
        self.assertNotIn(self.acquire("theirs").box_id, boxes)  # of another user: not his
        # Nothing proves that nobody has seen the token of a box without row and owner.
        wait_until(lambda: not blank & set(self.left.boxes()), "blank boxes are destroyed")
        self.assertLessEqual(owned, set(self.left.boxes()))

    def test_boxes_of_a_name_that_was_lost_are_reported(self):
        """Database and name are gone: the boxes are not ours by their labels, but in our directory."""
        box = self.acquire("nameless")
        record = self.server.state / "oci" / "boxes" / box.box_id / "box.json"
        wait_until(lambda: '"nameless"' in record.read_text(), "its labels are written")
        self.server.stop()
        labels = record.read_text()
        self.addCleanup(lambda: record.exists() and record.write_text(labels))  # the next test has the same directory
        record.write_text(labels.replace(f'"{self.instance}"', '"lost-name"'))
        self.lose_database()
        wait_until(lambda: re.search("oci.boxes_of_another_instance .*lost-name", self.server.process.output()),
                   "the daemon reports it")
        findings = {f["subject"]: f for e in self.pool.get("/v1/doctor").json["backends"]
                    for f in e["findings"]}
        self.assertIn("1 of instance 'lost-name'", findings["boxes of another instance"]["text"])
        self.assertEqual(findings["boxes of another instance"]["level"], "warn")
        self.assertEqual(box.sh("echo lives"), "lives\n")
        self.server.stop()
        record.write_text(labels)
        self.lose_database()
        self.assertEqual(self.acquire("nameless", "parked").box_id, box.box_id)

    def lose_database(self):
        """Of a daemon that does not run; it is started again."""
        for file in self.server.state.glob("sandpool.db*"):
            file.unlink()
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)

    def test_a_box_that_died_meanwhile_is_lost_and_told(self):
        box = self.acquire("unlucky")
        self.server.kill()
        os.kill(self.init_of(box), signal.SIGKILL)
        wait_until(lambda: not is_alive(self.init_of(box)), "dead")
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        # A start asks for what the listing does not show, but does not wait long for the answers.
        target = f"/v1/sandboxes/{box.id}"
        wait_until(lambda: self.pool.get(target).code == "sandbox_lost",
                   lambda: f"it is lost; {self.pool.get(target)} {self.log_tail()}")
        self.assertEqual(self.acquire("unlucky").lease["generation"], 2, self.log_tail())


if __name__ == "__main__":
    main()
