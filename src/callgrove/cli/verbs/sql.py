"""`callgrove sql`: SQL over the tables of any number of inputs."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove.cli.options import (
    InputOptions,
    TableOutput,
    add_derive,
    add_input,
    add_remap,
    add_run,
    add_table_output,
    add_window,
)
from callgrove.cli.output import emit
from callgrove.cli.parser import Command
from callgrove.cli.selecting import add_window_mode, choose_window
from callgrove.errors import InputError, UsageError

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment
    from callgrove.model.study.series import Study
    from callgrove.model.table import Table
    from callgrove.model.traces.windows import TimeWindow

ENGINES = ("duckdb", "sqlite")
LARGEST_QUERY = 1 << 20  # bytes
# Tables of GPU runs that exist only when events were folded into contexts, which takes a while.
FOLDED = frozenset({"contexts", "metrics", "samples", "series", "values"})


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, TableOutput):
    file: str
    window: TimeWindow | None
    start_marker: str
    end_marker: str
    window_mode: str
    tables: bool
    engine: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    parser.usage = 'callgrove sql PATH... "SELECT ..." [options]'
    add_run(parser)
    traces = parser.add_argument_group("traces: ask about a window of time")
    add_window(traces, "only this part of traces")
    add_window_mode(traces)
    add_remap(parser)
    add_derive(parser)
    group = parser.add_argument_group("query")
    group.add_argument("-f", "--file", metavar="FILE", default="", help="read the query from this file (or: @FILE)")
    group.add_argument("--tables", action="store_true", help="list tables and their columns instead of running a query")
    group.add_argument(
        "--engine", choices=ENGINES, default="", help="default: duckdb where it is installed, else sqlite"
    )
    add_table_output(parser)


def run(options: Options) -> int:
    from callgrove.cli.messages import note, progress
    from callgrove.cli.opening import say_damage_met
    from callgrove.model.experiment import Experiment
    from callgrove.query.sql import sql, table_list

    paths, query = (options.paths, "") if options.tables else _split_query(options)
    options = replace(options, paths=paths)
    words = re.findall(r"[a-z]+", query.lower())  # `stored_values` counts as `values`
    inputs = _open_inputs(options, fold=not FOLDED.isdisjoint(words))
    if options.tables:
        listed = table_list(inputs)
        emit(_format_for_people(listed) if options.is_for_people else listed, options)
        return 0
    with progress() as report:
        answer = sql(inputs, query, options.engine, report)
    with answer:
        for text in answer.left_out:
            note(text)
        _say_what_is_empty(inputs, answer.loaded, options)
        emit(answer, options)
    return max([0, *(say_damage_met(one, options) for one in inputs if isinstance(one, Experiment))])


# -- the query --------------------------------------------------------------------------------------------------------


def _split_query(options: Options) -> tuple[Sequence[str], str]:
    """Return the paths, and the query: the text of --file or the last of the arguments."""
    if options.file:
        return options.paths, _read_query(options.file)
    *paths, text = options.paths
    if not paths or os.path.lexists(text):
        example = "callgrove sql run.db 'SELECT name, count(*) FROM spans GROUP BY name'"
        raise UsageError(f"after PATH comes a query, like {example}; --tables lists what can be asked")
    return paths, _read_query(text[1:]) if text.startswith("@") else text


def _read_query(path: str) -> str:
    with Path(path).open("rb") as file:
        content = file.read(LARGEST_QUERY + 1)
    if len(content) > LARGEST_QUERY:
        raise UsageError(f"{path}: is not a query: it has more than {LARGEST_QUERY} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not a query: byte {error.start} is not UTF-8") from None


# -- the inputs -------------------------------------------------------------------------------------------------------


def _open_inputs(options: Options, fold: bool) -> list[Experiment | Study]:
    """Open databases of one family together, as one experiment, and everything else one by one."""
    from callgrove.cli.opening import group_paths, open_any

    groups = group_paths(options.paths, options.from_format)
    inputs = [open_any(replace(options, paths=group), fold=fold) for group in groups]
    return [_cut_window(one, options) for one in inputs]


def _cut_window(opened: Experiment | Study, options: Options) -> Experiment | Study:
    """Return the part of an input in the window that was asked for."""
    from callgrove.model.experiment import Experiment

    if not (options.window or options.start_marker or options.end_marker):
        return opened
    if not isinstance(opened, Experiment):
        raise UsageError(f"{options.input_name}: holds series over parameters, which have no window of time")
    return opened.select(window=choose_window(opened, options), window_mode=options.window_mode)


# -- what is said -----------------------------------------------------------------------------------------------------


def _format_for_people(listed: Table) -> Table:
    """Return the list of tables with one row per table."""
    from callgrove.model.table import Table

    descriptions: dict[str, tuple[str, str, list[str]]] = {}
    for name, kind, column, _, meaning in listed.rows():
        descriptions.setdefault(name, (kind, meaning, []))[2].append(column)
    rows = [(name, kind, meaning, ", ".join(columns)) for name, (kind, meaning, columns) in descriptions.items()]
    return Table.from_rows(("table", "kind", "meaning", "columns"), rows)


def _say_what_is_empty(inputs: Sequence[Experiment | Study], loaded: dict[str, int], options: Options) -> None:
    """Say which tables have no rows. If there are no others, and the input is damaged, raise instead of printing: a 0
    would be taken for the truth."""
    from callgrove.cli.messages import note
    from callgrove.cli.opening import say_new_damage
    from callgrove.model.experiment import Experiment, Severity
    from callgrove.model.traces.events import FindsLater

    damaged = False
    for one in inputs:
        damaged |= any(warning.severity == Severity.DAMAGE for warning in one.warnings)
        if isinstance(one, Experiment):
            backend, samples = one.traces.spans_backend, one.traces.samples
            met: list[str] = []
            if isinstance(backend, FindsLater):
                met = [warning.text for warning in backend.warnings if warning.severity == Severity.DAMAGE]
            say_new_damage(one, met)
            damaged |= bool(met or one.values.problems or (samples is not None and samples.problems))
    empty = [name for name, n in loaded.items() if not n]
    if not empty:
        return
    nothing = f"{options.input_name}: has nothing for {' and '.join(empty)}"
    if damaged and len(empty) == len(loaded):
        raise InputError(f"{nothing}, which may have been in what is damaged; `callgrove check` lists it")
    note(nothing)


SQL = Command(Options, add_arguments, run)
