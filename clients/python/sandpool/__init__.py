"""Client of the sandpool daemon.

>>> from sandpool import Client
>>> with Client() as pool, pool.acquire("thread-1") as box:
...     print(box.sandbox_url)

`AsyncClient` is the same for asyncio. `sandpool.deerflow` has a sandbox backend for DeerFlow.
"""

from .aio import AsyncClient, AsyncLease
from .client import Client, Lease
from .errors import (
    ConnectionFailed,
    DeadlineExceeded,
    NotFound,
    ProtocolError,
    SandboxLost,
    SandpoolError,
)
from .types import Mount, Sandbox, sandbox_id_of

__all__ = [
    "AsyncClient",
    "AsyncLease",
    "Client",
    "ConnectionFailed",
    "DeadlineExceeded",
    "Lease",
    "Mount",
    "NotFound",
    "ProtocolError",
    "Sandbox",
    "SandboxLost",
    "SandpoolError",
    "sandbox_id_of",
]
