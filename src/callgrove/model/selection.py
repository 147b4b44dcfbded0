"""A part of an experiment, itself an experiment: some profiles, some metrics, a window of its traces; a lazy view.

    experiment.select(ranks={0}, metrics=["CPUTIME (sec)"], window="10%:20%")

Nothing that is not selected is read. Ids are dense again, in the old order; `source_id` stays what the file says.

    profiles   stored summaries are of all threads, so they are left out, and what only they carry with them; runs
               without a profile are left out
    metrics    all scopes and statistics of the quantities named; columns whose formula needs another one are left out
    window     [start, end) of traces, in ns; values are of the whole run and stay. The sample before the window says
               what was going on when it begins: it is moved to the beginning. Spans that reach into it stay whole
    spans      of some kinds or categories only
    unused     contexts without a selected value or sample at or below them can be left out, which reads all of these
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from callgrove.arrays import Array, Bools, Ids, Ints, absent_stays, combine_upwards, new_numbers
from callgrove.errors import CallgroveError, UsageError
from callgrove.model.chained_values import ChainedValues, Link
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment, InputWarning, Severity, Sources
from callgrove.model.formulas import FormulaError, parse
from callgrove.model.metrics import Column as MetricColumn
from callgrove.model.metrics import Metrics
from callgrove.model.profiles import Profiles, System
from callgrove.model.runs import Numbers, Run, choose_runs
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import (
    PLACES,
    Counters,
    Device,
    SampleBackend,
    Samples,
    SideTable,
    SpanBackend,
    SpanChunk,
    SpanKind,
    Traces,
    Window,
)
from callgrove.model.traces.intervals import usable
from callgrove.model.traces.windows import TimeWindow, marker_window
from callgrove.model.values import Values

__all__ = [
    "ALL_SPANS",
    "SelectedSamples",
    "SelectedSpans",
    "SpanChoice",
    "choose_profiles",
    "choose_window",
    "select",
    "span_choice",
    "time_span",
    "warn_unknown_values",
]


# -- traces of some profiles in a window of time -----------------------------------------------------------------------
# They are read from the traces of the whole experiment, when asked for.


def narrow(window: Window | None, inner: Window | None) -> Window | None:
    """Return the time that both windows have in common; None is all of it."""
    if window is None or inner is None:
        return inner if window is None else window
    start = max(window[0], inner[0])
    return start, max(start, min(window[1], inner[1]))


class SelectedSamples:
    """Sample lines of some profiles. Maps give the new number of an old one, or -1."""

    def __init__(
        self, backend: SampleBackend, profiles: Ids, metrics: Ids, contexts: Ids, window: Window | None
    ) -> None:
        self._backend, self._window = backend, window
        self._contexts = absent_stays(contexts)  # idle stays idle
        metric = absent_stays(metrics)[backend.metric]
        kept = (profiles[backend.profile] >= 0) & ((backend.metric < 0) | (metric >= 0))
        self._lines = np.flatnonzero(kept)
        self.profile: Ids = profiles[backend.profile[self._lines]]
        self.metric: Ids = metric[self._lines]

    @cached_property
    def count(self) -> Ints:
        """Without a window it is known; with one, times are looked at."""
        if self._window is None:
            return self._backend.count[self._lines]
        return np.array([len(self._backend.line(line, self._window)) for line in self._lines.tolist()], np.int64)

    @property
    def problems(self) -> list[CallgroveError]:
        return self._backend.problems

    def line(self, line: int, window: Window | None = None) -> Samples:
        samples = self._backend.line(int(self._lines[line]), narrow(self._window, window))
        time_ns = samples.time_ns if self._window is None else np.maximum(samples.time_ns, self._window[0])
        return Samples(time_ns, self._contexts[samples.context], samples.until_ns)


@dataclass(frozen=True)
class SpanChoice:
    """Which spans: of some kinds, and of some categories; None is all. A category is named in full or by its first
    words: HIP stands for HIP_RUNTIME_API as well. Case does not matter."""

    kinds: frozenset[SpanKind] | None = None
    categories: frozenset[str] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return (*(("kind",) if self.kinds is not None else ()), *(("category",) if self.categories is not None else ()))

    def of(self, chunk: SpanChunk, strings: Sequence[str]) -> Bools | None:
        """Return which spans of a chunk are chosen; None is all."""
        chosen: Bools | None = None
        if self.kinds is not None:
            chosen = np.isin(chunk["kind"], sorted(self.kinds))
        if self.categories is not None:
            different, number = np.unique(chunk["category"], return_inverse=True)
            wanted = np.array([k >= 0 and self._names(strings[k]) for k in different.tolist()], np.bool_)
            named = wanted[number.reshape(-1)]
            chosen = named if chosen is None else chosen & named
        return chosen

    def _names(self, category: str) -> bool:
        words = category.lower()
        return any(words == name or words.startswith(f"{name}_") for name in map(str.lower, self.categories or ()))


ALL_SPANS = SpanChoice()


class SelectedSpans:
    """Spans of some profiles that reach into a window, of some kinds and categories, numbered anew."""

    def __init__(
        self, backend: SpanBackend, profiles: Ids, contexts: Ids, window: Window | None, choice: SpanChoice = ALL_SPANS
    ) -> None:
        self._backend, self._window, self._profiles, self._choice = backend, window, profiles, choice
        self._contexts = absent_stays(contexts)
        self._chosen = np.flatnonzero(profiles >= 0)

    @property
    def strings(self) -> Sequence[str]:
        return self._backend.strings

    def _read(self, columns: Sequence[str], window: Window | None, profiles: Ints) -> Iterator[SpanChunk]:
        """Yield the chosen spans, with their old numbers."""
        asked = (*columns, *(name for name in self._choice.columns if name not in columns))
        for chunk in self._backend.chunks(asked, window, profiles):
            chosen = self._choice.of(chunk, self._backend.strings)
            kept = {name: chunk[name] for name in ("span", *columns)}
            if chosen is not None:
                kept = {name: column[chosen] for name, column in kept.items()}
            if len(kept["span"]):
                yield kept

    @cached_property
    def _kept_spans(self) -> Ints:
        """The old numbers of the spans that were kept, ascending."""
        chunks = self._read(("profile",), self._window, self._chosen)
        return np.concatenate([np.empty(0, np.int64), *(chunk["span"] for chunk in chunks)])

    def count(self) -> int:
        return len(self._kept_spans)

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        wanted = self._chosen if profiles is None else np.flatnonzero(np.isin(self._profiles, profiles))
        wanted = wanted[self._profiles[wanted] >= 0]
        for chunk in self._read(columns, narrow(self._window, window), wanted):
            renumbered = {**chunk, "span": np.searchsorted(self._kept_spans, chunk["span"])}
            if "profile" in renumbered:
                renumbered["profile"] = self._profiles[chunk["profile"]]
            if "context" in renumbered:
                renumbered["context"] = self._contexts[chunk["context"]]
            yield renumbered

    def parts(self) -> Sequence[Ints]:
        """Return the parts of the whole, in the same order; some may be empty."""
        kept_parts = [self._profiles[part] for part in self._backend.parts()]
        return [part[part >= 0].astype(np.int64) for part in kept_parts]

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        whole = self._backend.side(name, part)
        if whole is None:
            return None
        return self._renumber(whole)

    def has_side(self, name: str, part: int) -> bool:
        """Tell whether the whole has such a table: to look at all its rows would take as long as to write them."""
        return Traces(spans_backend=self._backend).has_side(name, part)

    def _renumber(self, whole: SideTable) -> SideTable:
        part = whole.take(np.flatnonzero(np.isin(whole.span, self._kept_spans)))
        return SideTable(np.searchsorted(self._kept_spans, part.span), part.columns)

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        for table in Traces(spans_backend=self._backend).side_chunks(name, part):
            yield self._renumber(table)

    def devices(self, part: int) -> Sequence[Device]:
        return Traces(spans_backend=self._backend).devices(part)


# -- choosing a part ---------------------------------------------------------------------------------------------------


def choose_profiles(
    experiment: Experiment, ranks: Numbers | None = None, threads: Numbers | None = None, runs: Numbers | None = None
) -> Ints | None:
    """Return the profiles with these ranks and threads, of these runs; None where nothing was chosen. An empty choice
    is an error that says what there is."""
    if ranks is None and threads is None and runs is None:
        return None
    chosen = experiment.profiles.where(ranks, threads, None if runs is None else choose_runs(experiment.runs, runs))
    if not len(chosen):
        parts = []
        for column, wanted in (("rank", ranks), ("thread", threads)):
            if wanted is not None:
                known = sorted({n for n in experiment.profiles.identity_list(column) if n is not None})
                span = f"{known[0]} to {known[-1]}" if known else "none"
                parts.append(f"{column} {wanted} (there are {span})")
        of = f" of run {runs}" if runs is not None else ""
        raise UsageError(f"{experiment.path}: no profile{of} has {' and '.join(parts) or 'any value'}")
    return chosen


def choose_window(
    experiment: Experiment,
    window: Window | str | TimeWindow | None,
    start_marker: str,
    end_marker: str,
    write_duration: Callable[[float], str],
    words: str = "the window",
) -> Window | None:
    """Return a window of the traces in ns, from what a caller says; None where nothing is said. A text or a marker that
    leaves nothing of the traces is an error. `words` are how messages call the window."""
    if not (start_marker or end_marker or isinstance(window, str | TimeWindow)):
        return window
    span = time_span(experiment.traces)
    if span is None:
        raise UsageError(f"{experiment.path}: has no traces, so {words} selects nothing; leave it out")
    text = TimeWindow.parse(window) if isinstance(window, str) else window or TimeWindow("", "")
    bounds = text.of(span) if isinstance(text, TimeWindow) else text
    if start_marker or end_marker:
        bounds = marker_window(experiment, start_marker, end_marker, bounds)
    if bounds[0] >= bounds[1] or bounds[1] <= span[0] or bounds[0] > span[1]:
        lasts = write_duration(span[1] - span[0])
        raise UsageError(f"{experiment.path}: {words} is empty; the traces last {lasts} from {span[0]} on")
    return bounds


def span_choice(kinds: Collection[str] | None, categories: Collection[str] | None) -> SpanChoice:
    """Return which spans are meant by the words for their kinds and by their categories; None is all."""
    known = {kind.name.lower(): kind for kind in SpanKind}
    for kind in kinds or ():
        if kind not in known:
            raise UsageError(f"{kind!r} is no kind of span; there are {', '.join(known)}")
    wanted = None if kinds is None else frozenset(known[kind] for kind in kinds)
    return SpanChoice(wanted, frozenset(categories) if categories else None)


def select(
    experiment: Experiment,
    *,
    profiles: Ints | None = None,
    metrics: Sequence[str] | None = None,
    window: Window | None = None,
    traces: bool = True,
    drop_unused: bool = False,
    spans: SpanChoice = ALL_SPANS,
) -> Experiment:
    """Return the part of an experiment that was asked for; None is everything. `Experiment.select` takes friendlier
    words."""
    kept = np.arange(len(experiment.profiles)) if profiles is None else np.unique(profiles)
    if profiles is not None:
        kept = experiment.values.without_torn(kept[~experiment.profiles.is_summary[kept]])
        if not len(kept):
            raise UsageError(f"{experiment.path}: no profile was selected")
    rows = _metric_rows(experiment, metrics, kept)
    if profiles is not None and experiment.values.loses_all(kept):
        rows, experiment = (
            rows[:0],
            replace(experiment, warnings=(*experiment.warnings, warn_unknown_values(experiment))),
        )
    shown = experiment.traces if traces else Traces()
    cut = _Cut(experiment, kept, rows, window, replace(shown, time_range=_range(shown, window)), spans)
    contexts = cut.find_used_contexts() if drop_unused else np.arange(len(experiment.contexts))
    return cut.build(contexts)


def time_span(traces: Traces) -> Window | None:
    """Return the time from the first to the last moment of all traces. Of samples, what the file says, or else what is
    in it; of spans what is in them: a file says when processes began and ended, which may be long before and after."""
    if traces.time_range is not None and traces.spans_backend is None:
        return traces.time_range
    first: list[int] = []
    last: list[int] = []
    for _, _, line in traces.lines():
        if len(line):
            first.append(int(line.time_ns[0]))
            last.append(int(line.time_ns[-1]))
    for chunk in traces.spans(("start_ns", "end_ns")):
        valid = usable(chunk["start_ns"], chunk["end_ns"])
        if valid.any():
            first.append(int(chunk["start_ns"][valid].min()))
            last.append(int(chunk["end_ns"][valid].max()))
    if traces.counters is not None and len(traces.counters):
        first.append(int(traces.counters.time_ns.min()))
        last.append(int(traces.counters.time_ns.max()))
    return (min(first), max(last)) if first else traces.time_range


def _range(traces: Traces, window: Window | None) -> Window | None:
    said = traces.time_range
    if window is None or said is None:
        return said
    return max(said[0], window[0]), max(max(said[0], window[0]), min(said[1], window[1]))


def warn_unknown_values(experiment: Experiment) -> InputWarning:
    """Return what is said of a part without values, since only those of all profiles together are known."""
    names = ", ".join(experiment.metrics.quantities)
    return InputWarning(Severity.NOTE, f"lost: values of {names}: only those of all profiles together are known")


def _metric_rows(experiment: Experiment, quantities: Sequence[str] | None, profiles: Ints) -> Ints:
    """Return the rows of the quantities named; statistics only where a summary, or what stands for one, carries
    them."""
    names = None if quantities is None else {experiment.metrics.resolve(name) for name in quantities}
    carriers = np.union1d(experiment.profiles.summaries, experiment.profiles.aggregates)
    has_statistics = bool(np.isin(carriers, profiles).any())
    return np.array(
        [
            row
            for row, metric in enumerate(experiment.metrics)
            if (names is None or metric.name in names) and (has_statistics or not metric.statistic)
        ],
        np.int64,
    )


class _Cut:
    """What was kept of an experiment, while the part is being made."""

    def __init__(
        self,
        whole: Experiment,
        profiles: Ints,
        rows: Ints,
        window: Window | None,
        traces: Traces,
        spans: SpanChoice,
    ) -> None:
        self.spans = spans
        self.whole, self.kept_profiles, self.kept_rows, self.window, self.traces = whole, profiles, rows, window, traces
        self.new_profile = new_numbers(profiles, len(whole.profiles))
        self.new_row = new_numbers(rows, len(whole.metrics))

    def find_used_contexts(self) -> Ints:
        """Return contexts with a selected value or sample, all above them, and those that contain their cost."""
        tree = self.whole.contexts
        used = np.zeros(len(tree), np.bool_)
        if not len(tree):
            return np.empty(0, np.int64)
        if len(self.kept_rows):
            for block in self.whole.values.blocks(self.kept_profiles, self.kept_rows):
                used[block.triples().context] = True
        for _, metric, line in self.traces.lines(self.kept_profiles, self.window):
            if metric < 0 or self.new_row[metric] >= 0:
                used[line.context[line.context >= 0]] = True
        for chunk in self._spans_with_contexts():
            used[chunk[chunk >= 0]] = True
        return np.flatnonzero(_close_upwards(used, tree))

    def _spans_with_contexts(self) -> list[Array]:
        chunks = self.traces.spans(("context",), self.window, self.kept_profiles)
        return [np.unique(chunk["context"]) for chunk in chunks]

    def build(self, contexts: Ints) -> Experiment:
        whole = self.whole
        new_context = new_numbers(contexts, len(whole.contexts))
        metrics = _metrics(whole.metrics, self.kept_rows)
        everything = len(self.kept_profiles) == len(whole.profiles)
        system, leaves = (whole.system, whole.profiles.system) if everything else self._system()
        profiles = replace(whole.profiles.take(self.kept_profiles), system=leaves[self.kept_profiles])
        runs, profiles = _runs(whole, profiles)
        link = Link(whole.values.backend, self.new_profile, new_context, self.new_row)
        tree = whole.contexts.take(contexts)
        return replace(
            whole,
            runs=runs,
            profiles=profiles,
            system=system,
            contexts=tree,
            metrics=metrics,
            values=Values(ChainedValues([link]), metrics, profiles, len(tree)),
            traces=self._traces(new_context),
            sources=_sources(whole.sources, tree),
        )

    def _system(self) -> tuple[System, Ids]:
        """Return the places of the profiles that were kept, and the new leaf of every old profile."""
        system, leaves = self.whole.system, self.whole.profiles.system
        kept = leaves[self.kept_profiles]
        nodes = np.flatnonzero(system.above(kept[kept >= 0]))
        return system.take(nodes), absent_stays(new_numbers(nodes, len(system)))[leaves]

    def _traces(self, new_context: Ids) -> Traces:
        old, samples, spans, counters = self.traces, None, None, None
        if old.samples is not None:
            samples = SelectedSamples(old.samples, self.new_profile, self.new_row, new_context, self.window)
        if old.spans_backend is not None:
            spans = SelectedSpans(old.spans_backend, self.new_profile, new_context, self.window, self.spans)
        if old.counters is not None:
            counters = _counters_of(old.counters, self.new_profile, self.window)
        split = None if old.split is None else self._part
        return Traces(samples, spans, counters, old.time_range, split, self._tables(), old.part_sizes)

    def _tables(self) -> dict[str, Callable[[], Table]]:
        """Return the tables beside the spans. Those of processes, agents, ... stay; only places have a row per
        profile."""
        tables = dict(self.traces.tables)
        if PLACES in tables:
            tables[PLACES] = partial(_rows_of, tables[PLACES], self.kept_profiles)
        return tables

    def _part(self, first: int, end: int | None = None) -> Traces:
        """Return what was kept of one part, or of several, by itself."""
        assert self.traces.split is not None
        parts = self.traces.parts()[first : first + 1 if end is None else end]
        alone, profiles = self.traces.split(first, end), np.concatenate(parts)
        profile_map = new_numbers(np.flatnonzero(self.new_profile[profiles] >= 0), len(profiles))
        spans = None
        if alone.spans_backend is not None:
            spans = SelectedSpans(alone.spans_backend, profile_map, np.empty(0, np.int32), self.window, self.spans)
        return Traces(None, spans, partial(_some_counters, alone, profile_map, self.window))


def _runs(whole: Experiment, profiles: Profiles) -> tuple[tuple[Run, ...], Profiles]:
    """Return the runs that have any of the profiles that were kept, and these with the numbers of their runs."""
    before, there = np.unique(whole.profiles.run), np.unique(profiles.run)
    if len(before) == len(there) or not len(there):
        return whole.runs, profiles
    numbers = new_numbers(there.astype(np.int64), len(whole.runs))
    return tuple(whole.runs[number] for number in there.tolist()), replace(profiles, run=numbers[profiles.run])


def _rows_of(make: Callable[[], Table], rows: Ints) -> Table:
    """Return some rows of a table that is made when it is asked for."""
    columns = make().columns
    return Table(tuple(Column(c.name, [c.values[row] for row in rows.tolist()], c.absent) for c in columns))


def _counters_of(counters: Counters, profiles: Ids, window: Window | None) -> Counters:
    """Return the counters of some profiles in a window; `profiles` gives the new number of an old one, or -1."""
    kept: Bools = profiles[counters.profile] >= 0
    if window is not None:
        kept &= (counters.time_ns >= window[0]) & (counters.time_ns < window[1])
    profile, time_ns = profiles[counters.profile[kept]], counters.time_ns[kept]
    return replace(counters, profile=profile, name=counters.name[kept], time_ns=time_ns, value=counters.value[kept])


def _some_counters(traces: Traces, profiles: Ids, window: Window | None) -> Counters | None:
    counters = traces.counters
    return None if counters is None else _counters_of(counters, profiles, window)


def _close_upwards(used: Bools, tree: ContextTree) -> Bools:
    """Return, with every context, also its parents and what contains its cost, all the way up."""
    n = -1
    while n != int(used.sum()):
        n = int(used.sum())
        used = combine_upwards(used, tree.parent, tree.levels, np.logical_or)
        owners = tree.within[used]
        used[owners[owners >= 0]] = True
    return used


def _metrics(metrics: Metrics, kept: Ints) -> Metrics:
    """Return some rows, and the columns that need no other."""
    if len(kept) == len(metrics):
        return metrics
    part = metrics.take(kept)
    known = {row.source_id if row.summary_id is None else row.summary_id for row in part}
    return replace(part, columns=tuple(column for column in metrics.columns if _needs_only(column, known)))


def _needs_only(column: MetricColumn, ids: set[int | None]) -> bool:
    try:
        return parse(column.formula).variables() <= ids
    except FormulaError:
        return False


def _sources(sources: Sources, tree: ContextTree) -> Sources:
    """Return the copies of files that a context lies in or is called from."""
    files = np.union1d(tree.column("file"), tree.call_file).tolist()
    return replace(sources, copies={file: path for file, path in sources.copies.items() if file in files})
