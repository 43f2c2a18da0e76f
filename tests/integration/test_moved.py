"""A profile that names another backend after a restart: its boxes stay where they are, and are not forgotten."""

import json
import pathlib

from fixtures import SimMachine, TestCase, main, wait_until


class Moved(TestCase):
    def second_machine(self):
        directory = pathlib.Path(self.directory) / "second"
        directory.mkdir()
        sim = SimMachine(directory)
        self.addCleanup(sim.kill)
        self.addCleanup(sim.client.close)
        return sim

    def move(self, daemon, sim, **profiles):
        config = json.loads(daemon.config.read_text())
        config["profiles"]["default"]["sim"]["socket"] = str(sim.socket)
        config["profiles"].update(profiles)
        daemon.write_config(config)

    def test_boxes_of_the_old_backend(self):
        old, new = self.sim(), self.second_machine()
        daemon = self.daemon({"warm": {"min": 2, "max": 2}}, sim=old)
        client = self.client(daemon)
        leases = [self.assertOk(client.acquire(f"t{i}")) for i in range(4)]
        self.assertOk(client.release(leases[3]["sandbox_id"]))
        self.wait_blank(client, 2)
        held = {lease["box_id"] for lease in leases}
        self.assertEqual(len(old.boxes()), 6)
        daemon.stop()
        self.move(daemon, new)
        daemon.start()
        client = self.client(daemon)
        for i, source in ((0, "kept"), (1, "kept"), (3, "parked")):
            lease = self.assertOk(client.acquire(f"t{i}"))
            self.assertEqual((lease["source"], lease["box_id"]), (source, leases[i]["box_id"]))
        # Blank ones of the old backend are replaced by others on the new one.
        wait_until(lambda: set(old.boxes()) == held and len(new.boxes()) == 2, "the blank boxes have moved")
        fresh = self.assertOk(client.acquire("fresh"))
        self.assertIn(fresh["box_id"], new.boxes())
        # Destroyed where they are, lost when they die there.
        self.assertEqual(client.delete("/v1/sandboxes/" + leases[0]["sandbox_id"]).status, 200)
        old.kill_box(leases[1]["box_id"])
        wait_until(lambda: client.get("/v1/sandboxes/" + leases[1]["sandbox_id"]).status == 410, "its death is told")
        self.assertEqual(set(old.boxes()), {leases[2]["box_id"], leases[3]["box_id"]})

    def test_a_lost_database_and_another_profile_on_the_old_backend(self):
        """Without rows the labels are read, on every backend that is configured."""
        old, new = self.sim(), self.second_machine()
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, sim=old, instance="moved")
        lease = self.assertOk(self.client(daemon).acquire("t"))
        daemon.stop()
        for path in daemon.state.glob("sandpool.db*"):
            path.unlink()
        self.move(daemon, new, other={"backend": "sim", "warm": {"min": 0, "max": 0},
                                      "sim": {"socket": str(old.socket)}})
        daemon.start()
        client = self.client(daemon)
        again = self.assertOk(client.acquire("t"))
        self.assertEqual((again["box_id"], again["profile"]), (lease["box_id"], "default"))


if __name__ == "__main__":
    main()
