"""Experiments and studies written as folders and read again, and all that can be said of them, for comparison."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import Ids
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.registry import open_path, writer_of
from callgrove.formats.writing.transfer import write_experiment
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import TAU_ATOMIC, Aggregation, Column, Metric, Scope, histogram
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run
from callgrove.model.study.series import Study
from callgrove.model.system import System, Topology
from callgrove.model.traces.events import (
    LABEL,
    PARENT,
    SIDE_TABLES,
    SPAN_COLUMNS,
    ArraySamples,
    ArraySpans,
    Counters,
    Samples,
    SideTable,
    Traces,
)

CALLGROVE = "callgrove"
OF_THE_FORMAT = ("format", "version", "path", "is_measurement")  # what cannot be as it was
LAZY = ("values", "traces", "sources", "attachments")


def written(opened: Experiment | Study, target: Path, to: str = CALLGROVE, overwrite: bool = False) -> LossReport:
    return write_experiment(opened, writer_of(to), target, WriteOptions(overwrite=overwrite))


def again(experiment: Experiment, folder: Path) -> Experiment:
    """The same experiment from a folder; nothing may be lost on the way."""
    assert written(experiment, folder / "x.cgrove").losses == []
    found = open_path(folder / "x.cgrove")
    assert isinstance(found, Experiment)
    return found


def plain(value: Any) -> Any:
    """Anything of the model as something that can be compared: arrays with their types, functions by their names."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes() if value.dtype != object else value.tolist())
    if isinstance(value, np.dtype):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    return "a function" if callable(value) else value


def tables_of(experiment: Experiment) -> dict[str, Any]:
    """Everything but values and traces."""
    names = (f.name for f in fields(experiment) if f.name not in (*OF_THE_FORMAT, *LAZY))
    found = {name: plain(getattr(experiment, name)) for name in names}
    found["attachments"] = {name: one.read() for name, one in experiment.attachments.items()}
    found["copies"] = dict(experiment.sources.copies)
    found["sources"] = [experiment.sources.lines(file) for file in experiment.sources.copies]
    return found


def values_of(experiment: Experiment, measured: bool = False) -> list[tuple[Any, ...]]:
    """Every value in order, with its type and bits; stored summaries too, unless only what was measured is wanted."""
    out: list[tuple[Any, ...]] = []
    for block in experiment.values.blocks(None if measured else np.arange(len(experiment.profiles))):
        part = block.triples()
        ids = (part.profile.tolist(), part.context.tolist(), part.metric.tolist())
        bits = np.ascontiguousarray(part.value).view(f"V{part.value.itemsize}").tolist()
        out += zip(*ids, bits, [str(part.value.dtype)] * len(part), strict=True)
    return out


ALL_COLUMNS = (*SPAN_COLUMNS, LABEL, PARENT)


def spans_of(traces: Traces, columns: tuple[str, ...] = ALL_COLUMNS, **chosen: Any) -> list[tuple[Any, ...]]:
    """Every span in order; names as texts."""
    out: list[tuple[Any, ...]] = []
    for chunk in traces.spans(columns, **chosen):
        assert traces.spans_backend is not None
        strings = [*traces.spans_backend.strings, None]
        cells = [
            [strings[k] for k in chunk[name].tolist()] if name in ("category", "name", LABEL) else chunk[name].tolist()
            for name in ("span", *columns)
        ]
        out += zip(*cells, strict=True)
    return out


def sides_of(traces: Traces) -> dict[tuple[str, int], Any]:
    """Every side table of every part, by rising numbers of spans."""
    out: dict[tuple[str, int], Any] = {}
    for name in SIDE_TABLES:
        for part in range(len(traces.parts())):
            if (side := traces.side(name, part)) is not None:
                side = side.take(np.argsort(side.span, kind="stable"))
                columns = {k: (type(v), repr(list(v))) for k, v in side.columns.items()}
                out[name, part] = side.span.tolist(), columns
    return out


