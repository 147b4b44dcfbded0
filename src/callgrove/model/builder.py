"""The only way to make an experiment: it interns, orders, validates, and takes lazy backends for what is large.

Regions and contexts are added as `ContextBuilder` says. Values added in memory use the numbers given by `add_*` and
are mapped by `build()`; lazy backends and traces use the final ids that `order()` gives.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from callgrove.arrays import (
    ABSENT,
    NO_OFFSET,
    Array,
    Encoded,
    Ids,
    Ints,
    Offsets,
    absent_stays,
    freeze,
    preorder,
    subtree_ends,
)
from callgrove.errors import InvalidExperiment
from callgrove.model.contexts import MANGLED, ContextKind, ContextTree, Regions, Relation, SourceFiles
from callgrove.model.derived import Refused, tell_when_computed
from callgrove.model.experiment import (
    Attachment,
    Experiment,
    InputWarning,
    Severity,
    Sources,
    problems_of_contexts,
    problems_of_experiment,
)
from callgrove.model.metrics import Column, Metric, Metrics
from callgrove.model.profiles import (
    DEFAULT_ID_NAMES,
    Identifier,
    IdentifierTuples,
    ProfileKind,
    Profiles,
    absent_system,
)
from callgrove.model.runs import Run
from callgrove.model.system import System, system_of
from callgrove.model.table import Table
from callgrove.model.traces.events import Counters, SampleBackend, SpanBackend, Split, Traces, Window
from callgrove.model.values import NoValues, SparseBlock, ValueBackend, Values

Item = TypeVar("Item")

__all__ = ["COLUMNS", "NO_WITHIN", "ContextBuilder", "ExperimentBuilder", "RegionTable"]


# -- contexts in the making, with regions, source files and modules ----------------------------------------------------
# Contexts may be added in any order, each naming its parent by the number that `add_context` gave. `order()` fixes
# them: the tree in preorder, then the elided contexts; it returns the final id of every context added.


# -- regions -----------------------------------------------------------------------------------------------------------
# Regions are said one by one. Two kinds of them may come by the million, and have no Python object each: addresses
# without a name, known by module and offset alone (those of a module that come together are kept as columns), and names
# without a place. As names are numbered in the order in which they come, the regions of 16 of them share a page.


COLUMNS = ("kind", "name", "file", "line", "end_line", "module", "offset", "role", "paradigm")
KIND, NAME, MODULE, OFFSET, ROLE, PARADIGM = (
    COLUMNS.index(name) for name in ("kind", "name", "module", "offset", "role", "paradigm")
)
PLACE = slice(COLUMNS.index("file"), OFFSET + 1)
NOWHERE = (ABSENT, ABSENT, ABSENT, ABSENT, int(NO_OFFSET))  # the place of a region without one
PAGE = 16  # names
NO_REGIONS = array("i", [ABSENT] * PAGE)
Key = tuple[int, ...]  # a value for each column, and a number for the mangled name


@dataclass(frozen=True)
class _Addresses:
    """Addresses with consecutive numbers."""

    kind: int
    first: int
    module: Ids
    offset: Offsets


class RegionTable:
    """What was said so far."""

    def __init__(self) -> None:
        self._single: dict[Key, int] = {}
        self._words: dict[tuple[int, ...], int] = {}  # kind, role, paradigm and mangled name of names without a place
        self._named: dict[tuple[int, int], array[int]] = {}  # by number of the words, and page of names
        self._blocks: list[_Addresses] = []
        self._known: dict[tuple[int, int], tuple[Offsets, Ids]] = {}  # by kind and module: offsets, sorted, and numbers
        self._said: set[tuple[int, int]] = set()  # kinds and modules of addresses that came one by one
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def number(self, key: Key) -> int:
        """Return the number of a region."""
        if key == _bare(key[KIND], key[MODULE], key[OFFSET]):
            return self._address(key)
        if key[NAME] >= 0 and key[PLACE] == NOWHERE:
            return self._name(key)
        return self._one(key)

    def _name(self, key: Key) -> int:
        words = self._words.setdefault((key[KIND], *key[ROLE:]), len(self._words))
        page, place = divmod(key[NAME], PAGE)
        numbers = self._named.get((words, page))
        if numbers is None:
            numbers = self._named[words, page] = NO_REGIONS[:]
        if numbers[place] == ABSENT:
            numbers[place] = self._n
            self._n += 1
        return numbers[place]

    def _one(self, key: Key) -> int:
        number = self._single.setdefault(key, self._n)
        self._n += number == self._n
        return number

    def _address(self, key: Key) -> int:
        group = key[KIND], key[MODULE]
        if group in self._known:
            offsets, numbers = self._known[group]
            at = int(np.searchsorted(offsets, np.uint64(key[OFFSET])))
            if at < len(offsets) and int(offsets[at]) == key[OFFSET]:
                return int(numbers[at])
        self._said.add(group)
        return self._one(key)

    def addresses(self, kind: int, module: Ids, offset: Offsets) -> Ids:
        """Return the numbers of many addresses: the same as one by one."""
        groups = {(kind, one) for one in np.unique(module).tolist()}
        if any(group in self._known or group in self._said for group in groups):
            keys = (_bare(kind, m, at) for m, at in zip(module.tolist(), offset.tolist(), strict=True))
            return np.fromiter((self._address(key) for key in keys), np.int32, len(module))
        order = np.lexsort((offset, module))
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (np.diff(module[order]) != 0) | (np.diff(offset[order]) != 0)
        earliest = order[fresh]  # sorting is stable
        numbers = (self._n + np.argsort(np.argsort(earliest))).astype(np.int32)
        modules, offsets = module[earliest], offset[earliest]
        for group in groups:
            part = slice(*np.searchsorted(modules, [group[1], group[1] + 1]).tolist())
            self._known[group] = offsets[part], numbers[part]
        out = np.empty(len(order), np.int32)
        out[order] = numbers[np.cumsum(fresh) - 1]
        kept = np.sort(earliest)
        self._blocks.append(_Addresses(kind, self._n, module[kept], offset[kept]))
        self._n += len(kept)
        return out

    def columns(self) -> Sequence[Array]:
        """Return all regions, column by column."""
        out = [np.full(self._n, ABSENT, np.int32) for _ in COLUMNS]
        out[OFFSET] = np.zeros(self._n, np.uint64)
        rows = np.fromiter(self._single.values(), np.int64, len(self._single))
        for column, values in zip(out, zip(*self._single, strict=True), strict=False):
            column[rows] = np.array(values, column.dtype)
        if self._named:
            self._fill_named(out)
        for block in self._blocks:
            part = slice(block.first, block.first + len(block.module))
            out[KIND][part], out[MODULE][part], out[OFFSET][part] = block.kind, block.module, block.offset
        return out

    def _fill_named(self, out: Sequence[Array]) -> None:
        """Fill the rows of names without a place."""
        words, first = np.array(list(self._named), np.int64).T * [[1], [PAGE]]
        numbers = np.frombuffer(b"".join(self._named.values()), np.int32).reshape(-1, PAGE)
        page, place = np.nonzero(numbers != ABSENT)
        rows = numbers[page, place]
        kind, role, paradigm, _ = np.array(list(self._words), np.int32)[words[page]].T
        out[NAME][rows] = first[page] + place
        out[OFFSET][rows] = NO_OFFSET
        for column, values in ((KIND, kind), (ROLE, role), (PARADIGM, paradigm)):
            out[column][rows] = values


def _bare(kind: int, module: int, offset: int) -> Key:
    """Return the key of an address without a name."""
    return kind, ABSENT, ABSENT, ABSENT, ABSENT, module, offset, ABSENT, ABSENT, ABSENT


# -- contexts ----------------------------------------------------------------------------------------------------------


CONTEXT_COLUMNS = ("parent", "kind", "relation", "region", "within", "call_file", "call_line", "source_id")
NO_WITHIN = -2  # not said: the parent, where the relation is lexical


class Interner(dict[str, int]):
    """The numbers of strings, each kept once; the empty string is absent."""

    def __init__(self) -> None:
        super().__init__({"": ABSENT})

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self) - 1
        return number

    __call__ = dict.__getitem__

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(islice(self, 1, None))


class ContextBuilder:
    """Collects what was executed."""

    def __init__(self) -> None:
        self.string, self.module = Interner(), Interner()
        self._files, self._mangled = Interner(), Interner()
        self._copied: dict[int, str] = {}
        self._regions = RegionTable()
        self._region_details: dict[int, Mapping[str, str]] = {}
        self._contexts = {name: array("q") for name in CONTEXT_COLUMNS}
        self._unfit: list[str] = []
        self._parameters: dict[int, tuple[tuple[str, str | float], ...]] = {}
        self._context_attributes: dict[int, Mapping[str, str]] = {}
        self._order: Ids | None = None

    def file(self, path: str, copied: str = "") -> int:
        """Return the number of a source file; `copied` is where its copy lies inside the input."""
        number = self._files(path)
        if copied and number >= 0:
            self._copied[number] = copied
        return number

    @property
    def files(self) -> tuple[str, ...]:
        """The source files so far."""
        return self._files.all

    def region(
        self,
        kind: ContextKind,
        name: str = "",
        *,
        file: int = ABSENT,
        line: int = ABSENT,
        end_line: int = ABSENT,
        module: int = ABSENT,
        offset: int | None = None,
        role: str = "",
        paradigm: str = "",
        details: Mapping[str, str] | None = None,
    ) -> int:
        """Return the number of a region; equal ones are the same, and what is said first about their details stays.
        Overloads may have one name and one place: different mangled names keep them apart."""
        at = int(NO_OFFSET) if offset is None else offset
        words = self.string(role), self.string(paradigm), self._mangled((details or {}).get(MANGLED, ""))
        key = (int(kind), self.string(name), file, line, end_line, module, at, *words)
        number = self._regions.number(key)
        if details:
            self._region_details.setdefault(number, dict(details))
        return number

    def addresses(self, kind: ContextKind, module: ArrayLike, offset: ArrayLike) -> Ids:
        """Add many regions at once that are known by module and offset alone; return what `region` gives for each."""
        return self._regions.addresses(int(kind), np.asarray(module, np.int32), np.asarray(offset, np.uint64))

    def add_context(
        self,
        parent: int,
        kind: ContextKind,
        region: int = ABSENT,
        relation: Relation = Relation.CALL,
        *,
        source_id: int = ABSENT,
        within: int = NO_WITHIN,
        call_file: int = ABSENT,
        call_line: int = ABSENT,
        parameters: Iterable[tuple[str, str | float]] = (),
        attributes: Mapping[str, str] | None = None,
    ) -> int:
        """Add one context, and return its number."""
        number = self.n_contexts
        row = (parent, int(kind), int(relation), region, within, call_file, call_line, source_id)
        for (name, column), value in zip(self._contexts.items(), row, strict=True):
            try:
                column.append(value)
            except OverflowError:
                column.append(ABSENT)
                self._unfit.append(f"contexts: a number does not fit its column: {name} {value} of row {number}")
        if parameters or attributes:
            self.describe_context(number, parameters, attributes)
        return number

    def describe_context(
        self,
        number: int,
        parameters: Iterable[tuple[str, str | float]] = (),
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Set parameters and attributes of a context that was added."""
        if given := tuple(parameters):
            self._parameters[number] = given
        if attributes:
            self._context_attributes[number] = dict(attributes)

    @property
    def n_contexts(self) -> int:
        """Contexts added so far: the number that the next one gets."""
        return len(self._contexts["parent"])

    def add_contexts(self, **columns: ArrayLike) -> range:
        """Add many contexts at once, by column; columns not given are absent. Parents count from 0 over all contexts
        added."""
        first = self.n_contexts
        given = {name: np.asarray(values, np.int64) for name, values in columns.items()}
        n = len(given["parent"])
        if unfit := {k: len(v) for k, v in given.items() if len(v) != n or k not in CONTEXT_COLUMNS}:
            known = ", ".join(CONTEXT_COLUMNS)
            raise InvalidExperiment([f"contexts: unfit columns {unfit} for {n} parents; there are {known}"])
        defaults = {"relation": int(Relation.CALL), "within": NO_WITHIN}
        for name in CONTEXT_COLUMNS:
            absent = np.full(0 if name in given else n, defaults.get(name, ABSENT), np.int64)
            self._contexts[name].frombytes(given.get(name, absent).tobytes())
        return range(first, first + n)

    def source_ids(self) -> Ints:
        """Return the file's own ids of the contexts added so far, in the order of adding."""
        return np.array(self._contexts["source_id"], np.int64)

    def order(self) -> Ids:
        """Fix the contexts and give the final id of each one added: the tree in preorder, then the elided ones."""
        if self._order is None:
            if problems := self._problems_of_contexts():
                raise InvalidExperiment(problems)
            self._order = self._preorder()
        return self._order

    def _problems_of_contexts(self) -> list[str]:
        if self._order is not None and len(self._order) == self.n_contexts:
            return []  # order() has checked them
        problems = self._unfit + problems_of_contexts(self._contexts, len(self._regions), len(self._files.all))
        if self._order is not None and len(self._order) != self.n_contexts:
            problems.append(f"contexts: {self.n_contexts - len(self._order)} were added after order() had fixed them")
        return problems

    def _preorder(self) -> Ids:
        parent = np.array(self._contexts["parent"], np.int32)
        elided = np.array(self._contexts["kind"], np.int32) == ContextKind.ELIDED
        tree, rest = np.flatnonzero(~elided), np.flatnonzero(elided)
        to_tree = np.full(len(parent) + 1, ABSENT, np.int32)
        to_tree[tree] = np.arange(len(tree))
        sequence = np.concatenate([tree[preorder(to_tree[parent[tree]])], rest])
        order = np.empty(len(parent), np.int32)
        order[sequence] = np.arange(len(parent), dtype=np.int32)
        return order

    def _regions_table(self) -> Regions:
        columns = (freeze(column) for column in self._regions.columns())
        kind, name, file, line, end_line, module, offset, role, paradigm = columns
        files = SourceFiles(self._files.all, dict(self._copied))
        strings, modules = self.string.all, self.module.all
        details = dict(self._region_details)
        return Regions(
            kind, name, file, line, end_line, module, offset, role, paradigm, strings, files, modules, details
        )

    def _tree(self) -> ContextTree:
        final = self.order()
        sequence = np.argsort(final)
        columns = {
            name: np.array(column, np.int64 if name == "source_id" else np.int32)[sequence]
            for name, column in self._contexts.items()
        }
        lookup = absent_stays(final)
        parent = lookup[columns["parent"]]
        lexical = (columns["relation"] == Relation.LEXICAL) & (parent >= 0)
        said = columns["within"] != NO_WITHIN
        within = np.where(said, lookup[np.where(said, columns["within"], ABSENT)], np.where(lexical, parent, ABSENT))
        return ContextTree(
            freeze(parent),
            freeze(subtree_ends(parent)),
            freeze(columns["kind"]),
            freeze(columns["relation"]),
            freeze(columns["region"]),
            freeze(within.astype(np.int32)),
            freeze(columns["call_file"]),
            freeze(columns["call_line"]),
            freeze(columns["source_id"]),
            self._regions_table(),
            {int(final[k]): v for k, v in self._parameters.items()},
            {int(final[k]): v for k, v in self._context_attributes.items()},
        )

    def _only_roots(self) -> ContextTree:
        """Return as many contexts without any order, in place of those that are broken."""
        none = np.full(self.n_contexts, ABSENT, np.int32)
        kind = np.full(self.n_contexts, ContextKind.UNKNOWN, np.int32)
        ends = np.arange(1, self.n_contexts + 1, dtype=np.int32)
        ids = none.astype(np.int64)
        return ContextTree(none, ends, kind, kind * 0, none, none, none, none, ids, self._regions_table())


