"""Verbs for every engine: `mpirun -n 4 python -m tests.execution.verbs INPUTS OUT` runs all of them.

inputs   gpu/*.db   measured.m   study.txt
out      NAME.out: what a verb printed, and the files that it wrote
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from callgrove.cli.main import main
from callgrove.modeling import fitting

SERIES_AT_ONCE = 3  # of a small study: then there are blocks for several workers
QUERY = "SELECT kind, count(*) AS n, sum(end_ns - start_ns) AS total FROM spans GROUP BY kind ORDER BY kind"


def commands(inputs: Path, out: Path) -> Iterator[tuple[str, list[str]]]:
    """A name, and the words of a verb that leaves what it writes in `out`."""
    gpu, measured, study = (str(inputs / name) for name in ("gpu", "measured.m", "study.txt"))
    first, second = (str(inputs / "gpu" / f"{number}.db") for number in (0, 1))
    csv = ["--format", "csv"]
    yield "summary", ["summary", gpu, "--by", "rank", *csv]
    for verb in ("top", "tree", "hot", "check"):
        yield f"{verb}-gpu", [verb, gpu, *csv]
    yield "check-measured", ["check", measured, *csv]
    yield "spans", ["export", gpu, "--table", "spans"]
    yield "values", ["export", gpu, "--table", "values", "--format", "jsonl", "-o", str(out / "values.jsonl")]
    yield "sql", ["sql", gpu, QUERY, *csv]
    yield "trace", ["convert", gpu, str(out / "all.pftrace")]
    yield "model", ["model", study, "--method", "improved", "--limit", "all", *csv]
    yield "report", ["report", gpu, "-o", str(out / "page.html")]
    yield "prof", ["prof", measured, str(out / "measured.d")]
    yield "merge", ["merge", first, second, str(out / "merged.cubex")]


def run_all(inputs: Path, out: Path, engine: list[str]) -> None:
    """Run all verbs on an engine. Under MPI every process comes here: those that work for another end a verb with
    SystemExit, and go on to the next."""
    fitting.SERIES_AT_ONCE = SERIES_AT_ONCE
    for name, words in commands(inputs, out):
        told = (out / f"{name}.out").open("a")
        with told, contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
            code = main([*words, *engine])
            if code:
                raise AssertionError(f"{name}: exit code {code}")


if __name__ == "__main__":
    run_all(Path(sys.argv[1]), Path(sys.argv[2]), ["--mpi"])
