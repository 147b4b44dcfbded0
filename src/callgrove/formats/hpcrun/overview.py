"""Short forms of a measurement file for `dump`: what is in it, and its call tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

import numpy as np

from callgrove.formats.hpcrun import placeholders
from callgrove.formats.hpcrun.measurement import Epoch, Measurement, Stored
from callgrove.formats.hpcrun.primitives import quoted
from callgrove.formats.hpcrun.regions import readable
from callgrove.model.arrays import Array, Ids, distinct
from callgrove.model.orders import depths, preorder

__all__ = ["summary", "tree"]


def summary(measurement: Measurement, limit: int | None = None) -> Iterator[str]:
    """Counts, totals per metric (stored times period), times, modules used."""
    dialect = f" dialect={measurement.dialect}" if measurement.is_old else ""
    yield f"{measurement.header.line()}{dialect}\n"
    yield f"program {quoted(measurement.value('program-name'))}\n"
    unit = "us" if measurement.is_old else "ns"
    first, last = measurement.value("trace-min-time"), measurement.value("trace-max-time")
    if first and last:
        yield f"time {first} to {last} {unit}\n"
    for number, epoch in enumerate(measurement.epochs):
        if measurement.is_old:
            yield f"epoch {number}\n"
        yield from _epoch_summary(epoch, limit)
    yield "end\n"


def _epoch_summary(epoch: Epoch, limit: int | None) -> Iterator[str]:
    assert epoch.values is not None
    nodes, stored = epoch.nodes, epoch.values.stored(epoch.nodes.positions)
    n_leaves = len(nodes) - int(nodes.has_children.sum())
    yield f"nodes {len(nodes)} roots={int((nodes.above < 0).sum())} leaves={n_leaves}\n"
    yield f"values {len(stored.raw)} nodes={len(distinct(stored.node))}\n"
    yield f"totals {len(epoch.metrics)}\n"
    for number, metric in enumerate(epoch.metrics):
        own = stored.raw[stored.metric == number]
        yield f"  {number} {quoted(metric.name)} = {_total(own, metric.is_real) * (metric.period or 1)!r}\n"
    counts = np.bincount(nodes.lm, minlength=1)
    used = [module for module in epoch.modules if module.id < len(counts) and counts[module.id]]
    yield f"modules {len(epoch.modules)} used={len(used)}\n"
    for module in used[:limit]:
        yield f"  {module.id} nodes={counts[module.id]} {quoted(module.path)}\n"
    if limit is not None and len(used) > limit:
        yield f"  ... and {len(used) - limit} more\n"


def _total(raw: Array, is_real: bool) -> int | float:
    if is_real:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(raw.view(np.float64).sum())
    return sum(raw.tolist()) if len(raw) and int(raw.max()) > 2**63 // len(raw) else int(raw.sum())


def tree(measurement: Measurement, limit: int | None = None) -> Iterator[str]:
    """The call tree, indented: module and offset as they are stored, the node's id, its values times their periods."""
    yield f"{measurement.header.line()}\n"
    for number, epoch in enumerate(measurement.epochs):
        if measurement.is_old:
            yield f"epoch {number}\n"
        names = ", ".join(f"{k} = {quoted(metric.name)}" for k, metric in enumerate(epoch.metrics))
        yield f"tree {len(epoch.nodes)} metrics: {names}\n"
        rows = preorder(epoch.nodes.above)
        yield from _rows(epoch, rows[:limit], measurement.is_old)
        if limit is not None and len(rows) > limit:
            yield f"  ... and {len(rows) - limit} more\n"
    yield "end\n"


def _rows(epoch: Epoch, rows: Array, is_old: bool) -> Iterator[str]:
    assert epoch.values is not None
    modules = {m.id: PurePosixPath(readable(m.path)).name or readable(m.path) for m in epoch.modules}
    stored = epoch.values.stored(epoch.nodes.positions)
    order = np.argsort(stored.node, kind="stable")
    bounds = np.searchsorted(stored.node[order], np.arange(len(epoch.nodes) + 1))
    depth: Ids = depths(epoch.nodes.above)
    for row in rows.tolist():
        lm, ip = int(epoch.nodes.lm[row]), int(epoch.nodes.ip[row])
        label = _label(lm, ip, modules, is_old)
        own = _own(epoch, stored, order[bounds[row] : bounds[row + 1]])
        yield f"{'  ' * (int(depth[row]) + 1)}{label} [{epoch.nodes.id[row]}]{own}\n"


def _label(lm: int, ip: int, modules: dict[int, str], is_old: bool) -> str:
    if lm == 0 and is_old and ip < 2:
        return placeholders.described(placeholders.code_number((placeholders.ROOT, placeholders.PARTIAL)[ip]))[1]
    if lm == 0 and not is_old:
        return placeholders.described(ip)[1]
    return f"{modules.get(lm, '<unknown module>')}+{ip:#x}"


def _own(epoch: Epoch, stored: Stored, at: Array) -> str:
    """The values of one node: ` 0=0.5`."""
    words = []
    for metric, raw in zip(stored.metric[at].tolist(), stored.raw[at], strict=True):
        known = epoch.metrics[metric] if metric < len(epoch.metrics) else None
        value = float(raw.view(np.float64)) if known is not None and known.is_real else int(raw)
        words.append(f" {metric}={value * (known.period or 1 if known is not None else 1)!r}")
    return "".join(words)
