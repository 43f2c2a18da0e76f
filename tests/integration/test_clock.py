"""The wall clock is set, and the daemon is started anew or replaced: no deadline moves."""

import datetime
import os
import pathlib

from fixtures import TestCase, main, skip, wait_until

SHIM = os.environ.get("SANDPOOL_TEST_CLOCK_SHIM", "")
TTL_S = 3600
SLACK_S = 900  # what the test itself may take, and far less than the clock is set by


class Clock(TestCase):
    def setUp(self):
        super().setUp()
        if not SHIM:
            skip("no library that sets the clock: run it by ctest")
        self.offset = pathlib.Path(self.directory) / "offset"
        self.set_clock(0)

    def set_clock(self, seconds):
        new = self.offset.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self.offset)
        self.seconds = seconds

    def restart(self, daemon):
        daemon.restart()

    def crash(self, daemon):
        daemon.kill()
        daemon.start()

    def take_over(self, daemon):
        daemon.takeover()

    def shown(self, client, lease):
        """The lease, whose times are those of the wall clock as it is now."""
        found = self.assertOk(client.get(f"/v1/sandboxes/{lease['sandbox_id']}"))
        now = datetime.datetime.now(datetime.timezone.utc).timestamp() + self.seconds
        ends = datetime.datetime.fromisoformat(found["expires_at"].replace("Z", "+00:00")).timestamp()
        self.assertLess(abs(ends - now - TTL_S), SLACK_S, found)
        return found

    def check(self, change):
        machine = self.sim()
        daemon = self.daemon({"warm": {"min": 1, "max": 1}, "ttl_s": TTL_S, "idle_timeout_s": 0, "park_timeout_s": TTL_S},
                             env={"LD_PRELOAD": SHIM, "SANDPOOL_TEST_CLOCK_FILE": str(self.offset)}, sim=machine)
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("used", wait_ms=20000))
        parked = self.assertOk(client.acquire("parked", wait_ms=20000))
        self.assertOk(client.release(parked["sandbox_id"]))
        for seconds in (7200, -86400, 400 * 86400, 0):
            self.set_clock(seconds)  # while it runs, and so for the next one
            wait_until(lambda: self.is_shown(client, lease), "the daemon has seen the clock")
            change(daemon)
            client.close()
            found = self.shown(client, lease)
            self.assertEqual((found["state"], found["box_id"]), ("leased", lease["box_id"]))
            self.assertLess(TTL_S - SLACK_S, found["ends_in_s"])
            self.assertLessEqual(found["ends_in_s"], TTL_S)
            self.assertLess(found["age_s"], SLACK_S)
        again = self.assertOk(client.acquire("parked", wait_ms=20000))
        self.assertEqual((again["box_id"], again["source"]), (parked["box_id"], "parked"))
        self.assertIn("event=engine.clock_was_set", daemon.process.output())

    def is_shown(self, client, lease):
        try:
            self.shown(client, lease)
        except AssertionError:
            return False
        return True

    def test_restart(self):
        self.check(self.restart)

    def test_crash(self):
        self.check(self.crash)

    def test_take_over(self):
        self.check(self.take_over)

    def test_set_while_it_is_down(self):
        def change(daemon):
            seconds = self.seconds
            self.set_clock(0)
            daemon.stop()
            self.set_clock(seconds)
            daemon.start()
        self.check(change)


if __name__ == "__main__":
    main()
