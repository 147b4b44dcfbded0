"""Values that are computed when they are asked for, one tile at a time.

A tile is some profiles and some metric rows, and always all contexts: scopes and folds need whole trees. Where inputs
are stored profile by profile a tile is a few profiles with all metrics; where they are stored metric by metric, it is
one quantity over all profiles, so that every metric is unpacked once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from callgrove.errors import CallgroveError
from callgrove.model.arrays import Array, Ints
from callgrove.model.books import KeepsBooks, Totals
from callgrove.model.metrics import Metric
from callgrove.model.values import Block, DenseBlock, SparseBlock, ValueBackend

__all__ = ["TILE_VALUES", "TiledValues", "is_by_metric", "sparse"]

TILE_VALUES = 1 << 17  # about what a tile holds: more does not fit the caches
WHOLE_METRIC = 1 << 23  # cells of a metric that is unpacked at once


class TiledValues(ABC):
    """A backend over other backends. A subclass computes one tile; no profile and metric is in two tiles."""

    def __init__(
        self, sources: Sequence[ValueBackend], metrics: Sequence[Metric], n_profiles: int, n_cells: int
    ) -> None:
        """`n_cells` is the most that one profile can hold: contexts x metric rows."""
        self._sources = tuple(sources)
        self._metrics = tuple(metrics)
        self._n_profiles = n_profiles
        self._n_cells = max(1, n_cells)

        self._made: Totals | None = None

    def start_books(self) -> None:
        """Begin to add up what is read and what is made of it; a subclass says of what."""
        for source in self._sources:
            if isinstance(source, KeepsBooks):
                source.start_books()

    def differences(self) -> Iterator[str]:
        """Yield what inputs that are results themselves have lost; a subclass says what it has."""
        for source in self._sources:
            if isinstance(source, KeepsBooks):
                yield from source.differences()

    @abstractmethod
    def tile(self, profiles: Ints, rows: Ints) -> Iterator[SparseBlock]:
        """All values of these profiles and metric rows."""

    @property
    def problems(self) -> list[CallgroveError]:
        """What every input met."""
        return [problem for source in self._sources for problem in source.problems]

    def n_stored(self) -> int | None:
        return None

    def summarises(self, metric: int) -> bool:
        return False

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        rows = np.arange(len(self._metrics)) if metrics is None else metrics
        return SparseBlock.joined([b for b in self.tile(np.array([profile]), rows) if len(b)])

    def context(self, context: int) -> SparseBlock:
        parts = (block.triples() for block in self.blocks())
        return SparseBlock.joined([b for part in parts if len(b := part.take(part.context == context))])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        chosen = np.arange(self._n_profiles) if profiles is None else profiles
        rows = np.arange(len(self._metrics)) if metrics is None else metrics
        for some_profiles, some_rows in self._tiles(chosen, rows):
            for block in self.tile(some_profiles, some_rows):
                if len(block):
                    if self._made is not None:
                        self._made.add(block)
                    yield block

    @property
    def by_metric(self) -> bool:
        """Are the inputs stored metric by metric?"""
        return any(is_by_metric(source) for source in self._sources)

    def _tiles(self, profiles: Ints, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
        if not len(profiles) or not len(rows):
            return
        groups = [rows]
        if len(np.unique(rows)) > 1 and len(profiles) > 1 and self.by_metric:
            names = np.array([self._metrics[row].name for row in rows.tolist()])
            groups = [rows[names == name] for name in dict.fromkeys(names.tolist())]
        for group in groups:
            per_profile = self._n_cells * len(group) // len(self._metrics)
            known = [source.n_stored() for source in self._sources]
            if all(count is not None for count in known) and len(groups) == 1:
                stored = sum(count for count in known if count is not None)
                per_profile = min(per_profile, stored // self._n_profiles)
            step = max(1, (TILE_VALUES if len(groups) == 1 else WHOLE_METRIC) // max(1, per_profile))
            for start in range(0, len(profiles), step):
                yield profiles[start : start + step], group


def is_by_metric(backend: ValueBackend) -> bool:
    """Does a backend give its values metric by metric? Its first block tells."""
    if isinstance(backend, TiledValues):
        return backend.by_metric
    return isinstance(next(iter(backend.blocks()), None), DenseBlock)


def sparse(matrix: Array, profiles: Array, row: int, neutral: float = 0.0) -> SparseBlock:
    """What is not neutral of a matrix (contexts x profiles)."""
    return DenseBlock(row, np.arange(len(matrix), dtype=np.int32), profiles.astype(np.int32), matrix, neutral).triples()
