"""A restart nobody notices: leases, parked and blank boxes are found again; one daemon per state
directory; a standby takes over."""

import signal
import time

from fixtures import TestCase, main, wait_until


class Restart(TestCase):
    def fleet(self, **kw):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 3, "max": 6}, **kw}, sim=sim)
        client = self.client(daemon)
        self.wait_blank(client, 3)
        leases = [self.assertOk(client.acquire(f"t{i}", metadata={"i": i})) for i in range(5)]
        self.assertOk(client.release(leases[4]["sandbox_id"]))
        self.wait_blank(client, 3)
        return sim, daemon, client, leases

    def boxes(self, client):
        listed = self.assertOk(client.get("/v1/sandboxes?limit=1000"))["sandboxes"]
        return {b["box_id"]: (b["state"], b["sandbox_id"], b["generation"]) for b in listed}

    def check_same(self, sim, daemon, leases, before):
        client = self.client(daemon)
        wait_until(lambda: client.get("/v1/pool").json["by_state"]["starting"] == 0, "probed")
        self.assertEqual(self.boxes(client), before)
        self.assertEqual(set(sim.boxes()), set(before))
        for i, lease in enumerate(leases[:4]):
            kept = self.assertOk(client.acquire(f"t{i}"))
            self.assertEqual((kept["source"], kept["box_id"], kept["token"], kept["generation"]),
                             ("kept", lease["box_id"], lease["token"], 1))
            self.assertEqual(kept["metadata"], {"i": i})
        back = self.assertOk(client.acquire("t4"))
        self.assertEqual((back["source"], back["box_id"]), ("parked", leases[4]["box_id"]))
        self.assertEqual(self.assertOk(client.acquire("fresh"))["source"], "warm")

    def test_stop_and_start(self):
        sim, daemon, client, leases = self.fleet()
        before = self.boxes(client)
        daemon.restart()
        self.check_same(sim, daemon, leases, before)

    def test_kill_9_and_start(self):
        sim, daemon, client, leases = self.fleet()
        before = self.boxes(client)
        daemon.kill()
        daemon.start()
        self.check_same(sim, daemon, leases, before)

    def test_boxes_that_died_meanwhile_are_lost_and_told(self):
        sim, daemon, client, leases = self.fleet()
        daemon.kill()
        sim.kill_box(leases[0]["box_id"])
        daemon.start()
        client = self.client(daemon)
        target = "/v1/sandboxes/" + leases[0]["sandbox_id"]
        self.assertCode(client.get(target), 410, "sandbox_lost")
        self.assertCode(client.post(target + "/renew", {}), 410, "sandbox_lost")
        again = self.assertOk(client.acquire("t0"))
        self.assertEqual(again["generation"], 2)
        self.assertNotEqual(again["box_id"], leases[0]["box_id"])

    def test_leases_that_ended_meanwhile_are_destroyed(self):
        sim, daemon, client, _ = self.fleet()
        lease = self.assertOk(client.acquire("short", ttl_s=1))
        daemon.kill()
        time.sleep(1.2)
        daemon.start()
        client = self.client(daemon)
        wait_until(lambda: lease["box_id"] not in sim.boxes(), "the box is gone")
        self.assertCode(client.get("/v1/sandboxes/" + lease["sandbox_id"]), 410, "sandbox_lost")

    def test_a_machine_that_does_not_answer_loses_nothing(self):
        sim, daemon, client, leases = self.fleet()
        daemon.stop()
        sim.child.send_signal(signal.SIGSTOP)
        self.addCleanup(sim.child.send_signal, signal.SIGCONT)
        daemon.start()
        client = self.client(daemon)
        kept = self.assertOk(client.acquire("t0"))
        self.assertEqual((kept["source"], kept["box_id"]), ("kept", leases[0]["box_id"]))
        ready = client.get("/readyz")
        self.assertEqual(ready.status, 503)
        self.assertIn("sim", ready.json["reason"])
        sim.child.send_signal(signal.SIGCONT)
        self.assertOk(client.post("/v1/pool/reconcile"))
        wait_until(lambda: client.get("/readyz").status == 200, "ready again")
        self.assertEqual(len(sim.boxes()), client.get("/v1/pool").json["total"])

    def test_a_deleted_database_is_rebuilt_from_labels(self):
        sim, daemon, client, leases = self.fleet()
        instance = client.get("/v1/version").json["instance"]
        daemon.stop()
        for file in daemon.state.glob("sandpool.db*"):
            file.unlink()
        config = daemon.config.read_text()
        daemon.write_config(config.replace("{", '{"instance": "%s",' % instance, 1))
        daemon.start()
        client = self.client(daemon)
        wait_until(lambda: client.get("/v1/pool").json["by_state"]["starting"] == 0, "probed")
        back = self.assertOk(client.acquire("t0"))
        self.assertEqual((back["source"], back["box_id"]), ("parked", leases[0]["box_id"]))
        self.assertEqual(back["token"], leases[0]["token"])

    def test_boxes_of_another_instance_are_never_touched(self):
        sim, daemon, client, _ = self.fleet()
        count = len(sim.boxes())
        daemon.stop()
        for file in daemon.state.glob("sandpool.db*"):
            file.unlink()
        (daemon.state / "instance").unlink()
        daemon.start()  # a new instance name
        client = self.client(daemon)
        self.wait_blank(client, 3)
        self.assertOk(client.post("/v1/pool/reconcile"))
        self.assertOk(client.post("/v1/pool/reconcile"))
        self.assertEqual(len(sim.boxes()), count + client.get("/v1/pool").json["total"])


class DestroyOnExit(TestCase):
    def test_nothing_is_left_and_the_next_start_is_normal(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 3, "max": 3}}, sim=sim, args=["--destroy-on-exit"])
        client = self.client(daemon)
        self.wait_blank(client, 3)
        self.assertOk(client.acquire("t"))
        daemon.stop()
        self.assertEqual(sim.boxes(), {})
        daemon.start()
        client = self.client(daemon)
        self.assertEqual(client.get("/v1/pool").json["mode"], "running")
        self.assertEqual(self.assertOk(client.acquire("t"))["generation"], 2)


class Single(TestCase):
    def test_a_second_daemon_is_refused_with_a_sentence(self):
        daemon = self.daemon()
        second = daemon.spawn()
        self.addCleanup(second.kill)
        self.assertEqual(second.child.wait(20), 1)
        self.assertIn(f"another daemon (pid {daemon.process.pid})", second.output())
        self.assertTrue(daemon.answers())

    def test_a_standby_takes_over_and_keeps_all_leases(self):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 2, "max": 2}}, sim=sim)
        client = self.client(daemon)
        lease = self.assertOk(client.acquire("t"))
        standby = daemon.spawn(args=["--standby"])
        self.addCleanup(standby.kill)
        wait_until(lambda: "daemon.standby" in standby.output(), "the standby waits")
        self.assertTrue(standby.is_running())
        daemon.kill()
        daemon.process = standby
        daemon.wait_ready()
        kept = self.assertOk(self.client(daemon).acquire("t"))
        self.assertEqual((kept["source"], kept["box_id"]), ("kept", lease["box_id"]))

    def test_stop_leaves_no_socket_behind(self):
        daemon = self.daemon()
        daemon.stop()
        self.assertFalse(daemon.socket.exists())


if __name__ == "__main__":
    main()
