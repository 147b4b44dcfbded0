"""From the records of Caliper files to one experiment; every file is a run.

path                  contexts: functions, and regions of other nested attributes
labels                contexts below the path, unless all records of a file have the same one
no path               the root `[no region]`
mpi.rank, threads     profiles; without them one for each run, of kind aggregate where it stands for several ranks
other numbers         metrics; those of time series are counters
globals               parameters of runs (mpi.world.size is p) and attributes; what names people, hosts or places on
                      their disks stays in the file
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ints, distinct_rows
from callgrove.formats.caliper.records import Attribute, DifferentHeads, Labels, PathTrie, Records, RecordTable
from callgrove.formats.text_profiles import ContextsByPath, LeftOut, add_up_values, is_private
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import LAST_LINE, ContextKind, Relation
from callgrove.model.experiment import Severity
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind
from callgrove.model.runs import PARAMETERS_DIFFER, Run
from callgrove.model.traces.events import Counters

__all__ = ["CaliperExperiment"]


# -- metrics -----------------------------------------------------------------------------------------------------------


RANKS = ("mpi.rank", "rank")
THREADS = ("omp.thread.id", "pthread.id", "thread")
SERIES = ("timeseries.snapshot", "block")  # numbers that tell the parts of a time series apart
START = "timeseries.starttime"  # seconds since the epoch
NO_METRICS = re.compile(
    r"(mpi\.rank|rank|omp\.thread\.id|pthread\.id|thread|block|aggregate\.slot|cali\..*"
    r"|iteration#.*|loop\.start_iteration|timeseries\.(snapshot|starttime))"
)
AGGREGATIONS = {
    "min": Aggregation.MINIMUM,
    "max": Aggregation.MAXIMUM,
    "avg": Aggregation.NONE,
    "mean": Aggregation.NONE,
}
NANOSECONDS = ".ns"  # names that end so say their unit
OF_TREE = "regionprofile"  # the value of spot.channel of records that are not time series


def describe_metric(attribute: Attribute, *, is_integer: bool) -> Metric:
    """Return the metric that the numbers of an attribute are."""
    name = attribute.name
    scope = Scope.INCLUSIVE if "inclusive#" in name else Scope.EXCLUSIVE
    rule = AGGREGATIONS.get(name.partition("#")[0], Aggregation.SUM)
    unit = attribute.fact("attribute.unit") or ("ns" if name.endswith(NANOSECONDS) else "")
    kind = "int64" if is_integer else "double"
    return Metric(name, scope, unit, kind, rule, description=attribute.fact("attribute.alias"))


# -- contexts ----------------------------------------------------------------------------------------------------------


ROOT = "", "[no region]", ""
FUNCTIONS = {"function": "", "mpi.function": "mpi", "source.function": "", "cupti.runtimeAPI": "cuda"}
KERNELS = ("cupti.kernel.name", "rocm.kernel.name")
SOURCE, MODULE = "sourceloc#", "module#"
PLACE = re.compile(r"(.+):(\d{1,9})")
NOT_LABELS = ("cali.", "spot.channel")  # attributes that tell how a file was made
MOST_KNOWN = 1 << 10  # tables whose heads are remembered for the next file
Frame = tuple[str, str, str]  # what it is, its name, and its module


class CaliperContexts:
    """Contexts of a builder by paths and labels, the same for all files of one vocabulary."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self._builder = builder
        self._frames: dict[Frame, int] = {}
        self._list: list[Frame] = []
        self._contexts = ContextsByPath(self._add)
        self._of_trie = {ABSENT: ABSENT}  # contexts of paths
        self._of_head: dict[tuple[int, Labels], int] = {}  # contexts of heads less some labels
        self._of_heads: dict[tuple[tuple[int, ...], Labels], Ints] = {}  # likewise, of those of a whole table

    def of_heads(self, records: Records, heads: tuple[int, ...], constant: Mapping[str, str]) -> Ints:
        """Return the contexts of heads; labels that are the same in all records are left out."""
        left_out = tuple(constant.items())
        if (known := self._of_heads.get((heads, left_out))) is None:
            _limit(self._of_heads)
            known = self._of_heads[heads, left_out] = self._find(records, heads, constant)
        return known

    def _find(self, records: Records, heads: Sequence[int], constant: Mapping[str, str]) -> Ints:
        left_out = tuple(constant.items())
        keys = [(number, left_out) for number in heads]
        for key in keys:
            if key not in self._of_head:
                self._of_head[key] = self._of(records, key[0], constant)
        return np.array([self._of_head[key] for key in keys], np.int64)

    def _of(self, records: Records, number: int, constant: Mapping[str, str]) -> int:
        path, labels = records.heads[number]
        context = self._of_path(records.paths, path) if path >= 0 else self._below(ABSENT, ROOT)
        for frame in _frames_of(labels, constant):
            context = self._below(context, frame)
        return context

    def _of_path(self, trie: PathTrie, path: int) -> int:
        """Return the context of a path."""
        steps = []
        while path not in self._of_trie:
            steps.append(path)
            path = trie.parent[path]
        context = self._of_trie[path]
        for step in reversed(steps):
            context = self._of_trie[step] = self._below(context, (trie.attribute[step], trie.value[step], ""))
        return context

    def _below(self, context: int, frame: Frame) -> int:
        number = self._frames.setdefault(frame, len(self._list))
        if number == len(self._list):
            self._list.append(frame)
        return self._contexts.descend((number,), context)

    def _add(self, parent: int, number: int) -> int:
        what, name, module = self._list[number]
        builder, in_module = self._builder, self._builder.module(module)
        if what == SOURCE and (place := PLACE.fullmatch(name)):
            line = min(int(place[2]), LAST_LINE)
            region = builder.region(ContextKind.LINE, file=builder.file(place[1]), line=line, module=in_module)
            return builder.add_context(parent, ContextKind.LINE, region, Relation.LEXICAL)
        kind = _kind_of(what)
        role = what if kind == ContextKind.REGION else ""
        region = builder.region(kind, name, module=in_module, role=role, paradigm=FUNCTIONS.get(what, ""))
        return builder.add_context(parent, kind, region)


