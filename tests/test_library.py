"""The public names as a program uses them: open, look, write."""

from __future__ import annotations

import csv
import inspect
import io
import pickle
import pydoc
import re
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import callgrove
from callgrove.analysis.costs import costs
from callgrove.analysis.views import top
from callgrove.cli.messages import with_flags
from callgrove.errors import CallgroveError, Parameter, UsageError, Wording, compose_text
from callgrove.examples import example, gpu_example
from callgrove.formats.interface import WriteKeywords, WriteOptions
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from callgrove.model.table import Table
from tests.cli.commands import Capture, rows, run, said
from tests.formats.samples import CORPUS

STUDY = CORPUS / "extrap" / "text.txt"
SAMPLES = [
    CORPUS / "hpctoolkit" / "release" / "mpi4.d",
    CORPUS / "hpctoolkit" / "prerelease" / "pth4.d",
    CORPUS / "hpctoolkit" / "legacy" / "loops21.d",
    CORPUS / "hpcrun" / "04.00" / "pth4.m",
]
VERBS = ("Return", "Write", "Open", "Validate")


def test_write_and_open_again(tmp_path: Path) -> None:
    run = example()
    lost = callgrove.write(run, tmp_path / "run.cubex")
    again = callgrove.open(tmp_path / "run.cubex")
    assert isinstance(again, callgrove.Experiment)
    assert again.format == "cube"
    assert again.root_total("cycles") == run.root_total("cycles")
    assert any("lexical nesting" in sentence for sentence in lost)
    with pytest.raises(UsageError, match="exists already"):
        callgrove.write(run, tmp_path / "run.cubex")
    callgrove.write(run, tmp_path / "run.cubex", dialect="compressed", overwrite=True)
    with pytest.raises(UsageError, match="is the input"):
        callgrove.write(again, tmp_path / "run.cubex", overwrite=True)
    with pytest.raises(UsageError, match="names no format"):
        callgrove.write(run, tmp_path / "run.xyz")


def test_keywords_of_writing_are_its_options() -> None:
    fields = get_type_hints(WriteOptions)
    assert get_type_hints(WriteKeywords) == fields
    for function in (callgrove.write, Experiment.write):
        assert inspect.signature(function).parameters["options"].annotation == "Unpack[WriteKeywords]"
    documented = re.findall(r"^(\w+)  +\w", inspect.getdoc(callgrove.write) or "", re.MULTILINE)
    assert sorted(documented) == sorted(["to_format", *fields])


def test_a_keyword_of_writing_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        callgrove.write(example(), tmp_path / "run.cubex", colour="red")  # type: ignore[call-arg]
    assert not (tmp_path / "run.cubex").exists()


def test_write_a_study(tmp_path: Path) -> None:
    study = callgrove.open(STUDY)
    assert isinstance(study, callgrove.Study)
    callgrove.write(study, tmp_path / "study.json")
    again = callgrove.open(tmp_path / "study.json")
    assert isinstance(again, callgrove.Study)
    assert again.format == "extrap-json"
    assert again.points.tolist() == study.points.tolist()


def test_several_paths_are_one_input() -> None:
    folder = CORPUS / "hpcrun" / "04.00" / "pth4.m"
    assert isinstance(callgrove.open([folder]), callgrove.Experiment)
    with pytest.raises(UsageError, match="opens one path at a time, and 2 were given"):
        callgrove.open([folder, folder])


def test_what_a_prompt_shows_is_one_line() -> None:
    run, study = example(), callgrove.open(STUDY)
    assert isinstance(study, callgrove.Study)
    assert repr(run) == f"<Experiment 'stencil', example: {len(run.profiles)} profiles, " + (
        f"{len(run.contexts)} contexts, 2 metrics>"
    )
    assert repr(study).startswith("<Study 'text.txt', extrap-text: ")
    assert repr(top(costs(run), limit=3)).startswith("<Table of 3 rows: name, kind, file, line")
    assert repr(callgrove.model_study(study)).startswith("<Models: ")


