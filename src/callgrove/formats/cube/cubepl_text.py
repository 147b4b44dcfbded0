"""Makes XML of what CubeLib writes around CubePL.

Older versions leave attribute values bare (`<cubepl rowwise=false>`), and specifications hold `<` and `&` of
expressions as they are. Start tags get quotes, texts get entities; everything else stays to the byte.
"""

from __future__ import annotations

import re

__all__ = ["repaired"]

START = re.compile(rb"<(cubepl(?:init|aggr)?)((?:\s[^<>]*)?)>")
BARE = re.compile(rb"(=\s*)([^\s\"'>/]+)")
LONE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)")
CDATA = b"<![CDATA["


def repaired(xml: bytes) -> bytes:
    """The same text, with CubePL that an XML parser accepts. One pass, whatever the text."""
    if b"<cubepl" not in xml:
        return xml
    out: list[bytes] = []
    at = 0
    while (start := START.search(xml, at)) is not None:
        name, attributes = start[1], start[2]
        out += [xml[at : start.start()], b"<", name, BARE.sub(rb'\1"\2"', attributes), b">"]
        at = start.end()
        if attributes.endswith(b"/"):
            continue
        end = xml.find(b"</" + name, at)
        if end < 0:  # the parser will say what is wrong
            break
        text = xml[at:end]
        out.append(text if text.lstrip().startswith(CDATA) else _escaped(text))
        at = end
    return b"".join([*out, xml[at:]])


def _escaped(text: bytes) -> bytes:
    return LONE_AMPERSAND.sub(b"&amp;", text).replace(b"<", b"&lt;")
