"""From an experiment to a writer: the tables, then values and traces, chunk after chunk; or with one call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np

from callgrove.arrays import Bools
from callgrove.errors import UsageError, count_of
from callgrove.execute import Progress, silent
from callgrove.formats.interface import (
    HoldsOnlyTraces,
    KeepsFillers,
    KeepsFormulas,
    KeepsSummaries,
    LossReport,
    ReadsExperiment,
    SampleChunk,
    TakesLines,
    WriteKeywords,
    WriteOptions,
    Writer,
    Writes,
    WritesStudies,
    WritesTraces,
)
from callgrove.formats.registry import check_dialect, format_for_target, writer_of
from callgrove.formats.writing.writer import NoPlace, some
from callgrove.model.books import Books, KeepsBooks
from callgrove.model.derived import tell_when_computed
from callgrove.model.experiment import Experiment, replace_metrics
from callgrove.model.materialised import is_storable, materialise
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.study.fill_missing_points import series_of
from callgrove.model.study.series import Study
from callgrove.model.traces.events import LABEL, PARENT, SPAN_COLUMNS, Traces
from callgrove.model.values import Block, DenseBlock, has_fillers

__all__ = ["transfer", "write", "write_experiment"]


def write_experiment(
    opened: Experiment | Study, format_: Writes | WritesStudies, target: Path, options: WriteOptions
) -> LossReport:
    """Write an experiment or a study in a format that holds such things."""
    if isinstance(opened, Study):
        if not isinstance(format_, WritesStudies):
            raise UsageError(
                f"{target}: series over parameters cannot be written as {_name(format_)}; see `callgrove formats`"
            )
        report = format_.write_study(opened, target, options)
        report.unexplained.extend(opened.unexplained)
        return report
    if not isinstance(format_, Writes):
        raise UsageError(f"{target}: {_name(format_)} holds series over parameters, not an execution")
    return transfer(opened, format_.open_writer(target, options), options.progress)


def _name(format_: object) -> str:
    return str(getattr(format_, "name", "this format"))


def transfer(experiment: Experiment, writer: Writer, progress: Progress = silent) -> LossReport:
    """Give everything that an experiment holds to a writer and close it; whatever fails, the target is left alone.

    Memory holds one chunk. Spans are given to writers that say `takes_spans`; those that write traces and nothing else
    read them as they need them, and some read everything themselves. The report also names what of a damaged input
    could not be read, and is therefore not in the target.
    """
    experiment = _prepare_formulas(experiment, writer)
    computed = experiment.values.backend
    left_out: Counter[str] = Counter()
    try:
        writer.define(experiment)
        if isinstance(computed, KeepsBooks):
            computed.start_books()
        if isinstance(writer, WritesTraces):
            writer.write_traces(progress)
        elif not isinstance(writer, ReadsExperiment):
            left_out = _values(experiment, writer, progress)
            _samples(experiment, writer, progress)
            if writer.takes_spans:
                _spans(experiment, writer, progress)
        report = writer.close()
        for loss in _losses_beside_traces(experiment, writer):
            report.add(loss)
        for name, count in left_out.items():
            report.add(f"{count_of(count, 'value')} of {name} that nobody measured: counters that went below zero")
    except BaseException:
        writer.abort()
        raise
    for problem in experiment.values.problems:
        report.add(f"damaged values: {problem}")
    if isinstance(computed, KeepsBooks) and not isinstance(writer, WritesTraces | ReadsExperiment):
        report.unexplained.extend(computed.differences())
    if (books := writer.books) is not None and not isinstance(writer, KeepsSummaries | WritesTraces | ReadsExperiment):
        for loss in _disagreements(experiment, books):
            report.add(loss)
    return report


def _disagreements(experiment: Experiment, books: Books) -> Iterator[str]:
    """Yield metrics of which a stored summary and the profiles, which are what is written, say different things."""
    values, given = experiment.values, books.given.totals
    if len(values.profiles.summaries) != 1:
        return
    summary, alone = given.like(), []
    for block in values.backend.blocks(values.profiles.summaries):
        summary.add(block)
    for row, metric in enumerate(experiment.metrics):
        is_compared = row not in books.excused_rows and metric.scope != Scope.LEXICAL and values.backend.summarises(row)
        if not is_compared or not given.adds_up[row] or given.agrees(row, summary):
            continue
        if not given.n_values[row]:
            alone.append(metric.name)
            continue
        yield (
            f"the stored summary of {metric.label}: it says {summary.total[row]:g}, and the profiles, "
            f"which are what is written, add up to {given.total[row]:g}"
        )
    if alone:
        yield f"values of {some(alone)}: only the stored summary has them, no profile does"


def _values(experiment: Experiment, writer: Writer, progress: Progress) -> Counter[str]:
    """Give the values to a writer. Numbers that nobody measured go only to writers that can tell them apart; those that
    were left out are counted by metric."""
    total, done = experiment.values.n_stored() or 0, 0
    left_out: Counter[str] = Counter()
    for block in _blocks(experiment, isinstance(writer, KeepsFillers), left_out):
        writer.write(block)
        done += len(block)
        progress("writing values", done, max(done, total))
    return left_out


def _blocks(experiment: Experiment, with_fillers: bool, left_out: Counter[str]) -> Iterator[Block]:
    values = experiment.values
    if with_fillers or not has_fillers(values.backend):
        yield from values.blocks()
        return
    for block in values.blocks_without_fillers():
        if block.fillers is not None:
            left_out.update(_by_metric(experiment, block, block.fillers))
        yield block


def _by_metric(experiment: Experiment, block: Block, fillers: Bools) -> dict[str, int]:
    """Return how many values of each sum a block lacks; minima and maxima of nothing are not a loss."""
    metric = np.full(int(fillers.sum()), block.metric) if isinstance(block, DenseBlock) else block.metric[fillers]
    numbers, count = np.unique(metric, return_counts=True)
    rows = ((experiment.metrics[row], n) for row, n in zip(numbers.tolist(), count.tolist(), strict=True))
    return {row.name: n for row, n in rows if row.aggregation == Aggregation.SUM}


def _samples(experiment: Experiment, writer: Writer, progress: Progress) -> None:
    total, done = experiment.traces.n_samples, 0
    for n_samples in _write_lines(experiment.traces, writer):
        done += n_samples
        progress("writing samples", done, total)


def _write_lines(traces: Traces, writer: Writer) -> Iterator[int]:
    """Write all lines, many at once where the writer takes them so, and yield how many samples each write had."""
    if isinstance(writer, TakesLines):
        for lines in traces.line_batches():
            writer.write_lines(lines)
            yield len(lines.samples)
    else:
        for profile, metric, samples in traces.lines():
            writer.write(SampleChunk(profile, metric, samples))
            yield len(samples)


def _spans(experiment: Experiment, writer: Writer, progress: Progress) -> None:
    total, done = experiment.traces.n_spans, 0
    for chunk in experiment.traces.spans((*SPAN_COLUMNS, LABEL, PARENT)):
        writer.write(chunk)
        done += len(chunk["span"])
        progress("writing spans", done, total)


# -- derived metrics ---------------------------------------------------------------------------------------------------
# A target gets formulas where it holds them, and values of what adds up where it does not. What is left, a ratio for a
# target without formulas, has neither: the writer says that it is lost.


def _prepare_formulas(experiment: Experiment, writer: Writer) -> Experiment:
    """Return the experiment with values in place of the formulas that the target of a writer cannot hold."""
    metrics, evaluated = experiment.metrics, _list_evaluated(experiment.metrics)
    if not evaluated or isinstance(writer, HoldsOnlyTraces):
        return experiment
    storable = {name for name in evaluated if is_storable(experiment, name)}
    kept = _choose_kept(metrics, evaluated, storable, writer) if isinstance(writer, KeepsFormulas) else set()
    lost = {*evaluated} - {*metrics.unavailable} - kept - storable
    rows = tuple(_refuse(metric) if metric.name in lost else metric for metric in metrics)
    return materialise(replace_metrics(experiment, replace(metrics, rows=rows)), storable - kept)


def _refuse(metric: Metric) -> Metric:
    """Return a derived metric that the target has no place for."""
    return replace(
        metric, derivation=NoPlace(metric.formula, tell_when_computed(metric), "the target has no place for it")
    )


def _losses_beside_traces(experiment: Experiment, writer: Writer) -> Iterator[str]:
    """Yield losses of formulas in targets that hold traces and nothing else."""
    names = _list_evaluated(experiment.metrics)
    if names and isinstance(writer, HoldsOnlyTraces):
        what = "derived metric" if len(names) == 1 else f"{len(names)} derived metrics"
        yield f"{what} {some(names)}: left out, as only what happened over time is written"


def _list_evaluated(metrics: Metrics) -> list[str]:
    return [name for name in metrics.derived if metrics.first(name).derivation is not None]


def _choose_kept(metrics: Metrics, names: list[str], storable: set[str], writer: KeepsFormulas) -> set[str]:
    """Return the formulas that a target holds, with all that they name: as formulas or as values."""
    kept = {name for name in names if writer.keeps_formula(metrics.first(name), metrics)}
    while True:
        gone = {name for name in names if name not in kept and name not in storable}
        orphans = {name for name in kept if gone & metrics.with_operands([name])}
        if not orphans:
            return kept
        kept -= orphans


# -- writing with one call ---------------------------------------------------------------------------------------------
# The format is given by name, or by the ending of the target.


def write(
    opened: Experiment | Study,
    target: str | Path,
    to_format: str = "",
    **options: Unpack[WriteKeywords],
) -> Sequence[str]:
    """Write an experiment or a study to a file or folder, and return what the format could not hold, a sentence each.

    to_format       the format (default: by the ending of the target, as in `callgrove convert`)

    and by keyword:
    overwrite       replace a target that is there already, which is an error otherwise (default: False)
    dialect         which variant of the format (default: the first that it has)
    progress        a function to call with what is being done, how much of it is done, and how much there is
    workers         workers of `callgrove.execute`, which encode parts of the target (default: this process does)

    of traces for viewers:
    annotations     how many details slices have: none, default (default), all
    track_names     how tracks are named: plain (default), rocpd
    real_pids       process ids as they were, also where two processes share one (default: False)
    by_queue        operations on queues instead of streams (default: False)
    kernel_rename   name kernels after the range that they were launched in (default: False)
    agent_index     how devices are numbered: absolute, relative, type-relative (default: relative where names
                    are those of rocprofv3)
    keep_partial    keep what was written before an interruption, as OUT.part (default: False)
    in_place        write where the target will be, so that others can read it meanwhile (default: False)

    of graphs:
    limit           at most so many nodes, None is all (default: 80)

    The target appears when it is complete. Where the format holds series, an experiment with runs over parameters
    becomes what `Experiment.series` returns.

        lost = callgrove.write(experiment, "run.cubex")
    """
    path, how = Path(target), WriteOptions(**options)
    if isinstance(opened, Experiment) and opened.path and path.resolve() == Path(opened.path).resolve():
        raise UsageError(f"{target}: is the input, which is never modified; name another target")
    name = to_format or format_for_target(path, series=isinstance(opened, Study))
    format_ = writer_of(name)
    if isinstance(opened, Experiment) and not isinstance(format_, Writes) and opened.runs[0].parameters:
        opened = series_of(opened)
    report = write_experiment(opened, format_, path, replace(how, dialect=check_dialect(name, how.dialect)))
    return (*report.lines, *(f"unexplained: {difference}" for difference in report.unexplained))
