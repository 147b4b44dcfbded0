"""Fill version and digest of the built sdist into the recipes for Spack and conda-forge: `make recipes`."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECIPES = {"spack/package.py": "spack/py_callgrove/package.py", "conda/recipe.yaml": "conda/recipe.yaml"}


def make_recipes(sdist: Path, folder: Path) -> list[Path]:
    """Write the recipes for an sdist below a folder, and return where."""
    name = re.fullmatch(r"callgrove-(.+)\.tar\.gz", sdist.name)
    if name is None:
        sys.exit(f"{sdist} is not an sdist of callgrove; `make dist` builds one")
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    written = []
    for template, place in RECIPES.items():
        text = (HERE / template).read_text("utf-8").replace("@VERSION@", name[1]).replace("@SHA256@", digest)
        kept = [line for line in text.splitlines(keepends=True) if "`make recipes`" not in line]
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text("".join(kept), "utf-8")
        written.append(folder / place)
    return written


if __name__ == "__main__":
    for path in make_recipes(Path(sys.argv[1]), Path(sys.argv[2])):
        print(path)
