"""The viewer: what a first picture, a picture of any window, its legend and a key press take.

A viewer runs in this process, and requests go through its socket, so that server time is the processor time of this
process less that of the client, which is measured with requests of nothing. What a browser takes is asked of it
(`TaskDuration`, of its main thread), where Playwright and a Chromium are there. Time is that of processors, since the
machine is shared.

    python -m bench view                 10^7 spans on 1,000 tracks, 10^5 and 2 * 10^6 contexts
    python -m bench view --scale 10      10^8 spans
"""

from __future__ import annotations

import http.client
import json
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import numpy as np

from bench.cases.timeline_index import build_apart, made
from bench.conditions import Conditions, opened
from bench.generate import Shape
from bench.results import Finding
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.viewer.server.inputs import Input, Wanted
from callgrove.viewer.server.running import Viewer
from callgrove.viewer.server.timelines import OpenTimeline

__all__ = ["run"]

N_SPANS, N_TRACKS, N_CONTEXTS, MANY_CONTEXTS = 10_000_000, 1_000, 100_000, 2_000_000
SOUGHT, SOUGHT_AMONG_FEW = "compute_00100", "compute_00000"
WIDTH, HEIGHT = 1_768, 1_200  # pixels: 1,600 of them for the time
WINDOWS = (1, 4, 16, 256)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
KEYS = "wwddawsdwa"
LONGEST_S = 600  # that a busy machine may take
RESTED_MS = 700
IDLE_S = 0.01  # of the processor in that time
MOST_RESTS = 20


@contextmanager
def serving(one: Input) -> Iterator[Viewer]:
    """Run a viewer on a thread of this process."""
    viewer = Viewer([one], "bench")
    one.start()
    one.settled.wait()
    thread = Thread(target=viewer.run)
    thread.start()
    try:
        while not ask(viewer, "status"):
            time.sleep(0.01)
        yield viewer
    finally:
        viewer.stop()
        thread.join()


