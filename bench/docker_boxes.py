"""Boxes of a Docker engine, as ratios inside one run: a cold acquire against the engine's own create + start + first
answer of the same container, taken in turns; reclaim of a parked box; ten at once; the destroy of sixteen at the end.
`SANDPOOL_BIN_DIR=build python3 bench/docker_boxes.py [ROUNDS]`; starts an engine of its own, needs root."""

import http.client
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "integration"), str(ROOT / "tests" / "unit" / "docker")]
os.environ.setdefault("SANDPOOL_BIN_DIR", str(ROOT / "build"))

import engine as engines  # noqa: E402
from harness import BIN, Client, Daemon, in_threads, wait_until  # noqa: E402

AGENT_IN_BOX = "/.sandpool/agent"
CAPS = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID", "KILL"]
AGENT = str((BIN / "sandpool-agent").resolve())


def until_answer(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/v1/sandbox")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.001)
        finally:
            connection.close()
    raise AssertionError("no answer")


def raw(engine):
    """The same container by hand, published; ms."""
    started = time.monotonic()
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
    took = time.monotonic() - started
    engine.json("DELETE", f"/containers/{made['Id']}?force=1&v=1")
    return took * 1000


def acquire(client, thread, **fields):
    started = time.monotonic()
    answer = client.acquire(thread, **fields)
    assert answer.status == 200, answer
    return (time.monotonic() - started) * 1000, answer.json


def cold(client, profile, i):
    took, lease = acquire(client, f"{profile}-{i}", profile=profile)
    assert lease["source"] == "cold", lease
    answer = client.delete(f"/v1/sandboxes/{lease['sandbox_id']}")
    assert answer.status == 200, answer
    return took


def show(name, values, against=None):
    median = statistics.median(values)
    ratio = f"  {median / against:6.3f} of raw" if against else ""
    print(f"{name:34} median {median:9.2f} ms  worst {max(values):9.2f} ms  n {len(values):4}{ratio}")
    return median


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    common = {"backend": "docker", "image": engines.IMAGE, "warm": {"min": 0, "max": 0}, "park_timeout_s": 600,
              "limits": {"memory": "64M"}, "create": {"concurrency": 16}}
    with engines.Engine() as engine, tempfile.TemporaryDirectory(prefix="sandpool-bench-") as directory:
        docker = {"host": engine.address}
        daemon = Daemon(directory, {"oci": {"agent": AGENT}, "profiles": {
            "default": {**common, "docker": docker}, "nat": {**common, "docker": docker, "network": "nat"},
            "upload": {**common, "docker": {**docker, "inject": "upload"}, "network": "nat"}}},
            args=["--destroy-on-exit"])
        daemon.start()
        client = Client(daemon.socket, 60)
        try:
            times = {"raw": [], "nat": [], "upload": [], "default": []}
            raw(engine)
            for i in range(rounds):
                for kind in random.sample(sorted(times), len(times)):  # who comes after whom matters
                    times[kind].append(raw(engine) if kind == "raw" else cold(client, kind, i))
            base = show("engine: create+start+first answer", times["raw"])
            show("cold acquire, published port", times["nat"], base)
            show("cold acquire, agent uploaded", times["upload"], base)
            show("cold acquire, no network", times["default"], base)
            _, lease = acquire(client, "parked")
            reclaims = []
            for _ in range(200):
                assert client.release(lease["sandbox_id"]).status == 200
                reclaims.append(acquire(client, "parked")[0])
            show("reclaim of a parked box", reclaims)
            started = time.monotonic()
            in_threads(15, lambda i: daemon.acquire(f"many-{i}").json["sandbox_id"])
            print(f"fifteen more at once{'':14}        {(time.monotonic() - started) * 1000:9.2f} ms")
            wait_until(lambda: len(engine.json("GET", "/containers/json")) == 16, "sixteen boxes")
            started = time.monotonic()
            daemon.stop()
            print(f"stop with destroy of sixteen{'':6}        {(time.monotonic() - started) * 1000:9.2f} ms")
            wait_until(lambda: not engine.left(), "nothing is left", 10)
        finally:
            client.close()
            daemon.kill()


if __name__ == "__main__":
    main()
