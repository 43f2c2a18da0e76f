"""Boxes of a sandpool daemon for sand-boxer: an extension with the contract of its `SandboxExtension`.

>>> extension = SandpoolExtension({"address": "/run/sandpool/sandpool.sock"})
>>> handle = extension.provision(profile, {"thread_id": "chat-17", "env.KEY": key}, "sandboxer01")
>>> extension.wait_ready(handle)["sandbox_url"]
>>> extension.teardown(handle)["outcome"]
'destroyed'

Where the package `sandboxer` is installed, `SandpoolExtension` is a subclass of its base class; elsewhere of the one
here, which has the same methods. A handle is a flat dictionary of texts: it may be stored and used by another process,
and nothing in it is secret. Above all not the box's own token: every call goes through the daemon, which knows its
callers by themselves.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import threading
import time
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Union

from .client import Client
from .errors import NotFound, SandboxLost, SandpoolError
from .sync import Box
from .types import Report, Sandbox

Texts = Dict[str, str]

DEFAULT_WAIT_S = 60.0
LEASE_MAX_S = 30 * 24 * 3600  # as the daemon has it
PAUSE_S = 0.1
WORKSPACE = "/workspace"
SNAPSHOT_BACKENDS = ("oci", "docker")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MIB = 1024 * 1024


# --- the contract ---

@dataclass(frozen=True)
class MeterQuote:
    """What a sandbox would cost: for those who have no class of their own for it."""

    estimate_usd: float
    duration_s: int
    usd_per_hour: float


class SandboxExtension(ABC):
    """The contract, for programs without the package `sandboxer`."""

    def __init__(self, config: Optional[Dict[str, Any]] = None) -> None:
        self.config: Dict[str, Any] = config or {}

    @staticmethod
    def new_sandbox_id(inputs: Texts) -> str:
        """The id that the inputs ask for, or a new one."""
        return inputs.get("sandbox_id") or uuid.uuid4().hex[:8]

    @abstractmethod
    def provision(self, profile: Any, inputs: Texts, host: str) -> Texts:
        """Makes a sandbox, or takes up the one that has this id. Returns its handle."""

    @abstractmethod
    def wait_ready(self, handle: Texts) -> Texts:
        """Returns how it is reached, when it can be."""

    @abstractmethod
    def teardown(self, handle: Texts) -> Texts:
        """Ends it. Returns what was cleaned up."""

    def estimate_cost(self, profile: Any, inputs: Texts, *, duration_s: int = 3600) -> Optional[Any]:
        """A quote, before anything is made; None: it costs nothing."""
        return None

    def meter_actual(self, handle: Texts, *, duration_s: float) -> Optional[float]:
        """What it has cost, in USD, after its end; None: not known."""
        return None

    def supports_snapshots(self) -> bool:
        return False

    def snapshot(self, handle: Texts) -> Texts:
        """Keeps its files. Returns what restore_from_snapshot() needs, `snapshot_id` among it."""
        raise NotImplementedError(f"{type(self).__name__} has no snapshots")

    def restore_from_snapshot(self, profile: Any, snapshot_meta: Texts, inputs: Texts, host: str) -> Texts:
        """A new sandbox with the files of a snapshot. Returns its handle."""
        raise NotImplementedError(f"{type(self).__name__} has no snapshots")


def _installed(module: str, name: str, otherwise: Any) -> Any:
    """What the package `sandboxer` has by this name, if it is there. One that is broken is not taken for missing."""
    try:
        return getattr(importlib.import_module(module), name, otherwise)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sandboxer":
            raise
        return otherwise


if TYPE_CHECKING:
    _Base = SandboxExtension
else:
    _Base = _installed("sandboxer.extensions.base", "SandboxExtension", SandboxExtension)


# --- with boxes of sandpool ---

class SandpoolExtension(_Base):
    """`config`, all of it optional:

    address     the daemon's, as for `Client`; `hosts` has other ones by the name of the host
    token_env   name of the variable with the token for a daemon on TCP
    profile     the daemon's profile; `profiles` has it by the id of the manager's profile
    network     `any`: the profile's rules about the network are not checked
    wait_s      how long a box may be waited for (60)
    usd_rates   what one unit of another currency is in USD: {"EUR": "1.08"}
    """

    def __init__(self, config: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(config)
        self._clients: Dict[Optional[str], Client] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Closes the connections that are kept."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def client(self, host: str) -> Client:
        """Of the daemon that serves this host, for all that the contract has no call for."""
        address = _table(self.config, "hosts").get(host, self.config.get("address"))
        name = self.config.get("token_env")
        with self._lock:
            if address not in self._clients:
                self._clients[address] = Client(address, token=os.environ.get(str(name)) if name else None)
            return self._clients[address]

    def box(self, handle: Texts) -> Box:
        """The sandbox of a handle, for commands, files and ports."""
        client, found = self._find(handle)
        return client.open(f"box:{found.box_id}")

    # --- its life ---

    def provision(self, profile: Any, inputs: Texts, host: str) -> Texts:
        return self._acquire(profile, inputs, host, None)

    def _acquire(self, profile: Any, inputs: Texts, host: str, snapshot_id: Optional[str]) -> Texts:
        thread = inputs.get("thread_id")
        # With a thread the id follows from it; an id alone is a thread, too, so that the same inputs get the same box.
        asked = inputs.get("sandbox_id") if thread else self.new_sandbox_id(inputs)
        ttl_s, idle_s = _lifetime(profile, inputs)
        box = self.client(host).acquire(
            thread, user_id=inputs.get("user_id"), sandbox_id=asked, profile=self._profile(profile),
            wait_s=self._wait_s(), ttl_s=ttl_s, idle_timeout_s=idle_s, envs=_prefixed(inputs, "env."),
            limits=_limits(profile), metadata=_metadata(profile, inputs), network=self._network(profile),
            snapshot_id=snapshot_id, auto_renew=False)
        return _handle(box.sandbox, host)

    def wait_ready(self, handle: Texts) -> Texts:
        """It was ready when it was handed out: this asks its backend whether it still lives."""
        deadline = time.monotonic() + self._wait_s()
        while True:
            client, found = self._find(handle, ask_backend=True)
            if found.alive is False:
                raise SandboxLost("sandbox_lost", f"sandbox {handle['sandbox_id']} has died", 410)
            if found.alive:
                return _texts(sandbox_id=found.sandbox_id, sandbox_url=found.sandbox_url, remote_dir=WORKSPACE,
                              api=str(client.address), state=found.state, expires_at=_moment(found, "expires_at"))
            if time.monotonic() >= deadline:
                raise SandpoolError("backend_unavailable", "the backend does not say whether the sandbox lives", 503)
            time.sleep(PAUSE_S)

    def teardown(self, handle: Texts) -> Texts:
        """`outcome` is destroyed; gone: it was over already; lost: it had died, and `why` says how; replaced: its id has
        a newer box, which is left alone."""
        report = {"sandbox_id": handle["sandbox_id"], "host": handle["host"]}
        try:
            ended = self.client(handle["host"]).destroy(handle["sandbox_id"], generation=int(handle["generation"]))
        except NotFound:
            return {**report, "outcome": "gone"}
        except SandboxLost as error:
            return {**report, "outcome": "lost", "why": error.message}
        except SandpoolError as error:
            if error.code != "stale_generation":
                raise
            return {**report, "outcome": "replaced"}
        # What was destroyed a moment ago is still shown.
        counts = ended.report or Report(text="")
        return {**report, **_texts(outcome="destroyed", why=ended.why, released=counts.text or None,
                                   processes=counts.processes, mounts=counts.mounts, layers=counts.layers,
                                   bytes=counts.bytes, lived_s=counts.lived_s, currency=counts.currency, cost=counts.cost,
                                   created_at=_moment(ended, "created_at"))}

    def _find(self, handle: Texts, ask_backend: bool = False) -> "tuple[Client, Sandbox]":
        client = self.client(handle["host"])
        found = client.get(handle["sandbox_id"], ask_backend=ask_backend)
        if found.generation != int(handle["generation"]):
            raise SandboxLost("sandbox_lost", f"sandbox {handle['sandbox_id']} was replaced by another box", 410)
        return client, found

    # --- what it costs ---

    def estimate_cost(self, profile: Any, inputs: Texts, *, duration_s: int = 3600) -> Optional[Any]:
        """By the price of the daemon's profile, without what is paid by use; None where it has none."""
        quote = self.client(inputs.get("host", "")).quote(self._profile(profile), duration_s=int(duration_s))
        if quote.get("currency") is None:
            return None
        total = self._usd(quote["currency"], quote["total_micros"])
        hourly = total * 3600 / duration_s if duration_s > 0 else 0.0
        return make_quote(_installed("sandboxer.models", "MeterQuote", MeterQuote), total, int(duration_s), hourly)

    def meter_actual(self, handle: Texts, *, duration_s: float) -> Optional[float]:
        """By the daemon's own clock, not by `duration_s`; None where the profile has no price or the daemon measures nothing."""
        client = self.client(handle["host"])
        costs: Dict[str, int] = {}
        cursor: Optional[str] = None
        while True:
            try:
                page = client.usage(intervals=1, sandbox_id=handle["sandbox_id"], cursor=cursor)
            except NotFound:
                return None  # an older daemon
            for one in page.get("intervals") or []:
                # The id may have had other boxes, too.
                if one["box_id"] == handle["box_id"] and one["currency"] is not None:
                    costs[one["currency"]] = costs.get(one["currency"], 0) + int(one["cost_micros"])
            cursor = page.get("next_cursor")
            if cursor is None:
                return sum(self._usd(*cost) for cost in costs.items()) if costs else None

    def _usd(self, currency: str, micros: int) -> float:
        rates = _table(self.config, "usd_rates")
        if currency != "USD" and currency not in rates:
            raise SandpoolError("unsupported", f"prices of the daemon are in {currency}: give usd_rates in the "
                                               "configuration of the extension")
        rate = Decimal(1) if currency == "USD" else Decimal(str(rates[currency]))
        return float(Decimal(micros) / 1000000 * rate)

    # --- snapshots ---

    def supports_snapshots(self) -> bool:
        """Whether the daemon has a profile whose boxes can be kept."""
        return any(one.get("backend") in SNAPSHOT_BACKENDS for one in self.client("").profiles())

    def snapshot(self, handle: Texts) -> Texts:
        """The sandbox goes on. Memory and processes are not kept."""
        kept = self.box(handle).snapshot(metadata={"sandbox_id": handle["sandbox_id"]})
        return _texts(snapshot_id=kept.snapshot_id, sandbox_id=handle["sandbox_id"], host=handle["host"],
                      profile=kept.profile, parent=kept.parent, size_bytes=str(kept.size_bytes), digest=kept.digest,
                      created_at=_moment(kept, "created_at"), memory="false")

    def restore_from_snapshot(self, profile: Any, snapshot_meta: Texts, inputs: Texts, host: str) -> Texts:
        """Always a new sandbox: inputs that name the one of the snapshot get another id."""
        if self.client(snapshot_meta.get("host", host)) is not self.client(host):
            raise SandpoolError("unsupported", f"snapshot {snapshot_meta['snapshot_id']} is on host {snapshot_meta['host']}")
        inputs = dict(inputs)
        if inputs.get("sandbox_id") == snapshot_meta.get("sandbox_id"):
            inputs.pop("sandbox_id", None)
        return self._acquire(profile, inputs, host, snapshot_meta["snapshot_id"])

    # --- the manager's profile in ours ---

    def _wait_s(self) -> float:
        return float(self.config.get("wait_s", DEFAULT_WAIT_S))

    def _profile(self, profile: Any) -> Optional[str]:
        """By the table of the configuration, by the profile's own metadata, else one for all; None: the daemon's own."""
        name = str(_field(profile, "id") or _field(profile, "name") or "")
        found = _table(self.config, "profiles").get(name) or _field(_field(profile, "metadata"), "sandpool_profile") \
            or self.config.get("profile")
        return None if found is None else str(found)

    def _network(self, profile: Any) -> Optional[str]:
        """A profile that denies all is served by boxes without a network only; what cannot be promised is refused."""
        rules = _field(profile, "network")
        if rules is None or self.config.get("network") == "any":
            return None
        if _field(rules, "default") != "deny":
            return None
        if _field(rules, "egress"):
            raise SandpoolError("unsupported", "boxes have no list of destinations they may reach: `network: any` in the "
                                               "configuration of the extension leaves it to the daemon's profile")
        return "none"


