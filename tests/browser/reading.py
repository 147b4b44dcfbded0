"""What a reader does with a page, and what is on it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, Page

__all__ = [
    "box",
    "downloaded",
    "flame",
    "level_height",
    "open_tab",
    "picked",
    "rows",
    "shown_panel",
    "tooltip",
    "wait_for_picture",
]

MAP = 34  # pixels of the flame graph above its first box


def wait_for_picture(page: Page) -> None:
    """Pictures are drawn with the next frame: wait until the one after it begins, however busy the machine is."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()
    wait_for_picture(page)


def shown_panel(page: Page) -> Locator:
    return page.locator(".panel:not([hidden])")


def rows(page: Page) -> list[list[str]]:
    """The cells of the rows in sight."""
    found: list[list[str]] = page.evaluate(
        "() => [...document.querySelectorAll('.panel:not([hidden]) .row')]"
        ".map(row => [...row.querySelectorAll('.cell-text')].map(cell => cell.textContent))"
    )
    return found


def picked(page: Page, label: str, value: str) -> None:
    """Choose from a list, by its label."""
    page.locator("label.choice:visible", has_text=label).locator("select").select_option(label=value)
    wait_for_picture(page)


def flame(page: Page) -> Locator:
    return page.locator(".panel-flame-graph canvas")


def level_height(page: Page) -> int:
    """Pixels of a box."""
    return int(flame(page).get_attribute("data-row") or 0)


def tooltip(page: Page) -> dict[str, str]:
    """The details in sight: the title, and a text for every word."""
    box = page.locator(".tooltip:not([hidden])")
    words = box.locator("dt").all_inner_texts()
    return {
        "title": box.locator(".tooltip-title").inner_text(),
        **dict(zip(words, box.locator("dd").all_inner_texts(), strict=True)),
    }


def downloaded(page: Page, button: Locator, folder: Path) -> Path:
    """What a button saves."""
    with page.expect_download() as waiting:
        button.click()
    target = folder / waiting.value.suggested_filename
    waiting.value.save_as(target)
    return target


def box(page: Page, share: float, level: int) -> dict[str, float]:
    """Where a place of the flame graph is: a share of its width, and a level from the root."""
    width = flame(page).bounding_box()
    assert width is not None
    return {"x": share * width["width"], "y": MAP + (level + 0.5) * level_height(page)}
