"""What a closer look at a folder finds, and its raw structure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.columnar.manifest import Manifest
from callgrove.formats.columnar.schema import MANIFEST
from callgrove.formats.columnar.stored_table import StoredTable
from callgrove.formats.interface import Field, Problem, Progress
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.study import Study
from callgrove.model.traces import LABEL, PARENT, SIDE_TABLES, SPAN_COLUMNS

__all__ = ["fields", "problems"]


def problems(opened: Experiment | Study, folder: Path, progress: Progress) -> Iterator[Problem]:
    """What was said on opening, then what every row group says."""
    for warning in opened.warnings:
        yield Problem(warning.severity, folder.name, "tables", warning.text)
    if isinstance(opened, Study):
        return
    total, done = opened.values.n_stored() or 0, 0
    for block in opened.values.blocks(np.arange(len(opened.profiles))):
        done += len(block)
        progress("checking values", done, max(done, total))
    for _ in opened.traces.lines():
        pass
    found = list(opened.values.problems)
    if opened.traces.samples is not None:
        found += opened.traces.samples.problems
    found += _raised(opened)
    for error in found:
        section = error.section if isinstance(error, CorruptFile) else "values"
        yield Problem(Severity.DAMAGE, folder.name, section, str(error))


def _raised(experiment: Experiment) -> Iterator[CallgroveError]:
    """Damage of spans, counters and attachments, which is raised where it is met."""
    traces = experiment.traces
    parts = range(len(traces.parts()))
    asked: list[Callable[[], object]] = [
        lambda: [None for _ in traces.spans((*SPAN_COLUMNS, LABEL, PARENT))],
        lambda: [None for name in SIDE_TABLES for part in parts for _ in traces.side_chunks(name, part)],
        lambda: [traces.devices(part) for part in parts],
        *traces.tables.values(),
        lambda: [traces.counters],
        lambda: [attachment.read() for attachment in experiment.attachments.values()],
    ]
    for ask in asked:
        try:
            ask()
        except CallgroveError as error:
            yield error


def fields(folder: Path) -> Iterator[Field]:
    """The manifest, and of every table its row groups: where they begin and how many rows they have."""
    manifest = Manifest.read(folder)
    for key, value in (("holds", manifest.holds), ("title", manifest.title), *manifest.more.items()):
        yield Field(MANIFEST, "manifest", -1, 0, key, value if isinstance(value, int | str) else json.dumps(value))
    for name, rows in manifest.tables.items():
        table = StoredTable(folder, name, (), rows)
        yield Field(table.path.name, name, -1, 0, "rows", rows)
        for number, size in enumerate(np.diff(table.first_rows).tolist()):
            yield Field(table.path.name, f"{name} row groups", number, int(table.first_rows[number]), "rows", size)
