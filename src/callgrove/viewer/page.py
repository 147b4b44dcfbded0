"""One HTML file with style, script and data inside: panels, how much detail they may have, columns as a compact
document.

The page loads nothing and sends nothing: its policy allows the very script and style that it holds, and pictures that
they make.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Any, Protocol, runtime_checkable

import numpy as np

from callgrove._version import __version__
from callgrove.arrays import Array, Ints, in_order
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.runs import Numbers
from callgrove.model.table import visible

__all__ = [
    "DATA_ID",
    "Choice",
    "ComparesTotals",
    "Detail",
    "Limits",
    "Panel",
    "PanelMaker",
    "Texts",
    "Unavailable",
    "bundle",
    "encode",
    "encode_answer",
    "modules",
    "page",
    "process_numbers",
    "style",
]


# -- the page ----------------------------------------------------------------------------------------------------------


# -- ES modules as one script ------------------------------------------------------------------------------------------
# Pages opened from disk cannot import files. There is no build step: a server gives the modules as they are. They keep
# to a few forms, which is all that this needs to know of the language, and what a test holds them to:
#
#     import { a, b } from "./other.js";        named imports of siblings, at the start of a line
#     export function a() ...                    exports in front of function, async function, class or const
#     /** ... */                                 types and explanations on lines of their own: pages do without them
#
#     const other_js = (() => { ...; return { a, b }; })();
#     const main_js = (() => { const { a, b } = other_js; ... })();


MAIN = "main.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)
_COMMENT = re.compile(r"^ */\*\*(?:(?!\*/).)*\*/\n", re.MULTILINE | re.DOTALL)
_UNSAFE = re.compile(r"</script|<!--", re.IGNORECASE)


@cache
def modules() -> Mapping[str, str]:
    """Return every module by its name."""
    folder = files("callgrove.viewer") / "static"
    return {
        entry.name: entry.read_text("utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".js")
    }


@cache
def style() -> str:
    """Return the style sheet."""
    return (files("callgrove.viewer") / "static" / "theme.css").read_text("utf-8")


def bundle(sources: Mapping[str, str], main: str = MAIN) -> str:
    """Return the module `main` and all that it needs, in one script."""
    done: dict[str, str] = {}
    _add(main, sources, done, ())
    script = '"use strict";\n' + "\n".join(done.values()) + "\n"
    if _UNSAFE.search(script):
        raise ValueError("a module holds text that would end its script element")
    return script


def _add(name: str, sources: Mapping[str, str], done: dict[str, str], above: tuple[str, ...]) -> None:
    """Add a module after everything that it imports."""
    if name in done:
        return
    if name in above:
        raise ValueError(f"modules import one another: {' -> '.join((*above, name))}")
    text = sources[name]
    for match in _IMPORT.finditer(text):
        _add(match[2], sources, done, (*above, name))
    done[name] = _wrap(name, text)


def _wrap(name: str, text: str) -> str:
    body = _COMMENT.sub("", text)
    body = _IMPORT.sub(lambda match: f"const {{{match[1].replace(' as ', ': ')}}} = {_variable(match[2])};", body)
    names = _EXPORT.findall(body)
    body = _EXPORT.sub("", body)
    odd = _OTHER.search(body)
    if odd:
        raise ValueError(f"{name}: `{odd[0]}` is not a form of import or export that reports know")
    return f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {', '.join(names)} }};\n}})();"


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name)


# -- the page ----------------------------------------------------------------------------------------------------------


DATA_ID = "callgrove-data"

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="callgrove {version}">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<noscript>This page draws its pictures with JavaScript, which is switched off here.</noscript>
<script type="application/json" id="{data_id}">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def page(title: str, data: str) -> str:
    """Return the page. `data` is what `encode` made: it holds no character that could end its element."""
    look, script = style(), bundle(modules())
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(look)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return _PAGE.format(
        policy=policy,
        version=__version__,
        title=html.escape(visible(title)),
        style=look,
        data_id=DATA_ID,
        data=data,
        script=script,
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


# -- document of columns and texts -------------------------------------------------------------------------------------
# A panel's data is made of plain values, NumPy arrays and `Texts`. In the page it is the same thing again, with typed
# arrays in place of NumPy's and arrays of strings in place of `Texts` (static/data.js is the other half):
#
#     {"version": 1, ..., "strings": [offset, bytes], "blob": base64(deflate(bytes))}
#     array   {"$a": [type, offset, length]}      type: i1 u1 i2 u2 i4 u4 f4 f8, little-endian
#     texts   {"$t": [type, offset, length]}      indices into the strings of the document, each of them stored once
#
# Numbers of more than one byte are stored byte plane by byte plane: first bytes, then second ones, and so on. Deflate
# makes of such planes about half of what it makes of the numbers as they are. An array that occurs twice is stored
# once. Integers take the smallest type that holds them; beyond 32 bits they become doubles, the only numbers that
# pages have.
#
# What a server answers is not part of a page, and need not be text. There the document is bytes, and `blob` is outside:
#
#     bytes of large columns (4) | bytes of JSON (4) | large columns, each at a multiple of 8 | JSON | deflate(bytes)
#     array   {"$a": [type, offset, length, 1]}   one of the large columns: numbers as they are, not deflated
#
# Deflating a picture of millions of cells takes longer than making it, and leaves half of it. So only columns that have
# runs are deflated, and those that are small: what matters to a slow connection.
#
# Every text is made visible here: no control character, direction mark or half character gets into a page.


VERSION = 1
INTEGERS = ("u1", "i1", "u2", "i2", "u4", "i4")
LEVEL = 6  # of deflate: higher ones take far longer for a percent
LARGE = 1 << 19  # bytes of a column in an answer, from which on it may stay as it is
SAMPLED = 1 << 13  # numbers of it that are looked at
ALIGNED = 8


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of texts, many of which may be equal."""

    values: Sequence[str]


