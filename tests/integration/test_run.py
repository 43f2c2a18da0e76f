"""`sandpool run` in real boxes of the `oci` backend: the whole way from the command line to a
process in a box and back. Needs root and a runtime; says so when it cannot run."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from fixtures import BIN, SLOW, TestCase, main, remove_groups, skip, wait_until

RUNTIME = os.environ.get("SANDPOOL_TEST_RUNTIME", "runc")

# A shell has what it starts in the background ignore these two, and a process inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def why_not():
    if os.geteuid() != 0:
        return "boxes are made by root here"
    if shutil.which(RUNTIME) is None:
        return f"{RUNTIME} is not installed"
    return None


class Run(TestCase):
    def setUp(self):
        reason = why_not()
        if reason is not None:
            skip(reason)
        super().setUp()
        instance = "test-run-" + os.path.basename(self.directory)[-8:]
        self.addCleanup(remove_groups, instance)
        self.boxes = self.daemon({"backend": "oci", "runtime": RUNTIME, "warm": {"min": 1, "max": 2},
                                  "limits": {"memory": "256m"}}, args=["--destroy-on-exit"],
                                 instance=instance)
        # Boxes outlive a daemon that is killed: it must stop by itself and take them along.
        self.addCleanup(self.boxes.process.stop)
        self.calls = self.client(self.boxes)

    def spawn(self, *args, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        child = subprocess.Popen(
            [BIN / "sandpool", "run", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "SANDPOOL_SOCKET": str(self.boxes.socket)}, **kw)
        self.addCleanup(self.end, child)
        return child

    @staticmethod
    def end(child):
        if child.poll() is None:
            child.kill()
        child.communicate()

    def run_it(self, *args, data=None, status=0):
        child = self.spawn(*args, stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL)
        out, err = child.communicate(data, 60 * SLOW)
        self.assertEqual(child.returncode, status, (args, out[-500:], err[-2000:], self.log_tail()))
        return out, err

    def log_tail(self):
        return self.boxes.process.output()[-3000:]

    def leased(self):
        return self.calls.get("/v1/pool").json["by_state"].get("leased", 0)

    def test_commands(self):
        self.assertEqual(self.run_it("--", "python3", "-c", "print(6*7)")[0], b"42\n")
        self.assertEqual(self.leased(), 0)
        self.run_it("sh", "-c", "exit 33", status=33)
        self.run_it("no-such-program", status=127)
        self.run_it("/etc/passwd", status=126)
        self.run_it("sh", "-c", "kill -9 $$", status=137)
        self.run_it("--timeout", "300ms", "sleep", "60", status=124)
        out, err = self.run_it("sh", "-c", r"printf '\000\377'; echo e >&2")
        self.assertEqual((out, err), (b"\x00\xff", b"e\n"))
        out, _ = self.run_it("-e", "A=b c", "-C", "/tmp", "sh", "-c", 'id -un; echo "$A"; pwd; echo ~')
        self.assertEqual(out, b"user\nb c\n/tmp\n/home/user\n")
        self.assertEqual(self.run_it("--as", "root", "id", "-u")[0], b"0\n")
        self.assertEqual(self.leased(), 0)

    def test_bytes_both_ways(self):
        data = os.urandom(1 << 20) * 8
        self.assertEqual(self.run_it("cat", data=data)[0], data)

    def test_is_not_the_host(self):
        secret = pathlib.Path(self.directory) / "secret"
        secret.write_text("s")
        self.run_it("cat", str(secret), status=1)
        self.assertLess(int(self.run_it("sh", "-c", "ls /proc | grep -c '^[0-9]'")[0]), 10)

    def test_threads_keep_their_box(self):
        self.run_it("--thread", "t1", "sh", "-c", "echo kept > /workspace/file")
        self.assertEqual(self.leased(), 0)
        self.assertEqual(self.run_it("--thread", "t1", "cat", "/workspace/file")[0], b"kept\n")
        self.run_it("cat", "/workspace/file", status=1)  # a box of nobody is a new one

    def test_keep(self):
        _, err = self.run_it("--keep", "true")
        sandbox_id = err.decode().strip()
        self.assertEqual(self.calls.get(f"/v1/sandboxes/{sandbox_id}").json["state"], "leased")
        self.assertOk(self.calls.release(sandbox_id, destroy=True))

    def test_out_of_memory(self):
        _, err = self.run_it("python3", "-c", "x = bytearray(1 << 30)", status=137)
        self.assertIn(b"memory", err)

    def test_signals(self):
        child = self.spawn("sh", "-c", "trap 'echo bye; exit 5' TERM; echo on; while :; do sleep 0.05; done")
        self.assertEqual(child.stdout.read(3), b"on\n")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.communicate(timeout=60 * SLOW)[0], b"bye\n")
        self.assertEqual(child.returncode, 5)
        child = self.spawn("sh", "-c", "trap '' INT; echo on; while :; do sleep 0.05; done")
        self.assertEqual(child.stdout.read(3), b"on\n")
        child.send_signal(signal.SIGINT)
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(60 * SLOW), 130)
        self.assertEqual(self.leased(), 0)

    def test_box_that_dies(self):
        child = self.spawn("sh", "-c", "echo on; sleep 300")
        self.assertEqual(child.stdout.read(3), b"on\n")
        box = [b for b in self.calls.get("/v1/sandboxes").json["sandboxes"] if b["state"] == "leased"]
        self.assertEqual(len(box), 1)
        self.calls.delete(f"/v1/sandboxes/{box[0]['sandbox_id']}")
        _, err = child.communicate(timeout=60 * SLOW)
        self.assertEqual(child.returncode, 125)
        self.assertIn(b"sandpool: ", err)

    def test_daemon_that_restarts_meanwhile(self):
        child = self.spawn("--thread", "t9", "sh", "-c", "echo on; sleep 2; echo off")
        self.assertEqual(child.stdout.read(3), b"on\n")
        self.boxes.process.kill()
        self.boxes.start()
        self.addCleanup(self.boxes.process.stop)
        self.assertEqual(child.communicate(timeout=60 * SLOW)[0], b"off\n")
        self.assertEqual(child.returncode, 0)
        calls = self.client(self.boxes)
        wait_until(lambda: calls.get("/v1/pool").json["by_state"]["parked"] == 1, "the box is parked")

    def test_doctor_agrees(self):
        done = subprocess.run([BIN / "sandpool", "doctor", "--json"], capture_output=True, text=True,
                              timeout=60, check=False,
                              env={**os.environ, "SANDPOOL_SOCKET": str(self.boxes.socket)})
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))
        self.assertTrue(json.loads(done.stdout)["ok"])


if __name__ == "__main__":
    main()
