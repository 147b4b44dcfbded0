"""What is said where a mapped file cannot be looked at: it became shorter meanwhile, or the disk or network fails.

Large files are mapped into memory. Where a page of one is not there any more, there is no call that could fail: the
system sends SIGBUS, which would end the program without a word. Here it ends with a sentence. Nothing can be taken back
then; a target in the making goes when it is written again (formats/writing/targets.py).
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from callgrove.errors import InputError
from callgrove.model.table import visible

__all__ = ["saying_bus_errors"]

SHARED = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r.-s ([0-9a-f]+) \S+ \S+ +(/.*)")  # a line of /proc/self/maps
PAGE = 4096
SHOWN = 3
SET_ERROR = ctypes.c_void_p(-1).value


@contextmanager
def saying_bus_errors() -> Iterator[None]:
    """End the program with a sentence where SIGBUS arrives inside; one that somebody handles already is left alone."""
    install = _find_signal()
    if install is None:
        yield
        return
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(_end)
    before = install(signal.SIGBUS, ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        install(signal.SIGBUS, before if before != SET_ERROR else None)


def _find_signal() -> Callable[[int, object], int | None] | None:
    """Return the system's own `signal`: a handler of Python would run when the program goes on, which it never does."""
    if not sys.platform.startswith("linux") or threading.current_thread() is not threading.main_thread():
        return None
    if signal.getsignal(signal.SIGBUS) != signal.SIG_DFL:
        return None
    install = ctypes.CDLL(None).signal
    install.restype, install.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
    return install


def _end(number: int) -> None:
    """Say what happened and end on the spot: what would be returned to fails at once again."""
    try:
        os.write(2, f"callgrove: {visible(_describe(list(_list_mapped())))}\n".encode())
    finally:
        os._exit(InputError.exit_code)


def _list_mapped() -> Iterator[tuple[str, int]]:
    """Yield the files that are mapped, as inputs are, and the bytes that a file must have at least for it."""
    for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
        if match := SHARED.fullmatch(line):
            begin, end, offset = (int(match[k], 16) for k in (1, 2, 3))
            yield match[4], offset + end - begin - PAGE + 1


def _describe(mapped: list[tuple[str, int]]) -> str:
    for path, least in mapped:
        try:
            size = Path(path).stat().st_size
        except OSError as error:
            return f"{path}: cannot be read: {error.strerror}"
        if size < least:
            return f"{path}: became shorter while it was read; run again when nothing writes to it any more"
    files = list(dict.fromkeys(path for path, _ in mapped))
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return f"{', '.join(files[:SHOWN]) or 'an input'}{more}: cannot be read: the disk or the network fails"
