"""The daemon on a real Docker engine, which the test starts itself: what a box is like inside, whose it is, and what
is left of it all after restarts, a lost database, deaths, and an engine that is stuck or gone."""

import os
import random
import signal
import time

from docker_case import INSTANCE, DockerCase, engines
from fixtures import at_most, main, wait_until
from box import Box
from host import GROUPS, mark_of, processes, read_of, runs_one_of
from oci_case import Apart


class Inside(Apart, DockerCase):
    def look(self, box):
        self.assertEqual(box.sh("id -un && pwd").split(), ["ann", "/place"])  # as the image says
        status = box.sh("cat /proc/self/status")
        self.assertIn("NoNewPrivs:\t1\n", status)
        self.assertIn("CapEff:\t0000000000000000\n", status)
        self.assertIn("CapBnd:\t0000000000000000\n", status)  # not root: none
        self.assertIn("Seccomp:\t2\n", status)
        self.assertNotIn(box.lease["token"], box.sh("env; cat /proc/1/environ 2>/dev/null || true"))
        self.assertEqual(box.call("GET", "/v1/agent/jobs", token="x" * 32)[0], 401)
        host = self.container(box)["HostConfig"]
        self.assertEqual((host["Memory"], host["MemorySwap"], host["PidsLimit"], host["NanoCpus"]),
                         (64 << 20, 64 << 20, 512, 10 ** 9))

    def test_without_network(self):
        daemon = self.start(env={"GREETING": "good day"})
        box = self.box(daemon, "one")
        self.look(box)
        self.assertEqual(box.sh("cat /proc/net/dev").count(":"), 1)  # loopback only
        self.assertEqual(box.sh("echo $GREETING"), "good day\n")
        self.assertNotEqual(box.run("echo x > /.sandpool/agent").exit_code, 0)

    def test_no_socket_of_the_host_is_inside(self):
        daemon = self.start(warm=0)
        box = self.box(daemon, "one")
        self.assertApart(box, self.container(box)["State"]["Pid"])
        status = read_of(*self.relays(box), "status")
        for line in ("NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapEff:\t0000000000000000\n"):
            self.assertIn(line, status)
        self.assertNotIn("Uid:\t0", status)

    def test_relays_are_no_part_of_the_service(self):
        """Where systemd looks, in version 1: its own hierarchy and one of version 2. All else is as it was."""
        daemon = self.start(warm=0)
        relays = self.relays(self.box(daemon, "one")) + self.relays(self.box(daemon, "two"))
        self.assertEqual(len(relays), 2)
        own = self.groups_of("self")
        for relay in relays:
            for names, path in self.groups_of(relay).items():
                is_moved = names in ("", "name=systemd") or "pids" in names.split(",")
                if is_moved and self.may_write(names):
                    self.assertEqual(path, f"/sandpool-{INSTANCE}/relays", names)
                else:
                    self.assertEqual(path, own[names], names)

    def groups_of(self, pid):
        return dict(line.split(":", 2)[1:] for line in read_of(pid, "cgroup").splitlines())

    def may_write(self, names):
        top = GROUPS / {"": "unified", "name=systemd": "systemd"}.get(names, names)
        return os.access(GROUPS if (GROUPS / "cgroup.controllers").exists() else top, os.W_OK)

    def test_box_and_relay_end_with_each_other(self):
        daemon = self.start(warm=0)
        for victim in ("relay", "box"):
            box = self.box(daemon, victim)
            relays = self.relays(box)
            self.assertEqual(len(relays), 1)
            os.kill(relays[0] if victim == "relay" else self.container(box)["State"]["Pid"], signal.SIGKILL)
            client = self.client(daemon)
            wait_until(lambda box=box, client=client: client.get(f"/v1/sandboxes/{box.id}").status == 410, "it is noticed")
            wait_until(lambda box=box: self.relays(box) == [], "the relay is gone")

    def relays(self, box):
        marks = {mark_of(self.helper)}
        return [pid for pid in processes() if runs_one_of(pid, marks) and
                f"/{box.box_id}\0" in read_of(pid, "cmdline")]

    def test_published(self):
        daemon = self.start(network="nat", docker={"inject": "upload"})
        box = self.box(daemon, "one")
        self.look(box)
        ports = self.container(box)["NetworkSettings"]["Ports"]["8080/tcp"]
        self.assertEqual([p["HostIp"] for p in ports], ["127.0.0.1"])

    def test_late_binding(self):
        daemon = self.start()
        box = self.box(daemon, "one", envs={"LATE": "yes"}, limits={"memory": "96M"})
        self.assertEqual(box.sh("echo $LATE"), "yes\n")
        self.assertEqual(self.container(box)["HostConfig"]["Memory"], 96 << 20)

    def test_image_that_serves_itself(self):
        status, data = self.engine.call(
            "POST", "/images/create?fromSrc=-&repo=serves&tag=1&changes=" + "CMD%20%5B%22/bin/sh%22,%22-c%22,"
            "%22mkdir%20-p%20/tmp/v1%20%26%26%20echo%20%24SANDBOX_API_KEY%3E/tmp/v1/sandbox%20%26%26%20"
            "exec%20/bin/busybox%20httpd%20-f%20-p%209000%20-h%20/tmp%22%5D",
            engines.image_tar(), "application/x-tar")
        self.assertEqual(status, 200, data)
        daemon = self.start(image="serves:1", agent="image", network="nat", docker={"port": 9000})
        box = self.box(daemon, "one")
        self.assertEqual(box.call("GET", "/v1/sandbox")[1].decode().strip(), box.lease["token"])

    def test_image_that_is_nowhere(self):
        daemon = self.start(image="no-such-image:1", warm=0)
        answer = daemon.acquire("one", wait_ms=3000)
        self.assertEqual(answer.status, 503, answer)
        self.assertIn("image.pulling", daemon.process.output())
        self.assertIn("image.failed", daemon.process.output())


