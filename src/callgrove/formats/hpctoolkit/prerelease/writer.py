"""Writes pre-release HPCToolkit databases: experiment.xml, profile.db, cct.db, trace.db [, src/], and what is lost.

Specification: hpctoolkit-databases.md A.8. `database_writer` streams values and samples; here is what this generation
makes of contexts, metrics and tables. experiment.xml is written last: it says when the trace begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from callgrove.arrays import NO_OFFSET, Array, Ids, Ints
from callgrove.errors import count_of
from callgrove.formats.hpctoolkit.database_writer import Written
from callgrove.formats.hpctoolkit.metric_plan import DESCRIPTION, MetricPlan, Slots, losses_of_both, view_columns
from callgrove.formats.hpctoolkit.prerelease import files as rec
from callgrove.formats.hpctoolkit.prerelease.files import CONTEXT_LAYOUT, KIND_BITS, PROFILE_LAYOUT
from callgrove.formats.hpctoolkit.prerelease.plan import Shape, TagTree
from callgrove.formats.hpctoolkit.prerelease.xml_writer import (
    UNKNOWN_FILE_ID,
    ProgramTables,
    metric_tables,
    quote,
    tree_text,
)
from callgrove.formats.hpctoolkit.statistics import LexicalLoops
from callgrove.formats.hpctoolkit.value_writers import BlockPlaces, align, pack_tuples
from callgrove.model.contexts import Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.profiles import IdentifierTuples
from callgrove.model.traces.events import Window

__all__ = [
    "DOCUMENT",
    "GENUINE",
    "LARGEST_KIND",
    "PRERELEASE_SLOTS",
    "Prerelease",
    "PrereleaseContexts",
    "PrereleaseProfiles",
    "PrereleaseTraces",
    "losses_of",
]


# -- headers and tables of the binary files ----------------------------------------------------------------------------
#     profile.db    header (128 bytes), ProfileInfo, id tuples | blocks | footer
#     cct.db        header (128 bytes), ContextInfo | blocks | footer
#     trace.db      header (128 bytes), TraceHeader | lines | footer, but not in the genuine dialect
#
# Sections begin at multiples of 8, blocks and lines are packed. The dialect `genuine` is what HPCToolkit's tools wrote,
# version bytes 1.0 and a trace.db without footer; `document` is what its document says, 4.0 and footers everywhere.


GENUINE, DOCUMENT = "genuine", "document"
VERSIONS = {GENUINE: (1, 0), DOCUMENT: (4, 0)}
HEADER_AREA = 128
LARGEST_KIND = (1 << KIND_BITS) - 1
SUMMARY_TUPLE = (0, 0, 0, 0)


def _header(magic: bytes, dialect: str, n_items: int, *sections: tuple[int, int]) -> bytes:
    """Return the header area, with sections as (size, offset)."""
    head, table = np.zeros(1, rec.HEADER), np.zeros(len(sections), rec.SECTION)
    head[0] = (magic, *VERSIONS[dialect], n_items, len(sections))
    for record, section in zip(table, sections, strict=True):
        record["size"], record["offset"] = section
    return (head.tobytes() + table.tobytes()).ljust(HEADER_AREA, b"\0")


class PrereleaseProfiles:
    """profile.db. The summary is profile 0, whose tuple says so."""

    layout = PROFILE_LAYOUT
    footer = rec.PROFILE_FOOTERS[0]

    def __init__(self, dialect: str, identifiers: IdentifierTuples, measured: Ints) -> None:
        self._dialect = dialect
        self._tuples_at = align(HEADER_AREA + rec.PROFILE_INFO.itemsize * (len(measured) + 1), 8)
        how = LARGEST_KIND, rec.TUPLE_LAYOUT, _encode_elements
        summary, at = pack_tuples(IdentifierTuples.of([[SUMMARY_TUPLE]]), np.array([0]), *how, self._tuples_at)
        tuples, others_at = pack_tuples(identifiers, measured, *how, self._tuples_at + len(summary))
        self._tuples, self._tuple_at = summary + tuples, np.append(at, others_at)
        self.blocks_at = align(self._tuples_at + len(self._tuples), 8)

    def tables(self, places: BlockPlaces) -> bytes:
        infos = np.zeros(len(places.n_values), rec.PROFILE_INFO)
        infos["tuplePtr"] = self._tuple_at
        infos["num_vals"], infos["num_nzctxs"], infos["prof_off"] = places.n_values, places.n_index, places.values_at
        sections = (infos.nbytes, HEADER_AREA), (len(self._tuples), self._tuples_at)
        content = _header(rec.PROFILE_MAGICS[0], self._dialect, len(infos), *sections) + infos.tobytes()
        return (content.ljust(self._tuples_at, b"\0") + self._tuples).ljust(self.blocks_at, b"\0")


class PrereleaseContexts:
    """cct.db: a record for every id, context 0 included."""

    layout = CONTEXT_LAYOUT
    footer = rec.CCT_FOOTERS[0]

    def __init__(self, dialect: str, n_ids: int) -> None:
        self._dialect = dialect
        self.blocks_at = align(HEADER_AREA + n_ids * rec.CONTEXT_INFO.itemsize, 8)

    def tables(self, places: BlockPlaces) -> bytes:
        infos = np.zeros(len(places.n_values), rec.CONTEXT_INFO)
        infos["ctx_id"] = np.arange(len(infos))
        infos["num_vals"], infos["num_nzmids"], infos["ctx_off"] = places.n_values, places.n_index, places.values_at
        head = _header(rec.CCT_MAGICS[0], self._dialect, len(infos), (infos.nbytes, HEADER_AREA))
        return (head + infos.tobytes()).ljust(self.blocks_at, b"\0")


class PrereleaseTraces:
    """trace.db. Without any sample there are no bytes behind the table, and lines point there all the same."""

    sample = rec.SAMPLE
    alignment = 1

    def __init__(self, dialect: str, n_lines: int) -> None:
        self._dialect = dialect
        self.footer = rec.TRACE_FOOTERS[0] if dialect == DOCUMENT else b""
        self.lines_at = align(HEADER_AREA + rec.TRACE_HEADER.itemsize * n_lines, 8)

    def tables(self, start: Ints, end: Ints, time_range: Window) -> bytes:
        lines: Array = np.zeros(len(start), rec.TRACE_HEADER)
        lines["prof_info_idx"] = np.arange(1, len(start) + 1)
        lines["start"], lines["end"] = start, end
        head = _header(rec.TRACE_MAGICS[0], self._dialect, len(lines), (lines.nbytes, HEADER_AREA))
        return head + lines.tobytes()


def _encode_elements(identifiers: IdentifierTuples) -> Array:
    """Return the elements of tuples as records."""
    elements = np.zeros(len(identifiers.kind), rec.ID_ELEMENT)
    elements["kind"] = identifiers.kind | identifiers.interpretation << KIND_BITS
    elements["physical"], elements["logical"] = identifiers.physical, identifiers.logical
    return elements


# -- losses ------------------------------------------------------------------------------------------------------------


def losses_of(experiment: Experiment, tree: TagTree, plan: MetricPlan) -> Iterator[str]:
    """Yield everything that is left out or changed, one sentence each."""
    n = len(experiment.contexts)
    yield from losses_of_both(experiment, tree.kind_as_read, tree.around[:n], tree.keeps_ids, plan)
    yield from _nesting(tree)
    yield from _describe_lost_places(tree)
    if (experiment.profiles.identifiers.kind > LARGEST_KIND).any():
        yield f"identifiers: kinds above {LARGEST_KIND} do not fit"
    if DESCRIPTION in experiment.attributes:
        yield f"attributes: {DESCRIPTION}"


def _nesting(tree: TagTree) -> Iterator[str]:
    contexts, n = tree.contexts, len(tree.contexts)
    if n_lines := int(tree.flattened.sum()):
        yield f"inclusive values of {count_of(n_lines, 'line')}: what is called from there stands beside them"
    called = (contexts.call_line >= 0) & (contexts.relation != Relation.INLINED)
    if n_called := int(called.sum()):
        yield f"call sites: where {count_of(n_called, 'context was', 'contexts were')} called from"
    sites = (tree.shape[:n] == Shape.SITE) & (contexts.relation != Relation.LEXICAL)
    inner = np.isin(tree.shape[:n], (Shape.LINE, Shape.LOOP, Shape.POINT)) & (contexts.relation != Relation.LEXICAL)
    if n_related := int((sites | inner).sum()):
        yield f"relations of {count_of(n_related, 'context')}: loops, lines, instructions are nested in their parents"


def _describe_lost_places(tree: TagTree) -> Iterator[str]:
    """Yield what is lost of places: tags other than frames inherit their module, and lines have no offset."""
    contexts, n = tree.contexts, len(tree.contexts)
    shape, module, offset = tree.shape[:n], contexts.column("module"), contexts.column("offset")
    inherits = np.isin(shape, (Shape.SITE, Shape.POINT, Shape.LOOP)) & contexts.listed
    other = inherits & (module >= 0) & (module != _frame_modules(tree)[:n])
    other |= (shape == Shape.LINE) & contexts.listed & ((module >= 0) | (offset != NO_OFFSET))
    if other.any():
        yield f"modules and offsets of {int(other.sum())} loops, lines and instructions"


def _frame_modules(tree: TagTree) -> np.ndarray:
    """Return the module of the frame that each row lies in."""
    module = np.append(tree.contexts.column("module"), np.full(len(tree) - len(tree.contexts), -1))
    is_frame = tree.shape == Shape.FRAME
    above = tree.parent.copy()
    while (climbing := (above >= 0) & ~is_frame[above]).any():
        above[climbing] = tree.parent[above[climbing]]
    return np.where(above >= 0, module[above], -1)


# -- the writer --------------------------------------------------------------------------------------------------------


PRERELEASE_SLOTS = Slots((Scope.FUNCTION, Scope.INCLUSIVE), step=3)
TICKS = 1_000_000_000  # per second


class Prerelease:
    """One experiment as a pre-release database, in one of the dialects."""

    always_traces = True
    sample = rec.SAMPLE

    def __init__(self, tables: Experiment, dialect: str) -> None:
        self._tables, self._dialect = tables, dialect
        self.tree = TagTree.of(tables.contexts)
        self.plan = MetricPlan.of(tables.metrics, PRERELEASE_SLOTS, not len(tables.profiles.aggregates))
        self._adds_idle = False

    @property
    def n_ids(self) -> int:
        return max(self.tree.n_ids, self.tree.no_activity + 1 if self._adds_idle else 0)

    def losses(self) -> Iterator[str]:
        return losses_of(self._tables, self.tree, self.plan)

    def lexical_loops(self) -> LexicalLoops | None:
        return None

    def profiles_file(self) -> PrereleaseProfiles:
        return PrereleaseProfiles(self._dialect, self._tables.profiles.identifiers, self._tables.profiles.measured)

    def contexts_file(self) -> PrereleaseContexts:
        return PrereleaseContexts(self._dialect, self.n_ids)

    def traces_file(self) -> PrereleaseTraces:
        return PrereleaseTraces(self._dialect, len(self._tables.profiles.measured))

    @cached_property
    def ids_of_samples(self) -> Ints:
        return np.append(self.tree.id[: len(self._tables.contexts)], self.tree.no_activity)

    def sample_ids(self, contexts: Ids) -> Ints:
        self._adds_idle |= self.tree.idle_is_added and bool((contexts < 0).any())
        ids: Ints = self.ids_of_samples[contexts]
        return ids

    def write_tables(self, folder: Path, written: Written) -> Iterator[str]:
        columns, lost = view_columns(self.plan, self._tables.metrics, tells_statistics=True)
        if lost:
            yield f"columns over what the database does not hold: {len(lost)}, the first is {lost[0]}"
        tables = ProgramTables(self.tree, written.copies, self._adds_idle)
        with (folder / "experiment.xml").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(self._head())
            file.writelines(metric_tables(self.plan, columns))
            file.writelines(_trace_table(written.time_range))
            file.writelines(tables.text())
            file.write("<Info/>\n</SecHeader>\n<SecCallPathProfileData>\n")
            file.writelines(tree_text(self.tree, tables))
            file.writelines(self._idle(tables))
            file.write("</SecCallPathProfileData>\n</SecCallPathProfile>\n</HPCToolkitExperiment>\n")

    def _head(self) -> Iterator[str]:
        title = quote(self._tables.title)
        yield '<?xml version="1.0"?>\n<HPCToolkitExperiment version="4.0">\n'
        yield f'<Header n={title}>\n<Info/>\n</Header>\n<SecCallPathProfile i="0" n={title}>\n<SecHeader>\n'
        yield "<IdentifierNameTable>\n"
        for number, name in enumerate(self._tables.profiles.identifiers.names):
            yield f'<Identifier i="{number}" n={quote(name)}/>\n'
        yield "</IdentifierNameTable>\n"

    def _idle(self, tables: ProgramTables) -> Iterator[str]:
        """Yield the context of idle samples, where the experiment has none itself."""
        if self._adds_idle:
            id_, number = self.tree.no_activity, tables.idle
            place = f'f="{UNKNOWN_FILE_ID}" l="0"'
            yield f'<PF i="{id_}" n="{number}" s="{number}" {place} lm="1">\n'
            yield f'<S i="-{id_}" s="{number}" v="0" {place} it="{id_}"/>\n</PF>\n'


def _trace_table(time_range: Window | None) -> Iterator[str]:
    yield "<TraceDBTable>\n"
    if time_range is not None:
        first, last = time_range
        yield f'<TraceDB i="0" db-min-time="{first}" db-max-time="{last}" u="{TICKS}"/>\n'
    yield "</TraceDBTable>\n"
