"""File calls run in processes of their own: they reach nothing of the agent, neither as the user nor
with sudo, and what goes wrong in one of them is only that call's failure."""

import errno
import os
import pathlib
import re
import select
import signal
import socket
import stat
import threading
import time
import unittest

from agent_client import TOKEN, is_alive, main, wait_until
from file_client import multipart
from user_client import GID, UID, UserTest

CALLS = 1000


class HelperTest(UserTest):
    def refused(self, answer, what):
        self.assertIn(answer.status, (400, 403, 404), (what, answer))
        self.assertIs(answer.json["success"], False, what)

    def try_all(self, path, **more):
        """Every call that takes a path; each must be refused."""
        path = str(path)
        calls = [("read", {"file": path}), ("write", {"file": path, "content": "x"}),
                 ("write", {"file": path, "content": "x", "append": True}),
                 ("replace", {"file": path, "old_str": "a", "new_str": "b"}),
                 ("str_replace_editor", {"command": "view", "path": path}),
                 ("str_replace_editor", {"command": "insert", "path": path, "insert_line": 0,
                                         "new_str": "x"}),
                 ("search", {"file": path, "regex": "."}),
                 ("grep", {"path": path, "pattern": "."})]
        for what, fields in calls:
            answer = self.ask(what, **fields, **more)
            if what == "grep" and answer.status == 200:
                self.assertEqual(answer.data["matches"], [], (path, answer))
            else:
                self.refused(answer, (what, path, more))
        self.refused(self.download(path), ("download", path))
        self.refused(self.upload([("path", None, path.encode()), ("file", "f", b"x")]),
                     ("upload", path))

    def slow_call(self, size=1 << 40):
        """A call that works for a long time, and its process."""
        path = self.work / f"sparse{len(list(self.work.iterdir()))}"  # each its own: emptying one ends its reader
        with open(path, "wb") as file:
            file.truncate(size)
        os.chmod(path, 0o666)
        before = set(self.children())
        connection = self.connect()
        body = ('{"file": "%s", "regex": "x"}' % path).encode()
        connection.request("POST", "/v1/file/search", body, {"Authorization": f"Bearer {TOKEN}"})
        child = wait_until(lambda: set(self.children()) - before, "a helper").pop()
        wait_until(lambda: str(path) in self.opened(child), "the file is open")
        return connection, child

    def opened(self, pid):
        try:
            return [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            return []


class Attack(HelperTest):
    def test_files_of_processes(self):
        agent = self.agent.pid
        for name in ("self", "thread-self", str(agent), "1"):
            for file in ("maps", "mem", "environ", "auxv", "fd/0", "fd/3", "fd/9", "exe",
                         "root/etc/passwd", "cwd/x", "task/1/mem", "oom_score_adj"):
                path = f"/proc/{name}/{file}"
                for more in ({}, {"sudo": True}):
                    self.refused(self.ask("read", file=path, **more), path)
                    self.refused(self.ask("write", file=path, content="x", **more), path)
        self.try_all("/proc/self/maps")
        self.try_all("/proc/self/maps", sudo=True)
        self.try_all("/proc/self/fd/3", sudo=True)
        self.try_all(f"/proc/{agent}/mem", sudo=True)
        self.assertEqual(self.get("/healthz").status, 200)

    def test_directories_of_processes(self):
        for path in ("/proc/self", "/proc/self/fd", f"/proc/{self.agent.pid}/fd", "/proc/1/root",
                     "/proc/self/cwd"):
            for what in ("list", "glob", "find", "grep"):
                fields = {"path": path, "pattern": "a*", "glob": "*", "sudo": True}
                self.refused(self.ask(what, **fields), (what, path))
        found = self.ask("grep", path="/proc", pattern="heap", recursive=True, sudo=True,
                         include=["maps"])
        self.assertEqual(found.data["matches"], [], found)

    def test_links_to_them(self):
        links = {"maps": "/proc/self/maps", "fd": "/proc/self/fd/3", "fd0": "/proc/self/fd/0",
                 "dir": "/proc/self/fd", "root": "/proc/self/root", "exe": "/proc/self/exe",
                 "agent": f"/proc/{self.agent.pid}/mem", "twice": "fd"}
        for name, target in links.items():
            os.symlink(target, self.work / name)
        for name in links:
            for more in ({}, {"sudo": True}):
                self.try_all(self.work / name, **more)
        self.refused(self.ask("read", file=self.work / "root" / "etc" / "hostname"), "root")
        self.refused(self.ask("write", file=self.work / "root" / "tmp" / "new" / "x", content="",
                              sudo=True), "root")
        self.assertTrue(all((self.work / name).is_symlink() for name in links))

    def test_what_is_no_file(self):
        fifo, unix = self.work / "fifo", self.work / "socket"
        os.mkfifo(fifo)
        os.chmod(fifo, 0o666)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(unix))
            os.chmod(unix, 0o777)
            device = self.work / "device"
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            os.chmod(device, 0o666)
            os.symlink(fifo, self.work / "link")
            for path in (fifo, unix, device, self.work / "link", "/dev/null", "/dev/zero"):
                for more in ({}, {"sudo": True}):
                    self.try_all(path, **more)

    def test_who_waits_at_a_fifo_is_not_woken(self):
        fifo = self.work / "fifo"
        os.mkfifo(fifo)
        woken = threading.Event()

        def wait():
            os.close(os.open(fifo, os.O_RDONLY))
            woken.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        try:
            self.try_all(fifo, sudo=True)
            self.assertFalse(woken.is_set())
        finally:
            while not woken.is_set():  # nonblocking: fails until the other has opened
                try:
                    os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
                except OSError as e:
                    self.assertEqual(e.errno, errno.ENXIO)
                    time.sleep(0.01)
            waiter.join()

    def test_ordinary_files_of_the_kernel(self):
        for path in ("/proc/cpuinfo", "/proc/meminfo", "/proc/sys/kernel/ostype"):
            self.assertTrue(self.ok("read", file=path)["content"], path)
        self.assertEqual(self.ok("read", file="/proc/sys/kernel/ostype", sudo=True)["content"],
                         "Linux\n")

    def test_directories_of_commands(self):
        """Where a caller names a directory, /proc/self is not the agent."""
        os.symlink("/proc/self/fd/9", self.work / "fd")
        for path in ("/proc/self/fd/9", "/proc/self/fd/3", str(self.work / "fd"), "/proc/self/exe",
                     f"/proc/{self.agent.pid}/root"):
            for target, field in (("/v1/agent/jobs", "cwd"), ("/v1/bash/exec", "exec_dir"),
                                  ("/v1/shell/exec", "exec_dir")):
                answer = self.post(target, {"command": "pwd", field: path})
                self.assertEqual(answer.status, 422, (target, path, answer))


