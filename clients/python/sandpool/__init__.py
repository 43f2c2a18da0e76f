"""Client of the sandpool daemon.

>>> from sandpool import Client
>>> with Client() as pool, pool.acquire("chat-17", user_id="ana") as box:
...     print(box.run("echo hello").stdout)

`AsyncClient` is the same for asyncio. `sandpool.openenv`, `sandpool.deerflow` and `sandpool.extension` have sandboxes for
OpenEnv, DeerFlow and sand-boxer.
"""

from .aio import AsyncBox, AsyncClient, AsyncJob, AsyncShell
from .client import Client
from .errors import (
    CommandFailed,
    ConnectionFailed,
    DeadlineExceeded,
    FileError,
    NotFound,
    ProtocolError,
    SandboxLost,
    SandpoolError,
    TransportLost,
)
from .results import Chunk, Ended, FileEvent, FileInfo, JobView, PortInfo, Response, Result, Spill
from .sync import Box, Files, Job, Port, Shell
from .types import Mount, Report, Sandbox, Snapshot, sandbox_id_of

__all__ = [
    "AsyncBox",
    "AsyncClient",
    "AsyncJob",
    "AsyncShell",
    "Box",
    "Chunk",
    "Client",
    "CommandFailed",
    "ConnectionFailed",
    "DeadlineExceeded",
    "Ended",
    "FileError",
    "FileEvent",
    "FileInfo",
    "Files",
    "Job",
    "JobView",
    "Mount",
    "NotFound",
    "Port",
    "PortInfo",
    "ProtocolError",
    "Report",
    "Response",
    "Result",
    "Sandbox",
    "SandboxLost",
    "SandpoolError",
    "Shell",
    "Snapshot",
    "Spill",
    "TransportLost",
    "sandbox_id_of",
]
