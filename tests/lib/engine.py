"""A Docker engine (or Podman's service, which speaks the same API) of our own for one test: started with its own
directories, socket and bridge, filled with one small image, and taken away again with everything it left.
`engine.py docker|podman PROGRAM [ARGUMENT]...` runs a program beside it, which finds it in SANDPOOL_TEST_DOCKER."""

import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

from testlib import UnixConnection as Connection
from testlib import at_most, skip

IMAGE = "sandpool-test:1"
START_S = 60
STOP_S = 40


# Everything an engine makes outside its own directories goes with these namespaces, also when the test is killed:
# processes, mounts, bridges, packet filter. In a shared /run/netns another Podman removes what this one has. Whoever asks
# Podman for its version makes it ask dpkg whose files its programs are, which searches all packages: here there is no dpkg.
# The shell is their first process and reaps orphans.
ISOLATION = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation",
             "private", "/bin/sh", "-c", 'ip link set lo up && mount -t tmpfs tmpfs /dev/shm && mkdir -p /run/netns && '
             'mount -t tmpfs tmpfs /run/netns && for tool in dpkg dpkg-query; do '
             '[ ! -e /usr/bin/$tool ] || mount --bind /bin/false /usr/bin/$tool || exit 1; done && "$@"; exit $?', "sh"]


def isolate():
    """Runs this program again, in namespaces of its own; where there are none, it goes on without."""
    if os.geteuid() != 0 or "SANDPOOL_TEST_ISOLATED" in os.environ:
        return
    tried = subprocess.run([*ISOLATION, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30,
                           check=False)
    os.environ["SANDPOOL_TEST_ISOLATED"] = "yes" if tried.returncode == 0 else "no"
    if tried.returncode == 0:
        sys.stdout.flush()
        os.execvp(ISOLATION[0], [*ISOLATION, sys.executable, *sys.orig_argv[1:]])


def is_possible(kind="docker"):
    """None, or why there can be no engine here."""
    if os.geteuid() != 0:
        return "not root"
    for program in ("podman" if kind == "podman" else "dockerd", "runc", "ip", "busybox"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None


def image_tar():
    """busybox with a few of its names, a user and a place to work."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        def directory(name, mode=0o755, uid=0):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, uid, uid
            tar.addfile(entry)

        def text(name, data, mode=0o644):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))

        for name in ("bin", "etc", "root", "home"):
            directory(name)
        directory("tmp", 0o1777)
        directory("home/ann", uid=1000)
        directory("place", uid=1000)
        text("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000:Ann:/home/ann:/bin/sh\n")
        text("etc/group", b"root:x:0:\nann:x:1000:\n")
        with open(shutil.which("busybox"), "rb") as f:
            text("bin/busybox", f.read(), 0o755)
        for name in ("sh", "cat", "id", "sleep", "ls", "env", "pwd", "true"):
            entry = tarfile.TarInfo("bin/" + name)
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return out.getvalue()


# Podman asks for limits that only a process with CAP_SYS_RESOURCE can set. It runs this several times for a container, so
# no interpreter is started: Podman writes its specification without spaces, and no list is in that of limits.
RUNTIME_WITHOUT_LIMITS = r"""#!/bin/sh
bundle= word= last=
for last; do
    case $word in --bundle) bundle=$last ;; esac
    case $last in create) is_create=yes ;; esac
    word=$last
