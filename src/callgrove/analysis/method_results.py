"""What methods of an experiment return: tables that explain themselves, and data frames.

The methods of an experiment that return tables are the plain functions of this package, with a title and notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from callgrove.analysis.columns import ShownColumns, columns_to_show
from callgrove.analysis.comparison import Comparison
from callgrove.analysis.costs import Costs, costs
from callgrove.analysis.spread.summary_columns import find_left_out, side_by_side
from callgrove.analysis.summary import memory_peaks, sections_of, summarise, table
from callgrove.analysis.summary_sections import SECTIONS, By, WindowMode
from callgrove.analysis.tables import Selection, export, n_rows
from callgrove.analysis.views import describe_contexts
from callgrove.arrays import Array, Bools, Ints
from callgrove.errors import InputError, MissingExtra, Parameter, UsageError, compose_text
from callgrove.model.derived import ProfileCells
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Numbers
from callgrove.model.study.fill_missing_points import series_of
from callgrove.model.table import Table, first_rows
from callgrove.model.traces.events import Window

__all__ = ["MOST_CELLS", "View", "comparison_table", "export_table", "summary_of_run", "to_arrow", "to_pandas"]


# -- tables with a title and notes -------------------------------------------------------------------------------------


SOME = 3  # names in a note
SCOPES = ("stored", "exclusive", "inclusive", "point", "function", "lexical")


@dataclass(frozen=True)
class View:
    """The costs that a table shows, and the further columns of its rows where all metrics are wanted."""

    costs: Costs
    columns: ShownColumns | None
    profiles: Ints | None  # those chosen; None is all

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        metric: str | None,
        ranks: Numbers | None,
        threads: Numbers | None,
        runs: Numbers | None,
        all_metrics: bool = False,
    ) -> View:
        """Compute the costs of one metric, over the profiles chosen."""
        view_costs = costs(experiment, metric, ranks, threads, runs)
        chosen = choose_profiles(experiment, ranks, threads, runs)
        return cls(view_costs, columns_to_show(experiment, chosen) if all_metrics else None, chosen)

    def explain(self, table: Table, added_up: bool = True) -> Table:
        """Return the table with a title and notes. A table that is empty because of damage is an error. `added_up`:
        its numbers are those of all chosen runs together."""
        experiment, unit = self.costs.experiment, self.costs.metric.unit
        damage = experiment.damage_met
        if not len(table) and (damage or experiment.damage):
            raise damage[0] if damage else InputError(experiment.damage[0].text)
        total = f"{self.costs.total:,.6g} {unit}".rstrip() + " in all"
        title = f"{self.costs.metric.name}: {self.costs.say_no_total() or total}"
        return replace(
            table,
            title=title,
            notes=(
                *(_note_added_up(experiment, self.profiles) if added_up else ()),
                *table.notes,
                *self._note_left_out(),
                *_damage(experiment),
            ),
        )

    def _note_left_out(self) -> Iterator[str]:
        if self.columns is None:
            return
        for names, what in (
            (self.columns.left_out, "columns have a formula that cannot be computed"),
            (self.columns.unavailable, "metrics have a formula that is not evaluated"),
        ):
            if names:
                yield f"{len(names)} {what}: {', '.join(names[:SOME])}{', ...' * (len(names) > SOME)}"


def _note_added_up(experiment: Experiment, profiles: Ints | None = None) -> list[str]:
    """Say that costs of several runs are added up, which is rarely what somebody wants to see."""
    chosen = experiment.profiles.measured if profiles is None else profiles
    n_runs = len(np.unique(experiment.profiles.run[chosen]))
    said = compose_text(f"{n_runs} runs are added up; ", Parameter("runs"), " chooses some of them")
    return [said] if n_runs > 1 else []


def _damage(experiment: Experiment) -> list[str]:
    """Say what damage reading has met so far."""
    return [f"damaged: {problem}" for problem in experiment.damage_met]


def comparison_table(comparison: Comparison, experiments: list[Experiment], limit: int | None) -> Table:
    """Return what `diff` shows, with the totals of all sides as its title."""
    unit = comparison.metric.unit
    sides = zip(comparison.names, comparison.totals, strict=True)
    totals = [f"{total:,.6g} {unit}".rstrip() + f" in {name}" for name, total in sides if not np.isnan(total)]
    title = f"{comparison.metric.name}: {', '.join(totals)}" if totals else f"{comparison.metric.name} {unit}".rstrip()
    notes = dict.fromkeys(note for one in experiments for note in (*_note_added_up(one), *_damage(one)))
    return replace(comparison.table(limit), title=title, notes=tuple(notes))


def export_table(experiment: Experiment, name: str, chosen: Selection, limit: int | None) -> Table:
    """Return one of the experiment's own tables, or its first rows; its notes say what was left out."""
    if name != "values" and (chosen.quantity is not None or chosen.scope != "stored"):
        raise UsageError(f"metric and scope choose values; the table {name} has no such choice")
    if chosen.scope not in SCOPES:
        raise UsageError(f"there is no scope {chosen.scope!r}; there are {', '.join(SCOPES)}")
    if name == "series":
        return series_of(experiment).table().head(limit)
    told: list[str] = []
    said = replace(chosen, tell=told.append, complain=lambda text: told.append(f"unexplained: {text}"))
    parts = export(experiment, name, said)
    made = Table.concatenate(parts if limit is None else first_rows(parts, limit, n_rows(experiment, name, said)))
    return replace(made, notes=(*told, *_damage(experiment)))


