"""Requests to one daemon: kept connections, deadlines, bodies that stream in either direction."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any, Iterator, List, Mapping, Optional, TypeVar

from . import calls, wire
from .errors import BrokenOff, ConnectionFailed, DeadlineExceeded, SandpoolError, from_answer
from .transport import Conn, Io, Late

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 60.0
RECONNECT_S = 30.0
IDLE_MAX = 8
SILENCE_S = 60.0  # four times the pause between two keepalives of a stream
ERROR_MAX = 1024 * 1024


class Body:
    """What a request carries, read piece by piece. `length` None: not known before."""

    length: Optional[int] = None

    async def next(self) -> bytes:
        """b"" is the end."""
        raise NotImplementedError

    async def rewind(self) -> bool:
        """Whether it begins anew, so that it can be sent once more."""
        return False


class Bytes(Body):
    def __init__(self, data: bytes) -> None:
        self.length = len(data)
        self._data = data
        self._at = 0

    async def next(self) -> bytes:
        piece = self._data[self._at:self._at + 256 * 1024]
        self._at += len(piece)
        return piece

    async def rewind(self) -> bool:
        self._at = 0
        return True


class Incoming:
    """An answer whose headers are there, and whose body is read as it comes."""

    def __init__(self, link: "Link", conn: Conn, answer: wire.Answer, silence_s: float) -> None:
        self._link = link
        self._conn: Optional[Conn] = conn
        self._answer = answer
        self._silence_s = silence_s

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Names are in lower case."""
        return self._answer.headers

    async def read(self) -> bytes:
        """b"" is the end of the body. One that breaks off raises."""
        link, answer = self._link, self._answer
        try:
            while True:
                data = answer.take()
                if data or answer.is_done:
                    break
                assert self._conn is not None
                answer.feed(await self._conn.recv(link.io.now() + self._silence_s))
        except Late:
            self.close()
            raise DeadlineExceeded("timeout", f"{link.address} has been silent for too long") from None
        except OSError as error:
            self.close()
            raise BrokenOff("protocol", f"the answer broke off: {error}") from error
        except BaseException:
            self.close()
            raise
        if answer.is_done and not answer.body and self._conn is not None and not data:
            conn, self._conn = self._conn, None
            link.give_back(conn, answer.is_reusable)
        return data

    async def read_all(self, limit: int) -> bytes:
        data = bytearray()
        while True:
            piece = await self.read()
            if not piece:
                return bytes(data)
            data += piece
            if len(data) > limit:
                self.close()
                raise SandpoolError("too_big", f"the answer has more than {limit} bytes")

    def close(self) -> None:
        """In the middle of the body as well."""
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.abort()


