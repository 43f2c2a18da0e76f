"""Real boxes that become snapshots when their time is over (park: snapshot) and come back with the next acquire of their
thread: with their files, for nobody else, after a restart, without the database, and when everything is killed in the
middle."""

import os
import signal
import subprocess
import unittest

from fixtures import BIN, Client, in_threads, main, wait_until
from hostile import as_nobody
from host import has_loop_devices
from oci_case import BoxCase
from test_crash import fault_names

# Where the daemon is killed, and whether the files are then in a box that runs, or in a snapshot.
ON_THE_WAY = ("snapshot.copied", "snapshot.recorded", "snapshot.made", "hibernate.captured", "hibernate.doomed",
              "engine.before_destroy")
ON_THE_WAY_BACK = ("engine.before_create", "engine.after_create", "hibernate.before_drop", "engine.before_reply",
                   "hibernate.before_envs")


@unittest.skipUnless(has_loop_devices(), "a snapshot is a copy of a box's disk, which needs loop devices")
class HibernateCase(BoxCase):
    profiles = {"default": {"warm": {"min": 0, "max": 0}, "park": "snapshot", "park_timeout_s": 0},
                "brief": {"warm": {"min": 0, "max": 0}, "park": "snapshot", "idle_timeout_s": 1},
                "short": {"warm": {"min": 0, "max": 0}, "park": "snapshot", "ttl_s": 1}}
    config = {"socket": {"mode": "0666"}}

    @classmethod
    def make_config(cls):
        cls.home.chmod(0o755)
        return super().make_config()

    def on_disk(self):
        return sorted(os.listdir(self.server.state / "oci" / "snapshots"))

    def seen(self, sandbox_id, client=None):
        answer = (client or self.pool).get(f"/v1/sandboxes/{sandbox_id}")
        return answer.json if answer.status == 200 else {"state": answer.status}

    def await_state(self, sandbox_id, state="hibernated"):
        wait_until(lambda: self.seen(sandbox_id)["state"] == state, lambda: f"{state}: {self.seen(sandbox_id)}")
        return self.seen(sandbox_id)

    def await_gone(self, box):
        """Nothing runs of it any more."""
        wait_until(lambda: box.box_id not in os.listdir(self.server.state / "oci" / "boxes"), "the box is gone")

    def release(self, box):
        self.assertEqual(self.pool.post(f"/v1/sandboxes/{box.id}/release", {}).status, 200)

    def hibernate(self, box):
        self.release(box)
        return self.await_state(box.id)

    def hibernated(self, client=None):
        return {s["thread_id"] for s in (client or self.pool).get("/v1/sandboxes?state=hibernated").json["sandboxes"]}

    def serve(self, **options):
        self.server.start(**options)
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)

    def tearDown(self):
        for snapshot in self.pool.get("/v1/snapshots?all=1").json["snapshots"]:
            self.pool.delete(f"/v1/snapshots/{snapshot['snapshot_id']}")
        self.destroy_all()
        wait_until(lambda: self.on_disk() == [], lambda: f"no snapshot is left: {self.on_disk()}")
        super().tearDown()


