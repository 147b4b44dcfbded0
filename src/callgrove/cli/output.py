"""Tables to stdout or to a file, and how tables of costs look in a terminal."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from callgrove.analysis.costs import Costs, costs
from callgrove.cli.messages import note
from callgrove.cli.opening import say_added_up
from callgrove.cli.options import CostOptions, InputOptions
from callgrove.errors import InputError, UsageError, count_of
from callgrove.execute import IN_PROCESS, Workers
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.table import UNCOUNTED, Column, Table, first_rows, visible
from callgrove.render import PLAIN, Look, render
from callgrove.render.cost_texts import amount_of, format_place, indent_name, write_unit
from callgrove.render.text_formats import Amounts, Graded, Signed, Whole, align_right, csv_text, reading_float
from callgrove.render.units import amount, bar, draw_signed_bar, percent, printf

if TYPE_CHECKING:
    from callgrove.analysis.columns import CostColumn, ShownColumns
    from callgrove.arrays import Bools
    from callgrove.cli.options import TableOutput
    from callgrove.model.metrics import Scope
    from callgrove.model.study.series import Study
    from callgrove.patterns.tables import ShownMetric
    from callgrove.render import TableFormat

__all__ = [
    "caption_of",
    "choose_columns",
    "choose_rows",
    "costs_of",
    "cut_table",
    "emit",
    "emit_drawn",
    "emit_each",
    "emit_of_study",
    "emit_text",
    "filter_chunks",
    "filter_rows",
    "for_terminal",
    "format_metric_tree",
    "format_place",
    "format_table",
    "grade_trust",
    "indent_name",
    "mark_missing",
    "replacing",
    "say_headline",
    "say_selected",
    "say_selected_cost",
    "state_run_values",
    "stdout_look",
]


# -- output ------------------------------------------------------------------------------------------------------------


def emit(
    tables: Table | Iterable[Table],
    options: TableOutput,
    n_rows: int | None = None,
    *,
    caption: str = "",
    workers: Workers = IN_PROCESS,
) -> None:
    """Print one table, given whole or in chunks, as --format, --output and --limit say. `n_rows` is how many rows there
    are in all, where that is known without reading them; `caption` stands above a table for people; `workers` write
    rows of CSV and JSON."""
    stream = [tables] if isinstance(tables, Table) else tables
    if options.limit is not None:
        stream = first_rows(stream, options.limit, n_rows)
    cut: list[int] = []
    look = PLAIN if options.output else stdout_look()
    emit_drawn(_render(_count_cut(stream, cut), options, look, caption, workers), options.output)
    if cut and not options.is_for_people:  # data has no place to say so
        note(f"{'' if UNCOUNTED in cut else f'{sum(cut):,} '}more rows were left out by --limit")


def emit_of_study(
    tables: Table | Iterable[Table],
    study: Study,
    options: TableOutput,
    n_rows: int | None = None,
    workers: Workers = IN_PROCESS,
) -> None:
    """Print a table made of a study. Where this was made of runs, the table states what a value of a run is: above it
    for people, in a column of data."""
    if options.is_for_people:
        emit(tables, options, n_rows, caption=caption_of(study, options))
    else:
        stated = state_run_values([tables] if isinstance(tables, Table) else tables, study)
        emit(stated, options, n_rows, workers=workers)


def caption_of(study: Study, options: TableOutput) -> str:
    """Return what a value of a run is, as a sentence; empty of studies that were not made of runs."""
    from callgrove.model.study.from_runs import describe_values

    if not (described := describe_values(study)):
        return ""
    is_choosable = options.format == "table" and isinstance(options, InputOptions) and not options.scaling
    return f"A value of a run is {described}{'; --value chooses another' if is_choosable else ''}."


def state_run_values(tables: Iterable[Table], study: Study) -> Iterator[Table]:
    """Yield the tables with a last column `run_value`: the word for what a value of a run is, where there were runs."""
    from callgrove.model.study.from_runs import name_values

    word = name_values(study)
    for table in tables:
        stated = (Column("run_value", [word] * len(table)),) if word else ()
        yield replace(table, columns=(*table.columns, *stated))


def emit_each(tables: Iterable[Table], options: TableOutput, caption: str = "") -> None:
    """Print tables that have different columns one after the other, for people, below a caption."""
    look = PLAIN if options.output else stdout_look()
    captions = chain([caption], repeat(""))
    pieces = (_render([table], options, look, said) for table, said in zip(tables, captions, strict=False))
    emit_drawn(_separate(pieces), options.output)


def _render(
    tables: Iterable[Table], options: TableOutput, look: Look, caption: str = "", workers: Workers = IN_PROCESS
) -> Iterator[str]:
    """Return a table as text. Verbs that write other files have further formats, which do not come here."""
    if options.format == "table":
        return render(tables, "table", look, caption)
    pieces = (
        csv_text(tables, workers, for_spreadsheets=True)
        if options.safe_csv
        else render(tables, cast("TableFormat", options.format), look, caption, workers)
    )
    return iter(pieces) if options.output else for_terminal(pieces)


def for_terminal(pieces: Iterable[str]) -> Iterator[str]:
    """Return data as stdout may show it: where that is a terminal, escape sequences in names are made visible."""
    return _make_harmless(pieces) if sys.stdout.isatty() else iter(pieces)


def _make_harmless(pieces: Iterable[str]) -> Iterator[str]:
    """Yield lines in which escape sequences are visible."""
    for piece in pieces:
        yield "\n".join(map(visible, piece.split("\n")))


def _separate(texts: Iterable[Iterable[str]]) -> Iterator[str]:
    for number, pieces in enumerate(texts):
        if number:
            yield "\n"
        yield from pieces


def emit_text(pieces: Iterable[str], output: str | None) -> None:
    """Print text, or write it to a file. Names in it do nothing to a terminal; files and pipes get them as they are."""
    emit_drawn(pieces if output else for_terminal(pieces), output)


def emit_drawn(pieces: Iterable[str], output: str | None) -> None:
    """Print what was drawn for a terminal, with colours and with visible names, or write it to a file."""
    if output:
        _write_file(pieces, output)
    else:
        sys.stdout.writelines(pieces)


def _count_cut(tables: Iterable[Table], cut: list[int]) -> Iterator[Table]:
    for table in tables:
        if table.left:
            cut.append(table.left)
        yield table


def stdout_look() -> Look:
    """Return what stdout can show: NO_COLOR and dumb terminals stay without colours, a pipe also without a width."""
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    if not sys.stdout.isatty():
        return Look(unicode=unicode)
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Look(shutil.get_terminal_size().columns, colour, unicode)


def _write_file(pieces: Iterable[str], target: str) -> None:
    with (
        replacing(Path(target)) as path,
        path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        file.writelines(pieces)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a path beside `target` to write to, and rename it into place at the end; on an error the old file stays.

    What is not a regular file (/dev/null, a pipe) is written directly. A link keeps pointing where it did.
    """
    from callgrove.formats.writing.targets import make_hidden_place, recover

    final = Path(os.path.realpath(target))
    if final.exists() and not final.is_file():
        yield from _write_directly(final, target)
        return
    recover(final.parent, final.name)
    beside = make_hidden_place(final.parent, final.name)
    try:
        yield beside
        _settle(beside, final)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if is_full or error.filename in (None, str(beside)):  # inputs that cannot be read are named
            error.filename = str(target)
        raise
    finally:
        with suppress(OSError):  # it is in place, or goes when the same is written again
            beside.unlink(missing_ok=True)