class Owners(DockerCase):
    def test_name_and_restart(self):
        daemon = self.start()
        box = self.box(daemon, "one")
        wait_until(lambda: self.container(box)["Name"] == f"/sandpool-{box.id}", "its name")
        box.sh("echo mine > /place/file")
        daemon.restart()
        again = self.box(daemon, "one")
        self.assertEqual((again.box_id, again.lease["source"]), (box.box_id, "kept"))
        daemon.kill()
        daemon.start()
        self.assertEqual(self.box(daemon, "one").sh("cat /place/file"), "mine\n")

    def test_lost_database(self):
        daemon = self.start()
        box = self.box(daemon, "one")
        wait_until(lambda: self.container(box)["Name"] == f"/sandpool-{box.id}", "its name")
        daemon.stop()
        for path in daemon.state.glob("sandpool.db*"):
            path.unlink()
        daemon.start()
        again = wait_until(lambda: self.kept(daemon, box), "the box is the thread's again")
        self.assertEqual(again.lease["generation"], box.lease["generation"])
        self.assertEqual(again.lease["token"], box.lease["token"])

    def kept(self, daemon, box):
        client = daemon.client()
        try:
            rows = client.get("/v1/sandboxes?limit=100").json["sandboxes"]
        finally:
            client.close()
        row = [r for r in rows if r["sandbox_id"] == box.id and r["state"] == "parked"]
        if not row:
            return None
        self.assertEqual(row[0]["box_id"], box.box_id)
        return self.box(daemon, "one")

    def test_others_are_not_touched(self):
        made = self.engine.json("POST", "/containers/create?name=sandpool-fe0dc8182dec7b77",
                                {"Image": engines.IMAGE, "Cmd": ["/bin/sleep", "1000"]})
        other = self.engine.json("POST", "/containers/create?name=sandpool-other", {
            "Image": engines.IMAGE, "Cmd": ["/bin/sleep", "1000"],
            "Labels": {"sandpool.instance": "somebody", "sandpool.box": "00000000000000aa"}})
        try:
            self.engine.json("POST", f"/containers/{other['Id']}/start")
            daemon = self.start()
            box = self.box(daemon, "thread-1", user_id="default")
            self.assertEqual(box.id, "fe0dc8182dec7b77")  # the name that is taken
            wait_until(lambda: self.container(box)["Name"].startswith(f"/sandpool-{box.id}."), "another name")
            daemon.restart()
            self.assertEqual(self.box(daemon, "thread-1", user_id="default").box_id, box.box_id)
            for one in (made, other):
                self.engine.json("GET", f"/containers/{one['Id']}/json")
        finally:
            for one in (made, other):
                self.engine.call("DELETE", f"/containers/{one['Id']}?force=1")


