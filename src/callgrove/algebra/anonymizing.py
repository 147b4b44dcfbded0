"""An experiment or a study with other names: for data that leaves the house.

Names of functions, files, modules, hosts, processes, threads, runs, markers and counters over time, command lines,
paths and texts beside spans are replaced, the same text by the same replacement. Sources, attachments, attributes and
descriptions are left out. Structure and numbers stay: the tree, lines, offsets, values, times, ids, parameters. Also
kept, as the words of tools: names and units of metrics, kinds, roles and paradigms, categories of spans that are known,
and calls of public interfaces (`KEPT_NAMES`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, overload

import numpy as np

from callgrove.arrays import Bools, Ints, Offsets
from callgrove.model.contexts import MANGLED, ContextKind, ContextTree, Regions, SourceFiles
from callgrove.model.experiment import Experiment, Sources
from callgrove.model.metrics import Metrics
from callgrove.model.profiles import Profiles
from callgrove.model.runs import NOT_MEASURED, Run
from callgrove.model.study.series import Study
from callgrove.model.system import System
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import NUMBERS, Counters, Device, SideTable, SpanChunk, Traces, Window
from callgrove.model.values import Values

__all__ = ["KEPT_NAMES", "Replacements", "anonymize_experiment", "anonymize_study", "list_left_out"]

# Calls of public interfaces, and what profilers call things that have no name.
KEPT_NAMES = (
    r"P?MPI_[A-Z][a-z0-9_]+|omp_[a-z_]+|GOMP_[a-z_]+|__kmpc_[a-z_]+|pthread_[a-z_]+|(cuda|hip|nccl|rccl)[A-Z]\w+|cu[A-Z][a-z]\w+"
    r"|hsa_[a-z_]+|roctx[A-Z]\w+|main|main thread|application thread|\[unknown\]"
    r"|<((program|thread)? ?root|no activity|no module|partial call paths|unknown( (file|module|procedure|function))?)>"
    r"|<(default|missing|unnamed|string|stdin|module|lambda|genexpr|listcomp|dictcomp|setcomp)>"
    r"|<gpu (copy|copyin|copyout|alloc|delete|memset|kernel|sync|trace)>"
    r"|<omp (region unresolved|tgt (kernel|copyin|copyout|alloc|delete)|(impl|expl) task)>"
    r"|<omp ((mutex|task|barrier) wait|work|overhead|idle)>"
)
CATEGORIES = re.compile(
    r"kernel|kernel_dispatch|copy|memcpy|gpu_memcpy|memory_copy|memset|gpu_memset|alloc|memory_allocat(ion|e)|scratch_memory"
    r"|sync|cuda_sync|overhead|region|marker|nvtx|roctx|(gpu_)?user_annotation|api|cpu_op|ac2g|cuda_(runtime|driver)"
    r"|python_function|hip_(runtime|compiler)_api(_ext)?|hsa_(core|amd_ext|image_ext|finalize_ext)_api|message|openmp"
    r"|marker_(core|core_range|control|name)_api|(rccl|rocdecode|rocjpeg)_api|ompt|mpi|pthread"
)
NUMBER = re.compile(r"[-+]?(0x[0-9a-fA-F]+|\d+(\.\d+)?([eE][-+]?\d+)?)|true|false|null|\(nil\)|nullptr|\{\}|\[\]")
SUFFIX = re.compile(r"\.(c|cc|cpp|cxx|h|hpp|cu|hip|f|f90|F|F90|py|jl|rs|s|S|so)")
# What Score-P, OTF2 and Cube say of regions. Files can say anything there.
ROLE = re.compile(
    r"unknown|artificial|function|wrapper|loop|user|code|region|(implicit[ _])?barrier|atomic|critical([ _]sblock)?"
    r"|flush|master|ordered([ _]sblock)?|parallel|sections?|single([ _]sblock)?|task([ _]?(create|wait|untied))?"
    r"|workshare|(coll[ _])?(one2all|all2one|all2all|other)|other[ _]collective|(non[ _]blocking[ _])?point2point|rma"
    r"|dynamic([ _](function|loop|phase|loop phase))?"
    r"|file[ _]io([ _]metadata)?|data[ _]transfer|(thread|library)[ _](create|wait|init|finalize)"
    r"|(de|re)?allocate|kernel([ _]launch)?"
    r"|phase|annotation|inlined|jit|compiler|mpi|openmp|shmem|pthread|cuda|hip|opencl|openacc|openmp target|omp|kokkos"
    r"|measurement|sampling|memory|io|libwrap|posix|user[ _]program|hardware|none|topology|metric|python|other"
)
KIND_OF_PLACE = re.compile("machine|node|process|thread|location|device|gpu|stream|queue|rank|core|socket|numa")
PLACES, PROCESSES, AGENTS = "places", "processes", "agents"
# Columns of side tables and tables whose texts are words of tools.
WORDS_OF_TOOLS = frozenset(("type", "value_type", "level", "operation", "direction", "kind"))
NODE = "NODE"


class Replacements:
    """What each text is replaced by, kind by kind. `known` holds all of it, also what a user said before."""

    def __init__(self, known: Mapping[str, Mapping[str, str]] | None = None, keep: str = KEPT_NAMES) -> None:
        self.known = {kind: dict(texts) for kind, texts in (known or {}).items()}
        self._keep = re.compile(keep) if keep else None
        self._used = {text for texts in self.known.values() for text in texts.values()}
        self._counts: Counter[str] = Counter()

    def text(self, kind: str, text: str) -> str:
        """Return what stands for a text; the text itself where it is empty, a number or kept."""
        told = self.known.get(kind, {}).get(text)
        if told is not None:
            return told
        if not text or NUMBER.fullmatch(text) or (self._keep is not None and self._keep.fullmatch(text)):
            return text
        return self._invent(kind, text)

    def category_or_name(self, text: str) -> str:
        """Return what stands for a name of a span, or for its category, which is kept where it is a known one."""
        return text if CATEGORIES.fullmatch(text.lower()) else self.text("span", text)

    def _invent(self, kind: str, text: str) -> str:
        ending = PurePosixPath(text).suffix if kind in ("file", "module") else ""
        while True:
            self._counts[kind] += 1
            invented = f"{kind}_{self._counts[kind]}{ending if SUFFIX.fullmatch(ending) else ''}"
            if invented not in self._used:
                break
        self._used.add(invented)
        self.known.setdefault(kind, {})[text] = invented
        return invented

    def cell(self, cell: object) -> object:
        """Return what stands for a cell of a table: texts are replaced, those of lists as names of functions, since
        the frames of stacks are such; numbers stay."""
        if isinstance(cell, list | tuple):
            return [self.text("function", one) if isinstance(one, str) else self.cell(one) for one in cell]
        return self.text("text", cell) if isinstance(cell, str) else cell


def anonymize_experiment(experiment: Experiment, names: Replacements) -> Experiment:
    """Return the experiment with other names, over the same values and events."""
    runs = tuple(_rename_run(run, names) for run in experiment.runs)
    tree, profiles = _rename_contexts(experiment.contexts, names), _rename_profiles(experiment.profiles, names)
    profiles = profiles.of_runs(runs)
    metrics = _describe_nothing(experiment.metrics)
    return replace(
        experiment,
        title="anonymous",
        runs=runs,
        profiles=profiles,
        system=_rename_system(experiment.system, names),
        contexts=tree,
        metrics=metrics,
        values=Values(experiment.values.backend, metrics, profiles, tree),
        traces=_rename_traces(experiment.traces, names),
        sources=Sources(),
        attributes={},
        attachments={},
        warnings=(),
        path="",
        whole=None,
    )


def list_left_out(opened: Experiment | Study) -> Iterator[str]:
    """Yield what an anonymous result does not have."""
    if opened.attributes:
        yield f"attributes: {len(opened.attributes)}"
    if isinstance(opened, Study):
        if opened.callpath_tags or opened.metric_tags:
            yield "tags of call paths and metrics"
        return
    if opened.attachments:
        yield f"attachments: {len(opened.attachments)}"
    if len(opened.sources):
        yield f"copies of source files: {len(opened.sources)}"
    if opened.system.attributes or any(opened.profiles.attributes) or opened.contexts.attributes:
        yield "attributes of places, profiles and contexts"
    if gone := sorted(set(opened.traces.tables) - {PLACES, PROCESSES, AGENTS}):
        yield f"tables beside spans: {', '.join(gone)}"


# -- contexts, profiles, places ----------------------------------------------------------------------------------------


def _rename_contexts(tree: ContextTree, names: Replacements) -> ContextTree:
    parameters = {
        context: tuple((names.text("parameter", name), _text_or_number(value, names)) for name, value in pairs)
        for context, pairs in tree.parameters.items()
    }
    return replace(tree, regions=_rename_regions(tree.regions, names), parameters=parameters, attributes={})


def _text_or_number(value: str | float, names: Replacements) -> str | float:
    return names.text("text", value) if isinstance(value, str) else value


def _rename_regions(regions: Regions, names: Replacements) -> Regions:
    """Return regions with other names. Roles and paradigms share the table of texts with names; known ones stay."""
    told = set(np.concatenate([regions.role, regions.paradigm]).tolist())
    words = {number for number in told if number >= 0 and ROLE.fullmatch(regions.strings[number].lower())}
    kind_of_name = dict(zip(regions.name[::-1].tolist(), regions.kind[::-1].tolist(), strict=True))
    strings = tuple(
        text if number in words else names.text(ContextKind(kind_of_name.get(number, ContextKind.REGION)).word, text)
        for number, text in enumerate(regions.strings)
    )
    details = {
        region: {MANGLED: names.text("symbol", told[MANGLED])}
        for region, told in regions.details.items()
        if told.get(MANGLED)
    }
    files = SourceFiles(tuple(names.text("file", path) for path in regions.files.paths))
    modules = tuple(names.text("module", path) for path in regions.modules)
    return replace(regions, strings=strings, files=files, modules=modules, details=details)


def _rename_profiles(profiles: Profiles, names: Replacements) -> Profiles:
    tuples = profiles.identifiers
    nodes = [kind for kind, name in enumerate(tuples.names) if name == NODE]
    physical = _renumber(tuples.physical, np.isin(tuples.kind, nodes))
    return replace(
        profiles,
        name=tuple(names.text("profile", name) for name in profiles.name),
        identifiers=replace(tuples, physical=physical),
        attributes=(),
    )


def _renumber(numbers: Offsets, chosen: Bools) -> Offsets:
    """Return numbers with those that name hosts, as HPCToolkit's are made of addresses, counted from 0."""
    out = numbers.copy()
    out[chosen] = np.unique(numbers[chosen], return_inverse=True)[1].astype(numbers.dtype)
    return out


