"""What `check` verifies in a database, beyond what reading already demands.

profile.db == cct.db        every value of every thread, bit for bit
summary == threads          sums per context; statistics that genuine tools are known to get wrong are notes
tree                        inclusive at the roots == the file's root == computed exclusive over the tree
traces                      time order, known contexts, the announced first and last time
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.binary.sources import Source
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.hpctoolkit.samples import DatabaseSamples
from callgrove.formats.hpctoolkit.values import DatabaseValues
from callgrove.formats.interface import Problem
from callgrove.model.arrays import Array, Bools, Floats, Ints, Offsets
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Scope
from callgrove.model.values import SparseBlock

__all__ = ["problems"]

TOLERANCE = 1e-9  # relative, for sums that may have been added in another order


def problems(experiment: Experiment, source: Source) -> Iterator[Problem]:
    """Everything that is wrong or remarkable."""
    for warning in experiment.warnings:
        yield Problem(warning.severity, str(source.path), "opening", warning.text)
    values = experiment.values.backend
    if isinstance(values, DatabaseValues):
        yield from _guarded(_blocks, experiment, values)
        yield from _guarded(_both_orders, experiment, values)
        yield from _guarded(_summary, experiment, values)
        yield from _guarded(_roots, experiment, values)
    yield from _guarded(_traces, experiment, values)


def _guarded(check, experiment: Experiment, values: object) -> Iterator[Problem]:  # type: ignore[no-untyped-def]
    """One check; damage that stops it is itself a finding."""
    try:
        yield from check(experiment, values)
    except CallgroveError as error:
        yield Problem(Severity.DAMAGE, experiment.path, check.__name__.strip("_").replace("_", " "), str(error))


def _blocks(experiment: Experiment, values: DatabaseValues) -> Iterator[Problem]:
    """Every block of both files can be read, and holds finite numbers."""
    for blocks in (values.by_profile, values.by_context):
        if blocks is None:
            continue
        for number in np.flatnonzero(~blocks.broken).tolist():
            try:
                block = blocks.block(number)
            except CorruptFile as error:
                yield Problem(Severity.DAMAGE, str(blocks.file.path), blocks.section(number), str(error))
                continue
            if not np.isfinite(block.value).all():
                yield Problem(
                    Severity.NOTE, str(blocks.file.path), blocks.section(number), "there are values that are not finite"
                )


def _fingerprint(block: SparseBlock) -> Offsets:
    """A number per value that depends on all of it; sums of them compare multisets."""
    out = block.value.astype(np.float64).view(np.uint64)
    out = out ^ (block.profile.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    out = (out ^ (out >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    out = out ^ ((block.metric.astype(np.uint64) + np.uint64(1)) * np.uint64(0x94D049BB133111EB))
    mixed: Offsets = (out ^ (out >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return mixed


def _both_orders(experiment: Experiment, values: DatabaseValues) -> Iterator[Problem]:
    """profile.db and cct.db hold the same values; memory is bounded by the number of contexts."""
    if values.by_profile is None or values.by_context is None:
        return
    n = len(experiment.contexts)
    expected, count = np.zeros(n, np.uint64), np.zeros(n, np.int64)
    for block in values.blocks(experiment.profiles.measured):
        part = block.triples()
        np.add.at(expected, part.context, _fingerprint(part))
        np.add.at(count, part.context, 1)
    different: list[int] = []
    for context in range(n):
        try:
            other = values.context(context)
        except CorruptFile:
            continue  # reported with the blocks
        same = len(other) == count[context]
        if not same or np.add.reduce(_fingerprint(other), dtype=np.uint64) != expected[context]:
            different.append(context)
    if different:
        yield Problem(
            Severity.DAMAGE,
            str(values.by_context.file.path),
            f"context {int(experiment.contexts.source_id[different[0]])}",
            f"{len(different)} contexts have other values here than in profile.db, which is believed",
        )


def _close(a: Floats, b: Floats) -> Bools:
    out: Bools = np.abs(a - b) <= TOLERANCE * np.maximum(np.abs(a), np.abs(b))
    return out | (np.isnan(a) & np.isnan(b))


def _summary(experiment: Experiment, values: DatabaseValues) -> Iterator[Problem]:
    """The summary profile against what the threads say."""
    for summary in experiment.profiles.summaries.tolist():
        if values.by_profile is None or values.by_profile.broken[summary]:
            continue
        stored = values.profile(summary)
        for row, metric in enumerate(experiment.metrics):
            part = stored.take(stored.metric == row)
            have = np.zeros(len(experiment.contexts))
            have[part.context] = part.value
            base = row if not metric.statistic else experiment.metrics.find(metric.name, metric.scope)
            if base is None or not (len(part) or not metric.statistic):
                continue
            want, defect = _combined(experiment, base, metric.statistic, have)
            wrong = np.flatnonzero(~_close(have, want))
            if metric.scope == Scope.LEXICAL:  # genuine summaries subtract nested loops, genuine threads do not
                wrong = wrong[experiment.contexts.kind[wrong] != ContextKind.LOOP]
            if len(wrong):
                what = f"{metric.name} ({metric.scope.word}{', ' + metric.statistic if metric.statistic else ''})"
                at, id_ = wrong[0], int(experiment.contexts.source_id[wrong[0]])
                yield Problem(
                    Severity.NOTE if defect else Severity.DAMAGE,
                    str(values.by_profile.file.path),
                    f"profile {summary}",
                    f"{what}: {len(wrong)} contexts differ from the threads, e.g. context {id_}: "
                    f"{have[at]:g} is stored, {want[at]:g} is right"
                    + (f" ({defect})" if defect else ""),
                )


def _combined(experiment: Experiment, row: int, statistic: str, have: Floats) -> tuple[Floats, str]:
    """What the threads say, and the known defect of genuine writers in this statistic."""
    measured = experiment.profiles.measured
    total, squares, count = (np.zeros(len(experiment.contexts)) for _ in range(3))
    low, high = np.full(len(total), np.inf), np.full(len(total), -np.inf)
    for block in experiment.values.blocks(measured, np.array([row])):
        part = block.triples()
        np.add.at(total, part.context, part.value)
        np.add.at(squares, part.context, part.value**2)
        np.add.at(count, part.context, 1)
        np.minimum.at(low, part.context, part.value)
        np.maximum.at(high, part.context, part.value)
    low[~np.isfinite(low)] = high[~np.isfinite(high)] = 0
    if statistic == "sum of squares":
        plain = bool(_close(have, total).all())
        return squares, "the writer stored plain sums" if plain else ""
    known: dict[str, tuple[Array, str]] = {
        "": (total, ""),
        "count": (count, "the writer counts threads that touch the context in any scope"),
        "min": (low, "the writer's minima depend on the order of threads"),
        "max": (high, ""),
    }
    return known.get(statistic, (have, ""))


def _roots(experiment: Experiment, values: DatabaseValues) -> Iterator[Problem]:
    """Inclusive at the roots == the file's own root == computed exclusive over the tree, per profile."""
    roots = experiment.contexts.roots
    if not len(roots):
        return
    rows = {q: experiment.metrics.find(q, Scope.INCLUSIVE) for q in experiment.metrics.quantities}
    at_root: dict[int, float] = {}
    for profile in experiment.profiles.measured.tolist():
        try:
            found, numbers = values.root(profile)
        except CorruptFile:
            continue  # reported with the blocks
        for row, number in zip(found.tolist(), numbers.tolist(), strict=True):
            at_root[row] = at_root.get(row, 0.0) + number
    for quantity, row in rows.items():
        if row is None:
            continue
        inclusive = float(experiment.values.totals(row, experiment.profiles.measured)[roots].sum())
        sums: list[tuple[str, float]] = [("the file's own root", at_root.get(row, 0.0))] if at_root else []
        if experiment.metrics.find(quantity, Scope.FUNCTION) is not None:
            sums.append(("exclusive over the tree", _exclusive(experiment, quantity)))
        for what, other in sums:
            if not abs(inclusive - other) <= TOLERANCE * max(abs(inclusive), abs(other)):
                text = f"{quantity}: inclusive at the roots is {inclusive:g}, {what} is {other:g}"
                yield Problem(Severity.DAMAGE, experiment.path, "tree", text)


