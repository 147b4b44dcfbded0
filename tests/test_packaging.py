"""What packaging/ has: recipes agree with pyproject.toml, modules and the zipapp work, nothing is forgotten.

Wheels are checked by `make dist` (packaging/check.py), which installs them, too.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from callgrove._version import __version__
from tests.requirements import ROOT
from tests.timing import HANG_SEC

PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FOR_DEVELOPERS = {"all", "test", "docs"}
# Names of packages there, where they differ.
CONDA = {"duckdb": "python-duckdb", "isal": "python-isal"}
NOT_IN_SPACK = {"sql", "otf2", "zstd", "mcp", "elf", "fast"}
NOT_IN_CONDA = {"otf2", "backports.zstd", "mcp"}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PACKAGING / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bounds(requirements: list[str]) -> dict[str, str]:
    """The lower bounds of requirements, by name."""
    matches = [re.match(r"([\w.-]+)>=([\w.]+)", requirement) for requirement in requirements]
    return {match[1]: match[2] for match in matches if match is not None}


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The recipes for an sdist."""
    folder = tmp_path_factory.mktemp("recipes")
    sdist = folder / f"callgrove-{__version__}.tar.gz"
    sdist.write_bytes(b"an sdist")
    return {path.name: path.read_text("utf-8") for path in load("make_recipes").make_recipes(sdist, folder)}


def test_recipes_name_the_sdist(recipes: Mapping[str, str]) -> None:
    assert sorted(recipes) == ["package.py", "recipe.yaml"]
    for text in recipes.values():
        assert hashlib.sha256(b"an sdist").hexdigest() in text
        assert __version__ in text
        assert not re.search(r"@[A-Z0-9]+@|make recipes", text)


def test_the_recipe_for_spack_asks_for_what_the_project_asks(recipes: Mapping[str, str]) -> None:
    tree = ast.parse(recipes["package.py"])
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    given: dict[str, set[tuple[str, str]]] = {}
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id == "depends_on":
            name, _, version = str(ast.literal_eval(call.args[0])).partition("@")
            when = next((str(ast.literal_eval(k.value)) for k in call.keywords if k.arg == "when"), "")
            given.setdefault(when, set()).add((name, version.rstrip(":")))
    core = {("python", "3.11"), ("py-hatchling", "1.27"), ("py-numpy", bounds(PROJECT["dependencies"])["numpy"])}
    expected = {"": core} | {
        f"+{extra}": {(f"py-{name}", version) for name, version in bounds(EXTRAS[extra]).items()}
        for extra in EXTRAS.keys() - FOR_DEVELOPERS - NOT_IN_SPACK
    }
    assert given == expected
    variants = {ast.literal_eval(c.args[0]) for c in calls if isinstance(c.func, ast.Name) and c.func.id == "variant"}
    assert {f"+{variant}" for variant in variants} == set(given) - {""}


def test_the_recipe_for_conda_asks_for_what_the_project_asks(recipes: Mapping[str, str]) -> None:
    recipe: dict[str, Any] = yaml.safe_load(recipes["recipe.yaml"])
    known = {"schema_version", "context", "package", "source", "build", "requirements", "tests", "about", "extra"}
    assert recipe.keys() == known, "the keys of a recipe of rattler-build"
    assert f"numpy >={bounds(PROJECT['dependencies'])['numpy']}" in recipe["requirements"]["run"]
    optional = {
        name: version for extra in EXTRAS.keys() - FOR_DEVELOPERS for name, version in bounds(EXTRAS[extra]).items()
    }
    expected = {
        f"{CONDA.get(name, name)} >={version}" for name, version in optional.items() if name not in NOT_IN_CONDA
    }
    assert set(recipe["requirements"]["run_constraints"]) == expected
    scripts = {f"{name} = {place}" for name, place in PROJECT["scripts"].items()}
    assert set(recipe["build"]["python"]["entry_points"]) == scripts
    assert recipe["about"]["license"] == PROJECT["license"]


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (citation["version"], citation["license"]) == (__version__, PROJECT["license"])


def test_modules_are_of_this_version() -> None:
    names = {path.name for path in (PACKAGING / "modules" / "callgrove").iterdir()}
    assert names == {__version__, f"{__version__}.lua"}
    for name in names:
        assert f"{__version__}" in (PACKAGING / "modules" / "callgrove" / name).read_text("utf-8")


def test_the_container_has_extras_that_exist_and_no_root() -> None:
    text = (PACKAGING / "Containerfile").read_text("utf-8")
    named = re.search(r"\[([a-z0-9,]+)\]", text)
    assert named is not None
    assert set(named[1].split(",")) <= EXTRAS.keys() - FOR_DEVELOPERS
    users = re.findall(r"^USER (.*)", text, re.MULTILINE)
    assert users == ["1000:1000"]
    assert ":latest" not in text


def test_every_extra_has_a_use_that_is_tried() -> None:
    assert load("check").USES.keys() >= EXTRAS.keys() - FOR_DEVELOPERS


def test_oldest_versions_are_those_declared() -> None:
    oldest = load("oldest").list_oldest()
    assert f"numpy=={bounds(PROJECT['dependencies'])['numpy']}" in oldest
    assert f"pandas=={bounds(EXTRAS['pandas'])['pandas']}" in oldest
    assert not any(">" in one for one in oldest)


# -- the zipapp --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of the sources, as if they came from a wheel."""
    folder = tmp_path_factory.mktemp("zipapp")
    wheel = folder / "callgrove.whl"
    source = ROOT / "src" / "callgrove"
    with zipfile.ZipFile(wheel, "w") as members:
        for path in [*source.rglob("*.py"), *source.rglob("*.js"), *source.rglob("*.css")]:
            members.write(path, path.relative_to(ROOT / "src").as_posix())
        for page in (ROOT / "docs").glob("*.md"):
            members.write(page, f"callgrove/docs/{page.name}")
    load("make_zipapp").make_zipapp(wheel, folder / "callgrove.pyz", [])
    return folder / "callgrove.pyz"


def run(
    zipapp: Path, *words: str, cache: Path, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, "XDG_CACHE_HOME": str(cache), **(more or {})}
    command = [sys.executable, str(zipapp), *words]
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=HANG_SEC, check=False)


def test_the_zipapp_runs_and_is_unpacked_once(zipapp: Path, tmp_path: Path) -> None:
    assert run(zipapp, "--version", cache=tmp_path).stdout == f"callgrove {__version__}\n"
    (unpacked,) = (tmp_path / "callgrove").iterdir()
    assert (unpacked / "callgrove" / "viewer" / "static" / "main.js").is_file()
    (unpacked / "callgrove" / "_version.py").write_text('__version__ = "of the cache"\n')
    assert run(zipapp, "--version", cache=tmp_path).stdout == "callgrove of the cache\n"
    assert run(zipapp, "help", "cube", cache=tmp_path).stdout.startswith("Cube")


def test_the_zipapp_runs_where_nothing_can_be_written(zipapp: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(zipapp, "--version", cache=tmp_path / "file")
    assert (done.stdout, done.stderr) == (f"callgrove {__version__}\n", "")


def test_the_zipapp_says_what_is_missing(zipapp: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "numpy.py").write_text('__version__ = "1.26.4"\n')
    done = run(zipapp, "--version", cache=tmp_path, more={"PYTHONPATH": str(tmp_path / "old")})
    assert done.returncode == 1
    assert done.stderr.startswith(f"callgrove.pyz: it needs NumPy 2.0 or newer, which {sys.executable} does not have.")
