"""Snapshots of real boxes: what is in them, what boxes are made from them, who may use them, and what is left of one
when everything that makes it is killed at any moment."""

import concurrent.futures
import os
import time
import unittest

from fixtures import Client, at_most, fewer, in_threads, main, wait_until
from hostile import as_nobody
from host import group_of, has_loop_devices
from oci_case import RUNTIME, BoxCase
from test_crash import fault_names

POINTS = ("snapshot.copied", "snapshot.recorded", "snapshot.made")
RESTORE_POINTS = ("engine.before_create", "oci.before_run", "oci.after_run", "engine.after_create", "engine.before_reply", "engine.after_reply")

SNAPSHOTS = int(os.environ.get("SANDPOOL_TEST_SNAPSHOTS", 6))

# A transaction changes pages of two databases, then its number is written past all caches to the disk, behind much that is
# copied before it. In a copy of one moment both databases are of one transaction, and have all that were said to be done.
WRITER = """
import mmap, os, sqlite3
db = sqlite3.connect('/workspace/one', isolation_level=None)
db.execute('attach ? as two', ('/workspace/two',))
for name in ('main', 'two'):
    db.execute(f'pragma {name}.journal_mode=persist')
    db.execute(f'create table {name}.t (id integer primary key, n integer, pad text)')
    db.execute(f'create index {name}.by_n on t (n)')
    db.executemany(f'insert into {name}.t values (?, 0, ?)', [(i, 'x' * 3000) for i in range(4)])
done, block, n = os.open('/workspace/new', os.O_RDWR | os.O_CREAT | os.O_DIRECT), mmap.mmap(-1, 4096), 0
large = mmap.mmap(-1, 64 << 20)
large[::4096] = b'x' * (len(large) // 4096)
os.pwrite(done, large, 0)
while True:
    block[:12] = b'%12d' % n
    os.pwrite(done, block, len(large))
    if n == 1:
        os.rename('/workspace/new', '/workspace/done')
    n += 1
    db.execute('begin immediate')
    for name in ('main', 'two'):
        db.execute(f'update {name}.t set n = ?', (n,))
    db.execute('commit')
"""

# Prints the number that was said to be done, and those of the rows.
READER = """
import sqlite3
numbers = set()
for name in ('one', 'two'):
    db = sqlite3.connect('/workspace/' + name)
    assert db.execute('pragma integrity_check').fetchall() == [('ok',)], db.execute('pragma integrity_check').fetchall()
    for query in ('select n from t not indexed', 'select n from t order by n'):
        numbers.update(n for n, in db.execute(query))
done = open('/workspace/done')
done.seek(64 << 20)
print(int(done.read(12)), *sorted(numbers))
"""


# Of the two numbers the last follows the first. Both go past all caches to the disk, on which much lies between them.
COUNTERS = """
import mmap, os
large, n = mmap.mmap(-1, 96 << 20), 0
file = os.open('/workspace/new', os.O_RDWR | os.O_CREAT | os.O_DIRECT)
large[:12] = large[-4096:-4084] = b'%12d' % n
os.pwrite(file, large, 0)
os.rename('/workspace/new', '/workspace/large')
block = mmap.mmap(-1, 4096)
while True:
    n += 1
    block[:12] = b'%12d' % n
    os.pwrite(file, block, 0)
    os.pwrite(file, block, len(large) - 4096)
"""


