"""What the tests of sandpool-helper share: a state directory, plans, boxes, and a look at what is left on the machine."""

import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from testlib import BIN, IS_SANITIZED, WAIT_S, at_most, is_alive, main, tmpdir, skip, wait_until  # noqa: E402

__all__ = ["AGENT", "BIN", "HELPER", "ID_BASE", "IS_SANITIZED", "TOKEN", "WAIT_S", "Box", "Failure", "HelperTest", "at_most",
           "descriptors", "is_alive", "kill", "loops", "main", "tmpdir", "processes", "skip", "wait_until", "why_not"]

HELPER = str(BIN / "sandpool-helper")
AGENT = str(BIN / "sandpool-agent")
TOKEN = "test-token"
ID_BASE = 1610612736
USER = 1000
CAPS = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"]


def why_not():
    if os.geteuid() != 0:
        return "boxes need root"
    if shutil.which("runc") is None:
        return "runc is not installed"
    return None


def loops():
    """Loop devices in use, by the file behind them."""
    found = {}
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found[path.parts[3]] = path.read_text().strip()
        except OSError:
            pass
    return found


def processes(text):
    """Processes whose arguments or root hold this text."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line and int(path.name) != os.getpid():
            found.append((int(path.name), line))
    return found


def descriptors(pid):
    """What a process has open, by number."""
    found = {}
    for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found[int(path.name)] = os.readlink(path)
        except OSError:
            pass
    return found


class Failure(Exception):
    def __init__(self, status, text):
        super().__init__(f"status {status}: {text}")
        self.status = status
        self.text = text


class Box:
    def __init__(self, plan, port, pid):
        self.plan = plan
        self.dir = pathlib.Path(plan["dir"])
        self.port = port
        self.pid = pid

    def relay(self):
        found = [pid for pid, line in processes(str(self.dir)) if line.startswith("sandpool-helper relay ")]
        return found[0] if len(found) == 1 else found

    def call(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            c.request(method, path, None if body is None else json.dumps(body),
                      {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
            r = c.getresponse()
            return r.status, json.loads(r.read())
        finally:
            c.close()

    def sh(self, command):
        """Standard output and error of a command in the box, and its exit code."""
        status, answer = self.call("POST", "/v1/bash/exec", {"command": command})
        if status != 200:
            raise AssertionError(f"{status} {answer}")
        d = answer["data"]
        return (d.get("stdout") or "") + (d.get("stderr") or ""), d["exit_code"]


class HelperTest(unittest.TestCase):
    """At the end of each test nothing may be left: mounts, loop devices, cgroups, files, processes."""

    @classmethod
    def setUpClass(cls):
        if why_not():
            skip(why_not())
        cls.state = pathlib.Path(tempfile.mkdtemp(prefix="sandpool-hands-"))
        cls.base_plan = {"dir": str(cls.state / "base"), "user": "user", "user_id": USER}
        cls.base = cls.state / "base" / json.loads(cls.run_helper("base", cls.base_plan).stdout)["digest"]
        (cls.state / "boxes").mkdir()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.state)

    def setUp(self):
        self.instance = f"sandpool-test{os.getpid()}"
        self.runtime_root = self.state / "runc"
        self.plans = []
        self.addCleanup(self.check_nothing_left)
        self.addCleanup(self.remove_all)

    def remove_all(self):
        failures = []
        for plan in self.plans:
            try:
                self.remove(plan)
            except Failure as e:
                failures.append(e)
        self.assertEqual(failures, [])

    def cgroups(self, name=""):
        return [str(p) for p in pathlib.Path("/sys/fs/cgroup").glob(f"*/{self.instance}{name}") if p.is_dir()]

    def host_mounts(self):
        """What boxes mount, where it must not be seen."""
        lines = pathlib.Path("/proc/self/mounts").read_text().splitlines()
        return [line for line in lines if line.startswith("sandpool ") or str(self.state) in line]

    def check_nothing_left(self):
        for path in self.cgroups():
            os.rmdir(path)  # the parent; fails when a box's is left
        self.assertEqual(self.host_mounts(), [])
        self.assertEqual({k: v for k, v in loops().items() if str(self.state) in v}, {})
        self.assertEqual(list((self.state / "boxes").iterdir()), [])
        if self.runtime_root.exists():
            self.assertEqual(list(self.runtime_root.iterdir()), [])
        self.assertEqual(processes(str(self.state)), [])

    @staticmethod
    def run_helper(verb, plan, **args):
        text = plan if isinstance(plan, str) else json.dumps(plan)
        return subprocess.run([HELPER, verb], input=text, capture_output=True, text=True, timeout=WAIT_S,
                              check=False, **args)

    def help(self, verb, plan, **args):
        done = self.run_helper(verb, plan, **args)
        if done.returncode != 0:
            raise Failure(done.returncode, done.stderr)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def spec(self, name, args=None, memory=512 << 20):
        ids = [{"containerID": 0, "hostID": ID_BASE, "size": 65536}]
        kinds = ("pid", "ipc", "uts", "mount", "network", "cgroup", "user")
        quiet = ["nosuid", "noexec", "nodev"]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "terminal": False, "user": {"uid": 0, "gid": 0}, "cwd": "/", "noNewPrivileges": True,
                "args": args or ["/.sandpool/agent", "--channel-fd", "3", "--user", "user", "--workdir",
                                 "/workspace", "--detach-stdio"],
                "env": ["PATH=/usr/bin:/bin:/usr/sbin:/sbin", f"SANDPOOL_AGENT_TOKEN={TOKEN}", "HOME=/root"],
                "capabilities": {k: CAPS for k in ("bounding", "effective", "permitted")}},
            "root": {"path": "/mnt/rootfs", "readonly": False}, "hostname": name,
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                 "options": ["nosuid", "mode=755", "size=65536k"]},
                {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
                 "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]},
                {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": [*quiet, "mode=1777"]},
                {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*quiet, "ro"]},
                {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": [*quiet, "ro"]}],
            "linux": {
                "cgroupsPath": f"/{self.instance}/{name}",
                "resources": {"memory": {"limit": memory}, "pids": {"limit": 256}},
                "namespaces": [{"type": t} for t in kinds], "uidMappings": ids, "gidMappings": ids,
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/sys/firmware"],
                "readonlyPaths": ["/proc/sys", "/proc/bus"]}}

    def plan(self, name, spec=None, **more):
        box = self.state / "boxes" / name
        root = ["/usr/sbin/runc", "--root", str(self.runtime_root)]
        plan = {
            "dir": str(box), "record": json.dumps({"id": name}), "spec": json.dumps(spec or self.spec(name)),
            "stage": "/mnt", "lower": str(self.base), "map_lower": True, "id_base": ID_BASE, "id_count": 65536,
            "disk": 0, "disk_template": "", "user_id": USER,
            "owned": [{"path": "/workspace", "id": USER, "mode": 0o755},
                      {"path": "/srv/own/deep", "id": USER, "mode": 0o700}],
            "files": [{"path": "/etc/hosts", "text": f"127.0.0.1 localhost {name}\n"}],
            "binds": [{"from": "/usr", "to": "/usr", "ro": True},
                      {"from": AGENT, "to": "/.sandpool/agent", "ro": True}],
            "mounts": [], "allow": [],
            "runtime": [*root, "run", "--detach", "--preserve-fds", "1", "--pid-file", str(box / "pid"),
                        "--bundle", str(box), name],
            "delete": [*root, "delete", "--force", name],
            "cgroup": f"/{self.instance}/{name}", "runtime_state": str(self.runtime_root / name), **more}
        self.plans.append(plan)
        return plan

    def disk(self, size):
        """The fields of a plan for a disk of this size."""
        return {"disk": size, "disk_template": str(self.state / f"disk-{size}")}

    def remove(self, plan):
        return self.help("remove", {k: plan[k] for k in ("dir", "delete", "cgroup", "runtime_state") if k in plan})

    def listen(self):
        s = socket.socket()
        self.addCleanup(s.close)
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        return s

    def start(self, plan):
        """`sandpool-helper run` with a listening socket as descriptor 3."""
        s = self.listen()
        p = subprocess.Popen(
            ["bash", "-c", f'exec "$0" run 3<&{s.fileno()}', HELPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, pass_fds=[s.fileno()])
        p.port = s.getsockname()[1]
        p.socket = s
        return p

    def box(self, name, **more):
        plan = self.plan(name, **more)
        return self.box_of(plan)

    def box_of(self, plan):
        p = self.start(plan)
        out, err = p.communicate(json.dumps(plan), timeout=WAIT_S)
        p.socket.close()
        if p.returncode != 0:
            raise Failure(p.returncode, err)
        self.assertEqual(err, "")
        return Box(plan, p.port, json.loads(out)["pid"])


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
