"""An experiment made of a frame: the long one that `to_pandas` gives, or a plain one.

Which contexts there are is said by one of these, the first that is there:

    context, parent         ids of contexts and of their callers; without ids, names stand for them (`name`, `parent`)
    context, depth          the long frame: ids are in preorder. `path` says who called where rows were taken away
    path                    "main->solve->kernel" (or lists of names); callers that have no row are made
    name                    a flat profile: nobody calls anybody

`name`, `kind` (or `type`), `file`, `line` and `module` describe contexts; `run`, `rank`, `thread`, `gpu`, `stream` and
`profile` say whose cost a row has. All other columns of numbers are metrics: `M (inc)` is the inclusive cost of `M`.
Exclusive costs are stored where there are any, and inclusive ones computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Ints, levels
from callgrove.errors import UsageError
from callgrove.frames.costs import DESCRIBING, EXCLUSIVE, INCLUSIVE, PLACES, Numbers, Words
from callgrove.frames.data_frames import import_pandas
from callgrove.frames.sheets import Sheet, build_experiment
from callgrove.model.contexts import LONGEST_PATH
from callgrove.model.experiment import Experiment
from callgrove.model.runs import Run

__all__ = ["from_pandas", "read_numbers", "read_words"]

IDS = ("context", "id", "node")
NO_METRIC = {*DESCRIBING, *IDS, "parent", "type", "nid"}


# -- columns of a frame ------------------------------------------------------------------------------------------------


def read_numbers(series: Any, name: str, whole: bool = False) -> Numbers:
    """Return a column of pandas as numbers; `whole` demands integers, which pandas may keep as doubles."""
    pandas = import_pandas()
    if not is_numeric(series):
        try:
            series = pandas.to_numeric(series.astype(object)).convert_dtypes()
        except (ValueError, TypeError) as error:
            raise UsageError(f"column {name!r} of the frame holds something that is not a number: {error}") from error
    present = series.notna().to_numpy(dtype=np.bool_)
    kind = {"u": np.uint64, "i": np.int64, "b": np.int64}.get(getattr(series.dtype, "kind", "f"), np.float64)
    values = series.fillna(0).to_numpy(dtype=kind)
    if whole and values.dtype.kind == "f":
        if (values % 1 != 0).any():
            raise UsageError(f"column {name!r} of the frame: {float(values[values % 1 != 0][0])} is not a whole number")
        if (np.abs(values) >= 2.0**63).any():
            raise UsageError(f"column {name!r} of the frame: {float(np.abs(values).max())} is too large")
        values = values.astype(np.int64)
    return Numbers(values, present)


def read_words(series: Any) -> Words:
    """Return a column of pandas as texts."""
    codes, words = import_pandas().factorize(series)
    return Words(np.asarray(codes, np.int32), tuple(map(str, words)))


# -- from a frame to a sheet -------------------------------------------------------------------------------------------


def from_pandas(
    frame: Any, metrics: Sequence[str] | None = None, *, separator: str = "->", title: str = ""
) -> Experiment:
    """Return the experiment of a pandas.DataFrame: the long one of `Experiment.to_pandas`, or a plain one.

    metrics        columns with costs (default: all numbers that describe no context and no profile); `M (inc)` is the
                   inclusive cost of M
    separator      between the names of a `path`
    title          what the experiment is called

    Contexts are told apart by `context` and `parent` (or `name` and `parent`), by `context` and `depth` as in the long
    frame, by `path`, or by `name` alone; profiles by run, rank, thread, gpu and stream. Two rows of one context in one
    profile are an error. What the frame has and the experiment does not is said by its `warnings`.

        callgrove.from_pandas(experiment.to_pandas()).top()
        callgrove.from_pandas(pandas.DataFrame({"path": ["main", "main->solve"], "time": [1.0, 2.0]}))
    """
    _refuse_frame(frame)
    attrs = dict(frame.attrs)
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(level=named) if named else frame
    chosen = _choose_metrics(frame, metrics, attrs.get("metrics", {}))
    contexts = _find_contexts(frame, separator)
    places = {name: read_numbers(frame[name], name, True) for name in ("run", *PLACES, "profile") if name in frame}
    sheet = Sheet(
        title or attrs.get("title", "") or "frame",
        "pandas",
        contexts.parent,
        contexts.words(frame),
        contexts.lines(frame),
        contexts.of_row,
        places,
        chosen.columns,
        attrs.get("metrics", {}),
        [Run(run["name"], run["parameters"], run["repetition"]) for run in attrs.get("runs", [])],
        chosen.notes,
    )
    return build_experiment(sheet)


def _refuse_frame(frame: Any) -> None:
    """Refuse what is not a long frame."""
    pandas = import_pandas()
    if not isinstance(frame, pandas.DataFrame):
        raise UsageError(f"from_pandas takes a pandas.DataFrame, not a {type(frame).__name__}")
    if isinstance(frame.columns, pandas.MultiIndex):
        raise UsageError("the frame is wide; from_pandas takes a long one, with a row for each context and profile")
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise UsageError(f"the frame has several columns {str(twice)!r}; rename or drop all but one of them")


@dataclass
class _Metrics:
    """The columns of metrics, exclusive and inclusive, and what is said of those that are none."""

    columns: dict[str, tuple[Numbers | None, Numbers | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _choose_metrics(frame: Any, asked: Sequence[str] | None, described: Mapping[str, Mapping[str, str]]) -> _Metrics:
    """Return the metrics of a frame: those asked for, or all columns of numbers that describe nothing else."""
    import_pandas()
    others = [name for name in frame.columns if name not in NO_METRIC]
    numeric = [name for name in others if isinstance(name, str) and is_numeric(frame[name])]
    if asked is not None and (unknown := [name for name in asked if name not in frame.columns]):
        raise UsageError(f"the frame has no column {unknown[0]!r}; it has {', '.join(map(str, frame.columns))}")
    names = dict.fromkeys(_quantity(name, described) for name in (numeric if asked is None else asked))
    chosen = _Metrics(notes=[f"left out: column {name}: it holds no numbers" for name in others if name not in numeric])
    for name in names:
        told = described.get(name, {})
        exclusive = told.get("exclusive", name if name in frame.columns else name + EXCLUSIVE)
        pair = [one if one in frame.columns else None for one in (exclusive, told.get("inclusive", name + INCLUSIVE))]
        columns = [None if one is None else read_numbers(frame[one], one) for one in pair]
        chosen.columns[name] = columns[0], columns[1]
    if not chosen.columns:
        raise UsageError("the frame has no column of numbers that could be a metric; name some with metrics=[...]")
    return chosen


def is_numeric(series: Any) -> bool:
    """Return whether a column of pandas holds numbers."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return is_numeric_dtype(series.dtype) and not is_bool_dtype(series.dtype)


