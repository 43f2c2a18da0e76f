"""A terminal in a box over one WebSocket: output, input, size and signals."""

from __future__ import annotations

import json
from types import TracebackType
from typing import List, Optional, Type, Union

from . import events, websocket
from .errors import BrokenOff, ConnectionFailed, NotFound, SandboxLost, SandpoolError
from .jobs import AsyncJob, Held
from .link import Retry, Upgraded, is_passing
from .results import SANDBOX_LOST, TRANSPORT_LOST, Chunk, Ended, JobView
from .transport import Late, Stream
from .types import JSON

# The user's login shell is not known here: bash where it is, else what every box has.
SHELL = "command -v bash >/dev/null && exec bash -l; exec sh -l"
SILENCE_S = 60.0  # the box pings every 15 s
INPUT_MAX = 32 * 1024  # in a message
STREAMS = {1: "stdout", 2: "stderr"}


class AsyncShell(Stream[Chunk]):
    """Attached to a job. Iterate over its output; `end` is how it ended. A connection that breaks
    is made again and continued; input that was on its way then may be lost."""

    def __init__(self, held: Held, job: AsyncJob, *, offset: int = 0, stderr_offset: int = 0,
                 kill: bool = True) -> None:
        self._held = held
        self._kill = kill
        self._follow = events.Follow(offset, stderr_offset)
        self._retry = Retry(held.link)
        self._decoder = websocket.Decoder()
        self._upgraded: Optional[Upgraded] = None
        self._ready: List[Chunk] = []
        self._is_closed = False
        self.job = job
        self.end: Optional[Ended] = None

    async def open(self) -> None:
        self._held.check()
        handshake = websocket.Handshake()
        at = self._follow.at
        upgraded = await self._held.link.upgrade(
            self._held.path("jobs", self.job.id, "attach", offset=at["stdout"],
                            stderr_offset=at["stderr"]), handshake.headers())
        handshake.check(upgraded.headers)
        self._decoder = websocket.Decoder()
        self._upgraded = upgraded

    # --- output ---

    async def next(self) -> Optional[Chunk]:
        while not self._ready:
            if self.end is not None or self._is_closed:
                self._drop()
                return None
            try:
                if self._upgraded is None:
                    await self.open()
                await self._read()
            except (OSError, Late) as error:
                if not isinstance(error, SandpoolError):
                    error = ConnectionFailed("connect_failed", f"the terminal broke off: {error}")
                await self._broken(error)
            except SandpoolError as error:
                await self._broken(error)
        return self._ready.pop(0)

    async def _read(self) -> None:
        upgraded = self._upgraded
        assert upgraded is not None
        data = await upgraded.recv(self._held.link.io.now() + SILENCE_S)
        if not data:
            raise BrokenOff("protocol", "the terminal broke off")
        for opcode, payload in self._decoder.feed(data):
            self._retry.progress()
            if opcode == websocket.BINARY and payload[:1] and payload[0] in STREAMS:
                self._ready.append(self._follow.bytes(STREAMS[payload[0]], payload[1:]))
            elif opcode == websocket.TEXT:
                self._take(events.parse(payload))
            elif opcode == websocket.PING:
                upgraded.conn.send_soon(websocket.encode(websocket.PONG, payload))
            elif opcode == websocket.CLOSE and self.end is None:
                upgraded.conn.send_soon(websocket.encode(websocket.CLOSE, payload[:2]))
                raise BrokenOff("protocol", "the terminal was closed by the box")

    def _take(self, event: JSON) -> None:
        self._follow.feed(event)
        end, self._follow.end = self._follow.end, None
        if end is not None and end.outcome == TRANSPORT_LOST:
            raise BrokenOff("protocol", "the connection to the box broke")
        if end is not None:
            self.end = end

    async def _broken(self, error: SandpoolError) -> None:
        self._drop()
        if self._is_closed:
            return
        if isinstance(error, NotFound):
            try:
                await self._held.explain(error)
            except SandpoolError as other:
                error = other
        if isinstance(error, SandboxLost):
            self.end = Ended(SANDBOX_LOST, job=self.job.id, message=error.message)
        elif not is_passing(error) or not await self._retry.pause():
            self.end = Ended(TRANSPORT_LOST, job=self.job.id, message=error.message)

    # --- input ---

    async def send(self, data: Union[str, bytes]) -> None:
        raw = data.encode() if isinstance(data, str) else data
        for at in range(0, len(raw), INPUT_MAX):
            await self._send(websocket.encode(websocket.BINARY, b"\0" + raw[at:at + INPUT_MAX]))

    async def close_stdin(self) -> None:
        await self._command({"eof": True})

    async def signal(self, name: str) -> None:
        await self._command({"signal": name})

    async def resize(self, cols: int, rows: int) -> None:
        await self._command({"resize": {"cols": cols, "rows": rows}})

    async def _command(self, command: JSON) -> None:
        await self._send(websocket.encode(websocket.TEXT, json.dumps(command).encode()))

    async def _send(self, frame: bytes) -> None:
        upgraded = self._upgraded
        if upgraded is None:
            raise ConnectionFailed("connect_failed", "the terminal is not connected")
        try:
            await upgraded.conn.send(frame, None)
        except OSError as error:
            raise ConnectionFailed("connect_failed", f"the terminal broke off: {error}") from error

    # --- the end ---

    async def wait(self, timeout: Optional[float] = None) -> JobView:
        """As AsyncJob.wait(); does not read the output."""
        return await self.job.wait(timeout)

    async def close(self, *, kill: Optional[bool] = None) -> None:
        """Ends the terminal and, unless `kill` is False, what runs in it."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._upgraded is not None:
            try:
                self._upgraded.conn.send_soon(websocket.encode_close())
            except OSError:
                pass
        self._drop()
        if self.end is None and (self._kill if kill is None else kill):
            await self.job.kill()

    def _drop(self) -> None:
        upgraded, self._upgraded = self._upgraded, None
        if upgraded is not None:
            upgraded.conn.close()

    async def __aenter__(self) -> "AsyncShell":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]],
                        error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()
