"""Plans that are wrong, the base of the host's programs, and the program's own options."""

import json
import os
import pathlib
import stat
import subprocess

from helper_client import HELPER, HelperTest, main


class Plans(HelperTest):
    def bad(self, verb, plan):
        done = self.run_helper(verb, plan)
        self.assertEqual(done.returncode, 1, (plan if len(str(plan)) < 300 else verb, done))
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertGreater(len(done.stderr), 5)
        self.assertLess(len(done.stderr), 1000)
        return done.stderr

    def test_no_plan_at_all(self):
        for verb in ("run", "mount", "remove", "base", "gather", "disk"):
            for text in ("", "[]", "null", "{", "\0", '{"dir": 1}', '{"dir": "x"}', "[" * 100, "{}", '{"a":1,"a":2}'):
                self.bad(verb, text)

    def test_every_field_of_run(self):
        plan = self.plan("bad")
        self.plans.clear()
        for key in ("dir", "record", "spec", "stage", "lower", "id_base", "id_count", "user_id", "runtime"):
            self.assertIn(f"'{key}' is missing", self.bad("run", {k: v for k, v in plan.items() if k != key}))
        for key in plan:
            for value in (-1, {"a": 1}, [1], [[]], [None], "relative", "/a/../b", "/a//b", "/a/", 1.5, True):
                if key in ("record", "spec") and isinstance(value, str) or key == "map_lower" and value is True:
                    continue
                if key == "disk_template":
                    continue  # not looked at without a disk
                self.assertIn(f"'{key}'", self.bad("run", {**plan, key: value}).replace("entry 0 of ", ""))
        self.assertIn("'disk_template'", self.bad("run", {**plan, "disk": 1 << 20, "disk_template": ""}))
        self.assertIn("below 'stage'", self.bad("run", {**plan, "dir": "/mnt/x"}))
        self.assertIn("entries", self.bad("run", {**plan, "files": [{}] * 1000}))

    def test_huge(self):
        self.assertIn("longer than", self.bad("remove", json.dumps({"dir": "/x", "pad": "x" * (5 << 20)})))
        self.bad("remove", {"dir": "/" + "x" * 5000})

    def test_every_field_of_gather(self):
        plan = {"from": ["/nowhere/a"], "to": "/nowhere/b", "reserve": 0}
        for key, bad in (("from", [None, [], ["a"], [1], ["/a"] * 17, ["/a/../b"], "/a"]), ("to", [None, "", "b", "/", 1]),
                         ("reserve", [None, -1, "1", 1.5]),
                         ("container", ["x" * 64, "ab", 1]), ("pid", [None, 1, -1, "2"])):
            whole = {**plan, "container": "ab" * 32, "pid": 2} if key in ("container", "pid") else plan
            for value in bad:
                self.assertIn(f"'{key}'", self.bad("gather", {**whole, key: value}), (key, value))
        done = self.run_helper("gather", plan)
        self.assertEqual((done.returncode, done.stderr), (7, "open '/nowhere/b': No such file or directory\n"))

    def test_cgroup_of_others(self):
        path = str(self.state / "boxes" / "none")
        for cgroup in ("/", "/system.slice/x", "/sandpool-x", "/sandpool-x/..", "/other/sandpool-x/y", "sandpool-x/y"):
            self.bad("remove", {"dir": path, "cgroup": cgroup})
            self.assertIn("'cgroup'", self.bad("reclaim", {"cgroup": cgroup}))

    def test_memory_of_others(self):
        """A process is that of the container it is said to be, or nothing is done."""
        for key, bad in (("container", ["x" * 64, "ab", 1]), ("pid", [None, 1, -1, "2"])):
            for value in bad:
                self.assertIn(f"'{key}'", self.bad("reclaim", {"container": "ab" * 32, "pid": 2, key: value}), (key, value))
        self.assertIn("'cgroup' or 'container' is missing", self.bad("reclaim", {}))
        for plan in ({"container": "ab" * 32, "pid": os.getpid()}, {"cgroup": "/sandpool-nobody/none"}):
            done = self.run_helper("reclaim", plan)
            self.assertEqual((done.returncode, done.stderr), (7, "the box has no control group whose memory can be asked for\n"))

    def test_options(self):
        for args, status in ((["--version"], 0), (["--help"], 0), ([], 2), (["fly"], 2), (["run", "x"], 2)):
            done = subprocess.run([HELPER, *args], capture_output=True, text=True, timeout=10, check=False,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, status)
        self.assertIn("usage", done.stderr)


