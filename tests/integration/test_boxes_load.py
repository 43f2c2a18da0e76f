"""Load on calls to real boxes: much output, callers that do not read, more calls than are allowed, many short commands.
Memory of daemon and agent stays where it was, and nothing is left behind."""

import hashlib
import http.client
import json
import os
import pathlib
import re
import resource
import threading
import time

from fixtures import IS_SANITIZED, WAIT_S, UnixConnection, main, wait_until
from host import inside_of
from oci_case import HAS_CGROUPS
from test_boxes_calls import CallsCase, Stream

COMMANDS = int(os.environ.get("SANDPOOL_TEST_COMMANDS", 300 if IS_SANITIZED else 2000))
BOXES = int(os.environ.get("SANDPOOL_TEST_BOXES", 4 if IS_SANITIZED else 8))  # with 10 commands at once in each
STREAM_MB = int(os.environ.get("SANDPOOL_TEST_STREAM_MB", 600 if IS_SANITIZED else 1000))
KEPT = 256 * 1024 * 1024  # of a stream, by the agent; on a disk of 2 GB
GROWTH_KB = 4 * 1024  # of either program


def anonymous_kb(pid):
    return int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


class LoadCase(CallsCase):
    def programs(self, box):
        return self.server.process.pid, self.init_of(box)

    def memory(self, box):
        return [anonymous_kb(pid) for pid in self.programs(box)]

    def assertFlat(self, box, before, now=None):
        """Sanitizers keep what was freed."""
        if not IS_SANITIZED:
            for name, then, kb in zip(("daemon", "agent"), before, now or self.memory(box)):
                print(f"{name}: {then} KB before, {kb} KB after", flush=True)
                self.assertLess(kb - then, GROWTH_KB, f"{name}: {then} KB before, {kb} KB after")

    def descriptors(self, box):
        return [len(os.listdir(f"/proc/{pid}/fd")) for pid in self.programs(box)]

    def wait_closed(self, box, before):
        """But a few connections to agents, which are kept for the next calls."""
        wait_until(lambda: all(now <= then + 16 for then, now in zip(before, self.descriptors(box))),
                   lambda: f"{before} descriptors before, {self.descriptors(box)} now")

    def start_job(self, **fields):
        return self.assertOk(self.call("POST", "/jobs", fields))["job"]

    def job(self, job):
        return self.assertOk(self.call("GET", f"/jobs/{job}"))


