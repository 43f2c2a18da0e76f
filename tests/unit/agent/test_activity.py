"""/v1/agent/activity: whoever would end the box for being idle is shown what is at work in it."""

import http.client
import time

from agent_client import TOKEN, WAIT_S, AgentTest, main, wait_until

ACTIVITY = "/v1/agent/activity"


class Activity(AgentTest):
    def activity(self):
        answer = self.get(ACTIVITY)
        self.assertEqual(answer.status, 200, answer)
        return answer.json

    def is_busy(self):
        return self.activity()["busy"]

    def assertUsedSince(self, at):
        idle_s = self.activity()["idle_ms"] / 1000
        self.assertLessEqual(idle_s, time.monotonic() - at + 0.002)

    def assertUnusedSince(self, at):
        passed_s = time.monotonic() - at
        self.assertGreaterEqual(self.activity()["idle_ms"] / 1000 + 0.002, passed_s)

    def test_health_and_the_question_itself_are_no_use(self):
        started = time.monotonic()
        for path in ("/v1/sandbox", "/healthz", "/v1/agent", "/v1/agent/env", ACTIVITY):
            self.assertEqual(self.get(path).status, 200, path)
        self.assertEqual(self.call("GET", "/v1/agent/jobs", token="wrong").status, 401)
        self.assertUnusedSince(started)
        self.assertFalse(self.is_busy())
        before = time.monotonic()
        self.get("/v1/agent/jobs")
        self.assertUsedSince(before)

    def test_the_token_is_needed(self):
        self.assertEqual(self.call("GET", ACTIVITY, token="wrong").status, 401)
        self.assertEqual(self.post("/v1/agent/access", {"open": True}).status, 200)
        self.assertEqual(self.call("GET", ACTIVITY, token=None).status, 200, "unless nobody needs it")

    def test_a_command_that_runs(self):
        job = self.start(argv=["sh", "-c", "read x"], stdin=True)
        self.assertTrue(self.is_busy())
        self.call("POST", f"/v1/agent/jobs/{job}/stdin?eof=1", b"")
        before = time.monotonic()
        wait_until(lambda: not self.is_busy(), "it ends")
        self.assertUsedSince(before - 1)  # it may have ended a moment earlier

    def test_what_a_command_has_left_behind(self):
        """The usual way to start a long job: the command ends, what it started does not."""
        self.bash("sleep 600 >/dev/null 2>&1 </dev/null & echo $! > left")
        self.assertTrue(self.is_busy())
        self.bash("setsid -f sh -c 'echo $$ > apart; exec sleep 600' >/dev/null 2>&1 </dev/null;"
                  "kill $(cat left)")
        wait_until(lambda: self.bash("cat apart")["stdout"], "it runs")
        self.assertTrue(self.is_busy(), "also in a session of its own")
        before = time.monotonic()
        self.bash("kill $(cat apart)")
        wait_until(lambda: not self.is_busy(), "nothing runs any more")
        self.assertUsedSince(before)

    def test_a_shell_that_waits_is_idle(self):
        self.post("/v1/shell/exec", {"command": "cd /; true"})
        self.assertFalse(self.is_busy(), "the shell lives, and does nothing")
        self.post("/v1/shell/exec", {"command": "sleep 600", "async_mode": True})
        self.assertTrue(self.is_busy())

    def test_what_a_waiting_shell_has_started(self):
        self.post("/v1/shell/exec", {"command": "sleep 600 >/dev/null 2>&1 &"})
        self.assertTrue(self.is_busy())

    def test_a_request_that_is_being_served(self):
        body = b"x" * 100
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        c.putrequest("POST", "/v1/bash/exec")
        c.putheader("Authorization", f"Bearer {TOKEN}")
        c.putheader("Content-Length", str(len(body)))
        c.endheaders(body[:10])
        wait_until(self.is_busy, "half a request is there")
        self.assertEqual(self.activity()["requests"], 1)
        before = time.monotonic()
        c.close()
        wait_until(lambda: not self.is_busy(), "its caller has gone")
        self.assertUsedSince(before)


if __name__ == "__main__":
    main()