def summary_of_run(
    experiment: Experiment,
    sections: Sequence[str],
    by: Sequence[str],
    limit: int | None,
    window: Window | None,
    mode: str,
    ranks: Numbers | None,
    ignore_digits: bool,
    columns: str | None = None,
) -> Table:
    """Return the summary of a traced run as one table; its notes say what could not be divided, and damage."""
    for word, given, known in (
        ("section", sections, SECTIONS),
        ("division", [*by, *filter(None, [columns])], tuple(By)),
        ("window mode", [mode], tuple(WindowMode)),
    ):
        if unknown := [one for one in given if one not in known]:
            raise UsageError(f"there is no {word} {unknown[0]!r}; there are {', '.join(known)}")
    profiles, chosen = choose_profiles(experiment, ranks), tuple(sections) or SECTIONS
    summary = summarise(
        experiment,
        [By(one) for one in dict.fromkeys((*by, *filter(None, [columns])))],
        window,
        WindowMode(mode),
        profiles,
        sections=chosen,
        ignore_digits=ignore_digits,
    )
    if "memory" in sections:  # it takes all events once more
        summary.memory = memory_peaks(experiment, profiles, window)
    undivided = summary.find_undivided(sections_of(summary, chosen)).items()
    notes = [
        f"{' and '.join(names)} cannot be divided by {one.value}: these rows are of all"
        for one, names in undivided
        if one != columns
    ]
    if summary.n_flagged:
        notes.append(
            f"{summary.n_flagged:,} of {summary.n_read:,} spans have times that no clock shows; they are in no sum"
        )
    damage = [f"damaged: {text}" for text in dict.fromkeys(summary.damage)]
    if columns and (left_out := find_left_out(summary, chosen, By(columns))):
        notes.append(f"left out, as there are no total times by {columns}: {', '.join(left_out)}")
    made = side_by_side(summary, chosen, By(columns), limit) if columns else table(summary, chosen, limit)
    return replace(made, notes=(*notes, *damage, *_damage(experiment)))


# -- costs of every context in every profile, as data frames -----------------------------------------------------------
#     long    one row for each context and profile with any cost; columns say which they are, then for every metric M
#             its exclusive cost `M` and its inclusive cost `M (inc)`. A metric without a cost in that row is absent
#     wide    one row for each context; columns are (metric, profile), so that `frame["time"]` is contexts x profiles. A
#             sum without a part is 0 there; an absent minimum or maximum is missing
#
# Contexts that a file elides are part of others and left out, as are stored summaries of all profiles. A frame with
# too many cells is refused before it is made. Derived metrics are computed for each cell; of formulas over sums, what
# has no value is missing in both. Metrics that are no plain numbers, and formulas that cannot be evaluated, are left
# out; `frame.attrs["left_out"]` names them.


MOST_CELLS = 50_000_000
INCLUSIVE = " (inc)"
PLACES = {"rank": "rank", "thread": "thread", "gpu": "gpu_device", "stream": "gpu_stream"}
NULLABLE = {"i": "Int64", "u": "UInt64", "f": "Float64"}

