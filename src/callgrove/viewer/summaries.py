"""The tree of metrics, the summary of a trace, efficiencies and scaling models: the same numbers that `tree --metrics`,
`summary`, `pop`, `model` and `predict` print.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from callgrove.analysis.efficiency import Question, pop
from callgrove.analysis.efficiency_figures import FAIR, GOOD, Efficiencies, FigureKind, RunFigures, grade
from callgrove.analysis.metric_tree import metric_tree
from callgrove.analysis.summary import summarise, tables
from callgrove.analysis.summary_sections import Summary
from callgrove.arrays import Floats, Ints
from callgrove.errors import CallgroveError, UsageError, compose_text, count_of
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import choose_profiles
from callgrove.model.study.fill_missing_points import fill_missing_points
from callgrove.model.study.from_runs import combination_for, describe_values, fold
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table
from callgrove.modeling.fitting import Models, count_cautions, model_study
from callgrove.modeling.functions import Functions
from callgrove.modeling.judgement import (
    FAR,
    Apart,
    Trust,
    default_floors,
    far_target,
    intervals_at,
    judge,
    set_apart_at,
)
from callgrove.modeling.model_tables import function_text, order_text
from callgrove.modeling.scaling import falling_parameters
from callgrove.modeling.stored_models import read_stored_models
from callgrove.viewer.page import Choice, Detail, Limits, Panel, PanelMaker, Texts, Unavailable
from callgrove.viewer.scaling_details import (
    SURFACE_RULES,
    describe_functions,
    describe_judgements,
    describe_near_equals,
    describe_repetitions,
    describe_stops,
)

__all__ = [
    "EfficiencyMaker",
    "GpuMaker",
    "MetricTreeMaker",
    "ScalingMaker",
    "efficiency_maker",
    "gpu_maker",
    "metric_tree_maker",
    "scaling_maker",
]


# -- the tree of metrics -----------------------------------------------------------------------------------------------


LEAST_METRICS = 20


def metric_tree_maker(
    opened: Experiment | Study, choice: Choice, limits: Limits | None = None
) -> MetricTreeMaker | None:
    """Return the maker of the panel of an experiment whose metrics have a tree."""
    if isinstance(opened, Study) or all(metric.parent < 0 for metric in opened.metrics):
        return None
    profiles = choose_profiles(opened, choice.ranks, choice.threads)
    limits = limits or Limits()
    return MetricTreeMaker(metric_tree(opened, profiles=profiles, limit=limits.rows))


class MetricTreeMaker:
    """Metrics in preorder, with values and shares."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def panels(self, detail: Detail) -> Iterator[Panel]:
        shown = self._table.head(detail.of(len(self._table), len(self._table), LEAST_METRICS))
        texts = {name: Texts([text or "" for text in shown[name]]) for name in ("name", "unit", "kind")}
        numbers = {name: _values(shown.column(name)) for name in ("depth", "value", "without_children", "percent")}
        rest = f"{shown.left:,} more metrics are 0, hidden or left out; `callgrove info --metrics` lists all of them."
        left = (rest,) if shown.left else ()
        yield Panel("metrictree", "Metrics", {**texts, **numbers}, (*self._table.notes, *left))


# -- the summary of a trace --------------------------------------------------------------------------------------------


LEAST_ROWS = 10
LEAST_DEVICES = 4
MOST_DAMAGE = 5
FEWEST_LOCATIONS = 2
EXACT = 2**53  # beyond, the numbers of a page have fewer digits than ours


def gpu_maker(opened: Experiment | Study, choice: Choice, limits: Limits | None = None) -> GpuMaker | None:
    """Return the maker of panels of an experiment with spans."""
    if isinstance(opened, Study) or not opened.traces.n_spans:
        return None
    summary = summarise(opened, profiles=choose_profiles(opened, choice.ranks, choice.threads))
    n_runs = len(np.unique(opened.profiles.run)) if len(opened.profiles) else 0
    return GpuMaker(summary, n_runs, limits or Limits(), _judge(opened, choice, summary)) if summary.n_shown else None


