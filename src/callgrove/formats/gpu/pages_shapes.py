"""Records of SQLite that are alike: rows with equal headers, and texts that are equal, found by comparing bytes.

Most rows of a table have one of a few headers. These are looked for first; what is left is told apart by hashes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callgrove.formats.gpu.pages import Bytes, RowBatch
from callgrove.model.arrays import Array, Ints

__all__ = ["LONGEST_HEADER", "alike", "shapes_of"]

LONGEST_HEADER = 64  # bytes that are compared; rows with more are walked through one by one
HEADER_WORDS = 4  # of 8 bytes, that are compared as a rule
MANY_ALIKE = 64  # texts that are compared before they are decoded
N_SHOWN = 16  # rows that are looked at to find a common one
MOST_COMMON = 6  # shapes that are looked for one after the other
BUCKET_BITS, TURNS = 13, 3  # of a hash; more bits are looked at where headers meet in one bucket
MIXERS = np.random.default_rng(7).integers(0, 2**63, LONGEST_HEADER // 8, np.uint64) | np.uint64(1)
# By the size of a header: 1-bits over its bytes, as numbers of 8 bytes in the machine's order.
MASKS = np.where(np.arange(LONGEST_HEADER) < np.arange(LONGEST_HEADER + 1)[:, None], np.uint8(255), np.uint8(0)).view(
    np.uint64
)


def alike(data: Bytes, begin: Ints, length: Ints) -> tuple[Ints, Ints] | None:
    """Where all values are as long as each other, and not long: some of them, no two that follow each other equal, and
    for every one which of these it is like. None where that saves nothing."""
    if len(begin) < MANY_ALIKE or not 0 < int(length[0]) <= LONGEST_HEADER or (length != length[0]).any():
        return None
    words = data.blocks(begin, -(-int(length[0]) // 8)) & MASKS[int(length[0])][: -(-int(length[0]) // 8)]
    new = np.append(True, (words[1:] != words[:-1]).any(axis=1))
    return (np.flatnonzero(new), np.cumsum(new) - 1) if 2 * int(new.sum()) < len(new) else None


def shapes_of(data: Bytes, rows: RowBatch) -> tuple[Ints, Ints]:
    """Rows whose headers differ, one for each header, and for every row which of these it is like."""
    n = len(rows)
    words = data.blocks(rows.start, HEADER_WORDS)
    size = words.view(np.uint8)[:, 0]
    longest = int(size.max(initial=0))
    if longest > LONGEST_HEADER or longest == 0:
        every = np.arange(n)
        return every, every
    if longest > 8 * HEADER_WORDS:
        words = data.blocks(rows.start, LONGEST_HEADER // 8)
    n_words = -(-longest // 8)
    masks = MASKS[longest] if (size == longest).all() else MASKS[size]
    headers = [words[:, k] & masks[..., k] for k in range(n_words)]
    models, group, rest = _common(headers, n)
    if not len(rest):
        return models, group
    others, number = _hashed([word[rest] for word in headers])
    group[rest] = number + len(models)
    return np.append(models, rest[others]), group


def _common(headers: Sequence[Array], n: int) -> tuple[Ints, Ints, Ints]:
    """Headers that most rows have, as some rows show: one row of each, which of these every row is like, and the rows
    that have another one."""
    group = np.zeros(n, np.int64)
    models: list[int] = []
    rest = np.arange(n)
    while len(rest) and len(models) < MOST_COMMON:
        row = _typical(headers, rest)
        if row is None:
            break
        columns = headers if len(rest) == n else [word.take(rest) for word in headers]
        same = columns[0] == headers[0][row]
        for word, header in zip(columns[1:], headers[1:], strict=True):
            same &= word == header[row]
        others = rest.compress(~same)
        if 2 * len(others) > len(rest):
            break
        if models:
            group[rest.compress(same)] = len(models)
        models.append(row)
        rest = others
    return np.array(models, np.int64), group, rest


def _typical(headers: Sequence[Array], rows: Ints) -> int | None:
    """A row whose header most of these rows seem to have."""
    some = rows[:: max(1, len(rows) // N_SHOWN)]
    shown = list(zip(*(word.take(some).tolist() for word in headers), strict=True))
    typical = max(set(shown), key=shown.count)
    return int(some[shown.index(typical)]) if 2 * shown.count(typical) >= len(shown) else None


def _hashed(headers: Sequence[Array], turn: int = 0) -> tuple[Ints, Ints]:
    """Rows whose headers differ, and for every row which of these it is like. A header may still be there twice."""
    n = len(headers[0])
    mixed = np.zeros(n, np.uint64)
    for word, mixer in zip(headers, MIXERS, strict=False):
        mixed = (mixed ^ word) * mixer
    bucket = ((mixed >> np.uint64(64 - BUCKET_BITS * (turn + 1))) & np.uint64((1 << BUCKET_BITS) - 1)).view(np.int64)
    every = np.arange(n)
    latest = np.empty(1 << BUCKET_BITS, np.int64)
    latest[bucket] = every
    like = latest.take(bucket)
    differs = np.zeros(n, np.bool_)
    for word in headers:
        differs |= word != word.take(like)
    others = np.flatnonzero(differs)  # another header has the same bucket
    is_model = like == every
    number = (np.cumsum(is_model) - 1).take(like)
    models = np.flatnonzero(is_model)
    if not len(others):
        return models, number
    if turn + 1 < TURNS:
        found, own = _hashed([word[others] for word in headers], turn + 1)
    else:
        found = own = np.arange(len(others))
    number[others] = own + len(models)
    return np.append(models, others[found]), number