class Devices(HelperTest):
    """/dev is the box's own, and its root can change it."""

    def agent_argv(self, argv):
        whole = super().agent_argv(argv)
        at = whole.index("-c") + 1
        whole[at] = ("mount -t tmpfs none /mnt && mknod -m 666 /mnt/null c 1 3 && "
                     "mkdir /mnt/pts && mount --bind /dev/pts /mnt/pts && "
                     "mknod -m 666 /mnt/ptmx c 5 2 && mount --move /mnt /dev && ") + whole[at]
        return whole

    def test_null_is_not_what_somebody_put_there(self):
        self.assertEqual(self.run_as("readlink /proc/self/fd/0")[1], "/dev/null\n")
        self.run_as("rm /dev/null && ln -s /proc/self/fd/1 /dev/null", user="root")
        answer = self.post("/v1/agent/jobs", {"command": "readlink /proc/self/fd/0",
                                                   "user": "root"})
        self.assertEqual(answer.status, 500, answer)
        self.assertEqual(self.ask("read", file="/proc/meminfo").status, 200)
        self.assertEqual(self.run_as("true", pty={}), (0, ""))


class Process(HelperTest):
    def status(self, pid):
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        return dict(re.findall(r"^(\w+):\s+(.*)$", text, re.M))

    def test_it_has_nothing_of_the_agent(self):
        _, child = self.slow_call()
        opened = self.opened(child)
        self.assertEqual(sorted(o for o in opened if not o.startswith("socket:")),
                         sorted(["/dev/null"] * 3 + [str(self.work / "sparse0")]))
        self.assertEqual(len(opened), 5, opened)
        theirs = {o for o in opened if o.startswith("socket:")}
        wait_until(lambda: not theirs & set(self.opened(self.agent.pid)), "the agent has closed that end")
        status = self.status(child)
        self.assertEqual(status["Uid"].split(), [str(UID)] * 4)
        self.assertEqual(status["Gid"].split(), [str(GID)] * 4)
        self.assertEqual([int(status[c], 16) for c in ("CapPrm", "CapEff", "CapInh")], [0, 0, 0])
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(os.stat(f"/proc/{child}/maps").st_uid, 0, "it can be looked into")
        listed = self.get("/v1/agent/jobs").json
        self.assertNotIn(str(child), str(listed))

    def test_a_client_that_hangs_up_ends_it(self):
        connection, child = self.slow_call()
        connection.close()
        wait_until(lambda: child not in self.children(), "its end")
        connection, child = self.slow_call()
        os.kill(child, signal.SIGSTOP)
        connection.close()
        wait_until(lambda: child not in self.children(), "its end")
        self.nothing_left()

    def test_long_calls_wait_for_each_other_only(self):
        first, _ = self.slow_call()
        _, second = self.slow_call()
        third = self.connect()
        third.request("POST", "/v1/file/list", b'{"path": "/etc"}', {"Authorization": f"Bearer {TOKEN}"})
        self.assertTrue(self.ok("read", file="/etc/passwd")["content"])
        wait_until(lambda: len(self.children()) == 2, "the short call is reaped")
        self.assertEqual(select.select([third.sock], [], [], 0)[0], [])
        first.close()
        self.assertEqual(third.getresponse().status, 200)
        self.assertTrue(is_alive(second))

    def test_killed_in_the_middle(self):
        connection, child = self.slow_call()
        os.kill(child, signal.SIGKILL)
        response = connection.getresponse()
        self.assertEqual(response.status, 500)
        self.assertIn(b"helper died", response.read())
        self.assertTrue(self.ok("list", path=self.work)["files"])

    def test_the_agent_ends_with_a_call_under_way(self):
        _, child = self.slow_call()
        self.stop_agent()
        wait_until(lambda: not is_alive(child), "its end")

    def test_nothing_is_left_of_many(self):
        path = self.work / "small"
        path.write_text("text\n")
        self.ok("read", file=path)
        connection = self.connect()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        before = self.descriptors()
        for i in range(CALLS):
            body = ('{"file": "%s"}' % (path if i % 4 else "/proc/self/maps")).encode()
            connection.request("POST", "/v1/file/read", body, headers)
            response = connection.getresponse()
            response.read()
            self.assertEqual(response.status, 200 if i % 4 else 403)
        connection.close()
        wait_until(lambda: self.children() == [], "the last is reaped")
        wait_until(lambda: self.descriptors() <= before, "descriptors")

    def test_uploads_and_downloads_that_break_off(self):
        big = self.work / "big"
        with open(big, "wb") as file:
            file.truncate(1 << 30)
        os.chmod(big, 0o644)
        before = self.descriptors()
        for _ in range(5):
            connection, response = self.open("GET", f"/v1/file/download?path={big}")
            self.assertEqual(len(response.read(100000)), 100000)
            connection.close()
            body, headers = multipart([("path", None, str(self.work / "up").encode()),
                                       ("file", "f", b"x" * 600000)])
            with socket.create_connection(("127.0.0.1", self.port)) as s:
                head = (f"POST /v1/file/upload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}"
                        f"\r\nContent-Type: {headers['Content-Type']}\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n")
                s.sendall(head.encode() + body[:-100])
                wait_until(lambda: list(self.work.glob(".sandpool-*")), "the upload has begun")
            wait_until(lambda: self.children() == [], "the end of the helpers")
            self.assertEqual(list(self.work.glob(".sandpool-*")), [])
        self.assertFalse((self.work / "up").exists())
        wait_until(lambda: self.descriptors() <= before, "descriptors")


