"""The terminal of this program, connected with one in a box."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import threading
import tty
from typing import TYPE_CHECKING, Iterator

if TYPE_CHECKING:
    from .sync import Shell


@contextlib.contextmanager
def _raw(fd: int) -> Iterator[None]:
    if not os.isatty(fd):
        yield
        return
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def interact(shell: "Shell") -> None:
    """Until the shell ends. Keys go to the box as they are, so also Ctrl-C; the size follows."""
    is_over = threading.Event()
    there, here = os.pipe()  # wakes us when the output is over

    def show() -> None:
        try:
            for chunk in shell:
                sys.stdout.buffer.write(chunk.data)
                sys.stdout.buffer.flush()
        finally:
            is_over.set()
            os.close(here)

    def fit(*_: object) -> None:
        size = shutil.get_terminal_size()
        with contextlib.suppress(OSError):
            shell.resize(size.columns, size.lines)

    keys = sys.stdin.fileno()
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGWINCH, fit) if is_main else None
    reader = threading.Thread(target=show, daemon=True)
    try:
        with _raw(keys):
            fit()
            reader.start()
            wanted = [keys, there]
            while not is_over.is_set():
                ready, _, _ = select.select(wanted, [], [])
                if keys in ready:
                    data = os.read(keys, 65536)
                    with contextlib.suppress(OSError):
                        shell.send(data) if data else shell.close_stdin()
                    if not data:
                        wanted.remove(keys)
    finally:
        if is_main:
            signal.signal(signal.SIGWINCH, before)
        os.close(there)
