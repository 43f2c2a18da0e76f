"""Boxes made for one caller: profiles that are personal, and extras that a box can only have from birth.
They carry their owner's name from the first moment, are never warm, and nobody else's after a crash."""

import unittest

from extras import ExtrasCase, failing
from fixtures import in_threads, main, wait_until
from old_database import make_first_version
from test_crash import fault_names

DATA = [{"host_path": "/srv/data/a", "container_path": "/data"}]
OTHER = [{"host_path": "/srv/data/b", "container_path": "/data"}]
NOT_LATE = {"sim": {"late": False}}


class Special(ExtrasCase):
    def made(self, thread):
        """The machine's box that bears the thread's name, when there is one."""
        def find():
            return [b for b in self.machine.boxes().values() if b["thread"] == thread]
        return wait_until(find, f"a box for {thread}")[0]

    def pool(self):
        return self.caller.get("/v1/pool").json["by_state"]

    def settled(self, running):
        """The daemon and the machine agree, and nothing is blank that should not be."""
        def is_so():
            state = self.pool()
            return (state["starting"] + state["deleting"] == 0
                    and len(self.machine.boxes()) == running
                    and state["leased"] + state["parked"] + state["blank"] == running)
        wait_until(is_so, f"{running} boxes")


class Personal(Special):
    def begin_personal(self, **sim):
        self.machine = self.sim()
        self.server = self.daemon({"personal": True, "warm": {"min": 3, "max": 3}, "sim": sim},
                                  sim=self.machine)
        self.caller = self.client(self.server)
        return self.caller

    def test_made_under_the_name_of_its_thread(self):
        client = self.begin_personal(create_ms=400)
        self.begin({"thread_id": "t1", "user_id": "ann", "wait_ms": 20000})
        made = self.made("t1")  # while it is being made
        self.assertEqual((made["user"], made["generation"]), ("ann", 1))
        lease = self.assertOk(client.acquire("t1", user_id="ann"))
        self.assertEqual((lease["box_id"], lease["sandbox_id"]),
                         (made["box_id"], made["sandbox_id"]))
        self.assertOk(client.release(lease["sandbox_id"]))
        back = self.assertOk(client.acquire("t1", user_id="ann"))
        self.assertEqual((back["source"], back["box_id"]), ("parked", made["box_id"]))
        self.assertEqual(self.pool()["blank"], 0)
        self.settled(1)

    def test_each_thread_has_one_create(self):
        self.begin_personal(create_ms=200)
        answers = in_threads(8, lambda i: self.assertOk(self.server.acquire(f"t{i % 2}")))
        self.assertEqual(len({a["box_id"] for a in answers}), 2)
        self.assertEqual({a["source"] for a in answers}, {"cold"})
        self.settled(2)

    def test_nobody_waits_any_more(self):
        client = self.begin_personal(create_ms=600)
        sock = self.begin({"thread_id": "gone", "wait_ms": 20000})
        self.made("gone")
        sock.close()
        self.assertEqual(client.acquire("late", wait_ms=1).status, 503)
        self.settled(0)
        self.assertEqual(client.get("/v1/pool").json["by_state"]["blank"], 0)

    def test_reload_turns_it_on_and_off(self):
        client = self.start({"warm": {"min": 2, "max": 2, "shrink_after_s": 1}})
        profile = {"backend": "sim", "sim": {"socket": str(self.machine.socket)},
                   "warm": {"min": 2, "max": 2, "shrink_after_s": 1}}
        rest = {"mounts": {"allow": ["/srv/data", "/opt/sets"]}}
        self.server.write_config({"profiles": {"default": {**profile, "personal": True}}, **rest})
        self.assertOk(client.post("/v1/pool/reload"))
        self.assertEqual(self.assertOk(client.acquire("t1"))["source"], "cold")
        wait_until(lambda: self.pool()["blank"] == 0, "no warm boxes")
        self.server.write_config({"profiles": {"default": profile}, **rest})
        self.assertOk(client.post("/v1/pool/reload"))
        self.wait_blank(client, 2)
        self.assertEqual(self.assertOk(client.acquire("t2"))["source"], "warm")

    def test_killed_while_it_is_made(self):
        self.begin_personal(create_ms=50, ready_ms=1500)
        self.begin({"thread_id": "t1", "wait_ms": 60000})
        made = self.made("t1")
        self.server.kill()
        self.server.start()
        lease = self.assertOk(self.server.acquire("t1", wait_ms=60000))
        self.assertEqual((lease["box_id"], lease["generation"]), (made["box_id"], 1))
        self.caller = self.client(self.server)
        self.settled(1)

    def test_killed_while_an_anonymous_one_is_made(self):
        self.begin_personal(create_ms=50, ready_ms=1500)
        self.begin({"wait_ms": 60000})
        wait_until(self.machine.boxes, "a box")
        self.server.kill()
        self.server.start()
        self.caller = self.client(self.server)
        self.settled(0)

    @unittest.skipUnless(fault_names(), "no fault points in this build")
    def test_killed_at_each_point_of_its_way(self):
        points = [f"{name}:{hit}" for name in fault_names() for hit in (1, 2, 3, 4)
                  if name.startswith(("engine.", "store."))]
        died = 0
        self.begin_personal(create_ms=20)
        self.server.stop()
        for i, point in enumerate(points):
            with self.subTest(point=point):
                self.server.start({"SANDPOOL_CRASH_AT": point}, wait=False)
                try:
                    self.server.wait_ready()
                    client = self.client(self.server)
                    answer = client.acquire(f"p{i}", wait_ms=20000)
                    client.release(answer.json["sandbox_id"], destroy=True)
                except Exception:  # it was killed on the way
                    died += 1
                self.server.kill()
                self.server.start()
                self.caller = self.client(self.server)
                lease = self.assertOk(self.caller.acquire(f"p{i}", wait_ms=20000))
                self.assertOk(self.caller.release(lease["sandbox_id"], destroy=True))
                self.settled(0)
                self.server.stop()
        self.assertGreater(died, 8)  # not every point is passed four times


