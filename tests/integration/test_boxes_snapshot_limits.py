"""What snapshots keep of a lease, how many there may be, how long they are kept, and lists of very many."""

import json
import os
import subprocess

from fixtures import BIN, Client, main, wait_until
from hostile import as_nobody
from box import Box
from test_boxes_snapshots import SnapshotCase


class LimitCase(SnapshotCase):
    def sides(self):
        path = self.server.state / "snapshots"
        return sorted(os.listdir(path)) if path.exists() else []

    def reload(self, **snapshots):
        self.server.write_config({**self.make_config(), "snapshots": {**self.config["snapshots"], **snapshots}})
        self.assertOk(self.pool.post("/v1/pool/reload", {}))

    def tearDown(self):
        super().tearDown()
        wait_until(lambda: self.sides() == [], lambda: f"no file is left: {self.sides()}")


class Kept(LimitCase):
    config = {**LimitCase.config, "snapshots": {"max": 7}}

    def test_variables(self):
        box = self.acquire("source", envs={"SECRET": "of-the-lease", "OTHER": "x y"}, metadata={"k": 1})
        snapshot = self.take(box)
        self.assertEqual((snapshot["env_count"], snapshot["layers"]), (2, 1))
        self.assertNotIn("of-the-lease", json.dumps([snapshot, self.pool.get("/v1/snapshots").json]))
        self.assertEqual(self.sides(), [snapshot["snapshot_id"]])
        file = self.server.state / "snapshots" / snapshot["snapshot_id"]
        self.assertEqual((file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777), (0o600, 0o700))
        record = self.server.state / "oci" / "snapshots" / snapshot["snapshot_id"] / "snapshot.json"
        self.assertNotIn("of-the-lease", record.read_text())
        show = "echo $SECRET-$OTHER-$MINE"
        copy = self.restored(snapshot, "copy")
        self.assertEqual(copy.sh(show), "of-the-lease-x y-\n")
        self.assertEqual(self.restored(snapshot, "own", envs={"MINE": "m"}).sh(show), "--m\n")
        self.assertEqual(self.restored(snapshot, "none", envs={}).sh(show), "--\n")
        # What the thread has changed since is not undone by the same acquire.
        copy.json("POST", "/v1/agent/env", {"set": {"SECRET": "changed"}})
        self.assertEqual(self.restored(snapshot, "copy", "kept").sh(show), "changed-x y-\n")
        self.restart(kill=True)
        self.assertEqual(self.restored(snapshot, "late").sh(show), "of-the-lease-x y-\n")
        again = self.take(self.acquire("late", "kept"))
        self.assertEqual(again["env_count"], 2)
        self.delete(again)  # that of a fork counts, too, until it is deleted
        forked = self.assertOk(self.pool.post(f"/v1/sandboxes/{box.id}/fork", {"wait_ms": 120000}))["sandboxes"]
        self.assertEqual(Box(forked[0]).sh(show), "of-the-lease-x y-\n")
        forked = self.assertOk(self.pool.post(f"/v1/sandboxes/{box.id}/fork", {"envs": {}, "wait_ms": 120000}))["sandboxes"]
        self.assertEqual(Box(forked[0]).sh(show), "--\n")
        self.assertNotIn("of-the-lease", self.server.process.output())

    def test_too_many_variables(self):
        box = self.acquire("source")
        box.json("POST", "/v1/agent/env", {"set": {"LONG": "x" * 33000}})
        answer = self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", {})
        self.assertCode(answer, 422, "invalid_field")
        self.assertIn("32768", answer.text)
        self.assertEqual(self.on_disk(), [])

    def test_a_file_that_was_left(self):
        """By a daemon that died before there was a snapshot."""
        self.server.kill()
        left = self.server.state / "snapshots"
        left.mkdir(mode=0o700, exist_ok=True)
        (left / "00000000000000ff").write_text('{"envs":{"A":"b"}}')
        os.utime(left / "00000000000000ff", (1, 1))
        self.restart(kill=True)
        wait_until(lambda: self.sides() == [], "it is removed")

    def test_how_many(self):
        box = self.acquire("source")
        for _ in range(3):  # half of 7
            self.take(box)
        answer = self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", {})
        self.assertCode(answer, 429, "too_many_snapshots")
        self.assertIn("snapshots.max_per_caller", answer.text)
        self.assertRegex(answer.text, r"uid 0 has 3 of \d+ MB")
        self.assertCode(self.pool.post(f"/v1/sandboxes/{box.id}/fork", {}), 429, "too_many_snapshots")

        def other():
            client = Client(self.server.socket)
            lease = client.acquire("theirs", wait_ms=60000).json
            made = [client.post(f"/v1/sandboxes/{lease['sandbox_id']}/snapshots", {}) for _ in range(4)]
            client.delete(f"/v1/sandboxes/{lease['sandbox_id']}")
            return [[a.status for a in made], made[-1].text]
        statuses, text = as_nobody(other)
        self.assertEqual(statuses, [200, 200, 200, 429])
        self.assertIn("uid 65534 has 3", text)
        self.assertNotIn("uid 0", text)
        self.reload(max_per_caller=7)
        self.take(box)
        answer = self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", {})
        self.assertIn("(snapshots.max)", answer.text)
        self.assertRegex(answer.text, "uid 0 has 4 .*, uid 65534 has 3 ")
        self.delete({"snapshot_id": self.listed()[0]})
        self.reload(max_per_caller=7, max_bytes_per_caller=1)
        answer = self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", {})
        self.assertIn("snapshots.max_bytes_per_caller", answer.text)
        self.reload(max_per_caller=7, max_bytes=1)
        answer = self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", {})
        self.assertIn("(snapshots.max_bytes)", answer.text)
        self.restart()  # those that there are count again
        self.assertCode(self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", {}), 429, "too_many_snapshots")
        self.reload()

    def test_how_long(self):
        box = self.acquire("source", envs={"A": "b"})
        old, used = self.take(box), self.take(box)
        box.sh("touch /workspace/mark")
        self.server.stop()
        for snapshot in (old, used):  # an hour ago
            record = self.server.state / "oci" / "snapshots" / snapshot["snapshot_id"] / "snapshot.json"
            data = json.loads(record.read_text())
            data["created_ms"] -= 3600_000
            record.write_text(json.dumps(data))
            side = self.server.state / "snapshots" / snapshot["snapshot_id"]
            os.utime(side, (side.stat().st_mtime - 3600,) * 2)
        self.restart(kill=True)
        copy = self.restored(used, "copy")
        wait_until(lambda: (self.server.state / "snapshots" / used["snapshot_id"]).stat().st_mtime >
                   (self.server.state / "snapshots" / old["snapshot_id"]).stat().st_mtime, "the use is written down")
        self.reload(keep_s=1800)
        wait_until(lambda: self.listed() == [used["snapshot_id"]], "the unused one is deleted")
        self.reload(keep_s=1)
        wait_until(lambda: self.listed() == [], "so is the other")
        self.assertEqual(copy.sh("echo $A"), "b\n")
        self.reload()


class VeryMany(LimitCase):
    config = {**LimitCase.config, "snapshots": {"max": 4096}}

    def test_one_document(self):
        first = self.take(self.acquire("source"))
        top = self.server.state / "oci" / "snapshots"
        record = json.loads((top / first["snapshot_id"] / "snapshot.json").read_text())
        self.server.stop()
        for i in range(1, 1105):
            made = top / f"{i:016x}"
            made.mkdir()
            (made / "disk").touch()
            (made / "snapshot.json").write_text(json.dumps({**record, "id": f"{i:016x}", "created_ms": i}))
        try:
            self.restart(kill=True)
            done = subprocess.run([BIN / "sandpool", "--socket", self.server.socket, "snapshot", "ls", "--json"],
                                  stdout=subprocess.PIPE, check=True)
            self.assertEqual(len(json.loads(done.stdout)["snapshots"]), 1105)
            done = subprocess.run([BIN / "sandpool", "--socket", self.server.socket, "snapshot", "ls"],
                                  stdout=subprocess.PIPE, check=True, text=True)
            self.assertEqual(len(done.stdout.splitlines()), 1106)
            self.assertRegex(done.stdout.splitlines()[0], "MB +LAYERS +MADE +USED +PARENT")
        finally:
            self.server.stop()
            for i in range(1, 1105):
                for name in ("disk", "snapshot.json"):
                    (top / f"{i:016x}" / name).unlink()
                (top / f"{i:016x}").rmdir()
            self.restart(kill=True)


if __name__ == "__main__":
    main()
