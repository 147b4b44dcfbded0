"""Experiments for Hatchet and Thicket, and of what these hold.

    GraphFrame   a graph of nodes, and a frame with a row for each node and profile. Index levels: node and, where there
                 is more than one, rank and thread; then run, gpu, stream and profile where these are needed to tell
                 profiles apart
    Thicket      a GraphFrame whose profiles are runs, with a table of metadata and one of statistics over the runs

Hatchet looks up every node in every rank, so all nodes have a row in all profiles; absent is NaN. Its numbers are plain
doubles and integers. It adds up exclusive costs to inclusive ones, so only metrics that add up are among its
`exc_metrics` and `inc_metrics`; others are columns. Contexts without any cost are not nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints
from callgrove.errors import MissingPackage, UsageError
from callgrove.frames.costs import (
    EXCLUSIVE,
    INCLUSIVE,
    MOST_ROWS,
    PLACES,
    Numbers,
    Words,
    choose_metrics,
    context_columns,
    list_known_profiles,
    name_columns,
    profile_columns,
    read_costs,
    refuse_size,
)
from callgrove.frames.data_frames import describe_metrics, import_pandas, total_columns
from callgrove.frames.from_frames import read_numbers, read_words
from callgrove.frames.sheets import Sheet, build_experiment
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation
from callgrove.model.runs import Run

__all__ = ["from_hatchet", "to_hatchet", "to_thicket"]

EXACT = 2**53  # integers up to here are exact as doubles
FRAMES_PER_LEVEL = 3  # calls that Hatchet has open for each level of a tree, of which Python allows so many


def _import_hatchet() -> Any:
    try:
        import hatchet
        import hatchet.frame
        import hatchet.graph
    except ImportError as error:
        raise MissingPackage("llnl-hatchet", "a GraphFrame") from error
    return hatchet


# -- the graph ---------------------------------------------------------------------------------------------------------


def _make_graph(tree: ContextTree, contexts: Ints, hatchet: Any) -> tuple[Any, Array, Ids]:
    """Return the graph of contexts, which contain all callers of each; its nodes in Hatchet's order; and the place of
    each context among them."""
    from callgrove.frames.hatchet_nodes import ComparableNode

    depth = int(tree.depth[contexts].max(initial=0))
    if depth * FRAMES_PER_LEVEL > sys.getrecursionlimit():
        raise UsageError(
            f"the tree is {depth} levels deep, and Hatchet walks trees by recursion, which Python allows about "
            f"{sys.getrecursionlimit() // FRAMES_PER_LEVEL} levels; raise it with sys.setrecursionlimit, or cut(...)"
        )
    columns = context_columns(tree, contexts)
    names, kinds = (column.texts() for column in (columns["name"], columns["kind"]) if isinstance(column, Words))
    numbers = np.full(len(tree) + 1, ABSENT, np.int64)
    numbers[contexts] = np.arange(len(contexts))
    nodes: list[Any] = []
    roots = []
    for name, kind, above in zip(names, kinds, numbers[tree.parent[contexts]].tolist(), strict=True):
        parent = nodes[above] if above >= 0 else None
        node = ComparableNode(hatchet.frame.Frame({"name": name, "type": kind}), parent)
        roots.append(node) if parent is None else parent.add_child(node)
        nodes.append(node)
    graph = hatchet.graph.Graph(roots)
    graph.enumerate_traverse()
    place = np.array([node._hatchet_nid for node in nodes], np.int32)
    ordered = np.empty(len(nodes), object)
    ordered[place] = nodes
    return graph, ordered, place


def _describe_nodes(tree: ContextTree, contexts: Ints, place: Ids, times: int) -> dict[str, Any]:
    """Return name, type, file, line and module of nodes, each so many times."""
    columns = context_columns(tree, contexts)
    rows = np.repeat(np.argsort(place), times)
    lines = columns["line"]
    assert isinstance(lines, Numbers)
    described = {"name": "name", "type": "kind", "file": "file", "module": "module"}
    texts = {name: columns[source].take(rows) for name, source in described.items()}
    out = {name: np.array(one.texts(), object) for name, one in texts.items() if isinstance(one, Words)}
    return {**out, "line": _plain(lines.take(rows))}


def _plain(column: Numbers) -> Any:
    """Return numbers as NumPy has them: absent is NaN. Integers that doubles do not hold stay nullable ones."""
    values, present = column.values, column.present
    if present.all():
        return values
    largest = 0 if values.dtype.kind == "f" else max(map(abs, (int(values.min()), int(values.max()))))
    if largest > EXACT:
        return import_pandas().arrays.IntegerArray(values, ~present)
    return np.where(present, values, np.nan)


def _additive(experiment: Experiment, metrics: Sequence[str]) -> list[str]:
    """Return the metrics that add up, over profiles and over the tree."""
    return [name for name in metrics if experiment.metrics.first(name).aggregation == Aggregation.SUM]


def _default(experiment: Experiment, shown: Sequence[str]) -> str:
    """Return the metric that is looked at first: ours, unless it is not among those shown."""
    return experiment.default_metric if experiment.default_metric in shown else shown[0]


# -- to Hatchet --------------------------------------------------------------------------------------------------------


def to_hatchet(experiment: Experiment, metrics: Sequence[str] | None = None) -> Any:
    """Return the costs of every context in every profile as a hatchet.GraphFrame, of either Hatchet."""
    hatchet, pandas = _import_hatchet(), import_pandas()
    costs = read_costs(experiment, metrics)
    tree, contexts = experiment.contexts, np.unique(costs.context)
    places, profiles = _index_levels(experiment, list_known_profiles(experiment))
    if len(contexts) * len(profiles) > MOST_ROWS:
        raise refuse_size(experiment, len(contexts) * len(profiles), "nodes in all profiles")
    if not len(contexts):
        raise UsageError(f"{experiment.path or experiment.title}: no context has any cost, so there is no node")
    graph, nodes, place = _make_graph(tree, contexts, hatchet)
    column_of = np.zeros(len(experiment.profiles), np.int64)
    column_of[profiles] = np.arange(len(profiles))
    node = place[np.searchsorted(contexts, costs.context)].astype(np.int64)
    cells, n_cells = node * len(profiles) + column_of[costs.profile], len(contexts) * len(profiles)
    made = _describe_nodes(tree, contexts, place, len(profiles))
    made |= {name: _plain(_spread(column, cells, n_cells)) for name, column in costs.columns.items()}
    frame = pandas.DataFrame(made, index=_node_index(nodes, places, len(profiles), pandas))
    names = name_columns(list(costs.metrics))
    shown = [names[name] for name in _additive(experiment, list(costs.metrics))]
    return hatchet.GraphFrame(
        graph,
        frame,
        [exclusive for exclusive, _ in shown],
        [inclusive for _, inclusive in shown],
        default_metric=names[_default(experiment, list(costs.metrics))][1],
        metadata={
            "title": experiment.title,
            "metrics": describe_metrics(experiment, list(costs.metrics)),
            "left_out": list(costs.left_out),
        },
    )


def _spread(column: Numbers, cells: Ints, n: int) -> Numbers:
    """Return a column with a row for every cell."""
    values, present = np.zeros(n, column.values.dtype), np.zeros(n, np.bool_)
    values[cells], present[cells] = column.values, column.present
    return Numbers(values, present)


def _node_index(nodes: Array, places: dict[str, Ints], n_profiles: int, pandas: Any) -> Any:
    """Return the index of all nodes in all profiles."""
    if not places:
        return pandas.Index(nodes, dtype=object, name="node")
    parts = [np.unique(values, return_inverse=True) for values in places.values()]
    index_levels = [pandas.Index(nodes, dtype=object), *(values for values, _ in parts)]
    number = np.repeat(np.arange(len(nodes)), n_profiles)
    codes = [number, *(np.tile(code.reshape(-1), len(nodes)) for _, code in parts)]
    return pandas.MultiIndex(index_levels, codes, names=["node", *places])


def _index_levels(experiment: Experiment, profiles: Ints) -> tuple[dict[str, Ints], Ints]:
    """Return what tells profiles apart, and the profiles in that order, since Hatchet needs sorted rows. It finds
    threads only below ranks, so there is no thread without a rank. Where no profile has a rank or a thread, it is 0;
    where some have none, these are -1."""
    columns = {name: _fill(column) for name, column in profile_columns(experiment, profiles).items()}
    many = {name for name, values in columns.items() if len(np.unique(values)) > 1}
    chosen: list[str] = [name for name in ("rank", "thread") if name in many or (name == "rank" and "thread" in many)]
    chosen += [name for name in ("run", "gpu", "stream") if name in many]
    places = {name: columns[name] for name in chosen}
    keys = np.stack(list(places.values())) if places else np.zeros((1, len(profiles)))
    if np.unique(keys, axis=1).shape[1] < len(profiles):
        places["profile"] = profiles
    order = np.lexsort(list(places.values())[::-1]) if places else np.arange(len(profiles))
    return {name: values[order] for name, values in places.items()}, profiles[order]


def _fill(column: Numbers) -> Ints:
    """Return identities as integers; what is absent is 0 where all is, else -1."""
    values = column.values.astype(np.int64)
    return np.where(column.present, values, ABSENT) if column.present.any() else np.zeros_like(values)


# -- to Thicket --------------------------------------------------------------------------------------------------------


STATISTICS = ("mean", "std", "min", "max")


def to_thicket(experiment: Experiment, metrics: Sequence[str] | None = None) -> Any:
    """Return a thicket.Thicket whose profiles are the runs, each with the costs of all its ranks and threads."""
    try:
        import thicket
    except ImportError as error:
        raise MissingPackage("llnl-thicket", "a Thicket") from error
    hatchet, pandas = _import_hatchet(), import_pandas()
    columns = _costs_of_runs(experiment, metrics)
    contexts = np.flatnonzero(np.logical_or.reduce([one.present.any(axis=1) for one in columns.values()]))
    if not len(contexts):
        raise UsageError(f"{experiment.path or experiment.title}: no context has any cost, so there is no node")
    graph, nodes, place = _make_graph(experiment.contexts, contexts, hatchet)
    labels = _label_runs(experiment.runs)
    mapping = {thicket.Thicket.profile_hasher(label): label for label in labels}
    frame = _run_frame(experiment, columns, contexts, place, nodes, list(mapping), pandas)
    names = name_columns(choose_metrics(experiment, metrics))
    shown = {name: pair for name, pair in names.items() if pair[0] in columns}
    adding = [shown[name] for name in _additive(experiment, list(shown))]
    exclusive, inclusive = ([pair[k] for pair in adding] for k in (0, 1))
    metadata = pandas.DataFrame(list(map(_metadata, experiment.runs)), pandas.Index(list(mapping), name="profile"))
    statistics = hatchet.GraphFrame(graph, _statistics(frame, exclusive + inclusive), [], [])
    return thicket.Thicket(
        graph,
        frame.sort_index(),
        exclusive,
        inclusive,
        default_metric=shown[_default(experiment, list(shown))][1],
        metadata=metadata.sort_index(),
        profile=list(mapping),
        profile_mapping=mapping,
        statsframe=statistics,
    )


def _costs_of_runs(experiment: Experiment, metrics: Sequence[str] | None) -> dict[str, Numbers]:
    """Return the costs of every context in every run, over all its profiles: contexts x runs."""
    profiles, run = list_known_profiles(experiment), experiment.profiles.run
    parts = [total_columns(experiment, metrics, profiles[run[profiles] == k])[0] for k in range(len(experiment.runs))]
    shown = [name for name in parts[0] if all(name in part for part in parts)]
    return {
        name: Numbers(
            np.stack([part[name].values for part in parts], axis=1),
            np.stack([part[name].present for part in parts], axis=1),
        )
        for name in shown
    }


def _run_frame(
    experiment: Experiment,
    columns: dict[str, Numbers],
    contexts: Ints,
    place: Ids,
    nodes: Array,
    profiles: Sequence[int],
    pandas: Any,
) -> Any:
    """Return the costs of all nodes in all runs."""
    made = _describe_nodes(experiment.contexts, contexts, place, len(profiles))
    rows = contexts[np.argsort(place)]
    for name, one in columns.items():
        made[name] = _plain(Numbers(one.values[rows].reshape(-1), one.present[rows].reshape(-1)))
    codes = [np.repeat(np.arange(len(nodes)), len(profiles)), np.tile(np.arange(len(profiles)), len(nodes))]
    index_levels = [pandas.Index(nodes, dtype=object), pandas.Index(profiles)]
    return pandas.DataFrame(made, index=pandas.MultiIndex(index_levels, codes, names=["node", "profile"]))


def _label_runs(runs: Sequence[Run]) -> list[str]:
    """Return a different text for each run: where it was read, or what it is called, with its number where that is
    that of another as well."""
    texts = [run.source or run.name or "run" for run in runs]
    return [text if texts.count(text) == 1 else f"{text} ({number})" for number, text in enumerate(texts)]


def _metadata(run: Run) -> dict[str, Any]:
    """Return what is known of a run: its name and repetition, parameters and attributes."""
    return {"name": run.name, "source": run.source, "repetition": run.repetition, **run.attributes, **run.parameters}


def _statistics(frame: Any, columns: Sequence[str]) -> Any:
    """Return mean, deviation, least and most of every cost over the runs, named as thicket.stats names them."""
    groups = frame.groupby(level="node")
    out = groups[["name"]].first()
    for word in STATISTICS:
        statistic = getattr(groups[list(columns)], word)()
        out[[f"{name}_{word}" for name in columns]] = statistic
    return out


# -- from Hatchet and Thicket ------------------------------------------------------------------------------------------


def from_hatchet(graph_frame: Any, *, title: str = "") -> Experiment:
    """Return the experiment of a hatchet.GraphFrame, or of a thicket.Thicket, whose profiles become runs.

    Nodes become contexts with the name and type of their frame, and file, line and module where the frame has such
    columns; index levels rank and thread become profiles. A metric has its exclusive costs, and its inclusive ones are
    computed from them; one that has inclusive costs alone has these. A node that several others call is an error, since
    contexts are a tree. Neither Hatchet needs to be imported.

        callgrove.from_hatchet(hatchet.GraphFrame.from_hpctoolkit("lulesh.d")).top()
    """
    nodes = list(graph_frame.graph.traverse())
    numbers = {id(node): number for number, node in enumerate(nodes)}
    parents = [_one_parent(node) for node in nodes]
    parent = np.array([ABSENT if above is None else numbers[id(above)] for above in parents], np.int64)
    frame = graph_frame.dataframe
    if isinstance(frame.columns, import_pandas().MultiIndex):
        raise UsageError("the frame has columns of several levels, of thickets side by side; take one of them")
    by_number = {node._hatchet_nid: number for number, node in enumerate(nodes)}
    context = np.array([by_number[node._hatchet_nid] for node in frame.index.get_level_values("node")], np.int64)
    first = np.full(len(nodes), ABSENT)
    first[context[::-1]] = np.arange(len(context))[::-1]
    places, runs = _read_places(frame, graph_frame)
    metadata = graph_frame.metadata if isinstance(graph_frame.metadata, dict) else {}
    described = metadata.get("metrics", {}) if _is_described(metadata.get("metrics")) else {}
    sheet = Sheet(
        title or str(metadata.get("title", "")) or "GraphFrame",
        "hatchet",
        parent,
        _node_words(nodes, frame, first),
        _node_lines(frame, first),
        context,
        places,
        _read_metrics(frame, graph_frame, described),
        described,
        runs,
    )
    return build_experiment(sheet)


def _one_parent(node: Any) -> Any:
    if len(node.parents) > 1:
        raise UsageError(f"{node.frame['name']!r} has {len(node.parents)} callers; contexts are a tree, which has one")
    return node.parents[0] if node.parents else None


def _node_words(nodes: Sequence[Any], frame: Any, first: Ints) -> dict[str, Words]:
    """Return what nodes are called, what they are, and where."""
    words = {"name": Words.of([str(node.frame.get("name", "")) or None for node in nodes])}
    words["kind"] = Words.of([str(node.frame.get("type", "None")) for node in nodes])
    for name in ("file", "module"):
        if name in frame:
            words[name] = read_words(frame[name]).take(first)
            words[name].codes[first < 0] = ABSENT
    return words


def _node_lines(frame: Any, first: Ints) -> Numbers | None:
    if "line" not in frame:
        return None
    lines = read_numbers(frame["line"], "line", True).take(first)
    return Numbers(lines.values, lines.present & (first >= 0) & (lines.values >= 0))


def _read_places(frame: Any, graph_frame: Any) -> tuple[dict[str, Numbers], list[Run]]:
    """Return the profile of each row, by level of the index, and the runs that profiles of a Thicket are."""
    index, mapping = frame.index, getattr(graph_frame, "profile_mapping", None)
    names = [name for name in ("run", *PLACES, "profile") if name in index.names]
    places = {name: read_numbers(index.get_level_values(name).to_series(), name, True) for name in names}
    unknown = [name for name in index.names if name not in ("node", *names)]
    if unknown:
        raise UsageError(f"the index of the frame has a level {unknown[0]!r}; drop_index_levels() takes it away")
    if mapping is None or "profile" not in places:
        return places, []
    known = list(mapping)
    run = np.array([known.index(profile) for profile in places.pop("profile").values.tolist()], np.int64)
    metadata = graph_frame.metadata
    return {**places, "run": Numbers.everywhere(run)}, [_read_run(metadata, one, str(mapping[one])) for one in known]


def _read_run(metadata: Any, profile: int, source: str) -> Run:
    """Return the run that a profile of a Thicket is; its numbers are parameters, its texts attributes."""
    told = {str(k): v for k, v in metadata.loc[profile].to_dict().items()} if profile in metadata.index else {}
    name, repetition = str(told.pop("name", source)), int(told.pop("repetition", 1))
    told.pop("source", None)
    numbers = {k: float(v) for k, v in told.items() if isinstance(v, int | float | np.number) and v == v}
    return Run(name, numbers, repetition, source, {k: v for k, v in told.items() if isinstance(v, str)})


def _is_described(metrics: object) -> bool:
    """Return whether this is what `to_hatchet` says of metrics; the metadata of other tools may have the same name."""
    return isinstance(metrics, dict) and all(
        isinstance(told, dict) and "exclusive" in told for told in metrics.values()
    )


def _read_metrics(
    frame: Any, graph_frame: Any, described: dict[str, dict[str, str]]
) -> dict[str, tuple[Numbers | None, Numbers | None]]:
    """Return the metrics that a GraphFrame names, and those that we said are among its columns."""
    exclusive = {str(name).removesuffix(EXCLUSIVE): name for name in graph_frame.exc_metrics}
    inclusive = {str(name).removesuffix(INCLUSIVE): name for name in graph_frame.inc_metrics}
    exclusive |= {name: told["exclusive"] for name, told in described.items()}
    inclusive |= {name: told["inclusive"] for name, told in described.items()}
    metrics: dict[str, tuple[Numbers | None, Numbers | None]] = {}
    for name in dict.fromkeys([*exclusive, *inclusive]):
        pair = exclusive.get(name), inclusive.get(name)
        columns = [read_numbers(frame[one], str(one)) if one is not None and one in frame else None for one in pair]
        if columns != [None, None]:
            metrics[name] = columns[0], columns[1]
    if not metrics:
        raise UsageError("the GraphFrame names no metric: exc_metrics and inc_metrics are empty")
    return metrics
