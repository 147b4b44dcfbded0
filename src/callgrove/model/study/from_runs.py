"""From an experiment whose runs carry parameters to a study.

The runs of one point are its repetitions. The value of a call path in a run is a quantity in a scope, combined over
the run's profiles; parameters of contexts are not part of call paths. A run that never reached a call path has no value
there; one that reached it but spent nothing there has 0. Series that are 0 in all runs are left out, unless a file
stores these zeros.

Derived metrics are those of the user, and those that are named: nothing else is evaluated. Where a formula has no
value, neither has the series. Extra-P's three ways of scaling give the same here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from callgrove.arrays import Array, Bools
from callgrove.errors import InputError, Parameter, UsageError, compose_text
from callgrove.model.books import Totals, is_equal, select_counted_contexts
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Metrics, Scope
from callgrove.model.runs import PARAMETERS_DIFFER
from callgrove.model.study.books import StudyBooks
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.call_paths import CallPaths
from callgrove.model.study.run_values import EXTRA_P, Combination, Cost, Measure, Part, devices_of
from callgrove.model.study.series import Study

__all__ = [
    "OF_THE_USER",
    "SCALINGS",
    "VALUES",
    "combination_for",
    "describe_values",
    "fold",
    "name_values",
    "note_values",
    "of_scaling",
]


Progress = Callable[[str, int, int], None]  # label, done, total


MOST_NAMED = 12  # metrics in a note
OF_THE_USER = "callgrove"  # the language of formulas that users write
NO_SERIES = "{} has no value other than 0 in any run, so that it has no series"
UNLISTED = "{}: call paths above those that the files store have no inclusive series, as in Extra-P"
SCALINGS = {
    "weak": Combination.EACH,
    "weak_threaded": Combination.EACH_USED,
    "strong": Combination.STRONG,
    "device": Combination.DEVICE,
}
VALUES = {  # what a value of a run is, in words that mean the same of every format
    "sum": Combination.SUM,
    "mean": Combination.MEAN,
    "maximum": Combination.MAXIMUM,
    "process": Combination.DEVICE,
}
DESCRIPTIONS = {
    Combination.SUM: "the sum over everything in it, as `top` and `summary` print it",
    Combination.MEAN: "the mean over its processes, threads added up (over its GPUs where only these have values)",
    Combination.MAXIMUM: "that of its slowest process, threads added up (of its GPUs where only these have values)",
    Combination.DEVICE: "that of each process, threads added up (of each GPU where only these have values)",
    Combination.STRONG: "the sum over its threads and streams, as Extra-P makes it for strong scaling",
    Combination.EACH: "that of each thread and stream, as in Extra-P",
    Combination.EACH_USED: "that of each thread and stream that is not 0, as in Extra-P",
}
VALUE_OF_A_RUN = "value of a run"  # an attribute of a study


def of_scaling(word: str) -> Combination:
    """Return what becomes of the profiles of a run: one of VALUES, or what Extra-P does for `weak`, `weak_threaded` and
    `strong` scaling."""
    if word not in SCALINGS and word not in VALUES:
        raise UsageError(f"there is no value of a run {word!r}; there are {', '.join((*VALUES, *SCALINGS))}")
    return VALUES.get(word) or SCALINGS[word]


def combination_for(experiment: Experiment, scaling: str = "") -> Combination:
    """Return what a word means; without one, `process` where runs have GPU streams, `sum` where only what all profiles
    of a run have together is known, else `weak`."""
    if not scaling and len(experiment.profiles.aggregates) == len(experiment.profiles.measured) > 0:
        return Combination.SUM
    return of_scaling(scaling or ("process" if len(devices_of(experiment)) else "weak"))


def describe_values(study: Study) -> str:
    """Return what a value of a run is, of a study that was made of runs; empty of others."""
    return study.attributes.get(VALUE_OF_A_RUN, "")


def note_values(study: Study) -> tuple[str, ...]:
    """Return what a value of a run is as a note of tables; none of studies that were not made of runs."""
    described = describe_values(study)
    return (f"A value of a run is {described}.",) if described else ()


def name_values(study: Study) -> str:
    """Return the word of --value or --scaling for what a value of a run is; empty of studies not made of runs."""
    words = {DESCRIPTIONS[combination]: word for word, combination in (SCALINGS | VALUES).items()}
    return words.get(describe_values(study), "")


def fold(
    experiment: Experiment,
    metrics: Sequence[str] | None = None,
    scope: Scope = Scope.EXCLUSIVE,
    combination: Combination = Combination.SUM,
    progress: Progress | None = None,
    derived: Sequence[str] = (),
) -> Study:
    """Return the study of an experiment. Without `metrics` it has every measured quantity that there is in this scope,
    the derived metrics of the user and those named in `derived`. `progress` hears of every metric: label, done,
    total."""
    builder = StudyBuilder(_parameters(experiment), experiment.format, experiment.version, experiment.title)
    builder.path, builder.attributes = experiment.path, dict(experiment.attributes)
    builder.warnings = list(experiment.warnings)
    builder.scaling = EXTRA_P.get(combination, "")
    builder.attributes[VALUE_OF_A_RUN] = DESCRIPTIONS[combination]
    points = [builder.point([run.parameters[name] for name in builder.parameters]) for run in experiment.runs]
    paths = CallPaths.of(experiment.contexts)
    quantities = _quantities(experiment, metrics)
    left_out: dict[str, list[str]] = {}  # metrics by reason
    counted = Totals(tuple(experiment.metrics), None, select_counted_contexts(experiment.contexts))
    measure = Measure(experiment, scope, combination, paths, counted)
    costs: dict[str, Cost] = {}
    partly: list[str] = []  # series that some runs of a point lack, by name
    unlisted: list[str] = []  # metrics that some files list at fewer call paths than have an inclusive value
    if metrics is None and (others := _list_derived_not_chosen(experiment.metrics, derived)):
        quantities = tuple(name for name in quantities if name not in others)
        builder.warn(Severity.NOTE, _say_not_chosen(others))
    for number, name in enumerate(quantities):
        if progress is not None:
            progress("folding metrics", number, len(quantities))
        metric = experiment.metrics.first(name)
        try:
            parts = measure.of_runs(metric)
        except UsageError as error:
            if metrics is not None or name in derived:
                raise
            left_out.setdefault(error.message.replace(name, "{}"), []).append(name)
            continue
        if metric.unit:
            builder.units[name] = metric.unit
        if metric.derivation is not None and metric.aggregation == Aggregation.NONE:
            builder.ratios.append(name)
        of_runs = [part.cost for part in parts if part.cost is not None]
        if scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE) and len(of_runs) == len(parts):
            costs[name] = Cost(sum(cost.total for cost in of_runs), sum(cost.magnitude for cost in of_runs))
        if any(part.n_unlisted for part in parts):
            unlisted.append(name)
        ever = np.logical_or.reduce([part.find_used_paths(len(paths.texts)) for part in parts])
        for point, part in zip(points, parts, strict=True):
            _add(builder, name, point, part, part.reached & ever, paths, combination)
        reached = np.array([part.reached & ever for part in parts])
        partly += [f"{paths.texts[path]} ({name})" for path in _find_partly_reached(points, reached)]
        if metric.derivation is not None and not ever.any():
            left_out.setdefault(NO_SERIES, []).append(name)
        if n := sum(part.n_negative for part in parts):
            text = f"{n} exclusive values below zero, which differences of unsigned counters have, count as 0"
            builder.warn(Severity.NOTE, f"{name}: {text}, as in Extra-P")
    for text in _explain_left_out(left_out, unlisted, derived):
        builder.warn(Severity.NOTE, text)
    if partly:
        builder.warn(Severity.NOTE, _say_partly(partly))
    if not builder.has_values:
        where = experiment.path or experiment.title
        why = [part for reason in _explain_left_out(left_out, unlisted, derived) for part in ("; ", reason)]
        text = f"{where}: there is no {scope.word} value to make a study of"
        raise UsageError(compose_text(text, *(why or [f"; {NO_VALUES}"])))
    study = builder.build()
    roots = paths.roots if scope == Scope.INCLUSIVE else None
    return replace(study, unexplained=tuple(_differences(study, costs, roots)))


def _find_partly_reached(points: Sequence[int], reached: Array) -> list[int]:
    """Return the call paths that some runs of a point reached and others did not; `reached` has a row for each run."""
    of_point = np.array(points, np.int64)
    found = np.zeros(reached.shape[1], np.bool_)
    for point in np.unique(of_point):
        runs = reached[of_point == point]
        found |= runs.any(axis=0) & ~runs.all(axis=0)
    return np.flatnonzero(found).tolist()


def _say_partly(names: Sequence[str]) -> str:
    """Say which series some runs of a point lack, and what that means."""
    more = ", ..." if len(names) > NAMED else ""
    series = "series was" if len(names) == 1 else "series were"
    return (
        f"{len(names)} {series} reached by some repetitions of a point alone: {', '.join(names[:NAMED])}{more}; "
        "statistics are over these, so that means of all series may add up to more than a run"
    )


NAMED = 3  # series that a note names
NO_VALUES = (
    "no metric has values of call paths that can be combined over ranks as was asked (mean, sum, maximum, ...); "
    "choose another, or leave it out; `callgrove info` lists the metrics"
)


def _differences(study: Study, costs: Mapping[str, Cost], roots: frozenset[str] | None) -> Iterator[str]:
    """Yield metrics whose values do not add up to what the runs cost: all of them, or those of `roots`."""
    totals = StudyBooks(study).add_up_given()
    if roots is not None:
        books = StudyBooks(study)
        of_roots = np.array([callpath in roots for callpath in study.callpaths], np.bool_)
        books.leave_out(series=~of_roots[study.series_callpath])
        totals = books.add_up_given()
    for name, cost in costs.items():
        row = study.metrics.index(name) if name in study.metrics else None
        made = 0.0 if row is None else float(totals.total[row])
        magnitude = cost.magnitude if row is None else max(cost.magnitude, float(totals.magnitude[row]))
        if not is_equal(cost.total, made, magnitude):
            yield f"{name}: the runs make {cost.total:g}, the study {made:g}"


def _say_not_chosen(names: Sequence[str]) -> str:
    some = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    return f"left out of the study: {len(names)} derived metrics that were not asked for: {some}"


def _explain_left_out(
    left_out: Mapping[str, list[str]], unlisted: Sequence[str], asked: Sequence[str]
) -> Iterator[str]:
    """Yield why metrics are left out, by reason. Raises UsageError where one that was asked for has no series."""
    if empty := [name for name in left_out.get(NO_SERIES, ()) if name in asked]:
        raise UsageError(NO_SERIES.replace("{}", empty[0]))
    for reason, names in left_out.items():
        yield compose_text("left out of the study: ", _say_left_out(names, reason))
    if unlisted:
        yield _say_left_out(unlisted, UNLISTED)


def _say_left_out(names: Sequence[str], reason: str) -> str:
    """Return one sentence about several metrics that are left out for one reason."""
    text = reason.replace("{}", names[0])
    others = ", ".join(names[1:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    return compose_text(text, f"; the same of {len(names) - 1} more: {others}") if len(names) > 1 else text


def _add(
    builder: StudyBuilder,
    metric: str,
    point: int,
    part: Part,
    chosen: Bools,
    paths: CallPaths,
    combination: Combination,
) -> None:
    rows = np.flatnonzero(chosen[part.paths])
    for path, row in zip(part.paths[rows].tolist(), part.values[rows], strict=True):
        known = row[~np.isnan(row)] if part.may_lack_values else row
        used = known[known != 0] if combination == Combination.EACH_USED and known.any() else known
        builder.add_values(paths.texts[path], metric, point, [used])


def _list_derived_not_chosen(metrics: Metrics, chosen: Sequence[str]) -> list[str]:
    """Return the derived metrics that nobody asked for: neither by name, nor by writing them."""
    rows = (metrics.first(name) for name in metrics.derived if name not in chosen)
    return [row.name for row in rows if row.derivation is None or row.derivation.language != OF_THE_USER]


def _parameters(experiment: Experiment) -> tuple[str, ...]:
    """Return the parameters of the runs, which must all have the same ones."""
    where = experiment.path or experiment.title
    names = tuple(experiment.runs[0].parameters)
    if not names and (disagreement := experiment.attributes.get(PARAMETERS_DIFFER)):
        raise InputError(f"{where}: {disagreement}")
    if not names:
        raise UsageError(
            f"{where}: the runs carry no parameters, so there is nothing to study them over; say them (",
            Parameter("points", ("p=4", "p=8")),
            ")",
        )
    for number, run in enumerate(experiment.runs):
        if set(run.parameters) != set(names):
            parameters, first = ", ".join(run.parameters) or "none", ", ".join(names)
            raise UsageError(
                f"{where}: run {run.name or number} has the parameters {parameters}, the first run has {first}"
            )
    return names


def _quantities(experiment: Experiment, metrics: Sequence[str] | None) -> tuple[str, ...]:
    """Return what was asked for, or everything."""
    if metrics is None:
        return experiment.metrics.quantities
    return tuple(dict.fromkeys(experiment.metrics.resolve(name) for name in metrics))
