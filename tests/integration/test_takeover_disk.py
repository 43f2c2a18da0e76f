"""A hand-over, and a stop, while the disk is full, fails or hangs: whatever happens, the old daemon or the new
one serves, both logs say why, and SIGTERM ends the daemon."""

import os
import pathlib
import shutil
import signal
import unittest

from fixtures import WAIT_S, main, wait_until
from takeover_case import Peer, TakeoverCase
from test_crash import fault_names
from test_store_down import Filler, mount_small

HELLO = {"protocol": 1, "version": "0", "schema": 99}


class DiskCase(TakeoverCase):
    def gate(self, point):
        path = pathlib.Path(self.directory) / f"hang-{point}"
        self.addCleanup(lambda: path.unlink(missing_ok=True))  # else it cannot stop
        return path

    def is_hit(self, gate):
        return os.path.exists(f"{gate}.hit")

    def hanging(self, *points):
        """A daemon that hangs at each of these points as long as the file for it exists."""
        if not fault_names():
            self.skipTest("this build has no fault points")
        gates = [self.gate(point) for point in points]
        armed = ",".join(f"{point}={gate}" for point, gate in zip(points, gates))
        sim, daemon = self.setting(store={"timeout_s": 1}, env={"SANDPOOL_HANG_AT": armed})
        self.watch(daemon.process)
        return sim, daemon, *gates

    def refused(self, daemon, sentence):
        """A successor that is refused; it does not hang itself."""
        successor = self.watch(daemon.spawn({"SANDPOOL_HANG_AT": ""}, args=["--takeover"]))
        self.assertEqual(successor.child.wait(40 + WAIT_S), 1)
        self.assertIn("does not hand over", successor.output())
        self.assertIn(sentence, successor.output())

    def replaced(self, daemon, lease):
        """The daemon can be replaced now, and the lease is kept. A row that takes longer than the store's second, on a
        busy machine, is a reason to refuse once more."""
        wait_until(lambda: self.tried(daemon), "it is replaced")
        kept = self.assertOk(self.client(daemon).acquire("t"))
        self.assertEqual((kept["source"], kept["box_id"]), ("kept", lease["box_id"]))

    def tried(self, daemon):
        old = daemon.process
        successor = self.watch(daemon.spawn({"SANDPOOL_HANG_AT": ""}, args=["--takeover"]))
        wait_until(lambda: old.child.poll() is not None or successor.child.poll() is not None, "one of them ends")
        if old.child.poll() is None:
            return False
        self.assertEqual(old.child.poll(), 0, old.output()[-3000:])
        daemon.process = successor
        daemon.wait_ready()
        return True

    def serves(self, daemon, lease, pid):
        client = self.client(daemon)
        self.assertEqual(client.get("/v1/version").json["pid"], pid)
        kept = self.assertOk(client.acquire("t"))
        self.assertEqual((kept["source"], kept["box_id"]), ("kept", lease["box_id"]))