def _rename_system(system: System, names: Replacements) -> System:
    kinds = tuple(kind if KIND_OF_PLACE.fullmatch(kind.lower()) else names.text("place", kind) for kind in system.kind)
    topologies = tuple(
        replace(
            one,
            name=names.text("topology", one.name),
            dimension_names=tuple(names.text("dimension", name) for name in one.dimension_names),
        )
        for one in system.topologies
    )
    called = tuple(names.text("place", name) for name in system.name)
    return replace(system, kind=kinds, name=called, attributes={}, topologies=topologies)


def _rename_run(run: Run, names: Replacements) -> Run:
    kept = {key: text for key, text in run.attributes.items() if key == NOT_MEASURED}
    return replace(run, name=names.text("run", run.name), source="", attributes=kept)


def _describe_nothing(metrics: Metrics) -> Metrics:
    rows = tuple(replace(row, description="", url="", attributes=()) for row in metrics.rows)
    return Metrics(rows, tuple(replace(column, description="") for column in metrics.columns))


# -- traces ------------------------------------------------------------------------------------------------------------


class _RenamedTexts(Sequence[str]):
    """Texts that are replaced when they are asked for: readers add to theirs while they read."""

    def __init__(self, texts: Sequence[str], rename: Callable[[str], str]) -> None:
        self._texts, self._rename = texts, rename

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self._rename(text) for text in self._texts[at]]
        return self._rename(self._texts[at])


