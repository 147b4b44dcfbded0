"""The shape of the package: which way imports point, what is public, what starting the command line costs.

Imports are read from the syntax tree, so those inside functions and under TYPE_CHECKING count as well.
Formats that the registry names as strings are not imports: it loads them when they are asked for.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.requirements import ROOT
from tests.timing import HANG_SEC

SOURCE = ROOT / "src" / "callgrove"

# A layer may import those named here and everything that they may import. `OPEN_TO_ALL` says which anybody may.
# `callgrove` is the package's own `__init__`: it gives the public names, so it may import all but the command line,
# and nothing but the command line may import it.
DIRECTLY_BELOW: dict[str, set[str]] = {
    "errors": set(),
    "_version": set(),
    "arrays": set(),
    "user_cache": set(),
    "binary": set(),
    "model": set(),
    "patterns": {"model"},
    "examples": {"model"},
    "execute": set(),
    "algebra": {"patterns"},
    "analysis": {"patterns", "execute"},
    "modeling": {"analysis", "execute"},  # whose findings a study is explained by
    "formats": {"binary", "model", "execute"},
    "prof": {"formats"},
    "query": {"analysis"},
    "frames": {"analysis"},
    "render": {"analysis", "modeling"},
    "explore": {"render", "algebra"},
    # The server shows the rows of the terminal's views, answers SQL, and looks whether files are still the same.
    "viewer": {"explore", "query", "binary"},
    "assistant": {"formats", "render", "query", "algebra"},
    "callgrove": {"viewer", "prof", "examples", "algebra", "query", "frames"},
    "watch": {"formats", "analysis"},
    "cli": {"callgrove", "assistant", "watch"},
    "__main__": {"cli"},
    "rocpd": {"cli"},
}
OPEN_TO_ALL = {"errors", "_version", "arrays", "user_cache"}

# The one door from the model to the layers above: the methods of experiments and studies, which import the plain
# functions behind them when they are called. Everything else in the model knows none of these layers.
DOOR = "callgrove.model.methods"
BEHIND_THE_DOOR = {"algebra", "analysis", "formats", "frames", "modeling", "patterns", "query", "render", "viewer"}

# The modules of `formats` that belong to no format. They import no format, and are all that formats have in common.
SHARED_BY_FORMATS = {
    *("", "detection", "events", "interface", "folders", "plugins", "registry", "run_names", "text_profiles", "writing")
}


LARGEST_FOLDER = 20  # modules, its `__init__` included: a reader takes in about twenty at a glance
SMALL, CHAPTER = 80, 400  # lines: what is smaller than the first belongs to its one importer, up to the second together


@dataclass(frozen=True)
class Import:
    module: str
    imported: str
    line: int


def layer(module: str) -> str:
    """`model` for callgrove.model.values; `callgrove` for the package's own `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def may_import(layer: str) -> set[str]:
    """All that lies below a layer, itself included."""
    below = {layer} | OPEN_TO_ALL
    for name in DIRECTLY_BELOW[layer]:
        below |= may_import(name)
    return below


def format_of(module: str) -> str:
    """`cube` for callgrove.formats.cube.index; empty for callgrove.formats itself."""
    return ".".join(module.split(".")[2:3])


def modules_of(package: Path) -> dict[str, Path]:
    """Dotted name -> file, for every module under a package's folder."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def imports_of(module: str, path: Path, modules: dict[str, Path]) -> Iterator[Import]:
    """Every import of one of `modules`. `from package import name` imports package.name where that is a module."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            inner = [f"{source}.{alias.name}" for alias in node.names]
            targets = [name if name in modules else source for name in inner]
        else:
            continue
        for target in dict.fromkeys(targets):
            if target.partition(".")[0] == module.partition(".")[0]:
                yield Import(module, target, node.lineno)


def complaint(found: Import) -> str | None:
    """What is wrong with an import, if anything."""
    importer, imported = layer(found.module), layer(found.imported)
    if f"{found.module}.".startswith(f"{DOOR}.") and imported in BEHIND_THE_DOOR:
        return None
    for name in (importer, imported):
        if name not in DIRECTLY_BELOW:
            return f"{name} has no place in the order of layers"
    if imported not in may_import(importer):
        return f"{importer} must not import {imported}"
    if importer == imported == "formats":
        ours, theirs = format_of(found.module), format_of(found.imported)
        if theirs not in SHARED_BY_FORMATS and ours != theirs:
            return f"formats.{ours or '__init__'} must not import formats.{theirs}: formats meet in the registry"
    return None


