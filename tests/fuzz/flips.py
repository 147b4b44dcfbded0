"""How many flipped bits are noticed: `python -m tests.fuzz flips` flips one at a time in sound inputs of every format.

    said      the input is refused, or `check` calls it damaged or notes something new
    silent    nothing is said, and some table is another one: a wrong number that nobody notices
    without effect    every table is as before: padding, or what nothing reads

A manifest notices all of them; what is counted here needs none.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from callgrove.analysis.tables import TABLES, export
from callgrove.errors import CallgroveError
from callgrove.formats.interface import Problem
from callgrove.formats.plausibility import find_implausible
from callgrove.formats.registry import check_path, open_path
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from tests.fuzz.seeds import Seed, make_seeds, readable_formats

__all__ = ["count_flips", "table_of_flips"]

SAID, SILENT, NONE = "said", "silent", "without effect"
BY_NOTES = "said by notes alone"  # what `check` finds strange in any format; without them it would be silent


def table_of_flips(n: int, formats: list[str] | None = None) -> Iterator[str]:
    """Yield the rows of a table in Markdown: what came of `n` flips of each format."""
    yield f"| format | flips | said before | silent before | {SAID} | {SILENT} | {NONE} |"
    yield "|---|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory(prefix="callgrove-flips-") as name:
        (Path(name) / "seeds").mkdir()
        seeds = make_seeds(Path(name) / "seeds")
        for format_ in formats or readable_formats():
            counts = count_flips(format_, seeds[format_], n, Path(name))
            yield _row(format_, n, counts)


def _row(format_: str, n: int, counts: Counter[str]) -> str:
    """Return a row; "before" is what `check` would say without the notes on what is strange."""
    said, noted, silent = counts[SAID], counts[BY_NOTES], counts[SILENT]
    return f"| {format_} | {n} | {said} | {silent + noted} | {said + noted} | {silent} | {counts[NONE]} |"


def count_flips(format_: str, seeds: list[Seed], n: int, folder: Path) -> Counter[str]:
    """Flip one bit at a time, `n` times in all, in the files of some seeds; return how often each thing happened."""
    rng, counts = random.Random(f"flips/{format_}"), Counter[str]()
    known = {seed.name: look(seed.path, format_) for seed in seeds}
    for _ in range(n):
        seed = rng.choice(seeds)
        file = rng.choice([name for name in seed.files if (seed.path / name).stat().st_size])
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            copy = Path(scratch) / seed.path.name
            shutil.copytree(seed.path, copy) if seed.path.is_dir() else shutil.copyfile(seed.path, copy)
            _flip(copy / file, rng)
            counts[judge(known[seed.name], look(copy, format_))] += 1
    return counts


Words = tuple[str, str]


def _flip(file: Path, rng: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


@dataclass(frozen=True)
class Look:
    """What `check` says of an input, which of it are notes on what is strange, and a digest of all that it holds."""

    problems: tuple[Words, ...]
    notes: frozenset[Words]
    digest: str

    @property
    def without_notes(self) -> list[Words]:
        return [problem for problem in self.problems if problem not in self.notes]


def look(path: Path, format_: str) -> Look:
    """Look at an input; one that cannot be read holds nothing."""
    try:
        problems = tuple(_words(problem, path) for problem in check_path(path, format_)[1])
        opened = open_path(path, from_format=format_)
        strange = () if isinstance(opened, Experiment) and opened.damage else find_implausible(opened)
        return Look(problems, frozenset(_words(note, path) for note in strange), _digest(path, opened))
    except CallgroveError as error:
        return Look((("refused", str(error)),), frozenset(), "")


def _words(problem: Problem, path: Path) -> Words:
    return problem.severity.value, problem.text.replace(str(path), "")


def _digest(path: Path, opened: Experiment | Study) -> str:
    digest = hashlib.sha256()
    if isinstance(opened, Study):
        digest.update(repr(list(opened.table().rows())).encode())
    else:
        for table in TABLES[:-1]:
            for chunk in export(opened, table):
                digest.update(repr(list(chunk.rows())).replace(str(path), "").encode())
    return digest.hexdigest()


def judge(before: Look, now: Look) -> str:
    """Return what came of a flip."""
    if now.problems != before.problems:
        is_strange = now.without_notes == before.without_notes and now.digest != before.digest
        return BY_NOTES if is_strange else SAID
    return NONE if now.digest == before.digest else SILENT