class _RenamedSpans:
    """Spans with other names; what is beside them has other texts."""

    def __init__(self, traces: Traces, names: Replacements) -> None:
        assert traces.spans_backend is not None
        self._traces, self._backend, self._names = traces, traces.spans_backend, names

    @property
    def strings(self) -> Sequence[str]:
        return _RenamedTexts(self._backend.strings, self._names.category_or_name)

    @property
    def warnings(self) -> Sequence[Any]:
        return getattr(self._backend, "warnings", ())

    def count(self) -> int:
        return self._backend.count()

    def chunks(self, columns: Sequence[str], window: Window | None, profiles: Ints | None) -> Iterator[SpanChunk]:
        return self._backend.chunks(columns, window, profiles)

    def parts(self) -> Sequence[Ints]:
        return self._backend.parts()

    def has_side(self, name: str, part: int) -> bool:
        return self._traces.has_side(name, part)

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        table = self._backend.side(name, part)
        return None if table is None else self._rename(name, table)

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        for table in self._traces.side_chunks(name, part):
            yield self._rename(name, table)

    def devices(self, part: int) -> Sequence[Device]:
        return [
            replace(
                device,
                name=self._names.text("device", device.name),
                attributes={key: device.attributes[key] for key in NUMBERS.values() if key in device.attributes},
            )
            for device in self._traces.devices(part)
        ]

    def release(self) -> None:
        self._traces.release()

    def _rename(self, name: str, table: SideTable) -> SideTable:
        return SideTable(
            table.span, {column: self._cells(name, column, cells) for column, cells in table.columns.items()}
        )

    def _cells(self, name: str, column: str, cells: Any) -> Any:
        is_number = isinstance(cells, np.ndarray) and cells.dtype != np.object_
        if is_number or column in WORDS_OF_TOOLS or (name, column) == ("counter", "name"):
            return cells
        if column == "extdata":
            renamed: list[object] = ["{}"] * len(cells)
        else:
            renamed = [self._names.cell(cell) for cell in cells]
        if isinstance(cells, tuple):
            return tuple(renamed)
        out = np.empty(len(renamed), object)
        out[:] = renamed
        return out


