"""A survey as an experiment: contexts, metrics, profiles, and values and samples that are read when asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

import numpy as np

from callgrove.arrays import ABSENT, Ids, Ints
from callgrove.errors import CallgroveError, Parameter, compose_text
from callgrove.execute import Progress, silent
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity, Sources
from callgrove.model.metrics import Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind
from callgrove.model.traces.events import Samples, Window
from callgrove.model.values import Block, SparseBlock
from callgrove.prof.binaries import NameCache, is_binary
from callgrove.prof.contexts import Contexts, ScopeTable, contexts_of
from callgrove.prof.gpu_samples import with_paths
from callgrove.prof.metrics import Quantities, add_rows, quantities_of
from callgrove.prof.nodes import Flavour, RawTree
from callgrove.prof.resolution import Resolver, Structures, resolve, structure_files
from callgrove.prof.samples import pack_samples
from callgrove.prof.second_pass import (
    MetricPlan,
    Plan,
    block_of,
    nodes_of_files,
    plain_layout,
    plain_samples,
    points_of,
)
from callgrove.prof.survey import Inputs, Survey, SurveyedFile, bound_ranges

__all__ = ["Attribution", "Prepared", "add_profiles", "prepare_experiment", "with_logical_numbers"]


# -- files as profiles -------------------------------------------------------------------------------------------------


GPU_KINDS = ("GPUCONTEXT", "GPUSTREAM")
MOST_KINDS = 256
Tuple = tuple[Identifier, ...]


def add_profiles(builder: ExperimentBuilder, files: Sequence[SurveyedFile]) -> None:
    """Add one profile for each file, in their order."""
    builder.id_names = _id_names(files)
    tuples = with_logical_numbers([file.identifiers for file in files])
    for number, identifiers in enumerate(tuples, 1):
        words = {builder.id_names[kind] for kind, _, _, _ in identifiers if kind < len(builder.id_names)}
        kind = ProfileKind.GPU_STREAM if words & set(GPU_KINDS) else ProfileKind.THREAD
        kind = ProfileKind.AGGREGATE if "SUMMARY" in words else kind
        builder.add_profile(kind, identifiers, source_id=number)


def with_logical_numbers(tuples: Sequence[Tuple]) -> list[Tuple]:
    """Return tuples in which numbers that are only known physically have a logical one: their order number below what
    comes before them in the tuple, or among all of their kind."""
    local: dict[tuple[object, int], set[int]] = {}
    overall: dict[int, set[int]] = {}
    for one in tuples:
        for position, (kind, physical, _, how) in enumerate(one):
            if how == Interpretation.LOGICAL_LOCAL:
                local.setdefault((_before(one, position), kind), set()).add(physical)
            elif how == Interpretation.LOGICAL_GLOBAL:
                overall.setdefault(kind, set()).add(physical)
    ranks = {key: _ranks(numbers) for key, numbers in local.items()}
    ranks_overall = {kind: _ranks(numbers) for kind, numbers in overall.items()}
    out: list[Tuple] = []
    for one in tuples:
        made: list[Identifier] = []
        for position, (kind, physical, logical, how) in enumerate(one):
            if how == Interpretation.LOGICAL_LOCAL:
                logical, how = ranks[_before(one, position), kind][physical], Interpretation.BOTH
            elif how == Interpretation.LOGICAL_GLOBAL:
                logical, how = ranks_overall[kind][physical], Interpretation.BOTH
            made.append((kind, physical, logical, int(how)))
        out.append(tuple(made))
    return out


def _before(one: Tuple, position: int) -> tuple[tuple[int, int], ...]:
    return tuple((kind, physical) for kind, physical, _, _ in one[:position])


def _ranks(numbers: set[int]) -> dict[int, int]:
    return {physical: rank for rank, physical in enumerate(sorted(numbers))}


def _id_names(files: Sequence[SurveyedFile]) -> tuple[str, ...]:
    """Return the names of identifier kinds, from all dictionaries; what is said first stays."""
    named: dict[int, str] = {}
    for kinds in dict.fromkeys(file.id_kinds for file in files):
        for kind, name in kinds:
            if kind < MOST_KINDS:
                named.setdefault(kind, readable(name))
    return tuple(named.get(kind, "") for kind in range(max(named) + 1)) if named else DEFAULT_ID_NAMES


# -- the experiment ----------------------------------------------------------------------------------------------------


MOST_NAMED = 4  # binaries in a message


@dataclass(frozen=True)
class Attribution:
    """What names come from, and what is shown. `cache` is the folder of names that were looked up before; `source_dirs`
    are folders from which source files may be copied, besides those of the measurement and of its program."""

    structure_files: tuple[Path, ...] = ()
    uses_structures: bool = True
    copies_sources: bool = True
    title: str = ""
    views: tuple[str, ...] = ("sum",)
    cache: Path | None = None
    source_dirs: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """An experiment, and what a second pass over its files needs."""

    experiment: Experiment
    plan: Plan
    files: tuple[SurveyedFile, ...]


def prepare_experiment(
    survey: Survey, inputs: Inputs, attribution: Attribution, flavour: Flavour, progress: Progress = silent
) -> Prepared:
    """Return the experiment of a survey that found files."""
    return _Preparation(survey, inputs, attribution, flavour).prepare(progress)


def _put_in_order(files: Sequence[SurveyedFile]) -> list[SurveyedFile]:
    """Return files by their tuples; their names matter only where two have the same."""
    by_tuple = sorted(files, key=lambda file: file.identifiers)
    tie = any(one.identifiers == other.identifiers for one, other in pairwise(by_tuple))
    return sorted(files, key=lambda file: file.order) if tie else by_tuple


class _Preparation:
    def __init__(self, survey: Survey, inputs: Inputs, attribution: Attribution, flavour: Flavour) -> None:
        assert survey.tree is not None
        self.survey, self.inputs, self.attribution, self.flavour = survey, inputs, attribution, flavour
        self.tree: RawTree = survey.tree
        self.files = tuple(_put_in_order(survey.files))
        version = ", ".join(sorted({file.version for file in self.files}))
        title = attribution.title or self.files[0].program or inputs.folders[0].name
        self.builder = ExperimentBuilder("hpcrun", version, title, str(inputs.paths[0]))

    def prepare(self, progress: Progress) -> Prepared:
        self._say_what_is_missing()
        structures = self._structures()
        described = {path: structure for path in self.tree.modules if (structure := structures[path]) is not None}
        by_number = {n: described[path] for n, path in enumerate(self.tree.modules) if path in described}
        tree, paths = with_paths(self.tree, by_number)
        scopes = ScopeTable(self.builder)
        cache = NameCache(self.attribution.cache) if self.attribution.cache is not None else None
        resolver = Resolver(scopes, described, self.inputs.locate, cache)
        contexts = contexts_of(tree, *resolve(tree, resolver, progress))
        quantities = quantities_of((file.path, file.metrics) for file in self.files)
        rows = add_rows(self.builder, quantities, self.attribution.views)
        self._note(structures.damage, Severity.DAMAGE)
        self._note([*structures.notes, *resolver.notes, *quantities.notes, *(cache.notes if cache else ())])
        self._say_what_has_no_names(resolver)
        final, sampled = self._add_contexts(contexts, scopes)
        self._add_sources()
        self._say_what_concerns_nothing()
        add_profiles(self.builder, self.files)
        plan = Plan(
            flavour=self.flavour,
            modules=tree.modules,
            metrics=_metric_plan(quantities, rows),
            templates=paths.templates(contexts),
            place=tree.place,
            offset=tree.offset,
            parent=tree.parent,
            region=tree.region,
            first=contexts.first,
            full=contexts.full,
            above=contexts.parent,
            depth=contexts.depth,
            lexical=contexts.relation == Relation.LEXICAL,
            final=final,
            sampled=sampled,
            layout=plain_layout(len(contexts)),
        )
        self.builder.set_values(ProfValues(plan, self.files))
        self._add_traces(plan)
        return Prepared(self.builder.build(), plan, self.files)

    def _note(self, texts: Sequence[str], severity: Severity = Severity.NOTE) -> None:
        for text in texts:
            self.builder.warn(severity, text)

    def _say_what_is_missing(self) -> None:
        self._note([text for _, text in self.survey.skipped], Severity.DAMAGE)
        self._note(self.survey.notes, Severity.DAMAGE)
        if others := self.survey.others:
            there = ", ".join(sorted(set(others)))
            self._note([f"measurements of other programs are left out: {len(others)}, of {there}"])
        programs = list(dict.fromkeys(file.program for file in self.files if file.program))
        if len(programs) > 1:
            self._note([f"measurements of {len(programs)} programs are put together: {', '.join(programs)}"])

    def _say_what_has_no_names(self, resolver: Resolver) -> None:
        """Say of which binaries addresses could have had names."""
        if resolver.absent:
            text = f"binaries that are not here, or cannot be read: {_first(resolver.absent)}"
            hint = compose_text("(", Parameter("rules", "FROM=TO"), " says where they lie now)")
            if self.inputs.is_foreign:
                text = f"binaries that no structure file describes: {_first(resolver.absent)}"
                hint = compose_text("(", Parameter("is_foreign", True), " opens none of them)")
            self._note([compose_text(f"{text}; their addresses have no names ", hint)], Severity.MISSING)
        if resolver.mute:
            text = f"binaries without a name for any address (stripped, or of another build): {_first(resolver.mute)}"
            self._note([text], Severity.MISSING)

    def _say_what_concerns_nothing(self) -> None:
        paths = (*self.tree.modules, *self.builder.files)
        for rule in self.inputs.find_unused_rules(paths):
            nothing = ": no binary and no source file has a path that begins like this"
            self._note([compose_text(Parameter("rules", rule.text), nothing)])

    def _structures(self) -> Structures:
        used = {self.tree.modules[place // 2 - 1] for place in np.unique(self.tree.place).tolist() if place}
        names = {path: self.inputs.candidates(path) for path in sorted(used)}
        uses = self.attribution.uses_structures
        files = structure_files(self.inputs.folders) if uses else []
        if uses and not files and not self.attribution.structure_files:
            instead = "and other files are not opened" if self.inputs.is_foreign else "names come from binaries"
            text = f"there are no structure files (structs/): loops are not known, {instead}"
            self._note([f"{self.inputs.folders[0]}: {text}"], Severity.MISSING)
        return Structures(files, self.attribution.structure_files, names)

    def _add_contexts(self, contexts: Contexts, scopes: ScopeTable) -> tuple[Ids, Ids]:
        """Add the contexts to the model; return their ids, and those that samples have."""
        elided = contexts.is_elided(scopes.kind)
        region = scopes.region[contexts.scope]
        kind = np.where(contexts.relation == Relation.INLINED, ContextKind.INLINED, scopes.kind[contexts.scope])
        kind = np.where(elided, ContextKind.ELIDED, kind)
        listed_parent = np.where(elided[contexts.parent], contexts.parent[contexts.parent], contexts.parent)
        self.builder.add_contexts(
            parent=np.where(elided[1:], ABSENT, listed_parent[1:] - 1),
            kind=kind[1:],
            relation=contexts.relation[1:],
            region=np.where(elided[1:], ABSENT, region[1:]),
        )
        final = np.append(np.int32(ABSENT), self.builder.order())
        return final, final[np.where(elided, contexts.parent, np.arange(len(contexts)))]

    # A measurement or a structure file from elsewhere may name any file of this machine as a source. What the user did
    # not mean to give away is not copied.

    def _add_sources(self) -> None:
        """Add source files that are here to the experiment."""
        if not self.attribution.copies_sources:
            return
        named, of_program = self._list_named_folders(), self._program_folders()
        copies, elsewhere = {}, []
        for path in list(self.builder.files):
            where = self.inputs.locate(path) if path.startswith("/") else None
            real = None if where is None else Path(os.path.realpath(where))
            if where is None or real is None:
                continue
            if not _is_below(real, named) and not _is_plainly_below(real, of_program):
                elsewhere.append(str(where))
            elif not os.access(where, os.R_OK):
                self._note([f"{where}: cannot be read; the source file is not copied"])
            else:
                copies[path] = str(PurePosixPath(real).relative_to("/"))
        for path, place in copies.items():
            self.builder.file(path, place)
        self.builder.sources = Sources(Path("/"))
        self._say_what_lies_elsewhere(elsewhere)

    def _list_named_folders(self) -> list[Path]:
        """Return the folders that the user named: the measurements, where paths are looked for, those of sources."""
        rules = [Path(rule.to) for rule in self.inputs.rules if rule.to]
        return [Path(os.path.realpath(f)) for f in (*self.inputs.folders, *rules, *self.attribution.source_dirs)]

    def _program_folders(self) -> list[Path]:
        """Return the folders that measured programs lie in; none that also holds the user's home or is hidden.

        The measurement says which file its program is: only what is one counts, not `~/.ssh/config` or `/etc/hosts`.
        """
        programs = {file.program_path for file in self.files if file.program_path.startswith("/")}
        places = [where for path in sorted(programs) if (where := self.inputs.locate(path)) is not None]
        folders = {Path(os.path.realpath(where)).parent for where in places if is_binary(where)}
        home = Path(os.path.realpath(Path("~").expanduser()))
        return sorted(
            folder
            for folder in folders
            if not home.is_relative_to(folder) and folder != Path("/") and not _has_hidden_part(folder)
        )

    def _say_what_lies_elsewhere(self, paths: Sequence[str]) -> None:
        if paths:
            lie = "files lie" if len(paths) > 1 else "file lies"
            text = f"{len(paths):,} source {lie} neither with the measurements nor with the program: {_first(paths)}"
            folder = Parameter("source_dirs", str(Path(paths[0]).parent))
            self._note([compose_text(f"{text}; not copied (", folder, " copies what is in a folder)")])

    def _add_traces(self, plan: Plan) -> None:
        rows = [(p, file) for p, file in enumerate(self.files) if file.trace is not None and file.trace.n_samples]
        if rows:
            ranges = [file.trace.time_range for _, file in rows if file.trace is not None and file.trace.time_range]
            low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
            self.builder.set_traces(ProfSamples(plan, rows), time_range=(low, high))


def _is_below(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _is_plainly_below(path: Path, folders: Sequence[Path]) -> bool:
    """Return whether a path lies in one of the folders, and nothing between them is hidden (.git, .env)."""
    rests = [path.relative_to(folder) for folder in folders if path.is_relative_to(folder)]
    return any(not _has_hidden_part(rest) for rest in rests)


def _has_hidden_part(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _first(paths: Sequence[str]) -> str:
    """Return some of them, and how many there are."""
    n_more = len(paths) - MOST_NAMED
    return ", ".join(map(readable, paths[:MOST_NAMED])) + (f" and {n_more} more" if n_more > 0 else "")


def _metric_plan(quantities: Quantities, rows: dict[Scope, Ids]) -> MetricPlan:
    is_derived = np.array([quantity.is_derived for quantity in quantities.all], np.bool_)
    names = (quantities.find(name) for name in ("GINS", "GKER:COUNT", "GKER:SAMPLED_COUNT"))
    return MetricPlan(quantities.of_table, rows, is_derived, *names)


class ProfValues:
    """Values of all profiles, computed from their files when asked for, a batch of files at a time."""

    def __init__(self, plan: Plan, files: Sequence[SurveyedFile]) -> None:
        self._plan, self._files = plan, files
        self.problems: list[CallgroveError] = []

    def n_stored(self) -> int | None:
        return None

    def summarises(self, metric: int) -> bool:
        return False

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        return self._of(np.array([profile])).of_metrics(metrics)

    def context(self, context: int) -> SparseBlock:
        blocks = [block.triples() for block in self.blocks()]
        return SparseBlock.concatenate([block.take(block.context == context) for block in blocks])

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        chosen = np.arange(len(self._files)) if profiles is None else profiles
        for first, last in bound_ranges([self._files[p].n_values * 16 for p in chosen.tolist()]):
            block = self._of(chosen[first:last]).of_metrics(metrics)
            if len(block):
                yield block

    def _of(self, profiles: Ints) -> SparseBlock:
        chosen = [self._files[p] for p in profiles.tolist()]
        files = nodes_of_files(self._plan, [file.tables or file.path for file in chosen])
        return block_of(self._plan, points_of(self._plan, files)[0], profiles)


class ProfSamples:
    """Sample lines, computed from their files when asked for. `count` is that of the records in the file: idle samples
    in a row become one."""

    def __init__(self, plan: Plan, rows: Sequence[tuple[int, SurveyedFile]]) -> None:
        self._plan, self._files = plan, [file for _, file in rows]
        self.profile = np.array([profile for profile, _ in rows], np.int32)
        self.metric = np.full(len(rows), ABSENT, np.int32)
        self.count = np.array([file.trace.n_samples if file.trace else 0 for _, file in rows], np.int64)
        self.problems: list[CallgroveError] = []

    def line(self, line: int, window: Window | None = None) -> Samples:
        chosen = self._files[line]
        [file] = nodes_of_files(self._plan, [chosen.tables or chosen.path])
        [(packed, _)] = pack_samples(self._plan, [(int(self.profile[line]), file, int(self.count[line]))])
        assert isinstance(packed.records, np.ndarray)
        return plain_samples(packed.records).within(window)
