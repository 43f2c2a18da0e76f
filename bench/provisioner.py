"""Rows on the provisioner: its calls beside those of the native API over TCP, and its proxy beside the box itself, in
turns."""

import http.client
import json
import statistics
import time

import boxes
from measure import FAST, Daemon, Failed, call, free_port

KEY = "key-of-the-measurements"
LISTEN = "provisioner: {{enabled: true, listen: '127.0.0.1:{port}', api_key: {key}}}\n"
NATIVE = "tcp: {{listen: '127.0.0.1:{port}', tokens: {{bench: {key}}}}}\n"


class Caller:
    """One kept connection."""

    def __init__(self, port, headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = headers

    def call(self, method, target, body=None):
        self.connection.request(method, target, json.dumps(body) if body is not None else None, self.headers)
        answer = self.connection.getresponse()
        value = json.loads(answer.read())
        if answer.status != 200:
            raise Failed(f"{method} {target}: {answer.status} {value}")
        return value


def timed(work):
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1e6


def bench_provisioner(b):
    port, native_port = free_port(), free_port()
    d = Daemon(b, "provisioner", FAST.format(warm=256, warm_max=512, sim="", boxes=12000) + LISTEN.format(port=port, key=KEY) +
               NATIVE.format(port=native_port, key=KEY)).start_ready(blank=256)
    there = Caller(port, {"X-API-Key": KEY})
    native = Caller(native_port, {"Authorization": f"Bearer {KEY}"})
    provisioned, plain = [], []

    def pair(i):
        there.call("POST", "/api/sandboxes", {"sandbox_id": f"b{i}", "thread_id": f"t{i}"})
        there.call("DELETE", f"/api/sandboxes/b{i}")

    def native_pair(i):
        lease = native.call("POST", "/v1/acquire", {"thread_id": f"n{i}"})
        native.call("DELETE", f"/v1/sandboxes/{lease['sandbox_id']}")

    for i in range(b.count(5000)):
        plain.append(timed(lambda: native_pair(i)))
        provisioned.append(timed(lambda: pair(i)))
    a, z = statistics.median(plain), statistics.median(provisioned)
    b.row(f"create + delete by the provisioner / acquire + destroy over TCP, blank box, 1 client (n={len(plain)}): p50",
          f"{z / a:.2f} ({z:.0f} / {a:.0f} us)", "<= 1.2", z <= 1.2 * a)
    d.process.stop()


def bench_proxy(b):
    """Through the proxy and to the box itself, the same request: one that the token changes nothing about, which
    only the proxy sends here."""
    port = free_port()
    d = Daemon(b, "proxy", boxes.CONFIG.format(backend="oci", warm=1, max_boxes=10) +
               LISTEN.format(port=port, key=KEY), "--destroy-on-exit").start_ready(blank=1)
    box = Caller(port, {"X-API-Key": KEY}).call("POST", "/api/sandboxes", {"sandbox_id": "a"})
    own = call(d.socket, "GET", "/v1/sandboxes/a")[1]["sandbox_url"]
    through, straight = boxes.Agent(box), boxes.Agent({"sandbox_url": own})
    times = {through: [], straight: []}
    for _ in range(b.count(5000)):
        for agent, seen in times.items():
            seen.append(timed(lambda: agent.call("GET", "/healthz")))
    a, z = statistics.median(times[straight]), statistics.median(times[through])
    b.row(f"a request through the proxy - to the box itself (n={len(times[through])}): p50",
          f"{z - a:.0f} us ({z:.0f} - {a:.0f})", "<= 500 us", z - a <= 500)
    before = d.process.rss_kb()
    lease = boxes.acquire(d)  # a box of its own: the token of the other one is given to nobody
    speeds = {through: [], boxes.Agent(lease): []}
    for _ in range(3):
        for agent, seen in speeds.items():
            seen.append(boxes.transfer(agent))
    (up, down), (own_up, own_down) = ([statistics.median(way) for way in zip(*seen)] for seen in speeds.values())
    b.row("file of 256 MB into a box and out of it, through the proxy / to the box itself (n=3)",
          f"{up / own_up:.2f} / {down / own_down:.2f} ({up:.0f} and {own_up:.0f}, {down:.0f} and {own_down:.0f} MB/s)",
          ">= 0.4", min(up / own_up, down / own_down) >= 0.4)
    grown = (d.process.rss_kb() - before) / 1024
    b.row("the daemon's memory after that", f"{grown:+.1f} MB", "<= 4 MB", grown <= 4)
    d.process.stop()


PARTS = {"provisioner": bench_provisioner}
BOX_PARTS = {"proxy": bench_proxy}
