"""What more than one format cannot hold, in the same words; only what is there is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from callgrove.model.metrics import Metric
from callgrove.model.runs import Run
from callgrove.model.traces import Traces

__all__ = ["NOTHING_RENAMED", "losses_of_events", "losses_of_formulas", "losses_of_runs", "some"]

SHOWN = 5  # names in one sentence
NOTHING_RENAMED = "--kernel-rename: changes nothing, as no kernel here tells the range that it was launched in"


def some(names: Iterable[str]) -> str:
    """The first few of some names, each once."""
    found = list(dict.fromkeys(names))
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


def losses_of_runs(runs: tuple[Run, ...]) -> Iterator[str]:
    """For formats that hold one run and not its parameters."""
    if len(runs) > 1:
        yield f"runs: {len(runs)} become one"
    if any(run.parameters for run in runs):
        yield "parameters of runs"


def losses_of_formulas(metrics: Iterable[Metric]) -> Iterator[str]:
    """For derived metrics whose formulas a format cannot hold: they have no values that could be written instead."""
    if found := [metric.name for metric in metrics if metric.is_derived]:
        what = "derived metric" if len(found) == 1 else f"{len(found)} derived metrics"
        yield f"{what} {some(found)}: left out, as formulas are not evaluated and have no place there"


def losses_of_events(traces: Traces) -> Iterator[str]:
    """For formats that hold neither spans nor quantities over time."""
    if traces.n_spans:
        yield f"spans: {traces.n_spans} are left out"
    if traces.counters is not None and len(traces.counters):
        yield f"counters over time: {len(traces.counters)} values are left out"
