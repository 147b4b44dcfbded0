"""The costs of every context in every profile, as columns: what every frame is made of.

    row       a context in a profile with any cost there, or with a cost below it
    columns   which context and profile it is, then for every metric M its exclusive cost `M` and its inclusive cost
              `M (inc)`, each with a mark where there is none

Contexts that a file elides are part of others and left out, as are stored summaries of all profiles. Derived metrics
are computed for each cell. Metrics that are not plain numbers, and formulas that cannot be evaluated, are left out and
named (`Costs.left_out`), unless they were asked for.

Values are read some profiles at a time, so that no matrix of all contexts and profiles is ever made. A frame that would
have too many rows is refused before it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np

from callgrove.analysis.tables import context_paths
from callgrove.arrays import Array, Bools, Ids, Ints, combine_upwards
from callgrove.errors import UsageError
from callgrove.model.computed_values import matrices, recipe
from callgrove.model.contexts import LONGEST_PATH, ContextKind, ContextTree
from callgrove.model.derived import ProfileCells, TotalCells, number_cells
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope

__all__ = [
    "DESCRIBING",
    "EXCLUSIVE",
    "INCLUSIVE",
    "MOST_ROWS",
    "PLACES",
    "Costs",
    "Numbers",
    "Words",
    "choose_metrics",
    "context_columns",
    "differ",
    "list_known_profiles",
    "mark_present",
    "name_columns",
    "neutral_of",
    "profile_columns",
    "read_bands",
    "read_costs",
    "refuse_size",
]

MOST_ROWS = 50_000_000
MOST_CELLS = 1 << 24  # contexts x profiles x metrics that are held at once
EXCLUSIVE, INCLUSIVE = " (exc)", " (inc)"
PLACES = {"rank": "rank", "thread": "thread", "gpu": "gpu_device", "stream": "gpu_stream"}
SCOPES = (Scope.EXCLUSIVE, Scope.INCLUSIVE)


@dataclass(frozen=True)
class Numbers:
    """A column of numbers; `present` says which of them there are."""

    values: Array
    present: Bools

    @classmethod
    def everywhere(cls, values: Array) -> Numbers:
        """Return a column without a gap."""
        return cls(values, np.ones(len(values), np.bool_))

    def take(self, rows: Ints) -> Numbers:
        """Return some of the rows."""
        return Numbers(self.values[rows], self.present[rows])


@dataclass(frozen=True)
class Words:
    """A column of texts: `codes` are numbers of `words`, which are all different; -1 is none."""

    codes: Ids
    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Sequence[str | None]) -> Words:
        """Return a column of these texts. What no encoding can hold, such as half of a character, is written out."""
        known: dict[str, int] = {}
        different = dict.fromkeys(texts)
        of_text = {text: -1 if text is None else known.setdefault(_encodable(text), len(known)) for text in different}
        codes = np.fromiter(map(of_text.__getitem__, texts), np.int32, len(texts))
        return cls(codes, tuple(known))

    def take(self, rows: Ints) -> Words:
        """Return some of the rows."""
        return Words(self.codes[rows], self.words)

    def texts(self) -> list[str | None]:
        """Return the cells as texts."""
        words: tuple[str | None, ...] = (*self.words, None)  # -1 picks the last
        return [words[code] for code in self.codes.tolist()]


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


# -- which metrics and profiles ----------------------------------------------------------------------------------------


def choose_metrics(experiment: Experiment, asked: Sequence[str] | None) -> list[str]:
    """Return the quantities that a frame shows: those asked for, or all whose values are known and plain numbers."""
    every = experiment.metrics
    if asked is None:
        shown = (name for name in every.quantities if every.first(name).composite is None)
        return [name for name in shown if every.first(name).has_values]
    names = list(dict.fromkeys(every.resolve(name) for name in ([asked] if isinstance(asked, str) else asked)))
    for name in names:
        every.require_values(name)
    if unfit := [name for name in names if every.first(name).composite is not None]:
        raise UsageError(f"{unfit[0]}: has no plain values that a frame could hold; choose other metrics")
    return names


def list_known_profiles(experiment: Experiment) -> Ints:
    """Return the profiles whose values are known: all that were measured, unless an aggregate holds those of others."""
    return experiment.values.known


def refuse_size(experiment: Experiment, n: int, what: str) -> UsageError:
    """Return the error for a frame that is too large, with the ways to a smaller one."""
    return UsageError(
        f"{experiment.path or experiment.title}: {n:,} {what} are too many for a frame, of which it holds "
        f"{MOST_ROWS:,}; name some metrics (metrics=[...]), take a part with select(...), or ask with sql(...)"
    )


# -- costs, some profiles at a time ------------------------------------------------------------------------------------


Pair = tuple[Array, Array]  # exclusive and inclusive costs, contexts x profiles


@dataclass(frozen=True)
class Band:
    """The costs of some profiles: for every metric that has any, contexts of the tree x these profiles."""

    experiment: Experiment
    profiles: Ints
    pairs: dict[str, Pair]

    @cached_property
    def has(self) -> dict[str, Bools]:
        """Where each metric has any cost, exclusive or inclusive."""
        neutral = {name: neutral_of(self.experiment.metrics.first(name)) for name in self.pairs}
        return {
            name: differ(exclusive, neutral[name]) | differ(inclusive, neutral[name])
            for name, (exclusive, inclusive) in self.pairs.items()
        }

    @cached_property
    def rows(self) -> Bools:
        """Where there is a row: contexts with any cost, and all that lies above them, since costs may cancel out."""
        tree, shape = self.experiment.contexts, (self.experiment.contexts.n_listed, len(self.profiles))
        rows = np.zeros(shape, np.bool_)
        for has in self.has.values():
            rows |= has
        parent = tree.parent[: tree.n_listed]
        inner = np.flatnonzero(parent >= 0)
        if (rows[inner] & ~rows[parent[inner]]).any():
            combine_upwards(rows, parent, tree.levels, np.logical_or, out=rows)
        return rows

    def column(self, metric: str, scope: int, context: Ints, place: Ints) -> Numbers:
        """Return one of the two costs of a metric in some cells."""
        if metric not in self.pairs:
            return Numbers(np.zeros(len(context), np.bool_), np.zeros(len(context), np.bool_))
        values: Array = self.pairs[metric][scope][context, place]
        return mark_present(self.experiment.metrics.first(metric), values, self.has[metric][context, place])


def neutral_of(metric: Metric) -> float:
    """Return what stands for no cost: 0 of sums, NaN of formulas over sums."""
    is_ratio = metric.derivation is not None and metric.aggregation == Aggregation.NONE
    return np.nan if is_ratio else metric.aggregation.neutral


def differ(values: Array, neutral: float) -> Bools:
    """Return which values are not the neutral one, which may be NaN."""
    different: Bools = ~np.isnan(values) if np.isnan(neutral) else values != neutral
    return different


def mark_present(metric: Metric, values: Array, has: Bools) -> Numbers:
    """Return values with a mark where there are any. `has` says where the metric has a cost, in this or in the other
    scope; of a sum, what is 0 in one of them is a value then."""
    present = has
    if neutral := neutral_of(metric):  # of what does not add up, one of the two may be absent
        present = present & differ(values, neutral)
    if metric.derivation is not None:
        present = present & ~np.isnan(values)
    return Numbers(np.where(present, values, values.dtype.type(0)), present)


def read_bands(
    experiment: Experiment, metrics: Sequence[str], unfit: dict[str, UsageError], scopes: Sequence[Scope] = SCOPES
) -> Iterator[Band]:
    """Yield the costs of all known profiles, some profiles at a time. `unfit` gets the formulas that cannot be
    evaluated; those that are in it already are not tried. With one scope, it is both of a pair."""
    chosen, n = list_known_profiles(experiment), len(experiment.contexts)
    across: list[TotalCells] = []
    room = max(1, MOST_CELLS // max(1, 2 * len(metrics) * n))
    derived = [name for name in metrics if experiment.metrics.first(name).derivation is not None]
    stored = [name for name in metrics if name not in derived]
    for first in range(0, len(chosen), room):
        profiles = chosen[first : first + room]
        by_scope = {scope: _read_stored(experiment, stored, scope, profiles) for scope in scopes}
        operands = {
            (name, scope): number_cells(experiment.metrics.first(name), matrix)
            for scope in (scopes if derived else ())
            for name, matrix in by_scope[scope].items()
        }
        cells = ProfileCells(experiment.values, Scope.EXCLUSIVE, profiles, chosen, operands, across)
        for name in derived:
            if name not in unfit:
                try:
                    for scope in scopes:
                        by_scope[scope][name] = cells.of(name, scope)
                except UsageError as error:
                    unfit[name] = error
        n_listed = experiment.contexts.n_listed
        pairs = {
            name: (by_scope[scopes[0]][name][:n_listed], by_scope[scopes[-1]][name][:n_listed])
            for name in metrics
            if all(name in one for one in by_scope.values()) and name not in unfit
        }
        yield Band(experiment, profiles, pairs)


def _read_stored(experiment: Experiment, names: Sequence[str], scope: Scope, profiles: Ints) -> dict[str, Array]:
    """Return what some profiles have of metrics in a scope; those that have nothing there are left out."""
    ways = {name: recipe(experiment.metrics, name, scope) for name in names}
    by_row = matrices(experiment.values, experiment.contexts, list(ways.values()), profiles) if ways else {}
    return {name: by_row[way.stored] for name, way in ways.items() if way.stored in by_row}


# -- costs as columns --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """All rows, by context and then by profile. `metrics` has the columns of every metric, exclusive ones first."""

    context: Ints
    profile: Ints
    metrics: dict[str, tuple[Numbers, Numbers]]
    left_out: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, Numbers]:
        """Return the columns of metrics by name: `M`, `M (inc)`."""
        names = name_columns(list(self.metrics))
        return {
            name: column
            for metric, pair in self.metrics.items()
            for name, column in zip(names[metric], pair, strict=True)
        }


DESCRIBING = ("run", *PLACES, "profile", "context", "name", "kind", "file", "line", "module", "path", "depth")


def name_columns(metrics: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return what the two columns of each metric are called: `M` and `M (inc)`, or `M (exc)` where `M` is the name of
    another column."""
    taken = {*DESCRIBING, "node", "type", *(name + INCLUSIVE for name in metrics)}
    return {name: (name + EXCLUSIVE if name in taken else name, name + INCLUSIVE) for name in metrics}


