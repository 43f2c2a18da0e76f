"""Containers that take memory of the machine which is charged to nobody: they are ended, with their reason, also those
that an earlier daemon made. Where their processes cannot be seen, doctor says so."""

import os
import subprocess
import unittest

from engine_case import EngineCase, engines
from fixtures import BIN, main, wait_until
from host import GROUPS

BOUND = 6 << 20  # 256 open directories
# Each process opens seven of its own; what the last one inherits counts once.
HOARD = """
for i in $(busybox seq 40); do
    (exec 3</tmp 4</tmp 5</tmp 6</tmp 7</tmp 8</tmp 9</tmp; exec sleep 1000) &
done
wait
"""
OPEN = "import os; kept = [os.open('/tmp', 0) for _ in range(1000)]; print(1, flush=True); os.read(os.pipe()[0], 1)"
ORDINARY = "exec 3</tmp 4</place; for i in 1 2 3 4; do sleep 1000 & done; wait"


class Hoard(EngineCase):
    def start(self, host=None, **fields):
        return self.daemon_on({"default": self.config(host, docker={"kernel_memory": BOUND}, **fields)},
                              agent={"path": str(engines.static_agent(BIN))})

    def finding(self, daemon):
        found = [f for f in self.get(daemon, "/v1/doctor").json["backends"][0]["findings"]
                 if f["subject"] == "kernel memory"]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def assertEnded(self, daemon, box):
        answer = wait_until(lambda: (lambda a: a.status == 410 and a)(self.get(daemon, f"/v1/sandboxes/{box.id}")),
                            f"the box is ended: {daemon.process.output()[-3000:]}")
        self.assertCode(answer, 410, "sandbox_lost")
        self.assertIn("kernel_memory", answer.text)
        said = self.wait_event(daemon, "box.kernel_memory", box_id=box.box_id)
        self.assertRegex(said["status"], r", \d{3,} open directories")

    def test_one_that_holds_too_much_is_ended(self):
        daemon = self.start(warm=2)
        neighbour, box = self.box(daemon, "neighbour"), self.box(daemon, "box")
        program = neighbour.start(ORDINARY)
        self.assertEqual(self.finding(daemon)["level"], "ok")
        self.assertIn("6 MB", self.finding(daemon)["text"])
        box.start(HOARD)
        self.assertEnded(daemon, box)
        self.assertEqual(neighbour.process(program)["outcome"], "running")
        self.assertIn(neighbour.box_id, self.rows(daemon, "leased"))

    def test_one_of_an_earlier_daemon(self):
        daemon = self.start()
        box = self.box(daemon, "box")
        daemon.kill()
        box.start(HOARD)
        daemon.start()
        self.assertEnded(daemon, box)

    def test_group_of_the_same_name_elsewhere(self):
        """Whoever has control groups of their own can name them after a container: that one is not ended for it."""
        daemon = self.start()
        box = self.box(daemon, "box")
        top = next(p for p in (GROUPS / "pids", GROUPS) if (p / "cgroup.procs").exists())
        mine = top / f"sandpool-test-{os.urandom(4).hex()}"
        forged = mine / self.container(box)
        forged.mkdir(parents=True)
        self.addCleanup(lambda: [p.rmdir() for p in (forged, mine)])
        for path in (mine, forged):
            os.chown(path, 65534, 65534)
        holder = subprocess.Popen(["python3", "-c", OPEN], stdout=subprocess.PIPE)
        self.addCleanup(lambda: [holder.kill(), holder.communicate()])
        holder.stdout.readline()
        (forged / "cgroup.procs").write_text(str(holder.pid))
        other = self.box(daemon, "other")
        other.start(HOARD)
        self.assertEnded(daemon, other)  # so boxes were counted meanwhile
        self.assertIn(box.box_id, self.rows(daemon, "leased"))

    @unittest.skipUnless(os.environ.get("SANDPOOL_TEST_ISOLATED") == "yes", "the mounts of this machine are not ours")
    def test_groups_that_are_not_seen(self):
        """As those of an engine whose socket leads to another machine, or for a daemon in a container."""
        daemon = self.start()
        self.box(daemon, "box")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", GROUPS], check=True, timeout=30)
        try:
            wait_until(lambda: self.finding(daemon)["level"] == "warn", "doctor warns")
            self.assertIn("control group", self.finding(daemon)["text"])
        finally:
            subprocess.run(["umount", GROUPS], check=True, timeout=30)
        wait_until(lambda: self.finding(daemon)["level"] == "ok", "it is watched again")

    def test_engine_elsewhere(self):
        daemon = self.start("tcp://127.0.0.1:1", warm=0, network="nat")
        self.assertEqual(self.finding(daemon)["level"], "warn")
        self.assertIn("on the machine of the engine", self.finding(daemon)["text"])


class PodmanHoard(EngineCase):
    KIND = "podman"
    start, assertEnded = Hoard.start, Hoard.assertEnded

    def test_one_that_holds_too_much_is_ended(self):
        daemon = self.start()
        box = self.box(daemon, "box")
        box.start(HOARD)
        self.assertEnded(daemon, box)


if __name__ == "__main__":
    main()
