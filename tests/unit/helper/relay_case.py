"""What the tests of the relay share: a relay beside a box that is played by this process, and callers of it."""

import fcntl
import os
import pathlib
import resource
import socket
import subprocess
import threading
import time
import unittest

from helper_client import BIN, IS_SANITIZED, tmpdir, wait_until

HELPER = str((BIN / "sandpool-helper").resolve())
ID = 1610612736
NAME = "agent.sock"
MIB = 1 << 20
MAX = 512  # connections at once
NEW_MAX = 1024  # callers that have said nothing
MEMORY = (64 if IS_SANITIZED else 8) * MIB  # sanitizers keep what is freed


class Inside:
    """What is in the box: each connection is given to `serve` in a thread of its own."""

    def __init__(self, source, serve):
        self.source = source
        self.serve = serve
        self.count = 0
        if serve is not None:
            threading.Thread(target=self.run, daemon=True).start()

    def accept(self):
        """The next connection; None: there will be no more."""
        return self.source.accept()[0]

    def run(self):
        while True:
            try:
                connection = self.accept()
            except OSError:
                return
            if connection is None:
                return
            self.count += 1
            threading.Thread(target=self.guarded, args=(connection,), daemon=True).start()

    def guarded(self, connection):
        try:
            with connection:
                self.serve(connection)
        except OSError:
            pass

    def close(self):
        try:
            self.source.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.source.close()


class Listening(Inside):
    def __init__(self, path, serve, backlog=1024):
        source = socket.socket(socket.AF_UNIX)
        source.bind(str(path))
        os.chown(path, ID, ID)
        source.listen(backlog)
        super().__init__(source, serve)


class Receiving(Inside):
    """Like an agent: connections come as descriptors through the channel."""

    def accept(self):
        _, fds, _, _ = socket.recv_fds(self.source, 1, 1)
        if not fds:
            return None
        connection = socket.socket(fileno=fds[0])
        connection.settimeout(None)  # it was made not to block
        return connection


def echo(connection):
    while True:
        data = connection.recv(MIB)
        if not data:
            return
        connection.sendall(data)


def read_all(connection):
    data = bytearray()
    while True:
        more = connection.recv(MIB)
        if not more:
            return bytes(data)
        data += more


def start_beside(words, fds):
    """A process beside a box, with these descriptors from 3 on and one more where it says that it works."""
    report, other = socket.socketpair()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (*fds, other.fileno())]  # not in each other's way
    move = " ".join(f"{3 + i}<&{fd} {fd}<&-" for i, fd in enumerate(high))
    process = subprocess.Popen(["bash", "-c", f'exec "$@" {move}', "-", HELPER, *words], pass_fds=high)
    for fd in high:
        os.close(fd)
    other.close()
    with report:
        said = read_all(report)
    if said != b".":
        process.kill()
        process.wait()
        raise AssertionError(said)
    return process


@unittest.skipIf(os.geteuid() != 0, "the relay gives up root")
class RelayCase(unittest.TestCase):
    """The process that has the host's sockets; this process is the box."""

    IDLE = 8  # descriptors of a relay without any connection

    def setUp(self):
        self.top = tmpdir(self, "sandpool-relay-")
        os.chmod(self.top, 0o711)
        self.lock = os.open(self.top / "lock", os.O_RDONLY | os.O_CREAT, 0o600)
        self.addCleanup(os.close, self.lock)
        self.addCleanup(self.end)
        self.start_relay()
        self.assertTrue(wait_until(lambda: self.descriptors() == self.IDLE), self.descriptors())

    def end(self):
        self.end_of_box()
        self.channel.close()
        self.assertEqual(self.relay.wait(10), 0)  # it never lives longer than the box

    def start_relay(self):
        listen = socket.socket()
        listen.bind(("127.0.0.1", 0))
        listen.listen(1024)
        self.port = listen.getsockname()[1]
        local = self.listen_locally()
        self.channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.relay = start_beside(["relay", str(self.top), str(ID)],
                                  [listen.fileno(), other.fileno(), self.lock, local.fileno()])
        other.close()
        local.close()
        listen.close()

    def listen_locally(self):
        path = str(self.top / "relay")
        pathlib.Path(path).unlink(missing_ok=True)
        local = socket.socket(socket.AF_UNIX)
        local.bind(path)
        local.listen(1024)
        return local

    def call_locally(self, timeout=20):
        s = socket.socket(socket.AF_UNIX)
        self.addCleanup(s.close)
        s.settimeout(timeout)
        s.connect(str(self.top / "relay"))
        return s

    def inside(self, serve):
        return Receiving(self.channel, serve)

    def call(self, timeout=20):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        self.addCleanup(s.close)
        return s

    def raise_limit(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def status(self, key):
        for line in pathlib.Path(f"/proc/{self.relay.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return line.split()[1:]
        return None

    def memory(self):
        return int(self.status("VmRSS")[0]) * 1024

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.relay.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.relay.pid}/fd"))

    def assert_idle(self, seconds=1.0):
        before = self.cpu()
        time.sleep(seconds)
        self.assertLess(self.cpu() - before, 0.1 * seconds)

    def assert_works(self):
        s = self.call()
        s.sendall(b"hello")
        self.assertEqual(s.recv(100), b"hello")
        s.close()

    def assert_refused(self):
        """Taken and closed, or cut off; never answered."""
        s = self.call()
        try:
            s.sendall(b"hello")
            self.assertEqual(s.recv(100), b"")
        except (ConnectionResetError, BrokenPipeError):
            pass

    # --- bytes ---
