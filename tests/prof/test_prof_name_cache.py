"""Names that binaries gave, kept on disk: the same as without, whatever lies there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Offsets
from callgrove.cli.main import main
from callgrove.model.builder import ExperimentBuilder
from callgrove.prof import binaries
from callgrove.prof.binaries import CACHE_MAGIC, NameCache, binary_chains
from callgrove.prof.binary_names import BinaryNames, Symbol, UnitNames, units_of
from callgrove.prof.contexts import ScopeTable
from callgrove.user_cache import cache_folder
from tests.exhaustive import try_examples
from tests.formats.hpcrun.hpcrun_bytes import File04
from tests.prof.making import MAIN, measured, nodes
from tests.prof.test_prof_binaries import SOURCE, functions_of, tool
from tests.requirements import ROOT
from tests.timing import HANG_SEC

OTHER = """#include "shared.h"
int other(int n) { return twice(n) + 1; }
"""
HEADER = """static inline __attribute__((always_inline)) int twice(int n) {
    return n * 2; }
"""
Steps = list[list[tuple[str, int]]]


def compiled(folder: Path, name: str = "app", source: str = SOURCE, *options: str) -> Path:
    """A program of two units, which include the same file."""
    for file, text in (("app.c", '#include "shared.h"\n' + source), ("other.c", OTHER), ("shared.h", HEADER)):
        (folder / file).write_text(text)
    command = [tool("gcc"), "-O2", "-g", "-o", str(folder / name), "app.c", "other.c", *options]
    subprocess.run(command, check=True, cwd=folder, timeout=HANG_SEC)
    return folder / name


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def addresses(program: Path) -> list[int]:
    known = functions_of(program)
    return [0, *(a for name in ("main", "work", "other") for a in range(known[name][0], sum(known[name])))]


def steps(binary: Path, addresses: list[int], cache: NameCache | None = None) -> Steps:
    """What stands around each address, as text."""
    scopes = ScopeTable(ExperimentBuilder("test"))
    found = binary_chains(binary, np.array(addresses, np.uint64), scopes, 0, cache)
    assert found is not None
    regions = scopes.builder._regions_table()
    labels = [regions.label(int(scopes.region[scope])) for scope in found.scope]
    rows = list(zip(labels, found.relation.tolist(), strict=True))
    return [rows[a:b] for a, b in zip(found.bounds[:-1].tolist(), found.bounds[1:].tolist(), strict=True)]


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def never(*_: object) -> dict[int, object]:
    raise AssertionError("debugging information was read")


def test_nothing_is_read_twice(
    program: Path, addresses: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = steps(program, addresses)
    assert steps(program, addresses, NameCache(tmp_path)) == plain
    asked: list[list[int]] = []
    monkeypatch.setattr(binaries, "units_of", never)
    cache = NameCache(tmp_path)
    assert steps(program, addresses, cache) == plain
    assert steps(program, addresses[5:9], cache) == steps_of(plain, addresses, addresses[5:9])

    def watched(dwarf: object, offsets: Offsets) -> dict[int, UnitNames]:
        asked.append(offsets.tolist())
        return units_of(dwarf, offsets)

    monkeypatch.setattr(binaries, "units_of", watched)
    start = functions_of(program)["_start"][0]
    assert steps(program, [start, *addresses], cache)[1:] == plain
    assert asked == [[start]]
    assert cache.notes == []
    assert len(files_in(tmp_path)) == 1


def steps_of(plain: Steps, addresses: list[int], wanted: list[int]) -> Steps:
    by_address = dict(zip(addresses, plain, strict=True))
    return [by_address[address] for address in wanted]


@given(data=st.data())
@try_examples(12)
def test_the_answer_does_not_depend_on_what_was_asked_before(
    data: st.DataObject, program: Path, addresses: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = NameCache(tmp_path_factory.mktemp("names"))
    subsets = st.lists(st.sampled_from(addresses), min_size=1, max_size=5, unique=True).map(sorted)
    for wanted in data.draw(st.lists(subsets, min_size=2, max_size=3)):
        assert steps(program, wanted, cache) == steps(program, wanted)


def cut(content: bytes) -> bytes:
    return content[:-10]


def flip(content: bytes) -> bytes:
    return content[:-10] + bytes([content[-10] ^ 1]) + content[-9:]


def empty(content: bytes) -> bytes:
    return b""


def foreign(content: bytes) -> bytes:
    return b"something else entirely"


def older(content: bytes) -> bytes:
    return content.replace(b"names 1", b"names 0", 1)


@pytest.mark.parametrize("damage", [cut, flip, empty, foreign, older])
def test_damaged_files_are_written_anew(
    damage: Callable[[bytes], bytes], program: Path, addresses: list[int], tmp_path: Path
) -> None:
    wanted = addresses[1:4]
    plain = steps(program, wanted, NameCache(tmp_path))
    [file] = files_in(tmp_path)
    sound = file.read_bytes()
    file.write_bytes(damage(sound))
    cache = NameCache(tmp_path)
    assert steps(program, wanted, cache) == plain
    [note] = cache.notes
    assert note.startswith(f"{file}: this file of the cache cannot be used (it is ")
    assert file.read_bytes() == sound


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("units", [[0, [0], [], [[5, [[7, 0, 0, 1]], 1, []]]]]),  # a function that is not described
        ("units", [[0, [], [], [[5, [], 1, [[0, 3]]]]]]),  # a file that is not mentioned
        ("units", [[0, [99], [], []]]),
        ("symbols", [[1, 2]]),
        ("known", None),
        ("key", {"build id": "of another"}),
    ],
)
def test_files_that_do_not_fit_together(part: str, instead: object, tmp_path: Path) -> None:
    """Their sums are right."""
    import hashlib
    import json
    import zlib

    cache, key = NameCache(tmp_path), {"build id": "12"}
    cache.store(key, BinaryNames({1}, {1: Symbol(0, "main", 1)}))
    assert cache.load(key).symbols == {1: Symbol(0, "main", 1)}
    [file] = files_in(tmp_path)
    content = json.loads(zlib.decompress(file.read_bytes()[len(CACHE_MAGIC) + 65 :]))
    rest = zlib.compress(json.dumps({**content, part: instead}).encode())
    file.write_bytes(CACHE_MAGIC + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)
    assert cache.load(key) == BinaryNames()
    assert len(cache.notes) == 1


@pytest.mark.parametrize("options", [(), ("-Wl,--build-id=none",)])
def test_another_binary_in_the_same_place(options: tuple[str, ...], tmp_path: Path) -> None:
    cache = NameCache(tmp_path / "names")
    first = compiled(tmp_path, "app", SOURCE, *options)
    times = first.stat()
    address = functions_of(first)["work"][0]
    assert steps(first, [address], cache)[0][0][0] == "work"
    second = compiled(tmp_path, "app", SOURCE.replace("work(", "walk("), *options)
    os.utime(second, ns=(times.st_atime_ns, times.st_mtime_ns))  # even if it looks as old
    assert functions_of(second)["walk"][0] == address
    assert steps(second, [address], cache)[0][0][0] == "walk"
    assert len(files_in(tmp_path / "names")) == 2


def test_debugging_information_that_comes_later(program: Path, addresses: list[int], tmp_path: Path) -> None:
    """The build id is the same; what is known of the stripped binary does not hide it."""
    cache, stripped = NameCache(tmp_path / "names"), tmp_path / "app"
    subprocess.run([tool("strip"), "-g", "-o", str(stripped), str(program)], check=True, timeout=HANG_SEC)
    assert len(steps(stripped, addresses[1:2], cache)[0]) == 1
    shutil.copy2(program, stripped)
    assert len(steps(stripped, addresses[1:2], cache)[0]) > 1


def test_folders_that_cannot_be_written(program: Path, addresses: list[int], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = NameCache(tmp_path / "file" / "names")
    assert steps(program, addresses[1:3], cache) == steps(program, addresses[1:3])
    assert cache.notes == []


def test_the_oldest_go_when_there_is_too_much(tmp_path: Path) -> None:
    names = BinaryNames({1}, {1: Symbol(0, "x" * 50, 1)})
    for number in range(5):
        NameCache(tmp_path).store({"build id": str(number)}, names)
        for age, file in enumerate(sorted(files_in(tmp_path), key=lambda path: path.stat().st_mtime, reverse=True)):
            os.utime(file, (1e9 - age, 1e9 - age))
    sizes = [file.stat().st_size for file in files_in(tmp_path)]
    (tmp_path / ".left.names.0.partial").write_bytes(b"of a process that was killed")
    os.utime(tmp_path / ".left.names.0.partial", (1e9, 1e9))
    small = NameCache(tmp_path, most_bytes=3 * max(sizes))
    assert small.load({"build id": "0"}) == names  # which makes it the youngest
    small.store({"build id": "5"}, names)
    assert len(files_in(tmp_path)) == 3
    kept = [number for number in "012345" if small.load({"build id": number}) == names]
    assert kept == ["0", "4", "5"]


WRITE = """
import sys
from pathlib import Path
from callgrove.prof.binary_names import BinaryNames, Symbol
from callgrove.prof.binaries import NameCache

