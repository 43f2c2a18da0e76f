"""Files of a box. Bytes stream in both directions; no file is held whole but where it is returned."""

from __future__ import annotations

import os
import tempfile
from typing import (
    IO, Any, AsyncIterable, AsyncIterator, Iterable, Iterator, List, Mapping, Optional, Union)

from . import calls, events, trees
from .errors import (
    BrokenOff, FileMissing, ProtocolError, SandboxLost, SandpoolError, TransportLost, finite)
from .jobs import Held
from .link import Body, Bytes, Incoming, Retry, is_passing
from .results import FileEvent, FileInfo, Listing
from .transport import Io, Stream
from .types import JSON

WORKSPACE = "/workspace"  # where relative paths lead, too
PIECE = 256 * 1024
SILENCE_S = 300.0  # a file is flushed to its disk before the answer
ANSWER_MAX = 1024 * 1024
READ_MAX = 256 * 1024 * 1024  # of read(): a box can make a file of any size

Path = Union[str, "os.PathLike[str]"]
Content = Union[str, bytes, bytearray, IO[bytes], Iterable[bytes], AsyncIterable[bytes]]


class Pieces(Body):
    """What a caller gives: an open file, or anything that can be iterated."""

    def __init__(self, io: Io, source: Any, length: Optional[int] = None) -> None:
        self.length = length
        self._io = io
        self._source = source
        self._at: Optional[int] = None
        self._left = length
        self._iterator: Optional[Iterator[bytes]] = None
        self._aiterator: Optional[AsyncIterator[bytes]] = None
        if hasattr(source, "read"):
            self._at = source.tell() if source.seekable() else None
        elif hasattr(source, "__aiter__"):
            self._aiterator = source.__aiter__()
        else:
            self._iterator = iter(source)

    async def next(self) -> bytes:
        while True:
            piece = await self._piece()
            if piece is None:
                if self._left:
                    raise ValueError("the file became shorter while it was read")
                return b""
            if not isinstance(piece, (bytes, bytearray, memoryview)):
                raise TypeError(f"bytes are written, not {type(piece).__name__}")
            if self._left is not None:
                piece = piece[:self._left]
                self._left -= len(piece)
            if piece or self._left == 0:
                return bytes(piece)

    async def _piece(self) -> Optional[bytes]:
        if self._aiterator is not None:
            try:
                return await self._aiterator.__anext__()
            except StopAsyncIteration:
                return None
        if self._iterator is not None:
            iterator = self._iterator
            return await self._io.run(lambda: next(iterator, None))
        source: IO[bytes] = self._source
        size = PIECE if self._left is None else min(PIECE, self._left)
        piece: bytes = await self._io.run(lambda: source.read(size)) if size else b""
        return piece or None

    async def rewind(self) -> bool:
        if self._at is None:
            return False
        self._source.seek(self._at)
        self._left = self.length
        return True


