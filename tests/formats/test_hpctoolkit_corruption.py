"""Damaged and hostile databases: a clear answer in bounded time and memory, and what is intact stays readable."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgrove.analysis.callers import bottom_up
from callgrove.analysis.costs import costs
from callgrove.analysis.flat import top
from callgrove.analysis.hot_path import hot_path
from callgrove.analysis.tables import export
from callgrove.analysis.trees import top_down
from callgrove.binary.sources import Source
from callgrove.cli.main import main
from callgrove.errors import CorruptFile, InputError, NotRecognised, RefusedInput
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import detect, open_path
from callgrove.model.contexts import LONGEST_PATH
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.scopes import Recipe
from callgrove.render import render
from tests.formats import damage, deep_trees
from tests.formats.by_source_id import open_database
from tests.formats.damage import Case, answers, damaged, parts, run, survives
from tests.formats.databases import File, copied, corpus, edit, edit_text
from tests.formats.samples import databases
from tests.requirements import ROOT, need

DATABASES = [*databases("prerelease"), *databases("release")]
GENERATIONS = ("prerelease", "release")
every_database = pytest.mark.parametrize("folder", DATABASES, ids=lambda p: f"{p.parent.name}/{p.name}")
FILES = [(folder, str(part.relative_to(folder))) for folder in DATABASES for part in parts(folder)]
every_file = pytest.mark.parametrize(
    ("folder", "name"), FILES, ids=lambda x: x if isinstance(x, str) else f"{x.parent.name}-{x.name}"
)
every_generation = pytest.mark.parametrize("generation", GENERATIONS)
DEPTH = 100_000
NOBODY = 65534


def rows(experiment: Experiment, table: str = "values") -> list[tuple[Any, ...]]:
    return [row for chunk in export(experiment, table) for row in chunk.rows()]


def by_ids(experiment: Experiment) -> list[tuple[int, int, int, float]]:
    """Values with the file's own context ids: which contexts are elided depends on what could be read."""
    ids = experiment.contexts.source_id
    return [(profile, int(ids[context]), metric, value) for profile, context, metric, value in rows(experiment)]


# -- grids of damage -------------------------------------------------------------------------------------------------


def loses_data(name: str, original: bytes, data: bytes) -> bool:
    """A text may lose its last line end, and the columns to show may end after any of them."""
    return not name.endswith(".yaml") and data != original and data.rstrip() != original.rstrip()


@every_file
def test_truncated(folder: Path, name: str, tmp_path: Path) -> None:
    """`check` reports every truncation that loses data; every eighth one is asked everything."""
    original = (folder / name).read_bytes()
    for number, case in enumerate(damage.truncations(folder / name)):
        label = f"{folder.name}/{name}: {case.label}"
        path = damaged(folder, name, case, tmp_path)
        [(_, code)] = answers(path, label, ("check",)).items()
        assert code == 3 or not loses_data(name, original, case.data), label
        if number % 8 == 0:
            survives(path, label)
            answers(path, label)


@every_database
def test_flipped_bits(folder: Path, tmp_path: Path) -> None:
    *failures, _ = damage.grid("flips", folder, tmp_path)
    assert failures == []


@every_database
def test_wrong_counts_and_offsets_in_little_memory(folder: Path) -> None:
    """In a process of its own, where asking for memory that a lie announces fails."""
    command = [sys.executable, "-W", "error", "-m", "tests.formats.damage", "lies", str(folder)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert int(done.stdout.split()[-2]) > 50


@settings(max_examples=60)
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
def test_wrong_magic(folder: Path, name: str, tmp_path: Path) -> None:
    original = (folder / name).read_bytes()
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
    assert "1 contexts have other values here than in profile.db, which is believed" in out


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


# -- XML -------------------------------------------------------------------------------------------------------------

LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 30))


