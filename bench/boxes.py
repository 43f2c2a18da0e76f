"""Rows on real boxes (backend oci). Each compares with the bare thing in the same run, taking turns."""

import concurrent.futures
import ctypes
import glob
import http.client
import json
import os
import shutil
import statistics
import subprocess
import time

from measure import BIN, Daemon, Failed, call

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_RDONLY, MS_BIND, MS_REC, MS_REMOUNT, MS_SLAVE = 0x20000, 1, 0x1000, 0x4000, 0x20, 0x80000
CONFIG = """log: {{level: warn}}
pool: {{max_boxes: {max_boxes}, reconcile_interval_s: 3600}}
profiles:
  default:
    backend: {backend}
    warm: {{min: {warm}, max: {warm}, shrink_after_s: 3600}}
    create: {{concurrency: 4}}
    sim: {{create_ms: 0, create_jitter_ms: 0, destroy_ms: 0}}
"""


def daemon(b, name, warm=0, backend="oci", max_boxes=400):
    d = Daemon(b, name, CONFIG.format(backend=backend, warm=warm, max_boxes=max_boxes), "--destroy-on-exit")
    return d.start_ready(blank=warm)


def acquire(d, **fields):
    status, lease = call(d.socket, "POST", "/v1/acquire", {"wait_ms": 60000, **fields})
    if status != 200:
        raise Failed(f"acquire: {lease}")
    return lease


def destroy(d, lease):
    call(d.socket, "DELETE", f"/v1/sandboxes/{lease['sandbox_id']}")


def destroy_all(d, leases):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda lease: destroy(d, lease), leases))


class Agent:
    """One kept connection to the agent of a box."""

    def __init__(self, lease):
        host, _, base = lease["sandbox_url"].split("//")[1].partition("/")
        self.connection = http.client.HTTPConnection(host, timeout=60)
        self.base = "/" + base if base else ""
        self.headers = {"Authorization": f"Bearer {lease['token']}"} if "token" in lease else {}

    def call(self, method, target, body=None, headers=None):
        self.connection.request(method, self.base + target, body, {**self.headers, **(headers or {})})
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status not in (200, 201):
            raise Failed(f"{target}: {answer.status} {data[:200]}")
        return data

    def bash(self, command):
        return json.loads(self.call("POST", "/v1/bash/exec", json.dumps({"command": command}),
                                    {"Content-Type": "application/json"}))["data"]


# ---- cold ----------------------------------------------------------------------------------------


def mount(source, target, kind=None, flags=0, options=None):
    if LIBC.mount(source.encode(), target.encode(), kind and kind.encode(), flags,
                  options and options.encode()) != 0:
        raise Failed(f"mount {target}: {os.strerror(ctypes.get_errno())}")


