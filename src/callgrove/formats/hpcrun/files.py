"""Measurement files of every version (02.00, 03.00, 04.00): read, written, and named as the tool names them.

PROGRAM-RRRRRR-TTT-HOSTID-PID-GENERATION.hpcrun     fields counted from the right: PROGRAM may have dashes
                                       .hpctrace    the trace of the same thread
"""

from __future__ import annotations

import math
import os
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun import primitives as rec
from callgrove.formats.hpcrun.measurement import (
    DensePlace,
    DenseValues,
    Epoch,
    Measurement,
    Nodes,
    SparsePlace,
    SparseValues,
    nodes_of,
)
from callgrove.formats.hpcrun.primitives import (
    Cursor,
    EpochHeader,
    Header,
    MetricDescription,
    SectionCache,
    Seen,
    metrics_bytes,
    modules_bytes,
    read_metrics,
    read_modules,
    read_version,
    text_bytes,
)
from callgrove.model.profiles import Identifier

__all__ = [
    "SUFFIX",
    "TRACE_SUFFIX",
    "file_name",
    "measurement_bytes",
    "measurement_files",
    "more_sensible",
    "pack_02",
    "pack_04",
    "read_02",
    "read_04",
    "read_measurement",
    "read_tables",
    "sort_key",
]


# -- versions 02.00 and 03.00 ------------------------------------------------------------------------------------------
# Epochs follow each other to the end of the file; the byte layout is in `records`.
#
# Specification: hpcrun-format.txt (the document), hpcrun-and-prof.md 2 and 14. Deviations of genuine files: the number
# of nodes has eight bytes, where the document's notation implies four; under one version string there are two
# dialects:
#
#     A   2016.12: metrics as in the document
#     B   2017.10 and later: METRIC_TAIL behind each metric
#
# Nothing in a file names its dialect. Both are tried, and a file is read in the one whose epochs end exactly where the
# file does. Where both do, the one with the more sensible tables is taken.


DIALECTS = ("A", "B")


def read_02(file: FileBytes, seen: list[Seen] | None = None) -> Measurement:
    """Read the tables and nodes of a file, in the dialect that fits it; its values stay there."""
    cursor = Cursor(file, "header", seen=seen)
    header = Header.read(cursor)
    readings: list[Measurement] = []
    errors: list[CorruptFile] = []
    for dialect in DIALECTS if header.version == "02.00" else DIALECTS[1:]:
        try:
            readings.append(Measurement(header, dialect, _read_epochs(file, cursor.at, dialect)))
        except CorruptFile as error:
            errors.append(error)
    if not readings:
        raise _choose_error(errors)
    chosen = readings[0] if len(readings) == 1 else more_sensible(*readings)
    if seen is not None:  # once more, taking notes
        _read_epochs(file, cursor.at, chosen.dialect, seen)
    return chosen


def _choose_error(errors: list[CorruptFile]) -> CorruptFile:
    """Return what stopped the dialect that came further."""
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
    """Return, of two readings, the one with a proper loadmap, else the one without absurd metrics, else B."""
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
    """Return the bytes of a file."""
    out = [measurement.header.pack()]
    for epoch in measurement.epochs:
        assert epoch.header is not None
        assert isinstance(epoch.values, DenseValues)
        out += [epoch.header.pack(), metrics_bytes(epoch.metrics, measurement.dialect == "B")]
        out += [modules_bytes(epoch.modules), len(epoch.nodes).to_bytes(8, "big")]
        out.append(epoch.nodes.pack_02(epoch.values.matrix))
    return b"".join(out)


# -- version 04.00 -----------------------------------------------------------------------------------------------------
# Sections and a footer; the byte layout is in `records`.
#
# Specification: hpcrun-and-prof.md 3. Deviations of genuine files: nodes of 18 bytes, without flags, in files of 2021
# and 2022 (what is left of the section tells); nodes with values come in any order.


INTERRUPTED = "incomplete profile: the run was interrupted, or is still writing"
SMALLEST_KIND = 2 + 4


def read_04(file: FileBytes, seen: list[Seen] | None = None, cache: SectionCache | None = None) -> Measurement:
    """Read the tables and nodes of a file; its values stay there."""
    cache = cache or SectionCache()
    sections = _sections(file)
    cursors = {name: Cursor(file, name, start, end, seen) for name, start, end in sections}
    header = Header.read(cursors["header"])
    modules = cache.read(read_modules, cursors["loadmap"])
    nodes = _read_nodes(cursors["cct"])
    metrics = cache.read(_read_metrics, cursors["metric table"])
    kinds = cache.read(_read_kinds, cursors["id dictionary"])
    identifiers, place = _read_sparse(cursors["sparse metrics"], nodes)
    for cursor in cursors.values():
        cursor.finish()
    if seen is not None:
        at = file.size - rec.FOOTER.itemsize
        seen.append(Seen("footer", -1, at, "footer", file.array(rec.FOOTER, 1, at, "footer")))
    epoch = Epoch(None, metrics, modules, nodes, None, place)
    return Measurement(header, "", (epoch,), identifiers, kinds, sections)


