"""What every format promises, checked on one sample.

    detects       recognised with the name hidden, after looking at 64 KiB at most
    reads         opens without a word of damage
    is_sound      the invariants of the model, and those of values and samples, which are read for it
    exports       every table, as CSV and as JSON lines, parsed back cell by cell
    summary       a small text that is kept as a golden
    has_no_damage the format's own check is content
    round_trip    written where the format can write, read back, equal

A sample is always opened under the name `data`, in a folder that holds nothing else.
"""

from __future__ import annotations

import csv
import hashlib
import heapq
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from callgrove.analysis.tables import TABLES, Selection, export
from callgrove.binary.files import HEAD_BUDGET, FileBytes, Source
from callgrove.errors import UsageError
from callgrove.formats.interface import Checks, Problem, ReadOptions, WriteOptions, Writes, WritesStudies
from callgrove.formats.registry import FORMATS, detect, entry_of, load, open_path
from callgrove.formats.writing.transfer import transfer
from callgrove.formats.writing.writer import SIDES
from callgrove.model.experiment import Experiment, Severity, problems_of_experiment
from callgrove.model.metrics import Scope
from callgrove.model.study.series import Study
from callgrove.model.table import Table
from callgrove.render import TableFormat, render
from tests.formats.samples import Sample

MADE_CURVE = re.compile(r"(GPU \d+|unknown device|device \d+) memory( \w+)? bytes")
SHOWN = 3  # differing rows that a failure names
FIRST = 12  # metrics and contexts that a summary names
Opened = Experiment | Study


def hidden(sample: Sample, folder: Path) -> Path:
    """The sample under a name that says nothing."""
    path = folder / "data"
    if not path.is_symlink():
        path.symlink_to(sample.path)
    return path


def fingerprint(path: Path) -> str:
    """Of every byte, name and time of change below a path."""
    found = hashlib.sha256()
    for file in sorted([path, *path.rglob("*")]):
        found.update(f"{file.relative_to(path)}\0{file.stat().st_mtime_ns}\0".encode())
        if file.is_file():
            found.update(file.read_bytes())
    return found.hexdigest()


# -- detects ---------------------------------------------------------------------------------------------------------


