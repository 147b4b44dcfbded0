"""Tables beside spans stay where spans stay. What is expected comes from the databases opened as one: other code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import callgrove
from callgrove.algebra.cutting import common, cut, part
from callgrove.algebra.operations import mean, merge
from callgrove.model.experiment import Experiment
from callgrove.query.sql import sql
from tests.formats.gpu.gpu_databases import Run, write_rocpd

QUERIES = (
    "SELECT guid, pid, hostname, machine_id, command, init, fini FROM processes",
    "SELECT guid, pid, tid FROM threads",
    "SELECT guid, pid, kernel_name FROM kernel_symbols",
    "SELECT guid, pid, agent_type, agent_abs_index, agent_log_index, name, start FROM kernels",
    "SELECT guid, pid, tid, name, start, duration FROM regions",
)


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("in")
    made = []
    for k in range(3):
        about = {"host": f"node{k}", "machine": f"m{k}", "guid": f"0{k:07x}-0-7-8-1", "pid": 100 + k}
        one = replace(Run.random(k).without("memset"), n_devices=2 + k % 2, **about)  # type: ignore[arg-type]
        made.append(write_rocpd(folder / f"r{k}.db", [one]))
    return made


def opened(*paths: Path) -> Experiment:
    found = callgrove.open([str(path) for path in paths])
    assert isinstance(found, Experiment)
    return found


def answers(experiment: Experiment) -> list[list[tuple[Any, ...]]]:
    found = []
    for query in QUERIES:
        with sql([experiment], query, "sqlite") as answer:
            found.append(sorted((row for table in answer for row in table.rows()), key=repr))
    return found


def test_merged_databases_answer_as_those_that_are_opened_as_one(databases: list[Path]) -> None:
    together = answers(opened(*databases))
    assert all(together)
    assert answers(merge(*map(opened, databases), system="side-by-side")) == together
    pair = merge(*map(opened, databases[:2]), system="side-by-side")
    assert answers(merge(pair, opened(databases[2]), system="side-by-side")) == together


def test_parts_and_cuts_keep_them(databases: list[Path]) -> None:
    whole = opened(*databases)
    assert answers(part(whole, ranks=[1])) == answers(opened(databases[1]))
    assert answers(whole.select(ranks=[1])) == answers(opened(databases[1]))
    assert answers(whole.select(ranks=[0, 2], invert=True)) == answers(opened(databases[1]))
    apart = [part(whole, ranks=ranks) for ranks in ([0, 2], [1])]
    assert answers(merge(*apart, system="side-by-side")) == answers(whole)
    assert answers(common(*map(opened, databases))) == answers(whole)
    assert answers(cut(whole, prunes=["hipMalloc"])) == answers(whole)


def test_of_a_profile_that_several_have_the_first_counts(databases: list[Path]) -> None:
    """The second one has no profile left, so that it gives no rows either."""
    first = opened(databases[0])
    assert answers(merge(first, first)) == answers(first)


def test_what_has_no_course_of_time_says_that_it_is_lost(databases: list[Path]) -> None:
    made = mean(*map(opened, databases[:2]))
    assert not made.traces.tables
    assert any("lost: traces of" in warning.text for warning in made.warnings)
