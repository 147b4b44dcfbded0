"""A part of an experiment: some profiles, metrics and contexts, a window of its traces. A lazy view, itself one.

    experiment.select(ranks={0}, metrics=["CPUTIME (sec)"], window="10%:20%")

This is the one way to a part, whoever asks: `Experiment.select`, `callgrove part`, `--run`, `--rank`, and operations
that change the tree, which give their own tree and values. `Kept` says what stays, `take_part` makes the view of it.
Nothing that is not selected is read. Ids are dense again, in the old order; `source_id` stays what the file says.

    profiles   stored summaries are of all threads, so they are left out, and what only they carry with them; runs
               without a profile are left out, and so are places in the system, processes and agents of nobody
    metrics    all scopes and statistics of the quantities named; columns whose formula needs another one are left out.
               What derived metrics are computed from stays with them, hidden unless it was named as well
    window     [start, end) of traces, in ns; values are of the whole run and stay. The sample before the window says
               what was going on when it begins: it is moved to the beginning. Spans that reach into it stay whole
    spans      of some kinds or categories only
    unused     contexts without a selected value or sample at or below them can be left out, which reads all of these

Copies of source files go with the contexts that lie in them, or are called from there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from callgrove.arrays import Bools, Ids, Ints, combine_upwards, new_numbers
from callgrove.errors import UsageError
from callgrove.model.computed_values import ChainedValues, Link
from callgrove.model.contexts import ContextTree
from callgrove.model.derived import mark_orphans
from callgrove.model.experiment import Experiment, InputWarning, Severity, Sources, replace_metrics
from callgrove.model.formulas import FormulaError, parse
from callgrove.model.metrics import Column as MetricColumn
from callgrove.model.metrics import Metrics
from callgrove.model.profiles import Profiles
from callgrove.model.runs import Run
from callgrove.model.system import System, take_system
from callgrove.model.traces.events import SpanKind, Traces, Window
from callgrove.model.traces.intervals import usable
from callgrove.model.traces.selected import ALL_SPANS, SpanChoice, TraceSelection
from callgrove.model.traces.windows import TimeWindow, marker_window
from callgrove.model.values import ValueBackend, Values

__all__ = ["WINDOW_MODES", "Kept", "choose_window", "select", "span_choice", "take_part", "time_span"]

LOST_STATISTICS = "lost: statistics of stored summaries"


@dataclass(frozen=True, eq=False)
class Kept:
    """What of an experiment stays: for each of its profiles, contexts and metric rows the number in the part, or -1.

    `samples` is the same for contexts of traces: a sample on a call that an operation removes was taken in its caller.
    """

    profiles: Ids
    contexts: Ids
    metrics: Ids
    samples: Ids
    window: Window | None = None
    spans: SpanChoice = ALL_SPANS

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        contexts: Bools | None = None,
        metrics: Bools | None = None,
        samples: Ids | None = None,
    ) -> Kept:
        """Return what stays under an operation, which makes other values than the stored summaries are of: these and
        their statistics never stay. None is everything else."""
        rows = np.array([not metric.statistic for metric in experiment.metrics], np.bool_)
        every = np.ones(len(experiment.contexts), np.bool_)
        places = _number(every if contexts is None else contexts)
        return cls(
            new_numbers(experiment.profiles.measured, len(experiment.profiles)),
            places,
            _number(rows if metrics is None else rows & metrics),
            places if samples is None else samples,
        )

    def with_contexts(self, experiment: Experiment) -> Kept:
        """Return the same profiles and metrics of an experiment with another tree, of which all stays."""
        every = np.arange(len(experiment.contexts), dtype=np.int32)
        return Kept(self.profiles, every, self.metrics, every)

    def values(self, experiment: Experiment) -> ValueBackend:
        """Return the stored values of what stays, as they are."""
        return ChainedValues([Link(experiment.values.backend, self.profiles, self.contexts, self.metrics)])

    def traces(self, traces: Traces) -> Traces:
        """Return the traces of what stays."""
        return TraceSelection(self.profiles, self.samples, self.metrics, self.window, self.spans).apply(traces)


def _number(kept: Bools) -> Ids:
    return new_numbers(np.flatnonzero(kept), len(kept))


def take_part(
    whole: Experiment, kept: Kept, values: ValueBackend | None = None, tree: ContextTree | None = None
) -> Experiment:
    """Return the experiment of what stays; with another tree, and other values over it, where an operation makes
    some."""
    old_profiles, rows = (np.flatnonzero(ids >= 0) for ids in (kept.profiles, kept.metrics))
    metrics = _metrics(whole.metrics, rows)
    tree = whole.contexts.take(np.flatnonzero(kept.contexts >= 0)) if tree is None else tree
    runs, profiles, system = _take_profiles(whole, old_profiles)
    return replace(
        whole,
        runs=runs,
        profiles=profiles,
        system=system,
        contexts=tree,
        metrics=metrics,
        values=Values(kept.values(whole) if values is None else values, metrics, profiles, tree),
        traces=kept.traces(whole.traces),
        sources=whole.sources if tree is whole.contexts else _sources(whole.sources, tree),
        warnings=(*whole.warnings, *_losses(whole.metrics, metrics)),
        whole=None if whole.whole is None else take_part(whole.whole, kept.with_contexts(whole.whole)),
    )


def _take_profiles(whole: Experiment, kept: Ints) -> tuple[tuple[Run, ...], Profiles, System]:
    """Return some profiles, with the runs and the places that they have; all, where every profile stays."""
    profiles = whole.profiles.take(kept)
    there, run = np.unique(profiles.run, return_inverse=True)
    runs = whole.runs
    if len(there) and len(kept) < len(whole.profiles):
        runs, profiles = tuple(runs[k] for k in there.tolist()), replace(profiles, run=run.astype(np.int32))
    system, leaves = take_system(whole.system, whole.profiles, kept, profiles)
    return runs, replace(profiles, system=leaves), system


def _losses(before: Metrics, after: Metrics) -> Iterator[InputWarning]:
    """Yield what is lost beyond what was asked for: statistics of quantities that stay, or that no profile has."""
    gone = {m.name for m in before if m.statistic} - {m.name for m in after if m.statistic}
    if gone & set(after.quantities) or (gone and not len(after)):
        yield InputWarning(Severity.NOTE, LOST_STATISTICS)


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
    chosen = np.arange(len(experiment.profiles)) if profiles is None else np.unique(profiles)
    if profiles is not None:
        chosen = experiment.values.without_torn(chosen[~experiment.profiles.is_summary[chosen]])
        if not len(chosen):
            raise UsageError(f"{experiment.path}: no profile was selected")
    loses_all = profiles is not None and experiment.values.loses_all(chosen)
    rows = np.empty(0, np.int64) if loses_all else _choose_metric_rows(experiment, metrics, chosen)
    every = np.arange(len(experiment.contexts), dtype=np.int32)
    new_profiles, new_rows = new_numbers(chosen, len(experiment.profiles)), new_numbers(rows, len(experiment.metrics))
    kept = Kept(new_profiles, every, new_rows, every, window, spans)
    whole = experiment if traces else replace(experiment, traces=Traces())
    if drop_unused:
        contexts = _number(_find_used_contexts(whole, kept))
        kept = replace(kept, contexts=contexts, samples=contexts)
    part = take_part(whole, kept)
    if metrics is not None:
        part = _hide_operands(part, {experiment.metrics.resolve(name) for name in metrics})
    return replace(part, warnings=(*part.warnings, _warn_unknown_values(experiment))) if loses_all else part


def _hide_operands(part: Experiment, named: set[str]) -> Experiment:
    """Return the part with what only formulas need out of sight."""
    hidden = [name for name in part.metrics.quantities if name not in named]
    if not hidden:
        return part
    rows = tuple(replace(m, visible=m.visible and m.name in named) for m in part.metrics)
    note = InputWarning(Severity.NOTE, f"kept for formulas, and hidden: {', '.join(hidden)}")
    made = replace_metrics(part, replace(part.metrics, rows=rows))
    return replace(made, warnings=(*part.warnings, note))


def _find_used_contexts(whole: Experiment, kept: Kept) -> Bools:
    """Return contexts with a selected value or sample, all above them, and those that contain their cost."""
    tree, traces = whole.contexts, whole.traces
    used = np.zeros(len(tree), np.bool_)
    if not len(tree):
        return used
    profiles, rows = np.flatnonzero(kept.profiles >= 0), np.flatnonzero(kept.metrics >= 0)
    rows = rows[[whole.metrics[row].derivation is None for row in rows.tolist()]]  # operands tell where formulas do
    if len(rows):
        for block in whole.values.blocks(profiles, rows):
            used[block.triples().context] = True
    for _, metric, line in traces.lines(profiles, kept.window):
        if metric < 0 or kept.metrics[metric] >= 0:
            used[line.context[line.context >= 0]] = True
    for chunk in traces.spans(("context",), kept.window, profiles):
        contexts = np.unique(chunk["context"])
        used[contexts[contexts >= 0]] = True
    return _close_upwards(used, tree)


def _close_upwards(used: Bools, tree: ContextTree) -> Bools:
    """Return the contexts used, with their parents and what contains their cost, all the way up."""
    n = -1
    while n != int(used.sum()):
        n = int(used.sum())
        used = combine_upwards(used, tree.parent, tree.levels, np.logical_or)
        owners = tree.within[used]
        used[owners[owners >= 0]] = True
    return used


def _warn_unknown_values(experiment: Experiment) -> InputWarning:
    """Return what is said of a part without values, since only those of all profiles together are known."""
    names = ", ".join(experiment.metrics.quantities)
    return InputWarning(Severity.NOTE, f"lost: values of {names}: only those of all profiles together are known")


def _choose_metric_rows(experiment: Experiment, quantities: Sequence[str] | None, profiles: Ints) -> Ints:
    """Return the rows of the quantities named; statistics only where a summary, or what stands for one, carries
    them."""
    every = experiment.metrics
    names = None if quantities is None else every.with_operands(every.resolve(name) for name in quantities)
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


def _metrics(metrics: Metrics, kept: Ints) -> Metrics:
    """Return some rows, and the columns that need no other."""
    if len(kept) == len(metrics):
        return metrics
    part = metrics.take(kept)
    part = replace(part, rows=tuple(mark_orphans(part.rows, metrics.quantities)))
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


# -- what texts and words of a caller mean -----------------------------------------------------------------------------


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


WINDOW_MODES = ("touch", "inside")  # which spans belong to a window: those with any time in it, or with all of it


def span_choice(
    kinds: Collection[str] | None,
    categories: Collection[str] | None,
    names: Callable[[Sequence[str], Sequence[str]], Bools] | None = None,
    window: Window | None = None,
    window_mode: str = WINDOW_MODES[0],
) -> SpanChoice:
    """Return which spans are meant by the words for their kinds, by their categories and names; None is all. Of a
    window, the mode `inside` chooses spans that lie wholly in it."""
    if window_mode not in WINDOW_MODES:
        raise UsageError(f"{window_mode!r} says nothing of a window; there are {' and '.join(WINDOW_MODES)}")
    known = {kind.name.lower(): kind for kind in SpanKind}
    for kind in kinds or ():
        if kind not in known:
            raise UsageError(f"{kind!r} is not a kind of span; there are {', '.join(known)}")
    wanted = None if kinds is None else frozenset(known[kind] for kind in kinds)
    inside = window if window_mode == "inside" else None
    return SpanChoice(wanted, frozenset(categories) if categories else None, names, inside)


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
