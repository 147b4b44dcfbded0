"""What profile.db, cct.db and trace.db of a released database have beside blocks and lines, as it is written.

profile.db    header, ProfileInfos at 0x30, id tuples | blocks | footer
cct.db        header, CtxInfos at 0x30 (as genuine files have it; the 16 bytes before are zero here) | blocks | footer
trace.db      header, CtxTraces at 0x20 | lines | footer
"""

from __future__ import annotations

import numpy as np

from callgrove.formats.hpctoolkit import release_records as rec
from callgrove.formats.hpctoolkit.block_writer import BlockPlaces, aligned
from callgrove.formats.hpctoolkit.release_files import CONTEXT_LAYOUT, PROFILE_LAYOUT, header_bytes
from callgrove.formats.hpctoolkit.release_words import PHYSICAL_FLAG, SUMMARY_FLAG
from callgrove.model.arrays import Array, Ints
from callgrove.model.profiles import IdentifierTuples, Interpretation
from callgrove.model.traces import Window

__all__ = ["LARGEST_KIND", "LARGEST_LOGICAL", "ReleasedContexts", "ReleasedProfiles", "ReleasedTraces"]

SECTION_AT, HEAD = 0x30, 16
TRACES_AT = 0x20
LARGEST_KIND, LARGEST_LOGICAL = 0xFF, 0xFFFFFFFF


def _infos(dtype: np.dtype[np.void], fields: tuple[str, str, str, str], places: BlockPlaces) -> Array:
    out = np.zeros(len(places.n_values), dtype)
    columns = (places.n_values, places.values_at, places.n_index, places.index_at)
    for field, column in zip(fields, columns, strict=True):
        out[field] = column
    return out


def _section(dtype: np.dtype[np.void], at: int, infos: Array) -> bytes:
    head = np.zeros(1, dtype)
    head[0] = (at, len(infos), infos.dtype.itemsize)
    return head.tobytes().ljust(HEAD, b"\0") + infos.tobytes()


class ReleasedProfiles:
    """profile.db. The summary is profile 0, and has no identifier tuple."""

    layout = PROFILE_LAYOUT
    footer = rec.FOOTERS["prof"]

    def __init__(self, identifiers: IdentifierTuples, measured: Ints) -> None:
        self._infos_at = SECTION_AT + HEAD
        self._tuples_at = aligned(self._infos_at + rec.PROFILE_INFO.itemsize * (len(measured) + 1), 8)
        self._tuples, self._tuple_at = _tuples(identifiers, measured, self._tuples_at)
        self.blocks_at = self._tuples_at + len(self._tuples)

    def tables(self, places: BlockPlaces) -> bytes:
        infos = _infos(rec.PROFILE_INFO, ("nValues", "pValues", "nCtxs", "pCtxIndices"), places)
        infos["pIdTuple"][1:] = self._tuple_at
        infos["flags"][0] = SUMMARY_FLAG
        sections = {
            "ProfileInfos": (SECTION_AT, HEAD + infos.nbytes),
            "IdTuples": (self._tuples_at, len(self._tuples)),
        }
        content = header_bytes("prof", sections) + _section(rec.PROFILE_INFOS, self._infos_at, infos)
        return content.ljust(self._tuples_at, b"\0") + self._tuples


class ReleasedContexts:
    """cct.db."""

    layout = CONTEXT_LAYOUT
    footer = rec.FOOTERS["ctxt"]

    def __init__(self, n_ids: int) -> None:
        self.blocks_at = SECTION_AT + HEAD + n_ids * rec.CTX_INFO.itemsize

    def tables(self, places: BlockPlaces) -> bytes:
        infos = _infos(rec.CTX_INFO, ("nValues", "pValues", "nMetrics", "pMetricIndices"), places)
        head = header_bytes("ctxt", {"CtxInfos": (SECTION_AT, HEAD + infos.nbytes)})
        return head.ljust(SECTION_AT, b"\0") + _section(rec.CTX_INFOS, SECTION_AT + HEAD, infos)


class ReleasedTraces:
    """trace.db."""

    sample = rec.SAMPLE
    alignment = 8
    footer = rec.FOOTERS["trce"]

    def __init__(self, n_lines: int) -> None:
        self._records_at = TRACES_AT + rec.CTX_TRACES.itemsize
        self.lines_at = aligned(self._records_at + rec.TRACE.itemsize * n_lines, self.alignment)

    def tables(self, start: Ints, end: Ints, time_range: Window) -> bytes:
        lines = np.zeros(len(start), rec.TRACE)
        lines["profIndex"] = np.arange(1, len(start) + 1)
        lines["pStart"], lines["pEnd"] = start, end
        section = np.zeros(1, rec.CTX_TRACES)
        section[0] = (self._records_at, len(lines), rec.TRACE.itemsize, *time_range)
        head = header_bytes("trce", {"CtxTraces": (TRACES_AT, section.nbytes + lines.nbytes)})
        return head + section.tobytes() + lines.tobytes()


def _tuples(identifiers: IdentifierTuples, measured: Ints, at: int) -> tuple[bytes, Ints]:
    """The tuples of the measured profiles, and where each begins. Kinds beyond 255 have no place."""
    out = bytearray()
    pointers = []
    for profile in measured.tolist():
        pointers.append(at + len(out))
        rows = [row for row in identifiers.rows(profile) if row[0] <= LARGEST_KIND]
        elements = np.zeros(len(rows), rec.ID_ELEMENT)
        for element, (kind, physical, logical, interpretation) in zip(elements, rows, strict=True):
            flags = 0 if interpretation == Interpretation.SINGLE else PHYSICAL_FLAG
            element["kind"], element["flags"] = kind, flags
            element["logicalId"], element["physicalId"] = min(logical, LARGEST_LOGICAL), physical
        out += len(rows).to_bytes(2, "little") + bytes(6) + elements.tobytes()
    return bytes(out), np.array(pointers, np.int64)
