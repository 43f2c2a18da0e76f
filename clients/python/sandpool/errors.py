"""Everything a call can raise. The daemon's own codes are kept: `error.code` is what to test."""

from __future__ import annotations

from typing import Dict, Optional, Type


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

    @property
    def is_retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.status in (408, 429, 502, 503, 504) or self.code in ("connect_failed", "timeout")


class ConnectionFailed(SandpoolError, ConnectionError):
    """The daemon cannot be reached, or hung up."""


class DeadlineExceeded(SandpoolError, TimeoutError):
    """No answer within the call's time."""


class ProtocolError(SandpoolError):
    """What answered is no sandpool daemon, or broke off."""


class NotFound(SandpoolError):
    """No such sandbox, or not the caller's."""


class SandboxLost(SandpoolError):
    """The sandbox died or was removed; acquire again."""


_BY_CODE: Dict[str, Type[SandpoolError]] = {"not_found": NotFound, "sandbox_lost": SandboxLost}


def from_answer(status: int, body: object) -> SandpoolError:
    """The error that an answer which is no success stands for."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return ProtocolError("protocol", f"answered {status} without a reason", status)
    code, message = str(error.get("code", "internal")), str(error.get("message", ""))
    after = error.get("retry_after_ms")
    retry = after / 1000 if isinstance(after, (int, float)) else None
    return _BY_CODE.get(code, SandpoolError)(code, message, status, retry)
