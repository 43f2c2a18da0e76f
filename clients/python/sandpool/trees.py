"""Whole directories as tar archives: packed while they are sent, unpacked so that nothing in them
leads out of the directory."""

from __future__ import annotations

import os
import stat
import tarfile
from typing import IO, Iterator, List, Optional, Set, Tuple, cast

from .errors import FileError, FileIsThere
from .link import Body
from .transport import Io

PIECE = 256 * 1024
BLOCK = 512
RECORD_MAX = 1024 * 1024  # of an archive from a box: a name, or what an extended header says


class Packing(Body):
    """A directory as an archive, with names relative to it."""

    def __init__(self, io: Io, root: str) -> None:
        self._io = io
        self._root = root
        self._pieces = _pack(root)

    async def next(self) -> bytes:
        return await self._io.run(lambda: next(self._pieces, b""))

    async def rewind(self) -> bool:
        self._pieces = _pack(self._root)
        return True


def _pack(root: str) -> Iterator[bytes]:
    for path, name in _walk(root):
        info = os.lstat(path)
        entry = tarfile.TarInfo(name)
        entry.mode, entry.mtime = stat.S_IMODE(info.st_mode), int(info.st_mtime)
        if stat.S_ISLNK(info.st_mode):
            entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(path)
        elif stat.S_ISDIR(info.st_mode):
            entry.type = tarfile.DIRTYPE
        elif stat.S_ISREG(info.st_mode):
            yield from _pack_file(path, entry)
            continue
        else:
            continue  # sockets, pipes, devices
        yield entry.tobuf(tarfile.PAX_FORMAT)
    yield bytes(2 * BLOCK)


def _walk(root: str) -> Iterator[Tuple[str, str]]:
    for top, directories, files in os.walk(root):
        directories.sort()
        for name in sorted(files) + directories:
            path = os.path.join(top, name)
            yield path, os.path.relpath(path, root)


def _pack_file(path: str, entry: tarfile.TarInfo) -> Iterator[bytes]:
    with open(path, "rb") as file:
        entry.size = left = os.fstat(file.fileno()).st_size
        yield entry.tobuf(tarfile.PAX_FORMAT)
        while left > 0:
            piece = file.read(min(PIECE, left))
            if not piece:
                raise FileError("changed", f"{path} became shorter while it was read")
            left -= len(piece)
            yield piece
    if entry.size % BLOCK:
        yield bytes(BLOCK - entry.size % BLOCK)


# --- unpack ---

class _Bounded:
    """The archive, read piece by piece: tarfile holds names and extended headers whole, however long they say they are."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= RECORD_MAX:
            raise FileError("bad_archive", "the archive has a record that is too long")
        return self._file.read(size)


def unpack(file: IO[bytes], root: str) -> None:
    """The archive comes from a box: it is not trusted. Links are made last, so that nothing is
    written through one."""
    os.makedirs(root, exist_ok=True)
    root = os.path.realpath(root)
    links: List[tarfile.TarInfo] = []
    modes: List[Tuple[str, int]] = []
    files: Set[str] = set()
    at = -1
    file.seek(0)
    with tarfile.open(fileobj=cast(IO[bytes], _Bounded(file)), mode="r:") as archive:
        for entry in archive:
            if entry.offset <= at or entry.size < 0:  # a length that leads back would never end
                raise FileError("bad_archive", f"the length of {entry.name!r} is not valid")
            at = entry.offset
            path = _place(root, entry.name)
            if path == root:
                continue
            if entry.issym():
                links.append(entry)
            elif entry.isdir():
                os.makedirs(path, exist_ok=True)
                modes.append((path, entry.mode & 0o777))
            elif entry.isreg() and not entry.issparse():  # a sparse one of a few bytes can fill the disk
                _unpack_file(archive, entry, path)
                files.add(path)
            elif entry.islnk():
                _link_again(root, entry, path, files)
                files.add(path)
            else:
                raise FileError("not_regular", f"{entry.name!r} is no plain file, directory or symbolic link")
    for entry in links:
        _make_link(root, entry)
    for path, mode in reversed(modes):
        if not os.path.islink(path):
            os.chmod(path, mode | 0o700)


def _is_below(root: str, path: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _place(root: str, name: str) -> str:
    path = os.path.normpath(os.path.join(root, name))
    if os.path.isabs(name) or ".." in name.split("/"):
        raise FileError("outside", f"{name!r} leads out of the directory")
    if path != root and not _is_below(root, os.path.realpath(os.path.dirname(path))):
        raise FileError("outside", f"{name!r} leads out of the directory by a link")
    return path


def _make_link(root: str, entry: tarfile.TarInfo) -> None:
    """Where it leads is asked from the system: it may lead through other links."""
    path = _place(root, entry.name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _remove(path)
    if os.path.lexists(path):
        raise FileIsThere("file_exists", f"where {entry.name!r} shall be there is a directory")
    os.symlink(entry.linkname, path)
    if os.path.isabs(entry.linkname) or not _is_below(root, os.path.realpath(path)):
        os.unlink(path)
        raise FileError("outside", f"the link {entry.name!r} leads out of the directory")


def _unpack_file(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: str) -> None:
    source: Optional[IO[bytes]] = archive.extractfile(entry)
    assert source is not None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _remove(path)
    mode = entry.mode & 0o777
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as target:
        while True:
            piece = source.read(PIECE)
            if not piece:
                break
            target.write(piece)
    os.utime(path, (entry.mtime, entry.mtime))


def _link_again(root: str, entry: tarfile.TarInfo, path: str, files: Set[str]) -> None:
    """Another name of a file, which must have come with this archive."""
    first = _place(root, entry.linkname)
    if first not in files:
        raise FileError("outside", f"{entry.name!r} is another name of a file that the archive does not have")
    if first == path:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _remove(path)
    os.link(first, path, follow_symlinks=False)


def _remove(path: str) -> None:
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
        os.unlink(path)
