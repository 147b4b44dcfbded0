"""The format `folded`: a line for each call stack, frames from the root joined by `;`, and what it costs.

    main;solve;kernel 20000000000
    main;solve;MPI_Allreduce 12000000000

Specification: the input of flamegraph.pl, which many tools read.

Writing: one metric; numbers are whole. A `;` in a name would be a further frame, and becomes a `:`; a line end is
written as \\n. Stacks that read the same are one line.

Reading: the number stands behind the last blank and may have decimals; equal stacks add up. Where every line ends in
two numbers, as those of difffolded.pl do, they are two metrics. Lines that begin with `#` are comments. Suffixes of
frames (`_[k]` kernel, `_[i]` inlined, `_[j]` compiled at run time) become roles, and stay in the name.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints
from callgrove.binary.files import Source
from callgrove.errors import InputError
from callgrove.formats.interface import Field, Grade, Match, ReadOptions, WriteOptions
from callgrove.formats.stacks.costs import choose_metric, choose_scale, exclusive_costs, round_costs
from callgrove.formats.stacks.frames import Frames, Labels, clean_name, merge_stacks, owners
from callgrove.formats.stacks.writer import StackWriter, in_pieces
from callgrove.formats.text_profiles import (
    CheckedByReading,
    ContextsByPath,
    LeftOut,
    TextBlock,
    add_up_values,
    head_lines,
    text_blocks,
)
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind

__all__ = ["FORMAT", "FoldedWriter"]


# -- reading -----------------------------------------------------------------------------------------------------------


NUMBER = re.compile(rb"[+-]?(?:(\d{1,18})|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
ENDING = re.compile(r"\.folded(\.(gz|zst|xz|bz2))?\Z", re.IGNORECASE)
TOLERATED = 10  # one line in so many may be broken, and the file is still recognised
MOST_NUMBERS = 1 << 16  # texts of numbers that are remembered
COMMENT = ord("#")
ROLES = {"_[k]": "kernel", "_[i]": "inlined", "_[j]": "jit"}
SAMPLES = ("samples", "samples 2")
NO_NUMBER = "lines that do not end in a blank and a number"


def parse_number(text: bytes) -> int | float | None:
    """Return a finite number; None where the text is none."""
    match = NUMBER.fullmatch(text)
    if match is None:
        return None
    if match[1] is not None:
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else None


@dataclass
class _Numbers:
    """Numbers by their text; most of them occur again and again."""

    known: dict[bytes, int | float | None] = field(default_factory=dict)

    def parse(self, text: bytes) -> int | float | None:
        if text in self.known:
            return self.known[text]
        number = parse_number(text)
        if len(self.known) < MOST_NUMBERS:
            self.known[text] = number
        return number


@dataclass
class _Stacks:
    """Sums by stack. `lines` counts the lines of each while every line seen so far ends in two numbers: the first of
    the two is then the end of the stack's text."""

    left_out: LeftOut = field(default_factory=LeftOut)
    sums: dict[bytes, int | float] = field(default_factory=dict)
    lines: dict[bytes, int] | None = field(default_factory=dict)

    def read(self, blocks: Iterator[TextBlock]) -> None:
        """Add up the lines of a file."""
        numbers, sums = _Numbers(), self.sums
        for block in blocks:
            for line in block.data.split(b"\n"):
                stack, _, number = line.rpartition(b" ")
                value = numbers.known.get(number)
                if (
                    value is None
                    or self.lines is not None
                    or not stack
                    or stack[0] == COMMENT
                    or stack.strip() != stack
                ):
                    self._add_line(line, numbers)
                else:  # as nearly all lines are
                    sums[stack] = sums.get(stack, 0) + value

    def _add_line(self, line: bytes, numbers: _Numbers) -> None:
        parts = line.rsplit(None, 1)
        if not parts or line[0] == COMMENT:
            return
        value = numbers.parse(parts[1]) if len(parts) == 2 else None
        if value is None:
            self.left_out.damage(NO_NUMBER, line)
            return
        stack = parts[0].strip()
        self.sums[stack] = self.sums.get(stack, 0) + value
        if self.lines is not None:
            self._count(stack, numbers)

    def _count(self, stack: bytes, numbers: _Numbers) -> None:
        assert self.lines is not None
        parts = stack.rsplit(None, 1)
        if len(parts) == 2 and numbers.parse(parts[1]) is not None:
            self.lines[stack] = self.lines.get(stack, 0) + 1
        else:
            self.lines = None

    def columns(self) -> tuple[list[bytes], list[list[int | float]]]:
        """Return the stacks, and their numbers: one list, or two where every line has two."""
        if not self.lines:
            return list(self.sums), [list(self.sums.values())]
        split = [stack.rsplit(None, 1) for stack in self.sums]
        first = [
            (parse_number(text) or 0) * self.lines[stack] for stack, (_, text) in zip(self.sums, split, strict=True)
        ]
        return [head for head, _ in split], [first, list(self.sums.values())]


