"""Profiles of real boxes: setup and warm_up are run in every new box before anybody gets it."""

import os

from harness import main, wait_until
from oci_case import BoxCase

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
        "bad": {"warm": {"min": 1, "max": 1}, "create": FAILS_ONCE,
                "warm_up": {"command": "echo nothing; echo the first >&2; echo cannot load the model >&2; exit 3"}},
        "slow": {"warm": {"min": 1, "max": 1}, "create": FAILS_ONCE, "setup": {"command": "echo begun; sleep 3600", "timeout_s": 1}},
        "nobody": {"warm": {"min": 1, "max": 1}, "create": FAILS_ONCE, "warm_up": {"command": "kill -9 $$$$"}},
    }

    def reason(self, name):
        return wait_until(lambda: (p := self.pool.get(f"/v1/profiles/{name}").json)["breaker"]["open"] and p["reason"], f"{name} fails")

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


if __name__ == "__main__":
    main()
