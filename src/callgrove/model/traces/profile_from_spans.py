"""A calling-context profile folded from spans: where the time of a traced run went, as a tree.

Specification: gpu-traces.md section 8.

    thread     |-- step (marker) ----------------------------|
                  |-- hipLaunchKernel --|   |-- hipMemcpy --|       step -> hipLaunchKernel -> gemm
    stream                      |== gemm ==|      |= copy =|        step -> hipMemcpy -> copy host to device

Spans of a thread nest by time; an outermost one lies below the functions of its call stack, where that was recorded
(side table `stack`, column `frames`: names, the outermost first). An operation of a device lies below the call that
launched it, else below the span that a flow leads from, or below `[unknown launch]`. Equal names below one context are
one context, over all parts of the trace. Nothing is lost: the GPU time of all contexts is the sum of the operations'
durations, and the host time of a thread's contexts is the union of its spans. Spans that end before they start, and
instants, add calls but no time.

Parts are folded one at a time, anywhere; what stays is a tree and one number per (profile, context, metric) that
occurred.

    fold(Part(spans, ...))     one part -> Folded
    Folding(builder).add(...)  trees of parts become one
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ids, Ints, choose_rows, distinct_rows
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import InputWarning
from callgrove.model.metrics import Metric, Scope
from callgrove.model.traces.events import (
    FLOW,
    LABEL,
    FindsLater,
    FlowDirection,
    SpanBackend,
    SpanKind,
    Traces,
    Window,
    find_rows,
)
from callgrove.model.traces.intervals import Nesting, exclusive_length, fair_share, nesting, usable
from callgrove.model.traces.pairing import find_launching_calls, launch_calls, strip_version

__all__ = ["Folded", "Folding", "Part", "fold"]

COLUMNS = ("profile", "kind", LABEL, "start_ns", "end_ns", "correlation")
NESTING = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION, SpanKind.OVERHEAD)
ON_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
FRAME, NOWHERE = -2, -3  # kinds of contexts that are not spans: functions on a stack, and what nobody launched
KIND_OF: Mapping[int, ContextKind] = {
    FRAME: ContextKind.FUNCTION,
    NOWHERE: ContextKind.PLACEHOLDER,
    SpanKind.KERNEL: ContextKind.KERNEL,
    SpanKind.COPY: ContextKind.COPY,
    SpanKind.MEMSET: ContextKind.COPY,
    SpanKind.API: ContextKind.FUNCTION,
    SpanKind.MARKER: ContextKind.MARKER,
    SpanKind.REGION: ContextKind.REGION,
    SpanKind.OVERHEAD: ContextKind.REGION,
}
UNKNOWN_LAUNCH = "[unknown launch]"
NS = 1e-9

METRICS = (
    Metric("gpu_time", Scope.EXCLUSIVE, "s", description="Sum of the durations of operations on devices"),
    Metric("gpu_busy", Scope.EXCLUSIVE, "s", description="Share of the time in which devices were busy"),
    Metric("host_time", Scope.EXCLUSIVE, "s", description="Time in which a span was the innermost one of its thread"),
    Metric("gpu_ops", Scope.EXCLUSIVE, "occ", dtype="int64", description="Operations on devices"),
    Metric("host_calls", Scope.EXCLUSIVE, "occ", dtype="int64", description="Spans of threads"),
    Metric("bytes", Scope.EXCLUSIVE, "bytes", dtype="int64", description="Bytes that were copied or set"),
    Metric("launch_delay", Scope.EXCLUSIVE, "s", description="From the begin of a call to that of its operation"),
    Metric("overhead_time", Scope.EXCLUSIVE, "s", description="Time that the profiler itself took of a thread"),
)
NUMBER = {metric.name: number for number, metric in enumerate(METRICS)}
DURATIONS = ("gpu_time", "gpu_busy", "host_time", "overhead_time")  # which a window cuts; the others are of whole spans


@dataclass(frozen=True)
class Part:
    """Spans, and their profiles: what these are in the experiment, numbers of their processes and devices, and which
    are of the program's own threads: spans of others, such as ranges on a stream, are not time of a host. With a
    window, times are those inside of it, and only what begins there is counted; where a span lies in the tree does not
    depend on it."""

    traces: Traces
    profile: Ids
    process: Ints
    device: Ints
    is_program: Bools
    window: Window | None = None


Node = tuple[int, ContextKind, str]  # parent, which comes before, or -1
Measurement = tuple[str, Ints, Array]  # metric, some spans, and a number for each of these


@dataclass(frozen=True)
class Folded:
    """What became of a part: contexts, and values by profile of the experiment, context and metric."""

    nodes: Sequence[Node]
    profile: Ids
    context: Ids
    metric: Ids  # of METRICS
    value: Floats
    time_range: Window | None = None  # when the first span began and the last one ended, of all kinds
    warnings: Sequence[InputWarning] = ()


@dataclass
class Folding:
    """Puts what parts became into a builder; equal contexts are one."""

    builder: ExperimentBuilder
    region_of: Callable[[ContextKind, str], int] | None = None  # who makes regions, where more than names is known
    time_range: Window | None = None
    warnings: list[InputWarning] = field(default_factory=list)
    _contexts: dict[Node, int] = field(default_factory=dict)
    _parts: list[Folded] = field(default_factory=list)

    def add(self, part: Folded) -> None:
        number = np.empty(len(part.nodes), np.int32)
        for k, (parent, kind, name) in enumerate(part.nodes):
            above = ABSENT if parent < 0 else int(number[parent])
            key = (above, kind, name)
            if key not in self._contexts:
                region = (self.region_of or self.builder.region)(kind, name)
                self._contexts[key] = self.builder.add_context(above, kind, region)
            number[k] = self._contexts[key]
        self._parts.append(replace(part, nodes=(), context=number[part.context]))
        self.warnings += part.warnings
        ranges = [known for known in (self.time_range, part.time_range) if known is not None]
        if ranges:
            self.time_range = min(first for first, _ in ranges), max(last for _, last in ranges)

    def finish(self) -> None:
        """Finish: the builder then has contexts, metrics and values."""
        used = np.zeros(len(METRICS), np.bool_)
        for part in self._parts:
            used[part.metric] = True
        number = np.cumsum(used) - 1
        for metric, wanted in zip(METRICS, used.tolist(), strict=True):
            if wanted:
                self.builder.add_metric(metric)
        for part in self._parts:
            self.builder.add_values(part.profile, part.context, number[part.metric], part.value)


def fold(part: Part) -> Folded | None:
    """Return all spans of a part as a tree; None where there are none."""
    backend, spans = part.traces.spans_backend, _read_spans(part.traces)
    if backend is None or spans is None:
        return None
    time_range = spans.time_range
    spans = spans.take(np.isin(spans.kind, (*NESTING, *ON_DEVICE))).measurable()
    folded = _Tree(part, backend).fold(spans)
    part.traces.release()
    warnings = tuple(backend.warnings) if isinstance(backend, FindsLater) else ()
    return replace(folded, time_range=time_range, warnings=warnings)


def _read_spans(traces: Traces) -> _Spans | None:
    """Return all spans as columns, None where there are none. What they were read as goes as soon as it is in them."""
    chunks = [dict(chunk) for chunk in traces.spans(COLUMNS)]
    columns = [np.concatenate([chunk.pop(name) for chunk in chunks]) for name in (*COLUMNS, "span") if chunks]
    return _Spans(*columns) if columns else None


class _Tree:
    """The tree of one part in the making."""

    def __init__(self, part: Part, spans: SpanBackend) -> None:
        self._part, self._spans = part, spans
        self._nodes: dict[Node, int] = {}
        self._stacks: dict[tuple[object, ...], int] = {}  # frames -> context of the innermost one

    def fold(self, spans: _Spans) -> Folded:
        host = np.flatnonzero(~spans.is_device)
        named = choose_rows(~spans.is_device & (spans.correlation != ABSENT))
        calls = find_launching_calls(vars(spans), self._part.process, choose_rows(spans.is_device), named)
        nest = nesting(spans.start_ns[host], spans.end_ns[host], spans.profile[host])
        context = self._place(spans, calls, host, nest)
        cells, number = distinct_rows(spans.profile, context)
        cell = number.astype(np.int32)
        del context, number
        return self._sum(cells, cell, self._measure_window(spans, calls, host, nest))

    # -- the tree ----------------------------------------------------------------------------------------------------

    def _callers(self, part: _Spans, wanted: Ints) -> Ids:
        """Return by span the context of the function that called it, of the wanted ones whose stack was recorded; else
        -1."""
        out = np.full(len(part), ABSENT, np.int32)
        table = self._spans.side("stack")
        if table is not None:
            frames = table.columns["frames"]
            row, here = part.rows(table.span)
            kept = np.isin(row, wanted)
            out[row[kept]] = [self._stack(frames[k]) for k in here[kept].tolist()]
        return out

    def _stack(self, frames: object) -> int:
        """Return the context of the innermost function of a stack, whose outermost one comes first."""
        assert isinstance(frames, tuple)
        known = self._stacks.get(frames)
        if known is None:
            known = ABSENT
            for name in frames:
                known = self._context(known, FRAME, name)
            self._stacks[frames] = known
        return known

    def _place(self, part: _Spans, calls: Ints, host: Ints, nest: Nesting) -> Ids:
        """Return the context of every span: host spans level by level, then operations below their calls. Who called an
        outermost span stands above it; where there are markers, these say where a span belongs, and nobody else."""
        parent = np.append(host, ABSENT)[nest.parent]
        callers = self._callers(part, host[parent < 0])
        depth = np.maximum(nest.depth, 0)  # spans that end before they start stand at the root
        context = np.full(len(part) + 1, ABSENT, np.int32)  # the last one is for -1: no parent
        for level in range(int(depth.max(initial=-1)) + 1):
            rows = depth == level
            above = np.where(parent[rows] < 0, callers[host[rows]], context[parent[rows]])
            context[host[rows]] = self._contexts_of(part, host[rows], above)
        ops = np.flatnonzero(part.is_device)
        above = context[calls[ops]]
        if (above < 0).any():
            without = np.flatnonzero(above < 0)
            above[without] = context[self._origins(part, ops[without])]
        if (above < 0).any():
            above = np.where(above < 0, self._context(ABSENT, NOWHERE, UNKNOWN_LAUNCH), above)
        context[ops] = self._contexts_of(part, ops, above)
        return context[:-1]

    def _origins(self, part: _Spans, ops: Ints) -> Ints:
        """Return the span of a host that a flow leads from to each operation; -1 where there is none."""
        table = self._spans.side(FLOW)
        out = np.full(len(ops), ABSENT, np.int64)
        if table is None:
            return out
        row, here = part.rows(table.span)
        flow, direction = (np.asarray(table.columns[name])[here] for name in ("id", "direction"))
        process = self._part.process[part.profile[row]]
        ends = np.flatnonzero(np.isin(row, ops) & (direction != FlowDirection.OUT))
        starts = np.flatnonzero(~part.is_device[row] & (direction != FlowDirection.IN))
        start_of = launch_calls(
            flow[ends],
            process[ends],
            flow[starts],
            process[starts],
            part.start_ns[row[starts]],
            part.start_ns[row[ends]],
        )
        origin = np.full(len(part), ABSENT, np.int64)
        linked = np.flatnonzero(start_of >= 0)
        origin[row[ends[linked]]] = row[starts[start_of[linked]]]
        return origin[ops]

    def _contexts_of(self, part: _Spans, rows: Ints, above: Ids) -> Ids:
        """Return the context of each row below the one above it; new ones are made."""
        if not len(rows):
            return np.empty(0, np.int32)
        different, number = distinct_rows(above, part.kind[rows], part.name[rows])
        made = [self._context(parent, kind, self._name(kind, name)) for parent, kind, name in different.T.tolist()]
        return np.array(made, np.int32)[number]

    def _name(self, kind: int, name: int) -> str:
        text = self._spans.strings[name] if name >= 0 else SpanKind(kind).word
        return strip_version(text) if kind == SpanKind.API else text

    def _context(self, parent: int, kind: int, name: str) -> int:
        return self._nodes.setdefault((parent, KIND_OF[kind], name), len(self._nodes))

    # -- the values --------------------------------------------------------------------------------------------------

    def _measure_window(self, spans: _Spans, calls: Ints, host: Ints, nest: Nesting) -> Iterator[Measurement]:
        """Yield what is measured: without a window of whole spans; else times inside of it, and counts of what begins
        there."""
        whole = chain(self._measure(spans, calls, host, nest), self._sizes(spans))
        window = self._part.window
        if window is None:
            yield from whole
            return
        inside = self._measure(spans.clip(window), calls, host, nest)
        yield from (one for one in inside if one[0] in DURATIONS)
        begins = spans.begin_in(window)
        yield from ((name, rows[begins[rows]], n[begins[rows]]) for name, rows, n in whole if name not in DURATIONS)

    def _measure(self, part: _Spans, calls: Ints, host: Ints, nest: Nesting) -> Iterator[Measurement]:
        """Yield the metrics one after the other: columns of all of them together would be large."""
        ops = np.flatnonzero(part.is_device)
        forward = ops[part.end_ns[ops] >= part.start_ns[ops]]
        yield "gpu_time", forward, (part.end_ns[forward] - part.start_ns[forward]) * NS
        linked = forward[calls[forward] >= 0]
        linked = linked[part.end_ns[calls[linked]] >= part.start_ns[calls[linked]]]
        yield "launch_delay", linked, (part.start_ns[linked] - part.start_ns[calls[linked]]) * NS
        del forward, linked
        yield "gpu_ops", ops, np.ones(len(ops))
        for rows in self._by_device(part, ops):
            yield "gpu_busy", rows, fair_share(part.start_ns[rows], part.end_ns[rows]) * NS
        length = exclusive_length(part.start_ns[host], part.end_ns[host], part.profile[host], nest)
        host, length = (column[self._part.is_program[part.profile[host]]] for column in (host, length))
        is_program = part.kind[host] != SpanKind.OVERHEAD
        yield "overhead_time", host[~is_program], length[~is_program] * NS
        yield "host_time", host[is_program], length[is_program] * NS
        yield "host_calls", host[is_program], np.ones(int(is_program.sum()))

    def _by_device(self, part: _Spans, ops: Ints) -> list[Ints]:
        """Return operations of one device after the other."""
        if not len(ops):
            return []
        profile = part.profile[ops]
        _, device = distinct_rows(self._part.process[profile], self._part.device[profile])
        order = np.argsort(device, kind="stable")
        return np.split(ops[order], np.flatnonzero(np.diff(device[order])) + 1)

    def _sizes(self, part: _Spans) -> Iterator[Measurement]:
        table = self._spans.side("copy")
        if table is None:
            return
        row, here = part.rows(table.span)
        sizes = np.asarray(table.columns["bytes"], np.int64)[here]
        yield "bytes", row[sizes >= 0], sizes[sizes >= 0]

    def _sum(self, cells: Ints, cell: Ids, measured: Iterable[Measurement]) -> Folded:
        """Return one value per (profile, context, metric), in this order. `cells` are the different pairs of a profile
        and a context, and `cell` has the one of each span."""
        sums: dict[str, Array] = {}
        for name, rows, numbers in measured:
            total: Array = np.bincount(cell[rows], numbers.astype(np.float64, copy=False), cells.shape[1])
            sums[name] = sums[name] + total if name in sums else total
        kept = {name: np.flatnonzero(values) for name, values in sums.items()}
        places = [np.stack([*cells[:, some], np.full(len(some), NUMBER[name])]) for name, some in kept.items()]
        together = np.concatenate(places, axis=1)
        values = np.concatenate([sums[name][some] for name, some in kept.items()])
        order = np.lexsort(together[::-1])
        profile, where, metric = together[:, order].astype(np.int32)
        return Folded(tuple(self._nodes), self._part.profile[profile], where, metric, values[order])


@dataclass(frozen=True)
class _Spans:
    """The spans of one part, as columns."""

    profile: Ids
    kind: Ids
    name: Ids
    start_ns: Ints
    end_ns: Ints
    correlation: Ints
    span: Ints

    def __len__(self) -> int:
        return len(self.span)

    @cached_property
    def is_device(self) -> Bools:
        return np.isin(self.kind, ON_DEVICE)

    @property
    def time_range(self) -> Window | None:
        good = usable(self.start_ns, self.end_ns)
        return (int(self.start_ns[good].min()), int(self.end_ns[good].max())) if good.any() else None

    def measurable(self) -> _Spans:
        """Return spans with times that are not times replaced by an interval that ends before it starts."""
        good = usable(self.start_ns, self.end_ns)
        if good.all():
            return self
        return replace(self, start_ns=np.where(good, self.start_ns, 1), end_ns=np.where(good, self.end_ns, 0))

    def clip(self, window: Window) -> _Spans:
        """Return spans with what of them lies in a window; those outside have no length, those that end before they
        start stay such."""
        start, end = np.clip(self.start_ns, *window), np.clip(self.end_ns, *window)
        forward = self.end_ns >= self.start_ns
        return replace(
            self, start_ns=np.where(forward, start, self.start_ns), end_ns=np.where(forward, end, self.end_ns)
        )

    def begin_in(self, window: Window) -> Bools:
        """Return which spans begin in a window."""
        begins: Bools = (self.start_ns >= window[0]) & (self.start_ns < window[1])
        return begins

    def rows(self, span: Ints) -> tuple[Ints, Ints]:
        """Return the rows of spans that are here, and which of the given ones these are."""
        row = find_rows(self.span, span)
        here = np.flatnonzero(row >= 0)
        return row[here], here

    def take(self, kept: Bools) -> _Spans:
        """Return some of the spans."""
        if kept.all():
            return self
        return _Spans(*(getattr(self, name)[kept] for name in self.__dataclass_fields__))
