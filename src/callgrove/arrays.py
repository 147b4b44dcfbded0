"""Array types, and passes over columns that every layer uses: grouping, renumbering, trees given by parents, texts by
number.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

__all__ = [
    "ABSENT",
    "MISSING",
    "NO_OFFSET",
    "Array",
    "Bools",
    "Directory",
    "Encoded",
    "Floats",
    "Ids",
    "Ints",
    "LazyColumn",
    "Names",
    "Offsets",
    "Translation",
    "absent_stays",
    "bundles",
    "choose_rows",
    "combine_upwards",
    "cycles",
    "depths",
    "distinct",
    "distinct_rows",
    "fill_runs",
    "find_first_of_equal",
    "first_with_parents",
    "freeze",
    "group_alike",
    "have_equal_rows",
    "in_order",
    "levels",
    "nearest_above",
    "new_numbers",
    "pack_columns",
    "preorder",
    "sort_stably",
    "subtract_children",
    "subtree_ends",
    "summable",
    "take_items",
]


ABSENT = -1
MISSING = int(np.iinfo(np.int64).min)  # an absent integer where -1 is a value; no time, size or id is that small
NO_OFFSET = np.uint64(2**64 - 1)  # offsets are unsigned: kernel addresses exceed 2**63

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.uint64]

Item = TypeVar("Item")


def freeze(array: Array) -> Array:
    """Make an array read-only and return it: the model is immutable, its arrays too."""
    array.flags.writeable = False
    return array


def distinct(*parts: Array) -> Array:
    """Return the different numbers in some columns, ascending. Where most of them differ, sorting is far faster than
    the hash table of `np.unique`: 15 times for a million. The first call of that also imports numpy.ma, which takes a
    third of the time that importing NumPy takes."""
    values = np.sort(parts[0] if len(parts) == 1 else np.concatenate(parts), kind="stable")
    fresh = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return values[fresh]


def summable(values: Array) -> Array:
    """Return numbers in a type that holds their sum: integers of 64 bits, or doubles where these would overflow."""
    if values.dtype.kind not in "biu":
        return values
    signed = values.dtype.kind != "u"
    wide = values.astype(np.int64 if signed else np.uint64, copy=False)
    if not values.size or values.dtype.itemsize * 8 + int(values.size).bit_length() < 63:
        return wide
    # Three comparisons instead of an exact sum: the largest magnitude times the count, then the sum in doubles.
    top = max(abs(int(wide.min())), abs(int(wide.max())))
    limit = 2**63 if signed else 2**64
    if top * values.size < limit or float(np.abs(wide.astype(np.float64)).sum()) < limit * 0.999:
        return wide
    return wide.astype(np.float64)


SHORT_RUN = 6  # numbers


def fill_runs(out: Ids, numbers: Ids, first: Ints) -> None:
    """Fill a column with numbers, each from its place up to that of the next one; places ascend from 0 on, and equal
    ones leave no room. Short runs of any lengths are summed up from differences, in a third of the time of
    `np.repeat`."""
    if len(numbers) * SHORT_RUN < len(out):
        out[:] = np.repeat(numbers, np.diff(first, append=len(out)))
        return
    has_room = np.diff(first, append=len(out)) > 0
    if not has_room.all():
        numbers, first = numbers[has_room], first[has_room]
    if len(numbers):
        out.fill(0)
        out[0], out[first[1:]] = numbers[0], np.diff(numbers)
        np.cumsum(out, dtype=np.int32, out=out)


# -- from ids of a whole to ids of a part ------------------------------------------------------------------------------
# -1 where the part does not have one.


def new_numbers(kept: Ints, n: int) -> Ids:
    """Return for each of `n` ids the place that it has in `kept`."""
    out = np.full(n, ABSENT, np.int32)
    out[kept] = np.arange(len(kept), dtype=np.int32)
    return out


def absent_stays(numbers: Ids) -> Ids:
    """Return a map with an entry more, which -1 picks: who is absent before is absent after."""
    return np.append(numbers, np.int32(ABSENT))


# -- rows with equal keys ----------------------------------------------------------------------------------------------
# Columns have millions of rows: they are counted where keys are dense, and sorted where not.


DENSE = 4  # cells of a table per row that are still cheaper than sorting the rows
SMALL = 1 << 16  # cells that are cheap in any case
LIMIT = 1 << 62
FAR = 1 << 40


def bundles(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Put items that follow each other together up to a size; return the first one and the end of every bundle."""
    firsts, held = [0], 0
    for number, size in enumerate(sizes):
        if number and held + size > most:
            firsts.append(number)
            held = 0
        held += size
    return list(pairwise([*firsts, len(sizes)])) if sizes else []


