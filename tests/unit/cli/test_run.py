"""`sandpool run` with a real agent in place of a box: bytes both ways, signals, exit codes, and
that the box is given back whatever happens. The daemon's two calls are answered from here."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from run_case import ID, IS_SANITIZED, WAIT_S, Relay, RunTest, at_most, main, wait_until


class Streams(RunTest):
    def test_output_and_errors_apart(self):
        out, err = self.run_it("--", "sh", "-c", r"printf 'a\000\377b'; printf 'e\000' >&2")
        self.assertEqual((out, err), (b"a\x00\xffb", b"e\x00"))
        self.assertEqual(self.leases.acquired(), [{}])
        self.assertDestroyed()

    def test_output_comes_at_once(self):
        child = self.spawn("sh", "-c", "echo first; read x; echo $x", stdin=subprocess.PIPE)
        self.read_until(child.stdout, b"first\n")
        child.stdin.write(b"second\n")
        child.stdin.flush()
        self.read_until(child.stdout, b"second\n")
        self.assertEqual(child.wait(WAIT_S), 0)

    def test_large_output_is_whole(self):
        size = 30_000_000
        out, _ = self.run_it("sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x; echo end >&2")
        self.assertEqual((len(out), set(out)), (size, set(b"x")))

    def test_slow_reader(self):
        child = self.spawn("sh", "-c", "head -c 5000000 /dev/zero")
        time.sleep(0.5)
        out = child.stdout.read()
        self.assertEqual(len(out), 5_000_000)
        self.assertEqual(child.wait(WAIT_S), 0)

    def test_large_input_arrives_whole(self):
        data = os.urandom(1 << 20) * 12  # more than the agent keeps
        out, _ = self.run_it("sh", "-c", "sleep 0.5; cat", data=data)
        self.assertEqual(out, data)

    def test_input_from_a_file(self):
        with tempfile.TemporaryFile(dir=self.dir.name) as file:
            file.write(b"of a file")
            file.seek(0)
            child = self.spawn("cat", stdin=file)
            self.assertEqual(child.communicate(timeout=WAIT_S)[0], b"of a file")

    def test_command_that_reads_nothing(self):
        child = self.spawn("sh", "-c", "exec <&-; sleep 0.3; exit 3", stdin=subprocess.PIPE)
        with self.assertRaises(BrokenPipeError):
            while True:
                child.stdin.write(b"x" * 65536)
        self.assertEqual(child.wait(WAIT_S), 3)

    def test_no_stdin(self):
        out, _ = self.run_it("--no-stdin", "cat", data=b"not for it")
        self.assertEqual(out, b"")

    def test_reader_that_leaves(self):
        child = self.spawn("yes")
        child.stdout.read(10)
        child.stdout.close()
        self.assertEqual(child.wait(WAIT_S), 128 + signal.SIGPIPE)
        child.stdout = None
        self.assertDestroyed()

    def test_memory_is_flat(self):
        if IS_SANITIZED:
            self.skipTest("sanitizers keep memory")
        child = self.spawn("head", "-c", "300000000", "/dev/zero", stdout=subprocess.DEVNULL)
        peak = 0
        while child.poll() is None:
            try:
                status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
                peak = max(peak, int(status.split("VmHWM:")[1].split()[0]))
            except (OSError, IndexError):
                break
            time.sleep(0.01)
        self.assertEqual(child.wait(WAIT_S), 0)
        self.assertLess(peak, 8000)


class Command(RunTest):
    def test_environment_directory_arguments(self):
        out, _ = self.run_it("-e", "A=1", "--env", "A=two words", "-e", "B=", "--cwd", "/usr",
                             "--", "sh", "-c", 'echo "$A|$B|$PWD|$1"', "sh", "--help")
        self.assertEqual(out, b"two words||/usr|--help\n")

    def test_asks_for_the_box_it_is_given(self):
        self.run_it("--thread", "t1", "--user", "ana", "--profile", "big", "true")
        self.assertEqual(self.leases.acquired(),
                         [{"thread_id": "t1", "user_id": "ana", "profile": "big"}])
        self.assertEqual(self.leases.released(), [{"generation": 3}])

    def test_keep(self):
        _, err = self.run_it("--keep", "false", status=1)
        self.assertEqual(err, ID.encode() + b"\n")
        self.assertEqual(self.leases.released(), [])

    def test_exit_codes(self):
        for status, command in ((0, ["true"]), (77, ["sh", "-c", "exit 77"]), (255, ["sh", "-c", "exit 255"]),
                                (137, ["sh", "-c", "kill -9 $$"]), (139, ["sh", "-c", "kill -SEGV $$"]),
                                (126, ["/etc/passwd"]), (126, ["/"]), (127, ["no-such-program"]),
                                (127, ["/no/such/program"]), (125, ["--cwd", "/no/such", "true"]),
                                (125, ["--env", "no-value", "true"]), (125, ["--nope", "true"]),
                                (125, []), (125, [b"\xff\xfe"])):
            self.leases.asked.clear()
            _, err = self.run_it(*command, status=status)
            if status in (125, 126, 127):
                self.assertTrue(err.startswith(b"sandpool: "), err)
            if self.leases.acquired():
                self.assertDestroyed()

    def test_failures_as_json(self):
        _, err = self.run_it("--json", "no-such-program", status=127)
        self.assertEqual(json.loads(err)["error"]["code"], "program_not_found")
        self.leases.url = "http://127.0.0.1:1"
        _, err = self.run_it("--json", "true", status=125)
        self.assertEqual(json.loads(err)["error"]["code"], "connect_failed")

    def test_timeout(self):
        started = time.monotonic()
        _, err = self.run_it("--timeout", "200ms", "sleep", "300", status=124)
        self.assertEqual(err, b"sandpool: the command was ended after 200ms by --timeout\n")
        self.assertLess(time.monotonic() - started, at_most(30))
        self.assertDestroyed()

    def test_no_daemon(self):
        self.leases.shutdown()
        self.leases.server_close()
        self.socket.unlink()
        _, err = self.run_it("true", status=125)
        self.assertIn(b"start sandpoold", err)

    def test_box_that_is_not_there(self):
        self.leases.url = "http://127.0.0.1:1"
        _, err = self.run_it("true", status=125)
        self.assertIn(b"cannot connect to the box", err)
        self.assertDestroyed()
        for url in ("https://127.0.0.1:1", "", "http://", "http://127.0.0.1:99999999"):
            self.leases.url = url
            self.run_it("true", status=125)

    def test_box_that_dies(self):
        child = self.spawn("sh", "-c", "echo $$; exec sleep 300")
        orphan = int(self.read_until(child.stdout, b"\n"))
        self.addCleanup(os.kill, orphan, signal.SIGKILL)  # the agent cannot end it any more
        self.agent.kill()
        _, err = child.communicate(timeout=WAIT_S)
        self.assertEqual(child.returncode, 125)
        self.assertIn(b"sandpool: ", err)
        self.assertDestroyed()

    def stop_agent(self):
        if self.agent.poll() is None:
            super().stop_agent()
        else:
            self.agent.stdout.close()

    def test_stream_that_breaks_is_taken_up(self):
        """A connection may be cut at any time; the output is still whole."""
        relay = Relay(self.port, cuts=[1500, 1000, 70_001, 3, 100_000])
        self.addCleanup(relay.close)
        self.leases.url = f"http://127.0.0.1:{relay.port}"
        out, err = self.run_it("sh", "-c", "seq 1 100000; seq 1 30000 >&2")
        self.assertEqual(relay.done, 5)
        self.assertEqual(out.split(), [str(i).encode() for i in range(1, 100001)])
        self.assertEqual(err.split(), [str(i).encode() for i in range(1, 30001)])

    def test_box_behind_a_proxy(self):
        """Its address has a path, as those of a provisioner have."""
        relay = Relay(self.port, prefix="/s/box/capability")
        self.addCleanup(relay.close)
        for end in ("", "/"):
            self.leases.url = f"http://127.0.0.1:{relay.port}/s/box/capability{end}"
            out, err = self.run_it("cat", data=b"through\n")
            self.assertEqual((out, err), (b"through\n", b""))
        self.assertEqual(relay.hosts, {f"127.0.0.1:{relay.port}".encode()})
        for path in ("/s/box/wrong", "/s/box/capability?x=1", "/s/box/cap ability"):
            self.leases.url = f"http://127.0.0.1:{relay.port}{path}"
            self.run_it("true", status=125)

    def test_is_quick(self):
        if IS_SANITIZED:
            self.skipTest("sanitizers are slow")
        self.run_it("true")
        times = []
        for _ in range(20):
            started = time.monotonic()
            self.run_it("true")
            times.append(time.monotonic() - started)
        self.assertLess(sorted(times)[10], at_most(0.1))
        print(f"run of true: {sorted(times)[10] * 1000:.1f} ms", file=sys.stderr)


class Signals(RunTest):
    TRAP = "trap 'echo got $0; exit 9' {}; echo on; while :; do sleep 0.02; done"

    def test_are_passed_on(self):
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1"):
            child = self.spawn("sh", "-c", self.TRAP.format(name), name)
            self.read_until(child.stdout, b"on\n")
            child.send_signal(getattr(signal, "SIG" + name))
            out, _ = child.communicate(timeout=WAIT_S)
            self.assertEqual((out, child.returncode), (f"got {name}\n".encode(), 9))

    def test_end_of_the_command_by_a_signal(self):
        child = self.spawn("sh", "-c", "echo on; sleep 300")
        self.read_until(child.stdout, b"on\n")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(WAIT_S), 128 + signal.SIGTERM)
        self.assertDestroyed()

    def test_second_interrupt(self):
        child = self.spawn("sh", "-c", "trap '' INT; echo on; while :; do sleep 0.1; done")
        self.read_until(child.stdout, b"on\n")
        child.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.assertIsNone(child.poll())
        started = time.monotonic()
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(WAIT_S), 130)
        self.assertLess(time.monotonic() - started, at_most(5))
        self.assertDestroyed()

    def test_second_interrupt_leaves_nothing_in_a_kept_box(self):
        child = self.spawn("--thread", "t", "sh", "-c",
                           "trap '' INT TERM; echo on; while :; do sleep 0.1; done")
        self.read_until(child.stdout, b"on\n")
        child.send_signal(signal.SIGINT)
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(WAIT_S), 130)
        self.assertEqual(self.leases.released(), [{"generation": 3}])
        wait_until(lambda: self.running() == [], "the command is killed")

    def test_while_waiting_for_a_box(self):
        self.leases.delay.clear()
        child = self.spawn("true")
        with self.leases.came:
            self.assertTrue(self.leases.came.wait_for(self.leases.acquired, WAIT_S))
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(WAIT_S), 128 + signal.SIGTERM)
        self.leases.delay.set()

    def test_ignored_ones_stay_ignored(self):
        child = self.spawn("sh", "-c", "echo on; sleep 0.5; echo off",
                           preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.read_until(child.stdout, b"on\n")
        child.send_signal(signal.SIGHUP)
        self.assertEqual(child.communicate(timeout=WAIT_S)[0], b"off\n")
        self.assertEqual(child.returncode, 0)

    def test_blocked_output(self):
        """Nobody reads our output, and a signal still gets through."""
        child = self.spawn("yes")
        time.sleep(0.5)
        os.read(child.stdout.fileno(), 5000)  # room for some of what waits
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(WAIT_S), 130)
        self.assertDestroyed()


if __name__ == "__main__":
    main()
