"""Costs as data frames: of pandas, Polars and Arrow, long or wide; and the call tree as a graph of networkx.

    long   one row for each context and profile with any cost: run, rank, thread, gpu, stream, context, name, kind,
           file, line, module, path, depth, then for every metric M its exclusive cost `M` and its inclusive cost
           `M (inc)`. What is absent is NA, integers stay integers, and texts are categories
    wide   one row for each context, columns (metric, rank, thread): `frame["time"]` is contexts x profiles. Exclusive
           costs. A sum without a part is 0 there; what a run did not measure, an absent minimum or maximum, and a
           formula without a value are missing

Where rank and thread do not tell profiles apart, the wide frame has further levels (run, gpu, stream, profile); where
none of these do, the long one has a column `profile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from callgrove.arrays import Array, Bools, Ints
from callgrove.errors import MissingExtra, UsageError
from callgrove.frames.costs import (
    MOST_ROWS,
    Costs,
    Numbers,
    Words,
    choose_metrics,
    context_columns,
    differ,
    list_known_profiles,
    mark_present,
    name_columns,
    neutral_of,
    profile_columns,
    read_bands,
    read_costs,
    refuse_size,
)
from callgrove.model.computed_values import lacks_operand
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope

if TYPE_CHECKING:
    from callgrove.model.runs import Run

__all__ = ["describe_metrics", "import_pandas", "to_arrow", "to_networkx", "to_pandas", "to_polars", "total_columns"]

NULLABLE = {"b": np.int64, "i": np.int64, "u": np.uint64, "f": np.float64}

Columns = dict[str, Numbers | Words]


def import_pandas() -> Any:
    """Return the package, or raise MissingExtra."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("pandas", "a frame for pandas") from error
    return pandas


# -- the long frame ----------------------------------------------------------------------------------------------------


def long_columns(experiment: Experiment, costs: Costs) -> Columns:
    """Return the columns of the long frame. Contexts are described once each, however many profiles they have costs
    in."""
    used, of_row = np.unique(costs.context, return_inverse=True)
    of_row = of_row.reshape(-1)
    columns: Columns = {**profile_columns(experiment, costs.profile)}
    columns["context"] = Numbers.everywhere(costs.context.astype(np.int64))
    columns |= {name: column.take(of_row) for name, column in context_columns(experiment.contexts, used).items()}
    return {**columns, **costs.columns}


def to_pandas(experiment: Experiment, metrics: Sequence[str] | None = None, wide: bool = False) -> Any:
    """Return the costs of all contexts and profiles as a pandas.DataFrame, long or wide.

    `frame.attrs` says what no column does: `metrics` has the unit of each and how it adds up, `runs` names and
    parameters, `left_out` the metrics that are not in the frame.
    """
    pandas = import_pandas()
    if wide:
        return _wide(experiment, metrics, pandas)
    costs = read_costs(experiment, metrics)
    made = {name: _pandas_column(column, pandas) for name, column in long_columns(experiment, costs).items()}
    frame = pandas.DataFrame(made, copy=False)
    frame.attrs |= {
        "title": experiment.title,
        "metrics": describe_metrics(experiment, list(costs.metrics)),
        "runs": _describe_runs(experiment.runs),
        "left_out": list(costs.left_out),
    }
    return frame


def _pandas_column(column: Numbers | Words, pandas: Any) -> Any:
    if isinstance(column, Words):
        return pandas.Categorical.from_codes(column.codes, list(column.words))
    wide = column.values.astype(NULLABLE[column.values.dtype.kind], copy=False)
    kind = pandas.arrays.FloatingArray if wide.dtype.kind == "f" else pandas.arrays.IntegerArray
    return kind(wide, ~column.present)


