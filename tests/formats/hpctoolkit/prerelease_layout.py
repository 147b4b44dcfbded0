"""The rules of pre-release databases, A.1 to A.5 and A.8, checked on the bytes with `struct` and a stock XML parser.

Nothing here knows our record tables: offsets and sizes are the specification's own numbers.
"""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# As in genuine files; Pr, which readers know, stands for an inlined function when it is not known where it was inlined.
NESTING: dict[str, set[str]] = {
    "root": {"PF"},
    "PF": {"C", "S", "L", "Pr"},
    "C": {"PF"},
    "L": {"L", "S", "C", "Pr"},
    "Pr": {"C", "S", "L", "Pr"},
    "S": set(),
}
TABLES = [
    "IdentifierNameTable",
    "MetricTable",
    "MetricDBTable",
    "TraceDBTable",
    "LoadModuleTable",
    "FileTable",
    "ProcedureTable",
    "Info",
]
VERSIONS = {"genuine": (1, 0), "document": (4, 0)}


@dataclass(frozen=True)
class Layout:
    """What the bytes say. Values are by (profile, context, metric), as bits."""

    values: dict[tuple[int, int, int], int]
    blocks: list[bytes]  # of profiles, the summary first
    lines: list[bytes]  # of traces
    tuples: list[list[tuple[int, int, int]]]  # kind, physical, logical
    signed_ids: set[int]
    metric_dbs: dict[int, str]
    partials: dict[int, str]
    times: tuple[int, int] | None


def check_layout(folder: Path, dialect: str = "genuine", genuine_nesting: bool = True) -> Layout:
    """Every rule on every file."""
    assert {path.name for path in folder.iterdir()} <= {"experiment.xml", "profile.db", "cct.db", "trace.db", "src"}
    tuples, values, blocks = _profiles((folder / "profile.db").read_bytes(), dialect)
    by_context, n_contexts = _contexts((folder / "cct.db").read_bytes(), dialect)
    assert by_context == {key: value for key, value in values.items() if key[0] > 0}
    lines = _traces((folder / "trace.db").read_bytes(), dialect, len(tuples) - 1, n_contexts)
    signed_ids, metric_dbs, partials, times = _xml(folder / "experiment.xml", genuine_nesting)
    assert all(0 < abs(id_) < n_contexts for id_ in signed_ids)
    assert {metric for profile, _, metric in values if profile} <= metric_dbs.keys()
    assert {metric for profile, _, metric in values if not profile} <= partials.keys()
    stamps = [time for line in lines for time, _ in struct.iter_unpack(">QI", line)]
    assert times == ((min(stamps), max(stamps)) if stamps else None)
    return Layout(values, blocks, lines, tuples, signed_ids, metric_dbs, partials, times)


def _header(data: bytes, magic: bytes, dialect: str, n_sections: int) -> tuple[int, list[tuple[int, int]]]:
    assert data[:16] == magic
    assert (data[16], data[17]) == VERSIONS[dialect]
    n_items, found = struct.unpack_from(">IH", data, 18)
    assert found == n_sections
    end = 24 + 16 * n_sections
    assert data[end:128] == bytes(128 - end)
    return n_items, [struct.unpack_from(">QQ", data, 24 + 16 * k) for k in range(n_sections)]


