"""The Python client with real boxes: the program of the README, every outcome of a command, a daemon that goes away in the
middle, files, ports and terminals."""

import asyncio
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "clients" / "python"), str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "integration")]

from oci_case import HAS_CGROUPS, BoxCase  # noqa: E402
from testlib import WAIT_S, main, wait_until  # noqa: E402

import sandpool  # noqa: E402

LINES = 2000
# A line with its number, with pauses, so that a restart is in the middle of it.
COUNT = f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line-$i; [ $((i % 100)) = 0 ] && sleep 0.02; done; exit 3"

# The same in four parts: each waits until the test has noticed the last line of the one before.
PARTS = (f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line-$i; [ $((i % 500)) = 0 ] && [ $i -lt {LINES} ] && "
         "while [ ! -e /tmp/go-line-$i ]; do sleep 0.02; done; done; exit 3")


class RealCase(BoxCase):
    profiles = {"default": {"warm": {"min": 2, "max": 3}, "limits": {"memory": "256M"}}}

    def setUp(self):
        super().setUp()
        self.addCleanup(signal.alarm, 0)
        signal.signal(signal.SIGALRM, self.on_alarm)
        signal.alarm(4 * WAIT_S)
        self.client = sandpool.Client(str(self.server.socket))
        self.addCleanup(self.client.close)

    def on_alarm(self, *_):
        raise AssertionError("it hangs")

    def box(self, thread="t", **options):
        return self.client.acquire(thread, **options)


class Readme(RealCase):
    def test_the_program_of_the_first_screen(self):
        program = re.search("```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
        self.assertLessEqual(len([text for text in program.splitlines() if text.strip()]), 6)
        done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=WAIT_S * 2,
                              env={**os.environ, "SANDPOOL_SOCKET": str(self.server.socket),
                                   "PYTHONPATH": str(ROOT / "clients" / "python")}, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "0\n1\n4\nexited 0\n", ""))


