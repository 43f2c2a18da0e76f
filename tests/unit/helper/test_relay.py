"""The relay beside a box: bytes both ways, many callers, slow and silent ones; and the connector behind it, with
a box that puts something else in the place of its socket."""

import hashlib
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time

from helper_client import WAIT_S, at_most, main, wait_until
from relay_case import ID, MAX, MEMORY, MIB, NAME, NEW_MAX, Listening, RelayCase, echo, read_all, start_beside


class RelayTest(RelayCase):
    def test_both_ways_and_half_closed(self):
        def serve(connection):
            data = read_all(connection)  # the caller's end comes through
            connection.sendall(hashlib.sha256(data).digest() + data)
        self.inside(serve)
        data = os.urandom(3 * MIB)
        s = self.call()
        sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        sender.start()
        answer = read_all(s)
        sender.join()
        self.assertEqual(answer, hashlib.sha256(data).digest() + data)

    def test_big_transfers_with_flat_memory(self):
        total = 256 * MIB

        def serve(connection):
            if connection.recv(1) == b"d":
                chunk = bytes(MIB)
                for _ in range(total // MIB):
                    connection.sendall(chunk)
            else:
                left = total
                while left > 0:
                    left -= len(connection.recv(MIB))
                connection.sendall(b"!")
        self.inside(serve)
        s = self.call(60)
        begin = time.monotonic()
        s.sendall(b"d")
        self.assertEqual(sum(iter(lambda: len(s.recv(MIB)), 0)), total)
        down = total / MIB / (time.monotonic() - begin)
        s = self.call(60)
        begin = time.monotonic()
        s.sendall(b"u")
        chunk = bytes(MIB)
        for _ in range(total // MIB):
            s.sendall(chunk)
        self.assertEqual(s.recv(1), b"!")
        up = total / MIB / (time.monotonic() - begin)
        print(f"relay: {down:.0f} MiB/s out of the box, {up:.0f} MiB/s into it")
        self.assertLess(self.memory(), MEMORY)

    def test_what_the_box_said_before_it_closed_arrives(self):
        def serve(connection):
            connection.sendall(b"too much" * 1000)  # and the rest is not read
        self.inside(serve)
        for _ in range(50):
            s = self.call()
            s.sendall(b"x")
            self.assertEqual(read_all(s), b"too much" * 1000)

    def test_a_caller_that_goes_on_talking_gets_the_whole_answer_of_a_box_that_closed(self):
        answer = os.urandom(MIB) * 4
        closed = threading.Event()

        def serve(connection):
            connection.recv(1)
            connection.sendall(answer)
            connection.close()
            closed.set()
        self.inside(serve)
        s = self.call()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        s.sendall(b"x")
        got = b""
        while not closed.wait(0.001):
            got += s.recv(65536)
        s.sendall(b"nobody reads this")
        self.assertLess(len(got), len(answer))
        self.assertEqual(got + read_all(s), answer)
        s.close()
        self.assertTrue(wait_until(lambda: self.descriptors() == self.IDLE), self.descriptors())

    def test_callers_that_the_box_has_closed_take_no_place(self):
        self.raise_limit()

        def serve(connection):
            if connection.recv(1) == b"e":
                echo(connection)
        self.inside(serve)
        held = []
        for _ in range(MAX + 100):
            held.append(self.call())
            held[-1].sendall(b"G")
        begin = time.monotonic()
        s = self.call(5)
        s.sendall(b"ehello")
        self.assertEqual(s.recv(100), b"hello")
        self.assertLess(time.monotonic() - begin, at_most(1))
        s.close()
        for s in held:
            self.assertEqual(s.recv(10), b"")
        # They stay, the relay does not wait for them.
        self.assertTrue(wait_until(lambda: self.descriptors() == self.IDLE), self.descriptors())

    def test_the_unix_socket_leads_there_too(self):
        def serve(connection):
            if connection.recv(1) == b"s":
                connection.sendall(b"too much" * 1000)  # and the rest is not read
            else:
                connection.sendall(hashlib.sha256(read_all(connection)).digest())
        self.inside(serve)
        data = os.urandom(3 * MIB)
        for call in (self.call_locally, self.call) * 20:
            s = call()
            s.sendall(b"w" + data[:70000])
            s.shutdown(socket.SHUT_WR)
            self.assertEqual(read_all(s), hashlib.sha256(data[:70000]).digest())
            s = call()
            s.sendall(b"s")
            self.assertEqual(read_all(s), b"too much" * 1000)
        s = self.call_locally()
        s.sendall(b"w" + data)
        s.shutdown(socket.SHUT_WR)
        self.assertEqual(read_all(s), hashlib.sha256(data).digest())
        self.assertTrue(wait_until(lambda: self.descriptors() == self.IDLE), self.descriptors())

    # --- many and slow ---

    def test_a_slow_reader_slows_only_itself(self):
        def serve(connection):
            if connection.recv(1) == b"e":
                echo(connection)
            while True:
                connection.sendall(bytes(MIB))
        self.inside(serve)
        slow = [self.call() for _ in range(20)]
        for s in slow:
            s.sendall(b"d")
        time.sleep(0.5)
        before = self.memory()
        for _ in range(50):
            s = self.call()
            begin = time.monotonic()
            s.sendall(b"ehello")
            self.assertEqual(s.recv(100), b"hello")
            self.assertLess(time.monotonic() - begin, at_most(1))
            s.close()
        self.assert_idle()
        self.assertLess(self.memory(), before + MIB)
        self.assertLess(self.memory(), MEMORY)
        self.assertEqual(len(slow[0].recv(1000, socket.MSG_WAITALL)), 1000)

    def test_more_callers_than_fit_wait_for_their_turn(self):
        self.raise_limit()
        server = self.inside(echo)

        def crowd(count):
            callers = [self.call() for _ in range(count)]
            for s in callers:
                s.sendall(b"hi")
            return callers
        callers = crowd(MAX)
        for s in callers:  # before more come: who is noticed late would be among those that wait
            self.assertEqual(s.recv(10), b"hi")
        callers += crowd(100)
        self.assertEqual(server.count, MAX)
        self.assert_idle()
        for s in callers[:100]:
            s.close()
        for s in callers[MAX:]:
            self.assertEqual(s.recv(10), b"hi")
        for s in callers:
            s.close()
        self.assertTrue(wait_until(lambda: self.descriptors() == self.IDLE), self.descriptors())
        for _ in range(3000):  # nothing is left of short ones
            s = self.call()
            s.sendall(b"hi")
            self.assertEqual(s.recv(10), b"hi")
            s.close()
        self.assertTrue(wait_until(lambda: self.descriptors() == self.IDLE), self.descriptors())
        self.assertLess(self.memory(), MEMORY)

    def test_a_caller_that_breaks_off_is_forgotten_though_the_box_reads_nothing(self):
        self.inside(lambda connection: time.sleep(60))
        for _ in range(20):
            s = self.call()
            s.setblocking(False)
            try:
                while True:
                    s.send(bytes(MIB))  # until both queues are full
            except BlockingIOError:
                pass
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        self.assertTrue(wait_until(lambda: self.descriptors() == self.IDLE), self.descriptors())
        self.assert_idle()

    def test_a_box_that_takes_no_connections_stops_nobody_else(self):
        inside = self.inside(None)
        s = self.call()
        s.sendall(b"x")
        taken = inside.accept()
        waiting = [self.call() for _ in range(100)]
        for w in waiting:
            w.sendall(b"z")
        self.assertEqual(taken.recv(10), b"x")
        taken.sendall(b"y")
        self.assertEqual(s.recv(10), b"y")
        self.assert_idle()
        for _ in waiting:  # it thinks better of it
            with inside.accept() as connection:
                self.assertEqual(connection.recv(10), b"z")
        taken.close()

    # --- callers that say nothing ---

    def test_the_silent_cost_the_box_nothing_and_push_out_each_other(self):
        self.raise_limit()
        server = self.inside(echo)
        kept = self.call()
        kept.sendall(b"kept")
        self.assertEqual(kept.recv(10), b"kept")
        silent = [self.call() for _ in range(NEW_MAX + 50)]
        for _ in range(20):
            self.assert_works()
        self.assertEqual(server.count, 21)
        self.assertEqual(silent[0].recv(10), b"")  # the oldest had to go
        silent[-1].sendall(b"late")
        self.assertEqual(silent[-1].recv(10), b"late")
        kept.sendall(b"still")
        self.assertEqual(kept.recv(10), b"still")
        for s in silent:
            s.close()
        kept.close()
        self.assertTrue(wait_until(lambda: self.descriptors() == self.IDLE), self.descriptors())

    def test_two_flooders_do_not_keep_out_who_has_something_to_say(self):
        self.inside(echo)
        flood = ("import socket, sys\nheld = []\n"
                 "while True:\n"
                 "    try:\n        s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=5)\n"
                 "    except OSError:\n        continue\n"
                 "    held.append(s)\n"
                 "    if len(held) > 800:\n        held.pop(0).close()\n")
        flooders = [subprocess.Popen([sys.executable, "-c", flood, str(self.port)]) for _ in range(2)]
        try:
            self.assertTrue(wait_until(lambda: self.descriptors() > NEW_MAX))
            took = []
            for _ in range(50):
                begin = time.monotonic()
                self.assert_works()
                took.append(time.monotonic() - begin)
        finally:
            for p in flooders:
                p.kill()
                p.wait()
        self.assertLess(sorted(took)[25], at_most(0.2))
        self.assertLess(max(took), at_most(5))

    # --- the process ---

    def test_it_has_no_privileges(self):
        self.assertEqual(self.status("Uid"), [str(ID)] * 4)
        self.assertEqual(self.status("Gid"), [str(ID)] * 4)
        self.assertEqual(self.status("Groups"), [])
        for key in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(self.status(key)[0], 16), 0, key)
        self.assertEqual(self.status("NoNewPrivs"), ["1"])
        self.assertEqual(self.status("Seccomp"), ["2"])
        self.assertEqual(self.status("Name"), ["sandpool-relay"])

    def test_it_ends_with_the_box(self):
        self.inside(echo)
        s = self.call()
        s.sendall(b"x")
        self.assertEqual(s.recv(1), b"x")
        begin = time.monotonic()
        self.end_of_box()
        self.assertEqual(self.relay.wait(WAIT_S), 0)
        self.assertLess(time.monotonic() - begin, at_most(1))
        try:
            self.assertEqual(s.recv(1), b"")
        except ConnectionResetError:
            pass
        with self.assertRaises(ConnectionRefusedError):
            self.call()

    def test_what_the_box_said_last_arrives(self):
        def serve(connection):
            connection.recv(1)
            connection.sendall(b"farewell")
            self.end_of_box()
        self.inside(serve)
        s = self.call()
        s.sendall(b"x")
        self.assertEqual(read_all(s), b"farewell")

    def end_of_box(self):
        try:
            self.channel.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the relay has ended

    def test_it_ends_when_the_box_speaks_through_the_channel(self):
        self.channel.send(b"x")
        self.assertEqual(self.relay.wait(WAIT_S), 0)

    def test_it_ends_when_its_leash_is_pulled(self):
        """In the place of the lock: the agent of a container has the channel, and nobody can make it end."""
        os.mkfifo(self.top / "leash", 0o600)
        leash = os.open(self.top / "leash", os.O_RDONLY | os.O_NONBLOCK)
        lock, self.lock = self.lock, leash
        first, channel = self.relay, self.channel
        self.start_relay()
        self.lock = lock
        os.close(leash)
        self.inside(echo)
        self.assert_works()
        os.close(os.open(self.top / "leash", os.O_WRONLY | os.O_NONBLOCK))
        self.assertEqual(self.relay.wait(WAIT_S), 0)
        self.assertIsNone(first.poll())
        self.channel.close()
        self.relay, self.channel = first, channel

    def test_the_lock_is_held(self):
        self.assertIn(str(self.top / "lock"), [os.readlink(p) for p in
                                               pathlib.Path(f"/proc/{self.relay.pid}/fd").iterdir()])


class Connected(RelayTest):
    """With a connector behind it, as for a runtime that hands no descriptors in: the box is played by a
    server in this process and the init by another."""

    IDLE = 8
    test_it_ends_when_its_leash_is_pulled = None  # only containers have one

    def setUp(self):
        self.init = subprocess.Popen(["sleep", "600"])
        self.addCleanup(self.init.wait)
        self.addCleanup(self.init.kill)
        super().setUp()

    def start_relay(self):
        super().start_relay()
        self.dir = self.top / "run"
        self.dir.mkdir(mode=0o700)
        os.chown(self.dir, ID, ID)
        directory = os.open(self.dir, os.O_PATH)
        pid_fd = os.pidfd_open(self.init.pid)
        self.connector = start_beside(["connect", str(self.top), str(ID), NAME],
                                      [self.channel.fileno(), pid_fd, directory, self.lock])
        self.channel.close()
        os.close(directory)
        os.close(pid_fd)

    def end(self):
        self.init.kill()
        self.assertEqual(self.connector.wait(10), 0)
        self.assertEqual(self.relay.wait(10), 0)

    def end_of_box(self):
        self.init.kill()

    def inside(self, serve, **more):
        server = Listening(self.dir / NAME, serve, **more)
        self.addCleanup(server.close)
        return server

    test_it_ends_when_the_box_speaks_through_the_channel = None
    test_two_flooders_do_not_keep_out_who_has_something_to_say = None

    def test_both_end_with_either(self):
        self.relay.kill()
        self.relay.wait()
        self.assertEqual(self.connector.wait(5), 0)
        self.relay = self.connector

    def test_a_box_that_takes_no_connections_stops_nobody_else(self):
        taken = []
        server = self.inside(None, backlog=1)
        s = self.call()
        s.sendall(b"x")
        taken.append(server.accept())
        waiting = [self.call() for _ in range(20)]
        self.assertEqual(taken[0].recv(10), b"x")
        taken[0].sendall(b"y")
        self.assertEqual(s.recv(10), b"y")
        for w in waiting:
            w.sendall(b"z")
        self.assert_idle()
        for _ in waiting:  # it thinks better of it
            server.source.settimeout(10)
            connection = server.accept()
            self.assertEqual(connection.recv(10), b"z")
            taken.append(connection)
        for connection in taken:
            connection.close()

    def test_nothing_but_a_socket_in_its_place(self):
        inside = self.inside(echo)
        self.assert_works()
        outside = Listening(self.top / "outside.sock", echo)
        self.addCleanup(outside.close)
        os.chmod(self.top / "outside.sock", 0o777)
        place = self.dir / NAME
        kept = self.dir / "kept"
        place.rename(kept)
        self.assert_refused()  # nothing there
        for name, make in (("a link out", lambda: place.symlink_to(self.top / "outside.sock")),
                           ("a link to nowhere", lambda: place.symlink_to("/nowhere")),
                           ("a link to itself", lambda: place.symlink_to(NAME)),
                           ("a link inside", lambda: place.symlink_to("kept")),
                           ("a file", lambda: place.write_text("x")),
                           ("a pipe", lambda: os.mkfifo(place)),
                           ("a device", lambda: os.mknod(place, 0o20666, os.makedev(1, 5)))):
            with self.subTest(name):
                make()
                self.assert_refused()
                place.unlink()
        place.mkdir()
        self.assert_refused()
        place.rmdir()
        before = inside.count
        self.assertEqual(outside.count, 0)
        kept.rename(place)
        self.assert_works()
        self.assertEqual(inside.count, before + 1)

    def test_a_socket_of_somebody_else_is_not_its_to_open(self):
        self.inside(echo)
        os.chown(self.dir / NAME, 0, 0)
        os.chmod(self.dir / NAME, 0o600)
        self.assert_refused()


if __name__ == "__main__":
    main()
