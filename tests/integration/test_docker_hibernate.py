"""kill -9 of the daemon at every named point on the way of a container to a snapshot and back (park: snapshot), with Docker and
Podman. After each: the files are there, once; rows, containers and images agree; the lease that was there before is kept, and what
others have with the engine is as it was."""

import http.client
import json
import os
import unittest

from docker_case import FleetCase, engines, main, wait_until
from docker_snapshot_case import SnapshotCase
from fixtures import Client, skip
from test_crash import fault_names

KINDS = os.environ.get("SANDPOOL_TEST_ENGINES", "docker podman").split()
THERE = ("copy.made", "copy.paused", "copy.filled", "copy.resumed", "snapshot.committed", "hibernate.captured",
         "hibernate.doomed", "engine.before_destroy", "engine.after_destroy")
BACK = ("engine.before_create", "docker.before_create", "docker.after_create", "docker.before_start", "docker.after_start",
        "docker.after_relay", "engine.after_create", "hibernate.before_drop", "hibernate.before_envs", "engine.before_reply")
REBASE = ("rebase.made", "rebase.filled", "docker.after_start", "hibernate.before_drop")


class HibernateCase(SnapshotCase, FleetCase):
    @classmethod
    def setUpClass(cls):
        if cls.kind not in KINDS:
            raise unittest.SkipTest("engines of this kind have a test of their own")
        if not fault_names():
            skip("this build has no crash points")
        super().setUpClass()

    def hibernated(self, daemon):
        return self.client(daemon).get("/v1/snapshots?all=1").json["snapshots"]

    def crash_at(self, daemon, name, act):
        daemon.kill()
        daemon.start(env={"SANDPOOL_CRASH_AT": f"{name}:1"})
        client = Client(daemon.socket)
        try:
            act(client)
        except (OSError, http.client.HTTPException):
            pass
        client.close()
        wait_until(lambda: not daemon.process.is_running(), f"crash at {name}")
        daemon.start()


class Hibernate(HibernateCase):
    def check(self, daemon, thread):
        """The files are there, once, and nothing else is left."""
        box = wait_until(lambda: self.try_acquire(daemon, thread), lambda: f"a box: {daemon.process.output()[-3000:]}")
        self.assertIn(box.lease["source"], ("kept", "parked", "restored"))
        self.assertEqual(box.sh("cat ~/f; echo $WORD"), f"{thread}\n{thread}\n")
        wait_until(lambda: self.hibernated(daemon) == [], "nothing is hibernated")
        kept = self.box(daemon, "kept")
        self.assertEqual([kept.lease[k] for k in ("box_id", "generation", "token")], self.kept)
        self.assertOk(self.client(daemon).delete(f"/v1/sandboxes/{box.id}"))
        self.collect(daemon)
        self.assertAgree(daemon)
        self.assertEqual(self.of_others(), self.strange)

    def of_others(self):
        found = self.engine.json("GET", f"/containers/{self.other}/json")
        images = [i for i in self.engine.json("GET", "/images/json") if "sandpool.snapshot" not in (i["Labels"] or {})]
        return (found["State"]["Status"], sorted(tag for i in images for tag in i["RepoTags"] or []))

    def test_every_point(self):
        daemon = self.start(warm=0, park="snapshot", park_timeout_s=0, profiles={"plain": self.profile(warm=0)})
        self.other = self.stranger("other", {"sandpool.copy": "of-another", "sandpool.instance": "another"})
        self.addCleanup(self.engine.json, "DELETE", f"/containers/{self.other}?force=1")
        self.strange = self.of_others()
        self.kept = [self.box(daemon, "kept", profile="plain").lease[k] for k in ("box_id", "generation", "token")]
        for way, names in (("to", THERE), ("from", BACK)):
            for i, name in enumerate(names):
                with self.subTest(point=name, way=way):
                    self.assertIn(name, fault_names())
                    self.there_or_back(daemon, f"{way}-{i}", name, way)

    def there_or_back(self, daemon, thread, name, way):
        box = self.box(daemon, thread, envs={"WORD": thread})
        box.sh(f"echo {thread} > ~/f")
        release = f"/v1/sandboxes/{box.id}/release"
        if way == "to":
            self.crash_at(daemon, name, lambda client: (
                client.post(release, {}), wait_until(lambda: not daemon.process.is_running(), f"crash at {name}")))
        else:
            self.post(daemon, release)
            wait_until(lambda: self.hibernated(daemon) and box.box_id not in self.containers(), "it is hibernated")
            self.crash_at(daemon, name, lambda client: (
                client.post("/v1/acquire", {"thread_id": thread, "wait_ms": 20000}),
                wait_until(lambda: not daemon.process.is_running(), f"crash at {name}")))
        self.check(daemon, thread)


class PodmanHibernate(Hibernate):
    kind = "podman"