class Link:
    """Safe for several threads: each call has a connection for itself."""

    def __init__(self, io: Io, address: wire.Address, token: Optional[str], timeout_s: float,
                 reconnect_s: float) -> None:
        self.io = io
        self.address = address
        self.token = token
        self.timeout_s = timeout_s
        self.reconnect_s = reconnect_s
        self._idle: List[Conn] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for conn in idle:
            conn.close()

    # --- calls whose answer is JSON ---

    async def call(self, call: "calls.Call[T]") -> T:
        data = wire.encode(self.address, call.method, call.target, call.body, self.token)
        timeout = self.timeout_s if call.timeout_s is None else call.timeout_s
        return call.decode((await self.send(data, timeout, call.is_safe)).result())

    async def persist(self, call: "calls.Call[T]") -> T:
        """As call(), for one that does no harm when it is done twice: a daemon that is being
        restarted is waited for."""
        retry = Retry(self)
        while True:
            try:
                return await self.call(call)
            except SandpoolError as error:
                if not is_passing(error) or not await retry.pause():
                    raise

    async def send(self, data: bytes, timeout_s: float, is_safe: bool) -> wire.Answer:
        """One request as it is. A kept connection that turns out to be dead is replaced once."""
        deadline = self.io.now() + timeout_s
        answer = None
        kept = await self._take() if is_safe else None
        if kept is not None:
            answer = await self._exchange(kept, data, deadline, is_reused=True)
        if answer is None:
            answer = await self._exchange(await self.connect(deadline), data, deadline,
                                          is_reused=False)
        assert answer is not None
        return answer

    async def connect(self, deadline: float) -> Conn:
        try:
            return await self.io.connect(self.address, deadline)
        except Late:
            raise self._late() from None

    def give_back(self, conn: Conn, is_reusable: bool) -> None:
        with self._lock:
            if is_reusable and not self._is_closed and len(self._idle) < IDLE_MAX:
                self._idle.append(conn)
                return
        conn.close()

    async def _take(self) -> Optional[Conn]:
        """One on which nothing has come since: an end, or what answers nothing that was asked."""
        while True:
            with self._lock:
                conn = self._idle.pop() if self._idle else None
            if conn is None:
                return None
            try:
                if not await conn.has_input():
                    return conn
            except BaseException:
                conn.abort()
                raise
            conn.close()

    async def _exchange(self, conn: Conn, data: bytes, deadline: float, *,
                        is_reused: bool) -> Optional[wire.Answer]:
        """None: the kept connection had been closed before the daemon saw the request."""
        answer = wire.Answer()
        try:
            await conn.send(data, deadline)
            while not answer.is_done:
                answer.feed(await conn.recv(deadline))
        except Late:
            conn.abort()
            raise self._late() from None
        except (OSError, ConnectionFailed) as error:
            conn.close()
            if is_reused and not answer.has_begun:
                return None
            raise self._hung_up(error) from error
        except BaseException:
            conn.abort()  # cancelled: the daemon must see it now
            raise
        self.give_back(conn, answer.is_reusable)
        return answer

    # --- answers and bodies that stream ---

    async def open(self, method: str, where: str, *, body: Optional[Mapping[str, Any]] = None,
                   data: Optional[Body] = None, headers: Optional[Mapping[str, str]] = None,
                   silence_s: float = SILENCE_S, is_raw: bool = False) -> Incoming:
        """Sends a request and returns when the headers of its answer are there. An answer that is
        no success is raised, unless `is_raw`."""
        conn = await self.connect(self.io.now() + min(silence_s, self.timeout_s))
        answer = wire.Answer(is_streamed=True, is_head=method == "HEAD")
        is_whole = True
        with self._talk(conn):
            if data is None:
                await conn.send(wire.encode(self.address, method, where, body, self.token, headers),
                                self.io.now() + silence_s)
            else:
                is_whole = await self._upload(conn, method, where, data, headers or {}, silence_s)
            while not answer.status:
                answer.feed(await conn.recv(self.io.now() + silence_s))
        answer.is_reusable = answer.is_reusable and is_whole
        incoming = Incoming(self, conn, answer, silence_s)
        if not is_raw and not 200 <= answer.status < 300:
            raise from_answer(answer.status, _json(await incoming.read_all(ERROR_MAX)))
        return incoming

    async def _upload(self, conn: Conn, method: str, where: str, data: Body,
                      headers: Mapping[str, str], silence_s: float) -> bool:
        """False: the answer came before the end, so it is a refusal and says why."""
        framing = ({"Transfer-Encoding": "chunked"} if data.length is None
                   else {"Content-Length": str(data.length)})
        await conn.send(wire.encode_head(self.address, method, where, {**headers, **framing},
                                         self.token), self.io.now() + silence_s)
        try:
            while True:
                piece = await data.next()
                if data.length is None:
                    await conn.send(wire.encode_chunk(piece), self.io.now() + silence_s)
                if not piece:
                    return True
                if data.length is not None:
                    await conn.send(piece, self.io.now() + silence_s)
                if await conn.has_input():
                    return False
        except OSError:
            if not await conn.has_input():
                raise
            return False

    async def upgrade(self, where: str, headers: Mapping[str, str]) -> "Upgraded":
        """A connection that speaks another protocol from here on."""
        deadline = self.io.now() + self.timeout_s
        conn = await self.connect(deadline)
        answer = wire.Answer(is_upgrade=True)
        with self._talk(conn):
            await conn.send(wire.encode_head(self.address, "GET", where, headers, self.token), deadline)
            while not answer.is_done:
                answer.feed(await conn.recv(deadline))
        if answer.status != 101:
            conn.abort()
            raise from_answer(answer.status, _json(bytes(answer.body)))
        return Upgraded(conn, answer)

    @contextlib.contextmanager
    def _talk(self, conn: Conn) -> Iterator[None]:
        """Until the headers of an answer are there: closes the connection when they do not come."""
        try:
            yield
        except Late:
            conn.abort()
            raise self._late() from None
        except (OSError, ConnectionFailed) as error:
            conn.close()
            raise self._hung_up(error) from error
        except BaseException:
            conn.abort()  # cancelled: the daemon must see it now
            raise

    def _late(self) -> DeadlineExceeded:
        return DeadlineExceeded("timeout", f"no answer from {self.address} in time")

    def _hung_up(self, error: BaseException) -> ConnectionFailed:
        return ConnectionFailed("connect_failed", f"{self.address} hung up: {error}")


class Upgraded:
    """The connection after 101: its first bytes may have come with the headers."""

    def __init__(self, conn: Conn, answer: wire.Answer) -> None:
        self.conn = conn
        self.headers: Mapping[str, str] = answer.headers
        self._first = answer.rest()

    async def recv(self, deadline: Optional[float] = None) -> bytes:
        if self._first:
            data, self._first = self._first, b""
            return data
        return await self.conn.recv(deadline)


class Retry:
    """How long a stream that broke off tries to go on. Progress gives it its whole time again."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._end: Optional[float] = None
        self._pause_s = 0.02

    def progress(self) -> None:
        self._end, self._pause_s = None, 0.02

    async def pause(self) -> bool:
        """False: it has been tried long enough."""
        now = self._link.io.now()
        if self._end is None:
            self._end = now + self._link.reconnect_s
        if now >= self._end:
            return False
        await self._link.io.sleep(min(self._pause_s, self._end - now))
        self._pause_s = min(self._pause_s * 2, 1.0)
        return True


def is_passing(error: SandpoolError) -> bool:
    """Whether a stream that failed by it is worth another try: the daemon is being restarted, or
    the way to the box was cut."""
    return (isinstance(error, (ConnectionFailed, DeadlineExceeded, BrokenOff))
            or error.code in ("transport_lost", "starting", "timeout", "too_many_connections",
                              "store_unavailable"))


def _json(data: bytes) -> object:
    try:
        return json.loads(data) if data else None
    except (ValueError, RecursionError):
        return None
