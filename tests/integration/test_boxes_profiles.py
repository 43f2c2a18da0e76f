"""Profiles of real boxes: setup and warm_up are run in every new box before anybody gets it."""

import json
import os
import subprocess
import sys
import unittest

from fixtures import in_threads, main, wait_until
from oci_case import HAS_CGROUPS, BoxCase

OWNER = 4321  # of what is mounted; no user of this machine

FAILS_ONCE = {"breaker_failures": 1, "backoff_min_ms": 3600000, "backoff_max_ms": 3600000}


class Prepared(BoxCase):
    profiles = {
        "default": {
            "warm": {"min": 1, "max": 1},
            "env": {"WORD": "two words"},
            "setup": {"command": "id -un > /etc/who; echo $$WORD > /etc/word"},
            "warm_up": {"command": "cat /etc/word > warm\nid -un >> warm\necho $$$$ >> runs\n"},
        },
        "cold": {"extends": "default", "warm": {"min": 0, "max": 0}},
    }

    def test_warm_and_cold(self):
        self.wait_blank(self.pool, 1)
        self.check_new(self.acquire("a", "warm"))
        self.check_new(self.acquire("b", "cold", profile="cold"))

    def check_new(self, box):
        jobs = box.json("GET", "/v1/agent/jobs")["jobs"]
        self.assertEqual(jobs, [])
        self.assertEqual(box.sh("cat /etc/who warm"), "root\ntwo words\nuser\n")
        self.assertEqual(box.sh("wc -l < runs"), "1\n")

    def test_not_again_after_a_restart(self):
        kept = self.acquire("kept")
        self.wait_blank(self.pool, 1)
        self.server.restart()
        type(self).pool = self.server.client()
        self.wait_blank(self.pool, 1)
        self.check_new(self.acquire("c", "warm"))
        self.assertEqual(kept.sh("wc -l < runs"), "1\n")


class Unprepared(BoxCase):
    profiles = {
        "default": {"warm": {"min": 1, "max": 1}},
        "usual": {"runtime": "", "warm": {"min": 0, "max": 1}},
        "bad": {"warm": {"min": 1, "max": 1}, "create": FAILS_ONCE,
                "warm_up": {"command": "echo nothing; echo the first >&2; echo cannot load the model >&2; exit 3"}},
        "slow": {"warm": {"min": 1, "max": 1}, "create": FAILS_ONCE, "setup": {"command": "echo begun; sleep 3600", "timeout_s": 1}},
        "nobody": {"warm": {"min": 1, "max": 1}, "create": FAILS_ONCE, "warm_up": {"command": "kill -9 $$$$"}},
    }

    def reason(self, name):
        return wait_until(lambda: (p := self.pool.get(f"/v1/profiles/{name}").json)["breaker"]["open"] and p["reason"], f"{name} fails")

    def test_a_runtime_that_cannot_be_used_is_no_trouble_while_another_can(self):
        """crun does not work on every machine; none of these boxes is ready."""
        self.acquire("z", profile="usual")
        found = self.pool.get("/v1/profiles/usual").json
        self.assertEqual((found["ready"], found["reason"]), (True, None))

    def test_the_reason_is_shown_and_others_go_on(self):
        self.assertIn("warm_up failed: exit code 3: the first cannot load the model", self.reason("bad"))
        self.assertIn("setup failed: it took too long: begun", self.reason("slow"))
        self.assertIn("warm_up failed: ended by", self.reason("nobody"))
        refused = self.server.acquire("x", profile="bad", wait_ms=60000)
        self.assertEqual(refused.status, 503, refused)
        self.assertIn("cannot load the model", refused.json["error"]["message"])
        self.assertIn("cannot load the model", self.server.process.output())
        wait_until(lambda: self.counts()["starting"] == 0 and self.counts()["deleting"] == 0, "the boxes that failed are gone")
        self.acquire("y").sh("true")
        self.assertTrue(self.pool.get("/v1/profiles/default").json["ready"])


