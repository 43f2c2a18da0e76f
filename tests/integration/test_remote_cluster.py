"""The daemon with a provisioner that behaves as DeerFlow's own was seen to behave on a cluster: Pods that cannot be read or
are deleted behind everybody's back, containers that start again, Pods that end long after their delete, slow starts."""

import concurrent.futures
import http.client
import subprocess
import urllib.error
import urllib.request

from fixtures import BIN, main, wait_until
from test_remote import RemoteCase


class ClusterCase(RemoteCase):
    def name(self, lease):
        return next(n for n in self.provisioner.boxes() if n in (lease["sandbox_id"],) or
                    n.endswith("-" + lease["box_id"]))

    def answers(self, lease):
        try:
            with urllib.request.urlopen(lease["sandbox_url"] + "/v1/sandbox", timeout=10) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def asked(self, kind):
        return sum(1 for what, _ in self.provisioner.control()["asked"] if what == kind)

    def is_lost(self, client, lease):
        answer = client.get(f"/v1/sandboxes/{lease['sandbox_id']}")
        if answer.status == 200:
            return False
        self.assertEqual((answer.status, answer.code), (410, "sandbox_lost"), answer)
        return True


class Unreadable(ClusterCase):
    """NotFound is what the provisioner says whenever it cannot read a Pod."""

    def test_a_living_box_is_kept(self):
        for image in (True, False):
            with self.subTest(has_agent=image):
                self.provisioner.control(has_agent=image)
                daemon = self.start(warm=0, check_after_s=0)
                lease = self.box(daemon, f"one-{image}")
                self.provisioner.control(unreadable=True)
                self.reconcile(daemon, 3)
                self.assertEqual(self.box(daemon, f"one-{image}")["source"], "kept")
                daemon.kill()
                daemon.start()
                self.reconcile(daemon, 3)
                again = self.box(daemon, f"one-{image}")
                self.assertEqual((again["box_id"], again["source"]), (lease["box_id"], "kept"))
                self.assertEqual(self.asked("delete"), 0)
                self.provisioner.control(unreadable=False)
                self.doCleanups()
                self.setUp()

    def test_one_that_is_gone_is_asked_again_and_given_up(self):
        daemon = self.start(warm=0, check_after_s=0)
        lease = self.box(daemon, "one")
        client = self.client(daemon)
        self.provisioner.control(lose=self.name(lease))
        answer = daemon.acquire("one", wait_ms=0)  # nobody who cannot wait is given a dead address
        self.assertEqual((answer.status, answer.code), (503, "backend_unavailable"), answer)
        self.assertIn("does not answer", answer.text)
        self.assertEqual(client.get(f"/v1/sandboxes/{lease['sandbox_id']}").json["state"], "leased")
        wait_until(lambda: self.is_lost(client, lease), "the lease ends when it was absent again and again", 60)
        fresh = self.box(daemon, "one")
        self.assertEqual(fresh["generation"], lease["generation"] + 1)

    def test_whoever_waits_gets_a_new_one(self):
        daemon = self.start(warm=0, check_after_s=0)
        lease = self.box(daemon, "one")
        self.provisioner.control(lose_pod=self.name(lease))
        fresh = self.box(daemon, "one", wait_ms=60000)
        self.assertNotEqual(fresh["box_id"], lease["box_id"])
        self.assertTrue(self.answers(fresh))