def pack_columns(*columns: Array, far: int = FAR) -> Ints | None:
    """Return one number for each row, equal and in order as its cells are; None where these need more than 62 bits.
    Cells of a column that lie further apart than `far` are numbered first, which takes long."""
    out: Ints | None = None
    is_copy = False  # and may be changed
    size = 1
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if high - low > far:  # some cells are far away, such as those that stand for nothing
            column = np.unique(column, return_inverse=True)[1].reshape(-1)
            low, high = 0, int(column.max())
        if low == high:
            continue
        size *= high - low + 1
        if size > LIMIT:
            return None
        if out is None:
            is_copy = low != 0 or column.dtype != np.int64
            out = np.subtract(column, low, dtype=np.int64, casting="unsafe") if is_copy else column
            continue
        out = np.multiply(out, high - low + 1, out=out if is_copy else None)
        out += column if column.dtype.kind != "u" else column.astype(np.int64)
        out -= low
        is_copy = True
    return np.zeros(len(columns[0]), np.int64) if out is None else out


def group_alike(marks: Bools) -> Iterator[tuple[Bools, Ints]]:
    """Yield rows with the same marks: these, and the numbers of the rows."""
    if marks.all():
        yield np.ones(marks.shape[1], np.bool_), np.arange(len(marks))
        return
    packed = np.packbits(marks, axis=1)
    keys = packed.view([("", packed.dtype)] * packed.shape[1]).reshape(-1)
    _, first, back = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(back.reshape(-1), kind="stable")
    bounds = np.searchsorted(back.reshape(-1)[order], np.arange(len(first) + 1))
    for number, one in enumerate(first.tolist()):
        yield marks[one], order[bounds[number] : bounds[number + 1]]


def distinct_rows(*columns: Array) -> tuple[Ints, Ints]:
    """Return the distinct rows, in order, as a matrix with a row for each column; and the number of every row among
    them."""
    keys = pack_columns(*columns)
    if keys is None:
        different, number = np.unique(np.stack([c.astype(np.int64) for c in columns]), axis=1, return_inverse=True)
        return different, number.reshape(-1)
    size = int(keys.max(initial=-1)) + 1
    if size <= DENSE * len(keys) + SMALL:
        latest = np.full(size, ABSENT, np.int64)
        latest[keys] = np.arange(len(keys))
        used = latest >= 0
        number, rows = (np.cumsum(used) - 1).take(keys), latest[used]
    else:
        _, rows, number = np.unique(keys, return_index=True, return_inverse=True)
    return np.stack([column[rows].astype(np.int64) for column in columns]), number.reshape(-1)


def _rows_by_key(keys: Ints) -> Ints | None:
    """Return the rows in the order of keys that are all different and lie close together; None where they do not."""
    size = int(keys.max(initial=-1)) + 1
    if size > DENSE * len(keys) + SMALL:
        return None
    rows = np.full(size, ABSENT, np.int64)
    rows[keys] = np.arange(len(keys))
    rows = rows[rows >= 0]
    return rows if len(rows) == len(keys) else None


def choose_rows(mask: Bools) -> Ints | slice:
    """Return the rows that a mask chooses: as a slice, which copies nothing, where they follow each other, as those of
    one table do."""
    n = int(np.count_nonzero(mask))
    first = int(mask.argmax()) if n else 0
    return slice(first, first + n) if mask[first : first + n].all() else np.flatnonzero(mask)


def have_equal_rows(*columns: Array) -> bool:
    """Return whether two rows have the same cells."""
    keys = pack_columns(*columns)
    if keys is None:
        order = np.lexsort(columns)
        return bool(np.logical_and.reduce([np.diff(column[order]) == 0 for column in columns]).any())
    if (keys[1:] > keys[:-1]).all() or _rows_by_key(keys) is not None:
        return False
    ordered = np.sort(keys)
    return bool((ordered[1:] == ordered[:-1]).any())


FEW_RUNS = 64


