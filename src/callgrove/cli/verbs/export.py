"""`callgrove export`: one table in full."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callgrove.cli.messages import note
from callgrove.cli.options import (
    InputOptions,
    SelectionOptions,
    TableOutput,
    add_remap,
    add_selection,
    add_study_input,
    add_table_output,
    workers_for,
)
from callgrove.cli.output import (
    emit,
    emit_of_study,
    filter_chunks,
    replacing,
    say_selected_cost,
    state_run_values,
)
from callgrove.cli.parser import Command
from callgrove.errors import MissingExtra, UsageError
from callgrove.model.table import UNCOUNTED, Column, Table, first_rows

if TYPE_CHECKING:
    from callgrove.execute import Workers
    from callgrove.model.experiment import Experiment
    from callgrove.model.study.series import Study

__all__ = ["emit_parquet"]


# -- the verb ----------------------------------------------------------------------------------------------------------


TABLES = ("profiles", "metrics", "contexts", "values", "samples", "spans", "counters", "parameters", "series")
WITHOUT_PROFILE = ("profiles", "spans", "counters")  # of GPU runs: nothing has to be folded for these
WORK = ("callgrove.formats.gpu.formats", "callgrove.render.text_formats")  # what workers run
SCOPES = ("stored", "exclusive", "inclusive", "point", "function", "lexical")


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, SelectionOptions, TableOutput):
    table: str
    scope: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser, many=True)
    add_selection(parser, metric="only values of this metric (default: all metrics)")
    add_remap(parser)
    parser.usage = f"{parser.prog} [options] PATH... --table TABLE"
    parser.add_argument("--table", choices=TABLES, default="", help="which table (required)")
    parser.add_argument("--scope", choices=SCOPES, default="stored", help="the scope of values (default: stored)")
    add_table_output(
        parser, formats=("csv", "jsonl", "json", "table", "markdown", "latex", "html", "parquet"), where=True
    )


def run(options: Options) -> int:
    if not options.table:
        raise UsageError(f"name a table: --table {', '.join(TABLES[:-1])} or {TABLES[-1]}")
    if options.format == "parquet" and not options.output:
        raise UsageError("a Parquet file cannot be printed: name it with -o FILE")
    if options.table != "values" and (options.metric or options.scope != "stored"):
        raise UsageError(f"-m and --scope choose values; the table {options.table} has no such choice")
    with workers_for(options, options.inputs, WORK) as workers:
        return _export(options, workers)


def _export(options: Options, workers: Workers) -> int:
    from callgrove.analysis.tables import Selection, export, n_rows
    from callgrove.cli.messages import note
    from callgrove.cli.opening import as_study, open_any, say_damage_met
    from callgrove.model.experiment import Experiment
    from callgrove.model.profiles import choose_profiles

    fold = options.table not in WITHOUT_PROFILE
    opened = open_any(options, series=options.table == "series", fold=fold, workers=workers)
    if options.table == "series":
        opened = as_study(opened, options)
    if not isinstance(opened, Experiment):
        of_study: list[int] = []
        announced = n_rows(opened, options.table, Selection())
        _write_tables(_count_rows(export(opened, options.table), of_study), options, announced, workers, opened)
        return _say_differences(options, [*opened.unexplained, *_explain_difference(options, announced, sum(of_study))])
    if options.contexts:
        say_selected_cost(opened, options.metric)
    quantity = opened.metrics.resolve(options.metric) if options.metric else None
    told: list[str] = []
    unexplained: list[str] = []
    profiles = choose_profiles(opened, options.rank, options.thread)
    chosen = Selection(profiles, quantity, options.scope, told.append, unexplained.append)
    tables = export(opened, options.table, chosen)
    if options.table in ("values", "samples"):  # an empty table because of damage is an error: it has to be known early
        first = next(tables)
        tables = chain([first], tables)
        if not len(first):
            say_damage_met(opened, options, printed=False)
    sizes: list[int] = []
    announced = n_rows(opened, options.table, chosen)
    _write_tables(_count_rows(tables, sizes), options, announced, workers)
    if not any(sizes):
        note(f"{options.input_name}: has no {options.table}")
    for text in told:
        note(text)
    ended = say_damage_met(opened, options)
    if not _is_damaged(opened):
        unexplained += _explain_difference(options, announced, sum(sizes))
    return _say_differences(options, unexplained) or ended


def _write_tables(
    tables: Iterable[Table], options: Options, n_rows: int | None, workers: Workers, study: Study | None = None
) -> None:
    """Print the table, whose rows workers write, or write it as a Parquet file; one of a study states what a value of a
    run is."""
    if options.where:
        tables, n_rows = filter_chunks(tables, options), None
    if options.format == "parquet" and options.output:
        stated = tables if study is None else state_run_values(tables, study)
        emit_parquet(stated, options.table, options.output, options.limit, n_rows)
    elif study is not None:
        emit_of_study(tables, study, options, n_rows, workers)
    else:
        emit(tables, options, n_rows, workers=workers)


def _explain_difference(options: Options, announced: int | None, printed: int) -> list[str]:
    """Return what to say where a table was printed with another number of rows than it has; with a limit, nothing."""
    if options.limit is not None or announced in (None, printed):
        return []
    return [f"{options.table}: there are {announced:,}, and {printed:,} were printed"]


def _say_differences(options: Options, unexplained: list[str]) -> int:
    """Say what nothing explains; with --strict, that is an error."""
    from callgrove.cli.messages import say_unexplained
    from callgrove.errors import IncompleteResult

    say_unexplained(unexplained)
    if unexplained and options.strict:
        raise IncompleteResult(
            f"{options.input_name}: was printed, but what was printed does not add up to what is stored"
        )
    return 0


def _is_damaged(experiment: Experiment) -> bool:
    """Tell whether something that was left out is already known to be damaged."""
    samples = experiment.traces.samples
    return bool(experiment.damage or (samples is not None and samples.problems))


def _count_rows(tables: Iterable[Table], sizes: list[int]) -> Iterator[Table]:
    """Yield the tables as they are, and append the number of rows of each to `sizes`."""
    for table in tables:
        sizes.append(len(table))
        yield table


EXPORT = Command(Options, add_arguments, run)


# -- tables to a Parquet file, chunk by chunk --------------------------------------------------------------------------
# All chunks need the same types, and some columns are empty in the first one: types go by the names of columns.


INTEGERS = (
    *("profile", "context", "metric", "run", "parent", "source_id", "line", "call_line", "visible", "repetitions"),
    *("time_ns", "start_ns", "end_ns", "depth", "correlation"),
)
UNSIGNED = ("offset", "node", "rank", "thread", "gpu_device", "gpu_context", "gpu_stream", "core")
TEXTS = (
    *("kind", "name", "unit", "scope", "dtype", "aggregate", "statistic", "description", "formula", "derived"),
    *("identifiers", "host", "file", "module", "path", "relation", "category", "callpath", "fields"),
    "run_value",
)


def emit_parquet(
    tables: Iterable[Table], name: str, target: str, limit: int | None = None, n_rows: int | None = None
) -> None:
    """Write the table of a name to a file; `n_rows` is how many rows there are in all, where that is known."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra("arrow", "writing Parquet") from error
    cut, schema, file = 0, None, None
    stream = tables if limit is None else first_rows(tables, limit, n_rows)
    with replacing(Path(target)) as path, pyarrow.OSFile(bytes(path), "wb") as sink:
        try:
            for table in stream:
                schema = schema or _make_schema(table, name)
                file = file or parquet.ParquetWriter(sink, schema, compression="zstd")
                file.write_table(_convert_table(table, schema))
                cut = table.left or cut
        finally:
            if file is not None:
                file.close()
    if cut:
        note(f"{'' if cut == UNCOUNTED else f'{cut} '}more rows were left out by --limit")


