"""A calling-context profile folded from spans: where the time of a traced run went, as a tree.

Specification: gpu-traces.md section 8.

    thread     |-- step (marker) ----------------------------|
                  |-- hipLaunchKernel --|   |-- hipMemcpy --|       step -> hipLaunchKernel -> gemm
    stream                      |== gemm ==|      |= copy =|        step -> hipMemcpy -> copy host to device

Spans of a thread nest by time; an outermost one lies below the functions of its call stack, where that was recorded
(side table `stack`, column `frames`: names, the outermost first). An operation of a device lies below the call that
launched it, or below `[unknown launch]`. Equal names below one context are one context, over all parts of the trace.
Nothing is lost: the GPU time of all contexts is the sum of the operations' durations, and the host time of a thread's
contexts is the union of its spans. Spans that end before they start, and instants, add calls but no time.

Parts are folded one at a time; what stays is the tree and one number per (profile, context, metric) that occurred.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Floats, Ids, Ints
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.grouping import distinct
from callgrove.model.intervals import exclusive_length, fair_share, nesting, usable
from callgrove.model.launches import launch_calls
from callgrove.model.metrics import Metric, Scope
from callgrove.model.traces import LABEL, SpanBackend, SpanKind

__all__ = ["SpanFolding"]

COLUMNS = ("profile", "kind", LABEL, "start_ns", "end_ns", "correlation")
NESTING = (SpanKind.API, SpanKind.MARKER, SpanKind.REGION)
ON_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
KIND_OF = {
    SpanKind.KERNEL: ContextKind.KERNEL,
    SpanKind.COPY: ContextKind.COPY,
    SpanKind.MEMSET: ContextKind.COPY,
    SpanKind.API: ContextKind.FUNCTION,
    SpanKind.MARKER: ContextKind.MARKER,
    SpanKind.REGION: ContextKind.REGION,
}
FRAME = -2  # the kind of contexts that are no spans, but functions on a stack
UNKNOWN_LAUNCH = "[unknown launch]"
VERSIONED = re.compile(r"_v\d+$")  # cudaMalloc_v3020
NS = 1e-9

METRICS = (
    Metric("gpu_time", Scope.EXCLUSIVE, "s", description="Sum of the durations of operations on devices"),
    Metric("gpu_busy", Scope.EXCLUSIVE, "s", description="Share of the time in which devices were busy"),
    Metric("host_time", Scope.EXCLUSIVE, "s", description="Time in which a span was the innermost one of its thread"),
    Metric("gpu_ops", Scope.EXCLUSIVE, "occ", dtype="int64", description="Operations on devices"),
    Metric("host_calls", Scope.EXCLUSIVE, "occ", dtype="int64", description="Spans of threads"),
    Metric("bytes", Scope.EXCLUSIVE, "bytes", dtype="int64", description="Bytes that were copied or set"),
    Metric("launch_delay", Scope.EXCLUSIVE, "s", description="From the begin of a call to that of its operation"),
)
NUMBER = {metric.name: number for number, metric in enumerate(METRICS)}


@dataclass
class SpanFolding:
    """Folds parts into a builder. `process` and `device` number those of every profile; device -1 is a host."""

    builder: ExperimentBuilder
    spans: SpanBackend
    process: Ints
    device: Ints
    _contexts: dict[tuple[int, int, int], int] = field(default_factory=dict)  # parent, kind, name -> context
    _stacks: dict[tuple[object, ...], int] = field(default_factory=dict)  # frames -> context of the innermost one

    def fold(self) -> None:
        """All parts; the builder then has contexts, metrics and values."""
        used = np.zeros(len(METRICS), np.bool_)
        parts = enumerate(self.spans.parts())
        sums = [values for number, own in parts if (values := self._fold_part(number, own)) is not None]
        for _, _, row, _ in sums:
            used[np.unique(row)] = True
        number = np.cumsum(used) - 1
        for metric, wanted in zip(METRICS, used.tolist(), strict=True):
            if wanted:
                self.builder.add_metric(metric)
        for profile, context, row, value in sums:
            self.builder.add_values(profile, context, number[row], value)

    def _fold_part(self, number: int, profiles: Ints) -> tuple[Ids, Ids, Ids, Floats] | None:
        chunks = list(self.spans.chunks(COLUMNS, None, profiles))
        if not chunks:
            return None
        part = _Part(*(np.concatenate([chunk[name] for chunk in chunks]) for name in (*COLUMNS, "span")))
        part = part.take(np.isin(part.kind, (*NESTING, *ON_DEVICE))).measurable()
        calls = self._calls(part)
        context = self._place(number, part, calls)
        return _summed(part, context, self._measured(part, calls) + self._sizes(number, part))

    def _calls(self, part: _Part) -> Ints:
        """The call that launched each operation; -1 elsewhere."""
        ops, api = np.flatnonzero(part.is_device), np.flatnonzero(~part.is_device)
        out = np.full(len(part), ABSENT, np.int64)
        found = launch_calls(
            part.correlation[ops],
            self.process[part.profile[ops]],
            part.correlation[api],
            self.process[part.profile[api]],
            part.start_ns[api],
            part.start_ns[ops],
        )
        out[ops] = np.append(api, ABSENT)[found]
        return out

    # -- the tree ----------------------------------------------------------------------------------------------------

    def _callers(self, number: int, part: _Part, wanted: Ints) -> Ids:
        """By span: the context of the function that called it, of the wanted ones whose stack was recorded; else -1."""
        out = np.full(len(part), ABSENT, np.int32)
        table = self.spans.side("stack", number)
        if table is not None:
            frames = table.columns["frames"]
            row, here = part.rows(table.span)
            kept = np.isin(row, wanted)
            out[row[kept]] = [self._stack(frames[k]) for k in here[kept].tolist()]
        return out

    def _stack(self, frames: object) -> int:
        """The context of the innermost function of a stack, whose outermost one comes first."""
        assert isinstance(frames, tuple)
        known = self._stacks.get(frames)
        if known is None:
            known = ABSENT
            for name in frames:
                region = self.builder.region(ContextKind.FUNCTION, name)
                key = (known, FRAME, region)
                if key not in self._contexts:
                    self._contexts[key] = self.builder.add_context(known, ContextKind.FUNCTION, region)
                known = self._contexts[key]
            self._stacks[frames] = known
        return known

    def _place(self, number: int, part: _Part, calls: Ints) -> Ids:
        """The context of every span: host spans level by level, then operations below their calls. Who called an
        outermost span stands above it; where there are markers, these say where a span belongs, and nobody else."""
        host = np.flatnonzero(~part.is_device)
        nest = nesting(part.start_ns[host], part.end_ns[host], part.profile[host])
        parent = np.append(host, ABSENT)[nest.parent]
        callers = self._callers(number, part, host[parent < 0])
        depth = np.maximum(nest.depth, 0)  # spans that end before they start stand at the root
        context = np.full(len(part) + 1, ABSENT, np.int32)  # the last one is for -1: no parent
        for level in range(int(depth.max(initial=-1)) + 1):
            rows = depth == level
            above = np.where(parent[rows] < 0, callers[host[rows]], context[parent[rows]])
            context[host[rows]] = self._contexts_of(part, host[rows], above)
        ops = np.flatnonzero(part.is_device)
        above = context[calls[ops]]
        if (above < 0).any():
            above = np.where(above < 0, self._unknown_launch(), above)
        context[ops] = self._contexts_of(part, ops, above)
        return context[:-1]

    def _contexts_of(self, part: _Part, rows: Ints, above: Ids) -> Ids:
        """The context of each row below the one above it; new ones are made."""
        if not len(rows):
            return np.empty(0, np.int32)
        different, number = distinct(above, part.kind[rows], part.name[rows])
        return np.array([self._context(*key) for key in different.T.tolist()], np.int32)[number]

    def _context(self, parent: int, kind: int, name: int) -> int:
        known = self._contexts.get((parent, kind, name))
        if known is None:
            what = KIND_OF[SpanKind(kind)]
            text = self.spans.strings[name] if name >= 0 else SpanKind(kind).word
            text = VERSIONED.sub("", text) if kind == SpanKind.API else text
            known = self.builder.add_context(parent, what, self.builder.region(what, text))
            self._contexts[parent, kind, name] = known
        return known

    def _unknown_launch(self) -> int:
        key = (ABSENT, ABSENT, ABSENT)
        if key not in self._contexts:
            region = self.builder.region(ContextKind.PLACEHOLDER, UNKNOWN_LAUNCH)
            self._contexts[key] = self.builder.add_context(ABSENT, ContextKind.PLACEHOLDER, region)
        return self._contexts[key]

    # -- the values --------------------------------------------------------------------------------------------------

    def _measured(self, part: _Part, calls: Ints) -> list[tuple[str, Ints, Array]]:
        """(metric, rows, a number for each of these rows)."""
        host, ops = np.flatnonzero(~part.is_device), np.flatnonzero(part.is_device)
        forward = ops[part.end_ns[ops] >= part.start_ns[ops]]
        linked = forward[calls[forward] >= 0]
        linked = linked[part.end_ns[calls[linked]] >= part.start_ns[calls[linked]]]
        out: list[tuple[str, Ints, Array]] = [
            ("gpu_time", forward, (part.end_ns[forward] - part.start_ns[forward]) * NS),
            ("gpu_ops", ops, np.ones(len(ops))),
            ("host_time", host, exclusive_length(part.start_ns[host], part.end_ns[host], part.profile[host]) * NS),
            ("host_calls", host, np.ones(len(host))),
            ("launch_delay", linked, (part.start_ns[linked] - part.start_ns[calls[linked]]) * NS),
        ]
        where = np.stack([self.process[part.profile[ops]], self.device[part.profile[ops]]])
        for device in np.unique(where, axis=1).T:
            own = ops[(where == device[:, None]).all(axis=0)]
            out.append(("gpu_busy", own, fair_share(part.start_ns[own], part.end_ns[own]) * NS))
        return out

    def _sizes(self, number: int, part: _Part) -> list[tuple[str, Ints, Array]]:
        table = self.spans.side("copy", number)
        if table is None:
            return []
        row, here = part.rows(table.span)
        sizes = np.asarray(table.columns["bytes"], np.int64)[here]
        return [("bytes", row[sizes >= 0], sizes[sizes >= 0])]


@dataclass(frozen=True)
class _Part:
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

    @property
    def is_device(self) -> Array:
        return np.isin(self.kind, ON_DEVICE)

    def measurable(self) -> _Part:
        """The same with times that are no times replaced by an interval that ends before it starts."""
        good = usable(self.start_ns, self.end_ns)
        return replace(self, start_ns=np.where(good, self.start_ns, 1), end_ns=np.where(good, self.end_ns, 0))

    def rows(self, span: Ints) -> tuple[Ints, Ints]:
        """The rows of spans that are here, and which of the given ones these are."""
        order = np.argsort(self.span, kind="stable")
        place = np.searchsorted(self.span[order], span)
        here = np.flatnonzero(place < len(order))
        here = here[self.span[order][place[here]] == span[here]]
        return order[place[here]], here

    def take(self, rows: Array) -> _Part:
        return _Part(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def _summed(part: _Part, context: Ids, measured: Sequence[tuple[str, Ints, Array]]) -> tuple[Ids, Ids, Ids, Floats]:
    """One value per (profile, context, metric)."""
    rows = np.concatenate([own for _, own, _ in measured])
    value = np.concatenate([numbers.astype(np.float64) for _, _, numbers in measured])
    metric = np.repeat([NUMBER[name] for name, _, _ in measured], [len(own) for _, own, _ in measured])
    different, number = distinct(part.profile[rows], context[rows], metric)
    sums = np.bincount(number, value, different.shape[1])
    kept = sums != 0
    profile, where, row = (column[kept].astype(np.int32) for column in different)
    return profile, where, row, sums[kept]
