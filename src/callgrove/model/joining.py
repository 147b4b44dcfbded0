"""Trees matched by call path, and several executions joined to one experiment with several runs.

Contexts are matched by call path (`unify`), metrics by name, scope and statistic; values stay where they are and
are chained. Traces and copies of sources belong to one execution each and are left there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from callgrove.arrays import (
    ABSENT,
    NO_OFFSET,
    Directory,
    Ids,
    Ints,
    absent_stays,
    distinct,
    distinct_rows,
    in_order,
)
from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.computed_values import SOURCES, ChainedValues, Link
from callgrove.model.contexts import MANGLED, ContextKind, ContextTree, Regions
from callgrove.model.derived import formula_identity
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import Profiles
from callgrove.model.runs import Run

__all__ = ["PLACES", "ROOT", "Unified", "Unifier", "join_runs", "names", "unify"]


# -- matching trees by call path ---------------------------------------------------------------------------------------
# Two contexts are the same where their parents are and they have equal kind, relation, region (name, file, line,
# module, offset), call site and parameters. Siblings of one tree that look the same (two call instructions on one line
# that call one function) stay apart: the first matches the first of the other trees, the second the second.
#
#     a: main            b: main            unified: main            maps of b
#        |-- f              |-- f                    |-- f            main -> main
#        `-- f              `-- g                    |-- f               f -> the first f
#                                                    `-- g               g -> g
#
# New contexts follow in the order in which they appear, so unify([a, b, c]) is unify([unify([a, b]), c]), to the last
# id. `by_name` compares nothing but `names`: formats differ in kinds and places. Overloads (regions that differ in
# nothing but their mangled names) match by these. Compilers mangle differently, so where none of them is known but
# there are as many as before, the first matches the first. What the first tree says of a context (region, call site,
# attributes) stays. `source_id` is gone, as it means one file; elided contexts are never matched and keep theirs.


PLACES = ("file", "line", "module", "offset")  # what matching may ignore: builds of one program differ in these

ROOT = "<root>"  # of measurements: it holds the others together
ROOTS = {"<program root>": "main thread", "<thread root>": "application thread"}  # two generations of HPCToolkit

KEY_BITS, SLOT_BITS = 31, 62
WIDE = 64  # contexts per level, on average, from which on matching whole levels pays
FEW = 2000  # contexts that are matched one by one, however wide the tree is
FURTHER = 8  # times as many known contexts as a tree has are not worth sorting for it

Key = tuple[object, ...]


@dataclass(frozen=True)
class Unified:
    """One tree, and for every input the map from its contexts to those of the tree (-1: left out)."""

    tree: ContextTree
    maps: tuple[Ids, ...]


def unify(
    trees: Sequence[ContextTree],
    *,
    ignore: Collection[str] = (),
    by_name: bool = False,
    merge_equal: bool = False,
    keep_elided: bool = True,
) -> Unified:
    """Return one tree of many; the options are those of `Unifier`."""
    builder = ExperimentBuilder("unified")
    unifier = Unifier(builder, ignore=ignore, by_name=by_name, merge_equal=merge_equal, keep_elided=keep_elided)
    numbers = [unifier.add(tree) for tree in trees]
    final = absent_stays(builder.order())
    return Unified(builder.build().contexts, tuple(final[ids] for ids in numbers))


class Unifier:
    """Adds trees, one after the other, to the contexts of a builder.

    `ignore` names what of PLACES does not count, for runs of different builds; `by_name` lets nothing but names count.
    `merge_equal` makes one context of equal siblings inside a tree, whose values then add up. `keep_elided=False`
    leaves elided contexts out.
    Where copies of source files lie is for the caller to say: they belong to one input each.
    """

    def __init__(
        self,
        builder: ExperimentBuilder,
        *,
        ignore: Collection[str] = (),
        by_name: bool = False,
        merge_equal: bool = False,
        keep_elided: bool = True,
    ) -> None:
        if unknown := sorted(set(ignore) - set(PLACES)):
            raise UsageError(f"matching cannot ignore {unknown[0]!r}; it can ignore {', '.join(PLACES)}")
        self._builder = builder
        self._kept = tuple(place for place in PLACES if place not in ignore)
        self._by_name = by_name
        self._merge_equal = merge_equal
        self._keep_elided = keep_elided
        self._keys: dict[Key, int] = {}
        self._mangled: dict[Key, list[str]] = {}  # by which regions that look the same are told apart
        self._unmangled: set[Key] = set()  # of regions of which no mangled name is known
        self._known = KnownContexts()

    def add(self, tree: ContextTree, keep_elided: bool | None = None) -> Ids:
        """Match a tree with those added before; gives, for each of its contexts, the number in the builder.
        `keep_elided` may differ from tree to tree."""
        keys = [] if self._by_name else self._region_keys(tree)
        mangled = {} if self._by_name else self._match_mangled(tree, keys)
        for region, name in mangled.items():
            keys[region] = (*keys[region], name) if name else keys[region]
        slots = self._slots(tree, keys)
        numbers, fresh = self._match(tree, slots, self._keep_elided if keep_elided is None else keep_elided)
        self._add_contexts(tree, numbers, fresh, mangled)
        return numbers

    def _match(self, tree: ContextTree, slots: Ints, keep_elided: bool) -> tuple[Ids, Ints]:
        """Return the number of every context, and which contexts are new, in the order of their numbers."""
        n, following = tree.n_listed, self._builder.n_contexts
        numbers = np.full(len(tree), ABSENT, np.int32)
        numbers[:n], fresh = self._known.match(tree, slots, following, may_repeat=self._merge_equal)
        if keep_elided:
            following += len(fresh)
            numbers[n:] = np.arange(following, following + len(tree) - n)
            fresh = np.append(fresh, np.arange(n, len(tree)))
        return numbers, fresh

    def _slots(self, tree: ContextTree, region_keys: list[Key]) -> Ints:
        """Return the slot of each context, key and ordinal in one number below 2^62: (ordinal << 31) + key."""
        keys = self._key_numbers(tree, region_keys)
        if self._merge_equal:
            return keys
        order = in_order(tree.parent[: len(keys)], keys)
        fresh = np.append(True, (np.diff(tree.parent[order]) != 0) | (np.diff(keys[order]) != 0))[: len(keys)]
        starts = np.flatnonzero(fresh)
        ordinal = np.empty(len(keys), np.int64)
        ordinal[order] = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
        return (ordinal << KEY_BITS) + keys

    def _key_numbers(self, tree: ContextTree, region_keys: list[Key]) -> Ints:
        """Return what identifies each context below its parent, as a number that is the same in all trees."""
        n = tree.n_listed
        if self._by_name:
            return np.array([self._number((name,)) for name in names(tree)], np.int64)
        site = [tree.call_file] * ("file" in self._kept) + [tree.call_line] * ("line" in self._kept)
        cells, code = distinct_rows(*(column[:n] for column in (tree.kind, tree.relation, tree.region, *site)))
        keys = self._keys_of(tree, list(cells), region_keys)
        numbers = np.array([self._number(key) for key in keys], np.int64)[code]
        for context in sorted(c for c in tree.parameters if c < n):
            numbers[context] = self._number((*keys[code[context]], tree.parameters[context]))
        return numbers

    def _number(self, key: Key) -> int:
        return self._keys.setdefault(key, len(self._keys))

    def _keys_of(self, tree: ContextTree, cells: list[Ints], region_keys: list[Key]) -> list[Key]:
        """Return the keys of rows of kinds, relations, regions and what counts of call sites."""
        regions: list[Key] = [*region_keys, ()]  # -1 picks the last: no region
        kinds, relations, numbers, *site = cells
        columns: list[list[object]] = [kinds.tolist(), relations.tolist(), [regions[k] for k in numbers.tolist()]]
        if "file" in self._kept:
            columns.append(_texts(site.pop(0), tree.regions.files.paths))
        if "line" in self._kept:
            columns.append(site.pop(0).tolist())
        return list(zip(*columns, strict=True))

    def _region_keys(self, tree: ContextTree) -> list[Key]:
        regions = tree.regions
        tables = {"name": regions.strings, "file": regions.files.paths, "module": regions.modules}
        columns: list[list[object]] = []
        for name in ("name", *self._kept):
            column: Ids = getattr(regions, name)
            columns.append(_texts(column, tables[name]) if name in tables else column.tolist())
        return list(zip(*columns, strict=True))

    def _match_mangled(self, tree: ContextTree, keys: list[Key]) -> dict[int, str]:
        """Return the mangled name by which each region is known: its own, or that of the region that it matches."""
        used = _present(tree.region[: tree.n_listed]).tolist()
        mangled_of = {region: tree.regions.mangled_name(region) for region in used} if tree.regions.details else {}
        if not any(mangled_of.values()) and not self._mangled:  # as nearly always
            self._unmangled.update(keys[region] for region in used)
            return {}
        alike: dict[Key, list[int]] = {}
        for region in used:
            alike.setdefault(keys[region], []).append(region)
        out: dict[int, str] = {}
        for key, regions in alike.items():
            said = list(dict.fromkeys(mangled_of.get(region, "") for region in regions))
            known = self._mangled.setdefault(key, [""] if key in self._unmangled else [])
            if len(said) == len(known) and not set(said) & set(known):
                renamed = dict(zip(said, known, strict=True))
            else:
                renamed = {name: name for name in said}
                known += [name for name in said if name not in known]
            out |= {region: renamed[mangled_of.get(region, "")] for region in regions}
        return out

    def _add_contexts(self, tree: ContextTree, numbers: Ids, fresh: Ints, mangled: dict[int, str]) -> None:
        regions, files = self._tables(tree, fresh, mangled)
        lookup = absent_stays(numbers)
        elided = tree.kind[fresh] == ContextKind.ELIDED
        columns = {
            "parent": lookup[tree.parent[fresh]],
            "kind": tree.kind[fresh],
            "relation": tree.relation[fresh],
            "region": regions[tree.region[fresh]],
            "within": lookup[tree.within[fresh]],
            "call_file": files[tree.call_file[fresh]],
            "call_line": tree.call_line[fresh],
            "source_id": np.where(elided, tree.source_id[fresh], ABSENT),
        }
        self._builder.add_contexts(**columns)
        described = sorted(tree.parameters.keys() | tree.attributes.keys())
        for context in np.intersect1d(np.array(described, np.int64), fresh).tolist():
            given = tree.parameters.get(context, ()), tree.attributes.get(context, {})
            self._builder.describe_context(int(numbers[context]), *given)

    def _tables(self, tree: ContextTree, fresh: Ints, mangled: dict[int, str]) -> tuple[Ids, Ids]:
        """Return the builder's numbers of the regions and of the files that new contexts need; absent stays absent.

        Each table is gone through in its own order, so that ids do not depend on how trees were grouped.
        """
        regions, builder = tree.regions, self._builder
        used = _present(tree.region[fresh])
        files = np.full(len(regions.files) + 1, ABSENT, np.int32)
        for file in _present(regions.file[used], tree.call_file[fresh]).tolist():
            files[file] = builder.file(regions.files.paths[file])
        for text in _present(regions.name[used], regions.role[used], regions.paradigm[used]).tolist():
            builder.string(regions.strings[text])
        modules = np.full(len(regions.modules) + 1, ABSENT, np.int32)
        for module in _present(regions.module[used]).tolist():
            modules[module] = builder.module(regions.modules[module])
        out = np.full(len(regions) + 1, ABSENT, np.int32)
        words = (_texts(column[used], regions.strings) for column in (regions.name, regions.role, regions.paradigm))
        numbers = (regions.kind[used], files[regions.file[used]], modules[regions.module[used]])
        places = (regions.line[used], regions.end_line[used], regions.offset[used])
        rows = zip(used.tolist(), *words, *(c.tolist() for c in (*numbers, *places)), strict=True)
        for region, name, role, paradigm, kind, file, module, line, end_line, offset in rows:
            out[region] = builder.region(
                ContextKind(kind),
                name,
                file=file,
                line=line,
                end_line=end_line,
                module=module,
                offset=None if offset == int(NO_OFFSET) else offset,
                role=role,
                paradigm=paradigm,
                details=_details(regions, region, mangled),
            )
        return out, files


class KnownContexts:
    """The contexts of the trees so far, found by unified parent and slot.

    Wide trees are matched level by level with sorted keys, others one context after the other with a dictionary, which
    is made once a tree needs it. Both give the same numbers.
    """

    def __init__(self) -> None:
        self._added: list[tuple[Ids, Ints, Ids]] = []  # of each tree, what was new: parent, slot and number
        self._n_known = 0
        self._by_slot: dict[int, int] = {}  # parent + 1 and slot, packed -> number
        self._n_in_dictionary = 0  # of what was added

    def match(self, tree: ContextTree, slots: Ints, following: int, may_repeat: bool) -> tuple[Ids, Ints]:
        """Return the number of each listed context, and which are new: these are numbered from `following` on, in
        order. `may_repeat` tells whether siblings can have the same slot."""
        parent = tree.parent[: tree.n_listed]
        packed = self._pack(tree, slots, following)
        if packed is None:
            numbers, fresh = self._match_one_by_one(parent, slots, following)
        elif not self._n_known and not may_repeat:
            numbers, fresh = np.arange(following, following + len(parent), dtype=np.int32), np.arange(len(parent))
        else:
            numbers, fresh = _match_levels(tree, *packed, following, may_repeat)
        if len(fresh):
            self._added.append((_numbers_above(numbers, parent[fresh]), slots[fresh], numbers[fresh]))
            self._n_known += len(fresh)
        if packed is None:
            self._n_in_dictionary = len(self._added)
        return numbers, fresh

    def _match_one_by_one(self, parent: Ids, slots: Ints, following: int) -> tuple[Ids, Ints]:
        known = self._by_slot
        for added in self._added[self._n_in_dictionary :]:
            for above, slot, number in zip(*(column.tolist() for column in added), strict=True):
                known[(above + 1) << SLOT_BITS | slot] = number
        numbers: list[int] = []
        fresh = []
        for context, (slot, above) in enumerate(zip(slots.tolist(), parent.tolist(), strict=True)):
            key = ((numbers[above] + 1 if above >= 0 else 0) << SLOT_BITS) | slot
            number = known.setdefault(key, following)
            if number == following:
                fresh.append(context)
                following += 1
            numbers.append(number)
        return np.array(numbers, np.int32), np.array(fresh, np.int64)

    def _pack(self, tree: ContextTree, slots: Ints, following: int) -> tuple[Directory, Ints, int] | None:
        """Return what is known by its keys, the slots of a tree as smaller numbers, and how many of these there can be;
        None where matching level by level is not possible, or does not pay."""
        n = tree.n_listed
        if n < FEW or self._n_known > FURTHER * n or n < WIDE * (int(tree.depth[:n].max(initial=0)) + 1):
            return None
        nothing = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int32)
        above, known_slots, numbers = (np.concatenate(part) for part in zip(nothing, *self._added, strict=True))
        every = slots, known_slots
        n_keys = 1 + max(int((part & ((1 << KEY_BITS) - 1)).max(initial=0)) for part in every)
        n_ordinals = 1 + max(int(part.max(initial=0)) >> KEY_BITS for part in every)
        n_slots = n_keys * n_ordinals
        if n_slots * (following + n + 1) >= 1 << SLOT_BITS:
            return None
        small, known_small = ((part >> KEY_BITS) * n_keys + (part & ((1 << KEY_BITS) - 1)) for part in every)
        keys = (above + np.int64(1)) * n_slots + known_small
        return Directory(keys, numbers), small, n_slots


def _match_levels(
    tree: ContextTree, known: Directory, slots: Ints, n_slots: int, following: int, may_repeat: bool
) -> tuple[Ids, Ints]:
    """Return what `KnownContexts.match` returns. New contexts have `following` and their id as their number at first,
    so that what is below them has a key."""
    n = tree.n_listed
    parent = tree.parent[:n]
    numbers = np.full(n + 1, ABSENT, np.int64)  # the last is above roots
    for level in tree.levels:
        keys = (numbers[parent[level]] + 1) * n_slots + slots[level]
        numbers[level] = known[keys]
        is_new = numbers[level] < 0
        new = level[is_new]
        if may_repeat:
            _, first, same = np.unique(keys[is_new], return_index=True, return_inverse=True)
            numbers[new] = following + new[first][same]
        else:
            numbers[new] = following + new
    numbers = numbers[:n]
    is_fresh = numbers == following + np.arange(n)
    ranks = np.append(np.arange(following), following + np.cumsum(is_fresh) - 1)
    return ranks[numbers].astype(np.int32), np.flatnonzero(is_fresh)


def _numbers_above(numbers: Ids, parent: Ids) -> Ids:
    """Return the numbers of parents, absent for those of roots."""
    return np.where(parent >= 0, numbers[parent], np.int32(ABSENT))


def _details(regions: Regions, region: int, mangled: dict[int, str]) -> dict[str, str]:
    """Return the details of a region, with the mangled name by which it is known."""
    details = dict(regions.details.get(region, {}))
    if name := mangled.get(region, details.get(MANGLED, "")):
        details[MANGLED] = name
    else:
        details.pop(MANGLED, None)
    return details


def _present(*columns: Ids) -> Ids:
    """Return the ids that occur, in order."""
    seen = np.zeros(1 + max((int(column.max(initial=ABSENT)) + 1 for column in columns), default=0), np.bool_)
    for column in columns:
        seen[column] = True  # absent ids mark the last
    return np.flatnonzero(seen[:-1]).astype(np.int32)


def names(tree: ContextTree) -> list[str]:
    """Return what the listed contexts are called where formats are compared, parameters included.

    An instruction is called by its place, whatever a file says of it; a file's own id, which others do not share, is
    no name; and the two roots that every program has are called the same.
    """
    regions, kinds = tree.region[: tree.n_listed].tolist(), tree.kind[: tree.n_listed].tolist()
    texts: list[str] = []
    for context, (region, kind, parent) in enumerate(zip(regions, kinds, tree.parent.tolist(), strict=False)):
        name = tree.label(context) if region >= 0 else f"<{ContextKind(kind).word}>"
        if kind == ContextKind.INSTRUCTION and region >= 0 and tree.regions.offset[region] != NO_OFFSET:
            module = int(tree.regions.module[region])
            name = f"{tree.regions.modules[module] if module >= 0 else ''}+{int(tree.regions.offset[region]):#x}"
        texts.append(ROOTS.get(name, name) if parent < 0 or texts[parent] == ROOT else name)
    return texts


def _texts(ids: Ids | Ints, table: tuple[str, ...]) -> list[object]:
    return [table[k] if k >= 0 else "" for k in ids.tolist()]


TORN = "runs store it in different scopes, so it is not known of all of them; choose one run"


# -- joining runs ------------------------------------------------------------------------------------------------------


def join_runs(
    parts: Sequence[tuple[Run, Experiment]], format: str, title: str, path: str, warnings: Sequence[InputWarning] = ()
) -> Experiment:
    """Return one experiment of many; each part becomes one run."""
    if not parts:
        raise UsageError(f"{path or title}: there is no run to open")
    builder = ExperimentBuilder(format, title=title)
    builder.path = path
    builder.warnings = list(warnings)
    unifier = Unifier(builder)
    metrics = _MetricRows(builder)
    names = _IdentifierNames(parts[0][1].profiles)
    maps: list[tuple[Ids, Ids, Ids]] = []
    for (run, experiment), lacking in zip(parts, _name_unmeasured([one for _, one in parts]), strict=True):
        number = builder.add_run(run.without(lacking))
        profiles = _add_profiles(builder, experiment.profiles, number, names)
        maps.append((profiles, unifier.add(experiment.contexts), metrics.add(experiment)))
        builder.warnings += [w for w in experiment.warnings if w not in builder.warnings]
    metrics.mark_conflicts()
    builder.id_names = tuple(names.known)
    builder.attributes = _common([dict(experiment.attributes) for _, experiment in parts])
    final = absent_stays(builder.order())
    links = [
        Link(experiment.values.backend, profiles, final[contexts], rows)
        for (_, experiment), (profiles, contexts, rows) in zip(parts, maps, strict=True)
    ]
    builder.set_values(ChainedValues(links))
    return builder.build()


def _name_unmeasured(parts: Sequence[Experiment]) -> list[frozenset[str]]:
    """Return for each of some experiments what others measured and it did not, or what a run of it did not."""
    measured = [{m.name for m in part.metrics if not (m.statistic or m.is_derived)} for part in parts]
    derived = [set(part.metrics.derived) for part in parts]
    every = set().union(*measured)
    return [
        frozenset((every - have - computed).union(*_lacking(part.profiles)))
        for part, have, computed in zip(parts, measured, derived, strict=True)
    ]


class _MetricRows:
    """The metric rows of all parts, each once. A formula that all parts have stays one; what one part derives and
    another measured, or derives otherwise, would be two things under one name, and is not computed."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self._builder = builder
        self._rows: dict[tuple[str, str, str], int] = {}
        self._kinds: dict[str, set[tuple[object, ...]]] = {}  # of each quantity: its formulas, () where it was measured
        self._formulas: dict[str, Metric] = {}
        self._missing: dict[str, set[bool]] = {}  # of each quantity: whether nobody measured it, in the parts
        self._scopes: dict[str, list[set[Scope]]] = {}  # of each quantity that was measured: what each part stores
        self._measured: dict[str, Metric] = {}

    def add(self, experiment: Experiment) -> Ids:
        """Add the metrics of a part, and return for each of its rows the row of the whole."""
        rows: list[int] = []
        for metric in experiment.metrics:
            key = (metric.name, metric.scope.value, metric.statistic)
            if key not in self._rows:
                self._rows[key] = self._builder.add_metric(self._without_ids(metric, rows))
            elif not metric.is_missing:
                self._builder.mark_measured(self._rows[key])
            if not metric.statistic:
                self._missing.setdefault(metric.name, set()).add(metric.is_missing)
                self._kinds.setdefault(metric.name, set()).add(formula_identity(metric))
            if metric.is_derived:
                self._formulas.setdefault(metric.name, metric)
            rows.append(self._rows[key])
        for name in experiment.metrics.quantities:
            stored = {m.scope for m in experiment.metrics if m.name == name and not (m.statistic or m.is_derived)}
            if stored:
                self._scopes.setdefault(name, []).append(stored)
                self._measured.setdefault(name, experiment.metrics.first(name))
        return np.array(rows, np.int32)

    def mark_conflicts(self) -> None:
        """Mark what parts do not agree on, and say so."""
        for name in (name for name, answers in self._missing.items() if len(answers) > 1):
            self._builder.warn(Severity.NOTE, f"metric {name}: is not measured in some runs, where it is 0")
        for name in (name for name, scopes in self._scopes.items() if _is_torn(scopes)):
            self._refuse(name, self._measured[name], TORN)
        for name, metric in self._formulas.items():
            kinds = self._kinds[name]
            if len(kinds) == 1:
                continue
            measured = "some runs derive it, others measured it"
            why = measured if () in kinds else "its formula is not the same in all runs"
            self._refuse(name, metric, why)

    def _refuse(self, name: str, metric: Metric, why: str) -> None:
        for (row_name, _, statistic), row in self._rows.items():
            if row_name == name and not statistic:
                self._builder.refuse_formula(row, metric, why)
        self._builder.warn(Severity.NOTE, f"metric {name}: {why}; it is not computed")

    def _without_ids(self, metric: Metric, rows: list[int]) -> Metric:
        parent = rows[metric.parent] if 0 <= metric.parent < len(rows) else ABSENT
        return replace(metric, parent=parent, source_id=None)


