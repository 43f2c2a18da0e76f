"""Sandboxes for OpenEnv: its protocols `BgJob`, `SandboxHandle` and `SandboxBackend`, and boxes of a
sandpool daemon that implement them.

>>> backend = SandpoolBackend("/run/sandpool/sandpool.sock")
>>> sandbox = backend.create(timeout_s=900, envs={"KEY": "..."})
>>> sandbox.exec("python3 --version").stdout

What the protocols leave open: a command that took too long has exit code 124, what it wrote until
then, and a note at the end of stderr. One that was ended by a signal has 128 and the signal's
number. A box that is lost raises; it never looks like a command that ended. Variables go to the
program and never into its command line.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass
from typing import Dict, Optional, Protocol, runtime_checkable

from .client import Client
from .errors import SandboxLost, SandpoolError, TransportLost
from .results import RUNNING, SANDBOX_LOST, TRANSPORT_LOST, Ended
from .sync import Box, Job

TIMED_OUT = 124
OUTPUT_MAX = 64 * 1024 * 1024


# --- the protocols ---

@dataclass
class ExecResult:
    """What a command returned and wrote."""

    exit_code: int
    stdout: str
    stderr: str


@runtime_checkable
class BgJob(Protocol):
    """A program that runs in the background."""

    @property
    def pid(self) -> int:
        """In the sandbox."""

    def wait(self, timeout: Optional[float] = None) -> int:
        """Its exit code; TimeoutError when it still runs after that many seconds."""

    def kill(self) -> None:
        """Ends it; it may have ended already."""


@runtime_checkable
class SandboxHandle(Protocol):
    """One sandbox."""

    @property
    def sandbox_id(self) -> str:
        """Its name."""

    def exec(self, cmd: str, *, envs: Optional[Dict[str, str]] = None, cwd: Optional[str] = None,
             timeout: Optional[float] = 60) -> ExecResult:
        """Runs a command of the shell to its end."""

    def start_bg(self, cmd: str, *, envs: Optional[Dict[str, str]] = None,
                 cwd: Optional[str] = None) -> BgJob:
        """Starts one in the background."""

    def write_text(self, path: str, content: str) -> None:
        """Directories before it are made."""

    def read_text(self, path: str) -> str:
        """FileNotFoundError when there is no such file."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""

    def kill(self) -> None:
        """Ends the sandbox; it may have ended already."""


@runtime_checkable
class SandboxBackend(Protocol):
    """Makes sandboxes."""

    def create(self, *, timeout_s: int = 900, envs: Optional[Dict[str, str]] = None,
               metadata: Optional[Dict[str, str]] = None) -> SandboxHandle:
        """A new one, ready for use, for that many seconds."""


# --- with boxes of sandpool ---

def exit_code(end: Ended) -> int:
    """One number for how it ended. Raises when nobody knows."""
    if end.outcome == SANDBOX_LOST:
        raise SandboxLost(SANDBOX_LOST, end.message or "the sandbox died or was removed")
    if end.outcome in (TRANSPORT_LOST, RUNNING):
        raise TransportLost(TRANSPORT_LOST, end.message or "the end of the command was not seen")
    if end.outcome == "timed_out":
        return TIMED_OUT
    if end.exit_code is not None:
        return end.exit_code
    try:
        return 128 + signal.Signals[end.signal or "SIGKILL"]
    except KeyError:
        return 128 + signal.SIGKILL


class SandpoolJob:
    def __init__(self, job: Job) -> None:
        self._job = job

    @property
    def pid(self) -> int:
        return self._job.pid

    def wait(self, timeout: Optional[float] = None) -> int:
        return exit_code(self._job.wait(timeout))

    def kill(self) -> None:
        with contextlib.suppress(SandpoolError):
            self._job.kill()


class SandpoolHandle:
    def __init__(self, box: Box) -> None:
        self._box = box

    @property
    def sandbox_id(self) -> str:
        return self._box.sandbox_id

    @property
    def box(self) -> Box:
        """For all that the protocol has no call for."""
        return self._box

    def exec(self, cmd: str, *, envs: Optional[Dict[str, str]] = None, cwd: Optional[str] = None,
             timeout: Optional[float] = 60) -> ExecResult:
        result = self._box.run(cmd, env=envs, cwd=cwd, timeout_s=timeout, max_output=OUTPUT_MAX)
        code, stderr = exit_code(result), result.stderr
        if result.outcome == "timed_out":
            stderr += f"\n[timed out after {timeout} s]" if stderr else f"[timed out after {timeout} s]"
        return ExecResult(code, result.stdout, stderr)

    def start_bg(self, cmd: str, *, envs: Optional[Dict[str, str]] = None,
                 cwd: Optional[str] = None) -> SandpoolJob:
        return SandpoolJob(self._box.start(cmd, env=envs, cwd=cwd))

    def write_text(self, path: str, content: str) -> None:
        self._box.files.write(path, content)

    def read_text(self, path: str) -> str:
        return self._box.files.read_text(path)

    def exists(self, path: str) -> bool:
        return self._box.files.exists(path)

    def kill(self) -> None:
        with contextlib.suppress(SandpoolError):
            self._box.destroy()


class SandpoolBackend:
    """`address` and `token` as for `Client`; the profile decides what the boxes are like."""

    def __init__(self, address: Optional[str] = None, *, token: Optional[str] = None,
                 profile: Optional[str] = None, wait_s: float = 60.0) -> None:
        self._client = Client(address, token=token)
        self._profile = profile
        self._wait_s = wait_s

    def close(self) -> None:
        self._client.close()

    def create(self, *, timeout_s: int = 900, envs: Optional[Dict[str, str]] = None,
               metadata: Optional[Dict[str, str]] = None,
               image: Optional[str] = None) -> SandpoolHandle:
        """A box that belongs to nobody else and ends after `timeout_s`. `image` is not used: the
        profile has one."""
        return SandpoolHandle(self._client.acquire(
            profile=self._profile, wait_s=self._wait_s, ttl_s=timeout_s, idle_timeout_s=timeout_s,
            envs=envs, metadata=metadata, auto_renew=False))
