"""Runs the notebooks of the documentation in a folder with what `callgrove demo --keep .` writes.

    python docs/notebooks.py            run them and keep what they show
    python docs/notebooks.py --check    run them and say where they show something else than they did

Names of files choose some of them. Needs nbclient and ipykernel (the extra `test`). The kernel is the interpreter that
runs this; no kernel has to be installed, and nothing is written to the home of whoever runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "notebooks"
MOST_BYTES = 100_000  # of a notebook: what it shows is small
TIMEOUT_SEC = 300


def main(arguments: Sequence[str]) -> int:
    """Return 1 where a notebook fails, is too large, or shows something else than it did."""
    with tempfile.TemporaryDirectory(prefix="callgrove-notebooks-") as name:
        place = Path(name)
        settle(place / "jupyter")
        demo = [sys.executable, "-m", "callgrove", "demo", "--keep", "."]
        subprocess.run(demo, cwd=place, check=True, capture_output=True)
        named = [Path(word) for word in arguments if not word.startswith("-")]
        notebooks = named or sorted(FOLDER.glob("*.ipynb"))
        problems = [problem for path in notebooks for problem in run(path, place, "--check" in arguments)]
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return int(bool(problems))


def settle(folder: Path) -> None:
    """Keep what Jupyter writes in a folder that goes; show what tables show where nothing says how wide it is."""
    for word in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        os.environ[word] = str(folder / word.lower())
        (folder / word.lower()).mkdir(parents=True)
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    os.environ.pop("COLUMNS", None)


def run(path: Path, place: Path, is_check: bool) -> Iterator[str]:
    """Yield what is wrong with one notebook; write it again unless it is only checked."""
    import nbformat

    before = nbformat.read(path, 4)
    after = execute(nbformat.read(path, 4), place)
    text = nbformat.writes(after) + "\n"
    if len(text.encode()) > MOST_BYTES:
        yield f"{path.name}: has {len(text.encode()):,} bytes, and {MOST_BYTES:,} are enough"
    if is_check:
        yield from unified_diff(shown(before), shown(after), f"{path.name}, as it is kept", "as it runs", lineterm="")
    else:
        path.write_text(text, encoding="utf-8")


def execute(notebook: Any, place: Path) -> Any:
    """Return the notebook with what its cells show. A cell that fails is an error."""
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    class OwnInterpreter(KernelSpecManager):
        """Knows one kernel: the interpreter that runs this."""

        def get_kernel_spec(self, kernel_name: str) -> Any:
            argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--log-level=ERROR"]
            return KernelSpec(argv=argv, display_name="Python 3", language="python")

    manager = AsyncKernelManager(kernel_spec_manager=OwnInterpreter())
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=TIMEOUT_SEC,
        record_timing=False,
        coalesce_streams=True,  # what is printed comes in as many pieces as the machine is busy
        resources={"metadata": {"path": str(place)}},
    )
    client.execute()
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return notebook


def shown(notebook: Any) -> list[str]:
    """Return the source of every cell, and what it shows as text, line by line."""
    lines: list[str] = []
    for cell in notebook.cells:
        lines += cell.source.splitlines()
        for output in cell.get("outputs", []):
            text = output.get("text", "") or output.get("data", {}).get("text/plain", "")
            page = output.get("data", {}).get("text/html", "")
            lines += [f"    {line}" for line in (*text.splitlines(), *page.replace("><", ">\n<").splitlines())]
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
