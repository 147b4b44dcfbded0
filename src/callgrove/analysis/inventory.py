"""What is in an experiment or a study, as data for programs: dictionaries, lists, texts and numbers that JSON holds.

`overview.py` has the same for people. Every key is always there; what is not known is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from callgrove.analysis.overview import Overview, overview
from callgrove.analysis.spread.entities import entities_of
from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.metrics import Metrics

if TYPE_CHECKING:
    from callgrove.model.study.series import Study

__all__ = ["Data", "describe_experiment", "describe_study"]

Data = dict[str, Any]


def describe_experiment(experiment: Experiment) -> Data:
    """Return what there is in an experiment."""
    facts = overview(experiment)
    return {
        "kind": "experiment",
        **_describe_origin(experiment),
        "runs": [
            {
                "name": run.name,
                "parameters": _numbers(run.parameters),
                "repetition": run.repetition,
                "source": run.source or None,
            }
            for run in experiment.runs
        ],
        "profiles": facts.profiles,
        **_count_places(experiment),
        "topologies": [
            {
                "name": topology.name,
                "dimensions": list(topology.dimension_names),
                "sizes": [int(size) for size in topology.sizes],
                "periodic": [bool(periodic) for periodic in topology.periodic],
                "places": len(topology.system),
            }
            for topology in facts.topologies
        ],
        "contexts": {"count": sum(facts.contexts.values()), "depth": facts.depth, "kinds": facts.contexts},
        "metrics": [_describe_metric(experiment.metrics, name) for name in experiment.metrics.quantities],
        "default_metric": _find_default(experiment),
        "hottest": _describe_hottest(facts),
        "values": facts.n_values,
        "traces": _describe_traces(facts),
        "sources": {"copied": facts.n_sources, "missing": facts.n_missing_sources},
        **_describe_warnings(facts.warnings),
    }


def describe_study(study: Study) -> Data:
    """Return what there is in a study."""
    known = study.repetitions[study.repetitions > 0]
    models = dict.fromkeys(model.name for model in study.models)
    return {
        "kind": "study",
        **_describe_origin(study),
        "parameters": list(study.parameters),
        "points": [[_number(value) for value in point] for point in study.points.tolist()],
        "callpaths": len(study.callpaths),
        "metrics": [
            {
                "name": name,
                "unit": study.units.get(name) or None,
                "series": int((study.series_metric == number).sum()),
                "tags": dict(study.metric_tags.get(name, {})),
            }
            for number, name in enumerate(study.metrics)
        ],
        "series": len(study),
        "repetitions": {"min": int(known.min()), "max": int(known.max())} if len(known) else None,
        "values": len(study.raw.values) if study.raw is not None else None,
        "scaling": study.scaling or None,
        "models": [{"name": name, "count": sum(model.name == name for model in study.models)} for name in models],
        **_describe_warnings(study.warnings),
    }


def _describe_origin(opened: Experiment | Study) -> Data:
    return {
        "title": opened.title,
        "path": opened.path or None,
        "format": opened.format,
        "version": opened.version or None,
    }


def _count_places(experiment: Experiment) -> Data:
    """Return how many nodes, ranks, threads and devices have profiles."""
    counts = {}
    for word, kind in (("nodes", "node"), ("ranks", "rank"), ("threads", "thread"), ("devices", "gpu")):
        counts[word] = len(entities_of(experiment, kind)) if len(experiment.profiles.measured) else 0
    return counts


def _describe_metric(metrics: Metrics, name: str) -> Data:
    first = metrics.first(name)
    return {
        "name": name,
        "unit": first.unit or None,
        "kind": first.aggregation.name.lower(),
        "scopes": [] if first.is_derived else [scope.word for scope in metrics.scopes(name) if scope.word],
        "visible": first.visible,
        "formula": first.formula if first.is_derived else None,
        "available": name not in metrics.missing and name not in metrics.unavailable,
        "description": first.description or None,
    }


def _find_default(experiment: Experiment) -> str | None:
    try:
        return experiment.default_metric
    except UsageError:  # there is no metric
        return None


def _describe_hottest(facts: Overview) -> Data | None:
    hottest = facts.hottest
    if hottest is None:
        return None
    return {
        "name": hottest.name,
        "metric": hottest.metric,
        "unit": hottest.unit or None,
        "exclusive": _number(hottest.exclusive),
        "percent": None if hottest.percent is None else _number(hottest.percent),
        "total": _number(hottest.total),
    }


def _describe_traces(facts: Overview) -> Data | None:
    if facts.n_counters:
        return {"counters": facts.n_counters}
    if not (facts.n_samples or facts.n_spans):
        return None
    start, end = facts.time_range or (None, None)
    return {"samples": int(facts.n_samples), "spans": int(facts.n_spans), "start_ns": start, "end_ns": end}


def _describe_warnings(warnings: tuple[InputWarning, ...]) -> Data:
    """Return all damage, and all else that a user should know."""
    return {
        "damage": [warning.text for warning in warnings if warning.severity == Severity.DAMAGE],
        "warnings": [
            {"severity": warning.severity.value, "text": warning.text}
            for warning in warnings
            if warning.severity != Severity.DAMAGE
        ],
    }


def _numbers(values: Mapping[str, float]) -> dict[str, float | int | None]:
    return {name: _number(value) for name, value in values.items()}


def _number(value: float | np.generic) -> float | int | None:
    """Return a number that JSON has: whole ones as such, none for what is not finite."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isfinite(plain):
        return None
    return int(plain) if plain == int(plain) else float(plain)
