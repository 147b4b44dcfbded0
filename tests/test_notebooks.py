"""The notebooks of the documentation run, and show what they are kept with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.requirements import ROOT, need_module
from tests.timing import HANG_SEC

SCRIPT = ROOT / "docs" / "notebooks.py"
FOLDER = ROOT / "docs" / "notebooks"


def check(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Run notebooks, all where none is named, and compare what they show."""
    for name in ("nbclient", "ipykernel", "pandas", "networkx", "duckdb"):
        need_module(name)
    command = [sys.executable, str(SCRIPT), "--check", *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_SEC, check=False)


def test_notebooks_run_and_show_what_they_are_kept_with() -> None:
    done = check()
    assert (done.returncode, done.stderr) == (0, ""), "`python docs/notebooks.py` renews them"


def test_a_notebook_that_is_stale_is_noticed(tmp_path: Path) -> None:
    notebook = json.loads((FOLDER / "gpu-trace.ipynb").read_text("utf-8"))
    notebook["cells"] = notebook["cells"][:2]
    (output,) = notebook["cells"][1]["outputs"]
    output["data"]["text/plain"] = ["<Experiment of another day>"]
    stale = tmp_path / "stale.ipynb"
    stale.write_text(json.dumps(notebook), "utf-8")
    done = check(stale)
    assert done.returncode == 1
    assert "-    <Experiment of another day>" in done.stderr


def test_notebooks_are_kept_with_outputs() -> None:
    for path in FOLDER.glob("*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        shown = [bool(cell["outputs"]) for cell in cells if cell["cell_type"] == "code"]
        assert len(shown) > 8
        assert all(shown), path.name