def _make_schema(table: Table, name: str) -> Any:
    import pyarrow

    known = {"series": {"metric": pyarrow.string()}}.get(name, {})
    return pyarrow.schema([(column.name, known.get(column.name) or _choose_type(column)) for column in table.columns])


def _choose_type(column: Column) -> Any:
    import pyarrow

    if column.name in TEXTS:
        return pyarrow.string()
    if column.name in INTEGERS:
        return pyarrow.int64()
    return pyarrow.uint64() if column.name in UNSIGNED else pyarrow.float64()


def _convert_table(table: Table, schema: Any) -> Any:
    import pyarrow

    columns = [_convert_column(column, schema.field(column.name).type) for column in table.columns]
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _convert_column(column: Column, type_: Any) -> Any:
    import pyarrow

    cells = column.plain()
    if pyarrow.types.is_string(type_):
        cells = [cell if cell is None else cell.encode("utf-8", "backslashreplace").decode() for cell in cells]
    elif pyarrow.types.is_integer(type_):
        low, high = (-(2**63), 2**63) if pyarrow.types.is_signed_integer(type_) else (0, 2**64)
        cells = [cell if cell is None or low <= cell < high else None for cell in cells]
    else:
        cells = [cell if cell is None else float(cell) for cell in cells]
    return pyarrow.array(cells, type_)