class Restarted(ClusterCase):
    """A container that starts again in its Pod is empty, and its Pod the same as before."""

    def check(self, has_agent, **profile):
        self.provisioner.control(has_agent=has_agent)
        daemon = self.start(warm=0, **profile)
        lease = self.box(daemon, "one")
        self.provisioner.control(restart=self.name(lease))
        return daemon, lease

    def test_its_owner_is_not_told_that_it_was_kept(self):
        for has_agent in (True, False):
            with self.subTest(has_agent=has_agent):
                daemon, lease = self.check(has_agent, check_after_s=0)
                fresh = self.box(daemon, "one")
                self.assertEqual((fresh["generation"], fresh["box_id"] == lease["box_id"]), (2, False), fresh)
                self.assertNotEqual(fresh["source"], "kept")
                self.doCleanups()
                self.setUp()

    def test_lost(self):
        daemon, lease = self.check(True)
        client = self.client(daemon)
        client.get(f"/v1/sandboxes/{lease['sandbox_id']}?alive=1")
        wait_until(lambda: self.is_lost(client, lease), "it is lost")
        for call in ("renew", "release"):
            answer = client.post(f"/v1/sandboxes/{lease['sandbox_id']}/{call}", {})
            self.assertEqual((answer.status, answer.code), (410, "sandbox_lost"), (call, answer))

    def test_while_the_daemon_was_down(self):
        daemon = self.start(warm=0, check_after_s=0)
        lease = self.box(daemon, "one")
        daemon.stop()
        self.provisioner.control(restart=self.name(lease))
        daemon.start()
        self.assertEqual(self.box(daemon, "one")["generation"], 2)


class HandedOut(ClusterCase):
    """What is handed out has answered just before."""

    def test_ready_box_that_is_gone(self):
        daemon = self.start(warm=2, check_after_s=0, config={"pool": {"reconcile_interval_s": 3600}})
        client = self.client(daemon)
        self.wait_blank(client, 2)
        for name in self.provisioner.boxes():
            self.provisioner.control(lose_pod=name)
        lease = self.box(daemon, "one", wait_ms=60000)
        self.assertTrue(self.answers(lease), lease)

    def test_ready_box_is_asked_and_warm(self):
        daemon = self.start(warm=3, check_after_s=0)
        client = self.client(daemon)
        self.wait_blank(client, 3)
        lease = self.box(daemon, "one")
        self.assertEqual(lease["source"], "warm")
        self.assertTrue(self.answers(lease))


class Away(ClusterCase):
    def test_destroy_is_recorded_and_tried_again(self):
        daemon = self.start(warm=0, destroy_timeout_s=30)
        client = self.client(daemon)
        lease = self.box(daemon, "one")
        self.provisioner.kill()
        answer = client.delete(f"/v1/sandboxes/{lease['sandbox_id']}")
        self.assertEqual((answer.status, answer.json["state"]), (202, "deleting"), answer)
        self.assertIn("recorded", answer.json["report"]["text"])
        self.provisioner.start()
        wait_until(lambda: not self.ours(), "it is deleted when the provisioner is back", 60)


class Again(ClusterCase):
    """An older provisioner forgets a box while its Pod still ends, and makes the name lead to that Pod again."""

    def check(self, serves_ending, has_agent=True, **profile):
        self.provisioner.control(old=True, has_agent=has_agent, serves_ending=serves_ending, lingers_s=2)
        daemon = self.start(warm=0, personal=True, **profile)
        client = self.client(daemon)
        lease = self.box(daemon, "one")
        before = self.provisioner.boxes()[lease["sandbox_id"]]
        answer = client.delete(f"/v1/sandboxes/{lease['sandbox_id']}")
        self.assertEqual(answer.status, 200, answer)
        self.assertIn("does not say when its Pod has ended", answer.json["report"]["text"])
        fresh = self.box(daemon, "one", wait_ms=60000)
        after = self.provisioner.boxes()[lease["sandbox_id"]]
        self.assertFalse(after["ends"], "a box that ends was handed out")
        self.assertNotEqual((after["uid"], after["life"]), (before["uid"], before["life"]))
        self.assertNotEqual(fresh["box_id"], lease["box_id"])
        self.assertTrue(self.answers(fresh))

    def test_the_old_one_answers_to_its_end(self):
        self.check(True)

    def test_of_another_image(self):
        self.check(True, has_agent=False)

    def test_the_old_one_is_reached_no_more(self):
        self.check(False)

    def test_discovered(self):
        self.check(True, discover=True)


