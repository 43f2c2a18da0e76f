"""1,000 sandboxes made and deleted through the provisioner by 50 clients, in turns with as many through the
native API over TCP: nothing fails, nothing leaks, and the times are printed side by side."""

import pathlib
import time

from fixtures import IS_SANITIZED, free_port, in_threads, main, wait_until
from provisioner import Caller, ProvisionerCase

CLIENTS = 50
COUNT = 1000
ROUNDS = 4
TOKEN = "native-token-of-the-load-test"


class Native(Caller):
    def __init__(self, port):
        super().__init__(port, key="")

    def pair(self, name):
        """Seconds of an acquire and of a destroy."""
        begun = time.perf_counter()
        lease = self.call("POST", "/v1/acquire", {"thread_id": name},
                          {"Authorization": f"Bearer {TOKEN}"})
        middle = time.perf_counter()
        assert lease.status == 200, lease
        gone = self.call("DELETE", f"/v1/sandboxes/{lease.json['sandbox_id']}", None,
                         {"Authorization": f"Bearer {TOKEN}"})
        assert gone.status == 200, gone
        return lease.json["box_id"], middle - begun, time.perf_counter() - middle


class Provisioned(Caller):
    def pair(self, name):
        begun = time.perf_counter()
        made = self.create(name, thread_id=name)
        middle = time.perf_counter()
        assert made.status == 200 and made.json["status"] == "Running", made
        gone = self.delete(name)
        assert gone.json == {"ok": True, "sandbox_id": name}, gone
        return made.json["container_id"], middle - begun, time.perf_counter() - middle


def percentile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] * 1000


class Load(ProvisionerCase):
    def memory(self, daemon):
        status = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def round(self, kind, port, number):
        def work(i):
            client = kind(port)
            try:
                return [client.pair(f"{kind.__name__}-{number}-{i}-{k}")
                        for k in range(COUNT // CLIENTS // ROUNDS)]
            finally:
                client.close()
        return [pair for pairs in in_threads(CLIENTS, work) for pair in pairs]

    def test_creates_and_deletes(self):
        sim = self.sim()
        tcp = free_port()
        daemon = self.serve(
            sim=sim, tcp={"listen": f"127.0.0.1:{tcp}", "tokens": {"load": TOKEN}},
            pool={"max_boxes": 300},
            profile={"warm": {"min": 60, "max": 100}, "create": {"concurrency": 32},
                     "sim": {"create_ms": 5, "create_jitter_ms": 5, "destroy_ms": 5}})
        client = self.client(daemon)
        self.wait_blank(client, 60)
        seen = {Native: [], Provisioned: []}
        memory = []
        for number in range(ROUNDS):
            for kind, port in ((Native, tcp), (Provisioned, self.port)):
                seen[kind] += self.round(kind, port, number)
            memory.append(self.memory(daemon))
        for kind, pairs in seen.items():
            self.assertEqual(len(pairs), COUNT)
            self.assertEqual(len({box for box, _, _ in pairs}), COUNT)  # never the same box again
            made = [m for _, m, _ in pairs]
            gone = [g for _, _, g in pairs]
            print(f"{kind.__name__:>12}: make p50 {percentile(made, .5):.1f} ms, "
                  f"p99 {percentile(made, .99):.1f} ms; destroy p50 {percentile(gone, .5):.1f} ms, "
                  f"p99 {percentile(gone, .99):.1f} ms")
        print(f"      memory: {' '.join(str(m) for m in memory)} KiB after each round")
        self.assertEqual(self.caller().ids(), [])

        def settled():
            rows = client.get("/v1/sandboxes?limit=1000").json["sandboxes"]
            return ({r["state"] for r in rows} == {"blank"} and
                    {r["box_id"] for r in rows} == set(sim.boxes()))
        wait_until(settled, "only warm boxes are left, and each is known")
        if not IS_SANITIZED:  # a sanitizer keeps what is freed
            self.assertLess(memory[-1] - memory[0], 8192)


if __name__ == "__main__":
    main()
