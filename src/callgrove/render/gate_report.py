"""A gate as people and CI systems read it: a table for a terminal, markdown for a pull request, JUnit's XML.

`write` says how a cost is written: 12.1 s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree import ElementTree

from callgrove.analysis.gate.decision import Gate, GateRow
from callgrove.analysis.gate.wording import p_text, percent
from callgrove.model.table import Column, Table, visible
from callgrove.render.text_formats import Whole, align_right, markdown

__all__ = ["junit_text", "markdown_text", "readable_table"]

Write = Callable[[float], str]
Spell = Callable[[str], str]  # how parameters in a text are called

LONGEST = 60_000  # characters: GitHub takes 65,536 in a comment
LONGEST_NAME = 200
PLAIN_WORDS = {"slower": "slower", "unclear": "undecided", "faster": "faster", "same": "not slower"}


def readable_table(rows: Sequence[GateRow], write: Write, longest_name: int | None = None) -> Table:
    """Return rows with units and percentages; absent cells are empty, and columns of nothing else are left out."""
    cells = {
        "left": [write(row.left) for row in rows],
        "right": [write(row.right) for row in rows],
        "change": [_share(row.change, signed=True) for row in rows],
        "p": ["" if row.p is None else p_text(row.p) for row in rows],
        "noise": [_share(row.noise) for row in rows],
        "detectable": [_share(row.detectable) for row in rows],
        "runs": [f"{row.n_left}+{row.n_right}" for row in rows],
    }
    numbers = [Whole(name, align_right(texts)) for name, texts in cells.items() if any(texts)]
    verdicts, paths = [row.verdict for row in rows], [_shorten(row.path, longest_name) for row in rows]
    return Table((Column("verdict", verdicts), *numbers, Column("path", paths)))


def _share(share: float | None, signed: bool = False) -> str:
    return "" if share is None else percent(share, signed)


def _shorten(name: str, longest: int | None) -> str:
    if longest is None or len(name) <= longest:
        return name
    half = (longest - 3) // 2
    return f"{name[:half]}...{name[-half:]}"


# -- markdown ----------------------------------------------------------------------------------------------------------


def markdown_text(gate: Gate, rows: Sequence[GateRow], write: Write, spell: Spell) -> str:
    """Return a heading with the verdict, the rows that are not `same`, the others folded, and what the repetitions can
    tell. Rows are left out, which is said, where there would be more characters than a comment may have."""
    shown = [row for row in rows if row.verdict != "same"]
    folded = [row for row in rows if row.verdict == "same"]
    text = _compose(gate, shown, folded, 0, write, spell)
    while len(text) > LONGEST and (shown or folded):
        if folded:
            folded = folded[: len(folded) // 2]
        else:
            shown = shown[: len(shown) // 2]
        n_left = len(rows) - len(shown) - len(folded)
        text = _compose(gate, shown, folded, n_left, write, spell)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 5]}\n...\n"


def _compose(
    gate: Gate, shown: Sequence[GateRow], folded: Sequence[GateRow], n_left: int, write: Write, spell: Spell
) -> str:
    parts = [f"## {gate.metric.name}: {PLAIN_WORDS[gate.verdict]}\n", f"{_inline(spell(gate.sentence))}.\n"]
    if shown:
        parts.append("".join(markdown([readable_table(shown, write, LONGEST_NAME)])))
    if folded:
        table = "".join(markdown([readable_table(folded, write, LONGEST_NAME)]))
        parts.append(f"<details><summary>{len(folded)} rows are the same</summary>\n\n{table}\n</details>\n")
    if n_left:
        parts.append(f"{n_left} more rows are left out.\n")
    parts += [f"{_inline(spell(note))}.\n" for note in gate.notes]
    return "\n".join(parts)


def _inline(text: str) -> str:
    """Return a sentence whose names show as they are."""
    cell = "".join(markdown([Table((Column("", [text]),))])).splitlines()[2]
    return cell.removeprefix("| ").removesuffix(" |")


# -- JUnit -------------------------------------------------------------------------------------------------------------


def junit_text(gate: Gate, rows: Sequence[GateRow], write: Write, spell: Spell) -> str:
    """Return one test suite: a case for each row, which fails where it is slower and is skipped where it is unclear."""
    counts = {word: sum(row.verdict == verdict for row in rows) for word, verdict in OUTCOMES.items()}
    suite = ElementTree.Element(
        "testsuite",
        name=_legal(f"callgrove {gate.metric.name}"),
        tests=str(len(rows)),
        failures=str(counts["failure"]),
        errors="0",
        skipped=str(counts["skipped"]),
        time="0",
    )
    for row in rows:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_legal(gate.metric.name), name=_legal(row.path), time="0"
        )
        for word, verdict in OUTCOMES.items():
            if row.verdict == verdict:
                outcome = ElementTree.SubElement(case, word, message=_legal(_say(row, write)))
                if word == "failure":
                    outcome.set("type", verdict)
    said = ElementTree.SubElement(suite, "system-out")
    said.text = _legal("; ".join(map(spell, (gate.sentence, *gate.notes))))
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


OUTCOMES = {"failure": "slower", "skipped": "unclear"}


def _say(row: GateRow, write: Write) -> str:
    """Return kernel: 12.1 s -> 14.5 s (+19.6%, p 0.001)."""
    known = [_share(row.change, signed=True)] if row.change is not None else []
    known += [f"p {p_text(row.p)}"] if row.p is not None else []
    known += [f"would be seen above {percent(row.detectable)}"] if row.detectable and row.verdict == "unclear" else []
    more = f" ({', '.join(known)})" if known else ""
    return f"{row.path}: {write(row.left)} -> {write(row.right)}{more}"


def _legal(text: str) -> str:
    """Return a text without characters that XML cannot hold."""
    return visible(text)
