"""What nodes execute, as regions of the model numbered alike for all files; nodes that are not addresses; one tree of
all files.

A node is known by two numbers: `place`, the module's number plus FIRST_MODULE or one of the special places below, and
`offset`, the address in the module or the code of a placeholder. Sorted by these, regions have the same order however
the nodes were spread over files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints, Offsets, depths, levels
from callgrove.formats.hpcrun.measurement import Epoch, Nodes
from callgrove.formats.hpcrun.primitives import Module
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind

__all__ = [
    "FIRST_MODULE",
    "NO_ACTIVITY",
    "OUTLINED",
    "PARTIAL",
    "PLACEHOLDER",
    "ROOT",
    "UNKNOWN_MODULE",
    "Merged",
    "Region",
    "Regions",
    "code_number",
    "code_of",
    "code_text",
    "describe",
    "list_codes",
    "merge",
    "number_regions",
    "places_of",
    "readable",
]


# -- placeholders: nodes that are not addresses ------------------------------------------------------------------------
# 02.00 has no such codes but two numbers, 0 for the root and 1 for the root of partial call paths; here they become the
# codes that 04.00 has for them. Any other node of module 0 there is an address in no known module, unless it is a code.


ROOT, PARTIAL, UNKNOWN, NO_ACTIVITY = "^Primary", "^Partial", "*Unnorm ", "NoActvty"
SPECIAL = {
    ROOT: (ContextKind.ENTRY, "<root>"),
    PARTIAL: (ContextKind.UNKNOWN, "<partial call paths>"),
    UNKNOWN: (ContextKind.UNKNOWN, "<unknown>"),
    NO_ACTIVITY: (ContextKind.PLACEHOLDER, "<no activity>"),
}
NAMES = {
    "| Main  ": "<program root>",
    "| Thread": "<thread root>",
    "OMP Idle": "<omp idle>",
    "OMPOvrHd": "<omp overhead>",
    "OMPBarrW": "<omp barrier wait>",
    "OMPTaskW": "<omp task wait>",
    "OMPMtexW": "<omp mutex wait>",
    "OMP Work": "<omp work>",
    "OMPETask": "<omp expl task>",
    "OMPITask": "<omp impl task>",
    "OMTAlloc": "<omp tgt alloc>",
    "OMTDelte": "<omp tgt delete>",
    "OMTCpIn ": "<omp tgt copyin>",
    "OMTCpOut": "<omp tgt copyout>",
    "OMTKernl": "<omp tgt kernel>",
    "OMPUresv": "<omp region unresolved>",
    "GPUCp?2?": "<gpu copy>",
    "GPUCpH2D": "<gpu copyin>",
    "GPUCpD2H": "<gpu copyout>",
    "GPUAlloc": "<gpu alloc>",
    "GPUDelte": "<gpu delete>",
    "GPUTrace": "<gpu kernel>",
    "GPUKernl": "<gpu kernel>",  # the last of equal names is the one that is written
    "GPUMemst": "<gpu memset>",
    "GPU Sync": "<gpu sync>",
}
# What databases call their entry points.
ENTRIES = {"main thread": "| Main  ", "application thread": "| Thread", "unknown entry": PARTIAL}
CODES = {name: code for code, (_, name) in SPECIAL.items()} | {name: code for code, name in NAMES.items()} | ENTRIES
ESCAPE = re.compile(r"\\([0-9a-f]{2})")


def code_number(code: str) -> int:
    """Return the instruction pointer that stands for a code."""
    return int.from_bytes(code.encode("latin-1"), "big")


def code_text(ip: int) -> str:
    """Return the eight characters of a code; what cannot be printed, and the backslash, as \\hex."""
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\{b:02x}" for b in ip.to_bytes(8, "big"))


def describe(ip: int) -> tuple[ContextKind, str]:
    """Return what a node of module 0 is, and its name."""
    text = code_text(ip)
    return SPECIAL.get(text) or (ContextKind.PLACEHOLDER, NAMES.get(text, text))


def code_of(name: str) -> int | None:
    """Return the instruction pointer of the placeholder with that name; None where no eight characters can say it."""
    if name in CODES:
        return code_number(CODES[name])
    plain = ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)
    return code_number(plain) if len(plain) == 8 and all(ord(c) < 256 for c in plain) else None


def list_codes() -> Offsets:
    """Return the instruction pointers of all codes with a meaning."""
    return np.array([code_number(code) for code in (*SPECIAL, *NAMES)], np.uint64)


# -- regions -----------------------------------------------------------------------------------------------------------


PLACEHOLDER, UNKNOWN_MODULE, FIRST_MODULE = 0, 1, 2  # places
PLACE_BITS, ADDRESS_BITS = 16, 48
OUTLINED = (65531, 65532, 65533)  # module ids of nodes about ranges of GPU code; no loadmap has them


class Region(NamedTuple):
    """Where each region is: arrays of equal length, sorted by place and offset."""

    place: Ints
    offset: Offsets


def readable(text: str) -> str:
    """Return a string of a file for the model: bytes that are not UTF-8 become escapes."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def places_of(epochs: Sequence[Epoch], modules: Mapping[str, int], is_old: Sequence[bool]) -> tuple[Ints, Offsets]:
    """Return place and offset of every node of some epochs; `modules` numbers the paths. In 02.00 (`is_old`, for each
    epoch) interior nodes hold return addresses, one less of which lies in the call instruction, as in 04.00."""
    place = _module_places(epochs, modules)
    offset = np.concatenate([epoch.nodes.ip for epoch in epochs])
    if any(is_old):
        old = np.flatnonzero(np.repeat(is_old, [len(epoch.nodes) for epoch in epochs]))
        interior = np.concatenate([_is_interior(epoch.nodes) for epoch in epochs])[old]
        place[old], offset[old] = _old_places(place[old], offset[old])
        calls = old[interior & (place[old] != PLACEHOLDER) & (offset[old] > 0)]
        offset[calls] -= np.uint64(1)
    return place, offset


