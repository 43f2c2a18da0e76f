"""SIGTERM with a grace: everything in the box is notified, has time, and does not outlive it."""

import signal
import time

from agent_client import WAIT_S, AgentTest, main, wait_until

GRACE_S = 300  # never waited for


class Leave(AgentTest):
    grace = GRACE_S

    def agent_argv(self, argv):
        return [*argv, "--stop-grace", str(self.grace)]

    def ready(self, path):
        return wait_until((self.home / path).exists, f"{path} is there")

    def told(self):
        """How long its end took."""
        started = time.monotonic()
        self.agent.send_signal(signal.SIGTERM)
        self.assertEqual(self.agent.wait(WAIT_S), 0)
        return time.monotonic() - started

    def test_it_has_time(self):
        self.start(command=f"cd {self.home}; trap 'sleep 0.5; echo saved > saved; exit' TERM; : > on; "
                           "while :; do sleep 0.05; done")
        self.start(command="exec sleep 1000")
        self.ready("on")
        self.assertLess(self.told(), WAIT_S)
        self.assertEqual((self.home / "saved").read_text(), "saved\n")

    def test_shells(self):
        """Of an idle terminal and one that works only the second keeps us."""
        for name in ("idle", "busy"):
            self.assertEqual(self.post("/v1/shell/sessions/create", {"id": name}).status, 200)
        self.assertEqual(self.post("/v1/shell/exec", {"command": "echo idle", "id": "idle"}).status, 200)
        self.post("/v1/shell/exec", {
            "id": "busy", "async_mode": True,
            "command": f"sh -c 'cd {self.home}; trap \"sleep 0.5; echo saved > saved; exit\" TERM; : > on; "
                       "while :; do sleep 0.05; done'"})
        self.ready("on")
        self.assertLess(self.told(), WAIT_S)
        self.assertEqual((self.home / "saved").read_text(), "saved\n")

    def test_signalled_twice(self):
        self.start(command=f"trap '' TERM; : > {self.home}/on; while :; do sleep 0.05; done")
        self.ready("on")
        self.agent.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        self.assertIsNone(self.agent.poll())
        self.assertEqual(self.get("/v1/sandbox").status, 200)  # it serves meanwhile
        self.assertLess(self.told(), WAIT_S)


class Short(Leave):
    grace = 1
    test_it_has_time = test_shells = test_signalled_twice = None

    def test_it_ends(self):
        self.start(command=f"trap '' TERM; : > {self.home}/on; while :; do sleep 0.05; done")
        self.ready("on")
        self.assertGreater(self.told(), 0.9)
        self.assertEqual(self.agent.returncode, 0)


if __name__ == "__main__":
    main()