def _read_metrics(cursor: Cursor) -> tuple[MetricDescription, ...]:
    return read_metrics(cursor, has_tail=True)


def _sections(file: FileBytes) -> tuple[tuple[str, int, int], ...]:
    """Return (name, start, end) of each section, as the footer says: inside the file, one after the other."""
    at = file.size - rec.FOOTER.itemsize
    if at < 0:
        found = f"a file of {file.size} bytes"
        raise CorruptFile(
            file.path, "footer", offset=0, expected="a footer of 112 bytes", found=found, remedy=INTERRUPTED
        )
    *bounds, magic = file.array(
        rec.FOOTER_NUMBER, rec.FOOTER.itemsize // rec.FOOTER_NUMBER.itemsize, at, "footer"
    ).tolist()
    if magic != rec.FOOTER_MAGIC:
        found = repr(file.copy(file.size - 8, 8, "footer"))[1:]
        raise CorruptFile(
            file.path, "footer", offset=file.size - 8, expected="'HPCRUNsm'", found=found, remedy=INTERRUPTED
        )
    places = [0, *bounds, at]
    for number, (before, after) in enumerate(pairwise(places)):
        if after < before or (number == 0 and after) or (number == len(bounds) and after != before):
            name = rec.SECTIONS[min(number // 2, len(rec.SECTIONS) - 1)]
            found = f"{after} after {before} ({name})"
            where = at + 8 * min(number, len(bounds) - 1)
            expected = "sections one after the other, the first at byte 0, the footer last"
            raise CorruptFile(file.path, "footer", offset=where, expected=expected, found=found, remedy=INTERRUPTED)
    return tuple((name, *bounds[2 * k : 2 * k + 2]) for k, name in enumerate(rec.SECTIONS))


def _read_nodes(cursor: Cursor) -> Nodes:
    n = cursor.count("u8", "number of nodes", rec.NODE_04_EARLY.itemsize)
    size = cursor.end - cursor.at
    record = rec.NODE_04_EARLY if n and size == n * rec.NODE_04_EARLY.itemsize else rec.NODE_04
    if size != n * record.itemsize:
        expected = f"{n} nodes of {rec.NODE_04.itemsize} or {rec.NODE_04_EARLY.itemsize} bytes"
        raise cursor.fail(expected, f"{size} bytes", remedy="the section does not end where the footer says")
    at = cursor.at
    return nodes_of(cursor.table(record, n, "node"), cursor.file.path, at)


def _read_kinds(cursor: Cursor) -> tuple[tuple[int, str], ...]:
    n, kinds = cursor.count("u2", "number of kinds", SMALLEST_KIND), []
    for cursor.index in range(n):
        kinds.append((cursor.number("u2", "kind"), cursor.text("name")))
    cursor.index = -1
    return tuple(kinds)


def _read_sparse(cursor: Cursor, nodes: Nodes) -> tuple[tuple[Identifier, ...], SparsePlace]:
    """Return the identifier tuple and where values lie. The index is checked here; metrics are when values are read."""
    n_identifiers = cursor.count("u2", "number of identifiers", rec.IDENTIFIER.itemsize)
    table = cursor.table(rec.IDENTIFIER, n_identifiers, "identifier")
    mask = (1 << rec.KIND_BITS) - 1
    rows = ((k & mask, p, i, k >> rec.KIND_BITS) for k, p, i in table.tolist())
    n_values = cursor.number("u8", "number of values")
    n_nodes = cursor.number("u4", "number of nodes with values")
    size = n_values * rec.VALUE.itemsize + (n_nodes + 1) * rec.INDEX.itemsize
    if size != cursor.end - cursor.at:
        expected = f"{n_values} values and {n_nodes} nodes in {size} bytes"
        remedy = "the section does not end where the footer says"
        raise cursor.fail(expected, f"{cursor.end - cursor.at} bytes", remedy=remedy)
    place = SparsePlace(cursor.at, n_values, n_nodes)
    cursor.table(rec.VALUE, n_values, "value")
    index = cursor.table(rec.INDEX, n_nodes + 1, "node with values")
    place.check_index(index, cursor.file.path)
    ids = index["node"][:-1].astype(np.uint32)
    unknown = nodes.positions[ids] < 0
    if unknown.any():
        row = int(unknown.argmax())
        where = place.index_at + row * rec.INDEX.itemsize
        found = f"node {ids[row]}, which the tree does not have"
        raise cursor.fail("values of nodes in the tree", found, where)
    return tuple(rows), place


def pack_04(measurement: Measurement) -> bytes:
    """Return the bytes of a file: sections at multiples of 1024, zeros between them, the footer."""
    [epoch] = measurement.epochs
    kinds = b"".join(k.to_bytes(2, "big") + text_bytes(name) for k, name in measurement.id_kinds)
    parts = (
        measurement.header.pack(),
        modules_bytes(epoch.modules),
        len(epoch.nodes).to_bytes(8, "big") + epoch.nodes.pack_04(),
        metrics_bytes(epoch.metrics, has_tail=True),
        len(measurement.id_kinds).to_bytes(2, "big") + kinds,
        _sparse_bytes(measurement, epoch.values),
    )
    out: list[bytes] = []
    bounds: list[tuple[int, int]] = []
    at = 0
    for part in parts:
        bounds.append((at, at + len(part)))
        padding = -(at + len(part)) % rec.ALIGNMENT
        out += [part, bytes(padding)]
        at += len(part) + padding
    footer = np.array([(bounds, at, rec.FOOTER_MAGIC)], rec.FOOTER)
    return b"".join([*out, footer.tobytes()])


def _sparse_bytes(measurement: Measurement, values: object) -> bytes:
    assert isinstance(values, SparseValues)
    rows = [(kind | how << rec.KIND_BITS, p, i) for kind, p, i, how in measurement.identifiers]
    identifiers = np.array(rows, rec.IDENTIFIER).tobytes()
    stored = np.empty(len(values.raw), rec.VALUE)
    stored["value"], stored["metric"] = values.raw, values.metric
    index = np.empty(len(values.node_id) + 1, rec.INDEX)
    index["node"][:-1], index["first"][:-1] = values.node_id, values.first
    index[-1] = (rec.INDEX_END, len(values.raw))
    counts = len(values.raw).to_bytes(8, "big") + len(values.node_id).to_bytes(4, "big")
    return len(rows).to_bytes(2, "big") + identifiers + counts + stored.tobytes() + index.tobytes()


# -- files of any version, and their names -----------------------------------------------------------------------------


SUFFIX, TRACE_SUFFIX = ".hpcrun", ".hpctrace"


def read_tables(file: FileBytes, seen: list[Seen] | None = None, cache: SectionCache | None = None) -> Measurement:
    """Read everything but the values, which stay in the file; nothing returned refers to it, so it may be closed.
    `cache`: what files that are read in a row share."""
    version = read_version(Cursor(file, "header"))
    return read_04(file, seen, cache) if version == "04.00" else read_02(file, seen)


def read_measurement(path: Path) -> Measurement:
    """Read a whole file."""
    file = FileBytes(path)
    return read_tables(file).with_values(file)


def measurement_bytes(measurement: Measurement) -> bytes:
    """Return the bytes of a file in the version, and the dialect, that the measurement names."""
    return pack_02(measurement) if measurement.is_old else pack_04(measurement)


def measurement_files(folder: Path) -> list[Path]:
    """Return the measurement files of a folder, in the order of their names; nothing below it. A link that leads
    nowhere is one, and so is a pipe: reading it fails, and says why."""
    with os.scandir(folder) as entries:
        names = [one.name for one in entries if _is_measurement(one.name) and _may_be_file(one)]
    return [folder / name for name in sorted(names, key=sort_key)]


def _is_measurement(name: str) -> bool:
    return name.endswith(SUFFIX) and not name.startswith(".")


def _may_be_file(entry: os.DirEntry[str]) -> bool:
    """Return whether it is anything but a folder, as the listing says where it can."""
    try:
        return not entry.is_dir()
    except OSError:  # it lies where nobody may look: reading it will say so
        return True


def sort_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts names in the order of the numbers in them."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part) if part.isascii() and part.isdigit() else -1, part) for part in parts)


def file_name(program: str, rank: int, thread: int, host: int, process: int, generation: int) -> str:
    """Return the name of a measurement file, without its ending."""
    plain = re.sub(r"[/\0]", "_", program) or "program"
    return f"{plain}-{rank:06d}-{thread:03d}-{host:08x}-{process}-{generation}"
