"""The life of a lease over the real socket: acquire, keep, park, renew, destroy, and what each
refusal looks like."""

import hashlib
import threading
import time

from fixtures import TestCase, at_most, in_threads, main, wait_until


class Lifecycle(TestCase):
    def test_warm_acquire_gives_the_deterministic_id(self):
        client = self.client(self.daemon({"warm": {"min": 2, "max": 4}}))
        self.wait_blank(client, 2)
        lease = self.assertOk(client.acquire("thread-1"))
        self.assertEqual(lease["sandbox_id"], "fe0dc8182dec7b77")
        self.assertEqual(lease["source"], "warm")
        self.assertEqual((lease["state"], lease["generation"]), ("leased", 1))
        self.assertEqual(len(lease["token"]), 32)
        self.assertIsNotNone(lease["expires_at"])
        other = self.assertOk(client.acquire("thread-42", user_id="alice"))
        self.assertEqual(other["sandbox_id"], hashlib.sha256(b"alice:thread-42").hexdigest()[:16])

    def test_cold_acquire_waits_for_a_new_box(self):
        client = self.client(self.daemon({"warm": {"min": 0, "max": 0},
                                          "sim": {"create_ms": 50}}))
        lease = self.assertOk(client.acquire("cold"))
        self.assertEqual(lease["source"], "cold")
        self.assertGreaterEqual(lease["timings_ms"]["total"], 45)

    def test_same_thread_keeps_its_box_and_gets_it_back_when_parked(self):
        client = self.client(self.daemon({"warm": {"min": 1, "max": 2}}))
        first = self.assertOk(client.acquire("t"))
        kept = self.assertOk(client.acquire("t"))
        self.assertEqual((kept["source"], kept["box_id"]), ("kept", first["box_id"]))
        parked = self.assertOk(client.release(first["sandbox_id"], generation=1))
        self.assertEqual(parked["state"], "parked")
        self.assertOk(client.release(first["sandbox_id"], generation=1))  # again: still parked
        back = self.assertOk(client.acquire("t"))
        self.assertEqual((back["source"], back["box_id"], back["generation"]),
                         ("parked", first["box_id"], 1))
        self.assertEqual(back["token"], first["token"])

    def test_concurrent_acquires_of_one_thread_give_one_box(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 100}})
        answers = in_threads(16, lambda i: daemon.acquire("same"))
        boxes = {self.assertOk(a)["box_id"] for a in answers}
        self.assertEqual(len(boxes), 1)
        pool = self.client(daemon).get("/v1/pool").json
        self.assertEqual(pool["boxes"]["created"], 1)

    def test_anonymous_boxes_are_never_reused(self):
        client = self.client(self.daemon({"warm": {"min": 2, "max": 2}}))
        one = self.assertOk(client.acquire())
        two = self.assertOk(client.acquire())
        self.assertNotEqual(one["sandbox_id"], two["sandbox_id"])
        self.assertIsNone(one["thread_id"])
        self.assertOk(client.release(one["sandbox_id"]))
        wait_until(lambda: client.get("/v1/sandboxes/" + one["sandbox_id"]).status == 404,
                   "the box is gone")

    def test_an_id_is_no_option(self):
        """`sandpool ls --quiet | xargs sandpool destroy` ends those that are listed, whatever they are called."""
        client = self.client(self.daemon({"warm": {"min": 2, "max": 2}}))
        for name in ("--all", "-y", "-"):
            self.assertCode(client.post("/v1/acquire", {"sandbox_id": name}), 422, "invalid_field")
        self.assertEqual(self.assertOk(client.post("/v1/acquire", {"sandbox_id": "a--all"}))["sandbox_id"], "a--all")

    def test_release_with_destroy_and_a_new_generation(self):
        client = self.client(self.daemon({"warm": {"min": 1, "max": 2}}))
        first = self.assertOk(client.acquire("t"))
        gone = self.assertOk(client.release(first["sandbox_id"], destroy=True))
        self.assertEqual((gone["state"], gone["report"]["text"]), ("gone", "the simulated box was removed"))
        second = self.assertOk(client.acquire("t"))
        self.assertNotEqual(second["box_id"], first["box_id"])
        self.assertEqual((second["sandbox_id"], second["generation"]), (first["sandbox_id"], 2))
        self.assertCode(client.release(first["sandbox_id"], generation=1), 409, "stale_generation")

    def test_destroy_reports_and_ends(self):
        client = self.client(self.daemon({"warm": {"min": 1, "max": 1}}))
        lease = self.assertOk(client.acquire("t"))
        gone = self.assertOk(client.delete("/v1/sandboxes/" + lease["sandbox_id"]))
        self.assertEqual(gone["state"], "gone")
        report = gone["report"]
        self.assertEqual(report["text"], "the simulated box was removed")
        self.assertEqual([report[key] for key in ("processes", "mounts", "layers", "bytes")], [None] * 4)
        self.assertGreaterEqual(report["lived_s"], 0)
        self.assertCode(client.get("/v1/sandboxes/" + lease["sandbox_id"]), 404, "not_found")
        self.assertCode(client.release(lease["sandbox_id"]), 404, "not_found")

    def test_who_joins_a_destroy_gets_the_same_report(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 1}, "sim": {"destroy_ms": 1500}})
        client = self.client(daemon)
        path = "/v1/sandboxes/" + self.assertOk(client.acquire("t"))["sandbox_id"]
        first, second, quick = [], [], []
        threads = [threading.Thread(target=lambda a=a, t=t: a.append(self.client(daemon).delete(path + t)))
                   for a, t in ((first, ""), (second, ""), (quick, "?quick=1"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.assertOk(first[0])["report"], self.assertOk(second[0])["report"])
        self.assertGreaterEqual(first[0].json["report"]["lived_s"], 1.5)
        self.assertNotIn("report", self.assertOk(quick[0]))
        self.assertEqual(client.reports(first[0].json["box_id"]), [first[0].json["report"]])

    def test_renew_pushes_the_deadline_and_ttl_ends_a_lease(self):
        client = self.client(self.daemon({"warm": {"min": 1, "max": 1}}))
        lease = self.assertOk(client.acquire("t", ttl_s=1))
        renewed = self.assertOk(client.post(f"/v1/sandboxes/{lease['sandbox_id']}/renew",
                                            {"ttl_s": 2}))
        self.assertGreater(renewed["expires_at"], lease["expires_at"])
        time.sleep(1.2)
        self.assertOk(client.get("/v1/sandboxes/" + lease["sandbox_id"]))
        answer = wait_until(
            lambda: (lambda a: a if a.status == 410 else None)(
                client.get("/v1/sandboxes/" + lease["sandbox_id"])), "the lease ends")
        self.assertEqual(answer.code, "sandbox_lost")

    def test_idle_boxes_are_destroyed(self):
        client = self.client(self.daemon({"warm": {"min": 0, "max": 0}}))
        lease = self.assertOk(client.acquire("t", idle_timeout_s=1))
        wait_until(lambda: client.get("/v1/sandboxes/" + lease["sandbox_id"]).status == 410,
                   "the idle box is gone")

    def test_metadata_stays_with_the_lease(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 1}})
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t", metadata={"run": "r-1", "n": [1, 2]}))
        self.assertEqual(lease["metadata"], {"run": "r-1", "n": [1, 2]})
        got = self.assertOk(client.get("/v1/sandboxes/" + lease["sandbox_id"]))
        self.assertEqual(got["metadata"], {"run": "r-1", "n": [1, 2]})

    def test_alive_asks_the_backend_and_a_death_is_told(self):
        sim = self.sim()
        client = self.client(self.daemon({"warm": {"min": 1, "max": 1}}, sim=sim))
        lease = self.assertOk(client.acquire("t"))
        target = "/v1/sandboxes/" + lease["sandbox_id"]
        self.assertIs(self.assertOk(client.get(target + "?alive=1"))["alive"], True)
        sim.kill_box(lease["box_id"])
        answer = wait_until(lambda: (lambda a: a if a.status == 410 else None)(client.get(target)),
                            "the death is seen")
        self.assertEqual(answer.code, "sandbox_lost")
        self.assertCode(client.release(lease["sandbox_id"]), 410, "sandbox_lost")
        again = self.assertOk(client.acquire("t"))
        self.assertEqual(again["generation"], 2)