class Hangs(DiskCase):
    def test_a_store_that_is_down_is_not_handed_over(self):
        _, daemon, gate = self.hanging("store.before_commit")
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t", wait_ms=20000))
        self.wait_blank(client, 1)
        gate.touch()
        self.assertCode(client.acquire("new", wait_ms=0), 503, "store_unavailable")
        wait_until(lambda: client.get("/readyz").status == 503, "the hang is noticed")
        self.refused(daemon, "cannot be written ('")
        self.assertIn("upgrade.given_up", daemon.process.output())
        self.serves(daemon, lease, daemon.process.pid)
        gate.unlink()
        wait_until(lambda: client.get("/readyz").status == 200, "the disk is back")
        self.replaced(daemon, lease)

    def test_a_hang_that_nobody_knows_of_yet(self):
        _, daemon, gate = self.hanging("store.before_commit")
        lease = self.assertOk(self.client(daemon).acquire("t", wait_ms=20000))
        gate.touch()
        self.refused(daemon, "cannot be written now")
        self.assertNotIn("upgrade.draining", daemon.process.output())  # nobody had to wait
        self.serves(daemon, lease, daemon.process.pid)
        gate.unlink()
        wait_until(lambda: self.client(daemon).get("/readyz").status == 200, "the disk is back")
        self.replaced(daemon, lease)

    def test_a_hang_that_begins_under_way(self):
        _, daemon, gate, ready = self.hanging("store.before_commit", "takeover.old_ready")
        lease = self.assertOk(self.client(daemon).acquire("t", wait_ms=20000))
        ready.touch()
        peer = Peer(daemon)
        self.addCleanup(peer.close)
        peer.send(b"H", HELLO)
        self.assertEqual(peer.receive()[0], b"O")
        peer.send(b"R")
        wait_until(lambda: self.is_hit(ready), "the first row is written")
        gate.touch()
        ready.unlink()
        kind, why, _ = peer.receive()
        self.assertEqual(kind, b"N")
        self.assertIn("cannot be written now", why)
        self.serves(daemon, lease, daemon.process.pid)
        self.assertIn("upgrade.draining", daemon.process.output())
        gate.unlink()
        wait_until(lambda: self.client(daemon).get("/readyz").status == 200, "the disk is back")
        self.replaced(daemon, lease)

    def test_a_database_that_cannot_be_closed(self):
        _, daemon, gate = self.hanging("takeover.old_shut")
        lease = self.assertOk(self.client(daemon).acquire("t", wait_ms=20000))
        gate.touch()
        self.refused(daemon, "cannot close its database")
        self.assertIn("upgrade.close_hangs", daemon.process.output())
        gate.unlink()
        self.serves(daemon, lease, daemon.process.pid)
        self.assertIn("upgrade.failed", daemon.process.output())
        self.replaced(daemon, lease)

    def test_told_to_stop_while_it_cannot_be_closed(self):
        _, daemon, gate = self.hanging("takeover.old_shut")
        gate.touch()
        peer = Peer(daemon)
        self.addCleanup(peer.close)
        peer.send(b"H", HELLO)
        peer.receive()
        peer.send(b"R")
        wait_until(lambda: "upgrade.drained" in daemon.process.output(), "it closes")
        daemon.process.child.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.child.wait(WAIT_S + 20), 1)
        self.assertIn("daemon.stop_forced", daemon.process.output())

    def test_a_stop_that_cannot_close_the_database(self):
        _, daemon, gate = self.hanging("takeover.old_shut")
        lease = self.assertOk(self.client(daemon).acquire("t", wait_ms=20000))
        gate.touch()
        daemon.process.child.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.child.wait(WAIT_S + 20), 1)
        self.assertIn("cannot be closed", daemon.process.output())
        gate.unlink()
        daemon.start()
        self.serves(daemon, lease, daemon.process.pid)

    def test_a_stop_while_the_loop_itself_hangs(self):
        _, daemon, gate = self.hanging("takeover.old_asked")
        gate.touch()
        peer = Peer(daemon)
        self.addCleanup(peer.close)
        peer.send(b"H", HELLO)
        wait_until(lambda: self.is_hit(gate), "the loop hangs")
        daemon.process.child.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.child.wait(WAIT_S + 20), 1)
        self.assertIn("daemon.stop_forced", daemon.process.output())


class Fails(DiskCase):
    def test_the_way_back_is_tried_until_it_works(self):
        _, daemon = self.setting()
        lease = self.assertOk(daemon.acquire("t"))
        peer = Peer(daemon)
        peer.send(b"H", HELLO)
        peer.receive()
        peer.send(b"R")
        while peer.receive()[0] != b"Y":
            pass
        database = daemon.state / "sandpool.db"
        database.rename(daemon.state / "away")
        database.mkdir()
        peer.close()
        wait_until(lambda: daemon.process.output().count("cannot_go_back") >= 2, "it tries")
        database.rmdir()
        (daemon.state / "away").rename(database)
        self.serves(daemon, lease, daemon.process.pid)
        self.takeover(daemon)

    def test_a_stop_on_the_way_back(self):
        _, daemon = self.setting()
        peer = Peer(daemon)
        peer.send(b"H", HELLO)
        peer.receive()
        peer.send(b"R")
        while peer.receive()[0] != b"Y":
            pass
        database = daemon.state / "sandpool.db"
        database.rename(daemon.state / "away")
        database.mkdir()
        peer.close()
        wait_until(lambda: "cannot_go_back" in daemon.process.output(), "it tries")
        daemon.process.child.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.child.wait(WAIT_S + 20), 0)


@unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small disk")
class Full(DiskCase):
    def check(self, kind, size_mb):
        """Full or not, somebody serves, with the lease."""
        _, daemon = self.setting(start=False, store={"min_free": 0})
        mount_small(self, daemon, kind, size_mb)
        self.addCleanup(lambda: daemon.process and daemon.kill())  # before the disk goes
        daemon.start()
        self.watch(daemon.process)
        lease = self.assertOk(self.client(daemon).acquire("t", wait_ms=20000))
        filler = Filler(daemon.state / "filler")
        self.addCleanup(filler.stop)
        self.assertTrue(filler.is_full.wait(20))
        successor = self.watch(daemon.spawn(args=["--takeover"]))
        wait_until(lambda: not successor.is_running() or not daemon.process.is_running(),
                   "one of the two has ended")
        if successor.is_running():
            daemon.process = successor
        else:
            self.assertIn("does not hand over", successor.output())
        self.serves(daemon, lease, daemon.process.pid)
        filler.stop()
        filler.path.unlink()
        client = self.client(daemon)
        wait_until(lambda: client.get("/readyz").status == 200, "the store is up")
        self.replaced(daemon, lease)

    def test_without_a_reserve(self):
        self.check("tmpfs", 3)

    def test_with_a_reserve(self):
        self.check("tmpfs", 64)

    @unittest.skipUnless(shutil.which("mkfs.ext4"), "needs mkfs.ext4")
    def test_ext4(self):
        self.check("ext4", 64)


if __name__ == "__main__":
    main()