class Bare:
    """The bundle of a real box, started by the runtime alone. The file system is put together beforehand and does
    not count; nor does what the agent does after the runtime has returned."""

    def __init__(self, b, d, runtime):
        lease = acquire(d)
        box = os.path.join(d.base + ".state", "oci", "boxes", lease["box_id"])
        with open(os.path.join(box, "config.json"), encoding="utf-8") as f:
            self.spec = json.load(f)
        destroy(d, lease)
        self.dir = os.path.join(b.dir, "bare")
        self.runtime = runtime
        self.lower = [p for p in sorted(os.scandir(os.path.join(d.base + ".state", "oci", "base")), key=lambda e: e.name)
                      if p.is_dir()][0].path
        self.stage = os.path.dirname(self.spec["root"]["path"])
        self.agent = os.path.join(os.path.realpath(BIN), "sandpool-agent")
        self.base_id = self.spec["linux"]["uidMappings"][0]["hostID"]
        self.leave_out_helpers()

    def leave_out_helpers(self):
        """What other processes of ours do for a box: its user namespace, its sockets, its limits of files."""
        for namespace in self.spec["linux"]["namespaces"]:
            if namespace["type"] == "user":
                namespace.pop("path", None)
        seccomp = self.spec["linux"]["seccomp"]
        seccomp.pop("listenerPath", None)
        seccomp.pop("listenerMetadata", None)
        for rule in seccomp["syscalls"]:
            if rule["action"] == "SCMP_ACT_NOTIFY":
                rule["action"] = "SCMP_ACT_ALLOW"

    def prepare(self, name):
        bundle = os.path.join(self.dir, name)
        for part in ("upper", "work"):
            os.makedirs(os.path.join(bundle, part))
        os.chown(os.path.join(bundle, "upper"), self.base_id, self.base_id)
        self.spec["linux"]["cgroupsPath"] = f"/sandpool-bench/{name}"
        self.spec["process"]["args"] = ["/.sandpool/agent", "--port", "0"]
        with open(os.path.join(bundle, "config.json"), "w", encoding="utf-8") as f:
            json.dump(self.spec, f)
        root = os.path.join(self.stage, "rootfs")
        mount("bench", self.stage, "tmpfs", 0, "mode=0755")
        os.mkdir(root)
        mount("bench", root, "overlay", 0,
              f"lowerdir={self.lower},upperdir={bundle}/upper,workdir={bundle}/work")
        mount("/usr", root + "/usr", None, MS_BIND | MS_REC)
        mount("/usr", root + "/usr", None, MS_BIND | MS_REMOUNT | MS_RDONLY)
        with open(root + "/.sandpool/agent", "w", encoding="ascii"):
            pass
        mount(self.agent, root + "/.sandpool/agent", None, MS_BIND)
        return bundle

    def run_one(self, name, writer):
        """In a child with a mount namespace of its own."""
        if LIBC.unshare(CLONE_NEWNS) != 0:
            raise Failed("unshare")
        mount("none", "/", None, MS_REC | MS_SLAVE)
        bundle = self.prepare(name)
        command, log = [self.runtime, "--root", os.path.join(self.dir, "root")], os.path.join(bundle, "log")
        # The box keeps the descriptors, so none of them may be a pipe that somebody waits for.
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        begin = time.monotonic()
        done = subprocess.run([*command, "--log", log, "run", "--detach", "--bundle", bundle, name], **quiet,
                              check=False, timeout=30)
        taken = time.monotonic() - begin
        with open(log, encoding="utf-8", errors="replace") as f:
            os.write(writer, json.dumps([done.returncode, taken, f.read()[-300:]]).encode())
        subprocess.run([*command, "delete", "--force", name], **quiet, check=False, timeout=30)

    def time(self, name):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reader)
                self.run_one(name, writer)
            except BaseException as e:  # the parent reports it
                os.write(writer, json.dumps([1, 0, repr(e)]).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as f:
            code, taken, text = json.loads(f.read())
        os.waitpid(pid, 0)
        shutil.rmtree(os.path.join(self.dir, name), ignore_errors=True)
        if code != 0:
            raise Failed(f"bare {self.runtime}: {text}")
        return taken


def runtime_of(d):
    for finding in call(d.socket, "GET", "/v1/doctor")[1]["backends"][0]["findings"]:
        if finding["subject"].startswith("runtime ") and "used where" in finding["text"]:
            return finding["text"].split(" ")[0]
    raise Failed("no runtime works here: sandpool doctor shows why")


def bench_cold(b):
    d = daemon(b, "cold")
    runtime = runtime_of(d)
    bare, ours, plain = Bare(b, d, runtime), [], []
    for i in range(25 if b.scale >= 1 else 8):
        plain.append(bare.time(f"bare{i}"))
        begin = time.monotonic()
        lease = acquire(d)
        ours.append(time.monotonic() - begin)
        if lease["source"] != "cold":
            raise Failed("a box was not made for its acquire")
        destroy(d, lease)
    a, z = statistics.median(plain), statistics.median(ours)
    b.row(f"cold box, acquire to answer / {os.path.basename(runtime)} run of its bundle (n={len(ours)})",
          f"{z / a:.2f} ({z * 1000:.0f} / {a * 1000:.0f} ms)", "<= 1.3", z <= 1.3 * a)
    d.process.stop()
    for parent in glob.glob("/sys/fs/cgroup/sandpool-bench") + glob.glob("/sys/fs/cgroup/*/sandpool-bench"):
        os.rmdir(parent)


# ---- the agent -----------------------------------------------------------------------------------


def bench_agent(b):
    times = []
    for _ in range(50):
        begin = time.monotonic()
        with subprocess.Popen([os.path.join(BIN, "sandpool-agent"), "--port", "0"], stdout=subprocess.PIPE) as agent:
            agent.stdout.readline()
            times.append(time.monotonic() - begin)
            with open(f"/proc/{agent.pid}/status", encoding="ascii") as f:
                rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))
            agent.terminate()
            agent.stdout.read()
    ready = statistics.median(times) * 1000
    b.row("agent: start to ready (fork and exec included)", f"{ready:.1f} ms", "<= 5 ms", ready <= 5)
    b.row("agent: memory, idle", f"{rss / 1024:.2f} MB", "<= 2 MB", rss <= 2048)


def spawn_true():
    begin = time.monotonic()
    os.waitpid(os.posix_spawn("/usr/bin/true", ["true"], {}), 0)
    return time.monotonic() - begin


def bench_exec(b):
    d = daemon(b, "exec", warm=1)
    lease = acquire(d)
    agent, through, bare = Agent(lease), [], []
    start = json.dumps({"argv": ["/usr/bin/true"]})
    for _ in range(b.count(2000)):
        bare.append(spawn_true())
        begin = time.monotonic()
        agent.call("POST", "/v1/agent/exec", start)
        through.append(time.monotonic() - begin)
    a, z = statistics.median(bare) * 1e6, statistics.median(through) * 1e6
    b.row(f"true through the agent (exec) - posix_spawn of true (n={len(bare)})",
          f"{z - a:.0f} us ({z:.0f} - {a:.0f})", "<= 1000 us", z - a <= 1000)
    up, down = transfer(agent)
    b.row("file of 256 MB into a box and out of it, by the agent", f"{up:.0f} / {down:.0f} MB/s", ">= 500",
          min(up, down) >= 500)
    d.process.stop()


