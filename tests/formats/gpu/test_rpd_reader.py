"""Databases of RPD hold the runs that they were made from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.analysis.summary import summarise, table
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.traces.events import SpanKind
from tests.formats.gpu.gpu_databases import Event, Run, execute, write_rpd
from tests.formats.gpu.gpu_truth import expected_gpu_time, gpu_time, opened

RUN = Run.random(1)


def summary_rows(experiment: Experiment) -> list[dict[str, Any]]:
    made = table(summarise(experiment))
    return [dict(zip(made.names, row, strict=True)) for row in made.rows()]


def test_ids_of_later_sessions_lie_beyond_32_bits(tmp_path: Path) -> None:
    experiment = opened(write_rpd(tmp_path / "r.rpd", RUN, first_id=2**32 + 1))
    assert gpu_time(experiment) == expected_gpu_time(RUN)
    assert "[unknown launch]" not in {experiment.contexts.label(c) for c in experiment.contexts.roots.tolist()}


def test_one_call_may_launch_many_operations(tmp_path: Path) -> None:
    ops = tuple(Event("kernel", "k", 100 + k, 101 + k, corr=1, device=0) for k in range(418))
    experiment = opened(write_rpd(tmp_path / "r.rpd", Run((Event("api", "hipGraphLaunch", 0, 50, corr=1), *ops))))
    tree = experiment.contexts
    assert [tree.label(c) for c in range(len(tree))] == ["hipGraphLaunch", "k"]
    assert experiment.root_total("gpu_ops") == 418


def test_monitored_values_are_counters_and_texts_are_counted(tmp_path: Path) -> None:
    experiment = opened(write_rpd(tmp_path / "r.rpd", RUN, monitor=((5, "1500"), (9, "fast"), (20, "1700.5"))))
    counters = experiment.traces.counters
    assert counters is not None
    assert counters.names == ("gpu sclk",)
    assert (counters.time_ns.tolist(), counters.value.tolist()) == ([5, 20], [1500.0, 1700.5])
    assert any("1 value is not a number, and left out" in w.text for w in experiment.warnings)


def test_a_size_that_was_lost_is_absent_not_zero(tmp_path: Path) -> None:
    path = write_rpd(tmp_path / "r.rpd", RUN)
    execute(path, "UPDATE rocpd_copyapi SET size = ''")
    side = opened(path).traces.side("copy")
    assert side is not None
    assert set(np.asarray(side.columns["bytes"]).tolist()) == {-1}


def copied(path: Path) -> tuple[list[int], Experiment]:
    """The bytes of every copy, in the order of their starts, and the experiment."""
    experiment = opened(path)
    side = experiment.traces.side("copy")
    assert side is not None
    return np.asarray(side.columns["bytes"])[np.argsort(side.span)].tolist(), experiment


def test_bytes_of_a_copy_that_several_operations_made_count_once(tmp_path: Path) -> None:
    """The call has a size, its operations have not."""
    lengths = (30, 0, 10, 60)
    starts = [100 + 100 * k for k in range(4)]
    pieces = [
        Event("copy", "", start, start + n, corr=1, device=0, size=2**34 + 1)
        for start, n in zip(starts, lengths, strict=True)
    ]
    whole = Event("copy", "", 900, 950, corr=2, device=0, size=77)
    calls = (Event("api", "hipMemcpy", 0, 50, corr=1), Event("api", "hipMemcpy", 60, 70, corr=2))
    kernel = Event("kernel", "k", 800, 810, corr=1, device=0)
    path = write_rpd(tmp_path / "r.rpd", Run((*calls, *pieces, kernel, whole)))
    found, experiment = copied(path)
    assert sum(found) == 2**34 + 1 + 77 == experiment.root_total("bytes")
    assert found == [pytest.approx(0.01 * n * 2**34, abs=2) for n in lengths] + [77]
    (row,) = [row for row in summary_rows(experiment) if row["section"] == "copies"]
    assert row["bytes"] == 2**34 + 1 + 77
    (note,) = experiment.warnings
    assert "1 copies were made by several operations each" in note.text
    execute(path, f"UPDATE rocpd_copyapi SET size = '' WHERE size > {2**33}")
    assert copied(path)[0] == [-1, -1, -1, -1, 77]


def test_copies_of_no_length_have_equal_shares(tmp_path: Path) -> None:
    pieces = [Event("copy", "", 100 + k, 100 + k, corr=1, device=0, size=11) for k in range(3)]
    found, _ = copied(write_rpd(tmp_path / "r.rpd", Run((Event("api", "hipMemcpy", 0, 50, corr=1), *pieces))))
    assert sorted(found) == [3, 4, 4]


def test_gpus_of_merged_files_are_counted_by_their_stride(tmp_path: Path) -> None:
    path = write_rpd(tmp_path / "r.rpd", RUN)
    execute(path, "INSERT INTO rocpd_metadata VALUES (2, 'gpu_stride', '8')", "UPDATE rocpd_op SET gpuId = gpuId + 8")
    assert set(opened(path).profiles.identity_list("gpu_device")) == {None, 0, 1}


def test_processes_of_merged_files_are_counted_by_their_stride(tmp_path: Path) -> None:
    """Two files became one: what was process 4242 and GPUs 0 and 1 of both. Operations without a call belong to the
    process of their GPU's file."""
    path = write_rpd(tmp_path / "r.rpd", RUN, monitor=((5, "1500"),))
    n = len(RUN.operations)
    execute(
        path,
        "INSERT INTO rocpd_metadata VALUES (2, 'gpu_stride', '8'), (3, 'pid_stride', '100000')",
        "INSERT INTO rocpd_api SELECT id + 5000, pid + 100000, tid, start, end, apiName_id, args_id FROM rocpd_api",
        "INSERT INTO rocpd_op SELECT id + 5000, gpuId + 8, queueId, sequenceId, NULL, start, end, description_id, "
        "opType_id FROM rocpd_op",
        "INSERT INTO rocpd_monitor VALUES (9, 'gpu', 9, 'sclk', 7, 8, '1600')",
    )
    experiment = opened(path)
    processes = experiment.traces.tables["processes"]()
    assert processes.column("pid").plain() == [RUN.pid, RUN.pid]
    assert set(experiment.profiles.identity_list("gpu_device")) == {None, 0, 1}
    ranks = np.array(experiment.profiles.identity_list("rank"))
    operations = [
        (int(ranks[p]), correlation < 0)
        for chunk in experiment.traces.spans(("profile", "kind", "correlation"))
        for p, kind, correlation in zip(*(chunk[c].tolist() for c in ("profile", "kind", "correlation")), strict=True)
        if kind in (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
    ]
    assert Counter(operations) == {(0, False): n, (1, True): n}
    counters = experiment.traces.counters
    assert counters is not None
    places = [(int(ranks[p]), experiment.profiles.identity_list("gpu_device")[p]) for p in counters.profile.tolist()]
    assert places == [(0, 0), (1, 1)]


OPERATIONS = [  # type, description, start, end
    ("KernelExecution", "one", 1000, 1100),
    ("Task", "two", 1100, 1250),  # of a graph
    ("Task", "", 1300, 1310),
    ("ConcurrentKernel", "three", 1400, 1405),  # CUPTI's word
    ("Teleport", "", 1500, 1507),  # of a tracer to come
    (None, "four", 1600, 1611),
    ("CopyDeviceToDevice", "", 1700, 1713),
    ("Memcpy", "Fill", 1800, 1817),
    ("FillBuffer", "", 1900, 1919),
    ("Barrier", "", 2000, 2900),  # waits
]
LENGTHS = [end - start for _, _, start, end in OPERATIONS]


@pytest.fixture
def operations(tmp_path: Path) -> Path:
    """A graph that launches an operation of every type."""
    path = write_rpd(tmp_path / "r.rpd", Run((Event("api", "hipGraphLaunch", 0, 50, corr=1),)))
    for number, (type_, text, start, end) in enumerate(OPERATIONS, 100):
        words = [word for word in (type_, text) if word is not None]
        values = ", ".join(f"({1000 + 2 * number + k}, '{word}')" for k, word in enumerate(words))
        ids = {word: 1000 + 2 * number + k for k, word in enumerate(words)}
        row = (number, 0, 1, 0, "NULL", start, end, ids[text], "NULL" if type_ is None else ids[type_])
        execute(
            path,
            f"INSERT INTO rocpd_string VALUES {values}",
            f"INSERT INTO rocpd_op VALUES ({', '.join(map(str, row))})",
            f"INSERT INTO rocpd_api_ops VALUES ({number}, 1, {number})",
        )
    return path


def test_operations_of_every_type_keep_their_device_busy(operations: Path) -> None:
    """All but barriers, which wait; what no reader knows is a kernel."""
    experiment = opened(operations)
    found = {(r["section"], r["name"]): r["total_ns"] for r in summary_rows(experiment)}
    kernels = {name: ns for (section, name), ns in found.items() if section == "kernels"}
    assert kernels == {"one": 100, "two": 150, "Task": 10, "three": 5, "Teleport": 7, "four": 11}
    assert sum(ns for (section, _), ns in found.items() if section == "copies") == 13 + 17 + 19
    assert found["sync", "Barrier"] == 900
    assert found["busy", "GPU 0"] == sum(LENGTHS[:-1])
    assert experiment.root_total("gpu_ops") == len(OPERATIONS) - 1
    assert experiment.root_total("gpu_time") == pytest.approx(sum(LENGTHS[:-1]) * 1e-9)


def test_types_that_nobody_knows_are_named(operations: Path) -> None:
    (warning,) = opened(operations).warnings
    assert warning.severity == Severity.NOTE
    assert warning.text.endswith("operations of unknown types count as kernels: 'Teleport' (1), no type (1)")
