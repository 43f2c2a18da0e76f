"""HTTP/1.1 without I/O: what to send, and what the bytes that came mean. Both clients use it, so
that they differ in how they wait and in nothing else."""

from __future__ import annotations

import json
import os
import re
import ssl
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Dict, Mapping, Optional, Tuple, Union
from urllib.parse import urlsplit

from .errors import BrokenOff, ConnectionFailed, ProtocolError, from_answer

HEADER_MAX = 64 * 1024
BODY_MAX = 64 * 1024 * 1024
FRAMING = ("content-length", "transfer-encoding")
DEFAULT_SOCKET = "/run/sandpool/sandpool.sock"


@dataclass(frozen=True)
class Address:
    """Where the daemon listens."""

    unix_path: Optional[str] = None
    host: str = "localhost"
    port: int = 0
    is_tls: bool = False
    ca: Optional[str] = None  # a PEM file of those who may sign its certificate; None: the system's

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.unix_path is not None else f"{host}:{self.port}"

    def __str__(self) -> str:
        return self.unix_path or f"{'https' if self.is_tls else 'http'}://{self.host_header}"


def parse_address(text: Union[str, Address, None]) -> Address:
    """`/path`, `unix:/path`, `http://host:port` or `https://host:port`; None: $SANDPOOL_SOCKET, else
    the usual socket."""
    if isinstance(text, Address):
        return text
    if text is None:
        text = os.environ.get("SANDPOOL_SOCKET") or DEFAULT_SOCKET
    for prefix in ("unix://", "unix:"):
        if text.startswith(prefix):
            return Address(unix_path=text[len(prefix):])
    if "://" not in text:
        return Address(unix_path=text)
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname or url.path not in ("", "/"):
        raise ValueError(f"{text!r} is not an address: use /path, unix:/path or http://host:port")
    return Address(None, url.hostname, url.port or (443 if url.scheme == "https" else 80),
                   url.scheme == "https")


def trusting(address: Address, ca: Optional[str]) -> Address:
    """The same, with this file of authorities."""
    if ca is None:
        return address
    if not address.is_tls:
        raise ValueError(f"'ca' is for https://, not for {address}")
    return replace(address, ca=ca)


