"""Call chains of Nsight exports: who called, whichever way an export numbers its chains, and sampled stacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from callgrove.binary.sqlite.database import SqliteFile
from callgrove.formats.gpu.nsight.tables import CallChains
from tests.formats.gpu.nsight_databases import CUPTI, Export
from tests.formats.gpu.test_nsight import column, context_paths, opened

MISSING = int(np.iinfo(np.int64).min)


def two_calls(more: int) -> Export:
    """Calls 0 and 1 with the chains 0 + more and 1 + more; where `more` is 0, number 0 means no chain."""
    made = Export("N0b")
    made.chain("CUDA", 1, "cudaMalloc", "0x7f00", "setup", "main")
    made.chain("CUDA", 2, "cudaFree", "cleanup", "main")
    for number, name in enumerate(("cudaMalloc", "cudaFree"), 1):
        told = number - more
        made.call(name, number * 100, number * 100 + 50, number, eventClass=67, callchainId=told)
        made.call(f"{name}_v3020", number * 100 + 5, number * 100 + 45, number)
    return made


@pytest.mark.parametrize("more", [0, 1])
def test_both_ways_of_numbering_chains_are_understood(more: int, tmp_path: Path) -> None:
    experiment = opened(two_calls(more).write(tmp_path / "run.sqlite"))
    assert context_paths(experiment) == {
        "main",
        "main->setup",
        "main->setup->cudaMalloc",
        "main->cleanup",
        "main->cleanup->cudaFree",
    }


def test_a_call_with_two_rows_is_one_span_with_the_time_of_the_inner_one(tmp_path: Path) -> None:
    experiment = opened(two_calls(1).write(tmp_path / "run.sqlite"))
    assert column(experiment, "spans", "name", "start_ns", "end_ns") == [
        ("cudaMalloc_v3020", 105, 145),
        ("cudaFree_v3020", 205, 245),
    ]


@pytest.mark.parametrize(("calls", "more"), [([("a", 1), ("b", 2)], 0), ([("b", 1), ("c", 2)], 1), ([("x", 1)], 0)])
def test_names_decide_where_numbers_do_not(calls: list[tuple[str, int]], more: int, tmp_path: Path) -> None:
    """Chains 1 to 9, of which the first three end in a, b, c: the largest number told is neither 9 nor 8."""
    made = Export("N0b")
    for number, name in enumerate("abc", 1):
        made.chain("CUDA", number, name, "main")
    made.chain("CUDA", 9, "z", "main")
    chains = CallChains(SqliteFile.open(made.write(tmp_path / "run.sqlite")), "CUDA_CALLCHAINS")
    texts = [f"{name}_v3020" for name, _ in calls]
    given = np.array([number for _, number in calls])
    assert chains.offset(given, np.arange(len(calls), dtype=np.int32), texts) == more


def test_calls_of_the_system_have_their_chains_too_and_0_is_none(tmp_path: Path) -> None:
    made = Export("N0b")
    made.chain("OSRT", 1, "poll", "event_loop", "main")
    for start, chain in ((10, 1), (30, 0)):
        told = {"globalTid": made.tid, "nameId": made.string("poll"), "callchainId": chain}
        made.add("OSRT_API", start=start, end=start + 5, **told)
    assert context_paths(opened(made.write(tmp_path / "run.sqlite"))) == {
        "main",
        "main->event_loop",
        "main->event_loop->poll",
        "poll",
    }


def test_markers_say_where_a_call_belongs_and_chains_do_not(tmp_path: Path) -> None:
    made = two_calls(1)
    made.nvtx("step", 90, 160)
    assert context_paths(opened(made.write(tmp_path / "run.sqlite"))) == {
        "step",
        "step->cudaMalloc",
        "main",
        "main->cleanup",
        "main->cleanup->cudaFree",
    }


def test_operations_lie_below_the_call_and_its_callers(tmp_path: Path) -> None:
    made = two_calls(1)
    made.kernel("init", 110, 120, 1)
    experiment = opened(made.write(tmp_path / "run.sqlite"))
    assert "main->setup->cudaMalloc->init(int)" in context_paths(experiment)


@pytest.mark.parametrize("without", ["CUDA_CALLCHAINS", f"{CUPTI}RUNTIME.callchainId"])
def test_without_chains_there_are_no_callers(without: str, tmp_path: Path) -> None:
    experiment = opened(two_calls(1).write(tmp_path / "run.sqlite", without=without))
    assert context_paths(experiment) == {"cudaMalloc", "cudaFree"}


def test_samples_of_stacks_are_read(tmp_path: Path) -> None:
    made = Export("N0b")
    made.chain("SAMPLING", 5, "inner", "0x10", "main")
    made.chain("SAMPLING", 7, "0x10", "0x20")
    for number, start in ((7, 300), (5, 200), (9, 400), (5, 100)):
        made.add("COMPOSITE_EVENTS", id=number, start=start, globalTid=made.tid)
    experiment = opened(made.write(tmp_path / "run.sqlite"))
    paths = dict(column(experiment, "contexts", "context", "path"))
    found = [(time, paths[context]) for time, context in column(experiment, "samples", "time_ns", "context")]
    assert found == [(100, "main->inner"), (200, "main->inner"), (300, "[unknown]")]