class GpuMaker:
    """Sections of a summary, what each device did, and how efficiently."""

    def __init__(
        self, summary: Summary, n_runs: int, limits: Limits, efficiency: EfficiencyMaker | None = None
    ) -> None:
        self._summary, self._n_runs, self._limits, self._efficiency = summary, n_runs, limits, efficiency

    @property
    def summary(self) -> Summary:
        """The summary that is shown."""
        return self._summary

    def panels(self, detail: Detail) -> Iterator[Panel]:
        most = detail.of(self._limits.section_rows, self._limits.section_rows, LEAST_ROWS)
        sections = [_section(table) for table in tables(self._summary, limit=most)]
        n_devices = detail.of(len(self._summary.devices), self._limits.devices, LEAST_DEVICES)
        data = {"sections": sections, "devices": self._devices(n_devices), "n_devices": len(self._summary.devices)}
        if self._summary.devices:
            yield Panel("devices", "Overview", data)
        title = "GPU" if self._summary.devices else "Calls"
        yield Panel("gpu", title, data, tuple(self._notes(sections, n_devices)))
        if self._efficiency is not None:
            yield from self._efficiency.panels(detail)

    def _devices(self, n: int) -> dict[str, Any]:
        """Return what went on at once on the first devices, and on all of them together, in ns."""
        every = sorted(self._summary.devices, key=lambda device: (device.run, device.rank, device.agent))
        doing = list(dict.fromkeys(name for device in every for name in device.going_on_ns))
        shown = every[:n]
        return {
            "run": np.array([device.run for device in shown], np.int64),
            "rank": np.array([device.rank for device in shown], np.int64),
            "agent": np.array([device.agent for device in shown], np.int64),
            "busy_ns": np.array([device.busy_ns for device in shown], np.int64),
            "span_ns": np.array([device.span_ns for device in shown], np.int64),
            "most_at_once": np.array([device.most_at_once for device in shown], np.int64),
            "doing": [
                {
                    "name": name,
                    "ns": np.array([device.going_on_ns.get(name, 0) for device in shown], np.int64),
                    "total_ns": sum(device.going_on_ns.get(name, 0) for device in every),
                }
                for name in doing
            ],
            "total_span_ns": sum(device.span_ns for device in every),
            "total_busy_ns": sum(device.busy_ns for device in every),
        }

    def _notes(self, sections: list[dict[str, Any]], n_devices: int) -> Iterator[str]:
        summary = self._summary
        if self._n_runs > 1:
            yield f"{self._n_runs:,} runs are added up here; --run chooses one of them."
        for section in sections:
            if section["left"]:
                yield f"{section['name']}: {section['left']:,} more rows with less time are left out."
        if n_devices < len(summary.devices):
            yield f"Of {len(summary.devices):,} devices the first {n_devices:,} are shown one by one."
        if summary.n_flagged:
            why = "they end before they start, or have times that no clock shows"
            yield f"{summary.n_flagged:,} of {summary.n_read:,} spans are in no sum: {why}."
        yield from summary.damage[:MOST_DAMAGE]
        if len(summary.damage) > MOST_DAMAGE:
            yield f"{len(summary.damage) - MOST_DAMAGE:,} more parts are damaged; `callgrove check` lists them."
        if summary.n_unlinked:
            yield f"{count_of(summary.n_unlinked, 'operation has', 'operations have')} no launching call."


def _section(table: Table) -> dict[str, Any]:
    """Return a section by the columns it has; the first one is called like the section and holds names."""
    first, *others = table.columns
    columns = [{"name": column.name, "values": _values(column)} for column in others]
    return {"name": first.name, "rows": Texts(first.plain()), "columns": columns, "left": table.left}


def _values(column: Column) -> Any:
    """Return numbers, NaN where absent; as text where a page would lose digits of them."""
    cells = column.plain()
    if any(isinstance(cell, int) and abs(cell) >= EXACT for cell in cells):
        return Texts(["" if cell is None else str(cell) for cell in cells])
    return np.array([np.nan if cell is None else cell for cell in cells], np.float64)


# -- efficiencies ------------------------------------------------------------------------------------------------------


def efficiency_maker(
    opened: Experiment | Study, choice: Choice, limits: Limits | None = None
) -> EfficiencyMaker | None:
    """Return the maker of the panel of efficiencies of an experiment in which several threads spent time. Of one they
    say nothing, very large profiles are left to `pop`, and traces to those who sum them up (`gpu_maker`)."""
    if isinstance(opened, Study) or opened.traces.n_spans:
        return None
    n_cells = len(opened.contexts) * len(opened.profiles.measured)
    if len(opened.profiles.measured) < FEWEST_LOCATIONS or n_cells > (limits or Limits()).values:
        return None
    return _judge(opened, choice)


def _judge(opened: Experiment, choice: Choice, summary: Summary | None = None) -> EfficiencyMaker | None:
    """Return the maker of efficiencies; None where there are none: no time of the host, or one that is not known thread
    by thread, and no device."""
    if summary is not None and not summary.devices:
        return None
    names = opened.metrics.quantities
    is_time = choice.metric in names and opened.metrics.first(choice.metric or "").is_time
    devices = None if summary is None else summary.devices
    chosen = choice.metric if is_time and summary is None else None
    try:
        return EfficiencyMaker(pop([opened], Question(chosen, choice.ranks, choice.threads, devices=devices)))
    except UsageError:
        return None