def _write_directly(final: Path, target: Path) -> Iterator[Path]:
    try:
        yield final
    except OSError as error:
        if error.filename in (None, str(final)):
            error.filename = str(target)
        raise


def _settle(beside: Path, final: Path) -> None:
    with beside.open("rb") as file:
        os.fsync(file.fileno())  # a crash after the rename must not leave an empty file
    if final.exists():
        shutil.copymode(final, beside)
    beside.replace(final)


# -- tables of costs ---------------------------------------------------------------------------------------------------
# Data formats (csv, json, markdown) get the table as it is.


WIDE_ENOUGH = 100  # columns of a terminal; on narrower ones names need the room that bars would take
SCOPES = ("exclusive", "inclusive")  # columns


def costs_of(experiment: Experiment, options: CostOptions, added_up: bool = True) -> Costs:
    """Return the costs to show; where those of several runs are added up, that is said. Where nobody chose anything and
    nothing has a cost, the error names the missing part that may be why."""
    if added_up:
        say_added_up(experiment)
    try:
        return costs(experiment, options.metric, options.rank, options.thread)
    except UsageError as error:
        missing = [w.text for w in experiment.warnings if w.severity == Severity.MISSING]
        if options.metric or options.rank or options.thread or not missing:
            raise
        raise InputError(f"{missing[0]}; ", error.message.removeprefix(f"{experiment.path}: ")) from error


