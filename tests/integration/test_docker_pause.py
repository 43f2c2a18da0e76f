"""Boxes of an engine that are paused: by the daemon, and behind its back."""

import pathlib

from docker_case import DockerCase, main
from fixtures import wait_until
from host import GROUPS, can_reclaim, memory_of


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
        if can_reclaim():
            self.gives_memory_back(client, cold)

    def gives_memory_back(self, client, box):
        """Its files lie on a disk of the host, because the profile leaves `docker.disk` to us."""
        lines = pathlib.Path(f"/proc/{self.container(box)['State']['Pid']}/cgroup").read_text().splitlines()
        unified = (GROUPS / "cgroup.controllers").exists()
        path = next(line.split(":", 2)[2] for line in lines
                    if (line.startswith("0::") if unified else "memory" in line.split(":")[1].split(",")))
        group = pathlib.Path(f"{GROUPS}{'' if unified else '/memory'}{path}")
        box.sh("dd if=/dev/urandom of=/place/file bs=1M count=24 2>/dev/null; sync; busybox sha256sum /place/file > /place/sum")
        before = memory_of(group)
        self.assertGreater(before, 24e6)
        client.post(f"/v1/sandboxes/{box.id}/release", {})
        wait_until(lambda: memory_of(group) < before - 20e6, lambda: f"it gives memory back: {before} {memory_of(group)}")
        self.assertTrue(self.is_frozen(box))
        client.post(f"/v1/sandboxes/{box.id}/resume", {})
        self.assertIn("OK", box.sh("busybox sha256sum -c /place/sum"))


class PausedByPodman(Paused):
    kind = "podman"


if __name__ == "__main__":
    main()
