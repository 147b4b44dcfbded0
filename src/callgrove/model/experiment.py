"""An experiment: one or more runs and everything measured in them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from callgrove.errors import InputError, RefusedInput, UsageError
from callgrove.model.arrays import Array, Ints
from callgrove.model.contexts import ContextTree
from callgrove.model.matrices import matrices
from callgrove.model.metrics import Metrics, Scope
from callgrove.model.profiles import Profiles
from callgrove.model.runs import Run, choose_runs
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
class Experiment:
    """What `callgrove.open` returns. Everything in it is immutable; values and traces are read when asked for."""

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
        """What of the input is broken."""
        return tuple(w for w in self.warnings if w.severity == Severity.DAMAGE)

    def totals(self, quantity: str, scope: Scope, profiles: Ints | None = None) -> Array:
        """A quantity in a scope over all contexts, combined over the measured profiles or those given.

        Exclusive and inclusive are computed where they are not stored.
        """
        way = recipe(self.metrics, quantity, scope)
        return way.apply(self.values.totals(way.stored, profiles), self.contexts)

    def matrix(self, quantity: str, scope: Scope, profiles: Ints | None = None) -> Array:
        """The same profile by profile: contexts x profiles, of the measured ones or those given."""
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
        """The inclusive cost of all roots of the tree: what percentages are of."""
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
        """The runs over their parameters, as series that can be modelled: see `callgrove.model.folding.fold`."""
        from callgrove.model.folding import Combination, fold

        return fold(self, metrics, scope, combination or Combination.SUM, progress)

    def select(self, ranks: object = None, threads: object = None, runs: str | Container[int] | None = None) -> Ints:
        """Measured profiles whose rank and thread are in the given containers, of the runs given; None means all. Runs
        are numbers in a container, or a text such as "3", "p=4,n=100" or a name (see `choose_runs`)."""
        chosen = self.profiles.measured
        if runs is not None:
            chosen = chosen[np.isin(self.profiles.run[chosen], choose_runs(self.runs, runs))]
        for column, wanted in (("rank", ranks), ("thread", threads)):
            if wanted is not None:
                have = self.profiles.identity_list(column)
                kept = [p for p in chosen.tolist() if have[p] is not None and have[p] in wanted]  # type: ignore[operator]
                chosen = np.array(kept, np.int64)
        return chosen

    def __repr__(self) -> str:
        """One line, whatever its size."""
        sizes = f"{len(self.profiles)} profiles, {len(self.contexts)} contexts, {len(self.metrics.quantities)} metrics"
        return f"<Experiment {self.title!r}, {f'{self.format} {self.version}'.rstrip()}: {sizes}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from callgrove.model.notebook import experiment_html

        return experiment_html(self)
