"""The pages of docs/contributing/ are followed: what they say is put into a copy of the package, and what they type is
run there.

    `path/to/file`:                                the block below is a new file
    `path/to/file`, below `a line of it`:          the lines of the block below, which begin with +, follow that line
    a console block                                is run in a folder with the demo's inputs, and prints what is shown

New files under tests/ are run as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from callgrove.cli.verbs.demo import make_inputs
from tests.requirements import ROOT
from tests.test_docs import commands
from tests.timing import HANG_SEC

FOLDER = ROOT / "docs" / "contributing"
BLOCK = re.compile(r"^`([^`\n]+)`(?:, below `([^`\n]+)`)?:\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """What a page says of one file; `below` is the line that its text follows, empty for a new file."""

    file: str
    below: str
    text: str


def steps_of(page: str) -> list[Step]:
    return [Step(*found.groups(default="")) for found in BLOCK.finditer(page)]


def follow(step: Step, copy: Path) -> None:
    """Do what a page says."""
    file = copy / step.file
    if not step.below:
        assert not file.exists(), f"{step.file} is there already"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(step.text, "utf-8")
        return
    text = file.read_text("utf-8")
    assert text.count(f"\n{step.below}\n") == 1, f"{step.file} has not one line `{step.below}`"
    added = "".join(line.removeprefix("+") for line in step.text.splitlines(keepends=True))
    file.write_text(text.replace(f"\n{step.below}\n", f"\n{step.below}\n{added}"), "utf-8")


def install(project: Path, site: Path) -> None:
    """What `pip install` leaves of a package that is one folder of modules, as far as entry points need it."""
    told = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    package = told["name"].replace("-", "_")
    copytree(project / package, site / package)
    info = site / f"{package}-{told['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in told["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs that `callgrove demo` makes."""
    folder = tmp_path_factory.mktemp("demo")
    make_inputs(folder)
    return folder


def run(words: list[str], folder: Path, *paths: Path) -> str:
    """What a command prints, with modules from some folders."""
    environment = {"PYTHONPATH": ":".join(map(str, paths)), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_SEC)
    assert done.returncode == 0, f"{words}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_can_be_followed(page: Path, demo: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    copytree(ROOT / "src" / "callgrove", tmp_path / "src" / "callgrove", ignore=ignore_patterns("__pycache__"))
    copytree(demo, tmp_path, dirs_exist_ok=True)
    steps, typed = steps_of(text), commands(text)
    assert steps
    assert typed
    for step in steps:
        follow(step, tmp_path)
    for project in tmp_path.glob("*/pyproject.toml"):
        install(project.parent, tmp_path / "site")
    for command in typed:
        paths = tmp_path / "src", tmp_path / "site"
        printed = run([sys.executable, "-W", "error", "-m", "callgrove", *command.arguments], tmp_path, *paths)
        stale = [line for line in command.shown if line not in {shown.rstrip() for shown in printed.splitlines()}]
        assert stale == [], f"{page.name}:{command.line}: `{command.text}` prints\n{printed}"
    for made in tmp_path.glob("modules.html"):
        assert "drawModules" in made.read_text("utf-8")
    if tests := [step.file for step in steps if step.file.startswith("tests/")]:
        words = ["-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", *tests]
        run([sys.executable, *words], tmp_path, tmp_path / "src")
    check_style(steps, tmp_path)


def check_style(steps: list[Step], copy: Path) -> None:
    """What a page shows passes the checks of this project."""
    files = sorted({str(copy / step.file) for step in steps if step.file.endswith(".py")})
    configured = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    run([sys.executable, "-m", "ruff", "check", *configured, *files], copy)
    run([sys.executable, "-m", "ruff", "format", "--check", *configured, *files], copy)


def pages_named() -> Iterator[str]:
    yield from re.findall(r"\(docs/contributing/(\w+\.md)\)", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))


def test_every_page_is_named() -> None:
    assert sorted(pages_named()) == sorted(page.name for page in FOLDER.glob("*.md"))
