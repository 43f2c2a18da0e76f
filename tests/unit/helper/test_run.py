"""sandpool-helper run: a real box from nothing, seen from inside and from the host."""

import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import time

from helper_client import (HELPER, ID_BASE, IS_SANITIZED, WAIT_S, Failure, HelperTest, at_most, descriptors, is_alive, kill, loops, main, processes,
                          wait_until)


class Run(HelperTest):
    def test_box_answers_and_nothing_is_left(self):
        box = self.box("life")
        self.assertEqual(box.call("GET", "/v1/sandbox")[0], 200)
        self.assertEqual(stat.S_IMODE(box.dir.stat().st_mode), 0o700)
        self.assertEqual((box.dir / "box.json").read_text(), box.plan["record"])
        self.assertEqual(stat.S_IMODE((box.dir / "box.json").stat().st_mode), 0o600)
        self.assertEqual(int((box.dir / "pid").read_text()), box.pid)
        self.assertEqual(self.host_mounts(), [])
        self.assertNotIn(str(box.dir), str(descriptors(box.pid)))  # nothing of the host is in the box
        held = [fd for fd, name in descriptors(box.relay()).items() if name == str(box.dir / "lock")]
        self.assertEqual(len(held), 1)
        flags = pathlib.Path(f"/proc/{box.relay()}/fdinfo/{held[0]}").read_text().split("flags:")[1].split()[0]
        self.assertEqual(int(flags, 8) & os.O_ACCMODE, os.O_RDONLY)
        report = self.remove(box.plan)
        self.assertTrue(report["was_running"])
        self.assertGreaterEqual(report["processes"], 1)
        self.assertGreaterEqual(report["cgroups"], 1)
        self.assertFalse(pathlib.Path(f"/proc/{box.pid}").exists() and "Z" not in
                         pathlib.Path(f"/proc/{box.pid}/stat").read_text())
        self.assertEqual(self.cgroups("/*"), [])

    def test_the_relay_may_do_nothing_else(self):
        box = self.box("strict")
        text = pathlib.Path(f"/proc/{box.relay()}/status").read_text()
        status = {line.split(":")[0]: line.split(":")[1].split() for line in text.splitlines()}
        self.assertEqual((status["Seccomp"], status["NoNewPrivs"], status["Uid"]), (["2"], ["1"], [str(ID_BASE)] * 4))
        for key in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(status[key][0], 16), 0, key)
        for kind in ("net", "pid", "mnt"):
            self.assertNotEqual(os.readlink(f"/proc/{box.relay()}/ns/{kind}"), os.readlink(f"/proc/{box.pid}/ns/{kind}"))
        self.assertNotEqual(os.readlink(f"/proc/{box.relay()}/ns/net"), os.readlink("/proc/self/ns/net"))
        self.assertIn(f"/{self.instance}/strict\n", pathlib.Path(f"/proc/{box.relay()}/cgroup").read_text())
        self.assertEqual(len(set(descriptors(box.relay()))), 8)  # 0 to 2, two sockets, channel, lock, epoll
        rollup = pathlib.Path(f"/proc/{box.relay()}/smaps_rollup").read_text()
        size = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
        print(f"relay: {size['Private_Dirty']} KB of its own", file=sys.stderr)
        self.assertTrue(IS_SANITIZED or size["Private_Dirty"] < 300, size)

    def test_box_and_relay_end_with_each_other(self):
        for victim in ("box", "relay"):
            box = self.box(f"with-{victim}")
            relay = box.relay()
            kill(box.pid if victim == "box" else relay)
            for pid in (box.pid, relay):
                self.assertTrue(wait_until(lambda p=pid: not is_alive(p)), (victim, pid))
            report = self.remove(box.plan)
            self.assertFalse(report["was_running"])

    def test_a_box_that_outlives_its_relay_is_removed(self):
        box = self.box("alone")
        os.kill(box.pid, signal.SIGSTOP)
        relay = box.relay()
        kill(relay)
        self.assertTrue(wait_until(lambda: not is_alive(relay)))
        self.remove(box.plan)
        self.assertFalse(is_alive(box.pid))

    def test_what_a_runtime_would_hang_on_is_refused(self):
        """Whoever had a box decides what its snapshot has where runtimes read by themselves. Nothing is opened: it is refused at once."""
        odd = self.state / "odd"
        self.addCleanup(shutil.rmtree, odd, ignore_errors=True)
        (odd / "etc").mkdir(parents=True)

        def refused(make, *words, files=("passwd", "group")):
            for name in files:
                shutil.rmtree(odd / "etc")
                (odd / "etc").mkdir()
                make(odd / "etc" / name)
                begun = time.monotonic()
                with self.assertRaises(Failure) as caught:
                    self.box("unfit", lower=str(odd))
                self.assertEqual(caught.exception.status, 12, caught.exception)
                self.assertIn(f"'/etc/{name}'", caught.exception.text)
                for word in words:
                    self.assertIn(word, caught.exception.text)
                self.assertLess(time.monotonic() - begun, at_most(10))  # the runtime has 20 s

        one = ("passwd",)
        refused(os.mkfifo, "a named pipe")
        refused(os.mkdir, "a directory", files=one)
        refused(lambda p: os.mknod(p, stat.S_IFCHR | 0o666, os.makedev(1, 5)), "a device", files=one)
        refused(lambda p: p.symlink_to("/dev/zero"), "a link", files=one)  # nothing is there yet, and then the runtime's own
        refused(lambda p: p.symlink_to("../proc/self/fd/0"), "a link", files=one)
        refused(lambda p: p.symlink_to(p.name), "a link", files=one)
        refused(lambda p: (os.mkfifo(p.parent / "pipe"), p.symlink_to("pipe")), "a named pipe", files=one)

        def large(path):
            path.touch()
            os.truncate(path, (4 << 20) + 1)
        refused(large, "larger than", files=one)

        def hidden(path):  # a file where the runtime will mount
            (odd / "dev").mkdir(exist_ok=True)
            (odd / "dev" / "zero").touch()
            path.symlink_to("/dev/zero")
        refused(hidden, "file system of the runtime", files=one)

    def test_where_a_runtime_cannot_mount_is_refused(self):
        odd = self.state / "odd-places"
        self.addCleanup(shutil.rmtree, odd, ignore_errors=True)
        for name, make, word in (("proc", lambda p: p.symlink_to("/tmp"), "a link"), ("sys", lambda p: p.touch(), "a file"),
                                 ("dev", os.mkfifo, "a named pipe")):
            (odd / "etc").mkdir(parents=True)
            make(odd / name)
            with self.assertRaises(Failure) as caught:
                self.box("unfit", lower=str(odd))
            self.assertEqual(caught.exception.status, 12, caught.exception)
            self.assertIn(f"'/{name}' is {word}, not a directory", caught.exception.text)
            shutil.rmtree(odd)

    def test_without_users_or_by_links_a_box_starts(self):
        odd = self.state / "few"
        self.addCleanup(shutil.rmtree, odd, ignore_errors=True)
        shutil.copytree(self.base, odd, symlinks=True)
        (odd / "etc" / "group").unlink()
        (odd / "etc" / "passwd").rename(odd / "etc" / "users")
        (odd / "etc" / "passwd").symlink_to("/etc/users")
        box = self.box("few", lower=str(odd))
        self.assertEqual(box.sh("head -c4 /etc/passwd; ls /etc/group 2>/dev/null")[0], "root")

    def test_owners_and_modes_inside(self):
        box = self.box("owners")
        out, _ = box.sh("stat -c '%n %U %a' / /etc /etc/hosts /etc/shadow /tmp /root /workspace /home/user"
                        " /srv/own /srv/own/deep /usr")
        seen = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
        self.assertEqual(seen, {
            "/": ["root", "755"], "/etc": ["root", "755"], "/etc/hosts": ["root", "644"],
            "/etc/shadow": ["root", "600"], "/tmp": ["root", "1777"], "/root": ["root", "700"],
            "/workspace": ["user", "755"], "/home/user": ["user", "755"], "/srv/own": ["root", "755"],
            "/srv/own/deep": ["user", "700"], "/usr": ["nobody", "755"]})
        self.assertEqual(box.sh("cat /etc/hosts; echo x > /workspace/x && echo y > ~/y && cat /workspace/x ~/y")[0],
                         "127.0.0.1 localhost owners\nx\ny\n")
        self.assertNotEqual(box.sh("touch /etc/x")[1], 0)
        self.assertIn("Read-only", box.sh("touch /usr/x")[0])
        self.assertIn("ro,nosuid,nodev", box.sh("grep ' /usr ' /proc/mounts")[0])
        self.assertNotIn(str(self.state), box.sh("cat /proc/self/mountinfo")[0])
        mine = box.dir / "upper" / "workspace" / "x"
        self.assertEqual(mine.stat().st_uid, ID_BASE + 1000)
        self.assertFalse((self.base / "workspace" / "x").exists())

    def test_writable_directories_are_of_the_upper_layer_alone(self):
        """The kernel keeps what it lists of others in memory that is charged to nobody."""
        lower = self.state / "listed"
        shutil.copytree(self.base, lower, symlinks=True)
        self.addCleanup(shutil.rmtree, lower)
        for name in ("empty", "deep/few", "many", "large", "deep/dir"):
            (lower / name).mkdir(parents=True)
        for name in (".profile", ".a"):
            (lower / "deep/few" / name).write_text(name)
            os.chown(lower / "deep/few" / name, 1000, 1000)
        os.symlink(".a", lower / "deep/few/link")
        for i in range(40):
            (lower / "many" / str(i)).touch()
        (lower / "large" / "file").write_bytes(b"x" * 100000)
        (lower / "deep/dir/sub").mkdir()
        os.symlink("empty", lower / "link")
        paths = ("/empty", "/deep/few", "/deep/new", "/many", "/large", "/deep/dir", "/link")
        box = self.box("listed", lower=str(lower), owned=[{"path": p, "id": 1000, "mode": 0o750} for p in paths])
        upper = [box.dir / "upper" / p[1:] for p in paths]
        alone = {p.name for p in upper if p.is_dir() and not p.is_symlink() and "trusted.overlay.opaque" in os.listxattr(p)}
        self.assertLessEqual({"empty", "few"}, alone)
        self.assertFalse({"many", "large", "dir", "link"} & alone)
        self.assertNotIn(".sandpool-new", box.sh("ls -A / /deep")[0])
        self.assertEqual(box.sh("stat -c %a:%u /empty /deep/few /deep/new /many /large /deep/dir | sort -u; ls -A /empty")[0], "750:1000\n")
        self.assertEqual(box.sh("cd /deep/few; ls -A; cat .profile .a link; echo; stat -c %u .profile .a; readlink link")[0].split(),
                         [".a", ".profile", "link", ".profile.a.a", "1000", "1000", ".a"])
        self.assertEqual(box.sh("ls /many | wc -l; stat -c %s /large/file; ls /deep/dir")[0].split(), ["40", "100000", "sub"])
        self.assertEqual(sorted(os.listdir(lower / "deep/few")), [".a", ".profile", "link"])

    def test_symlinks_of_the_base_stay_in_the_box(self):
        """A base that was unpacked from somewhere has symlinks that would leave it."""
        lower = self.state / "odd"
        victim = self.state / "victim"
        victim.mkdir()
        shutil.copytree(self.base, lower, symlinks=True)
        self.addCleanup(shutil.rmtree, lower)
        self.addCleanup(shutil.rmtree, victim)
        os.symlink(victim, lower / "evil")
        os.symlink(victim / "text", lower / "etc" / "text")
        with self.assertRaises(Failure) as e:
            self.box("links", lower=str(lower), owned=[{"path": "/evil/own", "id": 0, "mode": 0o755}])
        self.assertIn("in the box", e.exception.text)
        box = self.box("links2", lower=str(lower), files=[{"path": "/etc/text", "text": "new\n"}])
        self.assertEqual(box.sh("cat /etc/text; stat -c %F /etc/text")[0], "new\nregular file\n")
        self.assertEqual(list(victim.iterdir()), [])

    def test_second_run_of_a_running_box(self):
        box = self.box("twice")
        with self.assertRaises(Failure) as e:
            self.box_of(box.plan)
        self.assertEqual(e.exception.status, 3)
        self.assertIn("exists and runs", e.exception.text)
        self.assertEqual(box.call("GET", "/v1/sandbox")[0], 200)

    def test_leftover_is_replaced(self):
        """A box that died: its directory, the runtime's state and its cgroups are still there."""
        box = self.box("left")
        box.sh("touch /workspace/old")
        os.kill(box.pid, signal.SIGKILL)
        again = None

        def try_again():
            nonlocal again
            try:
                again = self.box_of(box.plan)
            except Failure as e:
                self.assertEqual(e.status, 3)  # it is still dying
            return again is not None

        self.assertTrue(wait_until(try_again))
        self.assertEqual(again.sh("ls /workspace"), ("", 0))

    def test_directory_of_a_maker_that_died_early(self):
        plan = self.plan("early")
        os.mkdir(plan["dir"])
        self.assertEqual(self.box_of(plan).call("GET", "/v1/sandbox")[0], 200)

    def test_runtime_that_fails_says_why(self):
        spec = self.spec("bad")
        spec["process"]["args"] = ["/no/such/program"]
        with self.assertRaises(Failure) as e:
            self.box("bad", spec=spec)
        self.assertEqual(e.exception.status, 1)
        self.assertIn("no such file", e.exception.text)
        self.assertEqual(e.exception.text.count("\n"), 1)
        self.assertFalse((self.state / "boxes" / "bad").exists())

    def test_agent_that_ends_before_it_is_ready(self):
        spec = self.spec("short", ["/bin/sh", "-c", "echo something is wrong here >&2; exit 3"])
        with self.assertRaises(Failure) as e:
            self.box("short", spec=spec)
        self.assertIn("something is wrong here", e.exception.text)
        self.assertFalse((self.state / "boxes" / "short").exists())

    def test_sigterm_undoes_everything(self):
        self.stop_in_the_middle("term", lambda p: p.send_signal(signal.SIGTERM))

    def stop_in_the_middle(self, name, stop):
        """The agent is replaced by something that never gets ready."""
        plan = self.plan(name, spec=self.spec(name, ["/bin/sh", "-c", "sleep 1000 & sleep 1000"]))
        p = self.start(plan)
        p.stdin.write(json.dumps(plan))
        p.stdin.close()
        self.assertTrue(wait_until(lambda: self.cgroups(f"/{name}") and (self.state / "boxes" / name / "pid").exists()))
        stop(p)
        self.assertEqual(p.wait(WAIT_S), 1)
        self.assertIn("stopped by a signal", p.stderr.read())
        p.stdout.close()
        p.stderr.close()
        self.assertFalse((self.state / "boxes" / name).exists())
        self.assertEqual(self.cgroups(f"/{name}"), [])

    def test_death_of_the_parent_leaves_nothing_running(self):
        """A process between us and sandpool-helper is killed; what it started undoes itself."""
        name = "orphan"
        plan = self.plan(name, spec=self.spec(name, ["/bin/sh", "-c", "sleep 1000 & sleep 1000"]))
        s = self.listen()
        parent = subprocess.Popen(
            [sys.executable, "-c",
             "import subprocess, sys\n"
             f"p = subprocess.Popen(['bash', '-c', 'exec \"$0\" run 3<&{s.fileno()}', {HELPER!r}],\n"
             f"                     stdin=subprocess.PIPE, pass_fds=[{s.fileno()}], stderr=subprocess.DEVNULL)\n"
             "p.stdin.write(sys.stdin.buffer.read())\np.stdin.close()\np.wait()\n"],
            stdin=subprocess.PIPE, pass_fds=[s.fileno()])
        parent.stdin.write(json.dumps(plan).encode())
        parent.stdin.close()
        box = self.state / "boxes" / name
        self.assertTrue(wait_until(lambda: (box / "pid").exists()))
        pid = int((box / "pid").read_text())
        parent.kill()
        parent.wait(WAIT_S)
        self.assertTrue(wait_until(lambda: not box.exists()))
        self.assertTrue(wait_until(lambda: not pathlib.Path(f"/proc/{pid}/exe").exists()))
        self.assertTrue(wait_until(lambda: processes(name) == []))

    def test_killed_helper_leaves_what_remove_can_remove(self):
        name = "nine"
        plan = self.plan(name, spec=self.spec(name, ["/bin/sh", "-c", "sleep 1000 & sleep 1000"]), **self.disk(64 << 20))
        p = self.start(plan)
        p.stdin.write(json.dumps(plan))
        p.stdin.close()
        self.assertTrue(wait_until(lambda: (self.state / "boxes" / name / "pid").exists()))
        p.kill()
        p.wait(WAIT_S)
        p.stdout.close()
        p.stderr.close()
        self.assertTrue(self.remove(plan)["was_running"])

    def test_removed_while_it_starts(self):
        name = "early-end"
        plan = self.plan(name, spec=self.spec(name, ["/bin/sh", "-c", "sleep 1000 & sleep 1000"]), **self.disk(64 << 20))
        p = self.start(plan)
        p.stdin.write(json.dumps(plan))
        p.stdin.close()
        self.assertTrue(wait_until(lambda: (self.state / "boxes" / name / "pid").exists()))
        self.assertTrue(self.remove(plan)["was_running"])
        self.assertEqual(p.wait(WAIT_S), 1)
        self.assertIn("before its agent was ready", p.stderr.read())
        p.stdout.close()
        p.stderr.close()

    def test_network_program_lives_as_long_as_the_box(self):
        box = self.box("net", network=["/bin/sh", "-c", "echo up >&$1; exec sleep 1000", "{pid}", "{ready}"])
        pid = int((box.dir / "net.pid").read_text().split()[0])
        self.assertIn(b"1000", pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
        self.assertEqual(os.getsid(pid), pid)
        fds = descriptors(pid).values()  # its own may close meanwhile
        self.assertFalse([f for f in fds if str(self.state) in f or "socket" in f], fds)
        self.assertEqual(self.remove(box.plan)["processes"], 1, "it is none of the box")
        self.assertTrue(wait_until(lambda: not pathlib.Path(f"/proc/{pid}/exe").exists()))

    def test_network_program_of_a_killed_helper_is_found(self):
        mark = f"{7000 + os.getpid() % 1000}.5"
        plan = self.plan("netkill", network=["/bin/sleep", mark])
        p = self.start(plan)
        p.stdin.write(json.dumps(plan))
        p.stdin.close()
        self.assertTrue(wait_until(lambda: processes(mark) or p.poll() is not None))
        p.kill()
        p.wait(10)
        p.socket.close()
        p.stdout.close()
        p.stderr.close()
        self.remove(plan)
        left = processes(mark)
        for pid, _ in left:
            kill(pid)
        self.assertEqual(left, [])

    def test_network_program_that_fails(self):
        with self.assertRaises(Failure) as e:
            self.box("nonet", network=["/bin/sh", "-c", "echo no tap for $0 >&2; exit 1", "{pid}"])
        self.assertIn("no tap for", e.exception.text)
        self.assertFalse((self.state / "boxes" / "nonet").exists())

    def test_no_socket(self):
        plan = self.plan("nosock")
        with self.assertRaises(Failure) as e:
            self.help("run", plan)
        self.assertIn("descriptor 3 is not a listening socket", e.exception.text)


class Disk(HelperTest):
    def test_limit_is_a_limit(self):
        box = self.box("full", **self.disk(64 << 20))
        self.assertIn(str(box.dir), "".join(loops().values()))
        out, code = box.sh("dd if=/dev/zero of=/workspace/big bs=1M count=200 2>&1")
        self.assertNotEqual(code, 0)
        self.assertIn("No space left", out)
        self.assertEqual(box.sh("rm /workspace/big && echo ok > /workspace/ok && cat /workspace/ok")[0], "ok\n")
        self.assertLess((box.dir / "disk").stat().st_blocks * 512, 80 << 20)
        report = self.remove(box.plan)
        self.assertGreater(report["bytes"], 0)

    def test_owners_on_a_disk(self):
        box = self.box("ondisk", **self.disk(64 << 20))
        self.assertEqual(box.sh("stat -c %U / /etc /workspace /srv/own/deep; echo $(id -un)")[0].split(),
                         ["root", "root", "user", "user", "user"])
        self.assertIn("overlay", box.sh("stat -f -c %T /workspace")[0])

    def test_template_is_made_once(self):
        more = self.disk(32 << 20)
        template = pathlib.Path(more["disk_template"])
        template.unlink(missing_ok=True)
        self.box("first", **more)
        ino = template.stat().st_ino
        self.box("second", **more)
        self.assertEqual(template.stat().st_ino, ino)
        self.assertLess(template.stat().st_blocks * 512, 1 << 20)

    def test_a_damaged_template_is_named_and_made_anew(self):
        more = self.disk(40 << 20)
        template = pathlib.Path(more["disk_template"])
        template.unlink(missing_ok=True)
        self.remove(self.box("sound", **more).plan)
        size = template.stat().st_size
        for i, (begin, end) in enumerate(((0, 8192), (8192, size))):  # what says that it is a file system; the rest of it
            with open(template, "r+b") as file:
                file.seek(begin)
                for _ in range(begin, min(end, begin + (8 << 20)), 4096):
                    file.write(b"\xff" * 4096)
            with self.assertRaises(Failure) as failed:
                self.box(f"damaged{i}", **more)
            self.assertIn(str(template), str(failed.exception))
            self.assertIn("made anew", str(failed.exception))
            self.remove(self.box(f"anew{i}", **more).plan)

    def test_several_first_ones_at_once(self):
        more = self.disk(48 << 20)
        pathlib.Path(more["disk_template"]).unlink(missing_ok=True)
        plans = [self.plan(f"burst{i}", **more) for i in range(4)]
        runs = [self.start(p) for p in plans]
        for run, plan in zip(runs, plans):
            run.stdin.write(json.dumps(plan))
            run.stdin.close()
        for run in runs:
            self.assertEqual(run.wait(WAIT_S), 0, run.stderr.read())
            run.stdout.close()
            run.stderr.close()
        self.assertEqual([p.name for p in self.state.glob("disk-*.*")], [])

    def test_failure_frees_the_loop_device(self):
        spec = self.spec("loopfail", ["/bin/false"])
        with self.assertRaises(Failure):
            self.box("loopfail", spec=spec, **self.disk(64 << 20))
        self.assertFalse((self.state / "boxes" / "loopfail").exists())
        self.assertEqual([v for v in loops().values() if str(self.state) in v], [])

    def test_agent_killed_frees_everything_by_itself(self):
        box = self.box("gone", **self.disk(64 << 20))
        kill(box.pid)
        self.assertTrue(wait_until(lambda: not [v for v in loops().values() if str(box.dir) in v]))
        self.assertFalse(self.remove(box.plan)["was_running"])


if __name__ == "__main__":
    main()
