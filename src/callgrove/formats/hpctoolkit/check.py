"""What `check` verifies in a database: its parts against each other, and the stored summary against the threads.

profile.db == cct.db        every value of every thread, bit for bit, the file's root included
summary == threads          sums per context, at loops by the rule of `statistics`; statistics that genuine tools are
                            known to get wrong are notes
tree                        inclusive at the roots == the file's root, also in the summary == computed exclusive over
                            the tree
traces                      time order, contexts that exist, the announced first and last time
sources                     copies that are not links to files outside of the database
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from callgrove.arrays import Bools, Floats, Ints, Offsets
from callgrove.binary.files import Source
from callgrove.errors import CallgroveError, CorruptFile, count_of
from callgrove.execute import Progress, silent
from callgrove.formats.hpctoolkit.values import DatabaseSamples, DatabaseValues, SparseBlocks
from callgrove.formats.interface import Problem
from callgrove.model.computed_values import Recipe, recipe
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Metric, Scope
from callgrove.model.traces.events import Window
from callgrove.model.values import SparseBlock

__all__ = ["TOLERANCE", "combine_threads", "pair_text", "problems", "problems_of_samples", "problems_of_summaries"]


# -- the stored summary against the threads ----------------------------------------------------------------------------
# Genuine writers are known to get some statistics wrong: the sum of squares holds plain sums, minima depend on the
# order of threads, counts include threads that touch a context in any scope. Such a difference is a note; a wrong sum
# is damage. In lexical scope a loop of the summary has its function scope less that of the loops nested in it, which
# threads do not subtract. Threads are streamed once per batch of metrics, so that memory is bounded however many
# metrics and contexts there are.


TOLERANCE = 1e-9  # relative to the parts of a sum, which may have been added in another order
BATCH_CELLS = 1_000_000  # contexts x metrics that are combined in one pass over the threads
DEFECTS = {
    "count": "the writer counts threads that touch the context in any scope",
    "min": "the writer's minima depend on the order of threads",
}


@dataclass(frozen=True)
class Combined:
    """What the threads say about one metric, per context. `parts` adds up absolute values: the scale of rounding."""

    total: Floats
    parts: Floats
    squares: Floats
    count: Floats
    low: Floats
    high: Floats

    def statistic(self, name: str) -> Floats | None:
        named = {"": self.total, "sum of squares": self.squares, "count": self.count, "min": self.low, "max": self.high}
        return named.get(name)


def problems_of_summaries(experiment: Experiment, values: DatabaseValues) -> Iterator[Problem]:
    """Yield every metric of a stored summary that differs from the threads."""
    for summary in experiment.profiles.summaries.tolist():
        if values.by_profile is None or values.by_profile.broken[summary]:
            continue
        stored = values.profile(summary)
        measured = ((k, m) for k, m in enumerate(experiment.metrics) if m.derivation is None)
        bases = {k: experiment.metrics.find(m.name, m.scope) for k, m in measured}
        for base, threads in combine_threads(experiment, sorted({base for base in bases.values() if base is not None})):
            for row in (k for k, of in bases.items() if of == base and values.belongs_in_summary(k)):
                part = stored.take(stored.metric == row)
                have = np.zeros(len(experiment.contexts))
                have[part.context] = part.value
                yield from _difference(experiment, values, summary, experiment.metrics[row], have, threads)
            yield from _at_loops(experiment, values, summary, stored, base, threads)


def _at_loops(
    experiment: Experiment, values: DatabaseValues, summary: int, stored: SparseBlock, base: int, threads: Combined
) -> Iterator[Problem]:
    """Compare the lexical scope of the summary at loops, which follows from function scope of the threads."""
    metrics, tree = experiment.metrics, experiment.contexts
    row = metrics.find(metrics[base].name, Scope.LEXICAL)
    if metrics[base].scope != Scope.FUNCTION or row is None or not values.belongs_in_summary(row):
        return
    part = stored.take(stored.metric == row)
    have = np.zeros(len(tree))
    have[part.context] = part.value
    want = Recipe(base, metrics[base], Scope.LEXICAL).apply(threads.total, tree)
    same = _close(have, want, threads.parts) | (tree.kind != ContextKind.LOOP)
    yield from _report_wrong(experiment, values, summary, metrics[row], np.flatnonzero(~same), have, want)


def combine_threads(experiment: Experiment, rows: list[int]) -> Iterator[tuple[int, Combined]]:
    """Yield what the threads say about each of some metrics, in passes over the threads of bounded memory."""
    step = max(1, BATCH_CELLS // max(1, len(experiment.contexts)))
    for first in range(0, len(rows), step):
        batch = rows[first : first + step]
        yield from zip(batch, _combine(experiment, batch), strict=True)


def _combine(experiment: Experiment, rows: list[int]) -> list[Combined]:
    """Combine some metrics in one pass over the threads."""
    n = len(experiment.contexts)
    shape = (len(rows), n)
    total, parts, squares, count = (np.zeros(shape) for _ in range(4))
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    place = np.full(len(experiment.metrics), -1)
    place[rows] = np.arange(len(rows))
    for block in experiment.values.blocks(experiment.profiles.measured, np.array(rows)):
        part = block.triples()
        at = (place[part.metric], part.context)
        with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
            np.add.at(total, at, part.value)
            np.add.at(parts, at, np.abs(part.value))
            np.add.at(squares, at, part.value**2)
            np.add.at(count, at, 1)
            np.minimum.at(low, at, part.value)
            np.maximum.at(high, at, part.value)
    low[count == 0] = high[count == 0] = 0
    return [Combined(*(a[k] for a in (total, parts, squares, count, low, high))) for k in range(len(rows))]


def _close(a: Floats, b: Floats, scale: Floats) -> Bools:
    with np.errstate(invalid="ignore", over="ignore"):
        near: Bools = np.abs(a - b) <= TOLERANCE * scale
    same: Bools = near | (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def _difference(
    experiment: Experiment, values: DatabaseValues, summary: int, metric: Metric, have: Floats, threads: Combined
) -> Iterator[Problem]:
    want = threads.statistic(metric.statistic)
    if want is None:
        return
    scale = threads.parts if not metric.statistic else np.abs(want)
    wrong: Ints = np.flatnonzero(~_close(have, want, scale))
    if metric.scope == Scope.LEXICAL:  # genuine summaries subtract nested loops, genuine threads do not
        wrong = wrong[experiment.contexts.kind[wrong] != ContextKind.LOOP]
    defect = DEFECTS.get(metric.statistic, "")
    if metric.statistic == "sum of squares" and _close(have, threads.total, threads.parts).all():
        defect = "the writer stored plain sums"
    yield from _report_wrong(experiment, values, summary, metric, wrong, have, want, defect)


def _report_wrong(
    experiment: Experiment,
    values: DatabaseValues,
    summary: int,
    metric: Metric,
    wrong: Ints,
    have: Floats,
    want: Floats,
    defect: str = "",
) -> Iterator[Problem]:
    """Yield one problem for all contexts in which a metric of the summary is wrong; a known defect is a note."""
    if not len(wrong):
        return
    at, id_ = wrong[0], int(experiment.contexts.source_id[wrong[0]])
    what = f"{metric.name} ({', '.join(filter(None, (metric.scope.word, metric.statistic)))})"
    stored, right = pair_text(float(have[at]), float(want[at]))
    example = f"context {id_}: {stored} is stored, {right} is right"
    text = f"{what}: {count_of(len(wrong), 'context differs', 'contexts differ')} from the threads, e.g. {example}"
    assert values.by_profile is not None
    yield Problem(
        Severity.NOTE if defect else Severity.DAMAGE,
        str(values.by_profile.file.path),
        f"profile {summary}",
        f"{text} ({defect})" if defect else text,
    )


def pair_text(left: float, right: float) -> tuple[str, str]:
    """Return two numbers that differ, short where their short forms differ as well."""
    short = f"{left:g}", f"{right:g}"
    return short if short[0] != short[1] else (repr(left), repr(right))


# -- the parts of a database against each other ------------------------------------------------------------------------


def problems(experiment: Experiment, source: Source, progress: Progress = silent) -> Iterator[Problem]:
    """Yield everything that is wrong or remarkable."""
    for warning in experiment.warnings:
        yield Problem(warning.severity, str(source.path), "opening", warning.text)
    values = experiment.values.backend
    if isinstance(values, DatabaseValues):
        yield from _values(experiment, values, progress)
    progress("checking traces", 0, 1)
    yield from _run_check(_traces, experiment, values)
    yield from _check_sources(experiment)


def _check_sources(experiment: Experiment) -> Iterator[Problem]:
    """Yield copies of sources that lie, or lead by links, outside of the database: they are never read."""
    for file in experiment.sources.copies:
        try:
            experiment.sources.path(file)
        except CallgroveError as error:
            yield Problem(Severity.DAMAGE, experiment.path, "sources", str(error))


Check = Callable[[Experiment, Any], Iterator[Problem]]


def _run_check(check: Check, experiment: Experiment, values: object) -> Iterator[Problem]:
    """Yield what one check finds; damage that stops it is itself a finding."""
    try:
        yield from check(experiment, values)
    except CallgroveError as error:
        yield Problem(Severity.DAMAGE, experiment.path, check.__name__.strip("_").replace("_", " "), str(error))


def _values(experiment: Experiment, values: DatabaseValues, progress: Progress) -> Iterator[Problem]:
    """Yield what all checks of values find, and what they stepped over without a word: ids that no table names."""
    checks: tuple[Check, ...] = (_check_lone_summary, _profiles, _contexts, problems_of_summaries, _roots)
    said: set[str] = set()
    for number, check in enumerate(checks):
        progress("checking values", number, len(checks))
        for problem in _run_check(check, experiment, values):
            said.add(problem.text)
            yield problem
    for met in values.problems:
        if str(met) not in said:
            yield Problem(Severity.DAMAGE, experiment.path, "values", str(met))


def _check_lone_summary(experiment: Experiment, values: DatabaseValues) -> Iterator[Problem]:
    """Yield a problem where the summary has values although no thread has any."""
    if not values.summary_is_alone or values.by_profile is None or len(values.by_profile) < 2:
        return
    text = f"the summary has {count_of(int(values.by_profile.n_values[0]), 'value')}, and no thread has any"
    yield Problem(Severity.DAMAGE, str(values.by_profile.file.path), "profile 0", text)


def _profiles(experiment: Experiment, values: DatabaseValues) -> Iterator[Problem]:
    """Yield blocks of profile.db that cannot be read, and numbers in them that are not finite."""
    blocks = values.by_profile
    for number in [] if blocks is None else np.flatnonzero(~blocks.broken).tolist():
        assert blocks is not None
        yield from _block(blocks, number)


def _block(blocks: SparseBlocks, number: int) -> Iterator[Problem]:
    path, section = str(blocks.file.path), blocks.section(number)
    try:
        value = blocks.block(number).value
    except CorruptFile as error:
        yield Problem(Severity.DAMAGE, path, section, str(error))
        return
    if not np.isfinite(value).all():
        yield Problem(Severity.NOTE, path, section, "there are values that are not finite")


def _fingerprint(block: SparseBlock) -> Offsets:
    """Return a number per value that depends on all of it; sums of them compare multisets."""
    out = block.value.astype(np.float64).view(np.uint64)
    out = out ^ (block.profile.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    out = (out ^ (out >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    out = out ^ ((block.metric.astype(np.uint64) + np.uint64(1)) * np.uint64(0x94D049BB133111EB))
    mixed: Offsets = (out ^ (out >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return mixed


def _contexts(experiment: Experiment, values: DatabaseValues) -> Iterator[Problem]:
    """Yield blocks of cct.db that cannot be read, or hold something else than profile.db. Memory is bounded by
    the contexts."""
    blocks = values.by_context
    if blocks is None:
        return
    n, ids = len(experiment.contexts), experiment.contexts.source_id
    expected, count = np.zeros(n, np.uint64), np.zeros(n, np.int64)
    for block in values.blocks(experiment.profiles.measured) if values.by_profile is not None else ():
        part = block.triples()
        np.add.at(expected, part.context, _fingerprint(part))
        np.add.at(count, part.context, 1)
    different: list[int] = []
    listed = np.flatnonzero((ids >= 0) & (ids < len(blocks)))
    for context in listed[(count[listed] > 0) | (blocks.n_values[ids[listed]] > 0)].tolist():
        if blocks.broken[ids[context]]:
            continue  # said when the file was opened
        try:
            stored = values.context(context)
        except CorruptFile:
            yield from _block(blocks, int(ids[context]))
            continue
        if len(stored) != count[context] or _sum_of_fingerprints(stored) != expected[context]:
            different.append(context)
    if different and values.by_profile is not None:
        example = _first_difference(experiment, values.context(different[0]), values.in_profiles(different[0]))
        many = count_of(len(different), "context has", "contexts have")
        yield _differs(blocks, int(ids[different[0]]), f"{many} other values", example)
    if values.by_profile is not None and len(blocks) and not blocks.broken[0]:
        here, there = values.root_by_context(), values.root_by_profile(experiment.profiles.measured)
        if len(here) != len(there) or _sum_of_fingerprints(here) != _sum_of_fingerprints(there):
            yield _differs(blocks, 0, "the root has other values", _first_difference(experiment, here, there))


def _differs(blocks: SparseBlocks, id_: int, what: str, example: str) -> Problem:
    text = f"{what} here than in profile.db, which is believed; e.g. {example}"
    return Problem(Severity.DAMAGE, str(blocks.file.path), f"context {id_}", text)


def _first_difference(experiment: Experiment, here: SparseBlock, there: SparseBlock) -> str:
    """Return the first value of one context that cct.db and profile.db do not share, with both numbers."""
    cells = [
        {key[:2]: key[2] for key in zip(b.profile.tolist(), b.metric.tolist(), b.value.tolist(), strict=True)}
        for b in (here, there)
    ]
    keys = sorted(k for k in cells[0].keys() | cells[1].keys() if cells[0].get(k, 0.0) != cells[1].get(k, 0.0))
    if not keys:
        return f"{len(here)} and {len(there)} values"
    profile, row = keys[0]
    metric = experiment.metrics[row]
    left, right = pair_text(*(float(values_of_side.get(keys[0], 0.0)) for values_of_side in cells))
    return f"{metric.name} ({metric.scope.word}) of profile {profile}: {left} here, {right} there"


def _sum_of_fingerprints(block: SparseBlock) -> int:
    return int(np.add.reduce(_fingerprint(block), dtype=np.uint64))


def _roots(experiment: Experiment, values: DatabaseValues) -> Iterator[Problem]:
    """Yield metrics that are not the same at the roots, in the file's own root, and as exclusive cost over the tree."""
    metrics, tree = experiment.metrics, experiment.contexts
    if not tree.n_listed:
        return
    measured = [quantity for quantity in metrics.quantities if metrics.first(quantity).derivation is None]
    inclusive = {row: q for q in measured if (row := metrics.find(q, Scope.INCLUSIVE)) is not None}
    at_root = _at_root(experiment, values)
    totals: dict[str, Floats] = {}
    for row, threads in combine_threads(experiment, sorted(inclusive)):
        totals[inclusive[row]] = threads.total[tree.roots]
        if at_root:
            numbers = at_root.get(row, np.zeros(0))
            yield from _unequal(experiment, inclusive[row], totals[inclusive[row]], numbers, "the file's own root")
            yield from _root_of_summary(experiment, values, row, numbers)
    function = {row: q for q in totals if (row := metrics.find(q, Scope.FUNCTION)) is not None}
    for row, threads in combine_threads(experiment, sorted(function)):
        numbers = recipe(metrics, function[row], Scope.EXCLUSIVE).apply(threads.total, tree)[: tree.n_listed]
        yield from _unequal(experiment, function[row], totals[function[row]], numbers, "exclusive over the tree")


