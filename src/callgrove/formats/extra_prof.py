"""The format `extra-prof`: profiles of Extra-Prof, the profiler of Extra-P (`profile3.extra-prof.msgpack`).

    ["EXTRA PROF", version, node, [names of GPU counters], [[name, device], ...]]       the last two may be missing
    node = [name, [nodes], type, flags, duration, visits, bytes, [GPU counters], [[value, ...], ...]]

Specification: what Extra-Prof writes (its `profile.h` and `calltree_node.h`) and its files in Extra-P's repository. All
is MessagePack. Durations are nanoseconds and contain those of the calls below; energy is in microjoules. Numbers of a
node are one, or a list over the threads that came there: in no order, and without names, so that threads cannot be told
apart and are added up. `threads` says how many they were.

A file is a process, whose rank is the number in its name. What GPUs did (kernels, copies, memsets) is `gpu_time`, and
no part of the host's `time`; Extra-P keeps both in one metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import Floats
from callgrove.binary.files import Source
from callgrove.binary.msgpack import read_value
from callgrove.errors import CorruptFile, InputError, count_of
from callgrove.formats.interface import Field, Grade, Match, ReadOptions
from callgrove.formats.text_profiles import CheckedByReading, ContextsByPath
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind

__all__ = ["FORMAT"]

MAGIC = b"\xaaEXTRA PROF"  # a text, behind the head of an array of 3 to 5 elements
SUFFIX = ".extra-prof.msgpack"
RANKED = re.compile(r"profile(\d{1,9})\.extra-prof\.msgpack")
N_NODE, N_COUNTERS, N_EXTENDED = 7, 8, 9  # elements of a node; with GPU counters; with further metrics
OVERLAP_FLAG = 2
ALL_FLAGS = 3


class NodeType(IntEnum):
    """What Extra-Prof calls a node."""

    NONE = 0
    KERNEL_LAUNCH = 1
    KERNEL = 2
    COPY = 3
    MEMSET = 4
    SYNCHRONISATION = 5
    OVERHEAD = 6
    OVERLAP = 7
    MEMORY = 8


KINDS = {
    NodeType.KERNEL: ContextKind.KERNEL,
    NodeType.COPY: ContextKind.COPY,
    NodeType.MEMSET: ContextKind.COPY,
}
HOST, GPU, OVERLAP, OVERLAPPING = "time", "gpu_time", "overlap_time", "overlapping_time"
METRICS = {
    HOST: Metric(HOST, Scope.EXCLUSIVE, "ns"),
    GPU: Metric(GPU, Scope.EXCLUSIVE, "ns"),
    OVERLAP: Metric(OVERLAP, Scope.EXCLUSIVE, "ns", description="time of a GPU activity during which others ran"),
    OVERLAPPING: Metric(OVERLAPPING, Scope.EXCLUSIVE, "ns", description="the same by activity that ran meanwhile"),
    "visits": Metric("visits", Scope.EXCLUSIVE),
    "bytes": Metric("bytes", Scope.EXCLUSIVE, "B"),
    "threads": Metric("threads", Scope.EXCLUSIVE, aggregation=Aggregation.MAXIMUM),
}
CONTAINED = (HOST, "energy_cpu", "energy_gpu")  # metrics that contain what the calls below have


# -- one file ----------------------------------------------------------------------------------------------------------


@dataclass
class _Head:
    """What a file says before its call tree."""

    version: str
    root: list[Any]
    counters: list[str]
    extended: list[str]


def _read_head(path: Path) -> _Head:
    value, end = read_value(path)
    if not isinstance(value, list) or not 3 <= len(value) or value[0] != "EXTRA PROF":
        raise _bad(path, "an array that begins with EXTRA PROF", value)
    counters = [str(name) for name in value[3]] if len(value) > 3 and isinstance(value[3], list) else []
    extended = value[4] if len(value) > 4 and isinstance(value[4], list) else []
    if not all(isinstance(one, list) and one for one in extended):
        raise _bad(path, "a list of names and devices", extended)
    if (size := path.stat().st_size) > end:
        raise CorruptFile(path, "end", offset=end, expected="the end of the file", found=f"{size - end} bytes more")
    return _Head(str(value[1]), value[2], counters, [str(one[0]) for one in extended])


def _bad(path: Path, expected: str, actual: object) -> CorruptFile:
    text = repr(actual)
    return CorruptFile(path, "call tree", expected=expected, found=text if len(text) < 80 else f"{text[:77]}...")


def _add_up(path: Path, numbers: object) -> float:
    """Return a number, or the sum of a list of them; durations, visits, sizes and counters are never negative."""
    listed = numbers if isinstance(numbers, list) else [numbers]
    if not all(isinstance(one, int | float) and not one < 0 for one in listed):
        raise _bad(path, "a number from 0 on, or numbers of threads", numbers)
    return float(sum(listed))


@dataclass
class _Tree:
    """Numbers of one file: by metric, what each context has; a context contains those below it."""

    parents: dict[int, int] = field(default_factory=dict)
    numbers: dict[str, dict[int, float]] = field(default_factory=dict)
    n_unknown: int = 0  # nodes of types or with flags that nobody has defined

    def add(self, metric: str, context: int, value: float) -> None:
        if value:
            row = self.numbers.setdefault(metric, {})
            row[context] = row.get(context, 0.0) + value

    def note_threads(self, context: int, n: int) -> None:
        row = self.numbers.setdefault("threads", {})
        row[context] = max(row.get(context, 0.0), float(n))

    def take_off_children(self, metric: str) -> int:
        """Make inclusive numbers exclusive; return how many contexts have less than what is below them, which becomes
        0: threads below them ran at the same time."""
        inclusive = self.numbers.get(metric, {})
        exclusive = dict(inclusive)
        for context, value in inclusive.items():
            parent = self.parents[context]
            if parent >= 0:
                exclusive[parent] = exclusive.get(parent, 0.0) - value
        below = [context for context, value in exclusive.items() if value < 0]
        self.numbers[metric] = {context: max(0.0, value) for context, value in exclusive.items()}
        return len(below)


class _Contexts:
    """Contexts of a builder by names and kinds along the path."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self._builder = builder
        self._frames: dict[tuple[ContextKind, str], int] = {}
        self._listed: list[tuple[ContextKind, str]] = []
        self._by_path = ContextsByPath(self._add)

    def below(self, parent: int, kind: ContextKind, name: str) -> int:
        """Return the context of a call."""
        frame = self._frames.setdefault((kind, name), len(self._frames))
        if frame == len(self._listed):
            self._listed.append((kind, name))
        return self._by_path.descend([frame], parent)

    def _add(self, parent: int, frame: int) -> int:
        kind, name = self._listed[frame]
        return self._builder.add_context(parent, kind, self._builder.region(kind, name))


