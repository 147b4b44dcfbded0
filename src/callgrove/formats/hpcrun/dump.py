"""What `dump` prints of a measurement file: every field with its offset, a short overview, its call tree.

`blocks` gives rows as plain dictionaries, `text` and `json_text` write them. The text is line-oriented: two spaces of
indentation, strings in JSON's quotes, integers decimal, addresses hexadecimal, doubles with all their digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from callgrove.arrays import Array, Ids, depths, distinct, preorder
from callgrove.binary.files import FileBytes
from callgrove.errors import CorruptFile
from callgrove.formats.hpcrun import regions as placeholders
from callgrove.formats.hpcrun.files import read_tables
from callgrove.formats.hpcrun.measurement import DenseValues, Epoch, Measurement, SparseValues, Stored
from callgrove.formats.hpcrun.primitives import Header, MetricDescription, Module, Pairs, Seen, pair_line, quote
from callgrove.formats.hpcrun.regions import readable
from callgrove.formats.interface import Field
from callgrove.model.profiles import DEFAULT_ID_NAMES

__all__ = ["Block", "blocks", "fields", "header_text", "json_text", "summary", "text", "tree"]


Row = dict[str, Any]
CHUNK = 4096


@dataclass(frozen=True)
class Block:
    """Rows of one kind. `counted` says how many follow the name in the text."""

    name: str
    rows: Iterable[Row]
    line: Callable[[Row], str]
    counted: int | None = None
    words: Row | None = None  # of the block itself


# -- rows --------------------------------------------------------------------------------------------------------------


def blocks(measurement: Measurement) -> Iterator[Block]:
    """Yield all blocks of a file whose values were read."""
    yield _pairs("header", measurement.header.pairs)
    if measurement.is_old:
        for number, epoch in enumerate(measurement.epochs):
            yield from _old_epoch(number, epoch)
        return
    [epoch] = measurement.epochs
    yield _identifiers(measurement)
    yield _modules(epoch.modules)
    yield _metrics(epoch.metrics)
    kinds = [{"kind": kind, "name": name} for kind, name in measurement.id_kinds]
    yield Block("idkinds", kinds, lambda row: f"{row['kind']} {quote(row['name'])}", len(kinds))
    yield Block("cct", _nodes(epoch), _node_line, len(epoch.nodes))
    assert isinstance(epoch.values, SparseValues)
    yield Block("values", _sparse_rows(epoch, epoch.values), _values_line, len(epoch.values.raw))
    places = [{"section": name, "start": start, "end": end} for name, start, end in measurement.sections]
    yield Block("footer", places, lambda row: f"{quote(row['section'])} start={row['start']} end={row['end']}")


def _old_epoch(number: int, epoch: Epoch) -> Iterator[Block]:
    assert epoch.header is not None
    words = {
        "epoch": number,
        "flags": epoch.header.flags,
        "granularity": epoch.header.granularity,
        "ra": epoch.header.ra_to_callsite,
    }
    pairs = _pairs(f"epoch {number} {epoch.header.line()}", epoch.header.pairs)
    yield Block(pairs.name, pairs.rows, pairs.line, words=words)
    yield _metrics(epoch.metrics)
    yield _modules(epoch.modules)
    yield Block("cct", _nodes(epoch), _node_line, len(epoch.nodes))


def _pairs(name: str, pairs: Pairs) -> Block:
    rows = [{"name": key, "value": value} for key, value in pairs]
    return Block(name, rows, lambda row: pair_line((row["name"], row["value"])))


def _identifiers(measurement: Measurement) -> Block:
    names = dict(enumerate(DEFAULT_ID_NAMES)) | dict(measurement.id_kinds)
    rows = [
        {"kind": names.get(kind, str(kind)), "interp": how, "physical": physical, "logical": logical}
        for kind, physical, logical, how in measurement.identifiers
    ]
    return Block("tuple", rows, _identifier_line)


def _identifier_line(row: Row) -> str:
    return f"{row['kind']} interp={row['interp']} physical={row['physical']:#x} logical={row['logical']}"


def _modules(modules: tuple[Module, ...]) -> Block:
    rows = ({"id": m.id, "flags": m.flags, "path": m.path} for m in modules)
    return Block("loadmap", rows, lambda row: Module(row["id"], row["path"], row["flags"]).line(), len(modules))


def _metrics(metrics: tuple[MetricDescription, ...]) -> Block:
    rows = ({"metric": k, "name": m.name, **m.words(), "": m} for k, m in enumerate(metrics))
    return Block("metrics", rows, lambda row: f"{row['metric']} {row[''].line()}", len(metrics))


def _nodes(epoch: Epoch) -> Iterator[Row]:
    """Yield the nodes in chunks of columns; each has the fields that its version has."""
    nodes = epoch.nodes
    is_real = np.array([metric.is_real for metric in epoch.metrics], np.bool_)
    for first in range(0, len(nodes), CHUNK):
        part = slice(first, first + CHUNK)
        id_ = nodes.id[part].astype(np.int64)
        columns: dict[str, list[Any]] = {
            "id": (np.where(nodes.is_leaf[part], -id_, id_) if nodes.is_leaf is not None else id_).tolist(),
            "parent": nodes.parent[part].tolist(),
        }
        if nodes.association is not None:
            columns["assoc"] = nodes.association[part].tolist()
        columns |= {"lm": nodes.lm[part].tolist(), "ip": nodes.ip[part].tolist()}
        if nodes.lip is not None:
            columns["lip"] = [row.tobytes().hex() for row in nodes.lip[part]]
        if nodes.flags is not None:
            columns["flags"] = nodes.flags[part].tolist()
        if nodes.is_leaf is None:
            columns["code"] = [
                placeholders.code_text(ip) if lm == 0 else None
                for lm, ip in zip(columns["lm"], columns["ip"], strict=True)
            ]
        if isinstance(epoch.values, DenseValues):
            matrix = epoch.values.matrix[part]
            columns["values"] = [_numbers(row, is_real) for row in matrix]
        for cells in zip(*columns.values(), strict=True):
            yield dict(zip(columns, cells, strict=True))


def _numbers(raw: Any, is_real: Any) -> list[int | float]:
    """Return raw values as integers or reals."""
    exact, reals = raw.tolist(), raw.view(np.float64).tolist()
    return [r if real else e for e, r, real in zip(exact, reals, is_real.tolist(), strict=True)]


def _node_line(row: Row) -> str:
    words = [f"{row['id']} parent={row['parent']}"]
    words += [f"assoc={row['assoc']}"] if "assoc" in row else []
    words.append(f"lm={row['lm']} ip={row['ip']:#x}")
    words += [quote(row["code"])] if row.get("code") is not None else []
    words += [f"lip={row['lip']}"] if "lip" in row else []
    words += [f"flags={row['flags']}"] if "flags" in row else []
    words += [f"values=[{', '.join(map(repr, row['values']))}]"] if "values" in row else []
    return " ".join(words)


def _sparse_rows(epoch: Epoch, values: SparseValues) -> Iterator[Row]:
    """Yield the values of each node, in the order of the index."""
    real = np.zeros(1 << 16, np.bool_)
    real[: len(epoch.metrics)] = [metric.is_real for metric in epoch.metrics]
    bounds = [*values.first.tolist(), len(values.raw)]
    for node, (first, end) in zip(values.node_id.tolist(), pairwise(bounds), strict=True):
        metrics = values.metric[first:end]
        numbers = _numbers(values.raw[first:end], real[metrics])
        yield {"node": node, "values": list(zip(metrics.tolist(), numbers, strict=True))}


def _values_line(row: Row) -> str:
    return " ".join([str(row["node"]), *(f"{metric}={value!r}" for metric, value in row["values"])])


# -- text --------------------------------------------------------------------------------------------------------------


def text(measurement: Measurement, limit: int | None = None) -> Iterator[str]:
    """Yield pieces of whole lines; of each block at most `limit` rows, and how many are left."""
    dialect = f" dialect={measurement.dialect}" if measurement.is_old else ""
    yield f"{measurement.header.line()}{dialect}\n"
    for block in blocks(measurement):
        yield from _block_text(block, limit)
    yield "end\n"


def header_text(header: Header) -> Iterator[str]:
    """Yield what can be said of a file of which only the header is intact."""
    yield f"{header.line()}\n"
    yield from _block_text(_pairs("header", header.pairs), None)


def _block_text(block: Block, limit: int | None) -> Iterator[str]:
    yield block.name + (f" {block.counted}" if block.counted is not None else "") + "\n"
    rows = iter(block.rows)
    shown = rows if limit is None else islice(rows, limit)
    while lines := [f"  {block.line(row)}\n" for row in islice(shown, CHUNK)]:
        yield "".join(lines)
    if limit is not None and (left := sum(1 for _ in rows)):
        yield f"  ... and {left} more\n"


# -- JSON --------------------------------------------------------------------------------------------------------------


def json_text(measurement: Measurement, limit: int | None = None) -> Iterator[str]:
    """Yield one JSON object, in pieces; of each block at most `limit` rows."""
    yield f'{{"version": "{measurement.version}", "dialect": {json.dumps(measurement.dialect or None)}'
    is_open = False
    for block in blocks(measurement):
        if block.words is not None:
            yield ("}, " if is_open else ', "epochs": [') + "{" + json.dumps(block.words)[1:-1]
            is_open = True
        name = "pairs" if block.words is not None else block.name
        yield f', "{name}": ['
        rows = block.rows if limit is None else islice(block.rows, limit)
        for number, row in enumerate(rows):
            yield (",\n " if number else "\n ") + _json_row(row)
        yield "]"
    if measurement.is_old:
        yield "}]" if is_open else ', "epochs": []'
    yield "}\n"


def _json_row(row: Row) -> str:
    """Return a row as JSON. Numbers that are not finite are null: JSON has none."""
    try:
        return json.dumps({key: value for key, value in row.items() if key}, allow_nan=False)
    except ValueError:
        return json.dumps({key: _finite(value) for key, value in row.items() if key})


def _finite(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


# -- overview and call tree --------------------------------------------------------------------------------------------


def summary(measurement: Measurement, limit: int | None = None) -> Iterator[str]:
    """Yield counts, totals per metric (stored times period), times, modules used."""
    dialect = f" dialect={measurement.dialect}" if measurement.is_old else ""
    yield f"{measurement.header.line()}{dialect}\n"
    yield f"program {quote(measurement.value('program-name'))}\n"
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
    nodes, stored = epoch.nodes, epoch.values.list_stored(epoch.nodes.positions)
    n_leaves = len(nodes) - int(nodes.has_children.sum())
    yield f"nodes {len(nodes)} roots={int((nodes.above < 0).sum())} leaves={n_leaves}\n"
    yield f"values {len(stored.raw)} nodes={len(distinct(stored.node))}\n"
    yield f"totals {len(epoch.metrics)}\n"
    for number, metric in enumerate(epoch.metrics):
        values = stored.raw[stored.metric == number]
        yield f"  {number} {quote(metric.name)} = {_total(values, metric.is_real) * (metric.period or 1)!r}\n"
    counts = np.bincount(nodes.lm, minlength=1)
    used = [module for module in epoch.modules if module.id < len(counts) and counts[module.id]]
    yield f"modules {len(epoch.modules)} used={len(used)}\n"
    for module in used[:limit]:
        yield f"  {module.id} nodes={counts[module.id]} {quote(module.path)}\n"
    if limit is not None and len(used) > limit:
        yield f"  ... and {len(used) - limit} more\n"


def _total(raw: Array, is_real: bool) -> int | float:
    if is_real:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(raw.view(np.float64).sum())
    return sum(raw.tolist()) if len(raw) and int(raw.max()) > 2**63 // len(raw) else int(raw.sum())


def tree(measurement: Measurement, limit: int | None = None) -> Iterator[str]:
    """Yield the call tree, indented: module and offset as they are stored, the node's id, its values times their
    periods."""
    yield f"{measurement.header.line()}\n"
    for number, epoch in enumerate(measurement.epochs):
        if measurement.is_old:
            yield f"epoch {number}\n"
        names = ", ".join(f"{k} = {quote(metric.name)}" for k, metric in enumerate(epoch.metrics))
        yield f"tree {len(epoch.nodes)} metrics: {names}\n"
        rows = preorder(epoch.nodes.above)
        yield from _rows(epoch, rows[:limit], measurement.is_old)
        if limit is not None and len(rows) > limit:
            yield f"  ... and {len(rows) - limit} more\n"
    yield "end\n"


def _rows(epoch: Epoch, rows: Array, is_old: bool) -> Iterator[str]:
    assert epoch.values is not None
    modules = {m.id: PurePosixPath(readable(m.path)).name or readable(m.path) for m in epoch.modules}
    stored = epoch.values.list_stored(epoch.nodes.positions)
    order = np.argsort(stored.node, kind="stable")
    bounds = np.searchsorted(stored.node[order], np.arange(len(epoch.nodes) + 1))
    depth: Ids = depths(epoch.nodes.above)
    for row in rows.tolist():
        lm, ip = int(epoch.nodes.lm[row]), int(epoch.nodes.ip[row])
        label = _label(lm, ip, modules, is_old)
        values = _node_values(epoch, stored, order[bounds[row] : bounds[row + 1]])
        yield f"{'  ' * (int(depth[row]) + 1)}{label} [{epoch.nodes.id[row]}]{values}\n"


def _label(lm: int, ip: int, modules: dict[int, str], is_old: bool) -> str:
    if lm == 0 and is_old and ip < 2:
        return placeholders.describe(placeholders.code_number((placeholders.ROOT, placeholders.PARTIAL)[ip]))[1]
    if lm == 0 and not is_old:
        return placeholders.describe(ip)[1]
    return f"{modules.get(lm, '<unknown module>')}+{ip:#x}"


def _node_values(epoch: Epoch, stored: Stored, at: Array) -> str:
    """Return the values of one node: ` 0=0.5`."""
    words = []
    for metric, raw in zip(stored.metric[at].tolist(), stored.raw[at], strict=True):
        known = epoch.metrics[metric] if metric < len(epoch.metrics) else None
        value = float(raw.view(np.float64)) if known is not None and known.is_real else int(raw)
        words.append(f" {metric}={value * (known.period or 1 if known is not None else 1)!r}")
    return "".join(words)


# -- fields with their offsets -----------------------------------------------------------------------------------------


def fields(file: FileBytes) -> Iterator[Field]:
    """Yield the fields in the order in which they are read; damage raises after what comes before it."""
    seen: list[Seen] = []
    damage: CorruptFile | None = None
    try:
        read_tables(file, seen)
    except CorruptFile as error:
        damage = error
    for one in seen:
        if isinstance(one.value, np.ndarray):
            yield from _table(one, one.value, file.path.name)
        else:
            yield Field(file.path.name, one.section, one.index, one.offset, one.name, one.value)
    if damage is not None:
        raise damage


def _table(seen: Seen, table: Any, file: str) -> Iterator[Field]:
    """Yield the fields of every record. A table of one record belongs to the thing that is being read."""
    layout, alone = table.dtype, len(table) == 1 and seen.name in ("records", "footer")
    places = [(name, *layout.fields[name]) for name in layout.names]
    section = seen.section if seen.name in ("records", "footer") else f"{seen.section}: {seen.name}"
    for first in range(0, len(table), CHUNK):
        for row, record in enumerate(table[first : first + CHUNK], first):
            at = seen.offset + row * layout.itemsize
            index = seen.index if alone else row
            for name, dtype, place in places:
                value = record[name]
                if dtype.subdtype is None:
                    yield Field(file, section, index, at + place, name, value.item())
                    continue
                step = dtype.base.itemsize
                for k, one in enumerate(value.reshape(-1).tolist()):
                    yield Field(file, section, index, at + place + k * step, f"{name}[{k}]", one)