def make_quote(kind: Callable[..., Any], total: float, duration_s: int, hourly: float) -> Any:
    """One of the manager's own class, by the names of its fields; ours where it wants more than we know."""
    known: Dict[str, Any] = {"duration_s": duration_s, "currency": "USD"}
    known.update(dict.fromkeys(("estimate_usd", "amount_usd", "total_usd", "cost_usd", "usd", "amount", "total"), total))
    known.update(dict.fromkeys(("usd_per_hour", "rate_usd_per_hour", "hourly_usd", "rate_per_hour_usd", "rate"), hourly))
    with contextlib.suppress(TypeError, ValueError):
        wanted = inspect.signature(kind).parameters
        return kind(**{name: value for name, value in known.items() if name in wanted})
    return MeterQuote(total, duration_s, hourly)


def _handle(box: Sandbox, host: str) -> Texts:
    return _texts(sandbox_id=box.sandbox_id, host=host, generation=str(box.generation), box_id=box.box_id,
                  profile=box.profile, user_id=box.user_id, thread_id=box.thread_id, source=box.source,
                  created_at=_moment(box, "created_at"), expires_at=_moment(box, "expires_at"))


def _texts(**fields: Union[str, int, float, None]) -> Texts:
    return {key: str(value) for key, value in fields.items() if value is not None}