def _kind_of(attribute: str) -> ContextKind:
    if not attribute:
        return ContextKind.PLACEHOLDER
    if attribute in FUNCTIONS:
        return ContextKind.FUNCTION
    return ContextKind.KERNEL if attribute in KERNELS else ContextKind.REGION


def _frames_of(labels: Labels, constant: Mapping[str, str]) -> list[Frame]:
    """Return the contexts that labels add below a path; a module belongs to the source line of the same record."""
    kept = {name: value for name, value in labels if name not in constant and not name.startswith(NOT_LABELS)}
    place = next((name for name in kept if name.startswith(SOURCE)), "")
    module = next((name for name in kept if name.startswith(MODULE)), "") if place else ""
    frames = [
        (name, value if name in KERNELS or name in FUNCTIONS else f"{name}={value}", "")
        for name, value in kept.items()
        if name not in (place, module, *RANKS, *THREADS)
    ]
    return [*frames, (SOURCE, kept[place], kept.get(module, ""))] if place else frames


def find_constant_labels(records: Records, heads: Collection[int]) -> dict[str, str]:
    """Return the labels that all of these heads have with one value."""
    if not heads:
        return {}
    first, *others = (dict(records.heads[number][1]) for number in sorted(heads))
    for labels in others:
        first = {name: value for name, value in first.items() if labels.get(name) == value}
        if not first:
            break
    return first


# -- globals -----------------------------------------------------------------------------------------------------------


PROCESSES = ("mpi.world.size", "jobsize")
MOST_NAMED = 8  # in a message
NO_PARAMETERS = re.compile(  # integers that are results, or follow from the number of processes
    r"(numhosts|.*(time|date|day|version|seed|pid|jobid|job_id|uid|port|merit|elapsed).*|cali\..*|spot\..*)",
    re.IGNORECASE,
)
PERFORMANCE = "3"  # Adiak's category of results
INTEGERS = ("int", "uint")


def read_parameters(records: Records) -> dict[str, float]:
    """Return the globals that may be parameters of a run: integers that are neither dates nor results."""
    out: dict[str, float] = {}
    for name, fact in records.globals.items():
        is_result = fact.attribute.fact("adiak.category") == PERFORMANCE
        is_whole = fact.attribute.type in INTEGERS and fact.value.isascii() and fact.value.isdigit()
        if is_whole and len(fact.value) < 16 and not is_result and not NO_PARAMETERS.fullmatch(name):
            out[name] = float(fact.value)
    processes = next((out[name] for name in PROCESSES if name in out), None)
    others = {name: value for name, value in out.items() if name not in PROCESSES}
    return others if processes is None else {"p": processes, **others}


