"""Real boxes from birth to death: where they come from, whose they are and what is in them."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from fixtures import BIN, SLOW, WAIT_S, in_threads, is_alive, main, wait_until
from box import JOBS
from host import has_loop_devices, read_of
from oci_case import HAS_CGROUPS, Apart, BoxCase


# A local process without the token: as many connections as it can make.
FLOOD = """
import socket, sys
held = []
text = b"GET /v1/agent/jobs HTTP/1.1\\r\\nHost: x\\r\\n\\r\\nGET" if sys.argv[2] == "ask" else b""
while True:
    new = []
    for i in range(300):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", int(sys.argv[1])))
        new.append(s)
    for s in new:
        try:
            s.send(text)
        except OSError:
            pass
    held = (held + new)[-600:]
"""


class Life(Apart, BoxCase):
    profiles = {"default": {"warm": {"min": 1, "max": 2}}, "cold": {"warm": {"min": 0, "max": 0}}}

    def test_warm_then_kept_then_parked(self):
        self.wait_blank(self.pool, 1)
        box = self.acquire("life", "warm")
        self.assertEqual((box.lease["generation"], self.row(box)["state"]), (1, "leased"))
        box.sh("echo mine > /workspace/file")
        sleeper = box.start("sleep 300")
        self.assertEqual(self.acquire("life", "kept").box_id, box.box_id)
        self.assertOk(self.pool.release(box.id))
        self.assertEqual(self.row(box)["state"], "parked")
        back = self.acquire("life", "parked")
        self.assertEqual((back.box_id, back.lease["token"], back.lease["generation"]),
                         (box.box_id, box.lease["token"], 1))
        self.assertEqual(back.sh("cat /workspace/file"), "mine\n")
        self.assertEqual(back.process(sleeper)["outcome"], "running")

    def test_no_socket_of_the_host_is_inside(self):
        box = self.acquire("apart")
        self.assertApart(box, self.init_of(box))

    def test_a_crowd_that_came_before_the_agent_looked(self):
        """All their connections are taken at once; the one with the token still gets its answer."""
        box = self.acquire("crowd")
        init = self.init_of(box)
        os.kill(init, signal.SIGSTOP)
        try:
            mine = http.client.HTTPConnection(box.url.hostname, box.url.port, timeout=WAIT_S)
            mine.request("GET", JOBS, headers={"Authorization": f"Bearer {box.lease['token']}"})
            crowd = [socket.create_connection((box.url.hostname, box.url.port), timeout=WAIT_S) for _ in range(400)]
        finally:
            os.kill(init, signal.SIGCONT)
        self.assertEqual(mine.getresponse().status, 200)
        for connection in (mine, *crowd):
            connection.close()

    def test_flooders_do_not_keep_out_who_has_the_token(self):
        """Two that open connections and hold them, and two that send requests without the token."""
        box = self.acquire("flooded")
        kept = http.client.HTTPConnection(box.url.hostname, box.url.port, timeout=WAIT_S)
        flooders = [subprocess.Popen([sys.executable, "-c", FLOOD, str(box.url.port), kind])
                    for kind in ("hold", "hold", "ask", "ask")]
        took = []
        resets = 0
        try:
            wait_until(lambda: all(p.poll() is None for p in flooders) and time.sleep(1) is None, "they flood")
            for _ in range(20):
                begin = time.monotonic()
                try:
                    self.assertEqual(box.call("GET", JOBS)[0], 200)
                except ConnectionError:
                    resets += 1
                took.append(time.monotonic() - begin)
                kept.request("GET", JOBS, headers={"Authorization": f"Bearer {box.lease['token']}"})
                self.assertEqual(kept.getresponse().read()[:1], b"{")
        finally:
            for p in flooders:
                p.kill()
                p.wait()
            kept.close()
        took.sort()
        print(f"among flooders: {took[len(took) // 2] * 1000:.0f} ms, at most {took[-1] * 1000:.0f} ms, {resets} of {len(took)} cut off", file=sys.stderr)
        # Each call was answered before its own limit (WAIT_S); how fast depends on what else this machine does.
        self.assertLess(resets, 4)  # one that is slow to speak may be taken for one of them

    def test_cold(self):
        box = self.acquire("c1", "cold", profile="cold")
        self.assertEqual(box.sh("echo $((6*7))"), "42\n")

    def test_destroy_tells_what_it_cleaned(self):
        box = self.acquire("gone")
        init = self.init_of(box)
        for _ in range(3):
            box.start("exec sleep 300")
        box.sh("dd if=/dev/urandom of=/workspace/big bs=1M count=3 2>/dev/null")
        mounts = len(read_of(init, "mountinfo").splitlines())
        report = self.destroy(box)["report"]
        if HAS_CGROUPS:
            self.assertEqual(report["processes"], 4)  # and the agent
        self.assertEqual((report["mounts"], report["layers"]), (mounts, 1))
        self.assertTrue(3 << 20 <= report["bytes"] < 8 << 20, report)
        self.assertGreater(report["lived_s"], 0)
        self.assertEqual(self.report_of(box), report)
        self.assertFalse(is_alive(init))
        with self.assertRaises(OSError):
            box.call("GET", "/v1/sandbox")
        again = self.acquire("gone")
        self.assertEqual(again.lease["generation"], 2)
        self.assertNotEqual((again.box_id, again.lease["token"]), (box.box_id, box.lease["token"]))
        self.assertEqual(again.sh("ls /workspace"), "")

    def report_of(self, box):
        """As the audit trail has it."""
        return wait_until(lambda: self.pool.reports(box.box_id), "the end of the box is in the audit trail")[0]

    def test_one_that_has_died_releases_what_is_left_of_it(self):
        box = self.acquire("dead")
        box.start("exec sleep 300")
        box.sh("dd if=/dev/urandom of=/workspace/big bs=1M count=3 2>/dev/null")
        os.kill(self.init_of(box), signal.SIGKILL)
        report = self.report_of(box)
        self.assertEqual((report["processes"], report["mounts"], report["layers"]),
                         (0 if HAS_CGROUPS else None, 0, 1), report)
        self.assertGreaterEqual(report["bytes"], 3 << 20)
        self.wait_lost(box)

    def test_what_is_looked_for_can_be_found(self):
        """The check that nothing is left would see a box in every place it looks at."""
        self.acquire("seen")
        wanted = {"processes", "directories"}
        if HAS_CGROUPS:
            wanted |= {"cgroups", "runtime states"}
        if has_loop_devices():
            wanted.add("loop devices")
        self.assertEqual(set(self.left.all()), wanted)
        with self.assertRaises(AssertionError):
            self.assertNothingLeft(self.server.state, self.instance, limit=0.1)

    def test_release_and_destroy(self):
        box = self.acquire("r")
        self.assertOk(self.pool.release(box.id, destroy=True))
        wait_until(lambda: box.box_id not in self.left.boxes(), "the box is gone")

    def test_threads_share_nothing(self):
        boxes = in_threads(6, lambda i: self.acquire(f"own-{i}"))
        self.assertEqual(len({b.box_id for b in boxes}), 6)
        self.assertEqual(len({b.lease["token"] for b in boxes}), 6)
        for i, box in enumerate(boxes):
            box.sh(f"echo {i} > /workspace/whose; echo {i} > /tmp/whose; sleep 300 & :")
        for i, box in enumerate(boxes):
            self.assertEqual(box.sh("cat /workspace/whose /tmp/whose"), f"{i}\n{i}\n")
            other = boxes[(i + 1) % 6]
            self.assertEqual(box.call("GET", JOBS, token=other.lease["token"])[0], 401)
        ids = {read_of(self.init_of(b), "uid_map").split()[1] for b in boxes}
        self.assertEqual(len(ids), 6, "each its own range of user ids")

    def test_two_calls_of_a_thread_at_once(self):
        boxes = in_threads(4, lambda i: self.acquire("same"))
        self.assertEqual(len({b.box_id for b in boxes}), 1)

    def test_anonymous(self):
        first, second = self.acquire(), self.acquire()
        self.assertNotEqual(first.id, second.id)
        self.assertNotEqual(first.box_id, second.box_id)
        self.assertEqual(first.sh("id -un"), "user\n")

    def test_what_a_box_is(self):
        box = self.acquire("inside")
        self.assertEqual(box.sh("id -un; id -u; pwd; echo $HOME; echo ~"),
                         "user\n1000\n/workspace\n/home/user\n/home/user\n")
        self.assertEqual(box.sh("touch ~/a /tmp/b /workspace/c && ls ~ /workspace"),
                         "/home/user:\na\n\n/workspace:\nc\n")
        self.assertEqual(box.run("touch /usr/x").exit_code, 1)
        seen = box.sh("cat /proc/1/comm; ls -d /proc/[0-9]* | wc -l").split()
        self.assertLess(int(seen[1]), 8)
        self.assertEqual(box.sh("echo x > /dev/null; head -c 4 /dev/urandom | wc -c"), "4\n")
        self.assertEqual(box.sh("python3 -c 'import ssl, json; print(json.dumps([1]))'"), "[1]\n")
        self.assertEqual(box.sh("id -u", user="root"), "0\n")
        self.assertEqual(box.call("GET", "/v1/sandbox", token="wrong")[0], 200)
        self.assertEqual(box.call("GET", JOBS, token="wrong")[0], 401)

    def test_thirty_at_once_and_gone_again(self):
        begin = time.monotonic()
        boxes = in_threads(30, lambda i: self.acquire(f"many-{i}", wait_ms=60000))
        made = time.monotonic()
        self.assertEqual(len({b.box_id for b in boxes}), 30)
        for i, box in enumerate(boxes):
            self.assertEqual(box.sh(["echo", str(i)]), f"{i}\n")
        self.assertAgree()
        ask = time.monotonic()
        in_threads(30, lambda i: self.destroy(boxes[i], own_connection=True))
        gone = time.monotonic()
        self.assertFalse({b.box_id for b in boxes} & set(self.left.boxes()))
        print(f"30 boxes: made in {made - begin:.2f} s, removed in {gone - ask:.2f} s",
              file=sys.stderr)

    def test_run_from_the_command_line(self):
        def run(*args):
            return subprocess.run([BIN / "sandpool", "run", *args], capture_output=True, text=True,
                                  timeout=60 * SLOW, check=False,
                                  env={**os.environ, "SANDPOOL_SOCKET": str(self.server.socket)})
        before = self.counts()["leased"]
        done = run("--", "python3", "-c", "print(6*7)")
        self.assertEqual((done.stdout, done.returncode), ("42\n", 0), done)
        self.assertEqual(run("--", "sh", "-c", "exit 7").returncode, 7)
        wait_until(lambda: self.counts()["leased"] == before, "the boxes are given back")


class Stopped(BoxCase):
    """A warm box whose agent was stopped is not dead, but nobody is given it."""
    profiles = {"default": {"warm": {"min": 2, "max": 2, "check_s": 1}}}

    def test_is_not_handed_out(self):
        self.wait_blank(self.pool, 2)
        row = next(r for r in self.rows() if r["state"] == "blank")
        pid = int((self.server.state / "oci" / "boxes" / row["box_id"] / "pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(1.2)  # what it may be silent for
            boxes = [self.acquire(f"stopped-{i}") for i in range(3)]
            self.assertNotIn(row["box_id"], [b.box_id for b in boxes])
            for box in boxes:
                self.assertEqual(box.sh("echo here"), "here\n")
            wait_until(lambda: row["box_id"] not in {r["box_id"] for r in self.rows()},
                       "it is replaced")
        finally:
            if is_alive(pid):
                os.kill(pid, signal.SIGCONT)


    def test_is_alive_and_does_not_answer(self):
        box = self.acquire("stopped-later")
        path = f"/v1/sandboxes/{box.id}?alive=1"
        row = self.assertOk(self.pool.get(path))
        self.assertEqual((row["alive"], row["answers"]), (True, True))
        pid = self.init_of(box)
        os.kill(pid, signal.SIGSTOP)
        try:
            row = self.assertOk(self.pool.get(path))
            self.assertEqual((row["alive"], row["answers"]), (True, False))
            done = subprocess.run([BIN / "sandpool", "run", "--thread", "stopped-later", "--keep", "--timeout", "1s",
                                   "true"], env={**os.environ, "SANDPOOL_SOCKET": str(self.server.socket)},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S)
            self.assertEqual(done.returncode, 124, done)
            self.assertIn("does not answer", done.stderr)
        finally:
            os.kill(pid, signal.SIGCONT)


class Trial(BoxCase):
    """The box by which a runtime is tried has no instance: it is not one of a name that was lost."""
    profiles = {"default": {"warm": {"min": 0, "max": 0}}}

    @classmethod
    def make_config(cls):
        config = super().make_config()
        cls.hold = cls.home / "hold"
        helper = cls.home / "helper"
        helper.write_text(f'#!/bin/sh\nif [ "$1" = remove ]; then while [ -e {cls.hold} ]; do sleep 0.05; done; fi\n'
                          f'exec {config["helper"]["path"]} "$@"\n')
        helper.chmod(0o755)
        return {**config, "helper": {"path": str(helper)}}

    def trials(self):
        records = [p.read_text() for p in (self.server.state / "oci" / "boxes").glob("*/box.json")]
        return [r for r in records if self.instance not in r]

    def test_is_not_reported_as_lost(self):
        self.server.kill()
        self.hold.touch()
        self.addCleanup(self.hold.unlink, missing_ok=True)
        self.server.start()
        type(self).pool = self.server.client()
        self.addCleanup(self.pool.close)
        caller = threading.Thread(target=self.server.acquire, args=("tried",))
        caller.start()
        try:
            wait_until(self.trials, "the runtime is tried")
            self.assertOk(self.pool.post("/v1/pool/reconcile"))
            self.assertNotEqual(self.trials(), [])
            self.assertNotIn("boxes_of_another_instance", self.server.process.output())
        finally:
            self.hold.unlink()
            caller.join()


if __name__ == "__main__":
    main()
