"""Kernels under the name of the range that they were launched in, where the profiler says so (rocprofv3 does)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.texts import Names, Translation
from callgrove.model.traces import LABEL, SpanChunk, SpanKind, Traces

__all__ = ["RegionNames"]

REGION_NAME = "region_name"  # of the side table `extra`


class RegionNames:
    """Renames kernels chunk after chunk; `strings` are the names afterwards. Memory holds those of one part."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._names = Names()
        self._translation = Translation(self._names)
        self._part_of = {int(p): number for number, part in enumerate(traces.parts()) for p in part.tolist()}
        self._part = ABSENT
        self._span: Ints = np.empty(0, np.int64)
        self._name: Ids = np.empty(0, np.int32)
        self.n_renamed = 0

    @property
    def strings(self) -> Sequence[str]:
        """What the columns `name` and `label` refer to afterwards; the list grows."""
        return self._names.all

    def of(self, chunk: SpanChunk) -> SpanChunk:
        """A chunk of one part, with the columns `profile` and `kind`: its names and labels are those of `strings`."""
        backend = self._traces.spans_backend
        if backend is None or not len(chunk["span"]):
            return chunk
        self._read(self._part_of[int(chunk["profile"][0])])
        place = np.searchsorted(self._span, chunk["span"])
        said = np.append(self._span, ABSENT)[place] == chunk["span"]
        renamed = np.flatnonzero(said & (chunk["kind"] == SpanKind.KERNEL))
        self.n_renamed += len(renamed)
        out = dict(chunk)
        for column in {"name", LABEL} & out.keys():
            names = self._translation.numbers(chunk[column], backend.strings)
            names[renamed] = self._name[place[renamed]]
            out[column] = names
        return out

    def _read(self, part: int) -> None:
        """The names of ranges of a part, by span."""
        if part == self._part:
            return
        self._part = part
        table = self._traces.side("extra", part)
        if table is None:
            self._span, self._name = np.empty(0, np.int64), np.empty(0, np.int32)
            return
        rows = np.flatnonzero(np.asarray(table.columns["name"], np.object_) == REGION_NAME)
        self._span, first = np.unique(table.span[rows], return_index=True)
        texts = np.asarray(table.columns["value"], np.object_)[rows[first]]
        self._name = self._names.numbers([str(text) for text in texts.tolist()])
