"""Calls that a take-over leaves with the old daemon end as those of the new one do: the successor reports to it what ends. When
nobody can any more it ends them all."""

import pathlib
import signal
import time
import unittest

from calls_case import ALICE, BOB, begin, chunk, wait_gone
from ends_case import CAROL, EVENT, PATIENCE_S, EndsCase, closed
from fixtures import WAIT_S, main, wait_until
from test_crash import fault_names


class Calls(EndsCase):
    def replace(self):
        """Gives the old process, which has calls left and goes on."""
        old = self.server.replace()
        self.addCleanup(old.kill)
        self.assertIn("upgrade.rest", old.output())
        self.assertIsNone(old.child.poll())
        return old

    def test_a_lease_ends(self):
        """Of two daemons before the one that serves."""
        self.begin()
        self.lease("other", ALICE)
        others = self.all_kinds(ALICE)
        self.lease("t", ALICE)
        first = self.all_kinds(ALICE)
        oldest = self.replace()
        second = self.all_kinds()
        old = self.replace()
        third = self.all_kinds(CAROL)
        self.assertOk(self.call("POST", self.base + "/release", {}, token=ALICE))
        for kinds in (first, second, third):
            self.assertEnded(kinds, 409, "not_leased", "released")
        self.assertEqual(old.child.wait(WAIT_S), 0)  # it has nothing left
        self.assertGoesOn(others)
        self.assertIsNone(oldest.child.poll())
        self.replace_last(oldest)

    def replace_last(self, oldest):
        """One more has nothing of its own to wait for, and the oldest is still notified."""
        between = self.server.process
        self.server.takeover()
        self.assertIsNotNone(between.child.poll())
        self.assertIsNone(oldest.child.poll())
        self.assertOk(self.api.delete("/v1/sandboxes/thread:default%2Fother"))
        self.assertEqual(oldest.child.wait(WAIT_S), 0)

    @unittest.skipUnless(fault_names(), "this build has no fault points")
    def test_a_lease_is_over_while_the_successor_starts(self):
        """It ends when the successor serves, and is reported as any other."""
        self.begin()
        self.lease("other", ALICE)
        others = self.all_kinds(ALICE)
        self.lease("t", ALICE, ttl_s=2)
        ends_at = time.monotonic() + 2
        kinds = self.all_kinds(ALICE)
        hang, old = self.server.directory / "hang", self.server.process
        hang.touch()
        self.addCleanup(old.kill)
        self.server.process = self.server.spawn({"SANDPOOL_HANG_AT": f"recover.after_list={hang}"}, args=["--takeover"])
        wait_until(pathlib.Path(f"{hang}.hit").exists, "it starts")
        wait_until(lambda: time.monotonic() > ends_at, "the lease is over")
        hang.unlink()
        self.server.wait_ready()
        self.assertEnded(kinds, 410, "sandbox_lost", "ttl")
        self.assertGoesOn(others)
        self.assertIsNone(old.child.poll())

    def test_a_token_is_taken_away(self):
        self.begin()
        self.lease("t", ALICE)
        kinds = self.all_kinds(ALICE)
        self.lease("b", BOB)
        others = self.all_kinds(BOB)
        old = self.replace()
        self.tokens(tokens={"bob": BOB, "carol": CAROL})
        self.assertEnded(kinds, 403, "forbidden", "configuration")
        self.assertGoesOn(others)
        self.assertIsNone(old.child.poll())
        self.tokens(tokens={"carol": CAROL})
        self.assertEnded(others, 403, "forbidden", "configuration")
        self.assertEqual(old.child.wait(WAIT_S), 0)

    def test_a_successor_that_dies(self):
        self.begin()
        self.lease("t", ALICE)
        attached = self.attach(ALICE)
        old = self.replace()
        self.server.process.child.send_signal(signal.SIGKILL)
        self.assertEqual(closed(attached), b"")
        self.assertEqual(old.child.wait(WAIT_S), 0)
        self.assertIn("upgrade.rest_cut", old.output())

    @unittest.skipUnless(fault_names(), "this build has no fault points")
    def test_a_successor_that_fails(self):
        """The daemon goes on, beside what it had left."""
        self.begin()
        self.lease("t", ALICE)
        kinds = self.all_kinds(ALICE)
        failed = self.server.spawn({"SANDPOOL_CRASH_AT": "takeover.new_given"}, args=["--takeover"])
        self.addCleanup(failed.kill)
        failed.child.wait(WAIT_S)
        wait_until(lambda: "upgrade.failed" in self.server.process.output(), "it is taken back")
        self.server.wait_ready()
        self.assertGoesOn(kinds)
        self.assertOk(self.call("POST", self.base + "/release", {}, token=ALICE))
        self.assertEnded(kinds, 409, "not_leased", "released")

    def test_nobody_reads_a_stream(self):
        """The take-over does not wait for its reader."""
        self.begin()
        sent = []

        def flood(call):
            for _ in call.pieces():
                pass
            begin(call, "text/event-stream")
            call.connection.settimeout(1)
            try:
                while True:
                    call.connection.sendall(chunk(EVENT * 1000))
            except OSError:
                sent.append(True)
                wait_gone(call.connection, PATIENCE_S)
            return False

        self.up.acts["/v1/agent/exec"] = flood
        self.lease("t", ALICE)
        stream = self.stream(ALICE)
        wait_until(lambda: sent, "it takes no more")
        old = self.replace()
        self.assertOk(self.api.get("/healthz"))
        self.assertIsNone(old.child.poll())  # that reader is still there
        stream.close()


if __name__ == "__main__":
    main()
