"""A picture of a window: for each line and column, what took the most time there.

    rank 0   AAAABBAAAABBAAAA..      a line is a profile, or some that follow each other where there are many
    rank 1   AAAABBBAAABBAAAA..      a column is a bin: the exact time in it decides, of equal times the larger total

Names beyond the largest are one category, `others`; it is decided by name before they become one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from callgrove.analysis.timeline.items import CLASSES, Item, Items, State
from callgrove.analysis.timeline.statistics import Picture, edges_of
from callgrove.analysis.timeline.stretches import Batch, Survey
from callgrove.analysis.timeline.sums import Groups, Row, Sums
from callgrove.arrays import ABSENT, Ids, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import Window

__all__ = ["OTHERS", "WIDEST_LINE", "Category", "DominantTime", "Grid", "name_profile"]

OTHERS = "others"
WIDEST_LINE = 28  # characters of the name of a line
ORDER = ("node", "rank", "gpu_device", "gpu_context", "gpu_stream", "thread")


@dataclass(frozen=True)
class Category:
    """What a cell may show, and how much time all profiles had of it."""

    name: str
    state: State
    time_ns: int


@dataclass(frozen=True)
class Grid:
    """Lines x columns of numbers of categories, those with the most time first."""

    window: Window
    lines: tuple[str, ...]
    categories: tuple[Category, ...]
    cells: Ids
    by: str
    n_tracks: int  # profiles with a trace, over all lines


class DominantTime(Picture):
    """Makes a grid of at most so many lines, and at most so many categories."""

    def __init__(self, experiment: Experiment, by: str, n_columns: int, most_lines: int, most_names: int) -> None:
        self.columns = (by,)
        self._experiment, self._by, self._n_columns = experiment, by, n_columns
        self._most_lines, self._most_names = most_lines, most_names

    def begin(self, survey: Survey, window: Window, items: Items) -> None:
        self._window, self._n_tracks, self._items = window, survey.n_tracks, items
        self._n_columns = max(1, min(self._n_columns, window[1] - window[0]))
        self._lines, line_of = self._merge_profiles(np.flatnonzero(survey.has_trace))
        self._groups = Groups(items, self._describe)
        self._sums = Sums(line_of, self._groups, edges_of(window, self._n_columns))

    def _merge_profiles(self, profiles: Ints) -> tuple[list[str], Ints]:
        """Return the names of lines, and the line of each profile: in the order of the machine, some to a line."""
        every = self._experiment.profiles
        columns = [every.identity_list(name) for name in ORDER]
        numbers = {p: [ABSENT if (n := column[p]) is None else n for column in columns] for p in profiles.tolist()}
        order = sorted(numbers, key=lambda p: (int(every.run[p]), *numbers[p], p))
        per_line = -(-len(order) // self._most_lines)
        line_of = np.full(len(every), ABSENT, np.int64)
        lines = []
        for number, first in enumerate(range(0, len(order), per_line)):
            some = order[first : first + per_line]
            line_of[some] = number
            lines.append(self._name_line(some))
        several = {name for name, n in Counter(lines).items() if n > 1}
        for number, name in enumerate(lines):
            if name in several:  # processes that a profiler does not tell apart
                lines[number] = f"{order[number * per_line]} {name}"
        return lines, line_of

    def _name_line(self, profiles: list[int]) -> str:
        """Return the name of a profile, or those of the first and the last of several as far as they differ."""
        first, last = (name_profile(self._experiment, p) for p in (profiles[0], profiles[-1]))
        if len(profiles) == 1:
            return first
        words, others = first.split(), last.split()
        same = next((k for k, pair in enumerate(zip(words, others, strict=False)) if pair[0] != pair[1]), 0)
        same -= same % 2 if same < len(words) - 1 else 0  # pairs of a word and a number; only the last may be one word
        name = f"{first} to {' '.join(others[same:])}"
        return name if len(name) <= WIDEST_LINE else f"{first} +{len(profiles) - 1}"

    def _describe(self, item: Item) -> tuple[str, State]:
        state = State(item.state)
        if self._by == "class":
            if item.klass >= 0:
                is_idle = CLASSES[item.klass] == State.IDLE.word
                return str(CLASSES[item.klass]), State.IDLE if is_idle else State.BUSY
            return state.word, state
        return (self._items.texts.all[item.name] if state == State.BUSY else state.word), state

    def add(self, batch: Batch) -> None:
        for part in (batch.innermost, batch.gaps):
            self._sums.add(part.profile, part.item, part.start, part.end)
        if batch.is_last:
            self._sums.complete()

    def grid(self) -> Grid:
        """Return the picture of all that was added."""
        rows = self._sums.rows()
        categories, number = self._choose_categories(rows)
        totals = [0] * len(number)
        for row in rows:
            totals[row.group] += row.time_ns
        best: dict[tuple[int, int], tuple[int, int, int]] = {}
        for row in rows:
            at, found = (row.place, row.bin), (row.time_ns, totals[row.group], -row.group)
            if row.time_ns and found > best.get(at, (0, 0, 0)):
                best[at] = found
        cells = np.full((len(self._lines), self._n_columns), ABSENT, np.int32)
        for (line, column), (_, _, group) in best.items():
            cells[line, column] = number[-group]
        return Grid(self._window, tuple(self._lines), categories, cells, self._by, self._n_tracks)

    def _choose_categories(self, rows: list[Row]) -> tuple[tuple[Category, ...], list[int]]:
        """Return the categories, and that of each group."""
        groups = self._groups.all
        totals = [0] * len(groups)
        for row in rows:
            totals[row.group] += row.time_ns
        order = sorted(range(len(groups)), key=lambda k: (-totals[k], groups[k]))
        busy = [k for k in order if groups[k][1] == State.BUSY and totals[k]]
        fits = len(busy) <= self._most_names
        shown = {*(busy if fits else busy[: self._most_names - 1]), *(k for k in order if groups[k][1] != State.BUSY)}
        kept = [k for k in order if k in shown and totals[k]]
        categories = [Category(groups[k][0], groups[k][1], totals[k]) for k in kept]
        rest = [k for k in busy if k not in shown]
        if rest:
            categories.append(Category(OTHERS, State.BUSY, sum(totals[k] for k in rest)))
        number = [len(categories) - 1] * len(groups)
        for place, k in enumerate(kept):
            number[k] = place
        return tuple(categories), number


def name_profile(experiment: Experiment, profile: int) -> str:
    """Return what a profile is called, with its run where there are several."""
    run = f"run {int(experiment.profiles.run[profile])} " if len(experiment.runs) > 1 else ""
    told = experiment.profiles.describe(profile)
    name = experiment.profiles.name[profile]
    return run + (name if name and told.startswith("profile ") else told)
