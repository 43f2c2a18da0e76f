"""What the package needs from the system: connections, time, threads or tasks.

All that is more than that is written once, as coroutines over this interface. `sandpool.blocking`
implements it with sockets that block: its coroutines never suspend, so that `drive()` runs them to
their end in one step. `sandpool.tasks` implements it with asyncio.
"""

from __future__ import annotations

from typing import (
    Any, AsyncIterator, Callable, Coroutine, Generic, Iterator, Optional, Type, TypeVar)
from types import TracebackType

from .wire import Address

T = TypeVar("T")
SOON_MAX = 64 * 1024  # of what send_soon() has not sent yet


class Late(Exception):
    """The deadline of one step has passed."""


class Conn:
    """One connection. A deadline is a moment of Io.now(); None: there is none."""

    async def send(self, data: bytes, deadline: Optional[float]) -> None:
        raise NotImplementedError

    def send_soon(self, data: bytes) -> None:
        """A few bytes, without waiting: now, or with what is sent next. Dropped when much has not been sent: whoever
        asks for answers and reads none does not fill our memory."""
        raise NotImplementedError

    async def recv(self, deadline: Optional[float]) -> bytes:
        """b"" is the end."""
        raise NotImplementedError

    async def has_input(self) -> bool:
        """Whether something has come already: bytes, or the end."""
        raise NotImplementedError

    def shut(self) -> None:
        """Nothing more will be sent."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        """Closed now, without sending what is left."""
        raise NotImplementedError


class Ticker:
    """Calls a step again and again, each time after the seconds that the last one returned. It
    ends when that is None."""

    def wake(self) -> None:
        """The next step is due now; begins again when it had ended."""
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError


Step = Callable[[], Coroutine[Any, Any, Optional[float]]]


class Io:
    def now(self) -> float:
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def connect(self, address: Address, deadline: Optional[float]) -> Conn:
        raise NotImplementedError

    async def run(self, function: Callable[[], T]) -> T:
        """Work with local files: not on the event loop."""
        raise NotImplementedError

    def ticker(self, step: Step) -> Ticker:
        raise NotImplementedError

    def finish(self, work: Coroutine[Any, Any, Any]) -> None:
        """Done even though the caller was interrupted; errors are dropped."""
        raise NotImplementedError


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine over blocking connections: it has nothing to wait for but what blocks."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise RuntimeError("a blocking call was suspended")


class Stream(Generic[T], AsyncIterator[T]):
    """Items as they come. Also an asynchronous context manager that closes it."""

    async def next(self) -> Optional[T]:
        """None is the end."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    def __aiter__(self) -> "Stream[T]":
        return self

    async def __anext__(self) -> T:
        item = await self.next()
        if item is None:
            raise StopAsyncIteration
        return item

    async def __aenter__(self) -> "Stream[T]":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]],
                        error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()


class BlockingStream(Generic[T], Iterator[T]):
    """The same for threads."""

    def __init__(self, inner: Stream[T]) -> None:
        self._inner = inner

    def close(self) -> None:
        drive(self._inner.close())

    def __iter__(self) -> "BlockingStream[T]":
        return self

    def __next__(self) -> T:
        item = drive(self._inner.next())
        if item is None:
            raise StopIteration
        return item

    def __enter__(self) -> "BlockingStream[T]":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
