"""A box that is ours: commands and jobs, files, ports, terminals, and the lease that renews itself."""

from __future__ import annotations

import base64
import inspect
import threading
import uuid
import weakref
from types import TracebackType
from typing import Any, Awaitable, Callable, Dict, List, Mapping, Optional, Sequence, Type, Union

from . import calls, events
from .errors import NotFound, SandboxLost, SandpoolError
from .files import AsyncFiles
from .jobs import AsyncJob, Budget, Held, Output
from .link import Link, is_passing
from .ports import AsyncPorts
from .results import SANDBOX_LOST, Ended, JobView, Result, Spill
from .shell import SHELL, AsyncShell
from .transport import Ticker
from .types import JSON, Report, Sandbox, Snapshot

TIMEOUT_S = 60.0
OUTPUT_MAX = 1024 * 1024
RENEW_MAX_S = 300.0
RENEW_MIN_S = 0.2
RENEW_RETRY_S = 1.0
RENEW_CALL_S = 10.0

Command = Union[str, Sequence[str]]
Callback = Callable[[str], Union[None, Awaitable[None], Any]]


class Renewer:
    """Renews the leases of one client, each long before it ends: one thread or task for all. A box
    that nobody refers to any more is not renewed."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._ticker: Optional[Ticker] = None
        self._due: "weakref.WeakKeyDictionary[AsyncBox, float]" = weakref.WeakKeyDictionary()

    def add(self, box: "AsyncBox") -> None:
        with self._lock:
            self._due[box] = self._link.io.now() + _pause(box.sandbox)
            if self._ticker is None:
                self._ticker = self._link.io.ticker(self._step)
        self._ticker.wake()

    def remove(self, box: "AsyncBox") -> None:
        with self._lock:
            self._due.pop(box, None)

    def stop(self) -> None:
        if self._ticker is not None:
            self._ticker.stop()

    async def _step(self) -> Optional[float]:
        now = self._link.io.now()
        with self._lock:
            due = [box for box, moment in self._due.items() if moment <= now]
        while due:
            await self._renew(due.pop())
        now = self._link.io.now()
        with self._lock:
            left = [moment - now for moment in self._due.values()]
        return max(min(left), 0.0) if left else None

    async def _renew(self, box: "AsyncBox") -> None:
        """What cannot be renewed any more is reported by the next call of its holder."""
        pause = RENEW_RETRY_S
        lost: Optional[SandpoolError] = None
        try:
            pause = _pause(await self._link.call(calls.renew(
                box.sandbox_id, box.sandbox.generation, box.ttl_s, RENEW_CALL_S)))
        except SandpoolError as error:
            if not is_passing(error) and not error.is_retryable:
                lost = error
        with self._lock:
            if box not in self._due:
                return  # released meanwhile
            if lost is None:
                self._due[box] = self._link.io.now() + pause
            else:
                del self._due[box]
                box.held.error = lost


def _pause(sandbox: Sandbox) -> float:
    """A third of what is left, so that two more attempts are possible."""
    left = sandbox.ends_in_s
    return RENEW_MAX_S if left is None else min(max(left / 3, RENEW_MIN_S), RENEW_MAX_S)


class AsyncBox:
    """A box of one thread. As an asynchronous context manager it is released at the end."""

    def __init__(self, link: Link, renewer: Renewer, sandbox: Sandbox, *,
                 ttl_s: Optional[int] = None, auto_renew: bool = True) -> None:
        self.sandbox = sandbox
        self.ttl_s = ttl_s
        self.held = Held(link, sandbox.box_id)
        self.files = AsyncFiles(self.held)
        self.ports = AsyncPorts(self.held)
        self._link = link
        self._renewer = renewer
        if auto_renew:
            renewer.add(self)

    def __repr__(self) -> str:
        of = f" of {self.sandbox.user_id}/{self.sandbox.thread_id}" if self.sandbox.thread_id else ""
        return f"<AsyncBox {self.sandbox_id}{of}>"

    async def __aenter__(self) -> "AsyncBox":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]],
                        error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            await self.release()
        except (NotFound, SandboxLost):
            pass  # there is nothing left to release; whoever used it was notified

    @property
    def sandbox_id(self) -> str:
        return self.sandbox.sandbox_id or ""

    @property
    def sandbox_url(self) -> str:
        return self.sandbox.sandbox_url or ""

    @property
    def headers(self) -> Dict[str, str]:
        """What a request to `sandbox_url` must carry."""
        return self.sandbox.headers

    # --- the lease ---

    async def release(self, *, destroy: bool = False) -> Optional[Report]:
        """Gives it back: kept for its thread, or destroyed, which returns when it is gone."""
        await self._let_go()
        call = calls.release(self.sandbox_id, self.sandbox.generation, destroy)
        return (await self._link.persist(call)).report

    async def destroy(self) -> Optional[Report]:
        """Returns when it is gone, with what was released; None: it was gone already."""
        await self._let_go()
        try:
            return (await self._link.call(calls.destroy(f"box:{self.sandbox.box_id}", None, False))).report
        except (NotFound, SandboxLost):
            return None

    async def _let_go(self) -> None:
        self._renewer.remove(self)
        await self.ports.close()

    async def renew(self, ttl_s: Optional[int] = None) -> Sandbox:
        """Pushes the end of the lease to `ttl_s` from now. Done by itself while it is held."""
        self.held.check()
        return await self._link.call(calls.renew(self.sandbox_id, self.sandbox.generation, ttl_s))

    async def pause(self) -> Sandbox:
        """Its processes stand still and use no CPU, until resume() or the next call that needs it. The lease goes on."""
        return await self.held.call(calls.stand_still(
            self.sandbox.box_id, self.sandbox.generation, True))

    async def resume(self) -> Sandbox:
        """Lets it go on."""
        return await self.held.call(calls.stand_still(
            self.sandbox.box_id, self.sandbox.generation, False))

    async def snapshot(self, name: Optional[str] = None, *,
                       metadata: Optional[Mapping[str, Any]] = None) -> Snapshot:
        """Keeps its files as they are now. It stands still for a moment and goes on."""
        return await self.held.call(calls.take_snapshot(self.sandbox.box_id, name, metadata))

    async def fork(self, count: Optional[int] = None, *, threads: Optional[Sequence[str]] = None,
                   user_id: Optional[str] = None, wait_s: Optional[float] = None,
                   ttl_s: Optional[int] = None, idle_timeout_s: Optional[int] = None,
                   envs: Optional[Mapping[str, str]] = None,
                   metadata: Optional[Mapping[str, Any]] = None,
                   auto_renew: bool = True) -> "List[AsyncBox]":
        """`count` new boxes with the files of this one, or one for each of `threads`. All or none:
        when one cannot be made, the others are destroyed and its error is raised."""
        results = await self.held.call(calls.fork(
            self.sandbox.box_id, count, threads, user_id=user_id, wait_s=wait_s, ttl_s=ttl_s,
            idle_timeout_s=idle_timeout_s, envs=envs, metadata=metadata))
        failed = [one for one in results if isinstance(one, SandpoolError)]
        made = [AsyncBox(self._link, self._renewer, one, ttl_s=ttl_s,
                         auto_renew=auto_renew and not failed)
                for one in results if isinstance(one, Sandbox)]
        if not failed:
            return made
        for box in made:
            await box.destroy()
        raise failed[0]

    # --- commands ---

    async def run(self, command: Command, *, cwd: Optional[str] = None,
                  env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
                  stdin: Union[str, bytes, None] = None, timeout_s: Optional[float] = TIMEOUT_S,
                  max_output: int = OUTPUT_MAX, on_stdout: Optional[Callback] = None,
                  on_stderr: Optional[Callback] = None, tag: Optional[str] = None) -> Result:
        """Runs a command to its end. See Box.run()."""
        name = tag or f"run-{uuid.uuid4().hex}"
        body = calls.command_body(
            command, cwd=cwd, env=dict(env) if env else None, user=user, tag=name, stream=True,
            timeout_s=timeout_s or 0, **_input(stdin))
        output = Output(self.held, events.Follow(), exec_body=body,
                        find=None if tag else lambda: self._find(name),
                        budget=Budget(timeout_s) if timeout_s else None)
        captures = {name: events.Capture(max_output) for name in events.STREAMS}
        lines = {name: events.LineCaller(callback) for name, callback in
                 (("stdout", on_stdout), ("stderr", on_stderr)) if callback is not None}
        skipped = 0
        try:
            async for chunk in output:
                captures[chunk.stream].add(chunk.data)
                skipped += chunk.skipped
                if chunk.stream in lines:
                    await _each(lines[chunk.stream].feed(chunk.data))
            for caller in lines.values():
                await _each(caller.feed(b"", is_last=True))
        except BaseException:
            await output.close()
            if output.job is not None and output.end is None:
                self._link.io.finish(self._kill(output.job))  # nobody else knows of it
            raise
        assert output.end is not None
        return _result(output.end, captures, skipped)

    async def start(self, command: Command, *, cwd: Optional[str] = None,
                    env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
                    stdin: bool = False, timeout_s: Optional[float] = None,
                    pty: Optional[Mapping[str, int]] = None, tag: Optional[str] = None) -> AsyncJob:
        """Starts a job and returns at once. See Box.start()."""
        body = calls.command_body(
            command, cwd=cwd, env=dict(env) if env else None, user=user, tag=tag,
            stdin=stdin or None, timeout_s=timeout_s, pty=dict(pty) if pty else None)
        return AsyncJob(self.held, await self.held.call(calls.job(
            "POST", self.sandbox.box_id, body=body, is_safe=False)), has_input=stdin or bool(pty))

    async def job(self, job_id: str) -> AsyncJob:
        """One that runs already, or has ended."""
        return AsyncJob(self.held, await self.held.call(calls.job(
            "GET", self.sandbox.box_id, job_id)))

    async def jobs(self) -> List[AsyncJob]:
        return [AsyncJob(self.held, view)
                for view in await self.held.call(calls.jobs(self.sandbox.box_id))]

    async def shell(self, command: Command = SHELL, *, cols: int = 80, rows: int = 24,
                    cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
                    user: Optional[str] = None) -> AsyncShell:
        """A terminal in the box. See Box.shell()."""
        job = await self.start(command, cwd=cwd, env={"TERM": "xterm-256color", **(env or {})},
                               user=user, pty={"cols": cols, "rows": rows})
        shell = AsyncShell(self.held, job)
        await shell.open()
        return shell

    async def attach(self, job_id: str, *, offset: int = 0, stderr_offset: int = 0) -> AsyncShell:
        """Output, input and signals of a job on one connection. Closing it leaves the job alone."""
        shell = AsyncShell(self.held, await self.job(job_id), offset=offset,
                           stderr_offset=stderr_offset, kill=False)
        await shell.open()
        return shell

    async def _find(self, tag: str) -> Optional[str]:
        """The job of a command whose start was not answered."""
        found = [view.job for view in await self.held.call(calls.jobs(self.sandbox.box_id))
                 if view.tag == tag]
        return found[0] if found else None

    async def _kill(self, job: str) -> JobView:
        return await self._link.call(calls.job(
            "DELETE", self.sandbox.box_id, job, timeout_s=RENEW_CALL_S))


def _input(stdin: Union[str, bytes, None]) -> JSON:
    if stdin is None or isinstance(stdin, str):
        return {"stdin": stdin}
    return {"stdin_base64": base64.b64encode(stdin).decode()}


async def _each(values: List[Any]) -> None:
    for value in values:
        if inspect.isawaitable(value):
            await value


def _result(end: Ended, captures: Mapping[str, events.Capture], skipped: int) -> Result:
    truncated = skipped > 0 or any(capture.is_truncated for capture in captures.values())
    spill = None
    if truncated and end.job is not None and end.outcome != SANDBOX_LOST:
        view = end if isinstance(end, JobView) else None
        spill = Spill(end.job, view.stdout_bytes if view else 0, view.stderr_bytes if view else 0)
    return Result(end.outcome, end.exit_code, end.signal, end.duration, end.job, end.message,
                  captures["stdout"].value(), captures["stderr"].value(), truncated, spill)
