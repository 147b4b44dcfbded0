"""From an experiment whose runs carry parameters to a study.

The runs of one point are its repetitions. The value of a call path in a run is a quantity in a scope, combined over
the run's profiles; parameters of contexts are no part of call paths. A run that never reached a call path has no value
there; one that reached it but spent nothing there has 0. Series that are 0 in all runs are left out, unless a file
stores these zeros. An arrow inside of a name is drawn apart (`operator- >`): arrows separate the names of a call path.

Contexts with the same call path add up, but for files that store a row of values for each context (Cube). Of these,
Extra-P takes every row as a repetition, as stored, and what is less than nothing of an unsigned counter as 0; its three
ways of scaling give the same here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ints, combine_upwards, distinct_rows, summable
from callgrove.errors import InputError, Parameter, UsageError, compose_text
from callgrove.model.books import Totals, is_equal, select_counted_contexts
from callgrove.model.computed_values import Recipe, recipe
from callgrove.model.contexts import LONGEST_PATH, ContextTree
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import PARAMETERS_DIFFER
from callgrove.model.study.books import StudyBooks
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Study
from callgrove.model.values import DenseBlock, has_fillers

__all__ = ["SCALINGS", "Combination", "combination_for", "devices_of", "fold", "of_scaling"]


Progress = Callable[[str, int, int], None]  # label, done, total


class Combination(StrEnum):
    """What becomes of the values that the profiles of one run have."""

    SUM = "sum"
    MEAN = "mean"  # over the profiles that have any value of the quantity
    MAXIMUM = "max"
    EACH = "each"  # all are kept: one repetition with a value per profile (Extra-P's weak scaling)
    EACH_USED = "each used"  # the same without zeros, unless there is nothing else (weak_threaded)
    DEVICE = "device"  # added up on every GPU, or on the host in every process; then as EACH


MOST_NAMED = 12  # metrics in a note
UNLISTED = "{}: call paths above those that the files store have no inclusive series, as in Extra-P"
MOST_CELLS = 1 << 23  # of a matrix of profiles and contexts
SCALINGS = {
    "weak": Combination.EACH,
    "weak_threaded": Combination.EACH_USED,
    "strong": Combination.SUM,
    "device": Combination.DEVICE,
}
EXTRA_P = {  # what Extra-P calls it: it knows no devices, each of which is a measurement like a process
    Combination.SUM: "strong",
    Combination.EACH: "weak",
    Combination.EACH_USED: "weak_threaded",
    Combination.DEVICE: "weak",
}


def of_scaling(scaling: str) -> Combination:
    """Return what becomes of the profiles of a run: what Extra-P does for `weak`, `weak_threaded` and `strong` scaling,
    or one value for every `device`."""
    if scaling not in SCALINGS:
        raise UsageError(f"there is no scaling {scaling!r}; there are {', '.join(SCALINGS)}")
    return SCALINGS[scaling]


def combination_for(experiment: Experiment, scaling: str = "") -> Combination:
    """Return what a scaling means; without a word, `device` where runs have GPU streams, else `weak`."""
    return of_scaling(scaling or ("device" if len(devices_of(experiment)) else "weak"))


def devices_of(experiment: Experiment) -> Ints:
    """Return the profiles of streams on GPUs that processes of a rank used."""
    profiles = experiment.profiles
    on_device = np.isin(profiles.kind, (ProfileKind.GPU_STREAM, ProfileKind.QUEUE))
    for column in ("rank", "gpu_device"):
        on_device = on_device & profiles.identity(column)[1]
    return np.flatnonzero(on_device)


@dataclass(frozen=True)
class CallPaths:
    """The different call paths of a tree's listed contexts."""

    of_context: Ints
    texts: tuple[str, ...]
    roots: frozenset[str]

    @classmethod
    def of(cls, tree: ContextTree) -> CallPaths:
        """Return the call paths of a tree. Contexts have the same call path where their names are equal, all the way
        up."""
        known: dict[tuple[int, str], int] = {}
        paths: list[int] = []
        above = tree.parent[: tree.n_listed].tolist()
        for parent, label in zip(above, _labels(tree), strict=True):
            paths.append(known.setdefault((paths[parent] if parent >= 0 else ABSENT, label), len(known)))
        texts = _unique_texts(list(known))
        roots = frozenset(text for text, (parent, _) in zip(texts, known, strict=True) if parent < 0)
        return cls(np.array(paths, np.int64), texts, roots)


