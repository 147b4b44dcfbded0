"""The only way to make an experiment: it interns, orders, validates, and takes lazy backends.

Regions and contexts are added as `ContextBuilder` says. Values added in memory use the numbers given by `add_*` and
are mapped by `build()`; lazy backends and traces use the final ids that `order()` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from callgrove.arrays import ABSENT, Ids, freeze
from callgrove.errors import InvalidExperiment
from callgrove.model.context_builder import ContextBuilder
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Attachment, Experiment, InputWarning, Severity, Sources, problems_of_experiment
from callgrove.model.metrics import Column, Metric, Metrics
from callgrove.model.profiles import (
    DEFAULT_ID_NAMES,
    Identifier,
    IdentifierTuples,
    ProfileKind,
    Profiles,
    System,
    absent_system,
    system_of,
)
from callgrove.model.runs import Run
from callgrove.model.table import Table
from callgrove.model.traces.events import Counters, SampleBackend, SpanBackend, Split, Traces, Window
from callgrove.model.values import NoValues, SparseBlock, ValueBackend, Values

__all__ = ["ExperimentBuilder"]


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
        self._profile_rows: list[tuple[int, int, str, int]] = []
        self._tuples: list[list[Identifier]] = []
        self._profile_attributes: list[tuple[tuple[str, str], ...]] = []
        self._identifiers: IdentifierTuples | None = None
        self.id_names: tuple[str, ...] = DEFAULT_ID_NAMES
        self._system: tuple[System, Ids] | None = None
        self._metrics: list[Metric] = []
        self._columns: list[Column] = []
        self._values: ValueBackend | None = None
        self._blocks: list[SparseBlock] = []
        self._traces = Traces()

    # -- tables ------------------------------------------------------------------------------------------------

    def add_run(self, run: Run) -> int:
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
        self._profile_rows.append((run, int(kind), name, source_id))
        self._tuples.append(list(identifiers))
        self._profile_attributes.append(tuple(attributes))
        return len(self._tuples) - 1

    def set_identifiers(self, identifiers: IdentifierTuples) -> None:
        """Identifier tuples as arrays, for the profiles that were added without any."""
        self._identifiers = identifiers

    def set_system(self, system: System, leaves: Ids) -> None:
        """A system tree and the leaf of every profile; without it, the identifier tuples make one."""
        self._system = (system, leaves)

    def add_metric(self, metric: Metric) -> int:
        self._metrics.append(metric)
        return len(self._metrics) - 1

    def name_formula(self, row: int, formula: str) -> None:
        """Make a metric a derived one, unless it has a formula already."""
        if not self._metrics[row].formula:
            self._metrics[row] = replace(self._metrics[row], formula=formula)

    def name_summaries(self, rows: Mapping[int, int]) -> None:
        """From the ids that stored summaries and formulas use to metric rows; the first id of a row is kept."""
        for id_, row in rows.items():
            if self._metrics[row].summary_id is None:
                self._metrics[row] = replace(self._metrics[row], summary_id=id_)

    def show_only(self, names: Container[str]) -> None:
        """Make every quantity invisible that is not one of these, unless that would leave none."""
        if any(metric.name in names for metric in self._metrics):
            self._metrics = [replace(m, visible=m.visible and m.name in names) for m in self._metrics]

    def add_column(self, column: Column) -> None:
        self._columns.append(column)

    def warn(self, severity: Severity, text: str) -> None:
        self.warnings.append(InputWarning(severity, text))

    # -- values and traces -------------------------------------------------------------------------------------

    def add_values(self, profile: ArrayLike, context: ArrayLike, metric: ArrayLike, value: ArrayLike) -> None:
        """Values in memory, in the numbers that `add_*` gave."""
        numbers = np.atleast_1d(np.asarray(value))
        p, c, m = (np.broadcast_to(np.asarray(a, np.int32), len(numbers)) for a in (profile, context, metric))
        self._blocks.append(SparseBlock(p, c, m, numbers))

    def set_values(self, backend: ValueBackend) -> None:
        """Values read when asked for; their ids are final (see `order`)."""
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
        """Traces; their context ids are final (see `order`)."""
        self._traces = Traces(samples, spans, counters, time_range, split, tables or {}, part_sizes)

    # -- making it ---------------------------------------------------------------------------------------------

    def validate(self) -> list[str]:
        """Return every broken invariant, in words; empty when the experiment is sound."""
        return self._check()[0]

    def build(self) -> Experiment:
        """Return the experiment, or InvalidExperiment with every broken invariant."""
        problems, experiment, blocks = self._check()
        if problems or experiment is None:
            raise InvalidExperiment(problems)
        backend = self._values or self._keep_in_memory(experiment, blocks)
        return replace(experiment, values=replace(experiment.values, backend=backend))

    def _keep_in_memory(self, experiment: Experiment, blocks: list[SparseBlock]) -> ValueBackend:
        from callgrove.model.chained_values import in_memory  # not where values stay in their file

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
        profiles, system = self._profiles()
        return Experiment(
            title=self.title,
            format=self.format,
            version=self.version,
            runs=tuple(self._runs) or (Run(self.title, source=self.path),),
            profiles=profiles,
            system=system,
            contexts=contexts,
            metrics=metrics,
            values=Values(NoValues(), metrics, profiles, len(contexts)),
            traces=self._traces,
            sources=replace(self.sources, copies=dict(self._copied)),
            attributes=dict(self.attributes),
            attachments=dict(self.attachments),
            warnings=tuple(self.warnings),
            path=self.path,
        )

    def _profiles(self) -> tuple[Profiles, System]:
        runs, kinds, names, ids = zip(*self._profile_rows, strict=True) if self._profile_rows else ((), (), (), ())
        identifiers = self._identifiers or IdentifierTuples.of(self._tuples, self.id_names)
        profiles = Profiles(
            freeze(np.array(runs, np.int32)),
            freeze(np.array(kinds, np.int32)),
            tuple(names),
            absent_system(len(names)),
            freeze(np.array(ids, np.int64)),
            identifiers,
            tuple(self._profile_attributes) if any(self._profile_attributes) else (),
        )
        if len(identifiers) != len(profiles):
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