def read_facts(records: Records) -> dict[str, str]:
    """Return the globals that a page may show."""
    return {name: fact.value for name, fact in records.globals.items() if not is_private(name) and fact.value}


# -- the experiment ----------------------------------------------------------------------------------------------------


Place = tuple[int, int, int]  # run, rank and thread


@dataclass
class _Cells:
    """The numbers of one metric: profile, context and value of each, block by block."""

    metric: Metric
    blocks: list[tuple[Ints, Ints, Array]] = field(default_factory=list)


@dataclass
class _Run:
    name: str
    path: str
    parameters: dict[str, float]
    attributes: dict[str, str]
    n_processes: int


class CaliperExperiment:
    """Collects the records of files, and makes an experiment of them."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self._builder = builder
        self._contexts, self._labels = CaliperContexts(builder), _Labels()
        self._cells: dict[str, _Cells] = {}
        self._places: dict[Place, int] = {}
        self._runs: list[_Run] = []
        self._counters: list[tuple[Ints, str, Ints, Array]] = []
        self.left_out = LeftOut()
        self._private: set[str] = set()
        self._numbered = False  # are there counters whose times nobody recorded?

    def add(self, records: Records, path: Path) -> None:
        """Add the records of one file."""
        parameters = read_parameters(records)
        facts = read_facts(records)
        self._private |= {name for name in records.globals if name not in facts and is_private(name)}
        run = len(self._runs)
        tables = [self._labels.of_table(table, records) for table in records.tables]
        constant = self._labels.find_constant(records, [heads.profiled for heads in tables])
        facts |= {name: value for name, value in constant.items() if not is_private(name)}
        self._runs.append(_Run(path.name, str(path), parameters, facts, int(parameters.get("p", 0))))
        for table, heads in zip(records.tables, tables, strict=True):
            profile = self._profiles(table, heads, run)
            if heads.has_series:
                series = heads.series[heads.number]
                self._add_series(_rows(table, series), records, profile[series])
                table, profile = _rows(table, ~series), profile[~series]
                heads = self._labels.of_table(table, records)
            contexts = self._contexts.of_heads(records, heads.different, constant)
            self._add_values(table, records, profile, contexts[heads.number])

    def _profiles(self, table: RecordTable, heads: _TableHeads, run: int) -> Ints:
        """Return the profile of every record."""
        in_columns = any(name in table.columns for name in (*RANKS, *THREADS))
        if in_columns:
            columns = [_column_of(table, heads, names) for names in (RANKS, THREADS)]
            same = all((column == column[0]).all() for column in columns)  # as in files of one rank each
            places, number = distinct_rows(*[column[:1] if same else column for column in columns])
        else:
            places, number = heads.facts.places
        ids = [self._places.setdefault((run, r, t), len(self._places)) for r, t in places.T.tolist()]
        if len(ids) == 1:
            return np.full(len(table.head), ids[0], np.int64)
        of_place = np.array(ids, np.int64)[number]
        return of_place if in_columns else of_place[heads.number]

    def _add_values(self, table: RecordTable, records: Records, profile: Ints, contexts: Ints) -> None:
        for name, values in table.columns.items():
            cells = self._cells.get(name)
            if cells is None:
                if NO_METRICS.fullmatch(name) or not len(values):
                    continue
                attribute = records.attributes.get(name) or Attribute(name, "double")
                metric = describe_metric(attribute, is_integer=values.dtype.kind == "i")
                cells = self._cells[name] = _Cells(metric)
            cells.blocks.append((profile, contexts, values))

    def _add_series(self, table: RecordTable, records: Records, profile: Ints) -> None:
        """Add the numbers of a time series as counters, over the time that it tells or over its own numbers."""
        number = next(
            (table.columns[name] for name in SERIES if name in table.columns), np.zeros(len(table.head), np.int64)
        )
        time = number.astype(np.int64)
        if START in table.columns:
            time = np.rint(table.columns[START] * 1e9).astype(np.int64)
        else:
            self._numbered = True
        for name, values in table.columns.items():
            if not NO_METRICS.fullmatch(name):
                for head in np.unique(table.head).tolist():
                    rows = table.head == head
                    self._counters.append((profile[rows], _name_counter(name, records, head), time[rows], values[rows]))

    # -- finishing -----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Give everything to the builder: runs by their parameters, profiles of each run together, metrics that add up
        first."""
        parameters, disagreement = self._agree()
        order = sorted(range(len(self._runs)), key=lambda k: (tuple(parameters[k].values()), self._runs[k].name))
        new_run = {run: number for number, run in enumerate(order)}
        repetitions: dict[tuple[float, ...], int] = {}
        for run in order:
            point = tuple(parameters[run].values())
            repetitions[point] = repetitions.get(point, 0) + 1
            told = self._runs[run]
            self._builder.add_run(Run(told.name, parameters[run], repetitions[point], told.path, told.attributes))
        if disagreement:
            self._builder.attributes[PARAMETERS_DIFFER] = disagreement
        if len(self._runs) == 1:
            self._builder.attributes.update(self._runs[0].attributes)
        if self._private:
            names = ", ".join(sorted(self._private)[:MOST_NAMED])
            self._builder.warn(Severity.NOTE, f"facts that may name people, hosts or places are not shown: {names}")
        profile_of = self._add_profiles(new_run)
        for cells in sorted(self._cells.values(), key=lambda one: one.metric.aggregation != Aggregation.SUM):
            self._add_metric(cells, profile_of)
        self._add_counters(profile_of)

    def _agree(self) -> tuple[list[dict[str, float]], str]:
        """Return the parameters of every run: p, and what differs between runs; and why there are none."""
        given = [run.parameters for run in self._runs]
        names = [name for name in given[0] if all(name in one for one in given)] if given else []
        kept = [name for name in names if name == "p" or len({one[name] for one in given}) > 1]
        kept.sort(key=lambda name: name != "p")
        if "p" not in kept and any("p" in one for one in given):
            lacking = next(run.name for run in self._runs if "p" not in run.parameters)
            return [{} for _ in given], f"{lacking} does not say {PROCESSES[0]}, and others do"
        return [{name: one[name] for name in kept} for one in given], ""

    def _add_profiles(self, new_run: Mapping[int, int]) -> Ints:
        order = sorted(self._places, key=lambda place: (new_run[place[0]], *place[1:]))
        numbers = np.empty(len(order), np.int64)
        for place in order:
            run, rank, thread = place
            identifiers: list[Identifier] = [
                (DEFAULT_ID_NAMES.index(kind), number, number, int(Interpretation.SINGLE))
                for kind, number in (("RANK", rank), ("THREAD", thread))
                if number >= 0
            ]
            together = rank < 0 and self._runs[run].n_processes > 1
            kind = ProfileKind.AGGREGATE if together else ProfileKind.THREAD
            numbers[self._places[place]] = self._builder.add_profile(kind, identifiers, run=new_run[run])
        return numbers

    def _add_metric(self, cells: _Cells, profile_of: Ints) -> None:
        profile, context, value = (np.concatenate(parts) for parts in zip(*cells.blocks, strict=True))
        metric, rule = self._builder.add_metric(cells.metric), cells.metric.aggregation
        if rule == Aggregation.NONE:
            keep = self._without_several(profile, context, cells.metric.name)
            profile, context, value = profile[keep], context[keep], value[keep]
        combine = np.add if rule == Aggregation.NONE else rule.ufunc
        add_up_values(self._builder, profile_of[profile], context, metric, value, combine)

    def _without_several(self, profile: Ints, context: Ints, name: str) -> Bools:
        """Return which values of a mean stand alone: that of several cannot be known."""
        cells, number = distinct_rows(profile, context)
        alone: Bools = (np.bincount(number, minlength=cells.shape[1]) == 1)[number]
        if not alone.all():
            self.left_out.note(f"values of {name} that several records have for one path", n=int((~alone).sum()))
        return alone

    def _add_counters(self, profile_of: Ints) -> None:
        if not self._counters:
            return
        if self._numbered:
            self._builder.warn(Severity.NOTE, "times of counters are the numbers of blocks: the file tells no others")
        names = list(dict.fromkeys(name for _, name, _, _ in self._counters))
        numbers = [np.full(len(part[0]), names.index(part[1]), np.int32) for part in self._counters]
        profile, time = (np.concatenate([part[k] for part in self._counters]) for k in (0, 2))
        value = np.concatenate([np.asarray(part[3], np.float64) for part in self._counters])
        counters = Counters(profile_of[profile].astype(np.int32), np.concatenate(numbers), time, value, tuple(names))
        self._builder.set_traces(counters=counters, time_range=(int(time.min()), int(time.max())))


