"""What a reload, a stop and a changed name must not do to boxes that live."""

import pathlib
import threading

import fixtures
from fixtures import SimMachine, main, wait_until


class EngineTest(fixtures.TestCase):
    def second_sim(self):
        directory = pathlib.Path(self.directory) / "second"
        directory.mkdir()
        sim = SimMachine(directory)
        self.addCleanup(sim.kill)
        self.addCleanup(sim.client.close)
        return sim

    def on(self, sim, **profile):
        return {"backend": "sim", "sim": {"socket": str(sim.socket)}, **profile}

    def test_reload_does_not_move_living_boxes(self):
        first, second = self.sim(), self.second_sim()
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, sim=first)
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t"))
        daemon.write_config({"profiles": {"default": self.on(second)}})
        answer = client.post("/v1/pool/reload")
        self.assertEqual(answer.status, 422, answer)
        self.assertIn("cannot move", answer.json["error"]["message"])
        self.assertOk(client.post("/v1/pool/reconcile"))
        again = self.assertOk(client.acquire("t"))
        self.assertEqual((again["source"], again["box_id"]), ("kept", lease["box_id"]))
        self.assertEqual(second.boxes(), {})

    def test_reload_brings_in_a_backend(self):
        first, second = self.sim(), self.second_sim()
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, sim=first)
        client = self.client(daemon)
        daemon.write_config({"profiles": {
            "default": self.on(first, warm={"min": 0, "max": 0}),
            "other": self.on(second, warm={"min": 1, "max": 1})}})
        self.assertOk(client.post("/v1/pool/reload"))
        wait_until(lambda: len(second.boxes()) == 1, "a box on the new backend")
        self.assertOk(client.acquire("t", profile="other"))

    def test_box_of_a_removed_profile_is_found_on_its_backend(self):
        sim = self.sim()
        none = {"min": 0, "max": 0}
        profiles = {"default": {"backend": "sim"}, "old": self.on(sim, warm=none)}
        daemon = self.daemon(profiles=profiles)
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t", profile="old"))
        client.close()
        daemon.stop()
        daemon.write_config({"profiles": {"default": {"backend": "sim"},
                                          "new": self.on(sim, warm=none)}})
        daemon.start()
        again = self.assertOk(client.acquire("t"))
        self.assertEqual((again["source"], again["box_id"]), ("kept", lease["box_id"]))
        self.assertOk(client.delete(f"/v1/sandboxes/{lease['sandbox_id']}"))
        self.assertEqual(sim.boxes(), {})

    def test_backend_nobody_names_is_no_trouble(self):
        sim = self.sim()
        profiles = {"default": {"backend": "sim"}, "other": self.on(sim, warm={"min": 0, "max": 0})}
        daemon = self.daemon(profiles=profiles)
        client = self.client(daemon)
        sim.kill()
        self.assertEqual(self.assertOk(client.post("/v1/pool/reconcile"))["backends_failed"], 1)
        ready = self.assertOk(client.get("/readyz"))  # `default` can be served
        self.assertEqual([p["name"] for p in ready["profiles"] if not p["ready"]], ["other"])
        daemon.write_config({"profiles": {"default": {"backend": "sim"}}})
        self.assertOk(client.post("/v1/pool/reload"))
        ready = self.assertOk(client.get("/readyz"))
        self.assertEqual([p for p in ready["profiles"] if not p["ready"]], [])

    def test_stop_keeps_boxes_that_are_starting(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 2, "max": 2}, "sim": {"ready_ms": 1500}}, sim=sim)
        client = self.client(daemon)
        wait_until(lambda: len(sim.boxes()) == 2, "two boxes exist")
        before = set(sim.boxes())
        client.close()
        daemon.restart()
        self.wait_blank(client, 2)
        self.assertEqual(set(sim.boxes()), before)

    def test_destroy_on_exit_makes_no_box_at_the_end(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 4, "max": 4}}, sim=sim, args=["--destroy-on-exit"])
        client = self.client(daemon)
        self.wait_blank(client, 4)
        client.close()
        daemon.stop()
        self.assertEqual(sim.boxes(), {})
        self.assertNotIn("boxes_left", daemon.process.output())
        daemon.start()
        self.assertEqual(self.client(daemon).get("/v1/pool").json["mode"], "running")

    def test_instance_is_remembered(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, sim=sim, instance="one")
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t"))
        client.close()
        daemon.stop()
        daemon.write_config({"profiles": {"default": self.on(sim)}})
        daemon.start()
        self.assertEqual(self.assertOk(client.acquire("t"))["box_id"], lease["box_id"])
        client.close()
        daemon.stop()
        daemon.write_config({"instance": "two", "profiles": {"default": self.on(sim)}})
        daemon.start(wait=False)
        self.assertEqual(daemon.process.child.wait(fixtures.WAIT_S), 1)
        self.assertIn("boxes of instance 'one'", daemon.process.output())

    def test_waiting_callers_are_answered_when_it_stops(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"create_ms": 60000}})
        client = self.client(daemon)
        answers = []
        caller = threading.Thread(target=lambda: answers.append(daemon.acquire("t")))
        caller.start()
        wait_until(lambda: client.get("/v1/pool").json["waiting"] == 1, "one waits")
        client.close()
        daemon.stop()
        caller.join(fixtures.WAIT_S)
        self.assertCode(answers[0], 503, "draining")
        self.assertEqual(answers[0].headers.get("Retry-After"), "1")

    def test_box_being_made_is_not_called_dead(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 1}, "sim": {"create_ms": 60000}})
        client = self.client(daemon)
        box = wait_until(lambda: client.get("/v1/sandboxes").json["sandboxes"], "one is made")[0]
        answer = self.assertOk(client.get(f"/v1/sandboxes/box:{box['box_id']}?alive=1"))
        self.assertIsNone(answer["alive"])
        self.assertEqual(answer["state"], "starting")


if __name__ == "__main__":
    main()
