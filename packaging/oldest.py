"""Print the oldest version of everything that pyproject.toml declares for users, as requirements for pip.

`python packaging/oldest.py > oldest.txt`; `.ci/oldest.sh` installs them and runs tests there.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
BOUND = re.compile(r"([\w.-]+)>=([\w.]+)(.*)")
FOR_DEVELOPERS = ("all", "test", "docs")


def list_oldest() -> list[str]:
    """Return `name==version` for the dependencies and all extras for users."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = [
        *project["dependencies"],
        *(one for name in extras if name not in FOR_DEVELOPERS for one in extras[name]),
    ]
    bounds = [BOUND.fullmatch(requirement) for requirement in dict.fromkeys(declared)]
    return [f"{bound[1]}=={bound[2]}{bound[3]}" for bound in bounds if bound is not None]


if __name__ == "__main__":
    print("\n".join(list_oldest()))
