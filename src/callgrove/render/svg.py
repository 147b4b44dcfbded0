"""Pictures as SVG: elements, colours as the pages have them, names that fit their place; and the picture itself.

Nothing but text is needed to make one. Names come from files: all of them are escaped here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from callgrove.model.table import visible
from callgrove.render.plots import draw_svg, picture_format

__all__ = [
    "INK",
    "LINE",
    "MUTED",
    "OTHER",
    "Picture",
    "add_title",
    "colour_of",
    "draw_rect",
    "draw_text",
    "fit_name",
    "ink_on",
    "mix",
]


INK, MUTED, LINE, OTHER = "#1c2530", "#5b6775", "#dde2e8", "#9aa3ad"  # of the light theme of pages
MORE, LESS = "#d55e00", "#0072b2"  # of differences
CATEGORIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")  # told apart by all eyes
DARK_INK, EVEN = "#16191d", 0.205  # luminance at which dark ink and white have about the same contrast
WIDE_LETTER = 0.62  # of the size of a font: letters of sans-serif fonts are less wide on average
FULL_WIDTH = 1.05  # the same of letters that take a square


@dataclass(frozen=True)
class Picture:
    """An SVG picture: shows itself in a notebook, `str` gives its text, `save` writes it.

    `notes` are what a reader should know of it.

        picture = experiment.flame()
        picture.save("flame.svg")
    """

    svg: str
    width: int
    height: int
    title: str = ""
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        """Return one line, whatever the size of the picture."""
        return f"<Picture {self.title!r}, {self.width} x {self.height}>"

    def _repr_svg_(self) -> str:
        """Return what a notebook shows."""
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the picture to a file, which is replaced if it is there: as SVG, or as PNG or PDF by the ending of its
        name, which needs the extra `plots`."""
        data = draw_svg(self.svg, picture_format(str(path)))
        Path(path).write_bytes(data)

    @classmethod
    def of(cls, width: int, height: int, title: str, parts: list[str], notes: tuple[str, ...] = ()) -> Picture:
        """Return a picture of elements on white ground."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="{INK}">'
        )
        ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        svg = "\n".join([head, f"<title>{escape_text(title)}</title>", ground, *parts, "</svg>", ""])
        return cls(svg, width, height, title, notes)


# -- elements ----------------------------------------------------------------------------------------------------------


def escape_text(text: str) -> str:
    """Return a text without anything that XML cannot hold."""
    return escape("\n".join(visible(line) for line in text.split("\n")))


def draw_text(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    """Return one line of text; `more` are attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor={quoteattr(anchor)} {more}>{escape_text(text)}</text>'


def draw_rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    """Return a box. Widths have digits enough for them to add up."""
    return f'<rect x="{x:.3f}" y="{y:.1f}" width="{width:.3f}" height="{height:.1f}" fill="{fill}"/>'


def add_title(title: str, *elements: str) -> str:
    """Return elements with a text that is shown where the mouse is."""
    return f"<g><title>{escape_text(title)}</title>{''.join(elements)}</g>"


def fit_name(name: str, width: float, size: float) -> str:
    """Return as much of a name as fits into a width, of unknown fonts; empty where that is nothing."""
    text = visible(name)
    room = width / (size * (WIDE_LETTER if text.isascii() else FULL_WIDTH))
    if len(text) <= room:
        return text
    return text[: int(room) - 1].rstrip() + "…" if room >= 3 else ""


# -- colours -----------------------------------------------------------------------------------------------------------


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mix(colour: str, other: str, share: float) -> str:
    """Return a colour mixed with a share of another one."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def colour_of(name: str) -> str:
    """Return a gentle colour for a name, always the same one, and the same as pages have."""
    number = _hash(name)
    return mix(CATEGORIES[number % len(CATEGORIES)], "#ffffff", 0.25 + ((number >> 8) % 5) * 0.08)


def _hash(text: str) -> int:
    """Return the same number for the same text, spread evenly: of the 16-bit units of a text, as browsers have it."""
    units = text.encode("utf-16-le", "surrogatepass")
    number = 2166136261
    for low, high in zip(units[::2], units[1::2], strict=True):
        number = ((number ^ (low | high << 8)) * 16777619) & 0xFFFFFFFF
    return number ^ (number >> 15)


def ink_on(colour: str) -> str:
    """Return black or white, whichever has the higher contrast to a colour (relative luminance of WCAG 2)."""
    red, green, blue = (v / 3294.6 if v <= 10 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in _channels(colour))
    return DARK_INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > EVEN else "#ffffff"