def test_help_and_completion_know_every_public_name() -> None:
    assert set(callgrove.__all__) <= set(dir(callgrove))
    text = pydoc.plain(pydoc.render_doc(callgrove))
    for name in ("merge(", "part(", "open = open_path(", "write(", "check("):
        assert name in text
    methods = pydoc.plain(pydoc.render_doc(callgrove.Experiment))
    for name in ("top(", "tree(", "hot_path(", "diff(", "select(", "to_pandas(", "report(", "sql(", "export("):
        assert name in methods


def public_docs() -> dict[str, str]:
    """The documentation of all that a user calls: functions, and methods that mirror verbs."""
    functions = [getattr(callgrove, name) for name in callgrove.__all__ if name[0].islower()]
    of_classes = (inspect.getmembers(one, inspect.isfunction) for one in (Experiment, Study))
    methods = [one for members in of_classes for _, one in members if ".model.methods." in one.__module__]
    found = [one for one in (*functions, *methods) if not one.__name__.startswith("_")]
    return {one.__qualname__: inspect.getdoc(one) or "" for one in found}


def test_documentation_begins_with_a_verb() -> None:
    docs = public_docs()
    assert len(docs) > 25
    unusual = {name: doc.split(" ")[0] for name, doc in docs.items() if doc.split(" ")[0] not in VERBS}
    assert unusual == {}


def test_a_metric_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"there is no metric 'foo'; there are CPUTIME \(sec\), cycles"):
        example().root_total("foo")


def opened(path: Path) -> Experiment:
    found = callgrove.open(path)
    assert isinstance(found, Experiment)
    return found


def as_json(table: Table) -> list[dict[str, Any]]:
    """Rows as JSON has them: numbers that are not finite are absent."""
    return [
        {name: None if isinstance(cell, float) and not np.isfinite(cell) else cell for name, cell in row.items()}
        for row in table
    ]


# -- methods mirror verbs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_views_are_those_of_the_command_line(path: Path, capsys: Capture) -> None:
    e = opened(path)
    everything = ("--limit", "all")
    for by in ("function", "line", "context", "module"):
        assert as_json(e.top(by=by)) == rows(capsys, "top", path, "--by", by, *everything)
    assert as_json(e.top(limit=3)) == rows(capsys, "top", path, "--limit", "3")
    assert as_json(e.tree()) == rows(capsys, "tree", path, *everything)
    assert as_json(e.tree(source=True, limit=7)) == rows(capsys, "tree", path, "--source", "--limit", "7")
    assert as_json(e.tree(bottom_up=True)) == rows(capsys, "tree", path, "--bottom-up", *everything)
    assert as_json(e.hot_path(share=0.2)) == rows(capsys, "hot", path, "--share", "0.2")
    told = csv.DictReader(io.StringIO(run(capsys, "info", path, "--format", "csv")))
    assert [*e.info()] == [*told]
    metric = e.metrics.quantities[-1]
    assert as_json(e.top(metric, limit=5)) == rows(capsys, "top", path, "-m", metric, "--limit", "5")


