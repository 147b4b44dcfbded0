"""Results -> text. Pure functions: tables in, pieces of text out; no I/O.

The modules, in the order to read them:

    text_table.py    aligned columns for a terminal or a file; names from files, made safe to print
    text_formats.py  CSV, JSON, JSON Lines and Markdown, exact; LaTeX, HTML
    units.py         numbers with units: 45.1 ms, 12.3 k, 99.0%; bars and heat strips in text
    cost_texts.py    costs with their units, names under their callers, places
    facts.py         what is in an experiment or a study
    notebook.py      what notebooks show: tables with bars, trees that unfold, experiments and studies
    gate_report.py   a gate for people and CI systems: a table, markdown, JUnit
    plots.py         models and measurements as SVG, PNG or PDF, and as Extra-P prints them
    trace_picture.py a window of traces, in block characters or as SVG
    svg.py           pictures as SVG: elements, colours, names that fit their place
    flame_svg.py     flame graphs
    spread_plots.py  costs of functions over ranks, threads, GPUs, nodes or runs
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from callgrove.model.table import Table
from callgrove.render.text_formats import csv_text, html, json_text, jsonl_text, latex, markdown
from callgrove.render.text_table import PLAIN, Look, text_table

__all__ = ["PLAIN", "Look", "TableFormat", "render"]

TableFormat = Literal["table", "csv", "json", "jsonl", "markdown", "latex", "html"]

_RENDERERS = {
    "csv": csv_text,
    "json": json_text,
    "jsonl": jsonl_text,
    "markdown": markdown,
    "latex": latex,
    "html": html,
}


def render(tables: Iterable[Table], format: TableFormat, look: Look = PLAIN) -> Iterator[str]:
    """Yield the chunks of one table as pieces of text; only `table` depends on where it is shown."""
    return text_table(tables, look) if format == "table" else _RENDERERS[format](tables)
