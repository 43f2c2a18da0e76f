"""/v1/shell: living shells on a terminal."""

import json
import threading
import time

from agent_client import AgentTest, at_most, is_alive, main, wait_until


class Shell(AgentTest):
    def sh(self, command, **fields):
        answer = self.post("/v1/shell/exec", {"command": command, **fields})
        self.assertEqual(answer.status, 200, answer)
        return answer.data

    def create(self, name, **fields):
        answer = self.post("/v1/shell/sessions/create", {"id": name, **fields})
        self.assertEqual(answer.status, 200, answer)
        return answer.data

    def sessions(self):
        return self.get("/v1/shell/sessions").data["sessions"]

    def test_result(self):
        data = self.sh("echo out; echo err >&2; (exit 3)")
        self.assertEqual((data["status"], data["exit_code"]), ("completed", 3))
        self.assertEqual(data["output"], "out\nerr\n")
        self.assertEqual(data["console"][0]["command"], "echo out; echo err >&2; (exit 3)")
        self.assertEqual(self.sh("test -t 0 && test -t 1 && echo terminal")["output"], "terminal\n")
        self.assertEqual(self.sh("true")["output"], "")

    def test_state_lasts(self):
        self.sh("cd /tmp; export A=1; b=2; f() { echo \"$A$b$1\"; }; alias g='f 3'")
        self.assertEqual(self.sh("pwd; f x; g")["output"], "/tmp\n12x\n123\n")
        self.assertEqual(self.sh("pwd", exec_dir="/usr")["output"], "/usr\n")
        self.assertEqual(self.sessions()["default"]["working_dir"], "/usr")

    def test_directory_that_is_not_there(self):
        self.sh("cd /usr")
        body = {"command": "pwd", "exec_dir": "/no/such"}
        for strict in ({}, {"strict": True}):
            self.assertEqual(self.post("/v1/shell/exec", {**body, **strict}).status, 422)
        self.assertEqual(self.sh("pwd", exec_dir="/no/such", strict=False)["output"], "/usr\n")

    def test_links_in_directories(self):
        (self.home / "real").mkdir()
        (self.home / "link").symlink_to("real")
        link, real = f"{self.home}/link", f"{self.home}/real"
        self.assertEqual(self.sh("pwd", exec_dir=link)["output"], f"{real}\n")
        self.assertEqual(self.sh("pwd", exec_dir=link, preserve_symlinks=True)["output"], f"{link}\n")
        for keep, expected in ((False, real), (True, link)):
            created = self.create(f"s{keep}", exec_dir=link, preserve_symlinks=keep)
            self.assertEqual(created["working_dir"], expected)
            self.assertEqual(self.sh("pwd", id=f"s{keep}")["output"], f"{expected}\n")

    def test_no_terminal_for_browsers(self):
        answer = self.get("/v1/shell/terminal-url")
        self.assertEqual((answer.status, answer.json["success"]), (501, False))

    def test_commands_of_every_form(self):
        self.assertEqual(self.sh("cat <<'E'\n$x `y` \\\\ 'z'\nE\n")["output"], "$x `y` \\\\ 'z'\n")
        self.assertEqual(self.sh("for i in 1 2\ndo\necho $i\ndone # comment")["output"], "1\n2\n")
        self.assertNotEqual(self.sh("echo 'unclosed")["exit_code"], 0)
        self.assertNotEqual(self.sh("if; then")["exit_code"], 0)
        self.assertEqual(self.sh("echo ok")["output"], "ok\n")
        long = "x" * 300000
        self.assertEqual(self.sh(f"v={long}; echo ${{#v}}")["output"], "300000\n")
        self.assertEqual(self.sh("exec 3>/dev/null 4>&3 5>&3; echo e >&3; echo still")["output"],
                         "still\n")
        self.assertEqual(self.sh("printf() { :; }; read() { :; }; echo mine")["output"], "mine\n")
        self.assertEqual(self.sh("echo on")["output"], "on\n")

    def test_output_cannot_end_a_command(self):
        data = self.sh("printf '\\0360123456789abcdef'; printf '0 /tmp\\0'; sleep 0.2; echo real; false")
        self.assertTrue(data["output"].endswith("real\n"))
        self.assertEqual((data["status"], data["exit_code"]), ("completed", 1))

    def test_commands_do_not_inherit_the_pipes(self):
        text = self.sh("ls -l /proc/self/fd")["output"]
        self.assertNotIn("pipe:", text)

    def test_background_job_goes_on(self):
        data = self.sh("(sleep 0.3; echo late) & echo now")
        self.assertEqual(data["output"].splitlines()[-1], "now")
        self.assertEqual(data["status"], "completed")
        self.assertIn("late", self.sh("wait; echo waited")["output"])

    def test_all_output_is_there(self):
        for size in (1, 5000, 200000):
            data = self.sh(f"head -c {size} /dev/zero | tr '\\0' x", truncate=False)
            self.assertEqual(len(data["output"]), size)
        data = self.sh("seq 1 100000")
        self.assertLess(len(data["output"]), 31000)
        self.assertTrue(data["output"].startswith("1\n2\n"))
        self.assertTrue(data["output"].endswith("\n100000\n"))

    def test_sessions_do_not_mix(self):
        for name in ("a", "b"):
            self.create(name)
            self.sh(f"cd /; x={name}; export x", id=name)
        failures = []

        def run(name):
            for i in range(30):
                output = self.sh(f"echo $x {i}", id=name)["output"]
                if output != f"{name} {i}\n":
                    failures.append((name, i, output))

        threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(failures, [])

    def test_stuck_command_blocks_only_its_session(self):
        self.create("stuck")
        self.assertEqual(self.sh("while :; do :; done", id="stuck", async_mode=True)["status"], "running")
        self.assertEqual(self.sh("echo free")["output"], "free\n")
        answer = self.post("/v1/shell/exec", {"command": "echo x", "id": "stuck"})
        self.assertEqual((answer.status, answer.json["success"]), (409, False))
        self.assertEqual(self.sessions()["stuck"]["status"], "active")
        answer = self.post("/v1/shell/kill", {"id": "stuck"})
        self.assertEqual(answer.data["status"], "terminated")
        self.assertEqual(self.sh("echo again", id="stuck")["output"], "again\n")

    def test_busy_default_session(self):
        self.sh("sleep 300", async_mode=True)
        data = self.sh("echo beside")
        self.assertEqual(data["output"], "beside\n")
        self.assertNotEqual(data["session_id"], "default")

    def test_timeouts(self):
        data = self.sh("echo a; sleep 300", no_change_timeout=0.3)
        self.assertEqual((data["status"], data["output"], data["exit_code"]),
                         ("no_change_timeout", "a\n", None))
        self.post("/v1/shell/kill", {"id": data["session_id"]})
        # output begins the time anew: longer than it in the whole, never so long without output
        quiet_s = min(at_most(0.5), 3)
        data = self.sh(f"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i; sleep {quiet_s / 10}; done",
                       no_change_timeout=quiet_s)
        self.assertEqual(data["status"], "completed")
        data = self.sh("echo b; sleep 300", timeout=0.2)
        self.assertEqual((data["status"], data["output"]), ("running", "b\n"))
        self.post("/v1/shell/kill", {"id": data["session_id"]})

    def test_hard_timeout_spares_the_shell(self):
        self.sh("kept=1; cd /tmp")
        data = self.sh("echo c; sleep 300", hard_timeout=0.3)
        self.assertEqual((data["status"], data["exit_code"]), ("hard_timeout", 124))
        self.assertTrue(data["output"].startswith("c\n"))
        self.assertEqual(self.sh("echo $kept; pwd")["output"], "1\n/tmp\n")

    def test_hard_timeout_of_what_ignores_it(self):
        self.sh("cd /tmp")
        data = self.sh("trap '' INT TERM; sleep 300 & echo $!; while :; do sleep 0.1; done",
                       hard_timeout=0.3)
        self.assertEqual(data["status"], "hard_timeout")
        child = int(data["output"].split()[0])
        wait_until(lambda: not is_alive(child), "its children are dead, too")
        self.assertEqual(self.sh("pwd")["output"], "/tmp\n")  # a new shell at the old place

    def test_exit_ends_the_shell(self):
        data = self.sh("cd /usr; x=1; echo bye; exit 7")
        self.assertEqual((data["status"], data["exit_code"], data["output"]),
                         ("terminated", 7, "bye\n"))
        self.assertEqual(self.sh("echo [$x]")["output"], "[]\n")

    def test_write_wait_view(self):
        data = self.sh("read -r x; echo got $x; sleep 0.2", async_mode=True)
        name = data["session_id"]
        self.assertEqual(self.post("/v1/shell/wait", {"id": name, "seconds": 0.1}).data["status"],
                         "running")
        self.post("/v1/shell/write", {"id": name, "input": "word", "press_enter": True})
        answer = self.post("/v1/shell/wait", {"id": name, "seconds": 30})
        self.assertEqual(answer.data["status"], "completed")
        answer = self.post("/v1/shell/view", {"id": name})
        self.assertEqual((answer.data["output"], answer.data["exit_code"]), ("got word\n", 0))

    def test_write_where_nothing_runs(self):
        self.create("new")
        answer = self.post("/v1/shell/write", {"id": "new", "input": "word"})
        self.assertEqual((answer.status, answer.json["message"]), (409, "nothing runs in this session"))
        self.sh("exit 3", id="new")
        self.assertEqual(self.post("/v1/shell/write", {"id": "new", "input": "word"}).status, 409)

    def test_interrupt(self):
        name = self.sh("sleep 300; echo after", async_mode=True)["session_id"]
        time.sleep(0.3)
        self.post("/v1/shell/write", {"id": name, "input": "\x03"})
        answer = self.post("/v1/shell/wait", {"id": name, "seconds": 30})
        self.assertEqual(answer.data["status"], "completed")

    def test_events(self):
        _, response = self.open("POST", "/v1/shell/exec", {"command": "echo 1; sleep 0.2; echo 2; (exit 5)"},
                                {"Accept": "text/event-stream"})
        self.assertEqual(response.getheader("Content-Type"), "text/event-stream")
        output, result, name = "", None, None
        for line in response.read().decode().splitlines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: ") and name == "output":
                output += json.loads(line[6:])["output"]
            elif line.startswith("data: "):
                result = json.loads(line[6:])["data"]
        self.assertEqual(output, "1\n2\n")
        self.assertEqual((result["status"], result["exit_code"]), ("completed", 5))

    def test_refusals(self):
        for body in ({}, {"command": ""}, {"command": "x", "hard_timeout": "1"},
                     {"command": "x", "exec_dir": "/no/such"}, b"[]"):
            answer = self.post("/v1/shell/exec", body)
            self.assertEqual(answer.status, 422, answer)
        for what in ("exec", "view", "wait", "write", "kill"):
            answer = self.post(f"/v1/shell/{what}", {"id": "nobody", "command": "x"})
            self.assertEqual((answer.status, answer.json["message"]), (404, "Session not found"))
            self.assertEqual(self.post(f"/v1/shell/{what}", {}, token=None).status, 401)
        for what in ("view", "wait", "write", "kill"):
            self.assertEqual(self.post(f"/v1/shell/{what}").status, 422)
        self.assertEqual(self.call("DELETE", "/v1/shell/sessions/nobody").status, 404)
        self.assertEqual(self.post("/v1/shell/sessions/update", {"id": "nobody"}).status, 404)
        self.assertEqual(self.post("/v1/shell/sessions/create", {"id": "a b"}).status, 422)

    def test_table_of_sessions(self):
        first = self.create("one", exec_dir="/tmp", no_change_timeout=5)
        self.assertEqual((first["session_id"], first["working_dir"]), ("one", "/tmp"))
        self.assertEqual(self.create("one", exec_dir="/usr")["working_dir"], "/tmp")
        self.post("/v1/shell/sessions/update", {"id": "one", "no_change_timeout": 0.2})
        self.assertEqual(self.sh("sleep 300", id="one")["status"], "no_change_timeout")
        for i in range(12):
            self.create(f"s{i}")
        self.assertEqual(len(self.sessions()), 10)
        self.assertIn("one", self.sessions())  # busy
        stats = self.get("/v1/shell/sessions/stats").data
        self.assertEqual((stats["total_sessions"], stats["active_sessions"], stats["max_sessions"]),
                         (10, 1, 10))
        self.assertEqual(self.call("DELETE", "/v1/shell/sessions/one").status, 200)
        self.assertNotIn("one", self.sessions())
        self.assertEqual(self.call("DELETE", "/v1/shell/sessions").status, 200)
        self.assertEqual(self.sessions(), {})
        wait_until(lambda: self.children() == [], "all shells are gone")

    def test_other_apis_keep_out(self):
        self.create("same")
        self.sh("x=1", id="same")
        self.post("/v1/bash/sessions/create", {"session_id": "same"})
        tagged = self.start(command="sleep 300", tag="same")
        self.post("/v1/bash/sessions/same/close")
        self.assertEqual(self.sh("echo $x", id="same")["output"], "1\n")
        self.assertEqual(self.wait(tagged, 0)["outcome"], "running")

    def test_removed_while_somebody_waits(self):
        self.create("gone")
        results = []
        thread = threading.Thread(target=lambda: results.append(self.sh("sleep 300", id="gone")))
        thread.start()
        wait_until(lambda: self.sessions()["gone"]["status"] == "active", "it runs")
        self.call("DELETE", "/v1/shell/sessions/gone")
        thread.join(30)
        self.assertEqual(results[0]["status"], "terminated")

    def test_nothing_is_left(self):
        self.sh("true")
        self.call("DELETE", "/v1/shell/sessions")
        wait_until(lambda: self.children() == [], "the shell is gone")
        before = self.descriptors()
        for i in range(20):
            self.create(f"t{i}")
            self.sh("echo x", id=f"t{i}")
            self.call("DELETE", f"/v1/shell/sessions/t{i}")
        wait_until(lambda: self.children() == [], "the shells are gone")
        wait_until(lambda: self.descriptors() <= before, "descriptors are closed")


if __name__ == "__main__":
    main()
