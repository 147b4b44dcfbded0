"""What methods of an experiment return: tables that explain themselves.

The methods of an experiment that return tables are the plain functions of this package, with a title and notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from callgrove.analysis.columns import ShownColumns, columns_to_show
from callgrove.analysis.comparison import Comparison
from callgrove.analysis.costs import Costs, costs
from callgrove.analysis.messages import MESSAGE_DIVISIONS, sum_up_messages
from callgrove.analysis.spread.summary_columns import find_left_out, side_by_side
from callgrove.analysis.summary import memory_peaks, sections_of, summarise, table
from callgrove.analysis.summary_sections import OF_MESSAGES, SECTIONS, By, WindowMode
from callgrove.analysis.tables import Selection, export, n_rows
from callgrove.arrays import Ints
from callgrove.errors import InputError, Parameter, UsageError, compose_text
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import choose_profiles
from callgrove.model.runs import Numbers
from callgrove.model.study.fill_missing_points import series_of
from callgrove.model.table import Table, first_rows
from callgrove.model.traces.events import Window

__all__ = ["View", "comparison_table", "export_table", "summary_of_run"]


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
    """Return what `diff` shows, and what is to be known of the experiments."""
    table = comparison.table(limit)
    notes = dict.fromkeys(note for one in experiments for note in (*_note_added_up(one), *_damage(one)))
    return replace(table, notes=(*table.notes, *notes))


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
        ("division", [*by, *filter(None, [columns])], (*tuple(By), *MESSAGE_DIVISIONS)),
        ("window mode", [mode], tuple(WindowMode)),
    ):
        if unknown := [one for one in given if one not in known]:
            raise UsageError(f"there is no {word} {unknown[0]!r}; there are {', '.join(known)}")
    profiles, chosen = choose_profiles(experiment, ranks), tuple(sections) or SECTIONS
    summary = summarise(
        experiment,
        [By(one) for one in dict.fromkeys((*by, *filter(None, [columns]))) if one not in MESSAGE_DIVISIONS],
        window,
        WindowMode(mode),
        profiles,
        sections=chosen,
        ignore_digits=ignore_digits,
    )
    if "memory" in sections:  # it takes all events once more
        summary.memory = memory_peaks(experiment, profiles, window)
    if not set(OF_MESSAGES).isdisjoint(chosen):
        summary.messages = sum_up_messages(experiment, by, profiles, window)
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
