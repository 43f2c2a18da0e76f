# The rules of src/backends/oci/spec.c and seccomp.c in real boxes, one per case, with each runtime found on
# this machine: what holds on paper must hold inside. runsc shows that it takes the text. Needs root.
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib"))
from testlib import BIN, main  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
STAGE = "/mnt"
USER_NS = STAGE + "/user_ns"
ID_BASE = 1610612736
GROUP = "sandpool-test-%d" % os.getpid()
RUNTIMES = [r for r in ("runc", "crun") if shutil.which(r)]
PYTHON = os.path.realpath("/usr/bin/python3")
CONTROLLERS = "/sys/fs/cgroup"
KEPT = sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 10, 18, 31))  # capabilities
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 0x20, 0x1000, 0x4000, 0x40000

libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, flags, data=None):
    enc = lambda s: s.encode() if s is not None else None
    if libc.mount(enc(source), enc(target), enc(kind), ctypes.c_ulong(flags), enc(data)) != 0:
        raise OSError(ctypes.get_errno(), "mount " + target)


def make_root(owner):
    """In the child, before the runtime: a tree that nobody outside sees."""
    if libc.unshare(0x20000) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    # crun does not take machines that show both versions of control groups: it sees the first only.
    libc.umount2(CONTROLLERS.encode() + b"/unified", 2)
    mount("tmpfs", STAGE, "tmpfs", 0, "mode=755")
    root = STAGE + "/rootfs"
    for d in ("", "/usr", "/etc", "/proc", "/dev", "/sys", "/tmp", "/home", "/.sandpool"):
        os.mkdir(root + d)
        os.chown(root + d, owner, owner)
    os.chmod(root + "/tmp", 0o1777)
    for d in ("bin", "lib", "lib64", "sbin"):
        if os.path.exists("/usr/" + d):
            os.symlink("usr/" + d, root + "/" + d)
    with open(root + "/etc/passwd", "w") as f:
        f.write("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
    for name in ("ld.so.cache", "alternatives"):
        source = "/etc/" + name
        if os.path.isdir(source):
            shutil.copytree(source, root + source, symlinks=True)
        elif os.path.exists(source):
            shutil.copy(source, root + source)
    shutil.copy(os.path.join(HERE, "inside.py"), root + "/inside.py")
    open(root + "/.sandpool/agent", "w").close()
    mount(PYTHON, root + "/.sandpool/agent", None, MS_BIND)
    mount("/usr", root + "/usr", None, MS_BIND)
    mount("/usr", root + "/usr", None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def has_swap_limit():
    return any(os.path.exists(CONTROLLERS + p) for p in ("/memory/memory.memsw.limit_in_bytes",
                                                         "/init.scope/memory.swap.max"))


def make_user_ns(owner):
    """As sandpool-helper does: made by the box's own id, kept at a path that the spec names."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.seteuid(owner)
        os.write(write, b"x" if libc.unshare(0x10000000) == 0 else b"-")
        signal.pause()
    made = os.read(read, 1)
    for name in ("uid_map", "gid_map"):
        with open("/proc/%d/%s" % (pid, name), "w") as f:
            f.write("0 %d 65536" % owner)
    open(USER_NS, "w").close()
    mount("/proc/%d/ns/user" % pid, USER_NS, None, MS_BIND)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if made != b"x":
        raise OSError("no user namespace")


def dirty_pages_are_known(directory):
    def count():
        counts = (ctypes.c_uint64 * 5)()
        return counts[1] if libc.syscall(451, f.fileno(), (ctypes.c_uint64 * 2)(0, 0), counts, 0) == 0 else 0

    with tempfile.TemporaryFile(dir=directory) as f:
        f.write(b"x" * 65536)
        f.flush()
        before = count()
        os.fsync(f.fileno())
        return before > 0 and count() == 0


class Box:
    count = 0

    def __init__(self, runtime, *flags):
        Box.count += 1
        self.runtime = runtime
        self.flags = list(flags)
        self.id = "rules-%d-%d" % (os.getpid(), Box.count)
        self.dir = "/tmp/sandpool-" + self.id

    def spec(self, parts, options):
        values = {"rootfs": STAGE + "/rootfs", "cgroup": "/%s/%s" % (GROUP, self.id), "id_base": ID_BASE,
                  "host_cpus": os.cpu_count(), "max_files": os.sysconf("SC_OPEN_MAX"),
                  "cgroup_v2": int(os.path.exists(CONTROLLERS + "/cgroup.controllers")),
                  "swap_limit": int(has_swap_limit())}
        values.update(options)
        argv = [str(BIN / "tests" / "print_spec")] + ["%s=%s" % v for v in values.items()]
        argv += ["--", "/inside.py"] + list(parts)
        return json.loads(subprocess.check_output(argv, timeout=10))

    def run(self, *parts, change=None, **options):
        """What each part found. `change` may spoil the spec first."""
        spec = self.spec(parts, options)
        if change:
            change(spec)
        os.mkdir(self.dir, 0o700)
        with open(self.dir + "/config.json", "w") as f:
            json.dump(spec, f)
        argv = [self.runtime, "--root", self.dir + "/state"] + self.flags
        owner = options.get("id_base", ID_BASE)

        def prepare():
            make_root(owner)
            if "user_ns" in options:
                make_user_ns(owner)

        try:
            r = subprocess.run(argv + ["run", "--bundle", self.dir, self.id], preexec_fn=prepare, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        finally:
            subprocess.run(argv + ["delete", "--force", self.id], timeout=30, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            shutil.rmtree(self.dir)
        if r.returncode != 0:
            raise AssertionError("%s: exit status %d\n%s%s" % (self.runtime, r.returncode,
                                                               r.stdout.decode(), r.stderr.decode()))
        return json.loads(r.stdout)


def remove_groups():
    for top in [CONTROLLERS] + [os.path.join(CONTROLLERS, d) for d in os.listdir(CONTROLLERS)]:
        for path, _, _ in os.walk(os.path.join(top, GROUP), topdown=False):
            os.rmdir(path)


class BoxRules:
    runtime = None

    @classmethod
    def tearDownClass(cls):
        remove_groups()

    def test_identity(self):
        quoted = "a \"quoted\" 'value' \\ $HOME é\nsecond line"
        found = Box(self.runtime).run("identity", env_name="QUOTED", env_value=quoted)["identity"]
        self.assertEqual(found["pid"], 1)
        self.assertEqual(found["uid_map"], ["0", str(ID_BASE), "65536"])
        self.assertEqual(found["gid_map"], ["0", str(ID_BASE), "65536"])
        for name in ("CapPrm", "CapEff", "CapBnd"):
            self.assertEqual(int(found["status"][name], 16), KEPT, name)
        for name in ("CapInh", "CapAmb"):
            self.assertEqual(int(found["status"][name], 16), 0, name)
        self.assertEqual(found["status"]["NoNewPrivs"], "1")
        self.assertEqual(found["status"]["Seccomp"], "2")
        files = min(65536, os.sysconf("SC_OPEN_MAX"))
        self.assertEqual(found["files"], [files, files])
        self.assertEqual(found["core"], [0, 0])
        self.assertGreaterEqual(int(found["oom_score_adj"]), 0)
        self.assertEqual(found["hostname"], "box")
        self.assertEqual(found["env"]["QUOTED"], quoted)
        self.assertEqual(found["env"]["SANDPOOL_AGENT_TOKEN"], "secret")
        self.assertEqual(found["interfaces"], ["lo"])
        self.assertEqual(found["processes"], ["1"])

    def test_user_namespace_of_the_boxs_own_id(self):
        both = [Box(self.runtime).run("identity", **o)["identity"] for o in ({}, {"user_ns": USER_NS})]
        for name in ("uid_map", "gid_map", "status", "interfaces", "mounts", "dev", "sysctl", "mknod", "oom_score_adj"):
            self.assertEqual(both[0][name], both[1][name], name)

    def test_what_is_hidden(self):
        with tempfile.TemporaryFile() as f:
            fcntl.flock(f, fcntl.LOCK_EX)  # so that the machine has one
            found = Box(self.runtime).run("identity")["identity"]
        self.assertLessEqual({found["kcore"], found["keys"], found["locks"]}, {"", "ENOENT"})
        self.assertIn(found["sysctl"], ("EROFS", "EACCES"))
        self.assertIn(found["sysrq"], ("EROFS", "EACCES", "ENOENT"))
        self.assertEqual(found["null"], "")
        self.assertEqual(found["mknod"], "EPERM")
        self.assertLess({"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd"},
                        set(found["dev"]))
        self.assertFalse({"kmsg", "mem", "fuse", "kvm", "loop-control"} & set(found["dev"]))
        options = {m[0]: m[1:] for m in found["mounts"]}
        self.assertEqual(options["/sys"][1], "sysfs")
        self.assertIn("ro", options["/sys"][0].split(","))
        self.assertIn("/dev/mqueue", options)
        self.assertNotIn("/tmp", options)
        for path, (flags, _) in options.items():
            if path.startswith("/sys"):
                self.assertIn("ro", flags.split(","), path)

    def test_network_host(self):
        found = Box(self.runtime).run("identity", network=1)["identity"]
        options = {m[0]: m[1:] for m in found["mounts"]}
        self.assertEqual(options["/sys"][1], "tmpfs")
        self.assertIn("ro", options["/sys"][0].split(","))

    def test_limits(self):
        found = Box(self.runtime).run("limits", memory=256 << 20, cpus=1000, pids=64, first_cpu=1)["limits"]
        self.assertEqual(found["nproc"], 1)
        self.assertEqual(found["affinity"], [1 % os.cpu_count()])
        self.assertLessEqual(set(found["write"]), {"EROFS"})
        if "memory/memory.limit_in_bytes" in found:
            self.assertEqual(found["memory/memory.limit_in_bytes"], str(256 << 20))
            if has_swap_limit():
                self.assertEqual(found["memory/memory.memsw.limit_in_bytes"], str(256 << 20))
            self.assertEqual(found["pids/pids.max"], "64")
            self.assertEqual(found["cpu/cpu.cfs_quota_us"], "100000")
            self.assertIn("oom_kill 0", found["memory/memory.oom_control"])
        else:
            self.assertEqual(found["memory.max"], str(256 << 20))
            self.assertEqual(found["pids.max"], "64")
            self.assertEqual(found["cpu.max"], "100000 100000")
            self.assertIn("oom_kill 0", found["memory.events"])

    def test_no_limits(self):
        self.assertEqual(Box(self.runtime).run("limits")["limits"]["nproc"], len(os.sched_getaffinity(0)))

    def test_refused(self):
        found = Box(self.runtime).run("refused")["refused"]
        for who in ("root", "user"):
            for name, outcome in found[who].items():
                self.assertIn(outcome, ("EPERM", "ENOSYS"), "%s as %s" % (name, who))
        self.assertEqual(found["user"]["clone3"], "ENOSYS")
        self.assertEqual(found["user"]["io_uring_setup"], "ENOSYS")
        self.assertEqual(found["trace_init"], "EPERM")

    def test_it_is_the_list_that_refuses(self):
        """Without it the same attempts end otherwise, so the test above sees the list at work."""
        found = Box(self.runtime).run("refused", change=lambda spec: spec["linux"].pop("seccomp"))["refused"]["user"]
        for name in ("mount", "setns", "clone3", "unshare_user", "clone_user", "keyctl",
                     "add_key", "io_uring_setup", "name_to_handle_at", "tiocsti", "tiocsti_high",
                     "personality_odd", "setd_0", "setd_100000000", "ioctl_8982", "ioctl_100008982"):
            self.assertNotIn(found[name], ("EPERM", "ENOSYS"), name)

    def test_sync_does_nothing(self):
        """It would wait for every file system of the machine."""
        disk = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, disk)
        os.chmod(disk, 0o777)
        if not dirty_pages_are_known(disk):
            self.skipTest("no cachestat, or a file system of another kind")

        def with_disk(spec):
            spec["mounts"].append({"destination": "/disk", "type": "bind", "source": disk, "options": ["bind"]})

        def without_list(spec):
            with_disk(spec)
            spec["linux"].pop("seccomp")

        for change, wanted in ((with_disk, "left"), (without_list, "written")):
            self.assertEqual(set(Box(self.runtime).run("sync", change=change)["sync"]), {wanted})

    def test_allowed(self):
        found = Box(self.runtime).run("allowed")["allowed"]
        self.assertEqual(found, {"unshare_files": "done", "personality": "done", "winsize": 8, "pair": "x",
                                 "families": [2, 10, 16]})

    def test_no_programs_for_the_kernel(self):
        found = Box(self.runtime).run("kernel_programs")["kernel_programs"]
        refused = found["refused"]
        # Answers of a kernel without filters, after which programs go on without.
        self.assertEqual(refused.pop("seccomp"), "ENOSYS")
        self.assertEqual([refused.pop("prctl"), refused.pop("prctl_high")], ["EINVAL"] * 2)
        self.assertEqual(set(refused.values()), {"EPERM"}, refused)
        self.assertEqual(set(found["allowed"].values()), {"done"}, found["allowed"])
        self.assertFalse(found["lingers"])  # accepted, and without effect
        self.assertFalse(found["pressure"])

    def test_programs(self):
        found = Box(self.runtime).run("programs", memory=1 << 30, pids=256)["programs"]
        self.assertNotIn("failed", found)
        old = found.pop("old_calls", None)
        for name, (code, text) in found.items():
            self.assertEqual(code, 0, "%s: %s" % (name, text))
        for name in ("bash", "python3", "node"):
            self.assertEqual(found.get(name, [0, "42\n"])[1], "42\n")
        # socketcall: ENOSYS; its direct form with AF_VSOCK: EPERM; unshare: EPERM; getpid works; setsockopt
        # with SO_ATTACH_FILTER: EPERM, with SO_REUSEADDR: EBADF
        if old is not None and old[0] == 0:
            self.assertEqual(old[1].split(), ["-38", "-1", "-1", "1", "-1", "-9"])


@unittest.skipUnless(shutil.which("runsc"), "no runsc")
class TestRunsc(unittest.TestCase):
    """A kernel of its own instead of namespaces and the list: it takes the same text, without ids."""

    def test_accepted(self):
        self.addCleanup(remove_groups)
        box = Box("runsc", "--network=none", "--platform=ptrace")
        found = box.run("identity", "limits", "allowed", id_base=0, memory=256 << 20, cpus=1000, pids=100)
        identity = found["identity"]
        self.assertEqual([identity["pid"], identity["hostname"]], [1, "box"])
        self.assertEqual(int(identity["status"]["CapEff"], 16), KEPT)
        self.assertEqual(int(identity["status"]["CapBnd"], 16), KEPT)
        self.assertEqual(identity["interfaces"], ["lo"])
        self.assertEqual(identity["processes"], ["1"])
        self.assertEqual(identity["env"]["SANDPOOL_AGENT_TOKEN"], "secret")
        self.assertIn(identity["sysctl"], ("EROFS", "EACCES", "EPERM"))
        self.assertEqual(found["allowed"]["families"], [2, 10, 16])


for name in RUNTIMES:
    globals()["Test_" + name] = type("Test_" + name, (BoxRules, unittest.TestCase), {"runtime": name})

if __name__ == "__main__":
    if os.getuid() != 0 or not RUNTIMES:
        print("needs root and a runtime (runc or crun)")
        sys.exit(77)
    main()
