"""`sandpool top` on a terminal: a real daemon, keys, and what is then on the screen."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

from fixtures import BIN, WAIT_S, TestCase, main, wait_until

SEQUENCE = re.compile(r"\x1b(?:\[([?0-9;]*)([A-Za-z@`])|[()][A-Z0-9]|([=>78DM]))")


class Screen:
    """What a vt100 shows, as far as ncurses uses it. A control character that is not known is an error."""

    def __init__(self, rows, cols):
        self.rest = ""
        self.unknown = []
        self.resize(rows, cols)

    def resize(self, rows, cols):
        self.rows, self.cols = rows, cols
        self.cells = [[" "] * cols for _ in range(rows)]
        self.row = self.col = 0
        self.first, self.last = 0, rows - 1  # what scrolls
        self.kept = (0, 0)

    def feed(self, text):
        text = self.rest + text
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = SEQUENCE.match(text, at)
                if not found:
                    if len(text) - at > 24:
                        self.unknown.append(text[at:at + 24])
                        at += 1
                        continue
                    break  # the rest is still to come
                if found.group(2):
                    self.obey(found.group(1), found.group(2))
                elif found.group(3):
                    self.obey_short(found.group(3))
                at = found.end()
            else:
                self.put(text[at])
                at += 1
        self.rest = text[at:]

    def put(self, c):
        if c == "\r":
            self.col = 0
        elif c == "\n":
            self.obey_short("D")
        elif c == "\b":
            self.col = max(self.col - 1, 0)
        elif c == "\t":
            self.col = min(self.col // 8 * 8 + 8, self.cols - 1)
        elif c in "\0\x0e\x0f\x07":
            pass
        elif c < " ":
            self.unknown.append(c)
        else:
            if self.col < self.cols:
                self.cells[self.row][self.col] = c
            self.col = min(self.col + 1, self.cols)

    def obey_short(self, command):
        if command == "7":
            self.kept = (self.row, self.col)
        elif command == "8":
            self.row, self.col = self.kept
        elif command == "D" and self.row == self.last:
            del self.cells[self.first]
            self.cells.insert(self.last, [" "] * self.cols)
        elif command == "D":
            self.row = min(self.row + 1, self.rows - 1)
        elif command == "M" and self.row == self.first:
            del self.cells[self.last]
            self.cells.insert(self.first, [" "] * self.cols)
        elif command == "M":
            self.row = max(self.row - 1, 0)

    def obey(self, text, command):
        numbers = [int(n) if n.isdigit() else 0 for n in text.split(";")] if text else []
        n = max(numbers[0], 1) if numbers else 1
        if command == "H":
            row, col = (numbers + [1, 1])[:2] if len(numbers) != 1 else (numbers[0], 1)
            self.row, self.col = min(max(row, 1), self.rows) - 1, min(max(col, 1), self.cols) - 1
        elif command in "AB":
            self.row = min(max(self.row + (n if command == "B" else -n), 0), self.rows - 1)
        elif command in "CD":
            self.col = min(max(self.col + (n if command == "C" else -n), 0), self.cols - 1)
        elif command == "J":
            whole = numbers and numbers[0] == 2
            if not whole:
                self.obey("", "K")
            for row in range(0 if whole else self.row + 1, self.rows):
                self.cells[row] = [" "] * self.cols
        elif command == "K":
            first, last = (0, self.col + 1) if numbers and numbers[0] == 1 else (self.col, self.cols)
            self.cells[self.row][first:last] = [" "] * (min(last, self.cols) - first)
        elif command == "r":
            first, last = (numbers + [1, self.rows])[:2] if len(numbers) != 1 else (numbers[0], self.rows)
            self.first, self.last = max(first, 1) - 1, min(last, self.rows) - 1
            self.row = self.col = 0
        elif command not in "mhl":
            self.unknown.append((text, command))

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)


class Top(TestCase):
    def setUp(self):
        super().setUp()
        self.machine = self.daemon({"warm": {"min": 2, "max": 4}})
        self.http = self.client(self.machine)
        self.wait_blank(self.http, 2)
        for user, thread in (("ana", "one"), ("bob", "two")):
            self.assertOk(self.http.acquire(thread, user_id=user))

    def open(self, *args, rows=24, cols=110, term="vt100"):
        self.master, self.slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        self.addCleanup(os.close, self.slave)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.screen = Screen(rows, cols)
        self.child = subprocess.Popen(
            [BIN / "sandpool", "top", "--interval", "200ms", *args], stdin=self.slave, stdout=self.slave, stderr=self.slave,
            start_new_session=True,
            env={**os.environ, "TERM": term, "LC_ALL": "C.UTF-8", "SANDPOOL_SOCKET": str(self.machine.socket)},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(self.end)

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait(WAIT_S)

    def look(self):
        while select.select([self.master], [], [], 0.02)[0]:
            self.screen.feed(os.read(self.master, 65536).decode(errors="replace"))
        return self.screen.text()

    def wait_for(self, wanted, absent=None):
        try:
            wait_until(lambda: wanted in self.look() and (absent is None or absent not in self.look()), wanted)
        except AssertionError:
            self.fail(f"{wanted!r} and not {absent!r} in\n{self.screen.text()}")

    def press(self, keys):
        os.write(self.master, keys.encode())

    def resize(self, rows, cols):
        self.look()
        self.screen.resize(rows, cols)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def leave(self, status=0):
        wait_until(lambda: self.look() is not None and self.child.poll() is not None, "it ends")
        self.assertEqual(self.child.returncode, status)
        self.assertEqual(termios.tcgetattr(self.slave), self.before)
        self.assertEqual(self.screen.unknown, [])

    def states(self):
        return {box["thread_id"]: box["state"] for box in self.http.get("/v1/sandboxes").json["sandboxes"]}

    def test_keys(self):
        self.open()
        self.wait_for("ana/one")
        self.wait_for("32M")
        self.wait_for("bob/two")
        self.press("/ana\r")
        self.wait_for("with ana", absent="bob/two")
        self.press("\r")
        self.wait_for("thread_id")
        self.press("j" * 20)  # the rest does not fit
        self.wait_for("memory_bytes")
        self.press("q")
        self.wait_for("with ana", absent="thread_id")
        self.press("o")
        self.wait_for("by CPU")
        self.press("?")
        self.wait_for("a shell in it")
        self.press(" ")
        self.wait_for("by CPU", absent="a shell in it")
        self.press("d")
        self.wait_for("? y/n")
        self.press("n")
        self.wait_for("Nothing was done.")
        self.assertEqual(self.states()["one"], "leased")
        self.press("dy")
        wait_until(lambda: "one" not in self.states(), "it is destroyed")
        self.wait_for("is being destroyed")
        self.press("\x1b")
        self.wait_for("bob/two", absent="ana/one")
        self.assertEqual(self.states()["two"], "leased")
        self.press("q")
        self.leave()

    def test_pause_of_a_profile(self):
        self.open()
        self.wait_for("ana/one")
        self.press("\tp")
        self.wait_for("Pause profile default? y/n")
        self.press("y")
        self.wait_for("default is paused.")
        self.assertEqual(self.http.get("/v1/pool").json["profiles"][0]["mode"], "paused")
        self.assertEqual(self.http.get("/v1/pool").json["mode"], "running")
        self.press("py")
        self.wait_for("default serves again.")
        self.assertEqual(self.http.get("/v1/pool").json["profiles"][0]["mode"], "running")
        self.press("q")
        self.leave()

    def test_sizes_of_the_window(self):
        self.open()
        self.wait_for("ana/one")
        self.assertNotIn("I/O", self.look().splitlines()[0])
        for rows, cols, wanted in ((5, 20, "default"), (3, 60, "too small: 20 x 5 is the least"), (60, 200, "ana/one"), (24, 80, "? help")):
            self.resize(rows, cols)
            self.wait_for(wanted)
        self.press("q")
        self.leave()

    def test_daemon_that_goes_away(self):
        self.open()
        self.wait_for("ana/one")
        self.machine.stop()
        self.wait_for("no daemon listens")
        self.assertIn("ana/one", self.look())
        self.machine.start()
        self.wait_for("box:", absent="no daemon listens")
        self.press("q")
        self.leave()

    def test_shell(self):
        """Boxes of this backend have none: its failure is shown, then the screen is back."""
        self.open()
        self.wait_for("ana/one")
        self.press("/ana\rs")
        self.wait_for("Press Enter to go back")
        self.press("\r")
        self.wait_for("with ana", absent="Press Enter")
        self.press("\x1b")
        self.wait_for("bob/two")
        os.kill(self.child.pid, signal.SIGTERM)  # signals are as they were
        self.leave(128 + signal.SIGTERM)

    def test_ends(self):
        self.open()
        self.wait_for("ana/one")
        self.press("\x03")
        self.leave(128 + signal.SIGINT)
        self.open(term="no-such-terminal")
        wait_until(lambda: "--once" in self.look(), "a sentence")
        self.leave(1)
        self.open()
        self.wait_for("ana/one")
        os.kill(self.child.pid, signal.SIGTERM)
        self.leave(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
