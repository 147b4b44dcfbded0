"""What a comparison comes to, in words: "after.d is 24% slower: 81% of it in solve/kernel".

Only what runs of one size spend in time makes one of them slower: where the numbers of processes or profiles differ, or
two clocks were read, and of all other metrics, a run has more or less. The call paths that are named are those with the
largest part of the change, in the exclusive cost of functions, which adds up to the change of the totals. Where changes
of both directions matter, each part is said as an amount, as shares of what is left of them would mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.analysis.comparison.call_paths import CallPaths
from callgrove.arrays import Bools, Floats
from callgrove.model.metrics import Aggregation, Metric

__all__ = ["Change", "Side", "say_change", "short_names", "short_path"]

NEAR = 1e-12  # relative; less is rounding
ENOUGH = 0.8  # of a change: no more parts of it are named
WORTH_NAMING = 0.05  # of a change
SPREAD = 0.01  # of a change: where no call path has as much of it, none is named
MOST_NAMED = 3
OPPOSITE = 0.1  # of a change: what goes the other way is said as well
LONGEST_NAME = 60
Amount = Callable[[float], str]


@dataclass(frozen=True)
class Side:
    """One of two inputs: its total, where it has costs at or below a call path, and how many processes (None: unknown)
    and profiles."""

    name: str
    total: float
    reached: Bools
    processes: int | None
    profiles: int


@dataclass(frozen=True)
class Change:
    """What the right side has more or less than the left one. `paths` are those of functions, and `by_path` is right
    less left at each, in exclusive cost; None where nothing adds up."""

    metric: Metric
    paths: CallPaths
    left: Side
    right: Side
    by_path: Floats | None
    is_same_metric: bool = True

    @property
    def is_of_one_size(self) -> bool:
        """Whether the same was added up of both, on as many processes, with as many profiles."""
        sizes = [(side.processes, side.profiles) for side in (self.left, self.right)]
        return self.is_same_metric and self.by_path is not None and sizes[0] == sizes[1]

    @property
    def total(self) -> float:
        """How much more the right side has; 0 where that is rounding."""
        left, right = self.left.total, self.right.total
        return right - left if abs(right - left) > NEAR * max(abs(left), abs(right)) else 0.0


def plain_amount(unit: str) -> Amount:
    """Return how a cost is written without a prefix of its unit."""
    return lambda value: f"{value:,.4g} {unit}".rstrip()


def say_change(change: Change, amount: Amount | None = None) -> str:
    """Return what the right side has more or less than the left one, and where. `amount` is how costs are written."""
    write = amount or plain_amount(change.metric.unit)
    left, right = change.left, change.right
    if change.metric.aggregation == Aggregation.NONE:
        return f"{change.metric.name} is computed for each call path and has no total to compare"
    missing = [side.name for side in (left, right) if np.isnan(side.total)]
    if missing:
        return (
            f"{change.metric.name}: {' and '.join(missing)} {'have' if len(missing) > 1 else 'has'} no total to compare"
        )
    if not left.reached.any() or not right.reached.any():
        return _say_empty(change)
    if not change.total:
        return _say_equal(change, write)
    return f"{_say_total(change, write)}{_say_where(change, write)}"


def _say_empty(change: Change) -> str:
    """Say which side has no cost at all."""
    empty = [side.name for side in (change.left, change.right) if not side.reached.any()]
    both = f"neither {empty[0]} nor {empty[-1]} has any {change.metric.name}"
    return both if len(empty) > 1 else f"{empty[0]} has no {change.metric.name}"


def _say_equal(change: Change, write: Amount) -> str:
    same = f"{change.right.name} has the same {change.metric.name} as {change.left.name}"
    if change.by_path is None:
        return same
    largest = _largest_amounts(change, write)
    return f"{same}, at every call path" if not largest else f"{same}, but not in the same places: {largest}"


def _say_total(change: Change, write: Amount) -> str:
    """Say how much more or less the right side has, in percent of the left one where that means something."""
    left, right, more = change.left, change.right, change.total > 0
    if left.total <= 0 or right.total < 0:  # costs below zero, as differences have: no percentage means anything
        how_much = f"{write(abs(change.total))} {'more' if more else 'less'} {change.metric.name}"
        return f"{right.name} has {how_much}"
    share = _percent(abs(change.total) / left.total)
    if change.metric.is_time and change.is_of_one_size:
        return f"{right.name} is {share} {'slower' if more else 'faster'}"
    in_all = " in all" if change.by_path is not None else ""
    return f"{right.name} has {share} {'more' if more else 'less'} {change.metric.name}{in_all}{_say_sizes(change)}"


def _say_sizes(change: Change) -> str:
    """Say on what the two sides ran, where that is not the same."""
    left, right = change.left, change.right
    for word, plural, one, other in (
        ("process", "processes", left.processes, right.processes),
        ("profile", "profiles", left.profiles, right.profiles),
    ):
        if one != other and None not in (one, other):
            return f", with {other} {word if other == 1 else plural} instead of {one}"
    return ""


def _say_where(change: Change, write: Amount) -> str:
    """Say which call paths the change is in: shares of it, or amounts where much goes the other way."""
    if change.by_path is None:
        return ""
    shares = change.by_path / change.total
    order = np.argsort(-shares, kind="stable")[:MOST_NAMED].tolist()
    if shares.min(initial=0) <= -OPPOSITE or shares[order[0]] > 1 + OPPOSITE:
        return f": {_largest_amounts(change, write)}"
    if shares[order[0]] < SPREAD and (n_paths := np.count_nonzero(shares)) > 1 / SPREAD:
        return f": it is spread over {n_paths:,} call paths, with {_percent(shares[order[0]])} of it in the largest"
    covered = np.cumsum([0.0, *shares[order[:-1]]])  # by those that were named before
    named = [
        path
        for path, known in zip(order, covered.tolist(), strict=True)
        if known < ENOUGH and shares[path] >= WORTH_NAMING
    ] or order[:1]
    texts = [
        f"{_percent(min(shares[path], 1.0), whole=True)} in {name}"
        for path, name in zip(named, _name_paths(change, named), strict=True)
    ]
    return f": {', '.join(texts)}".replace(" in ", " of it in ", 1)


def _largest_amounts(change: Change, write: Amount) -> str:
    """Return the largest changes as amounts, the largest one of each direction among them; empty where nothing
    changed."""
    more = change.by_path
    assert more is not None
    order = np.argsort(-np.abs(more), kind="stable").tolist()
    floor = NEAR * max(abs(change.left.total), abs(change.right.total))
    worth = max(floor, WORTH_NAMING * abs(more[order[0]]))
    named = [path for path in order[:MOST_NAMED] if abs(more[path]) > worth]
    directions = {more[path] > 0 for path in named}
    others = (p for p in order if abs(more[p]) > floor and (more[p] > 0) not in directions)
    if named and (opposite := next(others, None)) is not None:
        named = [*named[: MOST_NAMED - 1], opposite]
    return ", ".join(
        f"{name} {write(abs(more[path]))} {'more' if more[path] > 0 else 'less'}"
        for path, name in zip(named, _name_paths(change, named), strict=True)
    )


def _name_paths(change: Change, paths: list[int]) -> list[str]:
    """Return the ends of call paths, as long as is needed to tell them apart; what only one side has is said to be
    so."""
    chains = [change.paths.steps(path) for path in paths]
    return [
        f"{short_path(chain, _count_needed(chain, chains))}{_say_alone(change, path)}"
        for chain, path in zip(chains, paths, strict=True)
    ]


def _count_needed(chain: list[str], others: list[list[str]]) -> int:
    """Return how many of its last names tell a call path apart from others."""
    length = 2
    while sum(other[-length:] == chain[-length:] for other in others) > 1:
        length += 1
    return length


def _say_alone(change: Change, path: int) -> str:
    for side, other in ((change.left, change.right), (change.right, change.left)):
        if not side.reached[path]:
            return f" (only in {other.name})"
    return ""


def short_path(steps: list[str], length: int = 2) -> str:
    """Return the last names of a call path, `solve/kernel`; a place is shown without the folders it lies in."""
    names = [step.rpartition("/")[2] if step.startswith(("/", "loop at /")) else step for step in steps[-length:]]
    return "/".join(name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in names)


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the ends of paths that tell them apart: `old/run.d` and `new/run.d`, or `run.d` alone."""
    parts = [name.rstrip("/").split("/") for name in names]
    different, length = len(set(names)), 1
    while len({tuple(part[-length:]) for part in parts}) < different and length < max(map(len, parts)):
        length += 1
    return tuple("/".join(part[-length:]) or name for part, name in zip(parts, names, strict=True))


def _percent(share: float, whole: bool = False) -> str:
    """Return a share of 1 in percent: three digits at most, and nothing that rounds to 0."""
    percent = 100 * share
    if percent < 0.1:
        return "less than 0.1%"
    if whole or percent >= 10:
        text = f"{percent:,.0f}" if percent >= 1 else f"{percent:.1f}"
        return "almost 100%" if text == "100" and share < 1 else f"{text}%"
    return f"{percent:.1f}%"
