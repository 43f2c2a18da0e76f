"""Connections for threads. The sockets do not block; poll() does, until the deadline of each call,
so that one thread may send while another receives."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from typing import Any, Callable, Coroutine, Optional, TypeVar

from .errors import ConnectionFailed
from .transport import SOON_MAX, Conn, Io, Late, Step, Ticker, drive
from .wire import Address, tls_context

T = TypeVar("T")
RECV = 256 * 1024


class BlockingConn(Conn):
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._sending = threading.Lock()
        self._soon = bytearray()
        self._ahead: Optional[bytes] = None  # read already, for the next recv()
        # One TLS object is not for two threads at a time; a plain socket is.
        self._tls: Any = threading.Lock() if isinstance(sock, ssl.SSLSocket) \
            else contextlib.nullcontext()

    async def send(self, data: bytes, deadline: Optional[float]) -> None:
        with self._sending:
            if self._soon:
                data = bytes(self._soon) + data
                self._soon.clear()
            view = memoryview(data)
            while view:
                view = view[self._try_send(view, deadline):]
            if self._soon:  # came while we waited
                view = memoryview(bytes(self._soon))
                self._soon.clear()
                while view:
                    view = view[self._try_send(view, deadline):]

    def _try_send(self, view: memoryview, deadline: Optional[float]) -> int:
        try:
            with self._tls:
                return self.sock.send(view)
        except (BlockingIOError, ssl.SSLWantWriteError):
            _wait(self.sock, select.POLLOUT, deadline)
        except ssl.SSLWantReadError:
            _wait(self.sock, select.POLLIN, deadline)
        return 0

    def send_soon(self, data: bytes) -> None:
        if len(self._soon) >= SOON_MAX:
            return
        if not self._sending.acquire(blocking=False):
            self._soon += data  # whoever sends takes it along
            return
        try:
            self._soon += data
            with self._tls:
                del self._soon[:self.sock.send(self._soon[:])]
        except OSError:
            pass  # no space now; or it is broken, which who reads will see after what came before
        finally:
            self._sending.release()

    async def recv(self, deadline: Optional[float]) -> bytes:
        if self._ahead is not None:
            data, self._ahead = self._ahead, None
            return data
        while True:
            try:
                with self._tls:
                    return self.sock.recv(RECV)
            except (BlockingIOError, ssl.SSLWantReadError):
                _wait(self.sock, select.POLLIN, deadline)
            except ssl.SSLWantWriteError:
                _wait(self.sock, select.POLLOUT, deadline)
            except ssl.SSLEOFError:
                return b""

    async def has_input(self) -> bool:
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        if not isinstance(self.sock, ssl.SSLSocket):
            return bool(poll.poll(0))
        if self._ahead is None and (self.sock.pending() > 0 or poll.poll(0)):
            # What came may be TLS's own, such as a ticket for the next connection: reading it shows which.
            with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                with self._tls:
                    self._ahead = self.sock.recv(RECV)
        return self._ahead is not None

    def shut(self) -> None:
        if isinstance(self.sock, ssl.SSLSocket):
            return  # TLS cannot be closed by half
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        # A thread that waits for the other side is woken by this, and not by close().
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def abort(self) -> None:
        self.close()


def _wait(sock: socket.socket, what: int, deadline: Optional[float]) -> None:
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        raise Late
    poll = select.poll()
    poll.register(sock, what)
    if not poll.poll(None if left is None else left * 1000 + 1):
        raise Late


class BlockingIo(Io):
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def connect(self, address: Address, deadline: Optional[float]) -> Conn:
        left = None if deadline is None else max(deadline - time.monotonic(), 0.001)
        sock: Optional[socket.socket] = None
        try:
            if address.unix_path is None:
                sock = socket.create_connection((address.host, address.port), left)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                context = tls_context(address)
                if context is not None:
                    sock = context.wrap_socket(sock, server_hostname=address.host)
            else:
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                sock.settimeout(left)
                sock.connect(address.unix_path)
            sock.setblocking(False)
            return BlockingConn(sock)
        except OSError as error:
            if sock is not None:
                sock.close()
            failed = ConnectionFailed("connect_failed", f"no daemon at {address}: {error}")
            failed.is_unsent = True
            raise failed from error

    async def run(self, function: Callable[[], T]) -> T:
        return function()

    def ticker(self, step: Step) -> Ticker:
        return _Thread(step)

    def finish(self, work: Coroutine[Any, Any, Any]) -> None:
        with contextlib.suppress(Exception):
            drive(work)


class _Thread(Ticker):
    """A daemon thread that lives as long as there is something to do."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_running = False
        self._is_stopped = False

    def wake(self) -> None:
        with self._lock:
            self._wake.set()
            if self._is_running or self._is_stopped:
                return
            self._is_running = True
        threading.Thread(target=self._run, name="sandpool-renew", daemon=True).start()

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            pause = None if self._is_stopped else drive(self._step())
            with self._lock:
                if pause is None and (self._is_stopped or not self._wake.is_set()):
                    self._is_running = False
                    return
            self._wake.wait(pause)
