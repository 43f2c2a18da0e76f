"""A listening port of this machine whose connections lead to a port of a box, with threads."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Callable, Optional, Set, Type, Union

from .errors import SandpoolError
from .ports import AsyncTunnel, listen, local_url
from .transport import drive

ACCEPT_S = 0.5  # how late a close is noticed at the latest


class Forward:
    """Serves until it is closed. As a context manager it is closed at the end."""

    def __init__(self, connect: Callable[[], AsyncTunnel], host: str, port: int, limit: int) -> None:
        self._connect = connect
        self._free = threading.BoundedSemaphore(limit)
        self._lock = threading.Lock()
        self._open: Set[Union[socket.socket, AsyncTunnel]] = set()
        self._is_closed = False
        self._listener = listen(host, port)
        self._listener.settimeout(ACCEPT_S)
        self.address = self._listener.getsockname()[:2]
        threading.Thread(target=self._accept, name="sandpool-forward", daemon=True).start()

    @property
    def port(self) -> int:
        number: int = self.address[1]
        return number

    @property
    def url(self) -> str:
        return local_url(self.address)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            opened = list(self._open)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in opened:
            _end(one)

    def __enter__(self) -> "Forward":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._is_closed:
            if not self._free.acquire(timeout=ACCEPT_S):
                continue  # all are in use: others wait in the kernel's queue
            try:
                sock, _ = self._listener.accept()
            except OSError:
                self._free.release()
                continue
            threading.Thread(target=self._serve, args=(sock,), name="sandpool-forward",
                             daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        tunnel: Optional[AsyncTunnel] = None
        sender: Optional[threading.Thread] = None
        try:
            sock.settimeout(None)
            tunnel = self._connect()
            if self._keep(sock, tunnel):
                sender = threading.Thread(target=_there, args=(sock, tunnel), daemon=True)
                sender.start()
                while True:
                    data = drive(tunnel.recv())
                    if not data:
                        break
                    sock.sendall(data)
        except (OSError, SandpoolError):
            pass  # the other side sees that it is closed
        finally:
            for one in (tunnel, sock):
                if one is not None:
                    _end(one)
            if sender is not None:
                sender.join()
            with self._lock:
                self._open -= {one for one in (tunnel, sock) if one is not None}
            self._free.release()

    def _keep(self, sock: socket.socket, tunnel: AsyncTunnel) -> bool:
        with self._lock:
            self._open |= {sock, tunnel}
            return not self._is_closed


def _there(sock: socket.socket, tunnel: AsyncTunnel) -> None:
    with contextlib.suppress(OSError):
        while True:
            data = sock.recv(65536)
            if not data:
                break
            drive(tunnel.send(data))
    tunnel.shut()


def _end(one: Union[socket.socket, AsyncTunnel]) -> None:
    """Also for a thread that waits on it."""
    if isinstance(one, socket.socket):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    one.close()
