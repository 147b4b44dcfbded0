"""Makes the pictures of the documentation: as SVG, and of a report and the viewer where Chromium is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

from callgrove.algebra.cutting import part
from callgrove.examples import example

FOLDER = Path(__file__).resolve().parent / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CALLGROVE = Path(sys.executable).with_name("callgrove")


# name of the picture, input of the demo's report, view, height
PICTURES = (
    ("report-flame", 0, "Flame graph", 480),
    ("report-overview", 0, "Overview", 640),
    ("report-gpu", 1, "GPU", 560),
    ("report-scaling", 2, "Scaling", 620),
    ("report-surface", 2, "Scaling", 620),
)


def draw(demo: Path) -> None:
    """Draw the pictures that need no browser."""
    FOLDER.mkdir(exist_ok=True)
    command = [CALLGROVE, "timeline", demo / "train.db", "--by", "class", "-o", FOLDER / "timeline.svg"]
    subprocess.run(command, check=True)
    example().flame(width=900).save(FOLDER / "flame.svg")
    example().spread(width=800).save(FOLDER / "spread.svg")


def main(report: Path) -> int:
    """Take a picture of each view that the documentation shows."""
    draw(report.parent)
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        sys.stderr.write("no Chromium is installed: the pictures stay as they are\n")
        return 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 480}, device_scale_factor=1)
        page.goto(report.resolve().as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        for name, number, view, height in PICTURES:
            page.set_viewport_size({"width": 1180, "height": height})
            page.locator(".top select").select_option(str(number))
            page.get_by_role("tab", name=view).click()
            if view == "Scaling":
                choose_models(page, "Surface" if name == "report-surface" else "Curves")
            page.mouse.move(5, 5)
            page.wait_for_timeout(300)
            page.screenshot(path=FOLDER / f"{name}.png")
        draw_comparison(page)
        with serve(report.parent / "stencil.d") as address:
            draw_explore(page, address)
        with serve(report.parent / "train.db") as address:
            draw_timeline(page, address)
        browser.close()
    return 0


def choose_models(page: Page, shape: str) -> None:
    """Choose two models to draw together, of which one overtakes the other."""
    panel = page.locator(".panel:not([hidden])")
    panel.get_by_role("radio", name=shape).click()
    if shape == "Curves":
        for number in (0, 1):
            panel.locator(".row .row-mark").nth(number).click()
        panel.locator('label.choice:has(span:text-is("n")) select').select_option(label="100")
        panel.get_by_label("log time").check()


def draw_comparison(page: Page) -> None:
    """Take the flame graph of two ranks of the example, compared."""
    first, last = (replace(part(example(), ranks=[rank]), path=name) for rank, name in ((0, "first.d"), (3, "last.d")))
    with TemporaryDirectory() as folder:
        target = Path(folder) / "change.html"
        first.compare(last).report(target)
        page.set_viewport_size({"width": 1180, "height": 480})
        page.goto(target.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        page.get_by_role("tab", name="Flame graph").click()
        page.wait_for_timeout(300)
        page.screenshot(path=FOLDER / "compare-flame.png")


@contextmanager
def serve(path: Path) -> Iterator[str]:
    """Give the address of a viewer of an input, which ends with the context."""
    command = [CALLGROVE, "view", path.name, "--no-browser"]
    viewer = subprocess.Popen(command, cwd=path.parent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert viewer.stdout is not None
    try:
        yield viewer.stdout.readline().strip()
    finally:
        viewer.terminate()
        viewer.wait()


def open_view(page: Page, address: str, tab: str) -> None:
    """Open a tab of a viewer."""
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached")
    page.get_by_role("tab", name=tab).click()
    page.wait_for_timeout(2000)


def draw_explore(page: Page, address: str) -> None:
    """Take the coupled panes, a function chosen in them."""
    open_view(page, address, "Explore")
    panel = page.locator(".panel:not([hidden])")
    panel.get_by_role("button", name="Hot path").click()
    page.wait_for_timeout(500)
    panel.locator(".row", has_text="solve").first.click()
    panel.locator("label.choice", has_text="over").locator("select").select_option(label="thread")
    page.wait_for_timeout(500)
    page.mouse.move(5, 5)
    page.screenshot(path=FOLDER / "view-explore.png")


def draw_timeline(page: Page, address: str) -> None:
    """Take a timeline with a range, how long its spans were, and the call stack at the cursor."""
    open_view(page, address, "Timeline")
    panel = page.locator(".panel:not([hidden])")
    box = panel.locator("canvas").first.bounding_box()
    assert box is not None
    across, down = box["width"], box["y"] + 60
    page.mouse.move(box["x"] + 0.42 * across, down)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.58 * across, down, steps=5)
    page.mouse.up()
    page.wait_for_timeout(500)
    panel.get_by_role("radio", name="Durations").click()
    page.mouse.click(box["x"] + 0.5 * across, down - 8)
    page.wait_for_timeout(1000)
    page.mouse.move(5, 5)
    page.screenshot(path=FOLDER / "view-timeline.png")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