def _root_of_summary(experiment: Experiment, values: DatabaseValues, row: int, threads: Floats) -> Iterator[Problem]:
    """Yield a problem where the summary's root is not the sum of the roots of the threads."""
    for summary in experiment.profiles.summaries.tolist():
        if not values.summarises(row):
            continue
        rows, numbers = values.root(summary)
        numbers_of_row = numbers[rows == row]
        yield from _unequal(
            experiment, experiment.metrics[row].name, threads, numbers_of_row, "the summary's root", "threads' root"
        )


def _at_root(experiment: Experiment, values: DatabaseValues) -> dict[int, Floats]:
    """Return what the file's own root says about each metric, one number per profile."""
    numbers_of: dict[int, list[float]] = {}
    for profile in experiment.profiles.measured.tolist():
        try:
            rows, numbers = values.root(profile)
        except CorruptFile:
            continue  # reported with the blocks
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            numbers_of.setdefault(row, []).append(number)
    return {row: np.array(numbers) for row, numbers in numbers_of.items()}


def _unequal(
    experiment: Experiment,
    quantity: str,
    roots: Floats,
    other: Floats,
    what: str,
    which: str = "roots",
) -> Iterator[Problem]:
    """Yield a problem, unless both add up to the same; rounding is relative to the parts."""
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        left, right = float(roots.sum()), float(other.sum())
        scale = float(np.abs(roots).sum() + np.abs(other).sum())
    if not (abs(left - right) <= TOLERANCE * scale or left == right or (np.isnan(left) and np.isnan(right))):
        roots_text, other_text = pair_text(left, right)
        text = f"{quantity}: inclusive at the {which} is {roots_text}, {what} is {other_text}"
        yield Problem(Severity.DAMAGE, experiment.path, "tree", text)


