"""Tables over ranks, threads, ... for people: what fits beside each other, and a heat strip for all of them.

Data formats get every column. On a terminal the columns that matter most come first, and those that do not fit are left
out, which is said. A strip has a character for each entity, or for neighbours where there are many, from light to dark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from callgrove.cli.messages import note
from callgrove.cli.output import mark_missing, stdout_look
from callgrove.model.table import Column, Table
from callgrove.render.cost_texts import amount_of, format_place, indent_name
from callgrove.render.text_formats import Amounts, Whole
from callgrove.render.text_table import display_width
from callgrove.render.units import heat, percent

if TYPE_CHECKING:
    from callgrove.analysis.costs import Costs
    from callgrove.analysis.spread.entities import Entities
    from callgrove.analysis.spread.imbalance import Imbalance
    from callgrove.cli.options import CostOptions, TableOutput

__all__ = [
    "AMOUNTS",
    "fit_beside",
    "fit_columns",
    "format_imbalance",
    "format_side_by_side",
    "heat_columns",
    "leave_out",
    "say_compared",
]

STRIP = 16  # characters
SHORTEST = 4  # characters of a strip that still shows something
GAP = 2  # cells between columns
NAME = 20  # cells of a name that other columns leave
MOST_BESIDE = 64  # columns of entities where a line may be of any length
FIRST = ("mean", "min", "max", "imbalance", "slowest", "excess", "percent")
MORE = ("median", "std", "load_balance", "percent_imbalance", "n", "sum", "p25", "p75", "cv")
AMOUNTS = {"mean", "min", "max", "excess", "median", "std", "sum", "p25", "p75"}
PERCENTS = {"percent", "percent_imbalance"}


def say_compared(entities: Entities, options: TableOutput, is_default: bool) -> tuple[str, ...]:
    """Return over what costs are compared, where nobody said it or somebody looks at a table."""
    from callgrove.analysis.spread.entities import count

    others = "; --over chooses others" if is_default else ""
    said = f"compared over {count(len(entities), entities.over)}{others}"
    return (said,) if is_default or options.is_printed_table else ()


def format_imbalance(made: Imbalance, costs: Costs, options: CostOptions) -> Table:
    """Return the table as --format wants it."""
    if options.format != "table":
        return made.table
    cells = {column.name: column.plain() for column in made.table.columns}
    columns = [_names(cells), *(_format(name, cells[name], costs, options) for name in FIRST)]
    if made.matrix is not None:
        columns += heat_columns(f"{made.entities.over}s", made.matrix.tolist(), columns, options)
    n_always = len(columns)
    columns += [_format(name, cells[name], costs, options) for name in MORE if name in cells]
    columns.append(_places(cells))
    kept = fit_columns(columns, n_always, options)
    _say_hidden([column.name for column in columns[len(kept) :]])
    return Table(tuple(kept), made.table.left)


def format_side_by_side(table: Table, costs: Costs, over: str, options: CostOptions) -> Table:
    """Return the flat profile with its columns of entities as --format wants it: as many as fit, and all as a strip."""
    from callgrove.analysis.spread.side_by_side import EntityColumn

    if options.format != "table":
        return table
    beside = [column for column in table.columns if isinstance(column, EntityColumn)]
    cells = {column.name: column.plain() for column in table.columns if not isinstance(column, EntityColumn)}
    names = ("exclusive",) if costs.is_ratio else ("exclusive", "percent")
    columns = [_names(cells), *(_format(name, cells[name], costs, options) for name in names)]
    formatted = [_format(column.name, column.plain(), costs, options) for column in beside[:MOST_BESIDE]]
    return fit_beside(columns, formatted, beside, f"{over}s", table.left, options)


def fit_beside(
    columns: Sequence[Column],
    formatted: Sequence[Column],
    beside: Sequence[Column],
    name: str,
    left: int,
    options: TableOutput,
) -> Table:
    """Return a table of columns, a strip of all that stand beside each other, and as many of these as fit; they are
    given as text and as numbers. How many do not fit is said, except in Markdown, which has those that are given."""
    if options.format != "table":
        return Table((*columns, *formatted), left)
    rows = list(zip(*(column.plain() for column in beside), strict=True))
    first = [*columns, *heat_columns(name, rows, columns, options)]
    kept = fit_columns([*first, *formatted[:MOST_BESIDE]], len(first), options)
    if n_left := len(beside) - (len(kept) - len(first)):
        note(f"{n_left:,} of {len(beside):,} {name} do not fit as columns; --format csv or json has all of them")
    return Table(tuple(kept), left)


def leave_out(table: Table, name: str) -> Table:
    """Return the table without a column that its rows have nothing to say in."""
    return replace(table, columns=tuple(column for column in table.columns if column.name != name))


def heat_columns(
    name: str, rows: Sequence[Sequence[float | None]], columns: Sequence[Column], options: TableOutput
) -> list[Column]:
    """Return a strip for each row as a column, as wide as other columns leave room for; nothing where there is but one
    value in a row, or no room."""
    width = _find_width(options)
    room = STRIP if width is None else min(STRIP, width - _measure(columns) - GAP)
    if room < SHORTEST or not rows or len(rows[0]) < 2:
        return []
    unicode = bool(options.output) or stdout_look().unicode
    return [Whole(name, [heat(row, room, unicode=unicode) for row in rows])]


def fit_columns(columns: Sequence[Column], n_always: int, options: TableOutput) -> list[Column]:
    """Return the first columns, and those behind them as long as they fit beside each other on the terminal."""
    width = _find_width(options)
    if width is None:
        return list(columns)
    n = n_always
    while n < len(columns) and _measure(columns[: n + 1]) <= width:
        n += 1
    return list(columns[:n])


def _find_width(options: TableOutput) -> int | None:
    return None if options.output else stdout_look().width


def _measure(columns: Sequence[Column]) -> int:
    """Return how wide columns are beside each other, with a name of the first one that can still be read."""
    widths = [max(map(display_width, [c.name, *("" if x is None else str(x) for x in c.plain())])) for c in columns]
    return min(widths[0], NAME) + sum(widths[1:]) + GAP * (len(widths) - 1)


def _say_hidden(names: Sequence[str]) -> None:
    if names:
        note(f"columns that do not fit: {', '.join(names)}; --format csv or json has all of them")


def _names(cells: dict[str, list[Any]]) -> Column:
    pairs = zip(cells["name"], cells["kind"], strict=True)
    return Column("name", [indent_name(name, kind, 0) for name, kind in pairs])


def _places(cells: dict[str, list[Any]]) -> Column:
    places = zip(cells["file"], cells["line"], cells["module"], strict=True)
    return Column("where", [format_place(*place) for place in places])


def _format(name: str, cells: Sequence[Any], costs: Costs, options: CostOptions) -> Column:
    """Return a column of numbers as people read them; what is missing is a dash."""
    none = mark_missing(True, options)
    write = _choose_writer(name, costs)
    texts = [none if cell is None else write(cell) for cell in cells]
    return Whole(name, texts) if name == "slowest" else Amounts(name, texts)


def _choose_writer(name: str, costs: Costs) -> Callable[[Any], str]:
    if name in PERCENTS:
        return lambda share: percent(share / 100)
    if name in ("slowest", "n"):
        return str
    if name in ("imbalance", "load_balance", "cv"):
        return lambda ratio: f"{ratio:.3f}"
    return amount_of(costs.metric.unit, costs.metric.is_derived)
