"""Damaged and hostile databases: a clear answer in bounded time and memory, and what is intact stays readable."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.cli.main import main
from callgrove.errors import CorruptFile, InputError
from callgrove.formats.registry import open_path
from tests.exhaustive import grids_of, some_of, try_examples
from tests.formats import damage
from tests.formats.comparing import GENERATIONS, by_ids, rows
from tests.formats.damage import Case, answers, damaged, parts, run, survives
from tests.formats.hpctoolkit.by_source_id import open_database
from tests.formats.hpctoolkit.databases import File, copied, corpus, edit
from tests.formats.samples import databases
from tests.requirements import ROOT
from tests.timing import HANG_SEC

DATABASES = [*databases("prerelease"), *databases("release")]
SMALL = "pth4.d"  # of each generation; the other databases have the same kinds of records
FILES = [part for folder in DATABASES for part in parts(folder)]


def of_database(file: Path) -> tuple[Path, str]:
    """The folder of the database, and the name of the file in it."""
    folder = next(folder for folder in DATABASES if file.is_relative_to(folder))
    return folder, str(file.relative_to(folder))


def is_small(path: Path) -> bool:
    return f"/{SMALL}" in str(path)


def called(path: Path) -> str:
    """From the generation on."""
    return "-".join(path.parts[path.parts.index(next(g for g in GENERATIONS if g in path.parts)) :])


every_database = pytest.mark.parametrize("folder", some_of(DATABASES, is_small, called))
every_file = pytest.mark.parametrize("file", some_of(FILES, is_small, called))
every_grid = pytest.mark.parametrize(("folder", "whole"), grids_of(DATABASES, is_small, called))
LIED_ABOUT = [folder for folder in DATABASES if folder.name in (SMALL, "mpi4.foreign.d")]  # one of each byte order
every_generation = pytest.mark.parametrize("generation", GENERATIONS)


# -- grids of damage -------------------------------------------------------------------------------------------------


def loses_data(name: str, original: bytes, data: bytes) -> bool:
    """A text may lose its last line end, and the columns to show may end after any of them."""
    return not name.endswith(".yaml") and data != original and data.rstrip() != original.rstrip()


@pytest.mark.parametrize(("file", "whole"), grids_of(FILES, is_small, called))
def test_truncated(file: Path, whole: bool, tmp_path: Path) -> None:
    """`check` reports every truncation that loses data; every eighth one is asked everything."""
    folder, name = of_database(file)
    original = file.read_bytes()
    for number, case in enumerate(damage.truncations(file, whole)):
        label = f"{folder.name}/{name}: {case.label}"
        path = damaged(folder, name, case, tmp_path)
        [(_, code)] = answers(path, label, ("check",)).items()
        assert code == 3 or not loses_data(name, original, case.data), label
        if number % 8 == 0:
            survives(path, label)
            answers(path, label)


@every_grid
def test_flipped_bits(folder: Path, whole: bool, tmp_path: Path) -> None:
    *failures, _ = damage.grid("flips", folder, tmp_path, whole)
    assert failures == []


@pytest.mark.parametrize(("folder", "whole"), grids_of(LIED_ABOUT, is_small, called))
def test_wrong_counts_and_offsets_in_little_memory(folder: Path, whole: bool) -> None:
    """In a process of its own, where asking for memory that a lie announces fails."""
    command = [sys.executable, "-W", "error", "-m", "tests.formats.damage", "lies", str(folder), *["whole"][:whole]]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=HANG_SEC, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert int(done.stdout.split()[-2]) >= 40


@try_examples(60)
@given(st.data())
def test_random_bytes_anywhere(data: st.DataObject) -> None:
    """Bytes of a file are overwritten, inserted or left out; the file is given by itself and in its folder."""
    folder = data.draw(st.sampled_from([corpus(generation) for generation in GENERATIONS]))
    part = data.draw(st.sampled_from(parts(folder)))
    original = part.read_bytes()
    at = data.draw(st.integers(0, len(original) - 1))
    length = data.draw(st.integers(0, 24))
    broken = original[:at] + data.draw(st.binary(max_size=24)) + original[at + length :]
    with damage.scratch_folder() as scratch:
        path = damaged(folder, str(part.relative_to(folder)), Case("", broken), scratch)
        survives(path, f"{part.name} from {at}")
        answers(path, f"{part.name} from {at}", ("check",), ("info",))
        survives(path / part.relative_to(folder), f"{part.name} alone from {at}")


@every_file
def test_wrong_magic(file: Path, tmp_path: Path) -> None:
    folder, name = of_database(file)
    original = file.read_bytes()
    path = damaged(folder, name, Case("", b"NOTAPERFORMANCEDATABASE!"[:16] + original[16:]), tmp_path)
    survives(path, name)
    assert answers(path, name)["check"] == 3
    if name.endswith(".db") and name != "meta.db":
        code, _, err = run("info", str(path))
        assert code == 0
        assert f"{name}: header at byte 0: expected" in err


# -- what is intact stays readable -----------------------------------------------------------------------------------


def blocks(path: Path) -> dict[int, tuple[int, int]]:
    """{profile: (first byte of its values, one after its index)} of the profiles that have values."""
    places: dict[int, list[int]] = {}
    for field in File.of(path).fields:
        word, _, rest = field.section.partition(" ")
        if word == "profile" and rest.split()[-1] in ("values", "index"):
            places.setdefault(int(rest.split()[0]), []).append(field.offset)
    return {profile: (min(at), max(at)) for profile, at in places.items()}


@pytest.mark.parametrize("without_cct", [False, True])
@every_database
def test_other_profiles_survive_a_truncated_profile(folder: Path, without_cct: bool, tmp_path: Path) -> None:
    data, whole = (folder / "profile.db").read_bytes(), by_ids(open_database(folder))
    listed = rows(open_database(folder), "profiles")
    places = {p: place for p, place in blocks(folder / "profile.db").items() if p in {row[0] for row in whole}}
    for profile, (first, last) in places.items():
        cut = (first + last) // 2
        path = damaged(folder, "profile.db", Case("", data[:cut]), tmp_path)
        if without_cct:
            (path / "cct.db").unlink(missing_ok=True)
        found = open_database(path)
        complete = {p for p, (_, end) in places.items() if end < cut}
        assert profile not in complete
        assert by_ids(found) == [row for row in whole if row[0] in complete]
        assert rows(found, "profiles") == listed
        assert any(f"profile {profile} at byte" in w.text for w in found.damage)


@every_generation
def test_other_profiles_survive_a_broken_index(generation: str, tmp_path: Path) -> None:
    """Ids that do not ascend are found when the block is read: everything else was printed, and it is said."""
    path = copied(generation, tmp_path)
    whole = rows(open_database(corpus(generation)))
    edit(path / "profile.db", lambda f: f.put(f.find("id", "profile 2 index", 3)[0].offset, 0xFFFF_0000, 4))
    found = open_database(path)
    assert rows(found) == [row for row in whole if row[0] != 2]
    assert "profile 2" in str(found.values.problems[0])
    with pytest.raises(CorruptFile, match="profile 2"):
        found.values.profile(2)
    for options, code in (((), 0), (("--strict",), 4)):
        got, out, err = run("export", str(path), "--table", "values", *options)
        assert got == code
        assert out.count("\n") == 1 + len(whole) - sum(row[0] == 2 for row in whole)
        assert "profile 2" in err
    assert main(["check", str(path)]) == 3


@pytest.mark.parametrize("kind", ["empty", "rubbish", "magic only", "zeros after the header"])
@pytest.mark.parametrize("name", ["trace.db", "cct.db"])
@every_database
def test_values_survive_a_broken_part(folder: Path, name: str, kind: str, tmp_path: Path) -> None:
    whole, original = open_database(folder), (folder / name).read_bytes()
    kinds = {
        "empty": b"",
        "rubbish": b"\xff" * 4000,
        "magic only": original[:16],
        "zeros after the header": original[:128] + bytes(len(original) - 128),
    }
    path = damaged(folder, name, Case("", kinds[kind]), tmp_path)
    found = open_database(path)
    assert found.damage
    assert name in found.damage[0].text
    assert by_ids(found) == by_ids(whole)
    if name == "trace.db":
        assert rows(found, "contexts") == rows(whole, "contexts")
    assert found.root_total(found.default_metric) == whole.root_total(whole.default_metric)
    assert main(["top", str(path)]) == 0
    assert main(["top", str(path), "--strict"]) == 3


@every_database
def test_a_broken_profile_db_leaves_what_cct_db_knows(folder: Path, tmp_path: Path) -> None:
    whole = open_database(folder)
    path = damaged(folder, "profile.db", Case("", b"\0" * 100), tmp_path)
    found = open_database(path)
    assert sorted(by_ids(found)) == sorted(row for row in by_ids(whole) if not whole.profiles.is_summary[row[0]])
    quantity = whole.default_metric
    assert found.root_total(quantity) == pytest.approx(whole.root_total(quantity), rel=1e-12)


@every_database
def test_a_broken_tree_is_refused(folder: Path, tmp_path: Path) -> None:
    """Without names nothing can be understood, so that is an error and says where."""
    tree = "meta.db" if folder.parent.name == "release" else "experiment.xml"
    path = damaged(folder, tree, Case("", (folder / tree).read_bytes()[:700]), tmp_path)
    with pytest.raises(InputError, match=tree):
        open_path(path)
    code, out, err = run("info", str(path))
    assert (code, out) == (3, "")
    assert err.count("\n") == 1


@every_generation
def test_values_that_differ_between_the_files(generation: str, tmp_path: Path) -> None:
    """profile.db wins, and `check` says so (part E)."""
    path = copied(generation, tmp_path)

    def change(file: File) -> None:
        at = file.find("value", "context 9 values", 0)[0].offset
        file.data[at : at + 8] = struct.pack(f"{file.order}d", 1e6)

    edit(path / "cct.db", change)
    assert rows(open_database(path)) == rows(open_database(corpus(generation)))
    code, out, _ = run("check", str(path), "--format", "csv")
    assert code == 3
    assert "1 context has other values here than in profile.db, which is believed" in out


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e308])
@every_generation
def test_values_that_are_not_finite(generation: str, number: float, tmp_path: Path) -> None:
    """They are kept (part E); costs may be without meaning, but nothing fails."""
    path = copied(generation, tmp_path)

    def change(file: File) -> None:
        for field in file.find("value", "profile"):
            if field.index in (3, 4) and "values" in field.section:
                file.data[field.offset : field.offset + 8] = struct.pack(f"{file.order}d", number)

    edit(path / "profile.db", change)
    survives(path, str(number))
    answers(path, str(number), *((v, "--limit", "all") for v in ("top", "tree", "hot")), ("tree", "--bottom-up"))
    code, out, _ = run("export", str(path), "--table", "values")
    assert code == 0
    assert out.count(str(number)) >= 8
    if not np.isfinite(number):
        assert "not finite" in run("check", str(path))[1]