def _read_tree(path: Path, head: _Head, contexts: _Contexts) -> _Tree:
    """Return the numbers of a file at the contexts of the experiment. Calls of one name in one place are one."""
    tree = _Tree()
    waiting: list[tuple[int, object]] = [(-1, node) for node in _check_node(path, head.root)[1][::-1]]
    while waiting:
        parent, given = waiting.pop()
        node = _check_node(path, given)
        kind = KINDS.get(node[2], ContextKind.FUNCTION)
        context = contexts.below(parent, kind, node[0])
        tree.parents[context] = parent
        tree.n_unknown += not (0 <= node[2] <= NodeType.MEMORY and 0 <= node[3] <= ALL_FLAGS)
        _add_numbers(path, tree, context, node, head)
        waiting += [(context, child) for child in node[1][::-1]]
    return tree


def _check_node(path: Path, node: object) -> list[Any]:
    kinds = (str, list, int, int)
    if not isinstance(node, list) or len(node) < N_NODE:
        raise _bad(path, f"a node of {N_NODE} elements or more", node)
    if not all(isinstance(one, kind) for one, kind in zip(node, kinds, strict=False)):
        raise _bad(path, "a node with name, calls, type and flags", node[:4])
    if isinstance(node[4], list) and isinstance(node[5], list) and len(node[4]) != len(node[5]):
        raise _bad(path, "as many durations as numbers of visits: one for each thread", node[4:6])
    return node


def _add_numbers(path: Path, tree: _Tree, context: int, node: list[Any], head: _Head) -> None:
    kind, flags = node[2], node[3]
    time = GPU if kind in KINDS else HOST
    if kind == NodeType.OVERLAP:
        time = OVERLAP
    elif flags & OVERLAP_FLAG:
        time = OVERLAPPING
    for metric, numbers in ((time, node[4]), ("visits", node[5]), ("bytes", node[6])):
        tree.add(metric, context, _add_up(path, numbers))
    if isinstance(node[4], list) and len(node[4]) > 1:
        tree.note_threads(context, len(node[4]))
    _add_named(path, tree, context, head.counters, node[N_COUNTERS - 1] if len(node) >= N_COUNTERS else [])
    _add_named(path, tree, context, head.extended, node[N_EXTENDED - 1] if len(node) >= N_EXTENDED else [])


def _add_named(path: Path, tree: _Tree, context: int, names: Sequence[str], values: object) -> None:
    """Add numbers whose names stand at the head of the file."""
    if not isinstance(values, list):
        raise _bad(path, "a list of numbers", values)
    for name, value in zip(names, values, strict=False):
        tree.add(name, context, _add_up(path, value))


