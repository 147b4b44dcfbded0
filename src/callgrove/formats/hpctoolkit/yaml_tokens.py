"""The words of the YAML subset: patterns for its tokens, and how quoted text is read.

Specification: YAML 1.2 chapters 5 to 7, as far as `yaml_subset` needs them.

    key: "text"  # comment        COLON, QUOTED, LINE_END
    - &name plain text            DASH, ANCHOR, PLAIN
    {a: [*name, b]}               FLOW_COLON, ALIAS, FLOW_PLAIN, COMMA

Deviations: quoted text ends on its line; names of anchors have only ASCII letters, digits, _ and -; only LF and CR LF
break lines.
"""

from __future__ import annotations

import re

__all__ = [
    "ALIAS",
    "ANCHOR",
    "BLANK_LINES",
    "COLON",
    "COMMA",
    "DASH",
    "DOCUMENT_MARK",
    "FLOW_COLON",
    "FLOW_PLAIN",
    "FLOW_SPACE",
    "LINE_END",
    "PLAIN",
    "QUOTED",
    "SPACE",
    "unquoted",
]


def _plain(may_start: str, indicators: str) -> re.Pattern[str]:
    """Text without quotes: up to a comment, a colon that ends a key, or one of the indicators."""
    first = r"(?:[^ \t\r\n\-?:,\[\]{}#&*!|>'\"%@`]|[" + may_start + r"](?=[^ \t\r\n" + indicators + r"]))"
    colon = r":(?![ \t\r\n" + indicators + r"]|\Z)"
    return re.compile(first + r"(?:[ \t]++(?=[^ \t\r\n#])|" + colon + r"|[^ \t\r\n:" + indicators + r"]++)*+")


# Quantifiers are possessive (++, *+): no input makes them backtrack. In Python before 3.11.5, a possessive group whose
# last turn fails ends where that turn got to: so the last thing tried in a group never moves before it fails.
BLANK_LINES = re.compile(r"(?:[ ]*+(?:#[^\n]*+)?+(?:\n|\r\n))*+[ ]*+(?:#[^\n]*+\Z)?")
LINE_END = re.compile(r"(?:[ \t]++#[^\n]*+|[ \t]*+\r?+)(?:\n|\Z)")
SPACE = re.compile(r"[ \t]*+")
FLOW_SPACE = re.compile(r"(?:[ \t\r\n]++(?:#[^\n]*+)?+)*+")
DASH = re.compile(r"-(?=[ \r\n]|\Z)")
COLON = re.compile(r"[ \t]*+:(?=[ \t\r\n]|\Z)")
FLOW_COLON = re.compile(r"[ \t]*+:")
COMMA = re.compile(r",(?:[ \t\r\n]++(?:#[^\n]*+)?+)*+")
ANCHOR = re.compile(r"[ \t]*+&([0-9A-Za-z_\-]++)(?=[ \t\r\n]|\Z)(?![ \t]++\*)")  # an alias has no anchor
ALIAS = re.compile(r"\*([0-9A-Za-z_\-]++)(?=[ \t\r\n,\[\]{}]|\Z)")
QUOTED = re.compile(r"""'((?:[^'\r\n]++|'')*+)'|"((?:[^"\\\r\n]++|\\[^\r\n])*+)\"""")
PLAIN = _plain(r"\-?:", "")
FLOW_PLAIN = _plain(r"\-", r",\[\]{}")
DOCUMENT_MARK = re.compile(r"(?:---|\.\.\.)(?=[ \t\r\n]|\Z)|%")

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPED = dict(zip('0abt\tnvfre "/\\N_LP', '\0\a\b\t\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True))


def unquoted(quoted: re.Match[str]) -> str:
    """The text within a QUOTED token; a ValueError names an escape that is none."""
    single, double = quoted.groups()
    if double is None:
        return str(single).replace("''", "'")
    return _ESCAPE.sub(_escaped, double)


def _escaped(match: re.Match[str]) -> str:
    code = match[1]
    if code in _ESCAPED:
        return _ESCAPED[code]
    number = int(code[1:], 16) if len(code) > 1 else -1
    if number < 0 or number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise ValueError(f"the escape {match[0]!r} is no character")
    return chr(number)
