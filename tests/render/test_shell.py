"""Words that are copied from a screen mean the same name in a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib import import_module

import pytest

from callgrove.cli.parser import Parser
from callgrove.render.shell import quoted, spell_options
from tests.requirements import ROOT, need

NAMES = [
    b"plain.d",
    b"two words",
    b"it's",
    b'$HOME `x` \\ "q"',
    b"new\nline",
    b"\x1b[31mred\x07",
    b"\xff\xfe.db",
    b"tab\t'\\",
]
NAMES += ["Größe 中\xa0x".encode(), "\u202ereversed".encode()]


@pytest.mark.parametrize("name", NAMES)
def test_bash_reads_the_same_name(name: bytes) -> None:
    if shutil.which("bash") is None:
        need("bash", "there is no bash")
    word = quoted(os.fsdecode(name))
    done = subprocess.run(
        ["bash", "-c", f"printf %s {word}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout == name
    assert word.isprintable()


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("ReadOptions(align='start') lets all begin at 0", "--align start lets all begin at 0"),
        ("ReadOptions(align='my table.csv'): no host", "--align 'my table.csv': no host"),
        ("ReadOptions(rank_env=...) and ReadOptions(extrap_compat=True)", "--rank-env and --extrap-compat"),
        ("ReadOptions(points_file=...)", "--points"),
        ("WriteOptions(overwrite=True), WriteOptions(by_queue=True)", "--force, --group-by-queue"),
        ("open(format_name='cube'), write(format_name=...)", "--from cube, --to"),
        ("reopen(format_name='cube') and ReadOptions(align=3)", "reopen(format_name='cube') and ReadOptions(align=3)"),
    ],
)
def test_options_are_spelled_as_one_types_them(text: str, spelled: str) -> None:
    assert spell_options(text) == spelled


def test_every_option_that_messages_name_is_one_of_the_command_line() -> None:
    """Fields of ReadOptions and WriteOptions that texts of formats name are options of some verb."""
    named = set()
    for path in (ROOT / "src" / "callgrove" / "formats").rglob("*.py"):
        named |= set(re.findall(r"(?:Read|Write)Options\(\w+=(?:\.\.\.|True)\)", path.read_text("utf-8")))
    parser = Parser("convert")
    import_module("callgrove.cli.convert").add_arguments(parser)
    spelled = {spell_options(text) for text in named}
    assert spelled
    assert spelled <= set(parser._option_string_actions)
