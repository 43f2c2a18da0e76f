"""What the tests with real boxes share: one daemon of the `oci` backend for a class of tests, and the proof that nothing of
any box is left on this machine.

The daemon uses copies of the agent and the helper that lie in the test's own directory, so that a
process can be recognised by the program file it runs, whatever else goes on on this machine."""

import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import time

from fixtures import BIN, SLOW, WAIT_S, Daemon, TestCase, forget_stamp, is_alive, skip, tmpdir, wait_until
from box import Box
from host import (copy_program, descriptors, hierarchies, inside_of, mark_of, mount_points, own_sockets, processes, read_of,
                  runs_one_of)

RUNTIME = os.environ.get("SANDPOOL_TEST_RUNTIME", "runc")
HAS_CGROUPS = RUNTIME != "runsc"  # it is started without them


def why_not():
    if os.geteuid() != 0:
        return "boxes are made by root here"
    if shutil.which(RUNTIME) is None:
        return f"{RUNTIME} is not installed"
    return None


MOUNTS_BEFORE = mount_points()


def names_in(path):
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []


class Leftovers:
    """Everything of one daemon's boxes that can be found on this machine."""

    def __init__(self, state_dir, instance):
        self.state = pathlib.Path(state_dir)
        self.group = f"sandpool-{instance}"
        self.programs = {mark_of(path) for path in self.state.parent.glob("bin/*")}

    def running(self):
        return [pid for pid in processes() if is_alive(pid) and
                (f"/{self.group}/" in read_of(pid, "cgroup") or runs_one_of(pid, self.programs) or
                 str(self.state / "oci") in read_of(pid, "cmdline"))]

    def mounts(self):
        return sorted(m for m in mount_points()
                      if m.startswith(str(self.state)) or
                      (m.startswith("/mnt") and m not in MOUNTS_BEFORE))

    def loops(self):
        found = []
        for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
            try:
                if path.read_text().startswith(str(self.state)):
                    found.append(path.parts[3])
            except OSError:
                pass  # it went while we looked
        return found

    def groups(self):
        return [str(p) for top in hierarchies() for p in (top / self.group).glob("*/")]

    def boxes(self):
        return names_in(self.state / "oci" / "boxes")

    def runtime_states(self):
        return [f"{top.name}/{name}" for top in (self.state / "oci").glob("run-*")
                for name in names_in(top)]

    def all(self):
        found = {
            "processes": [(pid, read_of(pid, "cmdline").replace("\0", " ")[:120])
                          for pid in self.running()],
            "mounts": self.mounts(), "loop devices": self.loops(), "cgroups": self.groups(),
            "directories": self.boxes(), "runtime states": self.runtime_states(),
            "images in the making": names_in_glob(self.state / "oci" / "images", "*.tmp"),
        }
        return {what: items for what, items in found.items() if items}

    def sweep(self):
        """After a test that failed: so that the next one does not fail for it, too."""
        for pid in self.running():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + 10
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.05)
        for mount in reversed(self.mounts()):
            subprocess.run(["umount", "-l", mount], check=False, timeout=30)
        for loop in self.loops():
            subprocess.run(["losetup", "-d", f"/dev/{loop}"], check=False, timeout=30)
        for top in hierarchies():
            for directory in sorted((top / self.group).glob("**/"), reverse=True):
                try:
                    directory.rmdir()
                except OSError:
                    pass  # shown by the check, if it was one


def names_in_glob(path, pattern):
    return sorted(p.name for p in path.glob(pattern))


# --- the tests ---

class Apart:
    """For a test case: what of the host's network is in a box?"""

    def assertApart(self, box, init):
        """While connections to it are open and a command runs."""
        held = [http.client.HTTPConnection(box.url.hostname, box.url.port, timeout=WAIT_S) for _ in range(3)]
        for connection in held:
            connection.request("GET", "/v1/sandbox")
            self.assertEqual(connection.getresponse().read()[:1], b"{")
        box.start("sleep 300")
        pids = inside_of(init)
        self.assertGreater(len(pids), 1)
        own = own_sockets()
        for pid in pids:
            self.assertEqual(descriptors(pid) & own, set(), read_of(pid, "cmdline"))
        for connection in held:
            connection.close()


