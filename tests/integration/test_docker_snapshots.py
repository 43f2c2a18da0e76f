"""Snapshots and forks of containers: what is in them, what must not be in their images, and what is left of one when it is
deleted while it is needed, or when the daemon is killed in the middle."""

import base64
import http.client
import json

from docker_case import engines, main, wait_until
from docker_snapshot_case import SnapshotCase
from test_crash import fault_names


RESTORE_POINTS = ("engine.before_create", "docker.before_create", "docker.after_create", "docker.before_start", "docker.after_start",
                  "docker.after_relay", "places.before_limit", "places.after_limit", "engine.after_create", "engine.before_reply",
                  "engine.after_reply")


class Snapshots(SnapshotCase):
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
            whole = self.engine.json("GET", f"/images/{image['Id']}/json")
            self.assertNotIn(box.lease["token"], json.dumps(whole))
            self.assertNotIn("by the profile", json.dumps(whole))
            shown = whole["Config"]
            record = json.loads(base64.urlsafe_b64decode(shown["Labels"].pop("sandpool.record") + "=="))
            self.assertNotIn("token", record)
            self.assertEqual((shown["User"], shown["WorkingDir"]), ("ann", "/place"))
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

    def test_tokens_of_others(self):
        """A box knows its own token alone, whatever the one it was made from had."""
        daemon = self.start()
        box = self.box(daemon, "source")
        copy = self.restored(daemon, self.take(daemon, box), "copy")
        for one, other in ((box, copy), (copy, box)):
            port = int(one.lease["sandbox_url"].rsplit(":", 1)[1])
            seen = [self.ask(port, lease["token"]) for lease in (one.lease, other.lease)]
            self.assertEqual(seen, [200, 401])
            self.assertNotIn(other.lease["token"], one.sh("env; cat /proc/1/environ /proc/self/environ 2>/dev/null; true"))

    def ask(self, port, token):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/v1/agent/activity", headers={"Authorization": f"Bearer {token}"})
        status = connection.getresponse().status
        connection.close()
        return status

    def test_more_than_lie_on_each_other(self):
        """After some they are made one again; what was changed and deleted meanwhile stays so."""
        daemon = self.start(warm=0)
        box, seen = self.box(daemon, "t-0"), []
        box.sh("mkdir -p ~/d/e; echo old > ~/d/e/f; echo gone > ~/gone; echo kept > ~/kept; busybox ln ~/kept ~/same")
        for i in range(1, 13):
            box.sh(f"echo {i} >> ~/log; echo {i} > ~/{i}; " + {
                3: "rm ~/gone", 5: "rm -r ~/d && mkdir ~/d && echo new > ~/d/g"}.get(i, "true"))
            snapshot = self.take(daemon, box)
            seen.append(snapshot["layers"])
            self.assertOk(self.client(daemon).delete(f"/v1/sandboxes/{box.id}"))
            box = self.restored(daemon, snapshot, f"t-{i}")
            self.delete(daemon, snapshot)
        self.assertEqual(seen, [*range(1, 9), 1, 2, 3, 4])
        self.assertEqual(box.sh("cat ~/log").split(), [str(i) for i in range(1, 13)])
        self.assertEqual(box.sh("cd; ls d; ls gone d/e 2>/dev/null; cat kept same d/g; busybox stat -c %u:%a ~ ~/log; true").split(),
                         ["g", "kept", "kept", "new", "1000:755", "1000:644"])
        layers = self.engine.json("GET", f"/images/{self.container(box)['Image']}/json")["RootFS"]["Layers"]
        self.assertLessEqual(len(layers), 1 + 4)

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

    inject = "auto"

    def test_a_daemon_that_is_killed_while_it_makes_a_box_of_one(self):
        """The box is whole or not there, and nothing is left beside it; the snapshot can be used, and deleted."""
        if not fault_names():
            self.skipTest("this build has no crash points")
        daemon = self.start(warm=0)
        box = self.box(daemon, "source")
        box.sh("echo here > /place/f")
        for name in RESTORE_POINTS:
            with self.subTest(point=name):
                snapshot = self.take(daemon, box)
                asked = {"thread_id": f"copy-{name}", "snapshot_id": snapshot["snapshot_id"], "wait_ms": 20000}
                left = self.crash(daemon, name, "POST", "/v1/acquire", asked)
                self.assertEqual(left["snapshot_id"], snapshot["snapshot_id"])
                copy = self.box(daemon, asked["thread_id"], snapshot_id=asked["snapshot_id"])
                self.assertIn(copy.lease["source"], ("restored", "parked", "kept"))
                self.assertEqual(copy.sh("cat /place/f"), "here\n")
                self.assertEqual(self.box(daemon, "source").sh("cat /place/f"), "here\n")
                self.assertAgree(daemon)
                self.assertOk(self.client(daemon).delete(f"/v1/sandboxes/{copy.id}"))
                self.delete(daemon, snapshot)
                self.collect(daemon)

    def test_hibernate_and_back(self):
        """Twice, also with a daemon that was killed in between and has lost its database."""
        daemon = self.start(warm=0, park="snapshot", park_timeout_s=0)
        box = self.box(daemon, "t")
        for turn in range(2):
            box.sh(f"echo {turn} >> ~/kept")
            self.post(daemon, f"/v1/sandboxes/{box.id}/release")
            wait_until(lambda: self.client(daemon).get(f"/v1/sandboxes/{box.id}").json.get("state") == "hibernated",
                       "it is hibernated")
            wait_until(lambda: box.box_id not in self.containers(), "its container is gone")
            daemon.kill()
            if turn == 1:
                for file in daemon.state.glob("sandpool.db*"):
                    file.unlink()
            daemon.start()
            again = self.box(daemon, "t", wait_ms=30000)
            self.assertEqual((again.lease["source"], again.id), ("restored", box.id))
            self.assertGreater(again.lease["generation"], box.lease["generation"])
            box = again
        self.assertEqual(box.sh("cat ~/kept"), "0\n1\n")
        wait_until(lambda: self.client(daemon).get("/v1/snapshots?all=1").json["snapshots"] == [], "nothing is hibernated")


class PodmanSnapshots(Snapshots):
    kind = "podman"
    inject = "upload"


if __name__ == "__main__":
    assert engines
    main()
