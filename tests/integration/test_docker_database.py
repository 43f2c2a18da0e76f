"""A database under constant writes is whole in every snapshot of its container, whether the engine keeps its files or a disk with a
limit does (docker.disk: places)."""

import os

from docker_case import DockerCase, main, wait_until
from fixtures import fewer
from test_boxes_snapshots import READER, WRITER

SNAPSHOTS = int(os.environ.get("SANDPOOL_TEST_SNAPSHOTS", 3))
PROGRAMS = ["/usr:/usr:ro", "/usr/lib:/lib:ro", "/usr/lib64:/lib64:ro"]


def command(program):
    return f"/usr/bin/python3 -c \"{program.replace('/workspace', '/place')}\""


class Database(DockerCase):
    def test_whole_in_every_snapshot(self):
        daemon = self.start(warm=0, limits={"memory": "512M", "disk": "400M"}, mounts=PROGRAMS,
                            docker={"disk": self.disk}, config={"mounts": {"allow": ["/usr"]}})
        client, before = self.client(daemon), 0
        box = self.box(daemon, "writer")
        job = box.start(command(WRITER))
        wait_until(lambda: "done" in box.sh("ls /place"), lambda: f"it writes: {box.output(job, 'stderr')}")
        for i in fewer(range(SNAPSHOTS)):
            snapshot = self.assertOk(client.post(f"/v1/sandboxes/{box.id}/snapshots", {}))["snapshot_id"]
            copy = self.box(daemon, f"reader-{i}", snapshot_id=snapshot)
            done, *numbers = map(int, copy.sh(command(READER)).split())
            self.assertIn(numbers, ([done], [done + 1]), f"snapshot {i}")
            self.assertGreater(done, before, "it goes on to write")
            before = done
            self.assertOk(client.delete(f"/v1/sandboxes/{copy.id}"))
            self.assertOk(client.delete(f"/v1/snapshots/{snapshot}"))

    disk = "none"


class DatabaseOnPlaces(Database):
    disk = "places"


class PodmanDatabase(Database):
    kind = "podman"


if __name__ == "__main__":
    main()