class Chosen(BoxCase):
    """`profile: auto` goes past one that fails; a change of a profile replaces its blank boxes and those of profiles that extend
    it, and nothing else."""

    profiles = {
        "default": {"warm": {"min": 1, "max": 1}},
        "broken": {"warm": {"min": 1, "max": 1}, "create": FAILS_ONCE, "warm_up": {"command": "echo no model >&2; exit 3"},
                   "price": {"currency": "EUR", "per_hour": 1}},
        "base": {"warm": {"min": 1, "max": 1}, "env": {"WORD": "old"}, "limits": {"memory": "128M"},
                 "warm_up": {"command": "echo $$WORD > warm"}, "price": {"currency": "EUR", "per_hour": 2}},
        "child": {"extends": "base", "labels": {"tier": "high"}, "price": {"currency": "EUR", "per_hour": 3}},
    }
    config = {"auto": {"strategy": "cheapest", "profiles": ["child", "base", "broken"]}}

    def blank(self, name):
        return {row["box_id"] for row in self.rows() if row["state"] == "blank" and row["profile"] == name}

    def test_auto_goes_past_what_fails(self):
        wait_until(lambda: self.pool.get("/v1/profiles/broken").json["breaker"]["open"], "it fails")
        self.assertEqual(self.pool.get("/v1/quote?profile=auto").json["profile"], "base")
        for fields, wanted in (({}, "base"), ({"labels": {"tier": "high"}}, "child"), ({"limits": {"memory": "100M"}}, "base")):
            box = self.acquire(None, profile="auto", **fields)
            self.assertEqual((box.lease["profile"], box.sh("wc -l < warm")), (wanted, "1\n"))
            self.destroy(box)
        refused = self.server.acquire(None, profile="auto", limits={"memory": "900G"})
        self.assertCode(refused, 422, "invalid_field")
        self.assertIn("its limits are lower", refused.json["error"]["message"])

    def test_a_change_rolls_blank_boxes(self):
        held = self.acquire("held", profile="base")
        names = ("default", "base", "child")
        wait_until(lambda: all(len(self.blank(name)) == 1 for name in names), "blank boxes")
        before = {name: self.blank(name) for name in names}
        config = self.make_config()
        config["profiles"]["base"]["env"] = {"WORD": "new"}
        self.server.write_config(config)
        self.assertOk(self.pool.post("/v1/pool/reload"))
        for name in ("base", "child"):
            wait_until(lambda n=name: len(self.blank(n)) == 1 and self.blank(n) != before[n], f"{name} has a new box")
            self.assertEqual(self.acquire(name, "warm", profile=name).sh("cat warm"), "new\n")
        self.assertEqual(self.blank("default"), before["default"])
        self.assertEqual(self.acquire("held", "kept").box_id, held.box_id)
        self.assertEqual(held.sh("cat warm"), "old\n")


class Interrupted(BoxCase):
    """The daemon is killed while a command runs in a new box."""

    @classmethod
    def make_config(cls):
        cls.flag = cls.home / "flag"
        cls.flag.mkdir()
        os.chown(cls.flag, OWNER, OWNER)
        wait = "echo begun >> /flag/begun; until test -e /flag/go; do sleep 0.02; done; echo done >> runs"
        cls.profiles = {"default": {"warm": {"min": 0, "max": 0}},
                        "held": {"warm": {"min": 1, "max": 1}, "mounts": [f"{cls.flag}:/flag"], "warm_up": {"command": wait}}}
        cls.config = {"mounts": {"allow": [str(cls.flag)]}}
        return super().make_config()

    def blank(self):
        return self.pool.get("/v1/profiles/held").json["blank"]

    def begun(self):
        return len((self.flag / "begun").read_text().splitlines()) if (self.flag / "begun").exists() else 0

    def test_it_is_run_again(self):
        wait_until(lambda: self.begun() == 1, "the command runs")
        self.server.restart()  # does not wait for it
        wait_until(lambda: self.begun() == 2, "the command runs again")
        self.server.kill()
        self.server.start()
        type(self).pool = self.server.client()
        wait_until(lambda: self.begun() == 3, "the command runs again")
        self.assertEqual(self.blank(), 0)
        (self.flag / "go").touch()
        wait_until(lambda: self.blank() == 1, "it is ready")
        box = self.acquire("x", "warm", profile="held")
        self.assertEqual(box.sh("cat runs"), "done\n")