def traces_of(experiment: Experiment) -> dict[str, Any]:
    traces = experiment.traces
    counters = traces.counters
    return {
        "lines": [(p, m, s.time_ns.tolist(), s.context.tolist()) for p, m, s in traces.lines()],
        "spans": spans_of(traces),
        "n_spans": traces.n_spans,
        "sides": sides_of(traces),
        "parts": [part.tolist() for part in traces.parts()],
        "counters": None if counters is None else plain(counters),
        "time_range": traces.time_range,
        "splits": traces.split is not None,
        "devices": [plain(list(traces.devices(part))) for part in range(len(traces.parts()))],
        "tables": {name: (make().names, list(make().rows())) for name, make in traces.tables.items()},
    }


def assert_same(old: Experiment, new: Experiment) -> None:
    """Equal to the bit, in the same order. Stored summaries come before or after all others; where an experiment has
    them in between, they move."""
    assert tables_of(new) == tables_of(old)
    assert values_of(new, measured=True) == values_of(old, measured=True)
    assert sorted(values_of(new)) == sorted(values_of(old))
    assert traces_of(new) == traces_of(old)
    summarised = [m for m in range(len(old.metrics)) if old.values.backend.summarises(m)]
    assert [m for m in range(len(new.metrics)) if new.values.backend.summarises(m)] == summarised


def digests(path: Path) -> dict[str, str]:
    """Of every file below a path, or of the file itself."""
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def odd_experiment() -> Experiment:
    """What files may have, all at once."""
    builder = ExperimentBuilder("made", "7", "odd \udc80 title", "nowhere")
    builder.attributes = {"empty": "", "with \N{WHITE SMILING FACE}": "x", "bytes": "\udcff\U0010ffff"}
    contexts = _add_program(builder)
    _add_places(builder)
    _add_measured(builder, contexts)
    _set_traces(builder)
    builder.attachments = {"a/b.txt": Blob(b"text"), "empty": Blob(b""), "large": Blob(bytes(range(256)) * 1000)}
    builder.warn(Severity.MISSING, "something \udc80 is missing")
    return builder.build()


def _add_program(builder: ExperimentBuilder) -> list[int]:
    names = ["not \udce9 UTF-8", "\U0010ffff", "\U0010ffff\U0010dc80", "NUL \0 inside", "line\nbreak"]
    regions = [builder.region(ContextKind.FUNCTION, name, file=builder.file(f"{name}.c", "src/x.c")) for name in names]
    contexts = [
        builder.add_context(-1, ContextKind.FUNCTION, region, source_id=2**62 + r) for r, region in enumerate(regions)
    ]
    builder.describe_context(contexts[0], [("n", 1), ("x", 1.5), ("text", "")], {"a": ""})
    return contexts


def _add_places(builder: ExperimentBuilder) -> None:
    builder.add_run(Run("one", {"p": 4.0, "n": float("inf")}, 3, "there", {"k": "v"}))
    for number in range(3):
        builder.add_profile(
            ProfileKind.THREAD, [(1, 2**64 - 1, number, 0), (99, 0, 0, 2)], attributes=[("a", "1"), ("a", "2")]
        )
    builder.id_names = ("SUMMARY", "NODE", "", "OTHER")
    system = System(
        np.array([-1, 0], np.int32),
        ("machine", ""),
        ("m", ""),
        np.array([-1, 2**62]),
        {1: {"hostname": "h"}},
        (
            Topology("t", (2, 3), (True, False), ("x", ""), np.array([1, 0], np.int32), np.array([[0, 2], [1, 1]])),
            Topology("", (), (), (), np.empty(0, np.int32), np.empty((0, 0), np.int64)),
            Topology("none", (4,), (False,), (), np.empty(0, np.int32), np.empty((0, 1), np.int64)),
        ),
        np.array([7, 8]),
    )
    builder.set_system(system, np.array([1, -1, 1], np.int32))


