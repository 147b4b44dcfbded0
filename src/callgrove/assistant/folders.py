"""Which files may be read: those under the folders that the user named, links resolved.

A path that leads outside is refused before anybody looks whether there is anything. So is an input that refers to
something outside: a link in a folder, or an `index.yaml` that names databases elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from callgrove.binary.files import walk_folder
from callgrove.errors import InputError, RefusedInput, UsageError
from callgrove.formats.gpu.files import INDEX, names_of_files
from callgrove.model.table import visible

__all__ = ["Folders"]

LONGEST_PATH = 4_096  # characters, as most systems have it
MOST_ENTRIES = 200_000  # of a folder that are looked at for links


@dataclass(frozen=True)
class Folders:
    """The folders that may be read, as they are without links."""

    roots: tuple[Path, ...]

    @classmethod
    def of(cls, names: Sequence[str]) -> Folders:
        """Return the folders of these names; each must be there. Files may be named as well."""
        roots = []
        for name in names:
            root = Path(os.path.realpath(name))
            if not root.exists():
                raise InputError(f"{name}: there is no such folder")
            roots.append(root)
        return cls(tuple(dict.fromkeys(roots)))

    def __str__(self) -> str:
        return ", ".join(visible(str(root)) for root in self.roots)

    def admit(self, text: str) -> Path:
        """Return the file or folder that a path means, without links; refuse what lies outside."""
        if not text or "\0" in text or len(text) > LONGEST_PATH:
            raise UsageError("a path is a text of 1 to 4,096 characters without a NUL")
        inside = [real for path in self._candidates(text) if self.contains(real := Path(os.path.realpath(path)))]
        if not inside:
            raise RefusedInput(f"{visible(text)}: lies outside of the folders that may be read: {self}")
        there = next((path for path in inside if path.exists()), None)
        if there is None:
            raise InputError(f"{visible(text)}: there is no such file or folder in {self}")
        self._refuse_references(there)
        return there

    def contains(self, real: Path) -> bool:
        """Tell whether a path without links lies in one of the folders."""
        return any(real.is_relative_to(root) for root in self.roots)

    def _candidates(self, text: str) -> list[Path]:
        """Return what a path may mean: relative ones begin in a folder, or with the name of one."""
        if Path(text).is_absolute():
            return [Path(text)]
        first, *rest = Path(text).parts or (".",)
        named = [root.joinpath(*rest) for root in self.roots if root.name == first]
        return [*(root / text for root in self.roots), *named]

    def _refuse_references(self, path: Path) -> None:
        if not path.is_dir():
            return self._refuse_index(path)
        for number, entry in enumerate(walk_folder(path)):
            if number >= MOST_ENTRIES:
                raise RefusedInput(f"{visible(str(path))}: has more than {MOST_ENTRIES:,} entries; name a part of it")
            if entry.is_symlink() and not self.contains(real := Path(os.path.realpath(entry.path))):
                outside = f"links to {visible(str(real))}, outside of the folders that may be read"
                raise RefusedInput(f"{visible(entry.path)}: {outside}")
            self._refuse_index(Path(entry.path))
        return None

    def _refuse_index(self, path: Path) -> None:
        """Refuse an index of databases that names some elsewhere."""
        if path.name != INDEX or not path.is_file():
            return
        for names in names_of_files([path]):
            real = Path(os.path.realpath(names[0]))
            if not self.contains(real):
                outside = f"names {visible(str(real))}, outside of the folders that may be read"
                raise RefusedInput(f"{visible(str(path))}: {outside}")
