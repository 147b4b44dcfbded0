"""Formats of other packages: listed, read and written like ours; broken ones are named, and harm no others."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from callgrove.cli.verbs.demo import make_inputs
from tests.requirements import ROOT, need
from tests.timing import HANG_SEC

GOOD = """
from callgrove.formats.interface import Entry

ENTRIES = [
    Entry("lines", "lines of functions", "lines_plugin.format:FORMAT", writes=True, suffixes=(".lines",),
          dialects=("plain", "loud"), usual_names=(".lines",)),
    Entry("cube", "a second Cube", "lines_plugin.format:FORMAT"),
]
"""
FORMAT = """
from callgrove.errors import UsageError
from callgrove.formats.interface import Grade, LossReport, Match
from callgrove.formats.writing.targets import PendingFile
from callgrove.formats.writing.writer import TargetWriter
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind


class LinesWriter(TargetWriter):
    def __init__(self, pending, dialect):
        super().__init__(pending)
        self.dialect = dialect

    def _begin(self, tables):
        self._open = tables

    def _take(self, opened, chunk):
        self._report.add("values: this format has only names")

    def _finish(self, opened):
        names = [opened.contexts.regions.label(region) for region in opened.contexts.region.tolist()]
        self._pending.place.write_text("lines 1\\n" + "".join(f"{name} 1\\n" for name in names))

    def _give_up(self, opened):
        pass


class Lines:
    name, title = "lines", "lines of functions"

    def match(self, source):
        return Match(Grade.STRONG, "lines") if source.head(6) == b"lines " else None

    def read(self, source, options):
        words = source.path.read_text().split()
        builder = ExperimentBuilder("lines", words[1], path=str(source.path))
        builder.add_metric(Metric("time", Scope.EXCLUSIVE, "s"))
        builder.add_profile(ProfileKind.THREAD)
        for name, seconds in zip(words[2::2], words[3::2]):
            context = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
            builder.add_values(0, context, 0, float(seconds))
        return builder.build()

    def open_writer(self, target, options):
        return LinesWriter(PendingFile(target, options.overwrite), options.dialect)


