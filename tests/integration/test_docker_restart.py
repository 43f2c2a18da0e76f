"""A restart nobody notices, on real containers: whatever happened to daemon, database, engine and boxes meanwhile, boxes
that run are their owners' again, boxes that are gone are reported as lost, and what is not ours stays as it is."""

import hashlib
import json
import os
import pathlib
import sqlite3
import threading

from docker_case import AGREE_S, INSTANCE, FleetCase, engines, main, wait_until
from engine_case import Proxy
from fixtures import SLOW, WAIT_S, Daemon
from old_database import make_first_version

OTHER = {"sandpool.instance": "somebody", "sandpool.box": "00000000000000ab", "sandpool.profile": "default"}


class Daemons(FleetCase):
    def test_stopped_and_killed(self):
        daemon = self.fleet()
        blank = set(self.rows(daemon))
        daemon.restart()
        self.assertAgree(daemon)
        self.assertLessEqual(blank, set(self.rows(daemon)))
        self.assertAllKept(daemon)
        self.assertOk(self.client(daemon).release(self.held["parked"].id))
        daemon.kill()
        daemon.start()
        self.assertAllKept(daemon)

    def test_started_twice_at_once(self):
        daemon = self.fleet()
        daemon.kill()
        both = [daemon.spawn(), daemon.spawn()]
        for one in both:
            self.addCleanup(one.kill)
        daemon.process = both[0]
        wait_until(lambda: sum(p.is_running() for p in both) == 1 and daemon.answers(), "one of them serves", AGREE_S)
        refused, daemon.process = sorted(both, key=lambda p: p.is_running())
        self.assertEqual(refused.child.returncode, 1)
        self.assertIn("another daemon", refused.output())
        self.assertAllKept(daemon)

    def test_another_daemon_of_the_same_instance(self):
        """Each would take the other's boxes for left over."""
        daemon = self.fleet()
        before = self.made()
        place = pathlib.Path(self.directory) / "other"
        place.mkdir()
        other = Daemon(place, json.loads(daemon.config.read_text()))
        self.refuse(other, daemon)
        daemon.kill()
        daemon.start()  # nobody has to remove anything
        self.refuse(other, daemon)
        daemon.takeover()
        self.refuse(other, daemon)
        self.assertLessEqual(before.items(), self.made().items())
        self.assertAllKept(daemon)

    def test_owners_of_a_clock_that_was_set_back(self):
        """The next owner comes after those that were written while the clock was ahead."""
        daemon = self.fleet()
        daemon.stop()
        held = self.held["leased"]
        old = next(v for v in self.engine.volumes() if v["Labels"].get("sandpool.box") == held.box_id)
        ahead = int(old["Name"].rsplit(".", 1)[1], 16) + 24 * 3600 * 1000
        name = f"{old['Name'].rsplit('.', 1)[0]}.{ahead:016x}"
        self.engine.json("POST", "/volumes/create", {"Name": name, "Labels": old["Labels"]})
        daemon.start()
        next_one = self.box(daemon, "next")

        def order():
            names = [v["Name"] for v in self.engine.volumes() if v["Labels"].get("sandpool.box") == next_one.box_id]
            return [int(n.rsplit(".", 1)[1], 16) for n in names]
        self.assertGreater(min(wait_until(order, "its owner is written")), ahead)
        self.assertAllKept(daemon)

    def made(self):
        return {box_id: container["Id"] for box_id, container in self.containers().items()}

    def refuse(self, other, daemon):
        other.start(wait=False)
        self.addCleanup(other.process.kill)
        self.assertNotEqual(other.process.child.wait(WAIT_S), 0)
        self.assertIn("another daemon of the instance", other.process.output())
        self.assertIn(f"'{daemon.state.resolve()}'", other.process.output())

    def kill_and_see(self, name):
        """Returns when the engine reports that the box has ended, which is some 50 ms before its lists say so."""
        stream = engines.Connection(self.engine.socket)
        stream.request("GET", "/events?filters=%7B%22event%22:%5B%22die%22%5D%7D")
        told = stream.getresponse()
        path = f"/containers/{self.containers()[self.held[name].box_id]['Id']}/kill"
        killer = threading.Thread(target=self.engine.call, args=("POST", path))
        killer.start()
        told.readline()
        self.addCleanup(stream.close)
        self.addCleanup(killer.join)

    def test_a_death_just_before_the_start(self):
        """The next daemon must not take the box for a living one."""
        daemon = self.fleet()
        gate = pathlib.Path(self.directory) / "gate"
        os.mkfifo(gate)
        for _ in range(3):
            daemon.kill()
            daemon.process = daemon.spawn(prefix=["/bin/sh", "-c", f'read _ < {gate}; exec "$@"', "sh"])
            with open(gate, "w") as begin:
                self.kill_and_see("leased")
                begin.write("now\n")
            daemon.wait_ready()
            self.assertLost(daemon, "leased")
            self.held["leased"] = self.box(daemon, "leased")
        self.assertAgree(daemon)

    def test_a_death_during_the_first_listing(self):
        proxy = Proxy(self, self.engine.socket)
        daemon = self.fleet(docker={"host": proxy.address})
        for _ in range(3):
            daemon.stop()
            first = threading.Event()

            def hook(_method, path, first=first):
                if "/containers/json" in path and not first.is_set():
                    first.set()
                    self.kill_and_see("leased")
            proxy.hook = hook
            daemon.start()
            self.assertLost(daemon, "leased")
            self.held["leased"] = self.box(daemon, "leased")
        self.assertAgree(daemon)


