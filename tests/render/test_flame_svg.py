"""Flame graphs: widths add up to what `tree` says, whatever is drawn together; names cannot break the picture."""

from __future__ import annotations

import io
from collections import defaultdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgrove.analysis.costs import Costs, costs
from callgrove.analysis.views import bottom_up, top_down
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.render import flame_svg, svg
from callgrove.render.flame_svg import Box, FlameOptions, draw_flame, lay_out
from callgrove.render.svg import colour_of, fit_name, ink_on
from tests.analysis.trees import costly_trees
from tests.formats.stacks.reading_back import tree_t
from tests.requirements import ROOT, need_module

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    "a&b",
    '"',
    "'",
    "]]>",
    "\0\x1b[2J",
    "\udc80",
    "日本" * 50,
    "x" * 500,
    "",
    "\u202e",
]


def titles_of(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [title.text or "" for group in root.iter(f"{SVG}g") for title in group.iter(f"{SVG}title")]


# -- widths ----------------------------------------------------------------------------------------------------------


def test_widths_of_the_tree_of_the_specification() -> None:
    boxes = lay_out(costs(tree_t()), FlameOptions())
    widths = sorted((box.level, round(box.width * 224), box.name) for box in boxes)
    assert widths == [
        (0, 224, "main"),
        (1, 12, "write"),
        (1, 16, "init"),
        (1, 192, "solve"),
        (2, 4, "fwrite"),
        (2, 8, "MPI_Bcast"),
        (2, 28, "solve"),
        (2, 32, "MPI_Allreduce"),
        (2, 120, "kernel"),
        (3, 8, "MPI_Allreduce"),
        (3, 16, "kernel"),
        (3, 20, "exp"),
    ]
    solve = next(box for box in boxes if (box.level, box.name) == (1, "solve"))
    assert (solve.start, solve.inclusive, solve.exclusive) == (0, 192, 12)


def test_bottom_up_widths_are_exclusive_costs() -> None:
    boxes = lay_out(costs(tree_t()), FlameOptions(bottom_up=True))
    functions = {box.name: round(box.width * 224) for box in boxes if box.level == 0}
    assert functions == {
        "kernel": 116,
        "MPI_Allreduce": 40,
        "exp": 20,
        "solve": 16,
        "init": 8,
        "MPI_Bcast": 8,
        "write": 8,
        "main": 4,
        "fwrite": 4,
    }
    above_kernel = [box for box in boxes if box.level == 1 and box.start < 116 / 224]
    assert [(box.name, round(box.width * 224)) for box in above_kernel] == [("solve", 116)]


def check_boxes(boxes: list[Box]) -> None:
    """Boxes of one level do not overlap, and each lies in one of the level above."""
    by_level: dict[int, list[Box]] = defaultdict(list)
    for box in boxes:
        assert box.width >= 0
        by_level[box.level].append(box)
    for level, row in by_level.items():
        row.sort(key=lambda box: (box.start, box.width))
        ends = 0.0
        for box in row:
            assert box.start >= ends - 1e-9
            ends = box.start + box.width
            if level:
                above = (one for one in by_level[level - 1] if not one.n_calls)
                assert any(
                    one.start - 1e-9 <= box.start and box.start + box.width <= one.start + one.width + 1e-9
                    for one in above
                )


@given(costly_trees(max_size=40), st.sampled_from([200, 220, 1200]), st.booleans())
@settings(deadline=None)
def test_widths_add_up(found: Costs, width: int, from_below: bool) -> None:
    boxes = lay_out(found, FlameOptions(width=width, bottom_up=from_below))
    check_boxes(boxes)
    roots = sum(box.width for box in boxes if box.level == 0)
    assert roots == pytest.approx(1.0) if boxes else not found.exclusive.any()


@given(costly_trees(max_size=40))
@settings(deadline=None)
def test_the_same_totals_as_tree(found: Costs) -> None:
    """Every row of `tree` is a box with its costs, or one of those that a grey box counts."""
    if found.is_signed:
        return
    boxes = lay_out(found, FlameOptions())
    rows = [row for row in top_down(found) if row["inclusive"]]
    drawn = [box for box in boxes if not box.n_calls]
    assert {(round(box.inclusive, 6), round(box.exclusive, 6)) for box in drawn} <= {
        (round(row["inclusive"], 6), round(row["exclusive"], 6)) for row in rows
    }
    total = sum(row["inclusive"] for row in rows if row["depth"] == 0)
    assert sum(box.inclusive for box in boxes if box.level == 0) == pytest.approx(total)


def deep_and_wide(n_narrow: int = 5000) -> Experiment:
    """One call that has nearly everything, beside many that nobody could see."""
    builder = ExperimentBuilder("example", title="wide")
    time = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    builder.add_profile(ProfileKind.THREAD)
    names = ["main", "large", *(f"small {k}" for k in range(n_narrow))]
    parents, contexts = [-1, 0, *([0] * n_narrow)], []
    for name, parent in zip(names, parents, strict=True):
        region = builder.region(ContextKind.FUNCTION, name)
        contexts.append(builder.add_context(parent, ContextKind.FUNCTION, region, Relation.CALL))
    builder.add_values(0, np.array(contexts), time, np.array([0.0, 900.0, *([0.02] * n_narrow)]))
    return builder.build()


@pytest.mark.parametrize("from_below", [False, True])
def test_narrow_calls_are_drawn_together(from_below: bool) -> None:
    experiment = deep_and_wide()
    found = costs(experiment)
    boxes = lay_out(found, FlameOptions(bottom_up=from_below))
    (grey,) = (box for box in boxes if box.n_calls and box.level == (0 if from_below else 1))
    assert (grey.n_calls, grey.name) == (5000, "5,000 more")
    assert grey.inclusive == pytest.approx(100)
    assert grey.width == pytest.approx(0.1)
    assert len(boxes) < 8
    picture = experiment.flame(bottom_up=from_below)
    assert any("5,000 more" in title and "100 s, 10.0% of all" in title for title in titles_of(str(picture)))
    assert "grey: " in picture.notes[0]


def test_many_contexts_take_few_boxes() -> None:
    assert len(str(deep_and_wide(50_000).flame())) < 5000


# -- pictures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_names(name: str) -> None:
    for picture in (tree_t({"kernel": name}).flame(), tree_t({"kernel": name}).spread()):
        root = ElementTree.fromstring(str(picture))
        assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
            *("svg", "title", "rect", "g", "text", "path", "circle")
        }
        assert not any("script" in element.tag for element in root.iter())


