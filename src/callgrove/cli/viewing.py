"""How tables of costs look in a terminal: trees are indented, numbers have units, shares have bars.

Data formats (csv, json, markdown) get the table as it is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from callgrove.analysis.costs import Costs, costs
from callgrove.cli.messages import note
from callgrove.cli.opening import say_added_up
from callgrove.cli.options import CostOptions
from callgrove.cli.output import stdout_look
from callgrove.errors import InputError, UsageError
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.profiles import choose_profiles
from callgrove.model.table import Column, Table
from callgrove.render.text_formats import Amounts, Signed, Whole, align_right
from callgrove.render.units import amount, bar, percent, printf, signed_bar
from callgrove.render.visible import INDENT

if TYPE_CHECKING:
    from callgrove.analysis.columns import CostColumn, ShownColumns

__all__ = ["all_columns", "costs_of", "format_table", "headline"]

PLACES = ("line", "loop", "instruction", "call", "file", "module")  # kinds that are named after a path
WIDE_ENOUGH = 100  # columns of a terminal; on narrower ones names need the room that bars would take
LOOP_AT = "loop at "
DEEPEST_INDENT = 40  # levels; deeper rows say their depth instead


def costs_of(experiment: Experiment, options: CostOptions) -> Costs:
    """The costs to show; those of several runs are added up, which is said. Where nobody chose anything and nothing has
    a cost, a missing part may be why."""
    say_added_up(experiment)
    try:
        return costs(experiment, options.metric, options.rank, options.thread)
    except UsageError as error:
        missing = [w.text for w in experiment.warnings if w.severity == Severity.MISSING]
        if options.metric or options.rank or options.thread or not missing:
            raise
        raise InputError(f"{missing[0]}; ", error.message.removeprefix(f"{experiment.path}: ")) from error


def headline(costs: Costs, options: CostOptions) -> None:
    """Which metric and whose cost, on stderr: stdout is data."""
    if options.is_printed_table:
        choices = (("run", options.run), ("rank", options.rank), ("thread", options.thread))
        chosen = "".join(f", {word} {wanted}" for word, wanted in choices if wanted)
        write, (gain, loss) = amount(costs.metric.unit), costs.gain_and_loss
        changes = f": {write(gain)} more and {write(-loss)} less" if costs.is_signed else ""
        note(f"{costs.metric.name}: {write(costs.total)} in all{chosen}{changes}")


def all_columns(experiment: Experiment, options: CostOptions) -> ShownColumns | None:
    """The columns that --all-metrics asks for."""
    if not options.all_metrics:
        return None
    from callgrove.analysis.columns import columns_to_show

    found = columns_to_show(experiment, choose_profiles(experiment, options.rank, options.thread))
    for names, why in (
        (found.left_out, "{} columns have a formula that cannot be computed"),
        (found.derived, "not computed: {} metrics have a formula that is not evaluated"),
    ):
        if names:
            some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            note(f"{why.format(len(names))}: {some}")
    return found


def format_table(table: Table, costs: Costs, options: CostOptions) -> Table:
    """The table as --format wants it."""
    if options.format != "table":
        return table
    if options.all_metrics:
        return _with_all_metrics(table)
    cells = {column.name: column.plain() for column in table.columns}
    write = amount(costs.metric.unit)
    look = stdout_look()
    narrow = look.width is not None and look.width < WIDE_ENOUGH and not options.output
    kind, draw = (Signed, signed_bar) if costs.is_signed else (Whole, bar)
    depths = cells.get("depth", [0] * len(table))
    columns = [
        Column("name", [_indent_name(*row) for row in zip(cells["name"], cells["kind"], depths, strict=True)]),
        kind("exclusive", align_right(["" if v is None else write(v) for v in cells["exclusive"]])),
        kind("inclusive", align_right(["" if v is None else write(v) for v in cells["inclusive"]])),
        kind("percent", align_right(["" if p is None else percent(p / 100) for p in cells["percent"]])),
    ]
    if not narrow:
        columns.append(kind("share", [draw((p or 0.0) / 100, unicode=look.unicode) for p in cells["percent"]]))
    if not (narrow and "source" in cells):
        places = zip(cells["file"], cells["line"], cells["module"], strict=True)
        columns.append(Column("where", [_where(*place) for place in places]))
    if any(cells.get("source", ())):
        columns.append(Column("source", cells["source"]))
    return Table(tuple(columns), table.left)


def _with_all_metrics(table: Table) -> Table:
    """Names and every column that has anything to say about these rows; zeros are blank, as what is not stored."""
    from callgrove.analysis.columns import CostColumn

    cells = {column.name: column.plain() for column in table.columns}
    depths = cells.get("depth", [0] * len(table))
    columns = [Column("name", [_indent_name(*row) for row in zip(cells["name"], cells["kind"], depths, strict=True)])]
    costs = [column for column in table.columns if isinstance(column, CostColumn)]
    used = [column for column in costs if any(column.plain())]
    columns += [Amounts(column.name, _texts(column)) for column in used]
    if len(used) < len(costs):
        note(f"{len(costs) - len(used)} columns without any value in these rows were left out")
    places = zip(cells["file"], cells["line"], cells["module"], strict=True)
    columns.append(Column("where", [_where(*place) for place in places]))
    return Table(tuple(columns), table.left)


def _texts(column: CostColumn) -> list[str]:
    """The cells of a column in its own format, with their share of the total where the profiler shows one."""
    write = printf(column.number_format) or amount(column.unit)
    cells = [write(value) if value else "" for value in column.plain()]
    if not column.total:
        return cells
    shares = [percent(value / column.total) if value else "" for value in column.plain()]
    width = max(map(len, shares), default=0)
    return [f"{cell}  {share.rjust(width)}" if cell else "" for cell, share in zip(cells, shares, strict=True)]


def _indent_name(name: str, kind: str, depth: int) -> str:
    """The name under its callers; a place is shown without the folders it lies in."""
    short = name
    if kind in PLACES:
        what = LOOP_AT if name.startswith(LOOP_AT) else ""
        short = what + name.removeprefix(what).rpartition("/")[2]
    if depth > DEEPEST_INDENT:
        return f"{' ' * INDENT * DEEPEST_INDENT}({depth}) {short}"
    return " " * INDENT * depth + short


def _where(file: str | None, line: int | None, module: str | None) -> str:
    if file:
        return f"{os.path.basename(file)}:{line}" if line else os.path.basename(file)  # noqa: PTH119 - a foreign path
    return f"[{os.path.basename(module)}]" if module else ""  # noqa: PTH119
