"""What more than one format cannot hold, in the same words; only what is there is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from callgrove.model.runs import Run
from callgrove.model.traces import Traces

__all__ = ["NOTHING_RENAMED", "losses_of_events", "losses_of_runs", "losses_of_sides", "losses_of_tables", "some"]

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


def losses_of_events(traces: Traces) -> Iterator[str]:
    """For formats that hold neither spans nor quantities over time."""
    if traces.n_spans:
        yield f"spans: {traces.n_spans} are left out"
    if traces.counters is not None and len(traces.counters):
        yield f"counters over time: {len(traces.counters)} values are left out"


SIDES = {  # side tables, as a sentence names their rows
    "argument": "arguments of calls",
    "stack": "call chains of calls",
    "counter": "counters of kernels",
    "flow": "flows that the input names",
    "extra": "values that no reader here knows (extras)",
}
BESIDE = {  # small tables that stand beside spans
    "queues": "names of queues",
    "code_objects": "code objects",
    "kernel_symbols": "symbols of kernels",
    "pmc_info": "descriptions of counters",
}


def losses_of_sides(traces: Traces, names: Iterable[str], why: str) -> Iterator[str]:
    """For formats that leave out whole side tables of spans: how many rows of each."""
    for name in names:
        parts = [part for part in range(len(traces.parts())) if traces.has_side(name, part)]
        if n := sum(len(piece.span) for part in parts for piece in traces.side_chunks(name, part)):
            yield f"{SIDES.get(name, f'rows of the table {name}')}: {n:,} are left out; {why}"


def losses_of_tables(traces: Traces, why: str) -> Iterator[str]:
    """For formats that have no place for what profilers say of queues, symbols and counters."""
    for name, words in BESIDE.items():
        if name in traces.tables and (n := len(traces.tables[name]())):
            yield f"{words}: {n:,} are left out; {why}"
