"""What `check` finds strange in experiments of any format: planted one by one, and absent from sound ones."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.plausibility import find_implausible, find_odd_entries
from callgrove.formats.registry import check
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.study.series import Study
from callgrove.model.values import ArrayValues, SparseBlock, Values
from tests.formats.damage import run


def told(experiment: Experiment | Study) -> list[tuple[str, str]]:
    return [(problem.section, problem.text) for problem in find_implausible(experiment)]


def with_values(change: Any) -> Experiment:
    """The example, in which some values of its first metric are others."""
    made = example(ranks=2)
    blocks = [block.triples() for block in made.values.blocks()]
    columns = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("profile", "context", "metric"))
    value = np.concatenate([block.value.astype(np.float64) for block in blocks])
    profile, context, metric = columns
    chosen = np.flatnonzero(metric == inclusive_row(made))
    value[chosen] = change(value[chosen])
    order = np.argsort(profile, kind="stable")
    whole = SparseBlock(profile[order], context[order], metric[order], value[order])
    backend = ArrayValues(whole, made.profiles)
    return replace(made, values=Values(backend, made.metrics, made.profiles, made.contexts))


def inclusive_row(experiment: Experiment) -> int:
    return next(row for row, m in enumerate(experiment.metrics.rows) if m.scope == Scope.INCLUSIVE)


def first(number: float) -> Any:
    def change(values: Any) -> Any:
        values[0] = number
        return values

    return change


@pytest.mark.parametrize("make", [example, gpu_example])
def test_sound_experiments_are_plausible(make: Any) -> None:
    assert told(make()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (first(np.nan), "are not numbers"),
        (first(1e200), "have a size that nothing measured has"),
        (first(1e-200), "have a size that nothing measured has"),
        (first(1e9), "times larger than all others together"),
        (first(-1.0), "are negative"),
        (first(1e-9), "1 context costs less than what it contains"),
    ],
)
def test_strange_values(change: Any, words: str) -> None:
    experiment = with_values(change)
    texts = [text for section, text in told(experiment) if "CPUTIME" in section]
    assert any(words in text for text in texts), texts


def test_differences_are_not_strange() -> None:
    assert told(with_values(lambda values: -values)) == []


@pytest.mark.parametrize("name", ["so\x01lve", "sol\ufffdve", "\x7f"])
def test_strange_names(name: str) -> None:
    made = example(ranks=1)
    regions = replace(made.contexts.regions, strings=(name, *made.contexts.regions.strings[1:]))
    [(section, text)] = told(replace(made, contexts=replace(made.contexts, regions=regions)))
    assert section == "names"
    assert "characters that names do not have" in text


def test_metrics_of_their_own_names() -> None:
    made = example(ranks=1)
    rows = tuple(replace(row, name="cy\x02cles") if row.name == "cycles" else row for row in made.metrics.rows)
    assert isinstance(rows[0], Metric)
    renamed = replace(made, metrics=replace(made.metrics, rows=rows))
    assert [section for section, _ in told(renamed)] == ["metrics"]


def test_notes_are_no_damage(tmp_path: Any) -> None:
    path = tmp_path / "x.folded"
    path.write_bytes(b"main;so\x01lve 3\n" * 9)
    code, table, _ = run("check", str(path), "--from", "folded")
    assert code == 0
    assert "characters that names do not have" in " ".join(table.split())


def test_bytes_that_are_not_text_are_told(tmp_path: Path) -> None:
    """Readers of text write them as escapes; in paths of Windows these are no such bytes."""
    path = tmp_path / "a.folded"
    path.write_bytes(b"main;f\xedo 5\nmain;C:\\x86\\bin 3\nmain;gr\xc3\xb6n 2\n")
    rows = [row for row in check(path, "folded").rows() if row[2] == "names"]
    [(severity, _, _, text)] = rows
    assert severity == "note"
    assert text == "1 of 4 have characters that names do not have, such as 'f\\\\xedo'"


def repeated(*odd: list[float], usual: float = 1.0) -> Study:
    """Twelve measurements of three repetitions that scatter by 1%, and odd ones."""
    cells = [*([[x * usual, 1.01 * x * usual, 0.99 * x * usual] for x in range(1, 13)]), *odd]
    points = [(x,) for x in range(len(cells))]
    return Study.from_values(["p"], points, [("main", "time", point, cell) for point, cell in enumerate(cells)])


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        ([14.0, 14.1, 54.1], "one of 13 measurements has a repetition far from its others, and no other one has"),
        ([14.0, 14.1, 4.1], "one of 13 measurements has a repetition far from its others, and no other one has"),
        ([14.0, 14.1, 14.2, 14.3], "one of 13 measurements has 4 repetitions, all others 3"),
        ([14.0, 14.1, -14.2], "one of 13 measurements has a repetition far from its others, and no other one has"),
        ([14.0, 14.1, 1e200], "1 of 13 have a size that nothing measured has"),
    ],
)
def test_one_odd_measurement_of_a_study_is_told(odd: list[float], text: str) -> None:
    assert ("values of time", text) in told(repeated(odd))


def test_many_metrics_of_a_study_are_looked_at_one_by_one() -> None:
    cells = [
        (path, f"t{metric}", 0, [1e200 if (path, metric) == ("g", 7) else 1.0]) for path in "fg" for metric in range(30)
    ]
    assert told(Study.from_values(["p"], [(1,)], cells)) == [
        ("values of t7", "1 of 2 have a size that nothing measured has")
    ]


def test_studies_that_scatter_have_nothing_odd() -> None:
    for study in (study_example(), repeated(), repeated([14.0, 14.1]), repeated([14.0, 15.0, 18.0])):
        assert told(study) == []
    scattering = repeated([14.0, 14.1, 54.1], [14.0, 14.1, 34.1])
    assert told(scattering) == []  # not one alone
    assert told(repeated([0.0, 0.0, 5.0])) == []  # where most of it is nothing, anything is far
    rare = Study.from_values(["p"], [(1,), (2,)], [("f", "t", 0, [1.0, 1.0, 9.0]), ("f", "t", 1, [1.0, 1.0])])
    assert told(rare) == []  # too few to tell


def test_what_is_odd_in_a_folder_is_told(tmp_path: Path) -> None:
    run_folder, elsewhere = tmp_path / "run.d", tmp_path / "elsewhere"
    example(ranks=2).write(str(run_folder))
    assert list(find_odd_entries(run_folder)) == []
    elsewhere.mkdir()
    (run_folder / "trace.db").rename(run_folder / "trace.db.1")
    (run_folder / "trace.db").symlink_to("trace.db.1")  # stays inside
    (run_folder / "profile.db").rename(elsewhere / "p")
    (run_folder / "profile.db").symlink_to("../elsewhere/p")
    (run_folder / "lost").symlink_to("nowhere")
    (run_folder / "round").symlink_to("round")
    os.mkfifo(run_folder / "pipe")
    (run_folder / "zero").symlink_to("/dev/zero")
    rows = [(Path(row[1]).name, row[3]) for row in check(run_folder).rows() if row[2] == "files"]
    assert sorted(rows) == [
        ("lost", "a link that leads nowhere"),
        ("pipe", "a pipe, a socket or a device; it is not read"),
        ("profile.db", f"a link that leads out of the folder, to '{elsewhere}/p'"),
        ("round", "a link that leads nowhere"),
        ("zero", "a pipe, a socket or a device; it is not read"),
    ]
    assert list(find_odd_entries(run_folder / "profile.db")) == []  # what the user names may be a link
