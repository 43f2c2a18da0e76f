"""/v1/agent/jobs: the agent's own interface, and what jobs leave behind."""

import base64
import json
import os
import pathlib
import signal
import threading
import time
import unittest

from agent_client import IS_SANITIZED, AgentTest, at_most, is_alive, main, wait_until

JOBS = "/v1/agent/jobs"


def events(response):
    """(name, data) of a stream of events, as they come."""
    name = None
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


class Start(AgentTest):
    def test_argv_is_not_interpreted(self):
        pid = self.start(argv=["printf", "%s|", "a b", "$HOME", ""])
        self.assertEqual(self.wait(pid)["outcome"], "exited")
        self.assertEqual(self.process(pid, "/output").body, b"a b|$HOME||")

    def test_directory_environment_tag(self):
        pid = self.start(command="pwd; echo $X", cwd="/usr", env={"X": "1", "PATH": os.environ["PATH"]},
                         tag="mine")
        self.assertEqual(self.wait(pid)["tag"], "mine")
        self.assertEqual(self.process(pid, "/output").body, b"/usr\n1\n")

    def test_refusals(self):
        for body in ({}, {"argv": []}, {"argv": "ls"}, {"argv": [1]}, {"argv": [""]},
                     {"argv": ["ls"], "command": "ls"}, {"command": "ls", "cwd": "/no/such"},
                     {"command": "ls", "what": 1}, {"command": "ls", "pty": {"cols": 0}},
                     {"command": "ls", "timeout_s": -1}):
            answer = self.post(JOBS, body)
            self.assertEqual((answer.status, answer.json["error"]["code"]), (422, "invalid_field"), body)
        self.assertRefusedPrograms(JOBS)
        self.assertEqual(self.post(JOBS, b"{").status, 400)
        for what in ("", "/output"):
            self.assertEqual(self.process("77", what).status, 404)
            self.assertEqual(self.process("x", what).status, 404)
        for what in ("stdin", "resize", "signal", "wait"):
            self.assertEqual(self.post(f"{JOBS}/77/{what}").status, 404)
        self.assertEqual(self.call("DELETE", f"{JOBS}/77").status, 404)
        wait_until(lambda: self.children() == [], "failed starts leave no body")

    def test_child_is_clean(self):
        pid = self.start(command="ls -l /proc/self/fd | grep -c '[0-9] -> '; grep -E 'Sig(Blk|Ign)' "
                                 "/proc/self/status; ps -o pid=,pgid=,sid= -p $$")
        self.assertEqual(self.wait(pid)["exit_code"], 0)
        lines = self.process(pid, "/output").body.decode().splitlines()
        self.assertEqual(lines[0], "4")  # the three, and the directory that is listed
        self.assertEqual([line.split()[1] for line in lines[1:3]], ["0" * 16] * 2)
        self.assertEqual(len(set(lines[3].split())), 1)

    def test_list(self):
        first = self.start(command="true", tag="a")
        self.wait(first)
        second = self.start(command="sleep 300")
        listed = {p["job"]: p["outcome"] for p in self.get(JOBS).json["jobs"]}
        self.assertEqual(listed, {first: "exited", second: "running"})