def encode(document: Mapping[str, Any]) -> str:
    """Return the document as JSON that may stand inside an HTML script element."""
    packer = _Packer()
    body = packer.plain(document)
    strings = packer.strings()
    blob = base64.b64encode(zlib.compress(packer.bytes(), LEVEL)).decode("ascii")
    text = json.dumps({"version": VERSION, **body, "strings": strings, "blob": blob}, separators=(",", ":"))
    # json.dumps leaves ASCII only; these could still end or open an element
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def encode_answer(document: Mapping[str, Any]) -> bytes:
    """Return the document as bytes that a server gives. They are deflated quickly: only runs of one byte are looked
    for, of which columns of numbers have many."""
    packer = _Packer(as_they_are=True)
    body = packer.plain(document)
    strings = packer.strings()
    text = json.dumps({"version": VERSION, **body, "strings": strings}, separators=(",", ":")).encode()
    deflater = zlib.compressobj(1, strategy=zlib.Z_RLE)
    large = packer.large
    head = struct.pack("<II", sum(map(len, large)), len(text))
    return b"".join((head, *large, text, deflater.compress(packer.bytes()), deflater.flush()))


class _Packer:
    """Bytes so far, and where everything lies in them. `large` are columns that stay as they are, where that is
    wanted."""

    def __init__(self, *, as_they_are: bool = False) -> None:
        self._as_they_are = as_they_are
        self.large: list[bytes] = []
        self._n_large = 0
        self._pieces: list[bytes] = []
        self._size = 0
        self._places: dict[int, tuple[object, list[Any]]] = {}  # by identity; the object is kept alive
        self._numbers: dict[str, int] = {}

    def plain(self, value: Any) -> Any:
        """Return the value as JSON knows it."""
        if isinstance(value, Mapping):
            return {visible(str(key)): self.plain(part) for key, part in value.items()}
        if isinstance(value, np.ndarray):
            return {"$a": self._once(value, lambda: self._array(value))}
        if isinstance(value, Texts):
            return {"$t": self._once(value, lambda: self._texts(value))}
        if isinstance(value, np.generic):
            return self.plain(value.item())
        if isinstance(value, str):
            return visible(value)
        if isinstance(value, list | tuple):
            return [self.plain(part) for part in value]
        return None if isinstance(value, float) and not isfinite(value) else value

    def _once(self, value: object, place: Any) -> list[Any]:
        if id(value) not in self._places:
            self._places[id(value)] = value, place()
        return self._places[id(value)][1]

    def _texts(self, texts: Texts) -> list[Any]:
        numbers = [self._numbers.setdefault(visible(text), len(self._numbers)) for text in texts.values]
        return self._array(np.array(numbers, np.int64))

    def _array(self, array: Array) -> list[Any]:
        small = _smallest(array)
        kind = small.dtype.str[1:]
        if self._as_they_are and small.nbytes >= LARGE and not _has_runs(small):
            return [kind, self._add_large(small.tobytes()), len(small), 1]
        planes = np.ascontiguousarray(small).view(np.uint8).reshape(-1, small.dtype.itemsize).T
        return [kind, self._add(planes.tobytes()), len(small)]

    def _add(self, piece: bytes) -> int:
        at = self._size
        self._pieces.append(piece)
        self._size += len(piece)
        return at

    def _add_large(self, piece: bytes) -> int:
        at = self._n_large
        self.large.append(piece + bytes(-len(piece) % ALIGNED))
        self._n_large += len(self.large[-1])
        return at

    def strings(self) -> list[int]:
        """Return all texts, as a JSON array among the bytes: where it lies, and how long it is."""
        text = json.dumps(list(self._numbers), ensure_ascii=False, separators=(",", ":")).encode()
        return [self._add(text), len(text)]

    def bytes(self) -> bytes:
        return b"".join(self._pieces)


