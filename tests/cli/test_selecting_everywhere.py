"""Which verb takes which selection, as the documentation says; and spans that are chosen by name."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import callgrove
from callgrove.cli.main import VERBS
from callgrove.cli.parser import SELECTING
from callgrove.examples import gpu_example
from callgrove.model.experiment import Experiment
from tests.cli.commands import Capture, rows, run, said
from tests.requirements import ROOT

PLACES = {"run", "rank", "thread", "node", "gpu", "stream"}
CONTEXTS = {word.removeprefix("--") for word in SELECTING} - PLACES - {"window", "device"}
EVERY = PLACES | CONTEXTS | {"window", "where"}
TAKES_NO_EXPERIMENT = {"formats", "completion", "demo", "help", "mcp", "watch"}


def documented_options() -> dict[str, set[str]]:
    """Return which options that choose a part each verb takes, by the table of docs/selecting.md."""
    text = (ROOT / "docs" / "selecting.md").read_text().partition("## Which verb takes what\n\n")[2]
    out: dict[str, set[str]] = {}
    for line in text.partition("\n\n")[0].splitlines()[2:]:
        verbs, places, window, contexts, where = (cell.strip() for cell in line.strip("|").split("|"))
        has_all = contexts.startswith("all") or contexts.endswith("of spans")  # where others are refused one by one
        words = set(re.findall(r"--([a-z-]+)", places + contexts.replace("--rest", "")))
        words -= {"under"} if "--root" in contexts else set()
        for is_taken, more in (
            (places == "all", PLACES),
            (window != "no", {"window"}),
            (has_all, CONTEXTS),
            (where == "all", {"where"}),
        ):
            words |= more if is_taken else set()
        out |= dict.fromkeys(re.findall(r"`(\w+)`", verbs), words & EVERY)
    return out


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS if verb.name not in TAKES_NO_EXPERIMENT])
def test_the_table_of_the_documentation_is_that_of_the_parsers(capsys: Capture, verb: str) -> None:
    offered = set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", run(capsys, verb, "--help"), re.MULTILINE))
    assert offered & EVERY == documented_options()[verb]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("merge", "a", "b", "--rank", "0"), "'callgrove merge' takes whole experiments, so it has no --rank; "),
        (("sql", "a", "SELECT 1", "--name=x"), "'callgrove sql' takes whole experiments, so it has no --name; "),
        (("pop", "a", "--query", "x"), "'callgrove pop' takes whole experiments, so it has no --query; "),
        (("convert", "a", "b", "--where", "x"), "'callgrove convert' prints no table whose rows --where could choose"),
    ],
)
def test_what_a_verb_does_not_take(capsys: Capture, words: tuple[str, ...], told: str) -> None:
    assert said(capsys, *words, code=2).startswith(told)


# -- spans by name -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spans") / "train.db"
    callgrove.write(gpu_example(), path, "rocpd")
    return path


@pytest.mark.parametrize(
    ("options", "names", "kinds"),
    [
        (("--name", "*gemm*"), "*gemm*", None),
        (("--name", "/^hip/"), "hip*", None),
        (("--kind", "kernel,copy"), "*", {"kernel", "copy"}),
        (("--name", "*e*", "--kind", "kernel", "--rank", "1"), "*e*", {"kernel"}),
    ],
)
def test_a_summary_of_some_spans(
    capsys: Capture, database: Path, options: tuple[str, ...], names: str, kinds: set[str] | None
) -> None:
    """Counts and times are those of the exported spans that fit, added up here."""
    ranks = {row["profile"]: row["rank"] for row in rows(capsys, "export", database, "--table", "profiles")}
    only = 1 if "--rank" in options else None
    wanted: dict[str, list[int]] = {}
    for span in rows(capsys, "export", database, "--table", "spans"):
        fits = fnmatchcase(span["name"], names) and (kinds is None or span["kind"] in kinds)
        if fits and only in (None, ranks[span["profile"]]):
            wanted.setdefault(span["name"], []).append(span["end_ns"] - span["start_ns"])
    sections = ("kernels", "copies", "api", "markers", "sync", "allocations", "regions", "overhead")
    chosen = [word for section in sections for word in ("--section", section)]
    made = rows(capsys, "summary", database, *options, *chosen)
    assert {row["name"]: (row["count"], row["total_ns"]) for row in made} == {
        name: (len(times), sum(times)) for name, times in wanted.items()
    }
    spans = rows(capsys, "export", database, "--table", "spans", *options)
    assert len(spans) == sum(map(len, wanted.values()))


def test_spans_that_are_not_there(capsys: Capture, database: Path) -> None:
    for verb in ("summary", "timeline"):
        told = said(capsys, verb, database, "--name", "hipLaunchKernl", code=2)
        assert told == "--name: there is no span 'hipLaunchKernl'; did you mean 'hipLaunchKernel'?"
        assert said(capsys, verb, database, "--under", "x", code=2).startswith(
            "--under: spans of a trace have no contexts"
        )
        assert "not a regular expression: missing )" in said(capsys, verb, database, "--name", "/a(/", code=2)


def test_the_same_in_python(capsys: Capture, database: Path) -> None:
    e = callgrove.open(database)
    assert isinstance(e, Experiment)
    table = e.summary("kernels", name="*gemm*")
    assert [row["name"] for row in table] == ["void gemm<float>(float const*, float*)"]
    assert len(e.summary(kind="copy", section="copies")) == 1
    with pytest.raises(callgrove.UsageError, match="there is no span 'nothing'"):
        e.summary(name="nothing")
