"""The values of several runs, or of several value types, as one: a chain of links, never copied.

Each link has a backend with ids of its own and says which profiles of the whole it answers for and how its contexts
and metrics are called there. A link's context may be absent from the whole (-1): its values are then left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.errors import CallgroveError
from callgrove.model.arrays import Ids, Ints
from callgrove.model.values import Block, SparseBlock, ValueBackend

__all__ = ["ChainedValues", "Link"]


@dataclass(frozen=True)
class Link:
    """One backend in a chain. Each map gives, for an id of the backend, the id in the whole, or -1."""

    backend: ValueBackend
    profiles: Ids
    contexts: Ids
    metrics: Ids

    def outward(self, block: SparseBlock) -> SparseBlock:
        """A block of the backend in the ids of the whole."""
        mapped = SparseBlock(
            self.profiles[block.profile], self.contexts[block.context], self.metrics[block.metric], block.value
        )
        kept = (mapped.profile >= 0) & (mapped.context >= 0) & (mapped.metric >= 0)
        return mapped if kept.all() else mapped.take(kept)

    def inward(self, mapping: Ids, wanted: Ints) -> Ints:
        """Which of the backend's ids mean one of the wanted ids of the whole."""
        return np.flatnonzero(np.isin(mapping, wanted) & (mapping >= 0))


class ChainedValues:
    """Values of several backends. Several contexts of one link may be one context of the whole."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = tuple(links)

    @property
    def problems(self) -> list[CallgroveError]:
        """What every link met."""
        return [problem for link in self._links for problem in link.backend.problems]

    def n_stored(self) -> int | None:
        counts = [link.backend.n_stored() for link in self._links if (link.contexts >= 0).all() and (link.metrics >= 0).all()]
        known = [c for c in counts if c is not None]
        return sum(known) if len(known) == len(self._links) else None

    def profile(self, profile: int) -> SparseBlock:
        found = [
            link.outward(link.backend.profile(own))
            for link in self._links
            for own in link.inward(link.profiles, np.array([profile])).tolist()
        ]
        return SparseBlock.joined([b for b in found if len(b)])

    def context(self, context: int) -> SparseBlock:
        found = [
            link.outward(link.backend.context(own))
            for link in self._links
            for own in link.inward(link.contexts, np.array([context])).tolist()
        ]
        return SparseBlock.joined([b for b in found if len(b)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        for link in self._links:
            own = np.flatnonzero(link.profiles >= 0) if profiles is None else link.inward(link.profiles, profiles)
            wanted = None if metrics is None else link.inward(link.metrics, metrics)
            if len(own) and (wanted is None or len(wanted)):
                for block in link.backend.blocks(own, wanted):
                    mapped = link.outward(block.triples())
                    if len(mapped):
                        yield mapped