@dataclass
class _Parts:
    """Rows of bands, one after the other."""

    context: list[Ints] = field(default_factory=list)
    profile: list[Ints] = field(default_factory=list)
    costs: dict[tuple[str, int], list[Numbers]] = field(default_factory=dict)

    def add(self, band: Band, metrics: Sequence[str]) -> None:
        context, place = np.nonzero(band.rows)
        self.context.append(context)
        self.profile.append(band.profiles[place])
        for name in metrics:
            for scope in (0, 1):
                self.costs.setdefault((name, scope), []).append(band.column(name, scope, context, place))

    def join(self, metrics: Sequence[str], left_out: Sequence[str]) -> Costs:
        context, profile = _concatenate(self.context), _concatenate(self.profile)
        order = None if len(self.context) <= 1 else np.argsort(context, kind="stable")
        pairs = {name: (self._column(name, 0, order), self._column(name, 1, order)) for name in metrics}
        if order is not None:
            context, profile = context[order], profile[order]
        return Costs(context, profile, pairs, tuple(left_out))

    def _column(self, name: str, scope: int, order: Ints | None) -> Numbers:
        parts = self.costs.pop((name, scope), [])
        if not any(part.present.any() for part in parts):
            n = sum(len(part.present) for part in parts)
            return Numbers(np.zeros(n), np.zeros(n, np.bool_))
        column = Numbers(np.concatenate([p.values for p in parts]), np.concatenate([p.present for p in parts]))
        return column if order is None else column.take(order)


