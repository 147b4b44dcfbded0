"""GPU databases: `summary` of one large file against SQL that adds up the same tables, and of many against their bytes.

The SQL is the least that somebody would write by hand: for each table of events count, total, mean, minimum, maximum
and sum of squares by name; for regions also by category, which tells calls from markers and stands in the event table.
`summary` also gives medians, links every operation to its call, and says how busy devices were and why they were idle.
"""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.conditions import ROOT, Conditions
from bench.gpu_databases import GpuShape, make_gpu_database, truth
from bench.memory import STATUS
from bench.results import Finding
from bench.timing import Work, best_processor_seconds, best_seconds
from callgrove.analysis.summary import summarise, table
from callgrove.analysis.summary_sections import Summary
from callgrove.binary.sqlite.cells import Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.cli.verbs.summary import WORK
from callgrove.execute import IN_PROCESS, Engine, Workers, executor, usable_cores
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_paths
from callgrove.model.experiment import Experiment

__all__ = ["anonymous", "by_sql", "run", "same_sums"]

N_EVENTS = 2_000_000
N_FILES, N_EVENTS_OF_MANY = 200, 6000
N_SMALL = 1000
NAMES = {"kernel_dispatch": ("info_kernel_symbol", "kernel_id", "display_name")}
MEASURED = ("kernel_dispatch", "region", "memory_copy")


def run(conditions: Conditions) -> Iterator[Finding]:
    """One large file, many small ones, and what they take in memory."""
    scale = float(conditions.largest)
    repeats = min(conditions.n_repeats, 5)
    shape = GpuShape(max(100, round(N_EVENTS * scale)))
    large = make_gpu_database(conditions.folder / shape.name, shape)
    if wrong := same_sums(summary_of([large]), shape):
        raise AssertionError(f"{large}: {wrong}")
    works = {"bytes": partial(_reading, [large]), "ours": partial(_summing, [large])}
    works |= {"sql": partial(_sql, large, True), "plainest": partial(_sql, large, False)}
    works |= {"fetchall": partial(_fetching, large), "pages": partial(_decoding, large)}
    best = best_seconds(works, repeats)
    note = f"{shape.n_events:,} events, {large.stat().st_size / 1e6:.0f} MB"
    yield Finding("gpu", "SQL per table / summary", best["sql"] / best["ours"], at_least=1, note=note)
    ratio = best["plainest"] / best["ours"]
    yield Finding("gpu", "SQL per table without categories / summary", ratio, note=note)
    yield Finding("gpu", "summary / reading the bytes", best["ours"] / best["bytes"], note=note)
    yield Finding("gpu", "fetchall / columns from pages", best["fetchall"] / best["pages"], at_least=5, note=note)
    yield Finding("gpu", "columns from pages / reading the bytes", best["pages"] / best["bytes"], note=note)
    files = _many(conditions, max(2, round(N_FILES * min(1.0, scale * 4))), N_EVENTS_OF_MANY)
    yield from _many_databases(files, repeats)
    yield from _memory(files)
    files = _many(conditions, max(2, round(N_SMALL * min(1.0, scale * 4))), 200)
    found = summary_of(files)
    note = f"{len(files)} databases, {found.n_read:,} spans"
    yield Finding("gpu", "databases of a thousand that were summed up", len({d.rank for d in found.devices}), note=note)
    yield _for_each(files, repeats)
    yield _growth(files, min(repeats, 3))


def _for_each(files: Sequence[Path], repeats: int) -> Finding:
    """The processor time that each of many small databases takes, against reading its bytes."""
    ours, floor = (best_processor_seconds(work(files), repeats) / len(files) for work in (_summing, _reading))
    note = f"{1000 * ours:.2f} ms of processor time a database, reading takes {1000 * floor:.3f} ms"
    return Finding("gpu", "small databases: summary of each / reading its bytes", ours / floor, note=note)


