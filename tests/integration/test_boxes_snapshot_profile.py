"""A profile whose boxes are made from a snapshot: its blank boxes are warm copies of it."""

from fixtures import main, wait_until
from test_boxes_snapshots import SnapshotCase


class FromSnapshot(SnapshotCase):
    config = {**SnapshotCase.config, "snapshots": {"keep_s": 0}}

    def reload(self, keep_s=0, **profiles):
        config = self.make_config()
        config["snapshots"] = {"keep_s": keep_s}
        for name, profile in profiles.items():
            config["profiles"][name] = {**config["profiles"]["default"], **profile}
        self.server.write_config(config)
        self.assertOk(self.pool.post("/v1/pool/reload", {}))

    def blanks(self, profile):
        return [row["box_id"] for row in self.rows() if row["state"] == "blank" and row["profile"] == profile]

    def tearDown(self):
        self.reload()
        super().tearDown()

    def test_warm_copies(self):
        box = self.acquire("source")
        box.sh("echo one > /workspace/f")
        first = self.take(box)
        box.sh("echo two > /workspace/f")
        second = self.take(box)
        self.reload(copies={"snapshot": first["snapshot_id"]})
        old = wait_until(lambda: self.blanks("copies"), "a blank box of it")
        copy = self.acquire("copy", "warm", profile="copies")
        self.assertEqual(copy.sh("cat /workspace/f"), "one\n")
        self.assertEqual(self.take(copy)["parent"], first["snapshot_id"])
        # In use by the profile: neither a caller nor the clock deletes it.
        self.assertCode(self.delete(first), 409, "spec_conflict")
        self.reload(keep_s=1, copies={"snapshot": first["snapshot_id"]})
        wait_until(lambda: second["snapshot_id"] not in self.listed(), "the clock deletes others")
        self.assertIn(first["snapshot_id"], self.listed())
        self.restart()
        self.reload(copies={"snapshot": first["snapshot_id"]})
        kept = wait_until(lambda: self.blanks("copies"), "a blank box of it")
        self.restart(kill=True)
        wait_until(lambda: self.blanks("copies") == kept, "the same snapshot: nothing has changed")
        # Another snapshot: blank boxes are replaced, the lease stays.
        third = self.take(box)
        self.reload(copies={"snapshot": third["snapshot_id"]})
        wait_until(lambda: self.blanks("copies") not in ([], old, kept), "another blank box")
        self.assertEqual(self.acquire("new", profile="copies").sh("cat /workspace/f"), "two\n")
        self.assertEqual(self.acquire("copy", "kept", profile="copies").sh("cat /workspace/f"), "one\n")
        self.assertEqual(self.delete(first).status, 200)

    def test_one_that_is_missing(self):
        self.reload(broken={"snapshot": "00000000000000aa"})

        def reason():
            return self.pool.get("/v1/profiles/broken").text
        self.assertIn("the snapshot 00000000000000aa of profile broken does not exist", wait_until(
            lambda: reason() if "does not exist" in reason() else None, "the reason is shown"))
        answer = self.server.acquire("none", profile="broken", wait_ms=3000)
        self.assertNotEqual(answer.status, 200)
        self.assertIn("does not exist", answer.text)
        self.acquire("other")  # of the default profile
        config = self.make_config()
        config["profiles"]["bad"] = {**config["profiles"]["default"], "snapshot": "ready"}
        self.server.write_config(config)
        answer = self.pool.post("/v1/pool/reload", {})
        self.assertIn("must be the id of a snapshot", answer.text)


if __name__ == "__main__":
    main()