class Reading(Stream[bytes]):
    """A file's bytes. When the connection breaks it goes on from where it was, as long as the file
    is still the same."""

    def __init__(self, held: Held, where: str, start: int, end: Optional[int],
                 is_resumable: bool = True) -> None:
        self._held = held
        self._where = where
        self._at = start
        self._end = end
        self._is_resumable = is_resumable
        self._etag: Optional[str] = None
        self._retry = Retry(held.link)
        self._incoming: Optional[Incoming] = None
        self.headers: Mapping[str, str] = {}

    async def open(self) -> None:
        """So that a missing file is reported at once."""
        headers = {}
        if self._at or self._end is not None:
            if self._end is not None and self._end <= self._at:
                self._end = self._at
                return
            headers["Range"] = f"bytes={self._at}-{'' if self._end is None else self._end - 1}"
        if self._etag is not None:
            headers["If-Range"] = self._etag
        try:
            incoming = await self._held.open(
                "GET", self._where, headers=headers, silence_s=SILENCE_S)
        except SandpoolError as error:
            if error.status == 416:
                self._end = self._at  # it ends before this
                return
            raise
        etag = incoming.headers.get("etag")
        if (self._etag is not None and etag != self._etag) or ("Range" in headers
                                                               and incoming.status != 206):
            incoming.close()
            raise BrokenOff("changed", "the file was changed while it was read")
        self._etag = etag
        self.headers = incoming.headers
        self._incoming = incoming

    async def next(self) -> Optional[bytes]:
        while True:
            if self._end is not None and self._at >= self._end and self._incoming is None:
                return None
            try:
                if self._incoming is None:
                    await self.open()
                    continue
                data = await self._incoming.read()
            except SandpoolError as error:
                await self.close()
                if (error.code == "changed" or not is_passing(error) or not self._is_resumable
                        or (self._at > 0 and self._etag is None) or not await self._retry.pause()):
                    raise
                continue
            if not data:
                self._incoming, self._end = None, self._at
                return None
            self._retry.progress()
            self._at += len(data)
            return data

    async def close(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.close()


class Watch(Stream[FileEvent]):
    """Changes of files. After a break of the connection it goes on with an `overflow`: what
    happened meanwhile was not seen."""

    def __init__(self, held: Held, where: str) -> None:
        self._held = held
        self._where = where
        self._retry = Retry(held.link)
        self._lines = events.Lines()
        self._incoming: Optional[Incoming] = None
        self._ready: List[FileEvent] = []
        self._is_ready = False

    async def open(self) -> None:
        """Returns when the box watches: no later change is missed."""
        self._lines, self._is_ready = events.Lines(), False
        self._incoming = await self._held.open(
            "GET", self._where, headers={"Accept": events.NDJSON})
        while not self._is_ready:
            await self._read()

    async def next(self) -> Optional[FileEvent]:
        while not self._ready:
            try:
                if self._incoming is None:
                    await self.open()
                    self._ready.insert(0, FileEvent("overflow", ""))
                else:
                    await self._read()
            except SandpoolError as error:
                await self.close()
                if not is_passing(error) or not await self._retry.pause():
                    raise
        return self._ready.pop(0)

    async def close(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.close()

    async def _read(self) -> None:
        assert self._incoming is not None
        data = await self._incoming.read()
        if not data:
            raise BrokenOff("protocol", "the events broke off")
        for event in self._lines.feed(data):
            self._retry.progress()
            kind = event.get("event")
            if kind == "ready":
                self._is_ready = True
            elif kind in ("sandbox_lost", "end"):
                raise _lost(event)
            elif isinstance(kind, str) and kind != "keepalive":
                self._ready.append(FileEvent.from_json(event))


def _lost(event: JSON) -> SandpoolError:
    if event.get("outcome") == "transport_lost":
        return TransportLost("transport_lost", "the connection to the box broke")
    return SandboxLost("sandbox_lost", "the sandbox died or was removed")


class AsyncFiles:
    """Files of one box. Paths are absolute, relative to /workspace, or begin with `~`. With
    `user="root"` a call acts as the box's root."""

    def __init__(self, held: Held) -> None:
        self._held = held

    async def write(self, path: str, content: Content, *, mode: Optional[int] = None,
                    owner: Optional[str] = None, parents: bool = True,
                    user: Optional[str] = None) -> int:
        """Replaces the file at once when all has come. See Files.write()."""
        if isinstance(content, str):
            content = content.encode()
        body: Body = (Bytes(bytes(content)) if isinstance(content, (bytes, bytearray))
                      else Pieces(self._held.link.io, content))
        return await self._put(self._held.path(
            "files", path=path, mode=None if mode is None else f"{mode:04o}", owner=owner,
            parents=None if parents else 0, user=user), body)

    async def _put(self, where: str, body: Body) -> int:
        retry = Retry(self._held.link)
        while True:
            try:
                incoming = await self._held.open(
                    "PUT", where, data=body, silence_s=SILENCE_S,
                    headers={"Content-Type": "application/octet-stream"})
                answer = events.parse(await incoming.read_all(ANSWER_MAX))
                return int(finite(answer.get("size")) or 0)
            except SandpoolError as error:
                # Sent once more it does what it does once.
                if not is_passing(error) or not await body.rewind() or not await retry.pause():
                    raise

    async def open(self, path: str, *, start: int = 0, end: Optional[int] = None,
                   user: Optional[str] = None) -> Reading:
        """The bytes from `start` to before `end`, piece by piece."""
        reading = Reading(self._held, self._held.path("files", path=path, user=user), start, end)
        await reading.open()
        return reading

    async def read(self, path: str, *, start: int = 0, end: Optional[int] = None,
                   user: Optional[str] = None, max_bytes: Optional[int] = READ_MAX) -> bytes:
        """Raises when there are more than `max_bytes`, so that no box can fill our memory."""
        data = bytearray()
        async with await self.open(path, start=start, end=end, user=user) as pieces:
            async for piece in pieces:
                data += piece
                if max_bytes is not None and len(data) > max_bytes:
                    raise SandpoolError("too_big", f"{path!r} has more than {max_bytes} bytes: use open() or "
                                        "download(), or give another max_bytes")
        return bytes(data)

    async def read_text(self, path: str, *, encoding: str = "utf-8", user: Optional[str] = None,
                        max_bytes: Optional[int] = READ_MAX) -> str:
        return (await self.read(path, user=user, max_bytes=max_bytes)).decode(encoding)

    async def stat(self, path: str, *, follow: bool = False, user: Optional[str] = None) -> FileInfo:
        """Of a link, unless `follow`, the link itself."""
        return await self._held.call(calls.entry(
            "GET", self._held.box_id, "stat", path=path, follow=1 if follow else None, user=user))

    async def exists(self, path: str, *, user: Optional[str] = None) -> bool:
        try:
            await self.stat(path, user=user)
        except (FileMissing, NotADirectoryError):
            return False
        return True

    async def list(self, path: str = WORKSPACE, *, recursive: bool = False, depth: Optional[int] = None,
                   limit: Optional[int] = None, user: Optional[str] = None) -> Listing:
        return await self._held.call(calls.listing(
            self._held.box_id, path=path, recursive=1 if recursive else None, depth=depth,
            limit=limit, user=user))

    async def mkdir(self, path: str, *, parents: bool = True, mode: Optional[int] = None,
                    user: Optional[str] = None) -> FileInfo:
        body = {"path": path, "parents": parents, "mode": None if mode is None else f"{mode:04o}"}
        return await self._held.call(calls.entry("POST", self._held.box_id, "mkdir", body, user=user))

    async def move(self, source: str, to: str, *, overwrite: bool = True,
                   user: Optional[str] = None) -> FileInfo:
        return await self._change("move", source, to, overwrite, user)

    async def copy(self, source: str, to: str, *, overwrite: bool = True,
                   user: Optional[str] = None) -> FileInfo:
        """A directory with all that is in it, too."""
        return await self._change("copy", source, to, overwrite, user)

    async def _change(self, what: str, source: str, to: str, overwrite: bool,
                      user: Optional[str]) -> FileInfo:
        body = {"from": source, "to": to, "overwrite": overwrite}
        call = calls.entry("POST", self._held.box_id, what, body, user=user)
        # Moved twice it would be missing the second time.
        return await self._held.call(calls.once(call, SILENCE_S))

    async def remove(self, path: str, *, recursive: bool = False, missing_ok: bool = False,
                     user: Optional[str] = None) -> None:
        try:
            await self._held.call(calls.remove(
                self._held.box_id, path=path, recursive=1 if recursive else None, user=user))
        except FileMissing:
            if not missing_ok:
                raise

    async def upload(self, local: Path, path: str, *, mode: Optional[int] = None,
                     owner: Optional[str] = None, user: Optional[str] = None) -> int:
        """A file of this machine; its mode is kept unless another is given."""
        file = await self._held.link.io.run(lambda: open(local, "rb"))
        with file:
            info = os.fstat(file.fileno())
            bits = info.st_mode & 0o777 if mode is None else mode
            return await self._put(
                self._held.path("files", path=path, mode=f"{bits:04o}", owner=owner, user=user),
                Pieces(self._held.link.io, file, info.st_size))

    async def download(self, path: str, local: Path, *, user: Optional[str] = None) -> int:
        """To a file of this machine, which appears when it is whole. Returns its size."""
        run = self._held.link.io.run
        target = os.fspath(local)
        reading = await self.open(path, user=user)
        file = await run(lambda: tempfile.NamedTemporaryFile(
            dir=os.path.dirname(os.path.abspath(target)), prefix=".sandpool-", delete=False))
        size = 0
        try:
            with file:
                async for piece in reading:
                    data = piece
                    size += len(data)
                    await run(lambda: file.write(data))
                os.fchmod(file.fileno(), _mode(reading.headers))
            await run(lambda: os.replace(file.name, target))
        except BaseException:
            await reading.close()
            os.unlink(file.name)
            raise
        return size

    async def upload_tree(self, local: Path, path: str, *, user: Optional[str] = None) -> None:
        """What is in a directory of this machine into one of the box, which is made if missing."""
        if not os.path.isdir(local):
            raise NotADirectoryError(f"{os.fspath(local)!r} is not a directory")
        body = trees.Packing(self._held.link.io, os.fspath(local))
        await self._put(self._held.path("files", "tar", path=path, user=user), body)

    async def download_tree(self, path: str, local: Path, *, user: Optional[str] = None) -> None:
        """What is in a directory of the box into one of this machine, which is made if missing.
        Nothing of it may lead out of there. Nothing is written before all has come."""
        run = self._held.link.io.run
        reading = Reading(self._held, self._held.path("files", "tar", path=path, user=user), 0, None,
                          is_resumable=False)
        await reading.open()
        with tempfile.TemporaryFile() as file:
            async with reading:
                async for piece in reading:
                    data = piece
                    await run(lambda: file.write(data))
            await run(lambda: trees.unpack(file, os.fspath(local)))

    async def watch(self, path: str = WORKSPACE, *, recursive: bool = False,
                    user: Optional[str] = None) -> Watch:
        """Changes below a directory, or of a file, from now on."""
        watch = Watch(self._held, self._held.path(
            "files", "watch", path=path, recursive=1 if recursive else None, user=user))
        await watch.open()
        return watch


def _mode(headers: Mapping[str, str]) -> int:
    """Without bits that would make it run as somebody else."""
    try:
        return int(headers.get("x-sandpool-mode", "0644"), 8) & 0o777
    except ValueError:
        raise ProtocolError("protocol", "a mode must be octal") from None
