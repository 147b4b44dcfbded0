"""List callgrove and all that its extras bring, as installed here: a software bill of materials, CycloneDX 1.5.

`python .ci/sbom.py FILE`; the same environment gives the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = "callgrove"
EXTRAS = "all"
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?")
EXTRA = re.compile(r"extra\s*==\s*[\"']([^\"']+)[\"']")


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required_by(package: Distribution, extras: frozenset[str]) -> dict[str, frozenset[str]]:
    """Return what a package requires under some of its extras, with the extras that it asks of each."""
    wanted: dict[str, frozenset[str]] = {}
    for text in package.requires or ():
        match = REQUIREMENT.match(text)
        if match is None:
            continue
        asked_by = EXTRA.search(match[4] or "")
        if asked_by is None or normalize(asked_by[1]) in extras:
            more = frozenset(normalize(extra.strip()) for extra in (match[2] or "").split(",") if extra.strip())
            name = normalize(match[1])
            wanted[name] = wanted.get(name, frozenset()) | more
    return wanted


def collect() -> tuple[dict[str, Distribution], dict[str, list[str]]]:
    """Return the installed packages that callgrove needs or may use, and what each depends on."""
    packages: dict[str, Distribution] = {}
    edges: dict[str, set[str]] = {}
    seen: dict[str, frozenset[str]] = {}
    waiting = [(ROOT, frozenset({EXTRAS}))]
    while waiting:
        name, extras = waiting.pop()
        known = seen.get(name)
        if known is not None and extras <= known:
            continue
        seen[name] = extras | (known or frozenset())
        try:
            packages[name] = distribution(name)
        except PackageNotFoundError:
            continue  # for another system, or not installed: it is not part of this environment
        wanted = required_by(packages[name], seen[name])
        edges.setdefault(name, set()).update(wanted)
        waiting += list(wanted.items())
    return packages, {name: sorted(edges[name] & packages.keys() - {name}) for name in packages}


def describe(name: str, package: Distribution) -> dict[str, Any]:
    about: dict[str, Any] = {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": package.version,
        "purl": f"pkg:pypi/{name}@{package.version}",
    }
    told = package.metadata.get("License-Expression") or package.metadata.get("License") or ""
    if told and "\n" not in told:
        about["licenses"] = [{"license": {"name": told}}]
    return about


def main() -> None:
    packages, edges = collect()
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**describe(ROOT, packages[ROOT]), "type": "application"}},
        "components": [describe(name, packages[name]) for name in sorted(packages) if name != ROOT],
        "dependencies": [{"ref": name, "dependsOn": edges[name]} for name in sorted(edges)],
    }
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
