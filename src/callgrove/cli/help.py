"""`callgrove help`: the documentation in the terminal.

A topic is a page of docs/, a verb, a format, or the heading of a part of a page. The pages are those of the checkout,
or those that a wheel or a zipapp carries (`callgrove/docs`). What they are for is said by the tables of docs/README.md,
so a new page is a topic as soon as it is listed there.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from textwrap import wrap

from callgrove.cli.parser import Command, did_you_mean
from callgrove.errors import CallgroveError, UsageError

INDEX = "README"  # the page that leads to all others
LINES = 100  # columns of a text that is not a table, at most
ROW = re.compile(r"^\| (.+?) \| (.*\S) *\|$", re.MULTILINE)
WORD = re.compile(r"\w+")
LINK = re.compile(r"\[([^\]]*)\]\(([\w/-]+)\.md\)")


@dataclass(frozen=True, kw_only=True)
class Options:
    topic: list[str]
    man: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "topic", nargs="*", metavar="TOPIC", help="a page, a verb, a format or a heading (default: list the topics)"
    )
    parser.add_argument("--man", metavar="FOLDER", default="", help="write manual pages (roff) into this folder")


def run(options: Options) -> int:
    if options.man:
        from callgrove.cli.manual import write_pages

        written = write_pages(Path(options.man))
        sys.stderr.write(f"callgrove: {len(written)} manual pages are in {options.man}\n")
        return 0
    pages = read_pages()
    text = find_topic(" ".join(options.topic), pages) if options.topic else ""
    _show(text, pages)
    return 0


# -- pages -------------------------------------------------------------------------------------------------------------


def read_pages() -> dict[str, str]:
    """Return the pages of the documentation by name, those that the index leads to first, in its order."""
    folder = _find_folder()
    texts = {
        name: page.read_text("utf-8")
        for part in ("", "tutorials")
        for name, page in _list_pages(folder / part if part else folder, part)
    }
    order = [name for _, name in LINK.findall(texts.get(INDEX, "")) if name in texts]
    return {name: texts[name] for name in dict.fromkeys([*order, *sorted(texts)])}


def _find_folder() -> Traversable:
    package = files("callgrove")
    checkout = Path(str(package)).parent.parent / "docs"
    for folder in (package / "docs", checkout):
        if (folder / "cli.md").is_file():
            return folder
    raise CallgroveError("this installation has no pages of documentation; 'callgrove VERB --help' tells about a verb")


def _list_pages(folder: Traversable, part: str) -> Iterator[tuple[str, Traversable]]:
    if folder.is_dir():
        for page in folder.iterdir():
            if page.name.endswith(".md"):
                name = page.name.removesuffix(".md")
                yield f"{part}/{name}" if part else name, page


def describe_pages(pages: Mapping[str, str]) -> dict[str, str]:
    """Return what each page is for: what the index says of it, else its heading."""
    from callgrove.render.pages import list_headings, strip_marks

    described: dict[str, str] = {}
    for purpose, links in ROW.findall(pages.get(INDEX, "")):
        targets = LINK.findall(links)
        for text, name in targets:
            said = strip_marks(purpose)
            several = len(targets) > 1 and not text.endswith(".md")
            described.setdefault(name, f"{said}: {text}" if several else said)
    for name, text in pages.items():
        described.setdefault(name, next(iter(list_headings(text)), name))
    return {name: described[name] for name in pages if name != INDEX}


# -- topics ------------------------------------------------------------------------------------------------------------


def find_topic(topic: str, pages: Mapping[str, str]) -> str:
    """Return the Markdown text about a topic."""
    from callgrove.cli.main import VERBS

    wanted = topic.lower().removesuffix(".md").removeprefix("callgrove ").removeprefix("docs/")
    verbs = {verb.name: verb.help for verb in VERBS}
    if wanted in verbs:
        return _describe_verb(wanted, verbs[wanted], pages)
    by_name = {name.rpartition("/")[2].lower(): text for name, text in pages.items()}
    if wanted in by_name:
        return by_name[wanted]
    page = find_page_of_format(wanted, pages)
    return pages[page] if page else _find_heading(wanted, pages)


def _describe_verb(name: str, help_: str, pages: Mapping[str, str]) -> str:
    """Return what the page of the command line says of a verb, and the page that has its name or that of its format."""
    from callgrove.render.pages import cut_section

    section = cut_section(pages["cli"], name) or f"## {name}\n\n{help_}"
    page = pages.get(name if name in pages else find_page_of_format(name, pages) or "", "")
    more = f"`callgrove {name} --help` lists every option."
    return "\n\n".join(part for part in (section.rstrip(), page.rstrip(), more) if part)


def list_topics() -> list[str]:
    """Return every page, verb and format, for completion."""
    from callgrove.cli.main import VERBS

    return [*(name for name in read_pages() if name != INDEX), *(verb.name for verb in VERBS), *list_formats()]


def list_formats() -> dict[str, str]:
    """Return every format by name, with its title."""
    from callgrove.formats.registry import FORMATS

    return {entry.name: entry.title for entry in FORMATS}


def find_page_of_format(name: str, pages: Mapping[str, str]) -> str | None:
    """Return the page that tells what is in the files of a format; none where no format has the name."""
    from callgrove.formats.registry import FORMATS

    return next((entry.page for entry in FORMATS if entry.name == name and entry.page in pages), None)


def _find_heading(wanted: str, pages: Mapping[str, str]) -> str:
    """Return the part of a page below the heading that is asked for, or refuse the topic with the nearest ones."""
    from callgrove.render.pages import cut_section, list_headings

    headings = {heading.lower(): name for name in reversed(list(pages)) for heading in list_headings(pages[name])}
    exact = wanted if wanted in headings else next((one for one in headings if _has_words(one, wanted)), None)
    if exact is not None:
        name = headings[exact]
        return f"{cut_section(pages[name], exact)}\n\nThis is a part of `callgrove help {name}`."
    from callgrove.cli.main import VERBS

    choices = [*(verb.name for verb in VERBS), *pages, *list_formats(), *headings]
    raise UsageError(f"no topic {wanted!r}{did_you_mean(wanted, choices)}; 'callgrove help' lists them")


def _has_words(heading: str, wanted: str) -> bool:
    return set(WORD.findall(wanted)) <= set(WORD.findall(heading)) and bool(WORD.search(wanted))


# -- what is shown -----------------------------------------------------------------------------------------------------


def _show(topic: str, pages: Mapping[str, str]) -> None:
    from callgrove.cli.output import stdout_look
    from callgrove.render.pages import render_page

    look = stdout_look()
    width = min(look.width or LINES, LINES)
    text = render_page(topic, width, look.colour) if topic else "\n".join(_list_topics(pages, width)) + "\n"
    if look.width is None or not sys.stdin.isatty():
        sys.stdout.write(text)
        return
    from pydoc import pager

    os.environ.setdefault("LESS", "FRX")  # no pager for what fits, bold letters as such, the text stays afterwards
    pager(text)


def _list_topics(pages: Mapping[str, str], width: int) -> Iterator[str]:
    from callgrove.cli.main import VERBS

    described = describe_pages(pages)
    column = max(map(len, described)) + 2
    yield "usage: callgrove help TOPIC"
    yield ""
    yield "pages:"
    for name, purpose in described.items():
        lines = wrap(purpose, max(20, width - column - 2)) or [""]
        yield f"  {name:<{column}}{lines[0]}"
        yield from (f"  {'':<{column}}{line}" for line in lines[1:])
    yield from _list_names("verbs", (verb.name for verb in VERBS), width)
    yield from _list_names("formats", list_formats(), width)
    yield ""
    yield "Headings of pages are topics, too: callgrove help 'what all verbs share'"


def _list_names(title: str, names: Iterable[str], width: int) -> Iterator[str]:
    yield ""
    yield f"{title}:"
    yield from wrap(" ".join(names), width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


HELP = Command(Options, add_arguments, run)
