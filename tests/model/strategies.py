"""Random experiments, made by ExperimentBuilder: for the model's own tests and for the round trips of writers.

    @given(experiments(elided=False, traces=False))
    def test_writing_and_reading_changes_nothing(experiment: Experiment) -> None: ...

Every part can be had alone: `forests` (parents in any order), `trees`, `values_of`, `traces_of`. Names are awkward on
purpose (arrows, blanks, other scripts), numbers are sometimes at the edge of their type, and all of it is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from callgrove.arrays import ABSENT, Array, Ids
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Composite, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run
from callgrove.model.traces.events import ArraySamples, ArraySpans, Counters, Samples, SideTable, SpanKind

Draw = Callable[[st.SearchStrategy[Any]], Any]

NAMES = st.sampled_from(
    ["main", "solve", "f", "g", "MPI_Send", "operator->", "std::map<int, char>", "日本 é", " x ", '"q"']
)
FILES = st.sampled_from(["a.c", "src/b.cpp", "/usr/include/c++/c.h", "d e.f90"])
MODULES = st.sampled_from(["app", "/lib64/libm.so.6"])
LINES = st.sampled_from([-1, 0, 1, 7, 2**31 - 1])
OFFSETS = st.sampled_from([None, 0, 0x10, 2**63, 2**64 - 2])
REGION_KINDS = [k for k in ContextKind if k != ContextKind.ELIDED]
TIMES = st.integers(0, 60)

# Like Cube's TAU_ATOMIC: combined field by field, read as the mean.
ATOMIC = np.dtype([("n", "<u4"), ("minimum", "<f8"), ("maximum", "<f8"), ("sum", "<f8")])


def combine_atomic(left: Array, right: Array) -> Array:
    out = left.copy()
    out["n"], out["sum"] = left["n"] + right["n"], left["sum"] + right["sum"]
    for name, both in (("minimum", np.minimum), ("maximum", np.maximum)):
        combined = both(left[name], right[name])
        out[name] = np.where(left["n"] == 0, right[name], np.where(right["n"] == 0, left[name], combined))
    return out


ATOMIC_TYPE = Composite(ATOMIC, lambda values: values["sum"] / np.maximum(values["n"], 1), combine_atomic)

SPELLINGS = {"f8": "double", "i8": "int64", "u8": "uint64", "u1": "uint8"}
NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "f8": st.floats(-(2.0**60), 2.0**60, allow_subnormal=False).filter(bool),
    "i8": st.integers(-(2**55), 2**55).filter(bool),
    "u8": st.integers(1, 2**58),
    "u1": st.integers(1, 255),
}


@dataclass(frozen=True)
class Shape:
    """What a random experiment may have. `deep` adds a chain that is longer than a printed path."""

    elided: bool = True
    traces: bool = True
    n_roots: int = 3
    deep: bool = False
    n_runs: int = 1
    composite: bool = False
    summary: bool = True
    unknown_identifiers: bool = True
    scopes: tuple[Scope, ...] = (Scope.EXCLUSIVE, Scope.INCLUSIVE, Scope.POINT, Scope.FUNCTION)
    aggregations: tuple[Aggregation, ...] = (Aggregation.SUM, Aggregation.MINIMUM, Aggregation.MAXIMUM)
    n_contexts: int = 14
    n_profiles: int = 4


def experiments(**shape: Any) -> st.SearchStrategy[Experiment]:
    """Random experiments; the keywords are the fields of Shape."""
    return builders(**shape).map(ExperimentBuilder.build)


def builders(**shape: Any) -> st.SearchStrategy[ExperimentBuilder]:
    """Random builders, ready to build."""
    return _builders(Shape(**shape))


def trees(**shape: Any) -> st.SearchStrategy[ContextTree]:
    """Random context trees."""
    wanted = Shape(**{"traces": False, "n_profiles": 0, **shape})
    return _builders(wanted).map(lambda builder: builder.build().contexts)


@st.composite
def forests(draw: Draw, max_size: int = 14, max_roots: int = 3) -> list[int]:
    """Parents of a forest, numbered in any order."""
    choices = draw(st.lists(st.integers(0, 10**6), max_size=max_size))
    parents = [choice % (k + 1) - 1 for k, choice in enumerate(choices)]
    roots = [k for k, parent in enumerate(parents) if parent < 0]
    for extra in roots[max_roots:]:
        parents[extra] = 0
    names = draw(st.permutations(range(len(parents))))
    out = [ABSENT] * len(parents)
    for own, parent in enumerate(parents):
        out[names[own]] = names[parent] if parent >= 0 else ABSENT
    return out


@st.composite
def _builders(draw: Draw, shape: Shape) -> ExperimentBuilder:
    builder = ExperimentBuilder("random", "1.0", draw(NAMES), "random.d")
    builder.attributes["made by"] = "hypothesis"
    builder.warn(Severity.NOTE, "made up")
    _add_contexts(draw, builder, shape)
    _add_profiles(draw, builder, shape)
    _add_metrics(draw, builder, shape)
    if shape.n_profiles:
        values_of(draw, builder, shape)
        if shape.traces:
            traces_of(draw, builder)
    return builder


def _region(draw: Draw, builder: ExperimentBuilder) -> int:
    kind, name = draw(st.sampled_from(REGION_KINDS)), draw(st.just("") | NAMES)
    return builder.region(
        kind,
        name,
        file=builder.file(draw(st.just("") | FILES)),
        line=draw(LINES),
        end_line=draw(LINES),
        module=builder.module(draw(st.just("") | MODULES)),
        offset=draw(OFFSETS),
        role=draw(st.sampled_from(["", "", "loop", "barrier"])),
        paradigm=draw(st.sampled_from(["", "", "mpi", "openmp"])),
        details=draw(st.sampled_from([None, None, {"mangled": "_Z1fv"}])),
    )


def _add_contexts(draw: Draw, builder: ExperimentBuilder, shape: Shape) -> None:
    regions = [ABSENT, *(_region(draw, builder) for _ in range(draw(st.integers(0, 5))))]
    parents = draw(forests(shape.n_contexts, shape.n_roots))
    if shape.deep:
        first = len(parents)
        parents += [ABSENT if not k else first + k - 1 for k in range(draw(st.sampled_from([101, 130, 300])))]
    for number, parent in enumerate(parents):
        plain = number >= shape.n_contexts
        region = regions[number % len(regions)] if plain else draw(st.sampled_from(regions))
        details = (ABSENT, ABSENT, (), None) if plain else draw(_DETAILS)
        builder.add_context(
            parent,
            ContextKind.FUNCTION if plain else draw(st.sampled_from(REGION_KINDS)),
            region,
            Relation.CALL if plain else draw(st.sampled_from(Relation)),
            source_id=1000 + 3 * number,
            call_file=builder.file(draw(FILES)) if details[0] > 0 else ABSENT,
            call_line=details[1],
            parameters=details[2],
            attributes=details[3],
        )
    if shape.elided:
        for k in range(draw(st.integers(0, 3))):
            builder.add_context(ABSENT, ContextKind.ELIDED, source_id=9000 + k)


_DETAILS = st.sampled_from(
    [
        (ABSENT, ABSENT, (), None),
        (ABSENT, ABSENT, (), None),
        (1, 12, (), None),
        (ABSENT, ABSENT, (("level", 3.0), ("phase", "start")), None),
        (ABSENT, ABSENT, (), {"colour": "red"}),
    ]
)


def _add_profiles(draw: Draw, builder: ExperimentBuilder, shape: Shape) -> None:
    for run in range(shape.n_runs):
        parameters = {"p": 2.0 ** draw(st.integers(0, 2)), "n": draw(st.sampled_from([100.0, 200.0]))}
        builder.add_run(Run(f"run {run}", parameters if shape.n_runs > 1 else {}, run + 1))
    if shape.summary and shape.n_profiles and shape.n_runs == 1 and draw(st.booleans()):
        builder.add_profile(ProfileKind.SUMMARY, [(0, 0, 0, 3)], source_id=0)
    kinds = [k for k in ProfileKind if k not in (ProfileKind.SUMMARY, ProfileKind.AGGREGATE)]  # executions
    highest = 12 if shape.unknown_identifiers else 7
    identifiers = st.tuples(
        st.integers(1, highest), st.sampled_from([0, 5, 2**64 - 1]), st.integers(0, 3), st.integers(0, 3)
    )
    for number in range(draw(st.integers(min(1, shape.n_profiles), shape.n_profiles))):
        builder.add_profile(
            draw(st.sampled_from(kinds)),
            draw(st.lists(identifiers, max_size=4)),
            run=number % shape.n_runs,
            name=draw(st.just("") | NAMES),
            source_id=number + 1,
        )


def _add_metrics(draw: Draw, builder: ExperimentBuilder, shape: Shape) -> None:
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(sorted(SPELLINGS)))
        aggregation = draw(st.sampled_from(shape.aggregations))
        scopes = draw(st.lists(st.sampled_from(shape.scopes), min_size=1, max_size=2, unique=True))
        unit = draw(st.sampled_from(["", "sec", "bytes"]))
        for scope in scopes:
            builder.add_metric(Metric(f"m{number} {kind}", scope, unit, SPELLINGS[kind], aggregation, source_id=number))
    if shape.composite:
        builder.add_metric(
            Metric(
                "atomic", Scope.EXCLUSIVE, dtype="TAU_ATOMIC", aggregation=Aggregation.COMPOSITE, composite=ATOMIC_TYPE
            )
        )


def values_of(draw: Draw, builder: ExperimentBuilder, shape: Shape) -> None:
    """Values for a builder whose other parts are there: each metric in the type that its name ends with."""
    n_profiles, n_contexts = builder.n_profiles, builder.n_contexts
    if not n_profiles or not n_contexts:
        return
    cells = st.tuples(st.integers(0, n_profiles - 1), st.integers(0, n_contexts - 1))
    for number, metric in enumerate(builder._metrics):
        if metric.composite is not None:
            rows = draw(st.dictionaries(cells, st.tuples(st.integers(1, 9), *[st.integers(1, 99)] * 3), max_size=8))
            values = np.array(list(rows.values()), ATOMIC)
        else:
            kind = metric.name.split()[-1]
            rows = draw(st.dictionaries(cells, NUMBERS[kind], max_size=12))
            values = np.array(list(rows.values()), kind)
        if rows:
            keys = np.array(list(rows), np.int32)
            builder.add_values(keys[:, 0], keys[:, 1], number, values)


def traces_of(draw: Draw, builder: ExperimentBuilder) -> None:
    """Traces for a builder whose contexts and profiles are there; any of the three kinds may be missing."""
    n_profiles, order = builder.n_profiles, builder.order()
    profiles = st.integers(0, n_profiles - 1)
    contexts = st.just(ABSENT) | st.sampled_from(order.tolist()) if len(order) else st.just(ABSENT)
    builder.set_traces(
        samples=draw(st.none() | _samples(profiles, contexts)),
        spans=draw(st.none() | _spans(profiles, contexts)),
        counters=draw(st.none() | _counters(profiles)),
        time_range=draw(st.none() | st.just((0, 100))),
    )


@st.composite
def _samples(draw: Draw, profiles: st.SearchStrategy[int], contexts: st.SearchStrategy[int]) -> ArraySamples:
    lines, owners = [], []
    for _ in range(draw(st.integers(0, 3))):
        rows = draw(st.lists(st.tuples(TIMES, contexts), max_size=6))
        times = np.array(sorted(time for time, _ in rows), np.int64)
        lines.append(Samples(times, np.array([context for _, context in rows], np.int32)))
        owners.append(draw(profiles))
    return ArraySamples(np.array(owners, np.int32), np.full(len(owners), ABSENT, np.int32), tuple(lines))


@st.composite
def _spans(draw: Draw, profiles: st.SearchStrategy[int], contexts: st.SearchStrategy[int]) -> ArraySpans:
    strings = ("kernel<float>", "hipMemcpy", "HIP_API")
    row = st.tuples(
        profiles,
        st.sampled_from(SpanKind),
        st.integers(ABSENT, 2),
        st.integers(ABSENT, 2),
        TIMES,
        st.integers(0, 30),
        st.integers(0, 3),
        st.integers(ABSENT, 99),
        contexts,
    )
    rows = draw(st.lists(row, max_size=8))
    columns = list(zip(*rows, strict=True)) if rows else [()] * 9
    profile, kind, category, name, start, length, depth, correlation, context = columns
    starts = np.array(start, np.int64)
    spans: dict[str, Array] = {
        "profile": _ids(profile),
        "kind": _ids(kind),
        "category": _ids(category),
        "name": _ids(name),
        "start_ns": starts,
        "end_ns": starts + np.array(length, np.int64),
        "depth": _ids(depth),
        "correlation": np.array(correlation, np.int64),
        "context": _ids(context),
    }
    copies = np.array([k for k, one in enumerate(kind) if one == SpanKind.COPY], np.int64)
    sides = {"copy": SideTable(copies, {"bytes": 8 * copies})} if len(copies) else {}
    return ArraySpans(spans, strings, sides, chunk_rows=draw(st.sampled_from([1, 3, 1 << 16])))


@st.composite
def _counters(draw: Draw, profiles: st.SearchStrategy[int]) -> Counters:
    rows = draw(st.lists(st.tuples(profiles, st.integers(0, 1), TIMES, st.floats(0, 1e6)), max_size=6))
    profile, name, time, value = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Counters(_ids(profile), _ids(name), np.array(time, np.int64), np.array(value), ("power", "used memory"))


def _ids(values: Any) -> Ids:
    return np.array(values, np.int32)