def test_titles_have_exact_values() -> None:
    titles = titles_of(str(tree_t().flame()))
    assert "kernel\n120 s, 53.6% of all (120.0 sec)\n100 s by itself" in titles


def test_boxes_of_the_picture_are_those_of_the_layout() -> None:
    """What is drawn is as wide as it should be, to a hundredth of a pixel but for the gap between boxes."""
    options = FlameOptions(width=1000)
    root = ElementTree.fromstring(str(draw_flame(costs(example()), options)))
    drawn = sorted(float(group.find(f"{SVG}rect").get("width", "")) for group in root.iter(f"{SVG}g"))  # type: ignore[union-attr]
    wanted = sorted(box.width * 984 for box in lay_out(costs(example()), options))
    assert drawn == pytest.approx([width - 0.5 if width > 2 else width for width in wanted], abs=0.01)


def test_roots_on_top_or_below() -> None:
    def height_of(picture: Any, name: str) -> float:
        root = ElementTree.fromstring(str(picture))
        return next(float(text.get("y", "")) for text in root.iter(f"{SVG}text") if text.text == name)

    assert height_of(tree_t().flame(), "main") < height_of(tree_t().flame(), "solve")
    assert height_of(tree_t().flame(roots_below=True), "main") > height_of(tree_t().flame(roots_below=True), "solve")


