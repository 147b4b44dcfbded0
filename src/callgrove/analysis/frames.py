"""Costs of every context in every profile, as data frames.

    long    one row for each context and profile with any cost; columns say which they are, then for every metric M its
            exclusive cost `M` and its inclusive cost `M (inc)`. A metric without a cost in that row is absent there
    wide    one row for each context; columns are (metric, profile), so that `frame["time"]` is contexts x profiles. A
            sum without a part is 0 there; an absent minimum or maximum is missing

Contexts that a file elides are part of others and left out, as are stored summaries of all profiles. A frame with too
many cells is refused before it is made. Metrics that are no plain numbers are left out; `frame.attrs["left_out"]` names
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.analysis.views import describe_contexts
from callgrove.arrays import Array, Bools, Ints
from callgrove.errors import MissingExtra, UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope

__all__ = ["MOST_CELLS", "to_arrow", "to_pandas"]

MOST_CELLS = 50_000_000
INCLUSIVE = " (inc)"
PLACES = {"rank": "rank", "thread": "thread", "gpu": "gpu_device", "stream": "gpu_stream"}
NULLABLE = {"i": "Int64", "u": "UInt64", "f": "Float64"}


@dataclass(frozen=True)
class Numbers:
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
    chosen = _metrics(experiment, metrics)
    frame = _wide(experiment, chosen, pandas) if wide else _long_frame(experiment, chosen, pandas)
    frame.attrs["left_out"] = [name for name in experiment.metrics.quantities if metrics is None and name not in chosen]
    return frame


def _long_frame(experiment: Experiment, chosen: Sequence[str], pandas: Any) -> Any:
    made = {}
    for name, column in _long(experiment, chosen).items():
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
    for name, column in _long(experiment, _metrics(experiment, metrics)).items():
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
    unfit = [name for name in names if every.first(name).composite is not None or name in every.derived]
    if asked is not None and unfit:
        raise UsageError(f"{unfit[0]}: has no plain values that a frame could hold; choose other metrics")
    cells = len(experiment.profiles.measured) * experiment.contexts.n_listed
    if cells > MOST_CELLS:
        raise UsageError(
            f"{experiment.path}: {cells:,} contexts and profiles are too many for a frame; "
            "take a part with select(...), or ask with sql(...)"
        )
    return [name for name in names if name not in unfit]


def _costs(experiment: Experiment, metric: str) -> tuple[Array, Array]:
    n = experiment.contexts.n_listed
    exclusive, inclusive = (experiment.matrix(metric, scope)[:n] for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE))
    return exclusive, inclusive


def _long(experiment: Experiment, metrics: Sequence[str]) -> dict[str, Numbers | Words]:
    """Return the columns of the long frame: contexts by profile, then the metrics."""
    costs = {metric: _costs(experiment, metric) for metric in metrics}
    neutral = {metric: experiment.metrics.first(metric).aggregation.neutral for metric in metrics}
    has = {
        metric: (exclusive != neutral[metric]) | (all_ != neutral[metric])
        for metric, (exclusive, all_) in costs.items()
    }
    shape = experiment.contexts.n_listed, len(experiment.profiles.measured)
    context, place = np.nonzero(np.logical_or.reduce(list(has.values())) if has else np.zeros(shape, np.bool_))
    columns = {**_profile_columns(experiment, place), **_context_columns(experiment, context)}
    for metric, pair in costs.items():
        for name, matrix in zip((metric, metric + INCLUSIVE), pair, strict=True):
            values = matrix[context, place]
            present: Bools = has[metric][context, place]
            if neutral[metric]:  # of a minimum or maximum one of the two may be absent
                present = present & (values != neutral[metric])
            columns[name] = Numbers(np.where(present, values, values.dtype.type(0)), present)
    return columns


def _profile_columns(experiment: Experiment, place: Ints) -> dict[str, Numbers | Words]:
    profiles = experiment.profiles.measured
    everywhere = np.ones(len(place), np.bool_)
    columns: dict[str, Numbers | Words] = {
        "run": Numbers(experiment.profiles.run[profiles].astype(np.int64)[place], everywhere)
    }
    for name, column in PLACES.items():
        values, present = experiment.profiles.identity(column)
        columns[name] = Numbers(values[profiles][place].astype(np.int64), present[profiles][place])
    return columns


def _context_columns(experiment: Experiment, context: Ints) -> dict[str, Numbers | Words]:
    """Return what contexts are: described once each, however many profiles they have costs in."""
    tree = experiment.contexts
    used, of_row = np.unique(context, return_inverse=True)
    cells = {column.name: column.plain() for column in describe_contexts(tree, used.tolist())}
    cells["path"] = [tree.path(number) for number in used.tolist()]
    columns: dict[str, Numbers | Words] = {"context": Numbers(context, np.ones(len(context), np.bool_))}
    for name in ("name", "kind", "file", "line", "module", "path"):
        if name == "line":
            lines = np.array([-1 if cell is None else cell for cell in cells[name]], np.int64)[of_row]
            columns[name] = Numbers(lines, lines >= 0)
        else:
            columns[name] = _words(cells[name], of_row)
    depth = tree.depth[used].astype(np.int64)[of_row] if len(used) else np.empty(0, np.int64)
    columns["depth"] = Numbers(depth, np.ones(len(context), np.bool_))
    return columns


def _words(cells: Sequence[str | None], of_row: Ints) -> Words:
    known: dict[str, int] = {}
    codes = [-1 if cell is None else known.setdefault(cell, len(known)) for cell in cells]
    return Words(np.array(codes, np.int64)[of_row], list(known))


def _wide(experiment: Experiment, metrics: Sequence[str], pandas: Any) -> Any:
    profiles = experiment.profiles.measured
    identities = [[experiment.profiles.identity_list(name)[p] for p in profiles] for name in ("rank", "thread")]
    blocks, names = [], []
    for metric in metrics:
        exclusive = _costs(experiment, metric)[0]
        neutral = experiment.metrics.first(metric).aggregation.neutral
        blocks.append(np.where(exclusive == neutral, np.nan, exclusive) if neutral else exclusive)
        names += [(metric, rank, thread) for rank, thread in zip(*identities, strict=True)]
    columns = pandas.MultiIndex.from_tuples(names, names=("metric", "rank", "thread"))
    index = pandas.RangeIndex(experiment.contexts.n_listed, name="context")
    parts = [pandas.DataFrame(block, index=index) for block in blocks]
    frame = pandas.concat(parts, axis=1) if parts else pandas.DataFrame(index=index)
    frame.columns = columns
    return frame
