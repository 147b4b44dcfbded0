"""`callgrove help`: topics are found, pages are readable in a terminal, manual pages are made of the parsers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from callgrove.cli.help import describe_pages, find_topic, read_pages
from callgrove.cli.main import VERBS, main
from callgrove.cli.manual import make_pages, make_parser
from callgrove.formats.registry import FORMATS
from callgrove.render.pages import cut_section, list_headings, render_page
from tests.requirements import ROOT, need
from tests.timing import HANG_SEC

PAGE = """\
# A title

Text with `code`, **weight** and [a link](there.md), which goes on
in a second line.

| word | meaning |
|---|---|
| `a\\|b` | one or the other, told in so many words that no line of forty columns can hold it |

- a list, whose items also
  go on

```console
# $ this is not a heading, however long the line may be
```

## Part

![A picture](images/x.png)
"""

AS_TEXT = """\
A title
=======

Text with code, weight and a link, which
goes on in a second line.

word  meaning
----  ----------------------------------
a|b   one or the other, told in so many
      words that no line of forty
      columns can hold it

- a list, whose items also go on

    # $ this is not a heading, however long the line may be

Part
----

(picture: A picture)
"""


def test_a_page_as_text() -> None:
    assert render_page(PAGE, 40) == AS_TEXT
    assert "\033[1mA title\033[0m\n\nText" in render_page(PAGE, 40, bold=True)


def test_parts_of_a_page() -> None:
    assert list_headings(PAGE) == ["A title", "Part"]
    assert cut_section(PAGE, "part") == "## Part\n\n![A picture](images/x.png)"
    assert cut_section(PAGE, "A title").splitlines() == PAGE.splitlines()
    assert cut_section(PAGE, "nothing") == ""


def test_every_page_verb_and_format_is_a_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    words = set(re.findall(r"[\w/-]+", capsys.readouterr().out))
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"README"}
    assert words >= pages | {verb.name for verb in VERBS} | {entry.name for entry in FORMATS}


def test_every_page_has_a_purpose() -> None:
    pages = read_pages()
    described = describe_pages(pages)
    assert described["cube"] == "Score-P, Scalasca, CubeLib"
    assert described["hpcrun"] == "HPCToolkit: measurements"
    assert next(iter(described)) == "cli", "pages come in the order of the index"
    assert all(described.values())


def test_every_format_leads_to_the_page_about_it() -> None:
    pages = read_pages()
    assert [entry.name for entry in FORMATS if entry.page not in pages] == []
    assert find_topic("rpd", pages) == find_topic("gpu", pages) == (ROOT / "docs" / "gpu.md").read_text("utf-8")
    assert "# GPU databases in callgrove" in find_topic("rocpd", pages), "it is a verb and a format"
    assert find_topic("hpctoolkit-release", pages) == find_topic("docs/hpctoolkit.md", pages)


def test_every_verb_has_its_part_of_the_page() -> None:
    pages = read_pages()
    for verb in VERBS:
        text = find_topic(verb.name, pages)
        assert text.startswith(f"## {verb.name}\n")
        assert text.endswith(f"`callgrove {verb.name} --help` lists every option.")
    assert "# Metrics that you define" in find_topic("formulas", pages)
    assert "\n# SQL" in find_topic("sql", pages), "a verb that has a page of its own shows both"


def test_a_heading_is_a_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "what", "all", "verbs", "share"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("What all verbs share\n----")
    assert out.endswith("This is a part of callgrove help cli.\n")


@pytest.mark.parametrize(("typed", "near"), [("selcting", "selecting"), ("tpo", "top"), ("rockpd", "rocpd")])
def test_the_nearest_topic_is_named(typed: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", typed]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"callgrove: no topic '{typed}' (did you mean '{near}'?); 'callgrove help' lists them\n")


def test_manual_pages_have_every_verb_and_option() -> None:
    pages = dict(make_pages())
    assert sorted(pages) == sorted(["callgrove.1", *(f"callgrove-{verb.name}.1" for verb in VERBS)])
    for verb in VERBS:
        text = pages[f"callgrove-{verb.name}.1"].replace("\\-", "-").replace("\\:", "")
        shown = re.findall(r"--[a-z][a-z-]+", make_parser(verb).format_help().partition("examples:")[0])
        assert [option for option in shown if option not in text] == []
        assert f"{verb.name}(1)" in pages["callgrove.1"].replace("\\-", "-")


def test_manual_pages_are_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("man") is None:
        need("man", "man is not installed")
    assert main(["help", "--man", str(tmp_path)]) == 0
    assert capsys.readouterr().err == f"callgrove: {len(VERBS) + 1} manual pages are in {tmp_path}\n"
    command = ["man", "--warnings", "-l", "-E", "UTF-8", "-Tutf8", "-Z"]
    surroundings = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}
    pages = [str(page) for page in sorted(tmp_path.iterdir())]
    done = subprocess.run([*command, *pages], env=surroundings, capture_output=True, timeout=HANG_SEC, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
