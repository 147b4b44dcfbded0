"""Versions 02.00 and 03.00: epochs to the end of the file; the byte layout is in `records`.

Specification: hpcrun-format.txt (the document), hpcrun-and-prof.md 2 and 14. Deviations of genuine files: the number of
nodes has eight bytes, where the document's notation implies four; under one version string there are two dialects:

    A   2016.12: metrics as in the document
    B   2017.10 and later: METRIC_TAIL behind each metric

Nothing in a file names its dialect. Both are tried, and a file is read in the one whose epochs end exactly where the
file does. Where both do, the one with the more sensible tables is taken.
"""

from __future__ import annotations

import math
import sys

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun import records as rec
from callgrove.formats.hpcrun.cursor import Cursor, Seen
from callgrove.formats.hpcrun.measurement import DensePlace, DenseValues, Epoch, Measurement
from callgrove.formats.hpcrun.nodes import nodes_of
from callgrove.formats.hpcrun.primitives import (
    EpochHeader,
    Header,
    MetricDescription,
    metrics_bytes,
    modules_bytes,
    read_metrics,
    read_modules,
)

__all__ = ["more_sensible", "pack_02", "read_02"]

DIALECTS = ("A", "B")


def read_02(file: FileBytes, seen: list[Seen] | None = None) -> Measurement:
    """The tables and nodes of a file, in the dialect that fits it; its values stay there."""
    cursor = Cursor(file, "header", seen=seen)
    header = Header.read(cursor)
    found: list[Measurement] = []
    errors: list[CorruptFile] = []
    for dialect in DIALECTS if header.version == "02.00" else DIALECTS[1:]:
        try:
            found.append(Measurement(header, dialect, _read_epochs(file, cursor.at, dialect)))
        except CorruptFile as error:
            errors.append(error)
    if not found:
        raise _furthest(errors)
    chosen = found[0] if len(found) == 1 else more_sensible(*found)
    if seen is not None:  # once more, taking notes
        _read_epochs(file, cursor.at, chosen.dialect, seen)
    return chosen


def _furthest(errors: list[CorruptFile]) -> CorruptFile:
    """What stopped the dialect that came further."""
    error = max(errors, key=lambda e: e.offset or 0)
    return error.with_remedy("no dialect of this version fits" if len(errors) > 1 else error.remedy)


def _read_epochs(file: FileBytes, at: int, dialect: str, seen: list[Seen] | None = None) -> tuple[Epoch, ...]:
    epochs: list[Epoch] = []
    while at < file.size:
        cursor = Cursor(file, f"epoch {len(epochs)}", at, seen=seen)
        header = EpochHeader.read(cursor)
        metrics, modules = read_metrics(cursor, dialect == "B"), read_modules(cursor)
        record = rec.node_02(header.is_logical, len(metrics))
        n = cursor.count("u8", "number of nodes", record.itemsize)
        place = DensePlace(cursor.at, n, record)
        nodes = nodes_of(cursor.table(record, n, "node"), file.path, place.at, f"{cursor.section}: cct")
        epochs.append(Epoch(header, metrics, modules, nodes, None, place))
        at = cursor.at
    return tuple(epochs)


def more_sensible(a: Measurement, b: Measurement) -> Measurement:
    """Of two readings: the one with a proper loadmap, else the one without absurd metrics, else B."""
    for test in (_has_loadmap, _has_plain_metrics):
        fits = test(a), test(b)
        if fits[0] != fits[1]:
            return a if fits[0] else b
    return b


def _has_loadmap(measurement: Measurement) -> bool:
    ordered = all([m.id for m in e.modules] == list(range(1, len(e.modules) + 1)) for e in measurement.epochs)
    return ordered and not any(len(ids) for _, ids in measurement.find_unknown_modules())


def _has_plain_metrics(measurement: Measurement) -> bool:
    return all(_is_plain(metric) for epoch in measurement.epochs for metric in epoch.metrics)


def _is_plain(metric: MetricDescription) -> bool:
    texts = metric.name + metric.description + metric.formula + metric.format
    if any(ord(c) < 32 for c in texts):
        return False
    mean = metric.threshold_mean or 0.0
    normal = mean == 0 or (math.isfinite(mean) and abs(mean) >= sys.float_info.min)
    return normal and (metric.is_frequency or 0) in (0, 1) and (metric.is_multiplexed or 0) in (0, 1)


def pack_02(measurement: Measurement) -> bytes:
    """The bytes of a file."""
    out = [measurement.header.packed()]
    for epoch in measurement.epochs:
        assert epoch.header is not None
        assert isinstance(epoch.values, DenseValues)
        out += [epoch.header.packed(), metrics_bytes(epoch.metrics, measurement.dialect == "B")]
        out += [modules_bytes(epoch.modules), len(epoch.nodes).to_bytes(8, "big")]
        out.append(epoch.nodes.pack_02(epoch.values.matrix))
    return b"".join(out)