def in_order(*columns: Array) -> Ints:
    """Return the rows in the order of their cells, equal ones as they stand. A number that ends with that of the row
    sorts several times faster than rows do, where there is one."""
    keys = pack_columns(*columns, far=LIMIT)
    if keys is None or not len(keys) or (int(keys.max()) + 1) * len(keys) > LIMIT:
        return np.lexsort(columns[::-1])
    n_descents = int(np.count_nonzero(keys[1:] < keys[:-1]))
    if n_descents == 0:
        return np.arange(len(keys))
    if n_descents < FEW_RUNS:  # which a stable sort only merges
        return np.argsort(keys, kind="stable")
    if (rows := _rows_by_key(keys)) is not None:
        return rows
    bits = len(keys).bit_length()
    keys = (keys << bits) | np.arange(len(keys))
    keys.sort()
    keys &= (1 << bits) - 1
    return keys


def find_first_of_equal(*columns: Array) -> Ints:
    """Return for every row the first one with the same cells."""
    order = in_order(*columns)
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in columns])
    out = np.empty(len(order), np.int64)
    out[order] = order[fresh][np.cumsum(fresh) - 1]
    return out


class Directory:
    """From keys to the numbers that stand with them; -1 for keys that are not there. Of equal keys the first counts."""

    def __init__(self, keys: Ints, numbers: Array) -> None:
        self._low = int(keys.min()) if len(keys) else 0
        size = int(keys.max()) - self._low + 1 if len(keys) else 0
        self._table: Ints | None = None
        self._n = len(keys)
        if size <= DENSE * len(keys) + SMALL:
            self._table = np.full(size + 1, ABSENT, np.int64)  # the last cell is for all other keys
            self._table[keys[::-1] - self._low] = numbers[::-1]
        else:
            order = np.argsort(keys, kind="stable")
            self._keys, self._numbers = keys[order], numbers[order].astype(np.int64)

    @property
    def is_unique(self) -> bool:
        """Has every key one number? (Numbers are not negative.)"""
        if self._table is not None:
            return int((self._table >= 0).sum()) == self._n
        return not bool((self._keys[1:] == self._keys[:-1]).any())

    def __getitem__(self, keys: Ints) -> Ints:
        if self._table is not None:
            n = len(self._table) - 1
            place = (keys - self._low).view(np.uint64)  # what lies below wraps around to far above
            return self._table.take(np.minimum(place, np.uint64(n)).view(np.int64))
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._numbers[place], ABSENT)


# -- trees given by parents --------------------------------------------------------------------------------------------
#     parent       -1  0  1  1  0        a root, its children, in preorder
#     subtree_end   5  4  3  4  5        the subtree of c is the slice [c, subtree_end[c])
#
# Depth is bounded by nothing (compilers nest more than a thousand levels), so nothing here recurses.


WIDE_ROWS = 64  # profiles


def depths(parent: Ids) -> Ids:
    """Return the distance of contexts to the root, 0 for roots, by pointer jumping: log(depth) passes over any order of
    contexts.

    Contexts on a cycle never reach a root and keep -1.
    """
    n = len(parent)
    jump = np.where(parent < 0, n, parent).astype(np.int64)  # n stands above every root
    steps = np.ones(n + 1, np.int64)
    steps[n] = 0
    jump = np.append(jump, n)
    for _ in range(max(1, n.bit_length() + 1)):
        if (jump == n).all():
            break
        steps += steps[jump]
        jump = jump[jump]
    out = steps[:n] - 1
    out[jump[:n] != n] = ABSENT
    return out.astype(np.int32)


def cycles(parent: Ids) -> Ints:
    """Return contexts that are their own ancestor, or lie below one that is."""
    return np.flatnonzero(depths(parent) < 0)


def preorder(parent: Ids) -> Ints:
    """Return the order that puts every context before its children and keeps siblings as they were given.

    `parent` may be in any order but must be free of cycles.
    """
    n = len(parent)
    if _is_preorder(parent):
        return np.arange(n, dtype=np.int64)
    depth = depths(parent)
    size = np.ones(n, np.int64)
    for level in reversed(levels(depth)[1:]):
        np.add.at(size, parent[level], size[level])
    # position = sum over the ancestors of 1 + the sizes of their earlier siblings
    siblings = np.argsort(parent, kind="stable")
    before = np.cumsum(size[siblings]) - size[siblings]
    first = np.flatnonzero(np.diff(parent[siblings], prepend=-2))
    before -= np.repeat(before[first], np.diff(np.append(first, n)))
    position = np.empty(n, np.int64)
    position[siblings] = before
    for level in levels(depth)[1:]:
        position[level] += position[parent[level]] + 1
    order = np.empty(n, np.int64)
    order[position] = np.arange(n)
    return order


