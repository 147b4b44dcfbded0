"""What notebooks and `print` show of experiments, studies, tables and models: small, static, and nothing but text.

Nothing is read from a file for it: an experiment of a terabyte is shown at once.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from callgrove.model.visible import visible

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment, InputWarning
    from callgrove.model.study import Study
    from callgrove.model.table import Table

__all__ = ["MOST_COLUMNS", "MOST_ROWS", "experiment_html", "study_html", "table_html", "table_text"]

MOST_ROWS = 20
MOST_LINES = 40  # rows of a text
DEEPEST = 40  # levels by which names are indented
LONGEST_CELL = 60  # characters of a cell of a text
MOST_COLUMNS = 20
MOST_NAMES = 8
MOST_WARNINGS = 5
LONGEST_TEXT = 120  # characters of a cell
ROOM = 18  # of them for how many more there are
LEFT = 'style="text-align:left"'


def table_html(table: Table, caption: str = "") -> str:
    """The first rows, and how many more there are."""
    shown = table.head(MOST_ROWS)
    names = table.names[:MOST_COLUMNS]
    rows = [row[:MOST_COLUMNS] for row in shown.rows()]
    texts = [any(isinstance(row[k], str) for row in rows) for k in range(len(names))]
    headings = "".join(
        f"<th {LEFT}>{_text(name)}</th>" if t else f"<th>{_text(name)}</th>"
        for name, t in zip(names, texts, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td {LEFT if t else ''}>{_cell(cell)}</td>" for cell, t in zip(row, texts, strict=True))
        + "</tr>"
        for row in rows
    )
    more = []
    if shown.left:
        more.append(f"{shown.left:,} more rows" if shown.left > 0 else "more rows")
    if len(table.names) > len(names):
        more.append(f"{len(table.names) - len(names):,} more columns")
    said = f"<caption {LEFT}>{_text(caption)}</caption>" if caption else ""
    rest = f"<p>… and {' and '.join(more)}</p>" if more else ""
    rest += "".join(f"<p>{_text(note)}</p>" for note in table.notes)
    return f"<div><table>{said}<thead><tr>{headings}</tr></thead><tbody>{body}</tbody></table>{rest}</div>"


def table_text(table: Table) -> str:
    """Return the title, the first rows in columns and how many more there are; names of a tree stand under their
    callers, and columns that are empty in these rows are left out."""
    shown = table.head(MOST_LINES)
    cells = {column.name: [_plain(cell) for cell in column.plain()] for column in shown.columns}
    if "name" in cells and "depth" in cells:
        depths = [min(int(depth), DEEPEST) for depth in cells.pop("depth")]
        cells["name"] = ["  " * depth + name for depth, name in zip(depths, cells["name"], strict=True)]
    used = {name: texts for name, texts in cells.items() if any(texts) or not len(shown)}
    numbers = {c.name for c in shown.columns if not any(isinstance(cell, str) for cell in c.plain())}
    widths = {name: max(len(name), *(len(text) for text in texts), 0) for name, texts in used.items()}
    rows = [list(used), *zip(*used.values(), strict=True)]
    lines = [
        "  ".join(
            text.rjust(width) if name in numbers else text.ljust(width)
            for text, (name, width) in zip(row, widths.items(), strict=True)
        ).rstrip()
        for row in rows
    ]
    left = "more rows" if shown.left < 0 else f"{shown.left:,} more rows"
    return "\n".join(
        [
            *([visible(table.title)] if table.title else []),
            *lines,
            *([f"... and {left}"] if shown.left else []),
            *map(visible, table.notes),
        ]
    )


def _plain(cell: Any) -> str:
    """Return a cell as text; the end of what is too long is cut."""
    if cell is None:
        return ""
    text = visible(f"{cell:.6g}" if isinstance(cell, float) else str(cell))
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def experiment_html(experiment: Experiment) -> str:
    """What there is, in counts and names."""
    traces, metrics = experiment.traces, experiment.metrics
    facts = [("format", f"{experiment.format} {experiment.version}".rstrip()), ("path", experiment.path)]
    parameters = dict.fromkeys(name for run in experiment.runs for name in run.parameters)
    if len(experiment.runs) > 1 or parameters:
        facts.append(("runs", f"{len(experiment.runs):,}" + (f" over {_some(list(parameters))}" if parameters else "")))
    facts += [
        ("profiles", f"{len(experiment.profiles.measured):,}"),
        ("contexts", f"{len(experiment.contexts):,}"),
        ("metrics", _some(metrics.shown, len(metrics.quantities))),
    ]
    events = [f"{n:,} {word}" for n, word in ((traces.n_samples, "samples"), (traces.n_spans, "spans")) if n]
    facts.append(("traces", ", ".join(events)))
    return _facts("experiment", experiment.title, [*facts, *_warnings(experiment.warnings)])


def study_html(study: Study) -> str:
    """What was measured, and where."""
    facts = [("format", f"{study.format} {study.version}".rstrip()), ("path", study.path)]
    for number, name in enumerate(study.parameters):
        values = sorted(set(study.points[:, number].tolist()))
        facts.append((f"parameter {name}", _some([f"{value:g}" for value in values])))
    facts += [
        ("points", f"{study.n_points:,}"),
        ("series", f"{len(study):,} ({len(study.callpaths):,} call paths)"),
        ("metrics", _some([name or "<default>" for name in study.metrics])),
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
    shown = [(warning.severity.value, warning.text) for warning in warnings[:MOST_WARNINGS]]
    more = len(warnings) - len(shown)
    return [*shown, ("and", f"{more:,} more of these")] if more else shown


def _some(names: Sequence[str], n: int | None = None) -> str:
    """The first names, as many as a cell has room for, and how many more there are of `n`."""
    shown, length = 0, 0
    while shown < min(len(names), MOST_NAMES) and (not shown or length + len(names[shown]) < LONGEST_TEXT - ROOM):
        length += len(names[shown]) + 2
        shown += 1
    more = (len(names) if n is None else n) - shown
    return ", ".join(names[:shown]) + (f" and {more:,} more" if more else "")


def _cell(cell: Any) -> str:
    if cell is None:
        return ""
    return _text(f"{cell:.6g}" if isinstance(cell, float) else str(cell))


def _text(text: str) -> str:
    """Text that no browser takes for anything else; the end of what is too long is cut."""
    short = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return html.escape(visible(short))
