"""Attempts to get out of a box of the `oci` backend, as root in the box and as its user: the host's files, processes,
kernel and network, the neighbours, the agent, and what a box leaves for its remover. escape_probe.py makes the attempts;
where it is cheap it makes them on the host, too, to show that a missing protection would be seen. With runsc
(SANDPOOL_TEST_RUNTIME) a call of the box ends in a kernel of its own, and only what could reach the host is tried."""

import hashlib
import os
import pathlib
import secrets
import socket
import subprocess
import tempfile
import threading
import time

import escape_case
from escape_case import HOLD_S, JOBS, PYTHON, REFUSED, TCP_TOKEN, UNREACHED, WHO, Attempt, on_host, on_this_kernel, results
from fixtures import BIN, at_most, main, tmpdir, wait_until


def setUpModule():
    escape_case.setUpModule()


class Files(Attempt):
    def test_secrets_of_the_host(self):
        places = ["/root", "/home", "/var", "/run", "/tmp", "/etc", "/opt", str(self.world.daemon.state), "/usr/local"]
        for place in places:
            # In /usr the file is seen: it must be its mode that counts, with the owner the host knows.
            path, secret = self.plant(place, 0o600 if place == "/usr/local" else 0o644)
            self.assertIn(path, on_host("find_secret", path, secret))
            for user in WHO:
                self.assertEqual(self.a.probe(user, "find_secret", path, secret), [], (place, user))
            self.assertTrue(on_host("find_after_chroot", path, secret))
            self.assertFalse(self.a.probe("root", "find_after_chroot", path, secret), place)

    def test_readable_files_below_usr_are_what_is_shared(self):
        path, secret = self.plant("/usr/local", 0o644)
        os.chmod(path, 0o644)
        self.assertIn(path, self.a.probe("user", "find_secret", path, secret))  # so the test above can fail

    def test_passwords_of_the_host(self):
        theirs = self.a.run("root", "cat", "/etc/shadow", "/etc/passwd", "/etc/group").splitlines()
        self.assertTrue(theirs)
        for line in pathlib.Path("/etc/shadow").read_text().splitlines():
            if len(line.split(":")[1]) > 3:
                self.assertNotIn(line, theirs)

    def test_mounts_tell_nothing_of_the_state_directory(self):
        for user in WHO:
            text = self.a.run(user, "cat", "/proc/self/mountinfo", "/proc/mounts", "/proc/self/mountstats")
            self.assertIn("overlay", text)
            for name in (str(self.world.daemon.state), self.world.directory, "/oci/boxes/"):
                self.assertNotIn(name, text)

    @on_this_kernel
    def test_files_by_handle(self):
        self.assertEqual(on_host("handle_of", "/etc"), "done")
        for user in WHO:
            self.assertEqual(self.a.probe(user, "handle_of", "/etc"), "EPERM")

    @on_this_kernel
    def test_devices(self):
        root = os.stat("/").st_dev
        numbers = [(os.major(root), os.minor(root), "b"), (1, 1, "c"), (1, 11, "c"), (10, 237, "c"), (10, 200, "c"),
                   (7, 0, "b"), (1, 3, "c")]
        with tempfile.TemporaryDirectory() as where:
            self.assertEqual(on_host("make_device", 1, 3, "c", where), "done")
        for user in WHO:
            for number in numbers:
                for where in ("/tmp", "/dev" if user == "root" else "/dev/shm"):
                    self.assertEqual(self.a.probe(user, "make_device", *number, where), "EPERM", (user, number, where))
            self.assertEqual(set(self.a.probe(user, "devices")) - {"core"},
                             {"full", "null", "ptmx", "random", "stderr", "stdin", "stdout", "tty", "urandom", "zero"})

    def test_programs_of_the_host_cannot_be_changed(self):
        for user in WHO:
            self.assertRefused(self.a.probe(user, "change_files", "/usr/bin", "/usr/bin/env"), REFUSED | {"ENOTSUP"})
        digest = hashlib.sha256((BIN / "sandpool-agent").read_bytes()).hexdigest()
        for user in WHO:
            # A mount point cannot be renamed or unlinked (EBUSY); the directory around it is the box's own.
            seen = self.a.probe(user, "change_files", "/.sandpool", "/.sandpool/agent")
            self.assertRefused({k: v for k, v in seen.items() if k not in ("create", "mkdir")},
                               REFUSED | {"EBUSY", "EXDEV", "ETXTBSY", "EEXIST", "ENOTSUP"})
        self.assertEqual(hashlib.sha256((BIN / "sandpool-agent").read_bytes()).hexdigest(), digest)

    @on_this_kernel
    def test_setuid_programs_change_nothing(self):
        self.assertEqual(self.a.probe("root", "run_setuid", "/workspace"), "1000")
        for user in WHO:
            rights = self.a.probe(user, "rights")
            self.assertEqual((rights["NoNewPrivs"], rights["Seccomp"], rights["CapInh"], rights["CapAmb"]),
                             ("1", "2", "0" * 16, "0" * 16))
            # chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service, sys_chroot, setfcap
            self.assertEqual(int(rights["CapBnd"], 16) & ~0x800404fb, 0)
            self.assertEqual(int(rights["CapEff"], 16) == 0, user == "user")


