"""What notebooks show of experiments, studies, tables and models: small, static, and without a script.

    a table         its first rows; behind shares and differences there are bars
    a call tree     elements that unfold (`<details>`), the costliest rows and all above them
    an experiment   counts and names. Nothing is read from its file for it: one of a terabyte is shown at once

Every text is escaped and cut, and styles are made of numbers and words that stand here, so that no name of an input
becomes anything but text. However large a table is, its page is bounded: `MOST_ROWS`, `MOST_NODES`, `LONGEST_TEXT`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from callgrove.model.table import MOST_COLUMNS, MOST_ROWS, Table, visible

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment, InputWarning
    from callgrove.model.study.series import Study

__all__ = ["experiment_html", "study_html", "table_html"]

MOST_NAMES = 8
WARNINGS_IN_NOTEBOOKS = 5
LONGEST_TEXT = 120  # characters of a cell
LONGEST_NOTE = 1000  # of a sentence
ROOM = 18  # of them for how many more there are
LEFT = 'style="text-align:left"'


def table_html(table: Table) -> str:
    """Return what a notebook shows of a table: a tree that unfolds, or the first rows, and how many more there are."""
    return _tree(table) if table.names[:2] == TREE_COLUMNS and len(table) else _rows(table)


# -- tables ------------------------------------------------------------------------------------------------------------


BARS = {"percent": 100.0, "share": 1.0}  # columns with a bar behind their numbers, and what fills it
SIGNED_BARS = ("difference", "change")  # which the largest of them fills; those below 0 have another colour
MORE, LESS = "#4a90d966", "#e0703a66"  # what is more than 0, what is less; seen through, on light and on dark pages


def _rows(table: Table) -> str:
    shown = table.head(MOST_ROWS)
    names = table.names[:MOST_COLUMNS]
    rows = [row[:MOST_COLUMNS] for row in shown.rows()]
    texts = [any(isinstance(row[k], str) for row in rows) for k in range(len(names))]
    full = [_full_bar(name, [row[k] for row in rows]) for k, name in enumerate(names)]
    headings = "".join(
        f"<th {LEFT}>{_text(name)}</th>" if t else f"<th>{_text(name)}</th>"
        for name, t in zip(names, texts, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(_table_cell(*one) for one in zip(row, texts, full, strict=True)) + "</tr>" for row in rows
    )
    more = []
    if shown.left:
        more.append(f"{shown.left:,} more rows" if shown.left > 0 else "more rows")
    if len(table.names) > len(names):
        more.append(f"{len(table.names) - len(names):,} more columns")
    said = f"<caption {LEFT}>{_text(table.title)}</caption>" if table.title else ""
    head = f"<thead><tr>{headings}</tr></thead>"
    return f"<div><table>{said}{head}<tbody>{body}</tbody></table>{_rest(table, more)}</div>"


def _table_cell(cell: Any, is_text: bool, full: float) -> str:
    style = LEFT if is_text else f'style="{bar}"' if (bar := _bar(cell, full)) else ""
    return f"<td {style}>{_cell(cell)}</td>"


def _rest(table: Table, more: Sequence[str]) -> str:
    """Return what is said below a table: how much more there is, and its notes."""
    left = f"<p>… and {' and '.join(more)}</p>" if more else ""
    return left + "".join(f"<p>{_text(note, LONGEST_NOTE)}</p>" for note in table.notes)


def _full_bar(name: str, cells: Iterable[Any]) -> float:
    """Return the number that fills the bar of a column; 0 where it has none."""
    sizes = [abs(float(cell)) for cell in cells if _is_number(cell)]
    if name in SIGNED_BARS:
        return max(sizes, default=0.0)
    return max([BARS[name], *sizes]) if name in BARS else 0.0


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool) and isfinite(cell)


def _bar(cell: Any, full: float) -> str:
    """Return the style of a bar behind a number."""
    if not full or not _is_number(cell) or not cell:
        return ""
    part = f"{100 * min(1.0, abs(cell) / full):.1f}%"
    return f"background:linear-gradient(90deg,{MORE if cell > 0 else LESS} {part},transparent {part})"


# -- call trees --------------------------------------------------------------------------------------------------------
# Rows are in preorder. Numbers stand at the right edge, which all levels share; names are indented by their level.


TREE_COLUMNS = ("context", "depth")
DESCRIBING = ("context", "depth", "name", "kind", "file", "line", "module", "source")
MOST_NODES = 300
MOST_NUMBERS = 6  # columns
DEEPEST = 40  # levels that are nested in each other: browsers have a limit
OPEN_FROM = 20.0  # percent, from which on a row is unfolded at first
WIDTH = "float:right;width:8em;text-align:right"


@dataclass
class _Node:
    """A row of a tree, with the rows below it."""

    row: dict[str, Any]
    below: list[_Node] = field(default_factory=list)


def _tree(table: Table) -> str:
    """Return a tree that unfolds: the costliest rows, and all above them."""
    rows = list(table)
    parents = _parents([row["depth"] for row in rows])
    kept = _costliest(rows, parents)
    columns = [name for name in table.names if name not in DESCRIBING][:MOST_NUMBERS]
    full = {name: _full_bar(name, (rows[number][name] for number in kept)) for name in columns}
    nodes = {number: _Node(rows[number]) for number in kept}
    roots: list[_Node] = []
    for number, node in nodes.items():
        (nodes[parents[number]].below if parents[number] >= 0 else roots).append(node)
    heading = "".join(f'<span style="{WIDTH}">{_text(name)}</span>' for name in columns[::-1])
    left = len(rows) - len(kept) + max(table.left, 0)
    more = [f"{left:,} more rows"] if left else ["more rows"] if table.left < 0 else []
    body = "".join(_nodes_html(roots, columns, full))
    said = f"<p><b>{_text(table.title)}</b></p>" if table.title else ""
    return f"<div>{said}<div>{heading}<b>name</b></div>{body}{_rest(table, more)}</div>"


def _parents(depths: Sequence[int]) -> list[int]:
    """Return the row above each row of a tree in preorder; -1 for roots."""
    path: list[int] = []
    parents = []
    for number, depth in enumerate(depths):
        del path[depth:]
        parents.append(path[-1] if path else -1)
        path.append(number)
    return parents


def _costliest(rows: Sequence[dict[str, Any]], parents: Sequence[int]) -> list[int]:
    """Return at most MOST_NODES rows in their order, each with all above it."""
    weights = list(map(_weight, rows))
    kept: set[int] = set()
    for number in sorted(range(len(rows)), key=lambda k: (-weights[k], k)):
        chain = []
        while number >= 0 and number not in kept:
            chain.append(number)
            number = parents[number]
        if len(kept) + len(chain) > MOST_NODES:
            kept.update(chain[::-1][: MOST_NODES - len(kept)])
            break
        kept.update(chain)
    return sorted(kept)


def _weight(row: dict[str, Any]) -> float:
    """Return how much of the whole a row has, whichever way it goes."""
    percent: Any = row.get("percent")
    return abs(percent) if _is_number(percent) else 0.0


def _nodes_html(roots: Sequence[_Node], columns: Sequence[str], full: dict[str, float]) -> Iterator[str]:
    """Yield elements for nodes and all below them. What is deeper than DEEPEST levels stands beside what is there."""
    stack: list[tuple[_Node | str, int]] = [(node, 0) for node in reversed(roots)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, str):
            yield node
            continue
        line = _line(node.row, columns, full)
        below = [(one, depth + 1) for one in reversed(node.below)]
        if not node.below or depth >= DEEPEST:
            yield f"<div>{line}</div>"
            stack += below
        else:
            is_open = depth == 0 or _weight(node.row) >= OPEN_FROM
            yield f"<details{' open' * is_open}><summary>{line}</summary>"
            yield '<div style="margin-left:1.2em">'
            stack += [("</div></details>", depth), *below]


def _line(row: dict[str, Any], columns: Sequence[str], full: dict[str, float]) -> str:
    """Return one row: its numbers, from the right, and its name, with its place where one points at it."""
    numbers = "".join(_number(row[name], full[name]) for name in columns[::-1])
    place = ":".join(str(row[word]) for word in ("file", "line") if row.get(word) is not None)
    where = f' title="{_text(place)}"' if place else ""
    return f"{numbers}<span{where}>{_text(str(row['name']))}</span>"


def _number(cell: Any, full: float) -> str:
    bar = _bar(cell, full)
    return f'<span style="{WIDTH}{";" * bool(bar)}{bar}">{_cell(cell) or "&nbsp;"}</span>'


# -- experiments and studies -------------------------------------------------------------------------------------------


def experiment_html(experiment: Experiment) -> str:
    """Return what there is, in counts and names."""
    traces, metrics = experiment.traces, experiment.metrics
    facts = [("format", f"{experiment.format} {experiment.version}".rstrip()), ("path", experiment.path)]
    parameters = dict.fromkeys(name for run in experiment.runs for name in run.parameters)
    if len(experiment.runs) > 1 or parameters:
        over = f" over {_fit_names(list(parameters))}" if parameters else ""
        facts.append(("runs", f"{len(experiment.runs):,}{over}"))
    facts += [
        ("profiles", f"{len(experiment.profiles.measured):,}"),
        ("contexts", f"{len(experiment.contexts):,}"),
        ("metrics", _fit_names(metrics.shown, len(metrics.quantities))),
    ]
    events = [f"{n:,} {word}" for n, word in ((traces.n_samples, "samples"), (traces.n_spans, "spans")) if n]
    facts.append(("traces", ", ".join(events)))
    return _facts("experiment", experiment.title, [*facts, *_warnings(experiment.warnings)])


def study_html(study: Study) -> str:
    """Return what was measured, and where."""
    facts = [("format", f"{study.format} {study.version}".rstrip()), ("path", study.path)]
    for number, name in enumerate(study.parameters):
        values = sorted(set(study.points[:, number].tolist()))
        facts.append((f"parameter {name}", _fit_names([f"{value:g}" for value in values])))
    facts += [
        ("points", f"{study.n_points:,}"),
        ("series", f"{len(study):,} ({len(study.callpaths):,} call paths)"),
        ("metrics", _fit_names([name or "<default>" for name in study.metrics])),
        ("stored models", f"{len(study.models):,}" if study.models else ""),
    ]
    return _facts("study", study.title, [*facts, *_warnings(study.warnings)])


def _facts(what: str, title: str, facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(
        f"<tr><th {LEFT}>{_text(word)}</th><td {LEFT}>{_text(text)}</td></tr>" for word, text in facts if text
    )
    name = f" {_text(title)}" if title else ""
    return f"<div><table><caption {LEFT}><b>{what}</b>{name}</caption><tbody>{rows}</tbody></table></div>"


def _warnings(warnings: Sequence[InputWarning]) -> list[tuple[str, str]]:
    shown = [(warning.severity.value, warning.text) for warning in warnings[:WARNINGS_IN_NOTEBOOKS]]
    more = len(warnings) - len(shown)
    return [*shown, ("and", f"{more:,} more of these")] if more else shown


def _fit_names(names: Sequence[str], n: int | None = None) -> str:
    """Return the first names, as many as a cell has room for, and how many more there are of `n`."""
    shown, length = 0, 0
    while shown < min(len(names), MOST_NAMES) and (not shown or length + len(names[shown]) < LONGEST_TEXT - ROOM):
        length += len(names[shown]) + 2
        shown += 1
    more = (len(names) if n is None else n) - shown
    return ", ".join(names[:shown]) + (f" and {more:,} more" if more else "")


# -- texts -------------------------------------------------------------------------------------------------------------


def _cell(cell: Any) -> str:
    if cell is None:
        return ""
    return _text(f"{cell:.6g}" if isinstance(cell, float) else str(cell))


def _text(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return text that no browser takes for anything else; the end of what is too long is cut."""
    import html  # its table of entities is large, and a terminal needs none

    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return html.escape(visible(short))
