"""The rules of released databases, B.1 to B.4 and B.9, checked on the bytes with `struct` alone.

`raw_databases` reads values and samples from the same bytes; here is what else a strict reader relies on: magics and
footers, alignment, the order of sections and of blocks, ascending ids, pointers that lead to what they promise.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

META_SECTIONS = ("General", "IdNames", "Metrics", "Context", "Strings", "Modules", "Files", "Functions")
WRITTEN_ORDER = ("General", "IdNames", "Metrics", "Strings", "Modules", "Files", "Functions", "Context")
FOOTERS = {"meta": b"_meta.db", "prof": b"_prof.db", "ctxt": b"__ctx.db", "trce": b"trace.db"}


@dataclass(frozen=True)
class RawContext:
    """A context as meta.db has it; function, file and module are names, empty where there is none."""

    id: int
    parent: int
    relation: int
    lexical_type: int
    function: str
    file: str
    line: int
    module: str
    offset: int


@dataclass(frozen=True)
class Layout:
    """What the bytes say. Entry points are (id, number, name)."""

    entries: list[tuple[int, int, str]]
    contexts: list[RawContext]
    scope_ids: dict[tuple[str, str], int]  # (metric, scope) -> id
    tuples: list[list[tuple[int, int, int, int]]]  # kind, flags, logical, physical
    time_range: tuple[int, int] | None


def check_layout(folder: Path) -> Layout:
    """Every rule on every file."""
    meta = _Meta((folder / "meta.db").read_bytes())
    scope_ids = meta.metrics()
    entries, contexts = meta.contexts()
    tuples = _profiles((folder / "profile.db").read_bytes(), set(scope_ids.values()))
    ids = {context.id for context in contexts} | {id_ for id_, _, _ in entries}
    _contexts((folder / "cct.db").read_bytes(), len(tuples), max(ids, default=0))
    trace = folder / "trace.db"
    time_range = _traces(trace.read_bytes(), len(tuples)) if trace.exists() else None
    left = {path.name for path in folder.iterdir()}
    assert left <= {"meta.db", "profile.db", "cct.db", "trace.db", "metrics", "src"}
    assert not (folder / "metrics" / "default.yaml").read_bytes().endswith(b"\n")
    return Layout(entries, contexts, scope_ids, tuples, time_range)


def _sections(data: bytes, fmt: str, n: int) -> list[tuple[int, int]]:
    """(offset, size) of the sections, all of them inside of the file."""
    assert data[:10] == b"HPCTOOLKIT"
    assert data[10:14] == fmt.encode()
    assert (data[14], data[15]) == (4, 0)
    assert data[-8:] == FOOTERS[fmt]
    out = []
    for k in range(n):
        size, pointer = struct.unpack_from("<QQ", data, 16 + 16 * k)
        assert pointer % 8 == 0
        assert 16 + 16 * n <= pointer <= pointer + size <= len(data) - 8
        out.append((pointer, size))
    return out


class _Meta:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = dict(zip(META_SECTIONS, _sections(data, "meta", 8), strict=True))
        places = [self.at[name] for name in WRITTEN_ORDER]
        assert places[0][0] == 0x90
        for (first, size), (following, _) in pairwise(places):
            assert following == (first + size + 7) // 8 * 8
        title, description = struct.unpack_from("<QQ", data, self.at["General"][0])
        assert self.text(title) is not None
        assert self.text(description) is not None
        names, n_kinds = struct.unpack_from("<QB", data, self.at["IdNames"][0])
        self.id_names = [self.text(p) for (p,) in self.records("Q", names, n_kinds, 8)]
        self.modules = self.table("Modules", 16)
        self.files = self.table("Files", 16)
        self.functions = self.table("Functions", 40)

    def text(self, pointer: int) -> str:
        assert 0x90 <= pointer < len(self.data)
        return self.data[pointer : self.data.index(b"\0", pointer)].decode()

    def records(self, layout: str, at: int, n: int, stride: int) -> Iterator[tuple[int, ...]]:
        assert n == 0 or at % 8 == 0
        for k in range(n):
            yield struct.unpack_from("<" + layout, self.data, at + k * stride)

    def table(self, name: str, stride: int) -> range:
        """Where the records of a plain table begin."""
        section, size = self.at[name]
        at, n, found = struct.unpack_from("<QIH", self.data, section)
        assert found == stride
        assert n == 0 or (at % 8 == 0 and section < at and at + n * stride <= section + size)
        return range(at, at + n * stride, stride) if n else range(0)

    def path(self, pointer: int, table: range) -> str:
        if not pointer:
            return ""
        assert pointer in table
        flags, path = struct.unpack_from("<IxxxxQ", self.data, pointer)
        text = self.text(path)
        assert flags == 0 or (flags == 1 and table is self.files and text.startswith("src/"))
        return text

    def metrics(self) -> dict[tuple[str, str], int]:
        head = struct.unpack_from("<QIBBBxQHB", self.data, self.at["Metrics"][0])
        at, n, metric_size, instance_size, summary_size, scopes_at, n_scopes, scope_size = head
        assert (metric_size, instance_size, summary_size, scope_size) == (32, 16, 24, 16)
        scopes = {}
        for k, (name, kind, index) in enumerate(self.records("QBB", scopes_at, n_scopes, 16)):
            scopes[scopes_at + 16 * k] = self.text(name)
            assert (kind, index) == {
                "point": (1, 255),
                "function": (3, 0),
                "lex_aware": (0, 255),
                "execution": (2, 255),
            }[self.text(name)]
        out: dict[tuple[str, str], int] = {}
        for name, instances_at, summaries_at, n_instances, n_summaries in self.records("QQQHH", at, n, 32):
            instances = list(self.records("QH", instances_at, n_instances, 16))
            summaries = list(self.records("QQBxH", summaries_at, n_summaries, 24))
            assert [(s, i) for s, i in instances] == [(s, i) for s, _, _, i in summaries]
            assert all((self.text(formula), combine) == ("$$", 0) for _, formula, combine, _ in summaries)
            out |= {(self.text(name), scopes[scope]): id_ for scope, id_ in instances}
        assert sorted(out.values()) == list(range(len(out)))
        return out

    def contexts(self) -> tuple[list[tuple[int, int, str]], list[RawContext]]:
        section, size = self.at["Context"]
        at, n, stride = struct.unpack_from("<QHB", self.data, section)
        assert stride == 32
        entries, found, pending = [], [], []
        for children_size, children_at, id_, number, name in self.records("QQIHxxQ", at, n, 32):
            entries.append((id_, number, self.text(name)))
            assert number == {"main thread": 1, "application thread": 2}.get(self.text(name), 0)
            pending.append((children_at, children_size, id_, at))
        while pending:
            first, length, parent, above = pending.pop()
            assert not length or (first % 8 == 0 and section < first and first + length <= above)
            end = first + length
            while first < end:
                context, children_size, children_at, following = self.context(first, parent)
                found.append(context)
                pending.append((children_at, children_size, context.id, first))
                first = following
            assert first == end
        ids = [c.id for c in found] + [id_ for id_, _, _ in entries]
        assert len(set(ids)) == len(ids)
        assert 0 not in ids
        assert section + size == (at + 32 * n if n else section + size)
        return entries, found

    def context(self, at: int, parent: int) -> tuple[RawContext, int, int, int]:
        head = struct.unpack_from("<QQIBBBBH", self.data, at)
        children_size, children_at, id_, flags, relation, lexical_type, n_words, propagation = head
        words = list(struct.unpack_from(f"<{n_words}Q", self.data, at + 32))
        assert n_words == bool(flags & 1) + 2 * bool(flags & 2) + 2 * bool(flags & 4)
        assert propagation == (relation == 0)
        assert flags < 8
        assert relation < 3
        assert lexical_type < 4
        function = file = module = ""
        line = offset = 0
        if flags & 1:
            function = self.function(words.pop(0))
        if flags & 2:
            file, line = self.path(words.pop(0), self.files), words.pop(0)
        if flags & 4:
            module, offset = self.path(words.pop(0), self.modules), words.pop(0)
        context = RawContext(id_, parent, relation, lexical_type, function, file, line, module, offset)
        return context, children_size, children_at, at + 32 + 8 * n_words

    def function(self, pointer: int) -> str:
        assert pointer in self.functions
        name, module, _, file, _, flags = struct.unpack_from("<QQQQII", self.data, pointer)
        self.path(module, self.modules)
        self.path(file, self.files)
        assert flags == 0
        return self.text(name)


def _ascending(ids: list[int]) -> bool:
    return all(a < b for a, b in pairwise(ids))


def _block(data: bytes, head: tuple[int, int, int, int], layouts: tuple[str, str]) -> list[tuple[int, list[int]]]:
    """[(major id, [minor ids])] of a block; its parts follow each other, and both kinds of ids ascend."""
    n_values, values_at, n_index, index_at = head
    value, index = (struct.Struct("<" + layout) for layout in layouts)
    if not n_values:
        assert n_index == 0
        return []
    assert values_at % 4 == 0
    assert index_at == (values_at + value.size * n_values + 3) // 4 * 4
    values = list(value.iter_unpack(data[values_at : values_at + value.size * n_values]))
    pairs = list(index.iter_unpack(data[index_at : index_at + index.size * n_index]))
    assert all(number != 0 for _, number in values)
    bounds = [start for _, start in pairs] + [n_values]
    assert bounds[0] == 0
    assert _ascending(bounds)
    assert _ascending([id_ for id_, _ in pairs])
    out = []
    for k, (id_, start) in enumerate(pairs):
        minor = [m for m, _ in values[start : bounds[k + 1]]]
        assert _ascending(minor)
        out.append((id_, minor))
    return out


def _packed(blocks: list[tuple[int, int]], first: int, end: int) -> None:
    """Blocks (start, end) lie one after the other, each at the next multiple of 4."""
    at = first
    for start, stop in sorted(blocks):
        assert start == (at + 3) // 4 * 4
        at = stop
    assert end - at < 4


def _profiles(data: bytes, metric_ids: set[int]) -> list[list[tuple[int, int, int, int]]]:
    (infos, infos_size), (tuples_at, tuples_size) = _sections(data, "prof", 2)
    at, n, stride = struct.unpack_from("<QIB", data, infos)
    assert (infos, at, stride, infos_size) == (0x30, 0x40, 48, 16 + 48 * n)
    blocks, tuples = [], []
    for profile in range(n):
        *head, id_tuple, flags = struct.unpack_from("<QQIxxxxQQI", data, at + 48 * profile)
        n_values, values_at, n_ctxs, index_at = head
        assert (flags, id_tuple == 0) == (int(profile == 0), profile == 0)
        found = _block(data, (n_values, values_at, n_ctxs, index_at), ("Hd", "IQ"))
        assert {metric for _, metrics in found for metric in metrics} <= metric_ids
        if n_values:
            blocks.append((values_at, index_at + 12 * n_ctxs))
            assert profile > 0 or index_at + 12 * n_ctxs == len(data) - 8  # the summary is the last one
        if profile:
            assert id_tuple % 8 == 0
            assert tuples_at <= id_tuple < tuples_at + tuples_size
            (length,) = struct.unpack_from("<H", data, id_tuple)
            tuples.append([struct.unpack_from("<BxHIQ", data, id_tuple + 8 + 16 * k) for k in range(length)])
    _packed(blocks, tuples_at + tuples_size, len(data) - 8)
    return tuples


def _contexts(data: bytes, n_profiles: int, highest_id: int) -> None:
    [(section, size)] = _sections(data, "ctxt", 1)
    assert data[0x20:section] == bytes(section - 0x20)
    at, n, stride = struct.unpack_from("<QIB", data, section)
    assert (at, stride, size) == (section + 16, 32, 16 + 32 * n)
    assert n > highest_id
    blocks = []
    for context in range(n):
        n_values, values_at, n_metrics, index_at = struct.unpack_from("<QQHxxxxxxQ", data, at + 32 * context)
        found = _block(data, (n_values, values_at, n_metrics, index_at), ("Id", "HQ"))
        assert all(1 <= profile <= n_profiles for _, profiles in found for profile in profiles)
        if n_values:
            blocks.append((values_at, index_at + 10 * n_metrics))
    assert blocks == sorted(blocks)
    _packed(blocks, at + 32 * n, len(data) - 8)


def _traces(data: bytes, n_profiles: int) -> tuple[int, int]:
    [(section, size)] = _sections(data, "trce", 1)
    at, n, stride, low, high = struct.unpack_from("<QIBxxxQQ", data, section)
    assert (section, at, stride, size) == (0x20, 0x40, 24, 32 + 24 * n)
    assert n == n_profiles
    times = []
    for line in range(n):
        profile, start, end = struct.unpack_from("<IxxxxQQ", data, at + 24 * line)
        assert profile == line + 1
        assert start % 8 == 0
        assert (end - start) % 12 == 0
        assert at + 24 * n <= start <= end <= len(data) - 8
        times += [time for time, _ in struct.iter_unpack("<QI", data[start:end])]
    assert (low, high) == ((min(times), max(times)) if times else (0, 0))
    return low, high
