"""One execution each, with the parameters it was started with; and how some of them are named.

choose_runs(runs, "3")            by number, as tables have it; 0-3,7 are several
choose_runs(runs, "p=4,n=100")    by parameters; r=2 is the second repetition of each point
choose_runs(runs, "app.p4.*")     by name, * and ? standing for anything
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from callgrove.errors import UsageError

__all__ = ["PARAMETERS_DIFFER", "Run", "choose_runs", "describe_runs"]

PARAMETERS_DIFFER = "parameters differ"  # an attribute of experiments: why their runs are no points of one study

MOST_NAMED = 32  # runs in a message
REPETITION = "r"
_RANGE = re.compile(r"(\d{1,9})(?:(-)(\d{0,9}))?", re.ASCII)


@dataclass(frozen=True)
class Run:
    """One execution: `parameters` is the point (p=64, n=1000), `repetition` counts runs of the same point."""

    name: str = ""
    parameters: Mapping[str, float] = field(default_factory=dict)
    repetition: int = 1
    source: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


def describe_runs(runs: Sequence[Run]) -> str:
    """Return the numbers, names and parameters of runs, as messages list them."""
    texts = [_describe(number, run) for number, run in enumerate(runs[:MOST_NAMED])]
    return "; ".join(texts) + ("; ..." if len(runs) > MOST_NAMED else "")


def _describe(number: int, run: Run) -> str:
    point = ", ".join(f"{name}={value:g}" for name, value in run.parameters.items())
    return f"{number} {run.name}".rstrip() + (f" ({point})" if point else "")


def choose_runs(runs: Sequence[Run], wanted: str | Container[int]) -> tuple[int, ...]:
    """Return the numbers of the runs that a text names, or that a container has. None at all is an error that lists the
    runs there are."""
    found = _named(runs, wanted) if isinstance(wanted, str) else [k for k in range(len(runs)) if k in wanted]
    if not found:
        there = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        raise UsageError(f"there is no run {wanted}; there are {there}: {describe_runs(runs)}")
    return tuple(found)


def _named(runs: Sequence[Run], text: str) -> list[int]:
    """A name counts before a number, and a number before parameters."""
    by_name = [k for k, run in enumerate(runs) if text and text in (run.name, run.source)]
    if by_name:
        return by_name
    numbers = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    if all(numbers):
        return [k for k in range(len(runs)) if any(_contains(part, k) for part in numbers if part)]
    if "=" in text and (point := _point(text)):
        return [k for k, run in enumerate(runs) if _is_at(run, point)]
    return [k for k, run in enumerate(runs) if fnmatchcase(run.name, text)]


def _contains(part: re.Match[str], number: int) -> bool:
    first, last = int(part[1]), part[3]
    return number == first if part[2] is None else first <= number and (not last or number <= int(last))


def _point(text: str) -> dict[str, float]:
    """Numbers by name; empty where the text is no point."""
    point: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        try:
            point[name.strip()] = float(number)
        except ValueError:
            return {}
    return point


def _is_at(run: Run, point: Mapping[str, float]) -> bool:
    known = {REPETITION: float(run.repetition), **run.parameters}
    return all(known.get(name) == value for name, value in point.items())
