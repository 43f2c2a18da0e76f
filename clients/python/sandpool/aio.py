"""The client for asyncio. A call that is cancelled closes its connection, so that the daemon takes
back what it was about to give."""

from __future__ import annotations

import asyncio
import ssl
from types import TracebackType
from typing import (
    Any, AsyncIterator, Dict, Iterable, List, Mapping, Optional, Tuple, Type, TypeVar, Union)

from . import calls, wire
from .client import DEFAULT_TIMEOUT_S, IDLE_MAX
from .errors import ConnectionFailed, DeadlineExceeded
from .types import JSON, Mount, Sandbox

T = TypeVar("T")
Streams = Tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AsyncClient:
    """As `Client`, for one event loop."""

    def __init__(self, address: Union[str, wire.Address, None] = None, *, token: Optional[str] = None,
                 timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self.address = wire.parse_address(address)
        self._token = token
        self._timeout_s = timeout_s
        self._idle: List[Streams] = []
        self._is_closed = False

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]],
                        error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes what is idle; calls under way end by themselves."""
        idle, self._idle, self._is_closed = self._idle, [], True
        for _, writer in idle:
            writer.close()
        await asyncio.sleep(0)  # the loop closes them in its next turn

    # --- sandboxes ---

    async def acquire(self, thread_id: Optional[str] = None, *, user_id: Optional[str] = None,
                      profile: Optional[str] = None, sandbox_id: Optional[str] = None,
                      wait_s: Optional[float] = None, ttl_s: Optional[int] = None,
                      idle_timeout_s: Optional[int] = None, envs: Optional[Mapping[str, str]] = None,
                      mounts: Optional[Iterable[Mount]] = None,
                      limits: Optional[Mapping[str, Any]] = None,
                      metadata: Optional[Mapping[str, Any]] = None) -> "AsyncLease":
        """As Client.acquire(). Cancelled, it leaves no lease behind."""
        return AsyncLease(self, await self._run(calls.acquire(
            thread_id, user_id=user_id, profile=profile, sandbox_id=sandbox_id, wait_s=wait_s,
            ttl_s=ttl_s, idle_timeout_s=idle_timeout_s, envs=envs, mounts=mounts, limits=limits,
            metadata=metadata)))

    async def release(self, sandbox_id: str, *, generation: Optional[int] = None,
                      destroy: bool = False) -> Sandbox:
        return await self._run(calls.release(sandbox_id, generation, destroy))

    async def renew(self, sandbox_id: str, *, generation: Optional[int] = None,
                    ttl_s: Optional[int] = None) -> Sandbox:
        return await self._run(calls.renew(sandbox_id, generation, ttl_s))

    async def get(self, sandbox_id: str, *, ask_backend: bool = False) -> Sandbox:
        return await self._run(calls.get(sandbox_id, ask_backend))

    async def destroy(self, sandbox_id: str, *, generation: Optional[int] = None,
                      quick: bool = False) -> Sandbox:
        return await self._run(calls.destroy(sandbox_id, generation, quick))

    async def list(self, *, state: Optional[str] = None, profile: Optional[str] = None,
                   user_id: Optional[str] = None,
                   thread_id: Optional[str] = None) -> AsyncIterator[Sandbox]:
        cursor: Optional[str] = None
        while True:
            found, cursor = await self._run(calls.page(
                cursor, state=state, profile=profile, user_id=user_id, thread_id=thread_id))
            for sandbox in found:
                yield sandbox
            if cursor is None:
                return

    # --- the pool ---

    async def pool(self) -> JSON:
        return await self._run(calls.plain("GET", "/v1/pool"))

    async def version(self) -> JSON:
        return await self._run(calls.plain("GET", "/v1/version"))

    async def pause(self) -> JSON:
        return await self._run(calls.plain("POST", "/v1/pool/pause"))

    async def resume(self) -> JSON:
        return await self._run(calls.plain("POST", "/v1/pool/resume"))

    async def drain(self, *, evict_parked: bool = False) -> JSON:
        return await self._run(
            calls.plain("POST", "/v1/pool/drain", {"evict_parked": evict_parked}))

    async def reconcile(self) -> JSON:
        return await self._run(calls.plain("POST", "/v1/pool/reconcile"))

    async def reload(self) -> JSON:
        return await self._run(calls.plain("POST", "/v1/pool/reload"))

    async def doctor(self) -> JSON:
        return await self._run(calls.plain("GET", "/v1/doctor"))

    # --- one call ---

    async def _run(self, call: "calls.Call[T]") -> T:
        data = wire.encode(self.address, call.method, call.target, call.body, self._token)
        timeout = self._timeout_s if call.timeout_s is None else call.timeout_s
        return call.decode((await self.send(data, timeout, call.is_safe)).result())

    async def send(self, data: bytes, timeout_s: float, is_safe: bool) -> wire.Answer:
        """One request as it is. A kept connection that turns out to be dead is replaced once."""
        try:
            return await asyncio.wait_for(self._send(data, is_safe), timeout_s)
        except asyncio.TimeoutError:
            raise DeadlineExceeded("timeout", f"no answer from {self.address} in time") from None

    async def _send(self, data: bytes, is_safe: bool) -> wire.Answer:
        answer = None
        kept = await self._take() if is_safe else None
        if kept is not None:
            answer = await self._exchange(kept, data, is_reused=True)
        if answer is None:
            answer = await self._exchange(await self._connect(), data, is_reused=False)
        assert answer is not None
        return answer

    async def _take(self) -> Optional[Streams]:
        """One on which nothing has come since: an end, or what answers nothing that was asked."""
        while self._idle:
            reader, writer = self._idle.pop()
            look = asyncio.ensure_future(reader.read(1))
            try:
                await asyncio.sleep(0)  # the look begins, the loop sees what is there,
                await asyncio.sleep(0)
                await asyncio.sleep(0)  # and the look ends
            except BaseException:
                look.cancel()
                writer.transport.abort()
                raise
            if not look.done():
                look.cancel()
                await asyncio.wait([look])
                return reader, writer
            look.exception()  # whatever it was
            writer.close()
        return None

    async def _connect(self) -> Streams:
        address = self.address
        try:
            if address.unix_path is not None:
                return await asyncio.open_unix_connection(address.unix_path)
            tls = ssl.create_default_context() if address.is_tls else None
            return await asyncio.open_connection(address.host, address.port, ssl=tls)
        except OSError as error:
            raise ConnectionFailed("connect_failed", f"no daemon at {address}: {error}") from error

    async def _exchange(self, streams: Streams, data: bytes, *,
                        is_reused: bool) -> Optional[wire.Answer]:
        """None: the kept connection had been closed before the daemon saw the request."""
        reader, writer = streams
        answer = wire.Answer()
        try:
            writer.write(data)
            await writer.drain()
            while not answer.is_done:
                answer.feed(await reader.read(65536))
        except (OSError, ConnectionFailed) as error:
            writer.close()
            if is_reused and not answer.has_begun:
                return None
            raise ConnectionFailed("connect_failed", f"{self.address} hung up: {error}") from error
        except BaseException:
            writer.transport.abort()  # cancelled: the daemon must see it now
            raise
        if answer.is_reusable and not self._is_closed and len(self._idle) < IDLE_MAX:
            self._idle.append(streams)
        else:
            writer.close()
        return answer


class AsyncLease:
    """A sandbox that is ours. As an asynchronous context manager it is released at the end."""

    def __init__(self, client: AsyncClient, sandbox: Sandbox) -> None:
        self._client = client
        self.sandbox = sandbox

    async def __aenter__(self) -> "AsyncLease":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]],
                        error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.release()

    @property
    def sandbox_id(self) -> str:
        return self.sandbox.sandbox_id or ""

    @property
    def sandbox_url(self) -> str:
        return self.sandbox.sandbox_url or ""

    @property
    def headers(self) -> Dict[str, str]:
        return self.sandbox.headers

    async def release(self, *, destroy: bool = False) -> None:
        await self._client.release(
            self.sandbox_id, generation=self.sandbox.generation, destroy=destroy)

    async def renew(self, ttl_s: Optional[int] = None) -> None:
        await self._client.renew(self.sandbox_id, generation=self.sandbox.generation, ttl_s=ttl_s)
