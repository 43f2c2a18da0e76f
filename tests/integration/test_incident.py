"""An incident from its beginning to its end: the runtime breaks, the engine dies under load, the disk fills. Each time every
view states the same cause, and the recovery."""

import json
import os
import pathlib
import shutil
import subprocess
import threading

from fixtures import BIN, WAIT_S, SimMachine, TestCase, main, remove_groups, skip, wait_until


class Incident(TestCase):
    def cli(self, *args):
        return subprocess.run([BIN / "sandpool", "--socket", self.served.socket, *args], capture_output=True, text=True,
                              timeout=WAIT_S)

    def changes(self, profile):
        """What the audit trail says of the profile: a cause, or None when it was ready again."""
        found = []
        for line in self.client_.get("/v1/events?since=0&follow=0").text.splitlines():
            event = json.loads(line[len("data: "):]) if line.startswith("data: ") else {}
            if event.get("event", "").startswith("profile_") and event["profile"] == profile:
                found.append((event.get("cause"), event.get("reason", "")))
        return found

    def log(self, profile):
        return [line for line in self.served.process.output().splitlines()
                if "event=profile." in line and f"profile={profile} " in line + " "]

    def states(self, profile):
        ready = self.client_.get("/readyz")
        return ready.status, {p["name"]: p for p in ready.json["profiles"]}[profile]

    def all_say(self, profile, cause, words):
        client = self.client_
        wait_until(lambda: self.states(profile)[1]["cause"] == cause, lambda: f"{cause}: {self.states(profile)}")
        status, shown = self.states(profile)
        self.assertEqual((status, shown["ready"]), (503 if profile == "default" else 200, False))
        self.assertIn(words, shown["reason"])
        pool = {p["name"]: p for p in client.get("/v1/pool").json["profiles"]}[profile]
        self.assertEqual((pool["ready"], pool["cause"]), (False, cause))
        self.assertIn(words, pool["reason"])
        metrics = client.get("/metrics").text
        self.assertIn(f'sandpool_profile_trouble{{profile="{profile}",cause="{cause}"}} 1\n', metrics)
        self.assertIn(f'sandpool_profile_ready{{profile="{profile}"}} 0\n', metrics)
        wait_until(lambda: self.changes(profile) and self.changes(profile)[-1][0] == cause, "an event")
        self.assertIn(words, self.changes(profile)[-1][1])
        wait_until(lambda: self.log(profile) and f"cause={cause} " in self.log(profile)[-1], "a line in the log")
        self.assertIn(words, self.cli("pool").stdout)
        doctor = self.cli("doctor")
        self.assertEqual(doctor.returncode, 1, doctor.stdout)
        self.assertIn(words, " ".join(doctor.stdout.split()))
        self.assertRegex(self.cli("top", "--once").stdout, rf"(?m)^{profile} .*not ready")  # cut at the width of a screen
        top = {p["name"]: p for p in json.loads(self.cli("top", "--json").stdout)["profiles"]}[profile]
        self.assertIn(words, top["reason"])

    def all_say_ready(self, profile):
        wait_until(lambda: self.states(profile)[1]["ready"], lambda: f"ready: {self.states(profile)}")
        wait_until(lambda: self.changes(profile)[-1][0] is None, "an event that it is ready")
        self.assertIn(f'sandpool_profile_ready{{profile="{profile}"}} 1\n', self.client_.get("/metrics").text)
        wait_until(lambda: [f"event=profile.ready profile={profile}" in line for line in self.log(profile)][-1:] == [True],
                   "the log, too: a thread of its own writes it")
        self.assertNotIn("not ready", self.cli("top", "--once").stdout)
        doctor = self.cli("doctor")
        self.assertEqual(doctor.returncode, 0, doctor.stdout)

    def small_disk(self):
        state = pathlib.Path(self.directory) / "state"
        state.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", state], capture_output=True, text=True)
        if done.returncode != 0:
            skip(f"no tmpfs can be mounted: {done.stderr}")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", state], check=True, timeout=WAIT_S))
        return state

    def load(self):
        """Callers who never stop; what they are answered."""
        answers, stop = [], threading.Event()

        def call(n):
            while not stop.is_set():
                answers.append(self.served.acquire(f"load{n}", wait_ms=200).status)
        threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()

        def end():
            stop.set()
            for thread in threads:
                thread.join(WAIT_S)
            self.assertFalse([t for t in threads if t.is_alive()], "nobody waits for ever")
            return answers
        self.addCleanup(end)
        return end

    def test_the_walk(self):
        state = self.small_disk()
        runtime = pathlib.Path(self.directory) / "runtime-of-this-test"
        runc = shutil.which("runc")
        if runc is None:
            skip("there is no runc")
        shutil.copy(runc, runtime)
        instance = "test-incident-" + os.path.basename(self.directory)[-8:]
        self.addCleanup(remove_groups, instance)
        machine = self.sim()
        self.served = self.daemon(instance=instance, store={"min_free": "40M"}, pool={"reconcile_interval_s": 1}, profiles={
            "default": {"backend": "sim", "sim": {"socket": str(machine.socket)}, "warm": {"min": 0, "max": 0},
                        "create": {"breaker_failures": 1000}},  # what is wrong with the engine stays the newest cause
            "real": {"backend": "oci", "runtime": str(runtime), "warm": {"min": 0, "max": 0}}})
        self.client_ = self.client(self.served)
        wait_until(lambda: self.client_.get("/readyz").status == 200, "ready")
        # the runtime breaks
        runtime.unlink()
        self.all_say("real", "backend", "runtime-of-this-test is not installed")
        self.assertTrue(self.states("default")[1]["ready"], "the others are served")
        shutil.copy(runc, runtime)
        self.all_say_ready("real")
        # the engine dies under load
        end = self.load()
        machine.kill()
        self.all_say("default", "backend", "backend sim:")
        again = SimMachine(self.directory)
        self.addCleanup(again.kill)
        self.addCleanup(again.client.close)
        self.all_say_ready("default")
        self.assertLessEqual({200, 503}, set(end()))
        for n in range(4):
            self.client_.delete("/v1/sandboxes/thread:default/load" + str(n))
        # the disk fills
        filler = state / "filler"
        filler.write_bytes(bytes(80 << 20))
        self.all_say("default", "disk", "below the floor of 40 MB")
        filler.unlink()
        self.all_say_ready("default")


if __name__ == "__main__":
    main()
