"""Explanations as people read them: sentences with units, commands to copy; as text and as Markdown.

finding --> say_finding --> a sentence and a command --> explanation_text, explanation_markdown, explanation_table
"""

from __future__ import annotations

from collections.abc import Iterator

from callgrove.analysis.explain.findings import NS, PERCENT, TIMES, Amount, Explanation, Finding
from callgrove.model.table import Column, Table
from callgrove.render.facts import quote_word
from callgrove.render.text_formats import markdown
from callgrove.render.units import amount, duration_ns

__all__ = ["explanation_markdown", "explanation_table", "explanation_text", "say_finding"]

COLUMNS = ("cause", "subject", "weight", "number", "unit", "sentence", "command")


def say_finding(finding: Finding) -> tuple[str, str]:
    """Return the sentence of a finding, and the command that shows more."""
    sentence = "".join(part if isinstance(part, str) else _write(part) for part in finding.sentence)
    against = "Against that: " if finding.weight < 0 else ""
    return f"{against}{sentence}", " ".join(["callgrove", *map(quote_word, finding.command)])


def _write(number: Amount) -> str:
    if number.unit == PERCENT:
        return _write_percent(number.value)
    if number.unit == TIMES:
        return f"{number.value:.3g} times"
    return duration_ns(number.value) if number.unit == NS else amount(number.unit)(number.value)


def _write_percent(value: float) -> str:
    if 0 < abs(value) < 0.1:
        return "less than 0.1%"
    return f"{value:,.0f}%" if abs(value) >= 10 else f"{value:.1f}%"


def explanation_table(explanation: Explanation) -> Table:
    """Return a row for each finding, the headline first: cause, subject, weight, number, unit, sentence, command."""
    rows = [
        (one.cause, one.subject, one.weight, one.number.value, one.number.unit, *say_finding(one))
        for one in explanation.all
    ]
    return Table.from_rows(COLUMNS, rows)


def explanation_text(explanation: Explanation) -> Iterator[str]:
    """Yield lines: sentences, each with the command that shows more below it."""
    for finding in explanation.all:
        sentence, command = say_finding(finding)
        yield f"{sentence}\n"
        yield f"    {command}\n"


def explanation_markdown(explanation: Explanation) -> Iterator[str]:
    """Yield a list of the same sentences and commands."""
    for finding in explanation.all:
        sentence, command = say_finding(finding)
        yield f"- {_inline(sentence)}\n  `{command}`\n"


def _inline(text: str) -> str:
    """Return a sentence whose names show as they are."""
    cell = "".join(markdown([Table((Column("", [text]),))])).splitlines()[2]
    return cell.removeprefix("| ").removesuffix(" |")