@lru_cache(maxsize=16)
def _tls_context(ca: Optional[str]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def tls_context(address: Address) -> Optional[ssl.SSLContext]:
    """What its certificate is checked with; None: it has none."""
    return _tls_context(address.ca) if address.is_tls else None


def split_url(url: str) -> Tuple[Address, str]:
    """The address of a URL, and its path without a slash at the end."""
    parts = urlsplit(url)
    return parse_address(f"{parts.scheme}://{parts.netloc}"), parts.path.rstrip("/")


def encode_head(address: Address, method: str, where: str, headers: Mapping[str, str],
                token: Optional[str] = None) -> bytes:
    """The request line and the headers of one request."""
    lines = [f"{method} {where} HTTP/1.1", f"Host: {address.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    for line in lines:
        if "\r" in line or "\n" in line:
            raise ValueError("a line break in a header or path")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


NULL = object()


def _null(value: object) -> None:
    if value is not NULL:
        raise TypeError(f"{value!r} cannot be a member of a body")


def encode(address: Address, method: str, where: str, body: Optional[Mapping[str, Any]],
           token: Optional[str] = None, headers: Optional[Mapping[str, str]] = None) -> bytes:
    """One request. Members of the body that are None are left out, those that are NULL are null."""
    data = b""
    head = dict(headers or {})
    if body is not None:
        given = {key: value for key, value in body.items() if value is not None}
        data = json.dumps(given, separators=(",", ":"), default=_null).encode()
        head.update({"Content-Type": "application/json", "Content-Length": str(len(data))})
    return encode_head(address, method, where, head, token) + data


def encode_chunk(data: bytes) -> bytes:
    """A piece of a body of unknown length; b"" ends it."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class Answer:
    """One answer, fed as it arrives. `is_done` when nothing of it is missing. One that is streamed
    has a body of any length, which is taken out while it grows."""

    def __init__(self, *, is_streamed: bool = False, is_head: bool = False,
                 is_upgrade: bool = False) -> None:
        self.status = 0
        self.headers: Dict[str, str] = {}
        self.body = bytearray()
        self.is_done = False
        self.is_reusable = False
        self._is_streamed = is_streamed
        self._is_head = is_head  # of HEAD: it has no body
        self._is_upgrade = is_upgrade  # 101 is what is hoped for
        self._head = bytearray()
        self._interim = 0  # bytes of headers that are behind us
        self._rest = bytearray()
        self._left: Optional[int] = None  # of the body or the chunk
        self._is_chunked = False
        self._is_last_chunk = False

    @property
    def has_begun(self) -> bool:
        return bool(self.status or self._head)

    def take(self) -> bytes:
        """What has come of the body since the last time."""
        data = bytes(self.body)
        self.body.clear()
        return data

    def rest(self) -> bytes:
        """What came behind the headers of a 101: the first bytes of the other protocol."""
        return bytes(self._rest)

    def feed(self, data: bytes) -> None:
        """b"" is the end of the connection."""
        if not data:
            return self._end()
        while not self.status:  # 100 Continue and the like come before it
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if self._interim + (len(self._head) if end < 0 else end) > HEADER_MAX:
                raise ProtocolError("protocol", "the answer's headers have no end")
            if end < 0:
                return None
            data = bytes(self._head[end + 4:])
            self._interim += end + 4
            self._read_head(bytes(self._head[:end]))
            if not self.status and not data:
                return None
        self._rest += data
        if self.status == 101:
            return None
        self._read_body()
        if self.is_done and self._rest:
            self.is_reusable = False  # nobody asked for more: it answers nothing
        return None

    def _end(self) -> None:
        if not self.has_begun:
            raise ConnectionFailed("connect_failed", "the daemon closed the connection")
        if not self.status or self._is_chunked or self._left is not None:
            raise BrokenOff("protocol", "the answer broke off", self.status)
        self.is_done = True

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        if (len(words) < 2 or not words[0].startswith("HTTP/1.")
                or not re.fullmatch("[1-9][0-9]{2}", words[1])):
            raise ProtocolError("protocol", "the answer is no HTTP")
        self._head.clear()
        if words[1].startswith("1") and not (self._is_upgrade and words[1] == "101"):
            return
        self.status = int(words[1])
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            if name in FRAMING and self.headers.get(name, value) != value:
                raise ProtocolError("protocol", f"the answer has {name} twice")
            self.headers[name] = value
        self.is_reusable = (words[0] != "HTTP/1.0"
                            and self.headers.get("connection", "").lower() != "close")
        self._read_framing()

    def _read_framing(self) -> None:
        coding = self.headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            raise ProtocolError("protocol", "the answer has an unknown transfer encoding")
        self._is_chunked = coding is not None
        length = self.headers.get("content-length")
        if coding is not None and length is not None:
            self.is_reusable = False  # somebody else may have read it in the other way
        if self.status == 101:
            self.is_done, self.is_reusable = True, False
            return
        if self.status in (204, 304) or self._is_head:
            length, self._is_chunked = "0", False
        if not self._is_chunked and length is not None:
            if (not re.fullmatch("[0-9]{1,18}", length)
                    or (int(length) > BODY_MAX and not self._is_streamed)):
                raise ProtocolError("protocol", "the length of the response is malformed")
            self._left = int(length)
        elif not self._is_chunked:
            self.is_reusable = False

    def _read_body(self) -> None:
        if not self._is_streamed and len(self.body) + len(self._rest) > BODY_MAX:
            raise ProtocolError("protocol", "the answer is too long", self.status)
        if not self._is_chunked:
            taken = len(self._rest) if self._left is None else min(self._left, len(self._rest))
            self._take(taken)
            if self._left is not None:
                self._left -= taken
                self.is_done = self._left == 0
            return
        while not self.is_done and self._read_chunk():
            pass

    def _read_chunk(self) -> bool:
        """False: more bytes are needed."""
        if self._left is None:
            line = self._line()
            if line is None:
                return False
            size = line.split(b";")[0].strip()
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size):
                raise ProtocolError("protocol", "a chunk without a length", self.status)
            self._left = int(size, 16)
            self._is_last_chunk = self._left == 0
        if self._is_last_chunk:
            line = self._line()  # trailers, then an empty line
            self.is_done = line == b""
            return line is not None
        taken = min(self._left, len(self._rest))
        self._take(taken)
        self._left -= taken
        if self._left > 0 or len(self._rest) < 2:
            return False
        if self._rest[:2] != b"\r\n":
            raise ProtocolError("protocol", "a chunk longer than it says", self.status)
        del self._rest[:2]
        self._left = None
        return True

    def _take(self, count: int) -> None:
        self.body += self._rest[:count]
        del self._rest[:count]

    def _line(self) -> Optional[bytes]:
        end = self._rest.find(b"\r\n", 0, HEADER_MAX)
        if end < 0:
            if len(self._rest) > HEADER_MAX:
                raise ProtocolError("protocol", "a line without end", self.status)
            return None
        line = bytes(self._rest[:end])
        del self._rest[:end + 2]
        return line

    def result(self) -> Any:
        """The JSON of a success; anything else is raised."""
        try:
            body = json.loads(self.body) if self.body else None
        except (ValueError, RecursionError):
            body = None
            if 200 <= self.status < 300:
                raise ProtocolError("protocol", "the answer is no JSON", self.status) from None
        if not 200 <= self.status < 300:
            raise from_answer(self.status, body)
        return body
