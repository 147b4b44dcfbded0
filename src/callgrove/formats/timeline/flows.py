"""Ends of flows that slices carry: messages, links, arrows of other tools. What a call launched is numbered by itself
(source.py).

    side table `flow` --> PartFlows --> FlowEnds of a batch of slices --> an encoder

A flow is known by a number that is unique in the trace: the part above `ID_BITS`, below them its place among the flows
of the part. Doubles hold such numbers, which JSON readers need.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, Names
from callgrove.model.traces.events import FLOW, FlowDirection, Traces

__all__ = ["FlowEnds", "PartFlows", "name_flow_attribute", "read_flow_attribute"]

ID_BITS = 32


@dataclass(frozen=True)
class FlowEnds:
    """Ends of flows on some slices, by rising rows of these. `direction` is a `FlowDirection`, `name` numbers `names`,
    -1 is none."""

    row: Ints
    id: Ints
    direction: Array
    name: Ids
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Bools) -> FlowEnds:
        return FlowEnds(self.row[chosen], self.id[chosen], self.direction[chosen], self.name[chosen], self.names)

    def by_row(self, n: int) -> tuple[Ints, Ints]:
        """Return for each of n slices the place of its first end, and how many it has."""
        count = np.bincount(self.row, minlength=n).astype(np.int64)
        return np.cumsum(count) - count, count


class PartFlows:
    """The flows of one part of a trace; `number` is that of the part among all of the trace."""

    def __init__(self, traces: Traces, part: int, number: int) -> None:
        self._traces, self._part, self._number = traces, part, number
        self._names = Names()
        self._table: FlowEnds | None = None  # its rows are numbers of spans

    def of(self, spans: Ints) -> FlowEnds | None:
        """Return the ends of flows on spans in any order; None where there are none."""
        table = self._table = self._read() if self._table is None else self._table
        if not len(table):
            return None
        first, last = (np.searchsorted(table.row, spans, side=side) for side in ("left", "right"))
        count = last - first
        if not count.any():
            return None
        row = np.repeat(np.arange(len(spans)), count)
        place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        return FlowEnds(row, table.id[place], table.direction[place], table.name[place], self._names.all)

    def _read(self) -> FlowEnds:
        """Read the flows of all spans of the part, with ids of their own."""
        tables = list(self._traces.side_chunks(FLOW, self._part))
        if not tables:
            nothing = np.empty(0, np.int64)
            return FlowEnds(nothing, nothing, nothing, nothing.astype(np.int32), ())
        span = np.concatenate([table.span for table in tables])
        told, direction = (
            np.concatenate([np.asarray(table.columns[name]) for table in tables]) for name in ("id", "direction")
        )
        name = np.concatenate([self._number_names(table.columns["name"]) for table in tables])
        _, number = np.unique(told, return_inverse=True)
        ids = number.reshape(-1) + (self._number + 1 << ID_BITS)
        return FlowEnds(span, ids, direction.astype(np.int8), name, self._names.all)

    def _number_names(self, cells: Array | Sequence[object]) -> Ids:
        return np.array([self._names(str(cell)) if cell else ABSENT for cell in cells], np.int32)


# -- formats that know no flows ----------------------------------------------------------------------------------------
# An end is an attribute of its slice, whose value is the id: `flow out: message`, and `flow out #2: message` for
# another flow of that name on the same slice.


ATTRIBUTE = re.compile(r"flow (out|step|in)(?: #\d{1,18})?(?:: (.*))?", re.DOTALL)


def name_flow_attribute(direction: FlowDirection, place: int, name: str) -> str:
    """Return what the attribute of an end of a flow is called; `place` counts those alike on one slice from 1."""
    further = f" #{place}" if place > 1 else ""
    return f"flow {direction.name.lower()}{further}{f': {name}' if name else ''}"


def read_flow_attribute(title: str) -> tuple[FlowDirection, str] | None:
    """Return the direction and the name of a flow that an attribute tells; None where it is another attribute."""
    match = ATTRIBUTE.fullmatch(title)
    return None if match is None else (FlowDirection[match[1].upper()], match[2] or "")