def _is_preorder(parent: Ids) -> bool:
    """Return whether each parent is on the path from the root to the context before."""
    steps_down = parent[1:] == np.arange(len(parent) - 1)
    if not (steps_down | (parent[1:] <= parent[:-1])).all():  # as where a second tree was added to a first one
        return False
    path: list[int] = []
    for context, above in enumerate(parent.tolist()):
        while path and path[-1] != above:
            path.pop()
        if above >= 0 and not path:
            return False
        path.append(context)
    return True


def first_with_parents(order: Ints, parent: Ids, limit: int) -> Ints:
    """Return at most `limit` nodes of a tree: the first ones of an order, each with all that lies above it. Where the
    first one lies too deep, what is above it stays, from the root on."""
    kept: set[int] = set()
    for node in order.tolist():
        chain = []
        while node >= 0 and node not in kept:
            chain.append(node)
            node = int(parent[node])
        if len(kept) + len(chain) > limit:
            kept.update([] if kept else chain[len(chain) - limit :])
            break
        kept.update(chain)
    return np.array(sorted(kept), np.int64)


def subtree_ends(parent: Ids) -> Ids:
    """Return one past the last context of each subtree, for contexts in preorder."""
    n = len(parent)
    by_parent = in_order(parent)
    follows = parent[by_parent[1:]] == parent[by_parent[:-1]]  # a sibling, at which the subtree ends
    ends = np.full(n, n, np.int32)
    ends[by_parent[:-1][follows]] = by_parent[1:][follows]
    # The subtree of a last child ends where that of its parent does.
    owner = np.where((ends < n) | (parent < 0), np.arange(n), parent)
    while (further := owner[owner] != owner).any():
        owner[further] = owner[owner[further]]
    return ends[owner]


def nearest_above(chosen: Bools, owner: Ids) -> Ids:
    """Return for each chosen context the nearest chosen one among its owners, their owners and so on; -1 where there is
    none, and for contexts that are not chosen."""
    out = np.where(chosen, owner, ABSENT)
    while len(climbing := np.flatnonzero((out >= 0) & ~chosen[out])):
        out[climbing] = owner[out[climbing]]
    return np.where(out >= 0, out, ABSENT).astype(np.int32)


def sort_stably(numbers: Ids) -> Ints:
    """Return the order of numbers from 0 on, equal ones as they were given. Numbers of 16 bits are not compared with
    each other but counted, in a tenth of the time."""
    few = len(numbers) and int(numbers.min()) >= 0 and int(numbers.max()) < 2**16
    return np.argsort(numbers.astype(np.uint16) if few else numbers, kind="stable")


def levels(depth: Ids) -> list[Ints]:
    """Return contexts of each depth, roots first."""
    if not len(depth):
        return []
    order = sort_stably(depth)
    bounds = np.searchsorted(depth[order], np.arange(1, int(depth.max()) + 1))
    return np.split(order, bounds)


def combine_upwards(
    values: Array, parent: Ids, by_level: list[Ints], ufunc: np.ufunc = np.add, out: Array | None = None
) -> Array:
    """Return each context's value combined with those of everything below it. Level by level: no cancellation, as a
    difference of running sums would have. `values` may be (contexts) or (contexts x profiles); `out` may be them."""
    if out is None:
        out = values.copy()
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        if out.ndim > 1 and out.shape[1] >= WIDE_ROWS:
            _combine_rows(out, parent, by_level, ufunc)
            return out
        for level in reversed(by_level[1:]):
            ufunc.at(out, parent[level], out[level])
    return out


def _combine_rows(out: Array, parent: Ids, by_level: list[Ints], ufunc: np.ufunc) -> None:
    """Combine values upwards row by row: long rows are added faster one after the other than gathered first."""
    for level in reversed(by_level[1:]):
        for context, above in zip(level.tolist(), parent[level].tolist(), strict=True):
            ufunc(out[above], out[context], out=out[above])


def subtract_children(values: Array, owner: Ids) -> Array:
    """Return each context's value less the values of the contexts that it owns (`owner` -1: owned by none).

    What remains of a difference of equal sums is rounding, not cost: it becomes zero.
    """
    owned = np.flatnonzero(owner >= 0)
    taken = np.zeros_like(values)
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        if values.ndim > 1 and values.shape[1] >= WIDE_ROWS:
            for context, above in zip(owned.tolist(), owner[owned].tolist(), strict=True):
                taken[above] += values[context]
        else:
            np.add.at(taken, owner[owned], values[owned])
        out: Array = values - taken
        if np.issubdtype(out.dtype, np.floating):
            out[np.isfinite(out) & (np.abs(out) <= 1e-12 * np.maximum(np.abs(values), np.abs(taken)))] = 0
    return out


