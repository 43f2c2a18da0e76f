"""Commands, jobs and leases against a daemon of this test: streams that break off anywhere, answers that never come, and
what the caller sees of it. Both kinds of client."""

import asyncio
import json
import threading
import time

from fake_daemon import BASE, BREAK, BOX, FakeCase, error, job, line, output
from testlib import main, wait_until

import sandpool
from sandpool import AsyncClient, Client, events, jobs

OUT, ERR = b"0123456789" * 3, b"abcdefghij"


def both(test):
    """Runs it with each kind of client: `self.run_command(...)` and so on do what the kind does."""
    def run(self):
        for kind in ("threads", "asyncio"):
            with self.subTest(kind):
                self.kind = kind
                self.daemon.requests.clear()
                test(self)
    return run


class BoxCase(FakeCase):
    def with_box(self, threads, tasks, **options):
        options = {"reconnect_s": 20, **options}
        if self.kind == "threads":
            with Client(self.daemon.path, **options) as pool, pool.acquire("t") as box:
                return threads(box)

        async def work():
            async with AsyncClient(self.daemon.path, **options) as pool:
                async with await pool.acquire("t") as box:
                    return await tasks(box)
        return asyncio.run(work())

    def run_command(self, command="x", client=None, **options):
        return self.with_box(lambda box: box.run(command, **options), lambda box: box.run(command, **options),
                             **(client or {}))


class Stream:
    """Answers of a box whose command wrote OUT and ERR; broken off after `cut` bytes of the first answer."""

    def __init__(self, cut=None, pieces=5):
        self.cut, self.pieces, self.tag = cut, pieces, None

    def events(self, out_at, err_at):
        at = out_at
        while at < len(OUT):
            yield output("stdout", at, OUT[at:at + self.pieces])
            at += self.pieces
        if err_at < len(ERR):
            yield output("stderr", err_at, ERR[err_at:])
        yield line("keepalive")
        yield line("end", **job(exit_code=3, stdout_bytes=len(OUT), stderr_bytes=len(ERR)))

    def __call__(self, request, _):
        if request.path == f"{BASE}/exec":
            self.tag = request.json["tag"]
            data = line("start", job="7", pid=12) + b"".join(self.events(0, 0))
            return [data] if self.cut is None or self.cut >= len(data) else [data[:self.cut], BREAK]
        if request.path == f"{BASE}/jobs":
            return {"jobs": [job(number="3"), job("running", tag=self.tag)]}
        if request.path == f"{BASE}/jobs/7/output":
            # From a little before what was asked for: as one that keeps pieces would do.
            return list(self.events(max(int(request.query["offset"]) - 2, 0), int(request.query["stderr_offset"])))
        return 404, error("not_found")