def _concatenate(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def read_costs(experiment: Experiment, asked: Sequence[str] | None = None) -> Costs:
    """Return the costs of every context in every profile. Formulas that cannot be evaluated are left out, unless they
    were asked for. Raises UsageError where there are more than MOST_ROWS rows."""
    metrics, unfit = choose_metrics(experiment, asked), dict[str, UsageError]()
    _require_room(experiment, metrics, unfit)
    parts = _Parts()
    for band in read_bands(experiment, metrics, unfit):
        if asked is not None and unfit:
            raise next(iter(unfit.values()))
        parts.add(band, metrics)
    shown = [name for name in metrics if name not in unfit]
    missing = [name for name in experiment.metrics.quantities if asked is None and name not in shown]
    return parts.join(shown, missing)


def _require_room(experiment: Experiment, metrics: Sequence[str], unfit: dict[str, UsageError]) -> None:
    """Raise an error where there are too many rows. They are counted only where there may be too many."""
    if experiment.contexts.n_listed * len(list_known_profiles(experiment)) <= MOST_ROWS:
        return
    n = 0
    for band in read_bands(experiment, metrics, unfit):
        n += int(np.count_nonzero(band.rows))
        if n > MOST_ROWS:
            raise refuse_size(experiment, n, "contexts and profiles and more")


# -- what rows are -----------------------------------------------------------------------------------------------------


def profile_columns(experiment: Experiment, profile: Ints) -> dict[str, Numbers]:
    """Return run, rank, thread, gpu and stream of rows; also `profile`, its id, where these do not tell profiles
    apart."""
    profiles = experiment.profiles
    every = {"run": Numbers.everywhere(profiles.run.astype(np.int64))}
    for name, identity in PLACES.items():
        values, present = profiles.identity(identity)
        fits = not len(values) or int(values.max()) < 2**63
        every[name] = Numbers(values.astype(np.int64) if fits else values, present)
    known = list_known_profiles(experiment)
    keys = [array[known].astype(np.uint64) for one in every.values() for array in (one.values, one.present)]
    if len(known) and np.unique(np.stack(keys), axis=1).shape[1] < len(known):
        every["profile"] = Numbers.everywhere(np.arange(len(profiles)))
    return {name: column.take(profile) for name, column in every.items()}


def context_columns(tree: ContextTree, contexts: Ints) -> dict[str, Numbers | Words]:
    """Return name, kind, file, line, module, path and depth of contexts, which are ascending and all different."""
    regions = tree.regions
    kinds = [kind.word for kind in ContextKind]
    files, lines, modules = (tree.column(name)[contexts].astype(np.int64) for name in ("file", "line", "module"))
    return {
        "name": _names(tree, contexts, _name),
        "kind": _pick_words(tree.kind[contexts], kinds),
        "file": _pick_words(files, regions.files.paths),
        "line": Numbers(lines, lines >= 0),
        "module": _pick_words(modules, regions.modules),
        "path": _paths(tree, contexts),
        "depth": Numbers.everywhere(tree.depth[contexts].astype(np.int64)),
    }


def _pick_words(codes: Array, words: Sequence[str]) -> Words:
    """Return the column of numbers of words, with the words that are used."""
    used = np.unique(codes)
    known = Words.of([words[code] if code >= 0 else None for code in used.tolist()])
    return known.take(np.searchsorted(used, codes))


def _names(tree: ContextTree, contexts: Ints, name: Callable[[ContextTree, int], str]) -> Words:
    """Return what contexts are called; those of one region are called alike, unless they have parameters."""
    region = tree.region[contexts].astype(np.int64)
    special = np.array(sorted(tree.parameters.keys()), np.int64)
    alone = (region < 0) | np.isin(contexts, special)
    keys = np.where(alone, -1 - np.arange(len(contexts)), region)  # one for each that no region names
    _, first, of_row = np.unique(keys, return_index=True, return_inverse=True)
    return Words.of([name(tree, context) for context in contexts[first].tolist()]).take(of_row.reshape(-1))


def _name(tree: ContextTree, context: int) -> str:
    """Return the name of a context as tables have it: with parameters, and overloads told apart."""
    label, region = tree.label(context), int(tree.region[context])
    return f"{label} [{tree.mangled_name(context)}]" if region in tree.regions.overloads else label


def _paths(tree: ContextTree, contexts: Ints) -> Words:
    """Return the paths of contexts. Level by level: a path is that of its caller and a name, and each is written once.
    The middle of very long ones is cut, which is done for each."""
    n = tree.n_listed
    if len(tree.levels) > LONGEST_PATH:
        return _pick_words(np.arange(n)[contexts], list(islice(context_paths(tree), n)))
    labels = _names(tree, np.arange(n), ContextTree.label)
    codes, n_words = np.zeros(n, np.int64), max(1, len(labels.words))
    texts: list[str] = []
    for depth, level in enumerate(tree.levels):
        keys = labels.codes[level] + (codes[tree.parent[level]] * n_words if depth else 0)
        different, of_context = np.unique(keys, return_inverse=True)
        codes[level] = len(texts) + of_context.reshape(-1)
        above = [texts[key // n_words] + "->" if depth else "" for key in different.tolist()]
        texts += [up + labels.words[key % n_words] for up, key in zip(above, different.tolist(), strict=True)]
    return _pick_words(codes[contexts], texts)
