"""From an experiment to a writer: the tables, then values and traces, chunk after chunk."""

from __future__ import annotations

from callgrove.formats.interface import LossReport, Progress, SampleChunk, Writer, silent
from callgrove.model.experiment import Experiment

__all__ = ["transfer"]


def transfer(experiment: Experiment, writer: Writer, progress: Progress = silent) -> LossReport:
    """Give everything that an experiment holds to a writer and close it; whatever fails, the target is left alone.

    Memory holds one chunk. Spans are given to writers that say `takes_spans`. The report also names what of a damaged
    input could not be read, and is therefore not in the target.
    """
    try:
        writer.define(experiment)
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
    return report


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
    for chunk in experiment.traces.spans():
        writer.write(chunk)
        done += len(chunk["span"])
        progress("writing spans", done, total)
