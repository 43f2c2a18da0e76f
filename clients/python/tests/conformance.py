"""What OpenEnv expects of a sandbox backend, in our own words; any backend can be put in."""

import dataclasses
import time
from typing import Dict, Optional, Protocol, runtime_checkable

WAIT = 60  # generous: a machine may be busy


@runtime_checkable
class Job(Protocol):
    @property
    def pid(self) -> int: ...
    def wait(self, timeout: Optional[float] = None) -> int: ...
    def kill(self) -> None: ...


@runtime_checkable
class Handle(Protocol):
    @property
    def sandbox_id(self) -> str: ...
    def exec(self, cmd: str, *, envs: Optional[Dict[str, str]] = None, cwd: Optional[str] = None,
             timeout: Optional[float] = 60) -> object: ...
    def start_bg(self, cmd: str, *, envs: Optional[Dict[str, str]] = None, cwd: Optional[str] = None) -> Job: ...
    def write_text(self, path: str, content: str) -> None: ...
    def read_text(self, path: str) -> str: ...
    def exists(self, path: str) -> bool: ...
    def kill(self) -> None: ...


@runtime_checkable
class Backend(Protocol):
    def create(self, *, timeout_s: int = 900, envs: Optional[Dict[str, str]] = None,
               metadata: Optional[Dict[str, str]] = None) -> Handle: ...


class Conformance:
    """For a test case: `make_backend()` is given by it."""

    def sandbox(self, **options):
        backend = self.make_backend()
        handle = backend.create(**options)
        self.addCleanup(handle.kill)
        return handle

    # --- shapes ---

    def test_protocols(self):
        backend = self.make_backend()
        self.assertIsInstance(backend, Backend)
        handle = backend.create()
        self.addCleanup(handle.kill)
        self.assertIsInstance(handle, Handle)
        job = handle.start_bg("true")
        self.assertIsInstance(job, Job)
        self.assertGreater(job.pid, 0)
        self.assertGreaterEqual(len(handle.sandbox_id), 12)
        result = handle.exec("echo out; echo err >&2; exit 42")
        self.assertEqual(dataclasses.asdict(result), {"exit_code": 42, "stdout": "out\n", "stderr": "err\n"})

    def test_two_sandboxes_are_two(self):
        one, two = self.sandbox(), self.sandbox()
        self.assertNotEqual(one.sandbox_id, two.sandbox_id)
        one.write_text("/tmp/mine", "1")
        self.assertFalse(two.exists("/tmp/mine"))

    def test_kill_may_be_called_twice(self):
        handle = self.sandbox()
        handle.kill()
        handle.kill()
        with self.assertRaises(Exception):  # and what is dead runs nothing
            handle.exec("true")

    # --- commands ---

    def test_commands(self):
        handle = self.sandbox(envs={"FROM_CREATE": "wide"}, metadata={"episode_id": "e1"}, timeout_s=600)
        self.assertEqual(handle.exec("echo ok", timeout=WAIT).stdout, "ok\n")
        self.assertEqual(handle.exec("printf %s \"$HOME\"").exit_code, 0)
        self.assertEqual(handle.exec('echo "$A-$FROM_CREATE"', envs={"A": "x y"}).stdout, "x y-wide\n")
        self.assertEqual(handle.exec("pwd", cwd="/tmp").stdout, "/tmp\n")
        self.assertEqual(handle.exec("kill -9 $$").exit_code, 137)
        result = handle.exec("echo begun; echo why >&2; sleep 600 & sleep 600", timeout=1)
        self.assertEqual((result.exit_code, result.stdout), (124, "begun\n"))
        self.assertTrue(result.stderr.startswith("why\n"), result)
        self.assertEqual(handle.exec("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done | grep -c '^sleep 600'",
                                     timeout=None).stdout, "0\n")

    def test_keys_are_never_in_a_command_line(self):
        handle = self.sandbox()
        job = handle.start_bg("sleep 600", envs={"UPSTREAM_API_KEY": "sk-very-secret"})
        result = handle.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", envs={"OTHER": "sk-very-secret"})
        self.assertIn("sleep 600", result.stdout)
        self.assertNotIn("sk-very-secret", result.stdout)
        self.assertIn("sk-very-secret", handle.exec("echo $K", envs={"K": "sk-very-secret"}).stdout)
        job.kill()

    # --- files ---

    def test_files(self):
        handle = self.sandbox()
        for path, text in (("/tmp/a.txt", "one\n"), ("/tmp/x/y/z.txt", "parents"), ("/tmp/empty", ""),
                           ("/tmp/special", "'quotes' and \"doubles\" and $vars `x` \\ \u00e9\u4e16\n\ttab"),
                           ("/tmp/with space & more", "x"), ("relative.txt", "in the workspace")):
            handle.write_text(path, text)
            self.assertEqual(handle.read_text(path), text)
            self.assertTrue(handle.exists(path))
        handle.write_text("/tmp/a.txt", "two")
        self.assertEqual(handle.exec("cat /tmp/a.txt").stdout, "two")
        self.assertTrue(handle.exists("/tmp/x/y"))
        self.assertFalse(handle.exists("/tmp/nothing"))
        self.assertFalse(handle.exists("/tmp/a.txt/below"))
        with self.assertRaises(FileNotFoundError):
            handle.read_text("/tmp/nothing")

    # --- background ---

    def test_background(self):
        handle = self.sandbox()
        self.assertEqual(handle.start_bg("exit 7").wait(WAIT), 7)
        self.assertEqual(handle.start_bg("echo $A > /tmp/out", envs={"A": "b"}, cwd="/tmp").wait(), 0)
        self.assertEqual(handle.read_text("/tmp/out"), "b\n")
        job = handle.start_bg("sleep 600")
        for timeout in (0, 1):
            with self.assertRaises(TimeoutError):
                job.wait(timeout)
        job.kill()
        self.assertIsInstance(job.wait(5), int)
        self.assertNotEqual(job.wait(0), 0)
        job.kill()

    def test_a_probe_sees_the_end(self):
        handle = self.sandbox()
        job = handle.start_bg("until [ -e /tmp/go ]; do sleep 0.05; done; exit 3")
        with self.assertRaises(TimeoutError):
            job.wait(timeout=0)
        handle.write_text("/tmp/go", "")
        end = time.monotonic() + WAIT
        while True:
            try:
                code = job.wait(timeout=0)
                break
            except TimeoutError:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.02)
        self.assertEqual((code, job.wait(), job.wait(0)), (3, 3, 3))

    def test_jobs_of_a_dead_sandbox(self):
        handle = self.sandbox()
        job = handle.start_bg("sleep 600")
        handle.kill()
        job.kill()
        with self.assertRaises(Exception):
            job.wait(5)