class Rebase(HibernateCase):
    """A profile with another image: a parked or hibernated sandbox comes back on it, with the files that it had written."""

    def make_image(self, name):
        made = self.engine.json("POST", "/containers/create", {
            "Image": engines.IMAGE, "User": "root",
            "Cmd": ["/bin/sh", "-c", f"cd /place; for f in base both gone; do echo {name} >$f; busybox chown 1000 $f; done"]})["Id"]
        self.engine.json("POST", f"/containers/{made}/start")
        self.engine.json("POST", f"/containers/{made}/wait")
        self.engine.json("POST", f"/commit?container={made}&repo=sandpool-test&tag={name}&changes=USER%20ann", {})
        self.engine.json("DELETE", f"/containers/{made}?force=1")

    def change(self, daemon, name):
        base = {**self.profile(image=f"sandpool-test:{name}", on_drift="rebase"), "warm": {"min": 0, "max": 0}}
        self.settings["profiles"] = {"default": base, "asleep": {**base, "park": "snapshot", "park_timeout_s": 0}}
        daemon.write_config(self.settings)
        self.post(daemon, "/v1/pool/reload")

    def begin(self):
        for name in ("old", "new"):
            self.make_image(name)
        daemon = self.start(warm=0)
        self.settings = json.loads(daemon.config.read_text())
        self.change(daemon, "old")
        return daemon

    def leave(self, daemon, thread, profile):
        box = self.box(daemon, thread, profile=profile, envs={"WORD": thread})
        box.sh(f"echo {thread} > ~/f; echo box > /place/both; rm /place/gone; mkdir -p /place/d; echo deep > /place/d/f")
        self.post(daemon, f"/v1/sandboxes/{box.id}/release")
        if profile == "asleep":
            wait_until(lambda: self.hibernated(daemon) and box.box_id not in self.containers(), "it is hibernated")
        return box

    def back(self, daemon, box, base):
        again = wait_until(lambda: self.try_acquire(daemon, box.lease["thread_id"], profile=box.lease["profile"]),
                           lambda: f"a box: {daemon.process.output()[-3000:]}")
        self.assertEqual((again.id, again.sh("cat /place/base /place/both /place/d/f ~/f; ls /place; echo $WORD").split()),
                         (box.id, [base, "box", "deep", box.lease["thread_id"], "base", "both", "d", box.lease["thread_id"]]))
        wait_until(lambda: self.hibernated(daemon) == [], "nothing is hibernated")
        return again

    def test_there(self):
        daemon = self.begin()
        for profile in ("default", "asleep"):
            with self.subTest(profile=profile):
                self.change(daemon, "old")
                old = self.leave(daemon, profile, profile)
                self.change(daemon, "new")
                new = self.back(daemon, old, "new")
                self.assertEqual((new.lease["source"], new.lease["generation"]), ("restored", old.lease["generation"] + 1))
                new.sh("echo more > /place/more")
                self.post(daemon, f"/v1/sandboxes/{new.id}/release")
                again = self.box(daemon, profile, profile=profile)  # nothing has changed since
                self.assertEqual(again.sh("cat /place/base /place/more ~/f"), f"new\nmore\n{profile}\n")
                self.assertOk(self.client(daemon).delete(f"/v1/sandboxes/{again.id}"))
        self.assertNotIn("docker.not_rebased", daemon.process.output())
        # one that cannot be filled comes back as it was
        self.change(daemon, "old")
        old = self.leave(daemon, "kept", "asleep")
        self.change(daemon, "new")
        real = self.helper.rename(self.helper.with_name("real"))
        self.helper.write_text(f'#!/bin/sh\n[ "$1" != gather ] || {{ echo not now >&2; exit 1; }}\nexec {real} "$@"\n')
        self.helper.chmod(0o755)
        kept = self.back(daemon, old, "old")
        self.helper.unlink()
        real.rename(self.helper)
        self.assertIn("docker.not_rebased", daemon.process.output())
        self.assertOk(self.client(daemon).delete(f"/v1/sandboxes/{kept.id}"))
        self.collect(daemon)
        self.assertAgree(daemon)

    def test_every_point(self):
        daemon = self.begin()
        for i, name in enumerate(REBASE):
            with self.subTest(point=name):
                self.change(daemon, "old")
                old = self.leave(daemon, f"t-{i}", "asleep")
                self.change(daemon, "new")
                self.crash_at(daemon, name, lambda client, i=i: (
                    client.post("/v1/acquire", {"thread_id": f"t-{i}", "profile": "asleep", "wait_ms": 20000}),
                    wait_until(lambda: not daemon.process.is_running(), f"crash at {name}")))
                box = self.back(daemon, old, "new")
                self.assertOk(self.client(daemon).delete(f"/v1/sandboxes/{box.id}"))
                self.collect(daemon)
                self.assertAgree(daemon)


class PodmanRebase(Rebase):
    kind = "podman"


if __name__ == "__main__":
    main()