def _quantity(column: str, described: Mapping[str, Mapping[str, str]]) -> str:
    """Return the metric that a column has the costs of."""
    for name, told in described.items():
        if column in (told["exclusive"], told["inclusive"]):
            return name
    return column.removesuffix(INCLUSIVE)


# -- which contexts there are ------------------------------------------------------------------------------------------


@dataclass
class _Contexts:
    """Contexts that rows are of. `first` is a row of each, -1 for callers that were made of a path; `names` is what
    these are called."""

    parent: Ints
    of_row: Ints
    first: Ints
    names: dict[int, str] = field(default_factory=dict)

    def words(self, frame: Any) -> dict[str, Words]:
        """Return what contexts are called, what they are, and where."""
        columns = {name: read_words(frame[name]).take(self.first) for name in ("file", "module") if name in frame}
        if (kind := next((name for name in ("kind", "type") if name in frame), None)) is not None:
            columns["kind"] = read_words(frame[kind]).take(self.first)
        for column in columns.values():
            column.codes[self.first < 0] = ABSENT
        if "name" in frame:
            names = read_words(frame["name"]).take(self.first).texts()
        else:
            names = [None] * len(self.first)
        columns["name"] = Words.of([self.names.get(number, name) for number, name in enumerate(names)])
        return columns

    def lines(self, frame: Any) -> Numbers | None:
        """Return the lines of contexts."""
        if "line" not in frame:
            return None
        lines = read_numbers(frame["line"], "line", True).take(self.first)
        return Numbers(lines.values, lines.present & (self.first >= 0))


def _find_contexts(frame: Any, separator: str) -> _Contexts:
    ids = next((name for name in IDS if name in frame), "name")
    if "parent" in frame and ids in frame:
        return _by_parents(frame, ids)
    if "context" in frame and "depth" in frame:
        return _by_depth(frame, separator)
    if "path" in frame:
        return _by_paths(frame["path"], separator)
    if "name" in frame:
        of_row, first = _first_rows(frame["name"], "name")
        return _Contexts(np.full(len(first), ABSENT), of_row, first)
    raise UsageError("the frame does not say what costs are of: it needs a column name, path, or context and parent")


