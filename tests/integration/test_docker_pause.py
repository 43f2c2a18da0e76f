"""Boxes of an engine that are paused: by the daemon, and behind its back."""

from docker_case import DockerCase, main
from fixtures import wait_until


class Paused(DockerCase):
    def is_frozen(self, box):
        return self.container(box)["State"]["Paused"]

    def is_paused(self, daemon, box):
        return self.rows(daemon)[box.box_id].get("paused", False)

    def pause(self, daemon, box):
        answer = daemon.client().post(f"/v1/sandboxes/{box.id}/pause", {})
        self.assertEqual((answer.status, answer.json.get("paused")), (200, True), answer)
        self.assertTrue(self.is_frozen(box))

    def test_a_box_that_stands_still(self):
        daemon = self.start(warm=0, profiles={"cold": self.profile(warm=0, park="freeze")})
        client = daemon.client()
        box = self.box(daemon, "one")
        path = f"/v1/sandboxes/{box.id}"
        self.pause(daemon, box)
        self.pause(daemon, box)
        self.assertEqual(client.post(f"{path}/exec", {"command": "echo on"}).json["stdout"], "on\n")
        self.assertFalse(self.is_frozen(box))
        self.pause(daemon, box)
        for end in (daemon.stop, daemon.kill):
            end()
            daemon.start()
            self.assertEqual((self.is_paused(daemon, box), self.is_frozen(box)), (True, True))
        client = daemon.client()
        client.post(f"{path}/release", {})
        self.assertEqual(daemon.acquire("one").json["source"], "parked")
        self.assertFalse(self.is_frozen(box))
        # somebody else lets it go on
        self.pause(daemon, box)
        self.engine.call("POST", f"/containers/{self.container(box)['Id']}/unpause")
        self.assertEqual(client.post(f"{path}/exec", {"command": "echo on"}).json["stdout"], "on\n")
        self.assertFalse(self.is_paused(daemon, box))
        # the end of one, and one that freezes by itself
        self.pause(daemon, box)
        self.assertEqual(client.delete(path).status, 200)
        cold = self.box(daemon, "two", profile="cold")
        client.post(f"/v1/sandboxes/{cold.id}/release", {})
        wait_until(lambda: self.is_frozen(cold), "it stands still")
        self.assertEqual(daemon.acquire("two", profile="cold").json["source"], "parked")
        self.assertFalse(self.is_frozen(cold))


class PausedByPodman(Paused):
    kind = "podman"


if __name__ == "__main__":
    main()
