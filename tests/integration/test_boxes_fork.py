"""Boxes with the files of one that runs: what they have, what each result says, who may have them, and what is left of
them when the caller leaves or the daemon is killed."""

import json
import socket

from fixtures import Client, main, wait_until
from hostile import as_nobody
from box import Box
from test_boxes_snapshots import SnapshotCase
from test_crash import fault_names


class ForkCase(SnapshotCase):
    def fork(self, box, **fields):
        return self.pool.post(f"/v1/sandboxes/{box.id}/fork", {"wait_ms": 120000, **fields})

    def forked(self, box, **fields):
        return [Box(lease) for lease in self.assertOk(self.fork(box, **fields))["sandboxes"]]

    def source(self, thread="source", **fields):
        box = self.acquire(thread, **fields)
        box.sh("echo here > /workspace/f")
        return box

    def sent(self, box, **fields):
        """The connection of a fork that nobody has read the answer of."""
        body = json.dumps({"wait_ms": 120000, **fields})
        connection = socket.socket(socket.AF_UNIX)
        self.addCleanup(connection.close)
        connection.connect(str(self.server.socket))
        connection.sendall(f"POST /v1/sandboxes/{box.id}/fork HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                           f"{body}".encode())
        return connection

    def others(self, box, *states):
        """Bound boxes beside this one."""
        return [row for row in self.rows() if row["sandbox_id"] not in (None, box.id) and
                row["thread_id"] != "first" and row["state"] in (states or (row["state"],))]


class Forks(ForkCase):
    def test_what_they_have(self):
        box = self.source(metadata={"k": 1})
        boxes = self.forked(box, count=3)
        self.assertEqual([b.lease["source"] for b in boxes], ["restored"] * 3)
        self.assertEqual([b.lease["metadata"] for b in boxes], [{"k": 1}] * 3)
        self.assertEqual(len({b.id for b in boxes} | {box.id}), 4)
        self.assertEqual(len({b.lease["token"] for b in boxes} | {box.lease["token"]}), 4)
        self.assertEqual((self.listed(), len(self.on_disk())), ([], 1))
        for i, one in enumerate(boxes):
            self.assertEqual(one.sh(f"cat /workspace/f; echo {i} > /workspace/f"), "here\n")
        self.assertEqual(boxes[0].sh("cat /workspace/f"), "0\n")
        self.assertEqual(box.sh("cat /workspace/f"), "here\n")
        again = self.forked(boxes[1])[0]
        self.assertEqual(again.sh("cat /workspace/f"), "1\n")
        self.restart()
        for one in (boxes[1], again):
            self.assertEqual(one.sh("cat /workspace/f"), "1\n")

    def test_names_and_options(self):
        box = self.source()
        boxes = self.forked(box, threads=["a", "b"], envs={"GREETING": "hello"}, ttl_s=100, metadata={"m": 2},
                            user_id="somebody")
        self.assertEqual([(b.lease["thread_id"], b.lease["user_id"], b.lease["metadata"]) for b in boxes],
                         [("a", "somebody", {"m": 2}), ("b", "somebody", {"m": 2})])
        self.assertEqual([b.sh("echo $GREETING; cat /workspace/f") for b in boxes], ["hello\nhere\n"] * 2)
        self.assertTrue(all(0 < b.lease["ends_in_s"] <= 100 for b in boxes))
        self.assertEqual(self.acquire("b", "kept", user_id="somebody").box_id, boxes[1].box_id)

    def test_each_has_its_own_result(self):
        box = self.source()
        taken = self.acquire("taken")
        results = self.assertOk(self.fork(box, threads=["free", "taken", "source"]))["sandboxes"]
        self.assertEqual([r["error"]["code"] if "error" in r else r["thread_id"] for r in results],
                         ["free", "spec_conflict", "spec_conflict"])
        self.assertEqual(Box(results[0]).sh("cat /workspace/f"), "here\n")
        self.assertEqual(self.acquire("taken", "kept").box_id, taken.box_id)
        self.assertCode(self.fork(box, threads=["taken"]), 409, "spec_conflict")

    def test_what_is_refused(self):
        box = self.source()
        for fields in ({"count": 0}, {"count": 101}, {"threads": []}, {"threads": ["a", "a"]}, {"threads": ["a b"]},
                       {"threads": [1]}, {"threads": ["a"], "count": 2}, {"threads": ["x"] * 101}, {"mounts": []},
                       {"metadata": {"k": "v" * 5000}}, {"envs": {"A=": "b"}}):
            self.assertCode(self.fork(box, **fields), 422, "invalid_field")
        self.assertCode(self.pool.post("/v1/sandboxes/nobody/fork", {}), 404, "not_found")

        def pry():
            answer = Client(self.server.socket).post(f"/v1/sandboxes/{box.id}/fork", {})
            return [answer.status, answer.code]
        self.assertEqual(as_nobody(pry), [404, "not_found"])
        self.pool.post(f"/v1/sandboxes/{box.id}/release", {})
        self.assertCode(self.fork(box), 409, "not_leased")
        self.assertEqual((self.others(box), self.on_disk()), ([], []))


class Left(ForkCase):
    def test_by_a_caller_that_never_reads(self):
        box = self.source()
        connection = self.sent(box, count=2)
        wait_until(lambda: len(self.others(box, "leased")) == 2, "they are leased")
        connection.recv(1, socket.MSG_PEEK)
        connection.close()
        wait_until(lambda: self.others(box) == [] and self.on_disk() == [], "all is undone")
        connection = self.sent(box, threads=["a", "b"])
        connection.recv(1, socket.MSG_PEEK)
        connection.close()
        wait_until(lambda: len(self.others(box, "parked")) == 2, "they are kept for their threads")
        self.assertEqual(self.acquire("a", "parked").sh("cat /workspace/f"), "here\n")

    def test_by_a_caller_that_does_not_wait(self):
        box = self.source()
        for is_far in (self.on_disk, lambda: self.others(box)):
            connection = self.sent(box, count=4)
            wait_until(is_far, "it is under way")
            connection.close()
            wait_until(lambda: self.others(box) == [] and self.on_disk() == [], "all is undone")
        self.assertEqual(box.sh("cat /workspace/f"), "here\n")

    def test_by_a_daemon_that_is_killed(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        box = self.source()
        self.server.kill()
        self.server.start(env={"SANDPOOL_CRASH_AT": "snapshot.made:1"})
        client = Client(self.server.socket)
        try:
            client.post(f"/v1/sandboxes/{box.id}/fork", {"count": 2})
        except OSError:
            pass
        client.close()
        wait_until(lambda: not self.server.process.is_running(), "crash")
        self.assertEqual(len(self.on_disk()), 1)
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        self.assertEqual(self.listed(), [])
        wait_until(lambda: self.on_disk() == [], "what nobody knows is deleted")
        self.assertEqual(self.forked(self.acquire("source", "kept"))[0].sh("cat /workspace/f"), "here\n")


if __name__ == "__main__":
    main()