def violations(package: Path) -> list[str]:
    """One line per import that points the wrong way."""
    modules = modules_of(package)
    found = [entry for module, path in modules.items() for entry in imports_of(module, path, modules)]
    return [f"{entry.module}:{entry.line}: {why}" for entry in found if (why := complaint(entry))]


def test_imports_point_one_way() -> None:
    assert violations(SOURCE) == []


def test_the_door_opens_when_it_is_used() -> None:
    """The methods of an experiment import what is behind them when they are called, not with the model."""
    chapters = [ast.parse(path.read_bytes()) for path in (SOURCE / "model" / "methods").glob("*.py")]
    at_once = [node for tree in chapters for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    ours = {getattr(node, "module", "") for node in at_once if "callgrove" in ast.unparse(node)}
    assert {name for name in ours if not name.startswith(f"{DOOR}.")} == {"callgrove.errors"}


def flags_in(path: Path) -> Iterator[str]:
    """Texts of a module that name a flag of the command line, but for docstrings."""
    tree = ast.parse(path.read_bytes())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else None
        if isinstance(text, str) and re.search(r"(^|[ (`])--[a-z]", text):
            yield text


# Texts that name flags on purpose: commands to copy, flags of other programs, what a page says, a made-up command line.
NAMING_FLAGS = {
    *("analysis/__init__.py", "examples.py", "execute/engines.py", "formats/gpu/nsight/extrap.py"),
    *("formats/detection.py", "render/facts.py", "render/facts.py", "viewer/summaries.py"),
    *("viewer/comparison.py", "viewer/profile.py", "viewer/summaries.py", "viewer/timeline/maker.py"),
    *(
        "viewer/server/guard.py",
        "analysis/explain/single_run.py",
        "analysis/explain/two_runs.py",
        "modeling/sentences.py",
    ),
    *("assistant/commands.py", "assistant/tools.py", "viewer/commands.py"),
}


def test_only_the_command_line_names_flags() -> None:
    """Errors of the library name parameters, which the command line spells as flags."""
    found = {
        str(path.relative_to(SOURCE)): list(flags_in(path))
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != "cli"
    }
    assert {name: texts for name, texts in found.items() if texts and name not in NAMING_FLAGS} == {}


def test_the_command_line_knows_every_parameter_that_an_error_names() -> None:
    from callgrove.cli.messages import FLAGS, PHRASES

    calls = [
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Parameter"
    ]
    named = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
    known = {*FLAGS, *(phrase.name for phrase in PHRASES)}
    assert len(named) > 20
    assert named <= known
    assert known <= named | {"align", "rank_env", "kernel_names"}, "which the registry names by variable"


READS_ARGUMENTS = "parser.py"  # of the command line: the one module that makes typed options of what argparse gives
UNTYPED = re.compile(r"(argparse\.)?Namespace$|vars\(|(get|set|has)attr\((args|options|namespace)\b")


def untyped_options(folder: Path) -> list[str]:
    """Return the lines of the command line that see a Namespace, or take options by names that nothing checks."""
    return [
        f"{path.relative_to(folder)}:{node.lineno}"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call | ast.Attribute | ast.Name) and UNTYPED.match(ast.unparse(node))
    ]


def test_options_of_the_command_line_are_typed() -> None:
    """Verbs take a dataclass; what has no field or no argument is an error of the type checker or of the parser."""
    lines = untyped_options(SOURCE / "cli")
    assert {line.partition(":")[0] for line in lines} == {READS_ARGUMENTS}


@pytest.mark.parametrize(
    "text",
    [
        "getattr(args, 'run', None)",
        "setattr(options, 'run', None)",
        "f(**{**vars(args), 'path': path})",
        "argparse.Namespace(path=path)",
        "def run(args: Namespace) -> int: ...",
    ],
)
def test_untyped_options_are_found(tree: Path, text: str) -> None:
    (tree / "cli" / "top.py").write_text("getattr(signal, 'SIGHUP')\noptions.run\n")
    assert untyped_options(tree / "cli") == []
    (tree / "cli" / "top.py").write_text(text)
    assert untyped_options(tree / "cli")