class EfficiencyMaker:
    """The figures that some run has, with how good they are."""

    def __init__(self, found: Efficiencies) -> None:
        self._found = found

    def panels(self, detail: Detail) -> Iterator[Panel]:
        found = self._found
        rows = found.rows(everything=False)
        figures = [
            {
                "name": row.name,
                "depth": row.depth,
                "kind": row.kind.value,
                "unit": row.unit,
                "missing": found.why_missing(row.name),
            }
            for row in rows
        ]
        data = {"figures": figures, "runs": [self._run(run) for run in found.runs], "good": GOOD, "fair": FAIR}
        notes = (*found.notes, *found.name_missing())
        yield Panel("efficiency", "Efficiency", data, tuple(f"{text[0].upper()}{text[1:]}." for text in notes))

    def _run(self, run: RunFigures) -> dict[str, Any]:
        rows = self._found.rows(everything=False)
        cells = [(row, run.cell(row)) for row in rows]
        is_graded = [value is not None and row.kind == FigureKind.EFFICIENCY for row, value in cells]
        grades = [
            grade(value or 0.0).value if graded else "" for (_, value), graded in zip(cells, is_graded, strict=True)
        ]
        return {"name": run.name, "values": [value for _, value in cells], "grades": grades}


# -- scaling models ----------------------------------------------------------------------------------------------------


LEAST_MODELS = 5
TITLE = "Scaling"
NO_UNIT = "unknown"  # what some studies call the unit of a metric that has none
FEWEST_POINTS = 2


def scaling_maker(opened: Experiment | Study, choice: Choice, limits: Limits | None = None) -> PanelMaker | None:
    """Return the maker of panels of a study, and of an experiment whose runs have parameters."""
    metric = choice.metric
    if isinstance(opened, Experiment):
        if len(opened.runs) < FEWEST_POINTS or not any(run.parameters for run in opened.runs):
            return None
        metric = opened.metrics.resolve(metric) if metric else None
        derived = [metric] if metric in opened.metrics.derived and metric is not None else []
        try:
            combination = combination_for(opened, choice.scaling)
            opened = fill_missing_points(fold(opened, None, choice.scope, combination, derived=derived))
        except CallgroveError as error:  # every other view still says what is there
            return Unavailable(TITLE, compose_text("the runs do not make a study: ", error))
    if reason := _explain_missing_models(opened):
        return Unavailable(TITLE, reason)
    stored = bool(opened.models)
    models = read_stored_models(opened) if stored else model_study(opened)
    return ScalingMaker(models, stored, metric, limits or Limits())


def _explain_missing_models(study: Study) -> str:
    """Return why a study has no models; empty where it has."""
    if not len(study):
        return "nothing was measured"
    if not study.parameters:
        return "no parameter is known that costs could grow with"
    if study.n_points < FEWEST_POINTS:
        at = ", ".join(f"{name} = {value:g}" for name, value in zip(study.parameters, study.points[0], strict=True))
        return f"everything was measured at one point ({at}); growth shows with two or more"
    return ""


