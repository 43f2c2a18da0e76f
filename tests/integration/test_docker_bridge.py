"""Containers on a bridge, while others come and go: the first command in each box is answered, also by gVisor, where it takes
long enough for the bridge to lose a port meanwhile. SANDPOOL_TEST_TRIES: how many boxes."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

from docker_case import DockerCase, engines
from fixtures import main, wait_until

TRIES = int(os.environ.get("SANDPOOL_TEST_TRIES", "8"))
LOWEST = "00:00:00:00:00:01"


def show_devices():
    """/sys shows the network of whoever mounted it: here, that of the namespace in which the engine runs."""
    with tempfile.TemporaryDirectory(prefix="sandpool-test-") as place:
        subprocess.run(["mount", "-t", "sysfs", "sysfs", place], check=True, timeout=10)
        for path in ("class/net", "devices/virtual/net"):
            subprocess.run(["mount", "--bind", f"{place}/{path}", f"/sys/{path}"], check=True, timeout=10)
        subprocess.run(["umount", place], check=True, timeout=10)


class BridgeCase(DockerCase):
    def bridge_address(self):
        shown = subprocess.run(["ip", "-json", "link", "show", self.engine.bridge], capture_output=True, check=True, timeout=10)
        return json.loads(shown.stdout)[0]["address"]

    def attach_lowest(self):
        """A port whose address is below all others': a bridge without an address of its own takes it."""
        self.port = self.engine.bridge[:12] + "low"
        for words in (["add", self.port, "address", LOWEST, "type", "veth", "peer", "name", self.port[:12] + "end"],
                      ["set", self.port, "master", self.engine.bridge], ["set", self.port, "up"]):
            subprocess.run(["ip", "link", *words], check=True, timeout=10)

    def detach_lowest(self):
        """What is sent to its address now is for nobody."""
        subprocess.run(["ip", "link", "del", self.port], check=True, timeout=10)

    def findings(self, daemon):
        client = self.client(daemon)
        return [f for b in client.get("/v1/doctor").json["backends"] for f in b["findings"]
                if "hardware address" in f["text"]]


class OwnAddress(BridgeCase):
    def test_an_answer_under_way(self):
        """The connection is there, the command runs, and the bridge loses a port before the answer."""
        daemon = self.start(network="nat", warm=0)
        self.attach_lowest()
        box = self.box(daemon, "one")
        box.sh("mkfifo /tmp/gate")
        before = self.bridge_address()
        answers = []
        caller = threading.Thread(target=lambda: answers.append(box.json(
            "POST", "/v1/bash/exec", {"command": "echo waits > /tmp/begun; cat /tmp/gate"})))
        caller.start()
        wait_until(lambda: "waits" in box.run("cat /tmp/begun").out, "the command runs")
        self.detach_lowest()
        self.assertEqual(self.bridge_address(), before)
        box.sh("echo now > /tmp/gate")
        caller.join()
        self.assertEqual(answers[0]["data"]["stdout"], "now\n")


class BorrowedEngine(engines.Engine):
    has_fixed_bridge = False


class BorrowedAddress(BridgeCase):
    engine_class = BorrowedEngine

    @classmethod
    def setUpClass(cls):
        if os.environ.get("SANDPOOL_TEST_ISOLATED") != "yes":
            raise unittest.SkipTest("no namespaces of our own")
        show_devices()
        super().setUpClass()

    def test_doctor(self):
        daemon = self.start(network="nat", warm=0)
        self.attach_lowest()
        self.assertEqual(self.bridge_address(), LOWEST)
        self.detach_lowest()
        self.assertNotEqual(self.bridge_address(), LOWEST)  # what the other test must not see
        found = self.findings(daemon)
        self.assertEqual([(f["subject"], f["level"]) for f in found], [("network", "warn")], found)
        advice = found[0]["text"].split("`")[1]
        self.assertIn(self.engine.bridge, advice)
        subprocess.run(advice, shell=True, check=True, timeout=10)
        self.assertEqual(self.findings(daemon), [])


class GvisorEngine(engines.Engine):
    def dockerd(self):
        runtime = pathlib.Path(self.dir + "/runsc")
        runtime.write_text('#!/bin/sh\nexec runsc --platform=ptrace --ignore-cgroups --network=host "$@"\n')
        runtime.chmod(0o755)
        return [*super().dockerd(), f"--add-runtime=runsc={runtime}"]


@unittest.skipUnless(shutil.which("runsc"), "runsc is not installed")
class FirstCommand(BridgeCase):
    """In a fresh warm box, while the next ones are made."""

    engine_class = GvisorEngine

    def test_each_is_answered(self):
        daemon = self.start(runtime="runsc", network="nat", warm=2)
        client = self.client(daemon)
        for i in range(TRIES):
            box = self.box(daemon, f"t{i}")
            answer = box.json("POST", "/v1/bash/exec", {"command": f"echo {i}"})
            self.assertEqual(answer["data"]["stdout"], f"{i}\n", json.dumps(answer))
            self.assertOk(client.delete(f"/v1/sandboxes/{box.id}"))


if __name__ == "__main__":
    main()
