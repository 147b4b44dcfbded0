"""Words that are copied from a screen mean the same name in a shell."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from callgrove.render.facts import quote_word
from tests.requirements import need

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
    word = quote_word(os.fsdecode(name))
    done = subprocess.run(
        ["bash", "-c", f"printf %s {word}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout == name
    assert word.isprintable()
