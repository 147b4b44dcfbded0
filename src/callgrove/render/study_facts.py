"""What is in a study, as words for a person: `info` and reports say the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from callgrove.model.study import Study
from callgrove.model.table import Table
from callgrove.render.facts import counted
from callgrove.render.shell import quoted

__all__ = ["study_facts", "study_metrics", "study_next"]

MOST_NAMES = 8
MOST_WARNINGS = 12


def study_facts(study: Study) -> Iterator[tuple[str, str]]:
    """One line each: what was measured, where, how often, and which models there are."""
    yield "title", study.title
    yield "format", f"{study.format} {study.version}".rstrip()
    for number, name in enumerate(study.parameters):
        values = sorted(set(study.points[:, number].tolist()))
        yield "parameter", f"{name}: {_some([f'{v:g}' for v in values])}"
    yield "points", f"{study.n_points:,}"
    of = f"{counted(len(study.callpaths), 'call path')}, {counted(len(study.metrics), 'metric')}"
    yield "series", f"{len(study):,} ({of})"
    yield "metrics", _some([name or "<default>" for name in study.metrics])
    known = study.repetitions[study.repetitions > 0]
    if len(known):
        low, high = int(known.min()), int(known.max())
        yield "repetitions", str(low) if low == high else f"{low} to {high}"
    yield "values", f"{len(study.raw.values):,} raw values" if study.raw is not None else "statistics only"
    if study.scaling:
        yield "scaling", study.scaling
    for name in dict.fromkeys(model.name for model in study.models):
        n = sum(model.name == name for model in study.models)
        yield "models", f"{n:,} in {name or 'one set'}"
    for warning in study.warnings[:MOST_WARNINGS]:
        yield warning.severity.value, warning.text
    if len(study.warnings) > MOST_WARNINGS:
        yield "and", f"{len(study.warnings) - MOST_WARNINGS} more of these; `callgrove check` lists them all"


def study_next(study: Study, path: str | None) -> Iterator[str]:
    """Commands for this very input."""
    if path is not None:
        yield f"callgrove model {quoted(path)}"
        yield f"callgrove report {quoted(path)} -o report.html"
        yield f"callgrove export {quoted(path)} --table series --limit 10"
        ending = "json" if study.format == "extrap-experiment" else "extra-p"
        yield f"callgrove convert {quoted(path)} study.{ending}"


def study_metrics(study: Study) -> Table:
    """The metrics of a study, with the number of their series."""
    rows = []
    for number, name in enumerate(study.metrics):
        n_series = int((study.series_metric == number).sum())
        tags = ", ".join(f"{key}={value}" for key, value in study.metric_tags.get(name, {}).items())
        rows.append((name, study.units.get(name) or None, n_series, tags or None))
    return Table.from_rows(("name", "unit", "series", "tags"), rows)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