def _module_places(epochs: Sequence[Epoch], modules: Mapping[str, int]) -> Ints:
    """Return the place of every node's module. Files of one run share a loadmap, and a table is made of each once."""
    tables: dict[int, Ints] = {}
    for epoch in epochs:
        if id(epoch.modules) not in tables:
            tables[id(epoch.modules)] = _table_of_modules(epoch.modules, modules)
    return np.concatenate([tables[id(epoch.modules)].take(epoch.nodes.lm, mode="clip") for epoch in epochs])


def _table_of_modules(loadmap: Sequence[Module], modules: Mapping[str, int]) -> Ints:
    """Return the place of each module id; the last one is that of all higher ids, which are not known."""
    table = np.full(2 + max((module.id for module in loadmap), default=0), UNKNOWN_MODULE, np.int64)
    for module in loadmap:
        table[module.id] = modules[module.path] + FIRST_MODULE if module.path else UNKNOWN_MODULE
    table[0] = PLACEHOLDER
    return table


def _is_interior(nodes: Nodes) -> Bools:
    return nodes.has_children if nodes.is_leaf is None else ~nodes.is_leaf


def _old_places(place: Ints, offset: Offsets) -> tuple[Ints, Offsets]:
    """Return places of 02.00: root and partial root as the codes of 04.00; other addresses of module 0 lie in no known
    module."""
    out = offset.copy()
    for number, code in ((0, ROOT), (1, PARTIAL)):
        out[(place == PLACEHOLDER) & (offset == number)] = code_number(code)
    is_code = np.isin(out, list_codes())
    return np.where((place == PLACEHOLDER) & ~is_code, UNKNOWN_MODULE, place), out


class Regions:
    """Collects the places of many trees, then numbers them."""

    def __init__(self) -> None:
        self._parts: list[Region] = []

    def add(self, place: Ints, offset: Offsets) -> Ids:
        """Return the regions of one tree's nodes, numbered within the tree; `all` maps them to those of all trees."""
        region, inverse = number_regions(place, offset)
        self._parts.append(region)
        return inverse

    def add_known(self, region: Region) -> None:
        """Add the regions of one tree, each once: it has numbered them itself."""
        self._parts.append(region)

    def all(self) -> tuple[Region, list[Ids]]:
        """Return the regions of all trees, and for each tree the number of each of its own."""
        if not self._parts:
            return Region(np.empty(0, np.int64), np.empty(0, np.uint64)), []
        place, offset = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        region, inverse = number_regions(place, offset)
        bounds = np.cumsum([len(part.place) for part in self._parts])[:-1]
        return region, np.split(inverse, bounds)