def transfer(agent, size=256 * 1024 * 1024):
    """MB/s into a box and out of it."""
    block = os.urandom(1024 * 1024)
    head = (b"--x\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\n/workspace/big\r\n"
            b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"big\"\r\n\r\n")
    tail = b"\r\n--x--\r\n"

    def body():
        yield head
        for _ in range(size // len(block)):
            yield block
        yield tail

    begin = time.monotonic()
    agent.call("POST", "/v1/file/upload", body(),
               {"Content-Type": "multipart/form-data; boundary=x", "Content-Length": str(len(head) + size + len(tail))})
    up = size / 1e6 / (time.monotonic() - begin)
    begin = time.monotonic()
    agent.connection.request("GET", agent.base + "/v1/file/download?path=/workspace/big", headers=agent.headers)
    answer, got, piece = agent.connection.getresponse(), 0, bytearray(1024 * 1024)
    while True:
        n = answer.readinto(piece)
        if n == 0:
            break
        got += n
    down = got / 1e6 / (time.monotonic() - begin)
    if got != size:
        raise Failed(f"downloaded {got} of {size} bytes")
    return up, down


# ---- many ----------------------------------------------------------------------------------------


def cgroup_memory(box_id):
    total = 0
    for root, dirs, _ in os.walk("/sys/fs/cgroup"):
        if root.count("/") > 6:
            dirs.clear()
        if os.path.basename(root) == box_id:
            for name in ("memory.usage_in_bytes", "memory.current"):
                if os.path.exists(os.path.join(root, name)):
                    with open(os.path.join(root, name), encoding="ascii") as f:
                        total += int(f.read())
    return total


def relay_of(box_id):
    """Its process."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
                words = f.read().split("\0")
        except OSError:
            continue  # another one that has ended
        if words[:2] == ["sandpool-helper", "relay"] and words[2].endswith(box_id):
            return int(pid)
    raise Failed(f"no relay of box {box_id}")


def relay_memory(box_id):
    """Its own, and its share of what relays have in common, in bytes."""
    with open(f"/proc/{relay_of(box_id)}/smaps_rollup", encoding="ascii") as f:
        fields = dict(line.split(":", 1) for line in f.read().splitlines()[1:])
    return [1024 * int(fields[name].split()[0]) for name in ("Private_Dirty", "Pss")]


def bench_burst(b):
    count = 100 if b.scale >= 1 else 20
    d = daemon(b, "burst")
    destroy(d, acquire(d))
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        leases = list(pool.map(lambda i: acquire(d, thread_id=f"burst{i}"), range(count)))
    taken = time.monotonic() - begin
    b.row(f"{count} boxes asked for at once", f"{taken:.1f} s ({taken / count * 1000:.0f} ms each)", "-", None)
    memory = statistics.median(cgroup_memory(lease["box_id"]) for lease in leases[:10])
    b.row("memory of an idle box (its control group)", f"{memory / 1e6:.1f} MB", "-", None)
    own, share = zip(*(relay_memory(lease["box_id"]) for lease in leases[:10]))
    own, share = statistics.median(own) / 1024, statistics.median(share) / 1024
    b.row("memory of a box's relay: its own / with its share", f"{own:.0f} / {share:.0f} KB", "<= 300 KB", share <= 300)
    b.row(f"memory of the daemon with {count} boxes", f"{d.process.rss_kb() / 1024:.1f} MB", "-", None)
    begin = time.monotonic()
    destroy_all(d, leases)
    taken = time.monotonic() - begin
    b.row(f"{count} boxes destroyed", f"{taken:.1f} s ({taken / count * 1000:.0f} ms each)", "-", None)
    d.process.stop()


def bench_warm(b):
    """The same acquires on boxes that are all ready, of two daemons in turns, so that whatever the machine does besides
    touches both. The pools are full, so that no box is made meanwhile: that would measure the runtime."""
    count, times = 24, {"sim": [], "oci": []}
    for r in range(6):
        daemons = {backend: daemon(b, f"warm-{backend}-{r}", warm=count, backend=backend, max_boxes=count)
                   for backend in times}
        time.sleep(1)  # the machine has just made them
        for i in range(count):
            for backend in sorted(daemons, reverse=i % 2 == 0):
                begin = time.monotonic()
                lease = acquire(daemons[backend], thread_id=f"w{i}")
                times[backend].append(time.monotonic() - begin)
                if lease["source"] != "warm":
                    raise Failed("a warm acquire was not warm")
        for d in daemons.values():
            d.process.stop()
    a, z = statistics.median(times["sim"]) * 1e6, statistics.median(times["oci"]) * 1e6
    b.row(f"warm acquire of a real box / of a simulated one (n={len(times['oci'])} each)",
          f"{z / a:.2f} ({z:.0f} / {a:.0f} us)", "<= 1", z <= a)


PARTS = {"cold": bench_cold, "agent": bench_agent, "exec": bench_exec, "burst": bench_burst, "warm": bench_warm}