class Outcomes(RealCase):
    def in_thread(self, work):
        """What it returns, by a function that waits for it."""
        found = []
        thread = threading.Thread(target=lambda: found.append(work()))
        thread.start()

        def result():
            thread.join(WAIT_S)
            self.assertEqual(len(found), 1, "a command hangs")
            return found[0]
        return result

    def begun(self, box, command, **options):
        """A command that has written its first line, and how to wait for its result."""
        first = threading.Event()
        result = self.in_thread(lambda: box.run(command, on_stdout=lambda text: first.set(), timeout_s=None, **options))
        self.assertTrue(first.wait(WAIT_S))
        return result

    def test_exited_and_signalled(self):
        with self.box() as box:
            result = box.run(["sh", "-c", "cat; echo bad >&2; exit 3"], stdin=b"in\xff", env={"A": "b"})
            self.assertEqual((result.outcome, result.exit_code, result.signal, result.stdout_raw, result.stderr),
                             ("exited", 3, None, b"in\xff", "bad\n"))
            self.assertEqual(box.run("kill -USR1 $$").signal, "SIGUSR1")
            result = box.run("kill -9 $$")
            self.assertEqual((result.outcome, result.exit_code, result.signal), ("signalled", None, "SIGKILL"))
            self.assertEqual(box.run("true").check().stdout, "")
            with self.assertRaises(sandpool.CommandFailed):
                box.run("false").check()
            for start in (box.run, box.start):
                with self.assertRaises(FileNotFoundError) as raised:
                    start(["no-such-program"])
                self.assertEqual(raised.exception.code, "program_not_found")
            with self.assertRaises(PermissionError):
                box.run(["/etc/passwd"])

    def test_timed_out_with_all_it_started(self):
        with self.box() as box:
            result = box.run("trap '' TERM; echo begun; (sleep 301 &); (sh -c '(sleep 301 &)' &); setsid sleep 301 & sleep 301",
                             timeout_s=1)
            self.assertEqual((result.outcome, result.exit_code, result.stdout), ("timed_out", None, "begun\n"))
            self.assertEqual(box.run("grep -lsz '^301' /proc/[0-9]*/cmdline | wc -l").stdout, "0\n")

    def test_killed_by_request(self):
        with self.box() as box:
            result = self.begun(box, "echo begun; sleep 600", tag="victim")
            victim, = [job for job in box.jobs() if job.view.tag == "victim"]
            self.assertEqual(victim.kill().outcome, "killed")
            self.assertEqual((result().outcome, result().exit_code), ("killed", None))
            self.assertEqual(victim.kill().outcome, "killed")

    def test_out_of_memory(self):
        if not HAS_CGROUPS:
            self.skipTest("no control groups with this runtime")
        with self.box() as box:
            self.assertEqual(box.run("python3 -c 'x = b\"x\" * (400 << 20)'").outcome, "oom")
            self.assertEqual(box.run("echo still here").stdout, "still here\n")

    def test_the_box_is_destroyed(self):
        box = self.box()
        result = self.begun(box, "echo begun; sleep 600")
        self.client.destroy(box.sandbox_id)
        self.assertEqual((result().outcome, result().exit_code, result().stdout), ("sandbox_lost", None, "begun\n"))
        self.assertEqual(box.run("true").outcome, "sandbox_lost")
        with self.assertRaises(sandpool.SandboxLost):
            box.files.read("x")

    def test_a_replacement_is_not_taken_for_the_box(self):
        box = self.box("same")
        self.client.destroy(box.sandbox_id)
        with self.box("same") as other:
            self.assertEqual(other.sandbox_id, box.sandbox_id)
            self.assertEqual(box.run("true").outcome, "sandbox_lost")

    def test_the_agent_is_killed(self):
        box = self.box()
        result = self.begun(box, "echo begun; sleep 600")
        job = box.start("sleep 600")
        wait = self.in_thread(lambda: job.wait(WAIT_S))
        os.kill(int((self.server.state / "oci" / "boxes" / box.sandbox.box_id / "pid").read_text()), 9)
        self.assertEqual((result().outcome, result().exit_code), ("sandbox_lost", None))
        self.assertEqual(wait().outcome, "sandbox_lost")

    def test_the_daemon_is_killed_in_the_middle(self):
        with self.box() as box:
            seen = []

            def note(text):
                seen.append(text)
                if text == "line-500":
                    self.server.kill()
                    self.server.start()
            result = box.run(COUNT, on_stdout=note, timeout_s=None)
            self.assertEqual((result.outcome, result.exit_code), ("exited", 3))
            self.assertEqual(seen, [f"line-{i}" for i in range(1, LINES + 1)])

    def test_the_daemon_is_replaced_in_the_middle(self):
        with self.box() as box:
            seen = []

            def note(text):
                seen.append(text)
                if text == "line-500":
                    taker.start()  # and goes on reading: the old daemon waits for its calls
            self.addCleanup(self.server.process.kill)
            taker = threading.Thread(target=self.server.takeover)
            result = box.run(COUNT, on_stdout=note, timeout_s=None)
            taker.join(WAIT_S)
            self.assertEqual((result.outcome, result.exit_code), ("exited", 3))
            self.assertEqual(seen, [f"line-{i}" for i in range(1, LINES + 1)])

    def test_the_daemon_is_replaced_and_then_killed(self):
        """Its predecessors have the stream, until nobody reports to them any more what ends."""
        with self.box("t") as box:
            direct = self.acquire("t", "kept")
            seen = []

            def replace():
                self.addCleanup(self.server.replace().kill)

            def kill():
                self.server.kill()
                self.server.start()
            acts = {"line-500": replace, "line-1000": replace, "line-1500": kill}

            def note(text):
                seen.append(text)
                if text in acts:
                    acts[text]()
                    direct.sh(f"touch /tmp/go-{text}")
            result = box.run(PARTS, on_stdout=note, timeout_s=None)
            self.assertEqual((result.outcome, result.exit_code), ("exited", 3))
            self.assertEqual(seen, [f"line-{i}" for i in range(1, LINES + 1)])

    def test_a_release_ends_what_runs_for_its_caller(self):
        box = self.box("t")
        result = self.begun(box, "echo begun; sleep 600")
        shell = box.shell("exec sleep 600")
        self.client.release(box.sandbox_id)
        self.assertEqual((result().outcome, result().stdout), ("sandbox_lost", "begun\n"))
        self.assertEqual(list(shell), [])
        self.assertEqual((shell.end.outcome, shell.end.exit_code), ("transport_lost", None))
        again = self.box("t")
        self.assertEqual(again.sandbox.box_id, box.sandbox.box_id)
        self.assertEqual([job.view.outcome for job in again.jobs()], ["running", "running"])

    def test_the_daemon_is_away_for_good(self):
        client = sandpool.Client(str(self.server.socket), reconnect_s=1)
        self.addCleanup(client.close)
        box = client.acquire("t")
        result = self.begun(box, "echo begun; sleep 600")
        self.server.kill()
        self.assertEqual((result().outcome, result().exit_code, result().stdout), ("transport_lost", None, "begun\n"))
        with self.assertRaises(sandpool.ConnectionFailed):
            box.run("true")
        self.server.start()
        self.assertEqual(box.run("echo again").stdout, "again\n")

    def test_much_output(self):
        with self.box() as box:
            result = box.run("seq 1 2000000", max_output=1000, timeout_s=None)
            self.assertTrue(result.truncated)
            self.assertTrue(result.stdout.startswith("1\n2\n") and result.stdout.endswith("\n2000000\n"))
            self.assertEqual(len(result.stdout), 1000)
            whole = hashlib.sha256("".join(f"{i}\n" for i in range(1, 2000001)).encode())
            read = hashlib.sha256()
            for chunk in box.job(result.spill.job).output():
                self.assertEqual(chunk.skipped, 0)
                read.update(chunk.data)
            self.assertEqual(read.hexdigest(), whole.hexdigest())