def _traces(experiment: Experiment, values: object) -> Iterator[Problem]:
    """Yield samples out of time order, on unknown contexts, or beyond the announced times. These may be longer: they
    are those of the measurement, of whose idle samples not all are stored."""
    samples = experiment.traces.samples
    if not isinstance(samples, DatabaseSamples):
        return
    first: list[int] = []
    last: list[int] = []
    yield from _numbers_of_samples(experiment, values, samples)
    for profile, _, line in experiment.traces.lines():
        if not len(line):
            continue
        if (np.diff(line.time_ns) < 0).any():
            yield Problem(Severity.DAMAGE, experiment.path, f"trace of profile {profile}", "time runs backwards")
        first.append(int(line.time_ns.min()))
        last.append(int(line.time_ns.max()))
    time_range = (min(first), max(last)) if first else None
    yield from problems_of_samples(experiment, samples.unknown, time_range, Severity.DAMAGE)


def _numbers_of_samples(experiment: Experiment, values: object, samples: DatabaseSamples) -> Iterator[Problem]:
    """Yield samples on numbers that no context can have: cct.db numbers them all."""
    blocks = values.by_context if isinstance(values, DatabaseValues) else None
    if blocks is None:
        return
    for line, profile in enumerate(samples.profile.tolist()):
        largest = int(samples.ids(line).max(initial=0))
        known = int(experiment.contexts.source_id.max(initial=0))
        if largest >= len(blocks) and largest > known:
            text = f"a sample is on context {largest}; cct.db ends with context {len(blocks) - 1}"
            yield Problem(Severity.DAMAGE, experiment.path, f"trace of profile {profile}", text)


def problems_of_samples(
    experiment: Experiment, n_unknown: int, time_range: Window | None, severity: Severity
) -> Iterator[Problem]:
    """Yield samples on contexts that are not there, and before or after the times that the database announces."""
    if n_unknown:
        text = f"{count_of(n_unknown, 'sample')} on unknown contexts, read as idle"
        yield Problem(Severity.NOTE, experiment.path, "traces", text)
    said = experiment.traces.time_range
    if time_range is not None and said is not None and not (said[0] <= time_range[0] and time_range[1] <= said[1]):
        text = f"samples run from {time_range[0]} to {time_range[1]}; the database announces {said[0]} to {said[1]}"
        yield Problem(severity, experiment.path, "traces", text)
