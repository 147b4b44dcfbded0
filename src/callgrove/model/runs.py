"""One execution each, with the parameters it was started with; and how some of them, or some numbers, are named.

choose_runs(runs, "3")            by number, as tables have it; 0-3,7 are several
choose_runs(runs, "p=4,n=100")    by parameters; r=2 is the second repetition of each point
choose_runs(runs, "app.p4.*")     by name, * and ? standing for anything

numbers_in("0-3,7")               numbers as a list of ranges, one number, or anything with `in`
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from callgrove.errors import UsageError, count_of

__all__ = ["PARAMETERS_DIFFER", "IntSet", "Numbers", "Run", "Unmeasured", "choose_runs", "describe_runs", "numbers_in"]

PARAMETERS_DIFFER = "parameters differ"  # an attribute of experiments: why their runs are not points of one study
NOT_MEASURED = "metrics not measured"  # an attribute of runs: names, as a list in JSON
Numbers = int | str | Container[int]  # as a caller names some ranks, threads or runs

MOST_NAMED = 32  # runs in a message
REPETITION = "r"
_RANGE = re.compile(r"(\d{1,20})(?:(-)(\d{0,20}))?", re.ASCII)
_NO_END = 2**64  # `7-` goes on for ever; identifiers have 64 bits


@dataclass(frozen=True)
class IntSet:
    """Numbers given as a list like `0-3,7,13-`: sorted, separate ranges (first, last), however long they are."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str) -> IntSet:
        """Read a list of numbers and ranges."""
        parts = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
        ranges = sorted((int(part[1]), _last(part)) for part in parts if part)
        if len(ranges) < len(parts) or any(first > last for first, last in ranges):
            raise UsageError(f"{text!r} is not a list of numbers and ranges like 0-3,7")
        return cls(_join_ranges(ranges))

    def __or__(self, other: IntSet) -> IntSet:
        return IntSet(_join_ranges(sorted((*self.ranges, *other.ranges))))

    def __contains__(self, number: Any) -> bool:
        index = bisect_right(self.ranges, number, key=lambda bounds: bounds[0]) - 1
        return index >= 0 and bool(number <= self.ranges[index][1])

    def __str__(self) -> str:
        return ",".join(_write_range(first, last) for first, last in self.ranges)


def _last(part: re.Match[str]) -> int:
    if not part[2]:
        return int(part[1])
    return int(part[3]) if part[3] else _NO_END


def _write_range(first: int, last: int) -> str:
    if last >= _NO_END:
        return f"{first}-"
    return f"{first}-{last}" if last > first else str(first)


def _join_ranges(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return sorted ranges with those joined that touch or overlap."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return tuple(joined)


def numbers_in(wanted: Numbers) -> Container[int]:
    """Return numbers as something with `in`: those of a text like "0-3,7", one number, or a container as it is."""
    if isinstance(wanted, str):
        return IntSet.parse(wanted)
    return (wanted,) if isinstance(wanted, int) else wanted


@dataclass(frozen=True)
class Run:
    """One execution: `parameters` is the point (p=64, n=1000), `repetition` counts runs of the same point."""

    name: str = ""
    parameters: Mapping[str, float] = field(default_factory=dict)
    repetition: int = 1
    source: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def unmeasured(self) -> frozenset[str]:
        """The metrics that other runs of its experiment measured and it did not. An attribute that is not a list names
        none."""
        if NOT_MEASURED not in self.attributes:
            return frozenset()
        import json  # for the few that lack any

        try:
            names = json.loads(self.attributes[NOT_MEASURED])
        except (ValueError, RecursionError):
            names = []
        return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()

    def without(self, metrics: Collection[str]) -> Run:
        """Return the run with the names of metrics that it did not measure."""
        if not metrics:
            return self
        import json

        return replace(self, attributes={**self.attributes, NOT_MEASURED: json.dumps(sorted(metrics))})


@dataclass(frozen=True)
class Unmeasured:
    """What the run of a profile, called so, did not measure while others did."""

    run: str
    metrics: frozenset[str]


def describe_runs(runs: Sequence[Run]) -> str:
    """Return the numbers, names and parameters of runs, as messages list them."""
    texts = [_describe(number, run) for number, run in enumerate(runs[:MOST_NAMED])]
    return "; ".join(texts) + ("; ..." if len(runs) > MOST_NAMED else "")


def _describe(number: int, run: Run) -> str:
    point = ", ".join(f"{name}={value:g}" for name, value in run.parameters.items())
    return f"{number} {run.name}".rstrip() + (f" ({point})" if point else "")


def choose_runs(runs: Sequence[Run], wanted: Numbers) -> tuple[int, ...]:
    """Return the numbers of the runs that a text names, or that a container has. None at all is an error that lists the
    runs there are."""
    if isinstance(wanted, str):
        numbers = _runs_named(runs, wanted)
    else:
        chosen = numbers_in(wanted)
        numbers = [k for k in range(len(runs)) if k in chosen]
    if not numbers:
        there = "is" if len(runs) == 1 else "are"
        raise UsageError(f"there is no run {wanted}; there {there} {count_of(len(runs), 'run')}: {describe_runs(runs)}")
    return tuple(numbers)


def _runs_named(runs: Sequence[Run], text: str) -> list[int]:
    """Return the runs that a text names: by name first, then by number, then by parameters."""
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
    """Return numbers by name; empty where the text is no point."""
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
