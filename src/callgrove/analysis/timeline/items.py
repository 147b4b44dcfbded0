"""What goes on at a time: the function of a sample or a span, its kind, class, context and depth, as one number.

Classes are those of `model.activities`. A sample has that of its context, a span the first of

    rules of the user     a pattern and a class each
    its kind              kernel: compute, or communication (NCCL, RCCL); copy, memset: copy; sync: synchronisation;
                          overhead of the profiler: idle
    the span around it    whatever MPI_Send calls is part of it
    its name              MPI_Barrier, hipMemcpy, ...
    compute

A rule counts for all that is called below, down to what another rule, a name or a kind says.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from callgrove.analysis.costs import functions_of
from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, Names, distinct, distinct_rows
from callgrove.errors import UsageError
from callgrove.model.activities import (
    ActivityClass,
    classify_call,
    find_classes,
    find_sources,
    is_collective,
)
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.traces.events import SpanKind

__all__ = [
    "CLASSES",
    "ITEM_COLUMNS",
    "ClassRules",
    "Frames",
    "Item",
    "Items",
    "SampleItems",
    "SpanItems",
    "State",
    "read_rules",
]

CLASSES = tuple(ActivityClass)
CLASS_IDS = {klass: number for number, klass in enumerate(CLASSES)}
COMPUTE, IDLE_CLASS = CLASS_IDS[ActivityClass.COMPUTE], CLASS_IDS[ActivityClass.IDLE]
ITEM_COLUMNS = ("name", "kind", "class", "context", "depth")


class State(IntEnum):
    """Whether anything went on, as far as anybody knows."""

    BUSY = 0
    IDLE = 1
    NO_TRACE = 2  # before the first and after the last event
    BETWEEN = 3  # spans of a thread, whose own code is not traced

    @property
    def word(self) -> str:
        return ("busy", "idle", "(no trace)", "(between spans)")[self]


# -- numbers of items --------------------------------------------------------------------------------------------------


class Item(NamedTuple):
    """An item: numbers of texts, or -1 for what is not asked for or not there."""

    state: int
    name: int = ABSENT
    kind: int = ABSENT
    klass: int = ABSENT
    context: int = ABSENT
    depth: int = ABSENT


class Items:
    """Items that were met, each once; numbers never change. Columns that nobody asks for make no difference."""

    def __init__(self, columns: Collection[str]) -> None:
        self._wanted = [name in columns for name in ITEM_COLUMNS]
        self._numbers: dict[Item, int] = {}
        self._columns = np.empty((0, len(Item._fields)), np.int64)
        self.all: list[Item] = []  # by number
        self.texts = Names()

    def __len__(self) -> int:
        return len(self.all)

    def column(self, field: str) -> Ints:
        """Return a field of all items, by number."""
        if len(self._columns) < len(self.all):
            new = np.array(self.all[len(self._columns) :], np.int64)
            self._columns = np.concatenate([self._columns, new])
        column: Ints = self._columns[:, Item._fields.index(field)]
        return column

    def wants(self, column: str) -> bool:
        """Return whether a column makes a difference."""
        return self._wanted[ITEM_COLUMNS.index(column)]

    def number(self, state: Array, *columns: Array) -> Ints:
        """Return the number of each item, given as columns in the order of ITEM_COLUMNS."""
        kept = [c if wanted else np.full(len(c), ABSENT) for c, wanted in zip(columns, self._wanted, strict=True)]
        rows, back = distinct_rows(state, *kept)
        numbers = [self._put(Item(*row)) for row in rows.T.tolist()]
        out: Ints = np.array(numbers, np.int64)[back]
        return out

    def special(self, state: State) -> int:
        """Return the number of an item of which nothing but its state is known."""
        klass = IDLE_CLASS if state == State.IDLE and self.wants("class") else ABSENT
        return self._put(Item(int(state), klass=klass))

    def _put(self, item: Item) -> int:
        number = self._numbers.setdefault(item, len(self.all))
        if number == len(self.all):
            self.all.append(item)
        return number


# -- rules of the user -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassRules:
    """Patterns of names, and the number of the class that each means; the first that fits counts."""

    rules: tuple[tuple[re.Pattern[str], int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules)

    def of(self, name: str) -> int:
        """Return the class of a name, -1 where no rule fits."""
        return next((klass for pattern, klass in self.rules if pattern.search(name)), ABSENT)

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, str]], where: str = "classes") -> ClassRules:
        """Return the rules for pairs of a pattern and a class. Patterns are globs over the whole name (`*`, `?`), or
        regular expressions between slashes."""
        rules = []
        for pattern, klass in pairs:
            if klass not in {str(known) for known in CLASSES}:
                raise UsageError(f"{where}: there is no class {klass!r}; there are {', '.join(CLASSES)}")
            rules.append((_compile(pattern, where), CLASS_IDS[ActivityClass(klass)]))
        return cls(tuple(rules))


def _compile(pattern: str, where: str) -> re.Pattern[str]:
    match = re.fullmatch(r"/(.*)/(i?)", pattern, re.DOTALL)
    wild = {"*": ".*", "?": "."}
    text = match[1] if match else f"^(?:{''.join(wild.get(char) or re.escape(char) for char in pattern)})$"
    try:
        return re.compile(text, re.DOTALL | (re.IGNORECASE if match and match[2] else 0))
    except re.error as error:
        raise UsageError(f"{where}: {pattern!r} is not a regular expression: {error.msg}") from None


def read_rules(given: str | Path | Mapping[str, str] | Iterable[tuple[str, str]] | None) -> ClassRules:
    """Return the rules of a mapping, of pairs, or of a file: a pattern and a class on each line, with blanks or a comma
    between them; what follows a # at the beginning of a line is a comment."""
    if given is None:
        return ClassRules()
    if isinstance(given, Mapping):
        return ClassRules.of_pairs(given.items())
    if not isinstance(given, str | Path):
        return ClassRules.of_pairs(given)
    rules: list[tuple[re.Pattern[str], int]] = []
    try:
        lines = Path(given).read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"{given}: is not text; a line has a pattern and a class, like: MPI_* communication") from None
    for number, line in enumerate(lines, 1):
        words = line.strip()
        if words and not words.startswith("#"):
            match = re.fullmatch(r"(.*?)[\s,]+(\S+)", words)
            if match is None:
                raise UsageError(f"{given}:{number}: expected a pattern and a class, like: MPI_* communication")
            rules += ClassRules.of_pairs([(match[1], match[2])], f"{given}:{number}").rules
    return ClassRules(tuple(rules))