def test_every_module_has_a_layer() -> None:
    assert {layer(module) for module in modules_of(SOURCE)} <= DIRECTLY_BELOW.keys()


def package_map(package: Path) -> tuple[set[str], set[str]]:
    """What a package consists of, and what its docstring says that it does: `name.py`, `name/`."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_bytes())) or ""
    modules = {path.name for path in package.glob("[!_]*.py")}
    packages = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    return modules | packages, set(re.findall(r"\w+(?:\.py\b|/)", text))


def test_every_package_names_its_modules() -> None:
    """In the docstring of a package a reader finds what each module is for; that of a verb is told by its name."""
    from callgrove.cli.main import VERBS

    verbs = {f"{verb.module.rpartition('.')[2]}.py" for verb in VERBS}
    for path in SOURCE.rglob("__init__.py"):
        there, named = package_map(path.parent)
        where = path.relative_to(SOURCE)
        if len(there) > 1:
            assert there - named <= (verbs if path.parent.name == "verbs" else set()), f"{where} does not name these"
        assert {name for name in named if name.endswith(".py")} <= there, f"{where} names what is not there"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package like ours in which nothing is imported yet."""
    package = tmp_path / "callgrove"
    folders = ("", "model", "model/methods", "binary", "formats", "formats/cube", "formats/hpcrun", "analysis")
    for folder in (*folders, "render", "cli"):
        (package / folder).mkdir(exist_ok=True)
        (package / folder / "__init__.py").touch()
    for module in ("errors", "model/values", "analysis/top", "formats/registry", "formats/cube/index", "render/svg"):
        (package / f"{module}.py").touch()
    return package


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("model/values.py", "import callgrove.analysis.top"),
        ("model/values.py", "import numpy, callgrove.analysis as a"),
        ("model/values.py", "from callgrove import analysis"),
        ("model/values.py", "from callgrove import open"),
        ("model/values.py", "from ..analysis.top import rank"),
        ("model/values.py", "from .. import analysis"),
        ("model/values.py", "def f():\n    from callgrove.binary import read"),
        ("model/__init__.py", "from ..formats.registry import formats"),
        ("model/__init__.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import callgrove.cli"),
        ("analysis/top.py", "from callgrove.formats.cube import Cube"),
        ("analysis/top.py", "from callgrove.render import svg"),
        ("binary/__init__.py", "from callgrove.model.values import Values"),
        ("formats/cube/index.py", "from callgrove.analysis.top import top"),
        ("formats/cube/index.py", "from callgrove.formats.hpcrun import read"),
        ("formats/cube/index.py", "from ..hpcrun import read"),
        ("formats/cube/index.py", "from callgrove.formats import hpcrun"),
        ("formats/registry.py", "from callgrove.formats.cube import Cube"),
        ("formats/__init__.py", "from .cube import Cube"),
        ("render/svg.py", "import callgrove.cli"),
        ("errors.py", "from callgrove.model import values"),
        ("helpers.py", "from callgrove.model import values"),
        ("model/methods/views.py", "from callgrove.cli.verbs import views as top"),
        ("model/values.py", "def f():\n    from callgrove.analysis.top import top"),
        ("cli/__init__.py", "from callgrove.helpers import anything"),
    ],
)
def test_a_wrong_import_is_found(tree: Path, module: str, text: str) -> None:
    assert violations(tree) == []
    (tree / module).write_text(text)
    assert len(violations(tree)) == 1


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("__init__.py", "from callgrove.model.values import Values\nfrom callgrove.formats.registry import open"),
        ("model/values.py", "import numpy\nfrom callgrove.errors import CorruptFile\nfrom . import values"),
        ("formats/cube/__init__.py", "from callgrove.formats.cube.index import Index\nfrom ..registry import formats"),
        ("formats/cube/index.py", "from callgrove.binary import read\nfrom callgrove.model.values import Values"),
        ("formats/registry.py", "FORMATS = {'cube': 'callgrove.formats.cube:Cube'}"),
        ("render/svg.py", "from callgrove.analysis.top import top\nfrom callgrove.model.values import Values"),
        ("cli/__init__.py", "import callgrove\nfrom callgrove.formats.cube import Cube"),
        ("model/methods/views.py", "def f():\n    from callgrove.analysis.top import top"),
    ],
)
def test_a_right_import_is_not(tree: Path, module: str, text: str) -> None:
    (tree / module).write_text(text)
    assert violations(tree) == []