done
[ -z "$is_create" ] || echo "$last" >>"${0%/*}/made"
[ -z "$bundle" ] || sed -i 's/"rlimits":\[[^]]*\]/"rlimits":[]/' "$bundle/config.json"
exec runc "$@"
"""


def static_agent(bin_dir):
    """The agent of a build with sanitizers needs libraries that images lack: then that of the build beside it."""
    bin_dir = pathlib.Path(bin_dir)
    wanted = os.environ.get("SANDPOOL_TEST_AGENT")
    for path in [pathlib.Path(wanted)] if wanted else [bin_dir / "sandpool-agent", bin_dir.parent / "dev/sandpool-agent"]:
        if path.exists() and b"/ld-linux" not in path.read_bytes()[:4096]:
            return path.resolve()
    return skip(f"no static sandpool-agent in {bin_dir}, nor in ../dev")


def is_process(pid_file):
    try:
        pid = pathlib.Path(pid_file).read_text().strip()
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def remove_group(path):
    """With what still runs in it: the containers of an engine that was killed."""
    try:
        for pid in (path / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        path.rmdir()
    except OSError:
        pass  # tried again


class Engine:
    has_fixed_bridge = True

    def __init__(self, kind="docker", options=()):
        self.kind = kind
        self.options = list(options)

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="sandpool-engine-", dir="/tmp")
        if os.environ.get("SANDPOOL_TEST_ISOLATED") == "yes":
            # An engine waits for the disk many times for each container, which is nothing that is tested here.
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.dir], check=True, timeout=10)
        self.bridge = "spt" + os.urandom(4).hex()
        self.socket = self.dir + "/socket"
        self.address = "unix://" + self.socket
        self.process = None
        try:
            if self.kind == "docker":
                self.make_bridge()
            self.start_first()
            self.import_image()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_first(self):
        """On a machine that lets no engine run there is nothing to test."""
        try:
            self.start()
        except RuntimeError as problem:
            skip(f"{self.kind} does not start here: {str(problem)[-300:]!r}")

    def make_bridge(self):
        """With a hardware address of its own, as an engine gives to those it makes. A bridge without one takes the
        lowest of what is attached to it. When that container goes, what the others send to the old address is lost until
        they ask anew; the kernel sends an answer again after 0.2, 0.4, 0.8 ... seconds."""
        number = os.urandom(1)[0]
        address = ["address", "02:42:" + os.urandom(4).hex(":")] if self.has_fixed_bridge else []
        for words in (["link", "add", self.bridge, *address, "type", "bridge"],
                      ["addr", "add", f"10.213.{number}.1/24", "dev", self.bridge],
                      ["link", "set", self.bridge, "up"]):
            subprocess.run(["ip", *words], check=True, timeout=10)

    def start(self):
        for left in ("/pid", "/exec/containerd/containerd.pid"):  # of one that was killed
            if not is_process(self.dir + left):
                pathlib.Path(self.dir + left).unlink(missing_ok=True)
        with open(self.dir + "/log", "ab") as log:
            self.spawn(log)
        start = time.monotonic()
        while True:
            try:
                if self.call("GET", "/_ping")[0] == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() - start > at_most(START_S):
                with open(self.dir + "/log") as f:
                    raise RuntimeError("the engine does not start:\n" + f.read()[-2000:])
            time.sleep(0.05)

    def spawn(self, log):
        env = {"GOGC": "400", **os.environ, "TMPDIR": self.dir}  # Podman leaves files there
        self.process = subprocess.Popen(self.podman() if self.kind == "podman" else self.dockerd(),
                                        stdout=log, stderr=log, start_new_session=True, env=env)

    def podman(self):
        runtime = pathlib.Path(self.dir + "/runc")
        runtime.write_text(RUNTIME_WITHOUT_LIMITS)
        runtime.chmod(0o755)
        return ["podman", "--root", self.dir + "/data", "--runroot", self.dir + "/run", "--tmpdir", self.dir + "/tmp",
                "--runtime", str(runtime), "--cgroup-manager", "cgroupfs", "--events-backend", "file",
                "--network-config-dir", self.dir + "/net", "system", "service", "--time", "0", self.address]

    def dockerd(self):
        # The ports go through the engine's own proxy: no rule of the machine's packet filter is touched.
        return ["dockerd", "--data-root", self.dir + "/data", "--exec-root", self.dir + "/exec",
                "--pidfile", self.dir + "/pid", "-H", self.address, "--bridge", self.bridge,
                "--iptables=false", "--ip-masq=false", "--ip-forward=false",
                "--cgroup-parent", "/" + self.bridge, *self.options]

    def remove_groups(self):
        """Podman leaves those of its containers, in one that is for all engines of the machine."""
        names = [self.bridge]
        made = pathlib.Path(self.dir + "/made")
        if self.kind == "podman" and made.exists():
            names = [f"libpod_parent/libpod-{one}" for one in made.read_text().split()]
        tops = [pathlib.Path("/sys/fs/cgroup"), *pathlib.Path("/sys/fs/cgroup").glob("*/")]
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            groups = [p for top in tops for name in names for p in sorted((top / name).glob("**/"), reverse=True)]
            if not groups:
                break
            for group in groups:
                remove_group(group)
            time.sleep(0.02)
        for top in tops if self.kind == "podman" else []:
            try:
                (top / "libpod_parent").rmdir()
            except OSError:
                pass  # not there, or of others, too

    def call(self, method, path, body=None, kind="application/json", timeout=60):
        c = Connection(self.socket, timeout)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            c.request(method, path, data, {"Content-Type": kind} if data is not None else {})
            answer = c.getresponse()
            return answer.status, answer.read()
        finally:
            c.close()

    def json(self, method, path, body=None):
        status, data = self.call(method, path, body)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {data[:200]}")
        return json.loads(data) if data else None

    def import_image(self):
        status, data = self.call(
            "POST", "/images/create?fromSrc=-&repo=sandpool-test&tag=1&changes=USER%20ann&changes=WORKDIR%20/place",
            image_tar(), "application/x-tar")
        assert status == 200 and b"error" not in data, data
        if self.kind == "podman":  # it forgets the tag
            self.call("POST", "/images/sandpool-test:latest/tag?repo=sandpool-test&tag=1")

    def stop(self, signum=signal.SIGTERM):
        self.process.send_signal(signum)
        self.process.wait(STOP_S)

    def volumes(self):
        """Without those whose labels the engine lost when it was killed: nobody knows whose they were."""
        return [v for v in self.json("GET", "/volumes")["Volumes"] or [] if v["Labels"]]

    def left(self):
        """Containers and volumes that the test has left with the engine."""
        containers = self.json("GET", "/containers/json?all=1")
        return [c["Names"] for c in containers] + [v["Name"] for v in self.volumes()]

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.kill_strays()
        with open("/proc/self/mountinfo") as f:
            mounts = [line.split()[4] for line in f]
        for path in reversed([m for m in mounts if m == self.dir or m.startswith(self.dir + "/")]):
            subprocess.run(["umount", "-l", path], check=False, timeout=10)
        if self.kind == "docker":
            subprocess.run(["ip", "link", "del", self.bridge], check=False, timeout=10,
                           stderr=subprocess.DEVNULL)
        self.remove_groups()
        shutil.rmtree(self.dir, ignore_errors=True)

    def kill_strays(self):
        """What names our directory in its command line: containerd and its shims, when dockerd was killed, and Podman's
        programs that clean up behind a container, which would make the directory again."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    words = f.read().decode(errors="replace").split("\0")
            except OSError:
                continue
            is_of_engine = any(name in words[0] for name in ("containerd", "conmon", "podman"))
            if is_of_engine and any(w.startswith(self.dir + "/") for w in words):
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass


def main():
    kind = sys.argv[1]
    why = is_possible(kind)
    if why is not None:
        print(f"SKIPPED: no {kind} can run here: {why}", file=sys.stderr)
        return 77
    try:
        with Engine(kind) as engine:
            return run_beside(engine)
    except unittest.SkipTest:
        return 77


def run_beside(engine):
    env = dict(os.environ, SANDPOOL_TEST_DOCKER=engine.address)
    code = subprocess.run(sys.argv[2:], env=env, check=False).returncode
    left = engine.left()
    if left:
        print(f"left with the engine: {left}", file=sys.stderr)
        code = code or 1
    return code


if __name__ == "__main__":
    isolate()
    sys.exit(main())
