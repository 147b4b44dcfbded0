"""Every `$ callgrove ...` line in a ```console block of the documentation is run, must succeed, and prints the lines
that are shown below it; so is every ```python block run, but for those that name files of the reader, and every
```sql block.

The commands of one document run in order in one folder, which holds what `callgrove demo --keep .` writes there, and
the files that the document shows: a line "`name`:" with a ```text block below it. Its Python blocks are one program,
which runs after them. Pages of docs/contributing/ change the package: these are followed
by test_contributing.py.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copytree

import duckdb
import pytest

from callgrove.cli.main import main
from tests.requirements import ROOT
from tests.timing import HANG_SEC

DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/tutorials/*.md"), *ROOT.glob("bench/**/*.md")]
)
# Python that cannot run as it stands: an outline, other programs' code, or measurements that the demo does not make.
SKETCHES = ("design.md", "peers.md", "hpcrun.md", "hpcstruct.md", "hpctrace.md")
MAKES_THE_FOLDER = "callgrove demo --keep ."
SHELL_OPERATORS = frozenset("();<>|&")
SHOWN_FILE = re.compile(r"^`([\w.-]+(?:/[\w.-]+)*)`:\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    line: int
    text: str
    shown: tuple[str, ...] = ()  # lines of its output, which may leave some out

    @property
    def arguments(self) -> list[str]:
        """The words after `callgrove`."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        operators = [word for word in words if set(word) <= SHELL_OPERATORS]
        if operators:
            raise ValueError(f"line {self.line}: `{self.text}` needs a shell ({operators[0]}); use -o, or two commands")
        return words[1:]


def fenced_lines(text: str, language: str) -> Iterator[tuple[int, str]]:
    """The lines of the blocks in one language, with their numbers from 1."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fence = None if fence is not None else line[3:].strip()
        elif fence == language:
            yield number, line


def console_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of the ```console blocks; a backslash joins a line with the next."""
    held: tuple[int, str] | None = None
    for number, line in fenced_lines(text, "console"):
        start, joined = (held[0], held[1] + line.lstrip()) if held else (number, line)
        held = (start, joined[:-1]) if joined.endswith("\\") else None
        if held is None:
            yield start, joined


def program(text: str) -> str:
    """The ```python blocks of a document as one program whose line numbers are those of the document."""
    lines = dict(fenced_lines(text, "python"))
    return "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))


def commands(text: str) -> list[Command]:
    """The callgrove commands of a document; what else stands after `$ ` is for the reader to run."""
    typed: list[Command] = []
    for number, line in console_lines(text):
        if line.startswith("$ "):
            typed.append(Command(number, line[2:].strip()))
        elif typed and line.strip() not in ("", "..."):
            typed[-1] = replace(typed[-1], shown=(*typed[-1].shown, line.rstrip()))
    return [command for command in typed if command.text.split()[:1] == ["callgrove"]]


def queries(text: str) -> list[str]:
    """The queries of the ```sql blocks, for DuckDB."""
    lines = [line.partition("--")[0] for _, line in fenced_lines(text, "sql")]
    return [query for query in "\n".join(lines).split(";") if query.strip()]


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `callgrove demo --keep .` writes, made by a process of its own as a reader would."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "callgrove", "demo", "--keep", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_SEC)
    assert done.returncode == 0, done.stderr
    return folder


def runnable(path: Path) -> bool:
    text = path.read_text("utf-8")
    return bool(commands(text) or (program(text) and path.name not in SKETCHES))


@pytest.mark.parametrize(
    "document", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in DOCUMENTS if runnable(path)]
)
def test_documented_commands_and_programs_succeed(
    document: Path, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copytree(demo, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    text = document.read_text("utf-8")
    for name, content in SHOWN_FILE.findall(text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, "utf-8")
    for command in commands(text):
        if command.text == MAKES_THE_FOLDER:  # it is there, and is not overwritten
            continue
        status = main(command.arguments)
        out, err = capsys.readouterr()
        assert status == 0, f"{document.name}:{command.line}: `{command.text}`\n{err}"
        printed = {line.rstrip() for line in (*out.splitlines(), *err.splitlines())}
        stale = [line for line in command.shown if line not in printed]
        assert stale == [], f"{document.name}:{command.line}: `{command.text}` prints\n{out}"
    assert [query for query in queries(text) if not duckdb.connect().execute(query).fetchall()] == []
    if document.name not in SKETCHES and (code := program(text)):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=HANG_SEC,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_the_readme_shows_commands() -> None:
    assert commands((ROOT / "README.md").read_text("utf-8"))


EXAMPLE = """\
```console
$ make demo
$ callgrove top run.d -m "time (s)" \\
    --limit 3
name  exclusive
$ callgrovel
```
$ callgrove outside a block
```python
$ callgrove in another block
```
```console
$ callgrove sql run.d "SELECT 1 WHERE 2 > 1"
```
"""


def test_commands_are_found() -> None:
    found = commands(EXAMPLE)
    assert [command.line for command in found] == [3, 13]
    assert found[0].arguments == ["top", "run.d", "-m", "time (s)", "--limit", "3"]
    assert found[1].arguments == ["sql", "run.d", "SELECT 1 WHERE 2 > 1"]
    assert [command.shown for command in found] == [("name  exclusive",), ()]


@pytest.mark.parametrize("text", ["callgrove export a > b", "callgrove top a|head", "callgrove top a && callgrove b"])
def test_a_command_that_needs_a_shell_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="needs a shell"):
        _ = Command(1, text).arguments


def _anchors(page: Path) -> set[str]:
    """The names of a page's headings, as hosts of Markdown make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if not link.startswith("http"):
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
            assert target.exists(), link
            assert not anchor or anchor in _anchors(target), link


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tutorials").glob("*.md")]
    names = [page.relative_to(ROOT / "docs").as_posix() for page in pages]
    assert [name for name in names if f"]({name})" not in index] == ["README.md"]


def test_comparisons_have_the_figures_that_were_measured() -> None:
    spec = importlib.util.spec_from_file_location("comparisons", ROOT / "docs" / "comparisons.py")
    assert spec is not None
    assert spec.loader is not None
    comparisons = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(comparisons)
    page = comparisons.PAGE.read_text("utf-8")
    assert len(comparisons.list_rows()) > 10
    assert page == comparisons.fill(page), "`python docs/comparisons.py` writes them into docs/peers.md"