class Jobs(RealCase):
    def test_input_output_and_signals(self):
        with self.box() as box:
            job = box.start("while read line; do echo got $line; done; echo over", stdin=True)
            live = iter(job)
            job.send("one\n")
            self.assertEqual(next(live).text, "got one\n")
            job.send(b"two\n")
            job.close_stdin()
            self.assertEqual("".join(chunk.text for chunk in live), "got two\nover\n")
            self.assertEqual((repr(job), repr(box)),
                             (f"<Job {job.id}, last seen running>", f"<Box {box.sandbox_id} of default/t>"))
            self.assertEqual((live.end.outcome, live.end.exit_code, job.wait(0).exit_code), ("exited", 0, 0))
            trap = box.start("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done")
            live = iter(trap)
            self.assertEqual(next(live).text, "ready\n")
            trap.signal("INT")
            self.assertEqual(trap.wait(WAIT_S).exit_code, 5)
            with self.assertRaises(sandpool.NotFound):
                box.job("no-such-job")

    def test_a_job_outlives_client_and_daemon(self):
        with self.box() as box:
            job = box.start("until [ -e go ]; do sleep 0.05; done; echo done; exit 7")
            waiting = threading.Thread(target=job.wait, daemon=True)
            waiting.start()
            self.server.restart()
            with sandpool.Client(str(self.server.socket)) as other:
                again = other.acquire("t").job(job.id)
                with self.assertRaises(TimeoutError):
                    again.wait(0)
                box.files.write("go", "")
                self.assertEqual(again.wait(WAIT_S).exit_code, 7)
                self.assertEqual(b"".join(chunk.data for chunk in again), b"done\n")
            waiting.join(WAIT_S)
            self.assertEqual(job.view.exit_code, 7)

    def test_a_lease_is_renewed_while_it_is_held(self):
        with self.box("held", ttl_s=6, idle_timeout_s=6) as box:
            ends = self.client.get(box.sandbox_id).ends_at
            for _ in range(2):
                before = ends
                wait_until(lambda: self.client.get(box.sandbox_id).ends_at > before, "it is renewed")
                ends = self.client.get(box.sandbox_id).ends_at
            self.assertEqual(box.run("echo here").stdout, "here\n")


