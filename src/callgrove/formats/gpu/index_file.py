"""Writes an index: a folder (`.rpdb`) whose `index.yaml` names the databases of a run, so that they open as one.

    rocprofiler-sdk:
      rocpd:
        path: ..                the folder that the names start from, relative to the index
        files:
          - node1/1000.db

Nothing is copied. The folder and the databases can be moved together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from callgrove.errors import UsageError
from callgrove.formats.gpu.files import ENDINGS, INDEX
from callgrove.formats.targets import FolderKind, PendingFolder

__all__ = ["FOLDER", "write_index"]

FOLDER = FolderKind("an index of databases", lambda folder: (folder / INDEX).is_file())
_SAFE = re.compile(r"""[^"'#\[\],:\s][^"'#\[\],\n\r]*""")


def write_index(files: Sequence[Path], target: Path, overwrite: bool = False) -> None:
    """An index of these databases; what is there already goes only if it is such an index."""
    below = Path(os.path.commonpath([file.resolve().parent for file in files]))
    names = [str(file.resolve().relative_to(below)) for file in files]
    for file, name in zip(files, names, strict=True):
        if not _SAFE.fullmatch(name) or not name.endswith(ENDINGS):
            raise UsageError(f"{file}: an index cannot hold this name; names in it end in {', '.join(ENDINGS)}")
    pending = PendingFolder(target, overwrite, FOLDER)
    with pending.or_nothing():
        start = os.path.relpath(below, target.resolve())
        lines = ["rocprofiler-sdk:", "  rocpd:", f"    path: {start}", "    files:", *(f"      - {n}" for n in names)]
        (pending.place / INDEX).write_text("\n".join(lines) + "\n", encoding="utf-8")
        pending.complete()