class Processes(Attempt):
    def test_processes_of_the_host(self):
        mark = f"sandpool-escape-{secrets.token_hex(8)}"
        child = subprocess.Popen([PYTHON, "-c", "import time; time.sleep(100)", mark])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertEqual(on_host("sees_process", mark), [str(child.pid)])
        self.assertEqual(set(on_host("touch_process", child.pid).values()), {"done"})
        for user in WHO:
            self.assertEqual(self.a.probe(user, "sees_process", mark), [])
            for pid in (child.pid, self.world.daemon.process.pid, self.b.pid, self.a.pid):
                self.assertLessEqual(set(self.a.probe(user, "touch_process", pid).values()), {"ESRCH", "ENOSYS"}, pid)
            self.assertEqual(self.a.probe(user, "sees_process", "sandpoold"), [])

    @on_this_kernel
    def test_nobody_looks_into_the_agent(self):
        """Not even root of the box, whose box it is: the agent holds a socket of the host's network."""
        own = self.a.probe("root", "look_into_own")
        self.assertEqual([own[k] for k in ("environ", "mem", "maps", "exe link", "attach", "vm_readv", "getfd 0")],
                         ["done", "done", "done", "done", "done", "EFAULT", "done"])
        for user in WHO:
            self.assertRefused(self.a.probe(user, "look_into", 1))
            self.a.call("POST", "/v1/file/list", {"path": "/tmp"})  # changes who the agent is, for a moment
            self.assertRefused(self.a.probe(user, "look_into", 1))

    def test_token_is_nowhere_in_the_box(self):
        for user in WHO:
            self.assertNotIn(self.a.token, self.a.run(user, "sh", "-c", "env; cat /proc/*/environ /proc/*/cmdline"))
        self.assertEqual(self.a.probe("root", "grep_tree", self.a.token, ["/", "/tmp", "/dev", "/dev/shm"]), [])
        self.a.run("root", "sh", "-c", f"echo {self.a.token} > /root/left")
        self.assertEqual(self.a.probe("root", "grep_tree", self.a.token, ["/"]), ["/root/left"])
        self.a.run("root", "rm", "/root/left")
        # Nor where others on the host could read it.
        lines = subprocess.run(["ps", "axww", "-o", "args="], capture_output=True, text=True).stdout
        self.assertNotIn(self.a.token, lines)
        self.assertNotIn(self.a.token, self.world.daemon.process.output())
        self.assertEqual(self.world.daemon.state.stat().st_mode & 0o077, 0)
        for name in ("box.json", "config.json", "lock"):
            self.assertEqual((self.a.dir / name).stat().st_mode & 0o077, 0, name)

    @on_this_kernel
    def test_signals_to_the_agent(self):
        self.assertEqual(set(self.a.probe("user", "signals_to", 1, [0, 1, 2, 9, 15, 19]).values()), {"EPERM"})
        self.a.probe("root", "signals_to", 1, [1, 3, 6, 9, 11, 12, 19, 31])  # its own box, and still no way to stop it
        self.assertEqual(self.a.call("GET", "/healthz")[0], 200)

    @on_this_kernel
    def test_descriptors(self):
        held = {int(e.name): os.readlink(e) for e in pathlib.Path(f"/proc/{self.a.pid}/fd").iterdir()}
        self.assertEqual([held[i] for i in range(3)], ["/dev/null"] * 3)
        self.assertTrue(held[3].startswith("socket:"), held)  # the channel; the lock is the relay's
        # The agent watches its own control group for want of memory, and says who shall die first.
        files = {t for t in held.values() if t.startswith("/") and not t.startswith("/sys/fs/cgroup/")}
        self.assertLessEqual(files, {"/dev/null", "/proc/1/oom_score_adj"})
        for user in WHO:
            seen = self.a.probe(user, "descriptors")
            self.assertEqual(set(seen), {"0", "1", "2"}, seen)
        for path in ("/v1/bash/exec", "/v1/shell/exec"):
            status, text = self.a.call("POST", path, {"command": "ls -l /proc/self/fd"})
            self.assertIn("/proc/", text, status)
            self.assertNotIn("socket:", text)
            self.assertNotIn("lock", text)

    @on_this_kernel
    def test_lock_and_processes_end_with_the_box(self):
        box = self.world.box("doomed")
        mark = f"escape-{secrets.token_hex(8)}"
        box.run("root", "sh", "-c", f"trap '' HUP TERM; for i in 1 2 3; do setsid -f sh -c \"trap '' HUP TERM; exec"
                                    f" {PYTHON} -c 'import time; time.sleep(1000)' {mark}\" >/dev/null 2>&1; done")
        wait_until(lambda: len(on_host("sees_process", mark)) >= 3, "they run")
        self.world.destroy(box)
        self.assertEqual(on_host("sees_process", mark), [])


