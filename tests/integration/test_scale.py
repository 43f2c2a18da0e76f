"""10,000 idle connections and 1,000 waiting acquires at once do not disturb a running client."""

import json
import resource
import socket
import statistics
import time

from fixtures import TestCase, at_most, main, wait_until

IDLE = 10_000
WAITING = 1_000


def connect(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(str(path))  # blocking: waits its turn when the backlog is full
    sock.settimeout(20)
    return sock


class Scale(TestCase):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < IDLE + WAITING + 500:
            self.skipTest(f"only {hard} open files are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def test_idle_connections_and_waiters(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "park_timeout_s": 600},
                             pool={"max_boxes": 2, "max_waiters": 2048},
                             http={"max_connections": IDLE + WAITING + 100})
        client = self.client(daemon)
        self.assertOk(client.acquire("holder"))
        # A leased box cannot be evicted, so the runner keeps its own by renewing it.
        lease = self.assertOk(client.acquire("runner"))
        renew = f"/v1/sandboxes/{lease['sandbox_id']}/renew"

        def renews_ms(count=300):
            times = []
            for _ in range(count):
                start = time.perf_counter()
                self.assertOk(client.post(renew, {"ttl_s": 900}))
                times.append((time.perf_counter() - start) * 1000)
            return statistics.median(times), max(times)

        quiet = renews_ms()
        socks = []
        try:
            for _ in range(IDLE):
                socks.append(connect(daemon.socket))
            for i in range(WAITING):
                sock = connect(daemon.socket)
                body = json.dumps({"thread_id": f"w{i}", "user_id": f"u{i % 50}",
                                   "wait_ms": 120000}).encode()
                sock.sendall(b"POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                             % (len(body), body))
                socks.append(sock)
            wait_until(lambda: client.get("/v1/pool").json["waiting"] == WAITING, "all wait")
            busy = renews_ms()
            print(f"renew: {quiet[0]:.3f} ms alone, {busy[0]:.3f} ms (max {busy[1]:.1f}) beside "
                  f"{IDLE} idle connections and {WAITING} waiting acquires")
            self.assertLess(busy[0], 5 * quiet[0] + at_most(1))
            self.assertLess(busy[1], at_most(1000))
        finally:
            for sock in socks:
                sock.close()
        wait_until(lambda: client.get("/v1/pool").json["waiting"] == 0, "the waiters have left")
        self.assertOk(client.post(renew, {"ttl_s": 900}))


if __name__ == "__main__":
    main()