def _has_runs(column: Array) -> bool:
    """Tell whether deflating a column quickly would leave little of it, by a part from its middle."""
    some = column[len(column) // 2 :][:SAMPLED].view(np.uint8).reshape(-1, column.dtype.itemsize)
    return int(np.count_nonzero(some[1:] != some[:-1])) * 4 < some.size


def _smallest(array: Array) -> Array:
    """Return the array in a type that pages know, one-dimensional and little-endian."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "b":
        return flat.astype("<u1")
    if flat.dtype.kind in "iu":
        low, high = (int(flat.min()), int(flat.max())) if len(flat) else (0, 0)
        for name in INTEGERS:
            limits = np.iinfo(name)
            if limits.min <= low and high <= limits.max:
                return flat.astype(f"<{name}")
        return flat.astype("<f8")
    return flat.astype("<f4" if flat.dtype == np.float32 else "<f8")


# -- panels ------------------------------------------------------------------------------------------------------------


DEFAULT_SIZE = 5_000_000  # bytes of a page
LARGEST = 20  # times as much: memory is bounded, however large a page may get


@dataclass(frozen=True)
class Choice:
    """What of an input is wanted: the metric shown first, and whose values; of runs, how those of a run are combined
    and in which scope."""

    metric: str | None = None
    ranks: Numbers | None = None
    threads: Numbers | None = None
    scaling: str = ""
    scope: Scope = Scope.EXCLUSIVE


@dataclass(frozen=True)
class Limits:
    """How much of anything a page shows one by one. Beyond, it is folded, put into bins or left out, and the page says
    so; totals and shares stay those of everything."""

    contexts: int = 250_000  # of the call tree
    rows: int = 2_000  # of a flat or bottom-up table
    metrics: int = 12  # that are measured
    derived: int = 24  # metrics that are computed from others
    values: int = 40_000_000  # read profile by profile; beyond that, of the first metric only
    functions: int = 10  # whose cost is shown profile by profile
    cells: int = 4_096  # of a heat map
    lanes: int = 64  # rows of a heat map
    section_rows: int = 5_000  # of a section of the summary
    devices: int = 1_024
    models: int = 2_000
    events: int = 150_000  # samples and spans that are kept one by one
    lines: int = 4_096  # of the timeline, one for each profile; where there are more, neighbours are one
    boxes: int = 500_000  # of the timeline
    bins: int = 4_096  # into which its time is divided
    sums: int = 6_000_000  # times by row, level, name and bin that memory holds
    names: int = 1_000  # of which the legend knows the share

    def for_size(self, n_bytes: int) -> Limits:
        """Return the limits of a page of so many bytes: those of larger pages than usual grow with the page."""
        times = min(max(n_bytes / DEFAULT_SIZE, 1.0), LARGEST)
        grown = {one.name: int(getattr(self, one.name) * times) for one in fields(self)}
        fixed = {name: getattr(self, name) for name in ("metrics", "derived", "values", "lanes")}
        return Limits(**{**grown, **fixed})


@dataclass(frozen=True)
class Detail:
    """How much of what there is a panel shows. A page that gets too large is made again with a smaller share."""

    share: float = 1.0

    def of(self, n: int, most: int, least: int = 1) -> int:
        """Return how many of `n` things to show, of which no panel shows more than `most`."""
        return min(n, most, max(least, int(min(n, most) * self.share)))


@dataclass(frozen=True)
class Panel:
    """One view: `kind` says who draws it (static/panels.js), `data` is what `page.encode` takes. Panels of one title
    share a tab, the first of which is Overview. `notes` are sentences to show with it, such as what was left out."""

    kind: str
    title: str
    data: Mapping[str, Any]
    notes: tuple[str, ...] = ()


class PanelMaker(Protocol):
    """Has computed what it shows, and makes panels of it in any detail: cheaply, since it may be asked again."""

    def panels(self, detail: Detail) -> Iterable[Panel]:
        """Yield the panels; none where there is nothing to show."""


@runtime_checkable
class ComparesTotals(Protocol):
    """A maker that compares what its panels show with the totals, whenever it makes them."""

    differences: tuple[str, ...]


@dataclass(frozen=True)
class Unavailable:
    """A maker of a view that a reader looks for, but that this input cannot give: it says why."""

    title: str
    reason: str

    def panels(self, detail: Detail) -> Iterable[Panel]:
        return (Panel("unavailable", self.title, {"reason": self.reason}),)


# -- numbers for processes with equal identifier tuples ----------------------------------------------------------------


def process_numbers(experiment: Experiment) -> tuple[Ints, Ints]:
    """Return for every profile how many before it have its run and its description, 0 almost always; and how many have
    them at all."""
    profiles = experiment.profiles
    order = in_order(profiles.run, profiles.description)
    run, alike = profiles.run[order], profiles.description[order]
    fresh = np.append(True, (run[1:] != run[:-1]) | (alike[1:] != alike[:-1]))[: len(order)]
    first = np.flatnonzero(fresh)
    count = np.diff(np.append(first, len(order)))
    numbers, n_alike = np.empty((2, len(order)), np.int64)
    numbers[order] = np.arange(len(order)) - np.repeat(first, count)
    n_alike[order] = np.repeat(count, count)
    return numbers, n_alike
