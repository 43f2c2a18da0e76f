"""Streams of events without I/O: lines of JSON, and where a reader of a job's output stands."""

from __future__ import annotations

import base64
import binascii
import codecs
import json
from typing import Any, Callable, Dict, List, Optional

from .errors import ProtocolError
from .results import Chunk, JobView
from .types import JSON

NDJSON = "application/x-ndjson"
LINE_MAX = 16 * 1024 * 1024
TEXT_MAX = 64 * 1024  # of a line that is given to a callback
STREAMS = ("stdout", "stderr")


class Lines:
    """Objects of JSON, one in each line."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._seen = 0  # without the end of a line

    def feed(self, data: bytes) -> List[JSON]:
        self._data += data
        end = self._data.rfind(b"\n", self._seen)
        if end < 0:
            self._seen = len(self._data)
            if self._seen > LINE_MAX:
                raise ProtocolError("protocol", "an event without end")
            return []
        whole = bytes(self._data[:end])
        del self._data[:end + 1]
        self._seen = len(self._data)
        return [parse(line) for line in whole.split(b"\n") if line.strip()]


def parse(data: bytes) -> JSON:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ProtocolError("protocol", "an answer or event must be an object of JSON")
    return value


class Follow:
    """How far the output of a job was read. What comes again after a reconnection is dropped, so
    that every byte is seen once."""

    def __init__(self, stdout_at: int = 0, stderr_at: int = 0) -> None:
        self.job: Optional[str] = None
        self.pid = 0
        self.at = {"stdout": stdout_at, "stderr": stderr_at}
        self.skipped = 0  # bytes that the box did not keep
        self.end: Optional[JobView] = None
        self._gap: Dict[str, int] = {"stdout": 0, "stderr": 0}

    def feed(self, event: JSON) -> Optional[Chunk]:
        kind = event.get("event")
        if kind in STREAMS:
            return self._data(str(kind), event)
        if kind == "start":
            self.job, self.pid = str(event.get("job")), _whole(event, "pid")
        elif kind == "gap" and event.get("stream") in STREAMS:
            self._skip(str(event["stream"]), _whole(event, "to"))
        elif kind == "end":
            self.end = JobView.from_json(event)
        return None  # keepalives, and what later versions may add

    def bytes(self, stream: str, data: bytes) -> Chunk:
        """The next ones, from where the reader stands."""
        at, gap = self.at[stream], self._gap[stream]
        self.at[stream] += len(data)
        self._gap[stream] = 0
        return Chunk(stream, at, data, gap)

    def _data(self, stream: str, event: JSON) -> Optional[Chunk]:
        try:
            data = base64.b64decode(event.get("data", ""), validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ProtocolError("protocol", "output that is no base64") from None
        offset = _whole(event, "offset")
        if offset > self.at[stream]:
            self._skip(stream, offset)
        data = data[self.at[stream] - offset:]
        return self.bytes(stream, data) if data else None

    def _skip(self, stream: str, to: int) -> None:
        count = max(to - self.at[stream], 0)
        self.at[stream] += count
        self._gap[stream] += count
        self.skipped += count


def _whole(event: JSON, key: str) -> int:
    value = event.get(key)
    if not isinstance(value, int) or value < 0:
        raise ProtocolError("protocol", f"an event without a good {key}")
    return value


class Capture:
    """The beginning and the end of a stream, half of the limit each."""

    def __init__(self, limit: int) -> None:
        self._head_max = limit // 2
        self._tail_max = limit - self._head_max
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    def add(self, data: bytes) -> None:
        self._size += len(data)
        space = self._head_max - len(self._head)
        if space > 0:
            self._head += data[:space]
            data = data[space:]
        self._tail += data
        if len(self._tail) > self._tail_max + 65536:
            del self._tail[:len(self._tail) - self._tail_max]

    @property
    def is_truncated(self) -> bool:
        return self._size > self._head_max + self._tail_max

    def value(self) -> bytes:
        tail = self._tail[-self._tail_max:] if self._tail_max else b""
        return bytes(self._head + tail)


class LineCaller:
    """Gives text to a callback line by line, without the line's end. One that is very long comes
    in pieces; the last one also without its end."""

    def __init__(self, callback: Callable[[str], Any]) -> None:
        self._callback = callback
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def feed(self, data: bytes, is_last: bool = False) -> List[Any]:
        """What the callback returned, for who wants to await it."""
        *lines, self._rest = (self._rest + self._decode(data, is_last)).split("\n")
        while len(self._rest) > TEXT_MAX:
            lines.append(self._rest[:TEXT_MAX])
            self._rest = self._rest[TEXT_MAX:]
        if is_last and self._rest:
            lines.append(self._rest)
            self._rest = ""
        return [self._callback(line[:-1] if line.endswith("\r") else line) for line in lines]