# -- samples -----------------------------------------------------------------------------------------------------------


class Frames:
    """The functions that contexts lie in. What a file calls an entry (`<program root>`, `main thread`) is not a
    function, and stands only for what lies in none."""

    def __init__(self, tree: ContextTree) -> None:
        every = np.arange(len(tree), dtype=np.int32)
        self.function = np.concatenate([functions_of(tree), every[tree.n_listed :]])
        above = tree.parent[self.function]
        self._caller = np.where(above >= 0, self.function[above], self.function)
        is_function = (self.function == every) & (tree.kind != ContextKind.ENTRY)
        self.level = is_function.astype(np.int32)  # functions from the root on, this one included
        for level in tree.levels[1:]:
            self.level[level] += self.level[tree.parent[level]]

    def cut(self, contexts: Array, depth: int | None = None) -> Ids:
        """Return the function that each context lies in: the innermost one, or the N-th from the root where there are
        more."""
        frames: Ids = self.function[contexts]
        while depth is not None and (deeper := self.level[frames] > depth).any():
            frames = np.where(deeper, self._caller[frames], frames)
        return frames


class SampleItems:
    """The items of samples, by context: one lookup for a sample, whatever its stack."""

    def __init__(
        self, items: Items, tree: ContextTree, depth: int | None, rules: ClassRules, kinds: Bools | None
    ) -> None:
        self._items, self._tree, self._depth, self._kinds = items, tree, depth, kinds
        self._frames = Frames(tree)
        self._class = classes_of_contexts(tree, self._frames, rules) if items.wants("class") else None
        self._number = np.full(len(tree) + 1, ABSENT, np.int64)
        self._number[-1] = items.special(State.IDLE)  # a sample without a context

    def of(self, contexts: Array) -> Ints:
        """Return the item of each sample; what is not a context is idle."""
        n = len(self._tree)
        if len(contexts) and (int(contexts.min()) < ABSENT or int(contexts.max()) >= n):
            contexts = np.where((contexts >= 0) & (contexts < n), contexts, ABSENT)
        numbers = self._number[contexts]
        if (numbers < 0).any():
            new = distinct(contexts[numbers < 0])
            self._number[new] = self._number_contexts(new)
            numbers = self._number[contexts]
        return numbers

    def _number_contexts(self, contexts: Ints) -> Ints:
        shown = self._frames.cut(contexts, self._depth)
        busy = ~self._tree.idle[contexts]
        if self._kinds is not None:
            busy &= self._kinds[self._tree.kind[shown]]
        kinds = [self._items.texts(kind.word) for kind in ContextKind]
        klass = np.full(len(contexts), COMPUTE) if self._class is None else self._class[contexts]
        return self._items.number(
            np.where(busy, int(State.BUSY), int(State.IDLE)),
            np.where(busy, self._name(shown), ABSENT),
            np.where(busy, np.array(kinds)[self._tree.kind[shown]], ABSENT),
            np.where(busy, klass, IDLE_CLASS),
            contexts,
            np.where(busy, self._frames.level[shown], ABSENT),
        )

    def _name(self, contexts: Ids) -> Ids:
        different, back = distinct_rows(contexts)
        names = [self._items.texts(self._tree.name(context)) for context in different[0].tolist()]
        return np.array(names, np.int32)[back]