class ScalingMaker:
    """A table of models, and plots of them."""

    def __init__(self, models: Models, stored: bool, metric: str | None, limits: Limits) -> None:
        self.models, self._stored, self._most = models, stored, limits.models
        self.differences: tuple[str, ...] = models.study.unexplained
        self._metric = _first_metric(models.study, metric)
        self._target = far_target(models.study)
        self._ranked = _rank_models(models, self._target)
        self._floors = default_floors(models)

    def panels(self, detail: Detail) -> Iterator[Panel]:
        rows = self._choose_shown(detail)
        data = self._data(rows)
        yield Panel("growth", "Overview", data)
        yield Panel("scaling", TITLE, data, tuple(self._notes(len(rows))))

    def _data(self, rows: Ints) -> dict[str, Any]:
        models, study = self.models.take(rows), self.models.study
        series, numbers = models.series, range(len(models))
        used = sorted({int(metric) for metric in study.series_metric[series].tolist()})
        present = study.present[series]
        measured = {
            name: np.where(present, study.measure(column)[series], np.nan)
            for name, column in (("value", models.options.statistic), ("low", "minimum"), ("high", "maximum"))
        }
        judged = judge(models, self._target)
        return {
            "parameters": list(study.parameters),
            "points": study.points,
            "target": self._target,
            "rest": self._rest(rows)[used],
            "far": FAR,
            "measure": models.options.statistic,
            "metric_names": [study.metrics[m] for m in used],
            "adds_up": [study.metrics[m] not in study.ratios for m in used],
            "units": [_unit(study, m) for m in used],
            "first_metric": study.metrics[self._metric],
            "callpath": Texts([models.callpath(n) for n in numbers]),
            "metric": np.searchsorted(used, study.series_metric[series]),
            "function": Texts([_function(models.functions, n, "extrap") for n in numbers]),
            "short": Texts([_function(models.functions, n, "short") for n in numbers]),
            "order": Texts([_order(models.functions, n) for n in numbers]),
            "smape": models.costs.smape,
            "ar2": models.costs.ar2,
            "re": models.costs.re,
            "noise": models.noise,
            "cautions": [{"text": text, "models": rows_} for _, text, rows_ in count_cautions(models.cautions)],
            "functions": describe_functions(models.functions),
            "trust": Texts([Trust(trust).word for trust in judged.trust.tolist()]),
            "reason": Texts([judged.reason(n) for n in numbers]),
            "apart": set_apart_at(models, [judged], floors=self._floors)[0] != Apart.NO,
            "run_share": judged.share,
            "interval_low": judged.low,
            "interval_high": judged.high,
            "rules": SURFACE_RULES,
            **self._details(models),
            **measured,
        }

    def _details(self, models: Models) -> dict[str, Any]:
        """Return what is known of the models with the largest shares: judgements at stops, near equals, repetitions."""
        ranked = _rank_models(models, self._target)
        stops = describe_stops(models, ranked, self._target, self._floors)
        near, repeated = describe_near_equals(models, stops["models"]), describe_repetitions(models, stops["models"])
        return {"stops": stops, "near": near, "repeated": repeated}

    def answer(self, at: Floats, detailed: Sequence[int], detail: Detail) -> dict[str, Any]:
        """Return judgements of the models of a page at any point, and more about some of them."""
        models = self.models.take(self._choose_shown(detail))
        numbers = np.array(detailed, np.int64)
        near, repeated = describe_near_equals(models, numbers), describe_repetitions(models, numbers)
        judged = describe_judgements(models, [judge(models, at)], self._floors)
        return {**judged, "near": near, "repeated": repeated}

    def bands(self, number: int, points: Floats, detail: Detail) -> dict[str, Any]:
        """Return the interval of one model of a page at some points."""
        models = self.models.take(self._choose_shown(detail)[[number]])
        low, high = intervals_at(models, points)[:, 0]
        return {"low": low, "high": high}

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of the study."""
        return self.models.study.parameters

    def n_shown(self, detail: Detail) -> int:
        """Return how many models a page has."""
        return len(self._choose_shown(detail))

    def _choose_shown(self, detail: Detail) -> Ints:
        return np.sort(self._ranked[: detail.of(len(self.models), self._most, LEAST_MODELS)])

    def _rest(self, rows: Ints) -> Floats:
        """Return what the models that are left out predict together for each metric, at the point to begin with."""
        left = np.setdiff1d(np.arange(len(self.models)), rows)
        value = self.models.functions.evaluate(self._target[None])[left, 0]
        metric = self.models.study.series_metric[self.models.series[left]]
        positive = np.where(value > 0, value, 0.0)
        rest: Floats = np.bincount(metric, positive, minlength=len(self.models.study.metrics)).astype(np.float64)
        return rest

    def _notes(self, n_shown: int) -> Iterator[str]:
        if self._stored:
            yield "These models are stored in the input; `callgrove model --refit` makes new ones."
        study = self.models.study
        if said := describe_values(study):
            yield f"A value of a run is {said}."
        for name in () if self._stored or study.scaling == "strong" else falling_parameters(study):
            yield (
                f"Costs fall as {name} grows, as in strong scaling; `callgrove model --times {name}` models the total "
                "of all processes."
            )
        if n_shown < len(self.models):
            at = ", ".join(
                f"{name} = {value:g}" for name, value in zip(study.parameters, self._target.tolist(), strict=True)
            )
            yield (
                f"Of {len(self.models):,} models the {n_shown:,} with the largest share at {at} are shown; shares are "
                "of all there, and of those shown at other points."
            )


def _unit(study: Study, metric: int) -> str:
    unit = study.units.get(study.metrics[metric], "")
    return "" if unit == NO_UNIT else unit


def _first_metric(study: Study, wanted: str | None) -> int:
    """Return the metric asked for, else the time, else the first."""
    names = [name.lower() for name in study.metrics]
    for name in (wanted or "").lower(), "time":
        if name in names:
            return names.index(name)
    return 0


def _rank_models(models: Models, at: Floats) -> Ints:
    """Return the numbers of models by their share of the metric's total at a point, the largest first."""
    metric = models.study.series_metric[models.series]
    value = models.functions.evaluate(at[None])[:, 0]
    positive = np.where(value > 0, value, 0.0)
    total = np.bincount(metric, positive, minlength=len(models.study.metrics))
    with np.errstate(all="ignore"):
        share = np.nan_to_num(positive / total[metric])
    ranked: Ints = np.argsort(-share, kind="stable")
    return ranked


def _function(functions: Functions, number: int, style: str) -> str:
    return "" if np.isnan(functions.constant[number]) else function_text(functions, number, style)


def _order(functions: Functions, number: int) -> str:
    return "" if np.isnan(functions.constant[number]) else order_text(functions, number)
