"""A sandbox backend for DeerFlow's `aio_sandbox`: the five operations of its `SandboxBackend`, served
by a sandpool daemon, to be used in place of its local and remote backends.

DeerFlow keeps and reaps sandboxes by itself, and its commands go straight to the box, where the
daemon does not see them. So leases are taken for long, and ended by destroy().

A box wants its token with every request (`info.request_headers`). Versions of DeerFlow that do not
send these cannot use boxes through this class: point their `provisioner_url` at the daemon's
`provisioner` listener instead.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from . import wire
from .aio import AsyncClient
from .client import Client
from .errors import NotFound, SandboxLost, SandpoolError
from .types import Mount, Sandbox

MONTH_S = 30 * 24 * 3600  # the longest lease the daemon gives
PROBE_S = 5.0
PAUSE_MAX_S = 0.25

ExtraMounts = Optional[Iterable[Tuple[str, str, bool]]]


@dataclass
class SandboxInfo:
    """Where a sandbox is. `container_id` names this very box, so that a replacement under the same
    id is never taken for it."""

    sandbox_id: str
    sandbox_url: str
    container_name: Optional[str] = None
    container_id: Optional[str] = None
    created_at: float = field(default_factory=time.time)
    request_headers: Dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def to_dict(self) -> Dict[str, Any]:
        """Without the headers: they are a secret."""
        return {
            "sandbox_id": self.sandbox_id,
            "sandbox_url": self.sandbox_url,
            "container_name": self.container_name,
            "container_id": self.container_id,
            "created_at": self.created_at,
        }

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> "SandboxInfo":
        return cls(
            sandbox_id=data["sandbox_id"],
            sandbox_url=data.get("sandbox_url") or data.get("base_url") or "",
            container_name=data.get("container_name"),
            container_id=data.get("container_id"),
            created_at=data.get("created_at", time.time()),
        )


# --- readiness ---

def _pauses(longest_s: float) -> Iterator[float]:
    pause = min(0.002, longest_s)
    while True:
        yield pause
        pause = min(pause * 2, longest_s)


def wait_for_sandbox_ready(sandbox_url: str, timeout: float = 30) -> bool:
    """Whether the sandbox answers within `timeout` seconds. Neither a request nor a pause goes
    beyond that."""
    address, path = wire.split_url(sandbox_url)
    request = wire.encode(address, "GET", f"{path}/v1/sandbox", None)
    deadline = time.monotonic() + timeout
    with Client(address) as box:
        for pause in _pauses(PAUSE_MAX_S):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                if box.send(request, min(PROBE_S, left), True).status == 200:
                    return True
            except SandpoolError:
                pass
            time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
    return False


async def wait_for_sandbox_ready_async(sandbox_url: str, timeout: float = 30,
                                       poll_interval: float = PAUSE_MAX_S) -> bool:
    """The same for asyncio. `poll_interval` is the longest pause."""
    address, path = wire.split_url(sandbox_url)
    request = wire.encode(address, "GET", f"{path}/v1/sandbox", None)
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout
    async with AsyncClient(address) as box:
        for pause in _pauses(poll_interval):
            left = deadline - clock()
            if left <= 0:
                break
            try:
                if (await box.send(request, min(PROBE_S, left), True)).status == 200:
                    return True
            except SandpoolError:
                pass
            await asyncio.sleep(max(0.0, min(pause, deadline - clock())))
    return False


# --- the backend ---

class SandboxBackend(ABC):
    """The five operations."""

    @abstractmethod
    def create(self, thread_id: Optional[str], sandbox_id: str, extra_mounts: ExtraMounts = None,
               *, user_id: Optional[str] = None) -> SandboxInfo:
        """A sandbox of that id, made or found. Without a thread it belongs to its id alone."""

    @abstractmethod
    def destroy(self, info: SandboxInfo) -> None:
        """Returns when it is gone; raises when it may not be. Gone already is fine."""

    @abstractmethod
    def is_alive(self, info: SandboxInfo) -> bool:
        """False: it is known to be dead. Raises when nobody knows."""

    @abstractmethod
    def discover(self, sandbox_id: str) -> Optional[SandboxInfo]:
        """The sandbox that already runs under that id, if any."""

    @abstractmethod
    def list_running(self) -> List[SandboxInfo]:
        """All that run and may be used by this caller."""


class SandpoolBackend(SandboxBackend):
    """`address` and `token` as for `Client`. `info_type` makes the objects that are returned:
    DeerFlow's own SandboxInfo, if that is wanted."""

    def __init__(self, address: Optional[str] = None, *, token: Optional[str] = None,
                 profile: Optional[str] = None, wait_s: float = 60.0,
                 info_type: Callable[..., Any] = SandboxInfo) -> None:
        self._client = Client(address, token=token)
        self._token = token
        self._profile = profile
        self._wait_s = wait_s
        self._info_type = info_type

    def close(self) -> None:
        self._client.close()

    def create(self, thread_id: Optional[str], sandbox_id: str, extra_mounts: ExtraMounts = None,
               *, user_id: Optional[str] = None) -> SandboxInfo:
        request = self._request(thread_id, sandbox_id, extra_mounts, user_id)
        try:
            lease = self._client.acquire(**request)
        except SandboxLost:  # the end of the one before, reported once
            lease = self._client.acquire(**request)
        return self._info(lease.sandbox)

    async def create_async(self, thread_id: Optional[str], sandbox_id: str,
                           extra_mounts: ExtraMounts = None, *,
                           user_id: Optional[str] = None) -> SandboxInfo:
        """As create(). Cancelled, it leaves nothing behind."""
        request = self._request(thread_id, sandbox_id, extra_mounts, user_id)
        async with AsyncClient(self._client.address, token=self._token) as client:
            try:
                lease = await client.acquire(**request)
            except SandboxLost:
                lease = await client.acquire(**request)
        return self._info(lease.sandbox)

    def destroy(self, info: SandboxInfo) -> None:
        try:
            self._client.destroy(_exact(info))
        except (NotFound, SandboxLost):
            pass

    def is_alive(self, info: SandboxInfo) -> bool:
        try:
            found = self._client.get(_exact(info), ask_backend=True)
        except (NotFound, SandboxLost):
            return False
        if found.state not in ("leased", "parked"):
            return False
        if found.alive is None:
            raise SandpoolError("backend_unavailable", "the backend does not know whether it lives")
        return found.alive

    def discover(self, sandbox_id: str) -> Optional[SandboxInfo]:
        try:
            found = self._client.get(sandbox_id)
            if found.state not in ("leased", "parked"):
                return None
            # Whoever finds it will use it: taken anew, so that a parked one is not reaped.
            lease = self._client.acquire(**self._request(
                found.thread_id, sandbox_id, None, found.user_id))
        except (NotFound, SandboxLost):
            return None
        return self._info(lease.sandbox)

    def list_running(self) -> List[SandboxInfo]:
        return [self._info(box) for box in self._client.list()
                if box.state in ("leased", "parked") and box.sandbox_url]

    def _request(self, thread_id: Optional[str], sandbox_id: str, extra_mounts: ExtraMounts,
                 user_id: Optional[str]) -> Dict[str, Any]:
        return {
            "thread_id": thread_id, "user_id": user_id, "sandbox_id": sandbox_id,
            "profile": self._profile, "wait_s": self._wait_s,
            "ttl_s": MONTH_S, "idle_timeout_s": MONTH_S,
            "mounts": [Mount(*mount) for mount in extra_mounts] if extra_mounts else None,
        }

    def _info(self, box: Sandbox) -> SandboxInfo:
        info: SandboxInfo = self._info_type(
            sandbox_id=box.sandbox_id,
            sandbox_url=box.sandbox_url or "",
            container_id=box.box_id,
            created_at=box.created_at.timestamp() if box.created_at else 0.0,
        )
        # Older types know no headers; an attribute is never serialised by them either.
        info.request_headers = box.headers
        return info


def _exact(info: SandboxInfo) -> str:
    return f"box:{info.container_id}" if info.container_id else info.sandbox_id