def number_regions(place: Array, offset: Array) -> tuple[Region, Ids]:
    """Return the regions of some nodes, each once and in order, and the number of each node's."""
    order = _order(place, offset)
    place, offset = place[order], offset[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (place[1:] != place[:-1]) | (offset[1:] != offset[:-1])
    inverse = np.empty(len(order), np.int32)
    inverse[order] = np.cumsum(fresh) - 1
    return Region(place[fresh], offset[fresh]), inverse


def _order(place: Array, offset: Array) -> Ints:
    """Return the order by place, then by offset. Of addresses both fit into one number, unless they are the kernel's:
    that is sorted in half the time."""
    codes, rest = np.flatnonzero(place == PLACEHOLDER), np.flatnonzero(place != PLACEHOLDER)
    places, addresses = place[rest].astype(np.uint64), offset[rest]
    if int(places.max(initial=0)) >> PLACE_BITS or int(addresses.max(initial=0)) >> ADDRESS_BITS:
        return np.lexsort((offset, place))
    order = np.argsort((places << np.uint64(ADDRESS_BITS)) | addresses)
    return np.concatenate((codes[np.argsort(offset[codes])], rest[order]))


def add_regions(builder: ExperimentBuilder, regions: Region, module_numbers: Ints) -> tuple[Ids, Ids]:
    """Add regions to the model; return their numbers and kinds. `module_numbers` are the builder's."""
    place, offset = regions
    numbers, kinds = np.empty(len(place), np.int32), np.empty(len(place), np.int32)
    addressed = place >= FIRST_MODULE
    for kind, of_kind, modules in (
        (ContextKind.INSTRUCTION, addressed, module_numbers[place[addressed] - FIRST_MODULE]),
        (ContextKind.UNKNOWN, place == UNKNOWN_MODULE, np.full(int((place == UNKNOWN_MODULE).sum()), ABSENT)),
    ):
        numbers[of_kind], kinds[of_kind] = builder.addresses(kind, modules, offset[of_kind]), kind
    for row in np.flatnonzero(place == PLACEHOLDER).tolist():
        code = int(offset[row])
        kinds[row], name = describe(code)
        # Two codes have one name: the role tells which one it is.
        role = "" if code_of(name) == code else code_text(code)
        numbers[row] = builder.region(ContextKind(kinds[row]), name, role=role)
    return numbers, kinds


# -- one tree of many --------------------------------------------------------------------------------------------------
# Contexts with equal region below equal parents are one.
#
# All trees are gone through together, level by level: a level is sorted once by (parent in the merged tree, region), so
# that the work is that of sorting all nodes and no loop touches a single one. Siblings come out in the order of their
# regions, so the merged tree does not depend on the order of the files.


@dataclass(frozen=True)
class Merged:
    """The tree, level by level, parents first; `contexts[k]` maps the nodes of tree k to it."""

    parent: Ids
    region: Ids
    contexts: list[Ids]


def merge(trees: Sequence[tuple[Ids, Ids]]) -> Merged:
    """Merge trees given by the position of each node's parent (-1: none) and by its region."""
    sizes = [len(above) for above, _ in trees]
    starts = np.cumsum([0, *sizes])
    n = int(starts[-1])
    above, region = np.empty(n, np.int32), np.empty(n, np.int64)
    for start, (parents_of_tree, regions) in zip(starts.tolist(), trees, strict=False):
        part = slice(start, start + len(parents_of_tree))
        above[part] = np.where(parents_of_tree < 0, ABSENT, parents_of_tree + start)
        region[part] = regions
    number = np.empty(n, np.int64)
    parents: list[Ids] = []
    kinds: list[Ids] = []
    n_contexts = 0
    for level in levels(depths(above)):
        up = above[level]
        key = (np.where(up < 0, ABSENT, number[up]) + 1 << 32) | region[level]
        keys, inverse = np.unique(key, return_inverse=True)
        number[level] = n_contexts + inverse
        parents.append(((keys >> 32) - 1).astype(np.int32))
        kinds.append((keys & 0xFFFF_FFFF).astype(np.int32))
        n_contexts += len(keys)
    none = [np.empty(0, np.int32)]
    own_maps = np.split(number.astype(np.int32), starts[1:-1])
    return Merged(np.concatenate(parents or none), np.concatenate(kinds or none), own_maps)
