"""The rows of the interactive terminal are those of `tree`, `top`, `tree --bottom-up` and `diff`, number for number."""

from __future__ import annotations

import numpy as np
import pytest

from callgrove.errors import UsageError
from callgrove.examples import example, gpu_example
from callgrove.explore.details import draw_histogram, read_source, spread_of, write_spread
from callgrove.explore.layout import Layout
from callgrove.explore.listing import Listing
from callgrove.explore.measures import NAME
from callgrove.explore.searching import search
from callgrove.explore.session import Session
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.table import Table
from callgrove.patterns.syntax import PatternError

EXPERIMENTS = {"stencil": example(), "train": gpu_example(), "difference": example() - example(1)}


def unfold(listing: Listing) -> Listing:
    """All rows of a listing."""
    row = 0
    while row < len(listing):
        listing.unfold(row)
        row += 1
    return listing


def names_of(listing: Listing) -> list[str]:
    return [name.text for name in listing.view.names(listing.nodes.tolist())]


def agrees(listing: Listing, table: Table) -> None:
    cells = listing.view.cells(listing.nodes)
    assert names_of(listing) == table.column("name").plain()
    for column in ("exclusive", "inclusive", "percent"):
        wanted = np.array(table.column(column).plain(), np.float64)
        assert cells[column] == pytest.approx(wanted, abs=1e-12)


@pytest.fixture(params=EXPERIMENTS)
def experiment(request: pytest.FixtureRequest) -> Experiment:
    return EXPERIMENTS[request.param]


def test_the_call_tree_is_that_of_tree(experiment: Experiment) -> None:
    for how in ("", "source"):
        listing, table = unfold(Session.of([experiment]).list("tree", how)), experiment.tree(source=bool(how))
        agrees(listing, table)
        assert listing.depth.tolist() == table.column("depth").plain()


@pytest.mark.parametrize("by", ["function", "line", "loop", "file", "module"])
def test_the_flat_profile_is_that_of_top(experiment: Experiment, by: str) -> None:
    agrees(Session.of([experiment]).list("flat", by), experiment.top(by=by))


def test_callers_are_those_of_tree_bottom_up(experiment: Experiment) -> None:
    listing, table = unfold(Session.of([experiment]).list("callers")), experiment.tree(bottom_up=True)
    assert listing.depth.tolist() == table.column("depth").plain()
    agrees(listing, table)


def test_two_inputs_are_those_of_diff() -> None:
    left, right = example(), example(3)
    listing = unfold(Session.of([left, right]).list("tree"))
    listing.show_scope(Scope.EXCLUSIVE)
    cells, rows = listing.view.cells(listing.nodes, Scope.EXCLUSIVE), {}
    for k, node in enumerate(listing.nodes.tolist()):
        path = "->".join(name.text for name in listing.view.names(listing.view.path(node)))
        rows[path] = [float(cells[column][k]) for column in ("left", "right", "difference")]
    table = left.diff(right)
    wanted = dict(
        zip(
            table.column("path").plain(),
            zip(*(table.column(name).plain() for name in ("left", "right", "difference")), strict=True),
            strict=True,
        )
    )
    assert wanted
    for path, numbers in wanted.items():
        assert rows[path] == pytest.approx([number or 0.0 for number in numbers])


def test_an_input_does_not_differ_from_itself() -> None:
    listing = unfold(Session.of([example(), example()]).list("tree"))
    cells = listing.view.cells(listing.nodes)
    assert np.all(cells["difference"] == 0)
    assert np.all(cells["ratio"] == 1)


# -- folding and order -------------------------------------------------------------------------------------------------


def test_unfolding_all_at_once_is_unfolding_row_by_row(experiment: Experiment) -> None:
    session = Session.of([experiment])
    for kind in ("tree", "callers"):
        one, all_at_once = unfold(session.list(kind)), session.list(kind)
        while not all(all_at_once.unfold_below(row) for row in np.flatnonzero(all_at_once.depth == 0).tolist()):
            pytest.fail("there are few rows")
        assert one.nodes.tolist() == all_at_once.nodes.tolist()
        assert one.depth.tolist() == all_at_once.depth.tolist()


def test_unfolding_stops_at_a_number_of_rows() -> None:
    listing = Session.of([example()]).list("tree")
    before = len(listing)
    assert not listing.unfold_below(0, most=5)
    assert before < len(listing) <= before + 5
    assert listing.unfold_below(0)


def test_folding_takes_what_unfolding_gave() -> None:
    listing = Session.of([example()]).list("tree")
    before = listing.nodes.tolist()
    added = listing.unfold(0)
    assert added
    assert listing.parent_row(1) == 0
    assert listing.end_of(0) == added + 1
    assert listing.fold(0) == added
    assert listing.nodes.tolist() == before
    assert listing.fold(0) == 0
    unfold(listing).fold_all()
    assert listing.nodes.tolist() == before


def test_rows_are_sorted_among_their_siblings() -> None:
    listing = unfold(Session.of([example()]).list("tree"))
    for column in listing.columns:
        for ascending in (False, True):
            listing.sort(column, ascending)
            for parent in (-1, *listing.nodes.tolist()):
                rows = [node for node in listing.nodes.tolist() if listing.view.parent(node) == parent]
                names = [name.text for name in listing.view.names(rows)]
                values = names if column == NAME else listing.view.cells(np.array(rows, np.int64))[column].tolist()
                assert values == sorted(values, reverse=(column != NAME) != ascending)
    with pytest.raises(UsageError, match="cannot be sorted by 'colour'"):
        listing.sort("colour")


