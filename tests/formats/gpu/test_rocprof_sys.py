"""Databases of rocprof-sys: the tables of rocprofv3 with categories of its own, and counters of whole devices."""

from __future__ import annotations

from pathlib import Path

from callgrove.analysis.tables import export
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SpanKind
from tests.formats.gpu.gpu_databases import Event, Run, execute, suffix_of, write_rocpd
from tests.formats.gpu.gpu_truth import opened

RUN = Run((Event("api", "hipLaunchKernel", 10, 20, corr=1), Event("kernel", "k", 30, 40, corr=1, device=0)))
COUNTERS = (
    "INSERT INTO rocpd_string%s (id, string) VALUES (900, 'GPU Power [0]')",
    "INSERT INTO rocpd_track%s (id, nid, pid, tid, name_id) VALUES (1, 7, 4242, NULL, 900)",
    "INSERT INTO rocpd_info_pmc%s (id, name) VALUES (6, 'device_power')",
    "INSERT INTO rocpd_event%s (id, category_id, stack_id) VALUES (100, 1, 0), (101, 1, 0)",
    "INSERT INTO rocpd_sample%s (id, track_id, timestamp, event_id) VALUES (1, 1, 15, 100), (2, {track}, 25, 101)",
    "INSERT INTO rocpd_pmc_event%s (id, event_id, pmc_id, value) VALUES (1, 100, 6, 300.5), (2, 101, 6, 310)",
)


def written(path: Path, *statements: str) -> Path:
    write_rocpd(path, [RUN])
    execute(path, *(statement % suffix_of(RUN) for statement in statements))
    return path


def kinds(experiment: Experiment) -> list[str]:
    return [SpanKind(kind).word for chunk in experiment.traces.spans(("kind",)) for kind in chunk["kind"].tolist()]


def test_calls_of_rocm_are_calls_whatever_else_is_recorded(tmp_path: Path) -> None:
    """Also where several files are read together."""
    renamed = "UPDATE rocpd_string%s SET string = '{}' WHERE string = 'HIP_RUNTIME_API_EXT'"
    calls = written(tmp_path / "a.db", renamed.format("rocm_hip_api"))
    assert kinds(opened(calls)) == ["api", "kernel"]
    host = written(tmp_path / "b.db", renamed.format("host"))
    assert kinds(opened(host)) == ["region", "kernel"]
    marker = written(tmp_path / "c.db", renamed.format("rocm_marker_api"))
    assert kinds(opened(marker)) == ["marker", "kernel"]
    both = open_path([calls, host])
    assert isinstance(both, Experiment)
    assert sorted(kinds(both)) == ["api", "kernel", "kernel", "region"]


def test_tracks_of_devices_have_no_thread(tmp_path: Path) -> None:
    experiment = opened(written(tmp_path / "r.db", *(text.replace("{track}", "1") for text in COUNTERS)))
    assert kinds(experiment)[:2] == ["api", "kernel"]
    names = [name for part in export(experiment, "spans") for name in part.column("name").plain()]
    assert names == ["hipLaunchKernel", "k", "GPU Power [0]", "GPU Power [0]"]
    counters = experiment.traces.counters
    assert counters is not None
    assert (counters.names, counters.value.tolist()) == (("device_power",), [300.5, 310.0])
    assert experiment.warnings == ()


def test_tracks_that_are_not_there_are_damage(tmp_path: Path) -> None:
    experiment = opened(written(tmp_path / "r.db", *(text.replace("{track}", "9") for text in COUNTERS)))
    kinds(experiment)
    (damage,) = experiment.damage
    assert damage.text.endswith("track_id: 1 ids lead to no row")
