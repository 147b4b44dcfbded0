"""Printed tables on narrow terminals: names give way, numbers and judgements never."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from callgrove.cli import output
from callgrove.cli import output as viewing
from callgrove.render import Look
from tests.cli.commands import Capture, run

WIDTHS = (60, 80, 100, 120)
WIDE = 1000
NUMBER = re.compile(r"[-+]?[<>@]?[\d.,]+(e[+-]?\d+)?( ?[a-zA-Z%/]+){0,2}%?|-?(nan|inf)|O\(.*\)")
QUERY = "SELECT name, kind, category, start_ns, end_ns, end_ns - start_ns AS ns, correlation FROM spans LIMIT 20"
VERBS = {
    "top": ("top", "stencil.d"),
    "top-all-metrics": ("top", "stencil.d", "--all-metrics"),
    "top-all-metrics-cube": ("top", "stencil.cubex", "--all-metrics"),
    "tree": ("tree", "stencil.d"),
    "tree-source": ("tree", "stencil.d", "--source"),
    "tree-all-metrics": ("tree", "stencil.cubex", "--all-metrics"),
    "bottom-up": ("tree", "stencil.d", "--bottom-up"),
    "hot": ("hot", "stencil.d"),
    "diff": ("diff", "stencil.d", "stencil.d"),
    "top-by-rank": ("top", "stencil.d", "--by", "rank"),
    "summary": ("summary", "train.db"),
    "summary-by": ("summary", "train.db", "--by", "rank", "--by", "stream"),
    "model": ("model", "scaling.txt"),
    "model-code": ("model", "scaling.txt", "--expression", "python", "--expression", "latex"),
    "predict": ("predict", "scaling.txt", "--at", "p=4096,n=500"),
    "runner-ups": ("model", "one.txt", "--runner-ups"),
    "sql": ("sql", "train.db", QUERY),
    "export": ("export", "stencil.d", "--table", "values", "--format", "table", "--limit", "30"),
    "info-metrics": ("info", "stencil.d", "--metrics"),
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from callgrove.cli.main import main

    folder = tmp_path_factory.mktemp("widths") / "demo"
    assert main(["demo", "--keep", str(folder)]) == 0
    assert main(["convert", str(folder / "stencil.d"), str(folder / "stencil.cubex")]) == 0
    lines = [
        "PARAMETER p",
        "POINTS 4 8 16 32 64",
        "REGION main",
        *(f"DATA {p * 1.7 + p % 3}" for p in (4, 8, 16, 32, 64)),
    ]
    (folder / "one.txt").write_text("\n".join(lines) + "\n")
    return folder


def cells(text: str) -> Iterator[tuple[str, str]]:
    """Heading and cell, of all tables in a text: a heading, a line of dashes, rows until an empty line."""
    lines = text.split("\n")
    for k in range(1, len(lines)):
        if not re.fullmatch(r"-+( +-+)*", lines[k]):
            continue
        places = [found.start() for found in re.finditer(r"-+", lines[k])]
        for row in lines[k + 1 :]:
            if not row.strip() or row.startswith("…"):
                break
            for low, high in zip(places, [*places[1:], None], strict=True):
                yield lines[k - 1][low:high].strip(), row[low:high].strip()


def numbers(text: str) -> Counter[tuple[str, str]]:
    """How often each number stands below each heading."""
    return Counter(
        (heading, cell) for heading, cell in cells(text) if all(map(NUMBER.fullmatch, re.split(r"  +", cell)))
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", VERBS)
def test_numbers_and_judgements_are_never_cut(
    name: str, width: int, demo: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo)
    texts = []
    for columns in (WIDE, width):
        look = Look(width=columns)
        monkeypatch.setattr(output, "stdout_look", lambda look=look: look)
        monkeypatch.setattr(viewing, "stdout_look", lambda look=look: look)
        texts.append(run(capsys, *VERBS[name]))
    whole, narrow = map(numbers, texts)
    assert whole or name == "info-metrics"
    missing = {key for key, n in whole.items() if narrow[key] < n and key[0] not in ("share", "where", "source")}
    assert not missing
    headings = {heading for heading, _ in cells(texts[1])}
    assert {heading for heading, _ in cells(texts[0])} - {"share", "where"} <= headings
    if not name.startswith(("model", "runner", "info")):  # functions and descriptions are as long as they are
        assert max(map(len, texts[1].splitlines())) <= width