# What lives as long as the process, and why that is right. Anything else that is remembered is an attribute of the
# object whose lifetime it shares, or of a cache that is passed in.
SHARED_STATE = {
    "binary/archives.py: engine": "the module that inflates, chosen once",
    "formats/columnar/folder.py: RECENT": "counts open files, of which a process may have only so many",
    "formats/interface.py: _load": "formats, each imported once",
    "formats/plugins.py: _said": "what was warned of is not said again in this process",
    "formats/plugins.py: find_plugins": "packages that are installed, which take long to look for",
    "formats/writing/targets.py: _where": "a fact of the machine",
    "modeling/functions.py: _all_terms": "terms to try, by options alone",
    "modeling/functions.py: _usual": "terms to try, by options alone",
    "modeling/multi.py: structures": "sums of products to try, by their number alone",
    "prof/binary_names.py: _demangler": "the C++ runtime of this machine",
    "prof/second_pass.py: load": "in a worker process nothing else lives from task to task",
    "render/text_formats.py: _json_writers": "writers of cells, by type alone",
    "viewer/page.py: modules": "files of the package",
    "viewer/page.py: style": "files of the package",
}
CONTAINERS = {"Counter", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary", "defaultdict", "deque"} | {
    *("dict", "list", "set", "bytearray")
}
CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft"} | {
    *("remove", "setdefault", "sort", "update")
}
READ_ONLY = ("Mapping[", "Sequence[", "Collection[")


def shared_state(path: Path) -> set[str]:
    """Return the names of a module under which something is remembered from call to call."""
    body = ast.parse(path.read_bytes()).body
    bound = {name: node for node in body for name in _bound_by(node)}
    functions = [node for top in body for node in ast.walk(top) if isinstance(node, ast.FunctionDef)]
    found = {name for name, node in bound.items() if _is_variable(name, node)}
    for function in functions:
        found |= _changed_by(function) & bound.keys()
        found |= {function.name for decorator in function.decorator_list if _caches(decorator)}
    return found


def _bound_by(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_variable(name: str, node: ast.stmt) -> bool:
    """Tell whether a name of a module is bound to an empty container, or to an object and not written as a constant."""
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    value = node.value
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).startswith(READ_ONLY):
        return False
    if isinstance(value, ast.List | ast.Set | ast.Dict):
        return not getattr(value, "elts", None) and not getattr(value, "keys", None)
    if not isinstance(value, ast.Call):
        return False
    kind = ast.unparse(value.func).rpartition(".")[2]
    return name.islower() or (kind in CONTAINERS and not value.args and not value.keywords)


def _changed_by(function: ast.FunctionDef) -> set[str]:
    """Return the names that a function changes and does not bind itself, or declares global."""
    nodes = list(ast.walk(function))
    changed = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    local = {node.arg for node in nodes if isinstance(node, ast.arg)}
    local |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in nodes:
        place: ast.AST | None = None
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            place = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            place = node.func.value
        if isinstance(place, ast.Name) and place.id not in local:
            changed.add(place.id)
    return changed


def _caches(decorator: ast.expr) -> bool:
    name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
    return name.rpartition(".")[2] in ("cache", "lru_cache")


