"""What the measurements share: daemons and other processes, calls, and the table of results."""

import atexit
import glob
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "..", "tests", "lib"))
from daemon import forget_stamp  # noqa: E402
from testlib import BIN, UnixConnection, free_port  # noqa: E402, F401 (free_port: for the parts)

BIG, SMALL = 10000, 100
WAITERS = 16000
START_TIMEOUT = 60

SMALLEST = "profiles: {default: {backend: sim, warm: {min: 4, max: 16}}}\n"
# Boxes that cost nothing to make, so that what is measured is the daemon.
FAST = """log: {{level: warn}}
pool: {{max_boxes: {boxes}, reconcile_interval_s: 3600}}
profiles:
  default:
    backend: sim
    warm: {{min: {warm}, max: {warm_max}, shrink_after_s: 3600}}
    create: {{concurrency: 64}}
    ttl_s: 0
    idle_timeout_s: 0
    park_timeout_s: 86400
    sim: {{socket: "{sim}", create_ms: 0, create_jitter_ms: 0, destroy_ms: 0}}
"""


# One box, that is held: everybody else waits.
FULL = """log: {{level: warn}}
http: {{max_connections: {connections}}}
pool: {{max_boxes: 1, max_waiters: {waiters}}}
profiles: {{default: {{backend: sim, warm: {{min: 0, max: 0}}, ttl_s: 0, idle_timeout_s: 0}}}}
"""


class Failed(Exception):
    """Something could not be measured."""


# ---- processes -----------------------------------------------------------------------------------


def call(path, method, target, body=None, timeout=30):
    """Status and JSON of one call; OSError when nobody answers."""
    connection = UnixConnection(path, timeout=timeout)
    try:
        connection.request(method, target, json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    except http.client.HTTPException as e:
        raise OSError(f"broken answer: {e}") from e
    finally:
        connection.close()


def wait_for(what, check, timeout=START_TIMEOUT, pause=0.01):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        try:
            found = check()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(pause)
    raise Failed(f"{what}: not within {timeout} s")


class Process:
    """One program of ours; whoever made the Bench stops it."""

    def __init__(self, bench, name, arguments):
        self.name = name
        self.log = os.path.join(bench.dir, f"{name}-{len(bench.processes)}.log")
        with open(self.log, "wb") as log:
            self.child = subprocess.Popen(
                [os.path.join(BIN, name), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
        bench.processes.append(self)

    def stop(self, signum=signal.SIGTERM):
        if self.child.poll() is None:
            self.child.send_signal(signum)
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def status(self, key):
        """A number of /proc/PID/status, summed over the threads."""
        total = 0
        for path in glob.glob(f"/proc/{self.child.pid}/task/*/status"):
            with open(path, encoding="ascii") as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith(key + ":"))
        return total

    def rss_kb(self, key="VmRSS"):
        with open(f"/proc/{self.child.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(key + ":"))

    def cpu_ms(self):
        with open(f"/proc/{self.child.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


class Daemon:
    def __init__(self, bench, name, config, *arguments):
        self.bench = bench
        self.arguments = arguments
        self.base = os.path.join(bench.dir, name)
        self.socket = self.base + ".sock"
        self.process = None
        atexit.register(forget_stamp, self.base + ".state")
        with open(self.base + ".yaml", "w", encoding="utf-8") as f:
            f.write(config)

    def start(self):
        self.process = Process(self.bench, "sandpoold", [
            "--config", self.base + ".yaml", "--state-dir", self.base + ".state", "--socket", self.socket,
            *self.arguments])

    def is_ready(self):
        if self.process.child.poll() is not None:
            raise Failed(f"sandpoold ended with {self.process.child.returncode}")
        return call(self.socket, "GET", "/readyz")[0] == 200

    def start_ready(self, blank=0):
        self.start()
        wait_for("sandpoold ready", self.is_ready)
        self.settle(blank)
        return self

    def settle(self, blank):
        """Waits until nothing is being made or destroyed and `blank` boxes are warm."""

        def settled():
            states = call(self.socket, "GET", "/v1/pool")[1]["by_state"]
            return states["blank"] >= blank and states["starting"] == 0 and states["deleting"] == 0

        wait_for(f"{blank} blank boxes", settled)

    def boxes(self):
        """Every box as (box, id, generation, state)."""
        found, cursor = set(), None
        while True:
            target = "/v1/sandboxes?limit=1000" + (f"&cursor={cursor}" if cursor else "")
            page = call(self.socket, "GET", target)[1]
            found.update((b["box_id"], b["sandbox_id"], b["generation"], b["state"]) for b in page["sandboxes"])
            cursor = page["next_cursor"]
            if not cursor:
                return found

    def load(self, works, clients=1, count=1000, rounds=10, seconds=60, name=None):
        """Runs sandpool-load; its results by the name of the work."""
        command = [os.path.join(BIN, "sandpool-load"), "--json", "--socket", self.socket, "--work", works,
                   "--clients", str(clients), "--count", str(count), "--rounds", str(rounds),
                   "--seconds", str(seconds), *(["--name", name] if name else [])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        results = {r["work"]: r for r in map(json.loads, done.stdout.splitlines())}
        for r in results.values():
            if r["failures"]:
                raise Failed(f"{r['work']}: {r['failure']}")
        if done.returncode != 0:
            raise Failed(f"sandpool-load: {done.stderr.strip()}")
        return results

    def fill(self, count, name):
        got = self.load("fill", clients=16, count=count, rounds=1, seconds=240, name=name)["fill"]["count"]
        if got != count:
            raise Failed(f"only {got} of {count} boxes could be leased in time")


class Bench:
    def __init__(self, scale):
        self.scale = scale  # 1: the whole, less: fewer operations
        self.dir = tempfile.mkdtemp(prefix="sandpool-bench-")
        self.processes = []
        self.rows = []
        self.notes = []
        self.big = None
        self.idle_kb = None

    def close(self):
        for p in reversed(self.processes):
            p.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def count(self, whole):
        return max(int(whole * self.scale), 100)

    def row(self, what, measured, target, is_met):
        self.rows.append((what, measured, target, "-" if is_met is None else "yes" if is_met else "NO"))
        print(f"  {what}: {measured} (target {target}): {self.rows[-1][3]}", flush=True)

    def fast_daemon(self, name, warm=256, sim="", boxes=12000):
        return Daemon(self, name, FAST.format(warm=warm, warm_max=warm * 2, sim=sim, boxes=boxes))

    def big_daemon(self):
        """The one with 10,000 leases, shared by the rows that need it."""
        if self.big is None:
            print(f"filling a daemon with {BIG} leases ...", flush=True)
            self.big = self.fast_daemon("big").start_ready(blank=256)
            self.big.fill(BIG, "held")
            self.big.settle(256)
        return self.big
