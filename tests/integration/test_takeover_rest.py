"""Requests that take long do not hold up a take-over, nor does it end them: the old daemon stays for what it
passes to boxes, and ends behind the last of it."""

import signal
import socket
import threading
import unittest

from fixtures import WAIT_S, main, receive, wait_until
from proxy_case import ProxyCase
from takeover_case import TakeoverCase
from test_crash import fault_names

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"


class Rest(ProxyCase):
    def begin(self):
        """A request that its box answers when the test says so."""
        self.start()
        self.up.raw = lambda connection: self.up.go.wait(WAIT_S) and connection.sendall(ANSWER)
        caller = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        self.addCleanup(caller.close)
        caller.sendall(f"POST {self.base}/raw HTTP/1.1\r\nContent-Length: 4\r\n\r\nab".encode())
        wait_until(lambda: self.up.seen, "the request is at its box")
        return caller

    def replace(self, env=None):
        """Gives the old process, which goes on."""
        old = self.server.replace(env)
        self.addCleanup(old.kill)
        return old

    def finish(self, caller):
        caller.sendall(b"cd")  # the rest of its body
        self.up.go.set()
        data = receive(caller)
        self.assertTrue(data.startswith(b"HTTP/1.1 200 "), data)
        self.assertTrue(data.endswith(b"\r\n\r\ndone"), data)

    def test_a_request_outlasts_its_daemon(self):
        caller = self.begin()
        old = self.replace()
        self.assertIn("upgrade.rest", old.output())
        self.assertEqual(self.caller().ids(), ["a"])
        between = self.replace()  # nothing holds it back
        self.assertEqual(between.child.wait(WAIT_S), 0)
        self.assertEqual(self.caller().ids(), ["a"])
        self.assertIsNone(old.child.poll())
        self.finish(caller)
        self.assertEqual(old.child.wait(WAIT_S), 0)
        self.assertEqual(self.caller().ids(), ["a"])

    def test_what_stays_does_not_hold_the_state_directory(self):
        self.begin()
        old = self.replace()
        self.server.kill()
        self.server.start()
        self.assertEqual(self.caller().ids(), ["a"])
        old.child.send_signal(signal.SIGTERM)
        self.assertEqual(old.child.wait(WAIT_S), 0)

    @unittest.skipUnless(fault_names(), "this build has no fault points")
    def test_a_successor_that_fails(self):
        caller = self.begin()
        old = self.server.process
        failed = self.server.spawn({"SANDPOOL_CRASH_AT": "takeover.new_given"}, args=["--takeover"])
        self.addCleanup(failed.kill)
        failed.child.wait(WAIT_S)
        wait_until(lambda: "upgrade.failed" in old.output(), "it is taken back")
        self.server.process = old
        self.server.wait_ready()
        self.assertEqual(self.caller().ids(), ["a"])
        self.finish(caller)
        self.replace()
        self.assertEqual(old.child.wait(WAIT_S), 0)
        self.assertEqual(self.caller().ids(), ["a"])


class Destroys(TakeoverCase):
    def test_a_destroy_that_takes_long(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 1}, "destroy_timeout_s": 300,
                              "sim": {"destroy_ms": 600000}}, sim=self.sim())
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t"))
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(
            self.client(daemon).delete("/v1/sandboxes/" + lease["sandbox_id"])))
        waiter.start()
        wait_until(lambda: client.get("/v1/pool").json["by_state"]["deleting"] == 1, "it is being destroyed")
        self.takeover(daemon)
        waiter.join(WAIT_S)
        self.assertEqual((answers[0].status, answers[0].json["box_id"]), (202, lease["box_id"]))
        self.assertIn("recorded", answers[0].json["report"]["text"])
        self.assertOk(client.get("/healthz"))


if __name__ == "__main__":
    main()