def say_headline(costs: Costs, options: CostOptions, notes: Iterable[str] = ()) -> None:
    """Say on stderr which metric is shown, its total and what a reader should know of the rows: stdout is data."""
    say_selected(costs)
    if options.is_printed_table:
        choices = (("run", options.run), ("rank", options.rank), ("thread", options.thread))
        chosen = "".join(f", {word} {wanted}" for word, wanted in choices if wanted)
        write, (gain, loss) = amount_of(costs.metric.unit, costs.metric.is_derived), costs.gain_and_loss
        is_known = costs.is_signed and not costs.has_missing
        changes = f": {write(gain)} more and {write(-loss)} less" if is_known else ""
        total = costs.say_no_total() or f"{write(costs.total)} in all"
        note(f"{costs.metric.name}: {total}{chosen}{changes}")
    for text in notes:
        note(text)


def say_selected(costs: Costs, name: str = "") -> None:
    """Say how much of the cost is left where contexts were selected; `name` is that of one of several inputs."""
    if costs.experiment.whole is None or costs.is_ratio or not costs.is_additive:
        return
    write = amount_of(costs.metric.unit, costs.metric.is_derived)
    share = f" ({percent(costs.total / costs.whole)})" if costs.whole else ""
    said = f"selected {write(costs.total)} of {write(costs.whole)}{share}"
    note(f"{name}: {said}" if name else said)


def say_selected_cost(experiment: Experiment, metric: str | None = None, name: str = "") -> None:
    """Say how much is left of a metric, or of the default one, where contexts were selected; for verbs that show no
    costs themselves."""
    if experiment.whole is not None and experiment.metrics.quantities:
        say_selected(costs(experiment, metric), name)


def cut_table(table: Table, costs: Costs, options: CostOptions, scope: Scope) -> Table:
    """Return the rows that --where and --limit leave of a view made without a limit; a metric stands for its column in
    the scope that percentages of the view are of."""
    if not options.where:
        return table
    from callgrove.analysis.columns import CostColumn
    from callgrove.analysis.spread.side_by_side import EntityColumn
    from callgrove.model.metrics import Scope
    from callgrove.patterns.tables import ShownMetric, limit_tree

    whole = None if costs.is_ratio else costs.whole
    amounts = [column.name for column in table.columns if column.name in SCOPES or isinstance(column, EntityColumn)]
    shown = {name: ShownMetric(name, costs.metric.unit, whole) for name in amounts}
    ending = " (E)" if scope == Scope.EXCLUSIVE else " (I)"  # of columns that --all-metrics has in two scopes
    for column in table.columns:
        if isinstance(column, CostColumn):
            shown[column.name] = ShownMetric(column.name, column.unit, column.total)
            shown.setdefault(column.name.removesuffix(ending), shown[column.name])
    shown[costs.metric.name] = ShownMetric(scope.value, costs.metric.unit, whole)
    kept = filter_rows(table, options, shown)
    if options.limit is None or "depth" not in table.names or len(kept) <= options.limit:
        return kept.head(options.limit)
    sizes = costs.rank(np.asarray(kept.column(scope.value).values))
    return limit_tree(kept, sizes, options.limit)


def amounts_of(columns: Iterable[str], unit: str) -> dict[str, ShownMetric]:
    """Return columns that hold amounts of a unit as conditions see them: `excess > 2ms`."""
    from callgrove.patterns.tables import ShownMetric

    return {name: ShownMetric(name, unit) for name in columns}


TRUST_MARKS = {"good": "good", "fair": "fair !", "poor": "poor !!"}