class Files(RealCase):
    def test_calls(self):
        with self.box() as box:
            files = box.files
            self.assertEqual(files.write("d/e/a.txt", "z\u00f6", mode=0o640), 3)
            info = files.stat("d/e/a.txt")
            self.assertEqual((info.path, info.type, info.size, info.mode), ("/workspace/d/e/a.txt", "file", 3, 0o640))
            self.assertEqual(files.read("d/e/a.txt", start=1, end=2), "z\u00f6".encode()[1:2])
            self.assertEqual(files.copy("d/e/a.txt", "b.txt").name, "b.txt")
            self.assertEqual(files.move("b.txt", "c.txt").path, "/workspace/c.txt")
            self.assertEqual((files.exists("b.txt"), files.read_text("c.txt")), (False, "z\u00f6"))
            files.mkdir("x/y")
            self.assertEqual([e.path for e in files.list("/workspace/x", recursive=True)], ["/workspace/x/y"])
            self.assertTrue(files.list("/usr/bin", limit=2).truncated)
            with self.assertRaises(IsADirectoryError):
                files.read("x")
            with self.assertRaises(FileNotFoundError):
                files.read("nothing")
            with self.assertRaises(FileExistsError):
                files.move("c.txt", "d/e/a.txt", overwrite=False)
            with self.assertRaises(PermissionError):
                files.write("/etc/forbidden", "x")
            files.remove("x", recursive=True)
            with self.assertRaises(FileNotFoundError):
                files.remove("x")
            files.remove("x", missing_ok=True)

    def test_bytes_and_trees(self):
        home = pathlib.Path(self.directory)
        (home / "tree" / "sub").mkdir(parents=True)
        (home / "tree" / "big").write_bytes(os.urandom(20 << 20))
        (home / "tree" / "sub" / "run.sh").write_text("#!/bin/sh\necho ran\n")
        (home / "tree" / "sub" / "run.sh").chmod(0o755)
        (home / "tree" / "link").symlink_to("sub")
        with self.box() as box:
            box.files.upload(home / "tree" / "big", "big")
            self.assertEqual(box.files.download("big", home / "back"), 20 << 20)
            self.assertEqual((home / "back").read_bytes(), (home / "tree" / "big").read_bytes())
            box.files.upload_tree(home / "tree", "t")
            self.assertEqual(box.run("t/link/run.sh && cmp big t/big && echo same").stdout, "ran\nsame\n")
            box.files.download_tree("t", home / "copy")
            self.assertEqual(subprocess.run(["diff", "-r", home / "tree", home / "copy"], check=False).returncode, 0)
            self.assertEqual(os.readlink(home / "copy" / "link"), "sub")
            box.run("ln -s /etc/passwd t/evil").check()
            with self.assertRaises(sandpool.FileError):
                box.files.download_tree("t", home / "evil")

    def test_watch(self):
        with self.box() as box:
            with box.files.watch() as watch:
                box.files.write("new", "x")
                box.run("mv new newer; rm newer")
                seen = set()
                while ("deleted", "/workspace/newer") not in seen:
                    event = next(watch)
                    seen.add((event.event, event.to or event.path))
                self.assertIn(("moved", "/workspace/newer"), seen)


