"""Traces as text: Chrome's JSON and rocprofv3's CSV of one large database, against a script and against the bytes.

The script is what somebody would write by hand: SQL that joins names, categories and correlations to the rows of the
database, then `json.dumps` for each event, or `csv.writer` for each row. Its JSON has no flows and no lanes, its CSV no
order. The floor is reading the bytes of the database and writing as many bytes as the result has.
"""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.conditions import ROOT, Conditions
from bench.gpu_databases import GpuShape, make_gpu_database
from bench.memory import STATUS
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.formats.interface import ReadOptions, WriteOptions
from callgrove.formats.registry import open_path, writer_of
from callgrove.formats.writing.transfer import write_experiment

__all__ = ["run"]

N_EVENTS = 2_000_000
TARGETS = {"chrome-json": "trace.json", "rocprof-csv": "csv"}
COLUMNS = "x.start, x.end, {name}, c.string, e.stack_id, x.tid"
SHAPE = (
    *("queue_id", "stream_id", "dispatch_id", "kernel_id", "group_segment_size", "private_segment_size"),
    *(f"{word}_size_{axis}" for word in ("workgroup", "grid") for axis in "xyz"),
)
NAMES = {"kernel_dispatch": ("info_kernel_symbol", "kernel_id", "display_name")}
MEASURED = ("region", "kernel_dispatch", "memory_copy")
Row = tuple[object, ...]


def run(conditions: Conditions) -> Iterator[Finding]:
    """Times of one file, then memory of it and of a tenth."""
    shapes = [GpuShape(max(100, round(N_EVENTS * float(conditions.largest) / part))) for part in (10, 1)]
    small, large = (make_gpu_database(conditions.folder / shape.name, shape) for shape in shapes)
    out = conditions.folder / "exports"
    out.mkdir(exist_ok=True)
    scripts = {"chrome-json": by_json, "rocprof-csv": by_csv}
    works = {("ours", name): partial(_converting, large, name, out / target) for name, target in TARGETS.items()}
    works |= {("script", name): partial(_scripted, scripts[name], large, out / "script") for name in TARGETS}
    for name, target in TARGETS.items():
        convert(large, name, out / target)
        works["bytes", name] = partial(_copying, large, out / target, out / "bytes")
    best = best_seconds(works, min(conditions.n_repeats, 3))
    note = f"{shapes[1].n_events:,} events"
    for name, target in TARGETS.items():
        size = f"{note}, {sum(map(_size, _files(out / target))) / 1e6:.0f} MB out"
        ours = best["ours", name]
        yield Finding("exports", f"script / {name}", best["script", name] / ours, at_least=1, note=size)
        yield Finding("exports", f"{name} / reading and writing the bytes", ours / best["bytes", name], note=size)
    yield from _memory(small, large, out)
    shutil.rmtree(out)


def convert(source: Path, name: str, target: Path) -> None:
    """What `callgrove convert` does, on one core."""
    if name == "rocprof-csv":
        target.mkdir(exist_ok=True)
    opened = open_path(source, "rocpd", ReadOptions(fold=False))
    write_experiment(opened, writer_of(name), target, WriteOptions(overwrite=True))


def _converting(source: Path, name: str, target: Path) -> Work:
    return lambda: convert(source, name, target)


def _scripted(script: object, source: Path, target: Path) -> Work:
    assert callable(script)
    return lambda: script(source, target)


def _files(target: Path) -> list[Path]:
    return sorted(target.iterdir()) if target.is_dir() else [target]


def _size(path: Path) -> int:
    return path.stat().st_size


def _copying(source: Path, result: Path, target: Path) -> Work:
    def work() -> object:
        read = len(source.read_bytes())
        for path in _files(result):
            with path.open("rb") as data, target.open("wb") as copy:
                shutil.copyfileobj(data, copy, 1 << 20)
        return read

    return work


# -- the script ------------------------------------------------------------------------------------------------------


def rows_of(source: Path, base: str, more: Sequence[str] = ()) -> Iterator[Row]:
    """Start, end, name, category, correlation, thread, and further columns of a table."""
    with closing(sqlite3.connect(f"file:{source}?mode=ro&immutable=1", uri=True)) as connection:
        listed = connection.execute("SELECT name FROM sqlite_master WHERE type='table' AND name LIKE 'rocpd%'")
        tables = {name.split("_", 1)[1].rsplit("_", 5)[0]: name for (name,) in listed}
        names, key, text = NAMES.get(base, ("string", "name_id", "string"))
        columns = ", ".join([COLUMNS.format(name=f"n.{text}"), *(f"x.{column}" for column in more)])
        yield from connection.execute(
            f'SELECT {columns} FROM "{tables[base]}" x LEFT JOIN "{tables[names]}" n ON n.id = x.{key}'
            f' LEFT JOIN "{tables["event"]}" e ON e.id = x.event_id'
            f' LEFT JOIN "{tables["string"]}" c ON c.id = e.category_id'
        )


def by_json(source: Path, target: Path) -> int:
    """Events one by one; gives how many there are."""
    n = 0
    with target.open("w") as file:
        file.write('{"traceEvents":[\n')
        for base in MEASURED:
            for start, end, name, category, correlation, thread in rows_of(source, base):
                assert isinstance(start, int)
                assert isinstance(end, int)
                times = {"ts": start / 1000, "dur": (end - start) / 1000}
                event = {"ph": "X", "pid": 1, "tid": thread, **times, "name": name, "cat": category}
                file.write(",\n" * bool(n) + json.dumps({**event, "args": {"corr": correlation}}))
                n += 1
        file.write("\n]}\n")
    return n


def by_csv(source: Path, target: Path) -> int:
    """Rows one by one; gives how many there are."""
    n = 0
    for base in MEASURED:
        with target.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for row in rows_of(source, base, SHAPE if base == "kernel_dispatch" else ()):
                writer.writerow(row)
                n += 1
    return n


# -- memory ----------------------------------------------------------------------------------------------------------


def _memory(small: Path, large: Path, out: Path) -> Iterator[Finding]:
    """The most anonymous memory of a process that converts a database, and one that is ten times larger."""
    for name, target in TARGETS.items():
        what = f"anonymous memory of {name}, ten times as much / once"
        if not STATUS.is_file():
            yield Finding("exports", what, math.nan, note="needs /proc")
            continue
        peaks = [_peak(source, name, out / target) for source in (small, large)]
        told = " and ".join(f"{peak / 2**20:.0f} MiB" for peak in peaks)
        yield Finding("exports", what, peaks[1] / peaks[0], note=told)


def _peak(source: Path, name: str, target: Path) -> int:
    command = [sys.executable, "-m", "bench.cases.exports", str(source), name, str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout))


def main(source: str, name: str, target: str) -> None:
    """The measured process."""
    most = 0

    def watch(label: str, done: int, total: int) -> None:
        nonlocal most
        most = max(most, _anonymous())

    opened = open_path(source, "rocpd", ReadOptions(fold=False, progress=watch))
    write_experiment(opened, writer_of(name), Path(target), WriteOptions(overwrite=True, progress=watch))
    print(json.dumps(max(most, _anonymous())))


def _anonymous() -> int:
    found = re.search(r"RssAnon:\s*(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
