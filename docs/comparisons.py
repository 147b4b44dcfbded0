"""Write what benches measured against other tools into docs/peers.md: `python docs/comparisons.py`.

The rows are those of bench/RESULTS.md that name another tool; they stand between two marks of the page.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "peers.md"
RESULTS = ROOT / "bench" / "RESULTS.md"
BEGIN, END = "<!-- measured: docs/comparisons.py -->", "<!-- end -->"
TOOLS = ("Hatchet", "pycubexr", "Extra-P", "HTA", "caliper-reader", "Thicket")
RATIO = re.compile(r"[\d.,]+ x")


def list_rows() -> list[str]:
    """Return the rows of the results that compare us with another tool, as rows of the page's table."""
    rows = []
    for line in RESULTS.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and RATIO.fullmatch(cells[2]) and any(tool in cells[1] for tool in TOOLS):
            rows.append(f"| {cells[1]} | {cells[2]} | {cells[3]} | {cells[4]} |")
    return rows


def fill(page: str) -> str:
    """Return the page with the rows as they are now."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    head = ["| their time / ours | measured | limit | note |", "|---|---|---|---|"]
    return "\n".join([before + BEGIN, "", *head, *list_rows(), "", END + after])


if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text("utf-8")), "utf-8")
