"""kill -9 at every named point and at random moments under load. The boxes live in another process
and survive. After each restart: every acknowledged lease is there with the same box, and rows and
boxes agree one to one."""

import random
import signal
import subprocess
import threading

from fixtures import BIN, WAIT_S, Client, TestCase, fewer, main, wait_until


def fault_names():
    """The points compiled into the daemon; none in a release build."""
    done = subprocess.run([BIN / "sandpoold", "--fault-points"], capture_output=True, text=True,
                          timeout=60)
    return done.stdout.split()


class Owner:
    """A thread's view of what the daemon has promised it. `unsure` means that an answer was lost,
    so both outcomes are allowed."""

    def __init__(self, name):
        self.name = name
        self.lease = None
        self.unsure = None


class Load:
    """Clients that acquire, renew and release until the daemon stops answering."""

    def __init__(self, daemon, owners, seed):
        self.daemon = daemon
        self.owners = owners
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(owner, seed + i))
                        for i, owner in enumerate(owners)]
        for thread in self.threads:
            thread.start()

    def run(self, owner, seed):
        dice = random.Random(seed)
        client = Client(self.daemon.socket, timeout=WAIT_S)
        while not self.stop.is_set():
            try:
                self.act(owner, client, dice)
            except (OSError, ValueError, AssertionError):
                break
            except Exception:  # http.client: the answer was cut off
                break
        client.close()

    def act(self, owner, client, dice):
        if owner.lease is None:
            owner.unsure = "acquire"
            answer = client.acquire(owner.name, wait_ms=5000)
            if answer.status == 200:
                owner.lease = answer.json
        elif dice.random() < 0.5:
            owner.unsure = "release"
            answer = client.release(owner.lease["sandbox_id"],
                                    destroy=dice.random() < 0.5)
            if answer.status == 200:
                owner.lease = None
        else:
            owner.unsure = "renew"
            answer = client.post(f"/v1/sandboxes/{owner.lease['sandbox_id']}/renew", {"ttl_s": 900})
        owner.unsure = None

    def join(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(WAIT_S)


# Points that boxes of sim lead to; those that a start hits, once; and those of other tests, with boxes that have them.
HERE = ("store.", "engine.", "recover.")
AT_START = ("engine.before_listen", "recover.after_load", "recover.after_list")
ELSEWHERE = ("copy.", "docker.", "helper.", "hibernate.", "keep.", "oci.", "pause.", "places.", "rebase.", "remote.",
             "snapshot.", "takeover.", "usage.")


class Crash(TestCase):
    def check(self, daemon, sim, owners):
        client = self.client(daemon)

        def agrees():
            pool = {b["box_id"] for b in
                    client.get("/v1/sandboxes?limit=1000").json["sandboxes"]}
            state = client.get("/v1/pool").json["by_state"]
            return state["starting"] == 0 and state["deleting"] == 0 and pool == set(sim.boxes())

        wait_until(agrees, "rows and boxes agree")
        for owner in owners:
            if owner.lease is None or owner.unsure == "release":
                continue
            target = "/v1/sandboxes/" + owner.lease["sandbox_id"]
            box = self.assertOk(client.get(target))
            self.assertEqual((box["box_id"], box["generation"], box["state"], box["token"]),
                             (owner.lease["box_id"], owner.lease["generation"], "leased",
                              owner.lease["token"]), owner.name)
        for owner in owners:  # what was in doubt is settled by asking again
            if owner.unsure is not None:
                owner.lease = self.assertOk(client.acquire(owner.name))
                owner.unsure = None
        boxes = [o.lease["box_id"] for o in owners if o.lease is not None]
        self.assertEqual(len(boxes), len(set(boxes)), "one box, one owner")

    def setting(self, owners=6):
        sim = self.sim()
        daemon = self.daemon({"warm": {"min": 2, "max": 8}, "park_timeout_s": 600,
                              "sim": {"create_ms": 2}}, sim=sim, start=False,
                             pool={"max_boxes": 40})
        return sim, daemon, [Owner(f"owner-{i}") for i in range(owners)]

    def test_every_named_point(self):
        names = fault_names()
        if not names:
            self.skipTest("this build has no crash points")
        for name in names:
            self.assertTrue(name.startswith(HERE + ELSEWHERE), f"which test hits {name}?")
            if not name.startswith(HERE):
                continue
            for hit in (1,) if name in AT_START else fewer((1, 2, 7)):
                with self.subTest(point=name, hit=hit):
                    self.one_point(name, hit)

    def one_point(self, name, hit):
        self.setUp()
        sim, daemon, owners = self.setting()
        try:
            daemon.start(env={"SANDPOOL_CRASH_AT": f"{name}:{hit}"}, wait=False)
            wait_until(lambda: not daemon.process.is_running() or daemon.answers(), "up or dead")
            if daemon.process.is_running():
                load = Load(daemon, owners, hit)
                try:
                    wait_until(lambda: not daemon.process.is_running(), f"{name} is hit")
                finally:
                    daemon.kill()
                    load.join()
            self.assertEqual(daemon.process.child.wait(WAIT_S), -signal.SIGKILL)
            daemon.start()
            self.check(daemon, sim, owners)
        finally:
            self.doCleanups()

    def test_random_moments(self):
        sim, daemon, owners = self.setting(8)
        dice = random.Random(20)
        daemon.start()
        for round_number in fewer(range(25)):
            load = Load(daemon, owners, 1000 * round_number)
            moment = dice.uniform(0.01, 0.25)
            threading.Event().wait(moment)
            daemon.kill()
            load.join()
            daemon.start()
            self.check(daemon, sim, owners)


if __name__ == "__main__":
    main()