def _as_array(numbers: list[int | float]) -> Array:
    """Return integers as such, where all are and each fits."""
    if all(isinstance(number, int) and abs(number) < 2**63 for number in numbers):
        return np.array(numbers, np.int64)
    return np.array(numbers, np.float64)


def _read_stacks(path: Path) -> tuple[list[bytes], list[Array], LeftOut]:
    """Return the stacks of a file, their numbers, and what was left out. The sums by stack go with this function."""
    read = _Stacks()
    read.read(text_blocks(path))
    stacks, columns = read.columns()
    return stacks, [_as_array(numbers) for numbers in columns], read.left_out


def _add_stacks(builder: ExperimentBuilder, stacks: list[bytes]) -> Ids:
    """Add the contexts of stacks, and return that of each. The list is emptied: every stack may have names of its own,
    which take memory instead."""
    parents, names, out = array("i"), array("i"), array("i")

    def add(parent: int, name: int) -> int:
        parents.append(parent)
        names.append(name)
        return len(parents) - 1

    contexts, number_of = ContextsByPath(add), builder.string.__getitem__
    stacks.reverse()
    while stacks:
        frames = stacks.pop().decode("utf-8", "backslashreplace").split(";")
        out.append(contexts.descend(map(number_of, frames)))
    del contexts
    regions = _add_regions(builder, np.array(names, np.int32))
    kind = np.full(len(parents), ContextKind.FUNCTION)
    builder.add_contexts(parent=np.array(parents, np.int32), kind=kind, region=regions)
    return np.array(out, np.int32)


def _add_regions(builder: ExperimentBuilder, names: Ids) -> Ids:
    """Add a region for each different name, in the order in which they come, and return those of all."""
    texts = builder.string.all
    region_of = np.full(len(texts) + 1, ABSENT, np.int32)  # the last one is that of an empty name
    different, first = np.unique(names, return_index=True)
    for name in different[np.argsort(first)].tolist():
        text = texts[name] if name >= 0 else ""
        region_of[name] = builder.region(ContextKind.FUNCTION, text, role=ROLES.get(text[-4:], ""))
    regions: Ids = region_of[names]
    return regions


def _look_folded(lines: list[bytes]) -> bool:
    """Return whether lines end in a number, comments aside, and some are stacks of several frames. Where a few lines do
    not, as in a damaged file, half of the others must be such stacks."""
    split = [line.rsplit(None, 1) for line in lines if line.strip() and not line.startswith(b"#")]
    stacks = [parts[0] for parts in split if len(parts) == 2 and parse_number(parts[1]) is not None]
    n_paths = sum(b";" in stack for stack in stacks)
    n_others = len(split) - len(stacks)
    return n_paths > 0 if not n_others else TOLERATED * n_others <= len(split) and 2 * n_paths >= len(stacks)


def _all_have_numbers(lines: list[bytes]) -> bool:
    """Return whether all lines are a text with a number, comments aside, as where nothing was called by another."""
    split = [line.rsplit(None, 1) for line in lines if line.strip() and not line.startswith(b"#")]
    return bool(split) and all(len(parts) == 2 and parse_number(parts[1]) is not None for parts in split)


# -- writing -----------------------------------------------------------------------------------------------------------


