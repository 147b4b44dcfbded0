"""A run by itself: `explain`. What dominates, what is uneven, what waits for what, what will not scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from callgrove.analysis.costs import costs
from callgrove.analysis.explain.findings import (
    NS,
    Amount,
    Explanation,
    Finding,
    Sentence,
    find_small,
    input_of,
    label,
    percent,
    times,
)
from callgrove.analysis.explain.gpus import Devices, Operation, read_devices
from callgrove.analysis.explain.programs import Program, read_program, spread_of
from callgrove.analysis.summary_sections import Summary
from callgrove.analysis.views import hot_path
from callgrove.arrays import Floats
from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.runs import Run

__all__ = ["explain"]

DOMINATES = 0.1  # of the time: less dominates nothing
SOME = 3
MOST_OF_IT = 0.9  # of the cost: how many functions have that much
MOST_STEPS = 5  # of a path that is written out
WAITING = -0.5  # correlation with work: who waits has much of it where others have little
PROCESSES = ("p", "np", "ranks", "processes", "nprocs")  # what parameters that count processes are called
GROWS = 1.1  # times as long on each rank, before it is called growing


def explain(experiment: Experiment, metric: str | None = None, summary: Summary | None = None) -> Explanation:
    """Return what there is to know of a run: findings with their numbers, the weightiest first, each with the command
    that shows more.

    Traces of devices are explained by what the devices did, unless a metric is named; all else by the costs of
    functions. `summary` is that of the trace, where it was made before.

        print(experiment.explain())
    """
    devices = read_devices(experiment, summary) if metric is None else None
    if devices is not None:
        of_devices = list(_explain_devices(devices))
        return Explanation.of(_say_run(devices), of_devices, (), [*find_small(of_devices), *_lack_devices(devices)])
    program = replace(read_program(experiment, metric), asked=metric)
    if not program.total > 0 or not _has_shares(program):
        raise UsageError(f"{input_of(experiment)}: there is no {program.metric.name} that could be explained")
    findings = list(_explain_program(program))
    background = [*_count_functions(program), *find_small(findings), *_say_balance(program)]
    return Explanation.of(_say_cost(program), findings, _note_runs(experiment), background)


def _has_shares(program: Program) -> bool:
    """Return whether every cost has a share of the mean, which may be next to nothing, or less, where costs cancel
    out."""
    with np.errstate(over="ignore"):
        return program.mean > 0 and bool(np.isfinite(np.abs(program.cells).max() / np.float64(program.mean)))


# -- profiles ----------------------------------------------------------------------------------------------------------


def _say_cost(program: Program) -> Finding:
    """Return the first sentence: what the run costs in all."""
    total = Amount(program.total, program.metric.unit)
    said: Sentence = (f"{program.metric.name} is ", total, " in all")
    if (n := len(program.entities)) > 1:
        mean = Amount(program.mean, program.metric.unit)
        said = (*said, f", on {n:,} {program.over}s with ", mean, " each on average")
    return Finding("total", program.metric.name, 1.0, (*said, "."), total, program.command("top"))


def _explain_program(program: Program) -> Iterator[Finding]:
    yield from _find_dominant(program)
    yield from _find_hot_path(program)
    yield from _find_communication(program)
    yield from _find_imbalance(program)
    yield from _find_growth(program)


def _find_dominant(program: Program) -> Iterator[Finding]:
    """Yield the function that costs most, and the next ones; or that none of them dominates."""
    means = program.cells.mean(axis=1)
    shares = np.where(program.waits, 0.0, means) / program.mean
    order = np.argsort(-shares, kind="stable")[:SOME].tolist()
    unit = program.metric.unit
    first = order[0]
    if shares[first] < DOMINATES:
        together = percent(float(shares[order].sum()))
        said: Sentence = (f"No function that computes dominates: the first {len(order)} have ", together, " together.")
        yield Finding(
            "function", program.names[first], float(shares[order].sum()), said, together, program.command("top")
        )
        return
    cost = Amount(float(program.cells[first].sum()), unit)
    said = (f"{label(program.names[first])} has ", percent(float(shares[first])), " of it, ", cost, " in all.")
    command = program.command("tree", "--callers-of", program.names[first])
    yield Finding("function", program.names[first], float(shares[first]), said, cost, command)
    if next_ones := [row for row in order[1:] if shares[row] >= DOMINATES]:
        parts: list[str | Amount] = ["Then comes " if len(next_ones) == 1 else "Then come "]
        for row in next_ones:
            parts += [label(program.names[row]), " with ", percent(float(shares[row])), " and "]
        share = float(shares[next_ones].sum())
        name = program.names[next_ones[0]]
        weight = float(np.nextafter(shares[next_ones[0]], 0.0))  # said after the first, if more together
        yield Finding("function", name, weight, (*parts[:-1], "."), percent(share), program.command("top"))


def _find_hot_path(program: Program) -> Iterator[Finding]:
    """Yield where most of the cost lies below the roots: it is worth half of its share, as what dominates says more."""
    all_costs = costs(program.experiment, program.metric.name)
    if all_costs.has_missing:
        return
    table = hot_path(all_costs)
    if len(names := table["name"]) > 1:
        share = float(table["percent"][-1]) / 100
        steps = " -> ".join(
            label(str(name)) for name in (names if len(names) <= MOST_STEPS else [names[0], "...", *names[-2:]])
        )
        said: Sentence = (f"The hot path is {steps}, with ", percent(share), " of the cost at its end.")
        command = program.command("hot")
        yield Finding("path", str(names[-1]), share / 2, said, percent(share), command)


def _find_communication(program: Program) -> Iterator[Finding]:
    """Yield how much of the time goes into exchanging and waiting, and whom the ranks wait for."""
    waiting = program.cells[program.waits].sum(axis=0)
    if not waiting.any():
        return
    share = float(waiting.mean()) / program.mean
    rows = np.flatnonzero(program.waits)
    name = program.names[int(rows[np.argmax(program.cells[rows].sum(axis=1))])]
    said: Sentence = (
        percent(share),
        f" of it goes into communication and synchronisation, most of that in {label(name)}",
    )
    if len(program.entities) > SOME - 1 and _correlate(waiting, program.work) < WAITING:
        slowest = program.entities[int(np.argmax(program.work))]
        said = (*said, f"; it is high where work is low: there, {program.over}s wait for others, such as {slowest}")
    columns = ("--columns", program.over) if len(program.entities) > 1 else ()
    command = program.command("top", "--name", name, *columns)
    yield Finding("waiting", name, share, (*said, "."), percent(share), command)


def _find_imbalance(program: Program) -> Iterator[Finding]:
    n = len(program.entities)
    if n < 2 or program.excess <= 0:
        return
    slowest, function = program.blame()
    excess = Amount(program.excess, program.metric.unit)
    weight = program.excess / program.mean
    said: Sentence = (f"Work is uneven: {slowest} has ", excess, f" more of it than the mean {program.over}, ")
    said = (*said, percent(weight), f" of the time of a {program.over}, most of that in {label(function)}.")
    command = program.command("imbalance", "--over", program.over)
    yield Finding("imbalance", slowest, weight, said, excess, command)


def _count_functions(program: Program) -> Iterator[Finding]:
    """Yield how many functions have most of the cost."""
    ordered = np.sort(program.cells.sum(axis=1))[::-1]
    n, command = len(program.names), program.command("top")
    if n == 1:
        alone = "No other function has any of it."
        yield Finding("function", program.names[0], 0.0, (alone,), Amount(1.0, ""), command)
        return
    shares = np.cumsum(ordered) / ordered.sum()
    first = min(n, int(np.searchsorted(shares, MOST_OF_IT)) + 1)
    share = percent(float(shares[first - 1]))
    have = f"1 of {n:,} functions has " if first == 1 else f"{first:,} of {n:,} functions have "
    yield Finding("function", "", 0.0, (have, share, " of it." if first == 1 else " of it together."), share, command)


def _say_balance(program: Program) -> Iterator[Finding]:
    """Yield that work is even, or that it cannot be told."""
    if len(program.entities) < 2:
        untold = "It is not divided by ranks or threads here, so nothing is said about imbalance."
        yield Finding("imbalance", "", 0.0, (untold,), Amount(1.0, ""), ("info", input_of(program.experiment)))
    elif not program.excess > 0:
        even = f"Work is even: each {program.over} has as much of it as the others."
        command = program.command("imbalance", "--over", program.over)
        yield Finding("imbalance", "", 0.0, (even,), Amount(0.0, program.metric.unit), command)


def _correlate(one: Floats, other: Floats) -> float:
    """Return Pearson's coefficient; 0 where one of them is the same everywhere."""
    a, b = one - one.mean(), other - other.mean()
    largest = float(np.abs(a).max()), float(np.abs(b).max())
    if not (largest[0] > 0 and largest[1] > 0):
        return 0.0
    a, b = a / largest[0], b / largest[1]  # so that squares stay in the range of numbers
    return float((a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum()))