def ask(viewer: Viewer, name: str, **parameters: Any) -> bytes:
    """Return an answer; nothing while nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", viewer.address.port)
    query = f"?{urlencode({'input': 0, **parameters})}" if name != "status" else ""
    try:
        connection.request("GET", f"/api/{name}{query}", headers={"X-Callgrove-Token": viewer.token})
        answer = connection.getresponse()
        body = answer.read()
    except OSError:
        return b""
    finally:
        connection.close()
    if answer.status != 200:
        raise AssertionError(f"{name}: {answer.status} {body[:200]!r}")
    return body


def run(conditions: Conditions) -> Iterator[Finding]:
    """Timelines, then call trees."""
    scale = float(conditions.largest)
    n_spans, n_tracks = max(2_000, round(N_SPANS * scale)), max(2, round(N_TRACKS * min(1.0, scale * 4)))
    folder = conditions.folder / "view-index" / "made"
    rmtree(folder.parent, ignore_errors=True)
    folder.mkdir(parents=True)
    build_apart(n_spans, n_tracks, folder)
    yield from _timeline(folder, n_spans, n_tracks)
    rmtree(folder.parent)
    for most, limit in ((N_CONTEXTS, 2_000), (MANY_CONTEXTS, None)):
        shape = Shape(n_profiles=16, n_contexts=max(2_000, round(most * min(1.0, scale))))
        sought = SOUGHT if shape.n_contexts >= N_CONTEXTS else SOUGHT_AMONG_FEW
        yield from _call_tree(conditions.database(shape), f"{shape.n_contexts:,} contexts", sought, limit)


def _call_tree(path: Path, where: str, sought: str, limit: float | None) -> Iterator[Finding]:
    """Pictures of a call tree, of a search and of a filter, each for the first time."""
    cases: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("first picture: explore", "tab", {"tab": "Explore"}),
        ("first picture: flame graph", "tab", {"tab": "Flame graph"}),
        ("functions with their callers", "rows", {"view": "callers"}),
        ("flat by function", "rows", {"view": "flat"}),
        ("flame graph, bottom-up", "flame", {"shape": "callers"}),
        ("a search", "search", {"text": sought}),
        ("a filter", "rows", {"view": "tree", "filter": f"** -> {sought} -> **"}),
    )
    one = Input(Wanted((str(path),), lambda progress: opened(path)))
    with serving(one) as viewer:
        ask(viewer, "outline")
        for what, name, how in cases:
            taken = _taken(partial(ask, viewer, name, **how), 1)
            note = f"{where}, server alone, the first time"
            yield Finding("view", what, 1e3 * taken, "ms", at_most=limit, note=note)
        yield from _in_browser(viewer, "Flame graph", where, limit)


def _processes(n: int) -> Experiment:
    """Return an experiment with a thread for each track."""
    builder = ExperimentBuilder("made", title="made")
    for rank in range(n):
        builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3)])
    return builder.build()


def _timeline(folder: Path, n_spans: int, n_tracks: int) -> Iterator[Finding]:
    experiment = replace(_processes(n_tracks), traces=made(n_spans, n_tracks).traces)
    one = Input(Wanted(("made",), lambda progress: experiment))
    with serving(one) as viewer:
        where = f"{n_spans:,} spans on {n_tracks:,} tracks"

        def begin() -> None:
            assert one.looks is not None
            assert one.looks.timelines is not None
            index = TimelineIndex.of_folder(experiment, folder)
            one.looks.timelines.adopt(OpenTimeline(index, experiment))
            ask(viewer, "timeline", width=1_600, rows=300)
            ask(viewer, "timelegend", exact=1, most=400)

        first = _taken(begin, 1)
        note = f"{where}, the index is in the cache; with its legend"
        yield Finding("view", "first picture: timeline", 1e3 * first, "ms", at_most=2_000, note=note)
        nothing = _taken(lambda: ask(viewer, "status"), 9)
        yield from _windows(viewer, nothing, n_tracks, where)
        yield from _in_browser(viewer, "Timeline", where)


def _windows(viewer: Viewer, nothing: float, n_tracks: int, where: str) -> Iterator[Finding]:
    """Pictures and legends of windows of several lengths."""
    length = _head(ask(viewer, "timeline", width=10, rows=1))["length_ns"]
    rng = np.random.default_rng(0)
    for part in WINDOWS:
        size = length // part
        begins = rng.integers(0, length - size + 1, 5).tolist()
        windows = [{"from": begin, "to": begin + size} for begin in begins]
        cases: list[tuple[str, str, dict[str, Any], float]] = [
            ("picture of 1,600 px", "timeline", {"width": 1_600, "rows": min(n_tracks, 1_200)}, 30),
            ("exact legend, 250 rows", "timelegend", {"exact": 1, "bottom": 250}, 50),
            ("legend with a bound, all rows", "timelegend", {"exact": 0}, 50),
        ]
        for what, name, how, limit in cases:
            taken = _median(partial(_ask_window, viewer, name, how), windows) - nothing
            body = len(ask(viewer, name, **windows[0], **how))
            note = f"{where}; {body / 1e3:,.0f} kB; of the processor, encoding included"
            yield Finding("view", f"{what}, 1/{part} of the time", 1e3 * taken, "ms", at_most=limit, note=note)


def _head(answer: bytes) -> dict[str, Any]:
    """Return an answer without its columns."""
    n_large, n_text = struct.unpack_from("<II", answer)
    head: dict[str, Any] = json.loads(answer[8 + n_large : 8 + n_large + n_text])
    return head


def _ask_window(viewer: Viewer, name: str, how: dict[str, Any], window: dict[str, Any]) -> object:
    return ask(viewer, name, **window, **how)


def _taken(work: Callable[[], object], n: int) -> float:
    """Return the least processor time of all threads of this process for some work."""
    best = float("inf")
    for _ in range(n):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def _median(work: Callable[[dict[str, Any]], object], windows: list[dict[str, Any]]) -> float:
    work(windows[0])  # what is touched first is checked, and read from disk
    return float(np.median([_taken(partial(work, window), 2) for window in windows]))


# -- the browser -------------------------------------------------------------------------------------------------------


def _in_browser(viewer: Viewer, tab: str, where: str, limit: float | None = 2_000) -> Iterator[Finding]:
    """What a page takes until a tab is drawn, and until a key has moved the timeline."""
    path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    what = f"first picture in a browser: {tab.lower()}"
    if find_spec("playwright") is None:
        yield Finding("view", what, float("nan"), "ms", at_most=limit, note="Playwright is not installed")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}).new_page()
        page.set_default_timeout(1000 * LONGEST_S)
        tools = page.context.new_cdp_session(page)
        tools.send("Performance.enable", {"timeDomain": "threadTicks"})  # processor time, not that of a clock

        def tasks() -> float:
            metrics = tools.send("Performance.getMetrics")["metrics"]
            return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

        began, before = time.process_time(), tasks()
        page.goto(f"{viewer.address.url}#tab={tab.replace(' ', '+')}")
        page.wait_for_selector("html[data-ready]", state="attached")
        page.wait_for_selector(".panel:not([hidden]) .legend .key, .panel:not([hidden]) canvas")
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")
        server, shown = time.process_time() - began, tasks() - before
        note = f"{where}; server {1e3 * server:,.0f} ms (with the driver), main thread {1e3 * shown:,.0f} ms"
        yield Finding("view", what, 1e3 * (server + shown), "ms", at_most=limit, note=note)
        if tab == "Timeline":
            page.locator(".live-timeline canvas").focus()
            yield from _keys([_press(page, tasks, key) for key in KEYS], where)
        browser.close()


def _keys(pressed: list[Pressed], where: str) -> Iterator[Finding]:
    """What key presses took: of processors, and by the clock of the page, which says more of a machine that is idle."""
    taken = float(np.median([one.seconds for one in pressed]))
    first, exact = (1e3 * float(np.median([getattr(one, name) for one in pressed])) for name in ("moved", "exact"))
    note = f"{where}; median of {len(pressed)}; server (with the driver) and main thread"
    yield Finding("view", "from a key press to the picture", 1e3 * taken, "ms", at_most=100, note=note)
    note = f"{where}; by the clock, busy or not: what is there is moved; exact after {exact:.0f} ms"
    yield Finding("view", "from a key press to the picture, moved", first, "ms", note=note)


@dataclass(frozen=True)
class Pressed:
    """Seconds of processors for a key press; by the clock, until something is moved, and until the picture is exact."""

    seconds: float
    moved: float
    exact: float


WATCH = """() => { window.told = new Promise((done) => {
    const frame = document.querySelector('.live-timeline');
    addEventListener('keydown', () => {
        const began = performance.now();
        let moved = 0;
        const observer = new MutationObserver(() => {
            moved ||= performance.now() - began;
            if (frame.dataset.current !== 'true') return;
            observer.disconnect();
            done([moved, performance.now() - began]);
        });
        observer.observe(frame, { attributes: true, attributeFilter: ['data-current'] });
    }, { once: true, capture: true });
}); }"""  # the page says so when it draws: looking at every frame would take time of its own


def _rest(page: Any) -> None:
    """Wait until the server does nothing any more of what was asked before."""
    for _ in range(MOST_RESTS):
        before = time.process_time()
        page.wait_for_timeout(RESTED_MS)
        if time.process_time() - before < IDLE_S:
            return


def _press(page: Any, tasks: Callable[[], float], key: str) -> Pressed:
    """Return what a key press takes until its picture is drawn."""
    _rest(page)
    page.evaluate(WATCH)
    began, before = time.process_time(), tasks()
    page.keyboard.press(key)
    moved, exact = page.evaluate("() => window.told")
    return Pressed(time.process_time() - began + tasks() - before, moved / 1e3, exact / 1e3)