class AgainAfterRestart(ClusterCase):
    """The same, and the daemon starts anew between the delete and the next acquire of the thread."""

    RESTARTS = {"term": lambda d: d.restart(), "kill": lambda d: (d.kill(), d.start()), "takeover": lambda d: d.takeover()}

    def begin(self, has_agent=True, env=None, **profile):
        self.provisioner.control(old=True, has_agent=has_agent, serves_ending=True, lingers_s=3600)
        daemon = self.start(warm=0, personal=True, **profile)
        if env:
            daemon.stop()
            daemon.start(env=env)
        lease = self.box(daemon, "one")
        return daemon, lease, self.provisioner.boxes()[lease["sandbox_id"]]

    def delete(self, daemon, lease):
        client = daemon.client()
        try:
            answer = client.delete(f"/v1/sandboxes/{lease['sandbox_id']}")
            self.assertEqual(answer.status, 200, answer)
        finally:
            client.close()

    def never_the_old_one(self, daemon, lease, before):
        """The old Pod answers until the daemon has looked again at what its create led to; only then it ends."""
        first = len(self.provisioner.control()["asked"])

        def has_looked():
            asked = [what for what, name in self.provisioner.control()["asked"][first:]
                     if what == "create" or name == lease["sandbox_id"]]
            return "create" in asked[:-1]

        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            call = threads.submit(daemon.acquire, "one", wait_ms=60000)
            wait_until(lambda: call.done() or has_looked(), "the old one is looked at")
            ended = self.provisioner.control(finish=True)["boxes"].get(lease["sandbox_id"])
            answer = call.result()
        self.assertEqual(answer.status, 200, (answer, daemon.process.output()[-3000:]))
        after = self.provisioner.boxes()[lease["sandbox_id"]]
        self.assertFalse(after["ends"], "a box that ends was handed out")
        self.assertNotEqual((after["uid"], after["life"]), (before["uid"], before["life"]))
        self.assertNotEqual(answer.json["box_id"], lease["box_id"])
        self.assertTrue(self.answers(answer.json))
        self.assertEqual(ended["life"], before["life"])  # it was what the name led to

    def check(self, restart, **profile):
        daemon, lease, before = self.begin(**profile)
        self.addCleanup(daemon.process.kill)
        self.delete(daemon, lease)
        self.RESTARTS[restart](daemon)
        self.never_the_old_one(daemon, lease, before)

    def test_term(self):
        self.check("term")

    def test_kill(self):
        self.check("kill")

    def test_takeover(self):
        self.check("takeover")

    def test_of_another_image(self):
        self.check("kill", has_agent=False)

    def test_discovered(self):
        self.check("kill", discover=True)

    def test_several_restarts(self):
        daemon, lease, before = self.begin()
        self.delete(daemon, lease)
        for restart in self.RESTARTS.values():
            self.addCleanup(daemon.process.kill)
            restart(daemon)
        self.never_the_old_one(daemon, lease, before)

    def test_killed_while_the_next_one_is_made(self):
        daemon, lease, before = self.begin(env={"SANDPOOL_CRASH_AT": "remote.after_create:2"})
        self.delete(daemon, lease)
        self.assertRaises((OSError, http.client.HTTPException), daemon.acquire, "one", wait_ms=60000)
        wait_until(lambda: not daemon.process.is_running(), "it has died")
        daemon.start()
        self.never_the_old_one(daemon, lease, before)

    def test_killed_during_the_delete(self):
        for point in ("remote.before_remove", "remote.after_remove", "engine.after_destroy"):
            with self.subTest(point=point):
                daemon, lease, before = self.begin(env={"SANDPOOL_CRASH_AT": f"{point}:1"})
                client = daemon.client()
                try:
                    client.delete(f"/v1/sandboxes/{lease['sandbox_id']}")
                except (OSError, http.client.HTTPException):
                    pass
                finally:
                    client.close()
                wait_until(lambda: not daemon.process.is_running(), "it has died")  # noqa: B023
                daemon.start()
                self.never_the_old_one(daemon, lease, before)
                self.doCleanups()
                self.setUp()


