"""Tables for papers and pages show names as they are, whatever these want to be."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.table import Column, Table, visible
from callgrove.render.text_formats import Whole, html, latex
from tests.render.tables import HOSTILE, chunked_tables, one_column, tables_of

NAMES, TIMES, MARKS = ["main", "  solve_it", None], [1234567.0, 0.5, -3.0], ["", "a", "b"]
TABLE = Table((Column("name", NAMES), Column("time", TIMES), Whole("!", MARKS)))


# -- LaTeX -----------------------------------------------------------------------------------------------------------


def test_latex_golden() -> None:
    assert "".join(latex([TABLE.head(2)])) == (
        "\\begin{tabular}{lrr}\n"
        "\\hline\n"
        "name & time & ! \\\\\n"
        "\\hline\n"
        "main & 1234567 &  \\\\\n"
        "\\quad solve\\_it & 0.5 & a \\\\\n"
        "\\hline\n"
        "\\end{tabular}\n"
        "% and 1 more\n"
    )


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a_b%", r"a\_b\%"),
        ("vector<int>", r"vector\textless{}int\textgreater{}"),
        ("operator--", r"operator-{}-"),
        ("---", r"-{}-{}-"),
        ("[unknown]", r"{}[unknown]"),
        ("*", r"{}*"),
        ("\\input{x}", r"\textbackslash{}input\{x\}"),
        ('"q"', r"\symbol{34}q\symbol{34}"),
        ("a & b", r"a \& b"),
        ("a\nb", r"a\textbackslash{}nb"),
        ("x^2~$y$#", r"x\textasciicircum{}2\textasciitilde{}\$y\$\#"),
    ],
)
def test_latex_escapes(name: str, escaped: str) -> None:
    assert "".join(latex(one_column(name))).splitlines()[4] == f"{escaped} \\\\"


@given(st.text())
def test_latex_leaves_nothing_with_a_meaning(name: str) -> None:
    """But for the commands that stand for characters, nothing is left that TeX would obey."""
    row = "".join(latex(one_column(name))).split("\n")[4].removesuffix(" \\\\")
    assert "--" not in row
    left = re.sub(r"\\(text\w+|symbol)\{\d*\}|\\quad |\\[#$%&_{}]|\{\}", "", row)
    assert not set(left) & set("\\#$%&_{}^~<>|\"`'")


# -- HTML ------------------------------------------------------------------------------------------------------------


class Cells(HTMLParser):
    """The cells of a table as a browser shows them, row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("table", "thead", "tbody", "tr", "th", "td", "p")
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def cells_of(text: str) -> list[list[str]]:
    parser = Cells()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser.rows


def test_html_golden() -> None:
    assert "".join(html([TABLE.head(2)])) == (
        "<table>\n<thead>\n"
        '<tr><th align="left">name</th><th align="right">time</th><th align="right">!</th></tr>\n'
        "</thead>\n<tbody>\n"
        '<tr><td align="left">main</td><td align="right">1234567</td><td align="right"></td></tr>\n'
        '<tr><td align="left">&emsp;solve_it</td><td align="right">0.5</td><td align="right">a</td></tr>\n'
        "</tbody>\n</table>\n<p>and 1 more</p>\n"
    )


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a&amp;b", '"x"', "日本", HOSTILE, "</td></table>"])
def test_html_shows_names_as_they_are(name: str) -> None:
    text = "".join(html(one_column(name)))
    assert text.isascii()
    assert cells_of(text) == [["c"], [visible(name)]]


@given(chunked_tables())
def test_html_is_well_formed(table: tuple[list[str], list[list[tuple[object, ...]]]]) -> None:
    names, chunks = table
    text = "".join(html(tables_of(names, chunks)))
    rows = cells_of(text)
    assert len(rows) == 1 + sum(map(len, chunks))
    assert {len(row) for row in rows} == {len(names)}
    ElementTree.fromstring(text.replace("&emsp;", " "))
