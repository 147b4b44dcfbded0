"""Reports in a browser: Debian's Chromium (or another that the machine has), driven by Playwright, without a network.

A page fails its test when anything is written to the console as an error, when a script throws, or when it asks for
anything that is not in the file itself. Screenshots are kept under build/screenshots to be looked at.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, Request, sync_playwright

from callgrove.cli.main import main
from callgrove.examples import example
from callgrove.viewer.report import Input, report
from tests.requirements import ROOT, need
from tests.timing import HANG_SEC

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCREENSHOTS = ROOT / "build" / "screenshots"
WITHIN = ("file:", "data:", "blob:", "about:")
SIZE = {"width": 1280, "height": 720}

OpenPage = Callable[..., Page]
Screenshot = Callable[[Page, str], None]

# a browser asks before a page saves more than ten files
few_tabs = pytest.mark.parametrize("tabs", [("Overview", "Flame graph"), ("Call tree", "Spread")])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        need("browser", "no Chromium is installed")
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except Error as error:
            need("browser", f"{found} does not start: {error.message.splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Gives `open_page(path, dark=False)`: the page once it is drawn, at 1280 x 720. What goes wrong in any of them
    fails the test at its end."""
    contexts = []
    problems: list[str] = []

    def opened(path: Path, *, dark: bool = False, scale: float = 1) -> Page:
        context = browser.new_context(
            viewport=SIZE,  # type: ignore[arg-type]
            offline=True,
            accept_downloads=True,
            color_scheme="dark" if dark else "light",
            device_scale_factor=scale,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * HANG_SEC)
        page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
        page.on("request", lambda request: problems.append(request.url) if _outside(request) else None)
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def _outside(request: Request) -> bool:
    return not request.url.startswith(WITHIN)


@pytest.fixture
def screenshot() -> Callable[[Page, str], None]:
    """Keeps a picture of the page under a name."""

    def kept(page: Page, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png")

    return kept


@pytest.fixture
def written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Path]:
    """Gives `written(PATH..., option...)`: the page that `callgrove report` makes of them."""

    def made(*words: object) -> Path:
        target = tmp_path / "report.html"
        assert main(["report", *map(str, words), "-o", str(target)]) == 0, capsys.readouterr().err
        return target

    return made


@pytest.fixture(scope="session")
def stencil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "stencil.html"
    path.write_text(report([Input(example(), ["stencil.d"])]), encoding="utf-8")
    return path
