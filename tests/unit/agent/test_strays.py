"""Killing a process: what has left its group, and who is taken first when memory is short."""

import os
import pathlib
import signal
import time

from agent_client import AgentTest, at_most, is_alive, main, wait_until

JOBS = "/v1/agent/jobs"
# Each line prints the number of a process that does not get what is sent to its group.
IN_SESSION = "setsid sh -c 'echo $$; exec sleep 300' & "
DEAF = "setsid sh -c 'trap \"\" TERM; echo $$; sleep 300; sleep 300' & "
NESTED = "setsid sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 300\" & wait' & "
OWN_GROUP = "set -m; sh -c 'echo $$; exec sleep 300' & set +m; "
# Its own session, nothing of its environment, and its parent is dead.
DAEMON = "(env -i setsid sh -c 'echo $$; exec sleep 300' &); "
ORPHAN_IN_GROUP = "bash -c 'set -m; sleep 300 & echo $!' ; "


class Strays(AgentTest):
    def begin(self, script, count, end="wait", **fields):
        """Starts it and gives the numbers of its strays."""
        self.id = self.start(command=script + end, **fields)
        text = wait_until(lambda: (lambda b: b.count(b"\n") == count and b)(
            self.process(self.id, "/output").body), "all have begun")
        strays = [int(line) for line in text.split()]
        for pid in strays:
            self.assertTrue(is_alive(pid))
            self.assertNotEqual(os.getpgid(pid), self.process(self.id).json["pid"])
            self.addCleanup(self.end, pid)
        return strays

    @staticmethod
    def end(pid):
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)

    def gone(self, pids):
        wait_until(lambda: not any(is_alive(p) for p in pids), f"{pids} are dead")

    def test_kill(self):
        strays = self.begin(IN_SESSION + NESTED + OWN_GROUP + ORPHAN_IN_GROUP, 4)
        started = time.monotonic()
        answer = self.call("DELETE", f"{JOBS}/{self.id}")
        self.assertEqual(answer.json["outcome"], "killed")
        self.gone(strays)
        self.assertLess(time.monotonic() - started, at_most(2))

    def test_timeout(self):
        strays = self.begin(IN_SESSION + NESTED, 2, timeout_s=1)
        self.assertEqual(self.wait(self.id)["outcome"], "timed_out")
        self.gone(strays)

    def begin_daemons(self, script, count, **fields):
        pids = self.begin(script, count, end="sleep 300", **fields)
        wait_until(lambda: all(pid in self.children() for pid in pids), "they have lost their parents")
        return pids

    def test_daemons(self):
        others = self.begin_daemons(DAEMON, 1)
        first = self.id
        for end in ("kill", "timeout", "signal"):
            pids = self.begin_daemons(DAEMON + DAEMON, 2, timeout_s=3 if end == "timeout" else 0)
            if end == "kill":
                self.assertEqual(self.call("DELETE", f"{JOBS}/{self.id}").json["outcome"], "killed")
            elif end == "signal":
                self.post(f"{JOBS}/{self.id}/signal", {"signal": "SIGKILL"})
            self.assertEqual(self.wait(self.id)["outcome"], "timed_out" if end == "timeout" else "killed")
            self.assertFalse(any(is_alive(pid) for pid in pids), end)  # it is over when they are
            self.assertEqual(self.process(first).json["outcome"], "running")
            self.assertTrue(all(is_alive(pid) for pid in others))

    def test_a_daemon_that_comes_at_the_end(self):
        script = ("trap \"(setsid sh -c 'echo > there; exec sleep 300' &); until [ -e there ]; do sleep 0.01; done; exit\" TERM; "
                  "echo ready; sleep 300 & wait")
        self.id = self.start(command=script)
        wait_until(lambda: self.process(self.id, "/output").body == b"ready\n", "it has begun")
        self.assertEqual(self.call("DELETE", f"{JOBS}/{self.id}").json["outcome"], "killed")
        wait_until(lambda: self.children() == [], "nothing is left")

    def test_a_mark_that_was_changed(self):
        """It escapes, and nobody else is found in its place."""
        pids = self.begin_daemons("(setsid bash -c 'ulimit -m 1000; echo $$; exec sleep 300' &); ", 1)
        self.call("DELETE", f"{JOBS}/{self.id}")
        self.assertTrue(is_alive(pids[0]))

    def test_those_that_do_not_listen(self):
        strays = self.begin(DEAF, 1)
        self.call("DELETE", f"{JOBS}/{self.id}")
        self.gone(strays)
        strays = self.begin(DEAF, 1, end="trap '' TERM; wait; sleep 300")
        self.call("DELETE", f"{JOBS}/{self.id}")
        self.gone(strays)

    def test_signal_kill(self):
        strays = self.begin(IN_SESSION + NESTED, 2)
        self.post(f"{JOBS}/{self.id}/signal", {"signal": "SIGKILL"})
        self.gone(strays)

    def test_other_signals_are_for_the_group(self):
        strays = self.begin(IN_SESSION, 1)
        self.post(f"{JOBS}/{self.id}/signal", {"signal": "SIGHUP"})
        self.assertEqual(self.wait(self.id)["outcome"], "killed")
        self.assertTrue(is_alive(strays[0]))

    def test_others_are_left_alone(self):
        strays = self.begin(IN_SESSION, 1)
        first = self.id
        others = self.begin(IN_SESSION + OWN_GROUP, 2)
        self.call("DELETE", f"{JOBS}/{first}")
        self.gone(strays)
        self.assertTrue(all(is_alive(p) for p in others))
        self.assertEqual(self.process(self.id).json["outcome"], "running")

    def test_what_outlives_its_command_is_left_alone(self):
        strays = self.begin("setsid sh -c 'echo $$; exec sleep 300 >/dev/null 2>&1' & ", 1, end="sleep 0.1")
        self.assertEqual(self.wait(self.id)["outcome"], "exited")
        self.assertTrue(is_alive(strays[0]))

    def test_session_of_a_shell(self):
        answer = self.post("/v1/shell/exec", {"command": IN_SESSION + "sleep 300", "async_mode": True})
        session = answer.data["session_id"]
        text = wait_until(lambda: self.post("/v1/shell/view", {"id": session}).data["output"], "it runs")
        self.post("/v1/shell/kill", {"id": session})
        self.gone([int(text)])

    def test_many_that_go_on_forking(self):
        # each makes a session of its own, starts the next and goes on; 40 of them are enough
        script = ('f() { [ $1 -gt 40 ] && return; setsid sh -c \'sleep 300\' & setsid bash -c '
                  '"$(declare -f f); f $(($1 + 1)); sleep 300" & wait; }; f 0')
        self.id = self.start(command=script)
        wait_until(lambda: len(self.tree()) > 60, "a deep tree")
        self.call("DELETE", f"{JOBS}/{self.id}")
        wait_until(lambda: not self.tree(), "nothing is left")

    def tree(self):
        todo, found = [self.agent.pid], []
        while todo:
            try:
                text = pathlib.Path(f"/proc/{todo[0]}/task/{todo.pop(0)}/children").read_text()
            except OSError:
                continue
            todo += [int(p) for p in text.split()]
            found += [int(p) for p in text.split()]
        return found

    def test_end_of_the_agent(self):
        strays = self.begin(IN_SESSION + NESTED + "(setsid sh -c 'echo $$; sleep 300' &); ", 3)
        self.stop_agent()
        self.gone(strays)

    def stop_agent(self):
        if self.agent.poll() is None:
            super().stop_agent()


class Score(AgentTest):
    def test_children_go_first(self):
        own = int(pathlib.Path(f"/proc/{self.agent.pid}/oom_score_adj").read_text())
        show = "cat /proc/self/oom_score_adj"
        expected = f"{min(own + 500, 1000)}\n"
        self.assertEqual(self.bash(show)["stdout"], expected)
        self.assertEqual(self.post("/v1/shell/exec", {"command": show}).data["output"], expected)
        self.assertEqual(int(pathlib.Path(f"/proc/{self.agent.pid}/oom_score_adj").read_text()), own)


if __name__ == "__main__":
    main()
