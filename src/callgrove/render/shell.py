"""Words of a command that can be copied from a screen into a shell: names, and how the command line spells options."""

from __future__ import annotations

import ast
import re
import shlex

__all__ = ["quoted", "spell_options"]

NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "'": "\\'", "\\": "\\\\"}
NAMED_OPTION = re.compile(r"\b(ReadOptions|WriteOptions|open|write)\((\w+)=(\.\.\.|True|'[^']*'|\"[^\"]*\")\)")
SPELLINGS = {  # of those whose option is not called like the field
    ("open", "format_name"): "--from",
    ("write", "format_name"): "--to",
    ("ReadOptions", "points_file"): "--points",
    ("WriteOptions", "overwrite"): "--force",
    ("WriteOptions", "by_queue"): "--group-by-queue",
    ("WriteOptions", "agent_index"): "--agent-index-value",
}
BYTES = range(0xDC80, 0xDD00)  # how Python keeps bytes of a name that are no text


def quoted(word: str) -> str:
    """One word; with what a screen would obey instead of showing it, or cannot show, as $'...' of bash and zsh."""
    if all(letter.isprintable() for letter in word):
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word))}'"


def spell_options(text: str) -> str:
    """Return a text with the options in it as the command line spells them: `ReadOptions(align='start')` of the library
    is `--align start`."""
    return NAMED_OPTION.sub(_spell, text)


def _spell(named: re.Match[str]) -> str:
    where, field, value = named.groups()
    option = SPELLINGS.get((where, field), f"--{field.replace('_', '-')}")
    return option if value in ("...", "True") else f"{option} {quoted(ast.literal_eval(value))}"


def _escaped(letter: str) -> str:
    if letter in NAMED:
        return NAMED[letter]
    if ord(letter) in BYTES:
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in letter.encode())