# -- runs of several sizes ---------------------------------------------------------------------------------------------


def _note_runs(experiment: Experiment) -> Iterator[str]:
    if len(experiment.runs) > 1:
        yield f"{len(experiment.runs):,} runs are added up, but where sizes of runs are compared"


def _find_growth(program: Program) -> Iterator[Finding]:
    """Yield the function whose cost on each rank grows most from the smallest to the largest run."""
    experiment = program.experiment
    sizes = _find_sizes(experiment.runs)
    if sizes is None:
        return
    name, (small, low), (large, high) = sizes
    before, after = (read_program(experiment.select(runs=[run]), program.metric.name) for run in (small, large))
    shares = {
        function: float(after.of(function).mean() - before.of(function).mean()) / max(after.mean, 1e-300)
        for function in after.names
    }
    worst = max(shares, key=lambda function: (shares[function], function), default="")
    first, last = float(before.of(worst).mean()), float(after.of(worst).mean())
    if not worst or last < GROWS * first:
        return
    said: Sentence = (f"{label(worst)} will not scale: from {name}={low:g} to {name}={high:g} it takes ",)
    grown: Sentence = (times(last / first), " as long") if first > 0 else ("more and more",)
    said = (*said, *grown, " on each rank, where it has ", percent(last / after.mean), " of the time.")
    command = program.command("model", "--rank-by", "growth")
    yield Finding("scaling", worst, shares[worst], said, percent(shares[worst]), command)