class Run(BoxCase):
    @both
    def test_a_command(self):
        self.daemon.answer = Stream()
        result = self.run_command(["a", "b"], env={"KEY": "secret"}, cwd="/x", stdin=b"\xff", timeout_s=None)
        self.assertEqual((result.outcome, result.exit_code, result.stdout, result.stderr, result.truncated),
                         ("exited", 3, OUT.decode(), ERR.decode(), False))
        self.assertEqual((result.duration, result.spill, result.ok), (0.012, None, False))
        body = self.daemon.asked("POST", f"{BASE}/exec")[0].json
        self.assertEqual((body["argv"], body["env"], body["cwd"], body["stdin_base64"], body["timeout_s"]),
                         (["a", "b"], {"KEY": "secret"}, "/x", "/w==", 0))
        with self.assertRaises(sandpool.CommandFailed) as caught:
            result.check()
        self.assertIs(caught.exception.result, result)
        self.assertIn("abcdefghij", str(caught.exception))

    @both
    def test_broken_off_anywhere(self):
        whole = len(line("start", job="7", pid=12) + b"".join(Stream().events(0, 0)))
        for cut in range(0, whole, 7 if self.kind == "threads" else 23):
            self.daemon.requests.clear()
            self.daemon.answer = Stream(cut)
            seen = []
            result = self.run_command(on_stdout=seen.append)
            self.assertEqual((result.outcome, result.exit_code, result.stdout, result.stderr),
                             ("exited", 3, OUT.decode(), ERR.decode()), cut)
            self.assertEqual("".join(seen), OUT.decode())
            self.assertEqual(len(self.daemon.asked("POST", f"{BASE}/exec")), 1, "it is never started twice")

    @both
    def test_nobody_knows_whether_it_began(self):
        def answer(request, _):
            return [BREAK] if request.path == f"{BASE}/exec" else {"jobs": [job(tag="other")]}
        self.daemon.answer = answer
        result = self.run_command()
        self.assertEqual((result.outcome, result.exit_code), ("transport_lost", None))
        self.assertEqual(len(self.daemon.asked("POST", f"{BASE}/exec")), 1)
        with self.assertRaises(sandpool.CommandFailed):
            result.check()

    @both
    def test_the_box_is_lost_in_the_middle(self):
        self.daemon.answer = lambda request, _: [
            line("start", job="7", pid=1), output("stdout", 0, b"half"),
            line("end", outcome="sandbox_lost", job="7", exit_code=0)]
        result = self.run_command()
        self.assertEqual((result.outcome, result.exit_code, result.stdout), ("sandbox_lost", None, "half"))

    @both
    def test_the_box_is_lost_before(self):
        self.daemon.answer = lambda request, _: (410, error("sandbox_lost"))
        self.assertEqual(self.run_command().outcome, "sandbox_lost")
        self.daemon.answer = lambda request, _: (404, error("not_found"))
        self.daemon.box_answer = (404, error("not_found"))
        self.assertEqual(self.run_command().outcome, "sandbox_lost")

    @both
    def test_the_way_to_the_box_broke(self):
        stream = Stream()

        def answer(request, sock):
            if request.path == f"{BASE}/exec":
                return [line("start", job="7", pid=1), output("stdout", 0, OUT[:9]),
                        line("end", outcome="transport_lost", job="7", exit_code=None)]
            return stream(request, sock)
        self.daemon.answer = answer
        result = self.run_command()
        self.assertEqual((result.exit_code, result.stdout, result.stderr), (3, OUT.decode(), ERR.decode()))

    @both
    def test_a_box_that_never_ends_the_command(self):
        """It says that all is well: its caller does not wait for ever."""
        self.addCleanup(setattr, jobs, "GRACE_S", jobs.GRACE_S)
        jobs.GRACE_S = 0.3

        def alive():
            time.sleep(0.05)
            return line("keepalive")
        self.daemon.answer = lambda request, _: [
            line("start", job="7", pid=1), output("stdout", 0, b"half"), *[alive] * 1000]
        result = self.run_command(timeout_s=0.2)
        self.assertEqual((result.outcome, result.exit_code, result.stdout), ("transport_lost", None, "half"))
        self.assertIn("does not end it", result.message)

    def test_output_that_was_kept_is_read_to_its_end(self):
        """Also when the time of the command is over."""
        budget = jobs.Budget(60)
        self.assertTrue(all(budget.spend(1.0, 1 << 20) for _ in range(512)))  # 512 MiB, at 1 MiB a second
        self.assertTrue(budget.spend(100, 0))
        self.assertFalse(budget.spend(600, 1 << 40))

    @both
    def test_numbers_that_are_none(self):
        for text in (b"1e999", b"-1e999", b"NaN", b"1" + b"0" * 400, b"true"):
            end = line("end", **job(pid=5, duration_ms=6, stdout_bytes=7)).replace(b": 5,", b": " + text + b",").replace(
                b": 6,", b": " + text + b",").replace(b": 7,", b": " + text + b",")
            self.daemon.answer = lambda request, _, end=end: [line("start", job="7", pid=1), end]
            self.assertEqual(self.run_command().outcome, "exited")
            refusal = json.dumps(error("queue_full", retry_after_ms=8)).encode().replace(b": 8", b": " + text)
            self.daemon.answer = lambda request, _, refusal=refusal: (429, refusal)
            with self.assertRaises(sandpool.SandpoolError):
                self.run_command()

    @both
    def test_refused(self):
        self.daemon.answer = lambda request, _: (429, error("too_many_calls"))
        with self.assertRaises(sandpool.SandpoolError) as caught:
            self.run_command()
        self.assertEqual(caught.exception.code, "too_many_calls")

    @both
    def test_the_daemon_stays_away(self):
        def gone():
            self.daemon.stop()
            return b""
        self.daemon.answer = lambda request, _: [line("start", job="7", pid=1), output("stdout", 0, b"half"), gone, BREAK]

        def run(box):
            try:
                return box.run("x")
            finally:
                self.daemon.start()  # so that it can be released

        async def run_async(box):
            try:
                return await box.run("x")
            finally:
                self.daemon.start()
        result = self.with_box(run, run_async, reconnect_s=0.5)
        self.assertEqual((result.outcome, result.exit_code, result.stdout), ("transport_lost", None, "half"))

    @both
    def test_the_daemon_comes_back(self):
        stream = Stream()
        streamed = [line("start", job="7", pid=1), output("stdout", 0, OUT[:9])]

        def restart():
            self.daemon.stop()
            threading.Timer(0.5, self.daemon.start).start()
            return b""
        self.daemon.answer = lambda request, sock: (
            [*streamed, restart, BREAK] if request.path == f"{BASE}/exec" else stream(request, sock))
        self.assertEqual(self.run_command().stdout, OUT.decode())

    @both
    def test_output_that_was_dropped(self):
        self.daemon.answer = lambda request, _: [
            line("start", job="7", pid=1), output("stdout", 0, b"begin"), line("gap", **{"stream": "stdout"}, to=100),
            output("stdout", 100, b"end"), line("end", **job(stdout_bytes=103))]
        result = self.run_command()
        self.assertEqual((result.stdout, result.truncated, result.spill.stdout_bytes), ("beginend", True, 103))

    @both
    def test_long_output_is_cut_in_the_middle(self):
        data = bytes(range(256)) * 4096
        self.daemon.answer = lambda request, _: [
            line("start", job="7", pid=1), *(output("stdout", at, data[at:at + 9999]) for at in range(0, len(data), 9999)),
            line("end", **job(stdout_bytes=len(data)))]
        result = self.run_command(max_output=1000)
        self.assertEqual(result.stdout_raw, data[:500] + data[-500:])
        self.assertEqual((result.truncated, result.spill.job), (True, "7"))
        self.assertEqual(self.run_command().stdout_raw, data)

    @both
    def test_a_callback_that_raises_ends_the_command(self):
        def answer(request, _):
            if request.method == "DELETE":
                return job("killed")
            return [line("start", job="7", pid=1), output("stdout", 0, b"a\n"), lambda: time.sleep(0.1) or b"", BREAK]
        self.daemon.answer = answer
        with self.assertRaises(ZeroDivisionError):
            self.run_command(on_stdout=lambda text: 1 / 0)
        wait_until(lambda: self.daemon.asked("DELETE", f"{BASE}/jobs/7"), "the command is killed")

    def test_a_cancelled_command_is_ended(self):
        started = threading.Event()

        def answer(request, _):
            if request.method == "DELETE":
                return job("killed")
            return [line("start", job="7", pid=1), output("stdout", 0, b"a\n"), lambda: started.wait(30) and b"", BREAK]
        self.daemon.answer = answer

        async def work():
            async with AsyncClient(self.daemon.path) as pool, await pool.acquire("t") as box:
                seen = asyncio.Event()
                task = asyncio.ensure_future(box.run("x", on_stdout=lambda text: seen.set()))
                await seen.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                while not self.daemon.asked("DELETE", f"{BASE}/jobs/7"):
                    await asyncio.sleep(0.01)
        asyncio.run(asyncio.wait_for(work(), 60))
        started.set()

    def test_lines_for_callbacks(self):
        lines = []
        caller = events.LineCaller(lines.append)
        for byte in "one\r\nzw\u00f6lf\n\nend".encode():
            caller.feed(bytes([byte]))
        caller.feed(b"", is_last=True)
        self.assertEqual(lines, ["one", "zw\u00f6lf", "", "end"])
        caller.feed(b"x" * 200000)
        self.assertEqual(sum(map(len, lines[4:])), 3 * 65536)

    def test_coroutines_as_callbacks(self):
        self.kind = "asyncio"
        self.daemon.answer = Stream()
        seen = []

        async def note(text):
            await asyncio.sleep(0)
            seen.append(text)
        self.run_command(on_stdout=note)
        self.assertEqual(seen, [OUT.decode()])