class Output(LoadCase):
    def test_much_output_is_all_there(self):
        """The program is faster than its reader, waits for it, and nothing is lost."""
        box = self.lease("much")
        total = STREAM_MB * 1000 * 1000
        pattern = b"".join(b"%07d\n" % i for i in range(131072))  # a MiB
        self.assertOk(self.call("PUT", "/files?path=pattern", pattern))
        self.run_in_box("true")  # all that is needed once is there
        before = self.memory(box)
        job = self.start_job(command=f"while cat pattern; do :; done | head -c {total}")
        response = self.open("GET", f"/jobs/{job}/output?follow=1").getresponse()
        self.assertEqual(response.status, 200)
        kept = self.wait_held(job)
        self.assertLess(kept, total)
        piece, got, most = bytearray(len(pattern)), 0, self.memory(box)
        digest, want = hashlib.blake2b(), hashlib.blake2b()
        while True:
            n = response.readinto(piece)
            if n == 0:
                break
            if got % (64 << 20) < n:
                most = [max(pair) for pair in zip(most, self.memory(box))]
            digest.update(memoryview(piece)[:n])
            got += n
        self.assertEqual(got, total)
        for at in range(0, total, len(pattern)):
            want.update(memoryview(pattern)[:min(len(pattern), total - at)])
        self.assertEqual(digest.digest(), want.digest())
        self.assertEqual(self.job(job)["outcome"], "exited")
        self.assertFlat(box, before, most)

    def wait_held(self, job):
        """Until its output stands still, near what is kept; how much it is."""
        def held():
            sizes = [self.job(job)["stdout_bytes"] for _ in range(10)]
            return sizes[0] if sizes[0] == sizes[-1] and sizes[0] > 0 else None

        # Not all machines have disk images; then the kept part is no smaller.
        wait_until(lambda: self.job(job)["stdout_bytes"] >= KEPT * 9 // 10, lambda: f"it fills what is kept: {self.job(job)}")
        size = wait_until(held, "it waits")
        self.assertLess(size, KEPT + (8 << 20))  # with what lies in buffers on the way to the reader
        return size

    def test_a_timeout_while_it_waits(self):
        """The time of a command that waits for its reader runs on, and ends it."""
        self.lease("late")
        s = Stream(self.open("POST", "/exec", {"command": "head -c 2G /dev/zero", "stream": True, "timeout_s": 3}))
        self.assertEqual(s.next(), "start")
        wait_until(lambda: self.job(s.job)["outcome"] == "timed_out", lambda: f"it is ended: {self.job(s.job)}")
        size = self.job(s.job)["stdout_bytes"]
        self.assertLess(size, KEPT + (8 << 20))
        names, text = set(), b""
        while True:
            piece = s.response.read(1 << 20)
            if not piece:
                break
            names.update(re.findall(rb"^event: (\w+)", piece, re.M))
            text = text[-4096:] + piece
        self.assertNotIn(b"gap", names)
        end = json.loads(text[text.rindex(b"event: end\ndata: ") + 17:])
        self.assertEqual((end["outcome"], end["stdout_bytes"]), ("timed_out", size))


class Deaf(LoadCase):
    config = {"http": {"write_timeout_s": 3}}

    def test_a_client_that_never_reads(self):
        """It loses its connection, the command goes on, and others do not notice."""
        box = self.lease("deaf")
        before = self.memory(box)
        silent = [self.open("POST", "/exec", {"command": "head -c 300M /dev/zero; echo end >&2", "stream": True,
                                              "timeout_s": 0, "tag": "deaf"}) for _ in range(2)]
        wait_until(lambda: len(self.jobs()) == 2, "they run")
        while any(j["outcome"] == "running" for j in self.jobs()):
            self.assertEqual(self.run_in_box("echo well")["stdout"], "well\n")
            self.assertFlat(box, before)
        self.assertEqual([(j["exit_code"], j["stdout_bytes"], j["stderr_bytes"]) for j in self.jobs()], [(0, 300 << 20, 4)] * 2)
        for connection in silent:
            got = b""
            try:
                response = connection.getresponse()
                while True:
                    piece = response.read(1 << 20)
                    if not piece:
                        break
                    got = got[-4096:] + piece
                broken = False
            except (OSError, http.client.HTTPException):
                broken = True
            self.assertTrue(broken or b"event: end" not in got)
        self.assertFlat(box, before)


class Refusals(LoadCase):
    profiles = {"default": {"warm": {"min": 0, "max": 1}, "ttl_s": 3600, "park_timeout_s": 600},
                "few": {"warm": {"min": 0, "max": 1}, "ttl_s": 3600, "limits": {"pids": 40}}}
    config = {"calls": {"max": 90, "max_per_box": 80, "share_percent": 100}}

    def begin(self, method, target, body=None):
        """A call that goes on, or its refusal."""
        connection = self.open(method, target, body)
        response = connection.getresponse()
        if response.status == 200:
            self.held.append(connection)
            response.readline()  # it has begun
            return None
        return json.loads(response.read())["error"], response.status

    def fill(self, most, method, target, body=None):
        """Calls until one is refused."""
        for count in range(most + 1):
            refusal = self.begin(method, target, body)
            if refusal is not None:
                return count, refusal
        raise AssertionError(f"{most} were not refused")

    def test_each_limit_has_its_own_refusal(self):
        self.held = []
        second = self.lease("second-of-two")
        first = self.lease("first-of-two")
        waiting = {"command": "echo begun; exec sleep 600", "stream": True, "timeout_s": 0, "kill_on_disconnect": True}
        descriptors = self.descriptors(first)
        count, (error, status) = self.fill(64, "GET", "/files/watch?path=.")
        self.assertEqual((count, status, error["code"]), (64, 503, "busy"))
        self.assertIn("64 watches of this box", error["message"])
        count, (error, status) = self.fill(80, "POST", "/exec", waiting)
        self.assertEqual((count, status, error["code"]), (24, 429, "too_many_calls"))  # we are operators, who get 8 more
        self.assertIn("this sandbox has 88 calls", error["message"])
        self.base = f"/v1/sandboxes/{second.id}"
        count, (error, status) = self.fill(90, "POST", "/exec", waiting)
        self.assertEqual((count, status, error["code"]), (2, 429, "too_many_calls"))
        self.assertIn("the daemon has 90 calls", error["message"])
        for connection in self.held:
            connection.close()
        self.base = f"/v1/sandboxes/{first.id}"
        wait_until(lambda: self.call("GET", "/jobs").status == 200, "there is room again")
        wait_until(lambda: all(j["outcome"] != "running" for j in self.jobs()), "what they started is ended")
        wait_until(lambda: len(inside_of(self.init_of(first))) == 1, lambda: f"no helper is left: {inside_of(self.init_of(first))}")
        self.wait_closed(first, descriptors)

    def test_a_box_without_processes(self):
        if not HAS_CGROUPS:
            self.skipTest("boxes of this runtime have no limits")
        self.lease("few", profile="few")
        jobs = []
        while True:
            answer = self.call("POST", "/jobs", {"argv": ["sleep", "600"]})
            if answer.status != 200:
                break
            jobs.append(answer.json["job"])
            self.assertLess(len(jobs), 40)
        self.assertCode(answer, 429, "queue_full")
        self.assertIn("as many processes as it may have", answer.json["error"]["message"])
        self.assertOk(self.call("DELETE", f"/jobs/{jobs[0]}"))
        self.assertEqual(self.run_in_box("echo again")["stdout"], "again\n")


class Commands(LoadCase):
    def test_commands_in_many_boxes_at_once(self):
        """All run at the same moment; each answer is that of its own command."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 11 * BOXES + 200)), hard))
        boxes = [self.lease(f"crowd-{i}") for i in range(BOXES)]
        streams = []
        for box in boxes:
            self.base = f"/v1/sandboxes/{box.id}"
            self.run_in_box("mkfifo go")
            streams += [(box.id, i, self.stream(f"echo {box.id}; read x < go; echo {i}; exit {i}", timeout_s=0))
                        for i in range(10)]
        for box, _, s in streams:
            while s.out != f"{box}\n".encode():
                self.assertIsNotNone(s.next(), "it ended before it could")
        for box in boxes:
            self.base = f"/v1/sandboxes/{box.id}"
            self.run_in_box(": > go")  # opens it for all that wait
        for box, i, s in streams:
            s.drain()
            self.assertEqual((s.out, s.end["outcome"], s.end["exit_code"]), (f"{box}\n{i}\n".encode(), "exited", i))

    def run_many(self, count, threads=4):
        failures = []

        def work(number):
            connection = UnixConnection(self.server.socket)
            try:
                for i in range(number, count, threads):
                    connection.request("POST", self.base + "/exec", json.dumps({"argv": ["printf", str(i)]}))
                    got = json.loads(connection.getresponse().read())
                    if (got.get("exit_code"), got.get("stdout")) != (0, str(i)):
                        failures.append(got)
            except (OSError, http.client.HTTPException) as e:
                failures.append(repr(e))
            finally:
                connection.close()

        workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(8 * WAIT_S)
            self.assertFalse(worker.is_alive())
        self.assertEqual(failures, [])

    def test_short_commands_leave_nothing(self):
        box = self.lease("short")
        self.run_many(200)
        self.assertEqual(self.jobs(), [])
        memory, descriptors = self.memory(box), self.descriptors(box)
        begin = time.monotonic()
        self.run_many(COMMANDS)
        print(f"{COMMANDS} commands, {(time.monotonic() - begin) / COMMANDS * 1e6:.0f} us each")
        self.assertEqual(self.jobs(), [])
        wait_until(lambda: len(inside_of(self.init_of(box))) == 1, "no process is left")
        self.wait_closed(box, descriptors)
        self.assertFlat(box, memory)

    def test_jobs_leave_records(self):
        """Of the last 128 the output is kept, of all how they ended."""
        box = self.lease("records")
        memory = self.memory(box)
        first = self.start_job(argv=["true"])
        for _ in range(300):
            self.start_job(argv=["echo", "x" * 100])
        wait_until(lambda: all(j["outcome"] == "exited" for j in self.jobs()), "all have ended")
        self.start_job(argv=["true"])  # old ones go when a new one comes
        self.assertLessEqual(len(self.jobs()), 129)
        self.assertEqual(self.job(first)["exit_code"], 0)
        self.assertEqual(len(inside_of(self.init_of(box))), 1)
        self.assertFlat(box, memory)


if __name__ == "__main__":
    main()
