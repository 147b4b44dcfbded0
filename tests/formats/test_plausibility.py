"""What `check` finds strange in experiments of any format: planted one by one, and absent from sound ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from callgrove.examples import example, gpu_example
from callgrove.formats.plausibility import find_implausible
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.values import ArrayValues, SparseBlock, Values
from tests.formats.damage import run


def told(experiment: Experiment) -> list[tuple[str, str]]:
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
        (first(1e-9), "contexts cost less than what they contain"),
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