class Trouble(DockerCase):
    def test_death_is_seen(self):
        daemon = self.start()
        box = self.box(daemon, "one")
        self.engine.json("POST", f"/containers/{self.containers()[box.box_id]['Id']}/kill")
        wait_until(lambda: box.box_id not in self.containers(), "it is removed")
        died = next(line for line in daemon.process.output().splitlines() if "event=box.died " in line)
        self.assertIn(" with code ", died)  # from an event: a listing does not show the code
        self.assertNotEqual(self.box(daemon, "one").box_id, box.box_id)

    def test_leftovers_of_a_crash(self):
        daemon = self.start()
        boxes = {"created": "00000000000000bb", "exited": "00000000000000bc"}
        for state, box_id in boxes.items():
            made = self.engine.json("POST", "/containers/create", {
                "Image": engines.IMAGE, "Cmd": ["/bin/true"],
                "Labels": {"sandpool.instance": INSTANCE, "sandpool.box": box_id,
                           "sandpool.profile": "default"}})
            if state == "exited":
                self.engine.call("POST", f"/containers/{made['Id']}/start")  # it may be seen and removed already
        self.engine.json("POST", "/volumes/create", {"Name": "stray", "Labels": {
            "sandpool.instance": INSTANCE, "sandpool.box": "00000000000000cc", "sandpool.profile": "default"}})
        client = daemon.client()
        client.post("/v1/pool/reconcile")
        client.close()

        def is_clean():
            return (not set(boxes.values()) & set(self.containers()) and
                    not [v for v in self.engine.volumes() if v["Name"] == "stray"])
        wait_until(is_clean, "leftovers are gone", 10)

    def test_stuck_engine(self):
        daemon = self.start()
        box = self.box(daemon, "one")
        self.engine.process.send_signal(signal.SIGSTOP)
        try:
            started = time.monotonic()
            kept = self.box(daemon, "one")  # what is known goes on
            self.assertLess(time.monotonic() - started, at_most(2))
            self.assertEqual(kept.box_id, box.box_id)
            self.assertEqual(kept.sh("echo alive"), "alive\n")
            for i in range(3):  # one blank box is there; then nothing can be made
                answer = daemon.acquire(f"more-{i}", wait_ms=1500)
            self.assertEqual(answer.status, 503, answer)
            self.assertLess(time.monotonic() - started, at_most(8))
        finally:
            self.engine.process.send_signal(signal.SIGCONT)
        self.box(daemon, "after")

    def test_engine_gone_and_back(self):
        daemon = self.start()
        box = self.box(daemon, "one")
        self.engine.stop(signal.SIGKILL)
        self.engine.kill_strays()
        self.assertIn(daemon.acquire("two", wait_ms=1000).status, (200, 503))
        self.engine.start()
        again = wait_until(lambda: self.try_acquire(daemon, "three"), "boxes are made again")
        self.assertEqual(again.sh("echo good"), "good\n")
        self.assertNotIn(box.box_id, [c for c, v in self.containers().items() if v["State"] == "running"])

    def test_engine_killed_at_any_moment(self):
        daemon = self.start()
        dice = random.Random(int(os.environ.get("SANDPOOL_TEST_SEED", "7")))
        for i in range(6):
            wait_until(lambda: self.try_acquire(daemon, f"before-{i}"), "boxes are made")
            time.sleep(dice.uniform(0, 0.7))
            self.engine.stop(signal.SIGKILL)
            self.engine.kill_strays()
            self.assertIn(daemon.acquire(f"after-{i}", wait_ms=300).status, (200, 502, 503))
            self.engine.start()
        wait_until(lambda: self.try_acquire(daemon, "end"), "boxes are made again")

    def try_acquire(self, daemon, thread):
        answer = daemon.acquire(thread, wait_ms=5000)
        return Box(answer.json) if answer.status == 200 else None


if __name__ == "__main__":
    main()