class Reasons(ClusterCase):
    """Whoever gets no box is shown what the provisioner says of it, and what to look at."""

    def profile(self, client):
        return client.get("/v1/pool").json["profiles"][0]

    def test_never_ready(self):
        self.provisioner.control(pending_s=3600)
        daemon = self.start(warm=0, ready_timeout_s=600)
        answer = wait_until(lambda: next((a for a in [daemon.acquire("one", wait_ms=3000)] if "provisioner says" in a.text),
                                         None), "the status is known")
        self.assertEqual((answer.status, answer.code), (503, "acquire_timeout"), answer)
        self.assertRegex(answer.text, r"the provisioner says Pending for \d+ s: look at its image, its mounts .*kubectl describe "
                                      r"pod/sandbox-sp-[0-9a-f]{8}-[0-9a-f]{16}")
        answer = self.client(daemon).get("/v1/waiting")
        self.assertIn("the provisioner says Pending", answer.text)

    def test_given_up(self):
        self.provisioner.control(pending_s=3600)
        daemon = self.start(warm=1, ready_timeout_s=3)
        client = self.client(daemon)
        wait_until(lambda: self.profile(client)["breaker"]["failures"] > 0, "it is given up")
        self.assertIn("the provisioner says Pending for", self.profile(client)["breaker"]["reason"])

    def test_ends_while_it_starts(self):
        self.provisioner.control(pending_s=3600)
        daemon = self.start(warm=0, ready_timeout_s=600)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            call = threads.submit(daemon.acquire, "one", wait_ms=120000)
            wait_until(self.provisioner.boxes, "a box is being started")
            self.provisioner.control(pending_s=0, lose_pod=next(iter(self.provisioner.boxes())))
            self.assertEqual(call.result().status, 200, call.result())

    def test_the_newest_cause(self):
        self.provisioner.control(rules=[{"on": "create", "do": "status:400 an older failure", "times": -1}])
        daemon = self.start(warm=0, create={"breaker_failures": 1, "backoff_min_ms": 600000, "backoff_max_ms": 600000})
        client = self.client(daemon)
        self.assertIn("an older failure", daemon.acquire("one").text)
        self.provisioner.control(rules=[], key="another-key-entirely")
        self.assertEqual(client.post("/v1/pool/reconcile").json["backends_failed"], 1)
        answer = daemon.acquire("one")
        self.assertEqual((answer.status, answer.code), (503, "backend_unavailable"), answer)
        self.assertIn("refuses the key (401): check remote.provisioner_api_key", answer.text)
        self.assertIn("refuses the key", client.get("/readyz").text)

    def test_nobody_is_refused_while_boxes_are_ready(self):
        daemon = self.start(warm=3, create={"breaker_failures": 2, "backoff_min_ms": 10, "backoff_max_ms": 500})
        client = self.client(daemon)
        self.wait_blank(client, 3)
        self.provisioner.control(rules=[{"on": "create", "do": "status:400 no more", "times": -1}])
        self.box(daemon, "one")
        wait_until(lambda: self.profile(client)["breaker"]["failures"] > 2, "no more can be made")
        said = self.profile(client)
        self.assertEqual((said["blank"], said["breaker"]["open"], said["ready"]), (2, False, True), said)
        self.assertEqual(client.get("/readyz").status, 200)
        shown = subprocess.run([BIN / "sandpool", "--socket", daemon.socket, "pool"], capture_output=True, text=True,
                               timeout=60, check=False).stdout
        self.assertIn("no more", shown)
        self.assertNotIn("refusing", shown)
        for thread in ("two", "three"):
            self.assertEqual(self.box(daemon, thread)["source"], "warm")
        said = self.profile(client)
        self.assertEqual((said["blank"], said["breaker"]["open"], said["ready"]), (0, True, False), said)
        self.assertIn("no more", daemon.acquire("four").text)


class Many(ClusterCase):
    def test_boxes_that_only_have_to_become_ready_do_not_count(self):
        self.provisioner.control(pending_s=3600)
        daemon = self.start(warm=0, create={"concurrency": 2, "backoff_max_ms": 500})
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            calls = [threads.submit(daemon.acquire, f"many-{i}", wait_ms=60000) for i in range(8)]
            wait_until(lambda: len(self.provisioner.boxes()) == 8, "all are being started at once")
            told = self.provisioner.control(pending_s=0, ready=True)
            for call in calls:
                self.assertEqual(call.result().status, 200, call.result())
        self.assertLessEqual(told["creates_at_once"], 2)


if __name__ == "__main__":
    main()
