"""Version 04.00: sections and a footer; the byte layout is in `records`.

Specification: hpcrun-and-prof.md 3. Deviations of genuine files: nodes of 18 bytes, without flags, in files of 2021 and
2022 (what is left of the section tells); nodes with values come in any order.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun import records as rec
from callgrove.formats.hpcrun.cursor import Cursor, Seen, remembered, text_bytes
from callgrove.formats.hpcrun.measurement import Epoch, Measurement, SparsePlace, SparseValues
from callgrove.formats.hpcrun.nodes import Nodes, nodes_of
from callgrove.formats.hpcrun.primitives import (
    Header,
    MetricDescription,
    metrics_bytes,
    modules_bytes,
    read_metrics,
    read_modules,
)
from callgrove.model.profiles import Identifier

__all__ = ["pack_04", "read_04"]

INTERRUPTED = "incomplete profile: the run was interrupted, or is still writing"
SMALLEST_KIND = 2 + 4


def read_04(file: FileBytes, seen: list[Seen] | None = None) -> Measurement:
    """The tables and nodes of a file; its values stay there."""
    sections = _sections(file)
    cursors = {name: Cursor(file, name, start, end, seen) for name, start, end in sections}
    header = Header.read(cursors["header"])
    modules = remembered(read_modules, cursors["loadmap"])
    nodes = _read_nodes(cursors["cct"])
    metrics = remembered(_read_metrics, cursors["metric table"])
    kinds = remembered(_read_kinds, cursors["id dictionary"])
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
    """(name, start, end) of each section, as the footer says: inside the file, one after the other."""
    at = file.size - rec.FOOTER.itemsize
    if at < 0:
        found = f"a file of {file.size} bytes"
        raise CorruptFile(
            file.path, "footer", offset=0, expected="a footer of 112 bytes", found=found, remedy=INTERRUPTED
        )
    footer = file.record(rec.FOOTER, at, "footer")
    if int(footer["magic"]) != rec.FOOTER_MAGIC:
        found = repr(file.copy(file.size - 8, 8, "footer"))[1:]
        raise CorruptFile(
            file.path, "footer", offset=file.size - 8, expected="'HPCRUNsm'", found=found, remedy=INTERRUPTED
        )
    bounds = [int(n) for n in footer["sections"].reshape(-1)] + [int(footer["footer"])]
    places = [0, *bounds, at]
    for number, (before, after) in enumerate(pairwise(places)):
        if after < before or (number == 0 and after) or (number == len(bounds) and after != before):
            name = rec.SECTIONS[min(number // 2, len(rec.SECTIONS) - 1)]
            found = f"{after} after {before} ({name})"
            where = at + 8 * min(number, len(bounds) - 1)
            expected = "sections one after the other, the first at byte 0, the footer last"
            raise CorruptFile(file.path, "footer", offset=where, expected=expected, found=found, remedy=INTERRUPTED)
    return tuple((name, *bounds[2 * k : 2 * k + 2]) for k, name in enumerate(rec.SECTIONS))  # type: ignore[misc]


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
    n, found = cursor.count("u2", "number of kinds", SMALLEST_KIND), []
    for cursor.index in range(n):
        found.append((cursor.number("u2", "kind"), cursor.text("name")))
    cursor.index = -1
    return tuple(found)


def _read_sparse(cursor: Cursor, nodes: Nodes) -> tuple[tuple[Identifier, ...], SparsePlace]:
    """The identifier tuple and where values lie. The index is checked here; metrics are when values are read."""
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
    unknown = np.flatnonzero(nodes.positions[ids] < 0)
    if len(unknown):
        where = place.index_at + int(unknown[0]) * rec.INDEX.itemsize
        found = f"node {ids[unknown[0]]}, which the tree does not have"
        raise cursor.fail("values of nodes in the tree", found, where)
    return tuple(rows), place


def pack_04(measurement: Measurement) -> bytes:
    """The bytes of a file: sections at multiples of 1024, zeros between them, the footer."""
    [epoch] = measurement.epochs
    kinds = b"".join(k.to_bytes(2, "big") + text_bytes(name) for k, name in measurement.id_kinds)
    parts = (
        measurement.header.packed(),
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
