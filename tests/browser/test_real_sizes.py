"""Reports above every threshold, at the sizes of real runs, compared with `top` and `summary`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page

from callgrove.analysis.costs import costs
from callgrove.analysis.summary import summarise, tables
from callgrove.analysis.views import top
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySamples, ArraySpans, Samples, SpanKind
from callgrove.viewer.page import Limits
from callgrove.viewer.report import Input, report
from tests.browser.conftest import OpenPage, Screenshot
from tests.browser.reading import open_tab, picked, shown_panel, tooltip

GUTTER, AXIS = 200, 26  # pixels of the picture beside and above the rows
CALLS = {"main": "", "init": "main", "compute": "main", "gemm": "compute", "exchange": "main", "pack": "exchange"}
CALLS |= {"MPI_Waitall": "exchange", "progress": "MPI_Waitall"}
PERIOD_NS = 1_000_000


def sampled(n_ranks: int, n_threads: int, n_samples: int) -> Experiment:
    """Every thread begins with `init`, then computes and waits by turns, several times in every step of a page; the
    last eighth of the ranks is idle in its second half. Costs are the time of the samples."""
    chance = np.random.default_rng(10)
    builder = ExperimentBuilder("made", title=f"{n_ranks} x {n_threads}")
    number: dict[str, int] = {"": -1}
    for name, caller in CALLS.items():
        region = builder.region(ContextKind.FUNCTION, name)
        number[name] = builder.add_context(number[caller], ContextKind.FUNCTION, region, Relation.CALL)
    builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit="ns"))
    each = n_samples // (n_ranks * n_threads)
    lines = []
    weights = {"gemm": 0.3, "compute": 0.15, "MPI_Waitall": 0.27, "progress": 0.18, "pack": 0.1}
    for rank in range(n_ranks):
        for thread in range(n_threads):
            names = [number[name] for name in weights]
            context = chance.choice(names, each, p=list(weights.values())).astype(np.int32)
            context[: each // 10] = number["init"]
            if rank >= n_ranks - n_ranks // 8:
                context[each // 2 :] = -1
            lines.append(Samples(np.arange(each + 1) * PERIOD_NS, np.append(context, np.int32(-1))))
            profile = builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3), (3, thread, thread, 3)])
            counts = np.bincount(context[context >= 0], minlength=len(CALLS))
            builder.add_values(profile, np.arange(len(CALLS)), 0, counts * float(PERIOD_NS))
    every = np.arange(len(lines), dtype=np.int32)
    builder.set_traces(ArraySamples(every, np.full(len(lines), -1, np.int32), tuple(lines)))
    return builder.build()


def launched(n_steps: int) -> Experiment:
    """Steps with a marker, three launches and a synchronisation on a thread, and kernels on two streams: eight spans
    each, of which two kernels overlap."""
    builder = ExperimentBuilder("made", title="spans")
    builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3), (3, 0, 0, 3)])
    for stream in range(2):
        builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3), (5, 0, 0, 3), (7, stream, stream, 3)])
    api, marker, kernel = (int(kind) for kind in (SpanKind.API, SpanKind.MARKER, SpanKind.KERNEL))
    # profile, kind, name, start, end of the spans of a step of 10,000 ns
    step = [(0, marker, 0, 0, 9_000), *((0, api, 1, 1_000 * k, 1_000 * k + 300) for k in range(3))]
    step += [(0, api, 2, 4_000, 8_000), (1, kernel, 3, 500, 7_500), (1, kernel, 4, 2_500, 4_000)]
    step += [(2, kernel, 5, 1_500, 3_000)]
    columns = np.tile(np.array(step), (n_steps, 1)).T
    at = np.repeat(np.arange(n_steps) * 10_000, len(step))
    absent = np.full(len(at), -1)
    names = ("step", "launch", "synchronize", "gemm", "norm", "copy back")
    spans = {"profile": columns[0], "kind": columns[1], "name": columns[2], "start_ns": columns[3] + at}
    spans |= {"end_ns": columns[4] + at, "category": absent, "correlation": absent, "context": absent, "depth": absent}
    builder.set_traces(None, ArraySpans(spans, names))
    return builder.build()


def opened(tmp_path: Path, open_page: OpenPage, experiment: Experiment, limits: Limits | None = None) -> Page:
    path = tmp_path / "report.html"
    path.write_text(report([Input(experiment, ["made"])], limits=limits), encoding="utf-8")
    page = open_page(path)
    open_tab(page, "Timeline")
    page.wait_for_timeout(300)
    return page


def legend(page: Page) -> dict[str, float]:
    """Shares of names, as a reader sees them."""
    texts = shown_panel(page).locator(".legend button.key").all_inner_texts()
    return {name: float(share.rstrip("%")) for name, share in (text.rsplit(" ", 1) for text in texts)}


def shares_of_top(experiment: Experiment) -> dict[str, Any]:
    table = top(costs(experiment))
    shares = zip(table.column("name").plain(), table.column("percent").plain(), strict=True)
    return {name: pytest.approx(share, abs=0.051) for name, share in shares if share}


def idle_parts(picture: Locator, tops: list[float]) -> list[list[float]]:
    """Of rows, which part of the first and of the second half of the time has the colour of the ground."""
    found: list[list[float]] = picture.evaluate(
        """(canvas, [tops, left]) => {
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            const colour = (x, y) => [0, 1, 2].map((k) => data[4 * (Math.floor(y) * width + Math.floor(x)) + k]).join();
            const ground = colour(width - 2, height - 2);
            const part = (y, from, to) => {
                const pixels = Array.from({ length: to - from }, (_, k) => colour(from + k, y));
                return pixels.filter((one) => one === ground).length / pixels.length;
            };
            const middle = Math.round((left + width) / 2);
            return tops.map((y) => [part(y, left + 2, middle - 5), part(y, middle + 5, width - 5)]);
        }""",
        [tops, GUTTER],
    )
    return found


@pytest.mark.parametrize(("n_ranks", "n_threads", "n_samples"), [(64, 1, 500_000), (512, 4, 200_000)])
def test_a_timeline_of_many_samples_says_what_top_says(
    n_ranks: int, n_threads: int, n_samples: int, tmp_path: Path, open_page: OpenPage, screenshot: Screenshot
) -> None:
    experiment = sampled(n_ranks, n_threads, n_samples)
    page = opened(tmp_path, open_page, experiment)
    screenshot(page, f"real-size-{n_ranks}x{n_threads}")
    assert "events are shown in steps of" in shown_panel(page).locator(".notes").inner_text()
    assert legend(page) == shares_of_top(experiment)
    picture = shown_panel(page).locator("canvas")
    box = picture.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + GUTTER + (box["width"] - GUTTER) * 0.05, box["y"] + AXIS + 2)
    found = tooltip(page)
    assert (found["title"], found["share"]) == ("init", "100.0% of this time, the largest part")
    page.mouse.move(box["x"] + GUTTER + (box["width"] - GUTTER) * 0.4, box["y"] + AXIS + 2)
    found = tooltip(page)
    own, others = (float(found.get(word, "0").split("%")[0]) for word in ("share", "others"))
    assert own + others == pytest.approx(100, abs=0.5), "every thread is busy then"
    assert found["title"] in CALLS
    assert "idle" not in found


def test_ranks_look_idle_where_they_are_and_nowhere_else(tmp_path: Path, open_page: OpenPage) -> None:
    page = opened(tmp_path, open_page, sampled(64, 1, 64_000), Limits(events=1_000, bins=256))
    picture = shown_panel(page).locator("canvas")
    box = picture.bounding_box()
    assert box is not None
    height = (box["height"] - AXIS - 4) // 64
    found = idle_parts(picture, [AXIS + height * rank + 2 for rank in range(64)])
    assert found == [[0, 0]] * 56 + [[0, 1]] * 8


def test_a_timeline_of_many_spans_says_what_the_summary_says(
    tmp_path: Path, open_page: OpenPage, screenshot: Screenshot
) -> None:
    experiment = launched(50_000)
    page = opened(tmp_path, open_page, experiment)
    screenshot(page, "real-size-spans")
    assert "400,000 events are shown in steps of" in shown_panel(page).locator(".notes").inner_text()
    sections = {table.names[0]: table for table in tables(summarise(experiment))}
    time = dict(zip(*(sections["kernels"].column(c).plain() for c in ("kernels", "total_ns")), strict=True))
    time |= {"launch": 900 * 50_000, "synchronize": 4_000 * 50_000, "step": (9_000 - 4_900) * 50_000}
    total = sum(time.values())
    assert legend(page) == {name: pytest.approx(100 * ns / total, abs=0.051) for name, ns in time.items()}
    page.get_by_role("searchbox").fill("norm")
    page.wait_for_timeout(60)
    share = 100 * time["norm"] / total
    said = shown_panel(page).locator(".timeline-status").inner_text()
    assert f"“norm”: {share:.1f}% of all time" in said


def test_a_chosen_depth_has_the_shares_of_the_calls_there(tmp_path: Path, open_page: OpenPage) -> None:
    """Below and above the threshold: what `compute` calls belongs to it."""
    experiment = sampled(16, 1, 16_000)
    said = []
    for limits in (Limits(), Limits(events=100)):
        page = opened(tmp_path, open_page, experiment, limits)
        page.get_by_role("radio", name="One line per row").click()
        picked(page, "Depth", "2")
        said.append(legend(page))
    table = costs(experiment)
    inclusive = {
        experiment.contexts.name(c): 100 * float(table.inclusive[c]) / table.total
        for c in range(len(CALLS))
        if experiment.contexts.parent[c] == 0
    }
    assert said[0] == said[1] == {name: pytest.approx(share, abs=0.051) for name, share in inclusive.items()}