class BoxCase(TestCase):
    """One daemon for all tests of a class: starting it costs more than a box. `profiles` are all of
    them; each gets the backend and the runtime."""

    profiles = {"default": {"warm": {"min": 1, "max": 2}}}
    config = {}
    daemon = Daemon

    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason is not None:
            skip(reason)
        cls.home = tmpdir(cls, "sandpool-boxes-")
        (cls.home / "bin").mkdir()
        for name in ("sandpool-agent", "sandpool-helper"):
            copy_program(BIN / name, cls.home / "bin")
        cls.instance = f"test-{cls.home.name[-8:].lower()}"
        cls.server = cls.daemon(cls.home, cls.make_config())
        cls.left = Leftovers(cls.server.state, cls.instance)
        cls.addClassCleanup(cls.left.sweep)
        cls.addClassCleanup(cls.end)
        cls.addClassCleanup(signal.signal, signal.SIGTERM,
                            signal.signal(signal.SIGTERM, cls.on_term))
        cls.server.start()
        first = cls.server.acquire("first")  # a machine that makes no box fails here, once
        if first.status != 200:
            raise AssertionError(f"no box: {first}; {cls.server.process.output()[-3000:]}")
        cls.pool = cls.server.client()

    @classmethod
    def make_config(cls):
        profiles = {name: {"backend": "oci", "runtime": RUNTIME, "park_timeout_s": 600, **profile}
                    for name, profile in cls.profiles.items()}
        return {"instance": cls.instance, "profiles": profiles, **cls.config,
                "agent": {"path": str(cls.home / "bin" / "sandpool-agent")},
                "helper": {"path": str(cls.home / "bin" / "sandpool-helper")}}

    @classmethod
    def on_term(cls, *_):
        """Stopped by a limit of time: boxes outlive us unless they are removed."""
        if cls.server.process is not None:
            cls.server.process.child.kill()
        cls.left.sweep()
        shutil.rmtree(cls.home, ignore_errors=True)
        os._exit(128 + signal.SIGTERM)

    @classmethod
    def end(cls):
        """The last daemon takes all boxes along, and nothing is left."""
        cls.stop_with_boxes()
        cls.assertNothingLeft(cls.server.state, cls.instance)

    @classmethod
    def stop_with_boxes(cls):
        if cls.server.process is None:
            return
        cls.server.kill()
        cls.server.args = ["--destroy-on-exit"]
        cls.server.start()
        cls.server.stop()
        cls.server.args = []

    def reboot(self, act=lambda: None, start=True):
        """As far as a daemon can notice it: nothing runs, nothing is mounted, what is in /run is gone, and the machine says
        that it is another run. `act` is done while it is off."""
        if self.server.process.is_running():
            self.server.kill()
        self.left.sweep()
        wait_until(lambda: not self.left.running() and not self.left.loops(), "nothing runs any more")
        for states in (self.server.state / "oci").glob("run-*"):
            shutil.rmtree(states)
        forget_stamp(self.server.state)
        with contextlib.closing(sqlite3.connect(self.server.state / "sandpool.db")) as db, db:
            db.execute("UPDATE meta SET value = 'of another start' WHERE key = 'boot_id'")
        act()
        if start:
            self.server.start()
            type(self).pool = self.server.client()
            self.addCleanup(self.pool.close)

    def setUp(self):
        super().setUp()
        if not self.server.process.is_running():
            self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)

    def tearDown(self):
        """Shared by the next test: nobody holds a box, and what runs is what is recorded."""
        self.destroy_all()
        self.assertAgree()

    # -- boxes --

    def acquire(self, thread=None, source=None, **fields):
        answer = self.server.acquire(thread, **fields)
        self.assertEqual(answer.status, 200, (answer, self.log_tail()))
        if source is not None:
            self.assertEqual(answer.json["source"], source, answer)
        return Box(answer.json)

    def rows(self, client=None):
        return self.assertOk((client or self.pool).get("/v1/sandboxes?limit=1000"))["sandboxes"]

    def row(self, box):
        return self.assertOk(self.pool.get(f"/v1/sandboxes/{box.id}"))

    def counts(self):
        return self.assertOk(self.pool.get("/v1/pool"))["by_state"]

    def destroy(self, box, own_connection=False):
        client = self.server.client() if own_connection else self.pool
        answer = client.delete(f"/v1/sandboxes/{box.id}")
        if own_connection:
            client.close()
        return self.assertOk(answer)

    def destroy_all(self):
        for row in self.rows():
            if row["sandbox_id"]:
                self.pool.delete(f"/v1/sandboxes/{row['sandbox_id']}?quick=1")

    def init_of(self, box):
        """The box's first process, by its number on this machine."""
        path = self.server.state / "oci" / "boxes" / box.box_id / "pid"
        return int(path.read_text())

    def wait_lost(self, box):
        """Waits until its owner is shown that it is lost; returns that answer."""
        def lost():
            answer = self.pool.get(f"/v1/sandboxes/{box.id}")
            return answer if answer.status == 410 else None
        answer = wait_until(lost, "its owner learns that it is lost")
        self.assertCode(answer, 410, "sandbox_lost")
        return answer

    def assertLostWithout(self, make, pid_of, reason):
        """A box ends with the process outside of it that serves it, whether a daemon sees that end or not."""
        for when in ("while the daemon watches", "while no daemon runs"):
            with self.subTest(when=when):
                box = make()
                if when == "while no daemon runs":
                    self.server.kill()
                os.kill(pid_of(box), signal.SIGKILL)
                if when == "while no daemon runs":
                    self.server.start()
                    self.pool.close()
                self.assertIn(reason, self.wait_lost(box).text)

    def log_tail(self):
        return self.server.process.output()[-3000:]

    # -- truth --

    def assertAgree(self, limit=WAIT_S):
        """Rows and boxes one to one, nothing under way, nothing half-made beside them."""
        seen = {}

        def agrees():
            counts = self.counts()
            rows = {r["box_id"] for r in self.rows()}
            seen.update(counts=counts, rows=rows, found={
                "directories": set(self.left.boxes()),
                "cgroups": {os.path.basename(g) for g in self.left.groups()},
                "runtime states": {s.split("/")[1] for s in self.left.runtime_states()}})
            wanted = [rows] * (3 if HAS_CGROUPS else 1)
            return (counts["starting"] + counts["deleting"] == 0 and
                    list(seen["found"].values())[:len(wanted)] == wanted)
        try:
            wait_until(agrees, "rows and boxes agree", limit)
        except AssertionError:
            raise AssertionError(f"they do not agree: {seen}; {self.log_tail()}") from None
        self.assertEqual(self.left.mounts(), [])

    @staticmethod
    def assertNothingLeft(state_dir, instance, limit=10 * SLOW):
        left = Leftovers(state_dir, instance)
        try:
            wait_until(lambda: not left.all(), "nothing is left", limit)
        except AssertionError:
            raise AssertionError(f"left: {left.all()}") from None
