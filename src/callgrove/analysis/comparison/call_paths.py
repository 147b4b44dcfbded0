"""Call paths of several inputs, and which of their names are the same.

Call paths are the same where all names on them are:

    A: main            B: main            path   0: main   1: main->f   2: main->g
       |-- f              `-- g           of A   0 1 1
       `-- f                              of B   0 2

Paths are numbered as they appear, first those of the first input, so that what lies above has the lower number. They
are found level by level: no step of it looks at single contexts.

Names are the same where their texts are, or where somebody says so (`NameMatching`). Inputs of two formats may write
one function in two ways: `solve(double*, long)` and `solve`, `__mesh_MOD_step` and `step_`. Where a name is in one of
two inputs only, and exactly one name of the other that is not in this one comes to the same without its decoration, the
two are taken as one, and a note says so.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, NO_OFFSET, Bools, Ids, Ints, Names, depths, levels, preorder
from callgrove.errors import UsageError
from callgrove.model.contexts import LONGEST_PATH, ContextKind, ContextTree
from callgrove.model.joining import ROOT, ROOTS

__all__ = ["CallPaths", "NameMatching", "Nodes", "find_names", "match_paths", "match_plain_names", "plain_name"]


# -- call paths --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nodes:
    """What of one input has a call path: the node above each, -1 for none, the number of its name, and whether it is a
    place inside a function, such as a loop."""

    parent: Ints
    name: Ints
    is_place: Bools


@dataclass(frozen=True)
class CallPaths:
    """The call paths of several inputs: the path above each, -1 for none, the number of its last name, and whether that
    is a place inside a function, such as a loop."""

    parent: Ids
    name: Ints
    is_place: Bools
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.parent)

    def steps(self, path: int) -> list[str]:
        """Return the names from the root to a path's end."""
        chain: list[str] = []
        while path >= 0:
            chain.append(self.names[self.name[path]])
            path = int(self.parent[path])
        return chain[::-1]

    def text(self, path: int) -> str:
        """Return the names from the root, joined by `->`; the middle of very long paths is cut."""
        chain = self.steps(path)
        if len(chain) > LONGEST_PATH:
            half = LONGEST_PATH // 2
            chain[half:-half] = ["..."]
        return "->".join(chain)

    @cached_property
    def of_functions(self) -> tuple[CallPaths, Ints]:
        """The call paths of functions, without places in them, and for each path here the number of that of its
        function: `main->loop a->f` and `main->loop b->f` are one."""
        owner = np.where(self.is_place & (self.parent >= 0), self.parent, np.arange(len(self)))
        while (owner != owner[owner]).any():
            owner = owner[owner]
        kept = np.flatnonzero(owner == np.arange(len(self)))
        number = np.full(len(self) + 1, ABSENT, np.int64)  # -1 picks the last entry, which is none
        number[kept] = np.arange(len(kept))
        above = number[np.append(owner, ABSENT)[self.parent[kept]]]
        paths, (place,) = match_paths([Nodes(above, self.name[kept], np.zeros(len(kept), np.bool_))], self.names)
        return paths, place[number[owner]]

    @cached_property
    def alphabetical(self) -> Ints:
        """The place of each path where siblings are sorted by name, and callers come before what they call."""
        by_name = sorted(range(len(self.names)), key=self.names.__getitem__)
        rank = np.empty(len(self.names), np.int64)
        rank[by_name] = np.arange(len(by_name))
        order = np.lexsort((rank[self.name], depths(self.parent)))
        new = np.append(np.empty(len(order), np.int64), ABSENT)
        new[order] = np.arange(len(order))
        walk = order[preorder(new[self.parent][order])]
        place = np.empty(len(order), np.int64)
        place[walk] = np.arange(len(walk))
        return place