def _exclusive(experiment: Experiment, quantity: str) -> float:
    measured: Ints = experiment.profiles.measured
    return float(experiment.totals(quantity, Scope.EXCLUSIVE, measured)[: experiment.contexts.n_listed].sum())


def _traces(experiment: Experiment, values: object) -> Iterator[Problem]:
    """Samples in time order, on known contexts, within the announced times."""
    samples = experiment.traces.samples
    if not isinstance(samples, DatabaseSamples):
        return
    first: list[int] = []
    last: list[int] = []
    for profile, _, line in experiment.traces.lines():
        if not len(line):
            continue
        if (np.diff(line.time_ns) < 0).any():
            yield Problem(Severity.DAMAGE, experiment.path, f"trace of profile {profile}", "time runs backwards")
        first.append(int(line.time_ns.min()))
        last.append(int(line.time_ns.max()))
    if samples.unknown:
        text = f"{samples.unknown} samples are on contexts that nothing names; they count as idle"
        yield Problem(Severity.NOTE, experiment.path, "traces", text)
    announced = experiment.traces.time_range
    if first and announced is not None and announced != (min(first), max(last)):
        text = f"samples run from {min(first)} to {max(last)}, announced is {announced[0]} to {announced[1]}"
        yield Problem(Severity.DAMAGE, experiment.path, "traces", text)
