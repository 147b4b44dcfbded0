"""Which files were named, and where the files that they mention lie here.

A measurement directory contributes its own measurement files, nothing below it. Relative paths in it begin at the
directory. GPU binaries may be known by where the directory lay when it was made: the file `original-path` in it says
where that was.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from callgrove.errors import InputError, Parameter, UsageError
from callgrove.formats.hpcrun.files import SUFFIX, measurement_files
from callgrove.prof.nodes import Flavour
from callgrove.prof.spool import Meeting
from callgrove.prof.survey import Batch, Programs

__all__ = ["Inputs", "PathRule", "default_target"]

ORIGINAL_PATH = "original-path"
LONGEST_PATH = 4096
BATCH_FILES, BATCH_BYTES = 32, 16 << 20  # whichever is reached first


@dataclass(frozen=True)
class PathRule:
    """`from=to`: paths that begin like this begin like that here (from the current folder, unless absolute). `*` is any
    one component."""

    pattern: re.Pattern[str]
    to: str
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> PathRule:
        parts = re.split(r"(?<!\\)=", text)
        if len(parts) != 2 or not parts[0]:
            form = ": is not of the form FROM=TO (a '=' in a path is written '\\=')"
            raise UsageError(Parameter("rules", text), form)
        before, after = (part.replace("\\=", "=") for part in parts)
        components = [re.escape(c).replace(r"\*", "[^/]+") for c in before.rstrip("/").split("/")]
        pattern = re.compile("/".join(components) + r"(?=/|$)")
        return cls(pattern, str(Path(after).absolute()).rstrip("/") if after else "", text)

    def apply(self, path: str) -> str | None:
        """Return the path here, or None where the rule does not concern it."""
        match = self.pattern.match(path)
        return self.to + path[match.end() :] if match else None


@dataclass(frozen=True)
class Inputs:
    """Measurement directories and files. `is_foreign`: nothing outside of the directories is ever opened."""

    paths: tuple[Path, ...]
    rules: tuple[PathRule, ...] = ()
    is_foreign: bool = False

    @cached_property
    def files(self) -> list[tuple[Path, Path]]:
        """(file, measurement directory) of all files, each once."""
        folder_of: dict[Path, Path] = {}
        for path in self.paths:
            files = self._files_of(path)
            folder = path.resolve() if path.is_dir() else path.resolve().parent
            for file in files:
                folder_of.setdefault(folder / file.name, folder)
        return list(folder_of.items())

    def _files_of(self, path: Path) -> Sequence[Path]:
        try:
            if not path.exists():
                raise InputError(f"{path}: there is no such file or folder")
            if not path.is_dir():
                return [path]
            files = measurement_files(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        if not files:
            raise InputError(f"{path}: there are no measurements ({SUFFIX} files) in this folder")
        return files

    @cached_property
    def folders(self) -> list[Path]:
        """The measurement directories."""
        return list(dict.fromkeys(folder for _, folder in self.files))

    def batches(
        self, flavour: Flavour, only_exe: Programs, wants_traces: bool, keeps: int = 0, meeting: Meeting | None = None
    ) -> list[Batch]:
        """Files in batches of bounded size. All together they may keep so many bytes of their tables."""
        bounds = bound_ranges([_size(path) for path, _ in self.files])
        files = [(str(path), str(folder)) for path, folder in self.files]
        each = keeps // max(1, len(bounds))
        return [Batch(tuple(files[a:b]), flavour, only_exe, wants_traces, each, meeting) for a, b in bounds]

    @cached_property
    def _first_places(self) -> list[tuple[str, Path]]:
        """(where a measurement directory lay first, where it lies now)."""
        places = []
        for folder in self.folders:
            told = folder / ORIGINAL_PATH
            try:
                if not told.is_file():  # most have none, and a pipe would be waited for
                    continue
                with told.open("rb") as file:
                    text = os.fsdecode(file.read(LONGEST_PATH)).strip()
            except OSError:
                continue
            if text.startswith("/"):
                places.append((text.rstrip("/"), folder))
        return places

    def candidates(self, path: str) -> list[str]:
        """Return everything that a path of a module or source file may be called: as measured, then where it may lie
        here."""
        paths = [path]
        if not path.startswith("/"):
            paths += [str(folder / path) for folder in self.folders]
            paths += [f"{place}/{path}" for place, _ in self._first_places]
            return paths
        for place, folder in self._first_places:
            if path.startswith(place + "/"):
                rest = path[len(place) + 1 :]
                paths += [str(folder / rest), rest]
        paths += [moved for rule in self.rules if (moved := rule.apply(path)) is not None]
        return paths

    def locate(self, path: str) -> Path | None:
        """Return the file that a path means here, where it may be opened."""
        if "\0" in path:
            return None
        for candidate in reversed(self.candidates(path)):
            where = Path(candidate)
            try:
                if where.is_absolute() and self._may_open(where) and where.is_file():
                    return where
            except OSError:  # in a folder of somebody else, or no path that a file could have
                continue
        return None

    def find_unused_rules(self, paths: Iterable[str]) -> list[PathRule]:
        """Rules that concern none of these paths."""
        known = list(paths)
        return [rule for rule in self.rules if all(rule.apply(path) is None for path in known)]

    def _may_open(self, path: Path) -> bool:
        if not self.is_foreign:
            return True
        real = Path(os.path.realpath(path))  # where links go round in circles, too
        return any(real.is_relative_to(folder) for folder in self.folders)


def bound_ranges(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of items that are together not too large; at least one item each."""
    out: list[tuple[int, int]] = []
    first, total = 0, 0
    for number, size in enumerate(sizes):
        if number > first and (number - first >= BATCH_FILES or total + size > BATCH_BYTES):
            out.append((first, number))
            first, total = number, 0
        total += size
    return [*out, (first, len(sizes))] if len(sizes) else out


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # reading it will say why
        return 0


def default_target(folder: Path) -> Path:
    """Return the database of a measurement directory, named as HPCToolkit names it, in the current folder: measurements
    may lie where nobody should write."""
    given = Path(os.path.normpath(Path.cwd() / folder)).name
    match = re.fullmatch(r"(hpctoolkit-.*)-measurements(-.*)?", given)
    return Path(f"{match[1]}-database{match[2] or ''}" if match else f"{given}-database")
