"""Pages of comparisons: the numbers are those of `diff`, at every size, on both sides."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.algebra.cutting import part
from callgrove.analysis.comparison import Comparison, Question, compare
from callgrove.arrays import Floats
from callgrove.cli.main import main
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.formats.registry import open_path
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.viewer.comparison import ComparisonMaker, TimelinesMaker, pairs_of
from callgrove.viewer.page import Detail, Limits, Panel, encode
from callgrove.viewer.report import report_comparison
from tests.algebra.consistent import consistent
from tests.analysis.programs import S, T, program
from tests.exhaustive import try_examples
from tests.requirements import SHARED, need

SIDES = ("left", "right")


def panels(found: Comparison, limits: Limits | None = None, share: float = 1.0) -> dict[str, Panel]:
    """The panels of a comparison of two, by kind."""
    ((pair, metric),) = pairs_of(found)
    maker = ComparisonMaker(pair, metric, limits or Limits())
    made = {panel.kind: panel for panel in maker.panels(Detail(share))}
    assert maker.differences == ()
    return made


def inclusive_of(tree: dict[str, Any], metric: int, side: int) -> Floats:
    """Inclusive costs, added up as static/tree.js does where they are not in the data."""
    costs = tree["metrics"][metric]
    if "inclusive" in costs:
        return np.asarray(costs["inclusive"][side], np.float64)
    sums = costs["exclusive"][side].astype(np.float64)
    for row in range(len(sums) - 1, -1, -1):
        if tree["parent"][row] >= 0:
            sums[tree["parent"][row]] += sums[row]
    return np.asarray(sums)


def paths_of(panel: Panel, tree: dict[str, Any]) -> list[str]:
    """The call path of every row; folded rows are called …."""
    names = panel.data["labels"]["name"].values
    own = [names[number] for number in tree["label"].tolist()] + ["…"] * len(tree["more"])
    out: list[str] = []
    for row, above in enumerate(tree["parent"].tolist()):
        out.append(own[row] if above < 0 else f"{out[above]}->{own[row]}")
    return out


def rows_of(panel: Panel, which: str, metric: int = 0) -> dict[str, tuple[tuple[float, float], tuple[float, float]]]:
    """Exclusive and inclusive costs of both sides, by call path."""
    tree = panel.data[which]
    exclusive = tree["metrics"][metric]["exclusive"]
    inclusive = [inclusive_of(tree, metric, side) for side in range(2)]
    return {
        path: ((float(exclusive[0][k]), float(exclusive[1][k])), (float(inclusive[0][k]), float(inclusive[1][k])))
        for k, path in enumerate(paths_of(panel, tree))
    }


def opened(path: str | Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


def in_diff(left: Experiment, right: Experiment, **how: Any) -> dict[str, tuple[float, float]]:
    """What `diff` shows."""
    return {row["path"]: (row["left"], row["right"]) for row in compare([left, right], Question(**how)).table()}


@pytest.fixture(scope="module")
def ranks() -> tuple[Experiment, Experiment]:
    """The first and the last rank of the example, which have traces too."""
    return part(example(), ranks=[0]), part(example(), ranks=[3])


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("which", "flat"), [("tree", False), ("functions", True)])
@pytest.mark.parametrize(("scope", "place"), [(Scope.EXCLUSIVE, 0), (Scope.INCLUSIVE, 1)])
def test_the_page_has_the_numbers_of_diff(
    ranks: tuple[Experiment, Experiment], which: str, flat: bool, scope: Scope, place: int
) -> None:
    panel = panels(compare(ranks))["comparetree"]
    for number, metric in enumerate(panel.data["metrics"]):
        shown = rows_of(panel, which, number)
        for path, values in in_diff(*ranks, metric=metric["name"], scope=scope, flat=flat).items():
            assert shown[path][place] == pytest.approx(values), path


def test_it_has_every_metric_that_both_sides_have(ranks: tuple[Experiment, Experiment]) -> None:
    found = panels(compare(ranks))["comparison"].data["metrics"]
    assert [one["name"] for one in found] == list(ranks[0].metrics.shown)
    for one in found:
        again = compare(ranks, Question(one["name"]))
        assert one["totals"] == again.totals
        assert one["only"] == [again.count_only(1)[side] for side in SIDES]


def test_the_sentence_is_that_of_diff() -> None:
    found = compare([program(S, "s"), program(T, "t")])
    assert panels(found)["comparison"].data["metrics"][0]["sentence"] == "; ".join(found.say(lambda x: f"{x:.1f} s"))


def test_what_one_side_has_alone_is_marked() -> None:
    left, right = program(T[:-1], "left"), program(T[:2] + T[3:], "right")
    panel = panels(compare([left, right]))["comparetree"]
    present = dict(
        zip(paths_of(panel, panel.data["tree"]), panel.data["tree"]["metrics"][0]["present"].tolist(), strict=True)
    )
    assert present["main->init->MPI_Bcast"] == 1
    assert present["main->solve->solve->MPI_Allreduce"] == 2
    assert present["main->solve->kernel"] == 3


def test_metrics_of_different_names_are_compared_as_asked() -> None:
    left, right = program(S, "s"), program(T, "t", metric="seconds", unit="ms")
    found = compare([left, right], Question("time=seconds"))
    panel = panels(found)["comparetree"]
    assert panel.data["metrics"][0]["names"] == ("time", "seconds")
    assert rows_of(panel, "tree")["main"][1] == pytest.approx((174.0, 0.224))
    assert any("converted" in note for note in panel.notes)


def test_functions_alone_have_no_flame_graph() -> None:
    made = panels(compare([program(S, "s"), program(T, "t")], Question(flat=True)))
    assert "compareflame" not in made
    assert "without --flat" in made["unavailable"].data["reason"]
    assert made["comparetree"].data["tree"] is None
    assert rows_of(made["comparetree"], "functions")["MPI_Allreduce"][0] == (10.0, 40.0)


# -- folding -----------------------------------------------------------------------------------------------------------


def check_sums(panel: Panel, which: str, found: Comparison) -> None:
    """Both sides of every row are what it has and what lies below it; all rows add up to the totals."""
    tree = panel.data[which]
    for side, total in enumerate(found.totals):
        exclusive = tree["metrics"][0]["exclusive"][side].astype(np.float64)
        assert math.isclose(exclusive.sum(), total, rel_tol=1e-9, abs_tol=1e-9)
        if which == "tree":
            inclusive = inclusive_of(tree, 0, side)
            below = np.zeros(len(inclusive))
            inner = tree["parent"] >= 0
            np.add.at(below, tree["parent"][inner], inclusive[inner])
            folded = np.arange(len(inclusive)) >= len(tree["label"])
            assert np.allclose(inclusive, np.where(folded, inclusive, exclusive + below))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12])
def test_folded_rows_keep_the_sums_of_both_sides(n: int) -> None:
    found = compare([program(S, "s"), program(T, "t")])
    everything = rows_of(panels(found)["comparetree"], "tree")
    panel = panels(found, Limits(contexts=n, rows=max(n, 10)))["comparetree"]
    check_sums(panel, "tree", found)
    check_sums(panel, "functions", found)
    kept = {path: row for path, row in rows_of(panel, "tree").items() if not path.endswith("…")}
    assert len(kept) == n
    assert all(everything[path] == row for path, row in kept.items()), "what is kept is as it was"
    assert any("are folded" in note for note in panel.notes) == (n < 12)


@try_examples(25)
@given(consistent(), consistent(), st.integers(1, 12))
def test_any_two_programs_add_up_in_any_detail(left: Experiment, right: Experiment, n: int) -> None:
    found = compare([left, right], Question(left.default_metric))
    made = panels(found, Limits(contexts=n, rows=n))
    for panel in made.values():
        assert encode(panel.data)
    if found.is_additive:
        check_sums(made["comparetree"], "tree", found)


def extremes(*costs: float) -> Experiment:
    """main calls a, b and c; a maximum, and a formula over sums."""
    builder = ExperimentBuilder("made", title="program", path=f"{costs[0]}")
    for number, name in enumerate(("main", "a", "b", "c")):
        builder.add_context(0 if number else -1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="sec"))
    builder.add_metric(Metric("peak", Scope.EXCLUSIVE, unit="bytes", aggregation=Aggregation.MAXIMUM))
    builder.add_metric(Metric("count", Scope.EXCLUSIVE))
    profile = builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    for metric in range(3):
        builder.add_values(profile, np.arange(1, 4), metric, np.array(costs))
    return builder.build()


def test_folded_maxima_are_maxima_and_formulas_have_none() -> None:
    sides = [one.with_metric("rate = count / time") for one in (extremes(5, 1, 2), extremes(7, 3, 1))]
    panel = panels(compare(sides), Limits(contexts=2))["comparetree"]
    names = [one["name"] for one in panel.data["metrics"]]
    assert names == ["time", "peak", "count", "rate"]
    assert rows_of(panel, "tree", 0)["main->…"] == ((3.0, 4.0), (3.0, 4.0))
    assert rows_of(panel, "tree", 1)["main->…"][0] == (2.0, 3.0)
    assert all(math.isnan(value) for value in rows_of(panel, "tree", 3)["main->…"][0])


# -- pages -------------------------------------------------------------------------------------------------------------


def test_a_page_keeps_to_its_size() -> None:
    rows = [(0, "main", (1.0, 1.0)), *((1 + k % 3, f"function {k * k}", (1.0 / (k + 1), 1.0)) for k in range(4_000))]
    found = compare([program(rows, "left"), program(rows, "right", {"function 100": 7})])
    whole = report_comparison(found)
    smallest = len(report_comparison(compare([program(S, "s"), program(T, "t")])).encode())
    size = (len(whole.encode()) + smallest) // 2
    assert smallest < len(report_comparison(found, max_size=size).encode()) <= size
    with pytest.raises(UsageError, match="shows nothing of this"):
        report_comparison(found, max_size=10_000)


def test_a_name_stays_a_text() -> None:
    rows = [(0, "</script><script>alert(1)</script>", (1.0,)), (1, "<!-- \u202e\x00", (2.0,))]
    text = report_comparison(compare([program(rows, "<b>left</b>"), program(rows, "<i>right</i>")]))
    assert "alert(1)" not in text
    assert "<b>left" not in text
    assert "\u202e" not in text
    assert text.count("</script>") == 2


def test_several_inputs_have_a_section_each(ranks: tuple[Experiment, Experiment]) -> None:
    middle = part(example(), ranks=[1])
    found = compare([ranks[0], middle, ranks[1]], Question(scaling="weak", processes=[1, 2, 4]))
    for number, (pair, _) in enumerate(pairs_of(found), 1):
        assert pair.sides == (ranks[0], found.experiments[number])
        assert pair.asked.processes == [1, [2, 4][number - 1]]
    assert "2 others against" in report_comparison(found)


def timelines(left: Experiment, right: Experiment) -> list[Panel]:
    ((pair, _),) = pairs_of(compare([left, right], Question(flat=True)))
    return list(TimelinesMaker(pair, ("one", "other"), Limits()).panels(Detail()))


def test_timelines_of_both_begin_at_zero(ranks: tuple[Experiment, Experiment]) -> None:
    (panel,) = timelines(*ranks)
    assert [side["name"] for side in panel.data["pair"]] == ["one", "other"]
    assert all(side["timeline"]["length_ns"] > 0 for side in panel.data["pair"])
    assert "Both begin at 0" in panel.notes[0]


def test_an_input_without_traces_has_no_timeline(ranks: tuple[Experiment, Experiment]) -> None:
    bare = program([(0, "main", (1.0,))], "bare", metric=ranks[0].default_metric)
    (panel,) = timelines(ranks[0], bare)
    assert panel.data["pair"][1]["timeline"] is None
    assert "other has no traces." in panel.notes
    assert timelines(bare, bare) == []


def test_pages_of_real_inputs_add_up() -> None:
    folder = SHARED / "data" / "own"
    if not folder.exists():
        need("shared", "there are no shared data")
    pairs = [
        (folder / "cube" / "mpi4" / "profile.cubex", folder / "cube" / "mpi8" / "profile.cubex"),
        (folder / "hpctoolkit-release" / "mpi4.d", folder / "hpctoolkit-release" / "mpi4.foreign.d"),
        (folder / "rocpd" / "small" / "rank00000_results.db", folder / "rocpd" / "small" / "rank00001_results.db"),
    ]
    for left, right in pairs:
        found = compare([opened(left), opened(right)])
        check_sums(panels(found, Limits(contexts=6))["comparetree"], "tree", found)
        complaints: list[str] = []
        assert report_comparison(found, complain=complaints.append)
        assert complaints == []


# -- commands and methods ----------------------------------------------------------------------------------------------


@pytest.fixture
def paths(tmp_path: Path, ranks: tuple[Experiment, Experiment]) -> tuple[str, str]:
    places = tmp_path / "first.d", tmp_path / "last.d"
    for place, side in zip(places, ranks, strict=True):
        side.write(place)
    return str(places[0]), str(places[1])


def test_two_commands_and_a_method_write_the_same_page(
    tmp_path: Path, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [tmp_path / f"{k}.html" for k in range(3)]
    assert main(["diff", *paths, "--report", str(targets[0]), "--title", "Both"]) == 0
    assert main(["report", *paths, "--compare", "-o", str(targets[1]), "--title", "Both"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "slower" in said.err
    found = opened(paths[0]).compare(opened(paths[1]))
    assert found.report(targets[2], title="Both") == []
    assert len({target.read_text("utf-8") for target in targets}) == 1
    with pytest.raises(UsageError, match="exists"):
        found.report(targets[2])
    with pytest.raises(UsageError, match="lies in the input"):
        found.report(Path(paths[0]) / "page.html")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sort", "ratio"], "--sort is for tables"),
        (["--only", "both"], "--only is for tables"),
        (["--scope", "inclusive"], "--scope is for tables"),
        (["--format", "csv"], "--format is for tables"),
        (["--limit", "3"], "--limit is for tables"),
        (["--write", "x.d"], "--write is for tables"),
    ],
)
def test_options_of_tables_are_refused(
    tmp_path: Path, paths: tuple[str, str], words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "page.html"
    assert main(["diff", *paths, "--report", str(target), *words]) == 2
    assert said in capsys.readouterr().err
    assert not target.exists()


def test_pages_are_named_like_pages(tmp_path: Path, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *paths, "--report", str(tmp_path / "page.pdf")]) == 2
    assert "a report is a page of HTML" in capsys.readouterr().err
    assert main(["diff", *paths, "--title", "Both"]) == 2
    assert "--report names it" in capsys.readouterr().err
    assert main(["report", paths[0], "--compare", "-o", str(tmp_path / "page.html")]) == 2
    assert "needs two inputs or more" in capsys.readouterr().err
    assert main(["report", *paths, "--compare", "--scaling", "strong", "-o", str(tmp_path / "page.html")]) == 2
    assert "callgrove diff A B --report FILE" in capsys.readouterr().err
