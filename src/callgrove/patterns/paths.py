"""Call paths as a column: `main->solve->kernel` of every context, of which no two are held at once without need.

Paths share their beginnings. A regular expression is walked along the tree: what it makes of a caller's path is known,
so each context costs its own name, and contexts of the same name below callers that it cannot tell apart cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from callgrove.arrays import Bools, Ids, Ints
from callgrove.model.contexts import LONGEST_PATH, ContextTree
from callgrove.model.cubepl.patterns import BEGIN, Place
from callgrove.patterns.expressions import Walk, match_texts
from callgrove.patterns.syntax import NameTest

__all__ = ["CallPaths"]

BATCH = 1 << 14  # texts that are held at once
ARROW = "->"


@dataclass(frozen=True)
class CallPaths:
    """The call path of every context of a tree. `codes` are the numbers of their names among `names`."""

    tree: ContextTree
    codes: Ids
    names: Sequence[str]

    @property
    def present(self) -> Bools:
        """Every row has a text."""
        return np.ones(len(self.codes), np.bool_)

    def where(self, holds: Callable[[Sequence[str]], Bools]) -> Bools:
        """Return the rows whose text fulfils a test."""
        texts = self.cells()
        parts = (holds(list(islice(texts, BATCH))) for _ in range(0, len(self.codes), BATCH))
        return np.concatenate([np.empty(0, np.bool_), *parts])

    def cells(self) -> Iterator[str]:
        """Yield the text of each row. In preorder, what is above a context was yielded before it."""
        above: list[str] = []
        depths = self.tree.depth[: len(self.codes)].tolist()
        for context, (depth, code) in enumerate(zip(depths, self.codes.tolist(), strict=True)):
            del above[depth:]
            if depth < LONGEST_PATH:
                above.append(above[-1] + ARROW + self.names[code] if above else self.names[code])
                yield above[-1]
            else:
                yield self.tree.path(context)  # its middle is cut

    def match(self, test: NameTest, text: str) -> Bools:
        """Return the rows whose path a regular expression finds something in; `text` is what it was read from."""
        steps = _Steps(Walk(test, text), self.names)
        place_of = np.zeros(len(self.codes) + 1, np.int64)  # the last one is above all roots
        for level in self.tree.levels[:LONGEST_PATH]:
            place_of[level] = steps.take(place_of[self.tree.parent[level]], self.codes[level])
        out = steps.are_finds()[place_of[:-1]]
        for level in self.tree.levels[LONGEST_PATH:]:
            out[level] = match_texts(test, text, [self.tree.path(context) for context in level.tolist()])
        return out


class _Steps:
    """The places that a walk has come to, by number: 0 is where it begins, above all roots."""

    def __init__(self, walk: Walk, names: Sequence[str]) -> None:
        self._walk, self._names = walk, names
        self._places: list[Place] = [BEGIN]
        self._numbers: dict[Place, int] = {}

    def take(self, places: Ints, codes: Ids) -> Ints:
        """Return where the walk comes to from places, by the name of each context."""
        pairs, pair_of = np.unique(places * len(self._names) + codes, return_inverse=True)
        taken = [self._step(*divmod(pair, len(self._names))) for pair in pairs.tolist()]
        return np.array(taken, np.int64)[pair_of]

    def _step(self, place: int, code: int) -> int:
        name = self._names[code]
        after = self._walk.advance(self._places[place], ARROW + name if place else name)
        number = self._numbers.setdefault(after, len(self._places))
        if number == len(self._places):
            self._places.append(after)
        return number

    def are_finds(self) -> Bools:
        """Return in which places the expression has found something, if a path ends there."""
        return np.array([self._walk.ends_at(place) for place in self._places], np.bool_)
