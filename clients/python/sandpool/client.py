"""The client for threads. Safe for use by several of them: each call has a connection for itself,
and connections are kept for the next call."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Type, Union

from . import calls, snapshot_files, wire
from .blocking import BlockingIo
from .box import AsyncBox, Renewer
from .link import DEFAULT_TIMEOUT_S, RECONNECT_S, Link
from .sync import Box
from .transport import drive
from .types import JSON, Mount, Sandbox, Snapshot


class Client:
    """Talks to one daemon. `address` is a socket's path, `unix:/path`, `http://host:port` or `https://host:port` (then
    with `token`, and `ca`, a PEM file of those who may sign its certificate, if not those of the system); None: $SANDPOOL_SOCKET, else /run/sandpool/sandpool.sock. `timeout_s` is for each
    call; `reconnect_s` is how long streams and waits try to go on while the daemon is away."""

    def __init__(self, address: Union[str, wire.Address, None] = None, *, token: Optional[str] = None,
                 timeout_s: float = DEFAULT_TIMEOUT_S, reconnect_s: float = RECONNECT_S,
                 ca: Optional[str] = None) -> None:
        self.address = wire.trusting(wire.parse_address(address), ca)
        self._link = Link(BlockingIo(), self.address, token, timeout_s, reconnect_s)
        self._renewer = Renewer(self._link)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Closes what is idle and renews no more; calls under way end by themselves."""
        self._renewer.stop()
        self._link.close()

    # --- sandboxes ---

    def acquire(self, thread_id: Optional[str] = None, *, user_id: Optional[str] = None,
                profile: Optional[str] = None, sandbox_id: Optional[str] = None,
                wait_s: Optional[float] = None, ttl_s: Optional[int] = None,
                idle_timeout_s: Optional[int] = None, envs: Optional[Mapping[str, str]] = None,
                mounts: Optional[Iterable[Mount]] = None,
                limits: Optional[Mapping[str, Any]] = None,
                metadata: Optional[Mapping[str, Any]] = None, network: Optional[str] = None,
                labels: Optional[Mapping[str, str]] = None, snapshot_id: Optional[str] = None,
                auto_renew: bool = True) -> Box:
        """A sandbox for the thread: its own again if it has one, else a warm one, else a new one;
        with `snapshot_id` one with the files of that snapshot.
        Without a thread: one that nobody finds again. It is renewed until it is released, the
        client is closed or nobody refers to it, unless `auto_renew` is False."""
        return Box(AsyncBox(self._link, self._renewer, self._call(calls.acquire(
            thread_id, user_id=user_id, profile=profile, sandbox_id=sandbox_id, wait_s=wait_s,
            ttl_s=ttl_s, idle_timeout_s=idle_timeout_s, envs=envs, mounts=mounts, limits=limits,
            metadata=metadata, network=network, labels=labels, snapshot_id=snapshot_id)),
            ttl_s=ttl_s, auto_renew=auto_renew))

    def restore(self, snapshot_id: str, thread_id: Optional[str] = None, **options: Any) -> Box:
        """A new sandbox with the files of a snapshot; `options` are those of acquire()."""
        return self.acquire(thread_id, snapshot_id=snapshot_id, **options)

    def open(self, sandbox_id: str, *, auto_renew: bool = False) -> Box:
        """A sandbox that is leased already, by its id or `box:` and its box_id: for another process than the one that
        acquired it. It is not renewed unless asked for."""
        return Box(AsyncBox(self._link, self._renewer, self.get(sandbox_id), auto_renew=auto_renew))

    def release(self, sandbox_id: str, *, generation: Optional[int] = None,
                destroy: bool = False) -> Sandbox:
        """Gives it back: kept for its thread, or destroyed."""
        return self._call(calls.release(sandbox_id, generation, destroy))

    def renew(self, sandbox_id: str, *, generation: Optional[int] = None,
              ttl_s: Optional[int] = None) -> Sandbox:
        """Pushes the lease's end to `ttl_s` from now."""
        return self._call(calls.renew(sandbox_id, generation, ttl_s))

    def get(self, sandbox_id: str, *, ask_backend: bool = False, stats: bool = False) -> Sandbox:
        """One sandbox. With ask_backend, `alive` is what the backend reports; None: it does not know. With stats, `stats` is
        what the box has used."""
        return self._call(calls.get(sandbox_id, ask_backend, stats))

    def destroy(self, sandbox_id: str, *, generation: Optional[int] = None,
                quick: bool = False) -> Sandbox:
        """Returns when it is gone; with quick, when it is certain to go."""
        return self._call(calls.destroy(sandbox_id, generation, quick))

    def list(self, *, state: Optional[str] = None, profile: Optional[str] = None,
             user_id: Optional[str] = None, thread_id: Optional[str] = None) -> Iterator[Sandbox]:
        """All sandboxes this caller may see, oldest first, read page by page."""
        cursor: Optional[str] = None
        while True:
            found, cursor = self._call(calls.page(
                cursor, state=state, profile=profile, user_id=user_id, thread_id=thread_id))
            yield from found
            if cursor is None:
                return

    # --- snapshots ---

    def snapshots(self) -> Iterator[Snapshot]:
        """Those of this caller, the oldest first, read page by page."""
        after: Optional[str] = None
        while True:
            found, after = self._call(calls.snapshots(after))
            yield from found
            if after is None:
                return

    def snapshot(self, snapshot_id: str) -> Snapshot:
        return self._call(calls.snapshot("GET", snapshot_id))

    def delete_snapshot(self, snapshot_id: str) -> Snapshot:
        """Sandboxes that were made from it are not affected."""
        return self._call(calls.snapshot("DELETE", snapshot_id))

    def export_snapshot(self, snapshot_id: str, local: snapshot_files.Path, *,
                        format: Optional[str] = None) -> int:
        """To one file of this machine, which appears when it is whole. Returns its size. `format`: "oci"
        for a container image, which engines load and import_snapshot() does not take."""
        return drive(snapshot_files.save(self._link, snapshot_id, local, format))

    def import_snapshot(self, local: snapshot_files.Path, *, name: Optional[str] = None,
                        profile: Optional[str] = None, any_base: bool = False) -> Snapshot:
        """A new snapshot of this caller from such a file. `name` and `profile` replace those in the
        file; `any_base`: also when it was made on another base than the profile has."""
        return drive(snapshot_files.load(self._link, local, name, profile, any_base))

    # --- the pool ---

    def pool(self) -> JSON:
        return self._call(calls.plain("GET", "/v1/pool"))

    def profiles(self) -> List[JSON]:
        """What profiles there are: what their boxes are like, and how each is doing."""
        return self._call(calls.profiles())

    def profile(self, name: str) -> JSON:
        return self._call(calls.profile(name))

    def quote(self, profile: Optional[str] = None, *, duration_s: Optional[int] = None) -> JSON:
        """What a lease of `duration_s` (an hour) would cost: `currency`, `parts`, `total` as a decimal number in a text and
        `total_micros` in millionths. None where the profile has no price."""
        return self._call(calls.price(profile, duration_s))

    def usage(self, **filters: object) -> JSON:
        """Metered time and what it cost: sums in `usage`, or with `intervals=1` single intervals, a page at a time (`limit`, `cursor`).
        Filters: `group_by` ("user,profile"), `user_id`, `thread_id`, `sandbox_id`, `profile`, `principal`, `since_ms`, `until_ms`."""
        return self._call(calls.usage(filters))

    def budgets(self, *, cursor: Optional[str] = None, limit: Optional[int] = None) -> JSON:
        """What users may spend, a page at a time: `budgets` and `next_cursor`. For operators, as the next three are."""
        return self._call(calls.budgets(cursor, limit))

    def budget(self, user_id: str) -> JSON:
        return self._call(calls.budget("GET", user_id))

    def set_budget(self, user_id: str, amount: Optional[str]) -> JSON:
        """An amount of its own for each period, a decimal number like "12.50"; None: the default of the configuration."""
        return self._call(calls.budget("PUT", user_id, body={"amount": wire.NULL if amount is None else amount}))

    def credit_budget(self, user_id: str, amount: str) -> JSON:
        """More for this period, on top of the amount."""
        return self._call(calls.budget("POST", user_id, "credit", body={"amount": amount}))

    def version(self) -> JSON:
        return self._call(calls.plain("GET", "/v1/version"))

    def pause(self) -> JSON:
        return self._call(calls.plain("POST", "/v1/pool/pause"))

    def resume(self) -> JSON:
        return self._call(calls.plain("POST", "/v1/pool/resume"))

    def drain(self, *, evict_parked: bool = False) -> JSON:
        return self._call(calls.plain("POST", "/v1/pool/drain", {"evict_parked": evict_parked}))

    def reconcile(self) -> JSON:
        return self._call(calls.plain("POST", "/v1/pool/reconcile"))

    def reload(self) -> JSON:
        return self._call(calls.plain("POST", "/v1/pool/reload"))

    def doctor(self) -> JSON:
        return self._call(calls.plain("GET", "/v1/doctor"))

    # --- one call ---

    def _call(self, call: "calls.Call[calls.T]") -> "calls.T":
        return drive(self._link.call(call))

    def send(self, data: bytes, timeout_s: float, is_safe: bool) -> wire.Answer:
        """One request as it is. A kept connection that turns out to be dead is replaced once."""
        return drive(self._link.send(data, timeout_s, is_safe))
