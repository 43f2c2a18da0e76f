"""Rows on containers of a Docker engine, which is started for them: a cold acquire beside the engine's own create + start +
first answer of the same container, in turns; reclaim of a parked box; many at once; adoption at a start; a stop that
destroys."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import sys
import time

from measure import BIN, Daemon, Failed, UnixConnection, call, wait_for

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "lib"))
import engine as engines  # noqa: E402

PYTHON_RECLAIM_MS = 56  # of the Python program this one stands in for, on the same machine
AGENT = os.path.abspath(os.path.join(BIN, "sandpool-agent"))
AGENT_IN_BOX = "/.sandpool/agent"
CAPS = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID", "KILL"]
CREATES = 8


def config(engine):
    common = {"backend": "docker", "image": engines.IMAGE, "warm": {"min": 0, "max": 0}, "park_timeout_s": 600,
              "limits": {"memory": "64M"}, "create": {"concurrency": CREATES},
              "docker": {"host": engine.address, "creates": CREATES}}
    upload = {**common, "network": "nat", "docker": {**common["docker"], "inject": "upload"}}
    # The instance is named: it must find its own containers again without its database.
    return json.dumps({"instance": "bench", "log": {"level": "warn"}, "pool": {"max_boxes": 400, "reconcile_interval_s": 3600},
                       "agent": {"path": AGENT},
                       "profiles": {"default": common, "nat": {**common, "network": "nat"}, "upload": upload}})


def until_answer(port):
    def answers():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/v1/sandbox")
            return connection.getresponse().status == 200
        except http.client.HTTPException:
            return False
        finally:
            connection.close()
    wait_for("the container answers", answers, pause=0.001)


def raw(engine):
    """The same container by hand, its port published; ms."""
    begin = time.monotonic()
    made = engine.json("POST", "/containers/create", {
        "Image": engines.IMAGE, "Entrypoint": [AGENT_IN_BOX, "--detach-stdio", "--listen", "0.0.0.0"], "Cmd": [],
        "ExposedPorts": {"8080/tcp": {}},
        "HostConfig": {"CapDrop": ["ALL"], "CapAdd": CAPS, "SecurityOpt": ["no-new-privileges"], "Memory": 64 << 20,
                       "MemorySwap": 64 << 20, "NanoCpus": 10 ** 9, "PidsLimit": 512, "NetworkMode": "bridge",
                       "PortBindings": {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]},
                       "Mounts": [{"Type": "bind", "Source": AGENT, "Target": AGENT_IN_BOX, "ReadOnly": True}]}})
    engine.json("POST", f"/containers/{made['Id']}/start")
    ports = engine.json("GET", f"/containers/{made['Id']}/json")["NetworkSettings"]["Ports"]
    until_answer(int(ports["8080/tcp"][0]["HostPort"]))
    taken = time.monotonic() - begin
    engine.json("DELETE", f"/containers/{made['Id']}?force=1&v=1")
    return taken * 1000


def acquire(d, thread, **fields):
    status, lease = call(d.socket, "POST", "/v1/acquire", {"thread_id": thread, "wait_ms": 25000, **fields})
    if status != 200:
        raise Failed(f"acquire: {lease}")
    return lease


def cold(d, profile, i):
    begin = time.monotonic()
    lease = acquire(d, f"{profile}-{i}", profile=profile)
    taken = time.monotonic() - begin
    if lease["source"] != "cold":
        raise Failed("a box was not made for its acquire")
    call(d.socket, "DELETE", f"/v1/sandboxes/{lease['sandbox_id']}")
    return taken * 1000


def bench_cold(b, d, engine):
    times = {"raw": [], "nat": [], "upload": [], "default": []}
    raw(engine)
    for i in range(20 if b.scale >= 1 else 4):
        for kind in random.sample(sorted(times), len(times)):  # who comes after whom matters
            times[kind].append(raw(engine) if kind == "raw" else cold(d, kind, i))
    base = statistics.median(times["raw"])
    for kind, what, target in (("nat", "port published", 1.05), ("upload", "agent uploaded", None),
                               ("default", "no network, socket handed over", None)):
        median = statistics.median(times[kind])
        b.row(f"cold container, {what} / the engine's create + start + first answer (n={len(times[kind])})",
              f"{median / base:.2f} ({median:.0f} / {base:.0f} ms)", f"<= {target}" if target else "-",
              median <= target * base if target else None)


def bench_reclaim(b, d):
    """Over one kept connection, as a runtime does it."""
    lease = acquire(d, "parked")
    connection, times = UnixConnection(d.socket), []

    def post(target, body):
        connection.request("POST", target, json.dumps(body))
        answer = connection.getresponse()
        if answer.status != 200:
            raise Failed(f"{target}: {answer.read()}")
        return json.loads(answer.read())
    for _ in range(200):
        post(f"/v1/sandboxes/{lease['sandbox_id']}/release", {})
        begin = time.monotonic()
        got = post("/v1/acquire", {"thread_id": "parked"})
        times.append((time.monotonic() - begin) * 1000)
        if got["source"] != "parked":
            raise Failed("a parked box was not given back")
    connection.close()
    median = statistics.median(times)
    b.row(f"reclaim of a parked container (n={len(times)}): {PYTHON_RECLAIM_MS} ms / it",
          f"{PYTHON_RECLAIM_MS / median:.0f} ({median:.2f} ms)", ">= 100", PYTHON_RECLAIM_MS / median >= 100)


def at_once(d, name, count):
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(count if count <= 32 else 16) as pool:
        leases = list(pool.map(lambda i: acquire(d, f"{name}-{i}"), range(count)))
    return time.monotonic() - begin, leases


def bench_adopt(b, d, count):
    print(f"making {count} containers ...", flush=True)
    _, leases = at_once(d, "many", count)
    held = {lease["box_id"] for lease in leases}
    for forget, what in ((False, "its database there"), (True, "its database gone, owners read from labels")):
        d.process.stop(signal.SIGKILL)
        if forget:
            shutil.rmtree(d.base + ".state")
        begin = time.monotonic()
        d.start()
        wait_for("ready", d.is_ready, pause=0.001)
        taken = time.monotonic() - begin
        kept = {box for box, _, _, state in d.boxes() if state in ("leased", "parked")}
        b.row(f"start with {count} containers after SIGKILL, {what}: ready, kept",
              f"{taken * 1000:.0f} ms, {len(kept & held)}", f"{count} kept", len(kept & held) == count)


def bench_stop(b, engine, d):
    """From SIGTERM to the end of the process, every container gone."""
    begin = time.monotonic()
    d.process.stop()
    taken = time.monotonic() - begin
    b.row("stop with destroy of 16 containers (the Python program: 163 s)", f"{taken:.1f} s", "-", None)
    if engine.left():
        raise Failed(f"left with the engine: {engine.left()}")


def bench_docker(b):
    why = engines.is_possible()
    if why is not None:
        b.notes.append(f"docker: not measured: {why}")
        return
    with engines.Engine() as engine:
        d = Daemon(b, "docker", config(engine), "--destroy-on-exit").start_ready()
        bench_cold(b, d, engine)
        bench_reclaim(b, d)
        taken, _ = at_once(d, "ten", 10)
        b.row("ten containers at once", f"{taken:.2f} s", "-", None)
        if b.scale >= 1:
            bench_adopt(b, d, 200)
        d.process.stop()
        d.start_ready()
        at_once(d, "sixteen", 16)
        bench_stop(b, engine, d)


PARTS = {"docker": bench_docker}