@unittest.skipUnless(has_loop_devices(), "a snapshot is a copy of a box's disk, which needs loop devices")
class SnapshotCase(BoxCase):
    profiles = {"default": {"warm": {"min": 1, "max": 1}}}
    config = {"socket": {"mode": "0666"}}

    @classmethod
    def make_config(cls):
        cls.home.chmod(0o755)
        return super().make_config()

    def take(self, box, **fields):
        answer = self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", fields)
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def restored(self, snapshot, thread, source="restored", **fields):
        return self.acquire(thread, source, snapshot_id=snapshot["snapshot_id"], **fields)

    def delete(self, snapshot):
        return self.pool.delete(f"/v1/snapshots/{snapshot['snapshot_id']}")

    def listed(self, client=None):
        return [s["snapshot_id"] for s in (client or self.pool).get("/v1/snapshots").json["snapshots"]]

    def on_disk(self):
        return sorted(os.listdir(self.server.state / "oci" / "snapshots"))

    def restart(self, kill=False):
        if kill:
            self.server.kill()
        else:
            self.server.stop()
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)

    def hold_helper(self, verb):
        """The first sandpool-helper of this verb makes the first of two files and waits for the second."""
        helper = self.home / "bin" / "sandpool-helper"
        real, begun, go = (self.home / name for name in ("bin/real", f"{verb}-begun", f"{verb}-go"))
        helper.rename(real)
        self.addCleanup(real.rename, helper)
        wait = f": > {begun}; while :; do [ ! -e {go} ] || break; sleep 0.02; done"
        helper.write_text(f'#!/bin/sh\n[ "$1" != {verb} ] || [ -e {begun} ] || {{ {wait}; }}\nexec {real} "$@"\n')
        helper.chmod(0o755)
        return begun, go

    def tearDown(self):
        for snapshot in self.listed():
            self.pool.delete(f"/v1/snapshots/{snapshot}")
        self.destroy_all()
        wait_until(lambda: self.on_disk() == [], f"no snapshot is left: {self.on_disk()}")
        super().tearDown()


