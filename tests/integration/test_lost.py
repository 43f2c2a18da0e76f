"""A database that is older than the boxes, or gone: whoever had a box keeps it, and nobody else gets it."""

import os
import pathlib
import shutil
import sqlite3

from fixtures import TestCase, main, wait_until
from hostile import as_nobody
from test_remote import RemoteCase


def database(daemon):
    return [p for p in daemon.state.iterdir() if p.name in ("sandpool.db", "sandpool.db-wal")]


def keep_copy(daemon):
    away = daemon.directory / "copy"
    away.mkdir()
    for path in database(daemon):
        shutil.copy(path, away)


def put_back(daemon):
    for path in database(daemon):
        path.unlink()
    for path in (daemon.directory / "copy").iterdir():
        shutil.copy(path, daemon.state)


def keep_all(daemon):
    shutil.copytree(daemon.state, daemon.directory / "copy", ignore=shutil.ignore_patterns("*.sock"))


def put_all_back(daemon):
    shutil.rmtree(daemon.state)
    shutil.copytree(daemon.directory / "copy", daemon.state)


def lose(daemon):
    for path in daemon.state.glob("sandpool.db*"):
        path.unlink()


class Restarted(TestCase):
    """After a start of the machine the boxes are gone, and everybody is shown why."""

    def lose_all(self, boot_id):
        machine = self.sim()
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, sim=machine)
        lease = self.assertOk(self.client(daemon).acquire("t", wait_ms=20000))
        daemon.stop()
        with sqlite3.connect(daemon.state / "sandpool.db") as db:
            self.assertEqual(db.execute("SELECT value FROM meta WHERE key = 'boot_id'").fetchone(),
                             (pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip(),))
            if boot_id is not None:
                db.execute("UPDATE meta SET value = ? WHERE key = 'boot_id'", (boot_id,))
        db.close()
        for box_id in machine.boxes():
            machine.kill_box(box_id)
        daemon.start()
        client = self.client(daemon)
        target = f"/v1/sandboxes/{lease['sandbox_id']}"
        wait_until(lambda: client.get(target).status == 410, "its end is known")
        events = client.get("/v1/events?since=0&follow=0&event=lost").text
        return daemon, client.get(target).json["error"]["message"], events

    def test_the_machine_was_restarted(self):
        daemon, message, events = self.lose_all("of another start")
        self.assertIn("machine_restarted", message)
        self.assertIn('"why":"machine_restarted","reason":"the machine was restarted"', events)
        self.assertIn("engine.machine_restarted", daemon.process.output())
        daemon.restart()  # it is stored, and the next start is another
        self.assertEqual(daemon.process.output().count("engine.machine_restarted"), 1)
        self.assertNotIn("machine_restarted", self.lost_of_a_live_box(daemon))

    def lost_of_a_live_box(self, daemon):
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("u", wait_ms=20000))
        self.machine.kill_box(lease["box_id"])
        wait_until(lambda: client.get(f"/v1/sandboxes/{lease['sandbox_id']}").status == 410, "lost")
        return client.get(f"/v1/sandboxes/{lease['sandbox_id']}").json["error"]["message"]

    def sim(self):
        self.machine = super().sim()
        return self.machine

    def test_they_just_died(self):
        _, message, events = self.lose_all(None)
        self.assertIn("died", message)
        self.assertNotIn("machine_restarted", events)