class Base(HelperTest):
    def test_same_host_same_digest(self):
        again = self.help("base", self.base_plan)
        self.assertEqual(again["digest"], self.base.name)
        self.assertEqual(self.bases(), [self.base.name])
        other = self.help("base", {**self.base_plan, "user": "someone", "dir": str(self.state / "base2")})
        self.assertNotEqual(other["digest"], again["digest"])

    def test_leftover_of_a_maker_that_died(self):
        (self.base.parent / ".new" / "x").mkdir(parents=True)
        self.help("base", self.base_plan)
        self.assertEqual(self.bases(), [self.base.name])

    def test_made_anew_only_when_something_has_changed(self):
        """Its directory has a new time when one was made, whatever became of it."""
        place = self.state / "seen"
        plan = {**self.base_plan, "dir": str(place)}
        digest = self.help("base", plan)["digest"]

        def is_made(**fields):
            before = place.stat().st_mtime_ns
            self.assertEqual(self.help("base", {**plan, **fields})["digest"] == digest, not fields)
            return place.stat().st_mtime_ns != before
        seen = place / ".seen"
        if not seen.exists():
            self.skipTest("something on this host has just been changed")
        self.assertFalse(is_made())
        good = seen.read_text()
        for bad in ("", good[:65] + "../" + good[68:], good[:65] + "0" * 64 + "\n"):  # the last: no base of that name
            seen.write_text(bad)
            self.assertTrue(is_made(), bad)
            self.assertEqual(seen.read_text(), good)
        self.assertFalse(is_made())
        self.assertTrue(is_made(user="someone"))

    def bases(self):
        return [name for name in os.listdir(self.base.parent) if name != ".seen"]

    def test_what_is_in_it(self):
        self.assertEqual(stat.S_IMODE(self.base.parent.stat().st_mode), 0o700)
        self.assertIn("user:x:1000:1000::/home/user:", (self.base / "etc/passwd").read_text())
        for name in ("etc/ssl/private", "etc/resolv.conf.bak", "etc/gshadow", "etc/ssh", "etc/sudoers", "etc/hostname"):
            self.assertFalse((self.base / name).exists(), name)
        for name in ("usr", "proc", "sys", "dev", "run", "mnt", "opt", "srv", "media", ".sandpool", "root"):
            self.assertEqual(list((self.base / name).iterdir()), [], name)
        self.assertEqual(stat.S_IMODE((self.base / "tmp").stat().st_mode), 0o1777)
        self.assertEqual((self.base / "home/user").stat().st_uid, 1000)
        if pathlib.Path("/etc/ssl/certs").is_dir():
            self.assertTrue(any((self.base / "etc/ssl/certs").iterdir()))
        for path in self.base.rglob("*"):
            if path.is_symlink() or path == self.base / "etc/shadow":
                continue
            self.assertTrue(path.is_dir() or path.is_file(), path)
            self.assertFalse(path.stat().st_mode & 0o6000, path)

    def test_root_secrets_stay_out(self):
        for path in (self.base / "etc").rglob("*"):
            host = pathlib.Path("/") / path.relative_to(self.base)
            made = ("passwd", "group", "shadow", "hosts", "nsswitch.conf", "resolv.conf")
            if path.is_file() and not path.is_symlink() and path.name not in made:
                self.assertTrue(host.stat().st_mode & 0o004, host)


if __name__ == "__main__":
    main()
