"""From an experiment to a writer: the tables, then values and traces, chunk after chunk."""

from __future__ import annotations

from pathlib import Path

import numpy as np

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
from callgrove.model.arrays import Bools
from callgrove.model.experiment import Experiment
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
    unsaid: list[str] = []
    try:
        writer.define(experiment)
        if isinstance(writer, WritesTraces):
            writer.write_traces(progress)
        else:
            given = _values(experiment, writer, progress)
            if not isinstance(writer, KeepsSummaries):
                unsaid = _only_summarised(experiment, given)
            _samples(experiment, writer, progress)
            if writer.takes_spans:
                _spans(experiment, writer, progress)
        report = writer.close()
    except BaseException:
        writer.abort()
        raise
    if unsaid:
        report.add(f"values of {some(unsaid)}: only the stored summary has them, no profile does")
    for problem in experiment.values.problems:
        report.add(f"damaged values: {problem}")
    return report


def _values(experiment: Experiment, writer: Writer, progress: Progress) -> Bools:
    """Give all values to a writer; says of which metric rows there were any."""
    total, done = experiment.values.n_stored() or 0, 0
    given = np.zeros(len(experiment.metrics), np.bool_)
    for block in experiment.values.blocks():
        given[block.metric] = True
        writer.write(block)
        done += len(block)
        progress("writing values", done, max(done, total))
    return given


def _only_summarised(experiment: Experiment, given: Bools) -> list[str]:
    """Quantities whose values only a stored summary has: it is not among what writers are given."""
    missing = [row for row, metric in enumerate(experiment.metrics) if not given[row] and not metric.statistic]
    values = experiment.values
    found = [row for row in missing if values.backend.summarises(row) and np.any(values.totals(row) != 0)]
    return list(dict.fromkeys(experiment.metrics[row].name for row in found))


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