class Snapshots(SnapshotCase):
    def test_what_a_snapshot_has(self):
        box = self.acquire("source")
        box.sh("echo one > /workspace/f; mkdir -p ~/d; echo two > ~/d/g; ln -s f /workspace/l; ln /workspace/f /workspace/h;"
               "chmod 700 ~/d; truncate -s 1G /workspace/sparse; setfattr -n user.k -v v /workspace/f 2>/dev/null; true")
        snapshot = self.take(box, name="first", metadata={"why": "test"})
        self.assertEqual(snapshot["name"], "first")
        self.assertEqual(snapshot["parent"], None)
        self.assertEqual(snapshot["memory"], False)
        self.assertEqual(snapshot["metadata"], {"why": "test"})
        self.assertLess(snapshot["size_bytes"], 64 << 20)  # holes stay holes
        self.assertRegex(snapshot["digest"], "^sha256:[0-9a-f]{64}$")
        box.sh("echo changed > /workspace/f; rm -r ~/d")  # the source goes on
        again = self.restored(snapshot, "copy")
        self.assertNotEqual(again.lease["token"], box.lease["token"])
        self.assertEqual(again.lease["metadata"], {"why": "test"})
        self.assertEqual(again.sh("cat /workspace/f /workspace/l ~/d/g; stat -c '%a %U' ~/d; stat -c %h /workspace/f;"
                                  "stat -c %s /workspace/sparse; hostname"),
                         f"one\none\ntwo\n700 user\n2\n1073741824\n{again.box_id}\n")
        self.assertEqual(again.sh("echo mine > /workspace/f; rm /workspace/h; cat /workspace/f"), "mine\n")
        self.assertEqual(self.restored(snapshot, "third").sh("cat /workspace/f /workspace/h"), "one\none\n")
        self.assertEqual(self.restored(snapshot, "copy", "kept").box_id, again.box_id)
        self.assertEqual(box.sh("cat /workspace/f"), "changed\n")

    def test_snapshots_of_restored_boxes(self):
        """Three deep; those in the middle are deleted, and nothing breaks."""
        box, chain = self.acquire("level-0"), []
        for level in range(3):
            box.sh(f"echo {level} > /workspace/{level}; rm -f /workspace/{level - 2}")
            chain.append(self.take(box))
            box = self.restored(chain[-1], f"level-{level + 1}")
        self.assertEqual([s["parent"] for s in chain], [None] + [s["snapshot_id"] for s in chain[:2]])
        self.assertEqual(box.sh("ls /workspace"), "1\n2\n")
        for snapshot in chain[:2]:
            self.assertEqual(self.delete(snapshot).status, 200)
            self.assertCode(self.server.acquire("none", snapshot_id=snapshot["snapshot_id"]), 404, "not_found")
        self.assertEqual(self.listed(), [chain[2]["snapshot_id"]])
        self.assertEqual(len(self.on_disk()), 3)
        self.restart()
        self.assertEqual(self.restored(chain[2], "late").sh("ls /workspace"), "1\n2\n")
        self.assertEqual(self.acquire("level-3", "kept").sh("ls /workspace"), "1\n2\n")
        self.delete(chain[2])
        self.assertEqual(self.acquire("late", "kept").sh("cat /workspace/2"), "2\n")

    def test_in_the_middle_of_a_database(self):
        box, before = self.acquire("writer"), 0
        job = box.start(f"python3 -c \"{WRITER}\"")
        wait_until(lambda: "done" in box.sh("ls /workspace"), lambda: f"it writes: {box.output(job, 'stderr')}")
        for i in fewer(range(SNAPSHOTS)):
            snapshot = self.take(box)
            copy = self.restored(snapshot, f"reader-{i}")
            done, *numbers = map(int, copy.sh(f"python3 -c \"{READER}\"").split())
            self.assertIn(numbers, ([done], [done + 1]), f"snapshot {i}")
            self.assertGreater(done, before, "it goes on to write")
            before = done
            self.destroy(copy)
            self.delete(snapshot)

    def test_all_of_one_moment(self):
        box = self.acquire("counter")
        box.start(f"python3 -c \"{COUNTERS}\"")
        wait_until(lambda: "large" in box.sh("ls /workspace"), "it counts")
        for i in fewer(range(4)):
            copy = self.restored(self.take(box), f"copy-{i}")
            first = int(copy.sh("head -c 12 /workspace/large"))
            last = int(copy.sh("tail -c 4096 /workspace/large | head -c 12"))
            self.assertIn(first - last, (0, 1))
            self.destroy(copy)

    def test_whose_it_is(self):
        snapshot = self.take(self.acquire("mine"))
        path = f"/v1/snapshots/{snapshot['snapshot_id']}"

        def pry():
            other = Client(self.server.socket)
            answers = [other.get(path), other.delete(path), other.acquire("theirs", snapshot_id=path[-16:])]
            return [self.listed(other), [(a.status, a.code) for a in answers]]
        self.assertEqual(as_nobody(pry), [[], [[404, "not_found"]] * 3])
        self.assertEqual(self.listed(), [snapshot["snapshot_id"]])

    def test_what_is_refused(self):
        box = self.acquire("one")
        self.assertCode(self.pool.post("/v1/sandboxes/nobody/snapshots", {}), 404, "not_found")
        self.assertCode(self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", {"name": "a b"}), 422, "invalid_field")
        self.assertCode(self.pool.post(f"/v1/sandboxes/{box.id}/snapshots", {"metadata": {"k": "v" * 5000}}), 422,
                        "invalid_field")
        for bad in ("", "x", "0" * 15, "0" * 16, "../../etc"):
            self.assertIn(self.server.acquire("two", snapshot_id=bad).status, (404, 422), bad)
        snapshot = self.take(box)
        self.assertCode(self.server.acquire("one", snapshot_id=snapshot["snapshot_id"]), 409, "spec_conflict")
        self.assertEqual(self.delete(snapshot).status, 200)
        self.assertCode(self.delete(snapshot), 404, "not_found")

    def test_what_a_runtime_would_hang_on(self):
        """A named pipe where runtimes read users: refused at once, for whoever asks for it alone."""
        box = self.acquire("odd")
        box.sh("rm -f /etc/passwd /etc/group; mkfifo /etc/passwd /etc/group", user="root")
        snapshot = self.take(box)["snapshot_id"]
        failures = self.pool.get("/v1/pool").json["boxes"]["create_failures"]
        begun = time.monotonic()
        answers = in_threads(6, lambda i: self.server.acquire(f"odd-{i}", snapshot_id=snapshot, wait_ms=20000))
        for answer in answers:
            self.assertCode(answer, 422, "invalid_field")
            self.assertIn("'/etc/passwd' is a named pipe", answer.text)
            self.assertIn(snapshot, answer.text)
        forked = self.pool.post(f"/v1/sandboxes/{box.id}/fork", {"count": 2, "wait_ms": 20000})
        self.assertCode(forked, 422, "invalid_field")
        self.assertLess(time.monotonic() - begun, at_most(15))  # one try of the runtime alone would take 20 s
        pool = self.pool.get("/v1/pool").json
        self.assertEqual(pool["boxes"]["create_failures"], failures)
        self.assertEqual(self.acquire("plain", envs={"A": "b"}).sh("echo $A"), "b\n")

    def test_of_a_box_that_is_destroyed(self):
        """It is gone when the copy is to be made. That is no trouble of the daemon's."""
        box = self.acquire("short")
        begun, go = self.hold_helper("capture")
        with concurrent.futures.ThreadPoolExecutor(1) as caller:
            client = Client(self.server.socket)
            answer = caller.submit(client.post, f"/v1/sandboxes/{box.id}/snapshots", {})
            wait_until(begun.exists, "the copy begins")
            self.assertEqual(self.pool.delete(f"/v1/sandboxes/{box.id}").status, 200)
            go.touch()
            self.assertCode(answer.result(), 410, "sandbox_lost")
            client.close()
        self.assertEqual(self.on_disk(), [])
        def said():
            return [line for line in self.server.log.read_text().splitlines() if box.box_id in line]
        wait_until(lambda: "event=snapshot.lost" in "".join(said()), "the log has it")  # a thread writes it
        self.assertEqual([line for line in said() if "level=error" in line or "level=warn" in line], [])

    def test_a_call_while_it_is_being_paused(self):
        """It was paused for a moment, and the answer to the pause shows that it runs."""
        if RUNTIME == "runsc":
            self.skipTest("its boxes cannot be paused")
        box = self.acquire("busy")
        begun, go = self.hold_helper("freeze")
        with concurrent.futures.ThreadPoolExecutor(1) as caller:
            client = Client(self.server.socket)
            answer = caller.submit(client.post, f"/v1/sandboxes/{box.id}/pause", {})
            wait_until(begun.exists, "it is being paused")
            ran = self.pool.post(f"/v1/sandboxes/{box.id}/exec", {"command": "echo on"})
            self.assertEqual(ran.status, 200, ran)
            self.assertNotIn("paused", self.assertOk(answer.result()))
            client.close()
            go.touch()
        said = [line for line in self.server.log.read_text().splitlines() if box.box_id in line]
        self.assertEqual([line for line in said if "level=error" in line or "level=warn" in line], [])

    def test_many_at_once(self):
        snapshot = self.take(self.acquire("source"))
        boxes = in_threads(6, lambda i: self.server.acquire(f"fork-{i}", snapshot_id=snapshot["snapshot_id"],
                                                            wait_ms=60000))
        self.assertEqual([b.json["source"] for b in boxes], ["restored"] * 6)
        self.assertEqual(len({b.json["box_id"] for b in boxes}), 6)


class Killed(SnapshotCase):
    profiles = {"default": {"warm": {"min": 1, "max": 1}}, "cold": {"warm": {"min": 0, "max": 0}}}

    def one_point(self, name):
        box = self.acquire("source")
        box.sh("echo here > /workspace/f")
        self.server.kill()
        self.server.start(env={"SANDPOOL_CRASH_AT": f"{name}:1"})
        client = Client(self.server.socket)
        try:
            client.post(f"/v1/sandboxes/{box.id}/snapshots", {})
        except OSError:
            pass
        client.close()
        wait_until(lambda: not self.server.process.is_running(), "crash")
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        found = self.listed()
        self.assertEqual(self.on_disk(), found)
        self.assertEqual(len(found), 1 if name == "snapshot.made" else 0)
        if found:
            self.assertEqual(self.restored({"snapshot_id": found[0]}, "copy").sh("cat /workspace/f"), "here\n")
        self.assertEqual(self.acquire("source", "kept").sh("cat /workspace/f"), "here\n")

    def test_at_every_named_point(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        self.assertEqual({n for n in fault_names() if n.startswith("snapshot.")} -
                         {*POINTS, "snapshot.dropping", "snapshot.committed", "snapshot.marked", "snapshot.flattened",
                          "snapshot.swapped", "snapshot.merged", "snapshot.unpacked", "snapshot.sent", "snapshot.loaded"}, set())
        for name in POINTS:
            with self.subTest(point=name):
                self.one_point(name)
                for snapshot in self.listed():
                    self.pool.delete(f"/v1/snapshots/{snapshot}")
                self.destroy_all()

    def restart_after(self, name, act):
        """kill -9 of the daemon at this point of what `act` asks for."""
        self.server.kill()
        self.server.start(env={"SANDPOOL_CRASH_AT": f"{name}:1"})
        client = Client(self.server.socket)
        try:
            act(client)
        except OSError:
            pass
        client.close()
        wait_until(lambda: not self.server.process.is_running(), f"crash at {name}")
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)

    def test_while_a_box_is_made_of_one(self):
        """Whole or not there, given once, nothing beside it; the snapshot and its source are as before, and it can be deleted."""
        if not fault_names():
            self.skipTest("this build has no crash points")
        source = self.acquire("source", profile="cold")
        source.sh("echo here > /workspace/f")
        for name in RESTORE_POINTS:
            with self.subTest(point=name):
                snapshot = self.take(source)
                asked = {"thread_id": f"copy-{name}", "snapshot_id": snapshot["snapshot_id"], "wait_ms": 20000}
                wait_until(lambda: self.counts()["blank"] == 1, "the other profile has what it wants")
                self.restart_after(name, lambda client, asked=asked: client.post("/v1/acquire", asked))
                self.assertEqual(self.listed(), [snapshot["snapshot_id"]])
                self.assertEqual(self.acquire("source", "kept", profile="cold").sh("cat /workspace/f"), "here\n")
                copy = self.acquire(asked["thread_id"], snapshot_id=asked["snapshot_id"])
                self.assertIn(copy.lease["source"], ("restored", "parked", "kept"))
                self.assertEqual(copy.sh("cat /workspace/f"), "here\n")
                self.assertAgree()
                self.destroy(copy)
                self.assertEqual(self.delete(snapshot).status, 200)
                wait_until(lambda: self.on_disk() == [], f"no snapshot is left: {self.on_disk()}")

    def test_while_one_is_deleted(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        snapshot = self.take(self.acquire("source"))
        self.server.kill()
        self.server.start(env={"SANDPOOL_CRASH_AT": "snapshot.dropping:1"})
        client = Client(self.server.socket)
        try:
            client.delete(f"/v1/snapshots/{snapshot['snapshot_id']}")
        except OSError:
            pass
        client.close()
        wait_until(lambda: not self.server.process.is_running(), "crash")
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        self.assertEqual((self.listed(), self.on_disk()), ([], []))

    def test_a_box_that_was_left_frozen(self):
        """Whoever froze it was killed before it could go on."""
        if RUNTIME == "runsc":
            self.skipTest("its boxes have no control group that can be frozen")
        box = self.acquire("cold")
        group = group_of(self.instance, box.box_id, "freezer")
        file = group / "cgroup.freeze" if (group / "cgroup.freeze").exists() else group / "freezer.state"
        self.server.kill()
        file.write_text("1" if file.name == "cgroup.freeze" else "FROZEN")
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        wait_until(lambda: file.read_text().strip() in ("0", "THAWED"), "it goes on")
        self.assertEqual(self.acquire("cold", "kept").sh("echo on"), "on\n")


if __name__ == "__main__":
    main()
