"""LoadModuleTable, FileTable and ProcedureTable of experiment.xml: what the tags of the tree refer to by number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from callgrove.formats.hpctoolkit.generations import (
    NO_ACTIVITY,
    PARTIAL_PATHS,
    PLACEHOLDER_OF_ENTRY,
    UNKNOWN,
    UNKNOWN_NAMES,
    unknown_procedure,
)
from callgrove.formats.hpctoolkit.prerelease_plan import Shape, TagTree
from callgrove.formats.hpctoolkit.xml_text import quoted
from callgrove.formats.hpctoolkit.xml_tree import NOT_MODULES, UNKNOWN_FILE
from callgrove.model.arrays import NO_OFFSET, Ints, Offsets
from callgrove.model.contexts import ContextKind

__all__ = ["UNKNOWN_FILE_ID", "ProgramTables"]

UNKNOWN_FILE_ID = (1 << 31) - 1  # those of modules count down from there
UNKNOWN_MODULE, NO_MODULE = range(len(NOT_MODULES))
Procedure = tuple[str, int, bool]  # name, offset, not a real function
RESERVED: dict[Procedure, int] = {(UNKNOWN, 0, True): 0, (PARTIAL_PATHS, 0, True): 1}  # always these numbers


class ProgramTables:
    """The tables, and for every row of the tree the numbers that its tags use. `scopes` tell places in the program
    apart; `unknown_files` are for frames whose file is not known; `idle` is the procedure of an added context."""

    def __init__(self, tree: TagTree, copies: Mapping[int, str], adds_idle: bool) -> None:
        contexts, n = tree.contexts, len(tree.contexts)
        self._regions, self._copies = contexts.regions, copies
        extra = len(tree) - n
        region = np.append(contexts.region, np.full(extra, -1))
        kind = np.append(contexts.kind, np.full(extra, ContextKind.CALL))
        module = np.append(contexts.column("module"), np.full(extra, -1))
        entry = tree.artificial & (kind == ContextKind.ENTRY)
        module = np.where(entry, -1, module)
        self.offsets: Offsets = np.append(contexts.column("offset"), np.full(extra, NO_OFFSET))
        self.offsets = np.where(module >= 0, self.offsets, NO_OFFSET)
        self.modules: Ints = np.where(
            module >= 0, module + len(NOT_MODULES), np.where(tree.artificial, NO_MODULE, UNKNOWN_MODULE)
        )
        self.unknown_files: Ints = np.where(module >= 0, UNKNOWN_FILE_ID - 1 - module, UNKNOWN_FILE_ID)
        self._unknown_of = np.unique(module[(tree.shape == Shape.FRAME) & tree.listed & (module >= 0)]).tolist()
        self.procedures = self._number_procedures(tree, region, kind)
        self.idle = self._number((NO_ACTIVITY, 0, True)) if adds_idle else 0
        self.scopes: Ints = region + len(self._procedures) + len(RESERVED) + 1

    def _number_procedures(self, tree: TagTree, region: Ints, kind: Ints) -> Ints:
        """Procedures by region, kind and relation; equal ones are one."""
        frames = np.flatnonzero((tree.shape == Shape.FRAME) & tree.listed)
        keys = np.stack([region[frames], kind[frames], tree.artificial[frames]], axis=1)
        distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
        self._procedures: dict[Procedure, int] = {}
        numbers = [self._number(self._procedure(*key)) for key in distinct.tolist()]
        out = np.zeros(len(tree), np.int64)
        out[frames] = np.array(numbers, np.int64)[inverse.ravel()] if len(numbers) else 0
        return out

    def _number(self, procedure: Procedure) -> int:
        following = len(RESERVED) + len(self._procedures)
        return self._procedures.setdefault(procedure, RESERVED.get(procedure, following))

    def _procedure(self, region: int, kind: int, artificial: bool) -> Procedure:
        regions = self._regions
        module = int(regions.module[region]) if region >= 0 else -1
        known = module >= 0 and regions.offset[region] != NO_OFFSET
        offset = int(regions.offset[region]) if known else 0
        name = regions.label(region) if region >= 0 else ""
        if kind == ContextKind.ENTRY:
            return PLACEHOLDER_OF_ENTRY.get(name, name or PARTIAL_PATHS), 0, bool(artificial)
        if kind in (ContextKind.INSTRUCTION, ContextKind.CALL) and artificial and module >= 0:
            return unknown_procedure(regions.modules[module], offset), offset, True
        if (
            kind == ContextKind.UNKNOWN
            and artificial
            and (region < 0 or name in UNKNOWN_NAMES or regions.name[region] < 0)
        ):
            return UNKNOWN, offset, True
        return name or UNKNOWN, offset, bool(artificial)

    def text(self) -> Iterator[str]:
        """The three tables, line by line."""
        yield "<LoadModuleTable>\n"
        for number, name in enumerate((*NOT_MODULES, *self._regions.modules)):
            yield f'<LoadModule i="{number}" n={quoted(name)}/>\n'
        yield "</LoadModuleTable>\n<FileTable>\n"
        yield f'<File i="{UNKNOWN_FILE_ID}" n={quoted(UNKNOWN_FILE)}/>\n'
        for number, path in enumerate(self._regions.files.paths):
            shown = f"./{self._copies[number]}" if number in self._copies else path
            yield f'<File i="{number}" n={quoted(shown)}/>\n'
        for module in self._unknown_of:
            name = f"{UNKNOWN_FILE} [{self._regions.modules[module].rpartition('/')[2]}]"
            yield f'<File i="{UNKNOWN_FILE_ID - 1 - module}" n={quoted(name)}/>\n'
        yield "</FileTable>\n<ProcedureTable>\n"
        for (name, offset, artificial), number in self._procedures.items():
            flag = ' f="1"' if artificial else ""
            yield f'<Procedure i="{number}" n={quoted(name)} v="{f"{offset:#x}" if offset else 0}"{flag}/>\n'
        yield "</ProcedureTable>\n"
