"""Health says what is true: /readyz, `sandpool pool`, `sandpool doctor`, the log and the events name the same cause."""

import http.client
import json
import os
import pathlib
import re
import resource
import signal
import subprocess

from fixtures import BIN, WAIT_S, Client, Daemon, TestCase, free_port, main, tmpdir, remove_groups, wait_until
from hostile import as_nobody


class Health(TestCase):
    def cli(self, daemon, *args):
        return subprocess.run([BIN / "sandpool", "--socket", daemon.socket, *args], capture_output=True, text=True,
                              timeout=WAIT_S)

    def kinds(self, client):
        text = client.get("/v1/events?since=0&follow=0").text
        return [line[len("event: "):] for line in text.splitlines() if line.startswith("event: ")]

    def events(self, client, *kinds):
        text = client.get("/v1/events?since=0&follow=0").text
        found = [dict(part.split(": ", 1) for part in event.splitlines()) for event in text.split("\n\n") if event]
        return [(e["event"], json.loads(e["data"])) for e in found if e.get("event") in kinds]

    def last_readiness(self, client):
        found = self.events(client, "profile_ready", "profile_not_ready")
        return found[-1][1].get("cause") if found else None

    def assertAgree(self, daemon, client, words, cause):
        """All say that nobody gets a box of the profile, and why."""
        ready = client.get("/readyz")
        self.assertEqual(ready.status, 503, ready)
        self.assertEqual(ready.json["cause"], cause)
        self.assertIn(words, ready.json["reason"])
        metrics = client.get("/metrics").text
        self.assertIn('sandpool_profile_ready{profile="default"} 0\n', metrics)
        self.assertIn(f'sandpool_profile_trouble{{profile="default",cause="{cause}"}} 1\n', metrics)
        self.assertEqual(len(re.findall(r"^sandpool_profile_trouble.* 1$", metrics, re.M)), 1)
        wait_until(lambda: self.last_readiness(client) == cause, f"an event that says '{cause}'")
        self.assertIn(words, self.events(client, "profile_not_ready")[-1][1]["reason"])
        wait_until(lambda: [f"cause={cause}" in line and words in line for line in daemon.process.output().splitlines()
                            if "profile.not_ready" in line][-1:] == [True], "the log: a thread of its own writes it")
        profiles = {p["name"]: p for p in ready.json["profiles"]}
        self.assertFalse(profiles["default"]["ready"])
        self.assertIn(words, profiles["default"]["reason"])
        shown = client.get("/v1/pool").json["profiles"][0]
        self.assertEqual((shown["ready"], shown["cause"], words in shown["reason"]), (False, cause, True), shown)
        self.assertIn(words, self.cli(daemon, "pool").stdout)
        doctor = self.cli(daemon, "doctor")
        self.assertNotEqual(doctor.returncode, 0, doctor.stdout)
        self.assertIn("FAIL", doctor.stdout)
        self.assertIn(words, " ".join(doctor.stdout.split()))

    def assertReady(self, daemon, client):
        ready = client.get("/readyz")
        self.assertEqual((ready.status, ready.json["reason"], ready.json["cause"]), (200, None, None), ready)
        self.assertEqual([p for p in ready.json["profiles"] if not p["ready"]], [])
        doctor = self.cli(daemon, "doctor")
        self.assertEqual(doctor.returncode, 0, doctor.stdout)
        wait_until(lambda: self.last_readiness(client) is None, "the last event is that it is ready, or there is none")
        self.assertNotIn(" 1\n", "".join(line for line in client.get("/metrics").text.splitlines(True)
                                          if line.startswith("sandpool_profile_trouble")))

    def test_all_boxes_are_in_use(self):
        daemon = self.daemon({"warm": {"min": 0, "max": 0}}, pool={"max_boxes": 1, "max_waiters": 8})
        client = self.client(daemon)
        self.assertReady(daemon, client)
        self.assertOk(client.acquire("a"))
        for _ in range(5):
            self.assertCode(client.acquire("b", wait_ms=0), 429, "pool_exhausted")
        self.assertAgree(daemon, client, "all boxes are in use", "exhausted")
        self.assertEqual(self.kinds(client).count("exhausted"), 1, "not one for every refusal")
        wait_until(lambda: daemon.process.output().count("pool.exhausted") == 1, "one line of the log, by a thread of its own")
        self.assertOk(client.release(client.acquire("a").json["sandbox_id"], destroy=True))
        self.assertReady(daemon, client)
        wait_until(lambda: "available" in self.kinds(client), "its end is said, too")
        wait_until(lambda: daemon.process.output().count("pool.available") == 1, "one line of the log, by a thread of its own")

    def test_a_runtime_that_is_missing(self):
        runtime = pathlib.Path(self.directory) / "runc-of-this-test"
        runtime.write_text("#!/bin/sh\nexit 1\n")
        os.chmod(runtime, 0o755)
        profile = {"backend": "oci", "runtime": str(runtime), "warm": {"min": 0, "max": 0}}
        instance = "test-health-" + os.path.basename(self.directory)[-8:]
        self.addCleanup(remove_groups, instance)
        daemon = self.daemon(profile, instance=instance, socket={"mode": "0666"})
        os.chmod(self.directory, 0o755)
        client = self.client(daemon)
        runtime.unlink()
        self.assertAgree(daemon, client, "runc-of-this-test is not installed", "backend")
        refused = client.acquire("t", wait_ms=1000)
        self.assertEqual(refused.status, 503, refused)
        self.assertAgree(daemon, client, "runc-of-this-test is not installed", "backend")
        self.assertOthersSeeNoPaths(daemon, client, str(runtime))

    def assertOthersSeeNoPaths(self, daemon, client, path):
        """The cause, but not where on the host it is."""
        def look(caller, thread):
            answer = caller.acquire(thread, wait_ms=1000)
            return [answer.text, *(caller.get(where).text for where in ("/readyz", "/v1/pool", "/v1/profiles", "/v1/waiting",
                                                                        "/v1/events?format=json&since=0"))]
        seen = as_nobody(lambda: look(Client(daemon.socket), "other"))
        for ours, theirs in zip(look(client, "own"), seen, strict=True):
            self.assertIn(path, ours)
            self.assertNotIn(self.directory, theirs)
            self.assertIn("…/runc-of-this-test", theirs, ours)

    def test_a_runtime_that_cannot_be_tried(self):
        """The base of boxes cannot be made, on a full disk, say: that is no word about the runtime."""
        programs = {}
        for name in ("runc-here", "helper"):
            programs[name] = pathlib.Path(self.directory) / name
            programs[name].write_text("#!/bin/sh\nexit 1\n")
            os.chmod(programs[name], 0o755)
        instance = "test-health-" + os.path.basename(self.directory)[-8:]
        self.addCleanup(remove_groups, instance)
        daemon = self.daemon({"backend": "oci", "runtime": str(programs["runc-here"]), "warm": {"min": 0, "max": 0}},
                             instance=instance, helper={"path": str(programs["helper"])})
        shown = " ".join(self.cli(daemon, "doctor").stdout.split())
        self.assertIn("not tried yet", shown)
        self.assertIn("none could be tried: see `rootfs host`", shown)
        self.assertNotIn("Install one", shown)

    def test_boxes_that_cannot_be_made(self):
        """The breaker is open, and nobody can be served; with a blank box somebody can."""
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"fail_percent": 100},
                              "create": {"backoff_min_ms": 60000, "backoff_max_ms": 60000, "breaker_failures": 1}})
        client = self.client(daemon)
        self.assertReady(daemon, client)
        self.assertEqual(client.acquire("t", wait_ms=1000).status, 503)
        self.assertAgree(daemon, client, "could not be made", "failures")

    def test_the_next_acquire_tries_again(self):
        """Nothing is made for a profile without warm boxes: when the pause is over, its next acquire can succeed."""
        daemon = self.daemon({"warm": {"min": 0, "max": 0}, "sim": {"fail_percent": 100},
                              "create": {"backoff_min_ms": 1500, "backoff_max_ms": 1500, "breaker_failures": 1}})
        client = self.client(daemon)
        self.assertEqual(client.acquire("t", wait_ms=30000).status, 503)
        wait_until(lambda: client.get("/readyz").status == 200, "the pause is over")
        self.assertReady(daemon, client)
        shown = client.get("/v1/pool").json["profiles"][0]
        self.assertEqual((shown["ready"], shown["reason"]), (True, None), shown)
        self.assertEqual((shown["breaker"]["open"], shown["breaker"]["failures"]), (False, 1), shown)
        text = self.cli(daemon, "pool").stdout
        self.assertIn("1 failures: ", text)  # what was wrong last is still there
        self.assertNotIn("refusing", text)
        self.assertEqual(client.acquire("t", wait_ms=30000).status, 503)  # and it has been tried
        self.assertEqual(client.get("/v1/pool").json["profiles"][0]["breaker"]["failures"], 2)
        config = json.loads(daemon.config.read_text())
        config["profiles"]["default"]["sim"]["fail_percent"] = 0
        daemon.write_config(config)
        self.assertOk(client.post("/v1/pool/reload"))
        wait_until(lambda: client.acquire("t", wait_ms=30000).status == 200, "boxes can be made again")
        self.assertReady(daemon, client)

    def test_warm_boxes_are_tried_for_by_the_pool(self):
        """So the profile stays in trouble until one was made, also between two tries."""
        daemon = self.daemon({"warm": {"min": 1, "max": 1}, "sim": {"fail_percent": 100},
                              "create": {"backoff_min_ms": 10, "backoff_max_ms": 20, "breaker_failures": 2}})
        client = self.client(daemon)

        def failures():
            return client.get("/v1/pool").json["profiles"][0]["breaker"]["failures"]
        wait_until(lambda: failures() >= 2, "the breaker is open")
        while failures() < 12:
            self.assertEqual(client.get("/readyz").status, 503)
            self.assertTrue(client.get("/v1/pool").json["profiles"][0]["breaker"]["open"])
        self.assertAgree(daemon, client, "could not be made", "failures")

    def test_a_full_disk(self):
        """Nobody gets a box that is to be made, but those that there are can be had."""
        daemon = self.daemon({"warm": {"min": 1, "max": 1}})
        client = self.client(daemon)
        self.wait_blank(client, 1)
        config = json.loads(daemon.config.read_text())
        daemon.write_config({**config, "store": {"min_free": "64T"}})
        self.assertOk(client.post("/v1/pool/reload"))
        wait_until(lambda: "below the floor" in client.get("/readyz").text, "it is noticed")
        self.wait_blank(client, 1)
        ready = self.assertOk(client.get("/readyz"))
        self.assertTrue(ready["ready"] and ready["profiles"][0]["ready"], ready)
        self.assertIn("below the floor", ready["profiles"][0]["reason"])
        doctor = self.cli(daemon, "doctor")
        self.assertNotEqual(doctor.returncode, 0, doctor.stdout)
        self.assertIn("only boxes that there are can be had", " ".join(doctor.stdout.split()))
        self.assertIn("below the floor", self.cli(daemon, "pool").stdout)
        self.assertOk(client.acquire("a", wait_ms=0))
        self.assertAgree(daemon, client, "below the floor", "disk")
        self.assertEqual(client.acquire("b", wait_ms=0).status, 503)

    def test_what_a_doctor_looks_at(self):
        daemon = self.daemon({"warm": {"min": 1, "max": 1}}, tcp={"listen": f"127.0.0.1:{free_port()}", "tokens": {"ci": "t" * 32}})
        client = self.client(daemon)
        self.wait_blank(client, 1)

        def findings():
            answer = self.assertOk(client.get("/v1/doctor"))
            return answer["ok"], {(b["name"], f["subject"]): (f["level"], f["text"])
                                  for b in answer["backends"] for f in b["findings"]}
        is_ok, found = findings()
        self.assertTrue(is_ok, found)
        self.assertLessEqual({("machine", "kernel features"), ("machine", "cgroup controllers"), ("machine", "open files"),
                              ("machine", "socket"), ("machine", "tcp.listen"), ("machine", "ports of boxes"),
                              ("machine", "clock"), ("disk", "free space"), ("disk", "inodes"), ("database", "writes"),
                              ("database", "integrity"), ("profiles", "default")}, set(found))
        self.assertEqual(found["database", "integrity"][0], "ok", found["database", "integrity"])
        self.assertEqual(found["machine", "socket"][0], "warn", found["machine", "socket"])
        self.assertIn("not all whom that admits may enter", found["machine", "socket"][1])
        os.chmod(self.directory, 0o755)
        found = findings()[1]
        self.assertEqual(found["machine", "socket"][0], "ok", found["machine", "socket"])
        self.assertIn("mode 0660", found["machine", "socket"][1])
        self.assertEqual([n for n in os.listdir(daemon.state) if n.endswith(".tmp")], [])
        os.chmod(daemon.socket, 0o666)
        self.assertIn("every user of this machine", findings()[1]["machine", "socket"][1])
        moved = daemon.socket.with_suffix(".moved")
        daemon.socket.rename(moved)
        is_ok, found = findings()
        self.assertEqual((is_ok, found["machine", "socket"][0]), (False, "fail"), found["machine", "socket"])
        moved.rename(daemon.socket)
        used = int(found["machine", "open files"][1].split()[0])
        soft, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (used + 20, hard))
        is_ok, found = findings()
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        self.assertEqual((is_ok, found["machine", "open files"][0]), (False, "fail"), found["machine", "open files"])

    def test_a_database_that_is_damaged(self):
        """It is read whole when it is examined; the daemon works on meanwhile."""
        daemon = self.daemon({"warm": {"min": 0, "max": 0}})
        self.assertOk(self.client(daemon).acquire("t"))
        daemon.stop()
        path = daemon.state / "sandpool.db"
        data = bytearray(path.read_bytes())
        count = int.from_bytes(data[28:32], "big")
        data += bytes(len(data) // count)
        data[28:32] = (count + 1).to_bytes(4, "big")  # a page that belongs to nothing
        path.write_bytes(data)
        daemon.start()
        client = self.client(daemon)
        done = self.cli(daemon, "doctor")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("damaged: ", " ".join(done.stdout.split()))
        self.assertIn("never used", " ".join(done.stdout.split()))
        self.assertEqual(client.get("/healthz").status, 200)

    def test_a_log_on_a_disk_that_hangs(self):
        """Nothing stops for a line of the log, and no line is lost."""
        top = tmpdir(self, "sandpool-log-")
        disk, place = top / "disk", top / "place"
        place.mkdir()
        with open(disk, "wb") as file:
            file.truncate(16 << 20)
        for command in (["mkfs.ext4", "-q", "-F", disk], ["mount", "-o", "loop", disk, place]):
            done = subprocess.run(command, capture_output=True, timeout=WAIT_S)
            if done.returncode != 0:
                self.skipTest(f"{command[0]}: {done.stderr.decode()[:200]}")
        self.addCleanup(subprocess.run, ["umount", place], check=True, timeout=WAIT_S)
        daemon = Daemon(top, {"profiles": {"default": {"backend": "sim"}}})
        daemon.log = place / "log"
        self.addCleanup(lambda: daemon.process.kill())
        daemon.start()
        subprocess.run(["fsfreeze", "-f", place], check=True, timeout=WAIT_S)
        try:
            for _ in range(3):
                daemon.process.child.send_signal(signal.SIGHUP)  # a line each
                client = daemon.client()
                self.assertOk(client.post("/v1/pool/reload"))
                self.assertEqual(client.get("/healthz").status, 200)
                client.close()
        finally:
            subprocess.run(["fsfreeze", "-u", place], check=True, timeout=WAIT_S)
        wait_until(lambda: daemon.process.output().count("config.reloaded") >= 3, "the lines are there")
        daemon.stop()

    def test_strangers_are_not_shown_the_profiles(self):
        port = free_port()
        self.daemon(tcp={"listen": f"127.0.0.1:{port}", "tokens": {"ci": "t" * 32}})
        for token, shown in ((None, False), ("wrong" * 8, False), ("t" * 32, True)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
            connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = json.loads(connection.getresponse().read())
            connection.close()
            self.assertEqual((answer["ready"], "profiles" in answer), (True, shown))


if __name__ == "__main__":
    main()