def test_nothing_is_remembered_in_modules() -> None:
    there = {f"{path.relative_to(SOURCE)}: {name}" for path in SOURCE.rglob("*.py") for name in shared_state(path)}
    assert there - SHARED_STATE.keys() == set(), "keep it in an object that is passed in and dropped"
    assert SHARED_STATE.keys() - there == set(), "is remembered no more"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("KNOWN: dict[str, int] = {}", {"KNOWN"}),
        ("RECENT = deque()", {"RECENT"}),
        ("_latest = Latest()", {"_latest"}),
        ("TABLE = [1]\ndef f():\n    TABLE.append(2)", {"TABLE"}),
        ("TABLE = {1: 2}\ndef f():\n    TABLE[3] = 4", {"TABLE"}),
        ("STATE = State()\nclass A:\n    def f(self):\n        STATE.at = 1", {"STATE"}),
        ("N = 0\ndef f():\n    global N\n    N += 1", {"N"}),
        ("@functools.lru_cache(4)\ndef f(text): ...", {"f"}),
        ("NOTHING: Mapping[str, int] = {}\nTABLE = {1: 2}\nFORMAT = Format()\nWORD = re.compile('a')", set()),
        ("TABLE = [1]\ndef f(TABLE):\n    TABLE.append(2)", set()),
    ],
)
def test_what_is_remembered_is_found(tmp_path: Path, text: str, names: set[str]) -> None:
    module = tmp_path / "module.py"
    module.write_text(text)
    assert shared_state(module) == names


def bound_names(path: Path) -> set[str]:
    """The names that a module defines itself or takes from callgrove, those for type checkers included."""
    names: set[str] = set()
    pending = list(ast.parse(path.read_bytes()).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If):
            pending += [*node.body, *node.orelse]
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("callgrove")):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


def test_public_names_are_sorted_and_complete() -> None:
    import callgrove

    assert list(callgrove.__all__) == sorted(set(callgrove.__all__))
    public = {name for name in bound_names(SOURCE / "__init__.py") if not name.startswith("_")}
    assert public - set(callgrove.__all__) == set(), "public, but not in __all__"
    missing = [name for name in callgrove.__all__ if not hasattr(callgrove, name)]
    assert missing == [], "in __all__, but not there"


def missing_extras() -> set[str]:
    """The extras that errors name: the first argument of `MissingExtra(...)`."""
    calls = (
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "MissingExtra"
    )
    return {str(ast.literal_eval(call.args[0])) for call in calls}


def test_every_extra_that_an_error_names_can_be_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for_users = project["optional-dependencies"].keys() - {"all", "docs", "test"}
    assert missing_extras() == for_users - {"fast"}, "what `fast` brings is never missed"
    assert project["optional-dependencies"]["all"] == [f"callgrove[{','.join(sorted(for_users))}]"]


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_SEC, check=False
    )


