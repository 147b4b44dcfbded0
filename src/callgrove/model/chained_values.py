"""The values of several runs, or of several value types, as one: a chain of links, never copied.

Each link has a backend with ids of its own and says which profiles of the whole it answers for and how its contexts
and metrics are called there. A link's context may be absent from the whole (-1): its values are then left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from callgrove.arrays import Ids, Ints
from callgrove.errors import CallgroveError
from callgrove.model.profiles import Profiles
from callgrove.model.values import (
    ArrayValues,
    Block,
    DenseBlock,
    NoValues,
    SparseBlock,
    ValueBackend,
    blocks_without_fillers,
    has_fillers,
)

__all__ = ["ChainedValues", "Link", "in_memory"]


@dataclass(frozen=True)
class Link:
    """One backend in a chain. Each map gives, for an id of the backend, the id in the whole, or -1."""

    backend: ValueBackend
    profiles: Ids
    contexts: Ids
    metrics: Ids

    def outward(self, block: SparseBlock) -> SparseBlock:
        """Return a block of the backend in the ids of the whole."""
        mapped = SparseBlock(
            self.profiles[block.profile],
            self.contexts[block.context],
            self.metrics[block.metric],
            block.value,
            block.fillers,
        )
        kept = (mapped.profile >= 0) & (mapped.context >= 0) & (mapped.metric >= 0)
        return mapped if kept.all() else mapped.take(kept)

    def choose_metrics(self, metrics: Ints | None) -> Ints | None:
        """Return the backend's own rows for some metrics of the whole. All that the whole has may be less than the
        backend has: the rest is not even read."""
        if metrics is None and (self.metrics >= 0).all():
            return None
        return np.flatnonzero(self.metrics >= 0) if metrics is None else self.inward(self.metrics, metrics)

    def outward_dense(self, block: DenseBlock) -> DenseBlock:
        """Return a matrix in the ids of the whole; what the whole does not have is left out."""
        contexts, profiles = self.contexts[block.contexts], self.profiles[block.profiles]
        matrix, fillers = block.matrix, block.fillers
        if (contexts < 0).any() or (profiles < 0).any():
            kept = np.ix_(contexts >= 0, profiles >= 0)
            matrix, fillers = matrix[kept], None if fillers is None else fillers[kept]
            contexts, profiles = contexts[contexts >= 0], profiles[profiles >= 0]
        return DenseBlock(int(self.metrics[block.metric]), contexts, profiles, matrix, block.neutral, fillers)

    def inward(self, mapping: Ids, wanted: Ints) -> Ints:
        """Return which of the backend's ids mean one of the wanted ids of the whole."""
        return np.flatnonzero(np.isin(mapping, wanted) & (mapping >= 0))


ReadLink = Callable[[Link, Ints, Ints | None], Iterator[Block]]


class ChainedValues:
    """Values of several backends. Several contexts of one link may be one context of the whole."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = tuple(links)

    @property
    def problems(self) -> list[CallgroveError]:
        """What every link met."""
        return [problem for link in self._links for problem in link.backend.problems]

    def n_stored(self) -> int | None:
        whole = all((ids >= 0).all() for link in self._links for ids in (link.profiles, link.contexts, link.metrics))
        counts = [link.backend.n_stored() for link in self._links] if whole else [None]
        known = [c for c in counts if c is not None]
        return sum(known) if len(known) == len(counts) else None

    def summarises(self, metric: int) -> bool:
        rows_of_links = [(link.backend, link.inward(link.metrics, np.array([metric])).tolist()) for link in self._links]
        answers = [backend.summarises(row) for backend, rows in rows_of_links for row in rows]
        return bool(answers) and all(answers)

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        blocks = [
            link.outward(link.backend.profile(number, link.choose_metrics(metrics)))
            for link in self._links
            for number in link.inward(link.profiles, np.array([profile])).tolist()
        ]
        return SparseBlock.concatenate([b for b in blocks if len(b)])

    def context(self, context: int) -> SparseBlock:
        blocks = [
            link.outward(link.backend.context(number))
            for link in self._links
            for number in link.inward(link.contexts, np.array([context])).tolist()
        ]
        return SparseBlock.concatenate([b for b in blocks if len(b)])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        return self._blocks(profiles, metrics, lambda link, numbers, wanted: link.backend.blocks(numbers, wanted))

    def blocks_without_fillers(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        """Yield blocks without the fillers of links that have any."""
        return self._blocks(
            profiles, metrics, lambda link, numbers, wanted: blocks_without_fillers(link.backend, numbers, wanted)
        )

    @property
    def has_fillers(self) -> bool:
        return any(has_fillers(link.backend) for link in self._links)

    def _blocks(self, profiles: Ints | None, metrics: Ints | None, read: ReadLink) -> Iterator[Block]:
        for link in self._links:
            numbers = np.flatnonzero(link.profiles >= 0) if profiles is None else link.inward(link.profiles, profiles)
            wanted = link.choose_metrics(metrics)
            if len(numbers) and (wanted is None or len(wanted)):
                for block in read(link, numbers, wanted):
                    mapped: Block
                    if isinstance(block, DenseBlock):
                        mapped = link.outward_dense(block)
                    else:
                        mapped = link.outward(block)
                    if len(mapped):
                        yield mapped


def in_memory(blocks: Sequence[SparseBlock], profiles: Profiles, n_contexts: int, n_metrics: int) -> ValueBackend:
    """Values held in memory: one backend, or a chain of one for each value type, so that integers stay exact."""
    backends = [ArrayValues(SparseBlock.concatenate(part), profiles) for part in _by_type(blocks)]
    if len(backends) <= 1:
        return backends[0] if backends else NoValues()
    ids = (np.arange(n, dtype=np.int32) for n in (len(profiles), n_contexts, n_metrics))
    maps = tuple(ids)
    return ChainedValues([Link(backend, *maps) for backend in backends])


def _by_type(blocks: Sequence[SparseBlock]) -> list[list[SparseBlock]]:
    """Divide rows by value type; a metric has one type, the smallest that holds all that was given for it."""
    if len({b.value.dtype for b in blocks}) <= 1:
        return [list(blocks)] if blocks else []
    types: dict[int, np.dtype[Any]] = {}
    parts = [(m, b.take(b.metric == m)) for b in blocks for m in np.unique(b.metric).tolist()]
    for metric, part in parts:
        types[metric] = np.promote_types(types.get(metric, part.value.dtype), part.value.dtype)
    out: dict[np.dtype[Any], list[SparseBlock]] = {}
    for metric, part in parts:
        kind = types[metric]
        out.setdefault(kind, []).append(replace(part, value=part.value.astype(kind)))
    return list(out.values())