class Outcome(AgentTest):
    def test_exit_and_signal(self):
        self.assertEqual(self.wait(self.start(command="exit 7"))["exit_code"], 7)
        ended = self.wait(self.start(command="kill -SEGV $$"))
        self.assertEqual((ended["outcome"], ended["signal"], ended["exit_code"]),
                         ("signalled", "SIGSEGV", None))
        ended = self.wait(self.start(command="kill -9 $$"))  # nobody was out of memory
        self.assertEqual(ended["outcome"], "signalled")

    def test_timeout(self):
        ended = self.wait(self.start(command="trap '' TERM; sleep 300", timeout_s=0.1))
        self.assertEqual(ended["outcome"], "timed_out")
        self.assertEqual(ended["signal"], "SIGKILL")
        ended = self.wait(self.start(command="trap 'exit 5' TERM; sleep 300 & wait", timeout_s=0.1))
        self.assertEqual((ended["outcome"], ended["exit_code"], ended["signal"]), ("timed_out", None, None))

    def test_timeout_is_reported_only_when_dead(self):
        pid = self.start(command="trap '' TERM; echo $$; while :; do sleep 0.1; done", timeout_s=0.1)
        time.sleep(0.5)
        self.assertEqual(self.process(pid).json["outcome"], "running")
        self.assertEqual(self.wait(pid)["outcome"], "timed_out")
        self.assertFalse(is_alive(int(self.process(pid, "/output").body)))

    def test_kill(self):
        pid = self.start(command="sleep 301 & echo $!; sleep 302")
        grandchild = wait_until(lambda: self.process(pid, "/output").body, "it has started")
        ended = self.call("DELETE", f"{JOBS}/{pid}").json
        self.assertEqual(ended["outcome"], "killed")
        wait_until(lambda: not is_alive(int(grandchild)), "the group is dead")
        self.assertEqual(self.call("DELETE", f"{JOBS}/{pid}").json["outcome"], "killed")

    def test_signal_reaches_the_group(self):
        pid = self.start(command="trap 'echo usr1; exit 0' USR1; echo on; while :; do sleep 0.05; done")
        wait_until(lambda: self.process(pid, "/output").body == b"on\n", "the trap is set")
        self.assertEqual(self.post(f"{JOBS}/{pid}/signal", {"signal": "NONE"}).status, 422)
        self.assertEqual(self.post(f"{JOBS}/{pid}/signal", {"signal": "USR1"}).status, 200)
        self.wait(pid)
        self.assertIn(b"usr1", self.process(pid, "/output").body)
        wait_until(lambda: not self.process(pid).json["stdout"]["open"], "nobody holds it")
        self.assertEqual(self.post(f"{JOBS}/{pid}/signal", {"signal": "TERM"}).status, 409)

    def test_wait_has_a_limit(self):
        pid = self.start(command="sleep 300")
        self.assertEqual(self.wait(pid, 0.1)["outcome"], "running")
        self.assertEqual(self.wait(pid, 0)["outcome"], "running")


class OutOfMemory(AgentTest):
    LIMIT = 96 * 1024 * 1024

    def setUp(self):
        self.group = self.make_group()
        if self.group is None or IS_SANITIZED:
            self.skipTest("no memory group can be made here")
        super().setUp()

    def make_group(self):
        for top, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                           ("/sys/fs/cgroup", "memory.max")):
            group = pathlib.Path(top) / f"sandpool-agent-test-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            self.addCleanup(lambda: wait_until(lambda: self.remove(group), "the group is empty"))
            try:
                (group / limit).write_text(str(self.LIMIT))
                return group
            except OSError:
                continue
        return None

    @staticmethod
    def remove(group):
        try:
            group.rmdir()
        except OSError:
            return False
        return True

    def prepare_agent(self):
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def test_outcome(self):
        hog = "exec python3 -c 'x = bytearray(1 << 30)'"
        ended = self.wait(self.start(command=hog))
        self.assertEqual((ended["outcome"], ended["signal"]), ("oom", "SIGKILL"))
        self.assertEqual(self.wait(self.start(command=hog[5:] + "; exit $?"))["outcome"], "oom")
        got = self.post("/v1/agent/exec", {"command": "echo on; " + hog}).json
        self.assertEqual((got["outcome"], got["signal"], got["exit_code"], got["stdout"]), ("oom", "SIGKILL", None, "on\n"))
        self.assertEqual(self.wait(self.start(command="kill -9 $$"))["outcome"], "signalled")
        self.assertEqual(self.wait(self.start(command="true"))["outcome"], "exited")


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class OutOfMemoryInABox(OutOfMemory):
    """As a box sees it: its group is the top of a namespace, and mounted as such."""

    def agent_argv(self, argv):
        top = self.group.parent
        script = f'mount --bind "{self.group}" "{top}" && exec "$@"'
        return ["unshare", "-m", "-C", "--propagation", "private", "sh", "-c", script, "sh", *argv]

    def test_the_group_is_the_top(self):
        self.assertIn(":memory:/\n" if self.group.parent.name == "memory" else "0::/\n",
                      self.bash("cat /proc/self/cgroup")["stdout"])


