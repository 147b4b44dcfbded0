"""From an experiment whose runs carry parameters to a study.

The runs of one point are its repetitions. The value of a call path in a run is a quantity in a scope, combined over
the run's profiles; contexts with the same call path add up. A run that never reached a call path has no value there;
one that reached it but spent nothing there has 0. Series that are 0 in all runs are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import ABSENT, Array, Bools, Floats, Ints
from callgrove.model.contexts import LONGEST_PATH, ContextTree
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.orders import combine_upwards
from callgrove.model.scopes import Recipe, recipe
from callgrove.model.study import Study
from callgrove.model.study_builder import StudyBuilder

__all__ = ["Combination", "fold", "of_scaling"]


class Combination(StrEnum):
    """What becomes of the values that the profiles of one run have."""

    SUM = "sum"
    MEAN = "mean"  # over the profiles that have any value of the quantity
    MAXIMUM = "max"
    EACH = "each"  # all are kept: one repetition with a value per profile (Extra-P's weak scaling)
    EACH_USED = "each used"  # the same without zeros, unless there is nothing else (weak_threaded)


SCALING = {Combination.SUM: "strong", Combination.EACH: "weak", Combination.EACH_USED: "weak_threaded"}


def of_scaling(scaling: str) -> Combination:
    """What Extra-P does with the profiles of a run for `weak`, `weak_threaded` and `strong` scaling."""
    for combination, word in SCALING.items():
        if word == scaling:
            return combination
    raise UsageError(f"there is no scaling {scaling!r}; there are {', '.join(SCALING.values())}")


@dataclass(frozen=True)
class CallPaths:
    """The different call paths of a tree's listed contexts."""

    of_context: Ints
    texts: tuple[str, ...]

    @classmethod
    def of(cls, tree: ContextTree) -> CallPaths:
        """Contexts have the same call path where their names are equal, all the way up."""
        known: dict[tuple[int, str], int] = {}
        paths: list[int] = []
        above = tree.parent[: tree.n_listed].tolist()
        for parent, label in zip(above, _labels(tree), strict=True):
            paths.append(known.setdefault((paths[parent] if parent >= 0 else ABSENT, label), len(known)))
        return cls(np.array(paths, np.int64), _unique_texts(list(known)))


def fold(
    experiment: Experiment,
    metrics: Sequence[str] | None = None,
    scope: Scope = Scope.EXCLUSIVE,
    combination: Combination = Combination.SUM,
) -> Study:
    """The study of an experiment. Without `metrics` it has every quantity that there is in this scope."""
    builder = StudyBuilder(_parameters(experiment), experiment.format, experiment.version, experiment.title)
    builder.path, builder.attributes = experiment.path, dict(experiment.attributes)
    builder.warnings = list(experiment.warnings)
    builder.scaling = SCALING.get(combination, "")
    points = [builder.point([run.parameters[name] for name in builder.parameters]) for run in experiment.runs]
    paths = CallPaths.of(experiment.contexts)
    for name in _quantities(experiment, metrics):
        try:
            way = recipe(experiment.metrics, name, scope)
            parts = [_measured(experiment, way, run, combination, paths) for run in range(len(points))]
        except UsageError as error:
            if metrics is not None:
                raise
            builder.warn(Severity.NOTE, f"left out of the study: {error}")
            continue
        if way.metric.unit:
            builder.units[name] = way.metric.unit
        ever = np.logical_or.reduce([(values != 0).any(axis=1) & reached for values, reached in parts])
        for point, (values, reached) in zip(points, parts, strict=True):
            _add(builder, name, point, values, np.flatnonzero(reached & ever), paths, combination)
    if not builder.has_values:
        raise UsageError(f"{experiment.path or experiment.title}: there is no {scope.word} value to make a study of")
    return builder.build()


def _add(
    builder: StudyBuilder,
    metric: str,
    point: int,
    values: Floats,
    chosen: Ints,
    paths: CallPaths,
    combination: Combination,
) -> None:
    for path, row in zip(chosen.tolist(), values[chosen], strict=True):
        used = row[row != 0] if combination == Combination.EACH_USED and row.any() else row
        builder.add_values(paths.texts[path], metric, point, [used])


def _parameters(experiment: Experiment) -> tuple[str, ...]:
    """The parameters of the runs, which must all have the same ones."""
    where = experiment.path or experiment.title
    names = tuple(experiment.runs[0].parameters)
    if not names:
        raise UsageError(
            f"{where}: the runs carry no parameters, so there is nothing to study them over; say them (--point p=4 RUN)"
        )
    for number, run in enumerate(experiment.runs):
        if set(run.parameters) != set(names):
            own, first = ", ".join(run.parameters) or "none", ", ".join(names)
            raise UsageError(f"{where}: run {run.name or number} has the parameters {own}, the first run has {first}")
    return names


