"""What a service manager gives and asks for: sockets, named and unnamed, with callers that wait through a restart; a
main process that is its child, also after an upgrade; lines with the journal's priorities."""

import ctypes
import os
import pathlib
import re
import signal
import socket
import sys
import unittest

from fixtures import BIN, WAIT_S, Process, TestCase, in_threads, main, wait_until
from test_crash import fault_names

# What a service manager does: the sockets, which come as descriptors from 100 on, become 3, 4, ...
LAUNCHER = """
import os, sys
count = int(sys.argv[1])
for i in range(count):
    os.dup2(100 + i, 3 + i)
    os.close(100 + i)
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = str(count)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Manager:
    """Holds listening sockets and starts the daemon with them."""

    def __init__(self, daemon, sockets, names=None):
        self.daemon = daemon
        self.sockets = sockets
        self.env = {"LISTEN_FDNAMES": names} if names else {}

    def spawn(self):
        daemon = self.daemon
        fds = [os.dup2(sock.fileno(), 100 + i) for i, sock in enumerate(self.sockets)]
        daemon.process = Process(
            [sys.executable, "-c", LAUNCHER, len(fds), BIN / "sandpoold", "--config", daemon.config,
             "--state-dir", daemon.state, "--socket", daemon.socket],
            daemon.log, self.env, fds)
        for fd in fds:
            os.close(fd)
        return daemon


class Activation(TestCase):
    def listen(self, path):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(sock.close)
        sock.bind(str(path))
        sock.listen(128)
        return sock

    def listen_tcp(self):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.addCleanup(sock.close)
        sock.bind(("127.0.0.1", 0))
        sock.listen(128)
        return sock

    def test_an_unnamed_socket_is_known_by_its_path(self):
        daemon = self.daemon(start=False)
        Manager(daemon, [self.listen(daemon.socket)]).spawn().wait_ready()
        inode = os.stat(daemon.socket).st_ino
        daemon.stop()
        self.assertEqual(os.stat(daemon.socket).st_ino, inode, "the file is the manager's")

    def test_a_name_decides_wherever_it_listens(self):
        path = pathlib.Path(self.directory) / "elsewhere.sock"
        daemon = self.daemon(start=False)
        manager = Manager(daemon, [self.listen(path)], "sandpool")
        wanted, daemon.socket = daemon.socket, path
        configured = daemon.config.read_text()
        daemon.write_config(configured.replace("{", '{"socket": {"path": "%s"},' % wanted, 1))
        manager.spawn().wait_ready()
        self.assertFalse(wanted.exists())

    def test_tcp_by_name_and_callers_wait_through_a_restart(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 2, "max": 4}}, sim=sim, start=False,
                             tcp={"listen": "127.0.0.1:1", "tokens": {"t": "s" * 32}})
        tcp = self.listen_tcp()
        manager = Manager(daemon, [self.listen(daemon.socket), tcp], "sandpool:tcp")
        manager.spawn().wait_ready()
        lease = self.assertOk(daemon.acquire("t"))
        with socket.create_connection(tcp.getsockname(), 20) as caller:
            caller.sendall(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
            self.assertIn(b"200 OK", caller.recv(4096))
        daemon.stop()  # nobody accepts now, nobody is refused

        def call(i):
            if i == 0:
                manager.spawn()
                return None
            return self.assertOk(daemon.acquire("t"))

        for answer in in_threads(8, call)[1:]:
            self.assertEqual((answer["box_id"], answer["source"]), (lease["box_id"], "kept"))

    def test_a_socket_of_no_use_is_closed_and_named(self):
        daemon = self.daemon(start=False)
        extra = self.listen(pathlib.Path(self.directory) / "extra.sock")
        manager = Manager(daemon, [self.listen(daemon.socket), extra], "sandpool:what")
        manager.spawn().wait_ready()
        wait_until(lambda: "daemon.socket_unused name=what" in daemon.process.output(), "named")

    def test_a_descriptor_that_does_not_listen_is_refused(self):
        daemon = self.daemon(start=False)
        bad = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(bad.close)
        Manager(daemon, [bad], "sandpool").spawn()
        self.assertEqual(daemon.process.child.wait(20), 1)
        self.assertIn("does not listen", daemon.process.output())

    def test_what_is_meant_for_another_process_is_left_alone(self):
        daemon = self.daemon(env={"LISTEN_PID": "1", "LISTEN_FDS": "3"})
        self.assertTrue(daemon.answers())


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


class Service(TestCase):
    """This process is the manager: it gets the children whose parents end, as systemd does."""

    def setUp(self):
        super().setUp()
        libc = ctypes.CDLL(None, use_errno=True)
        self.assertEqual(libc.prctl(36, 1, 0, 0, 0), 0)  # PR_SET_CHILD_SUBREAPER
        self.addCleanup(libc.prctl, 36, 0, 0, 0, 0)
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.notices.close)
        self.notices.settimeout(WAIT_S)
        path = os.path.join(self.directory, "notify")
        self.notices.bind(path)
        self.env = {"NOTIFY_SOCKET": path}

    def notice(self, beginning):
        """The next one with a line that begins like that: the rest of the line."""
        while True:
            for line in self.notices.recv(4096).decode().splitlines():
                if line.startswith(beginning):
                    return line[len(beginning):]

    def started(self, daemon, count):
        """The pid of that many-th successor."""
        found = wait_until(lambda: (lambda all_of_them: len(all_of_them) == count and all_of_them)(
            re.findall(r"upgrade.started .*pid=(\d+)", daemon.log.read_text())), "a successor is started")
        return int(found[-1])

    def end(self, pid, signum=signal.SIGTERM):
        """How a child that Python did not start has ended."""
        pid_fd = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(pid_fd, signum)
            wait_until(lambda: os.waitid(os.P_PIDFD, pid_fd, os.WEXITED | os.WNOWAIT | os.WNOHANG), "it ends")
            return os.waitid(os.P_PIDFD, pid_fd, os.WEXITED)
        finally:
            os.close(pid_fd)

    @unittest.skipUnless(fault_names(), "this build cannot be made to hang")
    def test_the_successor_is_the_managers_child(self):
        hang = pathlib.Path(self.directory) / "hang"
        hang.touch()
        daemon = self.daemon(env={**self.env, "SANDPOOL_HANG_AT": f"takeover.new_served={hang}"})
        old = daemon.process
        self.assertEqual(self.notice("MAINPID="), str(old.pid))
        old.child.send_signal(signal.SIGUSR2)
        pid = self.started(daemon, 1)
        self.assertEqual(parent_of(pid), os.getpid(), "before anybody is told that it is the main process")
        hang.unlink()
        self.assertEqual(self.notice("MAINPID="), str(pid))
        self.assertEqual(old.child.wait(WAIT_S), 0)
        self.assertEqual(self.client(daemon).get("/v1/version").json["pid"], pid)
        ended = self.end(pid)
        self.assertEqual((ended.si_code, ended.si_status), (os.CLD_EXITED, 0))

    @unittest.skipUnless(fault_names(), "this build cannot be made to hang")
    def test_one_successor_at_a_time(self):
        hang = pathlib.Path(self.directory) / "hang"
        hang.touch()
        daemon = self.daemon(env={**self.env, "SANDPOOL_HANG_AT": f"takeover.new_asked={hang}"})
        old = daemon.process
        old.child.send_signal(signal.SIGUSR2)
        first = self.started(daemon, 1)
        old.child.send_signal(signal.SIGUSR2)
        wait_until(lambda: "upgrade.not_started" in daemon.log.read_text(), "not a second one")
        self.assertEqual(self.started(daemon, 1), first)
        self.end(first, signal.SIGKILL)

    def test_after_one_that_failed_another_can_be_started(self):
        daemon = self.daemon(env=self.env)
        good = daemon.config.read_text()
        daemon.write_config("{")
        daemon.process.child.send_signal(signal.SIGUSR2)
        first = self.started(daemon, 1)
        pid, status = os.waitpid(first, 0)  # ours by now
        self.assertEqual((pid, os.waitstatus_to_exitcode(status)), (first, 1))
        daemon.write_config(good)
        daemon.process.child.send_signal(signal.SIGUSR2)
        second = self.started(daemon, 2)
        self.assertEqual(daemon.process.child.wait(WAIT_S), 0)
        self.assertEqual(self.end(second).si_status, 0)


class Journal(TestCase):
    PRIORITIES = {"debug": 7, "info": 6, "warn": 4, "error": 3}

    def lines(self, stream_of):
        """What a daemon logs when its environment says that `stream_of` of its log is the journal."""
        daemon = self.daemon(start=False, log={"level": "debug"})
        daemon.log.touch()
        daemon.env = {"JOURNAL_STREAM": stream_of(os.stat(daemon.log))}
        daemon.start()
        daemon.write_config("{")
        daemon.process.child.send_signal(signal.SIGHUP)  # refused: an error
        wait_until(lambda: "config.reload_failed" in daemon.process.output(), "the error")
        daemon.stop()
        return daemon.process.output().splitlines()

    def test_each_line_has_its_priority(self):
        levels = set()
        for line in self.lines(lambda st: f"{st.st_dev}:{st.st_ino}"):
            found = re.fullmatch(r"<(\d)>ts=\S+ level=(\w+) event=.*", line)
            self.assertIsNotNone(found, line)
            self.assertEqual(int(found[1]), self.PRIORITIES[found[2]], line)
            levels.add(found[2])
        self.assertLessEqual({"info", "error"}, levels)

    def test_elsewhere_there_is_none(self):
        for line in self.lines(lambda st: f"{st.st_dev}:{st.st_ino + 1}"):
            self.assertTrue(line.startswith("ts="), line)

    def test_what_ends_the_start_is_an_error(self):
        daemon = self.daemon(start=False)
        daemon.log.touch()
        st = os.stat(daemon.log)
        daemon.env = {"JOURNAL_STREAM": f"{st.st_dev}:{st.st_ino}"}
        daemon.write_config("{")
        daemon.process = daemon.spawn()
        self.assertEqual(daemon.process.child.wait(WAIT_S), 1)
        self.assertRegex(daemon.process.output(), r"^<3>sandpoold: ")


if __name__ == "__main__":
    main()
