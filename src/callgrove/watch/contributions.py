"""What one complete file adds to the totals, and why a file is not complete.

A file is read whole only if its own format finds nothing missing: a footer of hpcrun, all members of a Cube archive,
all pages of an SQLite database with no log or journal beside it. What is kept of it does not grow with the file: the
costs of its costliest functions, with the rest as one number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import SEEK_END
from pathlib import Path

import numpy as np

from callgrove.analysis.costs import costs
from callgrove.analysis.views import top
from callgrove.binary.archives import BLOCK, is_archive
from callgrove.binary.file_states import look_at_files
from callgrove.binary.sqlite.schema import is_unfinished
from callgrove.errors import CallgroveError, NotRecognised, UsageError
from callgrove.formats.registry import open_paths
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study

__all__ = ["KEPT_FUNCTIONS", "Contribution", "Incomplete", "Names", "Unknown", "read_contribution"]

KEPT_FUNCTIONS = 64  # of a file, by cost; the others count as the rest
MOST_NAMES = 100_000  # functions in all that have a number of their own
REST = 0  # the number of everything else
TRACE = "hpctrace"  # a file that belongs to a profile which is counted already
END_OF_ARCHIVE = 2 * BLOCK  # bytes
SQLITE = b"SQLite format 3\0"


class Incomplete(Exception):
    """A file that is not whole, or not yet; the message says what is missing."""


class Unknown(Exception):
    """A file that no format claims."""


@dataclass
class Names:
    """Functions by number, shared by all files."""

    numbers: dict[str, int] = field(default_factory=lambda: {"(rest)": REST})

    def number(self, name: str) -> int:
        """Return the number of a function; where there are too many, that of the rest."""
        if name not in self.numbers and len(self.numbers) >= MOST_NAMES:
            return REST
        return self.numbers.setdefault(name, len(self.numbers))


@dataclass(frozen=True)
class Contribution:
    """What a file adds. `functions` are numbers of names, with their exclusive costs."""

    format: str
    ranks: frozenset[int]
    n_profiles: int
    time_range: tuple[int, int] | None
    metric: str
    unit: str
    functions: np.ndarray
    costs: np.ndarray


def read_contribution(path: Path, names: Names) -> Contribution:
    """Read a file; one that is not whole, or changes meanwhile, is refused."""
    before = look_at_files([str(path)])
    try:
        _refuse_unfinished(path)
        contribution = _read(path, names)
    except NotRecognised as error:
        raise Unknown(error.message) from None
    except CallgroveError as error:
        raise Incomplete(error.message.removeprefix(f"{path}: ")) from None
    except OSError as error:
        raise Incomplete(error.strerror or str(error)) from None
    if look_at_files([str(path)]) != before:
        raise Incomplete("it changed while it was read")
    return contribution


def _refuse_unfinished(path: Path) -> None:
    """Refuse what its writer has not finished, although all that is there may be sound."""
    with path.open("rb") as file:
        head = file.read(BLOCK)
        file.seek(0, SEEK_END)
        file.seek(max(0, file.tell() - END_OF_ARCHIVE))
        tail = file.read(END_OF_ARCHIVE)
    if head.startswith(SQLITE) and is_unfinished(path):
        raise Incomplete("a log or journal lies beside it: its writer has not finished")
    if is_archive(head) and tail != bytes(END_OF_ARCHIVE):
        raise Incomplete("the archive has no end yet: two blocks of zeros come last")


def _read(path: Path, names: Names) -> Contribution:
    opened = open_paths([str(path)])
    if isinstance(opened, Study):
        raise Unknown("series over parameters, no execution")
    made = _sum_up(opened, names)
    if damage := [*(warning.text for warning in opened.damage), *(str(problem) for problem in opened.damage_met)]:
        raise Incomplete(damage[0].removeprefix(f"{path}: "))
    return made


def _sum_up(experiment: Experiment, names: Names) -> Contribution:
    ranks, present = experiment.profiles.identity("rank")
    measured = np.isin(np.arange(len(ranks)), experiment.profiles.measured)
    metric, unit, cells = _find_costs(experiment)
    sums: dict[int, float] = {}
    for name, cost in cells:
        number = names.number(name)
        sums[number] = sums.get(number, 0.0) + cost
    return Contribution(
        experiment.format,
        frozenset(np.asarray(ranks)[np.asarray(present) & measured].tolist()),
        0 if experiment.format == TRACE else len(experiment.profiles.measured),
        experiment.traces.time_range,
        metric,
        unit,
        np.array(list(sums), np.int32),
        np.array(list(sums.values()), np.float64),
    )


def _find_costs(experiment: Experiment) -> tuple[str, str, list[tuple[str, float]]]:
    """Return the metric that `top` would show, and the costs of the costliest functions and of the rest."""
    try:
        all_costs = costs(experiment)
        table = top(all_costs, limit=KEPT_FUNCTIONS)
    except UsageError:  # nothing that adds up
        return "", "", []
    if all_costs.is_ratio or not np.isfinite(all_costs.total):
        return "", "", []
    cells = [(name, float(cost)) for name, cost in zip(table["name"], table["exclusive"], strict=True) if cost]
    rest = float(all_costs.total) - sum(cost for _, cost in cells)
    return all_costs.metric.name, all_costs.metric.unit, [*cells, *([("(rest)", rest)] if table.left else [])]