first = int(sys.argv[2])
for number in range(first, first + 40):
    cache = NameCache(Path(sys.argv[1]))
    cache.store({"build id": "1"}, BinaryNames({number}, {number: Symbol(number, "x" * 2000, number)}))
    assert cache.load({"build id": "1"}).known and not cache.notes, cache.notes
"""


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    """Whatever is read is whole, and has what was added last; what one of them added before may be lost, and is then
    looked up again."""
    command = [sys.executable, "-c", WRITE, str(tmp_path / "names")]
    both = [subprocess.Popen([*command, str(first)], cwd=ROOT, stderr=subprocess.PIPE) for first in (0, 1000)]
    errors = [process.communicate(timeout=HANG_SEC)[1] for process in both]
    assert ([process.returncode for process in both], errors) == ([0, 0], [b"", b""])
    cache = NameCache(tmp_path / "names")
    found = cache.load({"build id": "1"})
    assert not found.known.isdisjoint({39, 1039})
    assert found.symbols.keys() == found.known
    assert len(files_in(tmp_path / "names")) == 1


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CALLGROVE_CACHE")
    monkeypatch.setenv("HOME", "/home/someone")
    for base in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert cache_folder("names") == Path("/home/someone/.cache/callgrove/names")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder("names") == Path("/caches/callgrove/names")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALLGROVE_CACHE", "here")
    assert cache_folder("names") == tmp_path / "here" / "names"


def test_the_verb(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALLGROVE_CACHE", str(tmp_path / "cache"))
    address = functions_of(program)["main"][0]
    tree = nodes((14, 12, 0, MAIN, 1), (16, 14, 1, address, 1))
    measured(tmp_path / "m", File04(tree, modules=((1, str(program)),), values=((16, ((0, 1.0),)),)))
    for number, option in enumerate(("--no-cache", "--foreign")):
        assert main(["prof", str(tmp_path / "m"), str(tmp_path / f"{number}.d"), "-j", "1", option]) == 0
        assert not (tmp_path / "cache").exists()
    for name in ("first.d", "second.d"):
        assert main(["prof", str(tmp_path / "m"), str(tmp_path / name), "-j", "1"]) == 0
    for file in ("meta.db", "profile.db"):
        assert len({(tmp_path / made / file).read_bytes() for made in ("0.d", "first.d", "second.d")}) == 1
    [kept] = files_in(tmp_path / "cache" / "names")
    kept.write_bytes(b"?")
    capsys.readouterr()
    assert main(["prof", str(tmp_path / "m"), str(tmp_path / "third.d"), "-j", "1"]) == 0
    assert f"note: {kept}: this file of the cache cannot be used" in capsys.readouterr().err
