"""The client for asyncio. A call that is cancelled closes its connection, so that the daemon takes
back what it was about to give."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, AsyncIterator, Iterable, List, Mapping, Optional, Type, Union

from . import calls, snapshot_files, wire
from .box import AsyncBox, Renewer
from .files import AsyncFiles, Reading, Watch
from .jobs import AsyncJob, Output
from .link import DEFAULT_TIMEOUT_S, RECONNECT_S, Link
from .ports import AsyncForward, AsyncPort, AsyncPorts, AsyncTunnel
from .shell import AsyncShell
from .tasks import TaskIo
from .types import JSON, Mount, Sandbox, Snapshot

__all__ = [
    "AsyncBox", "AsyncClient", "AsyncFiles", "AsyncForward", "AsyncJob", "AsyncPort", "AsyncPorts",
    "AsyncShell", "AsyncTunnel", "Output", "Reading", "Watch",
]


class AsyncClient:
    """As `Client`, for one event loop."""

    def __init__(self, address: Union[str, wire.Address, None] = None, *, token: Optional[str] = None,
                 timeout_s: float = DEFAULT_TIMEOUT_S, reconnect_s: float = RECONNECT_S,
                 ca: Optional[str] = None) -> None:
        self.address = wire.trusting(wire.parse_address(address), ca)
        self._link = Link(TaskIo(), self.address, token, timeout_s, reconnect_s)
        self._renewer = Renewer(self._link)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]],
                        error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes what is idle and renews no more; calls under way end by themselves."""
        self._renewer.stop()
        self._link.close()
        await asyncio.sleep(0)  # the loop closes them in its next turn

    # --- sandboxes ---

    async def acquire(self, thread_id: Optional[str] = None, *, user_id: Optional[str] = None,
                      profile: Optional[str] = None, sandbox_id: Optional[str] = None,
                      wait_s: Optional[float] = None, ttl_s: Optional[int] = None,
                      idle_timeout_s: Optional[int] = None, envs: Optional[Mapping[str, str]] = None,
                      mounts: Optional[Iterable[Mount]] = None,
                      limits: Optional[Mapping[str, Any]] = None,
                      metadata: Optional[Mapping[str, Any]] = None,
                      network: Optional[str] = None, labels: Optional[Mapping[str, str]] = None,
                      snapshot_id: Optional[str] = None, auto_renew: bool = True) -> AsyncBox:
        """As Client.acquire(). Cancelled, it leaves no lease behind."""
        return AsyncBox(self._link, self._renewer, await self._link.call(calls.acquire(
            thread_id, user_id=user_id, profile=profile, sandbox_id=sandbox_id, wait_s=wait_s,
            ttl_s=ttl_s, idle_timeout_s=idle_timeout_s, envs=envs, mounts=mounts, limits=limits,
            metadata=metadata, network=network, labels=labels, snapshot_id=snapshot_id)),
            ttl_s=ttl_s, auto_renew=auto_renew)

    async def restore(self, snapshot_id: str, thread_id: Optional[str] = None,
                      **options: Any) -> AsyncBox:
        """A new sandbox with the files of a snapshot; `options` are those of acquire()."""
        return await self.acquire(thread_id, snapshot_id=snapshot_id, **options)

    async def open(self, sandbox_id: str, *, auto_renew: bool = False) -> AsyncBox:
        """A sandbox that is leased already, by its id or `box:` and its box_id. It is not renewed unless asked for."""
        return AsyncBox(self._link, self._renewer, await self.get(sandbox_id), auto_renew=auto_renew)

    async def release(self, sandbox_id: str, *, generation: Optional[int] = None,
                      destroy: bool = False) -> Sandbox:
        return await self._link.call(calls.release(sandbox_id, generation, destroy))

    async def renew(self, sandbox_id: str, *, generation: Optional[int] = None,
                    ttl_s: Optional[int] = None) -> Sandbox:
        return await self._link.call(calls.renew(sandbox_id, generation, ttl_s))

    async def get(self, sandbox_id: str, *, ask_backend: bool = False, stats: bool = False) -> Sandbox:
        return await self._link.call(calls.get(sandbox_id, ask_backend, stats))

    async def destroy(self, sandbox_id: str, *, generation: Optional[int] = None,
                      quick: bool = False) -> Sandbox:
        return await self._link.call(calls.destroy(sandbox_id, generation, quick))

    async def list(self, *, state: Optional[str] = None, profile: Optional[str] = None,
                   user_id: Optional[str] = None,
                   thread_id: Optional[str] = None) -> AsyncIterator[Sandbox]:
        cursor: Optional[str] = None
        while True:
            found, cursor = await self._link.call(calls.page(
                cursor, state=state, profile=profile, user_id=user_id, thread_id=thread_id))
            for sandbox in found:
                yield sandbox
            if cursor is None:
                return

    # --- snapshots ---

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        after: Optional[str] = None
        while True:
            found, after = await self._link.call(calls.snapshots(after))
            for one in found:
                yield one
            if after is None:
                return

    async def snapshot(self, snapshot_id: str) -> Snapshot:
        return await self._link.call(calls.snapshot("GET", snapshot_id))

    async def delete_snapshot(self, snapshot_id: str) -> Snapshot:
        return await self._link.call(calls.snapshot("DELETE", snapshot_id))

    async def export_snapshot(self, snapshot_id: str, local: snapshot_files.Path, *,
                              format: Optional[str] = None) -> int:
        """To one file of this machine, which appears when it is whole. See Client.export_snapshot()."""
        return await snapshot_files.save(self._link, snapshot_id, local, format)

    async def import_snapshot(self, local: snapshot_files.Path, *, name: Optional[str] = None,
                              profile: Optional[str] = None, any_base: bool = False) -> Snapshot:
        """A new snapshot of this caller from such a file. See Client.import_snapshot()."""
        return await snapshot_files.load(self._link, local, name, profile, any_base)

    # --- the pool ---

    async def pool(self) -> JSON:
        return await self._link.call(calls.plain("GET", "/v1/pool"))

    async def profiles(self) -> List[JSON]:
        """What profiles there are: what their boxes are like, and how each is doing."""
        return await self._link.call(calls.profiles())

    async def profile(self, name: str) -> JSON:
        return await self._link.call(calls.profile(name))

    async def quote(self, profile: Optional[str] = None, *, duration_s: Optional[int] = None) -> JSON:
        """What a lease of `duration_s` (an hour) would cost: `currency`, `parts`, `total` as a decimal number in a text and
        `total_micros` in millionths. None where the profile has no price."""
        return await self._link.call(calls.price(profile, duration_s))

    async def usage(self, **filters: object) -> JSON:
        """Metered time and what it cost: sums in `usage`, or with `intervals=1` single intervals, a page at a time (`limit`, `cursor`).
        Filters: `group_by` ("user,profile"), `user_id`, `thread_id`, `sandbox_id`, `profile`, `principal`, `since_ms`, `until_ms`."""
        return await self._link.call(calls.usage(filters))

    async def budgets(self, *, cursor: Optional[str] = None, limit: Optional[int] = None) -> JSON:
        """What users may spend, a page at a time: `budgets` and `next_cursor`. For operators, as the next three are."""
        return await self._link.call(calls.budgets(cursor, limit))

    async def budget(self, user_id: str) -> JSON:
        return await self._link.call(calls.budget("GET", user_id))

    async def set_budget(self, user_id: str, amount: Optional[str]) -> JSON:
        """An amount of its own for each period, a decimal number like "12.50"; None: the default of the configuration."""
        return await self._link.call(calls.budget("PUT", user_id, body={"amount": wire.NULL if amount is None else amount}))

    async def credit_budget(self, user_id: str, amount: str) -> JSON:
        """More for this period, on top of the amount."""
        return await self._link.call(calls.budget("POST", user_id, "credit", body={"amount": amount}))

    async def version(self) -> JSON:
        return await self._link.call(calls.plain("GET", "/v1/version"))

    async def pause(self) -> JSON:
        return await self._link.call(calls.plain("POST", "/v1/pool/pause"))

    async def resume(self) -> JSON:
        return await self._link.call(calls.plain("POST", "/v1/pool/resume"))

    async def drain(self, *, evict_parked: bool = False) -> JSON:
        return await self._link.call(
            calls.plain("POST", "/v1/pool/drain", {"evict_parked": evict_parked}))

    async def reconcile(self) -> JSON:
        return await self._link.call(calls.plain("POST", "/v1/pool/reconcile"))

    async def reload(self) -> JSON:
        return await self._link.call(calls.plain("POST", "/v1/pool/reload"))

    async def doctor(self) -> JSON:
        return await self._link.call(calls.plain("GET", "/v1/doctor"))

    # --- one call ---

    async def send(self, data: bytes, timeout_s: float, is_safe: bool) -> wire.Answer:
        """One request as it is. A kept connection that turns out to be dead is replaced once."""
        return await self._link.send(data, timeout_s, is_safe)
