"""Results -> text. Pure functions: tables in, pieces of text out; no I/O.

The modules, in the order to read them:

    text_table.py    aligned columns for a terminal or a file; names from files, made safe to print
    text_formats.py  CSV, JSON, JSON Lines and Markdown, exact; LaTeX, HTML
    units.py         numbers with units: 45.1 ms, 12.3 k, 99.0%; bars and heat strips in text
    cost_texts.py    costs with their units, names under their callers, places
    facts.py         what is in an experiment or a study
    pages.py         pages of the documentation: Markdown for a terminal
    findings.py      explanations: sentences with units, and commands to copy
    notebook.py      what notebooks show: tables with bars, trees that unfold, experiments and studies
    gate_report.py   a gate for people and CI systems: a table, markdown, JUnit
    plots.py         models and measurements as SVG, PNG or PDF: curves
    surface_plots.py models of two parameters: heat maps with contours, surfaces, what dominates where
    extrap_print.py  models as Extra-P prints them: presets and format strings
    trace_picture.py a window of traces, in block characters or as SVG
    svg.py           pictures as SVG: elements, colours, names that fit their place
    flame_svg.py     flame graphs
    spread_plots.py  costs of functions over ranks, threads, GPUs, nodes or runs
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from callgrove.execute import IN_PROCESS, Workers
from callgrove.model.table import Table
from callgrove.render.text_formats import csv_text, html, json_text, jsonl_text, latex, markdown
from callgrove.render.text_table import PLAIN, Look, text_table

__all__ = ["PLAIN", "Look", "TableFormat", "render"]

TableFormat = Literal["table", "csv", "json", "jsonl", "markdown", "latex", "html"]

_OF_DATA = {"csv": csv_text, "json": json_text, "jsonl": jsonl_text}
_TO_BE_READ = {"markdown": markdown, "latex": latex, "html": html}


def render(
    tables: Iterable[Table],
    format: TableFormat,
    look: Look = PLAIN,
    caption: str = "",
    workers: Workers = IN_PROCESS,
) -> Iterator[str]:
    """Yield the chunks of one table as pieces of text; only `table` depends on where it is shown. The caption stands
    above a table that is to be read; data has no place for one, and its rows are written by `workers`."""
    if format == "table":
        return text_table(tables, look, caption)
    return _OF_DATA[format](tables, workers) if format in _OF_DATA else _TO_BE_READ[format](tables, caption)
