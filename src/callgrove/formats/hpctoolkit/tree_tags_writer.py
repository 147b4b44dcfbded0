"""The call tree of experiment.xml as text, some thousand tags at a time.

Attributes are those of genuine files: `i` the context, `it` the same for traces, `n` the procedure, `s` a number for
the place in the program, `f` and `l` file and line, `lm` the load module, `v` the offset in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.formats.hpctoolkit.prerelease_plan import Shape, TagTree
from callgrove.formats.hpctoolkit.program_tables import UNKNOWN_FILE_ID, ProgramTables
from callgrove.formats.hpctoolkit.tags import Tag, Tags
from callgrove.model.arrays import ABSENT, NO_OFFSET, Array, Ints, Offsets
from callgrove.model.contexts import Relation

__all__ = ["tree_text"]

AT_A_TIME = 1 << 14  # tags
TEXT = {
    Tag.PF: '<PF i="{i}" s="{s}" n="{n}" v="{v}" f="{f}" l="{l}" lm="{lm}"',
    Tag.Pr: '<Pr i="{i}" s="{s}" n="{n}" v="{v}" f="{f}" l="{l}" lm="{lm}"',
    Tag.C: '<C i="{i}" s="{s}" f="{f}" l="{l}" v="{v}" it="{it}"',
    Tag.S: '<S i="{i}" it="{it}" f="{f}" l="{l}" s="{s}" v="{v}"',
    Tag.L: '<L i="{i}" s="{s}" v="{v}" f="{f}" l="{l}"',
}


@dataclass(frozen=True)
class Attributes:
    """The attributes of some tags."""

    i: Ints
    n: Ints
    s: Ints
    f: Ints
    l: Ints  # noqa: E741 - the file's own name
    lm: Ints
    v: Offsets


def tree_text(tree: TagTree, tables: ProgramTables) -> Iterator[str]:
    """All tags, one per line."""
    tags, places = Tags.of(tree), _Places(tree)
    open_tags: list[str] = []
    names = [tag.name for tag in Tag]
    texts = [TEXT[tag] for tag in Tag]
    for first in range(0, len(tags), AT_A_TIME):
        part = slice(first, first + AT_A_TIME)
        found = _attributes(tree, tables, places, tags, part)
        columns = (tags.tag[part], tags.depth[part], tags.has_children[part], *vars(found).values())
        lines: list[str] = []
        for tag, depth, has_children, i, n, s, f, line, lm, v in zip(*(c.tolist() for c in columns), strict=True):
            while len(open_tags) > depth:
                lines.append(f"</{open_tags.pop()}>\n")
            offset = f"{v:#x}" if v else "0"
            text = texts[tag].format(i=i, it=abs(i), n=n, s=s, f=f, l=line, lm=lm, v=offset)
            lines.append(text + (">\n" if has_children else "/>\n"))
            if has_children:
                open_tags.append(names[tag])
        yield "".join(lines)
    yield "".join(f"</{name}>\n" for name in reversed(open_tags))


class _Places:
    """File and line of each row's own tag, and of the tag around it, which says where something was inlined."""

    def __init__(self, tree: TagTree) -> None:
        contexts, n_added = tree.contexts, len(tree) - len(tree.contexts)

        def padded(column: Array, more: int) -> Ints:
            return np.append(column.astype(np.int64), np.full(more, ABSENT))

        beside, shape = tree.line, tree.shape
        file, line = (padded(contexts.column(name), n_added + 1) for name in ("file", "line"))  # -1 picks the last
        bare = (shape == Shape.SITE) & (file[:-1] < 0)
        self.file = np.where(shape == Shape.POINT, ABSENT, np.where(bare, file[beside], file[:-1]))
        self.line = np.where(bare, line[beside], line[:-1])
        called_from = padded(contexts.call_file, n_added)
        inlined = (tree.relation == Relation.INLINED) & (shape == Shape.FRAME)
        self.call_file = np.where(inlined, np.where(called_from >= 0, called_from, file[beside]), ABSENT)
        self.call_line = np.where(called_from >= 0, padded(contexts.call_line, n_added), line[beside])


def _attributes(tree: TagTree, tables: ProgramTables, places: _Places, tags: Tags, part: slice) -> Attributes:
    row, tag, completes = tags.row[part], tags.tag[part], tags.completes[part]
    is_frame = (tag == Tag.PF) | (tag == Tag.Pr)
    file = np.where(completes, places.call_file[row], places.file[row])
    line = np.where(completes, places.call_line[row], places.line[row])
    offset = tables.offsets[row]
    # Lines have none. The tag that completes an instruction names its offset.
    has_none = (tree.shape[row] == Shape.LINE) | (completes & ~tree.artificial[row]) | (offset == NO_OFFSET)
    return Attributes(
        np.where(completes, -tree.id[row], tree.id[row]),
        tables.procedures[row],
        np.where(is_frame | completes, tables.procedures[row], tables.scopes[row]),
        np.where(file >= 0, file, np.where(is_frame, tables.unknown_files[row], UNKNOWN_FILE_ID)),
        np.where(file >= 0, np.maximum(line, 0), 0),
        tables.modules[row],
        np.where(has_none, np.uint64(0), offset),
    )
