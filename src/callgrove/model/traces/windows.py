"""Windows of time: what texts mean, and the time from one marker to another.

250ms:1.5s    since the first moment of the traces; plain numbers are ns
10%:20%       of the time from the first moment to the last
@1000:@2000   ns of the traces' own clock
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from callgrove.errors import Parameter, UsageError
from callgrove.model.traces.events import LABEL, SpanKind, Window

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment

__all__ = ["TimeWindow", "marker_window"]

_TIME = re.compile(r"(?P<number>\d{1,19}(?:\.\d{1,19})?)(?P<unit>ns|us|ms|s|%)?|@(?P<absolute>\d{1,19})", re.ASCII)
_NS = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


@dataclass(frozen=True)
class TimeWindow:
    """A window of time as a text, checked; what it means depends on the traces."""

    start: str
    end: str

    @classmethod
    def parse(cls, text: str) -> TimeWindow:
        """Read START:END, either of which may be left out."""
        start, colon, end = text.partition(":")
        if not colon or not all(part == "" or _TIME.fullmatch(part) for part in (start, end)):
            raise UsageError(f"{text!r} is not a window like 250ms:1.5s, 10%:20% or 1000:2000 (ns)")
        return cls(start, end)

    def __str__(self) -> str:
        return f"{self.start}:{self.end}"

    @property
    def ends_with_traces(self) -> bool:
        """Whether it ends with the last moment of the traces, whenever that is."""
        return not self.end or (self.end.endswith("%") and Fraction(self.end[:-1]) == 100)

    def of(self, span: Window) -> Window:
        """Return the window in ns of the traces' own clock. The last moment belongs to the window that ends with 100
        %."""
        return _moment(self.start or "0%", span), _moment(self.end or "100%", span)


def _moment(text: str, span: Window) -> int:
    match = _TIME.fullmatch(text)
    assert match is not None
    if match["absolute"]:
        return int(match["absolute"])
    number, unit = Fraction(match["number"]), match["unit"] or ""
    if unit == "%":
        if number > 100:
            raise UsageError(f"{text}: traces end at 100%; a percentage of a window lies between 0% and 100%")
        return span[0] + int((span[1] - span[0]) * number / 100) + (number >= 100)
    return span[0] + int(number * _NS[unit])


def marker_window(experiment: Experiment, first: str, last: str, whole: Window) -> Window:
    """Return the window from the start of the first marker of one name to the end of the last one of another; an empty
    name leaves that side of the window as it is."""
    starts: list[int] = []
    ends: list[int] = []
    strings = experiment.traces.spans_backend.strings if experiment.traces.spans_backend is not None else ()
    for chunk in experiment.traces.spans(("kind", LABEL, "start_ns", "end_ns")):
        markers = np.flatnonzero(chunk["kind"] == SpanKind.MARKER)
        for times, name, column in ((starts, first, "start_ns"), (ends, last, "end_ns")):
            if name:
                called = [
                    number
                    for number in np.unique(chunk[LABEL][markers]).tolist()
                    if number >= 0 and strings[number] == name
                ]
                moments = chunk[column][markers[np.isin(chunk[LABEL][markers], called)]]
                times += [int(moments.min()), int(moments.max())] if len(moments) else []
    for name, times in ((first, starts), (last, ends)):
        if name and not times:
            nothing = f"{experiment.path}: has no marker {name!r}; "
            raise UsageError(nothing, Parameter('summary(section="markers")'), " lists them")
    return min(starts, default=whole[0]), max(ends, default=whole[1])