def test_the_command_line_starts_without_numpy() -> None:
    done = run_python("import sys, callgrove.cli.main; print('numpy' in sys.modules)")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_help_needs_no_numpy() -> None:
    done = run_python(
        "import runpy, sys; sys.modules['numpy'] = None; sys.argv = ['callgrove', '--help'];"
        "runpy.run_module('callgrove', run_name='__main__')"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage" in done.stdout.lower()


def test_formats_that_nobody_asks_for_are_not_loaded() -> None:
    """Names say who is asked first; who is sure of the content spares the others."""
    database = ROOT / "tests" / "corpus" / "hpctoolkit" / "release" / "mpi4.d"
    done = run_python(
        f"import sys, callgrove; print(callgrove.open({str(database)!r}).format);"
        "print(sorted({m.split('.')[2] for m in sys.modules if m.startswith('callgrove.formats.')}))"
    )
    assert done.stderr == ""
    loaded = ["detection", "hpctoolkit", "interface", "registry"]
    assert done.stdout == f"hpctoolkit-release\n{loaded}\n"


UNUSED_BY_TOP = (
    *("callgrove.execute.engines", "callgrove.model.selection", "callgrove.model.study", "callgrove.model.books"),
    "callgrove.model.definitions",
    *("callgrove.analysis.columns", "callgrove.algebra", "callgrove.formats.hpctoolkit.prerelease", "callgrove.viewer"),
    *("concurrent.futures", "multiprocessing", "numpy.ma", "xml", "json", "html", "difflib", "rich"),
)
OPENINGS = """
import collections, contextlib, io, os, sys
from callgrove.cli.main import main
opened = collections.Counter()
folder = sys.argv[2]
sys.addaudithook(lambda event, of: event == "open" and str(of[0]).startswith(folder) and opened.update([of[0]]))
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    main(sys.argv[1:])
print({os.path.basename(path): n for path, n in opened.items()})
print(*sys.modules)
"""


@pytest.mark.parametrize("verb", ["top", "info"])
def test_a_look_at_a_small_database_imports_and_opens_what_it_needs(verb: str) -> None:
    """On a parallel file system every file takes its time."""
    database = ROOT / "tests" / "corpus" / "hpctoolkit" / "release" / "mpi4.d"
    command = [sys.executable, "-c", OPENINGS, verb, str(database)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SEC, check=True)
    opened, modules = done.stdout.splitlines()
    names = ["meta.db", "default.yaml", "profile.db", "cct.db", "trace.db"]
    assert ast.literal_eval(opened) == {name: 1 + (name == "meta.db") for name in names}, "meta.db has a mark as well"
    assert set(modules.split()) & set(UNUSED_BY_TOP) == set()


def test_reading_does_not_load_what_writes() -> None:
    """Who looks at a file waits for its reader alone."""
    database = ROOT / "tests" / "corpus" / "hpctoolkit" / "prerelease" / "mpi4.d"
    done = run_python(f"import callgrove, sys; callgrove.open({str(database)!r}); print(*sys.modules)")
    loaded = [name for name in done.stdout.split() if name.startswith("callgrove.") and "writer" in name]
    assert loaded == []


def lines_of(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def crowded(package: Path) -> dict[str, int]:
    """Return the folders with too many modules, and how many these have."""
    sizes = Counter(path.parent.relative_to(package).as_posix() for path in modules_of(package).values())
    return {folder: n for folder, n in sizes.items() if n > LARGEST_FOLDER}


def passes_on(path: Path) -> bool:
    """Tell whether a module has nothing but a docstring, imports and `__all__`."""
    kinds = (ast.Import, ast.ImportFrom, ast.Expr)
    body = ast.parse(path.read_bytes()).body
    return all(isinstance(node, kinds) or (isinstance(node, ast.Assign) and _names_all(node)) for node in body)


def _names_all(node: ast.Assign) -> bool:
    return all(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)


def lonely(package: Path) -> list[str]:
    """Return small modules that one neighbour alone imports, and that would fit into it."""
    modules = modules_of(package)
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for module, path in modules.items():
        for entry in imports_of(module, path, modules):
            if entry.imported != module:
                importers[entry.imported].add(module)
    alone = {name: next(iter(found)) for name, found in importers.items() if len(found) == 1}
    return [
        name
        for name, importer in alone.items()
        if modules[name].parent == modules[importer].parent
        and "__init__" not in (modules[name].stem, modules[importer].stem)
        and lines_of(modules[name]) < SMALL
        and lines_of(modules[name]) + lines_of(modules[importer]) <= CHAPTER
    ]


def test_no_folder_is_crowded() -> None:
    assert crowded(SOURCE) == {}


def test_no_module_only_passes_on() -> None:
    passing = [path for path in SOURCE.rglob("[!_]*.py") if passes_on(path)]
    assert passing == []


def test_small_modules_belong_to_their_importer() -> None:
    assert lonely(SOURCE) == []


def test_what_breaks_the_rules_of_the_layout_is_found(tree: Path) -> None:
    (tree / "cli" / "parser.py").write_text("from callgrove.errors import x\n\n__all__ = ['x']\n")
    (tree / "cli" / "main.py").write_text("from callgrove.cli.parser import x\n\n\ndef f() -> None: ...\n")
    assert passes_on(tree / "cli" / "parser.py")
    assert not passes_on(tree / "cli" / "main.py")
    assert lonely(tree) == ["callgrove.cli.parser"]
    for number in range(LARGEST_FOLDER):
        (tree / "render" / f"part{number}.py").touch()
    assert set(crowded(tree)) == {"render"}


def test_texts_name_no_module_that_is_not_there() -> None:
    """A reader follows `see tables.py`; modules that moved must not be named by what they were called."""
    there = {path.name for folder in ("src", "tests", "bench") for path in (ROOT / folder).rglob("*.py")}
    stale = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r"\b\w+\.py\b", path.read_text("utf-8"))
        if name not in there
    }
    assert stale == set()
