"""Structure files, .hpcstruct: which function, inlined functions, loops and lines the code of a load module came from.

Specification: the DTD that each file carries (version 4.9); tables.py sketches it and has what address look-up
works on. Nothing was measured, so the experiment has no profiles and no values: its contexts are the
tree of the code, each with the file's own id, so that it can be exported and searched.

Deviations of genuine files: ranges of different statements may overlap (code that functions share); the first counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from callgrove.arrays import ABSENT, NO_OFFSET, Ints
from callgrove.binary.sources import HEAD_BUDGET, Source
from callgrove.binary.xml import new_parser, pieces, readable
from callgrove.errors import Parameter, worded
from callgrove.formats.hpcrun.hpcstruct.tables import ROOT, ScopeKind, Structure, read_structure
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity

__all__ = ["FORMAT", "HpcstructFormat"]

KINDS = {
    ScopeKind.PROCEDURE: ContextKind.FUNCTION,
    ScopeKind.LOOP: ContextKind.LOOP,
    ScopeKind.CALL_SITE: ContextKind.LINE,
    ScopeKind.INLINED: ContextKind.INLINED,
    ScopeKind.STATEMENT: ContextKind.LINE,
    ScopeKind.CALL: ContextKind.CALL,
}
UNMEASURED = worded(
    "describes code and holds no measurements; ", Parameter('export("contexts")'), " lists what it describes"
)
HEAD = HEAD_BUDGET // 4  # the DTD is shorter than that
NOWHERE = int(NO_OFFSET)


class HpcstructFormat:
    """Reads, prints and checks structure files."""

    name = "hpcstruct"
    title = "HPCToolkit structure of load modules (.hpcstruct)"

    def match(self, source: Source) -> Match | None:
        """By the root of the XML."""
        head = source.head(HEAD)
        if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            return None
        if f"<{ROOT}".encode() in head or f"<!DOCTYPE {ROOT}".encode() in head:
            return Match(Grade.EXACT, f"it is XML of {ROOT}")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        options.progress("reading the structure", 0, 1)
        structure = read_structure(source.path, options.salvage)
        title = ", ".join(structure.modules.path[:3]) or source.path.name
        builder = ExperimentBuilder(self.name, structure.version, title, str(source.path))
        builder.warn(Severity.NOTE, worded(f"{source.path}: ", UNMEASURED))
        if structure.damage:
            builder.warn(Severity.DAMAGE, structure.damage)
        _add_contexts(builder, structure)
        return builder.build()

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield what of the ranges, entries and targets contradicts itself: a note each, for genuine files have
        such."""
        structure = read_structure(source.path, options.salvage)
        name = source.path.name
        if structure.damage:
            yield Problem(Severity.DAMAGE, name, "XML", structure.damage)
        for text in (*structure.problems, *_doubts(structure)):
            yield Problem(Severity.NOTE, name, "structure", text)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every attribute of every tag. The section is the tag, the index counts tags of that name, the offset is
        that of the tag."""
        fields: list[Field] = []
        counts: dict[str, int] = {}
        parser, name = new_parser(source.path), source.path.name

        def start(tag: str, attributes: dict[str, str]) -> None:
            index, at = counts.get(tag, 0), parser.CurrentByteIndex
            counts[tag] = index + 1
            fields.extend(Field(name, tag, index, at, key, value) for key, value in attributes.items())

        parser.StartElementHandler = start
        with readable(source.path) as file:
            for _ in pieces(source.path, parser, file):
                yield from fields
                fields.clear()


FORMAT = HpcstructFormat()


def _add_contexts(builder: ExperimentBuilder, structure: Structure) -> None:
    scopes = structure.scopes
    modules = [builder.module(path) for path in structure.modules.path]
    files = [builder.file(text) for text in structure.strings]
    names = (scopes.kind, scopes.name, scopes.link_name, scopes.file, scopes.line, scopes.module)
    rows = zip(*(c.tolist() for c in (*names, scopes.address, scopes.target, scopes.device)), strict=True)
    regions = []
    for kind, name, link_name, file, line, module, address, target, device in rows:
        details = {
            "mangled name": structure.text(link_name),
            "target": f"{target:#x}" if target != NOWHERE else "",
            "device": structure.text(device),
        }
        regions.append(
            builder.region(
                KINDS[ScopeKind(kind)],
                structure.text(name),
                file=files[file] if file >= 0 else ABSENT,
                line=line or ABSENT,
                module=modules[module],
                offset=address if kind in (ScopeKind.PROCEDURE, ScopeKind.LOOP, ScopeKind.CALL) else None,
                details={key: text for key, text in details.items() if text},
            )
        )
    kinds = np.array([KINDS[kind] for kind in ScopeKind], np.int64)[scopes.kind]
    relation = np.where(scopes.kind == ScopeKind.INLINED, Relation.INLINED, Relation.LEXICAL)
    relation[scopes.parent < 0] = Relation.CALL
    ids = _unique(scopes.tag_id)
    builder.add_contexts(parent=scopes.parent, kind=kinds, relation=relation, region=regions, source_id=ids)


def _unique(ids: Ints) -> Ints:
    """Ids that occur once; the others are absent."""
    _, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
    return np.where(counts[inverse] == 1, ids, ABSENT)


def _doubts(structure: Structure) -> Iterator[str]:
    scopes = structure.scopes
    has_entry = (scopes.kind == ScopeKind.PROCEDURE) & (scopes.address != NO_OFFSET)
    if shared := int(has_entry.sum()) - len(structure.entries):
        yield f"{shared:,} procedures begin at the address of an earlier one"
    if without := int(((scopes.kind == ScopeKind.PROCEDURE) & (scopes.address == NO_OFFSET)).sum()):
        yield f"{without:,} procedures have no address"
    calls = (scopes.kind == ScopeKind.CALL) & (scopes.target != NO_OFFSET)
    targets = zip(scopes.module[calls].tolist(), scopes.target[calls].tolist(), strict=True)
    if lost := sum(target not in structure.entries for target in targets):
        yield f"{lost:,} calls lead to addresses that are no procedure's entry"