class _CountedFile:
    """A file that counts the bytes read from it."""

    def __init__(self, file: IO[bytes], counts: list[int]) -> None:
        self._file, self._counts = file, counts

    def read(self, size: int = -1) -> bytes:
        return self._counted(self._file.read(size))

    def readline(self, size: int = -1) -> bytes:
        return self._counted(self._file.readline(size))

    def __iter__(self) -> Iterator[bytes]:
        return map(self._counted, self._file)

    def _counted(self, got: bytes) -> bytes:
        self._counts.append(len(got))
        return got

    def __enter__(self) -> _CountedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def counted_reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of bytes that are read through paths and descriptors, or viewed in mapped files, while the context
    is open. Modules know `open_regular` by its name, so what it opens with is counted."""
    counts: list[int] = []
    mapped: list[FileBytes] = []
    open_really, map_really, fdopen_really = Path.open, FileBytes.__init__, os.fdopen

    def open_counted(self: Path, *args: Any, **options: Any) -> Any:
        return _CountedFile(open_really(self, *args, **options), counts)

    def fdopen_counted(*args: Any, **options: Any) -> Any:
        return _CountedFile(fdopen_really(*args, **options), counts)

    def map_counted(self: FileBytes, path: Path) -> None:
        with monkeypatch.context() as inner:
            inner.setattr(Path, "open", open_really)
            map_really(self, path)
        mapped.append(self)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_counted)
        patch.setattr(os, "fdopen", fdopen_counted)
        patch.setattr(FileBytes, "__init__", map_counted)
        yield counts
    counts.extend(file.bytes_viewed for file in mapped)


def detects(sample: Sample, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with counted_reading(monkeypatch) as counts:
        format_, match = detect(Source.of(path))
    assert format_.name == sample.format
    assert match.reason
    assert 0 < sum(counts) <= HEAD_BUDGET


# -- reads, is sound -------------------------------------------------------------------------------------------------


def opened(path: Path) -> Opened:
    return open_path(path)


def reads(sample: Sample, path: Path) -> None:
    found = opened(path)
    assert found.format == sample.format
    if isinstance(found, Study):
        assert [w for w in found.warnings if w.severity == Severity.DAMAGE] == []
        assert (found.path, len(found) > 0) == (str(path), True)
    else:
        assert not found.damage
        assert found.path == str(path)
        assert len(found.contexts) + len(found.profiles) + len(found.metrics) > 0


def is_sound(found: Opened) -> None:
    if isinstance(found, Study):
        assert found.validate() == []
        return
    everything = np.arange(len(found.profiles))
    blocks = [block.triples() for block in found.values.blocks(everything)]
    assert problems_of_experiment(found, blocks) == []
    assert found.values.problems == []
    announced = found.values.n_stored()
    assert announced is None or sum(map(len, blocks)) <= announced
    _tree_is_preorder(found)
    for _, metric, line in found.traces.lines():
        assert -1 <= metric < len(found.metrics)
        assert (np.diff(line.time_ns) >= 0).all()
        assert ((line.context >= -1) & (line.context < len(found.contexts))).all()


def _tree_is_preorder(found: Experiment) -> None:
    """One walk with a stack, as nothing in the package does it."""
    tree = found.contexts
    open_contexts: list[int] = []
    for context in range(tree.n_listed):
        while open_contexts and tree.subtree_end[open_contexts[-1]] <= context:
            open_contexts.pop()
        assert tree.parent[context] == (open_contexts[-1] if open_contexts else -1)
        assert context < tree.subtree_end[context] <= tree.n_listed
        open_contexts.append(context)
    assert (tree.parent[tree.n_listed :] == -1).all()
    known = tree.source_id[tree.source_id >= 0]
    assert len(np.unique(known)) == len(known)


# -- exports ---------------------------------------------------------------------------------------------------------


def tables_of(found: Opened) -> list[tuple[str, Selection]]:
    """Every table, and values in every scope that can be had."""
    if isinstance(found, Study):
        return [("series", Selection()), ("parameters", Selection())]
    asked = [(name, Selection()) for name in TABLES if name != "series"]
    for scope in ("exclusive", "inclusive"):
        try:
            list(export(found, "values", Selection(scope=scope)))
        except UsageError:
            continue  # neither stored nor computable, e.g. without a tree
        asked.append(("values", Selection(scope=scope)))
    return asked


def exports(found: Opened) -> None:
    for name, selection in tables_of(found):
        chunks = list(export(found, name, selection))
        assert chunks, name
        assert len({chunk.names for chunk in chunks}) == 1
        rows = [row for chunk in chunks for row in chunk.rows()]
        assert _from_csv(_text(chunks, "csv")) == [list(chunks[0].names), *([_cell(c) for c in row] for row in rows)]
        lines = [json.loads(line) for line in _text(chunks, "jsonl").splitlines()]
        assert lines == [dict(zip(chunks[0].names, map(_finite, row), strict=True)) for row in rows]


def _text(chunks: list[Table], format_: TableFormat) -> str:
    return "".join(render(chunks, format_))


def _from_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def _cell(value: Any) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


# -- summary ---------------------------------------------------------------------------------------------------------


def summary(sample: Sample, found: Opened, path: Path) -> str:
    lines = list(
        _study_summary(found, not sample.public)
        if isinstance(found, Study)
        else _summary(found, named=not sample.public)
    )
    return "\n".join(lines).replace(str(path), "data") + "\n"


def _study_summary(found: Study, named: bool) -> Iterator[str]:
    yield f"format {found.format} {found.version}".rstrip()
    table = found.table()
    yield f"series {len(found)}, points {found.n_points}, measured {len(table)}, models {len(found.models)}"
    for warning in found.warnings:
        yield f"{warning.severity}: {warning.text}"
    for name in ("repetitions", "mean", "median", "minimum", "maximum", "std"):
        column = np.array([np.nan if cell is None else cell for cell in table.column(name).plain()], np.float64)
        yield f"sum of {name}: {float(np.nansum(column)):.9g}"
    if named:
        yield f"columns {', '.join(table.names)}"
        for row in list(table.rows())[:FIRST]:
            yield "row " + " ".join("-" if cell is None else str(cell) for cell in row)
        for model in found.models:
            yield f"model {model.name}: {model.callpath}, {model.metric}: {model.function}"


def _summary(found: Experiment, named: bool) -> Iterator[str]:
    yield f"format {found.format} {found.version}".rstrip()
    for name in TABLES:
        if name != "series":
            yield f"{name} {sum(len(chunk) for chunk in export(found, name))}"
    for warning in found.warnings:
        yield f"{warning.severity}: {warning.text}"
    if found.traces.time_range is not None:
        yield f"time {found.traces.time_range[0]} to {found.traces.time_range[1]}"
    for profile in range(len(found.profiles)):
        parts = [block.triples() for block in found.values.blocks(np.array([profile]))]
        total = sum(_finite_sum(found, int(part.metric[0]), part.value) for part in parts if len(part))
        numbers = f"{sum(map(len, parts))} values, sum {total:.9g}"
        yield f"profile {profile} {found.profiles.label(profile)}: {numbers}"
    for row, metric in enumerate(found.metrics.rows[:FIRST]):
        try:
            total = _finite_sum(found, row, found.values.totals(row, found.profiles.measured))
        except UsageError:  # values that cannot be combined, or have no rule
            total = np.nan
        what = metric.name if named else f"metric {metric.source_id}"
        yield f"total {what} {metric.scope.word or '-'} {metric.statistic}".rstrip() + f": {total:.9g}"
    for quantity in found.metrics.quantities:
        if found.metrics.find(quantity, Scope.INCLUSIVE) is not None and named:
            yield f"at the roots {quantity}: {found.root_total(quantity):.9g}"
    contexts = next(iter(export(found, "contexts"))).head(FIRST if named else 0)
    columns = (contexts.column(name).plain() for name in ("source_id", "parent", "kind", "relation", "name"))
    for cells in zip(*columns, strict=True):
        yield "context " + " ".join("-" if cell is None else str(cell) for cell in cells)


def _finite_sum(found: Experiment, metric: int, values: Any) -> float:
    """The sum of numbers, or of the scalar readings of composite values; absent minima are infinite and left out."""
    numbers = found.values.scalar(metric, values).astype(np.float64)
    return float(numbers[np.isfinite(numbers)].sum())


# -- writes ----------------------------------------------------------------------------------------------------------


def can_write(format_name: str) -> bool:
    return any(entry.name == format_name and entry.writes for entry in FORMATS)


def round_trip(found: Opened, target: Path) -> None:
    """Nothing of what can be exported is lost; only the file's own ids may be others."""
    if isinstance(found, Study):
        _study_round_trip(found, target)
        return
    if entry_of(found.format).holds_only_traces:
        _trace_round_trip(found, target)
        return
    format_ = load(found.format)
    assert isinstance(format_, Writes)
    assert transfer(found, format_.open_writer(target, WriteOptions())).losses == []
    again = open_path(target)
    assert isinstance(again, Experiment)
    assert not again.damage
    for name in TABLES:
        if name not in ("series", "values"):
            assert _rows(again, name) == _rows(found, name), name
    _same_values(found, again)
    known = {(problem.section, problem.text) for problem in problems(Path(found.path))}
    assert [problem for problem in problems(target) if (problem.section, problem.text) not in known] == []