def _first_rows(series: Any, column: str) -> tuple[Ints, Ints]:
    """Return a number for each row, equal where cells are, and the first row of each."""
    codes, different = import_pandas().factorize(series)
    if (codes < 0).any():
        raise UsageError(f"column {column!r} of the frame has no value in row {int(np.argmin(codes))}")
    first = np.full(len(different), len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    return np.asarray(codes, np.int64), first


def _by_parents(frame: Any, ids: str) -> _Contexts:
    of_row, first = _first_rows(frame[ids], ids)
    named, above = frame[ids].iloc[first], frame["parent"].iloc[first]
    index = import_pandas().Index(named.to_numpy(object))
    parent = index.get_indexer(above.to_numpy(object))
    is_root = above.isna().to_numpy(np.bool_) | np.array(
        [cell in ("", -1) for cell in above.to_numpy(object)], np.bool_
    )
    if len(lost := np.flatnonzero((parent < 0) & ~is_root)):
        raise UsageError(f"the parent {above.iloc[lost[0]]} of {named.iloc[lost[0]]} has no row in the frame")
    return _Contexts(np.asarray(parent, np.int64), of_row, first)


def _by_paths(paths: Any, separator: str) -> _Contexts:
    """Return the contexts that paths lead to, and all on the way."""
    is_text = [isinstance(cell, str) for cell in paths]
    keys = paths if all(is_text) else paths.map(lambda cell: cell if isinstance(cell, str) else tuple(cell))
    of_row, first = _first_rows(keys, "path")
    known: dict[tuple[int, str], int] = {}
    parent: list[int] = []
    names: dict[int, str] = {}
    rows: list[int] = []
    number_of = np.empty(len(first), np.int64)
    for number, row in enumerate(first.tolist()):
        at = ABSENT
        cell = paths.iloc[row]
        parts = [part.strip() for part in cell.split(separator)] if isinstance(cell, str) else list(map(str, cell))
        for part in filter(None, parts):
            above, at = at, known.setdefault((at, part), len(known))
            if at == len(parent):
                parent.append(above)
                rows.append(ABSENT)
                names[at] = part
        if at == ABSENT:
            raise UsageError(f"the path {cell!r} in row {row} of the frame names nothing")
        number_of[number], rows[at] = at, row
    return _Contexts(np.array(parent, np.int64), number_of[of_row], np.array(rows, np.int64), names)


# -- the long frame, whose contexts are numbered in preorder -----------------------------------------------------------


def _by_depth(frame: Any, separator: str) -> _Contexts:
    """Return contexts that are told by their place in preorder. The caller is the last one before that is a level
    higher. Where rows were taken away, that may be another one: then the path says so, and callers that have no row are
    made of it."""
    codes, first = _first_rows(frame["context"], "context")
    order = np.argsort(read_numbers(frame["context"], "context", True).values[first], kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    of_row, first = rank[codes], first[order]
    depth = read_numbers(frame["depth"], "depth", True).values[first]
    parent = _last_above(depth)
    contexts = _Contexts(parent, of_row, first)
    if "path" not in frame or "name" not in frame:
        if len(lost := np.flatnonzero((parent < 0) & (depth > 0))):
            raise UsageError(f"row {int(first[lost[0]])} of the frame lies below a context that has no row")
        return contexts
    paths = read_words(frame["path"]).take(first).texts()
    names = read_words(frame["name"]).take(first).texts()
    above = [_path_above(path or "", name or "", separator) for path, name in zip(paths, names, strict=True)]
    known = [paths[up] if up >= 0 else "" for up in parent.tolist()]
    lost = np.array([said != there for said, there in zip(above, known, strict=True)], np.bool_)
    lost[(depth == 0) | ((depth >= LONGEST_PATH) & (parent >= 0))] = False  # the middle of long paths is cut
    return _with_callers(contexts, np.flatnonzero(lost), depth, above, paths, separator) if lost.any() else contexts


def _last_above(depth: Ints) -> Ints:
    """Return for each context, in preorder, the last one before that is a level higher; -1 where there is none."""
    parent = np.full(len(depth), ABSENT)
    by_level = levels(depth.astype(np.int32))
    for higher, level in pairwise(by_level):
        place = np.searchsorted(higher, level) - 1
        parent[level] = np.where(place >= 0, higher[np.maximum(place, 0)] if len(higher) else ABSENT, ABSENT)
    return parent


def _path_above(path: str, name: str, separator: str) -> str:
    """Return the path without its last name, which may itself contain what separates names."""
    if path.endswith(separator + name):
        return path[: -len(separator + name)]
    return path.rpartition(separator)[0]


def _with_callers(
    contexts: _Contexts, lost: Ints, depth: Ints, above: Sequence[str], paths: Sequence[str | None], separator: str
) -> _Contexts:
    """Return contexts whose callers have no row below callers that are made of their paths."""
    parent, first = contexts.parent.tolist(), contexts.first.tolist()
    made: dict[str, int] = {}
    known = {path: number for number, path in enumerate(paths) if path is not None}
    for context in lost.tolist():
        names = above[context].split(separator)
        if len(names) != depth[context]:
            expected = f"its path does not name {int(depth[context])} of them"
            raise UsageError(f"the callers of {paths[context]!r} have no rows, and {expected}")
        at = ABSENT
        for level in range(len(names)):
            path = separator.join(names[: level + 1])
            at, up = known.get(path, made.get(path, ABSENT)), at
            if at == ABSENT:
                at = made[path] = len(parent)
                parent.append(up)
                first.append(ABSENT)
                contexts.names[at] = names[level]
        parent[context] = at
    return _Contexts(np.array(parent, np.int64), contexts.of_row, np.array(first, np.int64), contexts.names)