class Streams(AgentTest):
    def test_stdin(self):
        pid = self.start(argv=["cat"], stdin=True)
        target = f"{JOBS}/{pid}/stdin"
        self.assertEqual(self.call("POST", target, b"\x00one").status, 200)
        self.assertEqual(self.call("POST", target + "?eof=1", b"two\xff").status, 200)
        self.assertEqual(self.wait(pid)["exit_code"], 0)
        self.assertEqual(self.process(pid, "/output").body, b"\x00onetwo\xff")
        for job, reason in ((pid, "the input of the process has ended"),
                            (self.start(argv=["sleep", "300"]), "without input: start it with stdin: true")):
            late = self.call("POST", f"{JOBS}/{job}/stdin", b"late")
            self.assertEqual(late.status, 409)
            self.assertIn(reason, late.json["error"]["message"])

    def test_stdin_is_bounded(self):
        pid = self.start(argv=["sleep", "300"], stdin=True)
        statuses = [self.call("POST", f"{JOBS}/{pid}/stdin", b"x" * 1000000).status
                    for _ in range(8)]
        self.assertEqual(statuses[0], 200)
        self.assertEqual(statuses[-1], 429)

    def test_large_stdin_arrives_whole(self):
        pid = self.start(command="sleep 0.3; sha256sum", stdin=True)
        self.call("POST", f"{JOBS}/{pid}/stdin", b"ab" * 500000)
        self.call("POST", f"{JOBS}/{pid}/stdin?eof=1", b"cd" * 500000)
        self.wait(pid)
        import hashlib
        want = hashlib.sha256(b"ab" * 500000 + b"cd" * 500000).hexdigest()
        self.assertEqual(self.process(pid, "/output").body.split()[0].decode(), want)

    def test_terminal(self):
        pid = self.start(command="stty size; read x; stty size; echo got $x; test -t 2 && echo tty",
                         pty={"cols": 100, "rows": 30})
        wait_until(lambda: b"30 100" in self.process(pid, "/output").body, "its size")
        self.assertEqual(self.post(f"{JOBS}/{pid}/resize", {"cols": 0}).status, 422)
        self.assertEqual(self.post(f"{JOBS}/{pid}/resize", {"cols": 50, "rows": 20}).status, 200)
        self.call("POST", f"{JOBS}/{pid}/stdin", b"word\n")
        self.assertEqual(self.wait(pid)["exit_code"], 0)
        text = self.process(pid, "/output").body
        for part in (b"20 50\r\n", b"got word\r\n", b"tty\r\n"):
            self.assertIn(part, text)
        plain = self.start(command="sleep 300")
        self.assertEqual(self.post(f"{JOBS}/{plain}/resize", {"cols": 50}).status, 422)

    def test_interrupt_from_the_terminal(self):
        pid = self.start(command="echo on; sleep 300", pty={})
        wait_until(lambda: b"on" in self.process(pid, "/output").body, "it runs")
        self.call("POST", f"{JOBS}/{pid}/stdin", b"\x03")
        self.assertEqual(self.wait(pid)["signal"], "SIGINT")

    def test_output_from_an_offset(self):
        pid = self.start(command="printf 0123456789; printf abc >&2")
        self.wait(pid)
        self.assertEqual(self.process(pid, "/output?offset=4").body, b"456789")
        self.assertEqual(self.process(pid, "/output?offset=40").body, b"")
        self.assertEqual(self.process(pid, "/output?stream=stderr&offset=1").body, b"bc")
        self.assertEqual(self.process(pid, "/output?stream=what").status, 422)
        self.assertEqual(self.process(pid, "/output?offset=-1").status, 422)

    def test_follow(self):
        pid = self.start(command="for i in 1 2 3; do echo $i; sleep 0.1; done")
        self.assertEqual(self.process(pid, "/output?follow=1").body, b"1\n2\n3\n")

    def test_events(self):
        pid = self.start(command="echo a; sleep 0.2; echo b >&2; exit 4")
        _, response = self.open("GET", f"{JOBS}/{pid}/output?stream=both&follow=1")
        got = {"stdout": b"", "stderr": b""}
        for name, data in events(response):
            if name == "end":
                self.assertEqual(data["exit_code"], 4)
                break
            self.assertEqual(data["offset"], len(got[name]))
            got[name] += base64.b64decode(data["data"])
        self.assertEqual(got, {"stdout": b"a\n", "stderr": b"b\n"})

    def test_slow_reader_slows_nobody(self):
        pid = self.start(command="head -c 100000000 /dev/zero; echo done >&2")
        connection, response = self.open("GET", f"{JOBS}/{pid}/output?follow=1")
        response.read(1)  # and no more for now
        self.assertEqual(self.wait(pid)["stdout"]["size"], 100000000)
        self.assertEqual(self.bash("echo ok")["stdout"], "ok\n")
        rest = 1
        while True:
            chunk = response.read(1 << 20)
            if not chunk:
                break
            rest += len(chunk)
        self.assertEqual(rest, 100000000)
        connection.close()

    def test_gigabyte_stays_flat(self):
        size = 200_000_000 if IS_SANITIZED else 1_000_000_000
        before = self.memory_kb()
        pid = self.start(command=f"seq -f %019.0f 1 100000; head -c {size} /dev/zero; echo the end")
        ended = self.wait(pid)
        self.assertEqual(ended["stdout"]["size"], size + 2000008)
        self.assertLess(self.memory_kb("VmHWM") - before, 4096 if not IS_SANITIZED else 65536)
        self.assertEqual(self.process(pid, f"/output?offset={size + 2000000}").body, b"the end\n")
        _, response = self.open("GET", f"{JOBS}/{pid}/output")
        self.assertEqual(response.read(40), b"0000000000000000001\n0000000000000000002\n")
        self.assertEqual(os.listdir(self.spill), [])  # the file has no name

    def test_hole_is_reported(self):
        if IS_SANITIZED:
            self.skipTest("takes long")
        pid = self.start(command="head -c 400000000 /dev/zero")
        ended = self.wait(pid)["stdout"]
        self.assertLess(ended["head"], ended["tail_from"])
        _, response = self.open("GET", f"{JOBS}/{pid}/output",
                                headers={"Accept": "text/event-stream"})
        gaps = [d for n, d in zip(range(5), events(response)) if d[0] == "gap"]
        self.assertEqual(gaps[0][1], {"stream": "stdout", "from": ended["head"],
                                      "to": ended["tail_from"]})
        start = self.process(pid, f"/output?offset={ended['tail_from'] - 10}&stream=stdout",
                             headers={"Range": "none"})
        self.assertEqual(start.headers["X-Sandpool-Offset"], str(ended["tail_from"]))


