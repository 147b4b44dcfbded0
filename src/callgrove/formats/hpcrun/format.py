"""hpcrun measurement files, versions 02.00 (both dialects), 03.00 and 04.00: one file, or a folder of them; and their
check.

Specification: hpcrun-format.txt of HPCToolkit ("hpcrun binary data format") for 02.00, and hpcrun-and-prof.md for what
genuine files do; the layouts are in `records`, the deviations of each version in files.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from callgrove.binary.files import FileBytes
from callgrove.binary.sources import Source
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.hpcrun import placeholders
from callgrove.formats.hpcrun import records as rec
from callgrove.formats.hpcrun.dump import fields, header_text, json_text, summary, text, tree
from callgrove.formats.hpcrun.experiment import assemble, open_files, open_trace
from callgrove.formats.hpcrun.files import SUFFIX, TRACE_SUFFIX, measurement_files, read_tables
from callgrove.formats.hpcrun.measurement import Epoch, Measurement
from callgrove.formats.hpcrun.primitives import Cursor, Header, quote
from callgrove.formats.interface import DumpView, Field, Grade, Match, Problem, ReadOptions, WriteOptions, Writer
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment, Severity

__all__ = ["FORMAT", "HpcrunFormat", "problems"]


# -- what `check` verifies, beyond what reading demands ----------------------------------------------------------------
# layout   sections at multiples of 1024 with zeros between them; loadmap ids 1..n; one root; signs of leaves
# values   metrics that the table has, one value for each node and metric, finite numbers
# traces   nodes that the profile has, time order, the announced first and last time


Finding = tuple[Severity, str, str]  # severity, place, text


def problems(experiment: Experiment, paths: list[Path]) -> Iterator[Problem]:
    """Yield everything that is wrong or remarkable in an experiment and the files that it was read from."""
    said: set[str] = set()
    for warning in experiment.warnings:
        said.add(warning.text)
        yield Problem(warning.severity, experiment.path, "opening", warning.text)
    for place, errors in (("values", _met_in_values(experiment)), ("traces", _met_in_traces(experiment))):
        for error in errors:
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
    """Yield sections of 04.00 that are not as genuine files have them."""
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
    stored = epoch.values.list_stored(nodes.positions)
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
            text = f"samples run from {ends[0]} to {ends[1]}; the profile announces {announced[0]} to {announced[1]}"
            yield Severity.NOTE, "trace", text


# -- the format --------------------------------------------------------------------------------------------------------


MOST_HEADS = 64  # files of a folder that detection looks at


class HpcrunFormat:
    """Reads, prints, checks and writes measurement files."""

    name = "hpcrun"
    title = "HPCToolkit measurements"

    def match(self, source: Source) -> Match | None:
        """Recognise a file by its magic, or a folder by that of some file with the tool's ending."""
        if not source.is_folder:
            return _of_head(source.head(rec.START_SIZE))
        with suppress(OSError):
            names = [path.name for path in measurement_files(source.path)]
            for name in names[:MOST_HEADS]:
                if source.head(rec.START_SIZE, name).startswith(rec.MAGIC):
                    return Match(Grade.EXACT, f"it has {name}, a measurement file")
            if names:
                return Match(Grade.WEAK, f"it has a file that ends with {SUFFIX}")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        builder = ExperimentBuilder(self.name, path=str(source.path), title=source.path.name)
        return assemble(builder, open_files(source, builder, options.progress))

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield what is wrong with measurement files."""
        return problems(self.read(source, options), _paths(source))

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every field of the file, or of every file of a folder."""
        for path in _paths(source):
            yield from fields(FileBytes(path))

    def dump_text(self, source: Source) -> Iterator[str]:
        """Yield every field as text."""
        return self.dump_view(source, DumpView.TEXT)

    def dump_view(self, source: Source, view: DumpView, limit: int | None = None) -> Iterator[str]:
        """Yield a file as text or JSON, its summary or its tree; the files of a folder one after the other, each after
        a line with its name (in JSON: as an array)."""
        show = {DumpView.TEXT: text, DumpView.JSON: json_text, DumpView.SUMMARY: summary, DumpView.TREE: tree}[view]
        if not source.is_folder:
            yield from _show_file(source.path, show, limit)
            return
        is_json, damage = view == DumpView.JSON, list[CallgroveError]()
        n = 0
        for path in measurement_files(source.path):
            head = ("[\n" if not n else ",\n") if is_json else f"file {quote(path.name)}\n"
            try:
                for number, piece in enumerate(_show_file(path, show, limit)):
                    yield piece if number else head + piece
                    n += 1
            except CallgroveError as error:
                damage.append(error)
        if is_json:
            yield "]\n" if n else "[]\n"
        if damage:
            raise damage[0]

    def open_writer(self, target: Path, options: WriteOptions) -> Writer:
        """Return the writer of files that appear at `target` when the writer is closed."""
        from callgrove.formats.hpcrun.writer import MeasurementWriter

        return MeasurementWriter(target, options)

    def refuse_target(self, target: Path) -> None:
        from callgrove.formats.hpcrun.writer import refuse_other_targets

        refuse_other_targets(target)


FORMAT = HpcrunFormat()


def _paths(source: Source) -> list[Path]:
    return measurement_files(source.path) if source.is_folder else [source.path]


def _show_file(
    path: Path, show: Callable[[Measurement, int | None], Iterator[str]], limit: int | None
) -> Iterator[str]:
    """Yield a file as text; where it is damaged, its header at least."""
    file = FileBytes(path)
    try:
        measurement = read_tables(file).with_values(file)
    except CorruptFile:
        if show is text:
            header: Header | None = None
            with suppress(CallgroveError):
                header = Header.read(Cursor(file, "header"))
            yield from header_text(header) if header is not None else ()
        raise
    yield from show(measurement, limit)


def _of_head(head: bytes) -> Match | None:
    if head.startswith(rec.MAGIC):
        return Match(Grade.EXACT, "it begins as a measurement file")
    cut = len(head) > 6 and rec.MAGIC.startswith(head)
    return Match(Grade.WEAK, "it is the beginning of a measurement file") if cut else None
