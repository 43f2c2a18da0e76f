"""What boxes of an engine use: processor, memory and disk, as the kernel counts them, or as the engine does where the
daemon cannot see the kernel's numbers."""

import pathlib

from docker_case import DockerCase, main
from fixtures import MIB, wait_until
from testlib import free_port

BURN = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"


class Counted(DockerCase):
    def stats(self, client, box):
        return self.assertOk(client.get(f"/v1/sandboxes/{box.id}?stats=1"))["stats"]

    def engine_cpu_ms(self, box):
        stats = self.engine.json("GET", f"/containers/{self.containers()[box.box_id]['Id']}/stats?stream=false")
        return stats["cpu_stats"]["cpu_usage"]["total_usage"] // 1000000

    def test_boxes(self):
        disk = pathlib.Path(self.directory) / "disk"  # the engine keeps its own files in memory
        disk.mkdir(mode=0o777)
        disk.chmod(0o777)
        daemon = self.start(warm=0, limits={"memory": "256M"}, mounts=[f"{disk}:/disk"],
                            price={"currency": "EUR", "per_used_cpu_hour": 3600},
                            config={"mounts": {"allow": [str(disk)]}, "usage": {"sample_s": 1},
                                    "budgets": {"currency": "EUR", "period": "total", "amount": 0.2}})
        client = daemon.client()
        box = self.box(daemon, "one")
        before = self.stats(client, box)
        while self.stats(client, box)["cpu_ms"] - before["cpu_ms"] < 300:
            box.sh(BURN)
        self.assertLessEqual(self.stats(client, box)["cpu_ms"], self.engine_cpu_ms(box))
        # a second is 1, and 0.3 of them have passed
        wait_until(lambda: self.assertOk(client.get("/v1/budgets/default"))["spent_micros"] >= 200000, "its owner has spent all")
        self.assertCode(client.acquire("two"), 402, "budget_exceeded")
        # what it holds is given back when it ends
        pid = box.start("x=$(dd if=/dev/zero bs=1M count=40 2>/dev/null | tr '\\0' x); echo held; sleep 600; echo $x")
        wait_until(lambda: box.output(pid) == "held\n", "it holds the memory")
        held = self.stats(client, box)
        self.assertLess(40 * MIB, held["memory_bytes"] - before["memory_bytes"])
        self.assertLess(held["memory_bytes"], 256 * MIB)
        self.assertEqual((held["net_in_bytes"], held["net_out_bytes"]), (None, None))  # it has no network
        box.sh("dd if=/dev/zero of=/disk/file bs=1M count=50 2>&1; sync")
        wrote = self.stats(client, box)["disk_write_bytes"] - held["disk_write_bytes"]
        self.assertLessEqual(50 * MIB, wrote)
        self.assertLess(wrote, 60 * MIB)
        # another life of the daemon finds it again; somebody else ends it
        last = self.stats(client, box)["cpu_ms"]
        daemon.kill()
        daemon.start()
        client = daemon.client()
        self.assertLessEqual(last, self.stats(client, box)["cpu_ms"])
        self.engine.call("POST", f"/containers/{self.containers()[box.box_id]['Id']}/kill")
        wait_until(lambda: client.get(f"/v1/sandboxes/{box.id}?stats=1").status != 200, "it has ended")


class CountedByPodman(Counted):
    kind = "podman"


class CountedElsewhere(Counted):
    """An engine that is reached by TCP, so that the daemon sees neither its processes nor their control groups: it is asked."""
    address = f"127.0.0.1:{free_port()}"
    options = ("-H", f"tcp://{address}", "--tls=false")

    def test_boxes(self):
        there = {"network": "nat", "docker": {"host": f"tcp://{self.address}"}}
        daemon = self.start(warm=0, limits={"memory": "256M"}, config={"usage": {"sample_s": 1}}, **there)
        client = daemon.client()
        box = self.box(daemon, "one")
        before = self.stats(client, box)
        pid = box.start(f"for n in 1 2 3 4 5; do {BURN}; done; x=$(dd if=/dev/zero bs=1M count=40 2>/dev/null | tr '\\0' x); echo held; "
                        "sleep 600; echo $x")
        wait_until(lambda: box.output(pid) == "held\n", "it holds the memory")
        held = self.stats(client, box)
        self.assertLess(300, held["cpu_ms"] - before["cpu_ms"])
        self.assertLessEqual(held["cpu_ms"], self.engine_cpu_ms(box))
        self.assertLess(40 * MIB, held["memory_bytes"] - before["memory_bytes"])
        self.assertLess(held["memory_bytes"], 256 * MIB)
        self.assertGreater(held["net_in_bytes"], before["net_in_bytes"])  # these calls
        self.assertGreater(held["net_out_bytes"], before["net_out_bytes"])
        wait_until(lambda: self.metered(client)["cpu_ms"] is not None and self.metered(client)["cpu_ms"] >= 300, "it is metered")
        self.assertGreater(self.metered(client)["net_out_bytes"], 0)
        self.engine.call("POST", f"/containers/{self.containers()[box.box_id]['Id']}/kill")
        wait_until(lambda: client.get(f"/v1/sandboxes/{box.id}?stats=1").status != 200, "it has ended")

    def stats(self, client, box):
        """The engine looks at its containers once a second, and answers after that; on a busy machine that may be too late."""
        return wait_until(lambda: super(CountedElsewhere, self).stats(client, box), "the engine has counted")

    def metered(self, client):
        return self.assertOk(client.get("/v1/usage?group_by=user"))["usage"][0]


if __name__ == "__main__":
    main()