def _rows(table: RecordTable, chosen: Bools) -> RecordTable:
    return RecordTable(table.head[chosen], {name: column[chosen] for name, column in table.columns.items()})


@dataclass(frozen=True)
class _LabelFacts:
    """What labels say of heads: which are of time series, and the numbers of ranks and threads."""

    series: Bools
    numbers: Mapping[tuple[str, ...], Ints]

    @cached_property
    def places(self) -> tuple[Ints, Ints]:
        """The different pairs of rank and thread, and which one each head has."""
        return distinct_rows(self.numbers[RANKS], self.numbers[THREADS])


@dataclass(frozen=True)
class _TableHeads:
    """The different heads of the records of a table, the number of each record's among these, what labels say of them,
    and which of them are of time series."""

    different: tuple[int, ...]
    number: Ints
    facts: _LabelFacts
    series: Bools

    @cached_property
    def has_series(self) -> bool:
        return bool(self.series.any())

    @property
    def profiled(self) -> tuple[int, ...]:
        if not self.has_series:
            return self.different
        return tuple([head for head, series in zip(self.different, self.series.tolist(), strict=True) if not series])


class _Labels:
    """What labels of heads say. The next file mostly has the same heads, and is not asked again."""

    def __init__(self) -> None:
        self._facts: dict[tuple[int, ...], _LabelFacts] = {}
        self._constant: dict[tuple[tuple[int, ...], ...], dict[str, str]] = {}

    def of_table(self, table: RecordTable, records: Records) -> _TableHeads:
        heads = table.known_heads or DifferentHeads.of(table.head)
        different = heads.heads
        facts = self._facts.get(different)
        if facts is None:
            _limit(self._facts)
            facts = self._facts[different] = _find_label_facts(records, different)
        numbered = any(name in table.columns for name in SERIES)
        series = np.ones(len(different), np.bool_) if numbered else facts.series
        return _TableHeads(different, heads.number, facts, series)

    def find_constant(self, records: Records, heads: Sequence[tuple[int, ...]]) -> dict[str, str]:
        """Return the labels that all heads of these tables have with one value."""
        key = tuple(heads)
        if (constant := self._constant.get(key)) is None:
            _limit(self._constant)
            constant = self._constant[key] = find_constant_labels(records, set(chain.from_iterable(heads)))
        return constant