def test_the_hot_path_is_that_of_hot() -> None:
    experiment = example()
    listing = Session.of([experiment]).list("tree")
    row = listing.follow(0)
    path = [name.text for name in listing.view.names(listing.view.path(int(listing.nodes[row])))]
    assert path == experiment.hot_path().column("name").plain()


# -- search and filter -------------------------------------------------------------------------------------------------


def test_hits_are_visited_in_the_order_of_rows_and_around() -> None:
    experiment = example()
    listing = Session.of([experiment]).list("tree")
    everything = unfold(Session.of([experiment]).list("tree"))
    wanted = [node for node, name in zip(everything.nodes.tolist(), names_of(everything), strict=True) if "MPI" in name]
    for backwards in (False, True):
        found, row, visited = search(listing, "mpi"), 0, []
        assert found.n_hits == len(wanted) > 1
        for _ in range(len(wanted) + 1):
            row = found.find(row, backwards)
            visited.append(int(listing.nodes[row]))
        order = wanted[::-1] if backwards else wanted
        assert visited == [*order, order[0]]
        assert set(found.among(listing.nodes).tolist()) == set(wanted)


def test_hits_have_their_share_once() -> None:
    experiment = example()
    table = experiment.top()
    names, shares = table.column("name").plain(), table.column("percent").plain()
    wanted = sum(share for name, share in zip(names, shares, strict=True) if name.startswith("MPI_"))
    session = Session.of([experiment])
    for kind in ("tree", "flat", "callers"):
        assert search(session.list(kind), "/^MPI_/").share == pytest.approx(wanted)
    assert search(session.list("tree"), "main").share == pytest.approx(65.0, abs=0.1)  # what lies in a hit counts once


def test_a_search_may_fail() -> None:
    listing = Session.of([example()]).list("tree")
    nothing = search(listing, "no such name")
    assert (nothing.n_hits, nothing.find(1)) == (0, 1)
    with pytest.raises(UsageError, match="at character 2"):
        search(listing, "/(/")


def test_a_filter_keeps_shares_of_the_whole() -> None:
    session = Session.of([example()])
    session.filter("** -> kernel")
    assert session.headline() == "CPUTIME (sec): 3.98 s of 6.16 s (64.6%)" or "of 6.16 s" in session.headline()
    agrees(unfold(session.list("tree")), example().query("** -> kernel").tree())
    with pytest.raises(PatternError) as raised:
        session.filter("main ->")
    assert raised.value.position == 7
    assert session.query == "** -> kernel"
    with pytest.raises(UsageError, match="there is no context 'nothing'"):
        session.filter("nothing")
    session.filter("")
    agrees(unfold(session.list("tree")), example().tree())


def test_another_metric_is_shown() -> None:
    session = Session.of([example()])
    session.choose_metric("cycles")
    agrees(unfold(session.list("tree")), example().tree("cycles"))
    assert session.headline().startswith("cycles: ")
    assert session.choices == ["CPUTIME (sec)", "cycles"]


# -- details -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tree", "flat", "callers"])
def test_the_spread_adds_up_to_the_row(experiment: Experiment, kind: str) -> None:
    listing = unfold(Session.of([experiment]).list(kind))
    column = listing.view.scope.value
    for node in listing.nodes.tolist():
        spread = spread_of(listing.view, node)[0]
        assert float(spread.values.sum()) == pytest.approx(
            float(listing.view.cells(np.array([node]))[column][0]), abs=1e-9
        )


def test_the_spread_is_written_out() -> None:
    view = Session.of([example()]).view("tree")
    lines = write_spread(spread_of(view, int(view.children(-1)[0]))[0], 80)
    assert lines[0].startswith("inclusive CPUTIME (sec) over 4 ranks")
    assert all(len(line) <= 80 for line in lines)


def test_a_histogram_counts_everything_once() -> None:
    assert draw_histogram(np.array([1.0, 1.0, 2.0, 3.0]), 2) == ("██", (1.0, 3.0))
    assert draw_histogram(np.array([5.0, 5.0]), 8)[0] == "█"
    assert draw_histogram(np.array([np.nan]), 8)[0] == ""
    assert draw_histogram(np.array([0.0, *[1.0] * 100]), 2, unicode=False)[0] == ".#"


def test_a_row_without_a_copy_of_its_source_says_so() -> None:
    view = Session.of([example()]).view("flat")
    texts = {read_source(view, node, 5).missing for node in view.children(-1).tolist()}
    assert any("no copy of this file is at hand" in text for text in texts)


# -- text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
@pytest.mark.parametrize("unicode", [True, False])
def test_lines_have_one_width(width: int, unicode: bool) -> None:
    for experiments in ([example()], [example(), example(1)], [EXPERIMENTS["difference"]]):
        session = Session.of(experiments)
        for kind in ("tree", "flat", "callers"):
            layout = Layout(unfold(session.list(kind)), width, unicode)
            lines = [layout.header(), *layout.lines(0, len(layout.listing))]
            assert {len(line.text) for line in lines} == {width}
            assert unicode or all(line.text.isascii() for line in lines)


def test_what_cannot_be_divided_among_callers_is_refused() -> None:
    session = Session.of([example().with_metric("rate = cycles / `CPUTIME (sec)`")], "rate")
    assert Layout(session.list("tree"), 80).columns == ("exclusive", "inclusive")
    with pytest.raises(UsageError, match="cannot be divided among callers"):
        session.list("callers")
    with pytest.raises(UsageError, match="no row has a share of it"):
        session.list("tree").follow(0)
