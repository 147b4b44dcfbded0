"""Which contexts a pattern finds, and which lie on the paths that it matches.

    main -> ** -> MPI_*            steps 0, 1, 2; step 1 takes any number of contexts

A context takes part as one or several steps of the pattern: a set of bits for each context, 64 at most.

    downwards   reached[c]     steps that c can be, as the end of a path that began at or above it
    upwards     completed[c]   steps that c can be, as the beginning of what is left of the pattern

A path ends where a last step is reached. A context lies on a matching path where a step is reached and completed. All
paths count, also those through contexts that fit a later step. Both passes go level by level over all contexts: time is
linear in contexts x steps.

A step is a call: what is nested in a function (`columns.py`) is passed over, and wildcards do not take it, unless
their condition asks for the kind. A name may be that of a line or a loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from callgrove.arrays import Bools
from callgrove.errors import UsageError
from callgrove.model.definitions import show_excerpt
from callgrove.patterns.columns import ContextColumns
from callgrove.patterns.conditions import Condition, columns_named, find_nearest
from callgrove.patterns.expressions import match_texts
from callgrove.patterns.hatchet import is_hatchet_query, translate_query
from callgrove.patterns.syntax import NameTest, Pattern, Step, parse_pattern

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment

__all__ = ["Matcher"]

Bits = npt.NDArray[np.uint64]
ONE = np.uint64(1)
NONE = np.uint64(0)


class Matcher:
    """Answers patterns over the contexts of one experiment; names and costs are looked at once."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.columns = experiment, ContextColumns(experiment)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.columns.text("name").texts)

    def read(self, text: str) -> Pattern:
        """Return the pattern that a text means: a text that is the name of a context means that name, and one that
        begins with MATCH is a query of Hatchet."""
        if text in self._names:
            return Pattern(text, (Step(NameTest("exact", text)),))
        return translate_query(text) if is_hatchet_query(text) else parse_pattern(text)

    def find(self, pattern: Pattern | str) -> Bools:
        """Return the contexts of the tree at which a matching path ends; none is an error that names the nearest."""
        walk = self._walk(pattern)
        return self._demand(walk, (walk.reached & walk.last) != 0)

    def find_paths(self, pattern: Pattern | str) -> Bools:
        """Return every context of the tree that lies on a matching path; none is an error that names the nearest."""
        walk = self._walk(pattern)
        return self._demand(walk, (walk.reached & walk.completed) != 0)

    def _walk(self, pattern: Pattern | str) -> _Walk:
        return _Walk(self, self.read(pattern) if isinstance(pattern, str) else pattern)

    def test_step(self, pattern: Pattern, step: Step) -> Bools:
        """Return the contexts that a step takes, wherever they are."""
        columns = self.columns
        fits = np.ones(columns.n_rows, np.bool_)
        if step.name is not None:
            name = step.name
            fits = columns.text("name").where(lambda texts: match_texts(name, pattern.text, texts))
        elif step.condition is None or all(column.name != "kind" for column in columns_named(step.condition)):
            fits &= ~columns.bodies.nested
        if step.condition is not None:
            fits = fits & Condition(pattern.text, step.condition).choose(columns)
        return fits

    def _demand(self, walk: _Walk, chosen: Bools) -> Bools:
        """Return contexts, of which there must be any."""
        if chosen.any():
            return chosen
        for step, fits in zip(walk.pattern.steps, walk.any_fits, strict=True):
            if not fits and step.name is not None and step.condition is None and step.name.kind != "regex":
                hint = find_nearest(step.name.text, self._names)
                raise UsageError(f"there is no context {step.name.text!r}{hint}")
        raise UsageError(f"no context fits {show_excerpt(walk.pattern.text, 0)}")


class _Walk:
    """One pattern over one tree."""

    def __init__(self, matcher: Matcher, pattern: Pattern) -> None:
        self.pattern, self.tree = pattern, matcher.experiment.contexts
        self._parent = self.tree.parent[: self.tree.n_listed]
        self._nested = matcher.columns.bodies.nested
        steps = pattern.steps
        self._many = _bits(step.many for step in steps)
        self._longest_run = _longest_run(steps)
        self.last = _bits(all(later.many for later in steps[k + 1 :]) for k in range(len(steps)))
        self._first = self._skip_forward(np.array([1], np.uint64))[0]
        self._fits = np.zeros(len(self._parent), np.uint64)
        self.any_fits: list[bool] = []
        for number, step in enumerate(steps):
            fits = matcher.test_step(pattern, step)
            self._fits |= fits.astype(np.uint64) << np.uint64(number)
            self.any_fits.append(bool(fits.any()))

    def _skip_forward(self, steps: Bits) -> Bits:
        """Return steps and those that come next where a step takes no context at all."""
        for _ in range(self._longest_run):
            steps = steps | ((steps & self._many) << ONE)
        return steps

    def _skip_back(self, steps: Bits) -> Bits:
        for _ in range(self._longest_run):
            steps = steps | ((steps >> ONE) & self._many)
        return steps

    @cached_property
    def reached(self) -> Bits:
        """The steps that each context can be, as the end of a path."""
        reached = np.zeros(len(self._parent), np.uint64)
        following = np.zeros(len(self._parent) + 1, np.uint64)  # steps that a child can be; the last entry is of no one
        for level in self.tree.levels:
            above = following[self._parent[level]]
            here = reached[level] = (above | self._first) & self._fits[level]
            after = self._skip_forward((here << ONE) | (here & self._many))
            following[level] = after | np.where(self._nested[level], above, NONE)
        return reached

    @cached_property
    def completed(self) -> Bits:
        """The steps that each context can be, if what is left of the pattern is to fit it or contexts below it."""
        completed = np.zeros(len(self._parent), np.uint64)
        below = np.zeros(len(self._parent), np.uint64)  # steps that a child can be
        for level in reversed(self.tree.levels):
            left = self._skip_back(below[level])
            here = completed[level] = self._fits[level] & (self.last | (left >> ONE) | (left & self._many))
            has_parent = self._parent[level] >= 0
            offered = here | np.where(self._nested[level], below[level], NONE)
            np.bitwise_or.at(below, self._parent[level][has_parent], offered[has_parent])
        return completed


def _bits(holds: Iterable[bool]) -> np.uint64:
    return np.uint64(sum(1 << number for number, one in enumerate(holds) if one))


def _longest_run(steps: Sequence[Step]) -> int:
    """Return how many steps in a row may take no context."""
    longest = run = 0
    for step in steps:
        run = run + 1 if step.many else 0
        longest = max(longest, run)
    return longest
