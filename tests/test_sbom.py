"""The software bill of materials names callgrove, what it needs, and what its extras bring."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.requirements import ROOT


def test_the_bill_of_materials(tmp_path: Path) -> None:
    texts = []
    for name in ("a.json", "b.json"):
        subprocess.run([sys.executable, ROOT / ".ci" / "sbom.py", tmp_path / name], check=True)
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    content = json.loads(texts[0])
    assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.5")
    assert content["metadata"]["component"]["name"] == "callgrove"
    components = {one["name"]: one for one in content["components"]}
    assert components["numpy"]["purl"] == f"pkg:pypi/numpy@{version('numpy')}"
    assert {"duckdb", "pyarrow", "otf2", "numpy"} <= components.keys()
    assert not {"pytest", "mypy", "ruff", "callgrove"} & components.keys()
    depends = {one["ref"]: one["dependsOn"] for one in content["dependencies"]}
    assert "numpy" in depends["callgrove"]
    assert all(name in depends for names in depends.values() for name in names)