def grade_trust(name: str, words: Iterable[str | None]) -> Column:
    """Return, for people, a column of good, fair and poor, with marks for what is doubtful; empty where nothing is
    judged."""
    return Graded(name, ["" if word is None else TRUST_MARKS[word] for word in words])


def filter_rows(table: Table, options: TableOutput, metrics: Mapping[str, ShownMetric] | None = None) -> Table:
    """Return the rows that fulfil --where, and say how many do not."""
    from callgrove.patterns.tables import take_rows

    return take_rows(table, choose_rows(table, options, metrics)) if options.where else table


def choose_rows(table: Table, options: TableOutput, metrics: Mapping[str, ShownMetric] | None = None) -> Bools:
    """Return which rows fulfil --where, and say how many do not."""
    chosen = _fulfil_where(table, options, metrics)
    _say_not_fulfilled(len(table) - int(chosen.sum()), len(table))
    return chosen


def filter_chunks(tables: Iterable[Table], options: TableOutput) -> Iterator[Table]:
    """Yield the rows of a table that comes in chunks which fulfil --where, and say at the end how many do not."""
    from callgrove.patterns.tables import take_rows

    n_rows = n_kept = 0
    for table in tables:
        kept = take_rows(table, _fulfil_where(table, options))
        n_rows, n_kept = n_rows + len(table), n_kept + len(kept)
        yield kept
    _say_not_fulfilled(n_rows - n_kept, n_rows)


def _fulfil_where(table: Table, options: TableOutput, metrics: Mapping[str, ShownMetric] | None = None) -> Bools:
    from callgrove.patterns.tables import choose_rows

    try:
        return choose_rows(table, options.where, metrics)
    except UsageError as error:
        raise UsageError("--where: ", error) from None


def _say_not_fulfilled(n_left: int, n_rows: int) -> None:
    if n_left:
        note(f"{n_left:,} of {n_rows:,} rows do not fulfil --where")


def choose_columns(costs: Costs, options: CostOptions, scope: Scope) -> ShownColumns | None:
    """Return the columns that --all-metrics and --derive ask for, and say which are left out; None without these
    options. Metrics of --derive are shown in the scope that a view is about, but for the one that it shows."""
    if not options.derive and not options.all_metrics:
        return None
    from callgrove.analysis.columns import Quantity, ShownColumns, columns_to_show
    from callgrove.model.definitions import find_defined_name

    names = [name for name in map(find_defined_name, options.derive) if name != costs.metric.name]
    if not names and not options.all_metrics:
        return None
    if not options.all_metrics:
        return ShownColumns(costs.experiment, costs.profiles, cells=costs.cells).with_metrics(names, scope)
    shown = columns_to_show(costs.experiment, costs.profiles)
    names = [name for name in names if Quantity(name, scope) not in shown.quantities]
    for left_out, why in (
        (shown.left_out, "{} columns have a formula that cannot be computed"),
        (shown.unavailable, "not computed: {} metrics have a formula that is not evaluated"),
    ):
        if left_out:
            some = ", ".join(left_out[:3]) + (", ..." if len(left_out) > 3 else "")
            note(f"{why.format(len(left_out))}: {some}")
    return shown.with_metrics(names, scope)


def format_table(table: Table, costs: Costs, options: CostOptions) -> Table:
    """Return the table as --format wants it."""
    if options.format != "table":
        return table
    if options.all_metrics:
        return _format_all_metrics(table, options)
    cells = {column.name: column.plain() for column in table.columns}
    write, none = amount_of(costs.metric.unit, costs.metric.is_derived), mark_missing(costs.metric.is_derived, options)
    look = stdout_look()
    narrow = look.width is not None and look.width < WIDE_ENOUGH and not options.output
    kind, draw = (Signed, draw_signed_bar) if costs.is_signed else (Whole, bar)
    depths = cells.get("depth", [0] * len(table))
    columns = [
        Column("name", [indent_name(*row) for row in zip(cells["name"], cells["kind"], depths, strict=True)]),
        kind("exclusive", align_right([none if v is None else write(v) for v in cells["exclusive"]])),
        kind("inclusive", align_right([none if v is None else write(v) for v in cells["inclusive"]])),
    ]
    if not costs.is_ratio:
        shares = ["" if p is None else percent(p / 100) for p in cells["percent"]]
        columns.append(kind("percent", align_right(shares)))
    if not costs.is_ratio and not narrow:
        columns.append(kind("share", [draw((p or 0.0) / 100, unicode=look.unicode) for p in cells["percent"]]))
    if options.derive:
        columns += _format_derived(table, options)
    if not (narrow and "source" in cells):
        places = zip(cells["file"], cells["line"], cells["module"], strict=True)
        columns.append(Column("where", [format_place(*place) for place in places]))
    if any(cells.get("source", ())):
        columns.append(Column("source", cells["source"]))
    return Table(tuple(columns), table.left)


