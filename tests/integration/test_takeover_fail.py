"""A hand-over that fails. Whichever of the two daemons dies at whatever step, one goes on or a fresh start
finds everything; who should not take part changes nothing."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import time
import unittest

from fixtures import WAIT_S, Process, main, wait_until
from takeover_case import Peer, TakeoverCase
from test_crash import fault_names


class Failing(TakeoverCase):
    """The successor cannot start, or dies, or the daemon does."""

    def load(self, daemon):
        callers = self.callers(daemon, 4)
        wait_until(lambda: all(c.lease or c.failure for c in callers), "all have a box")
        return callers

    def still_serves(self, daemon, sim, callers, pid):
        before = sum(c.answers for c in callers)
        wait_until(lambda: sum(c.answers for c in callers) > before + 20, "load goes on")
        self.assertEqual(self.client(daemon).get("/v1/version").json["pid"], pid)
        self.finish(callers)
        self.check_leases(daemon, sim, callers)
        self.takeover(daemon)  # and it can be tried again

    def test_a_bad_configuration_changes_nothing(self):
        sim, daemon = self.setting()
        callers = self.load(daemon)
        good = daemon.config.read_text()
        for bad, sentence in (("{", "sandpoold:"),
                              (good.replace('"tcp"', '"socket": {"group": "no-such"}, "tcp"'),
                               "no group"),
                              (good.replace("127.0.0.1:%d" % self.port, "203.0.113.1:1"), "bind")):
            daemon.write_config(bad)
            successor = self.watch(daemon.spawn(args=["--takeover"]))
            self.assertEqual(successor.child.wait(WAIT_S), 1)
            self.assertIn(sentence, successor.output())
        daemon.write_config(good)
        self.still_serves(daemon, sim, callers, daemon.process.pid)

    def test_a_configuration_refused_by_the_store_is_rolled_back(self):
        sim, daemon = self.setting(instance="one")
        callers = self.load(daemon)
        good = daemon.config.read_text()
        daemon.write_config(good.replace('"one"', '"two"'))  # found only with the store open
        successor = self.watch(daemon.spawn(args=["--takeover"]))
        self.assertEqual(successor.child.wait(WAIT_S), 1)
        self.assertIn("instance is 'two'", successor.output())
        wait_until(lambda: "upgrade.failed" in daemon.process.output(), "rolled back")
        # The running daemon has gone back with the configuration it had, not with the file.
        self.assertEqual(self.client(daemon).get("/v1/version").json["instance"], "one")
        daemon.write_config(good)
        self.still_serves(daemon, sim, callers, daemon.process.pid)

    def test_told_to_stop_under_way(self):
        """The old one stops as asked, and the next one starts as after any stop."""
        sim, daemon = self.setting()
        lease = self.assertOk(daemon.acquire("t"))
        old = self.watch(daemon.process)
        peer = Peer(daemon)
        self.addCleanup(peer.close)
        peer.send(b"H", {"protocol": 1, "version": "0", "schema": 99})
        peer.receive()
        old.child.send_signal(signal.SIGTERM)
        self.assertEqual(old.child.wait(WAIT_S), 0)
        self.assertEqual(peer.receive()[0], b"")
        daemon.process = self.watch(daemon.spawn(args=["--takeover"]))
        daemon.wait_ready()
        self.assertEqual(self.assertOk(daemon.acquire("t"))["box_id"], lease["box_id"])
        self.check_leases(daemon, sim, [])

    def one_point(self, name):
        sim, daemon = self.setting()
        of_old = ".old_" in name
        hit = ":2" if name == "takeover.old_giving" else ""  # one connection is over, others not
        if of_old:
            daemon.stop()
            daemon.start(env={"SANDPOOL_CRASH_AT": name + hit})
        callers = self.load(daemon)
        old = self.watch(daemon.process)
        new = self.watch(daemon.spawn({} if of_old else {"SANDPOOL_CRASH_AT": name},
                                      args=["--takeover"]))
        dead = old if of_old else new
        self.assertEqual(dead.child.wait(WAIT_S), -9)
        ends = {"takeover.new_ended"}  # it had taken over: its crash is like any other
        without_sockets = {"takeover.old_asked"}  # nothing was handed over yet: nobody listens
        if name in ends:
            self.assertEqual(old.child.wait(WAIT_S), 0)
            for caller in callers:
                caller.stop.set()
            for caller in callers:
                caller.join(WAIT_S * 2)
            daemon.start()
        else:
            daemon.process = new if of_old else old
            daemon.wait_ready()
        if not of_old and name not in ends:
            self.still_serves(daemon, sim, callers, old.pid)
            return
        for caller in callers:  # those whose request the dead one had, have lost it
            caller.stop.set()
        for caller in callers:
            caller.join(WAIT_S * 2)
            self.assertFalse(caller.failure and "refused" in caller.failure.lower()
                             and name not in ends | without_sockets, caller.failure)
        self.assertTrue(daemon.process.is_running())
        client = self.client(daemon)
        for caller in callers:
            box = self.assertOk(client.acquire(caller.name))
            self.assertEqual((box["box_id"], box["generation"]),
                             (caller.lease["box_id"], caller.lease["generation"]))

    def test_kill_9_at_every_step(self):
        names = [n for n in fault_names() if n.startswith("takeover.")]
        if not names:
            self.skipTest("this build has no crash points")
        for name in names + ["recover.after_load", "recover.after_list", "engine.before_listen"]:
            with self.subTest(point=name):
                self.setUp()
                try:
                    self.one_point(name)
                finally:
                    self.doCleanups()

    def test_a_reader_that_takes_nothing_holds_up_nobody(self):
        sim, daemon = self.setting()
        callers = self.load(daemon)
        slow = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # reads nothing of a long answer
        self.addCleanup(slow.close)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(str(daemon.socket))
        ask = b"GET /v1/sandboxes?limit=1000 HTTP/1.1\r\n\r\n"
        slow.setblocking(False)
        sent = 0
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and sent < 4_000_000:
            try:
                sent += slow.send(ask * 100)
            except BlockingIOError:
                time.sleep(0.05)
        self.takeover(daemon)
        self.assertIn("upgrade.readers_cut", daemon.process.output())
        slow.close()
        self.still_serves(daemon, sim, callers, daemon.process.pid)


class Hostile(TakeoverCase):
    def peer(self, daemon):
        peer = Peer(daemon)
        self.addCleanup(peer.close)
        return peer

    def assertUnmoved(self, daemon):
        pid = self.client(daemon).get("/v1/version").json["pid"]
        self.assertEqual(pid, daemon.process.pid)
        self.takeover(daemon)

    def test_garbage_and_wrong_words(self):
        _, daemon = self.setting()
        hello = {"protocol": 1, "version": "0", "schema": 99}
        for kind, value in ((b"", b"\0"), (b"H", b"{"), (b"H", b"x" * 32000), (b"Y", b""),
                            (b"R", b""), (b"D", b""), (b"H", {"protocol": "1"}),
                            (b"H", {**hello, "protocol": 2}), (b"H", b"[]")):
            peer = self.peer(daemon)
            peer.send(kind, value)
            said, _, fds = peer.receive()
            self.assertIn((said, fds), ((b"N", 0), (b"", 0)), (kind, value))
        peer = self.peer(daemon)
        peer.send(b"H", hello)
        self.assertEqual(peer.receive()[::2], (b"O", 2))
        peer.send(b"D")
        self.assertEqual(peer.receive()[0], b"N")
        self.assertUnmoved(daemon)

    def test_descriptors_that_nobody_asked_for_are_closed(self):
        _, daemon = self.setting()

        def count_null():
            count = 0
            for fd in pathlib.Path(f"/proc/{daemon.process.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # another one was closed meanwhile
                    count += os.readlink(fd) == "/dev/null"
            return count

        before = count_null()
        with open("/dev/null", encoding="ascii") as null:
            for packet in ([b""], [b"H{}"], [b"H" + b"x" * 40000], [b"D"]):
                for count in (1, 5, 100):
                    peer = self.peer(daemon)
                    socket.send_fds(peer.socket, packet, [null.fileno()] * count)
                    wait_until(lambda: peer.receive()[0] in (b"", b"N"), "it is over")
        self.assertEqual(count_null(), before)
        self.assertUnmoved(daemon)

    def test_a_successor_that_does_not_know_the_database_is_refused(self):
        _, daemon = self.setting()
        peer = self.peer(daemon)
        peer.send(b"H", {"protocol": 1, "version": "0", "schema": 0})
        said, why, _ = peer.receive()
        self.assertEqual(said, b"N")
        self.assertIn("schema version", why)
        self.assertUnmoved(daemon)

    def test_silence_is_given_up(self):
        _, daemon = self.setting()
        mute = self.peer(daemon)
        client = self.client(daemon)
        self.assertOk(client.get("/healthz"))
        self.assertEqual(mute.receive()[0], b"N")
        half = self.peer(daemon)
        half.send(b"H", {"protocol": 1, "version": "0", "schema": 99})
        self.assertEqual(half.receive()[0], b"O")
        second = self.peer(daemon)  # one at a time
        self.assertIn("under way", second.receive()[1])
        self.assertOk(client.get("/healthz"))
        self.assertEqual(half.receive()[0], b"N")
        self.assertUnmoved(daemon)

    def test_one_that_says_ready_and_leaves(self):
        _, daemon = self.setting()
        client = self.client(daemon)
        for wait in (False, True):
            peer = Peer(daemon)
            peer.send(b"H", {"protocol": 1, "version": "0", "schema": 99})
            peer.receive()
            peer.send(b"R")
            while wait and peer.receive()[0] != b"Y":
                pass
            peer.close()
            self.assertOk(client.get("/healthz"))  # the connection it was shown is still ours
            wait_until(lambda: re.search("upgrade.(given_up|failed)", daemon.process.output()),
                       "its end is seen")
        wait_until(lambda: "upgrade.failed" in daemon.process.output(), "gone back")
        self.assertUnmoved(daemon)

    def test_a_successor_that_hangs_is_ended(self):
        sim, daemon = self.setting()
        callers = self.callers(daemon, 2, timeout=60 + WAIT_S)
        wait_until(lambda: all(c.lease for c in callers), "all have a box")
        program = ("import socket, sys, time\n"
                   "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                   "s.connect(sys.argv[1]); s.send(b'H{\"protocol\":1,\"schema\":99}')\n"
                   "s.recv(70000); s.send(b'R')\n"
                   "while s.recv(70000)[:1] != b'Y': pass\n"
                   "time.sleep(600)\n")
        log = os.path.join(self.directory, "mute.log")
        mute = self.watch(Process(["python3", "-c", program, daemon.state / "takeover.sock"], log))
        self.assertEqual(mute.child.wait(40 + WAIT_S), -9, mute.output())
        self.finish(callers)  # they have waited, no more
        self.check_leases(daemon, sim, callers)
        self.assertUnmoved(daemon)

    def test_a_daemon_that_hangs_is_left_alone(self):
        _, daemon = self.setting()
        daemon.process.child.send_signal(signal.SIGSTOP)
        self.addCleanup(daemon.process.child.send_signal, signal.SIGCONT)
        successor = self.watch(daemon.spawn(args=["--takeover"]))
        self.assertEqual(successor.child.wait(10 + WAIT_S), 1)
        self.assertIn("does not answer", successor.output())
        daemon.process.child.send_signal(signal.SIGCONT)
        self.assertUnmoved(daemon)

    def test_a_newer_daemon_is_not_replaced_by_an_older_one(self):
        daemon = self.daemon(start=False)
        daemon.state.mkdir(mode=0o700)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(server.close)
        server.bind(str(daemon.state / "takeover.sock"))
        server.listen(1)
        server.settimeout(WAIT_S)
        successor = self.watch(daemon.spawn(args=["--takeover"]))
        connection, _ = server.accept()
        self.addCleanup(connection.close)
        self.assertEqual(connection.recv(70000)[:1], b"H")
        connection.send(b"O" + json.dumps({"protocol": 1, "schema": 99, "listeners": []}).encode())
        self.assertEqual(successor.child.wait(WAIT_S), 1)
        self.assertIn("schema version 99", successor.output())

    @unittest.skipUnless(os.geteuid() == 0, "needs root to be somebody else")
    def test_another_user_is_not_answered(self):
        _, daemon = self.setting()
        for directory in (self.directory, daemon.state):
            os.chmod(directory, 0o777)  # what only a mistake would do
        path = daemon.state / "takeover.sock"
        os.chmod(path, 0o777)
        program = ("import os, socket, sys; os.setuid(65534)\n"
                   "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(20)\n"
                   "s.connect(sys.argv[1])\n"
                   "try: s.send(b'H{\"protocol\":1,\"schema\":99}')"
                   "; print('heard', s.recv(70000))\n"
                   "except OSError: print('heard', b'')\n")
        log = os.path.join(self.directory, "stranger.log")
        stranger = Process(["python3", "-c", program, path], log)
        stranger.child.wait(WAIT_S)
        self.assertIn("heard b''", stranger.output())
        wait_until(lambda: "upgrade.stranger" in daemon.process.output(), "it is logged")
        os.chmod(daemon.state, 0o700)
        self.assertUnmoved(daemon)


if __name__ == "__main__":
    main()
