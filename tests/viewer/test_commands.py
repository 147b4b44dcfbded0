"""Commands that a page tells: they show the same input, and the same part of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import callgrove
from callgrove.cli.main import main
from callgrove.cli.pages import PageOptions, describe_input
from callgrove.cli.parser import Parser
from callgrove.cli.verbs.report import VIEW, ViewOptions
from callgrove.examples import example, gpu_example
from callgrove.model.experiment import Experiment
from callgrove.viewer.commands import Given
from tests.browser.commands import printed
from tests.viewer.serving import ask, ask_raw, made_input, serving

PATTERN = "main -> ** -> exchange"


def given(*words: str) -> Given:
    """Return what the viewer makes of these words."""
    parser = Parser("callgrove view")
    VIEW.add_arguments(parser)
    options = parser.read([*words], ViewOptions)
    assert isinstance(options, PageOptions)
    return describe_input(options)


def test_a_command_has_the_options_that_its_verb_takes() -> None:
    told = given("a.d", "--rank", "0-1", "--derive", "x = time / 2", "--scaling", "strong", "--from", "hpcrun")
    assert told.complete("callgrove top a.d") == "callgrove top a.d --from hpcrun --rank 0-1 --derive 'x = time / 2'"
    assert told.complete("callgrove summary a.d") == "callgrove summary a.d --from hpcrun --rank 0-1"
    options = "--from hpcrun --scaling strong --derive 'x = time / 2'"
    assert told.complete("callgrove model a.d") == f"callgrove model a.d {options} # of everything: model has no --rank"
    assert told.part == "--rank 0-1"


def test_a_command_says_what_it_cannot_be_told() -> None:
    told = given("a.d").looked_at([], PATTERN)
    assert told.complete("callgrove hot a.d") == f"callgrove hot a.d --query '{PATTERN}'"
    assert told.complete("callgrove pop a.d") == "callgrove pop a.d # of everything: pop has no --query"
    assert told.complete("callgrove top a.d --query x") == "callgrove top a.d --query x", "its own pattern stands"


def test_all_paths_of_an_input_are_named() -> None:
    assert Given().name_input(["a.db", "b.db"]) == ("a.db", "b.db")
    assert Given().name_input([f"{k}.db" for k in range(17)]) == ("0.db", "...", "16.db")
    points = given("--point", "p=4", "a.d", "--point", "p=8", "b.d").name_input(["a.d", "b.d"])
    assert points == ("--point", "p=4", "a.d", "--point", "p=8", "b.d")


def test_every_option_that_is_told_is_one_of_the_viewer() -> None:
    words = ["--align", "start", "--rank-env", "R", "--kernel-names", "short", "--run", "0", "--thread", "1"]
    words += [
        "--node",
        "0",
        "--gpu",
        "1",
        "--stream",
        "2",
        "--window",
        "10%:20%",
        "--strict",
        "--remap",
        "--value",
        "sum",
    ]
    words += ["--inclusive", "--name", "a*", "--rest", "drop"]
    told = given("a.d", *words)
    assert told.part == "--run 0 --thread 1 --node 0 --gpu 1 --stream 2 --window 10%:20% --name 'a*' --rest drop"
    again = given(*shlex.split(told.complete("callgrove model a.d").partition("#")[0])[2:])
    assert "--value sum" in told.complete("callgrove model a.d")
    assert (
        again.complete("callgrove top a.d")
        == "callgrove top a.d --rank-env R --align start --kernel-names short --strict --remap"
    )


@pytest.mark.parametrize("words", [("--rank", "0"), ("--query", PATTERN), ("--under", "solve", "--thread", "0")])
def test_commands_of_a_part_print_the_numbers_of_its_page(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The headline of `explain` names the total; `top` with the command beside it adds up to the same."""
    path = tmp_path / "stencil.d"
    callgrove.write(example(), path)
    assert main(["explain", str(path), "--format", "json"]) == 0
    whole = json.loads(capsys.readouterr().out)[0]["command"]
    command = given(str(path), *words).complete(whole)
    rows = printed(capsys, *shlex.split(command)[1:], "--limit", "all")
    part = callgrove.open(path)
    assert isinstance(part, Experiment)
    if words[0] == "--rank":
        wanted = part.top(ranks=0)
    elif words[0] == "--query":
        wanted = part.select(query=PATTERN).top()
    else:
        wanted = part.select(under="solve").top(threads=0)
    assert sum(row["exclusive"] for row in rows) == pytest.approx(sum(wanted["exclusive"]), rel=1e-12)


def test_a_page_says_that_it_shows_a_part(tmp_path: Path) -> None:
    path, target = tmp_path / "stencil.d", tmp_path / "part.html"
    callgrove.write(example(), path)
    assert main(["report", str(path), "--rank", "0", "-o", str(target)]) == 0
    text = target.read_text("utf-8")
    assert '"part":"--rank 0"' in text
    assert "this is a part of the input: --rank 0" in text
    assert f"callgrove hot {path} --rank 0" in text
    assert main(["report", str(path), "-o", str(target)]) == 0
    assert '"part":""' in target.read_text("utf-8")


def test_a_saved_report_says_which_filter_it_has() -> None:
    with serving(made_input(example())) as viewer:
        status, _, body = ask_raw(viewer, "/api/report?input=0&filter=main%20-%3E%20**%20-%3E%20exchange")
        assert status == 200
        assert f"this is a part of the input: --query '{PATTERN}'".replace(">", "\\u003e").encode() in body


@pytest.mark.parametrize("make", [example, gpu_example])
def test_the_viewer_says_the_sentences_of_a_report(make: type) -> None:
    opened = make()
    with serving(made_input(opened)) as viewer:
        for chosen in ("", opened.default_metric if opened.metrics.quantities else ""):
            _, answer = ask(viewer, "explained", metric=chosen)
            assert [sentence for sentence, _ in answer["explained"]] == list(opened.explain().table()["sentence"])