class Jobs(BoxCase):
    @both
    def test_wait_poll_kill(self):
        ends = threading.Event()
        view = {True: job(exit_code=5), False: job("running")}

        def answer(request, _):
            if request.method == "POST" and request.path == f"{BASE}/jobs":
                return job("running")
            if request.path == f"{BASE}/jobs/7/wait":
                ends.wait(request.json["timeout_s"])
            return view[ends.is_set()]
        self.daemon.answer = answer

        def threads(box):
            started = box.start("x", stdin=True, tag="mine")
            self.assertEqual((started.id, started.pid), ("7", 12))
            self.assertIsNone(started.poll())
            for timeout in (0, 0.05):
                with self.assertRaises(TimeoutError):
                    started.wait(timeout)
            threading.Timer(0.1, ends.set).start()
            self.assertEqual(started.wait().exit_code, 5)
            return [started.wait(0), started.poll(), started.kill()]

        async def tasks(box):
            started = await box.start("x", stdin=True, tag="mine")
            self.assertIsNone(await started.poll())
            for timeout in (0, 0.05):
                with self.assertRaises(TimeoutError):
                    await started.wait(timeout)
            ends.set()
            return [await started.wait(), await started.poll(), await started.kill()]
        ends.clear()
        for end in self.with_box(threads, tasks):
            self.assertEqual((end.outcome, end.exit_code), ("exited", 5))
        self.assertEqual(self.daemon.asked("POST", f"{BASE}/jobs")[0].json, {"command": "x", "stdin": True, "tag": "mine"})

    @both
    def test_input_and_signals(self):
        self.daemon.answer = lambda request, _: job("running")

        def threads(box):
            started = box.start("cat", stdin=True)
            started.send("a")
            started.send(b"\xff")
            started.close_stdin()
            started.signal("INT")
            started.resize(10, 20)

        async def tasks(box):
            started = await box.start("cat", stdin=True)
            await started.send("a")
            await started.send(b"\xff")
            await started.close_stdin()
            await started.signal("INT")
            await started.resize(10, 20)
        self.with_box(threads, tasks)
        sent = self.daemon.asked("POST", f"{BASE}/jobs/7/stdin")
        self.assertEqual([(r.raw, r.query) for r in sent], [(b"a", {}), (b"\xff", {}), (b"", {"eof": "1"})])
        self.assertEqual(self.daemon.asked("POST", f"{BASE}/jobs/7/signal")[0].json, {"signal": "INT"})
        self.assertEqual(self.daemon.asked("POST", f"{BASE}/jobs/7/resize")[0].json, {"cols": 10, "rows": 20})

    @both
    def test_input_of_a_job_without_one(self):
        self.daemon.answer = lambda request, _: ((409, error("job_ended")) if request.path.endswith("/stdin") else job("running"))

        def threads(box):
            for has_input in (False, True):
                with self.assertRaises(sandpool.SandpoolError) as caught:
                    box.start("cat", stdin=has_input).send("a")
                self.assertEqual((caught.exception.code, "stdin=True" in str(caught.exception)), ("job_ended", not has_input))

        async def tasks(box):
            for has_input in (False, True):
                started = await box.start("cat", stdin=has_input)
                with self.assertRaises(sandpool.SandpoolError) as caught:
                    await started.send("a")
                self.assertEqual((caught.exception.code, "stdin=True" in str(caught.exception)), ("job_ended", not has_input))
        self.with_box(threads, tasks)

    @both
    def test_live_output(self):
        stream = Stream()
        self.daemon.answer = lambda request, sock: (job("running") if request.method == "POST" or
                                                    request.path == f"{BASE}/jobs/7" else stream(request, sock))

        def threads(box):
            live = iter(box.job("7"))
            return list(live), live.end

        async def tasks(box):
            live = (await box.job("7")).output()
            return [chunk async for chunk in live], live.end
        chunks, end = self.with_box(threads, tasks)
        for name, data in (("stdout", OUT), ("stderr", ERR)):
            self.assertEqual(b"".join(c.data for c in chunks if c.stream == name), data)
        self.assertEqual(end.exit_code, 3)

    @both
    def test_a_lost_box_is_an_outcome(self):
        self.daemon.answer = lambda request, _: (job("running") if request.path == f"{BASE}/jobs"
                                                 else (410, error("sandbox_lost")))

        async def tasks(box):
            return await (await box.start("x")).wait(30)
        end = self.with_box(lambda box: box.start("x").wait(30), tasks)
        self.assertEqual((end.outcome, end.exit_code), ("sandbox_lost", None))

    @both
    def test_no_such_job(self):
        self.daemon.answer = lambda request, _: (404, error("not_found"))
        with self.assertRaises(sandpool.NotFound):
            self.with_box(lambda box: box.job("9"), lambda box: box.job("9"))


