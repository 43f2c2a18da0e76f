"""Real boxes and a daemon that is replaced under load: the boxes run on, and nobody notices."""

import subprocess
import threading

from fixtures import BIN, SLOW, WAIT_S, Client, main, wait_until
from box import Box
from oci_case import BoxCase
from takeover_case import Caller


class Takeover(BoxCase):
    profiles = {"default": {"warm": {"min": 1, "max": 2}}}
    config = {"pool": {"max_boxes": 12}}

    def takeover(self):
        old = self.server.process
        self.addCleanup(old.kill)
        self.server.takeover()

    def test_under_load(self):
        box = self.acquire("steady")
        box.start(["sh", "-c", "while :; do date >> ticks; sleep 0.1; done"])
        callers = [Caller(f"real-{i}", Client(self.server.socket), i % 2 == 0) for i in range(4)]
        for caller in callers:
            caller.start()
        for _ in range(3):
            before = sum(c.answers for c in callers)
            wait_until(lambda: sum(c.answers for c in callers) > before + 40 / SLOW, "load")
            self.takeover()
        for caller in callers:
            caller.stop.set()
        for caller in callers:
            caller.join(WAIT_S * 2)
        self.assertEqual([c.failure for c in callers if c.failure], [])
        for caller in callers:
            if caller.lease is not None:
                self.assertEqual(self.row(Box(caller.lease))["generation"],
                                 caller.lease["generation"])
                self.assertEqual(Box(caller.lease).sh("echo here"), "here\n")
        kept = self.acquire("steady", "kept")
        self.assertEqual((kept.box_id, kept.lease["token"]), (box.box_id, box.lease["token"]))
        lines = int(box.sh("wc -l < ticks"))
        wait_until(lambda: int(box.sh("wc -l < ticks")) > lines, "what ran in the box runs on")
        self.assertAgree()

    def test_while_a_box_is_being_made(self):
        """Whoever waits for a cold box waits on, and gets one from the successor."""
        answers = []
        waiters = [threading.Thread(target=lambda i=i: answers.append(
            self.server.acquire(f"cold-{i}", wait_ms=int(WAIT_S * 1000)))) for i in range(6)]
        for waiter in waiters:
            waiter.start()
        self.takeover()
        for waiter in waiters:
            waiter.join(WAIT_S * 2)
        self.assertEqual([a.status for a in answers], [200] * 6, answers)
        self.assertEqual(len({a.json["box_id"] for a in answers}), 6)
        self.assertAgree()

    def test_a_command_in_the_middle(self):
        """`sandpool exec` follows it through three daemons and the end of one: no byte is lost or comes twice."""
        box = self.acquire("exec")
        script = ("i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line-$i; [ $((i % 500)) = 0 ] && [ $i -lt 2000 ] && "
                  "while [ ! -e /tmp/go-$i ]; do sleep 0.02; done; done; exit 3")
        child = subprocess.Popen([BIN / "sandpool", "--socket", self.server.socket, "exec", "exec", "--", "sh", "-c", script],
                                 stdout=subprocess.PIPE, text=True)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        seen = []
        for line in child.stdout:
            seen.append(line)
            if line in ("line-500\n", "line-1000\n"):
                self.addCleanup(self.server.replace().kill)
            elif line == "line-1500\n":
                self.server.kill()
                self.server.start()
            if len(seen) % 500 == 0 and len(seen) < 2000:
                box.sh(f"touch /tmp/go-{len(seen)}")
        child.stdout.close()
        self.assertEqual(child.wait(WAIT_S), 3)
        self.assertEqual(seen, [f"line-{i}\n" for i in range(1, 2001)])


if __name__ == "__main__":
    main()
