"""A window of traces as a picture: in block characters for a terminal, and as SVG.

    rank 0 thread 0  ████████████████████████
    rank 1 thread 0  ████████████████████████
                     0 s               1.00 s
    █ compute 61.0%  █ communication 20.3%  . idle 12.0%

Where a terminal has no colours, a letter stands for each name and class.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from callgrove.analysis.timeline.dominant import OTHERS, WIDEST_LINE, Category, Grid
from callgrove.analysis.timeline.items import State
from callgrove.arrays import ABSENT
from callgrove.model.table import visible
from callgrove.render.plots import axis_for
from callgrove.render.text_table import Look, display_width, shorten
from callgrove.render.units import duration_ns, percent

__all__ = ["MOST_NAMES", "block_picture", "columns_for", "svg_picture"]

# Colours that all eyes tell apart, as SVG and as numbers of the 256 that terminals have.
PALETTE = (
    *(("#0072b2", 25), ("#e69f00", 214), ("#009e73", 36), ("#cc79a7", 175), ("#d55e00", 166), ("#56b4e9", 75)),
    *(("#8c564b", 95), ("#f0e442", 227), ("#7b5ea7", 97), ("#6b8e23", 64), ("#1b3a5b", 17), ("#e377c2", 212)),
)
BY_CLASS = {"compute": 2, "communication": 4, "synchronisation": 1, "io": 3, "copy": 5}
OTHER_COLOUR = ("#8a8a8a", 245)
QUIET = {State.IDLE: ("#dcdcdc", 252, "."), State.BETWEEN: ("#ececec", 254, "-"), State.NO_TRACE: ("#ffffff", 0, " ")}
CLASS_LETTERS = {"compute": "C", "communication": "M", "synchronisation": "S", "io": "F", "copy": "P"}
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
OTHER_LETTER = "*"
MOST_NAMES = len(PALETTE)
WIDEST_WORD = 40  # cells of a name in the legend
LEAST_COLUMNS = 20


def _colour(grid: Grid, number: int) -> tuple[str, int]:
    """Return the colour of a category: that of its class, or the next of the palette."""
    category = grid.categories[number]
    if category.state != State.BUSY:
        return QUIET[category.state][:2]
    if category.name in BY_CLASS and grid.by == "class":
        return PALETTE[BY_CLASS[category.name]]
    return OTHER_COLOUR if category.name == OTHERS else PALETTE[_place(grid, number) % len(PALETTE)]


def _letter(grid: Grid, number: int) -> str:
    category = grid.categories[number]
    if category.state != State.BUSY:
        return QUIET[category.state][2]
    if category.name in CLASS_LETTERS and grid.by == "class":
        return CLASS_LETTERS[category.name]
    return OTHER_LETTER if category.name == OTHERS else LETTERS[_place(grid, number) % len(LETTERS)]


def _place(grid: Grid, number: int) -> int:
    """Return how many names have more time."""
    return sum(category.state == State.BUSY for category in grid.categories[:number])


def _share(grid: Grid, category: Category) -> str:
    whole = (grid.window[1] - grid.window[0]) * grid.n_tracks
    return percent(category.time_ns / whole) if whole else ""


# -- in a terminal -----------------------------------------------------------------------------------------------------


def columns_for(width: int | None) -> int:
    """Return how many columns of time a terminal of some width has room for."""
    return max((100 if width is None else width) - WIDEST_LINE - 2, LEAST_COLUMNS)


def block_picture(grid: Grid, look: Look) -> Iterator[str]:
    """Yield lines of text: a line for each line of the grid, an axis, and what the characters mean."""
    names = [shorten(visible(name), WIDEST_LINE, look.ellipsis) for name in grid.lines]
    width = max(map(display_width, names), default=0)
    marks = [_mark(grid, number, look) for number in range(len(grid.categories))]
    for name, cells in zip(names, grid.cells.tolist(), strict=True):
        yield f"{name}{' ' * (width - display_width(name))}  {_draw(cells, marks)}".rstrip() + "\n"
    yield " " * (width + 2) + _axis(grid) + "\n"
    yield from _legend(grid, marks, look)


def _mark(grid: Grid, number: int, look: Look) -> tuple[str, str, str]:
    """Return how a cell begins, what it shows, and how it ends."""
    if grid.categories[number].state == State.NO_TRACE:
        return "", " ", ""
    if not look.colour:
        return "", _letter(grid, number), ""
    return f"\x1b[38;5;{_colour(grid, number)[1]}m", "█" if look.unicode else "#", "\x1b[0m"


def _draw(cells: list[int], marks: list[tuple[str, str, str]]) -> str:
    """Return one line; cells of one colour that follow each other change it once."""
    text, first = [], 0
    for at in range(1, len(cells) + 1):
        if at == len(cells) or cells[at] != cells[first]:
            before, char, after = ("", " ", "") if cells[first] == ABSENT else marks[cells[first]]
            text.append(before + char * (at - first) + after)
            first = at
    return "".join(text)


def _axis(grid: Grid) -> str:
    """Return the times of the first and the last column."""
    last = duration_ns(grid.window[1] - grid.window[0])
    return "0 s" + last.rjust(max(grid.cells.shape[1] - 3, len(last) + 1))


def _legend(grid: Grid, marks: list[tuple[str, str, str]], look: Look) -> Iterator[str]:
    """Yield what cells mean, as many to a line as fit."""
    line, used = "", 0
    for category, (before, char, after) in zip(grid.categories, marks, strict=True):
        word = f"{shorten(visible(category.name), WIDEST_WORD, look.ellipsis)} {_share(grid, category)}"
        shown = len(char) + 1 + display_width(word)
        if line and used + 2 + shown > (look.width or 100):
            yield line + "\n"
            line, used = "", 0
        line, used = f"{line}{'  ' if line else ''}{before}{char}{after} {word}", used + shown + (2 if line else 0)
    yield line + "\n"


# -- as SVG ------------------------------------------------------------------------------------------------------------


LEFT, RIGHT, TOP = 190, 1180, 64
ROW, GAP = 18, 4
LEGEND_COLUMNS, LEGEND_ROW = 3, 20
WIDTH = RIGHT + 20


def svg_picture(grid: Grid, title: str) -> str:
    """Return one SVG document. Every box says what it shows when a pointer rests on it."""
    step = ROW + (GAP if len(grid.lines) <= 64 else 0)
    bottom = TOP + step * len(grid.lines)
    n_legend = -(-len(grid.categories) // LEGEND_COLUMNS)
    height = bottom + 44 + LEGEND_ROW * n_legend
    length = grid.window[1] - grid.window[0]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{_text(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="20" y="26" font-size="15" font-weight="bold">{_text(title)}</text>',
        f'<text x="20" y="46" fill="#444">{duration_ns(length)} from {grid.window[0]} ns on</text>',
        *_svg_marks(length, bottom),
    ]
    for number, (name, cells) in enumerate(zip(grid.lines, grid.cells.tolist(), strict=True)):
        top = TOP + step * number
        parts.append(f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{_text(name, WIDEST_LINE)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{top}" width="{RIGHT - LEFT}" height="{ROW}" fill="none" stroke="#eeeeee"/>')
        parts += _svg_boxes(grid, cells, top)
    parts += _svg_legend(grid, bottom + 44)
    return "\n".join([*parts, "</svg>", ""])


def _svg_marks(length: int, bottom: int) -> Iterator[str]:
    axis = axis_for([0.0, float(length)], LEFT, RIGHT)
    for mark in axis.marks():
        if 0 <= mark <= length:
            at = LEFT + (RIGHT - LEFT) * mark / max(length, 1)
            yield f'<path d="M{at:.1f} {TOP - 4}V{bottom}" stroke="#e5e5e5"/>'
            yield f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#444">{duration_ns(mark)}</text>'


def _svg_boxes(grid: Grid, cells: list[int], top: int) -> Iterator[str]:
    """Yield a box for each run of columns that show the same."""
    scale, first = (RIGHT - LEFT) / max(len(cells), 1), 0
    for at in range(1, len(cells) + 1):
        if at == len(cells) or cells[at] != cells[first]:
            category = None if cells[first] == ABSENT else grid.categories[cells[first]]
            if category is not None and category.state != State.NO_TRACE:
                place = f'x="{LEFT + scale * first:.2f}" y="{top}" width="{scale * (at - first):.2f}" height="{ROW}"'
                colour = _colour(grid, cells[first])[0]
                yield f'<rect {place} fill="{colour}"><title>{_text(category.name)}</title></rect>'
            first = at


def _svg_legend(grid: Grid, top: int) -> Iterator[str]:
    width = (WIDTH - 40) // LEGEND_COLUMNS
    for number, category in enumerate(grid.categories):
        x, y = 20 + width * (number % LEGEND_COLUMNS), top + LEGEND_ROW * (number // LEGEND_COLUMNS)
        colour = _colour(grid, number)[0]
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}" stroke="#bbbbbb"/>'
        yield f'<text x="{x + 18}" y="{y}">{_text(category.name, 44)} {escape(_share(grid, category))}</text>'


def _text(text: str, width: int = 90) -> str:
    """Return a name from a file as XML can hold it."""
    return escape(shorten(visible(text), width))
