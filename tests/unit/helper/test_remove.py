"""sandpool-helper remove: whatever a box left, and whoever resists."""

import ctypes
import os
import pathlib
import resource
import struct
import subprocess
import time

from helper_client import Failure, HelperTest, at_most, is_alive, kill, main, wait_until

IN_MODIFY = 2


class Remove(HelperTest):
    def test_nothing(self):
        plan = self.plan("never")
        self.assertEqual(self.remove(plan), {"was_running": False, "processes": 0, "mounts": 0, "layers": 0, "cgroups": 0, "files": 0, "bytes": 0})

    def test_only_a_directory(self):
        path = self.state / "boxes" / "plain"
        (path / "a" / "b").mkdir(parents=True)
        (path / "a" / "f").write_text("x" * 10000)
        report = self.help("remove", {"dir": str(path)})
        self.assertFalse(report["was_running"])
        self.assertGreaterEqual(report["bytes"], 10000)
        self.assertEqual((report["mounts"], report["layers"]), (0, 0))
        self.assertIsNone(report["processes"], "no control group has counted them")
        self.assertFalse(path.exists())

    def test_a_large_disk_shrinks_first(self):
        """In steps that can be ended: one unlink can take a minute where the host discards each piece at once."""
        path = self.state / "boxes" / "large"
        path.mkdir(parents=True)
        size = 32 << 20
        (path / "disk").write_bytes(b"x" * size)
        libc = ctypes.CDLL(None, use_errno=True)
        watch = libc.inotify_init1(os.O_NONBLOCK)
        self.addCleanup(os.close, watch)
        self.assertGreaterEqual(libc.inotify_add_watch(watch, str(path / "disk").encode(), IN_MODIFY), 0)
        self.assertGreaterEqual(self.help("remove", {"dir": str(path)})["bytes"], size)
        self.assertFalse(path.exists())
        seen = [struct.unpack_from("iIII", os.read(watch, 4096), 0)[1]]
        self.assertEqual(seen, [IN_MODIFY], "the file was made shorter before it was removed")

    def test_a_disk_has_no_barriers(self):
        """What a box syncs does not wait for the host's disk, nor does its end."""
        box = self.box("barrier", **self.disk(64 << 20))
        loop = (box.dir / "loop").read_text().split()[0]
        options = pathlib.Path(f"/proc/fs/ext4/loop{loop}/options").read_text().split()
        self.assertIn("nobarrier", options)
        self.assertNotIn("discard", options)

    def test_processes_that_ignore_signals(self):
        box = self.box("stubborn")
        box.sh("for i in 1 2 3; do (trap '' TERM HUP INT; exec 0<&- >/dev/null 2>&1; sleep 1000) & done; sleep 0.1")
        mounts = len(pathlib.Path(f"/proc/{box.pid}/mountinfo").read_text().splitlines())
        t = time.monotonic()
        report = self.remove(box.plan)
        self.assertLess(time.monotonic() - t, at_most(5))
        self.assertEqual(report["processes"], 4)  # and the box's first one
        self.assertEqual((report["mounts"], report["layers"]), (mounts, 1))

    def test_one_that_has_ended(self):
        """Its processes and mounts went with it; only its files are left to be released."""
        box = self.box("ended")
        relay = box.relay()
        kill(box.pid)
        self.assertTrue(wait_until(lambda: not is_alive(relay)))
        report = self.remove(box.plan)
        self.assertEqual((report["was_running"], report["processes"], report["mounts"]), (False, 0, 0))
        self.assertEqual(report["layers"], 1)
        self.assertGreater(report["bytes"], 0)

    def test_by_its_init_alone(self):
        """Where there are no cgroups the number that was written down must do."""
        box = self.box("init")
        self.assertTrue(self.help("remove", {"dir": str(box.dir)})["was_running"])
        self.assertFalse(box.dir.exists())
        self.assertTrue(wait_until(lambda: not pathlib.Path(f"/proc/{box.pid}/exe").exists()))

    def test_fork_bomb(self):
        box = self.box("bomb")
        try:
            box.call("POST", "/v1/bash/exec", {"command": "f() { f | f & }; f", "hard_timeout": 1})
        except OSError:
            pass  # the box may be too busy to answer
        self.assertTrue(self.remove(box.plan)["was_running"])

    def test_twice(self):
        box = self.box("again")
        self.assertTrue(self.remove(box.plan)["was_running"])
        self.assertFalse(self.remove(box.plan)["was_running"])

    def test_nested_cgroups(self):
        box = self.box("nested")
        for path in self.cgroups("/nested"):
            if "cpuset" not in path and "unified" not in path:
                os.makedirs(f"{path}/in/ner")
        self.assertGreater(self.remove(box.plan)["cgroups"], 9)

    def test_deep_and_odd_trees(self):
        """Deeper than descriptors reach, with symlinks out and names that are no text."""
        path = self.state / "boxes" / "deep"
        outside = self.state / "outside"
        outside.mkdir()
        (outside / "keep").write_text("kept")
        path.mkdir()
        start = os.getcwd()
        try:
            os.chdir(path)
            for _ in range(600):
                os.mkdir("d")
                os.symlink(outside, "link")
                os.chdir("d")
        finally:
            os.chdir(start)
        os.mkdir(os.fsencode(path) + b"/\xff\n")
        few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))}
        self.assertGreater(self.help("remove", {"dir": str(path)}, **few)["files"], 1200)
        self.assertFalse(path.exists())
        self.assertEqual((outside / "keep").read_text(), "kept")

    def test_mounts_below_are_not_entered(self):
        path = self.state / "boxes" / "mounted"
        (path / "m").mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", str(path / "m")], check=True, timeout=10)
        try:
            (path / "m" / "keep").write_text("kept")
            with self.assertRaises(Failure) as e:
                self.help("remove", {"dir": str(path)})
            self.assertIn("mounted at 'm'", e.exception.text)
            self.assertEqual((path / "m" / "keep").read_text(), "kept")
        finally:
            subprocess.run(["umount", str(path / "m")], check=True, timeout=10)
        self.help("remove", {"dir": str(path)})

    def test_stranger_with_the_number_of_the_box_lives(self):
        """The files name a process that is not the box's."""
        stranger = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(lambda: (stranger.kill(), stranger.wait(10)))
        path = self.state / "boxes" / "stale"
        for held in (False, True):
            path.mkdir()
            (path / "lock").touch()
            (path / "pid").write_text(str(stranger.pid))
            (path / "init").write_text(f"{stranger.pid} 1\n")
            (path / "net.pid").write_text(f"{stranger.pid} 1\n")
            holder = subprocess.Popen(["flock", str(path / "lock"), "sleep", "1"]) if held else None
            if holder:
                self.assertTrue(wait_until(lambda: subprocess.run(
                    ["flock", "-n", str(path / "lock"), "true"], check=False, timeout=10).returncode == 1))
            self.assertEqual(self.help("remove", {"dir": str(path)})["was_running"], held)
            if holder:
                holder.wait(10)
            self.assertIsNone(stranger.poll())

    def test_lock_that_is_never_freed(self):
        path = self.state / "boxes" / "held"
        path.mkdir()
        holder = subprocess.Popen(["flock", str(path / "lock"), "sleep", "1000"])
        try:
            self.assertTrue(wait_until((path / "lock").exists))
            time.sleep(0.1)
            with self.assertRaises(Failure) as e:
                self.help("remove", {"dir": str(path)})
            self.assertIn("cannot be killed", e.exception.text)
            self.assertTrue(path.exists())
        finally:
            children = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
            for pid in children:
                os.kill(int(pid), 9)
            holder.wait(10)
        self.help("remove", {"dir": str(path)})


if __name__ == "__main__":
    main()
