"""What `check` verifies in measurement files, beyond what reading already demands.

layout   sections at multiples of 1024 with zeros between them; loadmap ids 1..n; one root; signs of leaves
values   metrics that the table has, one value for each node and metric, finite numbers
traces   nodes that the profile has, time order, the announced first and last time
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CallgroveError
from callgrove.formats.hpcrun import placeholders
from callgrove.formats.hpcrun import records as rec
from callgrove.formats.hpcrun.files import TRACE_SUFFIX, read_tables
from callgrove.formats.hpcrun.measurement import Epoch, Measurement
from callgrove.formats.hpcrun.samples import open_trace
from callgrove.formats.interface import Problem
from callgrove.model.experiment import Experiment, Severity

__all__ = ["problems"]

Finding = tuple[Severity, str, str]  # severity, place, text


def problems(experiment: Experiment, paths: list[Path]) -> Iterator[Problem]:
    """Everything that is wrong or remarkable in an experiment and the files that it was read from."""
    said: set[str] = set()
    for warning in experiment.warnings:
        said.add(warning.text)
        yield Problem(warning.severity, experiment.path, "opening", warning.text)
    for place, found in (("values", _met_in_values(experiment)), ("traces", _met_in_traces(experiment))):
        for error in found:
            if str(error) not in said:
                yield Problem(Severity.DAMAGE, experiment.path, place, str(error))
    for path in paths:
        try:
            findings = list(_of_file(path))
        except CallgroveError:
            continue  # said when the file was opened, or when its values were read
        yield from (Problem(severity, str(path), place, text) for severity, place, text in findings)


def _met_in_values(experiment: Experiment) -> list[CallgroveError]:
    for _ in experiment.values.blocks():
        pass
    return experiment.values.problems


def _met_in_traces(experiment: Experiment) -> list[CallgroveError]:
    for _ in experiment.traces.lines():
        pass
    return [] if experiment.traces.samples is None else experiment.traces.samples.problems


def _of_file(path: Path) -> Iterator[Finding]:
    file = FileBytes(path)
    measurement = read_tables(file).with_values(file)
    yield from _layout(measurement, file)
    for number, epoch in enumerate(measurement.epochs):
        place = f"epoch {number}" if measurement.is_old else "tables"
        yield from ((severity, place, text) for severity, text in _epoch(epoch, measurement.is_old))
    trace = path.with_suffix(TRACE_SUFFIX)
    if trace != path and trace.is_file():
        yield from _trace(trace, measurement)


def _layout(measurement: Measurement, file: FileBytes) -> Iterator[Finding]:
    """Sections of 04.00 as genuine files have them."""
    starts = [start for _, start, _ in measurement.sections] + [file.size - rec.FOOTER.itemsize]
    for (name, start, end), following in zip(measurement.sections, starts[1:], strict=False):
        if start % rec.ALIGNMENT:
            yield Severity.NOTE, name, f"begins at byte {start}, which is no multiple of {rec.ALIGNMENT}"
        if any(file.copy(end, following - end, name)):
            yield Severity.NOTE, name, f"is followed by bytes other than 0, from byte {end} to byte {following}"


def _epoch(epoch: Epoch, is_old: bool) -> Iterator[tuple[Severity, str]]:
    nodes = epoch.nodes
    assert epoch.values is not None
    if [module.id for module in epoch.modules] != list(range(1, len(epoch.modules) + 1)):
        yield Severity.NOTE, "the ids of modules are not 1, 2, ..."
    roots = np.flatnonzero(nodes.above < 0)
    code = 0 if is_old else placeholders.code_number(placeholders.ROOT)
    if len(nodes) and (len(roots) != 1 or nodes.lm[roots[0]] != 0 or int(nodes.ip[roots[0]]) != code):
        yield Severity.NOTE, f"there are {len(roots)} roots, or one that is not the usual root"
    if nodes.is_leaf is not None and (wrong := int((nodes.is_leaf == nodes.has_children).sum())):
        yield Severity.NOTE, f"{wrong} nodes have the sign of a leaf and children, or neither"
    stored = epoch.values.stored(nodes.positions)
    known = stored.metric < len(epoch.metrics)
    is_real = np.array([metric.is_real for metric in epoch.metrics] or [False], np.bool_)
    reals = stored.raw[known][is_real[stored.metric[known]]].view(np.float64)
    if not np.isfinite(reals).all():
        yield Severity.NOTE, "there are values that are not finite"


def _trace(path: Path, measurement: Measurement) -> Iterator[Finding]:
    try:
        time = open_trace(path, measurement.is_old).arrays()[0]
    except CallgroveError:
        return  # said when it was opened
    if (time[1:] < time[:-1]).any() and measurement.value("trace-disorder") in ("", "0"):
        yield (
            Severity.NOTE,
            "trace",
            "time runs backwards, and the profile does not say so; samples are sorted when read",
        )
    announced = measurement.value("trace-min-time"), measurement.value("trace-max-time")
    if not measurement.is_old and all(announced):  # in 02.00 genuine files often disagree
        ends = (str(time.min()), str(time.max())) if len(time) else ("0", "0")
        if announced != ends:
            text = f"samples run from {ends[0]} to {ends[1]}, announced is {announced[0]} to {announced[1]}"
            yield Severity.NOTE, "trace", text