FORMAT = Lines()
"""
BROKEN = {  # of packages: the module of the entry point, and what is said
    "no-module": (None, "cannot be loaded (no_module:ENTRY): ModuleNotFoundError: No module named 'no_module'"),
    "no-import": ("import not_there_at_all\n", "cannot be loaded (no_import:ENTRY): ModuleNotFoundError"),
    "leaves": ("raise SystemExit('bye')\n", "cannot be loaded (leaves:ENTRY): SystemExit: bye"),
    "wrong-object": ("ENTRY = 7\n", "wrong_object:ENTRY should be an Entry or a list of them, and holds an object of"),
    "no-format": (
        "from callgrove.formats.interface import Entry\nENTRY = Entry('nf', 'nothing', 'no_format:FORMAT')\n",
        "its format nf cannot be loaded (no_format:FORMAT): AttributeError",
    ),
    "no-read": (
        "from callgrove.formats.interface import Entry\nENTRY = Entry('nr', 'none', 'no_read:FORMAT')\n"
        "class FORMAT:\n    name = 'nr'\n    match = print\n",
        "its format nr cannot be used: no_read:FORMAT has no function read",
    ),
    "raises": (
        "from callgrove.formats.interface import Entry\nENTRY = Entry('ra', 'raises', 'raises:FORMAT')\n"
        "class Raises:\n    name = 'ra'\n    def match(self, source):\n        raise KeyError('oh')\n"
        "    def read(self, source, options):\n        return {}[str(source.path.name)]\nFORMAT = Raises()\n",
        "its format ra failed to look at a file: KeyError: 'oh'",
    ),
    "no-match": (
        "from callgrove.formats.interface import Entry\nENTRY = Entry('nm', 'no match', 'no_match:FORMAT')\n"
        "class NoMatch:\n    name = 'nm'\n    read = print\n    def match(self, source):\n        return 'yes'\n"
        "FORMAT = NoMatch()\n",
        "its format nm answers 'yes' instead of a Match or None",
    ),
}


def install(site: Path, package: str, point: str, **modules: str) -> None:
    """What an installed package consists of, as far as entry points need it."""
    info = site / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[callgrove.formats]\nit = {point}\n")
    for name, text in modules.items():
        file = site / f"{name.replace('.', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def install_good(site: Path) -> None:
    modules = {"lines_plugin.__init__": GOOD, "lines_plugin.format": FORMAT}
    install(site, "lines-plugin", "lines_plugin:ENTRIES", **modules)


def install_broken(site: Path) -> None:
    for package, (module, _) in BROKEN.items():
        name = package.replace("-", "_")
        install(site, package, f"{name}:ENTRY", **({name: module} if module is not None else {}))


def callgrove(folder: Path, site: Path, *words: str, code: int = 0) -> tuple[str, list[str]]:
    """What a command prints, and the lines that it says, with the packages of a folder."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{site}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "callgrove", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_SEC)
    assert done.returncode == code, f"{words}: {done.stderr}"
    return done.stdout, done.stderr.splitlines()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages of which one works."""
    install_good(tmp_path / "site")
    (tmp_path / "run.lines").write_text("lines 1\nmain 1.5\nsolve 2.5\n")
    return tmp_path / "site"


def test_a_plug_in_is_read_by_every_verb(site: Path, tmp_path: Path) -> None:
    out, said = callgrove(tmp_path, site, "run.lines")
    assert "format     lines 1" in out
    rows = json.loads(callgrove(tmp_path, site, "top", "run.lines", "--format", "json")[0])
    assert [(row["name"], row["exclusive"]) for row in rows] == [("solve", 2.5), ("main", 1.5)]
    assert callgrove(tmp_path, site, "top", "run.lines", "--from", "lines")[0]
    (tmp_path / "hidden").write_bytes((tmp_path / "run.lines").read_bytes())
    assert "lines 1" in callgrove(tmp_path, site, "info", "hidden")[0]
    why = "its format cube is left out, as callgrove has one of that name"
    assert said == [f"callgrove: the plug-in lines-plugin: {why}"]


def test_a_plug_in_is_listed_with_its_package(site: Path, tmp_path: Path) -> None:
    rows = json.loads(callgrove(tmp_path, site, "formats", "--format", "json")[0])
    of = {row["name"]: row for row in rows}
    assert of["lines"] == {
        "name": "lines",
        "title": "lines of functions",
        "reads": "yes",
        "writes": "yes",
        "missing": None,
        "package": "lines-plugin",
    }
    assert of["cube"]["package"] is None
    assert "Cube 4" in of["cube"]["title"]


def test_a_plug_in_is_written(site: Path, tmp_path: Path) -> None:
    _, said = callgrove(tmp_path, site, "convert", "run.lines", "copy.lines", "--dialect", "loud")
    assert "callgrove: lost: values: this format has only names" in said
    assert (tmp_path / "copy.lines").read_text() == "lines 1\nmain 1\nsolve 1\n"
    assert callgrove(tmp_path, site, "convert", "run.lines", "x", "--to", "lines")[1] == said
    _, said = callgrove(tmp_path, site, "convert", "run.lines", "y.lines", "--dialect", "quiet", code=2)
    assert said[-1] == "callgrove: the format lines has plain, loud, not 'quiet'"


def test_a_folder_of_runs_of_a_plug_in(site: Path, tmp_path: Path) -> None:
    for p in (2, 4):
        folder = tmp_path / "study" / f"app.p{p}"
        folder.mkdir(parents=True)
        (folder / "run.lines").write_text(f"lines 1\nmain {p}\n")
    out, _ = callgrove(tmp_path, site, "export", "study", "--table", "series", "--format", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["callpath"], row["p"], row["mean"]) for row in rows] == [("main", 2, 2), ("main", 4, 4)]


def test_broken_plug_ins_are_named_once_and_break_nothing(site: Path, tmp_path: Path) -> None:
    install_broken(site)
    out, said = callgrove(tmp_path, site, "info", "run.lines")
    assert "format     lines 1" in out
    assert [line for line in said if not line.startswith("callgrove: the plug-in ")] == []
    for package, (_, why) in BROKEN.items():
        (line,) = [line for line in said if line.startswith(f"callgrove: the plug-in {package}: ")]
        assert line.startswith(f"callgrove: the plug-in {package}: {why}")
    rows = json.loads(callgrove(tmp_path, site, "formats", "--format", "json")[0])
    assert {row["name"] for row in rows if row["package"]} == {"lines", "ra", "nm"}


def test_a_plug_in_is_blamed_for_its_errors(site: Path, tmp_path: Path) -> None:
    install_broken(site)
    _, said = callgrove(tmp_path, site, "top", "run.lines", "--from", "ra", code=1)
    assert said[-1].startswith("callgrove: this is a bug in the plug-in raises: KeyError: 'run.lines'; run again")
    _, said = callgrove(tmp_path, site, "top", "run.lines", "--from", "nf", code=2)
    assert said[-1] == "callgrove: the format nf of the package no-format cannot be used"


def test_inputs_of_ours_ask_no_plug_in(site: Path, tmp_path: Path) -> None:
    """Looking for plug-ins takes a while on large installations; nobody pays for it whose format is ours."""
    install_broken(site)
    make_inputs(tmp_path)
    commands = ["top stencil.d", "summary train.db", "info scaling.txt", "convert stencil.d out.cubex", "top out.cubex"]
    for command in commands:
        _, said = callgrove(tmp_path, site, *command.split())
        assert not any("plug-in" in line for line in said), command


def test_the_library_warns(site: Path, tmp_path: Path) -> None:
    """Of a broken plug-in, and goes on."""
    install_broken(site)
    program = (
        "import warnings, callgrove\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    print(callgrove.open('run.lines').format, len(said), {w.category.__name__ for w in said})\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{site}"}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_SEC)
    assert done.stdout == f"lines {len(BROKEN) + 1} {{'PluginWarning'}}\n", done.stderr


def test_pip_installs_a_plug_in(site: Path, tmp_path: Path) -> None:
    """As a wheel, which needs no network."""
    if find_spec("pip") is None:
        need("pip", "pip is not installed")
    wheel = tmp_path / "lines_plugin-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        files = {str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()}
        files["lines_plugin-1.0.dist-info/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        for name, content in files.items():
            archive.writestr(name, content)
        digests = {name: hashlib.sha256(content).digest() for name, content in files.items()}
        lines = [f"{n},sha256={base64.urlsafe_b64encode(d).decode().rstrip('=')}," for n, d in digests.items()]
        record = "lines_plugin-1.0.dist-info/RECORD"
        archive.writestr(record, "\n".join([*lines, f"{record},,"]))
    target = tmp_path / "installed"
    words = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", str(target)]
    done = subprocess.run([sys.executable, "-m", "pip", *words, str(wheel)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "format     lines 1" in callgrove(tmp_path, target, "run.lines")[0]
