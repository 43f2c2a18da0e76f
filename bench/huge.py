"""What a caller sees of a daemon with very many boxes: operations against the same ones with few, and how long others
wait while all boxes are listed and joined with what the daemon knows."""

import json
import statistics
import threading
import time

from measure import SMALL, UnixConnection, call

BOXES = 100_000  # the most that a daemon may have
LEASES = 99_000
ROUNDS = 15


def ask_us(connection, method, target, body, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        connection.request(method, target, body)
        connection.getresponse().read()
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def compare_calls(b, small, huge, leases):
    pairs = [(d, UnixConnection(d.socket), call(d.socket, "POST", "/v1/acquire", {"thread_id": "own"})[1]["sandbox_id"])
             for d in (small, huge)]
    for title, method, target, body in (("renew", "POST", "/v1/sandboxes/{}/renew", '{"ttl_s":900}'),
                                        ("GET of a box", "GET", "/v1/sandboxes/{}", None),
                                        ("page of 50 boxes", "GET", "/v1/sandboxes?limit=50", None)):
        ratios = []
        for _ in range(ROUNDS):
            few, many = (ask_us(connection, method, target.format(own), body, b.count(400)) for _, connection, own in pairs)
            ratios.append(many / few)
        ratio = statistics.median(ratios)
        b.row(f"{title} at {leases} leases / at {SMALL}", f"{ratio:.2f}", "<= 1.2", ratio <= 1.2)
    for _, connection, _ in pairs:
        connection.close()


def park(connection, thread):
    connection.request("POST", "/v1/acquire", f'{{"thread_id":"{thread}"}}')
    box = json.loads(connection.getresponse().read())
    connection.request("POST", f"/v1/sandboxes/{box['sandbox_id']}/release", "{}")
    connection.getresponse().read()


def compare_full(b, boxes):
    """An acquire for which the box that was parked first is destroyed and another one made, in two full daemons in turns."""
    counts, connections = (SMALL, boxes), []
    for count in counts:
        daemon = b.fast_daemon(f"full-{count}", warm=0, boxes=count).start_ready()
        connections.append(UnixConnection(daemon.socket))
        for i in range(count):
            park(connections[-1], f"parked-{i}")
    ratios = []
    for i in range(ROUNDS):
        times = []
        for connection in connections:
            begin = time.perf_counter()
            for n in range(b.count(400)):
                park(connection, f"new-{i}-{n}")
            times.append(time.perf_counter() - begin)
        ratios.append(times[1] / times[0])
    ratio = statistics.median(ratios)
    b.row(f"acquire + release of a new box, {boxes} parked and no room / {SMALL}", f"{ratio:.2f}", "<= 1.2", ratio <= 1.2)
    for connection in connections:
        connection.close()


def longest_ms(daemon):
    """The longest answer to /healthz while the boxes are listed, and in as long a time without."""
    connection, longest, quiet = UnixConnection(daemon.socket), 0, 0
    listing = threading.Thread(target=call, args=(daemon.socket, "POST", "/v1/pool/reconcile", {}))
    begin = time.monotonic()
    listing.start()
    while listing.is_alive():
        longest = max(longest, ask_us(connection, "GET", "/healthz", None, 1) / 1000)
    listing.join()
    took = time.monotonic() - begin
    begin = time.monotonic()
    while time.monotonic() < begin + took:
        quiet = max(quiet, ask_us(connection, "GET", "/healthz", None, 1) / 1000)
    connection.close()
    return longest, quiet


def bench_huge(b):
    leases = LEASES if b.scale >= 1 else LEASES // 10
    print(f"filling a daemon with {leases} leases ...", flush=True)
    huge = b.fast_daemon("huge", boxes=BOXES).start_ready(blank=256)
    huge.fill(leases, "held")
    huge.settle(256)
    small = b.fast_daemon("few").start_ready(blank=256)
    small.fill(SMALL, "held")
    for work, title in (("reclaim", "parked"), ("warm", "blank")):
        ratios = []
        for _ in range(7):
            few, many = (d.load(work, count=b.count(4000), rounds=1, seconds=4)[work]["acquire_us"] for d in (small, huge))
            ratios.append(many["p50"] / few["p50"])
        ratio = statistics.median(ratios)
        b.row(f"acquire of a {title} box at {leases} leases / at {SMALL}", f"{ratio:.2f}", "<= 1.2", ratio <= 1.2)
    compare_calls(b, small, huge, leases)
    listed, quiet = (sorted(waits)[2] for waits in zip(*(longest_ms(huge) for _ in range(5))))
    b.row(f"longest /healthz while {leases} boxes are listed / while nothing is, medians of 5",
          f"{listed:.1f} / {quiet:.1f} ms", "<= 10 ms", listed <= 10)
    small.process.stop()
    huge.process.stop()
    compare_full(b, leases)


PARTS = {"huge": bench_huge}
