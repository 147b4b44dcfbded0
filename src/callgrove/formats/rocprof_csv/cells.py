"""Records as rows of text. `tables.py` says what a cell is made of; here it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from callgrove.binary.text_rows import Cells, Texts, blocks, decimals, fractions, hexadecimals, integers, joined, where
from callgrove.formats.rocprof_csv.places import Places
from callgrove.formats.rocprof_csv.records import Records
from callgrove.formats.rocprof_csv.tables import Columns
from callgrove.model.arrays import Ints

__all__ = ["LONGEST", "Words", "quoted", "rows_of"]

LONGEST = 1 << 16  # bytes of a name
ROOM = 512  # bytes that a row needs at most, as a rule, without its names
USUAL = 32  # columns
RENAMED = {"ALLOC": "ALLOCATE"}
UNNAMED = "<unnamed>"


def quoted(text: str) -> bytes:
    """A text as a cell: RFC 4180, and bytes that every reader takes."""
    data = text.replace("\0", "\u2400").replace('"', '""').encode("utf-8", "replace")
    if len(data) > LONGEST:
        data = text.replace("\0", "\u2400").encode("utf-8", "replace")[:LONGEST]
        data = (data.decode("utf-8", "ignore") + "…").replace('"', '""').encode()
    return b'"%b"' % data


def _named(text: str) -> bytes:
    return quoted(text or UNNAMED)


def _operation(prefix: str) -> Callable[[str], bytes]:
    return lambda text: quoted(prefix + (text if prefix == "SCRATCH_MEMORY_" else RENAMED.get(text, text)))


class Words:
    """Every text that a row may have, by the words of `tables.py`."""

    def __init__(
        self,
        places: Places,
        names: Sequence[str],
        categories: Sequence[str],
        devices: Sequence[str],
        counters: Sequence[str],
    ) -> None:
        self._texts = {
            "$name": Texts(names, _named, quoted(UNNAMED)),
            "$label": Texts(names, _named, quoted(UNNAMED)),
            "$category": Texts(categories, quoted, b'""'),
            "$operation": Texts(names, _operation("MEMORY_ALLOCATION_"), b'""'),
            "$virtual_operation": Texts(names, _operation("MEMORY_ALLOCATION_VMEM_"), b'""'),
            "$scratch_operation": Texts(names, _operation("SCRATCH_MEMORY_"), b'""'),
            "$counter": Texts(counters, quoted, b'""'),
            **{f"${word}": Texts(devices, quoted, b'""') for word in ("source", "destination", "device")},
            **{f"@{word}": Texts(getattr(places, word), quoted) for word in ("guid", "agent", "host")},
            **{f"#{word}": Texts(getattr(places, word), str.encode) for word in ("pid", "tid", "stream", "rank")},
        }

    def cells(self, what: str, records: Records) -> Cells | bytes:
        """One column."""
        if what.startswith("="):
            return quoted(what[1:])
        if what[0] in "@#":
            return self._texts[what].cells(records["profile"])
        if what == "$leveled_operation":
            levels = (self._texts[f"${word}operation"].cells(records["name"]) for word in ("virtual_", ""))
            return np.where(records["virtual"] == 1, *levels)
        if what.startswith("$"):
            return self._texts[what].cells(records["name" if "operation" in what else what[1:]])
        if what.startswith("*"):
            return _numbers(_product(*(records[f"{what[1:]}_{axis}"] for axis in "xyz")))
        if what.startswith(("0x ", "0X ")):
            return _addresses(records[what[3:]], large=what[1] == "X")
        if what == "duration":
            return _durations(records)
        return _bandwidth(records) if what == "~bandwidth" else self._number(what, records)

    def _number(self, what: str, records: Records) -> Cells | bytes:
        return fractions(records[what[1:]], _not_finite) if what.startswith("~") else _numbers(records[what])

    def widths(self, records: Records, columns: Columns) -> Ints:
        """Room that the longest texts of each row need."""
        out = np.zeros(len(records["span"]), np.int64)
        for _, what in columns:
            if what in ("$name", "$label", "$category"):
                out += self._texts[what].widths(records[what[1:]])
        return out


def rows_of(words: Words, columns: Columns, records: Records) -> Iterator[tuple[Records, bytes]]:
    """The rows, block after block: records, and their text."""
    for part in blocks(words.widths(records, columns), ROOM + 16 * max(0, len(columns) - USUAL)):
        own = {name: column[part] for name, column in records.items()}
        fields: list[Cells | bytes] = []
        for _, what in columns:
            fields += [words.cells(what, own), b","]
        fields[-1] = b"\n"
        yield own, joined(len(own["span"]), fields)


def _numbers(values: Ints) -> Cells | bytes:
    known = values >= 0
    if known.all():
        return integers(values)
    return where(known, integers(np.maximum(values, 0))) if known.any() else b""


def _product(*columns: Ints) -> Ints:
    """-1 where a factor is not known, or the product is no number of 63 bits."""
    size = np.prod([column.astype(np.float64) for column in columns], axis=0)
    good = np.all([column >= 0 for column in columns], axis=0) & (size < 2.0**63)
    return np.where(good, np.prod(np.stack(columns), axis=0), -1)


def _addresses(values: Ints, *, large: bool) -> Cells:
    """-1 is none."""
    n = len(values)
    digits = np.char.upper(hexadecimals(values)) if large else hexadecimals(values)
    text = np.frombuffer(joined(n, [b'"0x', digits, b'"']), "S20") if n else np.empty(0, "S20")
    return where(values != -1, text, b'""')


def _durations(records: Records) -> Cells | bytes:
    """Empty for what never ended."""
    return _numbers(np.where(records["end"] >= 0, records["end"] - records["start_ns"], -1))


def _not_finite(value: float) -> bytes:
    """Empty is what is no number."""
    return b"" if np.isnan(value) else repr(value).encode()


def _bandwidth(records: Records) -> Cells | bytes:
    """Bytes by nanoseconds are gigabytes by seconds, here with three digits after the point."""
    lasting, size = records["end"] - records["start_ns"], records["bytes"]
    known = (lasting > 0) & (size >= 0)
    if not known.any():
        return b""
    thousandths = np.rint(1000.0 * np.maximum(size, 0) / np.maximum(lasting, 1)).astype(np.int64)
    n = len(size)
    parts = decimals(thousandths)
    lines = joined(n, [*parts, b"\n"]).split()
    return where(known, np.array(lines, np.bytes_))