class Hibernate(HibernateCase):
    def test_there_and_back(self):
        box = self.acquire("t", metadata={"of": "t"})
        box.sh("echo mine > /workspace/f; echo two > ~/g; rm /etc/hostname 2>/dev/null; sleep 1000 >/dev/null 2>&1 &")
        self.assertEqual(self.acquire("t", "kept").id, box.id)
        asleep = self.hibernate(box)
        first = box.lease["generation"]
        self.assertEqual((asleep["generation"], asleep["thread_id"], asleep["metadata"], asleep["sandbox_url"]),
                         (first, "t", {"of": "t"}, None))
        self.assertGreater(asleep["ends_in_s"], 29 * 24 * 3600)
        self.await_gone(box)
        self.assertEqual(self.hibernated(), {"t"})
        self.assertEqual(self.pool.get("/v1/pool").json["hibernated"], 1)
        self.assertEqual(self.pool.get("/v1/snapshots").json["snapshots"], [])
        shown, = self.pool.get("/v1/snapshots?all=1").json["snapshots"]
        self.assertEqual((shown["snapshot_id"], shown["hibernated"]), (asleep["snapshot_id"], True))
        refused = self.pool.post(f"/v1/sandboxes/{box.id}/exec", {"command": "true"})
        self.assertIn(refused.status, (404, 409, 410), refused)
        again = self.acquire("t", "restored")
        self.assertEqual((again.id, again.lease["generation"], again.lease["metadata"]), (box.id, first + 1, {"of": "t"}))
        self.assertNotEqual(again.lease["token"], box.lease["token"])
        self.assertEqual(again.sh("cat /workspace/f ~/g; pgrep -c sleep || true"), "mine\ntwo\n0\n")
        self.assertEqual(self.hibernated(), set())
        wait_until(lambda: self.pool.get("/v1/snapshots?all=1").json["snapshots"] == [], "its snapshot is not needed any more")
        again.sh("echo more >> /workspace/f")
        self.hibernate(again)
        third = self.acquire("t", "restored")
        self.assertEqual((third.sh("cat /workspace/f"), third.lease["generation"]), ("mine\nmore\n", first + 2))

    def side_files(self):
        return sorted(os.listdir(self.server.state / "snapshots"))

    def start_while_the_disk_hangs(self):
        """Variables cannot be read: the daemon starts all the same, and says what it cannot do yet."""
        gate = self.server.state / "gate"
        if not fault_names():
            self.serve()
            return
        gate.touch()
        self.serve(env={"SANDPOOL_HANG_AT": f"hibernate.loading={gate}", "SANDPOOL_HURRY": "100"})
        refused = self.pool.post("/v1/acquire", {"thread_id": "t"})
        self.assertEqual((refused.status, refused.json["error"]["code"]), (503, "backend_unavailable"), refused)
        self.assertIn("the disk does not answer", refused.json["error"]["message"])
        ready = self.pool.get("/readyz")
        self.assertIn("the disk does not answer", ready.text, ready)
        self.assertEqual(self.pool.post("/v1/acquire", {}).status, 200)  # it has nothing to find
        self.assertEqual(len(self.side_files()), 1)
        gate.unlink()
        wait_until(lambda: self.hibernated() == {"t"}, "the disk answers again")
        self.assertEqual(len(self.side_files()), 1)

    def test_the_variables_of_its_lease(self):
        show = "printf '%s|%s\n' \"$WORD\" \"$OTHER\""
        box = self.acquire("t", envs={"WORD": "hush hush"})
        asleep = self.hibernate(box)
        shown, = self.pool.get("/v1/snapshots?all=1").json["snapshots"]
        self.assertEqual(shown["env_count"], 1)
        file = self.server.state / "snapshots" / asleep["snapshot_id"]
        self.assertEqual((file.stat().st_mode & 0o777, "hush hush" in file.read_text()), (0o600, True))
        for answer in (asleep, shown, self.pool.get("/v1/sandboxes").json, self.pool.get("/v1/events?format=json").json):
            self.assertNotIn("hush hush", str(answer))
        self.server.stop()
        self.start_while_the_disk_hangs()
        again = self.acquire("t", "restored")
        self.assertEqual(again.sh(show), "hush hush|\n")
        wait_until(lambda: self.side_files() == [], "they are not needed any more")
        self.hibernate(again)  # and again, with what it was restored with
        self.assertEqual(self.acquire("t", "restored", envs={"OTHER": "new"}).sh(show), "|new\n")
        self.hibernate(again)
        third = self.acquire("t", "restored", envs={})
        self.assertEqual(third.sh(show), "|\n")
        self.hibernate(third)
        self.assertEqual((self.side_files(), self.acquire("t", "restored").sh(show)), ([], "|\n"))
        self.assertNotIn("hush hush", self.server.process.output())

    def test_its_files_count_for_more_than_its_variables(self):
        """An agent that does not say them."""
        box = self.acquire("t", envs={"WORD": "lost"})
        box.sh("echo kept > /workspace/f")
        os.kill(self.init_of(box), signal.SIGSTOP)
        self.release(box)
        self.await_state(box.id)
        self.assertEqual(self.acquire("t", "restored").sh("cat /workspace/f; echo $WORD"), "kept\n\n")
        self.assertIn("hibernate.envs_lost", self.server.process.output())

    def test_leases_that_end_by_themselves(self):
        for profile in ("brief", "short"):
            with self.subTest(profile=profile):
                box = self.acquire(profile, "cold", profile=profile)
                box.sh("echo kept > /workspace/f")
                self.await_state(box.id)
                again = self.acquire(profile, "restored")  # of its own profile
                self.assertEqual((again.lease["profile"], again.sh("cat /workspace/f")), (profile, "kept\n"))

    def test_a_paused_one(self):
        box = self.acquire("t")
        box.sh("echo kept > /workspace/f")
        self.assertEqual(self.pool.post(f"/v1/sandboxes/{box.id}/pause", {}).status, 200)
        self.hibernate(box)
        self.assertEqual(self.acquire("t", "restored").sh("cat /workspace/f"), "kept\n")

    def test_it_is_its_owners(self):
        box = self.acquire("t")
        box.sh("echo secret > /workspace/f")
        self.hibernate(box)
        def as_other():
            client = Client(self.server.socket)
            acquired = client.post("/v1/acquire", {"thread_id": "t"})
            deleted = client.delete(f"/v1/sandboxes/{box.id}")
            seen = self.seen(box.id, client)["state"]
            restored = client.post("/v1/acquire", {"thread_id": "u", "snapshot_id": self.snapshot})
            listed = client.get("/v1/sandboxes").json["sandboxes"] + client.get("/v1/snapshots?all=1").json["snapshots"]
            return [acquired.status, deleted.status, seen, restored.status, listed]
        self.snapshot = self.seen(box.id)["snapshot_id"]
        self.assertEqual(as_nobody(as_other), [403, 404, 404, 404, []])
        for fields, status in (({"profile": "brief"}, 409), ({"snapshot_id": self.snapshot}, 409)):
            answer = self.pool.post("/v1/acquire", {"thread_id": "t", **fields})
            self.assertEqual(answer.status, status, (fields, answer))
        self.assertEqual(self.acquire("t", "restored").sh("cat /workspace/f"), "secret\n")

    def test_it_can_be_destroyed(self):
        box = self.acquire("t")
        box.sh("echo old > /workspace/f")
        self.hibernate(box)
        self.assertEqual(self.pool.delete(f"/v1/sandboxes/{box.id}?generation=7").status, 409)
        gone = self.pool.delete(f"/v1/sandboxes/{box.id}")
        self.assertEqual((gone.status, gone.json["state"], gone.json["sandbox_id"]), (200, "gone", box.id))
        self.assertEqual((self.on_disk(), self.seen(box.id)["state"]), ([], 404))
        again = self.acquire("t")
        self.assertEqual(again.sh("ls /workspace"), "")
        self.assertGreater(again.lease["generation"], 1)

    def test_many_callers_at_once_get_one_box(self):
        box = self.acquire("t")
        self.hibernate(box)
        found = in_threads(5, lambda _: self.pool_acquire("t"))
        self.assertEqual({(a.status, a.json.get("box_id")) for a in found}, {(200, found[0].json["box_id"])})
        self.assertIn("restored", {a.json["source"] for a in found})

    def pool_acquire(self, thread):
        client = Client(self.server.socket)
        try:
            return client.post("/v1/acquire", {"thread_id": thread, "wait_ms": 20000})
        finally:
            client.close()

    def test_after_a_restart_and_without_the_database(self):
        box = self.acquire("t")
        box.sh("echo kept > /workspace/f")
        self.hibernate(box)
        self.await_gone(box)
        self.server.stop()
        self.serve()
        self.assertEqual(self.seen(box.id)["state"], "hibernated")
        self.server.kill()
        for file in self.server.state.glob("sandpool.db*"):
            file.unlink()
        self.serve()
        again = self.acquire("t", "restored")
        self.assertEqual((again.sh("cat /workspace/f"), again.lease["generation"]), ("kept\n", box.lease["generation"] + 1))

    def test_more_often_than_layers_can_lie_on_each_other(self):
        box = self.acquire("t")
        for cycle in range(18):
            box.sh(f"echo {cycle} >> /workspace/f; echo {cycle} > /workspace/{cycle % 3}")
            self.hibernate(box)
            box = self.acquire("t", "restored")
        self.assertEqual(box.sh("wc -l < /workspace/f; cat /workspace/0 /workspace/1 /workspace/2"), "18\n15\n16\n17\n")