Pairs = dict[str, tuple[Array, Array]]  # exclusive and inclusive costs by metric, contexts x profiles


@dataclass(frozen=True)
class ProfileNumbers:
    """A column of numbers; `present` says which of them there are."""

    values: Array
    present: Bools


@dataclass(frozen=True)
class Words:
    """A column of texts: `codes` are numbers of `words`, -1 is none."""

    codes: Ints
    words: list[str]


def to_pandas(experiment: Experiment, metrics: Sequence[str] | None = None, wide: bool = False) -> Any:
    """Return the costs of all contexts and profiles as a pandas.DataFrame."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "a frame for pandas") from error
    costs = _read_costs(experiment, metrics)
    frame = _wide(experiment, costs, pandas) if wide else _long_frame(experiment, costs, pandas)
    frame.attrs["left_out"] = [name for name in experiment.metrics.quantities if metrics is None and name not in costs]
    return frame


def _long_frame(experiment: Experiment, costs: Pairs, pandas: Any) -> Any:
    made = {}
    for name, column in _long(experiment, costs).items():
        if isinstance(column, Words):
            made[name] = pandas.Categorical.from_codes(column.codes, column.words)
        else:
            made[name] = pandas.array(column.values, dtype=NULLABLE[column.values.dtype.kind])
            made[name][~column.present] = pandas.NA
    return pandas.DataFrame(made)


def to_arrow(experiment: Experiment, metrics: Sequence[str] | None = None) -> Any:
    """Return the costs of all contexts and profiles as a pyarrow.Table; names are dictionaries, absent is null."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtra("arrow", "a frame for Arrow") from error
    made = {}
    for name, column in _long(experiment, _read_costs(experiment, metrics)).items():
        if isinstance(column, Words):
            codes = pyarrow.array(column.codes, mask=column.codes < 0)
            made[name] = pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(column.words, pyarrow.string()))
        else:
            made[name] = pyarrow.array(column.values, mask=~column.present)
    return pyarrow.table(made)


def _metrics(experiment: Experiment, asked: Sequence[str] | None) -> list[str]:
    """Return the quantities that a frame shows: those asked for, or all whose values are known and plain numbers."""
    every = experiment.metrics
    names = [every.resolve(name) for name in asked] if asked is not None else list(every.quantities)
    if asked is not None:
        for name in names:
            every.require_values(name)
    unfit = [name for name in names if every.first(name).composite is not None or not every.first(name).has_values]
    if asked is not None and unfit:
        raise UsageError(f"{unfit[0]}: has no plain values that a frame could hold; choose other metrics")
    cells = len(experiment.profiles.measured) * experiment.contexts.n_listed
    if cells > MOST_CELLS:
        raise UsageError(
            f"{experiment.path}: {cells:,} contexts and profiles are too many for a frame; "
            "take a part with select(...), or ask with sql(...)"
        )
    return [name for name in names if name not in unfit]


def _read_costs(experiment: Experiment, asked: Sequence[str] | None) -> Pairs:
    """Return the costs of all metrics that a frame shows, but for formulas that cannot be evaluated: they are left out,
    unless they were asked for."""
    measured, n = experiment.profiles.measured, experiment.contexts.n_listed
    cells = ProfileCells(experiment.values, Scope.EXCLUSIVE, measured, measured)
    costs: Pairs = {}
    for name in _metrics(experiment, asked):
        derived = experiment.metrics.first(name).derivation is not None
        read = cells.of if derived else experiment.matrix
        try:
            costs[name] = read(name, Scope.EXCLUSIVE)[:n], read(name, Scope.INCLUSIVE)[:n]
        except UsageError:
            if asked is not None or not derived:
                raise
    return costs


