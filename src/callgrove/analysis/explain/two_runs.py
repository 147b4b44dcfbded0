"""Why one run takes longer than another: `why`.

The change of the time of a run is divided up, and what has the largest part of it comes first.

    profiles   the time of a rank is what its functions cost; what waits is taken off by what the slowest rank has more
               work than the mean: that is what the others wait for, and the imbalance is the cause
    devices    the time of a run is that of computing, exchanging, copying alone, idle, and outside of all operations;
               copies that ran beside kernels before, and could still, are a lost overlap, and no further copies

An excess is what the mean rank waits for the slowest one. With n ranks, a rank that takes d longer makes an excess of
d (n - 1) / n: it is multiplied by n / (n - 1), so that d is what an imbalance weighs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from callgrove.analysis.comparison import Question, compare
from callgrove.analysis.comparison.scaling import count_processes
from callgrove.analysis.comparison.sentences import short_names
from callgrove.analysis.explain.findings import (
    LEAST_WEIGHT,
    NS,
    Amount,
    Explanation,
    Finding,
    Sentence,
    input_of,
    label,
    percent,
    times,
)
from callgrove.analysis.explain.gpus import Devices, Operation, read_devices
from callgrove.analysis.explain.programs import Program, read_program, spread_of
from callgrove.arrays import Floats
from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment

__all__ = ["why"]

COUNTS = ("visits", "host_calls", "calls")  # metrics that count calls
SAME = 0.01  # of the time of a run: a change that is less is none
OFTEN = 0.1  # by how much counts must differ to be called more often
MOST_OPERATIONS = 3


def why(left: Experiment, right: Experiment, metric: str | None = None) -> Explanation:
    """Return why the right run takes longer or shorter than the left one: causes with their numbers, the weightiest
    first, each with the command that shows more.

    Traces of devices are explained by what the devices did, unless a metric is named; all else by the costs of
    functions, which must have some in common. Nothing is guessed: every sentence is arithmetic over both runs.

        print(callgrove.why(callgrove.open("before.d"), callgrove.open("after.d")))
    """
    devices = [read_devices(one) for one in (left, right)] if metric is None else []
    if devices and (first := devices[0]) is not None and (second := devices[1]) is not None:
        return _DeviceChange(first, second).explain()
    comparison = compare([left, right], Question(metric, flat=True))
    comparison.require_common()
    if not comparison.is_additive:
        raise UsageError(f"{comparison.metric.name} does not add up to a whole that could be explained")
    before = replace(read_program(left, comparison.metrics[0]), asked=metric)
    over = before.over if len(before.entities) > 1 else None
    after = replace(read_program(right, comparison.metrics[1], over), asked=metric and comparison.metrics[1])
    factor = comparison.totals[1] / after.total if after.total else 1.0
    return _ProgramChange(before, after, factor, comparison.notes).explain()


WORDS = {"takes": ("as long as", "longer than", "less time than"), "costs": ("as much as", "more than", "less than")}


def _say_total(names: Sequence[str], verb: str, before: Amount, after: Amount, what: str, *chosen: str) -> Finding:
    """Return the first sentence: how much longer the right run takes."""
    ends = short_names(names)
    change = after.value / before.value - 1 if before.value > 0 else float("nan")
    amounts: Sentence = (after, " instead of ", before, f" {what}.")
    same, more, less = WORDS[verb]
    said: Sentence = (f"{ends[1]} {verb} {same} {ends[0]}: ", *amounts)
    if not abs(change) < SAME:
        said = (f"{ends[1]} {verb} ", percent(abs(change)), f" {more if change > 0 else less} {ends[0]}: ", *amounts)
    number = Amount(after.value - before.value, after.unit)
    return Finding("total", ends[1], abs(change), said, number, ("diff", *names, *chosen))


@dataclass(frozen=True)
class _Rest:
    """What differs beside the findings: functions or kernels, how many both runs have, and the time of the left run."""

    what: str
    n_common: int
    whole: float
    where: str

    def say(self, changes: dict[str, Amount], findings: Iterable[Finding], command: tuple[str, ...]) -> Finding:
        """Return what differs most of all that is not a finding, and what was compared."""
        said = {one.subject for one in findings if abs(one.weight) >= LEAST_WEIGHT}
        rest = {name: change for name, change in changes.items() if name not in said}
        name = max(rest, key=lambda one: (abs(rest[one].value), one), default="")
        other, plural = "other " if said else "", "" if self.n_common == 1 else "s"
        common = f"; {self.n_common:,} {self.what}{plural} in common were compared."
        if not name or not rest[name].value:
            equal: Sentence = (f"No {other}{self.what} differs", common)
            return Finding("same", "", 0.0, equal, Amount(0.0, ""), command)
        change = Amount(abs(rest[name].value), rest[name].unit)
        share = change.value / self.whole if self.whole > 0 else 0.0
        most: Sentence = (f"{label(name)} differs most, by ", change, self.where, common)
        if share < LEAST_WEIGHT:
            most = (f"No {other}{self.what} differs by ", percent(LEAST_WEIGHT), " of the time: ", *most)
        else:
            most = ("Of the others, " if said else "", *most)
        return Finding("same", name, share, most, change, command)


def _say_both(
    what: str, names: Sequence[str], shares: Sequence[float], inputs: Sequence[str], command: tuple[str, ...]
) -> Finding:
    """Return what has most of both runs."""
    ends, of = short_names(inputs), " of the time of kernels" if what == "kernel" else ""
    if names[0] == names[1]:
        said: Sentence = (f"{label(names[0])} has most{of} in both runs: ", percent(shares[0]), " of the first, ")
        said = (*said, percent(shares[1]), " of the second.")
    else:
        said = (f"{label(names[0])} has most{of} in {ends[0]}, ", percent(shares[0]), f", and {label(names[1])} in ")
        said = (*said, f"{ends[1]}, ", percent(shares[1]), ".")
    return Finding(what, names[1], 0.0, said, percent(shares[1]), command)


# -- profiles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ProgramChange:
    """What functions cost in two runs; costs of the right one times `factor` have the unit of the left one."""

    left: Program
    right: Program
    factor: float
    notes: tuple[str, ...]

    def explain(self) -> Explanation:
        unit = self.left.metric.unit
        before, after = Amount(self.left.total, unit), Amount(self.right.total * self.factor, unit)
        verb, what = "takes" if self._is_alike else "costs", f"of {self.left.metric.name} in all{self._say_sizes()}"
        headline = _say_total(self._inputs, verb, before, after, what, *self._chosen)
        findings = [*self._functions(), *self._imbalance(), *self._waiting(), *self._scaling()]
        return Explanation.of(headline, findings, self.notes, self._compare_most(findings))

    @property
    def _inputs(self) -> tuple[str, str]:
        return input_of(self.left.experiment), input_of(self.right.experiment)

    @property
    def _chosen(self) -> tuple[str, ...]:
        return ("-m", self.left.asked) if self.left.asked else ()

    def _diff(self, *words: str) -> tuple[str, ...]:
        return ("diff", *self._inputs, *words, *self._chosen)

    @property
    def _is_alike(self) -> bool:
        """Whether both are times of as many ranks or threads."""
        one_size = len(self.left.entities) == len(self.right.entities) and not self._sizes
        return self.left.metric.is_time and one_size

    @cached_property
    def _sizes(self) -> tuple[int, int] | None:
        """On how many processes the runs were, whose costs are known as sums over all of them; None if as many."""
        one, other = (count_processes(e, e.profiles.measured) for e in (self.left.experiment, self.right.experiment))
        several = max(len(self.left.entities), len(self.right.entities)) > 1
        return None if several or one == other or one is None or other is None else (one, other)

    def _say_sizes(self) -> str:
        return f", with {self._sizes[1]:,} processes instead of {self._sizes[0]:,}" if self._sizes else ""

    @property
    def _sign(self) -> float:
        """1 where the right run takes longer, -1 where it takes less."""
        return -1.0 if self._change < -SAME * self.left.mean else 1.0

    @property
    def _change(self) -> float:
        return self.right.mean * self.factor - self.left.mean

    @property
    def _excess(self) -> float:
        """By how much the excess of the slowest grew; 0 of runs that are not divided alike."""
        several = min(len(self.left.entities), len(self.right.entities)) > 1
        return self.right.excess * self.factor - self.left.excess if several else 0.0

    @property
    def _where(self) -> str:
        if self._sizes:
            return " over all processes"
        return f" on each {self.right.over}" if len(self.right.entities) > 1 else ""

    def _weigh(self, change: float) -> float:
        """Return what a change is of the time of the left run, in the direction of the change of the whole."""
        if not self.left.mean > 0:
            return 0.0
        same = abs(self._change) <= SAME * self.left.mean
        return abs(change) / self.left.mean if same else self._sign * change / self.left.mean

    def _means(self, name: str) -> tuple[float, float]:
        return float(self.left.of(name).mean()), float(self.right.of(name).mean()) * self.factor

    @cached_property
    def _explained(self) -> float:
        """How much of the waiting that was added, or is gone, is due to the slowest."""
        changes = [self._means(name) for name in self._names if self._is_waiting(name)]
        waiting = sum(after - before for before, after in changes)
        return max(0.0, min(self._excess, waiting)) if waiting > 0 else min(0.0, max(self._excess, waiting))

    @cached_property
    def _names(self) -> Sequence[str]:
        return tuple(dict.fromkeys((*self.left.names, *self.right.names)))

    def _is_waiting(self, name: str) -> bool:
        side = self.right if name in self.right.row else self.left
        return bool(side.waits[side.row[name]])

    def _functions(self) -> Iterator[Finding]:
        """Yield what became slower, faster, new or gone. Of what waits, that is left which nobody is waited for."""
        means = {name: self._means(name) for name in self._names}
        waiting = sum(after - before for name, (before, after) in means.items() if self._is_waiting(name))
        left_over = 1 - self._explained / waiting if waiting else 1.0
        counts = self._count_calls()
        for name, (before, after) in means.items():
            is_waiting = self._is_waiting(name)
            weight = self._weigh((after - before) * (left_over if is_waiting else 1.0))
            amounts = Amount(before, self.left.metric.unit), Amount(after, self.left.metric.unit)
            cause = "new" if not before else "gone" if not after else "communication" if is_waiting else "function"
            said = self._say_function(name, *amounts, counts.get(name))
            number = Amount(after - before, self.left.metric.unit)
            yield Finding(cause, name, weight, said, number, self._show_function(name))

    def _compare_most(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield what differs most beside what was said, and what costs most in both runs."""
        means = {name: self._means(name) for name in self._names}
        both = sum(name in self.left.row and name in self.right.row for name in means)
        changes = {name: Amount(after - before, self.left.metric.unit) for name, (before, after) in means.items()}
        rest = _Rest("function", both, self.left.mean, self._where)
        yield rest.say(changes, findings, self._diff())
        names = [max(means, key=lambda name, of=side: (means[name][of], name)) for side in (0, 1)]  # type: ignore[misc]
        whole = self.left.mean, self.right.mean * self.factor
        shares = [means[name][side] / max(whole[side], 1e-300) for side, name in enumerate(names)]
        yield _say_both("function", names, shares, self._inputs, self.right.command("tree", "--callers-of", names[1]))

    def _show_function(self, name: str) -> tuple[str, ...]:
        """Return the command that shows a function: in both runs, or in the one that has it."""
        if name in self.left.row and name in self.right.row:
            return self._diff("--name", name)
        return (self.left if name in self.left.row else self.right).command("tree", "--callers-of", name)

    def _say_function(self, name: str, before: Amount, after: Amount, calls: tuple[float, float] | None) -> Sentence:
        """Return what became of a function; only time is taken, all else is had."""
        verb, past, more = ("takes", "took", "longer") if self.left.metric.is_time else ("has", "had", "more")
        if not before.value:
            return (f"{label(name)} is new, and {verb} ", after, f"{self._where}.")
        if not after.value:
            return (f"{label(name)} is gone, which {past} ", before, f"{self._where}.")
        word = more if after.value > before.value else "less"
        change = Amount(abs(after.value - before.value), after.unit)
        said: Sentence = (f"{label(name)} {verb} ", change, f" {word}{self._where}: ", after, " instead of ", before)
        return (*said, *_say_calls(before.value, after.value, calls), ".")

    def _count_calls(self) -> dict[str, tuple[float, float]]:
        """Return how often a rank calls functions in both runs, where both say so."""
        sides = self.left.experiment, self.right.experiment
        for name in COUNTS:
            if name != self.left.metric.name and all(name in side.metrics.quantities for side in sides):
                programs = [read_program(side, name) for side in sides]
                sums = [dict(zip(one.names, one.cells.mean(axis=1).tolist(), strict=True)) for one in programs]
                return {function: (sums[0][function], sums[1][function]) for function in sums[0] if function in sums[1]}
        return {}

    def _imbalance(self) -> Iterator[Finding]:
        n = len(self.right.entities)
        if not self._excess:
            return
        slowest, function = self._find_slowest()
        weight = self._weigh(self._excess * n / (n - 1))
        unit, over = self.left.metric.unit, self.right.over
        before, after = Amount(self.left.excess, unit), Amount(self.right.excess * self.factor, unit)
        if self._excess > 0:
            said: Sentence = (f"Work is less even: {slowest} has ", after, f" more of it than the mean {over}, ")
            said = (*said, before, f" before, most of that in {label(function)}.")
        else:
            said = (
                f"Work is more even: the slowest {over} has ",
                after,
                " more of it than the mean, instead of ",
                before,
            )
            said = (*said, ".")
        command = self.right.command("imbalance", "--over", over)
        yield Finding("imbalance", slowest, weight, said, Amount(self._excess, unit), command)

    def _find_slowest(self) -> tuple[str, str]:
        """Return who has the most work in the right run, and the function that was added there beyond the mean."""
        slowest = int(np.argmax(self.right.work))
        growth = {
            name: float(self.right.of(name)[slowest] - self.right.of(name).mean()) * self.factor
            - spread_of(self.left.of(name))
            for name in self.right.names
            if not self._is_waiting(name)
        }
        return self.right.entities[slowest], max(growth, key=lambda name: (growth[name], name), default="")

    def _waiting(self) -> Iterator[Finding]:
        """Yield where the others wait for the slowest, which is no cause of its own."""
        changes = {
            name: after - before
            for name in self._names
            if self._is_waiting(name)
            for before, after in [self._means(name)]
        }
        if self._explained <= 0 or not changes:
            return
        name = max(changes, key=lambda one: (changes[one], one))
        slowest, unit = self.right.entities[int(np.argmax(self.right.work))], self.left.metric.unit
        more = Amount(self._explained, unit)
        said: Sentence = (f"The others wait for {slowest} in {label(name)}: ", more, f" more{self._where}.")
        command = self.right.command("top", "--name", name, "--columns", self.right.over)
        yield Finding(
            "waiting", name, min(self._weigh(self._explained), self._weigh(self._excess)), said, more, command
        )

    def _scaling(self) -> Iterator[Finding]:
        """Yield what more processes cost, where there are more: of all, and of the function that loses most."""
        n_left, n_right = len(self.left.entities), len(self.right.entities)
        if self.right.over != "rank" or n_left == n_right or n_left < 2 or not self.right.total:
            return
        efficiency = self.left.total / (self.right.total * self.factor)
        lost = {name: self._means(name)[1] * n_right - self._means(name)[0] * n_left for name in self._names}
        worst = max(lost, key=lambda name: (lost[name], name))
        share = lost[worst] / (self.right.total * self.factor)
        said: Sentence = (f"{n_right} ranks instead of {n_left}: an efficiency of ", percent(efficiency))
        said = (
            *said,
            " where the problem is the same; most is lost in ",
            label(worst),
            ", ",
            percent(share),
            " of the run.",
        )
        command = self._diff("--scaling", "strong", "--sort", "loss")
        yield Finding("scaling", worst, abs(1 - efficiency), said, percent(efficiency), command)