def _quantities(experiment: Experiment, metrics: Sequence[str] | None) -> tuple[str, ...]:
    """What was asked for, or everything."""
    if metrics is None:
        return experiment.metrics.quantities
    return tuple(dict.fromkeys(experiment.metrics.resolve(name) for name in metrics))


def _measured(
    experiment: Experiment, way: Recipe, run: int, combination: Combination, paths: CallPaths
) -> tuple[Floats, Bools]:
    """A quantity in one run: values (call paths x 1, or x profiles), and which call paths the run reached."""
    profiles = experiment.profiles.measured[experiment.profiles.run[experiment.profiles.measured] == run]
    stored = _stored(experiment, way, profiles)
    reached = _reached(experiment.contexts, stored, way, paths)
    linear = way.metric.aggregation == Aggregation.SUM
    if combination == Combination.SUM or (combination == Combination.MEAN and linear):
        values = _on_paths(experiment, way, stored, paths)[:, None]
        return values / max(
            1, _n_carriers(experiment, way, profiles)
        ) if combination == Combination.MEAN else values, reached
    columns = [_on_paths(experiment, way, _stored(experiment, way, np.array([p])), paths) for p in profiles.tolist()]
    each = np.stack(columns, axis=1) if columns else np.zeros((len(paths.texts), 0))
    if combination == Combination.MEAN:
        return each.sum(axis=1, keepdims=True) / max(1, _n_carriers(experiment, way, profiles)), reached
    if combination == Combination.MAXIMUM:
        return each.max(axis=1, keepdims=True, initial=-np.inf), reached
    return each, reached


def _stored(experiment: Experiment, way: Recipe, profiles: Ints) -> Array:
    return experiment.values.totals(way.stored, profiles)


def _on_paths(experiment: Experiment, way: Recipe, stored: Array, paths: CallPaths) -> Floats:
    """Stored values in the wanted scope, added up over the contexts of each call path; absent is 0."""
    values = experiment.values.scalar(way.stored, way.apply(stored, experiment.contexts))
    listed = np.asarray(values[: len(paths.of_context)], np.float64)
    aggregation = Aggregation.SUM if way.metric.composite is not None else way.metric.aggregation
    out = np.full(len(paths.texts), aggregation.neutral)
    aggregation.combine_at(out, paths.of_context, listed)
    return np.where(out == aggregation.neutral, 0.0, out)


def _reached(tree: ContextTree, stored: Array, way: Recipe, paths: CallPaths) -> Bools:
    """Call paths with a stored value at them or below."""
    if stored.dtype.names is not None:
        has_value = np.array([any(np.any(field) for field in row) for row in stored.tolist()], np.bool_)
    else:
        has_value = stored != way.metric.aggregation.neutral
    below = combine_upwards(has_value.astype(np.int8), tree.parent, tree.levels, np.maximum)
    out = np.zeros(len(paths.texts), np.int8)
    np.maximum.at(out, paths.of_context, below[: tree.n_listed])
    return out.astype(np.bool_)


def _n_carriers(experiment: Experiment, way: Recipe, profiles: Ints) -> int:
    """Profiles with any value of the quantity."""
    blocks = experiment.values.blocks(profiles, np.array([way.stored]))
    return len({profile for block in blocks for profile in np.unique(block.triples().profile).tolist()})


def _labels(tree: ContextTree) -> list[str]:
    """The names of the listed contexts."""
    return [tree.label(context) for context in range(tree.n_listed)]


def _unique_texts(steps: list[tuple[int, str]]) -> tuple[str, ...]:
    """The text of every call path, cut in the middle beyond LONGEST_PATH levels. Where different ones read the same
    (cut, or a name has an arrow in it), the later ones are numbered."""
    texts: dict[str, None] = {}
    numbers: dict[str, int] = {}
    half = LONGEST_PATH // 2
    chains: list[tuple[str, ...]] = []  # the names of each path; of a long one, those that are shown and one more
    for parent, label in steps:
        chain = (*chains[parent], label) if parent >= 0 else (label,)
        if len(chain) > LONGEST_PATH:
            chain = (*chain[:half], "...", *chain[-half:])
        chains.append(chain)
        text = plain = "->".join(chain)
        while text in texts:
            numbers[plain] = numbers.get(plain, 1) + 1
            text = f"{plain} #{numbers[plain]}"
        texts[text] = None
    return tuple(texts)