@on_this_kernel
class Kernel(Attempt):
    def test_settings(self):
        paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory",
                 "/proc/sys/kernel/modprobe", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/register",
                 "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/kcore", "/proc/kmsg", "/dev/mem",
                 "/dev/kmsg", "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/ksm/run",
                 "/sys/kernel/debug/tracing/trace", "/sys/class/net/lo/mtu"]
        host = on_host("open_for_writing", paths)
        self.assertEqual({host[p] for p in paths[:3]}, {"done"})
        for user in WHO:
            seen = self.a.probe(user, "open_for_writing", paths)
            masked = ["/proc/kmsg", "/proc/kcore"]  # what is there is the box's /dev/null: 1:3
            self.assertRefused({p: v for p, v in seen.items() if p not in masked}, REFUSED | {"ENOENT"})
            there = self.a.run(user, "sh", "-c", f"stat -c %t:%T {' '.join(masked)} 2>/dev/null || true").split()
            self.assertEqual(set(there), {"1:3"})
            self.assertEqual(self.a.run(user, "cat", "/proc/kmsg", "/proc/keys", "/proc/timer_list"), "")
            tops = ["/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/sys/fs", "/sys/kernel", "/sys/module",
                    "/sys/block", "/sys/class", "/sys/devices/system", "/sys/devices/virtual"]
            self.assertEqual(self.a.probe(user, "writable_below", tops), [])

    def test_limits_of_the_box(self):
        for user in WHO:
            seen = self.a.run(user, "sh", "-c", "for f in $(find /sys/fs/cgroup -name memory.limit_in_bytes -o -name"
                              " memory.max -o -name cgroup.procs -o -name tasks -o -name release_agent -o -name"
                              " devices.allow -o -name pids.max); do (echo 1 > $f) 2>/dev/null && echo $f; done;"
                              " find /sys/fs/cgroup -type d | while read d; do mkdir $d/escape 2>/dev/null && echo $d;"
                              " done; echo end")
            self.assertEqual(seen, "end\n")
        self.assertEqual(self.limit(), 256 << 20)
        for group in self.groups():  # and not only because what the box sees of it is read-only
            owners = {path.name: path.stat().st_uid for path in (group, *group.iterdir())}
            self.assertEqual({name: uid for name, uid in owners.items() if uid != 0}, {})
        self.assertNotIn("sandpool", self.a.run("root", "cat", "/proc/self/cgroup"))  # nor does it see where it is
        self.assertIn("sandpool", pathlib.Path(f"/proc/{self.a.pid}/cgroup").read_text())

    def test_terminals_are_left_for_others(self):
        holder = self.a.start("user", [PYTHON, "-c", "import os, time\ntry:\n while True: os.open('/dev/ptmx', os.O_RDWR)"
                                       f"\nexcept OSError: print('all', flush=True); time.sleep({HOLD_S})"])
        wait_until(lambda: "all" in self.a.output(holder), "it has all it can get")
        self.assertEqual(self.b.call("POST", "/v1/shell/exec", {"command": "true"})[0], 200)
        self.a.finish(holder)

    def groups(self):
        """The box's control groups: one in version 2, one in each hierarchy of version 1."""
        for line in pathlib.Path(f"/proc/{self.a.pid}/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            group = pathlib.Path("/sys/fs/cgroup") / kinds / path[1:]
            if "sandpool" in path and group.is_dir():
                yield group

    def limit(self):
        for group in self.groups():
            for file in (group / "memory.limit_in_bytes", group / "memory.max"):
                if file.is_file():
                    return int(file.read_text())
        return None

    def test_mounts(self):
        for user in WHO:
            before = self.a.run(user, "cat", "/proc/self/mounts")
            self.assertRefused(self.a.probe(user, "mounts"))
            self.assertEqual(self.a.run(user, "cat", "/proc/self/mounts"), before)

    def test_namespaces(self):
        host = on_host("namespaces")
        self.assertEqual([v for k, v in host.items() if v == "done" and k.startswith("clone")], ["done"] * 7)
        for user in WHO:
            self.assertRefused(self.a.probe(user, "namespaces"))

    def test_calls(self):
        host = on_host("calls")
        self.assertNotIn("EPERM", host.values())
        self.assertGreater(len([v for v in host.values() if v != "ENOSYS"]), 20)
        for user in WHO:
            self.assertRefused(self.a.probe(user, "calls"), {"EPERM", "ENOSYS"})


class Network(Attempt):
    def serve(self, family, address):
        server = socket.socket(family, socket.SOCK_STREAM)
        self.addCleanup(server.close)
        server.bind(address)
        server.listen(8)

        def answer():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.sendall(b"reached")
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        return server.getsockname()

    def test_services_of_the_host(self):
        name = f"@sandpool-escape-{secrets.token_hex(8)}"
        port = self.serve(socket.AF_INET, ("0.0.0.0", 0))[1]
        self.serve(socket.AF_UNIX, name.replace("@", "\0"))
        address = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
        targets = [("tcp", ["127.0.0.1", port]), ("unix", name)]
        targets += [("tcp", [a, port]) for a in address if ":" not in a]
        for target in targets:
            self.assertEqual(on_host("connect", *target), "reached", target)
            for user in WHO:
                self.assertIn(self.a.probe(user, "connect", *target), UNREACHED, (user, target))
        for user in WHO:
            self.assertEqual(self.a.probe(user, "interfaces"), ["lo"])

    def test_daemon_and_neighbours(self):
        line = f"GET /v1/pool HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TCP_TOKEN}\r\nConnection: close\r\n\r\n"
        self.assertIn("200", on_host("connect", "tcp", ["127.0.0.1", self.world.port], line)[:20])
        agent = f"GET /v1/agent HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.b.token}\r\nConnection: close\r\n\r\n"
        self.assertIn("200", on_host("connect", "tcp", ["127.0.0.1", self.b.port], agent)[:20])
        for user in WHO:
            for target, text in ((self.world.port, line), (self.b.port, agent), (self.a.port, agent)):
                self.assertEqual(self.a.probe(user, "connect", "tcp", ["127.0.0.1", target], text), "ECONNREFUSED")
            self.assertIn(self.a.probe(user, "connect", "unix", str(self.world.daemon.socket)), ("ENOENT", "EACCES"))

    @on_this_kernel
    def test_sockets(self):
        self.assertEqual([v for k, v in on_host("sockets").items() if k in ("packet", "raw icmp", "raw")], ["done"] * 3)
        for user in WHO:
            self.assertRefused(self.a.probe(user, "sockets"), {"EPERM", "EACCES"})
            self.assertRefused(self.a.probe(user, "change_network"), {"EPERM"})

    def test_tokens(self):
        wrong = [{}, {"Authorization": "Bearer"}, {"Authorization": "Bearer "}, {"Authorization": self.a.token},
                 {"Authorization": f"Bearer {self.b.token}"}, {"Authorization": f"Bearer {self.a.token[:-1]}"},
                 {"Authorization": f"Bearer {self.a.token}0"}, {"Authorization": f"Basic {self.a.token}"},
                 {"X-AIO-API-Key": ""}, {"X-AIO-API-Key": self.b.token}, {"Cookie": f"token={self.a.token}"}]
        calls = [("GET", "/v1/agent", None), ("GET", JOBS, None), ("POST", JOBS, {"argv": ["true"]}),
                 ("POST", "/v1/shell/exec", {"command": "true"}), ("POST", "/v1/bash/exec", {"command": "true"}),
                 ("POST", "/v1/file/read", {"file": "/etc/hosts"}), ("GET", f"/v1/agent?token={self.a.token}", None)]
        for method, path, body in calls:
            for headers in wrong:
                self.assertEqual(self.a.call(method, path, body, headers)[0], 401, (path, headers))
        for headers in ({"Authorization": f"Bearer {self.a.token}"}, {"X-AIO-API-Key": self.a.token}):
            self.assertEqual(self.a.call("GET", "/v1/agent", None, headers)[0], 200)


class Neighbours(Attempt):
    def test_files_and_shared_memory(self):
        mark = f"escape-{secrets.token_hex(8)}"
        key = secrets.randbits(30)
        self.a.run("root", "sh", "-c", f"for d in /tmp /workspace /var/tmp /root /etc /run /home/user; do"
                                       f" echo {mark} > $d/{mark}; done")
        self.assertEqual(len(set(self.a.probe("root", "grep_tree", mark, ["/", "/tmp"]))), 7)
        self.assertEqual(self.b.probe("root", "grep_tree", mark, ["/", "/tmp", "/dev"]), [])
        self.assertEqual(self.a.probe("root", "leave_shared", key, mark), [True] * 4)
        self.assertEqual(self.a.probe("root", "find_shared", key, mark), [True] * 3)
        self.assertEqual(self.b.probe("root", "find_shared", key, mark), [False] * 3)
        self.assertEqual(on_host("find_shared", key, mark), [False] * 3)
        self.a.probe("root", "drop_shared", key, mark)

    @on_this_kernel
    def test_users_are_others_on_the_host(self):
        starts = set()
        for box in (self.a, self.b):
            for kind in ("uid_map", "gid_map"):
                inside, outside, count = pathlib.Path(f"/proc/{box.pid}/{kind}").read_text().split()
                self.assertEqual((inside, count), ("0", "65536"))
                self.assertGreaterEqual(int(outside), 65536)
            starts.add(outside)
        self.assertEqual(len(starts), 2)

    @on_this_kernel
    def test_usr_is_not_shared_with_others(self):
        """Neither who opens what there is seen by a box, nor do its locks hinder anybody."""
        name = "sha224sum"
        watcher = self.a.start_probe("user", ["watch", "/usr/bin", HOLD_S / 2, name, "ready"])
        wait_until(lambda: "ready" in self.a.output(watcher), "it watches")
        subprocess.run([f"/usr/bin/{name}", "/dev/null"], stdout=subprocess.DEVNULL, check=True)
        self.b.run("user", f"/usr/bin/{name}", "/dev/null")
        self.assertEqual(results(self.a.finish(watcher)), [False])
        holder = self.a.start_probe("user", ["hold_lock", f"/usr/bin/{name}", HOLD_S, "held"])
        wait_until(lambda: "held" in self.a.output(holder), "it holds the lock")
        self.assertEqual(subprocess.run(["flock", "-n", f"/usr/bin/{name}", "true"]).returncode, 0)
        self.assertEqual(self.b.run("user", "flock", "-n", f"/usr/bin/{name}", "echo", "got"), "got\n")


class Removal(Attempt):
    def test_what_a_box_leaves(self):
        outside = tmpdir(self, "sandpool-escape-")
        (outside / "kept").write_text("kept")
        for profile, depth, count in (("default", 1000, 10000), ("disk", 100, 500)):
            box = self.world.box(f"litter-{profile}", profile=profile)
            for user, where in (("user", "/workspace"), ("root", "/root")):
                seen = box.probe(user, "litter", where, str(outside), depth, count)
                self.assertRefused(seen, {"EPERM", "ENOTTY", "ENOTSUP"})
            start = time.monotonic()
            self.world.destroy(box)
            self.assertLess(time.monotonic() - start, at_most(20))
            self.assertEqual((outside / "kept").read_text(), "kept")
        self.assertEqual(self.a.call("GET", "/healthz")[0], 200)


if __name__ == "__main__":
    main()