def _find_sizes(runs: Sequence[Run]) -> tuple[str, tuple[int, float], tuple[int, float]] | None:
    """Return the parameter that counts processes, and the smallest and the largest run that differ in it alone."""
    name = next((one for one in PROCESSES if runs and one in runs[0].parameters), "")
    if not name or not all(name in run.parameters for run in runs):
        return None
    largest = max(range(len(runs)), key=lambda k: (runs[k].parameters[name], k))
    others = {key: value for key, value in runs[largest].parameters.items() if key != name}
    alike = [k for k, run in enumerate(runs) if {**run.parameters, **others} == run.parameters]
    smallest = min(alike, key=lambda k: (runs[k].parameters[name], k))
    low, high = runs[smallest].parameters[name], runs[largest].parameters[name]
    return (name, (smallest, low), (largest, high)) if low < high else None


# -- devices -----------------------------------------------------------------------------------------------------------


def _say_run(devices: Devices) -> Finding:
    """Return the first sentence: how long the run took, and how busy the devices were."""
    wall, n = Amount(devices.wall_ns, NS), len(devices.sums)
    busy = sum(one.busy_ns for one in devices.sums) / max(1, n * devices.wall_ns)
    gpus = "1 GPU, which is" if n == 1 else f"{n:,} GPUs, which are"
    said: Sentence = ("The run takes ", wall, f" on {gpus} busy for ", percent(busy), " of it.")
    return Finding("total", "run", 1.0, said, wall, ("summary", input_of(devices.experiment)))


def _explain_devices(devices: Devices) -> Iterator[Finding]:
    yield from _find_kernels(devices)
    yield from _find_copies(devices)
    yield from _find_pauses(devices)
    yield from _find_busiest(devices)


def _share(devices: Devices, part: str) -> float:
    return float(devices.parts[part].mean()) / max(1, devices.wall_ns)


