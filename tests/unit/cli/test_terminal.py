"""`sandpool run -t`: our terminal, a real one, and one in a box (a real agent) joined by one connection."""

import fcntl
import hashlib
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time

from run_case import WAIT_S, Relay, RunTest, main, wait_until


class TerminalCase(RunTest):
    def setUp(self):
        super().setUp()
        self.master, self.slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        self.addCleanup(os.close, self.slave)
        self.resize(30, 100)
        self.before = termios.tcgetattr(self.slave)

    def resize(self, rows, cols):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def start_tty(self, *args, **kw):
        kw.setdefault("stdin", self.slave)
        return self.spawn("-t", *args, stdout=self.slave, **kw)

    def relay(self, **kw):
        relay = Relay(self.port, **kw)
        self.addCleanup(relay.close)
        self.leases.url = f"http://127.0.0.1:{relay.port}"
        return relay

    def assertRestored(self):
        self.assertEqual(termios.tcgetattr(self.slave), self.before)

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def read_all(self, child):
        """Until the program has ended and all was read."""
        got = b""
        while True:
            ready, _, _ = select.select([self.master], [], [], 0.05)
            if ready:
                got += os.read(self.master, 65536)
            elif child.poll() is not None:
                return got.replace(b"\r\n", b"\n")


class Terminal(TerminalCase):
    def test_shell_on_one_connection(self):
        relay = self.relay()
        child = self.start_tty("sh", "-c", "stty size; test -t 0 && echo tty $TERM; trap 'stty size' WINCH; echo on; "
                                           "while ! read x; do :; done; echo got $x; exit 6")
        self.assertIn(b"30 100", self.read_until(self.master, b"on\r\n"))
        self.assertTrue(self.is_raw(), "while it runs")
        self.resize(20, 50)
        child.send_signal(signal.SIGWINCH)
        self.read_until(self.master, b"20 50")
        os.write(self.master, b"word\r")
        self.read_until(self.master, b"got word")
        self.assertEqual(child.wait(WAIT_S), 6)
        self.assertRestored()
        self.assertEqual(relay.connections, 1)

    def test_interrupt_is_a_key(self):
        child = self.start_tty("sh", "-c", "trap 'echo caught; exit 4' INT; echo on; while :; do sleep 0.02; done")
        self.read_until(self.master, b"on")
        os.write(self.master, b"\x03")
        self.read_until(self.master, b"caught")
        self.assertEqual(child.wait(WAIT_S), 4)

    def test_end_of_input_is_a_key(self):
        child = self.start_tty("sh", "-c", "echo on; cat; echo over")
        self.read_until(self.master, b"on")
        os.write(self.master, b"line\r")
        self.read_until(self.master, b"line\r\nline\r\n")
        os.write(self.master, b"\x04")
        self.read_until(self.master, b"over")
        self.assertEqual(child.wait(WAIT_S), 0)

    def test_input_that_ends(self):
        """Not from a terminal: its end is one there, too."""
        child = self.start_tty("sh", "-c", "stty -echo; cat; echo over", stdin=subprocess.PIPE)
        child.stdin.write(b"line\n")
        child.stdin.close()
        self.read_until(self.master, b"over")
        self.assertEqual(child.wait(WAIT_S), 0)
        child.stdin = None

    def test_restored_after_failures(self):
        for args, status in ((["no-such-program"], 127), (["--timeout", "100ms", "sleep", "300"], 124)):
            child = self.start_tty(*args)
            self.assertEqual(child.wait(WAIT_S), status)
            self.assertRestored()
        child = self.start_tty("sh", "-c", "echo on; sleep 300")
        self.read_until(self.master, b"on")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(WAIT_S), 128 + signal.SIGTERM)
        self.assertRestored()

    def test_pasted_megabyte(self):
        data = os.urandom(1 << 20)
        child = self.start_tty("sh", "-c", f"stty raw -echo; echo on; head -c {len(data)} | md5sum")
        self.read_until(self.master, b"on")
        writer = threading.Thread(target=self.paste, args=(data,))
        writer.start()
        self.addCleanup(writer.join, WAIT_S)
        self.read_until(self.master, hashlib.md5(data).hexdigest().encode())
        self.assertEqual(child.wait(WAIT_S), 0)

    def paste(self, data):
        while data:
            data = data[os.write(self.master, data[:4096]):]

    def test_signal_passes_input_that_nobody_reads(self):
        child = self.start_tty("sh", "-c", "stty raw -echo; echo on; exec sleep 300", stdin=subprocess.PIPE)
        self.read_until(self.master, b"on")
        writer = threading.Thread(target=self.flood, args=(child.stdin,))
        writer.start()
        wait_until(lambda: self.flooded > 300_000 and self.is_flood_stuck(), "the input is full everywhere")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(WAIT_S), 128 + signal.SIGTERM)
        writer.join(WAIT_S)
        self.assertRestored()

    flooded = 0

    def flood(self, pipe):
        try:
            while True:
                self.flooded += os.write(pipe.fileno(), b"x" * 4096)
        except OSError:
            pass  # the program has ended

    def is_flood_stuck(self):
        before = self.flooded
        time.sleep(0.3)
        return self.flooded == before

    def test_slow_reader_gets_everything(self):
        child = self.start_tty("sh", "-c", "stty -opost; seq 1 200000")
        got = b""
        while len(got) < 100_000:  # a few bytes at a time, while the rest waits in the box
            got += os.read(self.master, 512)
        got += self.read_all(child)
        self.assertEqual(got.replace(b"\r\n", b"\n").split(), [b"%d" % i for i in range(1, 200001)])
        self.assertEqual(child.wait(WAIT_S), 0)


