"""Trees that are far deeper or stranger than any program: made of a sound database by appending to its tree."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.formats.hpctoolkit.databases import FOOTER, File

CONTEXT = struct.Struct("<QQIBBBBH6xQ")  # a function context with its one flex word; B.2
CALL, FUNCTION, HAS_FUNCTION = 1, 0, 1
FIRST_ID = 10_000


def context(id_: int, function: int, children: int = 0, n_children: int = 0) -> bytes:
    """A function context; `children` is where an array of such contexts lies."""
    size = n_children * CONTEXT.size
    return CONTEXT.pack(size, children, id_, HAS_FUNCTION, CALL, FUNCTION, 1, 0, function)


def replace_tree(path: Path, contexts: list[bytes], n_top: int = 1) -> int:
    """Put contexts behind the file's own tree and let the first entry point lead to them. They know their own places:
    the first one lies where `where_contexts_go` says."""
    file = File.of(path)
    at = where_contexts_go(path)
    footer = bytes(file.data[-FOOTER:])
    file.data[-FOOTER:] = bytes(at - (len(file.data) - FOOTER))
    file.data.extend(b"".join(contexts))
    file.data.extend(footer)
    file.set(file.one("pChildren", "EntryPoint", 0), at)
    file.set(file.one("szChildren", "EntryPoint", 0), n_top * CONTEXT.size)
    path.unlink()
    file.save()
    return at


def where_contexts_go(path: Path) -> int:
    size = path.stat().st_size - FOOTER
    return size + -size % 8


def first_function(path: Path) -> int:
    found = File.of(path).one("pArray", "Functions").value
    assert isinstance(found, int)
    return found


def deepen_meta(path: Path, depth: int, last_id: int) -> None:
    """A chain of `depth` functions, each called by the one before; the last one has the id `last_id`."""
    at, function = where_contexts_go(path), first_function(path)
    ids = [*range(FIRST_ID, FIRST_ID + depth - 1), last_id]
    chain = [
        context(id_, function, at + (k + 1) * CONTEXT.size, 1) if k + 1 < depth else context(id_, function)
        for k, id_ in enumerate(ids)
    ]
    replace_tree(path, chain)


def deepen_xml(path: Path, depth: int, last_id: int) -> None:
    """The same in XML: functions and call sites by turns, `depth` elements deep."""
    text = path.read_text("utf-8")
    begin, end = text.index("<SecCallPathProfileData>"), text.index("</SecCallPathProfileData>")
    opening, closing = [], []
    for k in range(0, depth, 2):
        id_ = FIRST_ID + k
        opening.append(
            f'<PF i="{id_}" s="5" n="5" v="0x1330" f="0" l="8" lm="2"><C i="{id_ + 1}" f="0" l="8" v="0x{k:x}">'
        )
        closing.append("</C></PF>")
    leaf = f'<PF i="{last_id}" s="28" n="28" v="0x1260" f="0" l="6" lm="2"></PF>'
    tree = "<SecCallPathProfileData>" + "\n".join(opening) + leaf + "\n".join(closing)
    path.unlink()
    path.write_text(text[:begin] + tree + text[end:], "utf-8")
