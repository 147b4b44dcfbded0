"""An experiment: one or more runs and everything measured in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from callgrove.errors import CallgroveError, InputError, RefusedInput, UsageError
from callgrove.model.arrays import Array, Ints
from callgrove.model.contexts import ContextTree
from callgrove.model.matrices import matrices
from callgrove.model.methods import ExperimentMethods
from callgrove.model.metrics import Metrics, Scope
from callgrove.model.profiles import Profiles
from callgrove.model.runs import Run
from callgrove.model.scopes import recipe
from callgrove.model.system import System
from callgrove.model.traces import Traces
from callgrove.model.values import Values

if TYPE_CHECKING:
    from callgrove.model.folding import Combination
    from callgrove.model.study import Study

__all__ = ["Attachment", "Experiment", "InputWarning", "Severity", "Sources"]


class Severity(StrEnum):
    """How much a warning matters."""

    NOTE = "note"  # worth knowing; nothing is lost
    MISSING = "missing"  # a part that such an input may have is not there
    DAMAGE = "damage"  # something in the input is broken; what is intact was read


@dataclass(frozen=True)
class InputWarning:
    """Something about the input that a user should know."""

    severity: Severity
    text: str


class Attachment(Protocol):
    """A named blob that travels with an experiment."""

    def read(self) -> bytes:
        """Its bytes."""


@dataclass(frozen=True)
class Sources:
    """Source files that were copied into the input. Nothing outside `folder` is ever read."""

    folder: Path | None = None
    copies: Mapping[int, str] = field(default_factory=dict)  # file id -> path relative to the folder

    def __len__(self) -> int:
        return len(self.copies)

    def path(self, file: int) -> Path | None:
        """Where the copy of a file lies, if it is there. A copy that points outside the folder is refused."""
        if self.folder is None or file not in self.copies:
            return None
        try:
            root = self.folder.resolve()
            where = (root / self.copies[file]).resolve()
            if not where.is_relative_to(root):
                raise RefusedInput(f"{self.folder}: the source {self.copies[file]!r} lies outside of the folder")
            return where if where.is_file() else None
        except (OSError, RuntimeError, ValueError):  # a name that no file can have, links that run in a circle
            return None

    @cached_property
    def n_present(self) -> int:
        """How many copies are there. Inputs name copies that were left behind when they were moved."""
        return sum(self._is_present(file) for file in self.copies)

    def _is_present(self, file: int) -> bool:
        try:
            return self.path(file) is not None
        except RefusedInput:
            return False

    def lines(self, file: int) -> list[str]:
        """The text of a copied file, line by line; empty where there is no copy."""
        where = self.path(file)
        try:
            return where.read_text("utf-8", "replace").splitlines() if where else []
        except OSError as error:
            raise InputError(f"{where}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Experiment(ExperimentMethods):
    """One or more runs, and everything measured in them: what `callgrove.open` returns.

    title, format, version, path    what it is, and where it was read from
    runs          executions, with their parameters
    profiles      threads, GPU streams, ...: `profiles.where(ranks=...)` gives their ids
    system        where profiles live: machine, node, process, thread
    contexts      the calling context tree, in preorder
    metrics       what was measured, with units and scopes; `default_metric` is what views show
    values        (profile, context, metric) -> number
    traces        samples and spans over time
    sources       source files that were copied into the input
    warnings      what a user should know; `damage` is what of the input is broken

    Everything is immutable; values and traces are read when they are asked for. Methods mirror the verbs of the command
    line and return tables that show themselves, or experiments again.

        e = callgrove.open("lulesh.d")
        e.top(limit=10)
        e.select(ranks="0-3").tree("time")
    """

    title: str
    format: str
    version: str
    runs: tuple[Run, ...]
    profiles: Profiles
    system: System
    contexts: ContextTree
    metrics: Metrics
    values: Values
    traces: Traces
    sources: Sources = field(default_factory=Sources)
    attributes: Mapping[str, str] = field(default_factory=dict)
    attachments: Mapping[str, Attachment] = field(default_factory=dict)
    warnings: tuple[InputWarning, ...] = ()
    path: str = ""

    @property
    def damage(self) -> tuple[InputWarning, ...]:
        """Return what of the input is broken."""
        return tuple(w for w in self.warnings if w.severity == Severity.DAMAGE)

    @property
    def damage_met(self) -> list[CallgroveError]:
        """Return the damage that reading values and samples has met so far, but for what is in `damage` already."""
        known = {warning.text for warning in self.damage}
        samples = self.traces.samples
        traced = [] if samples is None else [problem for problem in samples.problems if str(problem) not in known]
        return [*self.values.problems, *traced]

    def totals(self, quantity: str, scope: Scope, profiles: Ints | None = None) -> Array:
        """Return a quantity in a scope over all contexts, combined over the measured profiles or those given.

        Exclusive and inclusive are computed where they are not stored.
        """
        way = recipe(self.metrics, quantity, scope)
        return way.apply(self.values.totals(way.stored, profiles), self.contexts)

    def matrix(self, quantity: str, scope: Scope, profiles: Ints | None = None) -> Array:
        """Return a quantity in a scope as a matrix, contexts x profiles, of the measured profiles or those given."""
        way = recipe(self.metrics, quantity, scope)
        chosen = self.profiles.measured if profiles is None else profiles
        self.values.demand_known(chosen)
        found = matrices(self.values, self.contexts, [way], chosen).get(way.stored)
        if found is not None:
            return found
        shape = len(self.contexts), len(chosen)
        if way.metric.composite is not None:
            return np.zeros(shape, way.metric.composite.dtype)
        return np.full(shape, way.metric.aggregation.neutral)

    def root_total(self, quantity: str, profiles: Ints | None = None) -> float:
        """Return the inclusive cost of all roots of the tree: what percentages are of."""
        inclusive = self.totals(quantity, Scope.INCLUSIVE, profiles)[self.contexts.roots]
        return self.metrics.first(quantity).aggregation.combined(inclusive)

    @cached_property
    def default_metric(self) -> str:
        """The metric that views show unless told otherwise: the first time with any cost, else the first with any."""
        if not self.metrics.quantities:
            raise UsageError(f"{self.path or self.title}: there is no metric, so there is no cost to show")
        return self.metrics.default(self._has_cost)

    def _has_cost(self, quantity: str) -> bool:
        """Composite values are no cost that a view could show."""
        try:
            metric = self.metrics.first(quantity)
            neutral = metric.aggregation.neutral
            return metric.composite is None and bool(np.any(self.totals(quantity, Scope.INCLUSIVE) != neutral))
        except UsageError:
            return False

    def study(
        self,
        metrics: Sequence[str] | None = None,
        scope: Scope = Scope.EXCLUSIVE,
        combination: Combination | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Study:
        """Return the runs over their parameters, as they were measured: see `callgrove.model.folding.fold`.

        `series` makes of it what `callgrove model` fits.
        """
        from callgrove.model.folding import Combination, fold

        return fold(self, metrics, scope, combination or Combination.SUM, progress)

    def __repr__(self) -> str:
        """One line, whatever its size."""
        sizes = f"{len(self.profiles)} profiles, {len(self.contexts)} contexts, {len(self.metrics.quantities)} metrics"
        return f"<Experiment {self.title!r}, {f'{self.format} {self.version}'.rstrip()}: {sizes}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from callgrove.model.notebook import experiment_html

        return experiment_html(self)