def describe_metrics(experiment: Experiment, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the unit of metrics, how each adds up, the formula of those that have one, and the names of its
    columns."""
    described = {}
    for name, (exclusive, inclusive) in name_columns(names).items():
        row = experiment.metrics.first(name)
        told = {"unit": row.unit, "aggregation": row.aggregation.value, "formula": row.formula}
        described[name] = {**told, "exclusive": exclusive, "inclusive": inclusive}
    return described


def _describe_runs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return name, parameters and repetition of runs."""
    return [{"name": run.name, "parameters": dict(run.parameters), "repetition": run.repetition} for run in runs]


def to_arrow(experiment: Experiment, metrics: Sequence[str] | None = None) -> Any:
    """Return the long frame as a pyarrow.Table; texts are dictionaries, absent is null."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtra("arrow", "a frame for Arrow") from error
    columns = long_columns(experiment, read_costs(experiment, metrics))
    return pyarrow.table({name: _arrow_column(column, pyarrow) for name, column in columns.items()})


def _arrow_column(column: Numbers | Words, pyarrow: Any) -> Any:
    if isinstance(column, Words):
        codes = pyarrow.array(column.codes, mask=column.codes < 0)
        return pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(list(column.words), pyarrow.string()))
    wide = column.values.astype(NULLABLE[column.values.dtype.kind], copy=False)
    return pyarrow.array(wide, mask=~column.present)


def to_polars(experiment: Experiment, metrics: Sequence[str] | None = None) -> Any:
    """Return the long frame as a polars.DataFrame; texts are of type Categorical, absent is null."""
    try:
        import polars
    except ImportError as error:
        raise MissingExtra("polars", "a frame for Polars") from error
    columns = long_columns(experiment, read_costs(experiment, metrics))
    return polars.DataFrame([_polars_column(name, column, polars) for name, column in columns.items()])


def _polars_column(name: str, column: Numbers | Words, polars: ModuleType) -> Any:
    if isinstance(column, Words):
        words = polars.Series(name, list(column.words), dtype=polars.Categorical)
        rows = polars.Series(column.codes.astype(np.int64))
        return words.gather(rows.set(rows < 0, None))
    wide = column.values.astype(NULLABLE[column.values.dtype.kind], copy=False)
    numbers = polars.Series(name, wide)
    return numbers if column.present.all() else numbers.set(polars.Series(~column.present), None)


# -- the wide frame ----------------------------------------------------------------------------------------------------


def _wide(experiment: Experiment, asked: Sequence[str] | None, pandas: Any) -> Any:
    """Return contexts x profiles of every metric, side by side."""
    names, profiles, n = (
        choose_metrics(experiment, asked),
        list_known_profiles(experiment),
        experiment.contexts.n_listed,
    )
    if n * len(profiles) * len(names) > MOST_ROWS:
        raise refuse_size(experiment, n * len(profiles) * len(names), "cells of contexts, profiles and metrics")
    blocks, unfit = _read_blocks(experiment, names)
    if asked is not None and unfit:
        raise next(iter(unfit.values()))
    index = pandas.RangeIndex(n, name="context")
    parts = [_wide_part(experiment, name, block, index, pandas) for name, block in blocks.items()]
    frame = pandas.concat(parts, axis=1) if parts else pandas.DataFrame(index=index)
    frame.columns = _wide_columns(experiment, list(blocks), profiles, pandas)
    frame.attrs["left_out"] = [name for name in experiment.metrics.quantities if asked is None and name not in blocks]
    return frame


def _read_blocks(experiment: Experiment, names: Sequence[str]) -> tuple[dict[str, Array], dict[str, UsageError]]:
    """Return the exclusive costs of metrics, contexts x profiles, and the formulas that cannot be evaluated."""
    unfit: dict[str, UsageError] = {}
    parts: dict[str, list[Array]] = {name: [] for name in names}
    for band in read_bands(experiment, names, unfit, (Scope.EXCLUSIVE,)):
        empty = np.zeros((experiment.contexts.n_listed, len(band.profiles)), np.bool_)
        for name in names:
            parts[name].append(band.pairs[name][0] if name in band.pairs else empty)
    none = np.zeros((experiment.contexts.n_listed, 0))
    return {name: np.hstack(parts[name]) if parts[name] else none for name in names if name not in unfit}, unfit


def _wide_part(experiment: Experiment, name: str, block: Array, index: Any, pandas: Any) -> Any:
    """Return the frame of one metric. Integers stay plain ones where none is missing."""
    neutral = experiment.metrics.first(name).aggregation.neutral
    numbers = block.astype(NULLABLE[block.dtype.kind], copy=False)
    if neutral:
        numbers = np.where(numbers == neutral, np.nan, numbers.astype(np.float64))
    unknown = lacks_operand(experiment.values, name, list_known_profiles(experiment))
    if not unknown.any():
        return pandas.DataFrame(numbers, index=index)
    columns = [Numbers(numbers[:, k], np.full(len(index), not lacks)) for k, lacks in enumerate(unknown.tolist())]
    return pandas.DataFrame({k: _pandas_column(column, pandas) for k, column in enumerate(columns)}, index=index)


def _wide_columns(experiment: Experiment, names: Sequence[str], profiles: Ints, pandas: Any) -> Any:
    every = profile_columns(experiment, profiles)
    further = [name for name in ("run", "gpu", "stream", "profile") if name in every and _tells_apart(every[name])]
    levels = ["rank", "thread", *further]
    arrays = [_pandas_column(Numbers(*_repeat(every[name], len(names))), pandas) for name in levels]
    metric = np.repeat(np.array(names, object), len(profiles))
    return pandas.MultiIndex.from_arrays([metric, *arrays], names=["metric", *levels])


def _repeat(column: Numbers, times: int) -> tuple[Array, Bools]:
    return np.tile(column.values, times), np.tile(column.present, times)


def _tells_apart(column: Numbers) -> bool:
    """Return whether rows differ in a column."""
    return len(np.unique(column.values[column.present])) + (not column.present.all()) > 1


# -- the tree as a graph -----------------------------------------------------------------------------------------------


def to_networkx(experiment: Experiment, metrics: Sequence[str] | None = None) -> Any:
    """Return the call tree as a networkx.DiGraph: nodes are ids of contexts, edges lead from caller to callee.

    A node has name, kind, file, line, module, path and depth, and for every metric M its costs over all profiles, `M`
    and `M (inc)`. What is absent is not an attribute. `graph.graph["left_out"]` names metrics that are not there.
    """
    try:
        import networkx
    except ImportError as error:
        raise MissingExtra("networkx", "a graph for networkx") from error
    tree = experiment.contexts
    contexts = np.arange(tree.n_listed)
    attributes: list[dict[str, Any]] = [{} for _ in range(tree.n_listed)]
    for name, column in context_columns(tree, contexts).items():
        _set_attributes(attributes, name, column)
    totals, left_out = total_columns(experiment, metrics)
    for name, totals_column in totals.items():
        _set_attributes(attributes, name, totals_column)
    graph = networkx.DiGraph(title=experiment.title, left_out=left_out)
    graph.add_nodes_from(enumerate(attributes))
    inner = np.flatnonzero(tree.parent[: tree.n_listed] >= 0)
    graph.add_edges_from(zip(tree.parent[inner].tolist(), inner.tolist(), strict=True))
    return graph


def _set_attributes(attributes: list[dict[str, Any]], name: str, column: Numbers | Words) -> None:
    if isinstance(column, Words):
        cells: list[Any] = column.texts()
    else:
        marks = column.present.tolist()
        cells = [cell if mark else None for cell, mark in zip(column.values.tolist(), marks, strict=True)]
    for one, cell in zip(attributes, cells, strict=True):
        if cell is not None:
            one[name] = cell


def total_columns(
    experiment: Experiment, asked: Sequence[str] | None, profiles: Ints | None = None
) -> tuple[dict[str, Numbers], list[str]]:
    """Return the costs of every context of the tree over all profiles or some, and the metrics that are left out."""
    columns: dict[str, Numbers] = {}
    shown, n = set[str](), experiment.contexts.n_listed
    metrics = choose_metrics(experiment, asked)
    for name, names in name_columns(metrics).items():
        metric = experiment.metrics.first(name)
        try:
            pair = [v[:n] for v in experiment.totals_in((Scope.EXCLUSIVE, Scope.INCLUSIVE), name, profiles)]
        except UsageError:
            if asked is not None or metric.derivation is None:
                raise
            continue
        has = differ(pair[0], neutral_of(metric)) | differ(pair[1], neutral_of(metric))
        columns |= {column: mark_present(metric, values, has) for column, values in zip(names, pair, strict=True)}
        shown.add(name)
    return columns, [name for name in experiment.metrics.quantities if asked is None and name not in shown]
