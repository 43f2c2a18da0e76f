"""What the daemon reports of a sandbox, as plain data."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, Iterator, Mapping, Optional

from .errors import ProtocolError

JSON = Dict[str, Any]


def sandbox_id_of(user_id: str, thread_id: str) -> str:
    """The public id of a thread's sandbox: the same everywhere, for ever."""
    return hashlib.sha256(f"{user_id}:{thread_id}".encode()).hexdigest()[:16]


@contextmanager
def _reading(what: str, data: object) -> Iterator[JSON]:
    """The object that the daemon sent; what is wrong in it is its fault."""
    if not isinstance(data, dict):
        raise ProtocolError("protocol", f"a {what} must be an object")
    try:
        yield data
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError("protocol", f"a {what} without a good {error}") from None


@dataclass(frozen=True)
class Mount:
    """A file or directory of the daemon's machine that the box sees."""

    host_path: str
    container_path: str
    read_only: bool = False

    def to_json(self) -> JSON:
        return {
            "host_path": self.host_path,
            "container_path": self.container_path,
            "read_only": self.read_only,
        }


@dataclass(frozen=True)
class Snapshot:
    """The files of a box, kept. Memory and processes are not part of it."""

    snapshot_id: str
    name: str
    profile: str
    parent: Optional[str]  # the snapshot that its box was made from
    sandbox_id: Optional[str]
    user_id: Optional[str]
    thread_id: Optional[str]
    created_at: Optional[datetime]
    size_bytes: int
    digest: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    layers: Optional[int] = None
    last_used_at: Optional[datetime] = None

    @classmethod
    def from_json(cls, data: object) -> "Snapshot":
        with _reading("snapshot", data) as given:
            return cls(
                snapshot_id=str(given["snapshot_id"]),
                name=str(given["name"]),
                profile=str(given["profile"]),
                parent=_text(given, "parent"),
                sandbox_id=_text(given, "sandbox_id"),
                user_id=_text(given, "user_id"),
                thread_id=_text(given, "thread_id"),
                created_at=read_time(given, "created_at"),
                size_bytes=int(given["size_bytes"]),
                digest=str(given["digest"]),
                metadata=given.get("metadata") or {},
                layers=given.get("layers"),
                last_used_at=read_time(given, "last_used_at"),
            )


@dataclass(frozen=True)
class Report:
    """What the end of a box has released, and what it has used. None: not known."""

    text: str
    processes: Optional[int] = None  # that were ended; 0: all had ended before
    mounts: Optional[int] = None
    layers: Optional[int] = None
    bytes: Optional[int] = None  # of the disk
    lived_s: Optional[float] = None
    # leased_ms, parked_ms, paused_ms; and, as far as they are counted, cpu_ms, memory_mb_s, net_in_bytes, net_out_bytes,
    # disk_read_bytes, disk_write_bytes
    usage: Optional[Dict[str, int]] = None
    currency: Optional[str] = None
    cost: Optional[str] = None
    cost_micros: Optional[int] = None  # millionths of the currency

    @classmethod
    def from_json(cls, data: object) -> "Report":
        with _reading("report", data) as given:
            return cls(
                text=str(given["text"]),
                processes=_count(given, "processes"),
                mounts=_count(given, "mounts"),
                layers=_count(given, "layers"),
                bytes=_count(given, "bytes"),
                lived_s=_number(given, "lived_s"),
                usage=_counts(given, "usage"),
                currency=_text(given, "currency"),
                cost=_text(given, "cost"),
                cost_micros=_count(given, "cost_micros"),
            )


@dataclass(frozen=True)
class Sandbox:
    """One box. `token` is shown to its owner only, and stays out of repr()."""

    sandbox_id: Optional[str]
    generation: int
    box_id: str
    state: str
    profile: str
    user_id: Optional[str]
    thread_id: Optional[str]
    sandbox_url: Optional[str]
    created_at: Optional[datetime]
    expires_at: Optional[datetime]
    token: Optional[str] = field(default=None, repr=False)
    source: Optional[str] = None
    alive: Optional[bool] = None
    why: Optional[str] = None
    report: Optional[Report] = None  # when it was destroyed
    metadata: Mapping[str, Any] = field(default_factory=dict)
    ends_at: Optional[datetime] = None
    ends_by: Optional[str] = None
    paused: bool = False
    ends_in_s: Optional[float] = None  # as the daemon counts: its clock may differ from ours
    # of get(stats=True): cpu_ms, memory_bytes, net_in_bytes, net_out_bytes, disk_read_bytes, disk_write_bytes, as far as
    # they are counted; None: not known
    stats: Optional[Dict[str, int]] = None

    @property
    def headers(self) -> Dict[str, str]:
        """What a request to `sandbox_url` must carry."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @classmethod
    def from_json(cls, data: object) -> "Sandbox":
        with _reading("sandbox", data) as given:
            return cls(
                sandbox_id=_text(given, "sandbox_id"),
                generation=int(given["generation"]),
                box_id=str(given["box_id"]),
                state=str(given["state"]),
                profile=str(given["profile"]),
                user_id=_text(given, "user_id"),
                thread_id=_text(given, "thread_id"),
                sandbox_url=_text(given, "sandbox_url"),
                created_at=read_time(given, "created_at"),
                expires_at=read_time(given, "expires_at"),
                token=_text(given, "token"),
                source=_text(given, "source"),
                paused=given.get("paused") is True,
                alive=given.get("alive") if isinstance(given.get("alive"), bool) else None,
                why=_text(given, "why"),
                report=Report.from_json(given["report"]) if given.get("report") is not None else None,
                metadata=given.get("metadata") or {},
                ends_at=read_time(given, "ends_at"),
                ends_by=_text(given, "ends_by"),
                ends_in_s=_number(given, "ends_in_s"),
                stats=_counts(given, "stats"),
            )


def _text(data: JSON, key: str) -> Optional[str]:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(key)
    return value


def _count(data: JSON, key: str) -> Optional[int]:
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _counts(data: JSON, key: str) -> Optional[Dict[str, int]]:
    value = data.get(key)
    return {name: n for name, n in value.items() if isinstance(n, int)} if isinstance(value, dict) else None


def _number(data: JSON, key: str) -> Optional[float]:
    value = data.get(key)
    return float(value) if isinstance(value, (int, float)) else None


def read_time(data: JSON, key: str) -> Optional[datetime]:
    text = _text(data, key)
    if text is None:
        return None
    # fromisoformat() of Python 3.9 and 3.10 knows no "Z" and wants 3 or 6 digits of a second.
    whole, _, fraction = text.rstrip("Z").partition(".")
    moment = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc)
    return moment.replace(microsecond=int((fraction + "000000")[:6])) if fraction else moment