# -- texts known by numbers --------------------------------------------------------------------------------------------


NOT_YET = -2


class _Numbers(dict[str | None, int]):
    """The numbers of texts; one that is looked up for the first time gets the next number."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__()
        self._texts = texts

    def __missing__(self, text: str | None) -> int:
        if text is None:
            return ABSENT
        if not isinstance(text, str):
            raise TypeError(text)
        number = self[text] = len(self._texts)
        self._texts.append(text)
        return number

    def __reduce__(self) -> tuple[object, ...]:
        return _number_texts, (self._texts,)


def _number_texts(texts: list[str]) -> _Numbers:
    out = _Numbers(texts)
    out.update({text: number for number, text in enumerate(texts)})
    return out


class Names:
    """Texts, each once; numbers never change."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._number = _Numbers(self.all)

    def __call__(self, text: str | None) -> int:
        """Return the number of a text; -1 for none."""
        return self._number[text]

    def numbers(self, texts: Sequence[str | None] | Array) -> Ids:
        """Return the numbers of texts; raise a TypeError where one is not text."""
        return np.fromiter(map(self._number.__getitem__, texts), np.int32, len(texts))


class Translation:
    """From numbers of a list that may still grow to those of `names`, as far as they are used."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known = np.array([ABSENT], np.int32)  # the last entry is what -1, no text, picks

    def numbers(self, ids: Ids, strings: Sequence[str]) -> Ids:
        """Return the numbers of texts in this list; `strings` is the list that `ids` number."""
        if len(strings) + 1 > len(self._known):
            more = np.full(len(strings) + 1, NOT_YET, np.int32)
            more[: len(self._known) - 1] = self._known[:-1]
            more[-1] = ABSENT
            self._known = more
        known = self._known.take(ids)
        unknown = known == NOT_YET
        if not unknown.any():
            return known
        for text in np.unique(ids[unknown]).tolist():
            self._known[text] = self._names(strings[text])
        return self._known.take(ids)


# -- columns of things that are made when asked for --------------------------------------------------------------------
# There may be a million profiles: a tuple with a text for each of them would take longer than all else.


class LazyColumn(Sequence[Item], Generic[Item]):
    """A column that keeps numbers, and makes an item of them when it is asked for one. It equals any sequence of the
    same items, a tuple among them."""

    @abstractmethod
    def make_item(self, row: int) -> Item:
        """Return the item of a row, which is there."""

    @abstractmethod
    def take(self, rows: Ints) -> LazyColumn[Item]:
        """Return some of the rows, in the order given."""

    @overload
    def __getitem__(self, row: int) -> Item: ...
    @overload
    def __getitem__(self, row: slice) -> LazyColumn[Item]: ...
    def __getitem__(self, row: int | slice) -> Item | LazyColumn[Item]:
        if isinstance(row, slice):
            return self.take(np.arange(len(self))[row])
        return self.make_item(range(len(self))[row])

    def __iter__(self) -> Iterator[Item]:
        return map(self.make_item, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as arrays

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"<{len(self)} items: {shown}{', ...' if len(self) > 3 else ''}>"


class Encoded(LazyColumn[Item]):
    """Items that are often the same, as numbers in a short table."""

    def __init__(self, codes: Array, table: Sequence[Item]) -> None:
        self.codes, self.table = codes, tuple(table)

    @classmethod
    def repeat(cls, item: Item, n: int) -> Encoded[Item]:
        """Return one item for every row, in no memory."""
        return cls(np.broadcast_to(np.zeros(1, np.uint8), n), (item,))

    def __len__(self) -> int:
        return len(self.codes)

    def make_item(self, row: int) -> Item:
        return self.table[int(self.codes[row])]

    def __iter__(self) -> Iterator[Item]:
        return map(self.table.__getitem__, self.codes.tolist())

    def take(self, rows: Ints) -> Encoded[Item]:
        return Encoded(self.codes[rows], self.table)

    def distinct(self) -> list[Item]:
        """Return the items that some row has, in the order of the table."""
        return [self.table[code] for code in distinct(self.codes).tolist()]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Encoded) and self.table == other.table:
            return np.array_equal(self.codes, other.codes)
        return super().__eq__(other)

    __hash__ = None


def take_items(column: Sequence[Item], rows: Ints) -> Sequence[Item]:
    """Return some items of a column, in the order given."""
    if isinstance(column, LazyColumn):
        return column.take(rows)
    return tuple(column[row] for row in rows.tolist())
