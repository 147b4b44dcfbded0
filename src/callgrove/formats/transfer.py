"""From an experiment to a writer: the tables, then values and traces, chunk after chunk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from callgrove.errors import UsageError
from callgrove.formats.interface import (
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
from callgrove.model.books import Books, KeepsBooks
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.study import Study
from callgrove.model.traces import LABEL, PARENT, SPAN_COLUMNS

__all__ = ["transfer", "write"]


def write(
    opened: Experiment | Study, format_: Writes | WritesStudies, target: Path, options: WriteOptions
) -> LossReport:
    """Write an experiment or a study in a format that holds such things."""
    if isinstance(opened, Study):
        if not isinstance(format_, WritesStudies):
            raise UsageError(f"{target}: series over parameters cannot be written as {_name(format_)}; see `formats`")
        return format_.write_study(opened, target, options)
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
    try:
        writer.define(experiment)
        if isinstance(computed, KeepsBooks):
            computed.start_books()
        if isinstance(writer, WritesTraces):
            writer.write_traces(progress)
        else:
            _values(experiment, writer, progress)
            _samples(experiment, writer, progress)
            if writer.takes_spans:
                _spans(experiment, writer, progress)
        report = writer.close()
    except BaseException:
        writer.abort()
        raise
    for problem in experiment.values.problems:
        report.add(f"damaged values: {problem}")
    if isinstance(computed, KeepsBooks) and not isinstance(writer, WritesTraces):
        report.unexplained.extend(computed.differences())
    if (books := writer.books) is not None and not isinstance(writer, KeepsSummaries):
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


def _values(experiment: Experiment, writer: Writer, progress: Progress) -> None:
    total, done = experiment.values.n_stored() or 0, 0
    for block in experiment.values.blocks():
        writer.write(block)
        done += len(block)
        progress("writing values", done, max(done, total))


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