def test_differences_are_orange_and_blue() -> None:
    change = tree_t() - tree_t({"kernel": "other"})
    text = str(change.flame())
    boxes = {box.name: box for box in lay_out(costs(change), FlameOptions())}
    assert boxes["kernel"].width == boxes["other"].width
    assert boxes["kernel"].inclusive == -boxes["other"].inclusive
    assert "136 s more and 136 s less" in text


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(UsageError, match="width of 10 pixels"):
        tree_t().flame(width=10)
    builder = ExperimentBuilder("example", title="maxima")
    most = builder.add_metric(Metric("most", Scope.EXCLUSIVE, "sec", aggregation=Aggregation.MAXIMUM))
    builder.add_profile(ProfileKind.THREAD)
    context = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "f"))
    builder.add_values(0, context, most, 3.0)
    with pytest.raises(UsageError, match="does not add up"):
        builder.build().flame()


def test_pictures_show_and_save_themselves(tmp_path: Path) -> None:
    picture = tree_t().flame()
    assert picture._repr_svg_() == str(picture)
    assert repr(picture) == "<Picture 'T: time, 224 s in all', 1200 x 128>"
    picture.save(tmp_path / "flame.svg")
    assert (tmp_path / "flame.svg").read_text() == str(picture)
    with pytest.raises(UsageError, match="svg, png or pdf"):
        picture.save(tmp_path / "flame.gif")
    assert str(tree_t().flame()) == str(picture)


def test_png(tmp_path: Path) -> None:
    need_module("cairosvg")
    tree_t().spread().save(tmp_path / "spread.png")
    assert (tmp_path / "spread.png").read_bytes().startswith(b"\x89PNG")


# -- names and colours -----------------------------------------------------------------------------------------------


@given(st.text(max_size=60), st.floats(0, 400))
def test_names_fit(name: str, width: float) -> None:
    shown = fit_name(name, width, 10)
    assert len(shown) * 6.2 <= max(width, 0) + 1e-6
    assert shown == "" or shown.endswith("…") or len(shown) >= len(name)


def test_colours_are_those_of_pages() -> None:
    """The hash of colours.js, computed there: hashed("main") and hashed("solve")."""
    assert svg._hash("main") == _hash_of_pages("main")
    assert svg._hash("日本\U0001f600") == _hash_of_pages("日本\U0001f600")
    assert colour_of("main") == colour_of("main") != colour_of("solve")
    assert ink_on("#ffffff") != ink_on("#000000")


def _hash_of_pages(text: str) -> int:
    """FNV-1a over UTF-16 units with 32-bit products, written down once more."""
    number = 0x811C9DC5
    data = io.BytesIO(text.encode("utf-16-le"))
    while unit := data.read(2):
        number = (number ^ int.from_bytes(unit, "little")) * 0x01000193 % 2**32
    return (number ^ number >> 15) % 2**32


# -- the verb --------------------------------------------------------------------------------------------------------


def test_bottom_up_has_the_total_of_the_table() -> None:
    found = costs(example())
    boxes = lay_out(found, FlameOptions(bottom_up=True))
    table = bottom_up(found)
    functions = {row["name"]: row["exclusive"] for row in table if row["depth"] == 0}
    assert {box.name: pytest.approx(box.exclusive) for box in boxes if box.level == 0} == functions


def test_pictures_of_the_documentation_are_as_drawn_today() -> None:
    """`make pictures` draws them anew."""
    images = ROOT / "docs" / "images"
    assert (images / "flame.svg").read_text() == str(example().flame(width=900))
    assert (images / "spread.svg").read_text() == str(example().spread(width=800))


def test_callers_that_are_not_looked_at_are_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left free beside a box means that nobody called it; so it is said where callers are missing."""
    options = FlameOptions(bottom_up=True)
    assert "are not drawn" not in draw_flame(costs(tree_t()), options).notes[0]
    n_rows = len(bottom_up(costs(tree_t())))
    monkeypatch.setattr(flame_svg, "MOST_CALLERS", n_rows - 1)
    said = f"; callers beyond the {n_rows - 1} costliest are not drawn"
    assert draw_flame(costs(tree_t()), options).notes[0].endswith(said)
