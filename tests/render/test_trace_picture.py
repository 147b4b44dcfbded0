"""Pictures of windows: the name with the most time in each cell, lines that are merged, colours, letters, SVG."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from callgrove.analysis.timeline.dominant import DominantTime, Grid
from callgrove.analysis.timeline.statistics import Question, measure
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import IdentifierTuples
from callgrove.model.traces.events import SpanKind, Window
from callgrove.render.text_table import Look
from callgrove.render.trace_picture import block_picture, columns_for, svg_picture
from tests.analysis.traced import THREAD, sampled, spanned

SVG = "{http://www.w3.org/2000/svg}"
PLAIN = Look(width=80, colour=False)
LINE = [(0, 5), (40, 6), (60, -1), (80, 8), (100, -1)]


def grid_of(
    experiment: Experiment, by: str = "name", n_columns: int = 10, most_lines: int = 9, window: Window | None = None
) -> Grid:
    picture = DominantTime(experiment, by, n_columns, most_lines, 3)
    measure(experiment, Question(window), [picture])
    return picture.grid()


def drawn(grid: Grid, look: Look = PLAIN) -> list[str]:
    return "".join(block_picture(grid, look)).splitlines()


def test_letters_stand_for_names_and_classes() -> None:
    experiment = sampled(LINE, [(50, 5), (100, -1)])
    assert drawn(grid_of(experiment)) == [
        "rank 0 thread 0  AAAABB..CC",
        "rank 0 thread 1       AAAAA",
        "                 0 s 100 ns",
        "A kernel 45.0%    (no trace) 25.0%  B MPI_Allreduce 10.0%  C MPI_Barrier 10.0%",
        ". idle 10.0%",
    ]
    assert drawn(grid_of(experiment, "class"))[0] == "rank 0 thread 0  CCCCMM..SS"


def test_the_exact_time_in_a_bin_decides() -> None:
    """Of 10 ns: kernel has 3 + 3, solve 4 in one piece; of 4 and 4 the one with more in all."""
    line = [(0, 5), (3, 2), (7, 5), (10, 2), (14, 5), (18, 1), (20, -1)]
    grid = grid_of(sampled(line), n_columns=2)
    assert [grid.categories[k].name for k in grid.cells[0].tolist()] == ["kernel", "kernel"]
    one = grid_of(sampled(line), n_columns=1)
    assert one.cells.tolist() == [[0]]
    assert [(category.name, category.time_ns) for category in one.categories] == [
        ("kernel", 10),
        ("solve", 8),
        ("main", 2),
    ]


def test_innermost_spans_are_drawn() -> None:
    spans = [(0, SpanKind.API, 0, 0, 100), (0, SpanKind.API, 1, 30, 60), (1, SpanKind.KERNEL, 2, 50, 100)]
    assert drawn(grid_of(spanned(spans)))[:2] == ["rank 0 thread 0  AAACCCAAAA", "rank 0 thread 1  .....BBBBB"]


def test_many_profiles_share_lines_and_many_names_a_letter() -> None:
    experiment = sampled(*[LINE] * 6)
    grid = grid_of(experiment, most_lines=2)
    assert grid.lines == ("rank 0 thread 0 +2", "rank 1 thread 1 +2"), "both names do not fit"
    assert grid_of(experiment, most_lines=3).lines[0] == "rank 0 thread 0 to 1", "what differs is told once"
    names = sampled([(0, 5), (40, 6), (60, 2), (75, 1), (88, 8), (100, -1)])
    text = drawn(grid_of(names))
    assert text[0] == "rank 0 thread 0  AAAABB****", "others are one letter, decided name by name"
    assert text[-1] == "A kernel 40.0%  B MPI_Allreduce 20.0%  * others 40.0%"


def test_lines_of_profiles_that_nothing_tells_apart_are_numbered() -> None:
    """As those of processes that a profiler saw without ranks: all of them are `thread 0`."""
    experiment = sampled(LINE, LINE)
    same = replace(experiment.profiles, identifiers=IdentifierTuples.of([[(THREAD, 0, 0, 3)]] * 2))
    assert grid_of(replace(experiment, profiles=same)).lines == ("0 thread 0", "1 thread 0")


def test_colours_change_once_for_each_run() -> None:
    line = drawn(grid_of(sampled(LINE), "class"), Look(width=80, colour=True))[0]
    assert line.count("\x1b[0m") == 4
    assert line.count("█") == 10
    assert "█" not in drawn(grid_of(sampled(LINE)), Look(width=80, colour=True, unicode=False))[0]
    legends = [drawn(grid_of(sampled(LINE)), Look(width=60, colour=colour))[2:] for colour in (False, True)]
    assert [len(legend) for legend in legends] == [2, 2], "colours take no room"


def test_short_windows_have_no_more_columns_than_nanoseconds() -> None:
    grid = grid_of(sampled(LINE), n_columns=50, window=(38, 42))
    assert grid.cells.tolist() == [[1, 1, 0, 0]], "of equal times the first by name is the first"
    assert drawn(grid_of(sampled([(7, 5)])))[0] == "rank 0 thread 0"


@pytest.mark.parametrize("width", [None, 20, 80, 200])
def test_there_is_room_for_names(width: int | None) -> None:
    assert 20 <= columns_for(width) <= 170


def test_svg_has_a_box_for_each_run_and_says_what_it_is() -> None:
    grid = grid_of(sampled(LINE, [(50, 5), (100, -1)]), "class", n_columns=100)
    root = ElementTree.fromstring(svg_picture(grid, "a < b & c"))
    boxes = [box for box in root.iter(f"{SVG}rect") if box.find(f"{SVG}title") is not None]
    titles = [str(box.findtext(f"{SVG}title")) for box in boxes]
    assert titles == ["compute", "communication", "idle", "synchronisation", "compute"]
    widths = [float(box.get("width", "")) for box in boxes]
    assert np.allclose(np.array(widths) / sum(widths[:4]), [0.4, 0.2, 0.2, 0.2, 0.5], atol=1e-3)
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert texts[0] == "a < b & c"
    assert {"rank 0 thread 0", "compute 45.0%", "100 ns"} <= set(texts)
