"""Attempts to reach the agent of a box through its own file calls, as the user and with sudo: the agent is process 1, and
what it has open leads to the host. The same boxes as those of test_escape.py."""

import http.client
import json
import os
import pathlib

import escape_case
from escape_case import Attempt, on_this_kernel
from fixtures import main, wait_until


def setUpModule():
    escape_case.setUpModule()


class FileCalls(Attempt):
    def file(self, what, **fields):
        status, text = self.a.call("POST", f"/v1/file/{what}", fields)
        return status, json.loads(text)

    def refused(self, what, **fields):
        status, answer = self.file(what, **fields)
        self.assertIn(status, (400, 403, 404), (what, fields, answer))

    def inodes(self):
        """What the agent has open, as the host sees it."""
        return {os.readlink(e) for e in pathlib.Path(f"/proc/{self.a.pid}/fd").iterdir()}

    def test_the_agent_itself(self):
        for sudo in (False, True):
            for process in ("self", "thread-self", "1", "1/task/1"):
                for file in ("maps", "mem", "environ", "auxv", "stat", "syscall", "exe", "root/etc/passwd", "cwd/x",
                             *(f"fd/{n}" for n in range(12))):
                    path = f"/proc/{process}/{file}"
                    self.refused("read", file=path, sudo=sudo)
                    self.refused("write", file=path, content="x", sudo=sudo)
                    self.refused("write", file=path, content="x", append=True, sudo=sudo)
                    self.assertIn(self.a.call("GET", f"/v1/file/download?path={path}")[0], (400, 403, 404), path)
                self.refused("list", path=f"/proc/{process}/fd", sudo=sudo)
        self.assertEqual(self.a.call("GET", "/healthz")[0], 200)

    def test_through_links(self):
        self.a.run("user", "sh", "-c", "cd /workspace && ln -s /proc/self/fd/9 fd && ln -s /proc/1/mem mem && "
                   "ln -s /proc/self/maps maps && ln -s /proc/1/root root && mkfifo fifo && ln -s fd twice")
        for sudo in (False, True):
            for name in ("fd", "mem", "maps", "root/etc/passwd", "fifo", "twice", "root/proc/1/maps"):
                self.refused("read", file=f"/workspace/{name}", sudo=sudo)
                self.refused("write", file=f"/workspace/{name}", content="x", sudo=sudo)
        self.assertEqual(self.a.call("GET", "/healthz")[0], 200)

    @on_this_kernel
    def test_it_is_another_process(self):
        """While a call works: it has one socket that is not the agent's, and no file of the agent's."""
        self.a.run("user", "truncate", "-s", "1T", "/workspace/sparse")
        connection = http.client.HTTPConnection(self.a.address, timeout=60)
        self.addCleanup(connection.close)
        own = self.inodes()
        connection.request("POST", "/v1/file/search", json.dumps({"file": "/workspace/sparse", "regex": "x"}),
                           {"Authorization": f"Bearer {self.a.token}"})
        held = wait_until(self.helper, "a helper with the file open", 30)
        self.assertEqual(len([h for h in held if h.startswith("socket:")]), 1, held)
        self.assertFalse({h for h in held if h.startswith(("socket:", "pipe:", "anon_inode:"))} & own, held)
        self.assertFalse([h for h in held if h.endswith("/lock")], held)

    def helper(self):
        for child in pathlib.Path(f"/proc/{self.a.pid}/task/{self.a.pid}/children").read_text().split():
            try:
                held = [os.readlink(e) for e in pathlib.Path(f"/proc/{child}/fd").iterdir()]
            except OSError:
                continue
            if any(h.endswith("/workspace/sparse") for h in held):
                return held
        return None

    def test_ordinary_files_are_served(self):
        for path in ("/proc/cpuinfo", "/proc/meminfo", "/etc/passwd"):
            status, answer = self.file("read", file=path)
            self.assertEqual(status, 200, answer)
            self.assertTrue(answer["data"]["content"])


if __name__ == "__main__":
    main()
