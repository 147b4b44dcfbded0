"""Reports in a browser: Debian's Chromium (or another that the machine has), driven by Playwright, without a network.

A page fails its test when anything is written to the console as an error, when a script throws, or when it asks for
anything that is not in the file itself. Screenshots are kept under build/screenshots to be looked at.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from callgrove.cli.main import main
from callgrove.examples import example
from callgrove.viewer.report import Input as ReportInput
from callgrove.viewer.report import report
from callgrove.viewer.server.inputs import Input
from tests.requirements import ROOT, need, need_module
from tests.timing import HANG_SEC

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCREENSHOTS = ROOT / "build" / "screenshots"
WITHIN = ("file:", "data:", "blob:", "about:")
SIZE: ViewportSize = {"width": 1280, "height": 720}

REFUSALS = (409, 422)

OpenPage = Callable[..., Page]
OpenView = Callable[..., Page]
Screenshot = Callable[[Page, str], None]

# a browser asks before a page saves more than ten files
few_tabs = pytest.mark.parametrize("tabs", [("Overview", "Flame graph"), ("Call tree", "Spread")])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process. Whatever is expected of its pages has as long as a busy machine needs."""
    expect.set_options(timeout=1000 * HANG_SEC / 4)
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
        context, page = _new_page(browser, problems, WITHIN, dark=dark, scale=scale, offline=True)
        contexts.append(context)
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def open_view(browser: Browser) -> Iterator[OpenView]:
    """Gives `open_view(input, ..., dark=False)`: the page of a viewer of these inputs once it is drawn, which may ask
    its server and nobody else."""
    need_module("starlette")
    from tests.viewer.serving import serving

    with ExitStack() as ending:
        problems: list[str] = []

        def opened(*inputs: Input, dark: bool = False, size: ViewportSize = SIZE) -> Page:
            viewer = ending.enter_context(serving(*inputs))
            ours = (f"http://127.0.0.1:{viewer.address.port}/", "data:", "blob:")
            context, page = _new_page(browser, problems, ours, dark=dark, size=size)
            ending.callback(context.close)
            page.goto(viewer.address.url)
            page.wait_for_selector("html[data-ready]", state="attached")
            return page

        yield opened
    assert problems == []


def _new_page(
    browser: Browser,
    problems: list[str],
    within: tuple[str, ...],
    *,
    dark: bool,
    scale: float = 1,
    offline: bool = False,
    size: ViewportSize = SIZE,
) -> tuple[BrowserContext, Page]:
    """A page that notes what goes wrong."""
    context = browser.new_context(
        viewport=size,
        offline=offline,
        accept_downloads=True,
        color_scheme="dark" if dark else "light",
        device_scale_factor=scale,
    )
    page = context.new_page()
    page.set_default_timeout(1000 * HANG_SEC)
    page.on("console", lambda said: problems.append(said.text) if _is_problem(said) else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
    page.on("request", lambda request: None if request.url.startswith(within) else problems.append(request.url))
    return context, page


def _is_problem(said: ConsoleMessage) -> bool:
    """Browsers say it when a server refuses something, as the viewer's does with wrong formulas and stale files."""
    return said.type in ("error", "warning") and not any(f"status of {status} " in said.text for status in REFUSALS)


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
    path.write_text(report([ReportInput(example(), ["stencil.d"])]), encoding="utf-8")
    return path
