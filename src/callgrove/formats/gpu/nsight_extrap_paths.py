"""The call paths that Extra-P gives to the correlations of an Nsight export.

Specification: gpu-traces.md section 9 a-c, extrap.md section 9.

    NVTX ranges of Extra-Prof     main->solve + cudaLaunchKernel_v7000  ->  main->solve->cudaLaunchKernel_v7000
    else call chains              frames of CUDA_CALLCHAINS, the outermost first, and the call itself
    else                          the call alone

A range's text is its path, or pointers separated by 0x1F to names among the strings. Durations become exclusive by
Extra-P's own rule (D5): a row loses what begins like it one level below, where begins-like is SQL's LIKE, so that `a_b`
also begins `axbc`, and `memset1` begins `memset1+0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.formats.gpu.nsight_extrap_overlaps import each_first, joined
from callgrove.formats.gpu.nsight_symbols import ARROW, decoded, extra_prof_domain, symbols
from callgrove.formats.gpu.sqlite_file import MISSING, Cells, SqliteFile, Type
from callgrove.model.arrays import Bools, Ids, Ints
from callgrove.model.intervals import enclosing

__all__ = ["CallPaths", "Strings", "call_paths", "rows_of"]

INTEGER, TEXT = Type.INTEGER, Type.TEXT
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
PUSH_POP = 59


class Strings:
    """StringIds."""

    def __init__(self, file: SqliteFile) -> None:
        rows = file.table("StringIds", {"id": INTEGER, "value": TEXT})
        self.all: Mapping[int, str] = {
            id_: text for id_, text in zip(rows["id"].tolist(), rows["value"].tolist(), strict=True) if text is not None
        }

    def __call__(self, ids: Ints) -> list[str | None]:
        return [self.all.get(id_) for id_ in ids.tolist()]


def rows_of(file: SqliteFile, table: str, *columns: str) -> Cells:
    """Rows with a start and an end after it: Extra-P's comparisons see no others."""
    rows = file.table(table, dict.fromkeys(("start", "end", *columns), INTEGER))
    kept = (rows["start"] != MISSING) & (rows["end"] >= rows["start"])  # an absent end is less than any time
    return {name: column[kept] for name, column in rows.items()}


@dataclass
class CallPaths:
    """Rows of (correlation, path, depth, duration); ranges themselves have no correlation. `texts` are different."""

    texts: list[str]
    correlation: Ints
    path: Ids
    depth: Ints
    duration: Ints
    ranges: Ranges | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def is_async(self) -> Bools:
        """By path: does it go through a call that does not wait?"""
        return np.array(["Async_" in text for text in self.texts], np.bool_)

    @property
    def is_range(self) -> Bools:
        return np.asarray(self.correlation == MISSING)

    def make_exclusive(self) -> None:
        """From the outermost level inwards: what is taken off a row are durations that are not yet exclusive."""
        for depth in range(int(self.depth.max(initial=-1)) + 1):
            own, below = np.flatnonzero(self.depth == depth), np.flatnonzero(self.depth == depth + 1)
            if not self.is_range[below].any():
                continue
            different, number = np.unique(self.path[below], return_inverse=True)
            total, ranges = np.zeros(len(different), np.int64), np.zeros(len(different), np.bool_)
            np.add.at(total, number, np.where(self.duration[below] == MISSING, 0, self.duration[below]))
            np.logical_or.at(ranges, number, self.is_range[below])
            texts = [self.texts[path] for path in different.tolist()]
            for path in np.unique(self.path[own]).tolist():
                found = beginning_like(self.texts[path], texts)
                if ranges[found].any():
                    rows = own[(self.path[own] == path) & (self.duration[own] != MISSING)]
                    self.duration[rows] -= total[found].sum()


@dataclass(frozen=True)
class Ranges:
    """The ranges of Extra-Prof; `path` numbers the texts of the call paths."""

    start: Ints
    end: Ints
    path: Ids
    depth: Ints
    thread: Ints

    def around(self, start: Ints, end: Ints, thread: Ints | None = None) -> tuple[Ints, Ints]:
        """Pairs (interval, range): the range, of the thread if one is given, that started last of those around an
        interval. Ranges that start together are all taken."""
        closed = np.flatnonzero(self.end != MISSING)
        own = self.thread if thread is not None else np.zeros(len(self.start), np.int64)
        found = enclosing((self.start[closed], self.end[closed]), (start, end), own[closed], thread)
        inner = np.flatnonzero(found >= 0)
        _, key = np.unique(np.stack([own, self.start]), axis=1, return_inverse=True)
        key = key.reshape(-1)
        which, at = joined(key[closed[found[inner]]], key)
        return inner[which], at


def beginning_like(prefix: str, texts: Iterable[str]) -> Ints:
    """Numbers of the texts that SQL's LIKE finds with `prefix%`: `_` is any character, `%` any number of them, and the
    case of ASCII letters does not count."""
    pieces = [re.compile(re.escape(piece).replace("_", "."), re.I | re.A | re.S) for piece in prefix.split("%")]
    return np.array([number for number, text in enumerate(texts) if _begins(pieces, text)], np.int64)


def _begins(pieces: list[re.Pattern[str]], text: str) -> bool:
    """As anything may follow, the first place where a piece fits is as good as any other."""
    found = pieces[0].match(text)
    for piece in pieces[1:]:
        found = found and piece.search(text, found.end())
    return found is not None