def _say_calls(before: float, after: float, calls: tuple[float, float] | None) -> Sentence:
    """Say whether something is done more often, or takes longer each time."""
    if calls is None or not min(calls) > 0:
        return ()
    often = calls[1] / calls[0]
    each = (after / before) / often
    if abs(often - 1) > OFTEN and abs(often - 1) >= abs(each - 1):
        return (", done ", times(often), " as often")
    return (", each time ", times(each), " as long") if abs(each - 1) > OFTEN else ()


# -- devices -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _DeviceChange:
    """What devices did in two runs; times are those of the mean device."""

    left: Devices
    right: Devices

    def explain(self) -> Explanation:
        before, after = Amount(self.left.wall_ns, NS), Amount(self.right.wall_ns, NS)
        names = input_of(self.left.experiment), input_of(self.right.experiment)
        headline = _say_total(names, "takes", before, after, f"on {_count_gpus(len(self.right.sums))}")
        findings = [*self._kernels(), *self._copies(), *self._imbalance(), *self._pauses()]
        return Explanation.of(headline, findings, (), self._compare_most(findings))

    def _compare_most(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield which kernel differs most beside what was said, which takes longest in both runs, and how busy GPUs
        are."""
        inputs = input_of(self.left.experiment), input_of(self.right.experiment)
        kernels = self.left.kernels, self.right.kernels
        changes = {name: Amount(change, NS) for name, change in self._changes("kernels").items()}
        if all(kernels):
            rest = _Rest("kernel", len(kernels[0].keys() & kernels[1].keys()), float(self.left.wall_ns), " on each GPU")
            yield rest.say(changes, findings, self._summary("--section", "kernels"))
            names = [max(side, key=lambda name, of=side: (of[name].total_ns, name)) for side in kernels]  # type: ignore[misc]
            totals = [max(1, sum(one.total_ns for one in side.values())) for side in kernels]
            shares = [kernels[side][name].total_ns / totals[side] for side, name in enumerate(names)]
            yield _say_both("kernel", names, shares, inputs, self._summary("--section", "kernels"))
        busy = [sum(one.busy_ns for one in side.sums) for side in (self.left, self.right)]
        times_ns = [max(1, len(side.sums) * side.wall_ns) for side in (self.left, self.right)]
        before, after = (percent(one / whole) for one, whole in zip(busy, times_ns, strict=True))
        said: Sentence = ("GPUs are busy for ", after, " of the time, instead of ", before, ".")
        yield Finding("total", "busy", 0.0, said, after, self._summary("--section", "busy"))

    @property
    def _change(self) -> float:
        return float(self.right.wall_ns - self.left.wall_ns)

    def _weigh(self, change: float) -> float:
        """Return what a change is of the time of the left run, in the direction of the change of the whole."""
        wall = max(1, self.left.wall_ns)
        if abs(self._change) <= SAME * wall:
            return abs(change) / wall
        return float(np.sign(self._change)) * change / wall

    def _part(self, part: str) -> float:
        """Return by how much a part of the time grew."""
        return _mean(self.right.parts[part]) - _mean(self.left.parts[part])

    @property
    def _excess(self) -> float:
        """By how much more work the busiest device has than the mean, compared with before."""
        if min(len(self.left.sums), len(self.right.sums)) < 2:
            return 0.0
        return spread_of(self.right.work_ns) - spread_of(self.left.work_ns)

    def _summary(self, *words: str) -> tuple[str, ...]:
        return ("summary", input_of(self.right.experiment), *words)

    def _changes(self, kind: str) -> dict[str, float]:
        """Return by how much the operations of each name grew, on the mean device."""
        left, right = getattr(self.left, kind), getattr(self.right, kind)
        n_left, n_right = len(self.left.sums), len(self.right.sums)
        return {
            name: right.get(name, Operation()).total_ns / n_right - left.get(name, Operation()).total_ns / n_left
            for name in dict.fromkeys((*left, *right))
        }

    def _say_operation(self, kind: str, name: str) -> Sentence:
        """Return what became of operations of one name."""
        before = getattr(self.left, kind).get(name, Operation())
        after = getattr(self.right, kind).get(name, Operation())
        sizes: Sentence = (", ", Amount(after.n_bytes, "bytes")) if after.n_bytes else ()
        if not before.count:
            said: Sentence = (
                f"{label(name)} is new: {after.count:,} times, ",
                Amount(after.total_ns, NS),
                " in all",
                *sizes,
                ".",
            )
            return said
        if not after.count:
            return (f"{label(name)} is gone, which took ", Amount(before.total_ns, NS), " in all.")
        word = "longer" if after.total_ns > before.total_ns else "less"
        change = Amount(abs(after.total_ns - before.total_ns), NS)
        said = (f"{label(name)} takes ", change, f" {word} in all: ", Amount(after.total_ns, NS), " instead of ")
        calls = _say_calls(before.total_ns, after.total_ns, (before.count, after.count))
        return (*said, Amount(before.total_ns, NS), *calls, ".")

    def _kernels(self) -> Iterator[Finding]:
        changes = self._changes("kernels")
        added, compute = sum(changes.values()), self._part("compute")
        scale = min(1.0, max(0.0, compute / added)) if added else 1.0
        for name in _largest(changes):
            said = self._say_operation("kernels", name)
            number = Amount(changes[name], NS)
            side = self.right if name in self.right.kernels else self.left
            command = ("summary", input_of(side.experiment), "--section", "kernels", "--name", name)
            yield Finding("kernel", name, self._weigh(changes[name] * scale), said, number, command)

    def _copies(self) -> Iterator[Finding]:
        """Yield what became of copies that nothing hides: they are more, or less of them is hidden."""
        before, after = _mean(self.left.hidden_ns), _mean(self.right.hidden_ns)
        copying = after + _mean(self.right.parts["copy"])
        could = min(before, copying, _mean(self.right.parts["compute"] + self.right.parts["exchange"]) + after)
        lost = max(0.0, could - after)
        if lost:
            shares = [hidden / max(1.0, hidden + _mean(side.parts["copy"])) for hidden, side in self._hidden]
            said: Sentence = ("Copies no longer run beside kernels: ", percent(shares[1]), " of their time is hidden, ")
            said = (*said, percent(shares[0]), " before, and ", Amount(lost, NS), " more of it is waited for.")
            yield Finding(
                "overlap", "copies", self._weigh(lost), said, Amount(lost, NS), self._summary("--section", "overlap")
            )
        changes, alone = self._changes("copies"), self._part("copy") - lost
        for name in _largest(changes)[:1]:
            said = self._say_operation("copies", name)
            number = Amount(changes[name], NS)
            yield Finding("copy", name, self._weigh(alone), said, number, self._summary("--section", "copies"))

    @property
    def _hidden(self) -> tuple[tuple[float, Devices], ...]:
        return tuple((_mean(side.hidden_ns), side) for side in (self.left, self.right))

    def _imbalance(self) -> Iterator[Finding]:
        n = len(self.right.sums)
        if not self._excess:
            return
        device = int(np.argmax(self.right.work_ns))
        name, kernel = self.right.names[device], self.right.blame(device)
        before, after = (Amount(spread_of(side.work_ns), NS) for side in (self.left, self.right))
        if self._excess > 0:
            said: Sentence = (f"Work is less even: {name} is busy for ", after, " more than the mean GPU, ", before)
            said = (*said, f" before, most of that in {label(kernel)}.")
        else:
            said = ("Work is more even: the busiest GPU has ", after, " more than the mean, instead of ", before, ".")
        weight = self._weigh(self._excess * n / (n - 1))
        command = ("imbalance", input_of(self.right.experiment), "--over", "gpu")
        yield Finding("imbalance", name, weight, said, Amount(self._excess, NS), command)

    def _pauses(self) -> Iterator[Finding]:
        """Yield idle time, exchanges and what lies outside, less what devices wait there for the busiest of them."""
        changes = {part: self._part(part) for part in ("exchange", "idle", "outside")}
        together = sum(changes.values())
        explained = max(0.0, min(self._excess, together)) if together > 0 else min(0.0, max(self._excess, together))
        left_over = 1 - explained / together if together else 1.0
        for part, change in changes.items():
            said, words = self._say_pause(part)
            cause = {"exchange": "communication", "idle": "gap", "outside": "host"}[part]
            yield Finding(cause, part, self._weigh(change * left_over), said, Amount(change, NS), self._summary(*words))

    def _say_pause(self, part: str) -> tuple[Sentence, tuple[str, ...]]:
        before, after = (Amount(_mean(side.parts[part]), NS) for side in (self.left, self.right))
        amounts: Sentence = (after, " instead of ", before)
        if part == "exchange":
            return ("GPUs exchange data and compute nothing for ", *amounts, "."), ("--section", "kernels")
        if part == "outside":
            said: Sentence = ("Before the first and after the last operation of a GPU pass ", *amounts, ".")
            return said, ("--section", "busy")
        return ("Gaps between operations of a GPU take ", *amounts, *self._say_causes(), "."), (
            "--section",
            "longest-gaps",
        )

    def _say_causes(self) -> Sentence:
        """Return what most of the gaps are due to, and where the longest one is."""
        said: Sentence = ()
        if causes := {cause: ns for cause, ns in self.right.causes_ns.items() if cause != "unknown" and ns > 0}:
            cause = max(causes, key=lambda one: (causes[one], one))
            share = causes[cause] / max(1, sum(self.right.causes_ns.values()))
            said = (", ", percent(share), f" of that as {CAUSES[cause]}")
        if self.right.longest is not None:
            place, length, start = self.right.longest
            said = (
                *said,
                "; the longest has ",
                Amount(length, NS),
                f", on {place}, ",
                Amount(start, NS),
                " after the start",
            )
        return said


CAUSES = {
    "host late": "the host launches nothing",
    "launching": "launching takes long",
    "queued": "operations wait in queues",
}


def _mean(times_ns: Floats) -> float:
    return float(times_ns.mean()) if len(times_ns) else 0.0


def _largest(changes: dict[str, float]) -> list[str]:
    """Return the names with the largest changes."""
    return sorted(changes, key=lambda name: (-abs(changes[name]), name))[:MOST_OPERATIONS]


def _count_gpus(n: int) -> str:
    return "1 GPU" if n == 1 else f"{n:,} GPUs"
