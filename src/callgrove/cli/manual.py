"""Manual pages, made of the table of verbs and of the parsers of the verbs: callgrove(1), callgrove-top(1), ...

Whoever builds a wheel puts them into share/man/man1 (packaging/); `callgrove help --man FOLDER` writes
them anywhere. Nothing of them is written down twice.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from callgrove._version import __version__
from callgrove.cli.main import VERBS, Verb, load_command, make_overview
from callgrove.cli.parser import EXAMPLES, Parser

__all__ = ["make_pages", "make_parser", "write_pages"]

LINE = 76  # columns of the source of a page
MAY_BREAK = "\\:"
SECTION = re.compile(r"([a-z ]+):\n((?:  .*\n?)+)")


def write_pages(folder: Path, verbs: Sequence[Verb] = VERBS) -> list[Path]:
    """Write all manual pages into a folder, and return where."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in make_pages(verbs):
        (folder / name).write_text(text, "utf-8")
        written.append(folder / name)
    return written


def make_pages(verbs: Sequence[Verb] = VERBS) -> Iterator[tuple[str, str]]:
    """Yield the names of the files and their texts."""
    yield "callgrove.1", "\n".join(_write_overview(verbs)) + "\n"
    for verb in verbs:
        yield f"callgrove-{verb.name}.1", "\n".join(_write_verb(verb)) + "\n"


def make_parser(verb: Verb) -> Parser:
    """Return the parser of a verb, as its `--help` has it."""
    parser = Parser(f"callgrove {verb.name}", verb.help, EXAMPLES.get(verb.name, ()))
    load_command(verb).add_arguments(parser)
    parser.complete_usage()
    return parser


# -- the page of the program -------------------------------------------------------------------------------------------


def _write_overview(verbs: Sequence[Verb]) -> Iterator[str]:
    """Yield the lines of callgrove(1): what `callgrove --help` prints, its lists as sections."""
    overview = make_overview(verbs)
    usage, about = overview.split("\n\n")[:2]
    yield from _write_head("callgrove", "open, query, compare, convert and model what HPC profilers write")
    yield from _write_section("SYNOPSIS", usage.removeprefix("usage: ").splitlines())
    yield ".SH DESCRIPTION"
    yield from map(_escape, about.splitlines())
    for title, lines in SECTION.findall(overview):
        yield f".SH {_escape(title.upper())}"
        if title == "exit codes":
            yield from (_escape(line.strip()) for line in lines.splitlines())
            continue
        for line in lines.splitlines():
            name, _, help_ = line.strip().partition("   ")
            yield from _write_entry(name.strip(), help_.strip())
    yield ".SH SEE ALSO"
    yield from _write_text(", ".join(f"callgrove-{verb.name}(1)" for verb in verbs))
    yield ".PP"
    yield _escape("'callgrove help' lists the pages of the documentation, 'callgrove help TOPIC' prints one.")


# -- the page of a verb ------------------------------------------------------------------------------------------------


def _write_verb(verb: Verb) -> Iterator[str]:
    parser = make_parser(verb)
    yield from _write_head(f"callgrove-{verb.name}", verb.help)
    yield from _write_section("SYNOPSIS", [str(parser.usage)])
    yield ".SH DESCRIPTION"
    yield from _write_text(f"{verb.help[:1].upper()}{verb.help[1:]}.")
    yield ".PP"
    yield _escape(f"'callgrove help {verb.name}' tells more, with examples and what they print.")
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        if actions:
            yield f".SH {_escape((group.title or 'options').upper())}"
            if group.description:
                yield _escape(group.description)
            for action in actions:
                yield from _write_entry(*_describe(parser, action))
    if verb.name in EXAMPLES:
        yield from _write_section("EXAMPLES", EXAMPLES[verb.name])
    yield ".SH SEE ALSO"
    yield "callgrove(1)"


def _describe(parser: Parser, action: argparse.Action) -> tuple[str, str]:
    """Return how an argument is given, and what its help says."""
    formatter = parser._get_formatter()
    return formatter._format_action_invocation(action), formatter._expand_help(action) if action.help else ""


# -- roff --------------------------------------------------------------------------------------------------------------


def _write_head(name: str, about: str) -> Iterator[str]:
    yield f'.TH {_escape(name.upper())} 1 "" "callgrove {__version__}" "User Commands"'
    yield ".nh"  # no hyphens in names of options and metrics
    yield ".ad l"
    yield ".SH NAME"
    yield f"{_escape(name)} \\- {_escape(about)}"


def _write_section(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a section whose lines stay as they are."""
    yield f".SH {title}"
    yield ".nf"
    yield from (_escape(line.strip()) for line in lines)
    yield ".fi"


def _write_entry(name: str, help_: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_escape(name).replace(',', f',{MAY_BREAK}')}"
    yield from _write_text(help_)


def _write_text(text: str) -> Iterator[str]:
    yield from map(_escape, wrap(text, LINE, break_long_words=False, break_on_hyphens=False))


def _escape(text: str) -> str:
    """Return text that roff prints as it stands: a dot or quote at the beginning of a line would be a command."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
