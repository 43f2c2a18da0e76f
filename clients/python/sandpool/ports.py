"""Servers inside a box: requests to them, raw connections, and ports of this machine that lead to
them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple, Type, Union
from urllib.parse import quote

from . import calls
from .errors import SandpoolError, from_answer
from .events import parse
from .jobs import Held
from .link import Bytes, Upgraded
from .results import PortInfo, Response
from .transport import Late

BODY_MAX = 64 * 1024 * 1024
FORWARD_MAX = 64  # connections at a time
OWN_ERRORS = ("port_closed", "sandbox_lost", "transport_lost", "not_found", "not_leased",
              "too_many_calls", "unsupported", "timeout")


class AsyncTunnel:
    """Bytes to and from a port of the box."""

    def __init__(self, upgraded: Upgraded) -> None:
        self._upgraded = upgraded

    async def send(self, data: bytes) -> None:
        await self._upgraded.conn.send(data, None)

    async def recv(self) -> bytes:
        """b"" is the end."""
        return await self._upgraded.recv(None)

    def shut(self) -> None:
        """Nothing more will be sent."""
        self._upgraded.conn.shut()

    def close(self) -> None:
        self._upgraded.conn.close()


class AsyncPort:
    """One port of the box's own loopback. It may have no network otherwise."""

    def __init__(self, ports: "AsyncPorts", number: int) -> None:
        if not 0 < number < 65536:
            raise ValueError(f"{number} is not a port")
        self._ports = ports
        self._held = ports.held
        self.number = number

    @property
    def url(self) -> str:
        """For any HTTP client that sends `headers`. Over TCP: where the daemon serves it. Over a
        Unix socket: a port of this machine, as by forward(), until the box is released; everybody
        on this machine can use it."""
        return self.daemon_url or self._ports.kept(self.number).url

    @property
    def daemon_url(self) -> Optional[str]:
        """Where the daemon serves it; None over a Unix socket."""
        address = self._held.link.address
        return f"{address}{self._where('')}" if address.unix_path is None else None

    @property
    def headers(self) -> Dict[str, str]:
        """What a request to `url` must carry; the server in the box does not see it."""
        token = self._held.link.token if self._held.link.address.unix_path is None else None
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def request(self, method: str = "GET", path: str = "/", *,
                      body: Union[str, bytes, None] = None,
                      headers: Optional[Mapping[str, str]] = None,
                      timeout_s: Optional[float] = None) -> Response:
        """One HTTP request to the server in the box. Its answer is returned whatever its status."""
        raw = body.encode() if isinstance(body, str) else body
        incoming = await self._held.open(
            method, self._where(path), headers=headers, data=None if raw is None else Bytes(raw),
            silence_s=timeout_s or self._held.link.timeout_s, is_raw=True)
        data = await incoming.read_all(BODY_MAX)
        if incoming.status >= 400:
            await self._held.explained(_raise_own(incoming.status, data))
        return Response(incoming.status, dict(incoming.headers), data)

    async def connect(self) -> AsyncTunnel:
        """A connection of bytes. `port_closed` is raised when nobody listens."""
        self._held.check()
        return AsyncTunnel(await self._held.explained(self._held.link.upgrade(
            self._held.path("ports", str(self.number)), {"Connection": "Upgrade", "Upgrade": "tcp"})))

    async def forward(self, local_port: int = 0, *, host: str = "127.0.0.1",
                      limit: int = FORWARD_MAX) -> "AsyncForward":
        """A port of this machine that leads to the box's, until it is closed. Everybody who can
        reach it can use it. At most `limit` connections at a time; others wait."""
        forward = AsyncForward(self, limit)
        forward.bind(host, local_port)
        await forward.serve()
        return forward

    def _where(self, path: str) -> str:
        return (self._held.path("ports", str(self.number)) + "/"
                + quote(path.lstrip("/"), safe="/?&=%:;@!$'()*+,~[]"))


async def _raise_own(status: int, data: bytes) -> None:
    """What the daemon answered, and not the server in the box."""
    try:
        error = from_answer(status, parse(data))
    except SandpoolError:
        return
    if error.code in OWN_ERRORS:
        raise error


class AsyncPorts:
    def __init__(self, held: Held) -> None:
        self.held = held
        self._kept: Dict[int, AsyncForward] = {}

    def __getitem__(self, number: int) -> AsyncPort:
        return AsyncPort(self, number)

    async def list(self) -> List[PortInfo]:
        """What listens in the box."""
        return await self.held.call(calls.ports(self.held.box_id))

    def kept(self, number: int) -> "AsyncForward":
        """A port of this machine that leads to the box's, until close()."""
        found = self._kept.get(number)
        if found is None:
            found = AsyncForward(self[number], FORWARD_MAX)
            found.bind("127.0.0.1", 0)
            found.serve_soon()
            self._kept[number] = found
        return found

    async def close(self) -> None:
        """Ends what `url` of a port has opened."""
        while self._kept:
            await self._kept.popitem()[1].close()


def listen(host: str, port: int) -> socket.socket:
    return socket.create_server((host, port),
                                family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def local_url(address: Tuple[str, int]) -> str:
    host, port = address
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class AsyncForward:
    """A listening port of this machine. As an asynchronous context manager it is closed at the
    end."""

    def __init__(self, port: AsyncPort, limit: int) -> None:
        self._port = port
        self._free = asyncio.Semaphore(limit)
        self._socket: Optional[socket.socket] = None
        self._server: Optional[asyncio.AbstractServer] = None
        self._tasks: Set["asyncio.Task[Any]"] = set()
        self.address: Tuple[str, int] = ("", 0)

    @property
    def port(self) -> int:
        return self.address[1]

    @property
    def url(self) -> str:
        return local_url(self.address)

    def bind(self, host: str, port: int) -> None:
        """From now on callers wait in the kernel's queue."""
        self._socket = listen(host, port)
        self.address = self._socket.getsockname()[:2]

    async def serve(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._socket)

    def serve_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self.serve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)

    async def __aenter__(self) -> "AsyncForward":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]],
                        error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._free:
                tunnel = await self._port.connect()
                try:
                    await self._pump(reader, writer, tunnel)
                finally:
                    tunnel.close()
        except (OSError, SandpoolError, Late, asyncio.CancelledError):
            pass  # the other side sees that it is closed
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
                    tunnel: AsyncTunnel) -> None:
        async def there() -> None:
            with contextlib.suppress(OSError):
                while True:
                    data = await reader.read(65536)
                    if not data:
                        break
                    await tunnel.send(data)
            tunnel.shut()

        sending = asyncio.ensure_future(there())
        try:
            while True:
                data = await tunnel.recv()
                if not data:
                    return
                writer.write(data)
                await writer.drain()
        finally:
            sending.cancel()