def _study_round_trip(found: Study, target: Path) -> None:
    format_ = load(found.format)
    assert isinstance(format_, WritesStudies)
    assert format_.write_study(found, target, WriteOptions()).losses == []
    again = open_path(target)
    assert isinstance(again, Study)
    assert sorted(again.table().rows(), key=repr) == sorted(found.table().rows(), key=repr)
    assert (again.parameters, again.models, again.units) == (found.parameters, found.models, found.units)
    assert problems(target) == []


def _trace_round_trip(found: Experiment, target: Path) -> None:
    """What happened is the same, on the same ranks, threads and streams. Profiles may come in another order, and what
    was made of events is made anew."""
    lost = " ".join(transfer(found, load_writer(found.format).open_writer(target, WriteOptions())).losses)
    again = open_path(target)
    assert isinstance(again, Experiment)
    assert not again.damage
    assert differences(happened(found), happened(again)) == []
    for table in ("copy", "kernel", "flow"):
        assert SIDES[table] in lost or side_rows(again, table) == side_rows(found, table), table
    assert differences(counted(found), counted(again)) == []


def happened(found: Experiment) -> Counter[tuple[Any, ...]]:
    """The spans by rank, thread, device and stream. Where a span has no category, its kind is written as one."""
    columns = ("rank", "thread", "gpu_device", "gpu_stream")
    places = list(zip(*(found.profiles.identity_list(name) for name in columns), strict=True))
    names = ("profile", "kind", "category", "name", "start_ns", "end_ns", "depth", "correlation")
    return Counter(
        (places[row[0]], row[1], row[2] or row[1], *row[3:])
        for chunk in export(found, "spans")
        for row in zip(*(chunk.column(name).plain() for name in names), strict=True)
    )