def classes_of_contexts(tree: ContextTree, frames: Frames, rules: ClassRules) -> Ids:
    """Return the class of every context, as its number. Rules fit names of functions, and count for what these call, as
    far as nothing below says another class."""
    activity, source = find_sources(tree)
    classes = find_classes(activity).astype(np.int32)
    classes = np.where(classes < 0, np.int32(COMPUTE), classes)
    if not rules:
        return classes
    known = {
        region: rules.of(tree.regions.label(region)) for region in distinct(tree.region[tree.region >= 0]).tolist()
    }
    of_region = np.full(len(tree.regions) + 1, ABSENT, np.int32)
    of_region[list(known)] = list(known.values())
    is_called = frames.level > np.where(tree.parent >= 0, frames.level[tree.parent], 0)
    named = np.where(is_called, of_region[tree.region], ABSENT)
    ruled = np.where(named >= 0, np.arange(len(tree)), ABSENT)
    for level in tree.levels[1:]:
        ruled[level] = np.where(ruled[level] >= 0, ruled[level], ruled[tree.parent[level]])
    is_nearer = (ruled >= 0) & ((source < 0) | (tree.depth[ruled] >= tree.depth[source]))
    return np.where(is_nearer, named[ruled], classes)


# -- spans -------------------------------------------------------------------------------------------------------------


UNKNOWN_CLASS = ABSENT
SURE = {
    SpanKind.COPY: CLASS_IDS[ActivityClass.COPY],
    SpanKind.MEMSET: CLASS_IDS[ActivityClass.COPY],
    SpanKind.SYNC: CLASS_IDS[ActivityClass.SYNCHRONISATION],
    SpanKind.OVERHEAD: IDLE_CLASS,
}


class SpanItems:
    """The items of spans, of which name and kind are numbers of texts."""

    def __init__(self, items: Items, rules: ClassRules) -> None:
        self._items, self._rules = items, rules
        self._words = np.array([items.texts(kind.word) for kind in SpanKind])
        self._known: dict[tuple[int, int], tuple[int, bool]] = {}

    def name(self, kind: Array, label: Array) -> Array:
        """Return the number of the text that spans are called by: that of their kind where they have no name."""
        return np.where(label >= 0, label, self._words[kind])

    def of(self, kind: Array, name: Array, klass: Array, context: Array, depth: Array) -> Ints:
        """Return the item of each span."""
        return self._items.number(np.zeros(len(kind), np.int64), name, self._words[kind], klass, context, depth)

    def classes(self, kind: Array, name: Array, parent: Ints, depth: Ids) -> Ints:
        """Return the class of spans, given the one around each (-1: none) and how many there are around it."""
        rows, back = distinct_rows(kind, name)
        known = np.array([self._classify(*row) for row in rows.T.tolist()]).reshape(-1, 2)[back]
        classes, is_sure = known[:, 0].copy(), known[:, 1].astype(np.bool_)
        for level in range(1, int(depth.max(initial=0)) + 1):
            here = np.flatnonzero(depth == level)
            above = classes[parent[here]]
            classes[here] = np.where(is_sure[here] | (above < 0), classes[here], above)
        return np.where(classes < 0, COMPUTE, classes)

    def _classify(self, kind: int, name: int) -> tuple[int, bool]:
        """Return the class that a span says by itself, -1 where it says none, and whether what is around it matters
        not."""
        if (kind, name) not in self._known:
            text = self._items.texts.all[name]
            ruled = self._rules.of(text)
            self._known[kind, name] = (ruled, True) if ruled >= 0 else _classify_span(SpanKind(kind), text)
        return self._known[kind, name]


def _classify_span(kind: SpanKind, name: str) -> tuple[int, bool]:
    if kind == SpanKind.KERNEL:
        return CLASS_IDS[ActivityClass.COMMUNICATION] if is_collective(name) else COMPUTE, True
    if kind in SURE:
        return SURE[kind], True
    activity = classify_call(name)
    return (int(find_classes(np.array([activity], np.int32))[0]) if activity >= 0 else UNKNOWN_CLASS), False


def kinds_of_contexts(words: Sequence[str] | None) -> Bools | None:
    """Return which kinds of contexts are among these words; None is all."""
    return None if words is None else np.array([kind.word in words for kind in ContextKind], np.bool_)
