"""Calls through the daemon (exec, files, streams) beside the same calls to the agent of the box, in turns."""

import glob
import http.client
import json
import os
import statistics
import subprocess
import threading
import time

import boxes
from measure import Failed, UnixConnection, wait_for

SIZE = 256 * 1024 * 1024
FILES = 10000
STREAMS = 100


class Way:
    """One kept connection to a box: through the daemon, or to its agent."""

    def __init__(self, d, lease, is_direct):
        self.d, self.lease, self.is_direct = d, lease, is_direct
        self.base = "/v1/agent" if is_direct else f"/v1/sandboxes/{lease['sandbox_id']}"
        self.headers = {"Authorization": f"Bearer {lease['token']}"} if is_direct else {}
        self.connection = self.connect()

    def connect(self):
        if not self.is_direct:
            return UnixConnection(self.d.socket, timeout=120)
        return http.client.HTTPConnection(self.lease["sandbox_url"].split("//")[1].partition("/")[0], timeout=120)

    def begin(self, method, target, body=None, connection=None):
        connection = connection or self.connection
        if isinstance(body, dict):
            body = json.dumps(body)
        headers = {**self.headers, **({"Content-Length": str(SIZE)} if method == "PUT" else {})}
        connection.request(method, self.base + target, body, headers)
        answer = connection.getresponse()
        if answer.status not in (200, 201):
            raise Failed(f"{target}: {answer.status} {answer.read()[:200]}")
        return answer

    def call(self, method, target, body=None):
        return self.begin(method, target, body).read()


class Fixture:
    def __init__(self, b):
        self.d = boxes.daemon(b, "calls", warm=1)
        self.lease = boxes.acquire(self.d)
        self.through, self.direct = (Way(self.d, self.lease, is_direct) for is_direct in (False, True))
        path = os.path.join(self.d.base + ".state", "oci", "boxes", self.lease["box_id"], "pid")
        with open(path, encoding="ascii") as f:
            self.agent = int(f.read())

        self.relay = boxes.relay_of(self.lease["box_id"])

    def cpu_s(self):
        return {"daemon": cpu_of(self.d.process.child.pid), "agent": cpu_of(self.agent), "relay": cpu_of(self.relay)}

    def memory_kb(self):
        return [anonymous_kb(pid) for pid in (self.d.process.child.pid, self.agent)]