def counted(found: Experiment) -> Counter[tuple[Any, ...]]:
    """The values over time. Writers of timelines add a curve of the memory in use, which is made of allocations and
    comes back as a counter: it is none of those of the input."""
    counters = found.traces.counters
    if counters is None:
        return Counter()
    given = np.array([MADE_CURVE.fullmatch(name) is None for name in counters.names], np.bool_)[counters.name]
    return Counter(zip(counters.time_ns[given].tolist(), counters.value[given].tolist(), strict=True))


def differences(old: Counter[tuple[Any, ...]], new: Counter[tuple[Any, ...]]) -> list[str]:
    """How many are missing and new, and the first of each: a difference of all would take minutes to show."""
    out = []
    for word, parts in (("missing", old - new), ("new", new - old)):
        if parts:
            first = heapq.nsmallest(SHOWN, parts, key=repr)
            out.append(f"{parts.total()} of {old.total()} {word}: {first}")
    return out


def side_rows(found: Experiment, name: str) -> int:
    table = found.traces.side(name)
    return 0 if table is None else len(table.span)


def load_writer(format_name: str) -> Writes:
    format_ = load(format_name)
    assert isinstance(format_, Writes)
    return format_


def _rows(found: Experiment, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table without ids of the file, in any order of profiles."""
    rows: list[tuple[Any, ...]] = []
    for chunk in export(found, name):
        kept = [column.plain() for column in chunk.columns if column.name != "source_id"]
        rows.extend(zip(*kept, strict=True))
    return sorted(rows, key=repr) if name == "samples" else rows


def _same_values(found: Experiment, again: Experiment) -> None:
    """What was measured is equal to the bit. A stored summary is made anew: genuine ones are known to be wrong."""
    summaries = set(found.profiles.summaries.tolist())
    old, new = ({row[:3]: row[3] for row in _rows(e, "values") if row[0] not in summaries} for e in (found, again))
    assert new == old


def problems(path: Path) -> list[Problem]:
    """What the format's own check finds, where it has one."""
    format_ = detect(Source.of(path))[0]
    return list(format_.check(Source.of(path), ReadOptions())) if isinstance(format_, Checks) else []


def has_no_damage(path: Path) -> None:
    """Genuine writers make mistakes, which are notes, and a part alone misses the rest."""
    assert [problem for problem in problems(path) if problem.severity == Severity.DAMAGE] == []