class Databases(FleetCase):
    def forget(self, daemon):
        for path in daemon.state.glob("sandpool.db*"):
            path.unlink()

    def test_deleted(self):
        daemon = self.fleet()
        before = {b for b, row in self.rows(daemon).items() if row["state"] != "blank"}
        daemon.kill()
        self.forget(daemon)
        daemon.start()
        self.assertAgree(daemon)
        self.assertLessEqual(before, set(self.rows(daemon)))
        self.assertAllKept(daemon, "parked")  # nobody knows whether it was in use

    def test_deleted_while_a_box_is_bound(self):
        """Killed when the engine knows the owner and the name is still the old one."""
        daemon = self.fleet()
        daemon.kill()
        daemon.start(env={"SANDPOOL_CRASH_AT": "docker.after_owner:1"})
        try:
            daemon.acquire("third")
        except OSError:
            pass  # it died first
        wait_until(lambda: not daemon.process.is_running(), "it dies at the bind", AGREE_S)
        self.forget(daemon)
        daemon.start()
        self.assertAgree(daemon)
        self.assertEqual(self.box(daemon, "third").lease["source"], "parked")
        self.assertAllKept(daemon, "parked")

    def test_older(self):
        """One of the first version: its rows are taken along."""
        daemon = self.fleet()
        daemon.stop()
        version = make_first_version(daemon.state)
        daemon.start()
        self.assertAllKept(daemon)
        daemon.stop()
        with sqlite3.connect(daemon.state / "sandpool.db") as db:
            self.assertEqual(db.execute("PRAGMA user_version").fetchone()[0], version)
        db.close()
        daemon.start()

    def test_not_begun(self):
        """One step before the first version: what a crash of the very first start leaves."""
        daemon = self.fleet()
        daemon.kill()
        self.forget(daemon)
        (daemon.state / "sandpool.db").touch(0o600)
        daemon.start()
        self.assertAllKept(daemon, "parked")

    def test_newer(self):
        daemon = self.fleet()
        daemon.stop()
        path = daemon.state / "sandpool.db"
        with sqlite3.connect(path) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            db.execute("PRAGMA user_version = 1000")
        db.close()
        boxes = self.containers().keys()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        refused = daemon.spawn()
        self.addCleanup(refused.kill)
        self.assertEqual(refused.child.wait(20 * SLOW), 1)
        self.assertIn("schema version 1000", refused.output())
        self.assertIn("run the newer sandpool", refused.output())
        self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), digest)
        self.assertEqual({c["State"] for c in self.containers().values()}, {"running"})
        self.assertEqual(self.containers().keys(), boxes)
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA user_version = {version}")
        db.close()
        daemon.start()
        self.assertAllKept(daemon)


class Boxes(FleetCase):
    def test_changed_by_a_person(self):
        """Removed, stopped, paused, added, and others' meanwhile."""
        daemon = self.fleet()
        self.held["paused"] = self.box(daemon, "paused")
        self.inside["paused"] = self.held["paused"].start("sleep 1000")
        other = self.stranger("sandpool-other", OTHER)
        left = self.stranger("left", {"sandpool.instance": INSTANCE, "sandpool.box": "00000000000000ac",
                                      "sandpool.profile": "default"}, start=False)
        unlabelled = self.stranger("sandpool-fe0dc8182dec7b77", {})
        self.addCleanup(lambda: [self.engine.call("DELETE", f"/containers/{c}?force=1") for c in (other, unlabelled)])
        daemon.kill()
        self.by_hand("leased", "DELETE", "?force=1")
        self.by_hand("parked", "POST", "/kill")
        self.by_hand("paused", "POST", "/pause")
        daemon.start()
        self.assertLost(daemon, "leased")
        self.assertLost(daemon, "parked")
        row = self.rows(daemon)[self.held["paused"].box_id]
        self.assertEqual(row["state"], "leased")
        self.by_hand("paused", "POST", "/unpause")
        self.assertKept(daemon, "paused", "kept")
        wait_until(lambda: self.engine.call("GET", f"/containers/{left}/json")[0] == 404, "the leftover is gone")
        self.assertAgree(daemon)
        for one in (other, unlabelled):
            self.assertTrue(self.engine.json("GET", f"/containers/{one}/json")["State"]["Running"])

    def test_added(self):
        """Rows that are lost while boxes run: those are boxes with our labels that nobody knows."""
        daemon = self.fleet()
        daemon.stop()
        with sqlite3.connect(daemon.state / "sandpool.db") as db:
            self.assertGreaterEqual(db.execute("DELETE FROM boxes").rowcount, 3)
            db.execute("DELETE FROM leases")
        db.close()
        daemon.start()
        self.assertAgree(daemon)
        self.assertLessEqual({box.box_id for box in self.held.values()}, set(self.rows(daemon)))
        self.assertAllKept(daemon, "parked")

    def test_added_that_is_no_box(self):
        """It has our labels, but nothing in it answers: it is given up."""
        daemon = self.fleet(ready_timeout_s=int(4 * SLOW))
        daemon.stop()
        added = self.stranger("added", {"sandpool.instance": INSTANCE, "sandpool.box": "00000000000000ad",
                                        "sandpool.profile": "default", "sandpool.url": "http://127.0.0.1:9"})
        daemon.start()
        wait_until(lambda: self.engine.call("GET", f"/containers/{added}/json")[0] == 404, "it is gone", AGREE_S)
        self.assertAllKept(daemon)


class PodmanDaemons(Daemons):
    kind = "podman"
    # Docker's lists are late, not Podman's.
    test_a_death_just_before_the_start = None
    test_a_death_during_the_first_listing = None


class PodmanDatabases(Databases):
    kind = "podman"
    # What does not depend on the engine.
    test_older = None
    test_newer = None
    test_not_begun = None


class PodmanBoxes(Boxes):
    kind = "podman"


if __name__ == "__main__":
    main()
