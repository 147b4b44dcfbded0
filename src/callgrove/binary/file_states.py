"""Files as they were: whether one was replaced, removed, added, or is still being written, told without reading any."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

__all__ = ["FileState", "FileStates", "look_at_files"]

MOST_FILES = 2_000  # of a folder that are looked at

FileState = tuple[int, int, int]  # inode, bytes, time of the last change in ns
FileStates = dict[str, FileState]


def look_at_files(paths: Sequence[str], levels: int = 2, most: int = MOST_FILES) -> FileStates:
    """Return the state of some files, and of what lies in folders among them: the first `levels` levels of these, and
    `most` files in all."""
    states: FileStates = {}
    for path in paths:
        for place, status in _walk(path, levels, most):
            states[place] = (status.st_ino, status.st_size, status.st_mtime_ns)
            if len(states) >= most:
                return states
    return states


def _walk(path: str, levels: int, most: int) -> Iterator[tuple[str, os.stat_result]]:
    try:
        status = os.stat(path)  # noqa: PTH116 - many files of Lustre: no objects
    except OSError:
        return
    if not stat.S_ISDIR(status.st_mode):
        yield path, status
    elif levels:
        try:
            names = sorted(os.listdir(path))  # noqa: PTH208
        except OSError:
            return
        for name in names[:most]:
            yield from _walk(f"{path}/{name}", levels - 1, most)
