"""Pages of the documentation for a terminal: Markdown in, lines of text out.

Only what our own pages use is known: headings, paragraphs, lists, tables, fenced blocks, links, pictures. Everything
else is printed as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

__all__ = ["cut_section", "list_headings", "render_page"]

NARROWEST = 12  # columns that a cell of a table is given at least
GAP = 2  # columns between cells
BOLD, PLAIN = "\033[1m", "\033[0m"
FENCE = "```"
HEADING = re.compile(r"(#+) (.*)")
LIST_ITEM = re.compile(r"(\s*)([-*]|\d+\.) (.*)")
PICTURE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
EMPHASIS = re.compile(r"(`+)(.+?)\1|\*\*(.+?)\*\*")
CELL = re.compile(r"(?<!\\)\|")


# -- parts of a page ---------------------------------------------------------------------------------------------------


def list_headings(text: str) -> list[str]:
    """Return the headings of a page in order, without marks."""
    return [strip_marks(heading[2]) for _, heading in _find_headings(text.splitlines())]


def cut_section(text: str, title: str) -> str:
    """Return the part of a page below the heading of this title, with it, up to the next heading of its level; nothing
    where no heading has it."""
    lines = text.splitlines()
    headings = _find_headings(lines)
    for place, (start, heading) in enumerate(headings):
        if strip_marks(heading[2]).lower() == title.lower():
            rest = headings[place + 1 :]
            end = next((number for number, later in rest if len(later[1]) <= len(heading[1])), len(lines))
            return "\n".join(lines[start:end])
    return ""


def _find_headings(lines: Sequence[str]) -> list[tuple[int, re.Match[str]]]:
    headings = []
    fenced = False
    for number, line in enumerate(lines):
        if line.startswith(FENCE):
            fenced = not fenced
        elif not fenced and (heading := HEADING.fullmatch(line)):
            headings.append((number, heading))
    return headings


# -- text --------------------------------------------------------------------------------------------------------------


def render_page(text: str, width: int, bold: bool = False) -> str:
    """Return a page as text of at most `width` columns, but for blocks of code; headings are bold, or underlined."""
    blocks = ["\n".join(_render_block(block, width, bold)) for block in _split_blocks(text)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def strip_marks(text: str) -> str:
    """Return one line of Markdown without its marks; of links and pictures, their text remains."""
    text = PICTURE.sub(lambda match: f"(picture: {match[1]})", text)
    text = LINK.sub(lambda match: match[1], text)
    return EMPHASIS.sub(lambda match: (match[2] or match[3]).strip(), text).replace("\\|", "|")


def _split_blocks(text: str) -> Iterator[list[str]]:
    """Yield the lines of a page that belong to each other: fenced blocks whole, everything else between empty lines."""
    block: list[str] = []
    fenced = False
    for line in text.splitlines():
        is_fence = line.startswith(FENCE)
        ends = not fenced and (not line.strip() or is_fence or HEADING.fullmatch(line))
        if ends and block:
            yield block
            block = []
        if fenced or line.strip():
            block.append(line)
        if (is_fence and fenced) or (not fenced and HEADING.fullmatch(line)):
            yield block
            block = []
        fenced ^= is_fence
    if block:
        yield block


def _render_block(block: Sequence[str], width: int, bold: bool) -> Iterator[str]:
    if block[0].startswith(FENCE):
        yield from (f"    {line}".rstrip() for line in block[1:] if not line.startswith(FENCE))
    elif heading := HEADING.fullmatch(block[0]):
        yield from _render_heading(strip_marks(heading[2]), len(heading[1]), bold)
    elif block[0].startswith("|"):
        yield from _render_table(block, width)
    else:
        for is_item, lines in groupby(_join_items(block), lambda line: LIST_ITEM.match(line) is not None):
            joined = list(lines)
            yield from _render_items(joined, width) if is_item else _fill(" ".join(joined), width)


def _render_heading(title: str, level: int, bold: bool) -> Iterator[str]:
    if bold:
        yield f"{BOLD}{title}{PLAIN}"
    else:
        yield title
        yield ("=" if level == 1 else "-") * len(title)


def _join_items(block: Sequence[str]) -> list[str]:
    """Return the lines of a paragraph or a list, those that go on with an item joined to it."""
    lines: list[str] = []
    for line in block:
        if lines and LIST_ITEM.match(line) is None:
            lines[-1] = f"{lines[-1]} {line.strip()}"
        else:
            lines.append(line)
    return lines


def _render_items(lines: Sequence[str], width: int) -> Iterator[str]:
    for line in lines:
        item = LIST_ITEM.match(line)
        assert item is not None
        lead = f"{item[1]}{item[2]} "
        filled = _fill(item[3], max(NARROWEST, width - len(lead)))
        yield from (f"{lead if number == 0 else ' ' * len(lead)}{text}" for number, text in enumerate(filled))


def _fill(text: str, width: int) -> list[str]:
    return wrap(strip_marks(text.strip()), width, break_long_words=False, break_on_hyphens=False)


# -- tables ------------------------------------------------------------------------------------------------------------


def _render_table(block: Sequence[str], width: int) -> Iterator[str]:
    rows = [[strip_marks(cell.strip()) for cell in CELL.split(line.strip().strip("|"))] for line in block]
    body = [row for row in rows if not all(set(cell) <= set("-: ") and "-" in cell for cell in row)]
    n_columns = max(len(row) for row in body)
    body = [row + [""] * (n_columns - len(row)) for row in body]
    widths = _share_width([max(len(row[column]) for row in body) for column in range(n_columns)], width)
    for number, row in enumerate(body):
        if any(row) or number > 0:  # a table without a head
            yield from _render_row(row, widths)
        if number == 0 and any(row):
            yield (" " * GAP).join("-" * column for column in widths)


def _render_row(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    cells = [wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(row, widths, strict=True)]
    for number in range(max(map(len, cells))):
        pieces = [cell[number] if number < len(cell) else "" for cell in cells]
        yield (" " * GAP).join(f"{piece:<{width}}" for piece, width in zip(pieces, widths, strict=True)).rstrip()


def _share_width(wanted: Sequence[int], width: int) -> list[int]:
    """Return the widths of columns that fit together: what is narrow stays as it is, the widest ones share the rest."""
    widths = [max(1, one) for one in wanted]
    available = width - GAP * (len(widths) - 1)
    while sum(widths) > available and max(widths) > NARROWEST:
        widest = widths.index(max(widths))
        widths[widest] -= 1
    return widths
