"""What the daemon reports of a sandbox, as plain data."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, Mapping, Optional

from .errors import ProtocolError

JSON = Dict[str, Any]


def sandbox_id_of(user_id: str, thread_id: str) -> str:
    """The public id of a thread's sandbox: the same everywhere, for ever."""
    return hashlib.sha256(f"{user_id}:{thread_id}".encode()).hexdigest()[:16]


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

    @classmethod
    def from_json(cls, data: object) -> "Snapshot":
        if not isinstance(data, dict):
            raise ProtocolError("protocol", "a snapshot must be an object")
        try:
            return cls(
                snapshot_id=str(data["snapshot_id"]),
                name=str(data["name"]),
                profile=str(data["profile"]),
                parent=_text(data, "parent"),
                sandbox_id=_text(data, "sandbox_id"),
                user_id=_text(data, "user_id"),
                thread_id=_text(data, "thread_id"),
                created_at=read_time(data, "created_at"),
                size_bytes=int(data["size_bytes"]),
                digest=str(data["digest"]),
                metadata=data.get("metadata") or {},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError("protocol", f"a snapshot without a good {error}") from None


@dataclass(frozen=True)
class Report:
    """What the end of a box has released. None: not known."""

    text: str
    processes: Optional[int] = None  # that were ended; 0: all had ended before
    mounts: Optional[int] = None
    layers: Optional[int] = None
    bytes: Optional[int] = None  # of the disk
    lived_s: Optional[float] = None

    @classmethod
    def from_json(cls, data: object) -> "Report":
        if not isinstance(data, dict):
            raise ValueError("report")
        return cls(
            text=str(data["text"]),
            processes=_count(data, "processes"),
            mounts=_count(data, "mounts"),
            layers=_count(data, "layers"),
            bytes=_count(data, "bytes"),
            lived_s=_number(data, "lived_s"),
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

    @property
    def headers(self) -> Dict[str, str]:
        """What a request to `sandbox_url` must carry."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @classmethod
    def from_json(cls, data: object) -> "Sandbox":
        if not isinstance(data, dict):
            raise ProtocolError("protocol", "a sandbox must be an object")
        try:
            return cls(
                sandbox_id=_text(data, "sandbox_id"),
                generation=int(data["generation"]),
                box_id=str(data["box_id"]),
                state=str(data["state"]),
                profile=str(data["profile"]),
                user_id=_text(data, "user_id"),
                thread_id=_text(data, "thread_id"),
                sandbox_url=_text(data, "sandbox_url"),
                created_at=read_time(data, "created_at"),
                expires_at=read_time(data, "expires_at"),
                token=_text(data, "token"),
                source=_text(data, "source"),
                paused=data.get("paused") is True,
                alive=data.get("alive") if isinstance(data.get("alive"), bool) else None,
                why=_text(data, "why"),
                report=Report.from_json(data["report"]) if data.get("report") is not None else None,
                metadata=data.get("metadata") or {},
                ends_at=read_time(data, "ends_at"),
                ends_by=_text(data, "ends_by"),
                ends_in_s=_number(data, "ends_in_s"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError("protocol", f"a sandbox without a good {error}") from None


def _text(data: JSON, key: str) -> Optional[str]:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(key)
    return value


def _count(data: JSON, key: str) -> Optional[int]:
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


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
