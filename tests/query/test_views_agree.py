"""One quantity, many views: what kernels and copies took is the same in `sql`, `summary`, `export` and the profile, by
name and by place, over every family of GPU databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callgrove.analysis.summary import summarise, table
from callgrove.analysis.summary_sections import By
from callgrove.analysis.tables import export
from callgrove.formats.gpu.draft.writer import DraftWriter
from callgrove.formats.registry import open_path
from callgrove.formats.writing.transfer import transfer
from callgrove.model.experiment import Experiment
from callgrove.query.sql import sql
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_nsight, write_rocpd, write_rpd

Sums = dict[Any, tuple[int, int]]  # how many, and nanoseconds
RUNS = [replace(Run.random(seed), guid=f"018f0000-0000-7000-8000-00000000000{seed}") for seed in (1, 2, 3)]
KINDS = {"kernels": ("kernel",), "copies": ("copy", "memset")}
VIEWS = {"kernels": "kernels", "copies": "memory_copies"}
CONTEXTS = {"kernels": "kernel", "copies": "copy"}


def rocpd(folder: Path) -> Path:
    """Three processes; a kernel that ends before it starts, and copies that no agent is known of."""
    for run in RUNS:
        own = run.without("memset")
        path, suffix = write_rocpd(folder / f"{run.guid[-1]}.db", [own]), suffix_of(own)
        kernel = f"rocpd_kernel_dispatch{suffix}"
        execute(path, f"UPDATE {kernel} SET end = start - 5 WHERE id = (SELECT min(id) FROM {kernel})")
        execute(path, f"UPDATE rocpd_memory_copy{suffix} SET dst_agent_id = NULL, src_agent_id = NULL WHERE id % 2")
    return folder


def draft(folder: Path) -> Path:
    source = open_path(write_nsight(folder / "a.sqlite", RUNS[0].without("alloc")))
    assert isinstance(source, Experiment)
    transfer(source, DraftWriter(folder / "d.db"))
    return folder / "d.db"


MADE = {
    "rocpd": rocpd,
    "rpd": lambda folder: write_rpd(folder / "r.rpd", RUNS[0].without("alloc")),
    "nsight": lambda folder: write_nsight(folder / "n.sqlite", RUNS[0].without("alloc")),
    "draft": draft,
}


@pytest.fixture(params=MADE)
def experiment(request: pytest.FixtureRequest, tmp_path: Path) -> Experiment:
    opened = open_path(MADE[request.param](tmp_path))
    assert isinstance(opened, Experiment)
    return opened


def added(rows: Iterable[tuple[Any, int, int]]) -> Sums:
    count, total = Counter[Any](), Counter[Any]()
    for key, n, ns in rows:
        count[key] += n
        total[key] += ns
    return {key: (count[key], total[key]) for key in count}


def exported(experiment: Experiment, section: str) -> list[tuple[int, str, int]]:
    """Profile, name and length of every span that can be measured."""
    names = ("profile", "kind", "name", "start_ns", "end_ns")
    rows = [
        r for part in export(experiment, "spans") for r in zip(*(part.column(n).plain() for n in names), strict=True)
    ]
    return [(p, name, end - start) for p, kind, name, start, end in rows if kind in KINDS[section] and end >= start]


def summed(experiment: Experiment, section: str, *by: By) -> list[dict[str, Any]]:
    made = table(summarise(experiment, by), [section])
    return [dict(zip(made.names, row, strict=True)) for row in made.rows()]


def asked(experiment: Experiment, query: str) -> list[tuple[Any, ...]]:
    return list(sql(experiment, query).rows())


@pytest.mark.parametrize("section", KINDS)
def test_by_name(experiment: Experiment, section: str) -> None:
    want = added((name, 1, ns) for _, name, ns in exported(experiment, section))
    assert want
    assert {row["name"]: (row["count"], row["total_ns"]) for row in summed(experiment, section)} == want
    query = f"SELECT name, count(duration) AS n, sum(duration) AS ns FROM {VIEWS[section]} GROUP BY name"
    assert {name: (n, ns) for name, n, ns in asked(experiment, query)} == want
    query = f"SELECT name, total_calls, total_ns FROM top WHERE domain = '{VIEWS[section].upper()}'"
    assert {name: (n, ns) for name, n, ns in asked(experiment, query)} == want
    assert folded(experiment, section) == want


def folded(experiment: Experiment, section: str) -> Sums:
    """Operations and their time by the name of their context, as `top` and `tree` show them."""
    query = """SELECT c.name, m.name, sum(v.value) FROM exclusive_values v JOIN contexts c USING (context)
        JOIN metrics m USING (metric) WHERE c.kind = '{}' AND m.name IN ('gpu_ops', 'gpu_time') GROUP BY 1, 2"""
    found = {(name, metric): value for name, metric, value in asked(experiment, query.format(CONTEXTS[section]))}
    flagged = Counter(name for name, n in asked(experiment, FLAGGED.format(VIEWS[section])) for _ in range(n))
    names = dict.fromkeys(name for name, _ in found)
    return {n: (round(found[n, "gpu_ops"]) - flagged[n], round(found.get((n, "gpu_time"), 0) * 1e9)) for n in names}


FLAGGED = "SELECT name, count(*) FROM {} WHERE duration IS NULL GROUP BY name"


@pytest.mark.parametrize("section", KINDS)
def test_by_place(experiment: Experiment, section: str) -> None:
    words = ("rank", "gpu_device", "gpu_stream")
    places = list(zip(*(experiment.profiles.identity_list(word) for word in words), strict=True))
    want = added((places[p], 1, ns) for p, _, ns in exported(experiment, section))
    rows = summed(experiment, section, By.RANK, By.AGENT, By.STREAM)
    assert added(((r["rank"], r["agent"], r["stream"]), r["count"], r["total_ns"]) for r in rows) == want
    query = f"""SELECT p.rank, gpu_device, gpu_stream, count(duration) AS n, sum(duration) AS ns FROM {VIEWS[section]}
        JOIN profiles p USING (profile) GROUP BY 1, 2, 3"""
    assert {tuple(place): (n, ns) for *place, n, ns in asked(experiment, query)} == want
    if section == "kernels":
        query = "SELECT rank, agent_type_index, stream_id, count(duration), sum(duration) FROM kernels GROUP BY 1, 2, 3"
        assert {tuple(place): (n, ns) for *place, n, ns in asked(experiment, query)} == want


def test_profiles_have_the_time_of_their_operations(experiment: Experiment) -> None:
    want = Counter[int]()
    for section in KINDS:
        for profile, _, ns in exported(experiment, section):
            want[profile] += ns
    query = (
        "SELECT profile, sum(value) FROM stored_values JOIN metrics USING (metric) WHERE name = 'gpu_time' GROUP BY 1"
    )
    assert {profile: round(value * 1e9) for profile, value in asked(experiment, query)} == want


def test_a_span_that_is_in_no_sum_has_no_duration(tmp_path: Path) -> None:
    opened = open_path(rocpd(tmp_path))
    assert isinstance(opened, Experiment)
    rows = asked(opened, 'SELECT duration, "end" - start FROM kernels WHERE duration IS NULL')
    assert rows == [(None, -5)] * len(RUNS)
    assert asked(opened, "SELECT count(*) FROM spans WHERE duration_ns < 0") == [(0,)]