def fold(
    experiment: Experiment,
    metrics: Sequence[str] | None = None,
    scope: Scope = Scope.EXCLUSIVE,
    combination: Combination = Combination.SUM,
    progress: Progress | None = None,
) -> Study:
    """Return the study of an experiment. Without `metrics` it has every quantity that there is in this scope.
    `progress` hears of every metric: label, done, total."""
    builder = StudyBuilder(_parameters(experiment), experiment.format, experiment.version, experiment.title)
    builder.path, builder.attributes = experiment.path, dict(experiment.attributes)
    builder.warnings = list(experiment.warnings)
    builder.scaling = EXTRA_P.get(combination, "")
    points = [builder.point([run.parameters[name] for name in builder.parameters]) for run in experiment.runs]
    paths = CallPaths.of(experiment.contexts)
    quantities = _quantities(experiment, metrics)
    left_out: dict[str, list[str]] = {}  # metrics by reason
    counted = Totals(tuple(experiment.metrics), None, select_counted_contexts(experiment.contexts))
    costs: dict[str, Cost] = {}
    unlisted: list[str] = []  # metrics that some files list at fewer call paths than have an inclusive value
    if metrics is None and (derived := experiment.metrics.derived):
        quantities = tuple(name for name in quantities if name not in derived)
        some = ", ".join(derived[:MOST_NAMED]) + (", ..." if len(derived) > MOST_NAMED else "")
        builder.warn(Severity.NOTE, f"left out of the study: {len(derived)} derived metrics, not evaluated: {some}")
    for number, name in enumerate(quantities):
        if progress is not None:
            progress("folding metrics", number, len(quantities))
        try:
            way = recipe(experiment.metrics, name, scope)
            parts = [_measure_run(experiment, way, run, combination, paths, counted) for run in range(len(points))]
        except UsageError as error:
            if metrics is not None:
                raise
            left_out.setdefault(error.message.replace(name, "{}"), []).append(name)
            continue
        if way.metric.unit:
            builder.units[name] = way.metric.unit
        of_runs = [part.cost for part in parts if part.cost is not None]
        if scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE) and len(of_runs) == len(parts):
            costs[name] = Cost(sum(cost.total for cost in of_runs), sum(cost.magnitude for cost in of_runs))
        if any(part.n_unlisted for part in parts):
            unlisted.append(name)
        ever = np.logical_or.reduce([part.find_used_paths(len(paths.texts)) for part in parts])
        for point, part in zip(points, parts, strict=True):
            _add(builder, name, point, part, part.reached & ever, paths, combination)
        if n := sum(part.n_negative for part in parts):
            text = f"{n} exclusive values below zero, which differences of unsigned counters have, count as 0"
            builder.warn(Severity.NOTE, f"{name}: {text}, as in Extra-P")
    for reason, names in left_out.items():
        builder.warn(Severity.NOTE, compose_text("left out of the study: ", _say_left_out(names, reason)))
    if unlisted:
        builder.warn(Severity.NOTE, _say_left_out(unlisted, UNLISTED))
    if not builder.has_values:
        raise UsageError(f"{experiment.path or experiment.title}: there is no {scope.word} value to make a study of")
    study = builder.build()
    roots = paths.roots if scope == Scope.INCLUSIVE else None
    return replace(study, unexplained=tuple(_differences(study, costs, roots)))


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