class Share(HibernateCase):
    config = {**HibernateCase.config, "snapshots": {"hibernated_max": 4, "hibernated_share_percent": 60, "hibernated_envs": "64K"}}

    def test_one_over_its_share_loses_its_own_oldest(self):
        """Of four places one caller has three; somebody who comes later has the fourth."""
        def deleted(client, name):
            events = client.get(f"/v1/events?format=json&since=0&id={name}").json["events"]
            return next((e["reason"] for e in events if e["event"] == "files_deleted"), None)

        def as_other():
            client = Client(self.server.socket)
            ids, seen = [], {}
            for i in range(5):
                made = client.post("/v1/acquire", {"thread_id": f"n{i}", "wait_ms": 20000})
                assert made.status == 200, made
                ids.append(made.json["sandbox_id"])
                assert client.post(f"/v1/sandboxes/{ids[i]}/release", {}).status == 200
                wait_until(lambda i=i: self.seen(ids[i], client)["state"] == "hibernated", "it is hibernated")
            for name in ids[:2]:
                wait_until(lambda name=name: self.seen(name, client)["state"] == 410, lambda name=name: self.seen(name, client))
                seen[name] = [client.get(f"/v1/sandboxes/{name}").json["error"]["message"],
                              client.post(f"/v1/sandboxes/{name}/exec", {"command": "true"}).json["error"]["message"],
                              wait_until(lambda name=name: deleted(client, name), lambda name=name: client.get(f"/v1/events?format=json&since=0&id={name}").json, 5)]
            kept = sorted(self.hibernated(client))
            again = client.post("/v1/acquire", {"thread_id": "n0", "wait_ms": 20000}).json
            client.delete(f"/v1/sandboxes/{again['sandbox_id']}")
            client.close()
            return [list(seen.values()), kept, again["source"], again["generation"], sorted(ids[2:])]
        mine = self.acquire("mine")
        answer = as_nobody(as_other)
        self.assertEqual(len(answer), 5, answer)
        said, kept, source, generation, left = answer
        self.assertEqual((kept, source, generation), (["n2", "n3", "n4"], "cold", 2))
        for get, call, event in said:
            self.assertIn("snapshots.hibernated_max", get)
            self.assertEqual(get, call)
            self.assertIn("more hibernated sandboxes than its share", event)
        self.hibernate(mine)
        second = self.acquire("second")
        self.hibernate(second)
        wait_until(lambda: self.seen(mine.id)["state"] == 410, "the place of its own oldest one was taken")
        self.assertEqual(self.hibernated(), {"n2", "n3", "n4", "second"})
        self.assertIn("its files were deleted: its caller has more",
                      subprocess.run([BIN / "sandpool", "--socket", self.server.socket, "why", mine.id],
                                     capture_output=True, text=True, timeout=40, check=True).stdout)
        for name in left:
            self.assertEqual(self.pool.delete(f"/v1/sandboxes/{name}").status, 200)

    def test_variables_have_a_share_of_memory(self):
        """Of 64 KiB one caller has 60 %: what is beyond that hibernates without; who else comes has room."""
        def word_of(client, name, envs):
            made = client.post("/v1/acquire", {"thread_id": name, "wait_ms": 20000, "envs": envs}).json
            client.post(f"/v1/sandboxes/{made['sandbox_id']}/release", {})
            wait_until(lambda: self.seen(made["sandbox_id"], client)["state"] == "hibernated", "it is hibernated")
            return made["sandbox_id"]

        def as_other():
            client = Client(self.server.socket)
            name = word_of(client, "other", {"WORD": "y" * 8000})
            again = client.post("/v1/acquire", {"thread_id": "other", "wait_ms": 20000}).json
            said = client.post(f"/v1/sandboxes/{name}/exec", {"command": "echo ${#WORD}"}).json["stdout"]
            client.delete(f"/v1/sandboxes/{name}")
            client.close()
            return [again["source"], said]
        large = {"WORD": "x" * 24000}
        first = word_of(self.pool, "first", large)
        self.assertNotIn("hibernate.envs_lost", self.server.process.output())
        word_of(self.pool, "second", large)
        self.assertIn("snapshots.hibernated_envs", self.server.process.output())
        self.assertEqual(as_nobody(as_other), ["restored", "8000\n"])
        for thread, length in (("first", "24000\n"), ("second", "0\n")):
            self.assertEqual(self.acquire(thread, "restored").sh("echo ${#WORD}"), length)
        self.assertEqual(self.pool.delete(f"/v1/sandboxes/{first}").status, 200)  # what it had is free again
        word_of(self.pool, "third", large)
        self.assertEqual(self.acquire("third", "restored").sh("echo ${#WORD}"), "24000\n")


