"""A single .hpctrace file as an experiment of one profile with samples; see `hpctrace_records` for its layout.

The tree is in the .hpcrun file beside it, so contexts are known by number only (`source_id`, kind elided), metrics of a
data-centric trace as well. Who executed is in the name of the file, counted from the right:

    PROGRAM-RANK-THREAD-HOST(hex)-PROCESS-GENERATION.hpctrace
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.binary.idmap import IdMap
from callgrove.binary.sources import Source
from callgrove.errors import UsageError
from callgrove.formats.hpcrun.hpctrace_records import CALL_TRACE, MAGIC, MICROSECONDS, TraceFile
from callgrove.formats.hpcrun.hpctrace_samples import TraceSamples, TraceScan, scan
from callgrove.formats.hpcrun.hpctrace_text import fields, json_text, summary, text
from callgrove.formats.hpcrun.hpctrace_writer import FLAGS, TIME_UNIT, TraceWriter
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions, WriteOptions, Writer
from callgrove.model.arrays import ABSENT
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind

__all__ = ["FORMAT", "HpctraceFormat"]

NAME = re.compile(r"(?P<program>.+)-(?P<rank>\d{6,})-(?P<thread>\d{3,})-(?P<host>[0-9a-f]+)-(?P<process>\d+)-\d+", re.A)
FIRST_STREAM = 500  # numbers of threads from here on are GPU streams
NODE, RANK, THREAD = (DEFAULT_ID_NAMES.index(name) for name in ("NODE", "RANK", "THREAD"))
ALONE = "is only the trace of one profile; open the folder that it came from to see names and the rest"


class HpctraceFormat:
    """Reads, prints, checks and writes single traces."""

    name = "hpctrace"
    title = "HPCToolkit trace of one thread or GPU stream (.hpctrace)"

    def match(self, source: Source) -> Match | None:
        """By its magic."""
        return Match(Grade.EXACT, "it begins as a trace does") if source.head(len(MAGIC)) == MAGIC else None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        trace = TraceFile.open(source.path)
        options.progress("reading the trace", 0, trace.file.size)
        found = scan(trace)
        builder = ExperimentBuilder(self.name, trace.version, source.path.name, str(source.path))
        builder.attributes.update({FLAGS: f"{trace.flags:#x}", TIME_UNIT: unit_of(trace)})
        builder.warn(Severity.MISSING, f"{source.path}: {ALONE}")
        for problem in trace.problems:
            builder.warn(Severity.DAMAGE, str(problem))
        _add_profile(builder, trace)
        for id_ in found.metric_ids.tolist():
            builder.add_metric(Metric(f"metric#{id_}", Scope.NONE, source_id=id_))
        _add_samples(builder, trace, found)
        return builder.build()

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Whole records, in the order of time."""
        trace = TraceFile.open(source.path)
        options.progress("checking the trace", 0, trace.file.size)
        found = scan(trace)
        for problem in trace.problems:
            yield Problem(Severity.DAMAGE, source.path.name, "trace", str(problem))
        if found.disordered:
            late = f"{found.disordered:,} records are earlier than the one before"
            yield Problem(Severity.NOTE, source.path.name, "records", f"{late}; they are sorted by time when read")

    def dump(self, source: Source) -> Iterator[Field]:
        """Every field of every record."""
        return fields(TraceFile.open(source.path))

    def dump_text(self, source: Source) -> Iterator[str]:
        """The trace as lines of text."""
        return text(TraceFile.open(source.path))

    def dump_view(self, source: Source, view: str, limit: int | None = None) -> Iterator[str]:
        """The text of at most `limit` records, the same as JSON, or a summary."""
        show = {"text": text, "json": json_text, "summary": summary}.get(view)
        if show is None:
            raise UsageError(f"{source.path}: a trace has no {view}: it names nodes of the .hpcrun file beside it")
        return show(TraceFile.open(source.path), limit)

    def open_writer(self, target: Path, options: WriteOptions) -> Writer:
        """A trace that appears at `target` when the writer is closed."""
        return TraceWriter(target, options)


FORMAT = HpctraceFormat()


def unit_of(trace: TraceFile) -> str:
    """The unit of the times in the file."""
    return "us" if trace.time_scale == MICROSECONDS else "ns"


def _add_profile(builder: ExperimentBuilder, trace: TraceFile) -> None:
    name = NAME.fullmatch(trace.path.name.removesuffix(".hpctrace"))
    is_stream = bool(trace.flags & CALL_TRACE) or (name is not None and int(name["thread"]) >= FIRST_STREAM)
    identifiers: list[Identifier] = []
    if name is not None:
        builder.title = name["program"]
        host = int(name["host"], 16) & (2**64 - 1)
        identifiers.append((NODE, host, 0, Interpretation.LOGICAL_LOCAL))
        for kind, number in ((RANK, int(name["rank"])), (THREAD, int(name["thread"]))):
            identifiers.append((kind, number, number, Interpretation.SINGLE))
        builder.attributes.update({"program-name": name["program"], "process-id": name["process"]})
    builder.add_profile(ProfileKind.GPU_STREAM if is_stream else ProfileKind.THREAD, identifiers)


def _add_samples(builder: ExperimentBuilder, trace: TraceFile, found: TraceScan) -> None:
    ids = found.node_ids[found.node_ids > 0]
    none = np.full(len(ids), ABSENT)
    builder.add_contexts(parent=none, kind=none * 0 + ContextKind.ELIDED, source_id=ids)
    samples = TraceSamples(trace, found, IdMap(ids, builder.order()))
    builder.set_traces(samples, time_range=found.time_range)
