"""The JavaScript client with the real daemon and real boxes. The tests are in real/*.mjs and run in Node; this file starts the
daemon, restarts it when they ask for it, and proves that nothing is left."""

import os
import pathlib
import socket
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "tests" / "integration")]

from fixtures import WAIT_S, free_port, main  # noqa: E402
from oci_case import BoxCase  # noqa: E402
from run_unit import run_tests  # noqa: E402

TOKEN = "a-token-for-the-tests-of-the-client"


class Control:
    """Answers one line per connection: the name of what shall happen to the daemon."""

    def __init__(self, path, actions):
        self.actions = actions
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with sock:
                sock.settimeout(WAIT_S)
                name = sock.makefile().readline().strip()
                try:
                    self.actions[name]()
                    sock.sendall(b"done\n")
                except Exception as problem:  # the test in Node shows it
                    sock.sendall(f"{problem!r}\n".encode())

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Real(BoxCase):
    profiles = {"default": {"warm": {"min": 2, "max": 4}}, "alone": {"network": "none", "warm": {"min": 1, "max": 1}}}

    @classmethod
    def make_config(cls):
        cls.port = free_port()
        tcp = {"listen": f"127.0.0.1:{cls.port}", "tokens": {"js": TOKEN}}
        return {**super().make_config(), "tcp": tcp}

    def kill_and_start(self):
        self.server.kill()
        self.server.start()

    def test_in_node(self):
        path = self.home / "control.sock"
        control = Control(path, {"kill": self.kill_and_start, "takeover": self.server.takeover})
        self.addCleanup(control.close)
        env = {**os.environ, "SANDPOOL_SOCKET": str(self.server.socket), "SANDPOOL_TEST_CONTROL": str(path),
               "SANDPOOL_TEST_TCP": f"http://127.0.0.1:{self.port}", "SANDPOOL_TEST_TOKEN": TOKEN}
        # One after the other: they restart the daemon.
        for name in os.environ.get("SANDPOOL_TEST_ONLY", "commands files live readme").split():
            with self.subTest(name):
                run_tests(self, [HERE / "real" / f"{name}.mjs"], 280, env)


if __name__ == "__main__":
    main()