@unittest.skipUnless(HAS_CGROUPS, "this runtime cannot change a box that runs")
class Templates(BoxCase):
    """Each thread has its own directory of the host, and keeps it from box to box."""

    @classmethod
    def make_config(cls):
        cls.share = cls.home / "share"
        for path in (cls.share, cls.share / "threads", cls.share / "sets"):
            path.mkdir()
        os.chown(cls.share / "threads", OWNER, OWNER)
        (cls.share / "sets" / "a.csv").write_text("1,2\n")
        cls.profiles = {
            "default": {"warm": {"min": 1, "max": 2},
                        "mounts": [f"{cls.share}/sets:/sets:ro", f"{cls.share}/threads/{{user_id}}/{{thread_id}}:/data",
                                   f"{cls.share}/threads/{{user_id}}:/user:ro"]},
            "apart": {"warm": {"min": 0, "max": 0}, "mounts": [f"{cls.share}/sets/{{principal}}/{{sandbox_id}}:/data"]},
            "plain": {"warm": {"min": 0, "max": 0}}}
        cls.config = {"mounts": {"allow": [str(cls.share)]}}
        return super().make_config()

    def warm(self, thread, **fields):
        wait_until(lambda: self.pool.get("/v1/profiles/default").json["blank"] >= 1, "a blank box")
        return self.acquire(thread, "warm", **fields)

    def test_a_directory_for_each_thread(self):
        box = self.warm("t1", user_id="ana")
        self.assertEqual(box.sh("cat /sets/a.csv; stat -c %U /data; echo one > /data/file; ls /user"), "1,2\nuser\nt1\n")
        made = self.share / "threads/ana/t1"
        self.assertEqual((made / "file").read_text(), "one\n")
        self.assertEqual([(p.stat().st_uid, p.stat().st_gid) for p in (made.parent, made, made / "file")], [(OWNER, OWNER)] * 3)
        other = self.warm("t2", user_id="ana")
        self.assertEqual(other.sh("ls -A /data; cat /user/t1/file"), "one\n")
        self.assertEqual(self.warm("t1", user_id="bob").sh("ls -A /data /user/t1"), "/data:\n\n/user/t1:\n")
        self.assertNotEqual(other.run("touch /user/x").exit_code, 0)
        self.destroy(box)
        again = self.warm("t1", user_id="ana")
        self.assertNotEqual(again.box_id, box.box_id)
        self.assertEqual(again.sh("cat /data/file"), "one\n")

    def test_kept_parked_and_after_a_restart(self):
        box = self.warm("k")
        box.sh("echo kept > /data/file")
        self.acquire("k", "kept")
        self.assertOk(self.pool.release(box.id))
        self.acquire("k", "parked")
        self.server.restart()
        type(self).pool = self.server.client()
        self.acquire("k", "kept")
        self.assertEqual(box.sh("cat /data/file; grep -c ' /data ' /proc/mounts"), "kept\n1\n")

    def test_two_at_once(self):
        boxes = in_threads(4, lambda _: self.acquire("same"))
        for box in boxes:  # none of them was answered before it had its directory
            self.assertEqual(box.box_id, boxes[0].box_id)
            self.assertEqual(box.sh("grep -c ' /data ' /proc/mounts"), "1\n")

    def test_names_stay_in_the_directory(self):
        threads = self.share / "threads"
        for thread, name in (("..", "%2E."), ("...", "%2E.."), (".hidden", "%2Ehidden"), ("a.b", "a.b")):
            self.warm(thread, user_id="..").sh("touch /data/here")
            self.assertTrue((threads / "%2E." / name / "here").exists(), thread)
        self.assertEqual(sorted(p.name for p in self.share.iterdir()), ["sets", "threads"])
        for user, thread in (("a/b", "t"), ("../x", "t"), ("a\0b", "t"), ("u", "../../x"), ("u", "/"), ("u" * 300, "t")):
            self.assertIn(self.server.acquire(thread, user_id=user).status, (400, 422))
        refused = self.server.acquire("t" * 120, user_id="u" * 120)
        self.assertCode(refused, 422, "invalid_field")
        self.assertIn("too long", refused.json["error"]["message"])
        refused = self.server.acquire(None)
        self.assertCode(refused, 422, "invalid_field")
        self.assertIn("thread_id", refused.json["error"]["message"])

    def test_links_are_not_followed(self):
        trap = self.share / "threads" / "eve"
        trap.mkdir(exist_ok=True)
        (trap / "t").symlink_to("../ana")
        answer = self.server.acquire("t", user_id="eve")
        self.assertCode(answer, 403, "forbidden")
        self.assertIn("links are not followed", answer.json["error"]["message"])
        wait_until(lambda: not [row for row in self.rows() if row["user_id"] == "eve"], "the box is gone")

    def test_callers_cannot_mount_what_is_of_threads(self):
        self.warm("mine", user_id="ana").sh("echo secret > /data/file")
        threads = self.share / "threads"
        (self.share / "link").unlink(missing_ok=True)
        (self.share / "link").symlink_to("threads/ana")
        self.addCleanup((self.share / "link").unlink)
        for path in (threads, threads / "ana" / "mine", self.share):
            answer = self.server.acquire("x", profile="plain", mounts=[{"host_path": str(path), "container_path": "/x"}])
            self.assertCode(answer, 403, "forbidden")
        answer = self.server.acquire("y", profile="plain", mounts=[{"host_path": str(self.share / "link"), "container_path": "/x"}])
        self.assertCode(answer, 403, "forbidden")

    def test_another_caller(self):
        """Users and threads are names that a caller chooses: another one who chooses the same does not get the data."""
        self.warm("shared", user_id="ana").sh("echo secret > /data/file")
        self.destroy(self.acquire("shared", "kept", user_id="ana"))
        answer = self.as_user(1234, "POST", "/v1/acquire", {"thread_id": "shared", "user_id": "ana"})
        self.assertEqual(answer["error"]["code"], "forbidden", answer)
        self.assertIn("another caller", answer["error"]["message"])
        lease = self.as_user(1234, "POST", "/v1/acquire", {"thread_id": "shared", "user_id": "ana", "profile": "apart"})
        self.assertEqual(lease["state"], "leased", lease)
        self.assertTrue((self.share / "sets" / "1234" / lease["sandbox_id"]).is_dir())

    def as_user(self, uid, method, target, body):
        """The answer to another user of this machine."""
        os.chmod(self.server.directory, 0o755)
        os.chmod(self.server.socket, 0o666)
        code = ("import http.client, json, os, socket, sys\n"
                "os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
                "c = http.client.HTTPConnection('localhost', timeout=60)\n"
                "c.sock = socket.socket(socket.AF_UNIX); c.sock.settimeout(60); c.sock.connect(sys.argv[1])\n"
                "c.request(sys.argv[3], sys.argv[4], sys.argv[5])\n"
                "print(c.getresponse().read().decode())\n")
        done = subprocess.run([sys.executable, "-c", code, str(self.server.socket), str(uid), method, target, json.dumps(body)],
                              capture_output=True, text=True, timeout=120, check=True)
        return json.loads(done.stdout)


if __name__ == "__main__":
    main()
