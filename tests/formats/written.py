"""Databases of both generations written by us and read again: what tests of the writers compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT
from callgrove.binary.files import Source
from callgrove.formats.interface import Checks, LossReport, ReadOptions, WriteOptions, Writes
from callgrove.formats.registry import detect, load, open_path
from callgrove.formats.writing.transfer import transfer
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.experiment import Experiment, Severity

Bits = dict[tuple[int, int, str, str], int]  # profile, context id, metric, scope -> bits of the value


RELEASE, PRERELEASE = "hpctoolkit-release", "hpctoolkit-prerelease"


def read(path: Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


def write(experiment: Experiment, target: Path, to: str = RELEASE, options: WriteOptions | None = None) -> LossReport:
    format_ = load(to)
    assert isinstance(format_, Writes)
    return transfer(experiment, format_.open_writer(target, options or WriteOptions()))


def damage(path: Path) -> list[str]:
    format_ = detect(Source.of(path))[0]
    assert isinstance(format_, Checks)
    problems = format_.check(Source.of(path), ReadOptions())
    return [f"{p.section}: {p.text}" for p in problems if p.severity == Severity.DAMAGE]


def sound_but_for_sums(path: Path) -> bool:
    """Random values do not add up in a tree, and their sums depend on the order where they cancel."""
    return [text for text in damage(path) if not text.startswith(("tree", "profile 0"))] == []


def bits(experiment: Experiment) -> Bits:
    """Every value of the measured profiles, these numbered from 1."""
    measured = experiment.profiles.measured
    numbers = {p: k + 1 for k, p in enumerate(measured.tolist())}
    ids = experiment.contexts.source_id.tolist()
    out: Bits = {}
    for block in experiment.values.blocks(measured):
        part = block.triples()
        rows = (part.profile.tolist(), part.context.tolist(), part.metric.tolist())
        for p, c, m, value in zip(*rows, part.value.astype(np.float64).view(np.uint64).tolist(), strict=True):
            metric = experiment.metrics[m]
            out[numbers[p], ids[c], metric.name, metric.scope.word] = value
    return out


def described(tree: ContextTree) -> list[tuple[Any, ...]]:
    """All that contexts say of themselves; parents by their id."""
    ids = tree.source_id.tolist()
    columns = (tree.column(name).tolist() for name in ("file", "line", "module", "offset"))
    rows = zip(tree.parent.tolist(), tree.kind.tolist(), tree.relation.tolist(), *columns, strict=True)
    files, modules = (*tree.regions.files.paths, ""), (*tree.regions.modules, "")
    return [
        (
            ids[context],
            ids[parent] if parent >= 0 else ABSENT,
            ContextKind(kind).word,
            Relation(relation).word if parent >= 0 else "",
            tree.label(context),
            (files[file], line, modules[module], offset),
        )
        for context, (parent, kind, relation, file, line, module, offset) in enumerate(rows)
    ]


def lines(experiment: Experiment) -> dict[int, list[tuple[int, int]]]:
    """(time, context id) of each measured profile that has samples; idle is 0."""
    numbers = {p: k for k, p in enumerate(experiment.profiles.measured.tolist())}
    ids = [*experiment.contexts.source_id.tolist(), 0]
    out: dict[int, list[tuple[int, int]]] = {}
    for profile, _, samples in experiment.traces.lines():
        if len(samples):
            found = zip(samples.time_ns.tolist(), samples.context.tolist(), strict=True)
            out[numbers[profile]] = [(time, ids[context]) for time, context in found]
    return out


def assert_equal(old: Experiment, new: Experiment) -> None:
    """Everything but the stored summary."""
    assert new.title == old.title
    a, b = old.profiles, new.profiles
    assert [a.identifiers.rows(p) for p in a.measured] == [b.identifiers.rows(p) for p in b.measured]
    assert a.kind[a.measured].tolist() == b.kind[b.measured].tolist()
    assert a.identifiers.names == b.identifiers.names
    assert described(new.contexts) == described(old.contexts)
    assert [(m.name, m.scope, m.unit, m.visible, m.source_id) for m in new.metrics] == [
        (m.name, m.scope, m.unit, m.visible, m.source_id) for m in old.metrics
    ]
    assert bits(new) == bits(old)
    assert lines(new) == lines(old)
    assert new.traces.time_range == old.traces.time_range