@pytest.mark.parametrize("path", SAMPLES[:2], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_tables_are_those_of_the_command_line(path: Path, capsys: Capture) -> None:
    e = opened(path)
    for table in ("profiles", "metrics", "contexts", "values", "samples"):
        assert as_json(e.export(table)) == rows(capsys, "export", path, "--table", table)
    inclusive = e.export("values", e.default_metric, "inclusive", limit=9)
    wanted = ("--scope", "inclusive", "-m", e.default_metric, "--limit", "9")
    assert as_json(inclusive) == rows(capsys, "export", path, "--table", "values", *wanted)
    query = "SELECT name, count(*) AS n FROM contexts GROUP BY name ORDER BY n DESC, name LIMIT 3"
    assert as_json(e.sql(query)) == rows(capsys, "sql", path, query)
    assert as_json(e.sql_tables()) == rows(capsys, "sql", path, "--tables")
    assert as_json(callgrove.check(path)) == rows(capsys, "check", path)


def test_profiles_are_chosen_as_on_the_command_line(capsys: Capture) -> None:
    path = SAMPLES[0]
    e = opened(path)
    chosen = rows(capsys, "top", path, "--rank", "1-2", "--limit", "all")
    for ranks in ("1-2", {1, 2}, range(1, 3)):
        assert as_json(e.top(ranks=ranks)) == chosen
    assert as_json(e.select(ranks="1-2").top()) == chosen
    assert as_json(e.top(ranks=3)) == rows(capsys, "top", path, "--rank", "3", "--limit", "all")
    assert as_json(e.export("profiles", ranks=3)) == rows(capsys, "export", path, "--table", "profiles", "--rank", "3")
    with pytest.raises(UsageError, match=r"no profile has rank 9 \(there are 0 to 3\)"):
        e.top(ranks=9)


def test_differences_are_those_of_the_command_line(capsys: Capture) -> None:
    one, other = SAMPLES[0], CORPUS / "hpctoolkit" / "prerelease" / "mpi4.d"
    for options, words in (({}, ()), ({"flat": True}, ("--flat",)), ({"scope": "inclusive"}, ("--scope", "inclusive"))):
        shown: Any = options
        table = opened(one).diff(opened(other), **shown)
        assert as_json(table) == rows(capsys, "diff", one, other, *words, "--limit", "all")
        assert str(one) in table.title
    with pytest.raises(UsageError, match="there is no scope 'everything'"):
        opened(one).diff(opened(other), scope="everything")


def test_the_summary_is_that_of_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "run.db"
    callgrove.write(gpu_example(), path, "rocpd-draft")
    e = opened(path)
    assert as_json(e.summary()) == rows(capsys, "summary", path)
    by_rank = rows(capsys, "summary", path, "--section", "kernels", "--by", "rank")
    assert as_json(e.summary("kernels", by="rank")) == by_rank
    half = rows(capsys, "summary", path, "--start", "0%", "--end", "50%")
    assert as_json(e.summary(window="0%:50%")) == half
    with pytest.raises(UsageError, match="there is no section 'kernel'; there are kernels, copies"):
        e.summary("kernel")


def test_models_are_those_of_the_command_line(capsys: Capture) -> None:
    study = callgrove.open(STUDY)
    assert isinstance(study, Study)
    assert as_json(study.model().table()) == rows(capsys, "model", STUDY)
    assert as_json(study.model("visits", "solve").table()) == rows(
        capsys, "model", STUDY, "-m", "visits", "--callpath", "solve"
    )
    at = {"p": 64.0, "n": 100.0}
    assert as_json(study.predict(at)) == rows(capsys, "predict", STUDY, "--at", "p=64,n=100", "--limit", "all")
    assert "8 times the largest measured" in study.predict(at).notes[0]
    assert as_json(study.export()) == rows(capsys, "export", STUDY, "--table", "series")
    assert len(study.to_pandas()) == len(study.export())


def test_runs_over_parameters_make_the_series_of_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    for p in (2, 4, 8):
        callgrove.write(example(seed=p, ranks=p), tmp_path / f"app.p{p}.r1.cubex")
    e = opened(tmp_path)
    for made, words in ((e.series().model().table(), ["model"]), (e.export("series"), ["export", "--table", "series"])):
        printed = rows(capsys, *words, tmp_path)
        assert {row.pop("run_value") for row in printed} == {"weak"}  # tables of the library have a note instead
        assert as_json(made) == printed
    paths = [tmp_path / f"app.p{p}.r1.cubex" for p in (2, 4)]
    runs = callgrove.open(paths, points=["q=2", "q=4"])
    assert isinstance(runs, Experiment)
    assert [run.parameters for run in runs.runs] == [{"q": 2.0}, {"q": 4.0}]
    assert runs.top().notes[0] == "2 runs are added up; runs=... chooses some of them"
    assert runs.top(runs="q=4")["exclusive"] == opened(paths[1]).top()["exclusive"]
    assert runs.top(runs="q=4").notes == ()
    with pytest.raises(UsageError, match="there are 2 paths and 1 points"):
        callgrove.open(paths, points=["q=2"])


def test_a_report_is_written_once(tmp_path: Path) -> None:
    run = example()
    assert run.report(tmp_path / "run.html", title="a run") == ()  # no view is missing
    assert "a run" in (tmp_path / "run.html").read_text()
    with pytest.raises(UsageError, match=r"replace it \(overwrite=True\)"):
        run.report(tmp_path / "run.html")
    run.write(tmp_path / "run.d", "hpctoolkit-prerelease")
    with pytest.raises(UsageError, match="lies in the input"):
        opened(tmp_path / "run.d").report(tmp_path / "run.d" / "run.html")


def test_experiments_are_added_and_subtracted() -> None:
    run = example()
    assert (run - run).root_total("cycles") == 0
    assert (run + run).root_total("cycles") == 2 * run.root_total("cycles")
    with pytest.raises(TypeError):
        run + 1
    assert run.cut(prunes=["kernel"]).root_total("cycles") == run.root_total("cycles")


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda e: e.top(by="colour"), "colour"),
        (lambda e: e.hot_path(share=2), "not a share"),
        (lambda e: e.tree(bottom_up=True, source=True), "source=True shows more of contexts"),
        (lambda e: e.export("values", scope="all"), "there is no scope 'all'"),
        (lambda e: e.export("contexts", "cycles"), "metric and scope choose values"),
        (lambda e: e.export("nothing"), "there is no table 'nothing'"),
        (lambda e: e.select(kinds=["colour"]), "not a kind of span"),
        (lambda e: e.select(window="soon"), "not a window like"),
        (lambda e: e.top(ranks="a"), "not a list of numbers"),
    ],
)
def test_words_that_mean_nothing_are_refused(ask: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        ask(example())


def test_a_part_of_the_time() -> None:
    run = example()
    half = run.select(window="0%:50%")
    assert 0 < half.traces.n_samples < run.traces.n_samples
    assert half.root_total("cycles") == run.root_total("cycles")
    assert run.select(traces=False).traces.n_samples == 0


# -- tables show themselves --------------------------------------------------------------------------------------------


def test_a_table_shows_itself() -> None:
    run = example()
    table = run.tree(limit=4)
    text = str(table).splitlines()
    assert text[0] == table.title == "CPUTIME (sec): 6.15625 sec in all"
    assert "    main " in text[3]
    assert text[-1].startswith("... and ")
    assert [row["name"] for row in table] == table["name"]
    assert table.title in table._repr_html_()
    assert "depth" not in text[1]
    assert str(Table.from_rows(("a", "b"), [])) == "a  b"


def test_a_long_table_says_how_much_is_left() -> None:
    table = Table.from_rows(("n",), [(n,) for n in range(100)])
    assert str(table).splitlines()[-1] == "... and 60 more rows"
    joined = Table.concatenate([table.head(2), table.head(3)])
    assert (joined["n"], joined.left) == ([0, 1, 0, 1, 2], 97)


# -- errors name parameters --------------------------------------------------------------------------------------------


def test_errors_name_parameters_in_the_library_and_flags_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    run, target = example(), tmp_path / "w.d"
    run.write(target, "hpctoolkit-prerelease")
    with pytest.raises(UsageError) as caught:
        run.write(target, "hpctoolkit-prerelease")
    there = f"{target}: exists already; choose another name, or replace it "
    assert str(caught.value) == f"{there}(overwrite=True)"
    again = tmp_path / "again.d"
    run.write(again, "hpctoolkit-prerelease")
    assert said(capsys, "convert", again, target, "--to", "hpctoolkit-prerelease", code=2) == f"{there}(--force)"


def test_wordings_survive_what_is_done_to_them() -> None:
    text = compose_text("a.d: ", Parameter("salvage", True), " keeps the part of a.d")
    assert text == "a.d: salvage=True keeps the part of a.d"
    assert with_flags(text) == "a.d: --salvage keeps the part of a.d"
    assert (
        with_flags(compose_text("damaged: ", UsageError("b: ", UsageError(text)))) == f"damaged: b: {with_flags(text)}"
    )
    assert with_flags(pickle.loads(pickle.dumps(UsageError(text))).message) == with_flags(text)
    assert with_flags(text.replace("a.d", "c")) == "c: --salvage keeps the part of c"
    assert with_flags(text.removeprefix("a.d: ")) == "--salvage keeps the part of a.d"
    assert not isinstance(compose_text("no", " parameter"), Wording)
    assert issubclass(UsageError, CallgroveError)
    assert with_flags(compose_text(Parameter("folder_pattern", "run {n}"))) == "--folder-pattern 'run {n}'"