class FromBirth(Special):
    def test_made_with_what_cannot_come_later(self):
        client = self.start(NOT_LATE)
        lease = self.assertOk(client.acquire("t1", mounts=DATA, envs={"A": "1"}))
        self.assertEqual(lease["source"], "cold")  # in spite of the warm ones
        self.assertEqual([(u["mounts"][0]["host_path"], u["envs"]) for u in self.updates(lease)],
                         [("/srv/data/a", {"A": "1"})])
        self.assertEqual(self.assertOk(client.acquire("t2"))["source"], "warm")

    def test_the_same_again_and_something_else(self):
        client = self.start(NOT_LATE)
        lease = self.assertOk(client.acquire("t1", mounts=DATA))
        for _ in range(2):
            again = self.assertOk(client.acquire("t1", mounts=DATA))
            self.assertEqual((again["box_id"], again["source"]), (lease["box_id"], "kept"))
            self.assertEqual(self.assertOk(client.acquire("t1"))["box_id"], lease["box_id"])
            answer = client.acquire("t1", mounts=OTHER)
            self.assertCode(answer, 409, "spec_conflict")
            self.assertIn("only when it is made", answer.json["error"]["message"])
            self.assertEqual(len(self.updates(lease)), 1)
            self.server.restart()
            client = self.client(self.server)
        self.assertOk(client.release(lease["sandbox_id"]))
        self.assertCode(client.acquire("t1", mounts=OTHER), 409, "spec_conflict")
        self.assertEqual(self.assertOk(client.acquire("t1", mounts=DATA))["source"], "parked")
        self.assertOk(client.release(lease["sandbox_id"], destroy=True))
        other = self.assertOk(client.acquire("t1", mounts=OTHER))
        self.assertEqual((other["source"], other["generation"]), ("cold", 2))

    def test_a_plain_box_takes_nothing_more(self):
        client = self.start(NOT_LATE)
        lease = self.assertOk(client.acquire("t1"))
        self.assertCode(client.acquire("t1", envs={"A": "1"}), 409, "spec_conflict")
        self.assertEqual(self.updates(lease), [])
        self.assertEqual(self.assertOk(client.acquire("t1"))["box_id"], lease["box_id"])

    def test_several_at_once(self):
        self.start({"sim": {"late": False, "create_ms": 300}})
        kinds = [{"mounts": DATA}, {"mounts": DATA}, {}, {"mounts": OTHER}]
        first = self.begin({"thread_id": "t1", "mounts": DATA, "wait_ms": 20000})
        made = self.made("t1")
        answers = in_threads(4, lambda i: self.server.acquire("t1", wait_ms=20000, **kinds[i]))
        self.assertEqual([a.status for a in answers], [200, 200, 200, 409])
        self.assertEqual({a.json["box_id"] for a in answers[:3]}, {made["box_id"]})
        self.assertEqual(len(self.updates(made)), 1)
        first.close()

    def test_the_one_who_brought_it_leaves(self):
        self.start({"sim": {"late": False, "create_ms": 2000}, "warm": {"min": 0, "max": 0}})
        first = self.begin({"thread_id": "t1", "mounts": DATA, "wait_ms": 20000})
        made = self.made("t1")
        second = in_threads(1, lambda _: (first.close(), self.server.acquire("t1"))[1])[0]
        self.assertEqual(self.assertOk(second)["box_id"], made["box_id"])
        self.assertEqual(len(self.updates(second.json)), 1)  # made with what its row says

    def test_a_create_that_failed_is_tried_with_the_same(self):
        client = self.start({"sim": {"late": False, "fail_percent": 60, "seed": 3},
                             "create": {"backoff_min_ms": 1, "backoff_max_ms": 5,
                                        "breaker_failures": 1000}})
        for i in range(6):
            lease = self.assertOk(client.acquire(f"t{i}", mounts=DATA, wait_ms=20000))
            self.assertEqual(len(self.updates(lease)), 1)

    def test_a_database_from_before(self):
        client = self.start(NOT_LATE)
        lease = self.assertOk(client.acquire("t1"))
        self.server.stop()
        make_first_version(self.server.state)
        self.server.start()
        again = self.assertOk(self.server.acquire("t1"))
        self.assertEqual((again["source"], again["box_id"]), ("kept", lease["box_id"]))
        self.assertEqual(self.assertOk(self.server.acquire("t2", mounts=DATA))["source"], "cold")

    def test_what_cannot_be_had_is_the_callers_trouble(self):
        client = self.start(NOT_LATE)
        for i in range(6):  # more than open a circuit
            self.assertCode(client.acquire(f"t{i}", envs=failing("forbidden"), wait_ms=20000), 403,
                            "forbidden")
        profile = self.assertOk(client.get("/v1/pool"))["profiles"][0]
        self.assertEqual(profile["breaker"]["failures"], 0, profile)
        self.assertOk(client.acquire("t0", mounts=DATA))

    def test_the_machine_in_the_daemon_can_too(self):
        server = self.daemon(NOT_LATE, mounts={"allow": ["/srv/data"]})
        client = self.client(server)
        self.assertCode(client.acquire("t1", envs=failing("forbidden")), 403, "forbidden")
        self.assertEqual(self.assertOk(client.acquire("t1", mounts=DATA))["source"], "cold")
        self.assertEqual(self.assertOk(client.acquire("t1", mounts=DATA))["source"], "kept")


if __name__ == "__main__":
    main()
