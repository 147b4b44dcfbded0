"""What `dump` prints of a measurement file: every field, as blocks of rows in the order of the file.

`blocks` gives rows as plain dictionaries, `text` and `json_text` write them. The text is line-oriented: two spaces of
indentation, strings in JSON's quotes, integers decimal, addresses hexadecimal, doubles with all their digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np

from callgrove.formats.hpcrun import placeholders
from callgrove.formats.hpcrun.measurement import DenseValues, Epoch, Measurement, SparseValues
from callgrove.formats.hpcrun.primitives import Header, MetricDescription, Module, Pairs, pair_line, quoted
from callgrove.model.profiles import DEFAULT_ID_NAMES

__all__ = ["Block", "blocks", "header_text", "json_text", "text"]

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


# -- rows ----------------------------------------------------------------------------------------------------


def blocks(measurement: Measurement) -> Iterator[Block]:
    """All blocks of a file whose values were read."""
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
    yield Block("idkinds", kinds, lambda row: f"{row['kind']} {quoted(row['name'])}", len(kinds))
    yield Block("cct", _nodes(epoch), _node_line, len(epoch.nodes))
    assert isinstance(epoch.values, SparseValues)
    yield Block("values", _sparse_rows(epoch, epoch.values), _values_line, len(epoch.values.raw))
    places = [{"section": name, "start": start, "end": end} for name, start, end in measurement.sections]
    yield Block("footer", places, lambda row: f"{quoted(row['section'])} start={row['start']} end={row['end']}")


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
    """Nodes in chunks of columns; each has the fields that its version has."""
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
    """Raw values as integers or reals."""
    exact, reals = raw.tolist(), raw.view(np.float64).tolist()
    return [r if real else e for e, r, real in zip(exact, reals, is_real.tolist(), strict=True)]


def _node_line(row: Row) -> str:
    words = [f"{row['id']} parent={row['parent']}"]
    words += [f"assoc={row['assoc']}"] if "assoc" in row else []
    words.append(f"lm={row['lm']} ip={row['ip']:#x}")
    words += [quoted(row["code"])] if row.get("code") is not None else []
    words += [f"lip={row['lip']}"] if "lip" in row else []
    words += [f"flags={row['flags']}"] if "flags" in row else []
    words += [f"values=[{', '.join(map(repr, row['values']))}]"] if "values" in row else []
    return " ".join(words)


def _sparse_rows(epoch: Epoch, values: SparseValues) -> Iterator[Row]:
    """The values of each node, in the order of the index."""
    real = np.zeros(1 << 16, np.bool_)
    real[: len(epoch.metrics)] = [metric.is_real for metric in epoch.metrics]
    bounds = [*values.first.tolist(), len(values.raw)]
    for node, (first, end) in zip(values.node_id.tolist(), pairwise(bounds), strict=True):
        metrics = values.metric[first:end]
        numbers = _numbers(values.raw[first:end], real[metrics])
        yield {"node": node, "values": list(zip(metrics.tolist(), numbers, strict=True))}


def _values_line(row: Row) -> str:
    return " ".join([str(row["node"]), *(f"{metric}={value!r}" for metric, value in row["values"])])


# -- text ----------------------------------------------------------------------------------------------------


def text(measurement: Measurement, limit: int | None = None) -> Iterator[str]:
    """Pieces of whole lines; of each block at most `limit` rows, and how many are left."""
    dialect = f" dialect={measurement.dialect}" if measurement.is_old else ""
    yield f"{measurement.header.line()}{dialect}\n"
    for block in blocks(measurement):
        yield from _block_text(block, limit)
    yield "end\n"


def header_text(header: Header) -> Iterator[str]:
    """What can be said of a file of which only the header is intact."""
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


# -- JSON ----------------------------------------------------------------------------------------------------


def json_text(measurement: Measurement, limit: int | None = None) -> Iterator[str]:
    """One JSON object, in pieces; of each block at most `limit` rows."""
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
    """Numbers that are not finite are null: JSON has none."""
    try:
        return json.dumps({key: value for key, value in row.items() if key}, allow_nan=False)
    except ValueError:
        return json.dumps({key: _finite(value) for key, value in row.items() if key})


def _finite(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
