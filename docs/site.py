"""Make a site of the documentation: `make site` writes build/site, which opens from disk and is searched offline.

The pages are those of the checkout, at the same places, so that their links hold. Added to them is a reference made of
the code: the verbs from their parsers, the library from its docstrings, the formats from the registry. The navigation
follows docs/README.md: a new page is there as soon as it is listed.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import callgrove
from callgrove.cli.main import VERBS
from callgrove.cli.manual import make_parser
from callgrove.formats.registry import FORMATS

ROOT = Path(__file__).resolve().parent.parent
SOURCE, TARGET = ROOT / "build" / "site-source", ROOT / "build" / "site"
COPIED = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
)
FOLDERS = {"docs": ("*.md", "*.png", "*.svg", "*.ipynb"), "bench": ("*.md",)}
THEIR_WORKER = "https://unpkg.com/iframe-worker/shim"
LINK = re.compile(r"\[([^\]]*)\]\(([\w/.-]+\.md)\)")
SETTINGS: dict[str, Any] = {
    "site_name": "callgrove",
    "docs_dir": str(SOURCE),
    "site_dir": str(TARGET),
    "use_directory_urls": False,  # opens from disk
    "theme": {
        "name": "material",
        "font": False,
        "features": ["navigation.top", "search.highlight", "content.code.copy"],
    },
    "plugins": ["search", "offline"],
    "validation": {"nav": {"omitted_files": "ignore"}, "links": {"anchors": "warn", "not_found": "warn"}},
}
# Names of headings as hosts of Markdown make them: pages are read there, too.
EXTENSIONS = """
markdown_extensions:
  - tables
  - pymdownx.superfences
  - pymdownx.highlight
  - toc:
      permalink: true
      slugify: !!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}
"""


def make_site() -> int:
    """Write the pages, and have MkDocs make the site; any warning is a failure."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    copy_pages()
    write_reference()
    settings = ROOT / "build" / "mkdocs.yml"
    settings.write_text("\n".join(_write_yaml({**SETTINGS, "nav": list_navigation()})) + EXTENSIONS, "utf-8")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--clean",
        "--config-file",
        str(settings),
    ]
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # a notice about a successor
    code = subprocess.run(command, env=surroundings, check=False).returncode
    return code or replace_worker()


def replace_worker() -> int:
    """Put our own script where the theme asks a server for one that lets its search run in pages opened from disk."""
    name = "offline_search.js"
    shutil.copyfile(Path(__file__).with_name(name), TARGET / "assets" / name)
    for page in TARGET.rglob("*.html"):
        depth = len(page.relative_to(TARGET).parts) - 1
        text = page.read_text("utf-8")
        if text.count(THEIR_WORKER) != 1:
            print(f"{page}: the theme no longer asks for {THEIR_WORKER}", file=sys.stderr)
            return 1
        page.write_text(text.replace(THEIR_WORKER, f"{'../' * depth}assets/{name}"), "utf-8")
    return 0


def _write_yaml(settings: dict[str, Any]) -> Iterator[str]:
    """Yield settings as YAML, of which JSON is a part."""
    yield from (f"{name}: {json.dumps(value)}" for name, value in settings.items())


# -- pages -------------------------------------------------------------------------------------------------------------


def copy_pages() -> None:
    """Copy the pages, pictures and notebooks to the same places; the home page is README.md."""
    SOURCE.mkdir(parents=True)
    for name in COPIED:
        shutil.copyfile(ROOT / name, SOURCE / name)
    for folder, patterns in FOLDERS.items():
        for path in (path for pattern in patterns for path in (ROOT / folder).rglob(pattern)):
            place = SOURCE / path.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)


def list_navigation() -> list[Any]:
    """Return the navigation: tutorials, pages for tasks and pages about files in the order of docs/README.md."""
    sections = _split_index((ROOT / "docs" / "README.md").read_text("utf-8"))
    reference = sorted((SOURCE / "reference" / "verbs").glob("*.md"))
    return [
        {"Home": "README.md"},
        {"Tutorials": sections["tutorial"]},
        {"Guides": sections["page"]},
        {"Formats": [{"All formats": "reference/formats.md"}, *sections["pages"]]},
        {
            "Reference": [
                {"Library": "reference/library.md"},
                {"Verbs": [{page.stem: page.relative_to(SOURCE).as_posix()} for page in reference]},
            ]
        },
        {"Contributing": [*sections[""], *_list_contributing()]},
    ]


