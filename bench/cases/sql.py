"""`sql` over one large GPU database, against the same SQL by sqlite3 over the file's own tables.

The query groups kernels by name, which in the file takes a join with the kernels' symbols. Ours opens the file, streams
the columns that the query names into a temporary database, and asks that; sqlite3 reads the file as it is.
"""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from bench.cases.gpu import anonymous
from bench.conditions import ROOT, Conditions
from bench.gpu_databases import GpuShape, make_gpu_database
from bench.memory import STATUS
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_paths
from callgrove.query.relations import ENGINES
from callgrove.query.sql import sql

__all__ = ["ask", "ask_file", "run"]

N_EVENTS = 2_000_000
QUERIES = {
    "kernels by name": (
        "SELECT name, count(*) AS n, sum(duration) AS total, min(duration) AS low, max(duration) AS high "
        "FROM kernels GROUP BY name ORDER BY name",
        'SELECT s.display_name, count(*), sum(k."end" - k.start), min(k."end" - k.start), max(k."end" - k.start) '
        "FROM {kernel_dispatch} k LEFT JOIN {info_kernel_symbol} s ON s.id = k.kernel_id GROUP BY 1 ORDER BY 1",
    ),
    "all spans by category": (
        "SELECT category, count(*) AS n, sum(duration_ns) AS total FROM spans GROUP BY category ORDER BY category",
        "SELECT c.string, count(*), sum(x.length) FROM ("
        + " UNION ALL ".join(
            f'SELECT event_id, "end" - start AS length FROM {{{table}}}'
            for table in ("region", "kernel_dispatch", "memory_copy", "memory_allocate")
        )
        + ") x LEFT JOIN {event} e ON e.id = x.event_id LEFT JOIN {string} c ON c.id = e.category_id "
        "GROUP BY 1 ORDER BY 1",
    ),
}


def run(conditions: Conditions) -> Iterator[Finding]:
    """Two queries on both engines, and the memory that they take."""
    shape = GpuShape(max(100, round(N_EVENTS * float(conditions.largest))))
    large = make_gpu_database(conditions.folder / shape.name, shape)
    note = f"{shape.n_events:,} events, {large.stat().st_size / 1e6:.0f} MB"
    for what, (ours, raw) in QUERIES.items():
        works: dict[str, Any] = {engine: partial(_asking, large, ours, engine) for engine in ENGINES}
        expected = ask_file(large, raw)
        for engine in ENGINES:
            if ask(large, ours, engine) != expected:
                raise AssertionError(f"{large}: {engine} differs on {ours}")
        best = best_seconds(works | {"file": partial(_asking_file, large, raw)}, min(conditions.n_repeats, 3))
        for engine in ENGINES:
            yield Finding("sql", f"{what}: {engine} / sqlite3 on the file", best[engine] / best["file"], note=note)
    for engine in ENGINES:
        yield _memory(large, engine, note)


def ask(path: Path, query: str, engine: str) -> list[tuple[Any, ...]]:
    """What `callgrove sql` does, but for printing."""
    opened = open_paths([path], "rocpd", ReadOptions(fold=False))
    return list(sql(opened, query, engine).rows())


def ask_file(path: Path, query: str) -> list[tuple[Any, ...]]:
    """The same by sqlite3, over the tables as they are."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        names = [n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        suffix = next(n for n in names if n.startswith("rocpd_metadata")).removeprefix("rocpd_metadata")
        tables = {n.removeprefix("rocpd_").removesuffix(suffix): f'"{n}"' for n in names if n.endswith(suffix)}
        return connection.execute(query.format(**tables)).fetchall()


def _asking(path: Path, query: str, engine: str) -> Work:
    return lambda: ask(path, query, engine)


def _asking_file(path: Path, query: str) -> Work:
    return lambda: ask_file(path, query)


def _memory(path: Path, engine: str, note: str) -> Finding:
    """Anonymous memory of a process that asks for all spans; DuckDB may use what its limit allows."""
    what = f"anonymous memory of {engine} / size of the file"
    if not STATUS.is_file():
        return Finding("sql", what, math.nan, note="needs /proc")
    command = [sys.executable, "-m", "bench.cases.sql", str(path), engine]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    peak = int(json.loads(done.stdout))
    return Finding("sql", what, peak / path.stat().st_size, note=f"{note}; {peak / 2**20:.0f} MiB")


def main(arguments: Sequence[str]) -> None:
    """The measured process: it looks at its memory whenever a chunk has come."""
    most = 0

    def watch(label: str, done: int, total: int | None) -> None:
        nonlocal most
        most = max(most, anonymous())

    path, engine = arguments
    opened = open_paths([Path(path)], "rocpd", ReadOptions(fold=False))
    query = "SELECT kind, category, name, count(*) AS n, sum(duration_ns) AS ns FROM spans GROUP BY 1, 2, 3"
    list(sql(opened, query, engine, watch).rows())
    print(json.dumps(max(most, anonymous())))


if __name__ == "__main__":
    main(sys.argv[1:])