def _moment(of: Any, name: str) -> Optional[str]:
    moment = getattr(of, name)
    return None if moment is None else str(moment.isoformat())


def _field(of: Any, name: str) -> Any:
    """Of an object or a mapping; None when it is not there."""
    return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)


def _table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def _prefixed(inputs: Texts, prefix: str) -> Optional[Texts]:
    return {key[len(prefix):]: value for key, value in inputs.items() if key.startswith(prefix)} or None


def _metadata(profile: Any, inputs: Texts) -> Texts:
    name = _field(profile, "id") or _field(profile, "name")
    return {**({"profile_id": str(name)} if name else {}), **(_prefixed(inputs, "metadata.") or {})}


def _limits(profile: Any) -> Optional[Dict[str, Any]]:
    resources = _field(profile, "resources")
    memory_mb, cpus, pids = (_field(resources, name) for name in ("memory_mb", "cpu", "pids"))
    limits: Dict[str, Any] = {} if memory_mb is None else {"memory": int(float(memory_mb) * MIB)}
    if cpus is not None:
        limits["cpus"] = float(cpus)
    if pids is not None:
        limits["pids"] = int(pids)
    return limits or None


def _lifetime(profile: Any, inputs: Texts) -> "tuple[Optional[int], Optional[int]]":
    """How long the lease lasts, and how long it may be idle. The manager ends a sandbox by teardown() and may extend its
    time up to the profile's maximum without a call to anybody: so the lease lasts for the maximum."""
    times = _field(profile, "ttl")
    texts = (_field(times, "max"), inputs.get("ttl"), _field(times, "default"))
    lease_s = next((_seconds(text) for text in texts if text is not None), None)
    idle = _field(times, "idle_reap")
    return lease_s, lease_s if idle is None else _seconds(idle)


def _seconds(text: object) -> int:
    """`90`, `90s`, `15m`, `4h`, `2d`; at most what the daemon allows."""
    found = re.fullmatch(r"\s*(\d+)\s*([smhd]?)\s*", str(text))
    if found is None or int(found.group(1)) == 0:
        raise ValueError(f"no duration: {text!r} (a number above 0 and s, m, h or d)")
    return min(int(found.group(1)) * UNITS[found.group(2) or "s"], LEASE_MAX_S)