def _split_index(index: str) -> dict[str, list[dict[str, str]]]:
    """Return the pages that each table of the index leads to, by the head of its second column."""
    sections: dict[str, list[dict[str, str]]] = {}
    seen: set[str] = set()
    for table in re.findall(r"(?:^\|.*\n)+", index, re.MULTILINE):
        head = table.splitlines()[0].split("|")[2].strip()
        for _, name in LINK.findall(table):
            path = (ROOT / "docs" / name).resolve()
            if name not in seen and path.is_file():
                seen.add(name)
                entry = {_find_title(path): path.relative_to(ROOT).as_posix()}
                sections.setdefault(head, []).append(entry)
    return sections


def _find_title(page: Path) -> str:
    return next(line[2:] for line in page.read_text("utf-8").splitlines() if line.startswith("# "))


def _list_contributing() -> list[dict[str, str]]:
    pages = [*sorted((ROOT / "docs" / "contributing").glob("*.md")), ROOT / "CODE_OF_CONDUCT.md", ROOT / "CHANGELOG.md"]
    return [{_find_title(page): page.relative_to(ROOT).as_posix()} for page in pages]


# -- reference ---------------------------------------------------------------------------------------------------------


def write_reference() -> None:
    folder = SOURCE / "reference"
    (folder / "verbs").mkdir(parents=True)
    for verb in VERBS:
        _write(folder / "verbs" / f"{verb.name}.md", describe_verb(verb.name))
    _write(folder / "formats.md", describe_formats())
    _write(folder / "library.md", describe_library())


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("\n".join(lines) + "\n", "utf-8")


def describe_verb(name: str) -> Iterator[str]:
    """Yield the page of a verb: what its `--help` prints."""
    verb = next(verb for verb in VERBS if verb.name == name)
    yield f"# callgrove {name}"
    yield ""
    yield f"{verb.help[:1].upper()}{verb.help[1:]}."
    yield f"[The command line](../../docs/cli.md#{name}) has examples and what they print."
    yield ""
    yield from ("```text", make_parser(verb).format_help().rstrip(), "```")


def describe_formats() -> Iterator[str]:
    """Yield the page of the formats: what the registry knows of each."""
    yield "# All formats"
    yield ""
    yield "What `callgrove formats` lists, with the page about the files of each."
    yield "Content decides which format an input has; a name only says where to look first."
    yield ""
    yield "| name | what | reads | writes | usual names | extra | page |"
    yield "|---|---|---|---|---|---|---|"
    for entry in FORMATS:
        names = ", ".join(f"`{name}`" for name in entry.usual_names)
        reads, writes = ("yes" if able else "" for able in (entry.reads, entry.writes))
        page = f"[{entry.page}](../docs/{entry.page}.md)" if entry.page else ""
        yield f"| `{entry.name}` | {entry.title} | {reads} | {writes} | {names} | {entry.extra} | {page} |"


def describe_library() -> Iterator[str]:
    """Yield the page of the library: every public name with its signature and docstring, and methods of classes."""
    yield "# The library"
    yield ""
    yield "Every public name of `callgrove`, from its docstrings."
    yield "[Library](../docs/library.md) tells how they go together."
    for name in sorted(callgrove.__all__):
        value = getattr(callgrove, name)
        if inspect.isclass(value):
            yield from _describe_class(name, value)
        elif callable(value):
            yield from _describe_function(f"## {name}", name, value)


def _describe_class(name: str, value: type) -> Iterator[str]:
    yield from ("", f"## {name}", "", *_quote(value.__doc__))
    for method, function in inspect.getmembers(value, inspect.isfunction):
        if not method.startswith("_") and function.__doc__:
            yield from _describe_function(f"### {name}.{method}", method, function)


def _describe_function(heading: str, name: str, function: Any) -> Iterator[str]:
    try:
        signature = str(inspect.signature(function))
    except ValueError:  # of a type written in C
        signature = "(...)"
    yield from ("", heading, "", "```text", f"{name}{signature}", "```", "", *_quote(function.__doc__))


def _quote(docstring: str | None) -> Iterator[str]:
    """Yield a docstring as a block of text: it is written for `help()`, not as Markdown."""
    if docstring:
        yield from ("```text", inspect.cleandoc(docstring), "```")


if __name__ == "__main__":
    sys.exit(make_site())