class Crash(HibernateCase):
    def crash_at(self, name, act):
        self.server.kill()
        self.serve(env={"SANDPOOL_CRASH_AT": f"{name}:1"})
        client = Client(self.server.socket)
        try:
            act(client)
        except OSError:
            pass
        client.close()
        wait_until(lambda: not self.server.process.is_running(), f"crash at {name}")
        self.serve()

    def check(self, thread):
        """The files are there, once, and nothing else is left."""
        answer = self.pool.post("/v1/acquire", {"thread_id": thread, "wait_ms": 20000})
        self.assertEqual(answer.status, 200, answer)
        self.assertIn(answer.json["source"], ("kept", "parked", "restored"))
        box = self.acquire(thread, "kept")
        self.assertEqual(box.sh("cat /workspace/f; echo $WORD"), f"{thread}\n{thread}\n")
        wait_until(lambda: self.pool.get("/v1/snapshots?all=1").json["snapshots"] == [], "no snapshot is shown")

    def test_on_the_way(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        for i, name in enumerate(n for n in ON_THE_WAY if n in fault_names()):
            with self.subTest(point=name):
                box = self.acquire(f"to-{i}", envs={"WORD": f"to-{i}"})
                box.sh(f"echo to-{i} > /workspace/f")
                self.crash_at(name, lambda client, box=box: (
                    client.post(f"/v1/sandboxes/{box.id}/release", {}),
                    wait_until(lambda: not self.server.process.is_running(), "crash")))
                self.check(f"to-{i}")

    def test_on_the_way_back(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        for i, name in enumerate(n for n in ON_THE_WAY_BACK if n in fault_names()):
            with self.subTest(point=name):
                box = self.acquire(f"from-{i}", envs={"WORD": f"from-{i}"}, metadata={"of": f"from-{i}"})
                box.sh(f"echo from-{i} > /workspace/f")
                self.hibernate(box)
                self.await_gone(box)
                self.crash_at(name, lambda client, i=i: (
                    client.post("/v1/acquire", {"thread_id": f"from-{i}", "wait_ms": 20000}),
                    wait_until(lambda: not self.server.process.is_running(), "crash")))
                if name == "engine.after_create":  # nobody has waited for it: it hibernates again, as it was
                    self.assertEqual(self.await_state(box.id)["metadata"], {"of": f"from-{i}"})
                self.check(f"from-{i}")


if __name__ == "__main__":
    main()
