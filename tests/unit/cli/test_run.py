"""`sandpool run` with a real agent in place of a box: bytes both ways, signals, exit codes, and
that the box is given back whatever happens. The daemon's two calls are answered from here."""

import fcntl
import http.server
import json
import os
import pathlib
import pty
import select
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "agent"))
from agent_client import BIN, IS_SANITIZED, TOKEN, WAIT_S, AgentTest, at_most, main, wait_until

ID = "fe0dc8182dec7b77"

# A shell has what it starts in the background ignore these two, and a process inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


class Leases(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Hands out the one box there is and remembers what it was asked."""

    daemon_threads = True

    def __init__(self, path, port):
        self.asked = []
        self.came = threading.Condition()
        self.delay = threading.Event()
        self.delay.set()
        self.url = f"http://127.0.0.1:{port}"
        super().__init__(str(path), Handler)

    def acquired(self):
        return [body for target, body in self.asked if target == "/v1/acquire"]

    def released(self):
        return [body for target, body in self.asked if target == f"/v1/sandboxes/{ID}/release"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return ""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        with self.server.came:
            self.server.asked.append((self.path, body))
            self.server.came.notify_all()
        self.server.delay.wait(WAIT_S)
        answer = json.dumps({"sandbox_id": ID, "generation": 3, "sandbox_url": self.server.url,
                             "token": TOKEN, "source": "warm", "state": "leased"}).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:
            pass  # it did not wait


class Relay:
    """Between the program and the agent; cuts the first connections after so many bytes each. With a prefix it is a
    proxy that knows the agent by that path only."""

    def __init__(self, port, cuts=(), prefix=""):
        self.to = port
        self.cuts = list(cuts)
        self.prefix = prefix.encode()
        self.hosts = set()
        self.done = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def serve(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            left = self.cuts.pop(0) if self.cuts else None
            self.threads.append(threading.Thread(target=self.join, args=(near, left)))
            self.threads[-1].start()

    def join(self, near, left):
        with near, socket.create_connection(("127.0.0.1", self.to)) as far:
            while True:
                ready, _, _ = select.select([near, far], [], [], WAIT_S)
                if not ready:
                    return
                for end in ready:
                    data = end.recv(65536)
                    if end is near and self.prefix:
                        data = self.behind_the_prefix(data)
                    if end is far and left is not None:
                        data = data[:left]
                        left -= len(data)
                    if data:
                        (far if end is near else near).sendall(data)
                    self.done += left == 0
                    if not data or left == 0:
                        return

    def behind_the_prefix(self, data):
        """Every head comes whole: the program sends it at once."""
        self.hosts.update(line[6:] for line in data.split(b"\r\n") if line.startswith(b"Host: "))
        return data.replace(b" /v1/", b" /elsewhere/").replace(b" " + self.prefix + b"/v1/", b" /v1/")

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(WAIT_S)


class RunTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.socket = pathlib.Path(self.dir.name) / "d.sock"
        self.leases = Leases(self.socket, self.port)
        thread = threading.Thread(target=self.leases.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join, WAIT_S)
        self.addCleanup(self.leases.server_close)
        self.addCleanup(self.leases.shutdown)

    def spawn(self, *args, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        child = subprocess.Popen([BIN / "sandpool", "run", *args],
                                 env={**os.environ, "SANDPOOL_SOCKET": str(self.socket)}, **kw)
        self.addCleanup(self.end, child)
        return child

    @staticmethod
    def end(child):
        if child.poll() is None:
            child.kill()
        child.wait(WAIT_S)
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()

    def run_it(self, *args, data=None, status=0):
        child = self.spawn(*args, stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL)
        out, err = child.communicate(data, WAIT_S)
        self.assertEqual(child.returncode, status, (args, out[-500:], err[-500:]))
        return out, err

    def assertDestroyed(self):
        self.assertEqual(self.leases.released(), [{"generation": 3, "destroy": True}])

    def running(self):
        return [p for p in self.get("/v1/agent/jobs").json["jobs"]
                if p["outcome"] == "running"]

    def read_until(self, stream, wanted):
        """Reads a descriptor until `wanted` was in it."""
        got = b""
        deadline = time.monotonic() + WAIT_S
        while wanted not in got:
            ready, _, _ = select.select([stream], [], [], max(0, deadline - time.monotonic()))
            self.assertTrue(ready, f"{wanted} did not come: {got}")
            piece = os.read(stream if isinstance(stream, int) else stream.fileno(), 65536)
            self.assertTrue(piece, f"ended before {wanted}: {got}")
            got += piece
        return got


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

    def test_timeout(self):
        started = time.monotonic()
        self.run_it("--timeout", "200ms", "sleep", "300", status=124)
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


class Terminal(RunTest):
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
        return self.spawn("-t", *args, stdin=self.slave, stdout=self.slave, **kw)

    def test_shell(self):
        child = self.start_tty("sh", "-c",
                               "stty size; test -t 0 && echo tty $TERM; read x; echo got $x; "
                               "stty size")
        self.read_until(self.master, b"tty ")
        self.assertFalse(termios.tcgetattr(self.slave)[3] & termios.ICANON, "raw while it runs")
        self.resize(20, 50)
        child.send_signal(signal.SIGWINCH)
        time.sleep(0.3)
        os.write(self.master, b"word\r")
        self.assertIn(b"20 50", self.read_until(self.master, b"20 50"))
        self.assertEqual(child.wait(WAIT_S), 0)
        self.assertEqual(termios.tcgetattr(self.slave), self.before)

    def test_interrupt_is_a_key(self):
        child = self.start_tty("sh", "-c", "trap 'echo caught; exit 4' INT; echo on; while :; do sleep 0.02; done")
        self.read_until(self.master, b"on")
        os.write(self.master, b"\x03")
        self.read_until(self.master, b"caught")
        self.assertEqual(child.wait(WAIT_S), 4)

    def test_restored_after_failures(self):
        for args, status in ((["no-such-program"], 127), (["--timeout", "100ms", "sleep", "300"], 124)):
            child = self.start_tty(*args)
            self.assertEqual(child.wait(WAIT_S), status)
            self.assertEqual(termios.tcgetattr(self.slave), self.before)
        child = self.start_tty("sh", "-c", "echo on; sleep 300")
        self.read_until(self.master, b"on")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(WAIT_S), 128 + signal.SIGTERM)
        self.assertEqual(termios.tcgetattr(self.slave), self.before)


if __name__ == "__main__":
    main()
