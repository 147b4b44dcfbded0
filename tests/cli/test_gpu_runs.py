"""Verbs on GPU databases: figures against what the samples are known to hold, and what is printed."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callgrove.examples import gpu_example
from callgrove.formats.gpu.draft.writer import DraftWriter
from callgrove.formats.writing.transfer import transfer
from tests.cli.commands import Capture, facts, rows, run
from tests.formats.gpu.gpu_databases import Event, Run, write_nsight, write_rpd
from tests.formats.samples import samples
from tests.golden import assert_golden

FAMILIES = ("rocpd", "rocpd-draft", "rpd", "nsight")
MADE = {
    sample.format: sample.path for sample in samples() if sample.name.startswith("made/") and sample.format in FAMILIES
}
every_family = pytest.mark.parametrize("family", MADE)


def truth(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "truth.json").read_text())
    return found


@pytest.fixture(params=["small", "same_pid"])
def sampled(request: pytest.FixtureRequest, shared: Path) -> Path:
    return shared / "data" / "own" / "rocpd" / str(request.param)


def test_kernels_of_all_ranks_add_up_to_the_truth(sampled: Path, capsys: Capture) -> None:
    want: dict[str, list[int]] = {}
    for own in truth(sampled):
        for name, (count, total, low, high) in own["top"].items():
            have = want.setdefault(name, [0, 0, low, high])
            want[name] = [have[0] + count, have[1] + total, min(have[2], low), max(have[3], high)]
    found = rows(capsys, "summary", sampled, "--section", "kernels")
    assert {row["name"]: [row[c] for c in ("count", "total_ns", "min_ns", "max_ns")] for row in found} == want
    assert [row["total_ns"] for row in found] == sorted((total for _, total, _, _ in want.values()), reverse=True)
    assert sum(row["percent"] for row in found) == pytest.approx(100)


def test_every_rank_by_itself(sampled: Path, capsys: Capture) -> None:
    found = rows(capsys, "summary", sampled, "--section", "kernels", "--by", "rank")
    by_rank: dict[int, dict[str, int]] = defaultdict(dict)
    for row in found:
        by_rank[row["rank"]][row["name"]] = row["total_ns"]
    for rank, own in enumerate(truth(sampled)):
        assert by_rank[rank] == {name: total for name, (_, total, _, _) in own["top"].items()}


def test_kinds_bytes_and_threads(sampled: Path, capsys: Capture) -> None:
    known = truth(sampled)
    found = rows(capsys, "summary", sampled)
    sections = {"kernels": "kernel", "copies": "copy", "allocations": "alloc", "api": "api", "markers": "marker"}
    for section, kind in sections.items():
        assert sum(r["count"] for r in found if r["section"] == section) == sum(own["spans"][kind] for own in known)
    copied = 0
    for own in known:
        database = sqlite3.connect(f"file:{sampled / own['path']}?mode=ro&immutable=1", uri=True)
        table = f"rocpd_memory_copy_{own['guid'].replace('-', '_')}"
        copied += database.execute(f"SELECT sum(size) FROM {table}").fetchone()[0]
        database.close()
    assert sum(row["bytes"] for row in found if row["section"] == "copies") == copied
    assert all(0 <= row["percent"] <= 100 for row in found if row["section"] in ("busy", "overlap"))


def test_what_the_documentation_says_about_views(shared: Path, tmp_path: Path, capsys: Capture) -> None:
    """The figures of docs/gpu.md, from plain SQL over the merged file and from ours."""
    run(capsys, "convert", shared / "data" / "own" / "rocpd" / "same_pid", tmp_path / "all.db", "--to", "rocpd")
    database = sqlite3.connect(tmp_path / "all.db")
    joined = "SELECT count(*) FROM rocpd_info_thread t JOIN rocpd_info_process p ON p.pid = t.pid"
    assert database.execute(joined).fetchone() == (36,)
    ops = "SELECT guid, start, end FROM rocpd_kernel_dispatch UNION ALL SELECT guid, start, end FROM rocpd_memory_copy"
    busy = f"SELECT 100.0 * sum(end - start) / (max(end) - min(start)) FROM ({ops})"
    assert sorted(round(b) for (b,) in database.execute(f"{busy} GROUP BY guid")) == [313, 336, 395]
    assert round(database.execute(busy).fetchone()[0]) == 969
    means = (
        "SELECT sum(m) FROM (SELECT avg(end - start) m FROM rocpd_kernel_dispatch k JOIN rocpd_info_kernel_symbol s "
        "ON s.id = k.kernel_id AND s.guid = k.guid GROUP BY display_name)"
    )
    assert round(database.execute(means).fetchone()[0]) == 294983
    database.close()
    found = rows(capsys, "summary", tmp_path / "all.db", "--by", "domain", "--section", "busy", "--section", "kernels")
    assert [round(row["mean_ns"]) for row in found if row["section"] == "kernels"] == [28754]
    assert [row["percent"] for row in found if row["section"] == "busy"] == [100, 100, 100]
    shown = rows(capsys, "export", tmp_path / "all.db", "--table", "profiles")
    assert sum(row["kind"] == "thread" for row in shown) == 12


@every_family
@pytest.mark.parametrize("verb", ["info", "top", "tree", "hot", "summary", "check", "dump"])
def test_every_verb_on_every_family(family: str, verb: str, capsys: Capture) -> None:
    assert run(capsys, verb, MADE[family]) or verb == "check"  # which prints problems, and there are none


@every_family
def test_merging_into_other_formats_keeps_the_profile(
    family: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only formats of events can leave it out, since it is made of the events when they are opened."""
    monkeypatch.chdir(tmp_path)
    want = rows(capsys, "top", MADE[family], "--limit", "all")
    for target in ("all.cubex", "all.d"):
        run(capsys, "merge", MADE[family], target)
        assert {r["name"]: r["exclusive"] for r in rows(capsys, "top", target, "--limit", "all") if r["exclusive"]} == {
            r["name"]: pytest.approx(r["exclusive"]) for r in want if r["exclusive"]
        }


def test_golden_of_summary(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    transfer(gpu_example(), DraftWriter(tmp_path / "train.db"))
    assert_golden("cli/gpu/train.db.summary.txt", run(capsys, "summary", "train.db"))
    assert_golden("cli/gpu/train.db.tree.txt", run(capsys, "tree", "train.db"))


def test_the_example_is_what_it_says() -> None:
    """Three steps of five launches on each rank, and as many operations that follow them."""
    example = gpu_example()
    (chunk,) = list(example.traces.spans(("kind", "correlation", "start_ns", "end_ns")))
    launches = chunk["correlation"][chunk["correlation"] >= 0]
    assert sorted(launches.tolist()) == sorted([*range(1, 31)] * 2)
    assert (chunk["end_ns"] > chunk["start_ns"]).all()


@pytest.mark.parametrize("write", [write_nsight, write_rpd])
def test_info_tells_how_long_a_run_took_whose_file_does_not_say_it(
    write: Callable[[Path, Run], Path], tmp_path: Path, capsys: Capture
) -> None:
    kernel = Event("kernel", "k", 5_000_000, 9_000_000, corr=1, device=0)
    path = write(tmp_path / "run.db", Run((Event("api", "launch", 2_000_000, 4_000_000, corr=1), kernel)))
    assert "traces     2 spans over 7.00 ms\n" in run(capsys, "info", path)
    assert dict(facts(capsys, path))["traces"] == "2 spans over 7.00 ms"
