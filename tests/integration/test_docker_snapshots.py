"""Snapshots and forks of containers: what is in them, what must not be in their images, and what is left of one when it is
deleted while it is needed, or when the daemon is killed in the middle."""

import base64
import json

from docker_case import INSTANCE, DockerCase, engines, main, wait_until
from harness import Client
from test_crash import fault_names


class Snapshots(DockerCase):
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

    def test_what_it_has_and_what_not(self):
        daemon = self.start(env={"KEPT": "by the profile"}, docker={"inject": self.inject, "user": "1000"})
        box = self.box(daemon, "source", envs={"SECRET": "late"}, metadata={"k": 1})
        box.sh("echo one > /place/f; echo two > ~/g")
        snapshot = self.take(daemon, box, name="first", metadata={"why": 'a "test"'})
        self.assertEqual([snapshot[k] for k in ("name", "parent", "memory", "metadata")],
                         ["first", None, False, {"why": 'a "test"'}])
        self.assertRegex(snapshot["digest"], "^sha256:[0-9a-f]{64}$")
        self.assertGreater(snapshot["size_bytes"], 0)
        self.assertClean(box)
        box.sh("echo changed > /place/f")
        self.assertEqual((snapshot["env_count"], snapshot["layers"]), (1, 1))
        copy = self.restored(daemon, snapshot, "copy")
        self.assertEqual(copy.sh("cat /place/f ~/g; pwd; echo $KEPT-$SECRET-"), "one\ntwo\n/place\nby the profile-late-\n")
        self.assertEqual(copy.lease["metadata"], {"why": 'a "test"'})
        self.assertNotEqual(copy.lease["token"], box.lease["token"])
        copy.sh("echo three > /place/h")
        second = self.take(daemon, copy)
        self.assertEqual((second["parent"], second["layers"]), (snapshot["snapshot_id"], 2))
        self.assertClean(copy)
        self.delete(daemon, snapshot)  # a box and a snapshot are built on it
        self.assertEqual(self.listed(daemon), [second["snapshot_id"]])
        self.assertCode(daemon.acquire("none", snapshot_id=snapshot["snapshot_id"]), 404, "not_found")
        daemon.kill()
        daemon.start()
        self.assertEqual(self.listed(daemon), [second["snapshot_id"]])
        self.assertEqual(self.client(daemon).get(f"/v1/snapshots/{second['snapshot_id']}").json, second)
        self.assertEqual(self.restored(daemon, second, "late").sh("cat /place/f /place/h"), "one\nthree\n")
        self.assertEqual(self.box(daemon, "copy").sh("cat /place/h"), "three\n")
        self.assertEqual(box.sh("cat /place/f"), "changed\n")
        self.assertAgree(daemon)

    def assertClean(self, box):
        """No image says anything of the box that it was made from."""
        for image in self.images():
            shown = self.engine.json("GET", f"/images/{image['Id']}/json")["Config"]
            record = json.loads(base64.urlsafe_b64decode(shown["Labels"].pop("sandpool.record") + "=="))
            self.assertNotIn("token", record)
            self.assertEqual((shown["User"], shown["WorkingDir"]), ("ann", "/place"))
            self.assertNotIn(box.lease["token"], json.dumps(shown))
            self.assertNotIn("by the profile", json.dumps(shown))
            self.assertEqual({k for k, v in shown["Labels"].items() if v}, {"sandpool.snapshot"} |
                             ({"io.buildah.version"} & set(shown["Labels"])))

    def test_variables_of_its_profile(self):
        """They are not those of another profile that a box is made with."""
        daemon = self.start(env={"SECRET": "of the source", "PATH": "/nowhere:/bin"},
                            profiles={"plain": self.profile(warm=0, env={"OWN": "mine"})})
        box = self.box(daemon, "source")
        self.assertEqual(box.sh("echo $SECRET"), "of the source\n")
        snapshot = self.take(daemon, box)
        images = [self.engine.json("GET", f"/images/{i['Id']}/json")["Config"] for i in self.images()]
        self.assertNotIn("of the source", json.dumps(images))
        copy = self.restored(daemon, snapshot, "copy", profile="plain")
        self.assertRegex(copy.sh("echo $SECRET-$OWN-$PATH"), "^-mine-/usr/local/sbin:.*:/bin\n$")
        self.assertEqual(copy.sh("ls /place"), "")

    def test_fork(self):
        daemon = self.start()
        box = self.box(daemon, "source")
        box.sh("echo here > /place/f")
        made = self.post(daemon, f"/v1/sandboxes/{box.id}/fork", {"count": 3, "wait_ms": 60000})["sandboxes"]
        self.assertEqual([one.get("source") for one in made], ["restored"] * 3, made)
        self.assertEqual(self.listed(daemon), [])
        client = self.client(daemon)
        for one in made:
            self.assertEqual(client.post(f"/v1/sandboxes/{one['sandbox_id']}/exec", {"command": "cat /place/f"}).json["stdout"],
                             "here\n")
            self.assertOk(client.delete(f"/v1/sandboxes/{one['sandbox_id']}"))
        self.collect(daemon)

    def test_a_daemon_that_is_killed(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        daemon = self.start()
        box = self.box(daemon, "source")
        box.sh("echo here > /place/f")
        snapshot = self.crash(daemon, "snapshot.committed", "POST", f"/v1/sandboxes/{box.id}/snapshots")
        self.assertEqual(self.restored(daemon, snapshot, "copy").sh("cat /place/f"), "here\n")
        self.crash(daemon, "snapshot.marked", "DELETE", f"/v1/snapshots/{snapshot['snapshot_id']}")
        self.assertEqual(self.listed(daemon), [])
        self.assertEqual(self.box(daemon, "copy").sh("cat /place/f"), "here\n")
        self.assertEqual(len(self.images()), 1)

    def crash(self, daemon, point, method, target):
        """The only snapshot that there is afterwards."""
        daemon.kill()
        daemon.start(env={"SANDPOOL_CRASH_AT": f"{point}:1"})
        client = Client(daemon.socket)
        try:
            client.call(method, target, {} if method == "POST" else None)
        except OSError:
            pass
        client.close()
        wait_until(lambda: not daemon.process.is_running(), "crash")
        daemon.start()
        found = self.client(daemon).get("/v1/snapshots").json["snapshots"]
        return found[0] if found else None

    inject = "auto"


class PodmanSnapshots(Snapshots):
    kind = "podman"
    inject = "upload"


if __name__ == "__main__":
    assert engines
    main()