def _limit(known: dict[Any, Any]) -> None:
    if len(known) >= MOST_KNOWN:
        known.clear()


def _find_label_facts(records: Records, heads: Sequence[int]) -> _LabelFacts:
    labels = [records.heads[head][1] for head in heads]
    channels = [dict(one).get("spot.channel", OF_TREE) for one in labels]
    series = np.array([channel != OF_TREE for channel in channels], np.bool_)
    return _LabelFacts(series, {names: _numbers_of(labels, names) for names in (RANKS, THREADS)})


def _numbers_of(labels: Sequence[Labels], names: tuple[str, ...]) -> Ints:
    told = [next((text for name, text in one if name in names), "") for one in labels]
    numbers = [int(text) if text.isascii() and text.isdigit() and len(text) < 18 else ABSENT for text in told]
    return np.array(numbers, np.int64)


def _column_of(table: RecordTable, heads: _TableHeads, names: tuple[str, ...]) -> Ints:
    """Return the rank or thread of every record, as a value or a label; -1 where there is none."""
    for name in names:
        if name in table.columns:
            column = table.columns[name]
            fits = (column >= 0) & (column < 2**62) & (column == np.floor(column))
            return np.where(fits, column, ABSENT).astype(np.int64)
    return heads.facts.numbers[names][heads.number]


def _name_counter(name: str, records: Records, head: int) -> str:
    """Return the name of a metric with the path that it is of."""
    steps: list[str] = []
    path = records.heads[head][0]
    while path >= 0 and len(steps) < LONGEST_PATH:
        steps.append(records.paths.value[path])
        path = records.paths.parent[path]
    return " ".join([name, "->".join(reversed(steps))]).strip()


LONGEST_PATH = 100
