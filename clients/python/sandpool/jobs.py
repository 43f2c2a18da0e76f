"""Commands in a box: output that goes on where it broke off, and jobs."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Coroutine, List, Optional, Union

from . import calls, events
from .errors import (
    ConnectionFailed, DeadlineExceeded, NotFound, SandboxLost, SandpoolError, TransportLost)
from .link import Bytes, Incoming, Link, Retry, is_passing
from .results import RUNNING, SANDBOX_LOST, TRANSPORT_LOST, Chunk, Ended, JobView
from .transport import Stream
from .types import JSON

WAIT_SLICE_S = 20.0  # of a wait: then the daemon is asked again, so that a dead one is noticed
KILL_S = 30.0
GRACE_S = 60.0  # for the end of a command, beyond its time
RATE_MIN = 512 * 1024  # bytes a second at which output that was kept is read after that
READ_S = 1024.0  # which takes no longer: a box keeps 256 MiB of each stream

Finder = Callable[[], Coroutine[Any, Any, Optional[str]]]


class Held:
    """A box as far as its parts need it."""

    def __init__(self, link: Link, box_id: str) -> None:
        self.link = link
        self.box_id = box_id
        self.error: Optional[SandpoolError] = None  # of the lease: raised by the next call

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def path(self, *parts: str, **query: object) -> str:
        return calls.box_path(self.box_id, *parts, **query)

    async def call(self, call: "calls.Call[calls.T]") -> "calls.T":
        """A call about the box. When there is no such box, it was lost."""
        self.check()
        return await self.explained(
            self.link.persist(call) if call.is_safe else self.link.call(call))

    async def open(self, method: str, where: str, **options: Any) -> Incoming:
        """The same for answers that stream."""
        self.check()
        return await self.explained(self.link.open(method, where, **options))

    async def explained(self, work: "Coroutine[Any, Any, calls.T]") -> "calls.T":
        try:
            return await work
        except NotFound as error:
            await self.explain(error)
            raise

    async def explain(self, error: SandpoolError) -> None:
        """Raises SandboxLost if it is the box that was not found; a job may not be, either."""
        try:
            found = await self.link.persist(calls.get(f"box:{self.box_id}", False))
        except (NotFound, SandboxLost):
            raise SandboxLost(SANDBOX_LOST, "the sandbox died or was removed", error.status) from error
        if found.state == "deleting":
            raise SandboxLost(SANDBOX_LOST, "the sandbox is being removed", error.status) from error


class Budget:
    """How long we wait for a command that its box ends by itself when its time is over. A box that does not, and says
    that all is well, keeps nobody waiting. Only waiting counts: not what the reader does with the output."""

    def __init__(self, timeout_s: float) -> None:
        self._left_s = timeout_s + GRACE_S
        self._bonus_s = READ_S

    def spend(self, seconds: float, count: int) -> bool:
        """False: it is used up. `count` bytes have come in these seconds."""
        bonus = min(count / RATE_MIN, self._bonus_s)
        self._bonus_s -= bonus
        self._left_s += bonus - seconds
        return self._left_s > 0


class Output(Stream[Chunk]):
    """The output of a job as it is produced. When the connection breaks it is continued from
    where it was; `end` is then how the job ended, or that nobody knows."""

    def __init__(self, held: Held, follow: events.Follow, *, exec_body: Optional[JSON] = None,
                 find: Optional[Finder] = None, budget: Optional[Budget] = None) -> None:
        """With `exec_body` the command is yet to be started; `find` finds its job when it is not
        known whether it was."""
        self._budget = budget
        self._held = held
        self._follow = follow
        self._exec_body = exec_body
        self._find = find
        self._retry = Retry(held.link)
        self._lines = events.Lines()
        self._incoming: Optional[Incoming] = None
        self._ready: List[Chunk] = []
        self.end: Optional[Ended] = None

    @property
    def job(self) -> Optional[str]:
        return self._follow.job

    async def next(self) -> Optional[Chunk]:
        while not self._ready:
            if self.end is not None:
                await self.close()
                return None
            began = self._held.link.io.now()
            try:
                if self._incoming is None:
                    await self._open()
                await self._read()
            except SandboxLost as error:
                self._lose(SANDBOX_LOST, error)
            except NotFound as error:
                await self._missing(error)
            except SandpoolError as error:
                await self._broken(error)
            self._spend(began)
        return self._ready.pop(0)

    def _spend(self, began: float) -> None:
        """Since this moment we have waited."""
        spent = self._held.link.io.now() - began
        if self.end is None and self._budget is not None and not self._budget.spend(
                spent, sum(len(chunk.data) for chunk in self._ready)):
            self._lose(TRANSPORT_LOST, DeadlineExceeded(
                "timeout", "the time of the command is over, and the sandbox does not end it"))

    async def close(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.close()

    async def _open(self) -> None:
        held, at = self._held, self._follow.at
        headers = {"Accept": events.NDJSON}
        self._lines = events.Lines()
        if self._exec_body is None:
            assert self.job is not None
            self._incoming = await held.link.open("GET", held.path(
                "jobs", self.job, "output", stream="both", follow=1, offset=at["stdout"],
                stderr_offset=at["stderr"]), headers=headers)
            return
        held.check()
        body, self._exec_body = self._exec_body, None
        self._incoming = await held.link.open("POST", held.path("exec"), body=body, headers=headers)

    async def _read(self) -> None:
        assert self._incoming is not None
        data = await self._incoming.read()
        if not data:
            raise ConnectionFailed("connect_failed", "the output broke off")
        for event in self._lines.feed(data):
            self._retry.progress()
            chunk = self._follow.feed(event)
            if chunk is not None:
                self._ready.append(chunk)
        if self._follow.end is not None:
            self._take_end(self._follow.end)

    def _take_end(self, end: JobView) -> None:
        self._follow.end = None
        if end.outcome == TRANSPORT_LOST:  # of the daemon: the box is still there
            raise TransportLost(TRANSPORT_LOST, end.message or "the connection to the box broke")
        self.end = dataclasses.replace(end, job=end.job or self.job)

    async def _broken(self, error: SandpoolError) -> None:
        await self.close()
        if self.job is None:
            await self._unknown(error)
        elif not is_passing(error) or not await self._retry.pause():
            self._lose(TRANSPORT_LOST, error)

    async def _unknown(self, error: SandpoolError) -> None:
        """No answer to the start of a command: refused, not sent, or under way."""
        is_doubtful = isinstance(error, (ConnectionFailed, DeadlineExceeded, TransportLost)) or (
            error.code == "protocol")
        if not is_doubtful or (isinstance(error, ConnectionFailed) and error.is_unsent):
            raise error
        if self._find is not None:
            try:
                self._follow.job = await self._find()
            except SandboxLost as lost:
                self._lose(SANDBOX_LOST, lost)
                return
            except SandpoolError:
                pass
        if self.job is None:
            self._lose(TRANSPORT_LOST, error)

    async def _missing(self, error: NotFound) -> None:
        try:
            await self._held.explain(error)
        except SandboxLost as lost:
            self._lose(SANDBOX_LOST, lost)
        except SandpoolError as other:
            self._lose(TRANSPORT_LOST, other)
        else:
            self._lose(TRANSPORT_LOST, error)

    def _lose(self, outcome: str, error: SandpoolError) -> None:
        self.end = Ended(outcome, job=self.job, message=error.message)


class AsyncJob:
    """A program that runs in the box, whoever is connected. `view` is what was last seen of it."""

    def __init__(self, held: Held, view: JobView, *, has_input: Optional[bool] = None) -> None:
        self._held = held
        self._has_input = has_input  # None: not known
        self.view = view
        self.id = view.job or ""

    def __repr__(self) -> str:
        return f"<AsyncJob {self.id}, last seen {self.view.outcome}>"

    @property
    def pid(self) -> int:
        """In the box."""
        return self.view.pid

    async def poll(self) -> Optional[JobView]:
        """How it ended; None while it runs."""
        view = await self._ask("GET")
        return None if view.is_running else view

    async def wait(self, timeout: Optional[float] = None) -> JobView:
        """How it ended. TimeoutError when it still runs after `timeout` seconds; 0 only looks."""
        io = self._held.link.io
        end = None if timeout is None else io.now() + timeout
        while True:
            left = WAIT_SLICE_S if end is None else max(min(end - io.now(), WAIT_SLICE_S), 0.0)
            view = await self._ask("POST", "wait", body={"timeout_s": round(left, 3)},
                                   timeout_s=left + self._held.link.timeout_s)
            if not view.is_running:
                return view
            if end is not None and io.now() >= end:
                raise DeadlineExceeded("timeout", f"job {self.id} still runs")

    async def kill(self) -> JobView:
        """Ends it with all it started: TERM, KILL after 2 s. Returns when it is dead; it may be
        dead already."""
        return await self._ask("DELETE", timeout_s=KILL_S)

    async def signal(self, name: str) -> None:
        """To its group: "INT", "TERM", "HUP", ..."""
        await self._post("signal", {"signal": name})

    async def resize(self, cols: int, rows: int) -> None:
        """Of its terminal."""
        await self._post("resize", {"cols": cols, "rows": rows})

    async def send(self, data: Union[str, bytes], *, eof: bool = False) -> None:
        """Input, for one that was started with `stdin=True` or a terminal."""
        raw = data.encode() if isinstance(data, str) else data
        try:
            incoming = await self._held.open(
                "POST", self._held.path("jobs", self.id, "stdin", eof=1 if eof else None),
                data=Bytes(raw), headers={"Content-Type": "application/octet-stream"})
            await incoming.read_all(65536)
        except SandpoolError as error:
            if error.code != "job_ended" or self._has_input is not False:
                raise
            raise SandpoolError(error.code, f"job {self.id} was started without input: "
                                "box.start(..., stdin=True) gives it one", error.status) from error

    async def close_stdin(self) -> None:
        await self.send(b"", eof=True)

    def output(self, offset: int = 0, stderr_offset: int = 0) -> Output:
        """Both streams from these offsets, live until the job ends. Afterwards `end` of the
        iterator says how."""
        follow = events.Follow(offset, stderr_offset)
        follow.job = self.id
        return Output(self._held, follow)

    def __aiter__(self) -> Output:
        return self.output()

    async def _post(self, what: str, body: JSON) -> None:
        await self._held.call(calls.plain("POST", self._held.path("jobs", self.id, what), body))

    async def _ask(self, method: str, *parts: str, body: Optional[JSON] = None,
                   timeout_s: Optional[float] = None) -> JobView:
        """A box that is lost, or cannot be reached for long, is an outcome."""
        try:
            self.view = await self._held.call(calls.job(
                method, self._held.box_id, self.id, *parts, body=body, timeout_s=timeout_s))
        except SandboxLost as error:
            self.view = self._lost(SANDBOX_LOST, error)
        except SandpoolError as error:
            if not is_passing(error):
                raise
            return self._lost(TRANSPORT_LOST, error)
        return self.view

    def _lost(self, outcome: str, error: SandpoolError) -> JobView:
        if self.view.outcome != RUNNING:
            return self.view  # it ended before that
        return dataclasses.replace(self.view, outcome=outcome, exit_code=None, message=error.message)