class FoldedWriter(StackWriter):
    """A file in the making."""

    def _make(self, tables: Experiment) -> Iterator[bytes]:
        name = choose_metric(tables, self.target)
        tree = tables.contexts
        costs = self._without_negative(tables, name, exclusive_costs(tables, name, self._report))
        labels = Labels.short(tree)
        key, names = labels.merge([clean_name(label, ";") for label in labels.names])
        owner = owners(tree, ~tree.folded)
        frames = merge_stacks(tree, owner, key[owner])
        of_stacks = frames.add_up(costs)
        scale = choose_scale(tables.metrics.first(name).unit, [of_stacks])
        whole = round_costs(of_stacks, scale)
        self._give(name, costs)
        yield from in_pieces(_lines(frames, names, whole.numbers))
        self._pass_on(name, whole.numbers, scale, whole.rest)
        self._say_rounding(whole, scale)
        self._report.hint(scale.say(name))
        self._say_losses_of_folded(tables, name, labels)

    def _say_losses_of_folded(self, tables: Experiment, name: str, labels: Labels) -> None:
        changed = sum(clean_name(label, ";") != label for label in labels.names)
        if changed:
            self._report.add(f"names with ; or line ends: {changed:,} are written with other characters")
        self._say_metrics(tables, name)
        if len(tables.profiles.measured) > 1:
            self._report.add(f"which of {len(tables.profiles.measured):,} profiles: their costs are added up")
        regions = tables.contexts.regions
        if any(bool((column >= 0).any()) for column in (regions.file, regions.line, regions.module)):
            self._report.add("source files, lines and modules: a stack is made of names")
        self._say_losses(tables)


def _lines(frames: Frames, names: list[str], numbers: Ints) -> Iterator[str]:
    """Yield the stacks that cost anything, in preorder."""
    stack: list[str] = []
    columns = (frames.depth.tolist(), frames.key.tolist(), numbers.tolist())
    for depth, key, number in zip(*columns, strict=True):
        del stack[depth:]
        stack.append(names[key])
        if number:
            yield f"{';'.join(stack)} {number}\n"


# -- the format --------------------------------------------------------------------------------------------------------


class FoldedFormat(CheckedByReading):
    """Folded stacks."""

    name = "folded"
    title = "folded call stacks (a;b;c 12) of flamegraph.pl, inferno, speedscope"

    def match(self, source: Source) -> Match | None:
        lines = head_lines(source)
        if _look_folded(lines):
            return Match(Grade.WEAK, "its lines are stacks, frames joined by ;, with a number each")
        if ENDING.search(source.path.name) and _all_have_numbers(lines):
            return Match(Grade.WEAK, "its name ends in .folded, and its lines in a number each")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        """Return one profile with the sums of all stacks."""
        builder = ExperimentBuilder(self.name, title=source.name, path=str(source.path))
        stacks, columns, left_out = _read_stacks(source.path)
        if not stacks:
            raise InputError(f"{source.path}: no line holds a stack and a number, as in a;b;c 12")
        contexts = _add_stacks(builder, stacks)
        profile = builder.add_profile(ProfileKind.AGGREGATE)
        for name, values in zip(SAMPLES, columns, strict=False):
            kind = "double" if values.dtype.kind == "f" else "int64"
            metric = builder.add_metric(Metric(name, Scope.EXCLUSIVE, dtype=kind))
            add_up_values(builder, profile, contexts, metric, values)
        left_out.report(builder, source.path)
        return builder.build()

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield the stack and the number of every line."""
        index = 0
        for block in text_blocks(source.path):
            at = block.offset
            for line in block.data.splitlines(keepends=True):
                stack, number = _fields_of(line)
                for name, value in (("stack", stack), ("number", number)):
                    if value:
                        yield Field(source.path.name, "lines", index, at, name, value)
                at, index = at + len(line), index + 1

    def open_writer(self, target: Path, options: WriteOptions) -> FoldedWriter:
        return FoldedWriter(target, options)


FORMAT = FoldedFormat()


def _fields_of(line: bytes) -> tuple[str, str]:
    """Return the stack and the number of a line as text; the number is empty where there is none."""
    parts = line.rsplit(None, 1)
    if len(parts) != 2 or line.startswith(b"#") or parse_number(parts[1]) is None:
        parts = [line.rstrip(), b""]
    stack, number = (part.decode("utf-8", "backslashreplace") for part in parts)
    return stack, number
