"""Snapshots, restores, forks and pauses of real boxes, each beside a cold box or the bare thing in the same run, and what parked
boxes cost."""

import concurrent.futures
import glob
import os
import statistics
import time

import boxes
from measure import Daemon, Failed, call, wait_for

MB = 1024 * 1024
CONFIG = """log: {level: warn}
pool: {max_boxes: 400, reconcile_interval_s: 3600}
profiles:
  default:
    backend: oci
    warm: {min: 0, max: 0}
    create: {concurrency: 4}
    limits: {disk: 6G}
"""
# How parked boxes are kept, by the value of `park`.
KINDS = {"running": "run", "frozen": "freeze", "hibernated": "snapshot"}
PARKED = """log: {level: warn}
pool: {max_boxes: 400, reconcile_interval_s: 3600}
profiles:
"""
WORK = ("import os, time; kept = bytearray(b'x') * (16 << 20); file = open('/workspace/file', 'wb'); file.write(os.urandom(16 << 20)); file.flush(); "
        "os.fsync(file.fileno()); open('/workspace/ready', 'w').close(); time.sleep(3600)")


def start(b, name, config=CONFIG):
    d = Daemon(b, name, config, "--destroy-on-exit").start_ready()
    boxes.destroy(d, boxes.acquire(d))  # the first box of a daemon also makes what all share
    return d


def post(d, target, body=None):
    status, answer = call(d.socket, "POST", target, body or {}, timeout=600)
    if status != 200:
        raise Failed(f"{target}: {status} {answer}")
    return answer


def sh(d, lease, command):
    done = post(d, f"/v1/sandboxes/{lease['sandbox_id']}/exec", {"command": command, "timeout_s": 0})
    if done["exit_code"] != 0:
        raise Failed(f"{command}: {done}")
    return done["stdout"]


def timed(work):
    begin = time.perf_counter()
    answer = work()
    return (time.perf_counter() - begin) * 1000, answer


def ms(times):
    return statistics.median(times)


# ---- snapshot and restore against the size of the layer --------------------------------------------


def made_boxes(d, size):
    """A box that has written so much; what it takes to make a snapshot of it, a few times; one of them."""
    lease = boxes.acquire(d, thread_id=f"source-{size}")
    sh(d, lease, f"head -c {size} /dev/urandom > /workspace/data")
    target, times, snapshot = f"/v1/sandboxes/{lease['sandbox_id']}/snapshots", [], None
    for _ in range(5 if size <= 128 * MB else 2):
        if snapshot is not None:
            call(d.socket, "DELETE", f"/v1/snapshots/{snapshot['snapshot_id']}")
        taken, snapshot = timed(lambda: post(d, target))
        times.append(taken)
    boxes.destroy(d, lease)
    return times, snapshot


def restore(d, snapshot, size, is_checked):
    taken, lease = timed(lambda: boxes.acquire(d, snapshot_id=snapshot["snapshot_id"]))
    if lease["source"] != "restored":
        raise Failed(f"a box was not restored: {lease['source']}")
    if is_checked and int(sh(d, lease, "stat -c %s /workspace/data")) != size:
        raise Failed("the file of a snapshot is not whole")
    boxes.destroy(d, lease)
    return taken


def cold(d):
    taken, lease = timed(lambda: boxes.acquire(d))
    boxes.destroy(d, lease)
    return taken


def bench_snapshots(b):
    d, snapshots, free = start(b, "snapshots"), {}, os.statvfs(b.dir)
    for mb in (1, 16, 128, 1024, 4096) if b.scale >= 1 else (1, 16, 128):
        if free.f_bavail * free.f_frsize < 4 * mb * MB:
            b.notes.append(f"snapshots of {mb} MB: not measured, the disk has too little space")
            continue
        times, snapshots[mb] = made_boxes(d, mb * MB)
        b.row(f"snapshot of a box that has written {mb} MB (n={len(times)}): p50",
              f"{ms(times):.0f} ms ({ms(times) / mb:.2f} ms/MB)", "-", None)
    times = {"cold": [], **{mb: [] for mb in snapshots}}
    for i in range(15 if b.scale >= 1 else 4):
        times["cold"].append(cold(d))
        for mb, snapshot in snapshots.items():
            times[mb].append(restore(d, snapshot, mb * MB, i == 0))
    for mb in snapshots:
        b.row(f"restore of a snapshot of {mb} MB / cold box (n={len(times[mb])}): p50",
              f"{ms(times[mb]) / ms(times['cold']):.2f} ({ms(times[mb]):.0f} / {ms(times['cold']):.0f} ms)", "-", None)
    least, most = ms(times[min(snapshots)]), ms(times[max(snapshots)])
    b.row(f"restore of {max(snapshots)} MB / of {min(snapshots)} MB", f"{most / least:.2f}", "<= 1.2", most <= 1.2 * least)
    d.process.stop()