class Broken(TerminalCase):
    def test_connection_is_taken_up(self):
        """Cut in the handshake, and in the middle of the output twice."""
        relay = self.relay(cuts=[1500, 200, 70_001, 100_000])
        child = self.start_tty("sh", "-c", "stty -opost -echo; seq 1 50000; read x; echo got $x; exit 5")
        got = self.read_until(self.master, b"50000").replace(b"\r\n", b"\n")
        self.assertEqual(relay.done, 4)
        wait_until(self.is_raw, "raw again")
        os.write(self.master, b"word\n")
        got += self.read_until(self.master, b"got word")
        self.assertEqual(child.wait(WAIT_S), 5)
        self.assertEqual(got.split()[:50000], [b"%d" % i for i in range(1, 50001)])
        self.assertRestored()
        self.assertEqual(child.stderr.read(), b"\nsandpool: the connection broke; trying again\n", "of the second in a row")

    def test_input_on_its_way(self):
        """It is not known whether the command got it: no terminal, so nobody would notice."""
        self.relay(input_cuts=[100_000])
        child = self.start_tty("sh", "-c", "stty raw -echo; echo on; cat > /dev/null", stdin=subprocess.PIPE)
        self.read_until(self.master, b"on")
        writer = threading.Thread(target=self.flood, args=(child.stdin,))
        writer.start()
        self.assertEqual(child.wait(WAIT_S), 125)
        writer.join(WAIT_S)
        self.assertRegex(child.stderr.read(), rb"(?m)^sandpool: the connection to the box broke.*'sandpool get' shows")
        wait_until(lambda: self.running() == [] or self.leases.released(), "the box is given back")

    flood = Terminal.flood
    flooded = 0

    def test_agent_that_dies(self):
        child = self.start_tty("sh", "-c", "echo at $$ on; exec sleep 300")
        text = self.read_until(self.master, b"on\r\n")
        self.addCleanup(os.kill, int(text.split()[1]), signal.SIGKILL)  # the agent cannot end it any more
        self.assertTrue(self.is_raw())
        self.agent.kill()
        self.assertEqual(child.wait(WAIT_S), 125)
        self.assertRestored()
        self.assertRegex(child.stderr.read(), rb"(?m)^sandpool: cannot connect to the box.*'sandpool get' shows")
        self.assertDestroyed()

    def stop_agent(self):
        if self.agent.poll() is None:
            super().stop_agent()
        else:
            self.agent.stdout.close()


if __name__ == "__main__":
    main()