def _is_torn(stored: Sequence[set[Scope]]) -> bool:
    """Return whether the scope that views are made from is not stored by all parts: they would show some of them."""
    every = set().union(*stored)
    used = (next((s for s in SOURCES[wanted] if s in every), None) for wanted in (Scope.EXCLUSIVE, Scope.INCLUSIVE))
    return any(scope is not None and scope not in one for scope in used for one in stored)


class _IdentifierNames:
    """The kinds of identifiers of all parts."""

    def __init__(self, first: Profiles) -> None:
        self.known = list(first.identifiers.names)

    def number(self, name: str) -> int:
        if name not in self.known:
            self.known.append(name)
        return self.known.index(name)


def _add_profiles(builder: ExperimentBuilder, profiles: Profiles, run: int, names: _IdentifierNames) -> Ids:
    tuples = profiles.identifiers
    lookup = np.zeros(int(tuples.kind.max(initial=0)) + 1, np.int32)
    for kind in distinct(tuples.kind).tolist():
        lookup[kind] = names.number(tuples.name(kind))
    identifiers = replace(tuples, kind=lookup[tuples.kind])
    return np.array(builder.add_profiles(profiles.kind, identifiers, run=run, names=profiles.name), np.int32)


def _lacking(profiles: Profiles) -> list[frozenset[str]]:
    """Return what runs of profiles did not measure."""
    return [] if profiles.unmeasured is None else [one.metrics for one in profiles.unmeasured.distinct()]


def _common(attributes: list[dict[str, str]]) -> dict[str, str]:
    """Return what all parts say alike."""
    first, *others = attributes
    return {key: value for key, value in first.items() if all(one.get(key) == value for one in others)}
