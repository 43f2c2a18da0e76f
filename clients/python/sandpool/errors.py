"""Everything a call can raise. The daemon's own codes are kept: `error.code` is what to test."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Dict, Optional, Type

if TYPE_CHECKING:
    from .results import Ended


class SandpoolError(Exception):
    """A call failed. `code` is the daemon's (`pool_exhausted`, `store_unavailable`, ...) or one of
    this package's own (`connect_failed`, `timeout`, `protocol`)."""

    def __init__(
        self,
        code: str,
        message: str,
        status: int = 0,
        retry_after_s: Optional[float] = None,
    ) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s
        self.path: Optional[str] = None  # of a file, where the error is about one

    @property
    def is_retryable(self) -> bool:
        """Whether the same call may succeed later."""
        if self.code == "transport_lost":
            return False  # the command may have been started
        return self.status in (408, 429, 502, 503, 504) or self.code in ("connect_failed", "timeout")


class ConnectionFailed(SandpoolError, ConnectionError):
    """The daemon cannot be reached, or hung up. `is_unsent`: nothing of the request left us."""

    is_unsent = False


class DeadlineExceeded(SandpoolError, TimeoutError):
    """No answer within the call's time."""


class ProtocolError(SandpoolError):
    """What answered is no sandpool daemon, or broke off."""


class BrokenOff(ProtocolError):
    """The answer had begun, and the connection ended in the middle of it."""


class NotFound(SandpoolError):
    """No such sandbox or job, or not the caller's."""


class SandboxLost(SandpoolError):
    """The sandbox died or was removed; acquire again."""


class TransportLost(SandpoolError):
    """The connection to the box broke; whether the call was done is not known."""


class CommandFailed(SandpoolError):
    """Raised by `check()`: the command did not exit with 0. `code` is its outcome, `result` the
    whole of it."""

    result: Optional["Ended"] = None


# --- files ---

class FileError(SandpoolError, OSError):
    """A call about files failed in the box; `path` is the file."""


class FileMissing(FileError, FileNotFoundError):
    pass


class PermissionDenied(FileError, PermissionError):
    pass


class IsDirectory(FileError, IsADirectoryError):
    pass


class NotDirectory(FileError, NotADirectoryError):
    pass


class FileIsThere(FileError, FileExistsError):
    pass


_BY_CODE: Dict[str, Type[SandpoolError]] = {
    "not_found": NotFound,
    "sandbox_lost": SandboxLost,
    "transport_lost": TransportLost,
    "file_not_found": FileMissing,
    "program_not_found": FileMissing,
    "permission_denied": PermissionDenied,
    "program_not_executable": PermissionDenied,
    "is_directory": IsDirectory,
    "not_directory": NotDirectory,
    "file_exists": FileIsThere,
    "not_empty": FileError,
    "not_regular": FileError,
    "no_space": FileError,
}


def finite(value: object) -> Optional[float]:
    """A number that can be reckoned with. Answers of boxes are not trusted, and Python reads JSON numbers of any size."""
    try:
        return value if isinstance(value, (int, float)) and math.isfinite(value) else None
    except OverflowError:
        return None


def from_answer(status: int, body: object) -> SandpoolError:
    """The error that an answer which is no success stands for."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return ProtocolError("protocol", f"answered {status} without a reason", status)
    code, message = str(error.get("code", "internal")), str(error.get("message", ""))
    after = finite(error.get("retry_after_ms"))
    retry = after / 1000 if after is not None else None
    raised = _BY_CODE.get(code, SandpoolError)(code, message, status, retry)
    if isinstance(error.get("path"), str):
        raised.path = error["path"]
    return raised