def _growth(files: Sequence[Path], repeats: int) -> Finding:
    """The time for each database when many become one profile, against that when a fifth of them do."""
    some = files[: max(1, len(files) // 5)]
    best = best_seconds({"all": partial(_folding, files), "some": partial(_folding, some)}, repeats)
    ratio = (best["all"] / len(files)) / (best["some"] / len(some))
    note = f"{len(files)} and {len(some)} small databases, one process"
    return Finding("gpu", "time per database, all as one profile / a fifth", ratio, at_most=1.5, note=note)


def _many_databases(files: Sequence[Path], repeats: int) -> Iterator[Finding]:
    """Many small databases against their bytes, SQL, themselves one by one, and themselves on two workers."""
    works = {"bytes": partial(_reading, files), "kept": partial(_keeping, files), "ours": partial(_summing, files)}
    works |= {"alone": partial(_one_by_one, files), "sql": partial(_sql_of_each, files)}
    works["folded"] = partial(_folding, files)
    with executor(Engine(jobs=2), WORK) as workers:
        best = best_seconds(works | {"two": partial(_summing, files, workers)}, repeats)
        from_disk = list(_from_disk(files, repeats, best["bytes"], workers))
    size = sum(path.stat().st_size for path in files)
    note = f"{len(files)} databases, {size / 1e6:.0f} MB, one process"
    yield Finding("gpu", "many databases / reading their bytes", best["ours"] / best["bytes"], at_most=40, note=note)
    what = "many databases / reading their bytes and keeping them"
    yield Finding("gpu", what, best["ours"] / best["kept"], at_most=25, note=note)
    yield Finding("gpu", "many databases: SQL per table / summary", best["sql"] / best["ours"], note=note)
    ratio = best["folded"] / best["ours"]
    yield Finding("gpu", "many databases: as a profile / summed up", ratio, at_most=3, note=note)
    ratio = best["alone"] / best["ours"]
    yield Finding("gpu", "many databases: one by one / some at a time", ratio, at_least=1.5, note=note)
    note = f"{len(files)} databases, a pool that runs already, {usable_cores()} cores"
    yield Finding("gpu", "many databases: two workers / one process", best["two"] / best["ours"], note=note)
    yield from from_disk


def _from_disk(files: Sequence[Path], repeats: int, cached: float, workers: Workers) -> Iterator[Finding]:
    """The same against reading, each time after the system was told to forget the files, as whoever comes first."""
    what = "many databases, not in the cache / reading their bytes"
    works = {"bytes": partial(_forgotten, files, _reading), "ours": partial(_forgotten, files, _summing)}
    two = partial(_summing, workers=workers)
    best = best_seconds(works | {"two": partial(_forgotten, files, two)}, repeats)
    if best["bytes"] < 2 * cached:
        yield Finding("gpu", what, math.nan, note="this file system has no disk, or does not forget")
        return
    note = f"{len(files)} databases, one process; from disk, reading takes {best['bytes'] / cached:.0f} times as long"
    yield Finding("gpu", what, best["ours"] / best["bytes"], at_most=4, note=note)
    what = "many databases, not in the cache, two workers / reading their bytes"
    note = f"{len(files)} databases, a pool that runs already, {usable_cores()} cores"
    yield Finding("gpu", what, best["two"] / best["bytes"], note=note)


def _forgotten(files: Sequence[Path], prepare: Callable[[Sequence[Path]], Work]) -> Work:
    """A work on files whose pages the system does not have."""
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())  # pages that are not on disk yet would stay
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return prepare(files)


def _many(conditions: Conditions, n: int, n_events: int) -> list[Path]:
    shapes = [GpuShape(n_events, rank, n) for rank in range(n)]
    folder = conditions.folder / f"gpu-{n}x{n_events}"
    return [make_gpu_database(folder / shape.name, shape) for shape in shapes]


def _opened(files: Sequence[Path], workers: Workers = IN_PROCESS) -> Experiment:
    experiment = open_paths(files, "rocpd", ReadOptions(fold=False, workers=workers))
    assert isinstance(experiment, Experiment)
    return experiment


def summary_of(files: Sequence[Path], workers: Workers = IN_PROCESS) -> Summary:
    """What `callgrove summary` computes, on one core as a rule."""
    found = summarise(_opened(files, workers), workers=workers)
    table(found)
    return found


def same_sums(found: Summary, shape: GpuShape) -> str:
    """What differs from what the generator says; empty where nothing does."""
    rows = {row[1]: (row[4], row[5]) for row in _named_rows(found)}
    for name, wanted in truth(shape).items():
        if rows.get(name) != wanted:
            return f"{name}: {rows.get(name)} instead of {wanted}"
    return ""


def _named_rows(found: Summary) -> list[tuple[object, ...]]:
    made = table(found, ("kernels", "copies", "api", "markers"))
    columns = [made.column(name).plain() for name in ("section", "name", "count", "total_ns")]
    return [(s, n, None, None, c, t) for s, n, c, t in zip(*columns, strict=True)]


def _summing(files: Sequence[Path], workers: Workers = IN_PROCESS) -> Work:
    return lambda: summary_of(files, workers)


def _one_by_one(files: Sequence[Path]) -> Work:
    """The sum of summaries of single files."""
    return lambda: [summary_of([path]) for path in files]


def _folding(files: Sequence[Path]) -> Work:
    """What `top`, `tree` and `hot` open: one profile of all events."""
    return lambda: open_paths(files, "rocpd", ReadOptions())


def _reading(files: Sequence[Path]) -> Work:
    return lambda: sum(len(path.read_bytes()) for path in files)


def _keeping(files: Sequence[Path]) -> Work:
    """The same, without having the memory of one file for the next."""
    return lambda: [path.read_bytes() for path in files]


def by_sql(connection: sqlite3.Connection, categories: bool) -> dict[str, tuple[int, int]]:
    """Count and total by name; the other columns are computed as well."""
    tables = {name.split("_", 1)[1].rsplit("_", 5)[0]: name for name in _tables(connection)}
    length = "(x.end - x.start)"
    sums = f"count(*), sum{length}, avg{length}, min{length}, max{length}, sum({length} * {length})"
    out = {}
    for base in MEASURED:
        names, key, text = NAMES.get(base, ("string", "name_id", "string"))
        joined = f'"{tables[base]}" x LEFT JOIN "{tables[names]}" s ON s.id = x."{key}"'
        group = "1"
        if categories and base == "region":
            joined += f' LEFT JOIN "{tables["event"]}" e ON e.id = x.event_id'
            group = "1, e.category_id"
        for name, count, total, *_ in connection.execute(f'SELECT s."{text}", {sums} FROM {joined} GROUP BY {group}'):
            out[name] = (count, total)
    return out


def _tables(connection: sqlite3.Connection) -> list[str]:
    return [
        n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table' AND name LIKE 'rocpd%'")
    ]


def _sql(path: Path, categories: bool) -> Work:
    def work() -> object:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
            return by_sql(connection, categories)

    return work


def _sql_of_each(files: Sequence[Path]) -> Work:
    return lambda: [_sql(path, True)() for path in files]


COLUMNS = ("tid", "start", "end", "event_id")


def _fetching(path: Path) -> Work:
    def work() -> object:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
            wanted = ", ".join(f'"{name}"' for name in COLUMNS)
            tables = [name for name in _tables(connection) if any(base in name for base in MEASURED)]
            return [connection.execute(f'SELECT {wanted} FROM "{name}"').fetchall() for name in tables]

    return work


def _decoding(path: Path) -> Work:
    file = SqliteFile.open(path)
    columns = dict.fromkeys(COLUMNS, Type.INTEGER)
    tables = [name for name in file.tables if any(base in name for base in MEASURED)]
    return lambda: [list(file.chunks(name, columns)) for name in tables]


def _memory(files: Sequence[Path]) -> Iterator[Finding]:
    """The most anonymous memory of a process that sums up one, ten and all of the files."""
    what = "anonymous memory, all databases / one"
    if not STATUS.is_file():
        yield Finding("gpu", what, math.nan, note="needs /proc")
        return
    peaks = {n: _peak(files[:n]) for n in (1, min(10, len(files)), len(files))}
    told = ", ".join(f"{n}: {peak / 2**20:.0f} MiB" for n, peak in peaks.items())
    yield Finding("gpu", what, peaks[len(files)] / peaks[1], at_most=2.2, note=told)
    ten = peaks[min(10, len(files))]  # more than are read at once
    yield Finding("gpu", "anonymous memory, all databases / ten", peaks[len(files)] / ten, at_most=1.5, note=told)


def _peak(files: Sequence[Path]) -> int:
    command = [sys.executable, "-m", "bench.cases.gpu", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout))


def main(paths: Sequence[str]) -> None:
    """The measured process; a thread of it looks all the time, for the most is never there when the work is done."""
    most, done = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.002):
            most = max(most, anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    table(summarise(_opened([Path(path) for path in paths])))
    done.set()
    watcher.join()
    print(json.dumps(max(most, anonymous())))


def anonymous() -> int:
    """Bytes of this process that are not pages of files."""
    found = re.search(r"RssAnon:\s*(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    main(sys.argv[1:])
