"""Snapshots as files of this machine."""

from __future__ import annotations

import os
import tempfile
from typing import Optional, Union

from . import calls, events
from .files import Pieces
from .link import Link
from .types import Snapshot

Path = Union[str, "os.PathLike[str]"]

SILENCE_S = 150.0  # longer than the daemon waits for something to move
WHOLE_S = 600.0  # a large disk is read once more
ANSWER_MAX = 1024 * 1024


async def save(link: Link, snapshot_id: str, local: Path, format: Optional[str] = None) -> int:
    """To a file, which appears when it is whole. Returns its size."""
    run = link.io.run
    target = os.fspath(local)
    incoming = await link.open("GET", calls.snapshot_file(snapshot_id, format), silence_s=SILENCE_S)
    size = 0
    name = None
    try:
        file = await run(lambda: tempfile.NamedTemporaryFile(
            dir=os.path.dirname(os.path.abspath(target)), prefix=".sandpool-", delete=False))
        name = file.name
        with file:
            while True:
                piece = await incoming.read()
                if not piece:
                    break
                size += len(piece)
                await run(lambda data=piece: file.write(data))  # type: ignore[misc]
        await run(lambda: os.replace(file.name, target))
    except BaseException:
        incoming.close()
        if name is not None:
            os.unlink(name)
        raise
    return size


async def load(link: Link, local: Path, name: Optional[str], profile: Optional[str],
               any_base: bool) -> Snapshot:
    file = await link.io.run(lambda: open(local, "rb"))
    with file:
        size = os.fstat(file.fileno()).st_size
        incoming = await link.open("POST", calls.import_target(name, profile, any_base),
                                   data=Pieces(link.io, file, size), silence_s=WHOLE_S,
                                   headers={"Content-Type": "application/zstd"})
        return Snapshot.from_json(events.parse(await incoming.read_all(ANSWER_MAX)))
