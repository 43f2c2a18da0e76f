"""What tests of snapshots with an engine share."""

import json

from docker_case import INSTANCE, DockerCase, wait_until
from fixtures import Client


class SnapshotCase(DockerCase):
    def images(self):
        """Those of our snapshots, also of deleted ones."""
        def answer():
            status, data = self.engine.call("GET", "/images/json")
            return json.loads(data) if status == 200 else None  # Podman fails while one is removed
        return [i for i in wait_until(answer, "a list of images")
                if (i["Labels"] or {}).get("sandpool.snapshot") == INSTANCE]

    def post(self, daemon, target, body=None):
        client = self.client(daemon)
        return self.assertOk(client.post(target, body or {}))

    def take(self, daemon, box, **fields):
        return self.post(daemon, f"/v1/sandboxes/{box.id}/snapshots", fields)

    def listed(self, daemon):
        return [s["snapshot_id"] for s in self.assertOk(self.client(daemon).get("/v1/snapshots"))["snapshots"]]

    def delete(self, daemon, snapshot):
        self.assertOk(self.client(daemon).delete(f"/v1/snapshots/{snapshot['snapshot_id']}"))

    def restored(self, daemon, snapshot, thread, **fields):
        box = self.box(daemon, thread, snapshot_id=snapshot["snapshot_id"], **fields)
        self.assertEqual(box.lease["source"], "restored")
        return box

    def collect(self, daemon):
        def is_done():
            self.post(daemon, "/v1/pool/reconcile")
            return self.images() == []
        wait_until(is_done, lambda: f"no image is left: {self.images()}")

    def end(self, daemon):
        if not daemon.process.is_running():
            daemon.start()
        for snapshot in self.listed(daemon):
            self.client(daemon).delete(f"/v1/snapshots/{snapshot}")
        for row in self.rows(daemon).values():
            if row["sandbox_id"]:
                self.client(daemon).delete(f"/v1/sandboxes/{row['sandbox_id']}")
        self.collect(daemon)
        super().end(daemon)

    def crash(self, daemon, point, method, target, body=None):
        """The only snapshot that there is afterwards."""
        daemon.kill()
        daemon.start(env={"SANDPOOL_CRASH_AT": f"{point}:1"})
        client = Client(daemon.socket)
        try:
            client.call(method, target, (body or {}) if method == "POST" else None)
        except OSError:
            pass
        client.close()
        wait_until(lambda: not daemon.process.is_running(), "crash")
        daemon.start()
        found = self.client(daemon).get("/v1/snapshots").json["snapshots"]
        return found[0] if found else None

    def copies(self):
        """Containers that were to become snapshots."""
        return [c["Names"] for c in self.engine.json("GET", "/containers/json?all=1")
                if (c["Labels"] or {}).get("sandpool.copy") == INSTANCE]

    def differences(self, daemon):
        found = super().differences(daemon)
        paused = [c["Names"] for c in self.containers().values() if c["State"] == "paused"]
        if self.copies() or paused:
            found["copies"] = (self.copies(), paused)
        return found
