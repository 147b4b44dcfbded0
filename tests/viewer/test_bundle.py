"""Modules as one script, and the page that holds it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from callgrove.viewer.page import DATA_ID, bundle, modules, page, style

REPORT, VIEWER = "main.js", "serve.js"  # where the scripts of the two pages begin


def test_modules_and_style_are_in_the_package() -> None:
    assert {"main.js", "data.js", "table.js", "canvas.js"} <= modules().keys()
    assert "prefers-color-scheme" in style()


def order_of(main: str) -> list[str]:
    """The modules that a page consists of, in the order of its script."""
    variables = {name.replace(".", "_"): name for name in modules()}
    script = bundle(modules(), main)
    return [variables[name] for name in re.findall(r"^const (\w+_js) = \(\(\) => \{$", script, re.MULTILINE)]


@pytest.mark.parametrize("main", [REPORT, VIEWER])
def test_modules_come_after_what_they_import(main: str) -> None:
    order = order_of(main)
    assert order[-1] == main
    for name in order:
        for other in re.findall(r'from "\./([\w.]+)";', modules()[name]):
            assert order.index(other) < order.index(name)


def test_every_module_is_reached() -> None:
    assert {*order_of(REPORT), *order_of(VIEWER)} == modules().keys()


def test_a_module_becomes_a_scope() -> None:
    made = bundle(
        {
            "main.js": 'import { f, g as h } from "./a.js";\nf(h);\n',
            "a.js": "export function f() {}\nexport const g = 1;\n",
        }
    )
    assert "const { f, g: h } = a_js;" in made
    assert "return { f, g };" in made
    assert "export" not in made


def test_explanations_stay_out_of_the_page() -> None:
    made = bundle(
        {
            "main.js": "/** What it\n * is. */\nconst a = 1;\n\n/**\n * @param {A} b\n */\n  /** c */\n"
            '/** @type {A} */ (a).f("/** d */"); // e\n/** g */\n'
        }
    )
    assert 'const a = 1;\n\n/** @type {A} */ (a).f("/** d */"); // e\n\nreturn' in made
    assert "@param" not in bundle(modules())


@pytest.mark.parametrize(
    "text", ['import x from "./a.js";', "export default 3;", 'import "./a.js";', "export { a };", "export let a = 1;"]
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a form of import or export"):
        bundle({"main.js": text, "a.js": ""})


def test_circles_and_ends_of_scripts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"main\.js -> a\.js -> main\.js"):
        bundle({"main.js": 'import { f } from "./a.js";', "a.js": 'import { g } from "./main.js";'})
    with pytest.raises(ValueError, match="end its script element"):
        bundle({"main.js": 'const x = "</script>";'})


def code_of(name: str) -> str:
    """A module without its comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", modules()[name], flags=re.DOTALL)


@pytest.mark.parametrize("name", modules())
def test_no_module_parses_markup_or_names_another_place(name: str) -> None:
    parses = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\("
    assert re.findall(parses, code_of(name)) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", code_of(name)) == []


def test_only_the_viewer_asks_for_anything_and_in_one_module() -> None:
    asks = re.compile(r"fetch\(|XMLHttp|WebSocket|EventSource|sendBeacon|import\(")
    assert [name for name in modules() if asks.search(code_of(name))] == ["served.js"]
    assert "served.js" in order_of(VIEWER)
    assert "served.js" not in order_of(REPORT)


class Elements(HTMLParser):
    """Scripts and styles with their texts, and what else a page consists of."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            tag, attributes, text = self.found.pop()
            self.found.append((tag, attributes, text + data))


def test_the_policy_lets_in_the_very_script_and_style() -> None:
    read = Elements()
    read.feed(page("<b>\u202e&</title>", '{"x":1}'))
    elements = {tag: (attributes, text) for tag, attributes, text in read.found}
    scripts = [(a, t) for tag, a, t in read.found if tag == "script"]
    assert [a.get("id") for a, _ in scripts] == [DATA_ID, None]
    policy = next(a["content"] for tag, a, _ in read.found if tag == "meta" and a.get("http-equiv")) or ""
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for text, kind in ((scripts[1][1], "script-src"), (elements["style"][1], "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert elements["title"][1] == "<b>\\u202e&</title>"
    assert all("src" not in attributes for _, attributes, _ in read.found)
