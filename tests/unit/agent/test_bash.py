"""/v1/bash: commands with stdout and stderr apart."""

import time

from agent_client import AgentTest, at_most, is_alive, main, wait_until


class Bash(AgentTest):
    def sessions(self):
        return {s["session_id"]: s for s in self.get("/v1/bash/sessions").data}

    def test_streams_status_and_directory(self):
        data = self.bash("echo out; echo err >&2; pwd; exit 3")
        self.assertEqual(data["stdout"], f"out\n{self.home}\n")
        self.assertEqual(data["stderr"], "err\n")
        self.assertEqual((data["status"], data["exit_code"]), ("completed", 3))
        self.assertEqual((data["offset"], data["stderr_offset"]), (len(data["stdout"]), 4))
        self.assertEqual(self.bash("pwd", exec_dir="/tmp")["stdout"], "/tmp\n")

    def test_token(self):
        for target in ("/v1/bash/exec", "/v1/agent/jobs"):
            self.assertEqual(self.post(target, {"command": "id"}, token=None).status, 401)
            self.assertEqual(self.post(target, {"command": "id"}, token="wrong").status, 401)
        answer = self.post("/v1/bash/exec", {"command": "true"}, token=None,
                           headers={"X-AIO-API-Key": "test-token"})
        self.assertEqual(answer.status, 200)
        self.assertNotIn("test-token", self.bash("env; tr '\\0' '\\n' < /proc/$PPID/environ")["stdout"])

    def test_environment_of_one_command(self):
        self.assertEqual(self.bash('echo "$A-$B"', env={"A": "x y", "B": "é"})["stdout"], "x y-é\n")
        self.assertEqual(self.bash('echo "$A-$B"')["stdout"], "-\n")
        for env in ({"": "x"}, {"A=B": "x"}, {"A": 1}, ["A"], "A"):
            answer = self.post("/v1/bash/exec", {"command": "true", "env": env})
            self.assertEqual(answer.status, 422, answer)

    def test_refusals(self):
        for body in ({}, {"command": ""}, {"command": 7}, {"command": "true", "timeout": -1},
                     {"command": "true", "exec_dir": "/no/such/dir"},
                     {"command": "true", "max_output_length": "many"}, b"[1]", b"{"):
            answer = self.post("/v1/bash/exec", body)
            self.assertEqual(answer.status, 422, answer)
            self.assertIs(answer.json["success"], False)
            self.assertTrue(answer.json["detail"][0]["msg"])
        for what in ("exec", "output", "write", "kill"):
            answer = self.post(f"/v1/bash/{what}", {"command": "true", "session_id": "nobody"})
            self.assertEqual((answer.status, answer.json["message"]), (404, "Session not found"))
        self.assertEqual(self.post("/v1/bash/sessions/nobody/close").status, 404)
        self.assertEqual(self.post("/v1/bash/sessions/create", {"session_id": "a/b"}).status, 422)

    def test_hard_timeout_kills_the_group(self):
        data = self.bash("sleep 300 & echo $!; trap '' TERM; sleep 301", hard_timeout=0.3)
        self.assertEqual(data["status"], "timed_out")
        wait_until(lambda: not is_alive(int(data["stdout"])), "the grandchild is dead")
        wait_until(lambda: self.children() == [], "nobody is left")

    def test_command_that_ignores_term(self):
        started = time.monotonic()
        data = self.bash("trap '' TERM; while :; do sleep 0.1; done", hard_timeout=0.2)
        self.assertEqual((data["status"], data["exit_code"]), ("timed_out", 137))
        self.assertLess(time.monotonic() - started, at_most(20))

    def test_soft_timeout_leaves_it_running(self):
        data = self.bash("echo a; read x; echo got $x", timeout=0.3)
        self.assertEqual((data["status"], data["stdout"], data["exit_code"]), ("running", "a\n", None))
        session = data["session_id"]
        self.post("/v1/bash/write", {"session_id": session, "input": "word", "press_enter": True})
        answer = self.post("/v1/bash/output", {"session_id": session, "offset": 2, "wait": True})
        self.assertEqual(answer.data["stdout"], "got word\n")
        self.assertEqual(answer.data["offset"], 11)

    def test_async_output_from_offsets(self):
        data = self.bash("for i in 1 2 3; do echo $i; echo e$i >&2; sleep 0.1; done", async_mode=True)
        self.assertEqual(data["status"], "running")
        at = {"offset": 0, "stderr_offset": 0}
        texts = ["", ""]
        for _ in range(100):
            answer = self.post("/v1/bash/output", {"session_id": data["session_id"], "wait": True,
                                                   "command_id": data["command_id"], **at})
            texts[0] += answer.data["stdout"]
            texts[1] += answer.data["stderr"]
            at = {k: answer.data[k] for k in at}
            if answer.data["command"]["status"] != "running":
                break
        self.assertEqual(texts, ["1\n2\n3\n", "e1\ne2\ne3\n"])
        self.assertEqual(answer.data["command"]["exit_code"], 0)

    def test_waiting_for_output_ends(self):
        data = self.bash("sleep 300", async_mode=True)
        started = time.monotonic()
        answer = self.post("/v1/bash/output", {"session_id": data["session_id"], "wait": True,
                                               "wait_timeout": 0.2})
        self.assertEqual((answer.data["stdout"], answer.data["command"]["status"]), ("", "running"))
        self.assertLess(time.monotonic() - started, at_most(20))

    def test_kill(self):
        data = self.bash("sleep 300", async_mode=True)
        session = data["session_id"]
        answer = self.post("/v1/bash/kill", {"session_id": session, "signal": "SIGWHAT"})
        self.assertEqual(answer.status, 422)
        self.assertEqual(self.post("/v1/bash/kill", {"session_id": session}).status, 200)
        answer = self.post("/v1/bash/output", {"session_id": session, "wait": True})
        self.assertEqual(answer.data["command"]["status"], "killed")

    def test_long_output_is_cut_in_the_middle(self):
        data = self.bash("seq 1 100000", max_output_length=1000)
        self.assertTrue(data["stdout"].startswith("1\n2\n"))
        self.assertTrue(data["stdout"].endswith("\n99999\n100000\n"))
        self.assertIn("bytes left out", data["stdout"])
        self.assertLess(len(data["stdout"]), 1200)
        whole = self.post("/v1/bash/output", {"session_id": data["session_id"]})
        self.assertEqual(whole.data["stdout"], "".join(f"{i}\n" for i in range(1, 100001)))

    def test_bytes_that_are_no_text(self):
        data = self.bash("printf 'a\\0b\\377c'")
        self.assertEqual(data["stdout"], "a\ufffdb\ufffdc")

    def test_character_is_not_cut_while_running(self):
        data = self.bash("printf 'x\\303'; read y; printf '\\251'", async_mode=True)
        session = data["session_id"]
        answer = self.post("/v1/bash/output", {"session_id": session, "wait": True})
        self.assertEqual((answer.data["stdout"], answer.data["offset"]), ("x", 1))
        self.post("/v1/bash/write", {"session_id": session, "input": "\n"})
        text = ""
        at = 1
        while answer.data["command"]["status"] == "running" or at < 3:
            answer = self.post("/v1/bash/output", {"session_id": session, "offset": at})
            text += answer.data["stdout"]
            at = answer.data["offset"]
        self.assertEqual(text, "é")

    def test_background_child_does_not_hold_the_answer(self):
        started = time.monotonic()
        data = self.bash("sleep 300 & echo $!")
        self.assertLess(time.monotonic() - started, at_most(20))
        self.assertTrue(is_alive(int(data["stdout"])))
        self.call("DELETE", f"/v1/agent/jobs/{data['command_id']}")
        wait_until(lambda: not is_alive(int(data["stdout"])), "what it left behind is dead")

    def test_sessions(self):
        answer = self.post("/v1/bash/sessions/create", {"session_id": "one", "exec_dir": "/tmp"})
        self.assertEqual((answer.data["session_id"], answer.data["working_dir"]), ("one", "/tmp"))
        self.assertEqual(self.bash("cd /; pwd", session_id="one")["stdout"], "/\n")
        self.assertEqual(self.bash("pwd", session_id="one")["stdout"], "/tmp\n")
        sleeper = self.bash("echo $$; exec sleep 300", session_id="one", async_mode=True)
        listed = self.sessions()
        self.assertEqual((listed["one"]["status"], listed["one"]["command_count"]), ("ready", 3))
        self.assertIn("sleep 300", listed["one"]["current_command"])
        self.assertEqual(self.bash("echo beside", session_id="one")["stdout"], "beside\n")
        self.assertEqual(self.post("/v1/bash/sessions/one/close").status, 200)
        self.assertNotIn("one", self.sessions())
        wait_until(lambda: self.process(sleeper["command_id"]).json["outcome"] == "killed", "killed")

    def test_oldest_idle_session_makes_room(self):
        self.post("/v1/bash/sessions/create", {"session_id": "first"})
        self.bash("sleep 300", session_id="first", async_mode=True)
        for i in range(80):
            self.assertEqual(self.post("/v1/bash/sessions/create", {"session_id": f"s{i}"}).status, 200)
        listed = self.sessions()
        self.assertEqual(len(listed), 64)
        self.assertIn("first", listed)
        self.assertIn("s79", listed)
        self.assertNotIn("s0", listed)
        oldest = [name for name in listed if name != "first"][0]
        self.bash("true", session_id=oldest)  # used: the next one goes instead
        self.post("/v1/bash/sessions/create", {"session_id": "last"})
        self.assertIn(oldest, self.sessions())

    def test_caller_that_leaves_takes_its_command_along(self):
        connection = self.connect()
        connection.request("POST", "/v1/bash/exec", b'{"command":"sleep 300"}',
                           {"Authorization": "Bearer test-token"})
        wait_until(lambda: self.children() != [], "it runs")
        connection.close()
        wait_until(lambda: self.children() == [], "it is gone")


if __name__ == "__main__":
    main()
