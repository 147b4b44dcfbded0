"""The YAML subset, with PyYAML as the oracle; hostile texts."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from callgrove.formats.hpctoolkit.release import yaml_subset
from callgrove.formats.hpctoolkit.release.yaml_subset import (
    MAX_FLOW_DEPTH,
    MAX_INDENT_DEPTH,
    MAX_TEXT,
    Node,
    YamlError,
    parse,
)
from tests.timing import assert_faster, assert_linear


def assert_same(ours: Node, theirs: Any) -> None:
    """Equal to what PyYAML's safe loader made; what it took for a number or truth value is our text of it."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        assert list(ours) == list(theirs)
        for key, value in theirs.items():
            assert_same(ours[key], value)
    elif isinstance(theirs, list):
        assert isinstance(ours, list)
        assert len(ours) == len(theirs)
        for left, right in zip(ours, theirs, strict=True):
            assert_same(left, right)
    elif isinstance(theirs, str) or theirs is None:
        assert ours == theirs
    else:
        assert isinstance(ours, str)
        assert yaml.safe_load(ours) == theirs


def assert_same_text(ours: Node, theirs: Any) -> None:
    """Equal to what PyYAML's basic loader made, to which every scalar is text, None included."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in ours:
            assert_same_text(ours[key], theirs[key])
    elif isinstance(ours, list) and isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for left, right in zip(ours, theirs, strict=True):
            assert_same_text(left, right)
    else:
        assert ours == theirs or (ours is None and theirs in (None, "", "~", "null"))


def texts(shared: Path) -> list[str]:
    found = sorted((shared / "data").rglob("metrics/default.yaml"))
    assert len(found) >= 15
    return [path.read_text(encoding="utf-8") for path in found]


def test_real_files_are_read_as_pyyaml_reads_them(shared: Path) -> None:
    for text in texts(shared):
        assert_same(parse(text), yaml.safe_load(text))
        assert parse(text) == yaml.load(text, yaml.BaseLoader)
        assert parse(text.replace("\n", "\r\n")) == parse(text)


def test_aliases_in_real_files_are_the_very_nodes(shared: Path) -> None:
    for text in texts(shared):
        document: Any = parse(text)
        inputs = {id(entry) for entry in document["inputs"]}
        used = 0
        for root in document["roots"]:
            for variant in root["variants"].values():
                inclusive = variant["formula"].get("inclusive", {}).get("standard")
                used += isinstance(inclusive, dict) and id(inclusive) in inputs
        assert used >= 1


def test_the_largest_real_file_is_read_faster_than_by_the_oracle(shared: Path) -> None:
    text = max(texts(shared), key=len)
    assert len(text) > 60_000
    assert_faster(partial(parse, text), partial(yaml.load, text, yaml.SafeLoader))


EXAMPLES = [
    "",
    "# only a comment",
    "\n\n  # indented comment\n",
    "a",
    "a: b",
    "a:",
    "a:\nb: 1",
    "a: # comment\n  b: c # comment\n  # comment\nd: e#f",
    "- a\n- b\n-\n- - c\n  - d\n-   - e",
    "a:\n- b\n- c\nd: e",
    "a:\n  - b: c\n    d: e\n  - f: g",
    "- &x\n  a: b\n- *x",
    "a: &x [1, 2]\nb: *x\nc: &y text\nd: *y",
    "a: &x\n  b: c\nd: [*x, {e: *x}]",
    "[&x a, *x, &y {b: *x}, *y]",
    "{/: [a, {sqrt: [b]}], +: 1, \"-\": [1], ^: [x, 2], '*': []}",
    "{a: {}, b: [], c: [[], {}]}",
    "a: [b,\n  c, # comment\n  {d: e,\n   f: g}\n  ]\nh: i",
    "[a, b, ]",
    "{a: , b: }",
    '{"a":1, "b": 2}',
    "a: 'it''s'\n'k k': \"x\\ty\\u00e9\\x41\\U0001F600\\\\ \\\"\\n\\0\\e\\/\"\n\"\": ''",
    "a: $$\nb: ($$^2)\nc: REALTIME (sec)",
    "GKER:COUNT: GKER:COUNT\nhttp://x: a:b:c",
    "a: -1\nb: -x",
    "a: ?x\nb: :x\nc: a?b\n?d: e",
    "a: ~\nb: null\nc: 'null'\nd: \"~\"",
    "a: yes\nb: 012\nc: 1e5\nd: 0x10\ne: 1.50\nf: false",
    "a: b c   d  \ne:    f   ",
    "\ufeffa: b\nc: d",
    "é: ü # ñ",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_agree_with_pyyaml(text: str) -> None:
    assert_same(parse(text), yaml.safe_load(text))


def test_scalars_stay_text() -> None:
    assert parse("[12, yes, 1.50, 'x', ~, null, '']") == ["12", "yes", "1.50", "x", None, None, ""]


words = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f\x85\xad"), max_size=12)
trees = st.recursive(
    words | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)


@given(trees, st.sampled_from([None, "'", '"']), st.sampled_from([True, False, None]))
def test_what_pyyaml_writes_is_read_back(tree: Any, style: Any, flow: bool | None) -> None:
    text = yaml.safe_dump(tree, default_style=style, default_flow_style=flow, width=10**9, allow_unicode=True)
    assume("? " not in text and "!!null" not in text)
    text = text.removesuffix("...\n")  # PyYAML ends a lone plain scalar with a document mark
    assert_same(parse(text), yaml.safe_load(text))


PIECES = [
    "a",
    "b: ",
    "- ",
    "\n",
    "\n  ",
    "\n    ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    ": ",
    "key:",
    "'x'",
    '"y\\n"',
    "&n ",
    "*n",
]
PIECES += [" # c", "#", "~", "''", "1.5", "-", "%", "!t ", "|", ">", "\r\n", "x y", ":", "/", '"*"', "  ", "é", "null"]


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_what_is_accepted_means_what_pyyaml_says(text: str) -> None:
    try:
        ours = parse(text)
    except YamlError:
        return
    assume(text.count("&n") < 2)  # PyYAML refuses to name two nodes alike
    assert_same_text(ours, yaml.load(text, yaml.BaseLoader))


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_errors_name_a_line_of_the_text(text: str) -> None:
    line = 1
    try:
        parse(text)
    except YamlError as error:
        line = error.line
    assert 1 <= line <= text.count("\n") + 1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: b\n  c: d", 2, "indentation"),
        ("a:\n    b: c\n  d: e", 3, "indentation"),
        ("a: b\n\tc: d", 2, "tab"),
        ("a: b\nc", 2, "expected `key:`"),
        ("a: b\n- c", 2, "expected `key:`"),
        ("- a\nb: c", 2, "indentation"),
        ("a: b: c", 1, "end of the line"),
        ("a: 'b' c", 1, "end of the line"),
        ("a: - b", 1, "expected a value"),
        ("a: b\n\nc: *d", 3, r"alias \*d names no earlier anchor"),
        ("a: &x [*x]", 1, "names no earlier anchor"),
        ("&x a: *x", 1, "expected a value"),
        ("- &x a: b", 1, "end of the line"),
        ("a: &y &x b", 1, "expected a value"),
        ("a: 1\nb: 2\na: 3", 3, "key 'a' repeats"),
        ("{a: 1, a: 2}", 1, "key 'a' repeats"),
        ("a: [b, c", 1, "expected ',' or ']'"),
        ("a: [b, c\nd: e", 2, "expected ',' or ']'"),
        ("a: [b}", 1, "expected ',' or ']'"),
        ("a: {b: c]", 1, "expected ',' or '}'"),
        ("a: {b}", 1, "expected `key:`"),
        ("a: [b] c", 1, "end of the line"),
        ("[,]", 1, "expected a value"),
        ("[a: b]", 1, "expected ',' or ']'"),
        ("[", 1, "expected a value"),
        ('a: "b', 1, "does not end on its line"),
        ("a: 'b\n c'", 1, "does not end on its line"),
        (r'a: "\q"', 1, "is not a character"),
        (r'a: "\ud800"', 1, "is not a character"),
        (r'a: "\U00110000"', 1, "is not a character"),
        (r'a: "\x4"', 1, "is not a character"),
        ("a: |\n  text", 1, "block scalars"),
        ("a: >\n  text", 1, "block scalars"),
        ("a: !!int 1", 1, "tags"),
        ("---\na: b", 1, "document marks"),
        ("%YAML 1.2\n---\na: b", 1, "document marks"),
        ("a: b\n---\nc: d", 2, "expected `key:`"),
        ("? a\n: b", 1, "expected a value"),
        (": a", 1, "expected a value"),
        ("a: @b", 1, "expected a value"),
    ],
)
def test_refused_texts_name_the_line(text: str, line: int, message: str) -> None:
    with pytest.raises(YamlError, match=message) as caught:
        parse(text)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"line {line}: ")


def test_aliases_share_and_never_copy() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 60)]  # 10**60 elements if copied
    document: Any = parse("\n".join(lines))
    assert document["a59"][0] is document["a58"]
    assert document["a59"][9] is document["a58"]


def test_depth_is_limited() -> None:
    blocks = "\n".join("  " * i + "a:" for i in range(MAX_INDENT_DEPTH))
    assert parse(blocks)
    for text in (
        blocks + "\n" + "  " * MAX_INDENT_DEPTH + "a: b",
        "- " * 100_000 + "a",
        "\n".join(" " * i + "-" for i in range(2000)),
    ):
        with pytest.raises(YamlError, match="levels of indentation"):
            parse(text)
    assert parse("[" * MAX_FLOW_DEPTH + "]" * MAX_FLOW_DEPTH)
    for text in ("[" * (MAX_FLOW_DEPTH + 1) + "]" * (MAX_FLOW_DEPTH + 1), "[" * 1_000_000, "{a: " * 1_000_000):
        with pytest.raises(YamlError, match="levels of brackets"):
            parse(text)


def test_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(YamlError, match="more than 16777216"):
        parse(" " * (MAX_TEXT + 1))
    monkeypatch.setattr(yaml_subset, "MAX_NODES", 1000)
    assert parse("[" + "[]," * 900 + "]") == [[]] * 900
    with pytest.raises(YamlError, match="more than 1000 values"):
        parse("[" + "[]," * 1000 + "]")


@pytest.mark.parametrize(
    "unit", ["\n", " ", "#", "a", "a ", "'", "''", '"', "\\", ":", ": ", "-", " #", "\r\n", "&", "?"]
)
def test_repetition_takes_linear_time(unit: str) -> None:
    def parse_all(n: int) -> None:
        for start in ("", "a: ", "a: '", 'a: "', "[", "- "):
            with contextlib.suppress(YamlError):
                parse(start + unit * (n // len(unit)))

    assert_linear(lambda n: partial(parse_all, n), MAX_TEXT // 128)
