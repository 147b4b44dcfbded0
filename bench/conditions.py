"""What the benches run on: shapes, scales, repeats, and where the databases are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.generate import Shape, generate
from bench.results import Finding
from bench.timing import Work
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.values import SparseBlock

__all__ = [
    "ROOT",
    "Conditions",
    "columns_from_open",
    "columns_from_path",
    "columns_of",
    "conditions",
    "opened",
    "run_alone",
]

ROOT = Path(__file__).resolve().parent.parent
Bench = Callable[["Conditions"], Iterator[Finding]]
SPARSE_ROWS = Shape()
FULL_ROWS = Shape(full_rows=True)


@dataclass(frozen=True)
class Conditions:
    """`scales` are parts of the number of profiles, ascending; databases lie in `folder`."""

    folder: Path
    scales: tuple[Fraction, ...] = (Fraction(1, 16), Fraction(1, 4), Fraction(1))
    n_repeats: int = 15
    sparse_rows: Shape = SPARSE_ROWS
    full_rows: Shape = FULL_ROWS

    def database(self, shape: Shape) -> Path:
        """The database of that shape, made when first asked for."""
        rows = "full" if shape.full_rows else "sparse"
        return generate(self.folder / f"{rows}-{shape.n_profiles}x{shape.n_contexts}x{shape.n_metrics}.d", shape)

    @property
    def largest(self) -> Fraction:
        return self.scales[-1]


@contextmanager
def conditions(scales: tuple[Fraction, ...], keep: Path | None) -> Iterator[Conditions]:
    """Databases in a folder that stays, or in one that goes."""
    if keep is not None:
        yield Conditions(keep, tuple(sorted(scales)))
        return
    with TemporaryDirectory(prefix="callgrove-bench-") as folder:
        yield Conditions(Path(folder), tuple(sorted(scales)))


def run_alone(bench: Bench, where: Conditions) -> list[Finding]:
    """Run a bench in a process of its own. In one that has freed large arrays before, the C library keeps memory for
    the next ones, and reading the bytes of a file takes a fraction of the time that it takes elsewhere."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_run, bench, where).result()


def _run(bench: Bench, where: Conditions) -> list[Finding]:
    return list(bench(where))


def opened(folder: Path) -> Experiment:
    """The experiment in a folder."""
    found = open_path(folder)
    assert isinstance(found, Experiment)
    return found


def columns_of(folder: Path) -> SparseBlock:
    """From a folder to columns: the whole way."""
    return opened(folder).values.columns()


def columns_from_open(folder: Path) -> Work:
    """The second half of it: what gives the columns of a database that was just opened."""
    return opened(folder).values.columns


def columns_from_path(folder: Path) -> Work:
    """The whole way, not begun."""
    return partial(columns_of, folder)