class Ways(RealCase):
    """Into the box: ports and terminals."""

    def test_ports(self):
        with self.box() as box:
            box.files.write("site/index.html", "from the box")
            server = box.start("cd site && exec python3 -m http.server --bind 127.0.0.1 8000")
            wait_until(lambda: [p for p in box.ports if p.port == 8000], "it listens")
            self.assertEqual(box.ports[8000].request("GET", "/").text, "from the box")
            with box.ports[8000].forward() as forward:
                for _ in range(3):
                    with urllib.request.urlopen(forward.url, timeout=WAIT_S) as answer:
                        self.assertEqual(answer.read(), b"from the box")
            server.kill()
            with self.assertRaises(sandpool.SandpoolError) as caught:
                box.ports[8000].connect()
            self.assertEqual(caught.exception.code, "port_closed")

    def test_a_terminal(self):
        with self.box() as box:
            with box.shell(cols=91, rows=33) as shell:
                shell.send("stty size; exit 6\n")
                read = b"".join(chunk.data for chunk in shell)
                self.assertIn(b"33 91", read)
                self.assertEqual((shell.end.outcome, shell.end.exit_code), ("exited", 6))

    def test_a_terminal_over_a_restart(self):
        with self.box() as box:
            with box.shell("echo begin; read a; echo got-$a; read b; echo got-$b; exit 2") as shell:
                read = b""
                while b"begin" not in read:
                    read += next(shell).data
                shell.send("one\n")
                while b"got-one" not in read:
                    read += next(shell).data
                self.server.kill()
                self.server.start()
                typed = threading.Thread(target=self.type_when_connected, args=(shell,))
                typed.start()
                read += b"".join(chunk.data for chunk in shell)
                typed.join(WAIT_S)
                self.assertEqual([read.count(word) for word in (b"begin", b"got-one", b"got-two")], [1, 1, 1], read)
                self.assertEqual(shell.end.exit_code, 2)

    def type_when_connected(self, shell):
        def is_sent():
            try:
                shell.job.send("two\n")
            except OSError:
                return False
            return True
        wait_until(is_sent, "it is typed")


class Tasks(RealCase):
    """The same with asyncio; the parts are those of the others."""

    def test_all(self):
        async def work():
            async with sandpool.AsyncClient(str(self.server.socket)) as pool:
                async with await pool.acquire("t") as box:
                    results = await asyncio.gather(*(box.run(f"echo {i}; exit {i}") for i in range(10)))
                    self.assertEqual([(r.stdout, r.exit_code) for r in results], [(f"{i}\n", i) for i in range(10)])
                    await box.files.write("a", b"abc")
                    self.assertEqual(await box.files.read_text("a"), "abc")
                    job = await box.start("for i in 1 2 3; do echo $i; done; exit 4")
                    self.assertEqual(b"".join([c.data async for c in job]), b"1\n2\n3\n")
                    self.assertEqual((await job.wait()).exit_code, 4)
                    with self.assertRaises(TimeoutError):
                        await (await box.start("sleep 600")).wait(0.1)
                    async with await box.shell() as shell:
                        await shell.send("exit 5\n")
                        async for _ in shell:
                            pass
                        self.assertEqual(shell.end.exit_code, 5)
        asyncio.run(asyncio.wait_for(work(), WAIT_S * 2))

    def test_the_daemon_is_killed_in_the_middle(self):
        async def work():
            loop = asyncio.get_running_loop()
            async with sandpool.AsyncClient(str(self.server.socket)) as pool:
                async with await pool.acquire("t") as box:
                    seen = []

                    async def note(text):
                        seen.append(text)
                        if text == "line-500":
                            await loop.run_in_executor(None, self.server.kill)
                            await loop.run_in_executor(None, self.server.start)
                    result = await box.run(COUNT, on_stdout=note, timeout_s=None)
                    self.assertEqual((result.outcome, result.exit_code), ("exited", 3))
                    self.assertEqual(seen, [f"line-{i}" for i in range(1, LINES + 1)])
        asyncio.run(asyncio.wait_for(work(), WAIT_S * 2))


if __name__ == "__main__":
    main()