class Refusals(TestCase):
    def test_fields_are_checked(self):
        client = self.client(self.daemon({"warm": {"min": 1, "max": 1}}))
        for body, field in (({"thread_id": "a b"}, "thread_id"), ({"thread_id": 5}, "thread_id"),
                            ({"user_id": ""}, "user_id"), ({"wait_ms": -1}, "wait_ms"),
                            ({"wait_ms": 1.5}, "wait_ms"), ({"ttl_s": 0}, "ttl_s"),
                            ({"profile": "nope"}, "profile"), ({"thread": "t"}, "thread"),
                            ({"sandbox_id": "../x"}, "sandbox_id"), ({"metadata": []}, "metadata"),
                            ({"metadata": {"k": "x" * 5000}}, "metadata")):
            answer = client.post("/v1/acquire", body)
            self.assertCode(answer, 422, "invalid_field")
            self.assertIn(field, answer.json["error"]["message"])
        self.assertCode(client.post("/v1/acquire", [1]), 400, "bad_request")
        self.assertCode(client.acquire("t", snapshot_id="s"), 404, "not_found")
        self.assertCode(client.get("/v1/nothing"), 404, "no_route")
        self.assertCode(client.call("PUT", "/v1/acquire"), 405, "method_not_allowed")
        self.assertCode(client.get("/v1/sandboxes/deadbeef"), 404, "not_found")
        self.assertCode(client.get("/v1/sandboxes?limit=0"), 422, "invalid_field")
        self.assertCode(client.get("/v1/sandboxes?state=odd"), 422, "invalid_field")

    def test_broken_json_says_where(self):
        client = self.client(self.daemon())
        client.call("GET", "/healthz")
        client.connection.request("POST", "/v1/acquire", '{"thread_id": }')
        response = client.connection.getresponse()
        self.assertEqual(response.status, 400)
        self.assertIn(b"at byte 14", response.read())

    def test_other_profile_for_a_thread_with_a_box(self):
        client = self.client(self.daemon(profiles={"default": {"backend": "sim"},
                                                   "big": {"backend": "sim"}}))
        self.assertOk(client.acquire("t"))
        self.assertCode(client.acquire("t", profile="big"), 409, "spec_conflict")
        self.assertOk(client.acquire("t", profile="default"))

    def test_an_id_of_another_thread_is_refused(self):
        client = self.client(self.daemon())
        self.assertOk(client.acquire("a", sandbox_id="mine"))
        self.assertCode(client.acquire("b", sandbox_id="mine"), 409, "owner_conflict")

    def test_failing_backend_opens_the_breaker_with_its_reason(self):
        client = self.client(self.daemon({"warm": {"min": 1, "max": 1},
                                          "create": {"backoff_min_ms": 10, "backoff_max_ms": 50,
                                                     "breaker_failures": 3},
                                          "sim": {"fail_percent": 100}}))
        answer = client.acquire("t", wait_ms=2000)
        self.assertCode(answer, 503, "backend_unavailable")
        breaker = wait_until(
            lambda: (lambda b: b if b["open"] else None)(
                client.get("/v1/pool").json["profiles"][0]["breaker"]), "the breaker opens")
        self.assertTrue(breaker["reason"])

    def test_hanging_backend_never_outlives_the_callers_deadline(self):
        client = self.client(self.daemon({"warm": {"min": 0, "max": 0},
                                          "create": {"timeout_s": 60},
                                          "sim": {"hang_percent": 100}}))
        start = time.monotonic()
        self.assertCode(client.acquire("t", wait_ms=300), 503, "acquire_timeout")
        self.assertLess(time.monotonic() - start, at_most(2))


class Lists(TestCase):
    def test_filters_and_pages(self):
        client = self.client(self.daemon({"warm": {"min": 0, "max": 0}}))
        ids = [self.assertOk(client.acquire(f"t{i}", user_id="u1" if i % 2 else "u2"))["sandbox_id"]
               for i in range(25)]
        seen = []
        cursor = None
        while True:
            page = self.assertOk(client.get("/v1/sandboxes?limit=10" +
                                            (f"&cursor={cursor}" if cursor else "")))
            self.assertLessEqual(len(page["sandboxes"]), 10)
            seen += [b["sandbox_id"] for b in page["sandboxes"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        self.assertEqual(seen, ids)
        some = self.assertOk(client.get("/v1/sandboxes?user_id=u1"))["sandboxes"]
        self.assertEqual(len(some), 12)
        one = self.assertOk(client.get("/v1/sandboxes?thread_id=t3&state=leased"))["sandboxes"]
        self.assertEqual([b["sandbox_id"] for b in one], [ids[3]])
        self.assertEqual(self.assertOk(client.get("/v1/sandboxes?state=parked"))["sandboxes"], [])


if __name__ == "__main__":
    main()
