"""Input that is made to hurt, or is not a database at all: entities, endless and very deep trees, pipes, odd names."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from callgrove.analysis.costs import costs
from callgrove.analysis.views import bottom_up, hot_path, top, top_down
from callgrove.binary.files import Source
from callgrove.errors import CorruptFile, InputError, NotRecognised, RefusedInput
from callgrove.formats.interface import Dumps, ReadOptions
from callgrove.formats.registry import detect, open_path
from callgrove.model.computed_values import Recipe
from callgrove.model.contexts import LONGEST_PATH
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.render import render
from tests.exhaustive import exhaustive
from tests.formats import damage, deep_trees
from tests.formats.comparing import GENERATIONS, rows
from tests.formats.damage import Case, answers, damaged, parts, run, survives
from tests.formats.hpctoolkit.by_source_id import open_database
from tests.formats.hpctoolkit.databases import copied, corpus, edit, edit_text
from tests.formats.samples import databases
from tests.permissions import as_nobody
from tests.timing import bounded

DATABASES = [*databases("prerelease"), *databases("release")]
FILES = [(folder, str(part.relative_to(folder))) for folder in DATABASES for part in parts(folder)]
every_file = pytest.mark.parametrize(
    ("folder", "name"), FILES, ids=lambda x: x if isinstance(x, str) else f"{x.parent.name}-{x.name}"
)
every_generation = pytest.mark.parametrize("generation", GENERATIONS)
DEPTH = 100_000
MUST_BE_WHOLE = {"prerelease": "experiment.xml", "release": "meta.db"}


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
        with pytest.raises(CorruptFile, match=r"line \d+: expected well-formed XML.*salvage=True"):
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


@exhaustive
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_very_deep_tree(generation: str, tmp_path: Path) -> None:
    path = copied(generation, tmp_path)
    if generation == "release":
        deep_trees.deepen_meta(path / "meta.db", DEPTH, last_id=29)
    else:
        deep_trees.deepen_xml(path / "experiment.xml", DEPTH, last_id=27)
    with bounded("open"):
        found = open_database(path)
    assert found.damage == ()
    assert found.contexts.depth.max() >= DEPTH
    with bounded("contexts"):
        last = rows(found, "contexts")[found.contexts.n_listed - 1]
    assert last[9].count("->...->") == 1 or generation == "prerelease"
    with bounded("totals"):
        point = replace(found.metrics[0], scope=Scope.POINT)  # what is inclusive must then be added up, level by level
        way = Recipe(0, point, Scope.INCLUSIVE)
        sums = way.apply(np.ones(len(found.contexts)), found.contexts)
        assert sums[found.contexts.roots].sum() == found.contexts.n_listed
    with bounded("views"):
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
    with bounded(kind), pytest.raises(CorruptFile, match="Context"):
        open_path(path)


# -- what is not a database --------------------------------------------------------------------------------------------


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
            if name not in (MUST_BE_WHOLE[generation], "metrics/default.yaml"):
                assert codes["info"] == 0, name  # the rest is there


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("meta.db", "experiment.xml", "alone"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InputError):
            detect(Source.of(tmp_path / name))
    with bounded("a folder of pipes"), pytest.raises(InputError):
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


def test_a_profile_just_beyond_the_table_is_left_out(tmp_path: Path) -> None:
    """Profiles are numbered from 0 on: the number of profiles is the first that no table names."""
    folder = copied("release", tmp_path)
    before = open_database(folder)
    listed = before.contexts.source_id.tolist().index(12)
    format_ = detect(Source.of(folder))[0]
    assert isinstance(format_, Dumps)
    fields = format_.dump(Source.of(folder))
    [place, *_] = (f for f in fields if (f.file, f.section, f.name) == ("cct.db", "context 12 values", "id"))
    content = bytearray((folder / "cct.db").read_bytes())
    content[place.offset : place.offset + 4] = len(before.profiles).to_bytes(4, "little")
    (folder / "cct.db").write_bytes(content)
    e = open_database(folder)
    block = e.values.context(listed)
    assert len(block) < len(before.values.context(listed))
    assert any("1 value with an unknown profile id, left out" in str(p) for p in e.values.problems)