# -- the experiment ----------------------------------------------------------------------------------------------------


class _Collector:
    """Gives files to a builder, a profile each."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self._builder = builder
        self._contexts = _Contexts(builder)
        self._metrics: dict[str, int] = {}
        self._below: dict[str, int] = {}  # metrics with less than what is below: number of contexts
        self._n_unknown = 0
        self.n_contexts = 0

    def add(self, path: Path) -> None:
        head = _read_head(path)
        tree = _read_tree(path, head, self._contexts)
        for metric in CONTAINED:
            if n := tree.take_off_children(metric):
                self._below[metric] = self._below.get(metric, 0) + n
        match = RANKED.fullmatch(path.name)
        rank = DEFAULT_ID_NAMES.index("RANK")
        numbers: list[Identifier] = [(rank, int(match[1]), int(match[1]), int(Interpretation.SINGLE))] if match else []
        profile = self._builder.add_profile(ProfileKind.THREAD, numbers)
        for name, row in tree.numbers.items():
            if row:
                contexts, values = np.fromiter(row, np.int64, len(row)), np.fromiter(row.values(), np.float64, len(row))
                self._builder.add_values(profile, contexts, self._metric(name), _as_integers(values))
        self.n_contexts += len(tree.parents)
        self._n_unknown += tree.n_unknown

    def _metric(self, name: str) -> int:
        if name not in self._metrics:
            unit = "uJ" if name.startswith("energy_") else ""
            self._metrics[name] = self._builder.add_metric(METRICS.get(name) or Metric(name, Scope.EXCLUSIVE, unit))
        return self._metrics[name]

    def finish(self) -> None:
        for metric, n in self._below.items():
            text = f"{n} callers have less than their calls, as where several threads work at a time; they count as 0"
            self._builder.warn(Severity.NOTE, f"{metric}: {text}")
        if self._n_unknown:
            text = (
                f"{count_of(self._n_unknown, 'node is of a type or has', 'nodes are of a type or have')} flags "
                "that are not known; such types count as functions"
            )
            self._builder.warn(Severity.NOTE, text)


def _as_integers(values: Floats) -> Floats | np.typing.NDArray[np.int64]:
    whole = bool((np.abs(values) < 2**53).all()) and bool((values == np.rint(values)).all())
    return values.astype(np.int64) if whole else values


# -- the format --------------------------------------------------------------------------------------------------------


class ExtraProfFormat(CheckedByReading):
    """Reads and checks profiles of Extra-Prof."""

    name = "extra-prof"
    title = "Extra-Prof profiles (.extra-prof.msgpack), a file or a folder with one for each rank"

    def match(self, source: Source) -> Match | None:
        if not source.is_folder:
            begins = source.head(1 + len(MAGIC))[1:] == MAGIC
            return Match(Grade.EXACT, "it is an array that begins with EXTRA PROF") if begins else None
        ranks = sorted(name for name in source.listing or () if RANKED.fullmatch(name))
        if ranks and source.inside(source.path / ranks[0]).head(1 + len(MAGIC))[1:] == MAGIC:
            return Match(Grade.EXACT, f"{ranks[0]} begins as a profile of Extra-Prof")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        """Return a profile for each process."""
        builder = ExperimentBuilder(self.name, title=source.name, path=str(source.path))
        collector, files = _Collector(builder), _list_files(source.path)
        for number, path in enumerate(files):
            options.progress("reading files", number, len(files))
            try:
                collector.add(path)
            except InputError as error:
                if options.strict or len(files) == 1:
                    raise
                builder.warn(Severity.DAMAGE, f"a file was left out: {error}")
        if not collector.n_contexts:
            raise InputError(f"{source.path}: there is no call in it")
        collector.finish()
        return builder.build()

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every node in the order of the files."""
        for path in _list_files(source.path):
            head = _read_head(path)
            names = ("name", "type", "flags", "duration", "visits", "bytes")
            waiting: list[object] = [head.root]
            index = 0
            while waiting:
                node = _check_node(path, waiting.pop())
                for name, value in zip(names, (node[0], *node[2:N_NODE]), strict=True):
                    yield Field(path.name, "nodes", index, -1, name, value if isinstance(value, int) else str(value))
                index += 1
                waiting += node[1][::-1]


FORMAT = ExtraProfFormat()


def _list_files(path: Path) -> list[Path]:
    """Return the file, or those of a folder in the order of their ranks."""
    if not path.is_dir():
        return [path]
    ranks = {file: match for file in path.iterdir() if (match := RANKED.fullmatch(file.name))}
    if not ranks:
        raise InputError(f"{path}: no profileN{SUFFIX} was found in it")
    return sorted(ranks, key=lambda file: int(ranks[file][1]))