def match_paths(inputs: Sequence[Nodes], names: Sequence[str]) -> tuple[CallPaths, list[Ints]]:
    """Return all call paths, and for every input the path of each of its nodes."""
    starts = np.cumsum([0, *(len(one.name) for one in inputs)])
    shifted = (np.where(one.parent >= 0, one.parent + s, ABSENT) for one, s in zip(inputs, starts, strict=False))
    above, name = np.concatenate(list(shifted)), np.concatenate([one.name for one in inputs])
    path = np.full(len(name) + 1, ABSENT, np.int64)  # -1 picks the last entry, which is none
    first: list[Ints] = []  # the node by which each path is known, level by level
    n_paths = 0
    for level in levels(depths(above)):
        key = (path[above[level]] + 1) * len(names) + name[level]
        _, known_by, of = np.unique(key, return_index=True, return_inverse=True)
        path[level] = n_paths + of.reshape(-1)
        first.append(level[known_by])
        n_paths += len(known_by)
    nodes = np.concatenate(first) if first else np.empty(0, np.int64)
    order = np.argsort(nodes)
    number = np.append(np.empty(n_paths, np.int64), ABSENT)
    number[order] = np.arange(n_paths)
    path = number[path]
    nodes = nodes[order]
    is_place = np.concatenate([one.is_place for one in inputs])[nodes]
    paths = CallPaths(path[above[nodes]].astype(np.int32), name[nodes], is_place, names)
    return paths, [path[a:b] for a, b in pairwise(starts)]


# -- what contexts are called ------------------------------------------------------------------------------------------


