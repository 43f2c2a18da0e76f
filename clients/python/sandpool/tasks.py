"""Connections for asyncio. A call that is cancelled closes its connection at once, so that the
daemon takes back what it was about to give."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Callable, Coroutine, Optional, Set, TypeVar, cast

from .errors import ConnectionFailed
from .transport import SOON_MAX, Conn, Io, Late, Step, Ticker
from .wire import Address, tls_context

T = TypeVar("T")
BUFFER_MAX = 512 * 1024  # then the other side has to wait


class _Protocol(asyncio.Protocol):
    """Bytes that came, and somebody who waits for them or for space to send."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: Optional[asyncio.Transport] = None
        self.data = bytearray()
        self.is_over = False
        self.error: Optional[Exception] = None
        self._is_full = False  # of what is to be sent
        self._is_paused = False  # reading
        self._reader: Optional["asyncio.Future[None]"] = None
        self._writers: Set["asyncio.Future[None]"] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data
        if len(self.data) >= BUFFER_MAX and self.transport is not None and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()
        self._wake_reader()

    def eof_received(self) -> bool:
        self.is_over = True
        self._wake_reader()
        # What is half closed can still send; TLS cannot.
        return self.transport is not None and self.transport.get_extra_info("ssl_object") is None

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.is_over = True
        self.error = error or ConnectionResetError("closed")
        self._wake_reader()
        self._wake_writers()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake_writers()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _wake_writers(self) -> None:
        for waiter in self._writers:
            if not waiter.done():
                waiter.set_result(None)

    async def take(self, deadline: Optional[float]) -> bytes:
        while not self.data:
            if self.is_over:
                if self.error is not None and not isinstance(self.error, ConnectionResetError):
                    raise OSError(str(self.error)) from self.error
                return b""
            self._reader = self.loop.create_future()
            try:
                await self._until(self._reader, deadline)
            finally:
                self._reader = None
        data = bytes(self.data)
        self.data.clear()
        if self._is_paused and self.transport is not None:
            self._is_paused = False
            self.transport.resume_reading()
        return data

    async def drain(self, deadline: Optional[float]) -> None:
        while self._is_full and self.error is None:
            waiter = self.loop.create_future()
            self._writers.add(waiter)
            try:
                await self._until(waiter, deadline)
            finally:
                self._writers.discard(waiter)
        if self.error is not None:
            raise ConnectionResetError(str(self.error))

    async def _until(self, waiter: "asyncio.Future[None]", deadline: Optional[float]) -> None:
        if deadline is None:
            return await waiter
        timer = self.loop.call_at(deadline, _expire, waiter)
        try:
            await waiter
        finally:
            timer.cancel()


def _expire(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_exception(Late())


class TaskConn(Conn):
    def __init__(self, protocol: _Protocol) -> None:
        self._protocol = protocol
        assert protocol.transport is not None
        self._transport = protocol.transport

    async def send(self, data: bytes, deadline: Optional[float]) -> None:
        if self._protocol.error is not None:
            raise ConnectionResetError(str(self._protocol.error))
        self._transport.write(data)
        await self._protocol.drain(deadline)

    def send_soon(self, data: bytes) -> None:
        if self._transport.get_write_buffer_size() < SOON_MAX:
            self._transport.write(data)

    async def recv(self, deadline: Optional[float]) -> bytes:
        return await self._protocol.take(deadline)

    async def has_input(self) -> bool:
        # Three turns of the loop: it looks at the socket, calls the protocol, and comes back here.
        for _ in range(3):
            await asyncio.sleep(0)
        return bool(self._protocol.data) or self._protocol.is_over

    def shut(self) -> None:
        if self._transport.can_write_eof() and self._protocol.error is None:
            self._transport.write_eof()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class TaskIo(Io):
    def __init__(self) -> None:
        self._tasks: Set["asyncio.Future[Any]"] = set()

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def connect(self, address: Address, deadline: Optional[float]) -> Conn:
        loop = asyncio.get_running_loop()
        work: Coroutine[Any, Any, Any]
        if address.unix_path is not None:
            work = loop.create_unix_connection(_Protocol, address.unix_path)
        else:
            work = loop.create_connection(_Protocol, address.host, address.port, ssl=tls_context(address))
        try:
            left = None if deadline is None else max(deadline - loop.time(), 0.001)
            _, protocol = await asyncio.wait_for(work, left)
        except asyncio.TimeoutError:
            raise Late from None
        except OSError as error:
            failed = ConnectionFailed("connect_failed", f"no daemon at {address}: {error}")
            failed.is_unsent = True
            raise failed from error
        return TaskConn(protocol)

    async def run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, function)

    def ticker(self, step: Step) -> Ticker:
        return _Task(step)

    def finish(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._tasks.add(task)  # the loop alone would not keep it
        task.add_done_callback(self._tasks.discard)


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    with contextlib.suppress(Exception):
        await work


class _Task(Ticker):
    """A task that lives as long as there is something to do."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._task: Optional["asyncio.Task[None]"] = None
        self._wake = asyncio.Event()

    def wake(self) -> None:
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            pause = await self._step()
            if pause is None and not self._wake.is_set():
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)