# ---- forks ---------------------------------------------------------------------------------------


def fork(d, source, count):
    taken, answer = timed(lambda: post(d, f"/v1/sandboxes/{source['sandbox_id']}/fork", {"count": count, "wait_ms": 60000}))
    wrong = [one for one in answer["sandboxes"] if one.get("source") != "restored"]
    if wrong:
        raise Failed(f"fork: {wrong[0]}")
    if sh(d, answer["sandboxes"][-1], "stat -c %s /workspace/data").strip() != str(16 * MB):
        raise Failed("a fork does not have the file")
    boxes.destroy_all(d, answer["sandboxes"])
    return taken


def cold_many(d, count):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        taken, leases = timed(lambda: list(pool.map(lambda i: boxes.acquire(d, thread_id=f"cold{i}"), range(count))))
    boxes.destroy_all(d, leases)
    return taken


def bench_fork(b):
    """In turns with as many cold boxes, asked for at once."""
    d = start(b, "fork")
    source = boxes.acquire(d, thread_id="source")
    sh(d, source, f"head -c {16 * MB} /dev/urandom > /workspace/data")
    for count, rounds in ((10, 5), (100, 2)) if b.scale >= 1 else ((10, 2),):
        pairs = [(fork(d, source, count), cold_many(d, count)) for _ in range(rounds)]
        forks, colds = (ms(times) for times in zip(*pairs))
        b.row(f"fork of a box with 16 MB into {count} / {count} cold boxes at once (n={rounds})",
              f"{forks / colds:.2f} ({forks / 1000:.2f} / {colds / 1000:.2f} s)", "-", None)
    d.process.stop()


# ---- pause and resume ----------------------------------------------------------------------------


class Freezer:
    """The kernel's own, of one box."""

    def __init__(self, lease):
        for pattern, on, off, state, mark in (("/sys/fs/cgroup/freezer/*/{}/freezer.state", "FROZEN", "THAWED", "", "FROZEN"),
                                              ("/sys/fs/cgroup/*/{}/cgroup.freeze", "1", "0", "cgroup.events", "frozen 1")):
            for path in glob.glob(pattern.format(lease["box_id"])):
                self.path, self.words, self.mark = path, {True: on, False: off}, mark
                self.state = os.path.join(os.path.dirname(path), state) if state else path
                return
        raise Failed("the box has no control group that can be frozen")

    def set(self, is_frozen):
        with open(self.path, "w", encoding="ascii") as f:
            f.write(self.words[is_frozen])
        while True:
            with open(self.state, encoding="ascii") as f:
                if (self.mark in f.read()) == is_frozen:
                    return


def bench_pause(b):
    d = start(b, "pause")
    lease = boxes.acquire(d)
    target, freezer = f"/v1/sandboxes/{lease['sandbox_id']}/", Freezer(lease)
    sh(d, lease, "for i in $(seq 16); do sleep 3600 >/dev/null 2>&1 & done")
    times = {name: [] for name in ("pause", "resume", "freeze", "thaw", "running", "paused")}

    def add(name, work):
        times[name].append(timed(work)[0])

    for _ in range(b.count(200) if b.scale >= 1 else 20):
        add("freeze", lambda: freezer.set(True))
        add("thaw", lambda: freezer.set(False))
        add("running", lambda: sh(d, lease, "true"))
        add("pause", lambda: post(d, target + "pause"))
        add("resume", lambda: post(d, target + "resume"))
        post(d, target + "pause")
        add("paused", lambda: sh(d, lease, "true"))
    n = len(times["pause"])
    for name, bare in (("pause", "freeze"), ("resume", "thaw")):
        b.row(f"{name} of a box with 16 processes / the kernel's {bare} alone (n={n}): p50",
              f"{ms(times[name]) / ms(times[bare]):.1f} ({ms(times[name]):.2f} / {ms(times[bare]):.2f} ms)", "-", None)
    b.row(f"exec of true in a paused box, which resumes it, - in a running one (n={n}): p50",
          f"{ms(times['paused']) - ms(times['running']):.2f} ms ({ms(times['paused']):.2f} - {ms(times['running']):.2f})", "-", None)
    d.process.stop()


