"""The options that choose contexts, places and rows: one meaning on every verb, and views that agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import callgrove
from callgrove.cli.contexts import KINDS, SPAN_KINDS
from callgrove.model.contexts import ContextKind
from callgrove.model.traces.events import SpanKind
from tests.cli.commands import Capture, notes, rows, run, said
from tests.formats.samples import CORPUS
from tests.patterns.tree_t import tree_t

PTH4 = CORPUS / "hpctoolkit" / "release" / "pth4.d"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("t") / "t.cubex"
    callgrove.write(tree_t(), target)
    return target


def test_the_kinds_are_those_of_contexts_and_spans() -> None:
    assert tuple(kind.name.lower() for kind in SpanKind) == SPAN_KINDS
    contexts = [kind.word for kind in ContextKind if kind != ContextKind.ELIDED]
    assert KINDS == tuple(dict.fromkeys([*contexts, *SPAN_KINDS]))


SELECTIONS = (
    (("--name", "MPI_*"), 48),
    (("--name", "kernel", "--rank", "3"), 38),
    (("--under", "solve"), 192),
    (("--under", "solve", "--rank", "0,2"), 47 + 47),
    (("--query", "solve -> kernel"), 132),
    (("--callers-of", "kernel"), 136),
    (("--exclude", "solve"), 32),
    (("--fold", "solve"), 224),
    (("--prune", "MPI_*", "--leaf", "kernel"), 224),
    (("--query", "kernel", "--rest", "fold"), 224),
)


@pytest.mark.parametrize(("options", "total"), SELECTIONS, ids=lambda x: " ".join(x) if isinstance(x, tuple) else "")
def test_views_agree_for_every_selection(path: Path, capsys: Capture, options: tuple[str, ...], total: float) -> None:
    flat = rows(capsys, "top", path, *options, "--limit", "all")
    tree = rows(capsys, "tree", path, *options, "--limit", "all")
    callers = rows(capsys, "tree", path, "--bottom-up", *options, "--limit", "all")
    stored = rows(capsys, "export", path, "--table", "values", "--scope", "exclusive", "-m", "time", *options)
    ranks = {int(rank) for rank in options[options.index("--rank") + 1].split(",")} if "--rank" in options else range(4)
    share = sum(row["percent"] for row in flat)
    assert sum(row["exclusive"] for row in flat) == pytest.approx(total)
    assert sum(row["inclusive"] for row in tree if row["depth"] == 0) == pytest.approx(total)
    assert sum(row["exclusive"] for row in callers if row["depth"] == 0) == pytest.approx(total)
    assert sum(row["value"] for row in stored) == pytest.approx(total)
    whole = sum((63, 52, 52, 57)[rank] for rank in ranks)
    assert share == pytest.approx(100 * total / whole)


def test_how_much_is_left_is_said(path: Path, capsys: Capture) -> None:
    assert "selected 48 s of 224 s (21.4%)" in notes(capsys, "top", path, "--name", "MPI_*")


def test_views_of_costs_say_nothing_of_what_they_do_not_show(capsys: Capture) -> None:
    shown = notes(capsys, "top", PTH4, "--name", "leaf")
    assert "lexical" not in shown
    assert "idle" not in shown
    assert "idle" in notes(capsys, "export", PTH4, "--table", "samples", "--name", "leaf", "-o", os.devnull)


def test_converting_keeps_the_same(path: Path, tmp_path: Path, capsys: Capture) -> None:
    for target, words in (("part.d", ()), ("part.cubex", ()), ("part", ("--to", "callgrove"))):
        run(capsys, "convert", path, tmp_path / target, "--under", "solve", "--rank", "1-3", *words)
        whole = rows(capsys, "top", path, "--under", "solve", "--rank", "1-3", "-m", "time", "--limit", "all")
        part = rows(capsys, "top", tmp_path / target, "-m", "time", "--limit", "all")
        assert {row["name"]: row["exclusive"] for row in part if row["exclusive"]} == {
            row["name"]: row["exclusive"] for row in whole if row["exclusive"]
        }


@pytest.mark.parametrize("options", [(), ("--under", "solve"), ("--fold", "MPI_*")], ids=lambda x: " ".join(x))
def test_a_formula_alone_is_converted_with_what_it_needs(
    path: Path, tmp_path: Path, capsys: Capture, options: tuple[str, ...]
) -> None:
    for target in ("x.d", "x.cubex", "x.cgrove"):
        run(capsys, "convert", path, tmp_path / target, "-m", "twice = 2 * time", *options)
        shown = rows(capsys, "tree", path, "-m", "twice = 2 * time", *options)
        assert rows(capsys, "tree", tmp_path / target, "-m", "twice")[0]["inclusive"] == shown[0]["inclusive"]


def test_nothing_selected_is_wrong_usage(path: Path, capsys: Capture) -> None:
    assert "did you mean 'kernel'?" in said(capsys, "top", path, "--name", "kernl", code=2)
    text = said(capsys, "tree", path, "--query", "solve -> -> kernel", code=2)
    assert text == "--query: expected a name at character 10 of 'solve -> -> kernel'"
    assert "--where: there is no metric or column 'percnt'" in said(
        capsys, "top", path, "--where", "percnt > 5", code=2
    )


def test_what_chooses_nothing_is_refused(path: Path, tmp_path: Path, capsys: Capture) -> None:
    for words in (("top", path), ("convert", path, tmp_path / "x.cubex")):
        assert "--rest says what becomes" in said(capsys, *words, "--rest", "drop", code=2)


def test_where_chooses_rows_and_changes_no_number(path: Path, capsys: Capture) -> None:
    every = {row["name"]: row for row in rows(capsys, "top", path, "--limit", "all")}
    kept = rows(capsys, "top", path, "--where", "time >= 5%")
    assert [row["name"] for row in kept] == ["kernel", "MPI_Allreduce", "exp", "solve"]
    assert all(row == every[row["name"]] for row in kept)
    assert "5 of 9 rows do not fulfil --where" in notes(capsys, "top", path, "--where", "time >= 5%")
    assert len(rows(capsys, "top", path, "--where", "time >= 5%", "--limit", "2")) == 2


def test_a_tree_keeps_what_lies_above(path: Path, capsys: Capture) -> None:
    tree = rows(capsys, "tree", path, "--where", "name = 'exp'")
    assert [(row["depth"], row["name"]) for row in tree] == [(0, "main"), (1, "solve"), (2, "kernel"), (3, "exp")]
    tree = rows(capsys, "tree", path, "--where", "excl(time) > 10", "--limit", "3")
    assert [row["name"] for row in tree] == ["main", "solve", "kernel"]


def test_rows_of_other_verbs(path: Path, capsys: Capture) -> None:
    values = rows(capsys, "export", path, "--table", "values", "--scope", "exclusive", "--where", "value > 20")
    assert values
    assert all(row["value"] > 20 for row in values)
    assert [row["name"] for row in rows(capsys, "hot", path, "--where", "percent < 90")] == ["main", "solve", "kernel"]


def test_real_files_agree(capsys: Capture) -> None:
    """Selecting then adding up is adding up then leaving out."""
    flat = rows(capsys, "top", PTH4, "--limit", "all")
    for name in [row["name"] for row in flat][:3]:
        quoted = f'"{name}"' if "*" in name else name
        alone = rows(capsys, "top", PTH4, "--name", quoted, "--limit", "all")
        assert sum(row["exclusive"] for row in alone) == pytest.approx(
            sum(row["exclusive"] for row in flat if row["name"] == name)
        )


WITH_UNITS = (
    (("top", "--where", "inclusive > 100000ms"), 3),
    (("top", "--where", "inclusive > 50%"), 3),
    (("top", "--columns", "rank", "--where", "`rank 3` >= 34000ms"), 1),
    (("top", "--by", "rank", "--where", "time > 60s"), 1),
    (("top", "--derive", "twice = 2 * time", "--where", "twice > 200000ms"), 1),
    (("imbalance", "--where", "excess >= 6000ms"), 2),
    (("tree", "--metrics", "--where", "percent > 100"), 0),
)


@pytest.mark.parametrize(("words", "n_rows"), WITH_UNITS, ids=lambda x: " ".join(x) if isinstance(x, tuple) else "")
def test_where_knows_the_units_of_all_amounts(path: Path, capsys: Capture, words: tuple[str, ...], n_rows: int) -> None:
    assert len(rows(capsys, words[0], path, *words[1:])) == n_rows


def test_where_asks_for_no_other_column_than_it_names(path: Path, capsys: Capture) -> None:
    """A column of --all-metrics is in one scope; a metric by its name is in the scope of the view."""
    text = said(capsys, "top", path, "--all-metrics", "--where", "excl(`time (I)`) > 1", code=2)
    assert text == "--where: excl(time (I)) is not in this table, which has 'time (I)' alone"
    some = rows(capsys, "top", path, "--all-metrics", "--where", "`time (E)` > 100")
    assert [row["name"] for row in some] == ["kernel"]


def test_a_picture_has_no_rows_to_choose(path: Path, capsys: Capture) -> None:
    text = said(capsys, "tree", path, "--format", "svg", "--where", "percent > 5", code=2)
    assert text.startswith("--where chooses rows of a table")
