"""`imbalance`, `top --by rank`, `top --columns rank` and `summary --columns rank`, as they are printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callgrove.cli import output, spread_tables
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.render import Look
from tests.analysis.spread_trees import metric, tree_r1, tree_t
from tests.cli.commands import Capture, notes, rows, run, said
from tests.formats.samples import CORPUS
from tests.golden import assert_golden

MPI4 = CORPUS / "hpctoolkit" / "release" / "mpi4.d"
DATA = ("csv", "json", "markdown")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """T and R1 as Cube files, and the demo."""
    folder = tmp_path_factory.mktemp("spread")
    tree_t().write(folder / "t.cubex")
    tree_r1().write(folder / "r1.cubex")
    many_ranks(300).write(folder / "many.cubex")
    return folder


def many_ranks(n: int) -> Experiment:
    """Return a function on many ranks, one of which is slow."""
    builder = ExperimentBuilder("made-up", path="made-up")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    row = builder.add_metric(metric("time"))
    for rank in range(n):
        profile = builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 0), (3, 0, 0, 0)])
        builder.add_values(profile, [0], row, [9.0 if rank == 150 else 1.0])
    return builder.build()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Look:
    """A terminal of 100 columns."""
    look = Look(100)
    for module in (output, spread_tables):
        monkeypatch.setattr(module, "stdout_look", lambda: look)
    return look


@pytest.mark.usefixtures("terminal")
def test_what_a_terminal_shows(folder: Path, capsys: Capture) -> None:
    texts = [
        run(capsys, "imbalance", folder / "t.cubex", "--limit", "4"),
        run(capsys, "imbalance", folder / "r1.cubex", "-m", "time", "--over", "thread", "--scope", "inclusive"),
        run(capsys, "top", folder / "t.cubex", "--by", "rank"),
        run(capsys, "top", folder / "t.cubex", "--columns", "rank", "--limit", "4"),
        run(capsys, "top", folder / "many.cubex", "--columns", "rank"),
    ]
    assert all(len(line) <= 100 for text in texts for line in text.splitlines())
    assert_golden("spread/terminal.txt", "\n".join(texts))


@pytest.mark.usefixtures("terminal")
def test_columns_that_do_not_fit_are_named(folder: Path, capsys: Capture) -> None:
    assert "columns that do not fit: load_balance, percent_imbalance, n, " in notes(
        capsys, "imbalance", folder / "t.cubex"
    )
    told = notes(capsys, "top", folder / "many.cubex", "--columns", "rank")
    shown = run(capsys, "top", folder / "many.cubex", "--columns", "rank").splitlines()[0].count("rank ")
    assert shown > 2
    assert f"{300 - shown} of 300 ranks do not fit as columns; --format csv or json has all of them" in told


def test_a_strip_shows_one_slow_rank_of_many(folder: Path, capsys: Capture) -> None:
    line = run(capsys, "imbalance", folder / "many.cubex").splitlines()[2]
    strip = next(word for word in line.split() if set(word) <= set("·░▒▓█"))
    assert len(strip) == 16
    assert [strip.index("█"), strip.count("█")] == [8, 1]


def test_data_formats_have_everything(folder: Path, capsys: Capture) -> None:
    assert len(rows(capsys, "top", folder / "many.cubex", "--columns", "rank")[0]) == 8 + 300
    for format_ in DATA:
        out = run(capsys, "imbalance", folder / "t.cubex", "--format", format_, "--limit", "all")
        assert "percent_imbalance" in out
        assert "█" not in out


def test_ranks_add_up_in_every_table(folder: Path, capsys: Capture) -> None:
    flat = {row["name"]: row["exclusive"] for row in rows(capsys, "top", folder / "r1.cubex", "-m", "time")}
    spread = rows(capsys, "imbalance", folder / "r1.cubex", "-m", "time", "--limit", "all")
    assert {row["name"]: row["sum"] for row in spread} == flat
    for over in ("rank", "thread", "node", "run"):
        by_entity = rows(capsys, "top", folder / "r1.cubex", "-m", "time", "--by", over)
        beside = rows(capsys, "top", folder / "r1.cubex", "-m", "time", "--columns", over)
        assert sum(row["exclusive"] for row in by_entity) == 128
        for row in by_entity:
            assert sum(one[row["name"]] for one in beside) == row["exclusive"]


def test_what_is_compared_is_said(folder: Path, capsys: Capture) -> None:
    t, to_json = folder / "t.cubex", ("--format", "json")
    assert "compared over 4 ranks; --over chooses others" in notes(capsys, "imbalance", t, *to_json)
    assert "compared over 4 threads\n" in notes(capsys, "imbalance", t, "--over", "thread")
    assert "compared" not in notes(capsys, "imbalance", t, "--over", "thread", *to_json)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("imbalance", "t.cubex", "--over", "core"), "invalid choice: 'core'"),
        (("imbalance", "t.cubex", "--over", "gpu"), "no profile has a gpu; there are 4 ranks, 4 threads, "),
        (("imbalance", "t.cubex", "-m", "nothing"), "nothing"),
        (("imbalance", "t.cubex", "--derive", "half = time / 2"), "name the one to compare with -m"),
        (("imbalance", "t.cubex", "--rank", "9"), "rank 9 (there are 0 to 3)"),
        (("top", "t.cubex", "--by", "rank", "--columns", "thread"), "rows are a rank each already"),
        (("top", "t.cubex", "--by", "rank", "--all-metrics"), "choose one metric with -m"),
        (("top", "t.cubex", "--columns", "rank", "--derive", "half = time / 2"), "choose one metric with -m"),
    ],
)
def test_what_cannot_be(
    words: tuple[str, ...], why: str, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert why in said(capsys, *words, code=2)


def test_too_many_cells_name_the_option(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.analysis.spread.imbalance.MOST_CELLS", 10)
    assert "leave them out with --no-percentiles" in said(capsys, "imbalance", folder / "t.cubex", code=2)
    assert len(rows(capsys, "imbalance", folder / "t.cubex", "--no-percentiles")) == 9


def test_threads_of_a_real_run(capsys: Capture) -> None:
    """What HPCToolkit measured on four ranks with four threads each adds up to what it stores of all."""
    total = sum(row["exclusive"] for row in rows(capsys, "top", MPI4, "--limit", "all"))
    for over, n in (("rank", 4), ("thread", 16)):
        table = rows(capsys, "imbalance", MPI4, "--over", over, "--limit", "all")
        assert {row["n"] for row in table} == {n}
        assert sum(row["sum"] for row in table) == pytest.approx(total)
        assert max(row["excess"] for row in table) == table[0]["excess"]


# -- summaries ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from callgrove.cli.main import main

    folder = tmp_path_factory.mktemp("train") / "demo"
    assert main(["demo", "--keep", str(folder)]) == 0
    return folder / "train.db"


def test_a_summary_side_by_side_has_the_same_totals(train: Path, capsys: Capture) -> None:
    divided = rows(capsys, "summary", train, "--by", "rank")
    beside = rows(capsys, "summary", train, "--columns", "rank")
    assert {row["section"] for row in beside} == {row["section"] for row in divided} - {"longest-gaps", "counters"}
    for row in beside:
        same = [one for one in divided if (one["section"], one["name"]) == (row["section"], row["name"])]
        assert row["total_ns"] == sum(one["total_ns"] for one in same)
        for rank in (0, 1):
            cells = [one["total_ns"] for one in same if one["rank"] == rank]
            assert row[f"rank {rank}_ns"] == (sum(cells) if cells else None)


def test_a_summary_says_what_it_cannot_show_side_by_side(train: Path, capsys: Capture) -> None:
    told = notes(capsys, "summary", train, "--columns", "stream")
    assert "left out, as there are no total times by stream: busy, overlap, gaps, longest-gaps" in told
    assert "cannot be divided by stream" not in told


@pytest.mark.usefixtures("terminal")
def test_a_summary_on_a_terminal(train: Path, capsys: Capture) -> None:
    words = ("summary", train, "--columns", "rank", "--section", "kernels", "--section", "busy", "--limit", "2")
    assert_golden("spread/summary.txt", run(capsys, *words))
    named = json.loads(run(capsys, *words, "--format", "json"))[0]
    assert list(named) == ["section", "name", "count", "total_ns", "percent", "rank 0_ns", "rank 1_ns"]