def cpu_of(pid):
    """Of all its threads, in seconds; a slow stream uses less than the ticks of /proc/PID/stat can show."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as f:
            total += int(f.read().split()[0])
    return total / 1e9


def wakes_of(pid):
    """How often its threads were woken."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        with open(path, encoding="ascii") as f:
            total += next(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt_switches:"))
    return total


def anonymous_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon:"))


def timed(work):
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1e6


def drain(answer):
    piece, got = bytearray(1024 * 1024), 0
    while True:
        n = answer.readinto(piece)
        if n == 0:
            return got
        got += n


def row_exec(b, fixture):
    body = {"argv": ["/usr/bin/true"]}
    ways = {"through": [], "direct": [], "spawn": []}
    for _ in range(b.count(2000)):
        ways["spawn"].append(boxes.spawn_true() * 1e6)
        ways["direct"].append(timed(lambda: fixture.direct.call("POST", "/exec", body)))
        ways["through"].append(timed(lambda: fixture.through.call("POST", "/exec", body)))
    z, a, bare = (statistics.median(ways[name]) for name in ("through", "direct", "spawn"))
    b.row(f"exec of true through the daemon - to the agent (n={len(ways['spawn'])}): p50", f"{z - a:.0f} us ({z:.0f} - {a:.0f})",
          "<= 200 us", z - a <= 200)
    b.row("the same / posix_spawn of true: p50", f"{z / bare:.2f} ({z:.0f} / {bare:.0f} us)", "-", None)


def put(way):
    block = os.urandom(1024 * 1024)
    way.call("PUT", "/files?path=/workspace/big", (block for _ in range(SIZE // len(block))))


def get(way):
    got = drain(way.begin("GET", "/files?path=/workspace/big"))
    if got != SIZE:
        raise Failed(f"{got} of {SIZE} bytes came")


def row_files(b, fixture):
    for name, work in (("into a box", put), ("out of a box", get)):
        speeds = {fixture.through: [], fixture.direct: []}
        for _ in range(5 if b.scale >= 1 else 2):
            for way, seen in speeds.items():
                seen.append(SIZE / timed(lambda: work(way)))  # bytes per us is MB/s
        z, a = (statistics.median(seen) for seen in speeds.values())
        b.row(f"file of 256 MB {name}, through the daemon / to the agent", f"{z / a:.2f} ({z:.0f} / {a:.0f} MB/s)",
              ">= 0.8 and >= 500 MB/s", z >= 0.8 * a and z >= 500)


# The output comes at this rate, from a program that itself costs little.
PACED = "import os,time\nb=b'x'*{size}\nt=time.monotonic()\nfor i in range({count}):\n os.write(1,b)\n t+={pause}\n time.sleep(max(t-time.monotonic(),0))"


def follow(fixture, argv):
    """CPU seconds by program, seconds, bytes, growth of the memory of daemon and agent in KB."""
    job = json.loads(fixture.through.call("POST", "/jobs", {"argv": argv}))["job"]
    memory = most = fixture.memory_kb()
    before, begin = fixture.cpu_s(), time.monotonic()
    answer = fixture.through.begin("GET", f"/jobs/{job}/output?stream=stdout&follow=1")
    piece, got, looked = bytearray(1024 * 1024), 0, 0
    while True:
        n = answer.readinto1(piece)  # what there is, as a reader does that shows it at once
        if n == 0:
            break
        got += n
        if got - looked > 100e6:
            looked, most = got, [max(pair) for pair in zip(most, fixture.memory_kb())]
    taken = time.monotonic() - begin
    cpu = {name: now - before[name] for name, now in fixture.cpu_s().items()}
    fixture.through.call("DELETE", f"/jobs/{job}")
    return cpu, taken, got, [now - then for now, then in zip(most, memory)]


def idle_cpu(fixture, seconds, rounds=5):
    """CPU seconds in a second in which nothing is streamed (the daemon looks after its boxes): the median, as one may fall on work that is left."""
    found = []
    for _ in range(rounds):
        before = fixture.cpu_s()
        time.sleep(seconds)
        found.append({name: (now - before[name]) / seconds for name, now in fixture.cpu_s().items()})
    return {name: statistics.median(one[name] for one in found) for name in before}


def paced(fixture, size, rate, count, idle, empty):
    """CPU seconds by program for `count` writes, `rate` in a second, less what they use anyway; bytes; seconds."""
    cpu, taken, got, _ = follow(fixture, ["/usr/bin/python3", "-c", PACED.format(size=size, count=count, pause=1 / rate)])
    if got != size * count:
        raise Failed(f"{got} of {size * count} bytes came")
    return {name: used - idle[name] * taken - empty[name] for name, used in cpu.items()}, got, taken


def cats_cpu(size, rate, count):
    """CPU seconds of the same writes through three programs that do nothing else: what the machine itself takes to wake so many."""
    writer = subprocess.Popen(["/usr/bin/python3", "-c", PACED.format(size=size, count=count, pause=1 / rate)], stdout=subprocess.PIPE)
    cats, source = [], writer.stdout
    for _ in range(3):
        cats.append(subprocess.Popen(["/usr/bin/cat"], stdin=source, stdout=subprocess.PIPE))
        source.close()
        source = cats[-1].stdout
    piece, used = bytearray(1024 * 1024), 0
    while source.readinto1(piece) > 0:
        pass
    source.close()
    for cat in cats:
        _, cat.returncode, usage = os.wait4(cat.pid, 0)
        used += usage.ru_utime + usage.ru_stime
    writer.wait(60)
    return used


def empty_cpu(fixture, idle):
    """CPU seconds of a stream that is opened and ends, with nothing in it."""
    runs = [paced(fixture, 1, 1, 0, idle, dict.fromkeys(idle, 0))[0] for _ in range(10)]
    return {name: statistics.median(run[name] for run in runs) for name in idle}


def row_rates(b, fixture):
    """Whether a byte costs the same at every rate, for writes of one size: all rates of a size in turns, a few times."""
    seconds, rounds = (4, 3) if b.scale >= 1 else (2, 1)
    idle = idle_cpu(fixture, seconds)
    empty = empty_cpu(fixture, idle)
    b.row("CPU of daemon / agent / relay in a second without a stream, one box",
          " / ".join(f"{used * 1000:.2f}" for used in idle.values()) + " ms (taken off below)", "-", None)
    b.row("CPU of daemon / agent / relay for an empty stream", " / ".join(f"{used * 1e6:.0f}" for used in empty.values()) +
          " us (taken off below)", "-", None)
    start = statistics.median(cats_cpu(1, 1, 0) for _ in range(10))
    for size, rates in ((65536, (0.1e6, 10e6, 100e6)), (1024, (0.1e6, 1e6, 10e6))):
        found = {rate: [] for rate in rates}
        cats = dict.fromkeys(rates, 0)
        for _ in range(rounds):
            for rate in rates:
                count = max(round(rate / size * seconds), 10)
                found[rate].append(paced(fixture, size, rate / size, count, idle, empty))
                cats[rate] += (cats_cpu(size, rate / size, count) - start) * 1e9 / (size * count) / rounds
        costs = {}
        for rate, runs in found.items():
            total = sum(got for _, got, _ in runs)
            each = {name: sum(cpu[name] for cpu, _, _ in runs) * 1e9 / total for name in idle}
            costs[rate] = sum(each.values())
            b.row(f"output followed at {rate / 1e6:g} MB/s in writes of {size} bytes: CPU for a byte, daemon + agent + relay",
                  f"{costs[rate]:.2f} ns ({' + '.join(f'{cost:.2f}' for cost in each.values())}), {costs[rate] * size / 1000:.1f} us for "
                  f"a write, {total / 1e6 / sum(taken for _, _, taken in runs):.2f} MB/s came", "-", None)
            b.row("the same / three programs that only pass it on (cat), by pipes",
                  f"{costs[rate] / cats[rate]:.1f} ({costs[rate]:.2f} / {cats[rate]:.2f} ns)", "-", None)
        row_growth(b, size, rates, costs, cats)
        if size < 65536:
            row_wakes(b, fixture, (size, rates[0], seconds), idle, empty, start)


def row_wakes(b, fixture, flow, idle, empty, start):
    """Pieces are read together, so ours are woken less often than by each write: beside `cat` that is woken as often, by as many bytes."""
    size, rate, seconds = flow
    before = wakes_of(fixture.relay)
    cpu, got, taken = paced(fixture, size, rate / size, max(round(rate / size * seconds), 10), idle, empty)
    wakes = wakes_of(fixture.relay) - before
    ours, theirs = sum(cpu.values()), cats_cpu(got // wakes, wakes / taken, wakes) - start
    b.row(f"a piece at {rate / 1e6:g} MB/s in writes of {size} bytes, through daemon, agent and relay / three `cat` woken as often",
          f"{ours / theirs:.1f} ({ours * 1e6 / wakes:.0f} / {theirs * 1e6 / wakes:.0f} us, {wakes / taken:.0f} a second)", "-", None)


def row_growth(b, size, rates, costs, cats):
    """Waking a program for a few bytes costs more than for many, whatever it does with them: so the yardstick is how much
    dearer the same writes become for programs that only pass them on."""
    ours, theirs = (cost[rates[0]] / cost[rates[-1]] for cost in (costs, cats))
    most = max(rates, key=lambda rate: costs[rate] / cats[rate])
    between = f"a byte at {rates[0] / 1e6:g} MB/s / at {rates[-1] / 1e6:g} MB/s, in writes of {size} bytes"
    b.row(f"{between}: of ours / of three `cat`", f"{ours / theirs:.2f} ({ours:.1f} / {theirs:.1f})", "<= 1.5", 0 < ours <= 1.5 * theirs)
    b.row(f"the most that a byte costs, in bytes of three `cat`, in writes of {size} bytes",
          f"{costs[most] / cats[most]:.1f} (at {most / 1e6:g} MB/s)", "-", None)


def row_streams(b, fixture):
    row_rates(b, fixture)
    total = 10 ** 10 if b.scale >= 1 else 10 ** 9
    cpu, taken, got, growth = follow(fixture, ["/usr/bin/head", "-c", str(total), "/dev/zero"])
    b.row(f"output of a job followed, {total / 1e9:.0f} GB: what came", f"{got / total:.0%} ({got / 1e6 / taken:.0f} MB/s, "
          f"{sum(cpu.values()) * 1e9 / got:.2f} ns/byte)", "100%", got == total)
    b.row("the same: memory of daemon / agent at its most", f"{growth[0]:+d} / {growth[1]:+d} KB", "<= 2048 KB", max(growth) <= 2048)
    total = 10 ** 8 * (5 if b.scale >= 1 else 2)
    body = {"argv": ["/usr/bin/head", "-c", str(total), "/dev/zero"], "stream": True}
    cpu, begin = sum(fixture.cpu_s().values()), time.monotonic()
    got = drain(fixture.through.begin("POST", "/exec", body))
    taken, cpu = time.monotonic() - begin, sum(fixture.cpu_s().values()) - cpu
    b.row("exec streamed as events: CPU of daemon, agent and relay", f"{cpu * 1e9 / got:.2f} ns/byte ({got / 1e6 / taken:.0f} MB/s)",
          ">= 100 MB/s", got / 1e6 / taken >= 100)


def row_first_byte(b, fixture):
    times = {fixture.through: [], fixture.direct: []}

    def first(way):
        answer = way.begin("POST", "/exec", {"argv": ["/usr/bin/true"], "stream": True})
        answer.read(1)
        return answer

    for _ in range(b.count(1000)):
        for way, seen in times.items():
            begin = time.perf_counter()
            answer = first(way)
            seen.append((time.perf_counter() - begin) * 1e6)
            answer.read()
    z, a = (statistics.median(seen) for seen in times.values())
    b.row(f"first byte of a stream, through the daemon / to the agent (n={len(times[fixture.through])}): p50",
          f"{z / a:.2f} ({z:.0f} / {a:.0f} us)", "-", None)


def row_list(b, fixture):
    fixture.through.call("POST", "/exec", {"command": f"mkdir many && cd many && seq {FILES} | xargs touch", "cwd": "/workspace"})
    times = {fixture.through: [], fixture.direct: []}
    for _ in range(b.count(20) if b.scale >= 1 else 5):
        for way, seen in times.items():
            found = []
            seen.append(timed(lambda: found.append(way.call("GET", f"/files/list?path=/workspace/many&limit={FILES}"))))
            if len(json.loads(found[0])["entries"]) != FILES:
                raise Failed("the list is not whole")
    z, a = (statistics.median(seen) / 1000 for seen in times.values())
    b.row(f"list of {FILES} files, through the daemon / to the agent: p50", f"{z / a:.2f} ({z:.1f} / {a:.1f} ms)", "-", None)


def row_open_streams(b, fixture):
    """Each has said something and waits."""
    ways, held = [Way(fixture.d, fixture.lease, False) for _ in range(STREAMS)], []
    before = fixture.memory_kb()
    for way in ways:
        held.append(way.begin("POST", "/exec", {"command": "echo begun; exec sleep 600", "stream": True, "timeout_s": 0,
                                                "kill_on_disconnect": True}))
    for answer in held:
        while b"stdout" not in answer.readline():
            pass
    daemon, agent = (max(now - then, 0) / STREAMS for now, then in zip(fixture.memory_kb(), before))
    b.row(f"memory per open stream ({STREAMS} of them), daemon / agent", f"{daemon:.1f} / {agent:.1f} KB", "-", None)
    for way in ways:
        way.connection.close()
    wait_for("they are killed", lambda: all(job["outcome"] != "running" for job in
                                            json.loads(fixture.direct.call("GET", "/jobs"))["jobs"]))


def row_many(b):
    """Commands at the same time over many boxes; the answers must be those of the commands."""
    count, each = (100, 10) if b.scale >= 1 else (10, 10)
    d = boxes.daemon(b, "many", warm=0)
    leases = [boxes.acquire(d, thread_id=f"many{i}") for i in range(count)]
    wrong, gate = [], threading.Barrier(count * each)

    def one(lease, k):
        way = Way(d, lease, False)
        try:
            gate.wait(120)
            answer = json.loads(way.call("POST", "/exec", {"command": f"sleep 1; echo {lease['box_id']}-{k}"}))
            if answer["stdout"] != f"{lease['box_id']}-{k}\n" or answer["exit_code"] != 0:
                wrong.append(answer)
        except (Failed, OSError, http.client.HTTPException, threading.BrokenBarrierError) as e:
            wrong.append(repr(e))
        finally:
            way.connection.close()

    threads = [threading.Thread(target=one, args=(lease, k)) for lease in leases for k in range(each)]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    b.row(f"{count * each} commands of 1 s at once over {count} boxes: wrong answers",
          f"{len(wrong)} ({time.monotonic() - begin:.1f} s){' ' + str(wrong[0])[:120] if wrong else ''}", "0", not wrong)
    boxes.destroy_all(d, leases)
    d.process.stop()


def bench_calls(b):
    fixture = Fixture(b)
    for row in (row_exec, row_files, row_streams, row_first_byte, row_list, row_open_streams):
        for way in (fixture.through, fixture.direct):
            way.connection.close()  # opened again by the next request: an idle one may have been closed
        row(b, fixture)
    fixture.d.process.stop()
    row_many(b)


PARTS = {"calls": bench_calls}