def call_paths(file: SqliteFile, strings: Strings) -> CallPaths:
    """The call paths of an export, with exclusive durations."""
    calls = rows_of(file, RUNTIME, "correlationId", "nameId", "globalTid", "callchainId")
    domain = extra_prof_domain(file)
    if domain is not None:
        paths = _from_ranges(file, strings, calls, domain)
    elif file.has("CUDA_CALLCHAINS", "id") and (calls["callchainId"] != MISSING).any():
        paths = _from_call_chains(file, strings, calls)
    else:
        paths = _from_calls(strings, calls)
    paths.make_exclusive()
    if domain is not None:
        names = symbols(strings.all)
        paths.texts = [decoded(text, names) for text in paths.texts]
    return paths


def _from_ranges(file: SqliteFile, strings: Strings, calls: Cells, domain: int) -> CallPaths:
    columns = dict.fromkeys(("start", "end", "eventType", "domainId", "uint32Value", "globalTid"), INTEGER)
    rows = file.table("NVTX_EVENTS", columns | {"text": TEXT})
    told = np.array([text is not None for text in rows["text"].tolist()], np.bool_)
    own = (rows["eventType"] == PUSH_POP) & (rows["domainId"] == domain) & told & (rows["start"] != MISSING)
    rows = {name: column[own] for name, column in rows.items()}
    encoded, path = np.unique(rows["text"].astype(str), return_inverse=True)
    ranges = Ranges(rows["start"], rows["end"], path.astype(np.int32), rows["uint32Value"], rows["globalTid"])

    call, at = ranges.around(calls["start"] - 1, calls["end"] + 1, calls["globalTid"])  # strictly
    name, other = np.unique(calls["nameId"][call], return_inverse=True)
    keys, number = np.unique(np.stack([ranges.path[at], other]), axis=1, return_inverse=True)
    apis = strings(name)
    texts = [encoded[p] + ARROW + (apis[n] or "") for p, n in keys.T.tolist()]
    named = np.array([apis[n] is not None for n in keys[1].tolist()], np.bool_)[number.reshape(-1)]

    closed = ranges.end != MISSING
    total = np.zeros(len(encoded), np.int64)
    np.add.at(total, ranges.path[closed], (ranges.end - ranges.start)[closed])
    known = np.bincount(ranges.path[closed], minlength=len(encoded)) > 0
    _, first, _ = each_first(ranges.path.astype(np.int64))
    return CallPaths(
        [*encoded.tolist(), *texts, "[Uncorrelated]"],
        np.concatenate([calls["correlationId"][call][named], np.full(len(encoded), MISSING), [0]]),
        np.concatenate(
            [number.reshape(-1)[named] + len(encoded), np.arange(len(encoded)), [len(encoded) + len(texts)]]
        ).astype(np.int32),
        np.concatenate([_below(ranges.depth[at][named]), ranges.depth[first], [0]]),
        np.concatenate([(calls["end"] - calls["start"])[call][named], np.where(known, total, MISSING), [MISSING]]),
        ranges,
    )


def _below(depth: Ints) -> Ints:
    return np.where(depth == MISSING, MISSING, depth + 1)


def _from_call_chains(file: SqliteFile, strings: Strings, calls: Cells) -> CallPaths:
    """Resolved frames of the chain that has the number after the call's; of a correlation's calls the first counts."""
    frames = file.table("CUDA_CALLCHAINS", dict.fromkeys(("id", "symbol", "unresolved", "stackDepth"), INTEGER))
    resolved = np.flatnonzero(frames["unresolved"] == MISSING)
    order = resolved[np.lexsort((-frames["stackDepth"][resolved], frames["id"][resolved]))]
    chain, begin = np.unique(frames["id"][order], return_index=True)
    texts = [
        ARROW.join(name.replace(ARROW, "- >") for name in strings(frames["symbol"][part]) if name is not None)
        for part in np.split(order, begin[1:])
    ]
    deepest = frames["stackDepth"][order[begin]] if len(begin) else np.zeros(0, np.int64)
    call, at = joined(calls["callchainId"], chain - 1)
    _, first, _ = each_first(calls["correlationId"][call])
    call, at = call[first], at[first]
    return _paths_of(strings, calls, call, [texts[k] + ARROW if texts[k] else "" for k in at.tolist()], deepest[at] + 1)


def _from_calls(strings: Strings, calls: Cells) -> CallPaths:
    """Where nothing is known of the callers."""
    call = np.flatnonzero(calls["correlationId"] != MISSING)
    paths = _paths_of(strings, calls, call, [""] * len(call), np.zeros(len(call), np.int64))
    paths.notes = ("has neither ranges of Extra-Prof nor call chains: call paths are the calls alone",)
    return paths


def _paths_of(strings: Strings, calls: Cells, call: Ints, callers: list[str], depth: Ints) -> CallPaths:
    names = strings(calls["nameId"][call])
    named = np.array([name is not None for name in names], np.bool_)
    full = [
        before + name.replace(ARROW, "- >") for before, name in zip(callers, names, strict=True) if name is not None
    ]
    texts, path = np.unique(np.array(full, str), return_inverse=True)
    return CallPaths(
        texts.tolist(),
        calls["correlationId"][call][named],
        path.astype(np.int32),
        depth[named],
        (calls["end"] - calls["start"])[call][named],
    )
