"""What checks the page's scripts: that it can fail, and that their types are those of what Python puts into a page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import callgrove.viewer.report
from callgrove.algebra.cutting import part
from callgrove.algebra.operations import diff
from callgrove.analysis.comparison import Question, compare
from callgrove.examples import example, gpu_example, study_example
from callgrove.viewer.page import Texts, encode
from callgrove.viewer.report import Input, report, report_comparison
from tests.requirements import ROOT, need
from tests.timing import HANG_SEC
from tests.viewer.pages import two_runs

LENGTHS = Path(__file__).with_name("lengths.mjs")
TSC = ROOT / "node_modules" / "typescript" / "bin" / "tsc"
DOCUMENTS = Path(str(files("callgrove.viewer") / "static" / "documents"))
ENOUGH = 3  # cells of a column that show its type


def run_node(script: Path, *words: str | Path) -> tuple[int, str]:
    """The exit code of a script, and what it says."""
    node = shutil.which("node")
    if node is None or not TSC.exists():
        need("node", "node or node_modules is missing: `make check` installs the latter where npm is there")
    command = [node, str(script), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SEC, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_long_functions_and_lines_are_named(tmp_path: Path) -> None:
    body = "  x();\n" * 58
    short, long = tmp_path / "short.js", tmp_path / "long.js"
    short.write_text(f"function f() {{\n{body}}}\n// {'x' * 117}\n", encoding="utf-8")
    long.write_text(f"class C {{\n  m() {{\n{body}  x();\n  }}\n}}\n// {'x' * 118}\n", encoding="utf-8")
    assert run_node(LENGTHS, short) == (0, "")
    expected = f"{long}:64: the line has 121 characters\n{long}:2: m has 61 lines\n"
    assert run_node(LENGTHS, short, long) == (1, expected)
    assert run_node(LENGTHS)[0] == 1


def plain(value: Any) -> Any:
    """A document as a page has it, with the first cells of its columns."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return value.reshape(-1)[:ENOUGH].astype(np.float64).tolist()  # NaN and Infinity are names of the language
    if isinstance(value, Texts):
        return list(value.values[:ENOUGH])
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def test_types_are_those_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler refuses properties that are missing, of other types, or that the types do not know."""
    documents: list[Mapping[str, Any]] = []

    def kept(document: Mapping[str, Any]) -> str:
        documents.append(document)
        return encode(document)

    monkeypatch.setattr(callgrove.viewer.report, "encode", kept)
    opened = (example(), gpu_example(), study_example(), two_runs(), diff(example(), example()), example().remap())
    report([Input(one, ["made"]) for one in opened])
    ranks = [part(example(), ranks=[rank]) for rank in (0, 3)]
    for how in (Question(scaling="weak"), Question(flat=True)):
        report_comparison(compare(ranks, how))
    first, *others = documents[-3:]
    document = plain({**first, "sections": [section for one in (first, *others) for section in one["sections"]]})
    kinds = {panel["kind"] for section in document["sections"] for panel in section["panels"]}
    assert kinds == known_kinds()
    assert compiled(document, tmp_path / "good") == (0, "")
    document["sections"][0]["panels"][0]["data"]["unheard_of"] = 1
    code, said = compiled(document, tmp_path / "bad")
    assert code
    assert "unheard_of" in said


def compiled(document: Any, folder: Path) -> tuple[int, str]:
    """What the compiler says to a document, with the settings of the scripts."""
    folder.mkdir()
    settings = {"extends": str(ROOT / "tsconfig.json"), "include": ["document.ts"]}
    (folder / "tsconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    head = f'import type {{ Report }} from "{DOCUMENTS}";\nexport const report: Report = '
    (folder / "document.ts").write_text(head + json.dumps(document), encoding="utf-8")
    return run_node(TSC, "--project", folder)


def known_kinds() -> set[str]:
    """The kinds of panels of reports that have a type."""
    text = DOCUMENTS.with_suffix(".d.ts").read_text("utf-8")
    body = text.partition("export interface ReportPanels {")[2].partition("\n}")[0]
    return {line.strip().partition(":")[0] for line in body.splitlines() if line.strip()}
