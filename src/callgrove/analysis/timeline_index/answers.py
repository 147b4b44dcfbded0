"""What is asked of a timeline index, and what it answers: the contract between the index and whoever draws.

    window       [start_ns, end_ns) on the clock of the experiment, integers
    line         a number: a sequence of stretches of time that do not overlap, each with a name
    row          what is drawn in one height: a line, or several that are merged
    name         a number: a function of samples, or the text of spans of one kind; -1 is nothing

Three kinds of lines come from traces. Samples make one line for each profile. Calls of a thread, which nest, make one
line of what was innermost. Operations of a device, which may overlap, make a line for each lane.

    samples      |--main--|--sort-----|        |--main--|        gaps are idle
    calls        |m|-f-|--g--|-f-|m|                             m calls f, f calls g
    device       |===A===|  |==C==|                              lane 0
                     |==B==|                                     lane 1

A picture has cells of 2^level ns. A cell tells which name had the most time in it, and which share of the cell that
name and all names had, rounded to 1/255. Everything else is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from callgrove.arrays import ABSENT, Array, Floats, Ids, Ints
from callgrove.model.traces.events import Window

__all__ = [
    "Curve",
    "IndexOptions",
    "Legend",
    "LineKind",
    "Lines",
    "NameTable",
    "Occurrence",
    "Picture",
    "Progress",
    "SpanRows",
    "Stack",
    "Timeline",
]


class LineKind(IntEnum):
    """What the stretches of a line are."""

    SAMPLES = 0
    CALLS = 1  # the innermost of spans that nest
    DEVICE = 2  # operations of a device, one line for each lane
    PROFILER = 3  # what the profiler itself did: no time of the application


@dataclass(frozen=True)
class IndexOptions:
    """What is indexed.

    depth       calls below this level belong to what called them: 1 shows the outermost ones, None the innermost
    with_rows   whether the number of every span in its source is kept, by which its arguments can be read
    """

    depth: int | None = None
    with_rows: bool = True


@dataclass(frozen=True)
class Lines:
    """The lines that are there, as columns: `profile[k]` and `kind[k]` say of whom line k is, `lane[k]` which of
    several. Times are those of the first start and the last end; `count` is the number of spans or samples."""

    profile: Ints
    kind: Ints
    lane: Ints
    first_ns: Ints
    last_ns: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.profile)


@dataclass(frozen=True)
class NameTable:
    """Names by number: the text, and the word for what it names (`function`, `kernel`, ...)."""

    text: Sequence[str]
    kind: Sequence[str]

    def __len__(self) -> int:
        return len(self.text)


@dataclass(frozen=True)
class Progress:
    """How far building is. `n_done` of `n_total` steps; a track is the trace of one kind that a profile has. Where not
    all tracks are done, answers hold what is there: `profiles_missing` lists whose lines are still to come."""

    n_done: int
    n_total: int
    n_tracks_done: int
    n_tracks: int
    profiles_missing: Ints
    error: str = ""

    @property
    def is_complete(self) -> bool:
        return self.n_tracks_done == self.n_tracks and self.n_done == self.n_total and not self.error


@dataclass(frozen=True)
class Picture:
    """What dominates in cells of time: a row for each row that was asked for, a column for each cell.

    Cell k covers [start_ns + k * cell_ns, + cell_ns). `name` is -1 where nothing went on. `share` and `busy` are parts
    of 255 of the cell (of all lines of a row together): the time of that name, and of any name. `is_merged` rows have
    several lines; there the name is the one with the largest sum of the shares that dominate in lines.
    `coarse[r]`: cells of the row are that many times wider than `cell_ns`; all cells that one covers repeat it.
    """

    start_ns: int
    cell_ns: int
    name: Ids
    share: Array
    busy: Array
    coarse: Ints
    is_merged: bool = False

    @property
    def n_cells(self) -> int:
        return int(self.name.shape[1])


@dataclass(frozen=True)
class Legend:
    """The time of each name in a window: `time_ns[k]` of `name[k]`, by falling time. Names that have none are left out.

    `missing_ns` is 0 in exact answers. Else so much may be missing at most, over all names together; no name has less
    time than it says."""

    name: Ids
    time_ns: Ints
    missing_ns: int = 0

    @property
    def is_exact(self) -> bool:
        return self.missing_ns == 0


@dataclass(frozen=True)
class SpanRows:
    """Spans or samples by line and start. `row` is the number of the span in the experiment's spans, or that of the
    sample in its line; -1 where it is not kept. `depth` is 0 for the outermost.

    `n` is how many there are in the window; where that is more than were asked for, the first ones are given."""

    line: Ids
    start_ns: Ints
    end_ns: Ints
    name: Ids
    depth: Ids
    row: Ints
    n: int

    def __len__(self) -> int:
        return len(self.line)


@dataclass(frozen=True)
class Stack:
    """What was open at a time on one line, from the outside in; of samples, the one that holds. `context` is that of
    a sample, whose callers are in the tree of contexts; -1 for spans, and where nothing ran."""

    spans: SpanRows
    context: int = ABSENT


@dataclass(frozen=True)
class Occurrence:
    """One span or sample of a name."""

    line: int
    start_ns: int
    end_ns: int
    row: int


@dataclass(frozen=True)
class Curve:
    """A counter of a profile in columns of time; columns without a measurement have `n` 0 and NaN. `before` is the last
    value before the window, NaN where there is none."""

    profile: int
    name: str
    n: Ints
    minimum: Floats
    maximum: Floats
    mean: Floats
    last: Floats
    before: float


class Timeline(Protocol):
    """Answers about a timeline. Every method may be called from several threads, also while the index is built."""

    @property
    def window(self) -> Window:
        """Return the time from the first start to the last end of everything; (0, 1) where there is nothing."""

    @property
    def lines(self) -> Lines:
        """Return the lines that are there by now; a line keeps its number."""

    @property
    def names(self) -> NameTable:
        """Return the names by number."""

    @property
    def progress(self) -> Progress:
        """Return how far building is."""

    @property
    def n_left_out(self) -> int:
        """Return how many spans have times that cannot be, such as an end before the start; they are nowhere."""

    def picture(self, window: Window, columns: int, rows: Sequence[Ints] | None = None) -> Picture:
        """Return cells for a window: between one and two for each column, or fewer where no row has finer ones. `rows`
        are the lines of each row; without it every line is a row."""

    def legend(self, window: Window, lines: Ints | None = None, *, exact: bool = True) -> Legend:
        """Return the time of each name in a window, on all lines or on some."""

    def spans_in(self, window: Window, lines: Ints | None = None, limit: int = 10_000) -> SpanRows:
        """Return the spans and samples that touch a window."""

    def most_in(self, window: Window, lines: Ints | None = None) -> int:
        """Return how many spans and samples touch a window, or some more; none of them is read."""

    def stack_at(self, line: int, time_ns: int) -> Stack:
        """Return what was open on a line."""

    def search(self, name: int, time_ns: int, lines: Ints | None = None, *, forward: bool = True) -> Occurrence | None:
        """Return the first span or sample of a name that starts after a time, or the last one that starts before it;
        None where there is none."""

    def curves(self, window: Window, columns: int, profiles: Ints | None = None) -> list[Curve]:
        """Return the counters of profiles: of each column the least, the largest and the mean value."""
