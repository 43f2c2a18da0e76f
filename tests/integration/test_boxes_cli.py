"""`sandpool` for people who know docker and kubectl: commands, jobs, files and ports of real boxes, through the daemon."""

import http.client
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import termios
import time

from fixtures import BIN, WAIT_S, main, wait_until
from host import is_frozen
from oci_case import HAS_CGROUPS, BoxCase

COUNT = "for i in $(seq 1000); do echo line-$i; sleep 0.003; done"
COUNTED = "".join(f"line-{i}\n" for i in range(1, 1001))


class CommandLine(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 1}, "ttl_s": 3600, "park_timeout_s": 600}}

    def setUp(self):
        self.thread = self.id().rsplit(".", 1)[-1].replace("_", "-")
        self.box = self.acquire(self.thread)
        self.dir = pathlib.Path(self.home) / self.thread
        self.dir.mkdir()

    def popen(self, *args, **options):
        child = subprocess.Popen([BIN / "sandpool", "--socket", self.server.socket, *map(str, args)], cwd=self.dir, **options)
        self.addCleanup(self.reap, child)
        return child

    @staticmethod
    def reap(child):
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()

    def sandpool(self, *args, stdin=b"", expect=0):
        done = subprocess.run([BIN / "sandpool", "--socket", self.server.socket, *map(str, args)], cwd=self.dir,
                              input=stdin, capture_output=True, timeout=WAIT_S)
        self.assertEqual(done.returncode, expect, (args, done.stdout, done.stderr))
        return done

    # --- commands ---

    def test_exec(self):
        done = self.sandpool("exec", self.thread, "--", "sh", "-c", "echo out; echo err >&2; exit 3", expect=3)
        self.assertEqual((done.stdout, done.stderr), (b"out\n", b"err\n"))
        # by id, by user and thread; options on both sides; input only when it is asked for
        self.assertEqual(self.sandpool("exec", self.box.id, "cat", stdin=b"x").stdout, b"")
        self.assertEqual(self.sandpool("exec", f"default/{self.thread}", "-i", "--", "cat", stdin=b"x").stdout, b"x")
        done = self.sandpool("exec", "-e", "A=1", "-C", "/tmp", "--as", "root", self.thread, "--", "sh", "-c",
                             "echo $A; pwd; id -u")
        self.assertEqual(done.stdout, b"1\n/tmp\n0\n")
        self.assertEqual(self.sandpool("exec", "--user", "root", self.thread, "id", "-u").stdout, b"0\n")  # as with docker
        self.sandpool("exec", "--timeout", "200ms", self.thread, "sleep", "1000", expect=124)
        self.sandpool("exec", self.thread, "nosuchcommand", expect=127)
        done = self.sandpool("exec", "nosuchthread", "true", expect=125)
        self.assertIn(b"has no sandbox", done.stderr)

    def start_shell(self, *command):
        """The program, our end of its terminal, and what reads from that."""
        command = command or ("shell", self.thread)
        here, there = pty.openpty()
        before = termios.tcgetattr(there)
        child = self.popen(*command, stdin=there, stdout=there, stderr=there, start_new_session=True)
        self.addCleanup(os.close, there)  # kept open, to look at it when the program has ended
        self.addCleanup(os.close, here)
        seen = b""

        def read_until(pattern, what):
            nonlocal seen
            deadline = time.monotonic() + WAIT_S
            while not re.search(pattern, seen):
                self.assertLess(time.monotonic(), deadline, (what, seen[-500:]))
                if select.select([here], [], [], 1)[0]:
                    seen += os.read(here, 4096)

        self.is_raw = lambda: termios.tcgetattr(there) != before
        return child, here, read_until

    def test_terminal(self):
        child, here, read_until = self.start_shell()
        os.write(here, b"tty; echo $((6*7)); exit 5\n")
        read_until(rb"/dev/pts/\d+\r\n42\r\n", "it is a terminal")
        self.assertEqual(child.wait(WAIT_S), 5)
        self.assertFalse(self.is_raw())

    def test_terminal_keys(self):
        # sh, which leaves the modes of the terminal alone: keys that come while bash changes them may get lost
        child, here, read_until = self.start_shell("exec", "-it", self.thread, "sh")
        os.write(here, b"echo beg'un'; sleep 1000\n")
        read_until(rb"begun\r\n", "it sleeps")
        os.write(here, b"\x03")  # Ctrl-C is the shell's, not ours
        os.write(here, b"echo st'ill' here\n")
        read_until(rb"still here\r\n", "the shell lives")
        os.write(here, b"\x04")  # Ctrl-D
        self.assertEqual(child.wait(WAIT_S), 0)
        self.assertFalse(self.is_raw())

    def test_terminal_and_a_daemon_killed(self):
        child, here, read_until = self.start_shell("exec", "-it", self.thread, "sh")
        os.write(here, b"me=same; echo $((6*7))\n")
        read_until(rb"42\r\n", "the shell answers")
        self.server.kill()
        wait_until(lambda: not self.is_raw(), "the program has noticed")
        self.server.start()
        type(self).pool = self.server.client()
        wait_until(self.is_raw, "it is connected again")
        os.write(here, b"echo the $me $((7*7)); exit 3\n")
        read_until(rb"the same 49\r\n", "the same shell answers")
        self.assertEqual(child.wait(WAIT_S), 3)

    def test_terminal_of_a_box_that_goes(self):
        child, here, read_until = self.start_shell("exec", "-it", self.thread, "sh")
        os.write(here, b"echo $((6*7))\n")
        read_until(rb"42\r\n", "the shell answers")
        self.sandpool("rm", self.thread)
        read_until(rb"\nsandpool: ", "the reason")
        self.assertEqual(child.wait(WAIT_S), 125)
        self.assertFalse(self.is_raw())

    def test_jobs(self):
        job = self.sandpool("exec", "-d", self.thread, "--", "sh", "-c", "echo a; echo b >&2; exec sleep 1000").stdout.strip().decode()
        follower = self.popen("logs", "-f", self.thread, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((follower.stdout.readline(), follower.stderr.readline()), (b"a\n", b"b\n"))
        self.assertRegex(self.sandpool("jobs", self.thread).stdout.decode(), rf"(?m)^{job} +running .*sleep 1000")
        self.assertIn(b"killed SIGTERM", self.sandpool("kill", self.thread, job).stdout)
        self.assertEqual(follower.wait(WAIT_S), 0)
        done = self.sandpool("logs", self.box.id, job)
        self.assertEqual((done.stdout, done.stderr), (b"a\n", b"b\n"))
        self.assertIn(b"no such job; 'sandpool jobs ID' lists them", self.sandpool("logs", self.thread, "999", expect=1).stderr)
        self.sandpool("kill", self.thread, "x", expect=2)

    def test_daemon_killed_in_the_middle(self):
        child = self.popen("exec", self.thread, "--", "sh", "-c", COUNT, bufsize=0, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
        begun = child.stdout.read(1000)
        self.server.kill()
        self.server.start()
        type(self).pool = self.server.client()
        out, err = child.communicate(timeout=WAIT_S)
        self.assertEqual((begun + out).decode(), COUNTED, err)
        self.assertEqual(child.returncode, 0, err)

    def test_box_lost(self):
        child = self.popen("exec", self.thread, "--", "sh", "-c", "echo on; sleep 1000", bufsize=0, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
        self.assertEqual(child.stdout.readline(), b"on\n")
        self.sandpool("rm", self.thread)
        out, err = child.communicate(timeout=WAIT_S)
        self.assertEqual((child.returncode, out), (125, b""), err)
        self.assertNotEqual(err, b"")

    # --- files ---

    def test_files(self):
        data = os.urandom(3_000_000)
        (self.dir / "odd name %41.bin").write_bytes(data)
        (self.dir / "odd name %41.bin").chmod(0o750)
        self.sandpool("cp", "odd name %41.bin", f"{self.thread}:")
        self.assertEqual(self.sandpool("exec", self.thread, "stat", "-c", "%a %s", "odd name %41.bin").stdout, b"750 3000000\n")
        self.sandpool("cp", f"{self.thread}:odd name %41.bin", "back")
        self.assertEqual((self.dir / "back").read_bytes(), data)
        self.assertEqual((self.dir / "back").stat().st_mode & 0o777, 0o750)
        self.sandpool("cp", "-", f"{self.thread}:/tmp/deep/er/in.txt", stdin=b"from a pipe")
        self.assertEqual(self.sandpool("cp", f"{self.thread}:/tmp/deep/er/in.txt", "-").stdout, b"from a pipe")
        self.assertIn(b"there is no 'nosuch'", self.sandpool("cp", f"{self.thread}:nosuch", ".", expect=1).stderr)
        self.assertIn(b"No such file", self.sandpool("cp", "nosuch", f"{self.thread}:", expect=1).stderr)
        self.sandpool("cp", "a", "b", expect=2)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["back", "odd name %41.bin"], "no part is left")

    def test_trees(self):
        tree = self.dir / "tree"
        (tree / "sub").mkdir(parents=True)
        (tree / "sub" / "a").write_text("1")
        (tree / "link").symlink_to("sub/a")
        self.sandpool("cp", "tree", f"{self.thread}:")  # into a directory that exists: as an entry
        self.sandpool("cp", "tree/", f"{self.thread}:other")  # to one that does not: as that
        found = self.sandpool("exec", self.thread, "--", "sh", "-c", "find . | sort; readlink other/link; cat tree/link").stdout
        self.assertEqual(found.decode().split(), [".", "./other", "./other/link", "./other/sub", "./other/sub/a", "./tree",
                                                  "./tree/link", "./tree/sub", "./tree/sub/a", "sub/a", "1"])
        self.sandpool("cp", f"{self.thread}:/workspace/tree", "back")
        self.assertEqual((self.dir / "back" / "link").read_text(), "1")
        self.assertEqual(os.readlink(self.dir / "back" / "link"), "sub/a")

    # --- ports ---

    def test_port_forward(self):
        self.sandpool("exec", self.thread, "--", "sh", "-c", "echo page > index.html")
        self.sandpool("exec", "-d", self.thread, "--", "python3", "-m", "http.server", "--bind", "127.0.0.1", "8000")
        child = self.popen("port-forward", self.thread, ":8000", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        port = int(re.match(rb"127\.0\.0\.1:(\d+) -> ", child.stdout.readline()).group(1))

        def get():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
            try:
                connection.request("GET", "/index.html")
                return connection.getresponse().read()
            except (OSError, http.client.HTTPException):  # not listening yet
                return None
            finally:
                connection.close()

        wait_until(lambda: get() == b"page\n", "the server in the box answers")
        self.assertEqual([get() for _ in range(20)], [b"page\n"] * 20)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(WAIT_S), 0)

    # --- many ---

    def test_forks(self):
        self.sandpool("exec", self.thread, "--", "sh", "-c", "echo here > f")
        made = self.sandpool("fork", self.thread, "--count", "2").stdout.decode().split()
        self.assertEqual(len(made), 2)
        for name in made:
            self.assertEqual(self.sandpool("exec", name, "--", "cat", "f").stdout, b"here\n")
            self.sandpool("destroy", name)
        done = self.sandpool("fork", self.thread, "--thread", "fork-1", "--thread", self.thread, expect=1)
        self.assertEqual(len(done.stdout.split()), 1)
        self.assertIn(b"the thread has a box already", done.stderr)
        self.sandpool("destroy", "fork-1")
        self.sandpool("fork", "nobody", expect=4)

    def test_snapshots(self):
        self.sandpool("exec", self.thread, "--", "sh", "-c", "echo kept > f")
        name = self.sandpool("snapshot", "create", self.thread, "--name", "first").stdout.decode().strip()
        self.assertRegex(name, "^[0-9a-f]{16}$")
        self.assertRegex(self.sandpool("snapshot", "ls").stdout.decode(), rf"SNAPSHOT +NAME.*\n{name} +first +default")
        self.sandpool("acquire", "copy", "--snapshot", name)
        self.assertEqual(self.sandpool("exec", "copy", "cat", "f").stdout, b"kept\n")
        self.sandpool("snapshot", "rm", name)
        self.assertEqual(self.sandpool("exec", "copy", "cat", "f").stdout, b"kept\n")
        self.sandpool("snapshot", "rm", name, expect=4)
        self.sandpool("snapshot", "create", "nobody", expect=4)
        for wrong in (("snapshot", "make"), ("snapshot", "create"), ("snapshot", "rm"), ("snapshot", "ls", "x")):
            self.sandpool(*wrong, expect=2)
        self.assertIn(b"did you mean 'snapshot create'?", self.sandpool("snapshot", "crate", self.thread, expect=2).stderr)
        self.assertIn(b"did you mean 'profile show'?", self.sandpool("profile", "sho", expect=2).stderr)

    def test_pause_and_resume(self):
        if not HAS_CGROUPS:
            self.skipTest("no control groups with this runtime")
        self.assertIn(b"stands still", self.sandpool("pause", self.thread).stdout)
        self.assertTrue(is_frozen(self.instance, self.box.box_id))
        self.server.takeover()
        self.assertTrue(json.loads(self.sandpool("get", self.box.id, "--json").stdout)["paused"])
        self.assertIn(b"goes on", self.sandpool("resume", self.box.id).stdout)
        self.assertFalse(is_frozen(self.instance, self.box.box_id))
        for name in (self.thread, self.box.id, f"default/{self.thread}"):
            self.assertTrue(json.loads(self.sandpool("pause", name, "--json").stdout)["paused"])
            self.assertNotIn("paused", json.loads(self.sandpool("resume", name, "--json").stdout))
        self.sandpool("pause", self.thread)
        self.assertEqual(self.sandpool("exec", self.thread, "--", "echo", "needed").stdout, b"needed\n")
        self.assertFalse(is_frozen(self.instance, self.box.box_id))
        for command in ("pause", "resume"):
            self.assertIn(b"has no sandbox", self.sandpool(command, "nobody", expect=4).stderr)

    def test_destroy_several_and_all(self):
        self.acquire("second")
        self.assertIn(b"add --yes", self.sandpool("rm", "--all", expect=2).stderr)
        self.sandpool("rm", self.thread, "second")
        self.acquire("third")
        self.sandpool("rm", "--all", "--yes")
        self.assertEqual(self.sandpool("ps", "-q", "--state", "leased").stdout, b"")


if __name__ == "__main__":
    main()
