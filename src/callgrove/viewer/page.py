"""One HTML file with style, script and data inside. It works from disk, and asks nobody for anything: its policy lets
in the very script and style that it holds, and pictures that they make."""

from __future__ import annotations

import base64
import hashlib
import html

from callgrove._version import __version__
from callgrove.render.visible import visible
from callgrove.viewer.bundle import bundle, modules, style

__all__ = ["DATA_ID", "page"]

DATA_ID = "callgrove-data"

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="callgrove {version}">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<noscript>This page draws its pictures with JavaScript, which is switched off here.</noscript>
<script type="application/json" id="{data_id}">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def page(title: str, data: str) -> str:
    """The page. `data` is what `encode` made: it holds no character that could end its element."""
    look, script = style(), bundle(modules())
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(look)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return _PAGE.format(
        policy=policy,
        version=__version__,
        title=html.escape(visible(title)),
        style=look,
        data_id=DATA_ID,
        data=data,
        script=script,
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
