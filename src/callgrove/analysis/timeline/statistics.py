"""Time by name, kind, class, context or depth, and by profile, rank, thread or node, in a window: `timeline`.

    time_ns     of samples, until the next one; of spans, the length of their union on each profile, clipped
    percent     of the window times the profiles with a trace
    count       samples or spans that begin in the window
    profiles    how many have any time or event of the row

Where rows tell names, spans that nest count in each of them; `exclusive` gives each moment to the innermost one only.
Where rows tell classes and no names, each moment has one class in any case. So rows of samples, of classes, and
exclusive ones of spans add up to the window exactly for each profile, with `idle`, `(no trace)` and `(between spans)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from callgrove.analysis.timeline.items import CLASSES, ITEM_COLUMNS, ClassRules, Item, Items, State
from callgrove.analysis.timeline.stretches import Batch, Plan, Survey, batches, look_over
from callgrove.analysis.timeline.sums import Groups, Row, Sums, exact_sum
from callgrove.arrays import ABSENT, Ints, distinct_rows
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.model.activities import ActivityClass
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.selection import choose_window as choose_window_of_traces
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import SpanKind, Window
from callgrove.model.traces.windows import TimeWindow

__all__ = ["DIVISIONS", "KINDS", "Picture", "Question", "Timeline", "choose_window", "edges_of", "measure", "plan_of"]

PLACES = ("profile", "rank", "thread", "node")
DIVISIONS = ("name", *PLACES, "kind", "class", "context", "depth")
KINDS = tuple(dict.fromkeys([*(kind.word for kind in SpanKind), *(kind.word for kind in ContextKind)]))
MOST_ROWS = 50_000_000
MOST_BINS = 1 << 20
LONGEST = 2**62  # ns of a window
HOSTS = (ProfileKind.THREAD, ProfileKind.OTHER)
COMPUTE = CLASSES.index(ActivityClass.COMPUTE)


@dataclass(frozen=True)
class Question:
    """What to find out. A window of None is all of the traces; `profiles` None is all; `kinds` are words for kinds of
    functions and spans; `metric` names the one that lines of samples follow."""

    window: Window | None = None
    by: tuple[str, ...] = ("name",)
    profiles: Ints | None = None
    kinds: tuple[str, ...] | None = None
    depth: int | None = None
    exclusive: bool = False
    bins: int | None = None
    rules: ClassRules = field(default_factory=ClassRules)
    metric: str | None = None

    def __post_init__(self) -> None:
        for words, known, what in ((self.by, DIVISIONS, "division"), (self.kinds or (), KINDS, "kind")):
            if unknown := [word for word in words if word not in known]:
                raise UsageError(f"there is no {what} {unknown[0]!r}; there are {', '.join(known)}")
        for parameter, number in ((Parameter("depth"), self.depth), (Parameter("bins"), self.bins)):
            if number is not None and number < 1:
                raise UsageError(compose_text(parameter, f" is 1 or more, not {number}"))
        if self.bins is not None and self.bins > MOST_BINS:
            raise UsageError(compose_text(Parameter("bins"), f" is {MOST_BINS:,} at the most, not {self.bins:,}"))

    @property
    def tells_names(self) -> bool:
        return "name" in self.by or "context" in self.by

    @property
    def is_exclusive(self) -> bool:
        """Whether each moment of a profile counts once."""
        return self.exclusive or ("class" in self.by and not self.tells_names)


class Picture:
    """What else is made of the same stretches: `add` gets each batch once, `begin` comes before all of them."""

    columns: tuple[str, ...] = ()

    def begin(self, survey: Survey, window: Window, items: Items) -> None:
        """Prepare for the batches of a window."""
        raise NotImplementedError

    def add(self, batch: Batch) -> None:
        """Add some stretches."""
        raise NotImplementedError


def choose_window(
    experiment: Experiment,
    asked: Window | str | TimeWindow | None,
    write_duration: Callable[[float], str],
    words: str = "the window",
) -> Window | None:
    """Return the window that a caller means, as everywhere; None is all of the traces. A text that ends with 100% ends
    with the last moment here: nothing lasts any longer."""
    text = TimeWindow.parse(asked) if isinstance(asked, str) else asked
    window = choose_window_of_traces(experiment, text, "", "", write_duration, words)
    if window is not None and window[0] >= window[1]:
        raise UsageError(f"{words} from {window[0]} to {window[1]} ns is empty")
    if isinstance(text, TimeWindow) and window is not None and text.ends_with_traces:
        return window[0], max(window[1] - 1, window[0])
    return window


def plan_of(experiment: Experiment, question: Question) -> tuple[Plan, Survey]:
    """Return whose traces a question is about, and what these have. An experiment without any is an error."""
    followed = (ABSENT,) if question.metric is None else _rows_of_metric(experiment, question.metric)
    plan = Plan(experiment, question.profiles, question.kinds, question.depth, followed, question.rules)
    survey = look_over(plan)
    if survey.whole is None:
        raise UsageError(_explain_nothing(experiment, question))
    return plan, survey


def _rows_of_metric(experiment: Experiment, text: str) -> tuple[int, ...]:
    name = experiment.metrics.resolve(text)
    return tuple(row for row, metric in enumerate(experiment.metrics) if metric.name == name)


def _explain_nothing(experiment: Experiment, question: Question) -> str:
    traces, path = experiment.traces, experiment.path
    if not traces.n_lines and not traces.n_spans:
        return (
            f"{path}: has no traces, only sums over the whole run, so nothing is known over time; "
            "measure with traces (hpcrun -t, rocprofv3, nsys), or see `callgrove top`"
        )
    if question.metric is not None:
        name = experiment.metrics.resolve(question.metric)
        return compose_text(f"{path}: no line of samples follows {name}; leave out ", Parameter("metric"))
    if question.kinds is not None and not traces.n_lines:
        return f"{path}: no span is of kind {', '.join(question.kinds)}"
    return f"{path}: the profiles that were chosen have no traces; others have"


def edges_of(window: Window, n_bins: int) -> Ints:
    """Return the edges of bins, which are as long as each other to the nanosecond."""
    start, end = window
    return np.array([start + (end - start) * k // n_bins for k in range(n_bins + 1)], np.int64)


# -- sums --------------------------------------------------------------------------------------------------------------


@dataclass
class Totals:
    """The time of all profiles by state and by class, and what each profile has computed."""

    states: dict[State, int]
    classes: dict[str, int]
    compute_ns: Ints

    def add(self, batch: Batch, items: Items) -> None:
        """Add stretches that cover each moment once."""
        for part in (batch.innermost, batch.gaps):
            length = part.end - part.start
            state, klass = items.column("state")[part.item], items.column("klass")[part.item]
            for one in State:
                self.states[one] += exact_sum(length[state == one])
            for number, word in enumerate(CLASSES):
                self.classes[word] += exact_sum(length[klass == number])
            computes = klass == COMPUTE
            np.add.at(self.compute_ns, part.profile[computes], length[computes])


@dataclass(frozen=True)
class Timeline:
    """The answer to a question: exact sums, and what a reader should know of them."""

    experiment: Experiment
    question: Question
    window: Window
    survey: Survey
    rows: list[Row]
    places: list[tuple[int | None, ...]]
    groups: list[tuple[Any, ...]]
    totals: Totals

    @property
    def length_ns(self) -> int:
        return self.window[1] - self.window[0]

    def share(self, time_ns: int) -> float | None:
        """Return a time as a share of the window times the profiles; None where these have no time."""
        whole = self.length_ns * self.survey.n_tracks
        return time_ns / whole if whole else None

    def table(self, limit: int | None = None) -> Table:
        """Return the rows: by place, those with the most time first, and bin by bin."""
        question = self.question
        of_items = [name for name in question.by if name in ITEM_COLUMNS and name != "name"]
        of_places = [name for name in question.by if name in PLACES]
        rows = self._in_order()
        cells = [(self.groups[row.group], self.places[row.place], row) for row in rows]
        columns = [Column("name", [group[0] for group, _, _ in cells])]
        for name in question.by:
            if name in of_items:
                columns.append(Column(name, [group[1 + of_items.index(name)] for group, _, _ in cells]))
            elif name in of_places:
                columns.append(Column(name, [place[of_places.index(name)] for _, place, _ in cells]))
        if question.bins is not None:
            edges = edges_of(self.window, question.bins).tolist()
            columns.append(Column("from_ns", [edges[row.bin] for row in rows]))
        columns += [
            Column("time_ns", [row.time_ns for row in rows]),
            Column("percent", [None if (s := self.share(row.time_ns)) is None else 100 * s for row in rows]),
            Column("count", [row.count or (None if group[0] in SPECIAL else 0) for group, _, row in cells]),
            Column("profiles", [row.n_profiles for row in rows]),
        ]
        title = f"{self.length_ns / 1e9:.6g} s of {int(self.survey.has_trace.sum()):,} profiles"
        return Table(tuple(columns), title=title, notes=tuple(self.notes())).head(limit)

    def _in_order(self) -> list[Row]:
        """Return rows by place and time; of bins, each row in all of them."""
        totals: dict[tuple[int, int], int] = {}
        for row in self.rows:
            totals[row.place, row.group] = totals.get((row.place, row.group), 0) + row.time_ns
        rows = self.rows if self.question.bins is None else self._fill_bins(totals)

        places = [[(number is None, number or 0) for number in place] for place in self.places]
        texts = [[(cell is None, str(cell)) for cell in group] for group in self.groups]

        def key(row: Row) -> tuple[Any, ...]:
            return places[row.place], -totals[row.place, row.group], texts[row.group], row.bin

        return sorted(rows, key=key)

    def _fill_bins(self, totals: dict[tuple[int, int], int]) -> list[Row]:
        n_bins = self.question.bins or 1
        if len(totals) * n_bins > MOST_ROWS:
            raise UsageError(
                compose_text(
                    f"{len(totals) * n_bins:,} rows are too many for a table; ask for fewer ", Parameter("bins")
                )
            )
        known = {(row.place, row.group, row.bin): row for row in self.rows}
        return [
            known.get((place, group, number)) or Row(place, group, number, 0, 0, 0)
            for place, group in totals
            for number in range(n_bins)
        ]

    # -- what a reader should know -----------------------------------------------------------------------------------

    def notes(self) -> Iterator[str]:
        """Yield what is left out, and what counts twice."""
        survey = self.survey
        if survey.n_flagged:
            wrong = "end before they start, or have times that no clock shows; they are in no sum"
            yield f"{survey.n_flagged:,} spans {wrong}"
        chosen = self.experiment.profiles.measured if self.question.profiles is None else self.question.profiles
        n_without = int((~survey.has_trace[chosen]).sum())
        if n_without:
            what = "trace" if self.question.kinds is None else "span of these kinds"
            yield f"{n_without:,} of {len(chosen):,} profiles have no {what} and are left out"
        if self.question.kinds is not None and survey.has_samples.any():
            yield "samples of functions of other kinds count as idle"
        n_both = int((survey.has_samples & survey.has_spans).sum())
        if n_both:
            yield f"{n_both:,} profiles have samples and spans: each of the two fills the window, so they count twice"

    def describe_shares(self) -> list[tuple[str, float]]:
        """Return what all profiles did, as shares of the window: by class where classes are asked for."""
        totals = self.totals
        parts = {str(word): ns for word, ns in totals.classes.items()}
        if "class" not in self.question.by:
            parts = {state.word: totals.states[state] for state in (State.BUSY, State.IDLE)}
        parts |= {state.word: totals.states[state] for state in (State.BETWEEN, State.NO_TRACE)}
        return [(word, share) for word, ns in parts.items() if ns and (share := self.share(ns)) is not None]

    def communication_efficiency(self) -> tuple[float | None, str]:
        """Return the largest computation of a thread as a share of the window, or why that is not known. It is the
        figure of `pop` with the window as runtime; of ranks with one thread, the largest computation of a rank."""
        profiles = self.experiment.profiles
        rank, has_rank = profiles.identity("rank")
        hosts = np.flatnonzero(self.survey.has_trace & has_rank & np.isin(profiles.kind, HOSTS))
        if "class" not in self.question.by or not self.length_ns or len(np.unique(rank[hosts])) < 2:
            return None, ""
        if self.totals.states[State.BETWEEN]:
            return None, "not known: what threads do between spans is not traced"
        if self.question.kinds is not None:
            return None, "not known: functions of other kinds read as idle"
        return int(self.totals.compute_ns[hosts].max()) / self.length_ns, ""


SPECIAL = {state.word for state in State if state != State.BUSY}


def measure(
    experiment: Experiment,
    question: Question,
    pictures: Sequence[Picture] = (),
) -> Timeline:
    """Answer a question in one pass over the traces, after one that looks at their times; pictures are made of the same
    pass."""
    plan, survey = plan_of(experiment, question)
    assert survey.whole is not None
    window = question.window or survey.whole
    if window[1] - window[0] >= LONGEST:
        raise UsageError(
            compose_text("events lie too far apart to be added up; choose a part of them with ", Parameter("window"))
        )
    items = Items(
        {*question.by, *(("name",) if question.tells_names else ()), *(c for p in pictures for c in p.columns)}
    )
    groups = Groups(items, _describe(question, items))
    places, place = _places(experiment, question.by)
    sums = Sums(place, groups, edges_of(window, question.bins or 1))
    totals = Totals(dict.fromkeys(State, 0), dict.fromkeys(CLASSES, 0), np.zeros(len(experiment.profiles), np.int64))
    for picture in pictures:
        picture.begin(survey, window, items)
    for batch in batches(plan, survey, window, items, with_whole=not question.is_exclusive):
        shown = batch.innermost if batch.whole is None or question.is_exclusive else batch.whole
        for part in (shown, batch.gaps):
            sums.add(part.profile, part.item, part.start, part.end)
        sums.begin(batch.begins.profile, batch.begins.item, batch.begins.start)
        if batch.is_last:
            sums.complete()
        totals.add(batch, items)
        for picture in pictures:
            picture.add(batch)
    sums.complete()
    if question.kinds is not None and not (items.column("state") == State.BUSY).any():
        raise UsageError(f"{experiment.path}: no function or span is of kind {', '.join(question.kinds)} in the window")
    return Timeline(experiment, question, window, survey, sums.rows(), places, groups.all, totals)


def _places(experiment: Experiment, by: Sequence[str]) -> tuple[list[tuple[int | None, ...]], Ints]:
    """Return the different places that rows tell, and which of them each profile is at."""
    names = [name for name in by if name in PLACES]
    n = len(experiment.profiles)
    if not names:
        return [()], np.zeros(n, np.int64)
    known = [_place_column(experiment, name) for name in names]
    rows, number = distinct_rows(*(np.unique(np.array(_numbers(c)), return_inverse=True)[1] for c in known))
    first = np.full(rows.shape[1], n)
    np.minimum.at(first, number, np.arange(n))
    return [tuple(column[profile] for column in known) for profile in first.tolist()], number


def _place_column(experiment: Experiment, name: str) -> list[int | None]:
    return list(range(len(experiment.profiles))) if name == "profile" else experiment.profiles.identity_list(name)


def _numbers(column: list[int | None]) -> list[int]:
    return [0 if number is None else number + 1 for number in column]


def _describe(question: Question, items: Items) -> Callable[[Item], tuple[Any, ...]]:
    """Return what makes a row of items: its name, and what else is asked for of them."""
    columns = [name for name in question.by if name in ITEM_COLUMNS and name != "name"]

    def describe(item: Item) -> tuple[Any, ...]:
        cells: dict[str, Any] = {
            "kind": None if item.kind < 0 else items.texts.all[item.kind],
            "class": None if item.klass < 0 else str(CLASSES[item.klass]),
            "context": None if item.context < 0 else item.context,
            "depth": None if item.depth < 0 else item.depth,
        }
        if item.state != State.BUSY:
            name = State(item.state).word
        elif question.tells_names:
            name = items.texts.all[item.name]
        else:
            name = next((text for column in ("class", "kind") if column in columns and (text := cells[column])), "busy")
        return (name, *(cells[column] for column in columns))

    return describe
