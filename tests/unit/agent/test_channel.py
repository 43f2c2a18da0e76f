"""Connections that come through a channel, as descriptors: what a relay outside the box does."""

import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import unittest

from agent_client import BIN, TOKEN, WAIT_S, main

LIMIT = 256  # connections of an agent
ASK = b"GET %s HTTP/1.1\r\nHost: box\r\n%s\r\n"
PROOF = b"Authorization: Bearer %s\r\n" % TOKEN.encode()


def ask(connection, target=b"/v1/agent/env", headers=PROOF):
    connection.sendall(ASK % (target, headers))
    return int(connection.recv(65536).split()[1])


class Channel(unittest.TestCase):
    def setUp(self):
        self.relay, self.other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.relay.close)
        self.agent = self.start("--channel-fd", str(self.other.fileno()), pass_fds=[self.other.fileno()])
        self.other.close()
        self.assertIn(b"ready on descriptor", self.agent.stdout.readline())

    def start(self, *options, **more):
        agent = subprocess.Popen([str(BIN / "sandpool-agent"), *options], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                 env={**os.environ, "SANDPOOL_AGENT_TOKEN": TOKEN}, **more)
        self.addCleanup(agent.stdout.close)
        self.addCleanup(agent.wait, WAIT_S)
        self.addCleanup(agent.kill)
        return agent

    def connect(self, channel=None):
        mine, other = socket.socketpair()
        socket.send_fds(channel or self.relay, [b"c"], [other.fileno()])
        other.close()
        mine.settimeout(WAIT_S)
        self.addCleanup(mine.close)
        return mine

    def test_each_is_served(self):
        connections = [self.connect() for _ in range(50)]
        for c in connections:
            self.assertEqual(ask(c), 200)
            self.assertEqual(ask(c), 200)  # the same again
        self.assertEqual(ask(self.connect(), headers=b""), 401)
        self.assertEqual(ask(self.connect(), b"/v1/sandbox", b""), 200)

    def test_the_end_of_the_channel_is_the_end(self):
        self.assertEqual(ask(self.connect()), 200)
        self.relay.close()
        self.assertEqual(self.agent.wait(10), 0)

    def test_what_is_no_connection_is_passed_over(self):
        self.relay.send(b"c")
        with open("/dev/null", "rb") as file:
            socket.send_fds(self.relay, [b"c"], [file.fileno()])
        self.assertEqual(ask(self.connect()), 200)

    def test_a_crowd_of_strangers_pushes_out_each_other_only(self):
        kept = self.connect()
        self.assertEqual(ask(kept), 200)
        strangers = [self.connect() for _ in range(LIMIT + 50)]
        for _ in range(5):
            self.assertEqual(ask(self.connect()), 200)
        self.assertEqual(strangers[0].recv(10), b"")
        self.assertEqual(ask(kept), 200)

    def test_who_comes_amid_a_crowd_is_heard(self):
        """All wait in the channel at once, and say something: the one with the token gets its answer."""
        self.relay.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        os.kill(self.agent.pid, 19)
        try:
            before = [self.connect() for _ in range(20)]
            mine = self.connect()
            mine.sendall(ASK % (b"/v1/agent/env", PROOF))
            after = []
            sender = threading.Thread(target=lambda: after.extend(self.connect() for _ in range(LIMIT * 2)), daemon=True)
            sender.start()
            sender.join(0.5)  # as many as the kernel keeps
        finally:
            os.kill(self.agent.pid, 18)
        self.assertIn(b"200", mine.recv(100))
        sender.join(WAIT_S)
        self.assertEqual(len(after), LIMIT * 2)
        self.assertEqual(before[0].recv(10), b"")

    def test_wrong_descriptors_are_refused(self):
        for fd in ("99", "0"):
            agent = self.start("--channel-fd", fd, stderr=subprocess.PIPE)
            self.addCleanup(agent.stderr.close)
            self.assertNotEqual(agent.wait(WAIT_S), 0)
        with open("/dev/null", "rb") as file:
            agent = self.start("--channel-fd", str(file.fileno()), stderr=subprocess.PIPE, pass_fds=[file.fileno()])
        self.addCleanup(agent.stderr.close)
        self.assertEqual(agent.wait(WAIT_S), 1)
        self.assertIn(b"is not a channel", agent.stderr.read())

    def test_fetched_from_a_socket(self):
        with tempfile.TemporaryDirectory(prefix="sandpool-agent-") as directory:
            path = pathlib.Path(directory) / "socket"
            with socket.socket(socket.AF_UNIX) as meet:
                meet.bind(str(path))
                meet.listen(1)
                mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self.addCleanup(mine.close)
                agent = self.start("--channel-from", str(path))
                with meet.accept()[0] as asked:
                    socket.send_fds(asked, [b"f"], [other.fileno()])
                other.close()
                self.assertIn(b"ready", agent.stdout.readline())
                self.assertEqual(ask(self.connect(mine)), 200)
                mine.close()
                self.assertEqual(agent.wait(10), 0)


if __name__ == "__main__":
    main()