def _say_left_out(names: Sequence[str], reason: str) -> str:
    """Return one sentence about several metrics that are left out for one reason."""
    text = reason.replace("{}", names[0])
    others = ", ".join(names[1:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    return compose_text(text, f"; the same of {len(names) - 1} more: {others}") if len(names) > 1 else text


def _add(
    builder: StudyBuilder,
    metric: str,
    point: int,
    part: _Part,
    chosen: Bools,
    paths: CallPaths,
    combination: Combination,
) -> None:
    rows = np.flatnonzero(chosen[part.paths])
    for path, row in zip(part.paths[rows].tolist(), part.values[rows], strict=True):
        used = row[row != 0] if combination == Combination.EACH_USED and row.any() else row
        builder.add_values(paths.texts[path], metric, point, [used])


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


class Cost(NamedTuple):
    """What values add up to, and what their magnitudes do."""

    total: float
    magnitude: float


@dataclass(frozen=True)
class _Part:
    """A quantity in one run: rows of values (x 1, or x profiles), each a repetition of its call path; which call paths
    the run reached, and those that are stored whatever their value."""

    values: Floats
    paths: Ints
    reached: Bools
    listed: Bools
    n_negative: int = 0  # values of unsigned counters that count as 0
    cost: Cost | None = None  # what all values should add up to; None where they do not add up
    n_unlisted: int = 0  # contexts with an inclusive value that no series is made of

    def find_used_paths(self, n_paths: int) -> Bools:
        """Return which call paths have a value, or are stored whatever their value."""
        has_value = np.zeros(n_paths, np.bool_)
        has_value[self.paths[(self.values != 0).any(axis=1)]] = True
        return (has_value & self.reached) | self.listed


def _measure_run(
    experiment: Experiment, way: Recipe, run: int, combination: Combination, paths: CallPaths, counted: Totals
) -> _Part:
    profiles = experiment.values.known[experiment.profiles.run[experiment.values.known] == run]
    if combination != Combination.SUM and np.isin(profiles, experiment.profiles.aggregates).any():
        name = experiment.runs[run].name or experiment.path
        only = f"{name}: only what all profiles have together is known; take their sum ("
        raise UsageError(only, Parameter("scaling", "strong"), ")")
    stored = _Stored.of(experiment, way, profiles, counted)
    listed, n_unlisted = _mark_paths(stored.listed, paths), stored.count_unlisted(experiment.contexts, way)
    cost = None if n_unlisted else stored.cost
    reached = listed if stored.dense else stored.find_reached_paths(experiment.contexts, paths)
    if stored.dense and combination in EXTRA_P and combination != Combination.DEVICE:
        values, contexts, n_negative, clipped = _rows(experiment, way, profiles, stored.listed[: len(paths.of_context)])
        if combination == Combination.SUM:
            rule = np.add if way.metric.composite is not None else way.metric.aggregation.ufunc
            values = rule.reduce(values, axis=1, keepdims=True)
        if cost is not None and clipped:
            cost = cost._replace(total=cost.total + clipped)
        return _Part(values, paths.of_context[contexts], reached, listed, n_negative, cost, n_unlisted)
    values = _add_up(experiment, way, profiles, combination, paths, stored)
    if combination == Combination.MAXIMUM or has_fillers(experiment.values.backend):  # which are not added up
        cost = None
    elif combination == Combination.MEAN and cost is not None:
        cost = Cost(*(number / max(1, stored.n_carriers) for number in cost))
    return _Part(values, np.arange(len(paths.texts)), reached, listed, cost=cost, n_unlisted=n_unlisted)


def _rows(experiment: Experiment, way: Recipe, profiles: Ints, listed: Bools) -> tuple[Floats, Ints, int, float]:
    """Return the values of each context that is listed (x profiles), these contexts, how many values below zero became
    0, and by how much. Counters exceed 2^53, so differences are taken before anything becomes a double."""
    contexts, n_negative, clipped = np.flatnonzero(listed), 0, 0.0
    unsigned = way.metric.dtype.upper().startswith("U") and way.metric.composite is None
    columns = []
    for chunk in _chunks(profiles, len(experiment.contexts)):
        for column in _columns(experiment, way, chunk):
            values = experiment.values.scalar(way.stored, _in_scope(way, column, experiment.contexts))[contexts]
            if unsigned:
                below = values[values < 0]
                n_negative, clipped = n_negative + len(below), clipped - float(below.sum(dtype=np.float64))
                values = np.maximum(values, 0)
            absent = values == way.metric.aggregation.neutral
            columns.append(np.where(absent, 0.0, values.astype(np.float64)))
    rows = np.stack(columns, axis=1) if columns else np.zeros((len(contexts), 0))
    return rows, contexts, n_negative, clipped


def _in_scope(way: Recipe, stored: Array, tree: ContextTree) -> Array:
    """Return stored values in the wanted scope. As Extra-P does, children are taken off a double one after the other,
    and what rounding leaves of it stays."""
    additive = way.metric.aggregation == Aggregation.SUM and way.metric.composite is None
    if stored.dtype.kind != "f" or not additive or (way.metric.scope, way.wanted) != (Scope.INCLUSIVE, Scope.EXCLUSIVE):
        return way.apply(stored, tree)
    out = stored.copy()
    children = np.flatnonzero(tree.parent >= 0)
    np.subtract.at(out, tree.parent[children], stored[children])
    return out


def _add_up(
    experiment: Experiment, way: Recipe, profiles: Ints, combination: Combination, paths: CallPaths, stored: _Stored
) -> Floats:
    """Return one row of values for each call path: contexts that share it add up."""
    linear = way.metric.aggregation == Aggregation.SUM
    if combination == Combination.SUM or (combination == Combination.MEAN and linear):
        total = experiment.values.totals(way.stored, profiles)
        values = _on_paths(experiment, way, total, paths)[:, None]
        return values / max(1, stored.n_carriers) if combination == Combination.MEAN else values
    if combination == Combination.DEVICE:
        places = _places(experiment, profiles, stored.carriers)
        columns = [
            _on_paths(experiment, way, experiment.values.totals(way.stored, profiles_of_place), paths)
            for profiles_of_place in places
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(paths.texts), 0))
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
    return each


def _places(experiment: Experiment, profiles: Ints, carriers: Ints) -> list[Ints]:
    """Return the profiles of each GPU where only streams carry values, those of each process where anything else does;
    a stream belongs to its process there."""
    streams = np.intersect1d(profiles, devices_of(experiment))
    on_devices = len(carriers) > 0 and bool(np.isin(carriers, streams).all())
    chosen = streams if on_devices else profiles
    if not on_devices and len(carriers) and not np.isin(carriers, streams).any():
        chosen = np.setdiff1d(profiles, streams)
    columns = ("node", "rank", "gpu_device") if on_devices else ("node", "rank")
    keys = [
        np.where(present, values, np.uint64(2**64 - 1))[chosen]
        for values, present in map(experiment.profiles.identity, columns)
    ]
    _, number = distinct_rows(*(key.astype(np.int64) for key in keys))
    return [chosen[number == k] for k in range(int(number.max(initial=-1)) + 1)]


def _chunks(profiles: Ints, n_contexts: int) -> Iterator[Ints]:
    """Yield so many profiles at once that a matrix of them stays small."""
    step = max(1, MOST_CELLS // max(1, n_contexts))
    for first in range(0, len(profiles), step):
        yield profiles[first : first + step]


def _columns(experiment: Experiment, way: Recipe, profiles: Ints) -> Iterator[Array]:
    """Yield the stored values of each profile, over all contexts. One pass over the input serves all of them."""
    if way.metric.composite is not None:
        yield from (experiment.values.totals(way.stored, np.array([p])) for p in profiles.tolist())
        return
    aggregation = way.metric.aggregation
    shape = len(profiles), len(experiment.contexts)
    matrix: Array | None = None
    place = np.full(len(experiment.profiles), ABSENT, np.int64)
    place[profiles] = np.arange(len(profiles))
    for block in experiment.values.blocks(profiles, np.array([way.stored])):
        triples = block.triples()
        values = triples.value.astype(np.float64) if aggregation.neutral else summable(triples.value)
        if matrix is None:
            matrix = np.full(shape, aggregation.neutral, values.dtype)
        elif matrix.dtype != values.dtype:
            matrix = matrix.astype(np.promote_types(matrix.dtype, values.dtype))
        aggregation.combine_at(matrix.reshape(-1), place[triples.profile] * shape[1] + triples.context, values)
    yield from np.full(shape, aggregation.neutral) if matrix is None else matrix


@dataclass(frozen=True)
class _Stored:
    """What a run stores of a metric: contexts with a value, contexts that are listed whatever their value, the profiles
    that have any, and their cost where values add up. `dense`: it lists contexts, a row for each."""

    contexts: Bools
    dense: bool
    listed: Bools
    carriers: Ints
    cost: Cost | None

    @property
    def n_carriers(self) -> int:
        return len(self.carriers)

    @classmethod
    def of(cls, experiment: Experiment, way: Recipe, profiles: Ints, counted: Totals) -> _Stored:
        has_value = np.zeros(len(experiment.contexts), np.bool_)
        listed = np.zeros(len(experiment.contexts), np.bool_)
        carriers: set[int] = set()
        dense = False
        counted.total[way.stored] = counted.magnitude[way.stored] = 0.0
        for block in experiment.values.blocks(profiles, np.array([way.stored])):
            triples = block.triples()
            counted.add_rows(triples.metric, triples.context, triples.value)
            has_value[triples.context] = True
            carriers.update(np.unique(triples.profile).tolist())
            if isinstance(block, DenseBlock):
                dense = True
                listed[block.contexts] = True
        cost = Cost(float(counted.total[way.stored]), float(counted.magnitude[way.stored]))
        known = cost if counted.adds_up[way.stored] else None
        return cls(has_value, dense, listed, np.array(sorted(carriers), np.int64), known)

    def find_reached_paths(self, tree: ContextTree, paths: CallPaths) -> Bools:
        """Return which call paths have a stored value, at them or below."""
        return _mark_paths(_with_ancestors(self.contexts, tree), paths)

    def count_unlisted(self, tree: ContextTree, way: Recipe) -> int:
        """Return how many contexts above those that a file lists have an inclusive value that is computed: Extra-P
        makes series of what is listed alone, and so do we."""
        computed = self.dense and way.wanted == Scope.INCLUSIVE and way.metric.scope != Scope.INCLUSIVE
        return int((_with_ancestors(self.listed, tree) & ~self.listed).sum()) if computed else 0


def _with_ancestors(contexts: Bools, tree: ContextTree) -> Bools:
    return combine_upwards(contexts.astype(np.int8), tree.parent, tree.levels, np.maximum).astype(np.bool_)


def _mark_paths(contexts: Bools, paths: CallPaths) -> Bools:
    out = np.zeros(len(paths.texts), np.bool_)
    out[paths.of_context[contexts[: len(paths.of_context)]]] = True
    return out


def _on_paths(experiment: Experiment, way: Recipe, stored: Array, paths: CallPaths) -> Floats:
    """Return stored values in the wanted scope, added up over the contexts of each call path; absent is 0."""
    values = experiment.values.scalar(way.stored, way.apply(stored, experiment.contexts))
    listed = np.asarray(values[: len(paths.of_context)], np.float64)
    aggregation = Aggregation.SUM if way.metric.composite is not None else way.metric.aggregation
    out = np.full(len(paths.texts), aggregation.neutral)
    aggregation.combine_at(out, paths.of_context, listed)
    return np.where(out == aggregation.neutral, 0.0, out)


def _labels(tree: ContextTree) -> list[str]:
    """Return the names of the listed contexts, without parameters."""
    return [tree.name(context) for context in range(tree.n_listed)]


def _unique_texts(steps: list[tuple[int, str]]) -> tuple[str, ...]:
    """Return the text of every call path, cut in the middle beyond LONGEST_PATH levels. Where different ones read the
    same (cut, or a name has an arrow in it), the later ones are numbered."""
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
