"""Timelines: exact sums over windows of traces against reading the events alone, and how their time grows.

Every answer is checked: rows add up to the window times the profiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.conditions import Conditions, opened
from bench.generate import Shape, generate
from bench.gpu_databases import GpuShape, make_gpu_database
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.analysis.timeline.statistics import Question, measure
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_paths
from callgrove.model.experiment import Experiment

__all__ = ["run"]

N_EVENTS, N_PROFILES, N_LONG = 2_000_000, 100_000, 8
REPEATS = 3
COLUMNS = ("profile", "kind", "label", "start_ns", "end_ns")


def run(conditions: Conditions) -> Iterator[Finding]:
    """Many profiles, long lines, and spans of a GPU database."""
    n_events = max(1_000, round(N_EVENTS * float(conditions.largest)))
    n_profiles = max(N_LONG, round(N_PROFILES * float(conditions.largest)))
    many = _samples(conditions.folder / "windows-many", n_profiles, max(2, n_events // n_profiles))
    yield _compare("many profiles", many, conditions, 5)
    shape = GpuShape(n_events)
    database = make_gpu_database(conditions.folder / shape.name, shape)
    found = open_paths([database], "", ReadOptions(fold=False))
    assert isinstance(found, Experiment)
    yield _compare("spans", found, conditions, 12)
    yield from _growth(conditions, n_events)


def _samples(folder: Path, n_profiles: int, n_samples: int) -> Experiment:
    shape = Shape(n_profiles=n_profiles, n_contexts=2000, density=0.0005, n_samples=n_samples)
    return opened(generate(folder, shape))


def _compare(what: str, experiment: Experiment, conditions: Conditions, at_most: float) -> Finding:
    works = {"ours": partial(_timeline, experiment), "reading": partial(_reading, experiment)}
    best = best_seconds(works, min(REPEATS, conditions.n_repeats))
    n_events = experiment.traces.n_samples + experiment.traces.n_spans
    note = f"{n_events:,} events of {len(experiment.profiles.measured):,} profiles"
    return Finding("windows", f"timeline / reading, {what}", best["ours"] / best["reading"], at_most=at_most, note=note)


def _growth(conditions: Conditions, n_events: int) -> Iterator[Finding]:
    """Time per sample of lines that are four times as long."""
    per_line = max(8, n_events // N_LONG)
    lines = {n: _samples(conditions.folder / f"windows-{n}", N_LONG, n) for n in (per_line // 4, per_line)}
    works = {n: partial(_timeline, experiment) for n, experiment in lines.items()}
    best = best_seconds(works, min(REPEATS, conditions.n_repeats))
    per_sample = [best[n] / n for n in lines]
    note = f"{per_line * N_LONG:,} samples of {N_LONG} profiles"
    yield Finding(
        "windows", "time per sample, four times as many", per_sample[1] / per_sample[0], at_most=1.5, note=note
    )


def _timeline(experiment: Experiment) -> Work:
    return partial(_measure, experiment)


def _measure(experiment: Experiment) -> None:
    timeline = measure(experiment, Question(exclusive=True))
    total = sum(row.time_ns for row in timeline.rows)
    if total != timeline.length_ns * timeline.survey.n_tracks:
        raise AssertionError(f"rows add up to {total}")


def _reading(experiment: Experiment) -> Work:
    return partial(_read, experiment)


def _read(experiment: Experiment) -> int:
    traces = experiment.traces
    n_samples = sum(len(line) for _, _, line in traces.lines())
    return n_samples + sum(len(chunk["span"]) for chunk in traces.spans(COLUMNS))
