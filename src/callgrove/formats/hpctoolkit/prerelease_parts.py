"""What profile.db, cct.db and trace.db of a pre-release database have beside blocks and lines, as it is written.

    profile.db    header (128 bytes), ProfileInfo, id tuples | blocks | footer
    cct.db        header (128 bytes), ContextInfo | blocks | footer
    trace.db      header (128 bytes), TraceHeader | lines | footer, but not in the genuine dialect

Sections begin at multiples of 8, blocks and lines are packed. The dialect `genuine` is what HPCToolkit's tools wrote,
version bytes 1.0 and a trace.db without footer; `document` is what its document says, 4.0 and footers everywhere.
"""

from __future__ import annotations

import numpy as np

from callgrove.formats.hpctoolkit import prerelease_records as rec
from callgrove.formats.hpctoolkit.block_writer import BlockPlaces, aligned
from callgrove.formats.hpctoolkit.prerelease_files import CONTEXT_LAYOUT, KIND_BITS, PROFILE_LAYOUT
from callgrove.model.arrays import Array, Ints
from callgrove.model.profiles import IdentifierTuples
from callgrove.model.traces import Window

__all__ = ["DOCUMENT", "GENUINE", "LARGEST_KIND", "PrereleaseContexts", "PrereleaseProfiles", "PrereleaseTraces"]

GENUINE, DOCUMENT = "genuine", "document"
VERSIONS = {GENUINE: (1, 0), DOCUMENT: (4, 0)}
HEADER_AREA = 128
LARGEST_KIND = (1 << KIND_BITS) - 1
SUMMARY_TUPLE = (0, 0, 0, 0)


def _header(magic: bytes, dialect: str, n_items: int, *sections: tuple[int, int]) -> bytes:
    """The header area, with sections as (size, offset)."""
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
        self._tuples_at = aligned(HEADER_AREA + rec.PROFILE_INFO.itemsize * (len(measured) + 1), 8)
        self._tuples, self._tuple_at = _tuples(identifiers, measured, self._tuples_at)
        self.blocks_at = aligned(self._tuples_at + len(self._tuples), 8)

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
        self.blocks_at = aligned(HEADER_AREA + n_ids * rec.CONTEXT_INFO.itemsize, 8)

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
        self.lines_at = aligned(HEADER_AREA + rec.TRACE_HEADER.itemsize * n_lines, 8)

    def tables(self, start: Ints, end: Ints, time_range: Window) -> bytes:
        lines: Array = np.zeros(len(start), rec.TRACE_HEADER)
        lines["prof_info_idx"] = np.arange(1, len(start) + 1)
        lines["start"], lines["end"] = start, end
        head = _header(rec.TRACE_MAGICS[0], self._dialect, len(lines), (lines.nbytes, HEADER_AREA))
        return head + lines.tobytes()


def _tuples(identifiers: IdentifierTuples, measured: Ints, at: int) -> tuple[bytes, Ints]:
    """The tuples of the summary and of the measured profiles, and where each begins."""
    out = bytearray()
    pointers = []
    for rows in ([SUMMARY_TUPLE], *(identifiers.rows(profile) for profile in measured.tolist())):
        pointers.append(at + len(out))
        kept = [row for row in rows if row[0] <= LARGEST_KIND]
        elements = np.zeros(len(kept), rec.ID_ELEMENT)
        for element, (kind, physical, logical, interpretation) in zip(elements, kept, strict=True):
            element["kind"] = kind | interpretation << KIND_BITS
            element["physical"], element["logical"] = physical, logical
        out += len(kept).to_bytes(2, "big") + elements.tobytes()
    return bytes(out), np.array(pointers, np.int64)
