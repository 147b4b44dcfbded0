"""The ES modules of static/ as one script, since pages opened from disk cannot import files.

There is no build step: a server gives the modules as they are. They keep to a few forms, which is all that this needs
to know of the language, and what a test holds them to:

    import { a, b } from "./other.js";        named imports of siblings, at the start of a line
    export function a() ...                    exports in front of function, async function, class or const
    /** ... */                                 types and explanations on lines of their own: pages do without them

    const other_js = (() => { ...; return { a, b }; })();
    const main_js = (() => { const { a, b } = other_js; ... })();
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

__all__ = ["bundle", "modules", "style"]

MAIN = "main.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)
_COMMENT = re.compile(r"^ */\*\*(?:(?!\*/).)*\*/\n", re.MULTILINE | re.DOTALL)
_UNSAFE = re.compile(r"</script|<!--", re.IGNORECASE)


@cache
def modules() -> Mapping[str, str]:
    """Every module by its name."""
    folder = files("callgrove.viewer") / "static"
    return {
        entry.name: entry.read_text("utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".js")
    }


@cache
def style() -> str:
    """The style sheet."""
    return (files("callgrove.viewer") / "static" / "theme.css").read_text("utf-8")


def bundle(sources: Mapping[str, str], main: str = MAIN) -> str:
    """The module `main` and all that it needs, in one script."""
    done: dict[str, str] = {}
    _add(main, sources, done, ())
    script = '"use strict";\n' + "\n".join(done.values()) + "\n"
    if _UNSAFE.search(script):
        raise ValueError("a module holds text that would end its script element")
    return script


def _add(name: str, sources: Mapping[str, str], done: dict[str, str], above: tuple[str, ...]) -> None:
    """A module after everything that it imports."""
    if name in done:
        return
    if name in above:
        raise ValueError(f"modules import one another: {' -> '.join((*above, name))}")
    text = sources[name]
    for found in _IMPORT.finditer(text):
        _add(found[2], sources, done, (*above, name))
    done[name] = _wrapped(name, text)


def _wrapped(name: str, text: str) -> str:
    body = _COMMENT.sub("", text)
    body = _IMPORT.sub(lambda found: f"const {{{found[1].replace(' as ', ': ')}}} = {_variable(found[2])};", body)
    names = _EXPORT.findall(body)
    body = _EXPORT.sub("", body)
    odd = _OTHER.search(body)
    if odd:
        raise ValueError(f"{name}: `{odd[0]}` is no form of import or export that reports know")
    return f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {', '.join(names)} }};\n}})();"


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name)
