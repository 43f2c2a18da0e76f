"""exec of `true` in one container, in turns: through the daemon, by a direct call to its agent, by the engine's own exec, by
the command `docker exec`, and a bare posix_spawn() beside them."""

import http.client
import json
import shutil
import statistics
import subprocess
import time

import boxes
from docker_boxes import acquire, config, engines
from measure import Daemon, Failed, UnixConnection

TRUE = ["/bin/true"]


class Kept:
    """One kept connection that posts the same request."""

    def __init__(self, connection, target, headers=None):
        self.connection, self.target, self.headers = connection, target, headers or {}

    def post(self):
        self.connection.request("POST", self.target, json.dumps({"argv": TRUE}), self.headers)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200 or json.loads(body)["exit_code"] != 0:
            raise Failed(f"{self.target}: {answer.status} {body[:200]}")


def by_engine(engine, container):
    """What the command does: makes an exec, starts it and reads its output until the end, asks how it ended."""
    made = engine.json("POST", f"/containers/{container}/exec", {"Cmd": TRUE, "AttachStdout": True, "AttachStderr": True})
    engine.call("POST", f"/exec/{made['Id']}/start", {"Detach": False})
    if engine.json("GET", f"/exec/{made['Id']}/json")["ExitCode"] != 0:
        raise Failed("exec of the engine")


def by_command(engine, container):
    subprocess.run(["docker", "-H", engine.address, "exec", container, *TRUE], check=True, stdout=subprocess.DEVNULL)


def container_of(engine, lease):
    for found in engine.json("GET", "/containers/json"):
        if lease["box_id"] in json.dumps(found):
            return found["Id"]
    raise Failed("the container of the box is not listed")


def bench_docker_exec(b):
    why = engines.is_possible()
    if why is not None:
        b.notes.append(f"docker_exec: not measured: {why}")
        return
    with engines.Engine() as engine:
        d = Daemon(b, "docker-exec", config(engine), "--destroy-on-exit").start_ready()
        lease = acquire(d, "exec")
        container = container_of(engine, lease)
        through = Kept(UnixConnection(d.socket), f"/v1/sandboxes/{lease['sandbox_id']}/exec")
        host = lease["sandbox_url"].split("//")[1].partition("/")[0]
        direct = Kept(http.client.HTTPConnection(host, timeout=60), "/v1/agent/exec",
                      {"Authorization": f"Bearer {lease['token']}"})
        ways = {"posix_spawn": boxes.spawn_true, "direct": direct.post, "through": through.post,
                "engine": lambda: by_engine(engine, container)}
        if shutil.which("docker"):
            ways["command"] = lambda: by_command(engine, container)
        else:
            b.notes.append("docker_exec: `docker exec` not measured: there is no command `docker`")
        times = {name: [] for name in ways}
        for i in range(20 + (200 if b.scale >= 1 else 30)):
            for name, run in ways.items():
                begin = time.perf_counter()
                run()
                if i >= 20:
                    times[name].append((time.perf_counter() - begin) * 1e6)
        report(b, {name: statistics.median(seen) for name, seen in times.items()}, len(times["through"]))
        for kept in (through, direct):
            kept.connection.close()
        d.process.stop()


def report(b, p50, count):
    z = p50["through"]
    b.row(f"exec of true in a container, through the daemon - to its agent (n={count}): p50",
          f"{z - p50['direct']:.0f} us ({z:.0f} - {p50['direct']:.0f})", "<= 200 us", z - p50["direct"] <= 200)
    for name, what in (("engine", "the engine's exec (3 requests)"), ("command", "the command docker exec")):
        if name in p50:
            b.row(f"{what} of true / exec of it through the daemon: p50", f"{p50[name] / z:.1f} ({p50[name] / 1000:.1f} / "
                  f"{z / 1000:.2f} ms)", "-", None)
    b.row("exec of true in a container, through the daemon / posix_spawn of true: p50",
          f"{z / p50['posix_spawn']:.2f} ({z:.0f} / {p50['posix_spawn']:.0f} us)", "-", None)


PARTS = {"docker_exec": bench_docker_exec}
