"""Call stacks of samples: functions and what else is called, without the loops, lines and instructions inside them.

Measurements without program structure have no functions: there an instruction is called by another, and is a frame.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from callgrove.analysis.groups import nearest
from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.viewer.timeline.events import MOST_LEVELS, Names

__all__ = ["FrameNames", "Stacks"]


class Stacks:
    """The frames above contexts. A frame is a context; frames of one region have one name."""

    def __init__(self, tree: ContextTree) -> None:
        self.tree = tree

    @cached_property
    def _frames(self) -> tuple[Ids, Ids, Ids]:
        """The frame of every context; of every frame the one above it, and how many there are above."""
        tree = self.tree
        frame = nearest(tree, ~(tree.folded | (tree.kind == ContextKind.LOOP)))
        above = np.where(tree.parent >= 0, np.append(frame, ABSENT)[tree.parent], ABSENT).astype(np.int32)
        depth: list[int] = []
        for context, (own, up) in enumerate(zip(frame.tolist(), above.tolist(), strict=True)):
            depth.append(depth[own] if own != context else depth[up] + 1 if up >= 0 else 0)
        return frame, above, np.array(depth, np.int32)

    def depth(self, contexts: Ints) -> Ids:
        """How many frames lie above the innermost one of each context."""
        out: Ids = self._frames[2][contexts]
        return out

    def frames(self, contexts: Ids | Ints) -> Ints:
        """The innermost frame of each context's stack."""
        out: Ints = self._frames[0][contexts].astype(np.int64)
        return out

    def cut(self, contexts: Ints, depth: int) -> Ints:
        """The innermost frame of each context's stack that is no deeper."""
        frame, above, depths = self._frames
        found = frame[contexts]
        while (deeper := depths[found] > depth).any():
            found = np.where(deeper, above[found], found)
        return found.astype(np.int64)

    def at(self, contexts: Ints, depth: int) -> Ids:
        """The frame at a depth of each context's stack, -1 where it ends before."""
        found = self.cut(contexts, depth)
        out: Ids = np.where(self.depth(found) == depth, found, ABSENT).astype(np.int32)
        return out

    def n_levels(self, contexts: Ints) -> int:
        """How deep the stacks are, as far as they are shown."""
        return min(int(self.depth(contexts).max(initial=-1)) + 1, MOST_LEVELS)

    def names(self, frames: Ids | Ints) -> Ints:
        """Below 0: -1 - region; frames without a region share the name of their kind."""
        region, kind = self.tree.region[frames].astype(np.int64), self.tree.kind[frames].astype(np.int64)
        return -1 - np.where(region >= 0, region, len(self.tree.regions) + kind)

    def text(self, name: int) -> tuple[str, str]:
        """What a name is, and the kind of thing that it names."""
        number = -1 - name
        regions = self.tree.regions
        if number >= len(regions):
            word = ContextKind(number - len(regions)).word
            return f"<{word}>", word
        return regions.label(number), ContextKind(int(regions.kind[number])).word


class FrameNames:
    """The numbers of names of innermost frames, by context: one lookup for a sample, whatever its stack."""

    def __init__(self, stacks: Stacks, names: Names) -> None:
        self.stacks, self.names = stacks, names
        self._number = np.full(len(stacks.tree), ABSENT, np.int32)

    def meet(self, contexts: Ids) -> None:
        """Give numbers to the names of contexts that are new."""
        new = contexts[self._number[contexts] < 0]
        if len(new):
            new = np.unique(new)
            self._number[new] = self.names.of(self.stacks.names(self.stacks.frames(new)))

    def of(self, contexts: Ids) -> Ids:
        """Return the number of each context, which must have been met."""
        numbers: Ids = self._number[contexts]
        return numbers