class Leftovers(AgentTest):
    def test_many_short_commands_leave_nothing(self):
        count = 400 if IS_SANITIZED else 2000
        self.bash("true")
        descriptors = self.descriptors()

        def run():
            connection = self.connect()
            for _ in range(count // 4):
                connection.request("POST", "/v1/bash/exec", b'{"command":"echo x"}',
                                   {"Authorization": "Bearer test-token"})
                if b'"exit_code":0' not in connection.getresponse().read():
                    raise AssertionError("failed")
            connection.close()

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive())
        self.assertEqual(self.children(), [])
        wait_until(lambda: self.descriptors() <= descriptors, "descriptors are closed")
        self.assertEqual(os.listdir(self.spill), [])
        kept = self.get(JOBS).json["jobs"]
        self.assertLessEqual(len(kept), 130)
        if not IS_SANITIZED:
            self.assertLess(self.memory_kb(), 16 * 1024)

    def test_orphans_are_reaped(self):
        self.bash("(setsid sleep 0.2 & ) ; true")
        wait_until(lambda: self.children() == [], "the orphan is reaped")

    def test_stuck_command_blocks_nobody(self):
        stuck = [self.start(command="while :; do :; done") for _ in range(2)]
        self.start(command="yes")
        started = time.monotonic()
        for i in range(10):
            self.assertEqual(self.bash(f"echo {i}")["stdout"], f"{i}\n")
        self.assertLess(time.monotonic() - started, at_most(30))
        for pid in stuck:
            self.assertEqual(self.call("DELETE", f"{JOBS}/{pid}").json["outcome"], "killed")

    def test_nothing_survives_the_agent(self):
        pid = self.start(command="trap '' TERM HUP; echo $$; while :; do sleep 0.1; done")
        child = int(wait_until(lambda: self.process(pid, "/output").body, "it runs"))
        left = int(self.bash("trap '' HUP; sleep 300 & echo $!")["stdout"])
        self.agent.send_signal(signal.SIGTERM)
        self.assertEqual(self.agent.wait(60), 0)
        wait_until(lambda: not is_alive(child), "it went with the agent")
        wait_until(lambda: not is_alive(left), "and what a command left behind")


if __name__ == "__main__":
    main()
