"""A listing that is clean and wrong ends no lease: the backend is asked for each box that it does not show."""

import signal

from fixtures import TestCase, in_threads, main, wait_until

LEASES = 20
MANY = 1200


class Listing(TestCase):
    def fleet(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 3, "max": 3}}, sim=sim, pool={"reconcile_interval_s": 3600})
        client = self.client(daemon)
        leases = [self.assertOk(client.acquire(f"t{i}")) for i in range(LEASES)]
        self.assertOk(client.release(leases[0]["sandbox_id"]))
        self.wait_blank(client, 3)
        return sim, daemon, client, leases

    def assertKept(self, client, leases):
        for i, lease in enumerate(leases):
            kept = self.assertOk(client.acquire(f"t{i}"))
            self.assertEqual((kept["box_id"], kept["generation"]), (lease["box_id"], lease["generation"]))

    def test_a_listing_that_shows_nothing(self):
        sim, _, client, leases = self.fleet()
        before = set(sim.boxes())
        sim.fail(hide_lists=2)
        for _ in range(2):
            self.assertOk(client.post("/v1/pool/reconcile"))
        self.assertEqual(client.get("/v1/pool").json["boxes"]["lost"], 0)
        self.assertKept(client, leases)
        self.assertOk(client.post("/v1/pool/reconcile"))
        self.wait_blank(client, 3)
        self.assertEqual(set(sim.boxes()), before)
        events = client.get("/v1/events?since=0&follow=0").text
        self.assertIn(f"does not show {LEASES + 3} of {LEASES + 3} boxes", events)

    def test_a_page_is_bounded_in_bytes(self):
        """Long metadata makes a page short, and the cursor goes on where it ends."""
        count = 160
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 0}}, sim=self.sim(),
                             pool={"max_boxes": 2 * count, "reconcile_interval_s": 3600})
        client = self.client(daemon)
        want = {self.assertOk(client.acquire(f"t{i}", metadata={"text": "x" * 4000}))["box_id"]
                for i in range(count)}
        shown, cursor, pages = [], "0", 0
        while cursor is not None:
            answer = client.get(f"/v1/sandboxes?limit=1000&cursor={cursor}")
            shown += [box["box_id"] for box in self.assertOk(answer)["sandboxes"]]
            cursor = answer.json["next_cursor"]
            self.assertLess(len(answer.text), 600 * 1024)
            pages += 1
        self.assertEqual((len(shown), set(shown), pages), (count, want, 2))

    def test_many_boxes(self):
        """More than fit into one part of a listing: joined in parts, at a start and later."""
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 0}, "create": {"concurrency": 64}}, sim=sim,
                             pool={"max_boxes": 9000, "reconcile_interval_s": 3600})
        leases = {}

        def fill(k):
            client = self.client(daemon)
            for i in range(MANY // 8):
                leases[f"{k}-{i}"] = self.assertOk(client.acquire(f"{k}-{i}"))["box_id"]

        def assert_kept():
            client = self.client(daemon)
            counts = client.get("/v1/pool").json
            self.assertEqual((counts["by_state"]["leased"], counts["boxes"]["lost"]), (MANY, 0))
            self.assertEqual(set(sim.boxes()), set(leases.values()))

        in_threads(8, fill)
        assert_kept()
        client = self.client(daemon)
        self.assertOk(client.post("/v1/pool/reconcile"))
        self.assertNotIn("does not show", client.get("/v1/events?since=0&follow=0").text)
        sim.fail(hide_lists=1)
        self.assertOk(client.post("/v1/pool/reconcile"))
        assert_kept()
        self.assertIn(f"does not show {MANY} of {MANY} boxes", client.get("/v1/events?since=0&follow=0").text)
        daemon.kill()
        daemon.start()
        assert_kept()

    def test_the_first_listing_after_a_start(self):
        sim, daemon, _, leases = self.fleet()
        daemon.kill()
        sim.fail(hide_lists=1)
        daemon.start()
        client = self.client(daemon)
        self.assertEqual(client.get("/v1/pool").json["boxes"]["lost"], 0)
        self.assertKept(client, leases)

    def test_what_a_listing_leaves_open_is_soon_listed_again(self):
        """Blank boxes without a row are nobody's: the second listing that shows them ends them."""
        sim, daemon, _, leases = self.fleet()
        blank = set(sim.boxes()) - {lease["box_id"] for lease in leases}
        daemon.kill()
        sim.fail(hide_lists=1)
        daemon.start()
        self.wait_blank(self.client(daemon), 3)  # alive, but only a listing shows that nobody owns them
        self.assertLessEqual(blank, set(sim.boxes()))
        daemon.stop()
        for file in daemon.state.glob("sandpool.db*"):
            file.unlink()
        daemon.start()
        wait_until(lambda: not blank & set(sim.boxes()), "they are destroyed")
        self.assertKept(self.client(daemon), leases)

    def test_a_first_listing_that_fails_is_tried_again_soon(self):
        """Not only when the next periodic one is due: until then nobody is notified that a box has died."""
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, sim=sim, pool={"reconcile_interval_s": 3600})
        lease = self.assertOk(self.client(daemon).acquire("t"))
        daemon.stop()
        sim.kill_box(lease["box_id"])
        sim.child.send_signal(signal.SIGSTOP)
        self.addCleanup(sim.child.send_signal, signal.SIGCONT)
        daemon.start()
        client = self.client(daemon)
        wait_until(lambda: "event=backend.list_failed" in daemon.process.output(), "the first listing fails")
        self.assertOk(client.get(f"/v1/sandboxes/{lease['sandbox_id']}"))
        sim.child.send_signal(signal.SIGCONT)
        wait_until(lambda: client.get(f"/v1/sandboxes/{lease['sandbox_id']}").code == "sandbox_lost", "it is lost")
        wait_until(lambda: client.get("/readyz").status == 200, "ready")

    def test_all_have_died(self):
        sim, daemon, _, leases = self.fleet()
        daemon.kill()
        for box in sim.boxes():
            sim.kill_box(box)
        daemon.start()
        client = self.client(daemon)
        for lease in leases:
            wait_until(lambda: client.get("/v1/sandboxes/" + lease["sandbox_id"]).code == "sandbox_lost", "it is lost")
        self.assertGreaterEqual(client.get("/v1/pool").json["boxes"]["lost"], LEASES)  # and blank ones that it knows of
        self.assertEqual(self.assertOk(client.acquire("t1"))["generation"], 2)


