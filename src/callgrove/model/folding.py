"""From an experiment whose runs carry parameters to a study.

The runs of one point are its repetitions. The value of a call path in a run is a quantity in a scope, combined over
the run's profiles; contexts with the same call path add up. A run that never reached a call path has no value there;
one that reached it but spent nothing there has 0. Series that are 0 in all runs are left out, unless a file stores
these zeros. An arrow inside of a name is drawn apart (`operator- >`): arrows separate the names of a call path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from callgrove.model.values import DenseBlock

__all__ = ["Combination", "fold", "of_scaling"]


class Combination(StrEnum):
    """What becomes of the values that the profiles of one run have."""

    SUM = "sum"
    MEAN = "mean"  # over the profiles that have any value of the quantity
    MAXIMUM = "max"
    EACH = "each"  # all are kept: one repetition with a value per profile (Extra-P's weak scaling)
    EACH_USED = "each used"  # the same without zeros, unless there is nothing else (weak_threaded)


SHOWN = 5  # names in one sentence
MOST_CELLS = 1 << 23  # of a matrix of profiles and contexts
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
    progress: Callable[[str, int, int], None] | None = None,
) -> Study:
    """The study of an experiment. Without `metrics` it has every quantity that there is in this scope. `progress` hears
    of every metric: label, done, total."""
    builder = StudyBuilder(_parameters(experiment), experiment.format, experiment.version, experiment.title)
    builder.path, builder.attributes = experiment.path, dict(experiment.attributes)
    builder.warnings = list(experiment.warnings)
    builder.scaling = SCALING.get(combination, "")
    points = [builder.point([run.parameters[name] for name in builder.parameters]) for run in experiment.runs]
    paths = CallPaths.of(experiment.contexts)
    quantities = _quantities(experiment, metrics)
    if metrics is None and (derived := experiment.metrics.derived):
        quantities = tuple(name for name in quantities if name not in derived)
        some = ", ".join(derived[:SHOWN]) + (", ..." if len(derived) > SHOWN else "")
        builder.warn(Severity.NOTE, f"left out of the study: {len(derived)} derived metrics, not evaluated: {some}")
    for number, name in enumerate(quantities):
        if progress is not None:
            progress("folding metrics", number, len(quantities))
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
        ever = np.logical_or.reduce([((part.values != 0).any(axis=1) & part.reached) | part.listed for part in parts])
        for point, part in zip(points, parts, strict=True):
            _add(builder, name, point, part.values, np.flatnonzero(part.reached & ever), paths, combination)
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


@dataclass(frozen=True)
class _Part:
    """A quantity in one run: values (call paths x 1, or x profiles), which call paths the run reached, and those that
    are stored whatever their value."""

    values: Floats
    reached: Bools
    listed: Bools


def _measured(experiment: Experiment, way: Recipe, run: int, combination: Combination, paths: CallPaths) -> _Part:
    profiles = experiment.profiles.measured[experiment.profiles.run[experiment.profiles.measured] == run]
    stored = _Stored.of(experiment, way, profiles, paths)
    reached = stored.reached(experiment.contexts, paths)
    linear = way.metric.aggregation == Aggregation.SUM
    if combination == Combination.SUM or (combination == Combination.MEAN and linear):
        total = experiment.values.totals(way.stored, profiles)
        values = _on_paths(experiment, way, total, paths)[:, None]
        if combination == Combination.MEAN:
            values = values / max(1, stored.n_carriers)
        return _Part(values, reached, stored.listed)
    columns = [
        _on_paths(experiment, way, column, paths)
        for chunk in _chunks(profiles, len(experiment.contexts))
        for column in _columns(experiment, way, chunk)
    ]
    each = np.stack(columns, axis=1) if columns else np.zeros((len(paths.texts), 0))
    if combination == Combination.MEAN:
        each = each.sum(axis=1, keepdims=True) / max(1, stored.n_carriers)
    elif combination == Combination.MAXIMUM:
        each = each.max(axis=1, keepdims=True, initial=-np.inf)
    return _Part(each, reached, stored.listed)


def _chunks(profiles: Ints, n_contexts: int) -> Iterator[Ints]:
    """So many profiles at once that a matrix of them stays small."""
    step = max(1, MOST_CELLS // max(1, n_contexts))
    for first in range(0, len(profiles), step):
        yield profiles[first : first + step]


def _columns(experiment: Experiment, way: Recipe, profiles: Ints) -> Iterator[Array]:
    """The stored values of each profile, over all contexts. One pass over the input serves all of them."""
    if way.metric.composite is not None or len(profiles) == 1:
        yield from (experiment.values.totals(way.stored, np.array([p])) for p in profiles.tolist())
        return
    aggregation = way.metric.aggregation
    matrix = np.full((len(profiles), len(experiment.contexts)), aggregation.neutral)
    place = np.full(len(experiment.profiles), ABSENT, np.int64)
    place[profiles] = np.arange(len(profiles))
    for block in experiment.values.blocks(profiles, np.array([way.stored])):
        triples = block.triples()
        flat = place[triples.profile] * len(experiment.contexts) + triples.context
        aggregation.combine_at(matrix.reshape(-1), flat, np.asarray(triples.value, np.float64))
    yield from matrix


@dataclass(frozen=True)
class _Stored:
    """What a run stores of a metric: contexts with a value, call paths that are listed whatever their value, and how
    many profiles have any."""

    contexts: Bools
    dense: bool
    listed: Bools
    n_carriers: int

    @classmethod
    def of(cls, experiment: Experiment, way: Recipe, profiles: Ints, paths: CallPaths) -> _Stored:
        has_value = np.zeros(len(experiment.contexts), np.bool_)
        listed = np.zeros(len(experiment.contexts), np.bool_)
        carriers: set[int] = set()
        dense = False
        for block in experiment.values.blocks(profiles, np.array([way.stored])):
            triples = block.triples()
            has_value[triples.context] = True
            carriers.update(np.unique(triples.profile).tolist())
            if isinstance(block, DenseBlock):
                dense = True
                listed[block.contexts] = True
        return cls(has_value, dense, _of_paths(listed, paths), len(carriers))

    def reached(self, tree: ContextTree, paths: CallPaths) -> Bools:
        """Call paths with a stored value at them or below; where the input lists contexts, those that it lists."""
        if self.dense:
            return self.listed
        below = combine_upwards(self.contexts.astype(np.int8), tree.parent, tree.levels, np.maximum)
        return _of_paths(below.astype(np.bool_), paths)


def _of_paths(contexts: Bools, paths: CallPaths) -> Bools:
    out = np.zeros(len(paths.texts), np.bool_)
    out[paths.of_context[contexts[: len(paths.of_context)]]] = True
    return out


def _on_paths(experiment: Experiment, way: Recipe, stored: Array, paths: CallPaths) -> Floats:
    """Stored values in the wanted scope, added up over the contexts of each call path; absent is 0."""
    values = experiment.values.scalar(way.stored, way.apply(stored, experiment.contexts))
    listed = np.asarray(values[: len(paths.of_context)], np.float64)
    aggregation = Aggregation.SUM if way.metric.composite is not None else way.metric.aggregation
    out = np.full(len(paths.texts), aggregation.neutral)
    aggregation.combine_at(out, paths.of_context, listed)
    return np.where(out == aggregation.neutral, 0.0, out)


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
        name = label.replace("->", "- >")  # arrows stand between names only
        chain = (*chains[parent], name) if parent >= 0 else (name,)
        if len(chain) > LONGEST_PATH:
            chain = (*chain[:half], "...", *chain[-half:])
        chains.append(chain)
        text = plain = "->".join(chain)
        while text in texts:
            numbers[plain] = numbers.get(plain, 1) + 1
            text = f"{plain} #{numbers[plain]}"
        texts[text] = None
    return tuple(texts)
