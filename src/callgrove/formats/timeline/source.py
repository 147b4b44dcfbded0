"""The spans of one part of a trace, by process and time, with what belongs to them.

    file order --> side tables beside it --> launches look at it --> SpanOrder --> chunks of one process each

Side tables (grids, sizes, addresses) would not fit into memory beside a large trace, so what is wanted of them goes
along with the spans, in columns that all kinds of spans share: SIDES says which column holds what for which kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from callgrove.formats.losses import is_told
from callgrove.formats.timeline.content import OPEN
from callgrove.formats.timeline.launches import AGAIN, Launches, is_narrow, narrow
from callgrove.model.arrays import ABSENT, Array, Ints
from callgrove.model.books import ALLOCATED, COPIED, Ledger
from callgrove.model.region_names import RegionNames
from callgrove.model.side_rows import SideChunks
from callgrove.model.span_order import SpanOrder
from callgrove.model.texts import Names
from callgrove.model.traces import LABEL, PARENT, SpanChunk, SpanKind, Traces

__all__ = ["PLURALS", "Annotations", "OrderedSpans", "side_columns", "side_of", "sizes_of"]

COLUMNS = ("profile", "kind", "category", LABEL, "start_ns", "end_ns", "correlation")
MISSING = int(np.iinfo(np.int64).min)  # an end that is absent
KERNEL = (*(f"grid_{axis}" for axis in "xyz"), *(f"workgroup_{axis}" for axis in "xyz"), "queue")
COPY = ("bytes", "source", "destination", "queue")
ALLOCATION = ("bytes", "device", "address", "level")
GRAPH = ("graph_exec", "graph_node")
MORE = {  # where slices say everything
    "kernel": (
        *("dispatch", "kernel", "lds", "scratch", "vgpr", "accum_vgpr", "sgpr", "thread", "code_object"),
        *("static_lds", "static_scratch", *GRAPH),
    ),
    "copy": ("thread", "source_address", "destination_address", *GRAPH),
    "alloc": ("queue", "stream", "flags"),
}
SHOWN = {  # columns of side tables that slices can say; `agent` is that of their track
    "kernel": {*KERNEL, *MORE["kernel"], "agent"},
    "copy": {*COPY, *MORE["copy"]},
    "alloc": {*ALLOCATION, *MORE["alloc"]},
}
PLURALS = {"kernel": "kernels", "copy": "copies", "alloc": "allocations"}
TABLE_OF = {SpanKind.KERNEL: "kernel", SpanKind.COPY: "copy", SpanKind.MEMSET: "copy", SpanKind.ALLOC: "alloc"}
OPERATION = "operation"


class Annotations(StrEnum):
    """How much slices say about themselves."""

    NONE = "none"
    DEFAULT = "default"
    ALL = "all"


def side_columns(annotations: Annotations, by_queue: bool) -> Mapping[str, tuple[str, ...]]:
    """By side table: what is wanted of it. Allocations are wanted in any case, for the memory in use."""
    if annotations is Annotations.NONE:
        queue = ("queue",) if by_queue else ()
        return {"kernel": queue, "copy": queue, "alloc": ALLOCATION}
    usual = {"kernel": KERNEL, "copy": COPY, "alloc": ALLOCATION}
    if annotations is Annotations.DEFAULT:
        return usual
    return {table: (*columns, *MORE[table]) for table, columns in usual.items()}


def side_of(kind: SpanKind, column: str, wanted: Mapping[str, tuple[str, ...]]) -> str | None:
    """The column of ordered chunks that holds a column of the side table of spans of a kind."""
    own = wanted.get(TABLE_OF.get(kind, ""), ())
    return f"side{own.index(column)}" if column in own else None


def sizes_of(rows: SpanChunk, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[Ints, Ints]]:
    """Return the rows that are copies and allocations whose bytes are known, and these."""
    kind, out = rows["kind"], {}
    for what, kinds in ((COPIED, (SpanKind.COPY, SpanKind.MEMSET)), (ALLOCATED, (SpanKind.ALLOC,))):
        column = side_of(kinds[0], "bytes", wanted)
        if column is not None and (own := np.isin(kind, kinds)).any():
            found = np.flatnonzero(own & (rows[column] >= 0))
            out[what] = found, rows[column][found].astype(np.int64, copy=False)
    return out


@dataclass
class OrderedSpans:
    """The spans of part number `part` of the traces, on these profiles; `process[p]` is the process of profile p.
    What is read goes into `given`: also bytes, where slices say them."""

    traces: Traces
    part: int
    profiles: Ints | None
    process: Ints
    wanted: Mapping[str, tuple[str, ...]]
    annotations: Annotations = Annotations.DEFAULT
    kernel_rename: bool = False
    given: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.levels = Names()  # of memory: column `level` numbers these
        self.unshown: Counter[str] = Counter()  # cells of side tables that no slice can say
        self.region_names = RegionNames(self.traces) if self.kernel_rename else None
        self._latest: dict[int, int] = {}
        n = max((len(columns) for columns in self.wanted.values()), default=0)
        self._sides = [f"side{k}" for k in range(n)]
        self._columns = (*COLUMNS, PARENT) if self.annotations is Annotations.ALL else COLUMNS
        self._launches, self._order = Launches(self.process), SpanOrder(self.process)
        seen = Ledger().add_side if self.annotations is Annotations.NONE else self.given.add_side
        self._tables = {
            table: SideChunks(self.traces, table, self.part, seen) for table, names in self.wanted.items() if names
        }

    @property
    def labels(self) -> Sequence[str]:
        """What the labels of spans refer to."""
        if self.region_names is not None:
            return self.region_names.strings
        return [] if self.traces.spans_backend is None else self.traces.spans_backend.strings

    def latest(self, process: int) -> int:
        """The last moment of a process, once its spans are given."""
        return self._latest.get(process, 0)

    def read(self) -> Iterator[SpanChunk]:
        """All of them, for `add`: in file order."""
        return self.traces.spans(self._columns, profiles=self.profiles)

    def add(self, chunk: SpanChunk) -> None:
        """Spans of the part, in file order."""
        self.given.add_spans(chunk)
        chunk = chunk if self.region_names is None else self.region_names.of(chunk)
        out = {name: chunk[name] for name in ("span", *self._columns)}
        open_ = out["end_ns"] == MISSING
        if open_.any():
            out["end_ns"] = np.where(open_ & (out["start_ns"] >= 0), OPEN, out["end_ns"])
        self._note_latest(out)
        out.update(self._sides_of(out))
        out[OPERATION] = narrow(self._launches.seen(out))
        out["correlation"], out["kind"] = narrow(out["correlation"]), out["kind"].astype(np.int8)
        self._order.add(out)

    def chunks(self) -> Iterator[SpanChunk]:
        """What was added, once: chunks of one process each, with columns for launches and sides."""
        try:
            self._launches.finish(lambda: self.traces.spans(AGAIN, profiles=self.profiles))
            for chunk in self._order.chunks():
                process = int(self.process[chunk["profile"][0]])
                yield {**chunk, **self._launches.of(process, chunk[OPERATION], chunk)}
        finally:
            self.close()

    def close(self) -> None:
        """Give back the temporary file."""
        self._order.close()

    def _note_latest(self, chunk: SpanChunk) -> None:
        ends = np.where(chunk["end_ns"] == OPEN, chunk["start_ns"], chunk["end_ns"])
        process = self.process[chunk["profile"]]
        for number in [int(process[0])] if bool((process == process[0]).all()) else np.unique(process).tolist():
            own = ends[process == number]
            self._latest[number] = max(self._latest.get(number, 0), int(own.max(initial=0)))

    def _sides_of(self, chunk: SpanChunk) -> dict[str, Array]:
        sides, n = self._tables, len(chunk["span"])
        out: dict[str, Array] = {name: np.full(n, ABSENT, np.int32) for name in self._sides}
        kinds = {SpanKind(kind) for kind in np.flatnonzero(np.bincount(chunk["kind"], minlength=1)).tolist()}
        for table in dict.fromkeys(TABLE_OF[kind] for kind in sorted(kinds) if kind in TABLE_OF):
            if table not in sides:
                continue
            owners = [kind for kind, name in TABLE_OF.items() if name == table]
            for piece, rows, place in sides[table].of(chunk["span"]):
                right = np.isin(chunk["kind"][place], owners)
                rows, place = rows[right], place[right]
                for name in piece.columns.keys() - SHOWN[table]:
                    self.unshown[f"{name} of {PLURALS[table]}"] += int(is_told(piece.columns[name])[rows].sum())
                for k, name in enumerate(self.wanted[table]):
                    cells = piece.columns.get(name)
                    if cells is not None:
                        values = np.asarray(cells)[rows]
                        values = self.levels.numbers(values) if name == "level" else values
                        column = out[f"side{k}"]
                        if not is_narrow(values):
                            column = out[f"side{k}"] = column.astype(np.int64)
                        column[place] = values
        return out
