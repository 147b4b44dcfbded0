"""Makes the pictures of the documentation: SVG of the example, and of a report where Chromium is installed."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

from callgrove.algebra.cutting import part
from callgrove.examples import example

FOLDER = Path(__file__).resolve().parent / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


# name of the picture, input of the demo's report, view, height
PICTURES = (
    ("report-flame", 0, "Flame graph", 480),
    ("report-overview", 0, "Overview", 640),
    ("report-gpu", 1, "GPU", 560),
    ("report-scaling", 2, "Scaling", 620),
    ("report-surface", 2, "Scaling", 620),
)


def draw() -> None:
    """The pictures that need no browser."""
    FOLDER.mkdir(exist_ok=True)
    example().flame(width=900).save(FOLDER / "flame.svg")
    example().spread(width=800).save(FOLDER / "spread.svg")


def main(report: Path) -> int:
    """One picture for each view that the documentation shows."""
    draw()
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
        browser.close()
    return 0


def choose_models(page: Page, shape: str) -> None:
    """Two models drawn together, of which one overtakes the other."""
    panel = page.locator(".panel:not([hidden])")
    panel.get_by_role("radio", name=shape).click()
    if shape == "Curves":
        for number in (0, 1):
            panel.locator(".row .row-mark").nth(number).click()
        panel.locator('label.choice:has(span:text-is("n")) select').select_option(label="100")
        panel.get_by_label("log time").check()


def draw_comparison(page: Page) -> None:
    """The flame graph of two ranks of the example, compared."""
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


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
