"""What a frame says, without the frame: contexts, and rows of costs; and the experiment that is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints, combine_upwards, cycles, depths, distinct_rows, levels
from callgrove.errors import UsageError
from callgrove.frames.costs import INCLUSIVE, PLACES, Numbers, Words
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, IDENTITY, Identifier, Interpretation, ProfileKind
from callgrove.model.runs import Run

__all__ = ["Sheet", "build_experiment"]

KINDS = {
    **{kind.word: kind for kind in ContextKind if kind != ContextKind.ELIDED},
    "statement": ContextKind.LINE,
    "None": ContextKind.FUNCTION,
}
NESTED = (ContextKind.LINE, ContextKind.LOOP, ContextKind.INSTRUCTION, ContextKind.CALL)
SAME = 1e-9  # of the largest: by so much may inclusive costs differ from what exclusive ones come to


@dataclass
class Sheet:
    """Contexts, then rows of costs. Contexts come in any order; parents are numbers of them, -1 for roots. `metrics`
    has the exclusive and the inclusive costs of each, of which one may be missing; `described` what else is known of
    it."""

    title: str
    format: str
    parent: Ints
    words: dict[str, Words]  # name, kind, file, module of contexts, as far as they are known
    line: Numbers | None
    context: Ints
    places: dict[str, Numbers]
    metrics: dict[str, tuple[Numbers | None, Numbers | None]]
    described: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    runs: Sequence[Run] = ()
    notes: list[str] = field(default_factory=list)


def build_experiment(sheet: Sheet) -> Experiment:
    """Return the experiment of a sheet. What is left out or does not add up is among its warnings."""
    builder = ExperimentBuilder(sheet.format, title=sheet.title)
    _add_contexts(builder, sheet)
    profile = _add_profiles(builder, sheet)
    _require_once(sheet, profile)
    for name, (exclusive, inclusive) in sheet.metrics.items():
        _add_metric(builder, sheet, name, exclusive, inclusive, profile)
    for note in sheet.notes:
        builder.warn(Severity.NOTE, note)
    return builder.build()


def _add_contexts(builder: ExperimentBuilder, sheet: Sheet) -> None:
    """Add all contexts; each region is made once."""
    if len(wrong := cycles(sheet.parent.astype(np.int32))):
        raise UsageError(f"{_name(sheet, int(wrong[0]))} is below itself: parents of the frame run in a circle")
    n, none = len(sheet.parent), Words(np.full(len(sheet.parent), ABSENT, np.int32), ())
    name, kind, file, module = (sheet.words.get(word, none) for word in ("name", "kind", "file", "module"))
    line = np.full(n, ABSENT) if sheet.line is None else np.where(sheet.line.present, sheet.line.values, ABSENT)
    kinds = np.array([*(KINDS.get(word, ContextKind.REGION) for word in kind.words), ContextKind.FUNCTION])[kind.codes]
    columns, region = distinct_rows(kinds, name.codes, file.codes, line.astype(np.int64), module.codes)
    files = [*map(builder.file, file.words), ABSENT]
    modules = [*map(builder.module, module.words), ABSENT]
    names = [*name.words, ""]
    numbers = [
        builder.region(ContextKind(k), names[called], file=files[f], line=at, module=modules[m])
        for k, called, f, at, m in columns.T.tolist()
    ]
    relation = np.where(np.isin(kinds, NESTED), int(Relation.LEXICAL), int(Relation.CALL))
    relation[kinds == ContextKind.INLINED] = int(Relation.INLINED)
    regions = np.array(numbers, np.int64)[region] if n else np.empty(0, np.int64)
    builder.add_contexts(parent=sheet.parent, kind=kinds, relation=relation, region=regions)


def _name(sheet: Sheet, context: int) -> str:
    return (sheet.words["name"].take(np.array([context])).texts()[0] if "name" in sheet.words else None) or "a context"


def _add_profiles(builder: ExperimentBuilder, sheet: Sheet) -> Ints:
    """Add the runs and profiles that rows name; return the profile of each row."""
    run = sheet.places.get("run")
    numbers = np.zeros(len(sheet.context), np.int64) if run is None else np.where(run.present, run.values, 0)
    if (numbers < 0).any():
        raise UsageError(f"run {int(numbers.min())} of the frame: runs are numbered from 0")
    known = list(sheet.runs) or [Run(sheet.title)]
    known += [Run(f"run {number}") for number in range(len(known), int(numbers.max(initial=0)) + 1)]
    for one in known:
        builder.add_run(one)
    names = [name for name in (*PLACES, "profile") if name in sheet.places]
    cells = [np.where(one.present, one.values.astype(np.int64), ABSENT) for one in map(sheet.places.get, names) if one]
    columns, profile = distinct_rows(numbers.astype(np.int64), *cells)
    for number, *place in columns.T.tolist():
        at = dict(zip(names, place, strict=True))
        builder.add_profile(_profile_kind(at), _identifiers(at), run=number)
    return profile


def _profile_kind(place: Mapping[str, int]) -> ProfileKind:
    if place.get("stream", ABSENT) != ABSENT:
        return ProfileKind.GPU_STREAM
    return ProfileKind.GPU if place.get("gpu", ABSENT) != ABSENT else ProfileKind.THREAD


def _identifiers(place: Mapping[str, int]) -> Iterable[Identifier]:
    for name, identity in PLACES.items():
        if (number := place.get(name, ABSENT)) != ABSENT:
            kind = DEFAULT_ID_NAMES.index(IDENTITY[identity][0])
            yield kind, number, number, int(Interpretation.SINGLE)


def _require_once(sheet: Sheet, profile: Ints) -> None:
    """Raise an error where two rows are of one context in one profile."""
    columns, number = distinct_rows(sheet.context, profile)
    if columns.shape[1] == len(number):
        return
    twice = int(np.flatnonzero(np.bincount(number) > 1)[0])
    raise UsageError(
        f"{_name(sheet, int(columns[0, twice]))} has {int(np.bincount(number)[twice])} rows for one profile; "
        "add them up first (frame.groupby(...).sum()), or tell profiles apart by run, rank, thread, gpu or stream"
    )


def _add_metric(
    builder: ExperimentBuilder,
    sheet: Sheet,
    name: str,
    exclusive: Numbers | None,
    inclusive: Numbers | None,
    profile: Ints,
) -> None:
    told = sheet.described.get(name, {})
    rule = Aggregation(told.get("aggregation", Aggregation.SUM))
    if rule == Aggregation.NONE:
        sheet.notes.append(f"left out: {name}: it is computed from others and does not add up; define it again")
        return
    column, scope = (exclusive, Scope.EXCLUSIVE) if exclusive is not None else (inclusive, Scope.INCLUSIVE)
    assert column is not None
    dtype = {"i": "int64", "u": "uint64"}.get(column.values.dtype.kind, "double")
    row = builder.add_metric(Metric(name, scope, told.get("unit", ""), dtype, rule))
    kept = column.present & ((column.values != 0) | (rule != Aggregation.SUM))
    builder.add_values(profile[kept], sheet.context[kept], row, column.values[kept])
    if exclusive is not None and inclusive is not None and rule == Aggregation.SUM:
        _compare(sheet, name, exclusive, inclusive)


def _compare(sheet: Sheet, name: str, exclusive: Numbers, inclusive: Numbers) -> None:
    """Say where the inclusive costs of a frame are not what its exclusive ones come to."""
    given, made = (_total(sheet, column) for column in (inclusive, exclusive))
    parent = sheet.parent.astype(np.int32)
    combine_upwards(made, parent, levels(depths(parent)), out=made)
    wrong = np.flatnonzero(~(np.abs(given - made) <= SAME * max(1e-300, float(np.abs(given).max(initial=0)))))
    if len(wrong):
        first = int(wrong[0])
        sheet.notes.append(
            f"{name}{INCLUSIVE} is computed anew: of {len(wrong):,} contexts it is not the sum of {name} below them; "
            f"{_name(sheet, first)} has {given[first]:g}, the sum is {made[first]:g}"
        )


def _total(sheet: Sheet, column: Numbers) -> Array:
    """Return a column added up by context."""
    kept = column.present
    return np.bincount(sheet.context[kept], column.values[kept].astype(np.float64), len(sheet.parent))
