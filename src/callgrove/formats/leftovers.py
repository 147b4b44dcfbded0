"""Hidden places beside targets, where these are written, and what processes that were killed left of theirs.

    .NAME.WHERE-PID-RANDOM.partial      also .NAME.WHERE-PID-RANDOM.3.partial for parts of it
    .NAME.WHERE-PID-RANDOM.old          what was there before, for the moment of a rename

A process that is killed on the spot (SIGKILL, a node without memory) cannot take back what it began. Whoever writes the
same target next does it, if there is no doubt: WHERE is a number for this boot of this machine and its space of process
ids (those of containers are others), the process is gone, and the file is ours. A place with something set aside (.old)
is left alone: the process died while it renamed, and both may be wanted.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["hidden_place", "remove", "remove_leftovers"]

LONGEST = 200  # bytes of a name that is shown in the hidden one: file systems allow 255 in all
UNKNOWN = "00000000"
PARTIAL, OLD = ".partial", ".old"


def hidden_place(folder: Path, name: str) -> Path:
    """A new name in the folder for something in the making."""
    return folder / f".{_shown(name)}.{_where()}-{os.getpid()}-{secrets.token_hex(4)}{PARTIAL}"


def remove_leftovers(folder: Path, name: str) -> None:
    """What processes that no longer exist left beside a target. What cannot be removed stays."""
    if _where() == UNKNOWN:
        return
    with suppress(OSError):  # a folder that may be written to but not be read
        for place in list(_leftovers(folder, name)):
            remove(place)


def _leftovers(folder: Path, name: str) -> Iterator[Path]:
    own = re.compile(rf"(\.{re.escape(_shown(name))}\.{_where()}-([1-9]\d{{0,9}})-[0-9a-f]{{8}})(\.\d+)?{PARTIAL}")
    names = {entry.name for entry in os.scandir(folder)}
    for found in filter(None, map(own.fullmatch, sorted(names))):
        place = folder / found[0]
        if found[1] + OLD not in names and not _is_alive(int(found[2])) and _is_ours(place):
            yield place


def _is_alive(pid: int) -> bool:
    """In doubt it is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's
        return True
    return True


def _is_ours(place: Path) -> bool:
    try:
        return place.lstat().st_uid == os.geteuid()
    except OSError:  # gone meanwhile
        return False


def remove(path: Path) -> None:
    """A file or a folder, as far as possible; of a link the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _shown(name: str) -> str:
    """The name, or what stands for one that would become too long."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= LONGEST else hashlib.blake2b(encoded, digest_size=16).hexdigest()


@cache
def _where() -> str:
    """Whose process ids these are; unknown where the system does not tell it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no path: a text like pid:[4026531836]
    except OSError:
        return UNKNOWN
    return hashlib.blake2b(f"{boot}{space}".encode(), digest_size=4).hexdigest()
