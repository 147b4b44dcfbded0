"""How verbs grow beyond what fits here: `python -m bench.scale [--keep DIR] [--write]`.

Databases of 10^4, 10^5, 10^6 profiles and traces of 10^6, 10^7, 10^8 spans are made in bounded disk, and verbs are run
on them, each in a process of its own. What follows from that for ten times as much is computed, and marked as such:

    exponent    e of a + b n^e through the three largest sizes that were run: a is what starting takes. Where two were
                run, e is 1: as much for each further profile or span
    computed    that function at the next power of ten; an exponent below 1 counts as 1, for something that comes to its
                end hides what goes on growing

A trace of many spans is one GPU database under many names (hard links), as if so many ranks had recorded the same: that
takes the disk of one. Bytes are read from the system's cache from the second name on, as they may not be elsewhere.
`--write` puts the table into docs/scale.md.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from bench.cases.profiles import shape_of
from bench.conditions import ROOT, Conditions
from bench.gpu_databases import GpuShape, make_gpu_database

PAGE = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- figures: python -m bench.scale --write -->", "<!-- end of figures -->"
N_PROFILES = (10_000, 100_000, 1_000_000)
N_SPANS = (1_000_000, 10_000_000, 100_000_000)
SPANS_OF_FILE = 1_000_000
STEP = 10  # from one size to the next; the last one is computed
PROBE = """
import contextlib, io, re, sys, time
from callgrove.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    assert main(sys.argv[1:]) == 0
print(time.process_time(), re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
"""


@dataclass(frozen=True)
class Question:
    """A verb with its options, and whether it is asked of profiles or of spans."""

    name: str
    words: Sequence[str]
    of: str


QUESTIONS = (
    Question("info", ["info"], "profiles"),
    Question("top", ["top"], "profiles"),
    Question("top --rank 7", ["top", "--rank", "7"], "profiles"),
    Question("imbalance", ["imbalance"], "profiles"),
    Question("report", ["report", "-o", os.devnull], "profiles"),
    Question("summary", ["summary", "-j", "1"], "spans"),
    Question("top", ["top", "-j", "1"], "spans"),
)


@dataclass(frozen=True)
class Figure:
    """What a question took at one size; `is_run` tells what was measured from what was computed."""

    n: int
    seconds: float
    peak_mb: float
    is_run: bool = True


def measure(question: Question, n: int, path: Path) -> Figure:
    """Run a verb in a process of its own; return its processor time, starting included, and its peak of memory."""
    verb, *options = question.words
    command = [sys.executable, "-c", PROBE, verb, str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()
    return Figure(n, float(seconds), int(peak) / 1024)


def exponent(values: Sequence[float]) -> float:
    """Return e of a + b n^e through values at sizes that grow tenfold; 1 where there are too few to tell."""
    if len(values) < 3:
        return 1.0
    first, second, third = values[-3:]
    before, after = second - first, third - second
    return math.log10(after / before) if before > 0 and after > 0 else 0.0 if after <= 0 else 1.0


def next_value(values: Sequence[float]) -> float:
    """Return the value at ten times the last size."""
    step = max(0.0, values[-1] - values[-2])
    growth: float = STEP ** max(1.0, exponent(values))
    return values[-1] + step * growth


def go_on(figures: Sequence[Figure]) -> Figure:
    """Compute the figure at ten times the last size."""
    seconds = next_value([figure.seconds for figure in figures])
    return Figure(figures[-1].n * STEP, seconds, next_value([figure.peak_mb for figure in figures]), is_run=False)


def make_spans(folder: Path, n_spans: int) -> Path:
    """Return a folder of databases with so many spans, all of which are one file."""
    one = make_gpu_database(folder / "one.db", GpuShape(SPANS_OF_FILE))
    trace = folder / f"spans-{n_spans}"
    trace.mkdir(exist_ok=True)
    for rank in range(max(1, n_spans // SPANS_OF_FILE)):
        name = trace / f"rank_{rank}.db"
        if not name.exists():
            name.hardlink_to(one)
    return trace


def run(folder: Path, most: dict[str, int]) -> Iterator[tuple[Question, list[Figure]]]:
    """Yield the figures of every question: measured up to the largest size that is wanted, then computed."""
    where = Conditions(folder)
    makers: dict[str, tuple[Sequence[int], Callable[[int], Path]]] = {
        "profiles": (N_PROFILES, lambda n: where.database(shape_of(n, Fraction(1)))),
        "spans": (N_SPANS, lambda n: make_spans(folder, n)),
    }
    for question in QUESTIONS:
        sizes, make = makers[question.of]
        figures: list[Figure] = []
        for n in (*sizes, sizes[-1] * STEP):
            print(f"{question.name}, {n:,} {question.of} ...", file=sys.stderr)
            is_run = n <= min(most[question.of], sizes[-1]) or len(figures) < 2
            figures.append(measure(question, n, make(n)) if is_run else go_on(figures))
        yield question, figures


def as_rows(question: Question, figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the rows of the table."""
    for figure in figures:
        each = 1e6 * figure.seconds / figure.n
        how = "run" if figure.is_run else "computed"
        yield (
            f"| `{question.name}` | {figure.n:,} {question.of} | {figure.seconds:,.2f} s | {each:,.2f} us |"
            f" {figure.peak_mb:,.0f} MB | {how} |"
        )


def as_table(found: Sequence[tuple[Question, list[Figure]]]) -> str:
    """Return the table, and the exponents below it."""
    lines = ["| verb | of | processor time | for each | peak | |", "|---|---|---|---|---|---|"]
    exponents = []
    for question, figures in found:
        lines += as_rows(question, figures)
        known = [figure for figure in figures if figure.is_run]
        time, memory = (exponent(values) for values in ([f.seconds for f in known], [f.peak_mb for f in known]))
        how = "" if len(known) > 2 else " (assumed)"
        exponents.append(f"`{question.name}` of {question.of}: time {time:.2f}, memory {memory:.2f}{how}")
    where = f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}"
    return "\n".join([*lines, "", f"Exponents: {'; '.join(exponents)}. {where}; one process for each figure.", ""])


def write(table: str, page: Path = PAGE) -> None:
    """Replace the figures of the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make inputs there, or use those that are there")
    for of, sizes in (("profiles", N_PROFILES), ("spans", N_SPANS)):
        parser.add_argument(f"--most-{of}", type=int, default=sizes[-1], metavar="N", help=f"run up to N {of}")
    parser.add_argument("--write", action="store_true", help="write the table into docs/scale.md")
    args = parser.parse_args()
    place = nullcontext(str(args.keep)) if args.keep else tempfile.TemporaryDirectory(prefix="callgrove-scale-")
    with place as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        table = as_table(list(run(Path(folder), {"profiles": args.most_profiles, "spans": args.most_spans})))
    print(table)
    if args.write:
        write(table)


if __name__ == "__main__":
    main()