def find_names(tree: ContextTree, overloads: frozenset[str], renamed: Mapping[str, str], names: Names) -> Ids:
    """Return the numbers of what listed contexts are called, as `model.joining.names` calls them, but for those that
    are `renamed`. Of overloads, the mangled name is said as well."""
    n = tree.n_listed
    codes = (tree.region[:n].astype(np.int64) + 1) * len(ContextKind) + tree.kind[:n]
    different, of = np.unique(codes, return_inverse=True)
    texts = [
        _name(tree, code // len(ContextKind) - 1, code % len(ContextKind), overloads) for code in different.tolist()
    ]
    numbers: Ids = np.array([names(renamed.get(text, text)) for text in texts], np.int32)[of.reshape(-1)]
    for context in (c for c in tree.parameters if c < n):
        text = tree.label(context)
        numbers[context] = names(renamed.get(text, text))
    _rename_roots(tree, numbers, names, renamed)
    return numbers


def _name(tree: ContextTree, region: int, kind: int, overloads: frozenset[str]) -> str:
    """Return what contexts of one region and kind are called. An instruction is called by its place."""
    if region < 0:
        return f"<{ContextKind(kind).word}>"
    regions = tree.regions
    if kind == ContextKind.INSTRUCTION and regions.offset[region] != NO_OFFSET:
        module = int(regions.module[region])
        return f"{regions.modules[module] if module >= 0 else ''}+{int(regions.offset[region]):#x}"
    name, mangled = regions.label(region), regions.mangled_name(region)
    return f"{name} [{mangled}]" if name in overloads and mangled else name


def _rename_roots(tree: ContextTree, numbers: Ids, names: Names, renamed: Mapping[str, str]) -> None:
    """Call the two roots that every program has the same in all generations of HPCToolkit."""
    above = tree.parent[: len(numbers)]
    is_root = (above < 0) | ((above >= 0) & (numbers[np.maximum(above, 0)] == names(ROOT)))
    for old, new in ROOTS.items():
        numbers[is_root & (numbers == names(old))] = names(renamed.get(new, new))


# -- names that are the same -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NameMatching:
    """Names of the first input and of the others that mean the same. All that hang together become one, which is
    called as the first input calls it."""

    pairs: tuple[tuple[str, str], ...] = ()
    left: Mapping[str, str] = field(default_factory=dict, init=False)
    right: Mapping[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        called: dict[tuple[bool, str], str] = {}  # (whether it is of the others, name) -> what all of its group are
        for left, right in self.pairs:
            one, other = called.get((False, left), left), called.get((True, right))
            if other is not None and other != one:
                called = {key: other if name == one else name for key, name in called.items()}
                one = other
            called[False, left] = called[True, right] = one
        for is_right, name in ((False, "left"), (True, "right")):
            chosen = {text: one for (side, text), one in called.items() if side == is_right and text != one}
            object.__setattr__(self, name, chosen)

    @classmethod
    def read(cls, given: str | Path | Mapping[str, str] | Iterable[tuple[str, str]] | None) -> NameMatching:
        """Return the names that a file, a mapping or pairs say are the same."""
        if given is None:
            return cls()
        if isinstance(given, Mapping):
            return cls(tuple(given.items()))
        if not isinstance(given, str | Path):
            return cls(tuple((left, right) for left, right in given))
        try:
            text = Path(given).read_text("utf-8")
        except OSError as error:
            raise UsageError(f"{given}: cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{given}: is not text in UTF-8") from None
        pairs = tuple(_read_pairs(text, str(given)))
        if not pairs:
            raise UsageError(f"{given}: says of no names that they are the same; write two names on each line")
        return cls(pairs)

    def of_side(self, number: int) -> Mapping[str, str]:
        """Return what names of an input are called instead; the first one has the number 0."""
        return self.right if number else self.left

    def find_unknown(self, names: Sequence[frozenset[str]]) -> list[str]:
        """Return the names that the input which they are given for does not have; `names` are those of each input."""
        others = frozenset[str]().union(*names[1:])
        unknown = [left for left, _ in self.pairs if left not in names[0]]
        return list(dict.fromkeys([*unknown, *(right for _, right in self.pairs if right not in others)]))


def _read_pairs(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Yield two names of each line: separated by a tab, or as CSV. Empty lines and those that begin with # are left
    out, as is the heading `left,right`."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t") if "\t" in line else next(csv.reader([line], skipinitialspace=True))
        cells = [cell.strip() for cell in cells]
        if len(cells) != 2 or not all(cells):
            raise UsageError(
                f"{where}: line {number}: expected two names, separated by a comma or a tab, found {line.strip()!r}; "
                "a name with a comma is written in quotes"
            )
        if number > 1 or cells != ["left", "right"]:
            yield cells[0], cells[1]


# What compilers, linkers and profilers add to the name of a function.
_SUFFIXES = re.compile(
    r"(?:\.(?:part|isra|constprop|cold|lto_priv|llvm)(?:\.\d+)?|\[clone [^]]*]|@plt|@@?[A-Z]+_[\d.]+|\[abi:\w+]| )+$"
)
_FORTRAN = re.compile(r"__(\w+)_MOD_(\w+)|(\w+)_mp_(\w+)_|(\w*[a-z]\w*?)_{1,2}")
_PARAMETERS = re.compile(r"\)\s*(?:const|volatile|noexcept|&{1,2}|\s)*$")
_OPERATOR = re.compile(r"operator\s*(?:\(\)|[^\w\s(]+)")


def plain_name(name: str) -> str:
    """Return a name without parameters, return type and decoration: what two tools may agree on.

    plain_name("void mesh::step<double>(double*, int) const")   mesh::step<double>
    plain_name("kernel.constprop.0")                            kernel
    plain_name("__mesh_MOD_step")                               step
    """
    text = _SUFFIXES.sub("", name.strip())
    if match := _FORTRAN.fullmatch(text):
        return next(part for part in (match[2], match[4], match[5]) if part)
    if _OPERATOR.search(text) or "(anonymous" in text:
        return text
    return _cut_return_type(_cut_parameters(text)) if _PARAMETERS.search(text) else text


def _cut_parameters(text: str) -> str:
    """Return a name without the last group of parentheses and what follows it."""
    depth = 0
    for place in range(text.rindex(")"), -1, -1):
        depth += (text[place] == ")") - (text[place] == "(")
        if not depth:
            return text[:place] or text
    return text


def _cut_return_type(text: str) -> str:
    """Return what follows the last blank outside of brackets."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] in ">)]") - (text[place] in "<([")
        if text[place] == " " and not depth:
            return text[place + 1 :].lstrip("*&")
    return text


def match_plain_names(left: frozenset[str], right: frozenset[str]) -> dict[str, str]:
    """Return names that only the right side has, and for each the one that only the left side has and that comes to the
    same without decoration. Where several would do on a side, none is chosen: they may be different functions."""
    sides = [_by_plain_name(only) for only in (left - right, right - left)]
    shared = left & right
    pairs = ((sides[0][plain], sides[1][plain]) for plain in sides[0].keys() & sides[1].keys() if plain not in shared)
    return {
        right_names[0]: left_names[0] for left_names, right_names in pairs if len(left_names) == len(right_names) == 1
    }


def _by_plain_name(names: Iterable[str]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for name in sorted(names):
        out.setdefault(plain_name(name), []).append(name)
    return out
