"""Ranges of Extra-Prof: whole call paths as the text of an NVTX range.

Specification: gpu-traces.md section 9 a.

    main->solve->step                plain
    \x1f7f01a0\x1f7f02b8             pointers to symbols, the outermost first
    StringIds: EXTRA_PROF_SYMBOLS, EP\x1f7f01a0\x1fmain, EP\x1f7f02b8\x1fsolve, ..., EXTRA_PROF_SYMBOLS_END
"""

from __future__ import annotations

from collections.abc import Mapping

from callgrove.formats.gpu.sqlite_file import MISSING, SqliteFile, Type

__all__ = ["ARROW", "EXTRA_PROF", "decoded", "extra_prof_domain", "symbols"]

EXTRA_PROF = "de.tu-darmstadt.parallel.extra_prof"
SEPARATOR = "\x1f"
ARROW = "->"
DOMAIN_CREATE = 75
FIRST, LAST = "EXTRA_PROF_SYMBOLS", "EXTRA_PROF_SYMBOLS_END"


def extra_prof_domain(file: SqliteFile) -> int | None:
    """The NVTX domain of Extra-Prof's ranges, if it measured the run."""
    columns = {"eventType": Type.INTEGER, "domainId": Type.INTEGER, "text": Type.TEXT}
    for cells in file.chunks("NVTX_EVENTS", columns):
        for kind, domain, text in zip(
            cells["eventType"].tolist(), cells["domainId"].tolist(), cells["text"], strict=True
        ):
            if kind == DOMAIN_CREATE and text == EXTRA_PROF and domain != MISSING:
                return int(domain)
    return None


def symbols(strings: Mapping[int, str]) -> dict[str, str]:
    """Names by pointer. An arrow inside a name would read as two names."""
    places = {text: id_ for id_, text in strings.items() if text in (FIRST, LAST)}
    if len(places) < 2:
        return {}
    found: dict[str, str] = {}
    for id_, text in strings.items():
        mark, _, rest = text.partition(SEPARATOR)
        if mark == "EP" and places[FIRST] <= id_ <= places[LAST]:
            pointer, _, name = rest.partition(SEPARATOR)
            found[pointer] = name.replace(ARROW, "- >")
    return found


def decoded(text: str, names: Mapping[str, str]) -> str:
    """A range's text as a path; pointers without a name stay as they are."""
    if not text.startswith(SEPARATOR):
        return text
    pointers, arrow, call = text[1:].partition(ARROW)
    path = ARROW.join(names.get(pointer, f"<symbol {pointer}>") for pointer in pointers.split(SEPARATOR) if pointer)
    return path + arrow + call
