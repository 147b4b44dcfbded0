"""Names from binaries, against what binutils say about the same addresses."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from callgrove.cli.main import main
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.prof.binaries import binary_chains
from callgrove.prof.binary_names import demangle
from callgrove.prof.contexts import ScopeChains, ScopeTable
from tests.formats.hpcrun.hpcrun_bytes import File04
from tests.prof.making import MAIN, measured, nodes
from tests.requirements import need
from tests.timing import HANG_SEC

SOURCE = """#include <stdlib.h>
static volatile double sink;
static inline __attribute__((always_inline)) double tiny(double x) {
    return x * x + 1.0;
}
static inline __attribute__((always_inline)) double small(double x) {
    double y = tiny(x);
    return y * 3.0 + tiny(y);
}
__attribute__((noinline)) double work(double *a, int n) {
    double sum = 0.0;
    for (int k = 0; k < n; k++)
        sum += small(a[k]);
    return sum;
}
int main(int argc, char **argv) {
    double a[64];
    for (int k = 0; k < 64; k++)
        a[k] = argc * k;
    sink = work(a, 64);
    return sink > 1e9;
}
"""


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        need("gcc", f"there is no {name}")
    return found


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_SEC).stdout


@pytest.fixture(scope="module", params=["-gdwarf-5", "-gdwarf-4"])
def binary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with inlined functions."""
    folder = tmp_path_factory.mktemp("binary")
    (folder / "app.c").write_text(SOURCE)
    command = [tool("gcc"), "-O2", request.param, "-o", str(folder / "app"), str(folder / "app.c")]
    subprocess.run(command, check=True, cwd=folder, timeout=HANG_SEC)
    return folder / "app"


