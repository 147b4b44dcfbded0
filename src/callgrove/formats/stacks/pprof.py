"""The format `pprof`: samples of stacks with values, as `go tool pprof` and others read them.

Specification: profile.proto of google/pprof; a compressed message.

    Profile     sample_type of each metric; samples, mappings, locations, functions; a table of all texts, "" first
    Sample      locations, the innermost first; a value for each metric; labels: rank, thread, ...
    Location    a function at a line, in a mapping (module)

A frame is a function at the line that it executes: of a source line, that line; of a call, the line of the call where
the input has it. Loops are not frames: their cost is that of their function at a line of the loop. Values are whole
numbers, times nanoseconds; they may lie below zero, as those of differences do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path

import numpy as np

from callgrove.arrays import Array, Bools, Ints, Names, distinct_rows
from callgrove.binary.protobuf import message, number, packed, text, varint
from callgrove.formats.interface import WriteOptions
from callgrove.formats.stacks.costs import (
    Scale,
    batches,
    choose_metrics,
    choose_profiles,
    choose_scale,
    exclusive_costs,
    make_finite,
    name_profiles,
    round_costs,
)
from callgrove.formats.stacks.frames import Frames, Labels, clean_name, merge_stacks, owners
from callgrove.formats.stacks.writer import StackWriter
from callgrove.formats.writing.writer import WrittenOnly, some
from callgrove.model.books import is_equal
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.profiles import IDENTITY

__all__ = ["FORMAT", "PprofWriter"]


class Profile(IntEnum):
    SAMPLE_TYPE = 1
    SAMPLE = 2
    MAPPING = 3
    LOCATION = 4
    FUNCTION = 5
    STRING_TABLE = 6
    COMMENT = 13
    DEFAULT_SAMPLE_TYPE = 14


class ValueType(IntEnum):
    TYPE = 1
    UNIT = 2


class Sample(IntEnum):
    LOCATION_ID = 1
    VALUE = 2
    LABEL = 3


class Label(IntEnum):
    KEY = 1
    STR = 2
    NUM = 3


class Mapping(IntEnum):
    ID = 1
    FILENAME = 5
    HAS_FUNCTIONS = 7
    HAS_FILENAMES = 8
    HAS_LINE_NUMBERS = 9


class Location(IntEnum):
    ID = 1
    MAPPING_ID = 2
    LINE = 4


class Line(IntEnum):
    FUNCTION_ID = 1
    LINE = 2


class Function(IntEnum):
    ID = 1
    NAME = 2
    SYSTEM_NAME = 3
    FILENAME = 4
    START_LINE = 5


def is_function(tree: ContextTree) -> Bools:
    """Return which contexts are frames: not lines, call sites, instructions or loops inside a function."""
    nested = (tree.relation == Relation.LEXICAL) & (tree.parent >= 0)
    frame: Bools = ~tree.folded & ~((tree.kind == ContextKind.LOOP) & nested)
    return frame


def lines_in_frames(tree: ContextTree, owner: Array) -> Ints:
    """Return the line that the frame of each context is at; 0 is unknown."""
    line = np.maximum(tree.column("line")[: tree.n_listed].astype(np.int64), 0)
    out = np.zeros(tree.n_listed, np.int64)
    for level in tree.levels:
        nested = owner[level] != level
        above = np.where(nested, out[tree.parent[level]], 0)
        out[level] = np.where(nested & (line[level] > 0), line[level], above)
    return out


class PprofWriter(StackWriter):
    """A file in the making."""

    def __init__(self, target: Path, options: WriteOptions) -> None:
        super().__init__(target, options, compressed=True)
        self._texts = Names()
        self._texts("")
        self._names: list[str] = []  # of profiles

    def _make(self, tables: Experiment) -> Iterator[bytes]:
        tree, report = tables.contexts, self._report
        metrics = choose_metrics(tables, report)
        self._names = name_profiles(tables)
        labels = Labels.short(tree)
        owner = owners(tree, is_function(tree))
        places, place = distinct_rows(labels.of[owner], lines_in_frames(tree, owner))
        stacks = merge_stacks(tree, owner, place + 1)
        costs = {name: exclusive_costs(tables, name, report) for name in metrics}
        scales = {n: choose_scale(tables.metrics.first(n).unit, [stacks.add_up(c)]) for n, c in costs.items()}
        yield from self._types(tables, scales)
        yield from self._samples(tables, stacks, costs, scales)
        yield from self._places(tables, labels, places)
        yield from (text(Profile.STRING_TABLE, one) for one in self._texts.all)
        self._say_losses_of_pprof(tables, scales)

    def _types(self, tables: Experiment, scales: dict[str, Scale]) -> Iterator[bytes]:
        for name, scale in scales.items():
            about = number(ValueType.TYPE, self._texts(clean_name(name)))
            yield message(Profile.SAMPLE_TYPE, about, number(ValueType.UNIT, self._texts(scale.unit or "count")))
        yield number(Profile.DEFAULT_SAMPLE_TYPE, self._texts(clean_name(next(iter(scales)))))
        yield number(Profile.COMMENT, self._texts(f"{clean_name(tables.title)}, written by callgrove"))

    # -- samples -------------------------------------------------------------------------------------------------------

    def _samples(
        self, tables: Experiment, stacks: Frames, costs: dict[str, Array], scales: dict[str, Scale]
    ) -> Iterator[bytes]:
        profiles = choose_profiles(tables, self._report)
        if not len(profiles):
            yield from self._samples_of([(costs[name], name) for name in costs], stacks, scales, b"")
            return
        n, sums = tables.contexts.n_listed, dict.fromkeys(costs, 0.0)
        for batch in batches(tables, profiles, len(costs)):
            matrices = {name: tables.matrix(name, Scope.EXCLUSIVE, batch)[:n] for name in costs}
            for column, profile in enumerate(batch.tolist()):
                each = [(make_finite(matrices[name][:, column], name, self._report), name) for name in costs]
                for numbers, name in each:
                    sums[name] += float(numbers.sum())
                yield from self._samples_of(each, stacks, scales, self._labels(tables, profile))
        for name, total in sums.items():
            self._compare_summary(name, costs[name], total)

    def _compare_summary(self, name: str, costs: Array, of_profiles: float) -> None:
        """Say where a stored summary and the profiles, which are what is written, say different things."""
        total, size = float(costs.sum()), float(np.abs(costs.astype(np.float64)).sum())
        if not is_equal(total, of_profiles, size):
            self._report.add(
                f"the stored summary of {name}: it says {total:g}, and the profiles, which are what is written, "
                f"add up to {of_profiles:g}"
            )

    def _samples_of(
        self, costs: Sequence[tuple[Array, str]], stacks: Frames, scales: dict[str, Scale], labels: bytes
    ) -> Iterator[bytes]:
        """Yield the samples of one profile, or of all together."""
        columns = []
        for values, name in costs:
            scale = scales[name]
            whole = round_costs(stacks.add_up(values), scale)
            self._give(name, values)
            self._pass_on(name, whole.numbers, scale, whole.rest)
            self._say_rounding(whole, scale)
            columns.append(whole.numbers)
        numbers = np.stack(columns, axis=1)
        used = (numbers != 0).any(axis=1).tolist()
        stack: list[bytes] = []
        keys = [varint(key) for key in stacks.key.tolist()]
        for node, (depth, is_used) in enumerate(zip(stacks.depth.tolist(), used, strict=True)):
            del stack[depth:]
            stack.append(keys[node])
            if is_used:
                each = packed(Sample.VALUE, numbers[node].tolist())
                yield message(Profile.SAMPLE, message(Sample.LOCATION_ID, *reversed(stack)), each, labels)

    def _labels(self, tables: Experiment, profile: int) -> bytes:
        """Return what tells the samples of a profile from others."""
        profiles = tables.profiles
        out = [self._label("profile", clean_name(self._names[profile]))]
        for column in IDENTITY:
            values, present = profiles.identity(column)
            if present[profile] and int(values[profile]) < 1 << 63:
                out.append(self._label(column, int(values[profile])))
        if profiles.n_runs > 1:
            out.append(self._label("run", int(profiles.run[profile])))
        return b"".join(out)

    def _label(self, key: str, value: str | int) -> bytes:
        told = number(Label.NUM, value) if isinstance(value, int) else number(Label.STR, self._texts(value))
        return message(Sample.LABEL, number(Label.KEY, self._texts(key)), told)

    # -- functions and where they are ----------------------------------------------------------------------------------

    def _places(self, tables: Experiment, labels: Labels, places: Ints) -> Iterator[bytes]:
        tree, regions = tables.contexts, tables.contexts.regions
        modules = np.append(regions.module, -1)[tree.region[labels.context]]
        used = list(dict.fromkeys(modules[places[0]].tolist()))
        mapping = {module: k + 1 for k, module in enumerate(module for module in used if module >= 0)}
        for module, id_ in mapping.items():
            flags = (Mapping.HAS_FUNCTIONS, Mapping.HAS_FILENAMES, Mapping.HAS_LINE_NUMBERS)
            name = number(Mapping.FILENAME, self._texts(clean_name(regions.modules[module])))
            yield message(Profile.MAPPING, number(Mapping.ID, id_), name, *(number(flag, 1) for flag in flags))
        for id_, (label, line) in enumerate(places.T.tolist(), 1):
            at = number(Line.FUNCTION_ID, label + 1) + (number(Line.LINE, line) if line else b"")
            of = [number(Location.MAPPING_ID, mapping[int(modules[label])])] if modules[label] >= 0 else []
            yield message(Profile.LOCATION, number(Location.ID, id_), *of, message(Location.LINE, at))
        for label in np.unique(places[0]).tolist():
            yield self._function(tree, labels, label)

    def _function(self, tree: ContextTree, labels: Labels, label: int) -> bytes:
        context = int(labels.context[label])
        region, regions = int(tree.region[context]), tree.regions
        parts = [number(Function.ID, label + 1), number(Function.NAME, self._texts(clean_name(labels.names[label])))]
        system = tree.mangled_name(context) or labels.names[label]
        parts.append(number(Function.SYSTEM_NAME, self._texts(clean_name(system))))
        if region >= 0 and regions.file[region] >= 0:
            parts.append(number(Function.FILENAME, self._texts(clean_name(regions.files.paths[regions.file[region]]))))
        if region >= 0 and regions.line[region] > 0:
            parts.append(number(Function.START_LINE, int(regions.line[region])))
        return message(Profile.FUNCTION, *parts)

    def _say_losses_of_pprof(self, tables: Experiment, scales: dict[str, Scale]) -> None:
        tree = tables.contexts
        for scale in dict.fromkeys(scale for scale in scales.values() if scale.factor != 1):
            self._report.hint(scale.say(some(name for name in scales if scales[name] == scale)))
        if ((tree.kind == ContextKind.LOOP) & ~is_function(tree)).any():
            self._report.add("loops: their costs are those of lines of their functions")
        if (tree.call_line[: tree.n_listed] >= 0).any():
            self._report.add("lines of calls that no context stands for")
        self._say_losses(tables)


class PprofFormat(WrittenOnly):
    """Profiles for pprof."""

    name = "pprof"
    title = "pprof profile (profile.proto, compressed) for `go tool pprof` and others"

    def open_writer(self, target: Path, options: WriteOptions) -> PprofWriter:
        return PprofWriter(target, options)


FORMAT = PprofFormat()
