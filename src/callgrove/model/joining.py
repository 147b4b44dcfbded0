"""Several executions as one experiment with several runs.

Contexts are matched by call path (see unify.py), metrics by name, scope and statistic; values stay where they are and
are chained. Traces and copies of sources belong to one execution each and are left there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import ABSENT, Ids
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.chains import ChainedValues, Link
from callgrove.model.experiment import Experiment, InputWarning
from callgrove.model.metrics import Metric
from callgrove.model.profiles import Identifier, ProfileKind, Profiles
from callgrove.model.renumbering import absent_stays
from callgrove.model.runs import Run
from callgrove.model.unify import Unifier

__all__ = ["join_runs"]


def join_runs(
    parts: Sequence[tuple[Run, Experiment]], format: str, title: str, path: str, warnings: Sequence[InputWarning] = ()
) -> Experiment:
    """One experiment of many; each part becomes one run."""
    if not parts:
        raise UsageError(f"{path or title}: there is no run to open")
    builder = ExperimentBuilder(format, title=title)
    builder.path = path
    builder.warnings = list(warnings)
    unifier = Unifier(builder)
    metrics = _MetricRows(builder)
    names = _IdentifierNames(parts[0][1].profiles)
    maps: list[tuple[Ids, Ids, Ids]] = []
    for run, experiment in parts:
        number = builder.add_run(run)
        profiles = _add_profiles(builder, experiment.profiles, number, names)
        maps.append((profiles, unifier.add(experiment.contexts), metrics.add(experiment)))
        builder.warnings += [w for w in experiment.warnings if w not in builder.warnings]
    builder.id_names = tuple(names.known)
    builder.attributes = _common([dict(experiment.attributes) for _, experiment in parts])
    final = absent_stays(builder.order())
    links = [
        Link(experiment.values.backend, profiles, final[contexts], rows)
        for (_, experiment), (profiles, contexts, rows) in zip(parts, maps, strict=True)
    ]
    builder.set_values(ChainedValues(links))
    return builder.build()


class _MetricRows:
    """The metric rows of all parts, each once."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self._builder = builder
        self._rows: dict[tuple[str, str, str], int] = {}

    def add(self, experiment: Experiment) -> Ids:
        """For each row of a part, the row of the whole."""
        rows: list[int] = []
        for metric in experiment.metrics:
            key = (metric.name, metric.scope.value, metric.statistic)
            if key not in self._rows:
                self._rows[key] = self._builder.add_metric(self._without_ids(metric, rows))
            elif metric.is_derived:  # in one part; what others measured of it is not all of it
                self._builder.name_formula(self._rows[key], metric.formula)
            rows.append(self._rows[key])
        return np.array(rows, np.int32)

    def _without_ids(self, metric: Metric, rows: list[int]) -> Metric:
        parent = rows[metric.parent] if 0 <= metric.parent < len(rows) else ABSENT
        return replace(metric, parent=parent, source_id=None)


class _IdentifierNames:
    """The kinds of identifiers of all parts."""

    def __init__(self, first: Profiles) -> None:
        self.known = list(first.identifiers.names)

    def number(self, name: str) -> int:
        if name not in self.known:
            self.known.append(name)
        return self.known.index(name)


def _add_profiles(builder: ExperimentBuilder, profiles: Profiles, run: int, names: _IdentifierNames) -> Ids:
    numbers = []
    own = profiles.identifiers
    kinds = {kind: names.number(own.name(kind)) for kind in set(own.kind.tolist())}
    for profile in range(len(profiles)):
        identifiers: list[Identifier] = [(kinds[row[0]], *row[1:]) for row in own.rows(profile)]
        kind = ProfileKind(int(profiles.kind[profile]))
        numbers.append(builder.add_profile(kind, identifiers, run=run, name=profiles.name[profile]))
    return np.array(numbers, np.int32)


def _common(attributes: list[dict[str, str]]) -> dict[str, str]:
    """What all parts say alike."""
    first, *others = attributes
    return {key: value for key, value in first.items() if all(one.get(key) == value for one in others)}
