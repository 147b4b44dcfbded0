"""From an experiment to a writer: the tables, then values and traces, chunk after chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.errors import UsageError
from callgrove.formats.interface import (
    KeepsFillers,
    KeepsSummaries,
    LossReport,
    Progress,
    SampleChunk,
    WriteOptions,
    Writer,
    Writes,
    WritesStudies,
    WritesTraces,
    silent,
)
from callgrove.formats.losses import some
from callgrove.model.arrays import Bools
from callgrove.model.books import Books, KeepsBooks
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.study import Study
from callgrove.model.traces import LABEL, PARENT, SPAN_COLUMNS
from callgrove.model.values import Block, DenseBlock, has_fillers

__all__ = ["transfer", "write"]


def write(
    opened: Experiment | Study, format_: Writes | WritesStudies, target: Path, options: WriteOptions
) -> LossReport:
    """Write an experiment or a study in a format that holds such things."""
    if isinstance(opened, Study):
        if not isinstance(format_, WritesStudies):
            raise UsageError(f"{target}: series over parameters cannot be written as {_name(format_)}; see `formats`")
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
    read them as they need them. The report also names what of a damaged input could not be read, and is therefore not
    in the target.
    """
    computed = experiment.values.backend
    left_out: Counter[str] = Counter()
    try:
        writer.define(experiment)
        if isinstance(computed, KeepsBooks):
            computed.start_books()
        if isinstance(writer, WritesTraces):
            writer.write_traces(progress)
        else:
            left_out = _values(experiment, writer, progress)
            _samples(experiment, writer, progress)
            if writer.takes_spans:
                _spans(experiment, writer, progress)
        report = writer.close()
        for name, count in left_out.items():
            report.add(f"{count} values of {name} that nobody measured: counters that went below zero")
    except BaseException:
        writer.abort()
        raise
    for problem in experiment.values.problems:
        report.add(f"damaged values: {problem}")
    if isinstance(computed, KeepsBooks) and not isinstance(writer, WritesTraces):
        report.unexplained.extend(computed.differences())
    if (books := writer.books) is not None and not isinstance(writer, KeepsSummaries | WritesTraces):
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
    for block in values.measured_blocks():
        if block.fillers is not None:
            left_out.update(_by_metric(experiment, block, block.fillers))
        yield block


def _by_metric(experiment: Experiment, block: Block, fillers: Bools) -> dict[str, int]:
    """How many values of each sum a block lacks; minima and maxima of nothing are no loss."""
    metric = np.full(int(fillers.sum()), block.metric) if isinstance(block, DenseBlock) else block.metric[fillers]
    found, count = np.unique(metric, return_counts=True)
    rows = ((experiment.metrics[row], n) for row, n in zip(found.tolist(), count.tolist(), strict=True))
    return {row.name: n for row, n in rows if row.aggregation == Aggregation.SUM}


def _samples(experiment: Experiment, writer: Writer, progress: Progress) -> None:
    total, done = experiment.traces.n_samples, 0
    for profile, metric, samples in experiment.traces.lines():
        writer.write(SampleChunk(profile, metric, samples))
        done += len(samples)
        progress("writing samples", done, total)


def _spans(experiment: Experiment, writer: Writer, progress: Progress) -> None:
    total, done = experiment.traces.n_spans, 0
    for chunk in experiment.traces.spans((*SPAN_COLUMNS, LABEL, PARENT)):
        writer.write(chunk)
        done += len(chunk["span"])
        progress("writing spans", done, total)
