"""Deaths of everything that makes, holds and removes real boxes: the daemon at every named point
and at random moments, its helpers, and the boxes themselves. Afterwards rows and boxes agree one to
one, every acknowledged lease is there, and nothing is left over."""

import fcntl
import http.client
import os
import pathlib
import random
import shutil
import signal
import sys
import threading
import time

from fixtures import SLOW, WAIT_S, at_most, fewer, in_threads, is_alive, main, wait_until
from box import Box
from host import mark_of, processes, read_of, runs_one_of
from oci_case import RUNTIME, BoxCase
from test_crash import Load, Owner, fault_names

POINTS = ("oci.before_run", "oci.after_run", "oci.before_remove", "oci.after_remove",
          "engine.after_create", "engine.before_destroy")


class Daemon(BoxCase):
    profiles = {"default": {"warm": {"min": 1, "max": 2}, "create": {"backoff_max_ms": 300}}}
    config = {"pool": {"max_boxes": 12}}

    def check(self, owners):
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        self.assertAgree()
        for owner in owners:
            if owner.lease is None or owner.unsure == "release":
                continue
            row = self.row(Box(owner.lease))
            for key in ("box_id", "generation", "token", "sandbox_url"):
                self.assertEqual(row[key], owner.lease[key], owner.name)
            self.assertEqual(row["state"], "leased", owner.name)
            self.assertEqual(Box(owner.lease).sh("echo here"), "here\n")
        for owner in owners:  # what was in doubt is settled by asking again
            if owner.unsure is not None:
                owner.lease = self.acquire(owner.name).lease
                owner.unsure = None
        boxes = [o.lease["box_id"] for o in owners if o.lease is not None]
        self.assertEqual(len(boxes), len(set(boxes)), "one box, one owner")

    def test_every_named_point(self):
        if not fault_names():
            self.skipTest("this build has no crash points")
        self.assertEqual({n for n in fault_names() if n.startswith("oci.")} - set(POINTS), set())
        owners = [Owner(f"point-{i}") for i in range(3)]
        for name in POINTS:
            for hit in fewer((1, 3)) if name.startswith("oci.") else (2,):
                with self.subTest(point=name, hit=hit):
                    self.one_point(name, hit, owners)

    def one_point(self, name, hit, owners):
        self.server.kill()
        self.server.start(env={"SANDPOOL_CRASH_AT": f"{name}:{hit}"}, wait=False)
        wait_until(lambda: not self.server.process.is_running() or self.server.answers(),
                   "up or dead")
        load = Load(self.server, owners, hit)
        try:
            wait_until(lambda: not self.server.process.is_running(), "crash", 10 * SLOW)
        finally:
            self.server.kill()
            load.join()
        self.assertEqual(self.server.process.child.returncode, -signal.SIGKILL)
        self.server.start()
        self.check(owners)

    def test_random_moments(self):
        owners = [Owner(f"any-{i}") for i in range(4)]
        dice = random.Random(int(os.environ.get("SANDPOOL_TEST_SEED", "7")))
        for round_number in fewer(range(8)):
            load = Load(self.server, owners, 100 * round_number)
            threading.Event().wait(dice.uniform(0.02, 0.5))
            self.server.kill()
            load.join()
            self.server.start()
            self.check(owners)

    def test_killed_again_and_again_while_it_starts(self):
        dice = random.Random(3)
        lease = self.acquire("steady").lease
        for _ in range(6):
            self.server.kill()
            self.server.start(wait=False)
            time.sleep(dice.uniform(0.01, 0.3))
        self.server.kill()
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        self.assertEqual(self.acquire("steady", "kept").box_id, lease["box_id"])
        self.assertAgree()

    def test_a_maker_that_is_stuck_spoils_nothing(self):
        self.server.kill()
        stuck = self.server.state / "oci" / "boxes" / "00000000deadbeef"
        stuck.mkdir(mode=0o700)
        with open(stuck / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.server.start()
            type(self).pool = self.server.client()
            self.addCleanup(self.pool.close)
            wait_until(lambda: self.pool.get("/readyz").status == 200, "a listing that is clean")
            self.assertEqual(self.acquire("beside").sh("echo here"), "here\n")
        wait_until(lambda: self.pool.post("/v1/pool/reconcile") and not stuck.exists(), "swept")
        self.check([])

    def test_helpers_that_are_killed(self):
        """Whoever makes or removes a box dies: tried again or reported, and cleaned up."""
        stop = threading.Event()
        killed = []
        helper = {mark_of(self.home / "bin" / "sandpool-helper")}
        daemon = self.server.process.child.pid  # what a helper started belongs to a box

        def hunt():
            dice = random.Random(5)
            while not stop.wait(dice.uniform(0.005, 0.05)):
                for pid in [int(p) for p in os.listdir("/proc") if p.isdigit()]:
                    if len(killed) < 12 and parent_of(pid) == daemon and \
                            runs_one_of(pid, helper):
                        kill(pid)
                        killed.append(pid)

        hunter = threading.Thread(target=hunt)
        hunter.start()
        try:
            answers = in_threads(6, lambda i: self.server.acquire(f"hunted-{i}", wait_ms=15000))
        finally:
            stop.set()
            hunter.join(WAIT_S)
        self.assertGreater(len(killed), 0)
        for answer in answers:
            self.assertIn(answer.status, (200, 503), answer)
            if answer.status == 200:
                self.assertEqual(Box(answer.json).sh("echo fine"), "fine\n")
        self.destroy_all()
        self.assertAgree(60 * SLOW)  # failures are followed by pauses
        wait_until(lambda: not self.pool.get("/v1/pool").json["profiles"][0]["breaker"]["open"],
                   "boxes can be made again", 60 * SLOW)


def parent_of(pid):
    text = read_of(pid, "stat")
    return int(text.rsplit(")", 1)[1].split()[1]) if text else 0


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Death(BoxCase):
    """A box dies under its owner."""

    def time_to(self, condition, what):
        begin = time.monotonic()
        wait_until(condition, what, 10 * SLOW)
        return time.monotonic() - begin

    def test_agent_killed(self):
        box = self.acquire("victim")
        inner = box.start("sleep 300 & sleep 300")
        inside = [p for p in self.left.running() if p != self.init_of(box)]
        init = self.init_of(box)
        self.assertEqual(box.process(inner)["outcome"], "running")
        kill(init)
        took = self.time_to(lambda: self.pool.get(f"/v1/sandboxes/{box.id}").status == 410, "lost")
        print(f"death noticed after {took * 1000:.0f} ms", file=sys.stderr)
        self.assertLess(took, at_most(1))
        target = f"/v1/sandboxes/{box.id}"
        self.assertCode(self.pool.get(target), 410, "sandbox_lost")
        self.assertCode(self.pool.post(target + "/renew", {}), 410, "sandbox_lost")
        self.assertCode(self.pool.release(box.id), 410, "sandbox_lost")
        events = self.pool.get("/v1/events?follow=0&since=0").text
        self.assertIn("event: lost", events)
        again = self.acquire("victim")
        self.assertEqual(again.lease["generation"], 2)
        self.assertNotEqual(again.box_id, box.box_id)
        self.assertEqual(again.sh("echo alive"), "alive\n")
        wait_until(lambda: box.box_id not in self.left.boxes(), "what was left is removed")
        self.assertFalse([p for p in inside if is_alive(p) and
                          f"/{box.box_id}" in read_of(p, "cgroup")])

    def test_blank_box_killed_is_replaced(self):
        self.wait_blank(self.pool, 1)
        wait_until(lambda: self.counts()["starting"] == 0, "still")
        blank = [r["box_id"] for r in self.rows() if r["state"] == "blank"]
        for box_id in blank:
            kill(int((self.server.state / "oci" / "boxes" / box_id / "pid").read_text()))
        took = self.time_to(lambda: not {r["box_id"] for r in self.rows()
                                         if r["state"] == "blank"} & set(blank), "noticed")
        self.assertLess(took, at_most(1))
        self.wait_blank(self.pool, 1)
        self.assertEqual(self.acquire("next").sh("echo alive"), "alive\n")

    def test_box_of_which_all_is_killed_at_once(self):
        boxes = [self.acquire(f"many-{i}") for i in range(4)]
        inits = [self.init_of(b) for b in boxes]
        for pid in inits:
            kill(pid)
        wait_until(lambda: all(self.pool.get(f"/v1/sandboxes/{b.id}").status == 410 for b in boxes),
                   "all are lost", 5 * SLOW)
        self.assertFalse([p for p in inits if is_alive(p)])


class Frozen:
    """A process that does not run, and does not notice: it would notice a signal."""

    def __init__(self, pid):
        self.group = pathlib.Path(f"/sys/fs/cgroup/freezer/sandpool-test-{pid}")
        self.pid = pid

    def __enter__(self):
        self.group.mkdir()
        (self.group / "tasks").write_text(str(self.pid))
        (self.group / "freezer.state").write_text("FROZEN")
        return self

    def thaw(self):
        (self.group / "freezer.state").write_text("THAWED")

    def __exit__(self, *_):
        self.thaw()
        wait_until(lambda: not (self.group / "tasks").read_text(), "it has ended")
        self.group.rmdir()


class SlowToTell(BoxCase):
    """A runtime whose boxes run for a while before the helper is notified that they are ready."""

    profiles = {"default": {"warm": {"min": 0, "max": 0}}}

    @classmethod
    def make_config(cls):
        script = cls.home / "runc"
        script.write_text(f'#!/bin/sh\n{shutil.which("runc")} "$@" | (sleep 3; exec cat)\n')
        script.chmod(0o755)
        config = super().make_config()
        config["profiles"]["default"]["runtime"] = str(script)
        return config

    def test_a_box_that_is_being_undone_is_not_adopted(self):
        if RUNTIME != "runc" or not os.path.isdir("/sys/fs/cgroup/freezer"):
            self.skipTest("wraps runc, and needs the freezer of control groups version 1")
        boxes = self.server.state / "oci" / "boxes"
        before = set(os.listdir(boxes))
        thread = threading.Thread(target=self.ask, daemon=True)
        thread.start()

        def half_made():
            new = set(os.listdir(boxes)) - before
            return new and all((boxes / b / "pid").exists() and not (boxes / b / "init").exists() for b in new)
        wait_until(half_made, "a box runs that is not made yet")
        maker = next(pid for pid in processes() if runs_one_of(pid, self.left.programs) and
                     read_of(pid, "cmdline").endswith("run\0"))
        with Frozen(maker) as frozen:  # slow to hear of the daemon's death
            self.server.kill()
            thread.join()
            threading.Timer(1, frozen.thaw).start()
            self.server.start()
            box = self.acquire("t", wait_ms=30000)
        for _ in range(20):
            self.assertEqual(box.sh("echo here"), "here\n")
            time.sleep(0.1)

    def ask(self):
        try:
            self.server.acquire("t")
        except (OSError, http.client.HTTPException):
            pass  # killed meanwhile


class KilledTrial(BoxCase):
    """The first two makings of a box by this runtime are killed, as by the kernel when memory is short."""

    profiles = {"default": {"warm": {"min": 0, "max": 0}}}

    @classmethod
    def make_config(cls):
        script = cls.home / "runc"
        script.write_text(f"""#!/bin/sh
case " $* " in *" run "*)
    if mkdir {cls.home}/killed-1 2> /dev/null; then
        exec > /dev/null 2>&1 # as at an end by a signal: the output is closed a moment before
        sleep 0.2
        kill -9 $$
    fi
    mkdir {cls.home}/killed-2 2> /dev/null && kill -9 $$ ;;
esac
exec {shutil.which("runc")} "$@"
""")
        script.chmod(0o755)
        config = super().make_config()
        config["profiles"]["default"]["runtime"] = str(script)
        return config

    def test_it_is_repeated_at_once(self):
        if RUNTIME != "runc":
            self.skipTest("wraps runc")
        self.assertEqual(self.acquire("t", wait_ms=60000).sh("echo here"), "here\n")
        self.assertTrue((self.home / "killed-2").exists())
        log = self.server.log.read_text()
        self.assertEqual(log.count("event=oci.trial_killed "), 2)
        self.assertNotIn("event=oci.runtime_refused ", log)


class OlderCopy(BoxCase):
    """Everything below the state directory is put back as it was, the labels of boxes included."""

    def files(self):
        return [*self.server.state.glob("sandpool.db*"), *self.server.state.glob("oci/boxes/*/box.json")]

    def check(self, is_same_run):
        wait_until(lambda: self.counts()["blank"] == 1 and self.counts()["starting"] == 0, "a warm box")
        if not is_same_run:
            self.server.stop()
        kept = {path: path.read_bytes() for path in self.files()}
        if not is_same_run:
            self.server.start()
            self.pool = self.server.client()
            self.addCleanup(self.pool.close)
            wait_until(lambda: self.counts()["blank"] == 1, "the warm box is found again")
        used = self.acquire("used", source="warm")
        labels = self.server.state / "oci" / "boxes" / used.box_id / "box.json"
        wait_until(lambda: labels.read_bytes() != kept[labels], "it has its owner's labels")
        self.server.kill()
        for path in self.server.state.glob("sandpool.db*"):
            path.unlink()
        for path, content in kept.items():
            path.write_bytes(content)
        self.server.start()
        self.pool = self.server.client()
        self.addCleanup(self.pool.close)
        others = [self.acquire(f"other-{i}") for i in range(2)]
        self.assertNotIn(used.box_id, [box.box_id for box in others])
        self.assertNotIn(used.lease["token"], [box.lease["token"] for box in others])

    def test_copy_of_an_earlier_run(self):
        self.check(False)

    def test_copy_of_the_same_run(self):
        self.check(True)


if __name__ == "__main__":
    main()