@pytest.mark.parametrize(
    "declaration",
    [
        f'<!DOCTYPE x [<!ENTITY l0 "ha">{LAUGHS}]>',
        '<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE x [<!ENTITY % all SYSTEM "http://127.0.0.1:9/x.dtd"> %all;]>',
        '<!DOCTYPE x [<!ENTITY unused "x">]>',
    ],
    ids=["laughs", "external", "parameter", "unused"],
)
def test_entities_are_refused(declaration: str, tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    entity = "l29" if "l29" in declaration else "secret" if "secret" in declaration else "lt"
    edit_text(
        path / "experiment.xml",
        ('<?xml version="1.0"?>', f'<?xml version="1.0"?>{declaration}'),
        ('n="work"', f'n="&{entity};"'),
    )
    with pytest.raises(RefusedInput, match="entities"):
        open_path(path)
    survives(path, "entities")
    codes = answers(path, "entities")
    assert set(codes.values()) == {3}


def test_an_external_dtd_is_not_fetched(tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    declaration = '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">'
    edit_text(path / "experiment.xml", ('<?xml version="1.0"?>', f'<?xml version="1.0"?>{declaration}'))
    assert rows(open_database(path)) == rows(open_database(corpus("prerelease")))


@pytest.mark.parametrize("folder", databases("prerelease"), ids=lambda p: p.name)
def test_truncated_xml_with_and_without_salvage(folder: Path, tmp_path: Path) -> None:
    text = (folder / "experiment.xml").read_bytes()
    tree, end = text.index(b"<SecCallPathProfileData>"), text.index(b"</SecCallPathProfileData>")
    whole = rows(open_database(folder), "contexts")
    total = open_database(folder).values.n_stored()
    for at in range(tree + 200, end, 211):
        path = damaged(folder, "experiment.xml", Case("", text[:at]), tmp_path)
        with pytest.raises(CorruptFile, match=r"line \d+: expected well-formed XML.*--salvage"):
            open_path(path)
        assert run("top", str(path))[0] == 3
        found = open_path(path, options=ReadOptions(salvage=True))
        assert isinstance(found, Experiment)
        assert len(found.damage) == 1
        assert "the part before it was kept" in found.damage[0].text
        n = found.contexts.n_listed
        assert [(r[1], r[2], r[4]) for r in rows(found, "contexts")[: n - 1]] == [
            (r[1], r[2], r[4]) for r in whole[: n - 1]
        ]
        assert n >= text[tree:at].count(b"<S ")
        assert found.values.n_stored() == total
        assert len(rows(found)) == len(rows(open_database(folder)))
        survives(path, f"salvaged from {at}", salvage=True)
        code, _, err = run("info", str(path), "--salvage")
        assert code == 0
        assert "the part before it was kept" in err


def test_xml_cut_before_the_tree_cannot_be_salvaged(tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    text = (path / "experiment.xml").read_bytes()
    (path / "experiment.xml").write_bytes(text[:1000])
    with pytest.raises(CorruptFile):
        open_path(path, options=ReadOptions(salvage=True))
    assert run("info", str(path), "--salvage")[0] == 3


# -- trees that no program made --------------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_very_deep_tree(generation: str, tmp_path: Path) -> None:
    path = copied(generation, tmp_path)
    if generation == "release":
        deep_trees.deepen_meta(path / "meta.db", DEPTH, last_id=29)
    else:
        deep_trees.deepen_xml(path / "experiment.xml", DEPTH, last_id=27)
    with damage.bounded("open"):
        found = open_database(path)
    assert found.damage == ()
    assert found.contexts.depth.max() >= DEPTH
    with damage.bounded("contexts"):
        last = rows(found, "contexts")[found.contexts.n_listed - 1]
    assert last[9].count("->...->") == 1 or generation == "prerelease"
    with damage.bounded("totals"):
        point = replace(found.metrics[0], scope=Scope.POINT)  # what is inclusive must then be added up, level by level
        way = Recipe(0, point, Scope.INCLUSIVE)
        sums = way.apply(np.ones(len(found.contexts)), found.contexts)
        assert sums[found.contexts.roots].sum() == found.contexts.n_listed
    with damage.bounded("views"):
        spent = costs(found)
        for table in (top(spent), top_down(spent), top_down(spent, source=True), bottom_up(spent), hot_path(spent)):
            "".join(render([table], "table"))
    answers(path, "deep", ("info",), ("check",), ("tree", "--limit", "all"))


@every_generation
def test_paths_of_a_deep_tree(generation: str, tmp_path: Path) -> None:
    """`export` keeps the open contexts instead of walking up for each; both ways give one text."""
    path = copied(generation, tmp_path)
    deepen = deep_trees.deepen_meta if generation == "release" else deep_trees.deepen_xml
    deepen(path / ("meta.db" if generation == "release" else "experiment.xml"), 2 * LONGEST_PATH + 51, 27)
    found = open_database(path)
    paths = [row[9] for row in rows(found, "contexts")]
    assert paths == [found.contexts.path(context) for context in range(len(found.contexts))]
    assert max(path.count("->") for path in paths) == LONGEST_PATH


def strange(kind: str, at: int, function: int) -> tuple[list[bytes], int]:
    """Contexts whose arrays of children overlap, and how many of them are on top."""
    size = deep_trees.CONTEXT.size

    def context(k: int, child: int = -1, n: int = 1) -> bytes:
        where, n = (at + child * size, n) if child >= 0 else (0, 0)
        return deep_trees.context(deep_trees.FIRST_ID + k, function, where, n)

    if kind == "itself":
        return [context(0, child=0)], 1
    if kind == "its parent":
        return [context(0, child=1), context(1, child=0)], 1
    if kind == "everything twice":  # two children, both with the same children, 40 times: 2^40 paths
        made = []
        for level in range(40):
            made += [context(2 * level + side, child=2 * level + 2, n=2) for side in (0, 1)]
        return [*made, context(80), context(81)], 2
    if kind == "half of another":
        made = [context(0, child=1), context(1)]
        made[0] = deep_trees.CONTEXT.pack(size, at + size // 2, deep_trees.FIRST_ID, 1, 1, 0, 1, 0, function)
        return made, 1
    return [context(0, child=1), context(1, child=2), context(2), context(0, child=2)], 4  # "ids that repeat"


@pytest.mark.parametrize("kind", ["itself", "its parent", "everything twice", "half of another", "ids that repeat"])
def test_children_that_overlap(kind: str, tmp_path: Path) -> None:
    path = copied("release", tmp_path)
    meta = path / "meta.db"
    contexts, n_top = strange(kind, deep_trees.where_contexts_go(meta), deep_trees.first_function(meta))
    deep_trees.replace_tree(meta, contexts, n_top)
    survives(path, kind)
    codes = answers(path, kind)
    assert codes["check"] == 3
    if kind == "ids that repeat":
        assert any("used" in w.text for w in open_database(path).damage)
        return
    with damage.bounded(kind), pytest.raises(CorruptFile, match="Context"):
        open_path(path)


# -- what is no database ---------------------------------------------------------------------------------------------


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(NotRecognised, match="it is empty"):
        open_path(tmp_path)
    assert set(answers(tmp_path, "empty folder").values()) == {3}


@pytest.mark.parametrize("name", ["profile.db", "cct.db", "trace.db", "meta.db", "experiment.xml", "notes.txt"])
@pytest.mark.parametrize(
    "content", [b"", b"no performance data\n" * 40, bytes(100_000)], ids=["empty", "text", "zeros"]
)
def test_a_folder_or_file_that_is_something_else(name: str, content: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "some folder"
    folder.mkdir()
    (folder / name).write_bytes(content)
    for path in (folder, folder / name):
        with pytest.raises(InputError) as caught:
            open_path(path)
        assert str(path) in str(caught.value)
        assert set(answers(path, name).values()) == {3}


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    assert set(answers(tmp_path / "nowhere", "nowhere").values()) == {3}


@every_file
def test_a_part_that_is_a_folder(folder: Path, name: str, tmp_path: Path) -> None:
    path = damaged(folder, name, Case("", b""), tmp_path)
    (path / name).unlink()
    (path / name).mkdir()
    survives(path, name)
    answers(path, name)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything, so it becomes somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(NOBODY)
    except OSError:
        need("user", "root may read everything, and cannot become another user here")
    try:
        yield
    finally:
        os.seteuid(0)


@every_generation
def test_an_unreadable_part(generation: str) -> None:
    for part in parts(corpus(generation)):
        name = str(part.relative_to(corpus(generation)))
        with damage.scratch_folder() as scratch:
            path = copied(generation, scratch)
            scratch.chmod(0o755)
            survives(path, name)  # imports what is needed while everything may be read
            answers(path, name)
            (path / name).chmod(0)
            with as_nobody():
                survives(path, name)
                codes = answers(path, name)
            assert codes["check"] == 3, name


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("meta.db", "experiment.xml", "alone"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InputError):
            detect(Source.of(tmp_path / name))
    with damage.bounded("a folder of pipes"), pytest.raises(InputError):
        open_path(tmp_path)


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """Escape sequences, line ends and broken UTF-8 in names are printed as visible text."""
    path = copied("release", tmp_path)
    edit(path / "meta.db", lambda file: file.replace(b"work\0", b"\x1b[2\n\0"))
    edit(path / "meta.db", lambda file: file.replace(b"leaf\0", b"\xff\xfe\r\t\0"))
    for verb in ("top", "tree", "hot"):
        code, out, err = run(verb, str(path))
        assert code == 0
        assert not set("\x1b\r\t") & set(out + err)
    survives(path, "hostile names")
