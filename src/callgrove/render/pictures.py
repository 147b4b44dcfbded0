"""SVG as the kind of picture that a name asks for: SVG itself, or PNG and PDF through the extra `plots`. No I/O."""

from __future__ import annotations

from pathlib import Path

from callgrove.errors import CallgroveError, MissingExtra, UsageError

__all__ = ["draw_svg", "picture_format"]

FORMATS = ("svg", "png", "pdf")
SCALE = 2  # pixels of a PNG for each of the SVG's: sharp on today's screens


def picture_format(name: str) -> str:
    """Return the kind of picture that a file name asks for by its ending; without one it is SVG."""
    ending = Path(name).suffix.lower().removeprefix(".")
    if not ending:
        return FORMATS[0]
    if ending not in FORMATS:
        raise UsageError(f"{name}: plots are written as svg, png or pdf; name it like plot.svg")
    return ending


def draw_svg(svg: str, kind: str) -> bytes:
    """Return an SVG document as the bytes of an SVG, PNG or PDF file."""
    if kind == "svg":
        return svg.encode()
    try:
        import cairosvg
    except ImportError as error:
        raise MissingExtra("plots", f"a plot as {kind.upper()} (SVG needs none: name it like plot.svg)") from error
    except OSError as error:  # the package is there, and the library of the system that it calls is not
        text = f"a plot as {kind.upper()} needs the library cairo: {error}; name it like plot.svg"
        raise CallgroveError(text) from error
    content: bytes
    if kind == "png":
        content = cairosvg.svg2png(bytestring=svg.encode(), scale=SCALE)
    else:
        content = cairosvg.svg2pdf(bytestring=svg.encode())
    return content
