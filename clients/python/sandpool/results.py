"""What commands, jobs, files and ports of a box are, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Dict, List, Optional, TypeVar

from .errors import CommandFailed, ProtocolError, finite
from .types import JSON, read_time

E = TypeVar("E", bound="Ended")

RUNNING = "running"
SANDBOX_LOST = "sandbox_lost"
TRANSPORT_LOST = "transport_lost"


@dataclass(frozen=True)
class Ended:
    """How a command ended. `outcome` is one of exited, signalled, timed_out, killed, oom,
    sandbox_lost (the box died or was removed) and transport_lost (nobody knows how it went on);
    of a job that goes on, running. `exit_code` is None unless it exited; `signal` is the name of
    the one that ended it. `duration` is in seconds."""

    outcome: str
    exit_code: Optional[int] = None
    signal: Optional[str] = None
    duration: float = 0.0
    job: Optional[str] = None
    message: Optional[str] = None

    @property
    def ok(self) -> bool:
        return self.outcome == "exited" and self.exit_code == 0

    def check(self: E) -> E:
        """Returns itself, or raises CommandFailed when the command did not exit with 0."""
        if self.ok:
            return self
        text = self._text()
        error = CommandFailed(self.outcome, f"{text}: {self.message}" if self.message else text)
        error.result = self
        raise error

    def _text(self) -> str:
        if self.outcome == "exited":
            return f"the command exited with {self.exit_code}"
        if self.outcome == "signalled":
            return f"the command was ended by {self.signal}"
        return f"the command ended: {self.outcome}"


@dataclass(frozen=True)
class Spill:
    """Where the whole output is when a result has not all of it: `box.job(spill.job).output()`."""

    job: str
    stdout_bytes: int
    stderr_bytes: int


@dataclass(frozen=True)
class Result(Ended):
    """What a command wrote, too. `truncated`: the middle is missing in stdout or stderr."""

    stdout_raw: bytes = b""
    stderr_raw: bytes = b""
    truncated: bool = False
    spill: Optional[Spill] = None

    @property
    def stdout(self) -> str:
        return self.stdout_raw.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_raw.decode("utf-8", "replace")

    def _text(self) -> str:
        last = self.stderr.strip()[-500:]
        return f"{super()._text()}: {last}" if last else super()._text()


@dataclass(frozen=True)
class JobView(Ended):
    """A job as the box shows it."""

    pid: int = 0
    command: str = ""
    tag: Optional[str] = None
    pty: bool = False
    started_at: Optional[datetime] = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0

    @property
    def is_running(self) -> bool:
        return self.outcome == RUNNING

    @classmethod
    def from_json(cls, data: Any) -> "JobView":
        if not isinstance(data, dict) or not isinstance(data.get("outcome"), str):
            raise ProtocolError("protocol", "a job must be an object with an outcome")
        code = data.get("exit_code")
        is_exited = data["outcome"] == "exited"
        if is_exited and (not isinstance(code, int) or isinstance(code, bool)):
            raise ProtocolError("protocol", "a job that exited must have an exit code")
        return cls(
            outcome=data["outcome"], exit_code=code if is_exited else None,
            signal=_text(data, "signal"), duration=_number(data, "duration_ms") / 1000,
            job=_text(data, "job"), message=_text(data, "message"),
            pid=int(_number(data, "pid")), command=_text(data, "command") or "",
            tag=_text(data, "tag"), pty=data.get("pty") is True,
            started_at=_moment(data, "started_at"),
            stdout_bytes=int(_number(data, "stdout_bytes")),
            stderr_bytes=int(_number(data, "stderr_bytes")))


@dataclass(frozen=True)
class Chunk:
    """A piece of output. `stream` is stdout or stderr (of a terminal: stdout), `offset` where it
    stands in that stream. `skipped`: so many bytes before it were dropped by the box."""

    stream: str
    offset: int
    data: bytes
    skipped: int = 0

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


# --- files ---

@dataclass(frozen=True)
class FileInfo:
    """`type` is file, directory, symlink or other; `mode` the permission bits."""

    name: str
    path: str
    type: str
    size: int
    mode: int
    uid: int
    gid: int
    mtime: Optional[datetime]
    target: Optional[str] = None

    @classmethod
    def from_json(cls, data: Any) -> "FileInfo":
        if not isinstance(data, dict) or not isinstance(data.get("path"), str):
            raise ProtocolError("protocol", "an entry must be an object with a path")
        try:
            mode = int(_text(data, "mode") or "0", 8)
        except ValueError:
            raise ProtocolError("protocol", "a mode must be octal") from None
        return cls(
            name=_text(data, "name") or "", path=data["path"], type=_text(data, "type") or "other",
            size=int(_number(data, "size")), mode=mode, uid=int(_number(data, "uid")),
            gid=int(_number(data, "gid")), mtime=_moment(data, "mtime"),
            target=_text(data, "target"))


class Listing(List[FileInfo]):
    """The entries of a directory. `truncated`: there are more than the limit allowed."""

    truncated = False


@dataclass(frozen=True)
class FileEvent:
    """A change: `event` is created, modified, deleted, moved (then `to` is the new path), or
    overflow: some changes were not seen, look for yourself."""

    event: str
    path: str
    to: Optional[str] = None
    type: Optional[str] = None

    @classmethod
    def from_json(cls, data: JSON) -> "FileEvent":
        return cls(str(data.get("event")), _text(data, "path") or "", _text(data, "to"), _text(data, "type"))


# --- ports ---

@dataclass(frozen=True)
class PortInfo:
    """What listens in the box."""

    port: int
    address: str
    pid: Optional[int]
    command: Optional[str]

    @classmethod
    def from_json(cls, data: Any) -> "PortInfo":
        if not isinstance(data, dict) or not isinstance(data.get("port"), int):
            raise ProtocolError("protocol", "a port must be an object with a number")
        pid = data.get("pid")
        return cls(data["port"], _text(data, "address") or "", pid if isinstance(pid, int) else None,
                   _text(data, "command"))


@dataclass(frozen=True)
class Response:
    """What a server in the box answered. Names of headers are in lower case."""

    status: int
    headers: Dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def _text(data: JSON, key: str) -> Optional[str]:
    value = data.get(key)
    return value if isinstance(value, str) else None


def _number(data: JSON, key: str) -> float:
    return finite(data.get(key)) or 0


def _moment(data: JSON, key: str) -> Optional[datetime]:
    try:
        return read_time(data, key)
    except ValueError:
        return None
