"""Late binding on real boxes: environment, directories of the host and limits that an acquire
brings reach a box that is warm already, and nothing but what was asked for."""

import os
import unittest

from fixtures import MIB, main, wait_until
from host import GROUPS, group_of, mount_points
from oci_case import HAS_CGROUPS, BoxCase

OWNER = 4321  # of the directories that are mounted; no user of this machine


@unittest.skipUnless(HAS_CGROUPS, "this runtime cannot change a box that runs")
class Late(BoxCase):
    @classmethod
    def make_config(cls):
        cls.share = cls.home / "share"
        cls.secret = cls.home / "secret"
        for path in (cls.share, cls.secret, cls.share / "data", cls.share / "other"):
            path.mkdir()
        (cls.share / "data" / "hello").write_text("from the host\n")
        (cls.secret / "key").write_text("not for boxes\n")
        (cls.share / "out").symlink_to(cls.secret)
        (cls.share / "in").symlink_to("data")
        for path in (cls.share / "data", cls.share / "data" / "hello", cls.share / "other"):
            os.chown(path, OWNER, OWNER)
        os.chmod(cls.home, 0o755)
        cls.profiles = {"default": {"warm": {"min": 1, "max": 2}},
                        "mounted": {"warm": {"min": 0, "max": 0},
                                    "mounts": f"{cls.share}/data:/data:ro"}}
        cls.config = {"mounts": {"allow": [str(cls.share)]}}
        return super().make_config()

    def mount(self, name, to, read_only=False):
        return {"host_path": str(self.share / name), "container_path": to, "read_only": read_only}

    def warm(self, thread, **fields):
        self.wait_blank(self.pool, 1)
        return self.acquire(thread, "warm", **fields)

    # -- environment --

    def test_environment(self):
        box = self.warm("env", envs={"WORD": "two words", "HOME_OF": "nobody"})
        self.assertEqual(box.sh('echo "$WORD"; echo $HOME_OF'), "two words\nnobody\n")
        self.assertEqual(box.sh(["python3", "-c", "import os; print(os.environ['WORD'])"]),
                         "two words\n")
        answer = box.json("POST", "/v1/bash/exec", {"command": "echo $WORD"})
        self.assertIn("two words", str(answer["data"]))
        self.acquire("env", "kept", envs={"WORD": "another"})
        self.assertEqual(box.sh('echo "$WORD" $HOME_OF'), "another nobody\n")
        self.assertEqual(self.acquire("else").sh('echo "[$WORD]"'), "[]\n")

    # -- mounts --

    def test_only_its_own_line_names_a_source(self):
        box = self.warm("lines", mounts=[self.mount("data", "/data", True)])
        lines = [line.split() for line in box.sh(["cat", "/proc/self/mountinfo"], user="root").splitlines()]
        self.assertEqual([fields[4] for fields in lines if self.home.name in " ".join(fields)], ["/data"])

    def test_directory_to_read_and_write(self):
        box = self.warm("rw", mounts=[self.mount("data", "/mnt/deep/data")])
        self.assertEqual(box.sh("cat /mnt/deep/data/hello; stat -c %U /mnt/deep/data"),
                         "from the host\nuser\n")
        box.sh("echo from the box > /mnt/deep/data/made; mkdir /mnt/deep/data/dir")
        made = self.share / "data" / "made"
        self.assertEqual(made.read_text(), "from the box\n")
        self.assertEqual((made.stat().st_uid, made.stat().st_gid), (OWNER, OWNER))
        (self.share / "data" / "later").write_text("seen at once\n")
        self.assertEqual(box.sh("cat /mnt/deep/data/later"), "seen at once\n")
        self.assertFalse([m for m in mount_points() if str(self.home) in m])
        self.destroy(box)
        self.assertEqual(made.read_text(), "from the box\n")  # the host's own: never removed
        self.assertTrue((self.share / "data" / "dir").is_dir())

    def test_directory_to_read_only(self):
        box = self.warm("ro", mounts=[self.mount("data", "/data", True),
                                      self.mount("other", "/workspace/other")])
        self.assertEqual(box.sh("cat /data/hello"), "from the host\n")
        for user in ("user", "root"):
            refused = box.run("echo x > /data/hello; touch /data/new; rm -f /data/hello", user=user)
            self.assertIn("Read-only file system", refused.err)
        self.assertNotEqual(box.run("mount -o remount,rw /data", user="root").exit_code, 0)
        box.sh("touch /workspace/other/ok")
        self.assertEqual((self.share / "data" / "hello").read_text(), "from the host\n")

    def test_one_file(self):
        box = self.warm("file", mounts=[self.mount("data/hello", "/etc/greeting", True)])
        self.assertEqual(box.sh("cat /etc/greeting"), "from the host\n")

    def test_profile_with_mounts(self):
        box = self.acquire("profile", "cold", profile="mounted")
        self.assertEqual(box.sh("cat /data/hello"), "from the host\n")
        self.assertNotEqual(box.run("touch /data/x").exit_code, 0)

    def test_same_and_other_at_the_same_place(self):
        box = self.warm("twice", mounts=[self.mount("data", "/data")])
        again = self.acquire("twice", "kept", mounts=[self.mount("data", "/data")])
        self.assertEqual(again.box_id, box.box_id)
        answer = self.pool.acquire("twice", mounts=[self.mount("other", "/data")])
        self.assertCode(answer, 409, "spec_conflict")

    def test_out_of_what_is_allowed(self):
        for path in (str(self.secret), "/etc", "/", f"{self.share}-not", f"{self.share}/out",
                     f"{self.share}/out/key"):
            answer = self.pool.acquire("thief", mounts=[{"host_path": path,
                                                         "container_path": "/data"}])
            self.assertCode(answer, 403, "forbidden")
        for path in (f"{self.share}/../secret", f"{self.share}/./data", "share"):
            answer = self.pool.acquire("thief", mounts=[{"host_path": path,
                                                         "container_path": "/data"}])
            self.assertCode(answer, 422, "invalid_field")
        for place in ("/", "/proc/x", "/sys", "/dev/shm", "/.sandpool/agent", "/data/../x"):
            answer = self.pool.acquire("thief", mounts=[self.mount("data", place)])
            self.assertCode(answer, 422, "invalid_field")
        self.assertFalse([r for r in self.rows() if r["thread_id"] == "thief" and
                          r["state"] == "leased"], "a box that was not made ready is not held")
        self.assertEqual(self.acquire("thief").sh("ls /data 2>&1 | wc -l"), "1\n")

    def test_link_that_stays_inside(self):
        box = self.acquire("inner", mounts=[self.mount("in", "/data", True)])
        self.assertEqual(box.sh("cat /data/hello"), "from the host\n")

    def test_missing_directory(self):
        answer = self.pool.acquire("missing", mounts=[self.mount("no-such", "/data")])
        self.assertCode(answer, 422, "invalid_field")
        self.assertIn("no-such", answer.text)
        self.assertFalse(self.is_held("missing"))

    def test_links_that_the_box_made(self):
        """The way to the place is the box's: it may lead anywhere in the box and nowhere else."""
        box = self.acquire("trickster")
        outside = self.home / "outside"
        outside.mkdir()
        box.sh(f"ln -s / /workspace/top; ln -s /../../../..{outside} /workspace/up; "
               f"ln -s /proc/1/root /workspace/root; ln -s /proc/self/fd /workspace/fd; "
               f"ln -s {outside} /workspace/abs; ln -s /etc /workspace/etc; ln -s /proc/sys/kernel /workspace/kernel; "
               f"ln -s /.sandpool /workspace/own; ln -s /proc/1/ns /workspace/ns")
        before = {p: self.names(p) for p in ("/", "/etc", "/tmp", str(outside), "/proc")}
        for way, place in (("top/late-a", "/late-a"), ("etc/late-f", "/etc/late-f"),
                           ("up/late-b", None), ("root/late-c", None), ("fd/late-d", None),
                           ("abs/late-e", None), ("kernel", None), ("own", None), ("ns", None)):
            mount = self.mount("data", f"/workspace/{way}")
            answer = self.pool.acquire("trickster", mounts=[mount])
            self.assertTrue(self.is_held("trickster"), (way, answer))
            self.assertEqual(answer.status == 200, place is not None, (way, answer))
            if place is not None:
                self.assertEqual(box.sh(f"cat {place}/hello"), "from the host\n")
            self.assertFalse([m for m in mount_points() if "late-" in m], way)
        names = {p: self.names(p) for p in before}
        for path, was in before.items():
            self.assertFalse([n for n in names[path] - was if n.startswith("late-")], path)
        self.assertEqual(self.names(outside), set())

    def is_held(self, thread):
        return any(r["thread_id"] == thread and r["state"] == "leased" for r in self.rows())

    @staticmethod
    def names(path):
        return set(os.listdir(path))

    # -- limits --

    def test_limits(self):
        box = self.warm("limits", limits={"memory": "64m", "pids": 40, "cpus": 0.5})
        if not (GROUPS / "cgroup.controllers").exists():
            read = [int((group_of(self.instance, box.box_id, c) / name).read_text())
                    for c, name in (("memory", "memory.limit_in_bytes"), ("pids", "pids.max"),
                                    ("cpu", "cpu.cfs_quota_us"))]
            self.assertEqual(read, [64 * MIB, 40, 50000])
        self.assertEqual(box.run(["python3", "-c", "x = b'x' * (100 << 20)"]).outcome, "oom")
        self.acquire("limits", "kept", limits={"memory": "256m"})
        self.assertEqual(box.sh(["python3", "-c", "x = b'x' * (100 << 20); print('ok')"]), "ok\n")
        self.assertIn("Resource temporarily unavailable", box.run(["python3", "-c", FORKS]).err)

    # -- all of it, and a restart --

    def test_a_restart_changes_nothing(self):
        box = self.warm("all", envs={"A": "1"}, mounts=[self.mount("data", "/data")],
                        limits={"pids": 33})
        self.server.kill()
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        back = self.acquire("all", "kept")
        self.assertEqual(back.box_id, box.box_id)
        self.assertEqual(back.sh("echo $A; cat /data/hello"), "1\nfrom the host\n")

    def test_used_boxes_are_not_blank_again(self):
        first = self.warm("once", envs={"SECRET": "s"}, mounts=[self.mount("data", "/data")])
        self.assertOk(self.pool.release(first.id, destroy=True))
        wait_until(lambda: first.box_id not in self.left.boxes(), "gone")
        box = self.acquire("next")
        self.assertNotEqual(box.box_id, first.box_id)
        self.assertEqual(box.sh("echo [$SECRET]; ls -d /data 2>/dev/null; true"), "[]\n")


FORKS = """
import os, time
for i in range(200):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
"""

if __name__ == "__main__":
    main()
