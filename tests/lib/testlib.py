"""What all tests in Python share: where the programs are, how long to wait, and how a test file ends.

Files elsewhere put this directory into sys.path, so that each can be run by hand as well."""

import http.client
import http.server
import os
import pathlib
import random
import re
import shutil
import socket
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("SANDPOOL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BIN = pathlib.Path(os.environ.get("SANDPOOL_BIN_DIR", SOURCE / "build"))


def read_sanitizer():
    cache = BIN / "CMakeCache.txt"
    return cache.is_file() and re.search("^SANDPOOL_SANITIZE:STRING=.", cache.read_text(), re.M) is not None


IS_SANITIZED = read_sanitizer()
# How much slower than usual all goes: under sanitizers, or as given, on an emulated machine.
SLOW = float(os.environ.get("SANDPOOL_TEST_SLOW", 4 if IS_SANITIZED else 1))
WAIT_S = int(60 * min(SLOW, 2))  # generous: a machine may be busy
MIB = 1024 * 1024
BUSY_MAX = 30  # a machine busier than this is no place for tests


# --- time ---

def busy():
    """How many processes want each processor now, or wanted it in the last minute; 1 on a quiet machine."""
    try:
        fields = pathlib.Path("/proc/loadavg").read_text().split()
        wanted = max(float(fields[0]), float(fields[3].split("/")[0]))
    except (OSError, ValueError, IndexError):
        return 1.0
    return min(max(wanted / len(os.sched_getaffinity(0)), 1.0), BUSY_MAX)


def at_most(seconds):
    """A limit for time that was measured: `seconds` on a quiet machine, more on a slow or a busy one. Only for what
    cannot be shown by an event, a count or an order."""
    return seconds * SLOW * busy()


def receive(connection, size=None, until=None):
    """All bytes of a socket until there are so many of them, a text is among them, or the end."""
    data = b""
    while (size is None or len(data) < size) and (until is None or until not in data):
        piece = connection.recv(65536)
        if not piece:
            break
        data += piece
    return data


def wait_until(condition, what="it is so", limit=WAIT_S):
    """What the condition returns as soon as that is true; fails after the limit, which a busy machine extends. `what` may be
    a function: what it says at the end explains the failure."""
    start = time.monotonic()
    while True:
        asked = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        passed = now - start
        if passed > limit and passed > min(limit * busy(), max(limit, 2 * WAIT_S)):
            raise AssertionError(f"not within {passed:.0f} s: {what() if callable(what) else what}")
        # Who asks what takes long leaves the processors to those it waits for.
        time.sleep(min(max(0.01, 2 * (now - asked)), 0.1))


def happens(condition, seconds):
    """Whether it becomes true in this time: for what may as well not happen."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(0.01)
    return True


# --- processes ---

def is_alive(pid):
    """False for one that has ended and whose parent has not asked for it yet, too."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X")


# --- files and sockets ---

def tmpdir(owner, prefix="sandpool-test-"):
    """A new directory; it goes when the test case ends, or the class of them."""
    path = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
    add = owner.addClassCleanup if isinstance(owner, type) else owner.addCleanup
    add(remove_tree, path)
    return path


def remove_tree(path):
    """Again when a process that is just ending has written something meanwhile."""
    for _ in range(50):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(0.1)


def free_port():
    """Not one of those that the kernel, and engines of containers, give out by themselves."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=WAIT_S):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """Of a server that a test plays, on TCP or a Unix socket."""

    protocol_version = "HTTP/1.1"

    def address_string(self):
        return ""

    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


# --- the end of a test file ---

def skip(reason):
    """Nothing can be tested here; `./dev test` shows the line at its end."""
    print(f"SKIPPED: {reason}", file=sys.stderr)
    raise unittest.SkipTest(reason)


class TimedResult(unittest.TextTestResult):
    """Says after each test how long it took, if it was long."""

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        took = time.monotonic() - self.started
        if took >= 2:
            self.stream.writeln(f"    {took:.1f} s")


def main():
    """Runs the tests of the file. Exit code 77 means for ctest that nothing was tested."""
    runner = unittest.TextTestRunner(verbosity=2, resultclass=TimedResult)
    done = unittest.main(verbosity=2, testRunner=runner, exit=False).result
    tests = [getattr(test, "test_case", test) for test, _ in done.skipped]  # of a part: the whole
    skipped = {test.id() for test in tests if isinstance(test, unittest.TestCase)}  # others are whole classes
    is_nothing = len(tests) > 0 and len(skipped) >= done.testsRun
    sys.exit(1 if not done.wasSuccessful() else 77 if is_nothing else 0)
