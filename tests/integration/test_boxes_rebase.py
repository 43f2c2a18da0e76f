"""Parked boxes whose profile got another base meanwhile (on_drift): kept as they are, destroyed, or made anew on the new base with
the files that they had written; also when everything is killed in the middle."""

import unittest

from fixtures import Client, in_threads, main, wait_until
from host import has_loop_devices
from test_boxes_hibernate import ON_THE_WAY, ON_THE_WAY_BACK, HibernateCase
from test_boxes_kinds import BUSYBOX, is_static, make_tree
from test_crash import BIN, fault_names

COLD = {"warm": {"min": 0, "max": 0}, "limits": {"disk": "64M"}}


@unittest.skipUnless(has_loop_devices(), "a snapshot is a copy of a box's disk, which needs loop devices")
@unittest.skipUnless(BUSYBOX and is_static(BUSYBOX) and is_static(BIN / "sandpool-agent"),
                     "a base of its own needs a static busybox and a static agent")
class RebaseCase(HibernateCase):
    rootfs = "old"

    @classmethod
    def make_config(cls):
        for name in ("old", "new"):
            if not (cls.home / name).exists():
                make_tree(cls.home / name)
                for file in ("motd", "both"):
                    (cls.home / name / "etc" / file).write_text(f"{name}\n")
        base = {**COLD, "rootfs": str(cls.home / cls.rootfs)}
        cls.profiles = {"default": {**base, "on_drift": "rebase"}, "frozen": {**base, "on_drift": "rebase", "park": "freeze"},
                        "keep": base, "destroy": {**base, "on_drift": "destroy"}}
        return super().make_config()

    def setUp(self):
        super().setUp()
        self.destroy_all()  # the first box of the class
        self.change("old")

    def change(self, rootfs):
        type(self).rootfs = rootfs
        self.server.write_config(self.make_config())
        self.assertOk(self.pool.post("/v1/pool/reload", {}))

    def park(self, thread, **fields):
        box = self.acquire(thread, **fields)
        self.assertEqual(box.sh("cat /etc/motd"), "old\n")
        box.sh(f"echo {thread} > /workspace/f; sleep 1000 >/dev/null 2>&1 &")
        box.sh("echo box > /etc/both", user="root")
        self.release(box)
        return box

    def check(self, box, base="new"):
        self.assertEqual(box.sh("cat /etc/motd /etc/both /workspace/f"), f"{base}\nbox\n{box.lease['thread_id']}\n")


class Rebase(RebaseCase):
    def test_on_the_new_base(self):
        for profile in ("default", "frozen"):
            with self.subTest(profile=profile):
                self.change("old")
                old = self.park(profile, profile=profile, metadata={"of": "t"}, envs={"WORD": "hush"})
                self.assertEqual(self.acquire(profile, "parked").lease["box_id"], old.box_id)  # nothing has changed
                self.release(old)
                self.change("new")
                self.assertEqual(self.seen(old.id)["state"], "parked")  # until somebody wants it
                box = self.acquire(profile, "restored")
                self.assertEqual((box.id, box.lease["generation"], box.lease["metadata"]),
                                 (old.id, old.lease["generation"] + 1, {"of": "t"}))
                self.check(box)
                self.assertEqual(box.sh("echo $WORD"), "hush\n")
                self.assertNotIn("sleep", box.sh("cat /proc/[0-9]*/comm"))
                self.release(box)
                self.assertEqual(self.acquire(profile, "parked").box_id, box.box_id)

    def test_keep_and_destroy(self):
        kept, gone = self.park("k", profile="keep"), self.park("d", profile="destroy")
        self.change("new")
        self.check(self.acquire("k", "parked"), base="old")
        fresh = self.acquire("d", "cold", profile="destroy")
        self.assertEqual((fresh.id, fresh.sh("cat /etc/motd /etc/both; ls /workspace")), (gone.id, "new\nnew\n"))
        self.assertGreater(fresh.lease["generation"], gone.lease["generation"])
        self.assertEqual(kept.lease["generation"], self.row(kept)["generation"])

    def test_many_callers_at_once_get_one_box(self):
        self.park("t")
        self.change("new")

        def ask(_):
            client = Client(self.server.socket)
            try:
                return client.post("/v1/acquire", {"thread_id": "t", "wait_ms": 20000})
            finally:
                client.close()
        found = in_threads(5, ask)
        self.assertEqual({(a.status, a.json.get("box_id")) for a in found}, {(200, found[0].json.get("box_id"))})
        self.check(self.acquire("t", "kept"))

    def test_one_that_fails_is_given_as_it_is(self):
        box = self.park("t")
        self.change("new")
        snapshots = self.server.state / "oci" / "snapshots"
        snapshots.rmdir()
        snapshots.write_text("")  # no directory can be made in it
        try:
            self.check(self.acquire("t", "parked"), base="old")
        finally:
            snapshots.unlink()
            snapshots.mkdir()
        self.assertIn("snapshot.failed", self.server.process.output())
        self.release(box)
        self.check(self.acquire("t", "restored"))

    def test_every_point(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        for i, name in enumerate((*ON_THE_WAY, *ON_THE_WAY_BACK)):
            with self.subTest(point=name):
                self.change("old")
                self.park(f"t-{i}", envs={"WORD": "hush"})
                self.change("new")
                self.server.kill()
                self.serve(env={"SANDPOOL_CRASH_AT": f"{name}:1"})
                client = Client(self.server.socket)
                try:
                    client.post("/v1/acquire", {"thread_id": f"t-{i}", "wait_ms": 20000})
                except OSError:
                    pass
                client.close()
                wait_until(lambda: not self.server.process.is_running(), f"crash at {name}")
                self.serve()
                box = self.acquire(f"t-{i}", wait_ms=20000)
                self.assertIn(box.lease["source"], ("restored", "parked", "kept"))
                self.check(box)
                self.assertEqual(box.sh("echo $WORD"), "hush\n")
                wait_until(lambda: self.pool.get("/v1/snapshots?all=1").json["snapshots"] == [], "no snapshot is shown")
                self.destroy(box)


if __name__ == "__main__":
    main()
