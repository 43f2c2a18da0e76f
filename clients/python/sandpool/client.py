"""The synchronous client. Safe for use by several threads: each call has a connection for itself,
and connections are kept for the next call."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from types import TracebackType
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Type, TypeVar, Union

from . import calls, wire
from .errors import ConnectionFailed, DeadlineExceeded
from .types import JSON, Mount, Sandbox

DEFAULT_TIMEOUT_S = 60.0
IDLE_MAX = 8

T = TypeVar("T")


class Client:
    """Talks to one daemon. `address` is a socket's path, `unix:/path` or `http://host:port` (then
    with `token`); None: $SANDPOOL_SOCKET, else /run/sandpool/sandpool.sock."""

    def __init__(self, address: Union[str, wire.Address, None] = None, *, token: Optional[str] = None,
                 timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self.address = wire.parse_address(address)
        self._token = token
        self._timeout_s = timeout_s
        self._idle: List[socket.socket] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Closes what is idle; calls under way end by themselves."""
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for sock in idle:
            sock.close()

    # --- sandboxes ---

    def acquire(self, thread_id: Optional[str] = None, *, user_id: Optional[str] = None,
                profile: Optional[str] = None, sandbox_id: Optional[str] = None,
                wait_s: Optional[float] = None, ttl_s: Optional[int] = None,
                idle_timeout_s: Optional[int] = None, envs: Optional[Mapping[str, str]] = None,
                mounts: Optional[Iterable[Mount]] = None,
                limits: Optional[Mapping[str, Any]] = None,
                metadata: Optional[Mapping[str, Any]] = None) -> "Lease":
        """A sandbox for the thread: its own again if it has one, else a warm one, else a new one.
        Without a thread: one that nobody finds again."""
        return Lease(self, self._run(calls.acquire(
            thread_id, user_id=user_id, profile=profile, sandbox_id=sandbox_id, wait_s=wait_s,
            ttl_s=ttl_s, idle_timeout_s=idle_timeout_s, envs=envs, mounts=mounts, limits=limits,
            metadata=metadata)))

    def release(self, sandbox_id: str, *, generation: Optional[int] = None,
                destroy: bool = False) -> Sandbox:
        """Gives it back: kept for its thread, or destroyed."""
        return self._run(calls.release(sandbox_id, generation, destroy))

    def renew(self, sandbox_id: str, *, generation: Optional[int] = None,
              ttl_s: Optional[int] = None) -> Sandbox:
        """Pushes the lease's end to `ttl_s` from now."""
        return self._run(calls.renew(sandbox_id, generation, ttl_s))

    def get(self, sandbox_id: str, *, ask_backend: bool = False) -> Sandbox:
        """One sandbox. With ask_backend, `alive` is what the backend reports; None: it does not know."""
        return self._run(calls.get(sandbox_id, ask_backend))

    def destroy(self, sandbox_id: str, *, generation: Optional[int] = None,
                quick: bool = False) -> Sandbox:
        """Returns when it is gone; with quick, when it is certain to go."""
        return self._run(calls.destroy(sandbox_id, generation, quick))

    def list(self, *, state: Optional[str] = None, profile: Optional[str] = None,
             user_id: Optional[str] = None, thread_id: Optional[str] = None) -> Iterator[Sandbox]:
        """All sandboxes this caller may see, oldest first, read page by page."""
        cursor: Optional[str] = None
        while True:
            found, cursor = self._run(calls.page(
                cursor, state=state, profile=profile, user_id=user_id, thread_id=thread_id))
            yield from found
            if cursor is None:
                return

    # --- the pool ---

    def pool(self) -> JSON:
        return self._run(calls.plain("GET", "/v1/pool"))

    def version(self) -> JSON:
        return self._run(calls.plain("GET", "/v1/version"))

    def pause(self) -> JSON:
        return self._run(calls.plain("POST", "/v1/pool/pause"))

    def resume(self) -> JSON:
        return self._run(calls.plain("POST", "/v1/pool/resume"))

    def drain(self, *, evict_parked: bool = False) -> JSON:
        return self._run(calls.plain("POST", "/v1/pool/drain", {"evict_parked": evict_parked}))

    def reconcile(self) -> JSON:
        return self._run(calls.plain("POST", "/v1/pool/reconcile"))

    def reload(self) -> JSON:
        return self._run(calls.plain("POST", "/v1/pool/reload"))

    def doctor(self) -> JSON:
        return self._run(calls.plain("GET", "/v1/doctor"))

    # --- one call ---

    def _run(self, call: "calls.Call[T]") -> T:
        data = wire.encode(self.address, call.method, call.target, call.body, self._token)
        timeout = self._timeout_s if call.timeout_s is None else call.timeout_s
        return call.decode(self.send(data, timeout, call.is_safe).result())

    def send(self, data: bytes, timeout_s: float, is_safe: bool) -> wire.Answer:
        """One request as it is. A kept connection that turns out to be dead is replaced once."""
        deadline = time.monotonic() + timeout_s
        sock = self._take() if is_safe else None
        answer = None if sock is None else self._exchange(sock, data, deadline, is_reused=True)
        if answer is None:
            answer = self._exchange(self._connect(deadline), data, deadline, is_reused=False)
        assert answer is not None
        return answer

    def _take(self) -> Optional[socket.socket]:
        """One on which nothing has come since: an end, or what answers nothing that was asked."""
        while True:
            with self._lock:
                sock = self._idle.pop() if self._idle else None
            if sock is None or not _is_readable(sock):
                return sock
            sock.close()

    def _give_back(self, sock: socket.socket) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < IDLE_MAX:
                self._idle.append(sock)
                return
        sock.close()

    def _connect(self, deadline: float) -> socket.socket:
        sock: Optional[socket.socket] = None
        left = max(deadline - time.monotonic(), 0.001)
        try:
            if self.address.unix_path is None:
                sock = socket.create_connection((self.address.host, self.address.port), left)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self.address.is_tls:
                    return ssl.create_default_context().wrap_socket(
                        sock, server_hostname=self.address.host)
                return sock
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(left)
            sock.connect(self.address.unix_path)
            return sock
        except OSError as error:
            if sock is not None:
                sock.close()
            raise ConnectionFailed(
                "connect_failed", f"no daemon at {self.address}: {error}") from error

    def _exchange(self, sock: socket.socket, data: bytes, deadline: float, *,
                  is_reused: bool) -> Optional[wire.Answer]:
        """None: the kept connection had been closed before the daemon saw the request."""
        answer = wire.Answer()
        try:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            sock.sendall(data)
            while not answer.is_done:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise socket.timeout()
                sock.settimeout(left)
                answer.feed(sock.recv(65536))
        except socket.timeout:
            sock.close()
            raise DeadlineExceeded("timeout", f"no answer from {self.address} in time") from None
        except (OSError, ConnectionFailed) as error:
            sock.close()
            if is_reused and not answer.has_begun:
                return None
            raise ConnectionFailed("connect_failed", f"{self.address} hung up: {error}") from error
        except BaseException:
            sock.close()
            raise
        if answer.is_reusable:
            self._give_back(sock)
        else:
            sock.close()
        return answer


def _is_readable(sock: socket.socket) -> bool:
    if isinstance(sock, ssl.SSLSocket) and sock.pending() > 0:
        return True
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


class Lease:
    """A sandbox that is ours. As a context manager it is released at the end."""

    def __init__(self, client: Client, sandbox: Sandbox) -> None:
        self._client = client
        self.sandbox = sandbox

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.release()

    @property
    def sandbox_id(self) -> str:
        return self.sandbox.sandbox_id or ""

    @property
    def sandbox_url(self) -> str:
        return self.sandbox.sandbox_url or ""

    @property
    def headers(self) -> Dict[str, str]:
        """What a request to `sandbox_url` must carry."""
        return self.sandbox.headers

    def release(self, *, destroy: bool = False) -> None:
        self._client.release(self.sandbox_id, generation=self.sandbox.generation, destroy=destroy)

    def renew(self, ttl_s: Optional[int] = None) -> None:
        self._client.renew(self.sandbox_id, generation=self.sandbox.generation, ttl_s=ttl_s)
