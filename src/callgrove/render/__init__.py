"""Results -> text. Pure functions: tables in, pieces of text out; no I/O.

csv_text.py    CSV, exact
json_text.py   JSON and JSON lines, exact
markdown.py    a Markdown table
text_table.py  aligned columns for a terminal or a file
cells.py       from columns to cell texts
visible.py     names from files, made safe to print; widths on a terminal
units.py       numbers with units: 45.1 ms, 12.3 k, 99.0%
amounts.py     costs with their units
shell.py       names as words of a command
facts.py       what is in an experiment, study_facts.py in a study
bars.py        bars in text
plots.py       models and measurements as SVG, on axes.py; pictures.py: the same as PNG or PDF
extrap_report.py  models as Extra-P prints them
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from callgrove.model.table import Table
from callgrove.render.csv_text import csv_text
from callgrove.render.json_text import json_text, jsonl_text
from callgrove.render.markdown import markdown
from callgrove.render.text_table import PLAIN, Look, text_table

__all__ = ["PLAIN", "Look", "TableFormat", "render"]

TableFormat = Literal["table", "csv", "json", "jsonl", "markdown"]

_RENDERERS = {"csv": csv_text, "json": json_text, "jsonl": jsonl_text, "markdown": markdown}


def render(tables: Iterable[Table], format: TableFormat, look: Look = PLAIN) -> Iterator[str]:
    """The chunks of one table as pieces of text; only `table` depends on where it is shown."""
    return text_table(tables, look) if format == "table" else _RENDERERS[format](tables)