def _largest(operations: dict[str, Operation]) -> tuple[str, float]:
    """Return the name with the most time, and its share of the time of all."""
    name = max(operations, key=lambda one: (operations[one].total_ns, one))
    return name, operations[name].total_ns / max(1, sum(one.total_ns for one in operations.values()))


def _find_kernels(devices: Devices) -> Iterator[Finding]:
    if not devices.kernels:
        return
    name, of_kernels = _largest(devices.kernels)
    one, share = devices.kernels[name], _share(devices, "compute")
    said: Sentence = ("Kernels compute for ", percent(share), f" of the time; {label(name)} has ", percent(of_kernels))
    said = (*said, f" of the time of all kernels, {one.count:,} times ", Amount(one.mean_ns, NS), ".")
    command = ("summary", input_of(devices.experiment), "--section", "kernels")
    yield Finding("kernel", name, share, said, Amount(one.total_ns, NS), command)


def _find_copies(devices: Devices) -> Iterator[Finding]:
    if not devices.copies:
        return
    name, of_copies = _largest(devices.copies)
    alone, hidden = float(devices.parts["copy"].mean()), float(devices.hidden_ns.mean())
    share = _share(devices, "copy")
    said: Sentence = (
        "Copies take ",
        percent(share),
        " of the time alone, and ",
        percent(hidden / max(1.0, hidden + alone)),
    )
    said = (*said, f" of theirs is hidden behind kernels; {label(name)} has ", percent(of_copies), " of it.")
    command = ("summary", input_of(devices.experiment), "--section", "copies")
    yield Finding("copy", name, share, said, Amount(alone, NS), command)


def _find_pauses(devices: Devices) -> Iterator[Finding]:
    path = input_of(devices.experiment)
    idle, exchange, outside = (
        Amount(float(devices.parts[part].mean()), NS) for part in ("idle", "exchange", "outside")
    )
    said: Sentence = ("Gaps between operations take ", percent(_share(devices, "idle")), " of the time")
    if devices.longest is not None:
        place, length, start = devices.longest
        said = (
            *said,
            "; the longest has ",
            Amount(length, NS),
            f", on {place}, ",
            Amount(start, NS),
            " after the start",
        )
    yield Finding(
        "gap", "idle", _share(devices, "idle"), (*said, "."), idle, ("summary", path, "--section", "longest-gaps")
    )
    said = ("GPUs exchange data and compute nothing for ", percent(_share(devices, "exchange")), " of the time.")
    yield Finding("communication", "exchange", _share(devices, "exchange"), said, exchange, ("summary", path))
    said = (
        percent(_share(devices, "outside")),
        " of the time lies before the first and after the last operation of a GPU.",
    )
    command = ("timeline", path, "--by", "class")
    yield Finding("host", "outside", _share(devices, "outside"), said, outside, command)


def _find_busiest(devices: Devices) -> Iterator[Finding]:
    if len(devices.sums) < 2:
        return
    work = devices.work_ns
    excess, device = Amount(spread_of(work), NS), int(np.argmax(work))
    weight = excess.value / max(1, devices.wall_ns)
    said: Sentence = (f"Work is uneven: {devices.names[device]} is busy for ", excess, " more than the mean GPU, ")
    said = (*said, percent(weight), " of the time.")
    command = ("imbalance", input_of(devices.experiment), "--over", "gpu")
    yield Finding("imbalance", devices.names[device], weight, said, excess, command)


def _lack_devices(devices: Devices) -> Iterator[Finding]:
    """Yield what cannot be said of devices, and why."""
    path, none = input_of(devices.experiment), Amount(0.0, "")
    if not devices.copies:
        said = "No copies are in the trace."
        yield Finding("copy", "", 0.0, (said,), none, ("summary", path))
    if len(devices.sums) < 2:
        said = "There is one GPU, so nothing is said about imbalance."
        yield Finding("imbalance", "", 0.0, (said,), Amount(1.0, ""), ("summary", path, "--section", "busy"))
    if not devices.kernels:
        said = "No kernels are in the trace."
        yield Finding("kernel", "", 0.0, (said,), none, ("summary", path))
