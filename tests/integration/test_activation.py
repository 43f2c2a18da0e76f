"""Sockets passed by a service manager: named and unnamed, and callers that wait through a restart."""

import os
import pathlib
import socket
import sys

from harness import BIN, Process, TestCase, in_threads, main, wait_until

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


if __name__ == "__main__":
    main()
