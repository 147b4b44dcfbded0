"""Every view against SQL over the raw databases, and against what their generator says; on both engines."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_paths
from callgrove.model.experiment import Experiment
from callgrove.query.asking import sql
from callgrove.query.engines import ENGINES
from tests.query.raw_rocpd import RAW, raw_rows

FOLDERS = ("small", "same_pid")


@pytest.fixture(scope="module", params=FOLDERS)
def folder(request: pytest.FixtureRequest, shared: Path) -> Path:
    return shared / "data" / "own" / "rocpd" / str(request.param)


@pytest.fixture(scope="module")
def opened(folder: Path) -> Experiment:
    found = open_paths([folder], "", ReadOptions(fold=False))
    assert isinstance(found, Experiment)
    return found


@pytest.fixture(scope="module")
def truth(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "truth.json").read_text())
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.db"))


def ask(opened: Experiment, query: str, engine: str = "sqlite") -> list[tuple[Any, ...]]:
    return list(sql(opened, query, engine).rows())


@pytest.mark.parametrize("view", RAW)
def test_a_view_is_what_the_raw_tables_say(folder: Path, opened: Experiment, view: str) -> None:
    columns, statement = RAW[view]
    expected = Counter(raw_rows(files(folder), statement))
    assert expected, "nothing to compare with"
    for engine in ENGINES:
        assert Counter(ask(opened, f"SELECT {columns} FROM {view}", engine)) == expected


def test_regions_and_samples_are_both(opened: Experiment) -> None:
    one, two, both = (
        Counter(ask(opened, f"SELECT * FROM {view}")) for view in ("regions", "sample_regions", "regions_and_samples")
    )
    assert both == one + two


def test_truth(opened: Experiment, truth: list[dict[str, Any]]) -> None:
    """What the generator wrote down, by process."""
    found = ask(
        opened, "SELECT guid, name, count(*), sum(duration), min(duration), max(duration) FROM kernels GROUP BY 1, 2"
    )
    assert {(guid, name): list(rest) for guid, name, *rest in found} == {
        (one["guid"], name): numbers for one in truth for name, numbers in one["top"].items()
    }
    copies = dict(ask(opened, "SELECT guid, count(*) FROM memory_copies GROUP BY guid"))
    assert copies == {one["guid"]: one["copies"] for one in truth}
    threads = dict(ask(opened, "SELECT guid, count(*) FROM threads GROUP BY guid"))
    assert threads == {one["guid"]: one["threads"] for one in truth}
    kinds = ask(
        opened,
        "SELECT p.guid, s.kind, count(*) FROM spans s JOIN (SELECT DISTINCT profile, guid FROM "
        "regions UNION SELECT DISTINCT profile, guid FROM kernels UNION SELECT DISTINCT profile, guid FROM "
        "memory_copies) p USING (profile) GROUP BY 1, 2",
    )
    assert {(guid, kind): n for guid, kind, n in kinds} == {
        (one["guid"], kind): n for one in truth for kind, n in one["spans"].items()
    }


def test_means_and_percentages_are_right(folder: Path, opened: Experiment) -> None:
    raw = raw_rows(
        files(folder),
        'SELECT s.display_name, k."end" - k.start FROM {kernel_dispatch} k '
        "JOIN {info_kernel_symbol} s ON s.id = k.kernel_id",
    )
    lengths: dict[str, list[int]] = {}
    for name, length in raw:
        lengths.setdefault(name, []).append(length)
    whole = sum(length for _, length in raw)
    found = {
        row[0]: row[1:]
        for row in ask(
            opened,
            "SELECT name, total_calls, total_duration, average, percentage, min_ns, max_ns, std_ns FROM top_kernels",
        )
    }
    assert found.keys() == lengths.keys()
    for name, own in lengths.items():
        calls, total, average, percentage, low, high, deviation = found[name]
        assert (calls, low, high) == (len(own), min(own), max(own))
        assert total == pytest.approx(sum(own) / 1000)
        assert average == pytest.approx(statistics.fmean(own) / 1000)
        assert percentage == pytest.approx(100 * sum(own) / whole)
        assert deviation == pytest.approx(statistics.stdev(own))
    top = ask(opened, "SELECT name, total_calls, total_ns FROM top WHERE domain = 'KERNELS'")
    assert {name: (n, ns) for name, n, ns in top} == {name: (len(own), sum(own)) for name, own in lengths.items()}
    shares = ask(opened, "SELECT domain, sum(percentage) FROM top GROUP BY domain")
    assert all(share == pytest.approx(100) for _, share in shares)
    [domain] = ask(
        opened,
        """SELECT "Calls", "DURATION (nsec)", "AVERAGE (nsec)", "STD_DEV" FROM domain_summary
        WHERE "Name" = 'KERNELS'""",
    )
    every = [length for _, length in raw]
    assert domain[:2] == (len(every), whole)
    assert domain[2:] == (pytest.approx(statistics.fmean(every)), pytest.approx(statistics.stdev(every)))


def covered(intervals: list[tuple[int, int]]) -> Iterator[int]:
    """The lengths of what intervals cover together, piece by piece."""
    last = -1
    for start, end in sorted(intervals):
        yield max(0, end - max(start, last))
        last = max(last, end)


def test_busy_is_a_union(folder: Path, opened: Experiment) -> None:
    raw = raw_rows(
        files(folder),
        """SELECT x.guid, a.type_index, x.start, x."end"
        FROM {kernel_dispatch} x JOIN {info_agent} a ON a.id = x.agent_id
        UNION ALL SELECT x.guid, CASE d.type WHEN 'GPU' THEN d.type_index ELSE o.type_index END, x.start, x."end"
        FROM {memory_copy} x JOIN {info_agent} d ON d.id = x.dst_agent_id
        JOIN {info_agent} o ON o.id = x.src_agent_id""",
    )
    devices: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for guid, index, start, end in raw:
        devices.setdefault((guid, index), []).append((start, end))
    found = ask(
        opened,
        "SELECT p.guid, b.agent_type_index, b.GpuTime, b.WallTime, b.Busy, b.operations "
        "FROM busy b JOIN processes p USING (rank)",
    )
    assert len(found) == len(devices)
    for guid, index, gpu, wall, busy, operations in found:
        own = devices[guid, index]
        assert gpu == sum(covered(own))
        assert wall == max(end for _, end in own) - min(start for start, _ in own)
        assert busy == pytest.approx(gpu / wall)
        assert busy <= 1
        assert operations == len(own)


def test_summaries_add_up(opened: Experiment) -> None:
    for view, source in (
        ("kernel_summary", "kernels"),
        ("memory_copy_summary", "memory_copies"),
        ("memory_allocation_summary", "memory_allocations"),
    ):
        name = "type" if source == "memory_allocations" else "name"
        ours = ask(opened, f'SELECT "Name", "Calls", "DURATION (nsec)", "MIN (nsec)", "MAX (nsec)" FROM {view}')
        raw = ask(
            opened, f"SELECT {name}, count(*), sum(duration), min(duration), max(duration) FROM {source} GROUP BY 1"
        )
        assert Counter(ours) == Counter(raw)


def test_flows_lead_from_calls_to_operations(folder: Path, opened: Experiment) -> None:
    """As the stored views would link them: by stack_id, within one process."""
    expected = raw_rows(
        files(folder),
        """SELECT ks.display_name, s.string, x.start FROM {kernel_dispatch} x JOIN {event} e ON e.id = x.event_id
        JOIN {event} ce ON ce.stack_id = e.stack_id AND ce.id <> e.id JOIN {region} r ON r.event_id = ce.id
        JOIN {string} s ON s.id = r.name_id JOIN {info_kernel_symbol} ks ON ks.id = x.kernel_id""",
    )
    found = ask(
        opened,
        "SELECT k.name, r.name, k.start FROM flows f JOIN kernels k ON k.id = f.operation "
        "JOIN regions r ON r.id = f.call",
    )
    assert Counter(found) == Counter(expected)


def test_side_tables_join_by_span(opened: Experiment) -> None:
    joined = "SELECT s.name, s.duration_ns, k.grid_x FROM spans s JOIN span_kernels k USING (span)"
    assert Counter(ask(opened, joined)) == Counter(ask(opened, "SELECT name, duration, grid_x FROM kernels"))