class Sim(TestCase):
    """Boxes with labels."""

    def serve(self, **profile):
        self.machine = self.sim()
        daemon = self.daemon({"warm": {"min": 2, "max": 2}, "park_timeout_s": 600, **profile},
                             sim=self.machine, socket={"mode": "0666"}, pool={"max_boxes": 6})
        os.chmod(self.directory, 0o755)
        self.wait_blank(self.client(daemon), 2)
        return daemon

    def bound(self, count):
        """The labels follow the reply."""
        wait_until(lambda: len([b for b in self.machine.boxes().values() if b.get("sandbox_id")]) ==
                   count, "the boxes have their labels")

    def check_older_copy(self, daemon, lease):
        """What another user gets, and the owner."""
        theirs = as_nobody(lambda: [daemon.acquire(f"v{i}").json for i in range(4)])
        for other in theirs:
            self.assertNotIn(lease["token"], other.values(), other)
            self.assertNotEqual(lease["box_id"], other["box_id"])
        again = self.assertOk(daemon.acquire("t1"))
        self.assertEqual((again["box_id"], again["token"], again["source"]),
                         (lease["box_id"], lease["token"], "parked"))

    def test_copy_of_an_earlier_run(self):
        daemon = self.serve()
        daemon.stop()
        keep_copy(daemon)
        daemon.start()
        self.wait_blank(self.client(daemon), 2)
        lease = self.assertOk(daemon.acquire("t1"))
        self.assertEqual(lease["source"], "warm")
        self.bound(1)
        daemon.stop()
        put_back(daemon)
        daemon.start()
        self.check_older_copy(daemon, lease)

    def test_copy_of_the_same_run(self):
        daemon = self.serve()
        keep_copy(daemon)
        lease = self.assertOk(daemon.acquire("t1"))
        self.bound(1)
        daemon.kill()
        put_back(daemon)
        daemon.start()
        self.check_older_copy(daemon, lease)

    def whole_directory(self, is_same_run):
        """Labels are lost, too: those of a backend that keeps them below the state directory."""
        daemon = self.serve()
        self.machine.fail(fail_binds=1000)
        if not is_same_run:
            daemon.stop()
        keep_all(daemon)
        if not is_same_run:
            daemon.start()
            self.wait_blank(self.client(daemon), 2)
        lease = self.assertOk(daemon.acquire("t1"))
        self.assertEqual(lease["source"], "warm")
        daemon.kill()
        put_all_back(daemon)
        daemon.start()
        theirs = as_nobody(lambda: [daemon.acquire(f"v{i}").json for i in range(4)])
        for other in theirs:
            self.assertNotIn(lease["token"], other.values(), other)
            self.assertNotEqual(lease["box_id"], other["box_id"])
        self.assertIn("store.not_fresh", daemon.process.output())

    def test_whole_directory_of_an_earlier_run(self):
        self.whole_directory(False)

    def test_whole_directory_of_the_same_run(self):
        self.whole_directory(True)

    def test_lost_database(self):
        daemon = self.serve()
        client = self.client(daemon)
        mine = self.assertOk(client.acquire("t1"))
        parked = self.assertOk(client.acquire("t2"))
        self.assertOk(client.release(parked["sandbox_id"]))
        self.assertOk(client.acquire())  # nobody can come back for it
        theirs = as_nobody(lambda: daemon.acquire("n1", user_id="n").json)
        self.bound(4)
        client.close()
        daemon.stop()
        instances = {b["instance"] for b in self.machine.boxes().values()}
        lose(daemon)
        daemon.start()
        client = self.client(daemon)

        def pry():
            return [daemon.acquire("t1").status, daemon.acquire("t2").status,
                    daemon.acquire("n1", user_id="n").json]

        first, second, own = as_nobody(pry)
        self.assertEqual((first, second), (403, 403))
        for before, after in ((theirs, own), (mine, self.assertOk(client.acquire("t1"))),
                              (parked, self.assertOk(client.acquire("t2")))):
            self.assertEqual([before[k] for k in ("box_id", "token", "sandbox_url", "generation")],
                             [after[k] for k in ("box_id", "token", "sandbox_url", "generation")])

        def is_settled():
            self.assertOk(client.post("/v1/pool/reconcile"))
            known = client.get("/v1/sandboxes").json["sandboxes"]
            return set(self.machine.boxes()) == {b["box_id"] for b in known} and \
                not [b for b in known if b["state"] in ("deleting", "starting")] and len(known) == 5

        wait_until(is_settled, "what nobody can come for is gone, and two are warm")
        self.assertEqual({b["instance"] for b in self.machine.boxes().values()}, instances)

    def test_the_name_is_in_the_database_and_beside_it(self):
        daemon = self.serve()
        path = daemon.state / "instance"
        name = path.read_text()
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        daemon.stop()
        path.write_text("somebody-else\n")  # the rows are not of that one: they win
        daemon.start()
        self.assertEqual(path.read_text(), name)
        daemon.stop()
        path.unlink()
        daemon.start()
        self.assertEqual(path.read_text(), name)
        daemon.stop()
        lose(daemon)
        path.write_text("no name at all\n")
        daemon.start(wait=False)
        self.assertNotEqual(daemon.process.child.wait(20), 0)
        self.assertIn("holds no name of an instance", daemon.process.output())


class Remote(RemoteCase):
    """Boxes without labels: only the rows say whose they are."""

    def check_nobody_gets(self, daemon, lease):
        urls = [self.assertOk(daemon.acquire(f"v{i}", user_id="v"))["sandbox_url"] for i in range(3)]
        self.assertNotIn(lease["sandbox_url"], urls)
        client = self.client(daemon)
        wait_until(lambda: client.post("/v1/pool/reconcile") and self.agrees(client),
                   "what no row tells the owner of is destroyed")
        self.assertNotIn(lease["box_id"], self.ours())

    def older_copy(self, is_same_run, keep=keep_copy, put=put_back):
        daemon = self.start(warm=2)
        self.wait_blank(self.client(daemon), 2)
        if not is_same_run:
            daemon.stop()
        keep(daemon)
        if not is_same_run:
            daemon.start()
            self.wait_blank(self.client(daemon), 2)
        lease = self.assertOk(daemon.acquire("t1"))
        self.assertEqual(lease["source"], "warm")
        daemon.kill()
        put(daemon)
        daemon.start()
        self.check_nobody_gets(daemon, lease)
        self.assertIn("store.not_fresh", daemon.process.output())

    def test_copy_of_an_earlier_run(self):
        self.older_copy(False)

    def test_copy_of_the_same_run(self):
        self.older_copy(True)

    def test_whole_directory_of_an_earlier_run(self):
        self.older_copy(False, keep_all, put_all_back)

    def test_whole_directory_of_the_same_run(self):
        self.older_copy(True, keep_all, put_all_back)

    def test_lost_database(self):
        daemon = self.start(warm=2)
        self.wait_blank(self.client(daemon), 2)
        lease = self.assertOk(daemon.acquire("t1"))
        daemon.stop()
        lose(daemon)
        daemon.start()
        self.check_nobody_gets(daemon, lease)

    def test_a_restart_keeps_the_warm_boxes(self):
        daemon = self.start(warm=2)
        self.wait_blank(self.client(daemon), 2)
        self.assertOk(daemon.acquire("t1"))
        self.wait_blank(self.client(daemon), 2)
        before = set(self.ours())
        daemon.kill()
        daemon.start()
        self.wait_blank(self.client(daemon), 2)
        self.assertEqual(set(self.ours()), before)


del RemoteCase, TestCase  # else they are found and run as tests of their own

if __name__ == "__main__":
    main()