def functions_of(binary: Path) -> dict[str, tuple[int, int]]:
    """Name -> (address, size), by nm."""
    rows = [line.split() for line in output(tool("nm"), "-S", "--defined-only", str(binary)).splitlines()]
    return {row[3]: (int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4}


def resolved(binary: Path, addresses: list[int]) -> tuple[ScopeTable, ScopeChains]:
    scopes = ScopeTable(ExperimentBuilder("test"))
    found = binary_chains(binary, np.array(addresses, np.uint64), scopes, 0)
    assert found is not None
    return scopes, found


def frames(scopes: ScopeTable, chains: ScopeChains, row: int) -> list[tuple[str, str]]:
    """(function, file:line) of an address, the innermost first, as addr2line prints them."""
    builder = scopes.builder
    regions = builder._regions_table()
    part = slice(int(chains.bounds[row]), int(chains.bounds[row + 1]))
    steps = [(scopes.kind[s], scopes.region[s]) for s in chains.scope[part]]
    found: list[tuple[str, str]] = []
    for kind, region in steps:
        if kind == ContextKind.FUNCTION:
            found.append((regions.label(int(region)), ""))
        else:
            found[-1] = found[-1][0], regions.label(int(region))
    return found[::-1]


def test_functions_and_lines_are_those_of_addr2line(binary: Path) -> None:
    known = functions_of(binary)
    addresses = [a for name in ("work", "main") for a in range(known[name][0], sum(known[name]))]
    addresses = addresses[::7]
    scopes, chains = resolved(binary, addresses)
    n_inlined, same_lines = 0, []
    for row, address in enumerate(addresses):
        printed = output(tool("addr2line"), "-f", "-i", "-e", str(binary), hex(address)).splitlines()
        places = [place.partition(" (")[0] for place in printed[1::2]]
        if any(place.endswith(("?", ":0")) for place in places):
            continue
        got = frames(scopes, chains, row)
        assert [function for function, _ in got] == printed[::2], hex(address)
        assert [place for _, place in got[1:]] == places[1:], hex(address)  # where calls were inlined
        # several rows of the line table may have one address: binutils take the last, the genuine tool does not
        same_lines.append(got[0][1] == places[0])
        n_inlined += len(got) > 1
    assert n_inlined > 3
    assert np.mean(same_lines) > 0.7


def test_relations(binary: Path) -> None:
    known = functions_of(binary)
    address, size = known["work"]
    _, chains = resolved(binary, list(range(address, address + size)))
    longest = int(np.argmax(np.diff(chains.bounds)))
    steps = chains.relation[chains.bounds[longest] : chains.bounds[longest + 1]].tolist()
    call, line, inlined = Relation.CALL, Relation.LEXICAL, Relation.INLINED
    assert steps == [call, line, inlined, line, inlined, line]  # work, small, tiny


def test_symbols_where_there_is_no_debugging_information(binary: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "app"
    subprocess.run([tool("strip"), "-g", "-o", str(stripped), str(binary)], check=True, timeout=HANG_SEC)
    address, size = functions_of(binary)["work"]
    scopes, chains = resolved(stripped, [address, address + size - 2, address + size - 1])
    found = [frames(scopes, chains, row) for row in range(3)]
    assert found[:2] == [[("work", "")]] * 2
    assert found[2] == []  # the last byte does not match, as in the genuine tool


def test_measurements_of_a_program_that_is_here(binary: Path, tmp_path: Path) -> None:
    from callgrove.execute import Engine, executor
    from callgrove.prof.conversion import Request, prepare, survey_of
    from callgrove.prof.survey import Inputs

    address = functions_of(binary)["main"][0]
    tree = nodes((14, 12, 0, MAIN, 1), (16, 14, 1, address, 1))
    header = (("program-name", binary.name), ("program-path", str(binary)), ("mpi-rank", "0"))
    measured(tmp_path, File04(tree, modules=((1, str(binary)),), values=((16, ((0, 1.0),)),), header=header))
    for is_foreign, names in ((False, ["main thread", "main", f"{binary.parent}/app.c:16"]), (True, None)):
        request = Request(Inputs((tmp_path,), is_foreign=is_foreign))
        with executor(Engine(1)) as workers:
            made = prepare(request, survey_of(request, workers)).experiment
        shown = [made.contexts.name(c) for c in range(made.contexts.n_listed)]
        assert shown == (names or ["main thread", f"{binary}+{address:#x}"])
        assert (len(made.sources) == 1) is not is_foreign
        said = [w.text for w in made.warnings if "no structure file describes" in w.text]
        text = f"binaries that no structure file describes: {binary}; their addresses have no names"
        assert said == ([f"{text} (is_foreign=True opens none of them)"] if is_foreign else [])


def test_without_the_parser_a_note_is_given(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("elftools", "elftools.elf", "elftools.elf.elffile"):
        monkeypatch.setitem(sys.modules, name, None)
    tree = nodes((14, 12, 0, MAIN, 1), (16, 14, 1, 0x1000, 1))
    measured(tmp_path / "m", File04(tree, modules=((1, str(binary)),), values=()))
    capsys.readouterr()
    assert main(["prof", str(tmp_path / "m"), str(tmp_path / "made.d"), "-j", "1"]) == 0
    assert "pip install 'callgrove[elf]'" in capsys.readouterr().err


@pytest.mark.parametrize("cut", [4, 20, 64, 200, 3000, 8000])
def test_damaged_binaries_are_said(cut: int, binary: Path, tmp_path: Path) -> None:
    from tests.prof.making import experiment_of

    broken = tmp_path / "bin.so"
    broken.write_bytes(binary.read_bytes()[:cut])
    tree = nodes((14, 12, 0, MAIN, 1), (16, 14, 1, 0x1000, 1))
    measured(tmp_path, File04(tree, modules=((1, "bin.so"),), values=()))
    made = experiment_of(tmp_path)
    assert [made.contexts.name(c) for c in range(made.contexts.n_listed)] == ["main thread", "bin.so+0x1000"]
    assert any("bin.so: ELF" in w.text for w in made.warnings)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("_Z5solvePdi", "solve(double*, int)"),
        ("_Z1fIiEvT_", "f<int>(int)"),  # it returns void
        ("_ZN12_GLOBAL__N_11gEPFviE", "(anonymous namespace)::g(void (*)(int))"),
        ("_ZN1ScvbEv", "S::operator bool()"),
        ("_ZTV1S", "vtable for S"),
        ("main", "main"),
        ("_Zbroken", "_Zbroken"),
    ],
)
def test_demangling(name: str, plain: str) -> None:
    if demangle("_Z5solvePdi") == "_Z5solvePdi":
        need("gcc", "there is no C++ runtime")
    assert demangle(name) == plain
