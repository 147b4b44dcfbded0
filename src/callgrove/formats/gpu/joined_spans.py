"""The spans of several small data sets, read at once where these are of a kind that allows it.

The same spans as `DataSetSpans` gives, under the same numbers; chunks mix data sets, and come table by table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from callgrove.formats.gpu.dataset import DataSet
from callgrove.formats.gpu.pages import Unusual
from callgrove.formats.gpu.rocpd import RocpdData
from callgrove.formats.gpu.rocpd_together import RocpdTogether
from callgrove.formats.gpu.spans import DataSetSpans, kept_events
from callgrove.model.arrays import ABSENT, Array, Ids, Ints
from callgrove.model.traces import SideTable, SpanChunk, Window

__all__ = ["JoinedSpans"]

SIZES = ("copy", "alloc")
STACK = "stack"


class JoinedSpans(DataSetSpans):
    """Spans of data sets whose lanes, one after the other, are the profiles."""

    def __init__(self, datasets: Sequence[DataSet], profiles: Sequence[Ids]) -> None:
        super().__init__(datasets, profiles)
        own = [dataset for dataset in datasets if isinstance(dataset, RocpdData)]
        files = {dataset.path for dataset in own}
        # both ways of reading number the same list of names: one may follow the other
        together = len(own) == len(files) == len(datasets)
        self._together = RocpdTogether(own, self._names) if together else None

    def count(self) -> int:
        if self._together is not None:
            try:
                return self._together.firsts()[-1]
            except Unusual:
                pass  # then data set by data set
        return super().count()

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        chunks = self._read_at_once(columns, window, profiles)
        yield from super().chunks(columns, window, profiles) if chunks is None else chunks

    def _read_at_once(
        self, columns: Sequence[str], window: Window | None, profiles: Ints | None
    ) -> list[SpanChunk] | None:
        """All of them at once; None where each data set has to be read by itself."""
        if self._together is None or "depth" in columns:
            return None
        asked = {"lane" if name == "profile" else name for name in columns} - {"context"}
        if window is not None:
            asked |= {"start_ns", "end_ns"}
        if profiles is not None:
            asked.add("lane")
        try:
            events = self._together.events(sorted(asked))
        except Unusual:
            self._together = None
            return None
        lanes = np.concatenate(self._profiles)
        out = []
        for chunk in events:
            kept = kept_events(chunk, window, lanes, profiles)
            made: dict[str, Array] = {"span": kept["span"]}
            for name in columns:
                if name == "context":
                    made[name] = np.full(len(made["span"]), ABSENT, np.int32)
                else:
                    made[name] = lanes.take(kept["lane"]) if name == "profile" else kept[name]
            out.append(made)
        return [chunk for chunk in out if len(chunk["span"])]

    def release(self) -> None:
        if self._together is not None:
            self._together.give_back()

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        if self._together is not None and part is None and name in (*SIZES, STACK):
            try:
                if name in SIZES:
                    return self._together.sizes(name)
                if not self._together.has_stacks:
                    return None
            except Unusual:
                pass  # then data set by data set
        return super().side(name, part)

    @property
    def has_counters(self) -> bool:
        """May there be quantities over time? These belong to samples."""
        try:
            return self._together is None or self._together.has_samples
        except Unusual:
            return True