def _up(offset: int) -> int:
    return -(-offset // 8) * 8


def _profiles(
    data: bytes, dialect: str
) -> tuple[list[list[tuple[int, int, int]]], dict[tuple[int, int, int], int], list[bytes]]:
    n, [(size, at), (tuple_size, tuples_at)] = _header(data, b"HPCPROF-profdb__", dialect, 2)
    assert (size, at, tuples_at) == (52 * n, 128, _up(128 + 52 * n))
    tuples, values, blocks, places = [], {}, [], []
    following = tuples_at
    for profile in range(n):
        pointer, a, b, c, n_values, n_contexts, block_at = struct.unpack_from(">QQQQQIQ", data, 128 + 52 * profile)
        assert (pointer, a, b, c) == (following, 0, 0, 0)
        [length] = struct.unpack_from(">H", data, pointer)
        tuples.append([struct.unpack_from(">HQQ", data, pointer + 2 + 18 * k) for k in range(length)])
        following += 2 + 18 * length
        block = data[block_at : block_at + 10 * n_values + 12 * (n_contexts + 1)]
        blocks.append(block)
        places.append((block_at, block_at + len(block)))
        values.update({(profile, c, m): v for c, m, v in _block(block, n_values, n_contexts, ">QH", ">IQ", 0x656E6421)})
    assert tuples[0] == [(0, 0, 0)]
    assert following == tuples_at + tuple_size
    _packed(sorted(places), _up(following), len(data) - 8)
    assert max(places) == places[0]  # the summary comes last
    assert data[-8:] == b"tfBDFORP"
    return tuples, values, blocks


def _block(
    block: bytes, n_values: int, n_index: int, value: str, index: str, marker: int
) -> list[tuple[int, int, int]]:
    """(index id, value's id, bits) of every value; all orders are as they must be."""
    pairs = list(struct.iter_unpack(value, block[: 10 * n_values if value == ">QH" else 12 * n_values]))
    entries = list(struct.iter_unpack(index, block[struct.calcsize(value) * n_values :]))
    assert entries[-1] == (marker, n_values)
    assert len(entries) == n_index + 1
    ids, starts = [i for i, _ in entries[:-1]], [s for _, s in entries]
    assert ids == sorted(set(ids))
    assert starts[0] == 0
    assert starts == sorted(set(starts)) or n_values == 0  # no entry without values
    out = []
    for id_, first, last in zip(ids, starts[:-1], starts[1:], strict=True):
        inner = [i for _, i in pairs[first:last]]
        assert inner == sorted(set(inner))
        out += [(id_, i, bits) for bits, i in pairs[first:last]]
    assert all(bits & (2**63 - 1) for _, _, bits in out)  # zeros are not stored
    return out


def _packed(places: list[tuple[int, int]], first: int, last: int) -> None:
    at = first
    for start, end in places:
        assert start == at
        at = end
    assert at == last


def _contexts(data: bytes, dialect: str) -> tuple[dict[tuple[int, int, int], int], int]:
    n, [(size, at)] = _header(data, b"HPCPROF-cctdb___", dialect, 1)
    assert (size, at) == (22 * n, 128)
    following, values = _up(128 + 22 * n), {}
    for context in range(n):
        id_, n_values, n_metrics, block_at = struct.unpack_from(">IQHQ", data, 128 + 22 * context)
        assert (id_, block_at) == (context, following)
        if n_metrics:
            following += 12 * n_values + 10 * (n_metrics + 1)
            found = _block(data[block_at:following], n_values, n_metrics, ">QI", ">HQ", 0x6564)
            values.update({(p, context, m): v for m, p, v in found})
        else:
            assert n_values == 0
    assert following == len(data) - 8
    assert data[-8:] == b"rtfBDTCC"
    assert all(profile > 0 for profile, _, _ in values)
    return values, n


def _traces(data: bytes, dialect: str, n_threads: int, n_contexts: int) -> list[bytes]:
    n, [(size, at)] = _header(data, b"HPCPROF-tracedb_", dialect, 1)
    assert (n, size, at) == (n_threads, 22 * n, 128)
    lines, places = [], []
    for line in range(n):
        profile, kind, start, end = struct.unpack_from(">IHQQ", data, 128 + 22 * line)
        assert (profile, kind) == (line + 1, 0)
        lines.append(data[start:end] if end > start else b"")
        places += [(start, end)] if end > start else []
        samples = list(struct.iter_unpack(">QI", lines[-1]))
        assert [time for time, _ in samples] == sorted(time for time, _ in samples)
        assert all(0 < context < n_contexts for _, context in samples)
    footer = {"genuine": b"", "document": b"tfBDCART"}[dialect]
    assert data.endswith(footer)
    if places:
        _packed(sorted(places), _up(128 + 22 * n), len(data) - len(footer))
    return lines


def _xml(path: Path, genuine_nesting: bool) -> tuple[set[int], dict[int, str], dict[int, str], tuple[int, int] | None]:
    root = ET.parse(path).getroot()
    assert (root.tag, root.attrib) == ("HPCToolkitExperiment", {"version": "4.0"})
    header, section = root
    assert header.tag == "Header"
    assert section.attrib == {"i": "0", "n": header.attrib["n"]}
    tables, tree = section
    assert [table.tag for table in tables] == TABLES
    known = {table.tag: {int(e.attrib["i"]) for e in table} for table in tables}
    assert all(len(known[table.tag]) == len(table) for table in tables if table.tag != "MetricTable")
    assert [e.attrib["n"] for e in tables[4][:2]] == ["<unknown module>", "<no module>"]
    signed = _tags(tree, known, genuine_nesting)
    metrics = list(tables[1])
    ids = [int(m.attrib["i"]) for m in metrics]
    assert len(set(ids)) == len(ids)
    partials = {int(m.attrib["i"]): m.attrib["n"] for m in metrics if m.attrib["show"] == "4"}
    assert all(":PARTIAL:" in name for name in partials.values())
    assert all(int(m.attrib["partner"]) in set(ids) for m in metrics)
    metric_dbs = {int(m.attrib["i"]): m.attrib["n"] for m in tables[2]}
    assert {id_ % 3 for id_ in metric_dbs} <= {1, 2}
    traces = [(int(t.attrib["db-min-time"]), int(t.attrib["db-max-time"])) for t in tables[3]]
    return signed, metric_dbs, partials, traces[0] if traces else None


def _tags(tree: ET.Element, known: dict[str, set[int]], genuine_nesting: bool) -> set[int]:
    """Signed ids are unique, tags nest as in genuine files, numbers are in their tables."""
    ids: Counter[int] = Counter()
    stack = [("root", tag) for tag in tree]
    while stack:
        above, element = stack.pop()
        tag, attributes = element.tag, element.attrib
        ids[int(attributes["i"])] += 1
        if genuine_nesting:
            assert tag in NESTING[above]
        if tag == "PF":
            assert int(attributes["n"]) in known["ProcedureTable"]
            assert int(attributes["lm"]) in known["LoadModuleTable"]
        assert int(attributes["f"]) in known["FileTable"]
        if tag in ("C", "S"):
            assert int(attributes["it"]) == abs(int(attributes["i"]))
        stack.extend((tag, child) for child in element)
    assert max(ids.values(), default=1) == 1
    assert all(-id_ in ids for id_ in ids if id_ < 0)
    return set(ids)
