"""The site of the documentation: it builds without a warning, links and anchors lead somewhere, the search finds."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from callgrove.cli.main import VERBS
from callgrove.formats.registry import FORMATS
from tests.requirements import ROOT, need_module
from tests.timing import HANG_SEC

OWN = ("file:", "data:", "blob:")


class Links(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        link = given.get("href" if tag in ("a", "link") else "src")
        if link:
            self.links.append(link)


@pytest.fixture(scope="module")
def site() -> Path:
    need_module("mkdocs")
    command = [sys.executable, str(ROOT / "docs" / "site.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SEC, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return ROOT / "build" / "site"


def test_links_and_anchors_lead_somewhere(site: Path) -> None:
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    broken = []
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchors = pages[target].anchors if target in pages else {unquote(parts.fragment)}
            if not target.exists() or unquote(parts.fragment) not in anchors:
                broken.append(f"{page.relative_to(site)}: {link}")
    assert len(pages) > len(VERBS) + 40
    assert broken == []


def test_every_verb_format_and_page_is_there(site: Path) -> None:
    home = (site / "index.html").read_text("utf-8")
    assert [verb.name for verb in VERBS if f'href="reference/verbs/{verb.name}.html"' not in home] == []
    formats = (site / "reference" / "formats.html").read_text("utf-8")
    assert [entry.name for entry in FORMATS if f"<code>{entry.name}</code>" not in formats] == []
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"README"}
    assert [page for page in sorted(pages) if f'href="docs/{page}.html"' not in home] == []


def test_the_search_finds_without_a_network(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.locator("[data-md-component=search-query]").click()
    expect(page.locator(".md-search-result__meta")).to_have_text("Type to start searching")  # the index is loaded
    page.locator("[data-md-component=search-query]").press_sequentially("load balance")
    results = page.locator(".md-search-result__link")
    expect(results.first).to_be_visible()
    results.first.click()
    expect(page.locator("article h1")).to_be_visible()
    assert page.url != (site / "index.html").as_uri()
    assert [url for url in asked if not url.startswith(OWN)] == []
    page.close()