class Events(TestCase):
    def test_events_that_cannot_be_stored_are_counted(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, sim=sim, store={"queue_max": 16})
        client = self.client(daemon)
        leases = [self.assertOk(client.acquire(f"t{i}")) for i in range(40)]
        for lease in leases:
            sim.kill_box(lease["box_id"])
        wait_until(lambda: client.get("/v1/pool").json["total"] == 0, "all have ended")
        wait_until(lambda: "event: events_dropped" in client.get("/v1/events?since=0&follow=0").text, "it is told")
        self.assertGreater(client.get("/v1/pool").json["store"]["events_dropped"], 0)
        daemon.restart()  # rows are never dropped: nothing comes back
        client = self.client(daemon)
        self.assertEqual(client.get("/v1/pool").json["total"], 0)
        self.assertIn("event: events_dropped", client.get("/v1/events?since=0&follow=0").text)
        for lease in leases:
            self.assertCode(client.get("/v1/sandboxes/" + lease["sandbox_id"]), 410, "sandbox_lost")


class Binds(TestCase):
    """Labels are the second record of ownership."""

    def owner(self, sim, lease):
        return sim.boxes()[lease["box_id"]].get("sandbox_id")

    def test_a_bind_that_fails_is_tried_again(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, sim=sim, pool={"reconcile_interval_s": 3600})
        client = self.client(daemon)
        self.wait_blank(client, 1)
        sim.fail(fail_binds=1)
        lease = self.assertOk(client.acquire("t"))
        wait_until(lambda: self.owner(sim, lease) == lease["sandbox_id"], "the box has its labels")
        self.assertEqual(daemon.process.output().count("box.bind_failed"), 1)

    def test_a_bind_that_was_lost_with_the_daemon(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, sim=sim, pool={"reconcile_interval_s": 3600})
        client = self.client(daemon)
        self.wait_blank(client, 1)
        sim.fail(fail_binds=1000)
        lease = self.assertOk(client.acquire("t"))
        wait_until(lambda: "box.bind_failed" in daemon.process.output(), "it has failed")
        daemon.kill()
        self.assertFalse(self.owner(sim, lease))
        sim.fail(fail_binds=0)
        daemon.start()
        wait_until(lambda: self.owner(sim, lease) == lease["sandbox_id"], "the box has its labels")


if __name__ == "__main__":
    main()