def _rename_traces(traces: Traces, names: Replacements) -> Traces:
    def counters() -> Counters | None:
        told = traces.counters
        return told and replace(told, names=tuple(names.text("counter", name) for name in told.names))

    kept = {PLACES: "", PROCESSES: "process", AGENTS: "device"}
    return replace(
        traces,
        spans_backend=None if traces.spans_backend is None else _RenamedSpans(traces, names),
        counters_source=None if traces.counters_source is None else counters,
        split=None,
        tables={
            name: partial(_read_renamed, read, kept[name], names)
            for name, read in traces.tables.items()
            if name in kept
        },
    )


def _read_renamed(read: Callable[[], Table], kind: str, names: Replacements) -> Table:
    table = read()
    return replace(table, columns=tuple(_rename_column(column, kind, names) for column in table.columns))


def _rename_column(column: Column, kind: str, names: Replacements) -> Column:
    if column.name in WORDS_OF_TOOLS or not kind:
        return column
    cells = [names.text(kind, cell) if isinstance(cell, str) else cell for cell in column.plain()]
    return Column(column.name, cells) if any(isinstance(cell, str) for cell in cells) else column


# -- studies -----------------------------------------------------------------------------------------------------------

ARROW = "->"


def anonymize_study(study: Study, names: Replacements) -> Study:
    """Return the study with other names on its call paths, over the same numbers and models."""

    def rename(path: str) -> str:
        return ARROW.join(names.text("function", step) for step in path.split(ARROW))

    return replace(
        study,
        callpaths=tuple(rename(path) for path in study.callpaths),
        models=tuple(
            replace(model, callpath=rename(model.callpath), name=names.text("models", model.name))
            for model in study.models
        ),
        modelers={names.text("models", name): options for name, options in study.modelers.items()},
        callpath_tags={},
        metric_tags={},
        title="anonymous",
        attributes={},
        warnings=(),
        path="",
        unexplained=(),
    )