def _long(experiment: Experiment, costs: Pairs) -> dict[str, ProfileNumbers | Words]:
    """Return the columns of the long frame: contexts by profile, then the metrics."""
    neutral = {metric: _neutral(experiment, metric) for metric in costs}
    has = {
        metric: _differ(exclusive, neutral[metric]) | _differ(all_, neutral[metric])
        for metric, (exclusive, all_) in costs.items()
    }
    shape = experiment.contexts.n_listed, len(experiment.profiles.measured)
    context, place = np.nonzero(np.logical_or.reduce(list(has.values())) if has else np.zeros(shape, np.bool_))
    columns = {**_profile_columns(experiment, place), **_context_columns(experiment, context)}
    for metric, pair in costs.items():
        for name, matrix in zip((metric, metric + INCLUSIVE), pair, strict=True):
            values = matrix[context, place]
            present: Bools = has[metric][context, place]
            if neutral[metric]:  # of what does not add up, one of the two may be absent
                present = present & _differ(values, neutral[metric])
            if experiment.metrics.first(metric).derivation is not None:
                present = present & ~np.isnan(values)
            columns[name] = ProfileNumbers(np.where(present, values, values.dtype.type(0)), present)
    return columns


def _neutral(experiment: Experiment, metric: str) -> float:
    """Return what stands for no cost: 0 of sums, NaN of formulas over sums."""
    row = experiment.metrics.first(metric)
    is_ratio = row.derivation is not None and row.aggregation == Aggregation.NONE
    return np.nan if is_ratio else row.aggregation.neutral


def _differ(values: Array, neutral: float) -> Bools:
    """Return which values are not the neutral one, which may be NaN."""
    different: Bools = ~np.isnan(values) if np.isnan(neutral) else values != neutral
    return different


def _profile_columns(experiment: Experiment, place: Ints) -> dict[str, ProfileNumbers | Words]:
    profiles = experiment.profiles.measured
    everywhere = np.ones(len(place), np.bool_)
    columns: dict[str, ProfileNumbers | Words] = {
        "run": ProfileNumbers(experiment.profiles.run[profiles].astype(np.int64)[place], everywhere)
    }
    for name, column in PLACES.items():
        values, present = experiment.profiles.identity(column)
        columns[name] = ProfileNumbers(values[profiles][place].astype(np.int64), present[profiles][place])
    return columns


def _context_columns(experiment: Experiment, context: Ints) -> dict[str, ProfileNumbers | Words]:
    """Return what contexts are: described once each, however many profiles they have costs in."""
    tree = experiment.contexts
    used, of_row = np.unique(context, return_inverse=True)
    cells = {column.name: column.plain() for column in describe_contexts(tree, used.tolist())}
    cells["path"] = [tree.path(number) for number in used.tolist()]
    columns: dict[str, ProfileNumbers | Words] = {"context": ProfileNumbers(context, np.ones(len(context), np.bool_))}
    for name in ("name", "kind", "file", "line", "module", "path"):
        if name == "line":
            lines = np.array([-1 if cell is None else cell for cell in cells[name]], np.int64)[of_row]
            columns[name] = ProfileNumbers(lines, lines >= 0)
        else:
            columns[name] = _words(cells[name], of_row)
    depth = tree.depth[used].astype(np.int64)[of_row] if len(used) else np.empty(0, np.int64)
    columns["depth"] = ProfileNumbers(depth, np.ones(len(context), np.bool_))
    return columns


def _words(cells: Sequence[str | None], of_row: Ints) -> Words:
    known: dict[str, int] = {}
    codes = [-1 if cell is None else known.setdefault(cell, len(known)) for cell in cells]
    return Words(np.array(codes, np.int64)[of_row], list(known))


def _wide(experiment: Experiment, costs: Pairs, pandas: Any) -> Any:
    profiles = experiment.profiles.measured
    identities = [[experiment.profiles.identity_list(name)[p] for p in profiles] for name in ("rank", "thread")]
    blocks, names = [], []
    for metric, (exclusive, _) in costs.items():
        neutral = experiment.metrics.first(metric).aggregation.neutral
        blocks.append(np.where(exclusive == neutral, np.nan, exclusive) if neutral else exclusive)
        names += [(metric, rank, thread) for rank, thread in zip(*identities, strict=True)]
    columns = pandas.MultiIndex.from_tuples(names, names=("metric", "rank", "thread"))
    index = pandas.RangeIndex(experiment.contexts.n_listed, name="context")
    parts = [pandas.DataFrame(block, index=index) for block in blocks]
    frame = pandas.concat(parts, axis=1) if parts else pandas.DataFrame(index=index)
    frame.columns = columns
    return frame
