"""sandpool-helper mount, and the mounts of run: what of the host a box may see, and as whom."""

import os
import pathlib
import shutil
import tempfile

from helper_client import ID_BASE, USER, Failure, HelperTest, main

OWNER = 4242


class Mount(HelperTest):
    def setUp(self):
        super().setUp()
        self.shared = self.state / "shared"
        self.addCleanup(lambda: self.shell_rm(self.shared))
        self.data = self.shared / "data"
        self.data.mkdir(parents=True)
        (self.data / "mine").write_text("mine\n")
        (self.data / "root-only").write_text("secret\n")
        (self.state / "secret").mkdir(exist_ok=True)
        (self.state / "secret" / "key").write_text("key\n")
        os.chown(self.data, OWNER, OWNER)
        os.chown(self.data / "mine", OWNER, OWNER)
        os.chmod(self.data / "mine", 0o600)
        os.chmod(self.data / "root-only", 0o600)

    @staticmethod
    def shell_rm(path):
        for p in sorted(path.rglob("*"), reverse=True):
            p.rmdir() if p.is_dir() and not p.is_symlink() else p.unlink()
        path.rmdir()

    def mount(self, box, *mounts, allow=None):
        return self.help("mount", {
            "dir": str(box.dir), "pid": box.pid, "id_base": ID_BASE, "id_count": 65536, "user_id": USER,
            "mounts": [dict(zip(("from", "to", "ro"), (str(m[0]), *m[1:]))) for m in mounts],
            "allow": [str(self.shared)] if allow is None else allow})

    def closed_mount(self, box, source, closed, own=None, to="/closed"):
        entry = {"from": str(source), "to": to, "ro": True, "closed": [str(self.shared / "others"), str(closed)]}
        return self.help("mount", {
            "dir": str(box.dir), "pid": box.pid, "id_base": ID_BASE, "id_count": 65536, "user_id": USER,
            "mounts": [entry if own is None else {**entry, "own": str(own)}], "allow": [str(self.shared)]})

    def test_what_is_closed(self):
        """A directory below one that may be mounted, and only some may have what is in it."""
        closed = self.shared / "threads"
        for name in ("ann/one/work", "ann/two", "bob/one", "ann/skills"):
            (closed / name).mkdir(parents=True)
            (closed / name / "file").write_text(name)
        (self.shared / "beside").mkdir()
        (self.shared / "beside" / "file").write_text("beside")
        (self.shared / "link").symlink_to("threads/bob")
        (self.shared / "link-file").symlink_to("threads/bob/one/file")
        (closed / "ann/one/out").symlink_to("../../bob/one")
        (closed / "ann/one/own-link").symlink_to("work")
        (closed / "ann/away").symlink_to("../bob")
        box = self.box("closed")

        def refused(source, own=None):
            with self.assertRaises(Failure) as e:
                self.closed_mount(box, source, closed, own)
            self.assertEqual(e.exception.status, 5, e.exception.text)
            self.assertIn("provisioner.thread_data", e.exception.text)

        for source in (closed, self.shared, closed / "bob", closed / "bob/one/file", self.shared / "link",
                       self.shared / "link/one", self.shared / "link-file"):
            refused(source)
        ann = closed / "ann/one"
        for source in (closed, self.shared, closed / "ann", closed / "ann/two", closed / "bob/one", ann / "out",
                       ann / "out/file", self.shared / "link", self.shared / "link-file"):
            refused(source, ann)
        refused(closed / "ann/away/one", closed / "ann/away")  # what is said to be its own is a link
        for i, (source, own) in enumerate(((self.shared / "beside", None), (self.shared / "beside/file", None),
                                           (ann, ann), (ann / "work", ann), (ann / "work/file", ann),
                                           (ann / "own-link", ann), (closed / "ann/skills", closed / "ann/skills"),
                                           (closed / "ann/skills/file", closed / "ann/skills/file"))):
            self.closed_mount(box, source, closed, own, to=f"/place{i}")
        self.closed_mount(box, self.shared / "beside", self.shared / "not-there", to="/last")
        self.assertEqual(box.sh("cat /place3/file /place4")[0], "ann/one/workann/one/work")

    def own_mount(self, box, path, holder, to="/own", allow=None):
        """Of a template: the base is self.shared/own."""
        return self.help("mount", {
            "dir": str(box.dir), "pid": box.pid, "id_base": ID_BASE, "id_count": 65536, "user_id": USER,
            "mounts": [{"from": f"{self.shared}/own/{path}", "to": to, "base": f"{self.shared}/own", "holder": holder}],
            "allow": [str(self.shared)] if allow is None else allow})

    def test_directory_of_a_holder(self):
        """It is made, and from then on it is for its holder only."""
        base = self.shared / "own"
        box = self.box("holder")

        def refused(status, *args, **more):
            with self.assertRaises(Failure) as e:
                self.own_mount(box, *args, **more)
            self.assertEqual(e.exception.status, status, e.exception.text)
            return e.exception.text

        refused(6, "ann/one", "1000")  # the base is not there
        base.mkdir()
        os.chown(base, OWNER, OWNER)
        refused(5, "ann/one", "1000", allow=["/nowhere"])
        self.assertFalse((base / "ann").exists())
        self.own_mount(box, "ann/one", "1000")
        box.sh("echo mine > /own/file")
        made = base / "ann/one"
        self.assertEqual([(p.stat().st_uid, p.stat().st_gid) for p in (base / "ann", made, made / "file")], [(OWNER, OWNER)] * 3)
        self.own_mount(box, "ann/one", "1000")  # again
        for holder in ("1001", "100", "10000", "8000000000000001"):
            self.assertIn("another caller", refused(5, "ann/one", holder, to="/theirs"))
        self.own_mount(box, "ann/two", "1001", to="/theirs")
        self.own_mount(box, "ann/three", "", to="/anybodys")
        self.own_mount(box, "ann/three", "1001", to="/anybodys")
        (base / "link").symlink_to("ann")
        self.assertIn("links are not followed", refused(5, "link/one", "1000", to="/link"))
        (self.shared / "away").symlink_to("/etc")
        with self.assertRaises(Failure) as e:
            self.help("mount", {
                "dir": str(box.dir), "pid": box.pid, "id_base": ID_BASE, "id_count": 65536, "user_id": USER,
                "mounts": [{"from": f"{self.shared}/away/x", "to": "/x", "base": f"{self.shared}/away", "holder": "1"}],
                "allow": [str(self.shared)]})
        self.assertEqual(e.exception.status, 5, e.exception.text)
        self.assertFalse(os.path.exists("/etc/x"))

    def refused(self, status, *args, **more):
        with self.assertRaises(Failure) as e:
            self.mount(*args, **more)
        self.assertEqual(e.exception.status, status, e.exception.text)
        self.assertEqual(e.exception.text.count("\n"), 1)
        return e.exception.text

    def check_owner(self, box):
        self.assertEqual(box.sh("cat /data/mine; stat -c %U /data /data/mine /data/root-only")[0].split(),
                         ["mine", "user", "user", "nobody"])
        self.assertEqual(box.sh("echo new > /data/new; echo more >> /data/mine")[1], 0)
        self.assertEqual((self.data / "new").stat().st_uid, OWNER)
        self.assertEqual((self.data / "new").stat().st_gid, OWNER)
        self.assertEqual((self.data / "mine").read_text(), "mine\nmore\n")
        self.assertNotEqual(box.sh("cat /data/root-only")[1], 0)
        self.assertIn("nosuid,nodev", box.sh("grep ' /data ' /proc/mounts")[0])

    def test_writable_with_owner(self):
        box = self.box("rw")
        self.assertEqual(self.mount(box, (self.data, "/data", False)), {"mounted": 1, "unmapped": 0})
        self.check_owner(box)
        self.assertEqual(self.host_mounts(), [])

    def test_at_the_start(self):
        box = self.box("start", mounts=[{"from": str(self.data), "to": "/data", "ro": False}],
                       allow=[str(self.shared)])
        self.check_owner(box)

    def test_at_the_start_from_below_the_stage(self):
        below = tempfile.mkdtemp(dir="/mnt", prefix="sandpool-hands-")
        self.addCleanup(shutil.rmtree, below)
        pathlib.Path(below, "here").write_text("here\n")
        os.chown(below, OWNER, OWNER)
        box = self.box("stage", mounts=[{"from": below, "to": "/data", "ro": True}], allow=["/mnt"])
        self.assertEqual(box.sh("cat /data/here")[0], "here\n")

    def test_read_only(self):
        box = self.box("ro")
        self.mount(box, (self.data, "/deep/er/data", True))
        self.assertEqual(box.sh("cat /deep/er/data/mine")[0], "mine\n")
        self.assertIn("Read-only", box.sh("touch /deep/er/data/x")[0])
        self.assertEqual(box.sh("stat -c %U /deep/er")[0], "root\n")

    def test_nobody_stands_for_root(self):
        box = self.box("root")
        own = self.shared / "own"
        own.mkdir()
        (own / "f").write_text("f\n")
        for uid, gid in ((0, 0), (0, OWNER), (OWNER, 0)):
            os.chown(own, uid, gid)
            self.assertIn("belongs to root", self.refused(5, box, (own, "/own", False)))
        self.assertEqual(self.mount(box, (own, "/own", True)), {"mounted": 1, "unmapped": 1})
        self.assertEqual(box.sh("cat /own/f; stat -c %U /own/f")[0], "f\nnobody\n")

    def test_one_file(self):
        box = self.box("file")
        self.mount(box, (self.data / "mine", "/etc/one", True))
        self.assertEqual(box.sh("cat /etc/one")[0], "mine\n")

    def test_again_and_another(self):
        box = self.box("same")
        (self.shared / "other").mkdir()
        os.chown(self.shared / "other", OWNER, OWNER)
        for _ in range(2):
            self.mount(box, (self.data, "/data", False))
        self.assertEqual(box.sh("grep -c ' /data ' /proc/mounts")[0], "1\n")
        self.assertIn("something else", self.refused(4, box, (self.shared / "other", "/data", False)))
        self.refused(4, box, (self.data, "/data", True))
        self.refused(4, box, (self.data, "/usr", True))

    def test_all_or_none(self):
        box = self.box("none")
        self.refused(4, box, (self.data, "/data", False), (self.data / "mine", "/etc/one", True),
                     (self.data, "/usr", False))
        self.assertEqual(box.sh("grep -c -e ' /data ' -e ' /etc/one ' /proc/mounts")[0], "0\n")

    def test_outside_is_refused(self):
        box = self.box("out")
        secret = self.state / "secret"
        os.symlink(secret, self.shared / "leave")
        os.symlink("../../secret", self.data / "up")
        os.symlink("/proc/self/root", self.shared / "magic")
        self.assertIn("not below", self.refused(5, box, (secret, "/data", True)))
        self.assertIn("not below", self.refused(5, box, (f"{self.shared}x", "/data", True)))
        self.assertIn("not below", self.refused(5, box, (self.data, "/data", True), allow=[]))
        self.assertIn("symlink", self.refused(5, box, (self.shared / "leave", "/data", True)))
        self.assertIn("symlink", self.refused(5, box, (self.shared / "leave" / "key", "/data", True)))
        self.assertIn("symlink", self.refused(5, box, (self.data / "up", "/data", True)))
        self.assertIn("symlink", self.refused(5, box, (self.shared / "magic", "/data", True)))
        self.refused(1, box, (f"{self.data}/../../secret", "/data", True))
        self.refused(1, box, (self.data, "/workspace/../proc", True))
        self.refused(1, box, (self.data, "/proc", True))
        self.refused(1, box, (self.data, "/.sandpool/agent", True))
        self.refused(1, box, (self.data, "/", True))
        self.assertEqual(box.sh("ls -d /data")[1], 2)

    def mount_container(self, box, container, **more):
        return self.help("mount", {
            "container": container, "pid": box.pid, "program": "/.sandpool/agent", "allow": [str(self.shared)],
            "mounts": [{"from": str(self.data), "to": "/data", "ro": False}], **more})

    def test_container_of_an_engine(self):
        """Named by an id that its control group has in its name; ids are those of its first process."""
        name = "ab" * 32
        box = self.box(name)
        self.assertEqual(self.mount_container(box, name), {"mounted": 1, "unmapped": 0})
        self.assertEqual(box.sh("stat -c %U /data /data/mine /data/root-only")[0].split(), ["root", "root", "nobody"])
        self.assertEqual(self.host_mounts(), [])
        os.chown(self.data, 0, 0)
        self.mount_container(box, name, mounts=[{"from": str(self.data), "to": "/plain", "ro": False}])
        self.assertEqual(box.sh("stat -c %U /plain")[0], "nobody\n")

    def test_wrong_container(self):
        name = "cd" * 32
        box = self.box(name)
        for status, words, container, more in (
                (1, "not the container's", "ef" * 32, {}),
                (1, "not the container's", name, {"pid": os.getpid()}),
                (1, "does not run", name, {"pid": 2 ** 22 + 1}),
                (7, "first process is", name, {"program": "/usr/bin/true"}),
                (5, "not below", name, {"allow": []}),
                (1, "64 hex digits", name[1:], {}),
                (1, "64 hex digits", "/" * 64, {})):
            with self.assertRaises(Failure) as e:
                self.mount_container(box, container, **more)
            self.assertEqual((e.exception.status, words in e.exception.text), (status, True), e.exception)
        self.assertEqual(box.sh("ls -d /data")[1], 2)

    def test_symlink_that_stays_is_fine(self):
        box = self.box("stay")
        os.symlink("data", self.shared / "alias")
        self.mount(box, (self.shared / "alias", "/data", True))
        self.assertEqual(box.sh("cat /data/mine")[0], "mine\n")

    def test_special_files_are_refused(self):
        box = self.box("fifo")
        os.mkfifo(self.data / "fifo")
        self.assertIn("neither", self.refused(5, box, (self.data / "fifo", "/fifo", True)))

    def test_symlinks_in_the_box_stay_in_the_box(self):
        """The box makes a trap of the place where something is to be mounted."""
        box = self.box("trap")
        victim = self.state / "secret"
        box.sh(f"mkdir -p /workspace/t && ln -s {victim} /workspace/t/abs && ln -s ../../../../..{victim} /workspace/t/up")
        for name in ("abs", "up"):
            try:
                self.mount(box, (self.data, f"/workspace/t/{name}/in", False))
            except Failure:
                pass  # made inside the box or refused: both are fine
            self.assertEqual(sorted(os.listdir(victim)), ["key"])

    def test_links_to_what_cannot_be_covered(self):
        """Where the target really is counts, not its name."""
        box = self.box("cover")
        places = ("/proc", "/proc/sys/kernel", "/proc/1/ns", "/dev", "/dev/new", "/sys", "/.sandpool", "/.sandpool/new", "/")
        seen = box.sh("cat /proc/self/mountinfo")[0]
        for i, place in enumerate(places):
            box.sh(f"ln -s {place} /workspace/l{i}")
            self.refused(6, box, (self.data, f"/workspace/l{i}", True))
        box.sh("ln -s /proc/sys/kernel/hostname /workspace/f")
        self.refused(6, box, (self.data / "mine", "/workspace/f", True))
        self.assertEqual(box.sh("cat /proc/self/mountinfo")[0], seen)
        # All or none: what was attached before is undone.
        self.refused(6, box, (self.data, "/workspace/good", True), (self.data, "/workspace/l1", True))
        self.assertEqual(box.sh("cat /proc/self/mountinfo")[0], seen)
        box.sh("mkdir -p /workspace/proc /workspace/.sandpool; ln -s /workspace/proc /workspace/p")
        self.mount(box, (self.data, "/workspace/p", True), (self.data, "/workspace/.sandpool", True), (self.data, "/devices", True))
        self.assertEqual(box.sh("cat /workspace/proc/mine /workspace/.sandpool/mine /devices/mine")[0], "mine\n" * 3)

    def test_links_of_a_container_to_what_cannot_be_covered(self):
        name = "ac" * 32
        box = self.box(name)
        for i, place in enumerate(("/proc/sys/kernel", "/proc/1/ns", "/.sandpool")):
            box.sh(f"ln -s {place} /workspace/l{i}")
            with self.assertRaises(Failure) as e:
                self.mount_container(box, name, mounts=[{"from": str(self.data), "to": f"/workspace/l{i}", "ro": True}])
            self.assertEqual(e.exception.status, 6, e.exception)

    def test_links_of_the_base_to_what_cannot_be_covered(self):
        lower = self.state / "covering"
        shutil.copytree(self.base, lower, symlinks=True)
        self.addCleanup(shutil.rmtree, lower)
        for i, place in enumerate(("/proc", "/.sandpool", "/dev/new", "/", "/home")):
            os.symlink(place, lower / f"l{i}")
            mounts = [{"from": str(self.data), "to": f"/l{i}", "ro": True}]
            if place == "/home":
                box = self.box("covering", lower=str(lower), mounts=mounts, allow=[str(self.shared)])
                self.assertEqual(box.sh("cat /home/mine")[0], "mine\n")
                continue
            with self.assertRaises(Failure) as e:
                self.box(f"covering{i}", lower=str(lower), mounts=mounts, allow=[str(self.shared)])
            self.assertEqual(e.exception.status, 6, (place, e.exception))

    def test_box_that_does_not_run(self):
        box = self.box("dead")
        self.remove(box.plan)
        self.refused(1, box, (self.data, "/data", True))
        other = self.box("alive")
        other.dir = box.dir
        self.refused(1, other, (self.data, "/data", True))

    def test_pid_of_another_process(self):
        box = self.box("pid")
        box.pid = os.getpid()
        self.assertIn("not the box's", self.refused(1, box, (self.data, "/data", True)))


if __name__ == "__main__":
    main()