# -- profiles ----------------------------------------------------------------------------------------------------------
# Added one by one, or as columns: there may be a million of them, with no Python object for each.


ProfileRow = tuple[int, int, str, int, list[Identifier], tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class _ProfileColumns:
    """Profiles that were added together: run, kind, name, source id, identifiers and attributes of each."""

    run: Array
    kind: Array
    name: Sequence[str]
    source_id: Array
    identifiers: IdentifierTuples
    attributes: Sequence[tuple[tuple[str, str], ...]]

    @classmethod
    def from_rows(cls, rows: Sequence[ProfileRow]) -> _ProfileColumns:
        runs, kinds, names, ids, tuples, attributes = zip(*rows, strict=True)
        numbers = np.array(runs, np.int32), np.array(kinds, np.int32), np.array(ids, np.int64)
        texts = names if any(names) else Encoded.repeat("", len(names))
        return cls(*numbers[:2], texts, numbers[2], IdentifierTuples.of(tuples), attributes)


class ProfileTable:
    """The profiles so far."""

    def __init__(self) -> None:
        self._parts: list[_ProfileColumns | list[ProfileRow]] = []
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add_row(self, *row: *ProfileRow) -> int:
        """Add one profile, and return its number."""
        if not self._parts or isinstance(self._parts[-1], _ProfileColumns):
            self._parts.append([])
        rows = self._parts[-1]
        assert isinstance(rows, list)
        rows.append(row)
        self._n += 1
        return self._n - 1

    def add_columns(
        self, run: ArrayLike, kinds: Ids, names: Sequence[str], source_id: ArrayLike, identifiers: IdentifierTuples
    ) -> range:
        """Add many profiles, and return their numbers."""
        n = len(kinds)
        runs, ids = (np.broadcast_to(np.asarray(column), n) for column in (run, source_id))
        self._parts.append(_ProfileColumns(runs, kinds, names, ids, identifiers, Encoded.repeat((), n)))
        self._n += n
        return range(self._n - n, self._n)

    def finish(self, id_names: tuple[str, ...]) -> Profiles:
        """Return all profiles, without places."""
        parts = [part if isinstance(part, _ProfileColumns) else _ProfileColumns.from_rows(part) for part in self._parts]
        if not parts:
            none = np.empty(0, np.int32)
            return Profiles(none, none, (), none, none.astype(np.int64), IdentifierTuples.empty(0, id_names))
        attributes = _join_items([part.attributes for part in parts])
        return Profiles(
            freeze(np.concatenate([part.run for part in parts]).astype(np.int32)),
            freeze(np.concatenate([part.kind for part in parts]).astype(np.int32)),
            _join_items([part.name for part in parts]),
            absent_system(self._n),
            freeze(np.concatenate([part.source_id for part in parts]).astype(np.int64)),
            IdentifierTuples.join([part.identifiers for part in parts], id_names),
            () if isinstance(attributes, Encoded) or not any(attributes) else attributes,
        )


def _join_items(columns: Sequence[Sequence[Item]]) -> Sequence[Item]:
    """Return the items of several columns in one; those that repeat one item stay without an object for each."""
    if len(columns) == 1:
        return columns[0]
    first = columns[0]
    if isinstance(first, Encoded) and all(isinstance(c, Encoded) and c.table == first.table for c in columns):
        return Encoded(np.concatenate([column.codes for column in columns if isinstance(column, Encoded)]), first.table)
    return tuple(item for column in columns for item in column)


# -- the experiment ----------------------------------------------------------------------------------------------------


class ExperimentBuilder(ContextBuilder):
    """Collects the parts of one experiment."""

    def __init__(self, format: str, version: str = "", title: str = "", path: str = "") -> None:
        super().__init__()
        self.format, self.version, self.title, self.path = format, version, title, path
        self.attributes: dict[str, str] = {}
        self.attachments: dict[str, Attachment] = {}
        self.warnings: list[InputWarning] = []
        self.sources = Sources()
        self._runs: list[Run] = []
        self._profiles = ProfileTable()
        self.id_names: tuple[str, ...] = DEFAULT_ID_NAMES
        self._system: tuple[System, Ids] | None = None
        self._metrics: list[Metric] = []
        self._columns: list[Column] = []
        self._values: ValueBackend | None = None
        self._blocks: list[SparseBlock] = []
        self._traces = Traces()

    # -- tables ------------------------------------------------------------------------------------------------

    def add_run(self, run: Run) -> int:
        """Add one run, and return its number."""
        self._runs.append(run)
        return len(self._runs) - 1

    def add_profile(
        self,
        kind: ProfileKind,
        identifiers: Iterable[Identifier] = (),
        *,
        run: int = 0,
        name: str = "",
        source_id: int = ABSENT,
        attributes: Iterable[tuple[str, str]] = (),
    ) -> int:
        """Add one profile with its identifier tuple, and return its number."""
        return self._profiles.add_row(run, int(kind), name, source_id, list(identifiers), tuple(attributes))

    @property
    def n_profiles(self) -> int:
        """Profiles added so far: the number that the next one gets."""
        return len(self._profiles)

    def add_profiles(
        self,
        kinds: Ids,
        identifiers: IdentifierTuples,
        *,
        run: ArrayLike = 0,
        names: Sequence[str] | None = None,
        source_id: ArrayLike = ABSENT,
    ) -> range:
        """Add many profiles at once, by column, and return their numbers; `run` and `source_id` may be one number for
        all. The kinds of identifiers have the names that the tuples give them."""
        self.id_names = identifiers.names
        names = Encoded.repeat("", len(kinds)) if names is None else names
        return self._profiles.add_columns(run, kinds, names, source_id, identifiers)

    def set_system(self, system: System, leaves: Ids) -> None:
        """Set a system tree and the leaf of every profile; without it, the identifier tuples make one."""
        self._system = (system, leaves)

    def add_metric(self, metric: Metric) -> int:
        """Add one row of the metric table, and return its number."""
        self._metrics.append(metric)
        return len(self._metrics) - 1

    def refuse_formula(self, row: int, derived: Metric, why: str) -> None:
        """Make a metric a derived one that is not computed, with the formula of one that is."""
        refused = Refused(derived.formula, tell_when_computed(derived), why)
        self._metrics[row] = replace(self._metrics[row], formula=derived.formula, derivation=refused)

    def mark_measured(self, row: int) -> None:
        """Make a metric one that has values, where it was given as one that nobody measured."""
        if self._metrics[row].is_missing:
            self._metrics[row] = self._metrics[row].as_measured()

    def name_summaries(self, rows: Mapping[int, int]) -> None:
        """Map the ids that stored summaries and formulas use to metric rows; the first id of a row is kept."""
        for id_, row in rows.items():
            if self._metrics[row].summary_id is None:
                self._metrics[row] = replace(self._metrics[row], summary_id=id_)

    def show_only(self, names: Container[str]) -> None:
        """Make every quantity invisible that is not one of these, unless that would leave none."""
        if any(metric.name in names for metric in self._metrics):
            self._metrics = [replace(m, visible=m.visible and m.name in names) for m in self._metrics]

    def add_column(self, column: Column) -> None:
        """Add a column that the profiler shows."""
        self._columns.append(column)

    def warn(self, severity: Severity, text: str) -> None:
        """Add a warning to those that the experiment will have."""
        self.warnings.append(InputWarning(severity, text))

    # -- values and traces -------------------------------------------------------------------------------------

    def add_values(self, profile: ArrayLike, context: ArrayLike, metric: ArrayLike, value: ArrayLike) -> None:
        """Add values in memory, in the numbers that `add_*` gave."""
        numbers = np.atleast_1d(np.asarray(value))
        p, c, m = (np.broadcast_to(np.asarray(a, np.int32), len(numbers)) for a in (profile, context, metric))
        self._blocks.append(SparseBlock(p, c, m, numbers))

    def set_values(self, backend: ValueBackend) -> None:
        """Set values that are read when asked for; their ids are final (see `order`)."""
        self._values = backend

    def set_traces(
        self,
        samples: SampleBackend | None = None,
        spans: SpanBackend | None = None,
        counters: Counters | Callable[[], Counters | None] | None = None,
        time_range: Window | None = None,
        split: Split | None = None,
        tables: Mapping[str, Callable[[], Table]] | None = None,
        part_sizes: Sequence[int] = (),
    ) -> None:
        """Set traces; their context ids are final (see `order`)."""
        self._traces = Traces(samples, spans, counters, time_range, split, tables or {}, part_sizes)

    # -- making it ---------------------------------------------------------------------------------------------

    def validate(self) -> list[str]:
        """Return every broken invariant, in words; empty when the experiment is sound."""
        return self._check()[0]

    def build(self) -> Experiment:
        """Return the experiment; raise InvalidExperiment with every broken invariant."""
        problems, experiment, blocks = self._check()
        if problems or experiment is None:
            raise InvalidExperiment(problems)
        backend = self._values or self._keep_in_memory(experiment, blocks)
        return replace(experiment, values=replace(experiment.values, backend=backend))

    def _keep_in_memory(self, experiment: Experiment, blocks: list[SparseBlock]) -> ValueBackend:
        from callgrove.model.computed_values import in_memory  # not where values stay in their file

        return in_memory(blocks, experiment.profiles, len(experiment.contexts), len(experiment.metrics))

    def _check(self) -> tuple[list[str], Experiment | None, list[SparseBlock]]:
        """Return what is broken, the experiment without its values, and the values held here. Broken contexts are
        checked by themselves; a list of roots then stands for them, so that everything else is checked as well."""
        problems = self._problems_of_contexts()
        final = np.arange(self.n_contexts, dtype=np.int32) if problems else self.order()
        try:
            tree = self._only_roots() if problems else self._tree()
            experiment = self._assemble(tree)
        except OverflowError as error:
            return [*problems, f"a number does not fit its column: {error}"], None, []
        blocks = self._map_blocks(final)
        return problems + problems_of_experiment(experiment, blocks), experiment, blocks

    def _assemble(self, contexts: ContextTree) -> Experiment:
        metrics = Metrics(tuple(self._metrics), tuple(self._columns))
        profiles, system = self._profiles_and_system()
        return Experiment(
            title=self.title,
            format=self.format,
            version=self.version,
            runs=tuple(self._runs) or (Run(self.title, source=self.path),),
            profiles=profiles,
            system=system,
            contexts=contexts,
            metrics=metrics,
            values=Values(NoValues(), metrics, profiles, contexts),
            traces=self._traces,
            sources=replace(self.sources, copies=dict(self._copied)),
            attributes=dict(self.attributes),
            attachments=dict(self.attachments),
            warnings=tuple(self.warnings),
            path=self.path,
        )

    def _profiles_and_system(self) -> tuple[Profiles, System]:
        profiles = self._profiles.finish(self.id_names).of_runs(self._runs)
        if len(profiles.identifiers) != len(profiles):
            return profiles, System(np.empty(0, np.int32), (), (), np.empty(0, np.int64))
        system, leaves = self._system or system_of(profiles)
        return replace(profiles, system=leaves), system

    def _map_blocks(self, final: Ids) -> list[SparseBlock]:
        """Return the values held here with final contexts; ids that are not one of a context stay as they are."""
        mapped = []
        for block in self._blocks:
            known = (block.context >= 0) & (block.context < len(final))
            context = block.context.copy()
            context[known] = final[block.context[known]]
            mapped.append(replace(block, context=context))
        return mapped