def _add_measured(builder: ExperimentBuilder, contexts: list[int]) -> None:
    bins = histogram(3)
    for metric in (
        Metric("time", Scope.EXCLUSIVE, "sec", number_format="%4.1f", url="u", description="d", source_id=2**70),
        Metric("cycles", Scope.INCLUSIVE, dtype="UINT64", parent=0, show_percent=False, summary_id=-5),
        Metric("small", Scope.NONE, dtype="INT8", visible=False, formula="$1+2", attributes=(("k", "v"), ("k", "w"))),
        Metric("low", Scope.POINT, dtype="MINDOUBLE", aggregation=Aggregation.MINIMUM, id_of_quantity=True),
        Metric("atomic", Scope.EXCLUSIVE, dtype="TAU_ATOMIC", aggregation=Aggregation.COMPOSITE, composite=TAU_ATOMIC),
        Metric("bins", Scope.EXCLUSIVE, dtype="HISTOGRAM(3)", aggregation=Aggregation.COMPOSITE, composite=bins),
        Metric("nothing", Scope.LEXICAL, aggregation=Aggregation.NONE, statistic="mean"),
    ):
        builder.add_metric(metric)
    builder.add_column(Column("c", Scope.LEXICAL, "$0", "d", "s", False, True, "%d", 2**40, 3))
    every = np.arange(3)
    builder.add_values(every, contexts[:3], 0, np.array([np.nan, -0.0, 5e-324]))
    builder.add_values(every, contexts[2:], 1, np.array([2**64 - 1, 2**53 + 1, 1], np.uint64))
    builder.add_values(every, contexts[:3], 2, np.array([-128, 127, 0], np.int8))
    builder.add_values(every, contexts[:3], 3, np.array([np.inf, 1.0, -np.inf]))
    builder.add_values(0, contexts[:1], 4, np.array([(3, 1.0, 2.0, 3.0, np.nan)], TAU_ATOMIC.dtype))
    builder.add_values([0, 2], contexts[:2], 5, np.array([(0, 1, (1, 2, 3)), (0, 1, (4, 5, 6))], bins.dtype))


def _set_traces(builder: ExperimentBuilder) -> None:
    final = builder.order()
    line = Samples(np.array([1, 1, 2**62]), np.array([final[0], -1, final[4]], np.int32))
    none = Samples(np.empty(0, np.int64), np.empty(0, np.int32))
    lines = ArraySamples(np.array([2, 0, 0], np.int32), np.array([-1, 1, -1], np.int32), (line, none, line))
    counters = Counters(
        np.array([0, 2], np.int32), np.array([1, 1], np.int32), np.array([5, 4]), np.array([2**60 + 1, -1]), ("a", "b")
    )
    builder.set_traces(lines, odd_spans(final), counters, (-5, 2**62))


def odd_spans(final: Ids) -> ArraySpans:
    spans = {
        "profile": np.array([0, 1, 0, 2], np.int32),
        "kind": np.array([0, 1, 4, 5], np.int32),
        "category": np.array([0, -1, 0, 3], np.int32),
        "name": np.array([1, 2, -1, 3], np.int32),
        "label": np.array([1, 2, -1, 0], np.int32),
        "start_ns": np.array([5, -7, 2**62, 6]),
        "end_ns": np.array([4, 9, 2**63 - 1, 6]),  # one ends before it starts
        "depth": np.array([0, 1, 0, 2], np.int32),
        "correlation": np.array([2**60, -1, 0, 7]),
        PARENT: np.array([-1, 2**60, -1, 3]),
        "context": np.array([final[1], -1, 0, 3], np.int32),
    }
    sides = {
        "kernel": SideTable(
            np.array([3, 0, 0]), {"grid_x": np.array([1, -1, 2**40]), "lds": np.array([0.5, np.nan, 1])}
        ),
        "argument": SideTable(
            np.array([2]),
            {
                "name": np.array(
                    [
                        "",
                    ],
                    object,
                ),
                "value": np.array([None], object),
            },
        ),
        "stack": SideTable(np.array([1, 2]), {"frames": (("main", "f\udc80"), ())}),
        "flow": SideTable(np.empty(0, np.int64), {"to": np.empty(0, np.int64)}),
        "more": SideTable(np.array([0]), {"any": ({"x": [1, None]},)}),
    }
    return ArraySpans(spans, ("GPU \udcff", "k", "", "marker"), sides, chunk_rows=3)


@dataclass(frozen=True)
class Blob:
    """An attachment."""

    data: bytes

    def read(self) -> bytes:
        return self.data