# ---- what parked boxes cost ----------------------------------------------------------------------


def profiles_of_kinds():
    return "".join(f"  {name}: {{backend: oci, warm: {{min: 0, max: 0}}, create: {{concurrency: 4}}, park: {park}, "
                   f"park_timeout_s: {0 if park == 'snapshot' else 86400}}}\n"
                   for name, park in (("default", "run"), *KINDS.items()))


def helpers_kb():
    """What the processes beside boxes (relays, guards) take, by box: their share of what they have in common included."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
                words = f.read().split("\0")
            if words[0] != "sandpool-helper" or len(words) < 3:
                continue
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
                pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
        except OSError:
            continue  # it has ended
        box_id = os.path.basename(words[2])
        found[box_id] = found.get(box_id, 0) + pss
    return found


def cpu_ms(box_ids):
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
                if not any(line.rstrip().rpartition("/")[2] in box_ids for line in f):
                    continue
            for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
                with open(path, encoding="ascii") as f:
                    total += int(f.read().split()[0])
        except OSError:
            pass  # it has ended
    return total / 1e6


def kept_mb(d):
    """Of all snapshots, as their files take it from the disk."""
    total = 0
    for top, _, names in os.walk(os.path.join(d.base + ".state", "oci", "snapshots")):
        total += sum(os.lstat(os.path.join(top, name)).st_blocks * 512 for name in names)
    return total / MB


def park_all(d, kind, count):
    """Boxes of this kind, each with a process that holds 16 MB and has written a file of 16 MB; then they are parked."""
    def one(i):
        lease = boxes.acquire(d, thread_id=f"{kind}-{i}", profile=kind)
        post(d, f"/v1/sandboxes/{lease['sandbox_id']}/jobs", {"argv": ["/usr/bin/python3", "-c", WORK]})
        wait_for("it works", lambda: "ready" in sh(d, lease, "ls /workspace"), timeout=120)
        post(d, f"/v1/sandboxes/{lease['sandbox_id']}/release")
        return lease
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, range(count)))


def settled(ids):
    """What their control groups hold, when it is not given back any more."""
    before = None
    while (held := sum(boxes.cgroup_memory(i) for i in ids)) != before and (before is None or held < before * 0.999):
        before = held
        time.sleep(2)
    return held


def bench_parked(b):
    count = 100 if b.scale >= 1 else 5
    d = start(b, "parked", PARKED + profiles_of_kinds())
    running = None
    for kind in KINDS:
        before = d.process.rss_kb()
        leases = park_all(d, kind, count)
        d.settle(0)
        if kind == "hibernated":
            wait_for("they are snapshots", lambda: call(d.socket, "GET", "/v1/pool")[1]["hibernated"] == count, timeout=600)
        ids = {lease["box_id"] for lease in leases}
        inside, helpers = settled(ids) / MB, helpers_kb()
        outside = sum(helpers.get(i, 0) for i in ids) / 1024
        cpu = cpu_ms(ids)
        time.sleep(5)
        cpu = cpu_ms(ids) - cpu
        whole = inside + outside
        running = running or whole
        b.row(f"memory of {count} parked boxes, {kind}, each with a process of 16 MB and as much in a file: boxes + helpers",
              f"{whole:.0f} MB ({inside:.0f} + {outside:.0f}; daemon +{(d.process.rss_kb() - before) / 1024:.1f})", "-", None)
        b.row(f"the same: of what they take {next(iter(KINDS))}, and their CPU time in 5 s", f"{whole / running:.2f}, {cpu:.1f} ms",
              "-", None)
        if kind == "hibernated":
            took = [timed(lambda: boxes.acquire(d, thread_id=f"{kind}-{i}", profile=kind))[0] for i in range(min(count, 10))]
            b.row(f"the same: what their snapshots take of the disk, and an acquire of one: p50 (n={len(took)})",
                  f"{kept_mb(d):.1f} MB, {ms(took):.0f} ms", "-", None)
        boxes.destroy_all(d, leases)
    d.process.stop()


PARTS = {"snapshots": bench_snapshots, "fork": bench_fork, "pause": bench_pause, "parked": bench_parked}