class Leases(BoxCase):
    @both
    def test_renewed_while_it_is_held(self):
        self.daemon.renewed = 0
        self.daemon.box = dict(BOX, ends_in_s=0.3)

        def threads(_):
            wait_until(lambda: self.daemon.renewed >= 3, "it is renewed")

        async def tasks(_):
            while self.daemon.renewed < 3:
                await asyncio.sleep(0.01)
        self.with_box(threads, tasks)
        time.sleep(0.1)  # one may have been on its way
        count = self.daemon.renewed
        time.sleep(0.5)
        self.assertEqual(self.daemon.renewed, count, "and not afterwards")

    def test_not_after_it_was_released(self):
        """With a client that goes on."""
        self.daemon.box = dict(BOX, ends_in_s=0.3)
        with Client(self.daemon.path) as pool:
            with pool.acquire("t") as box:
                wait_until(lambda: self.daemon.renewed >= 1, "it is renewed")
            wait_until(lambda: not [t for t in threading.enumerate() if t.name == "sandpool-renew"], "the thread ends", 5)
            self.assertIsNotNone(box)

    def test_one_that_nobody_refers_to_is_not_renewed(self):
        self.daemon.box = dict(BOX, ends_in_s=0.3)
        with Client(self.daemon.path) as pool:
            box = pool.acquire("t")
            wait_until(lambda: self.daemon.renewed >= 1, "it is renewed")
            del box
            wait_until(lambda: not [t for t in threading.enumerate() if t.name == "sandpool-renew"], "the thread ends")

    @both
    def test_what_went_wrong_is_raised_by_the_next_call(self):
        self.daemon.renewed = 0
        self.daemon.box = dict(BOX, ends_in_s=0.3)
        self.daemon.renew_answer = lambda: (409, error("not_leased"))

        def threads(box):
            wait_until(lambda: box._box.held.error is not None, "it is noticed")
            with self.assertRaises(sandpool.SandpoolError) as caught:
                box.files.list()
            self.assertEqual(caught.exception.code, "not_leased")

        async def tasks(box):
            while box.held.error is None:
                await asyncio.sleep(0.01)
            with self.assertRaises(sandpool.SandpoolError) as caught:
                await box.files.list()
            self.assertEqual(caught.exception.code, "not_leased")
        self.with_box(threads, tasks)
        self.assertEqual(self.daemon.renewed, 1)

    @both
    def test_a_daemon_that_is_away_is_asked_again(self):
        self.daemon.renewed = 0
        self.daemon.box = dict(BOX, ends_in_s=0.3)
        self.addCleanup(setattr, sandpool.box, "RENEW_RETRY_S", sandpool.box.RENEW_RETRY_S)
        sandpool.box.RENEW_RETRY_S = 0.1
        answers = [(503, error("starting")), (503, error("store_unavailable"))]
        self.daemon.renew_answer = lambda: answers.pop() if answers else self.daemon.box

        async def tasks(box):
            while self.daemon.renewed < 4:
                await asyncio.sleep(0.01)
            self.assertIsNone(box.held.error)
        self.with_box(lambda box: wait_until(lambda: self.daemon.renewed >= 4, "asked again"), tasks)


if __name__ == "__main__":
    main()