def _format_derived(table: Table, options: CostOptions) -> list[Column]:
    """Return the metrics of --derive, whose units are in the heading unless the cells have them."""
    from callgrove.analysis.columns import CostColumn

    shown = [column for column in table.columns if isinstance(column, CostColumn)]
    return [Amounts(_head(column), _format_cells(column, options)) for column in shown]


def _head(column: CostColumn) -> str:
    """Return the name of a column, with its unit unless the cells have it."""
    return f"{column.name} [{column.unit}]" if column.is_derived and not write_unit(column.unit) else column.name


def mark_missing(is_derived: bool, options: TableOutput) -> str:
    """Return what stands for a value that a formula does not have."""
    if not is_derived:
        return ""
    return "–" if options.output or stdout_look().unicode else "-"  # noqa: RUF001 - a dash


def _format_all_metrics(table: Table, options: CostOptions) -> Table:
    """Return names and every column that has a value in these rows; zeros are blank, like values that are not stored,
    but for those of formulas."""
    from callgrove.analysis.columns import CostColumn

    cells = {column.name: column.plain() for column in table.columns}
    depths = cells.get("depth", [0] * len(table))
    columns = [Column("name", [indent_name(*row) for row in zip(cells["name"], cells["kind"], depths, strict=True)])]
    costs = [column for column in table.columns if isinstance(column, CostColumn)]
    used = [column for column in costs if any(column.plain())]
    columns += [Amounts(_head(column), _format_cells(column, options)) for column in used]
    if len(used) < len(costs):
        left_out = count_of(len(costs) - len(used), "column")
        note(f"{left_out} without any value in these rows left out")
    places = zip(cells["file"], cells["line"], cells["module"], strict=True)
    columns.append(Column("where", [format_place(*place) for place in places]))
    return Table(tuple(columns), table.left)


def format_metric_tree(table: Table, options: CostOptions) -> Table:
    """Return the tree of metrics for people: names indented, values with the unit of each row; no value is a dash."""
    cells = {column.name: column.plain() for column in table.columns}
    derived = (not kind.startswith(("measured", "computed")) for kind in cells["kind"])
    writers = [amount_of(unit, is_derived) for unit, is_derived in zip(cells["unit"], derived, strict=True)]
    unicode, none = stdout_look().unicode, mark_missing(True, options)
    columns = [Column("name", [indent_name(n, "", d) for n, d in zip(cells["name"], cells["depth"], strict=True)])]
    for name in ("value", "without_children"):
        values = zip(writers, cells[name], strict=True)
        columns.append(Whole(name, align_right([none if v is None else write(v) for write, v in values])))
    columns += [
        Whole("percent", align_right(["" if p is None else percent(p / 100) for p in cells["percent"]])),
        Whole("share", [bar((p or 0.0) / 100, unicode=unicode) for p in cells["percent"]]),
        Column("kind", cells["kind"]),
    ]
    return Table(tuple(columns), table.left)


def _format_cells(column: CostColumn, options: CostOptions) -> list[str]:
    """Return the cells of a column in its own format, with their share of the total where the profiler shows one."""
    if column.is_derived:
        write, none = write_unit(column.unit) or reading_float, mark_missing(True, options)
        cells = [none if value is None else write(value) for value in column.plain()]
    else:
        write = printf(column.number_format) or amount(column.unit)
        cells = [write(value) if value else "" for value in column.plain()]
    if not column.total:
        return cells
    shares = [percent(value / column.total) if value else "" for value in column.plain()]
    width = max(map(len, shares), default=0)
    return [f"{cell}  {share.rjust(width)}" if cell else "" for cell, share in zip(cells, shares, strict=True)]
