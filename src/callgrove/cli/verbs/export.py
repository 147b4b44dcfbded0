"""`callgrove export`: one table in full."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from callgrove.cli.options import add_selection, add_study_input, add_table_output
from callgrove.cli.output import emit

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment
    from callgrove.model.table import Table

TABLES = ("profiles", "metrics", "contexts", "values", "samples", "spans", "counters", "parameters", "series")
WITHOUT_PROFILE = ("profiles", "spans", "counters")  # of GPU runs: nothing has to be folded for these
SCOPES = ("stored", "exclusive", "inclusive", "point", "function", "lexical")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser, many=True)
    add_selection(parser, metric="only values of this metric (default: of all)")
    parser.usage = f"{parser.prog} [options] PATH... --table TABLE"
    parser.add_argument("--table", choices=TABLES, help="which table; needed")
    parser.add_argument("--scope", choices=SCOPES, default="stored", help="of values (default: stored)")
    add_table_output(parser, formats=("csv", "jsonl", "json", "table", "markdown", "parquet"))


def run(args: argparse.Namespace) -> int:
    from callgrove.analysis.tables import Selection, export, n_rows
    from callgrove.cli.messages import note
    from callgrove.cli.opening import as_study, name_of_input, open_any, said_everything
    from callgrove.cli.parquet_output import emit_parquet
    from callgrove.errors import UsageError
    from callgrove.model.experiment import Experiment
    from callgrove.model.profiles import choose_profiles

    if args.table is None:
        raise UsageError(f"which table? --table {', '.join(TABLES[:-1])} or {TABLES[-1]}")
    if args.format == "parquet" and not args.output:
        raise UsageError("a Parquet file cannot be printed: name it with -o FILE")
    if args.table != "values" and (args.metric or args.scope != "stored"):
        raise UsageError(f"-m and --scope choose values; the table {args.table} has no such choice")
    args.fold = args.table not in WITHOUT_PROFILE
    opened = open_any(args, series=args.table == "series")
    if args.table == "series":
        opened = as_study(opened, args)
    give = emit if args.format != "parquet" else emit_parquet
    if not isinstance(opened, Experiment):
        of_study: list[int] = []
        announced = n_rows(opened, args.table, Selection())
        give(_count_rows(export(opened, args.table), of_study), args, announced)
        return _end(args, [*opened.unexplained, *_missing(args, announced, sum(of_study))])
    quantity = opened.metrics.resolve(args.metric) if args.metric else None
    told: list[str] = []
    unexplained: list[str] = []
    profiles = choose_profiles(opened, args.rank, args.thread)
    chosen = Selection(profiles, quantity, args.scope, told.append, unexplained.append)
    tables = export(opened, args.table, chosen)
    if args.table in ("values", "samples"):  # an empty table because of damage is an error: it has to be known early
        first = next(tables)
        tables = chain([first], tables)
        if not len(first):
            said_everything(opened, args, printed=False)
    sizes: list[int] = []
    announced = n_rows(opened, args.table, chosen)
    give(_count_rows(tables, sizes), args, announced)
    if not any(sizes):
        note(f"{name_of_input(args)}: has no {args.table}")
    for text in told:
        note(text)
    ended = said_everything(opened, args)
    if not _is_damaged(opened):
        unexplained += _missing(args, announced, sum(sizes))
    return _end(args, unexplained) or ended


def _missing(args: argparse.Namespace, announced: int | None, printed: int) -> list[str]:
    """What to say where a table should have had another number of rows; a limit ends it sooner."""
    if args.limit is not None or announced in (None, printed):
        return []
    return [f"{args.table}: there are {announced:,}, and {printed:,} were printed"]


def _end(args: argparse.Namespace, unexplained: list[str]) -> int:
    """Say what nothing explains; with --strict, that is an error."""
    from callgrove.cli.messages import say_unexplained
    from callgrove.cli.opening import name_of_input
    from callgrove.errors import IncompleteResult

    say_unexplained(unexplained)
    if unexplained and args.strict:
        raise IncompleteResult(
            f"{name_of_input(args)}: was printed, but what was printed does not add up to what is stored"
        )
    return 0


def _is_damaged(experiment: Experiment) -> bool:
    """Tell whether something that was left out is already known to be damaged."""
    samples = experiment.traces.samples
    return bool(experiment.damage or (samples is not None and samples.problems))


def _count_rows(tables: Iterable[Table], sizes: list[int]) -> Iterator[Table]:
    """The tables as they are; `sizes` gets the rows of each."""
    for table in tables:
        sizes.append(len(table))
        yield table