class SmallDisk(HelperTest):
    def agent_argv(self, argv):
        whole = super().agent_argv(argv)
        at = whole.index("-c") + 1
        whole[at] = f"mount -t tmpfs -o size=64k none {self.work} && " + whole[at]
        return whole

    def test_no_space(self):
        path = self.work / "file"
        self.ok("write", file=path, content="whole", sudo=True)
        self.fails(507, "no_space", self.ask("write", file=path, content="x" * 100000, sudo=True))
        self.assertEqual(self.ok("read", file=path)["content"], "whole")


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class Broken(HelperTest):
    """A helper that dies at a certain point; only in a build that has such points."""
    point = "helper.before_run"

    def agent_argv(self, argv):
        return ["env", f"SANDPOOL_CRASH_AT={self.point}", *super().agent_argv(argv)]

    def test_it_is_an_error_of_that_call(self):
        answers = [self.ask("read", file="/etc/passwd"), self.download("/etc/passwd"),
                   self.upload([("path", None, str(self.work / "a").encode()),
                                ("file", "f", b"x" * 900000)])]
        if answers[0].status == 200:
            self.skipTest("this build has no crash points")
        for answer in answers:
            if self.point == "helper.before_run" or answer is not answers[1]:
                self.assertEqual(answer.status, 500, answer)
                self.assertIn("helper", answer.json["message"])
        self.assertEqual(self.get("/healthz").status, 200)
        wait_until(lambda: self.children() == [], "all are reaped")


class BrokenAnswer(Broken):
    point = "helper.before_answer"


if __name__ == "__main__":
    main()
