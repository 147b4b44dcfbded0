"""Many databases become one calling-context profile: the same however many are folded at once, and wherever."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.analysis.tables import export
from callgrove.errors import CallgroveError
from callgrove.execute import Engine, Workers, executor
from callgrove.formats.events import experiment as event_experiment
from callgrove.formats.events.spans import DataSetSpans
from callgrove.formats.gpu import formats
from callgrove.formats.gpu.rocpd.reader import RocpdData
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_paths
from callgrove.model.experiment import Experiment
from callgrove.model.table import Table
from tests.formats.gpu.gpu_databases import execute, suffix_of
from tests.formats.gpu.test_joined import N_FILES, made, process

Costs = dict[tuple[Any, ...], float]


def folded(files: list[Path], workers: Workers | None = None) -> Experiment:
    options = ReadOptions() if workers is None else ReadOptions(workers=workers)
    found = open_paths(files, "rocpd", options)
    assert isinstance(found, Experiment)
    return found


def costs(experiment: Experiment) -> Costs:
    """Every value by profile, path of the context and its kind, and metric: numbers of contexts may differ."""
    paths = [row for part in export(experiment, "contexts") for row in columns(part, "path", "kind")]
    out: Costs = {}
    for part in export(experiment, "values"):
        for profile, context, metric, value in columns(part, "profile", "context", "metric", "value"):
            key = (profile, *paths[context], metric)
            assert key not in out
            out[key] = value
    return out


def columns(part: Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(part.column(name).plain() for name in names), strict=True)


def one_by_one(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> Experiment:
    with monkeypatch.context() as patch:
        patch.setattr(formats, "BUNDLE_BYTES", 0)
        patch.setattr(event_experiment, "BUNDLE_BYTES", 0)
        return folded(files)


def test_some_at_a_time_are_as_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = made(tmp_path, n_calls=200)
    together = folded(files)
    assert costs(together) == costs(one_by_one(files, monkeypatch))
    kernels = sum(event.kind == "kernel" for k in range(N_FILES) for event in process(k, 200).events)
    copies = sum(event.kind == "copy" for k in range(N_FILES) for event in process(k, 200).events)
    assert together.root_total("gpu_ops") == kernels + copies


def test_on_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = made(tmp_path)
    monkeypatch.setattr(event_experiment, "BUNDLE_BYTES", 2 * files[0].stat().st_size)
    here = folded(files)
    with executor(Engine(jobs=2)) as workers:
        there = folded(files, workers)
    assert costs(here) == costs(there)
    assert here.warnings == there.warnings


STRANGE = {
    "stacks": """UPDATE "rocpd_event%s" SET call_stack = '{"0": "inner", "1": "outer"}' WHERE id % 3 = 0""",
    "backwards": 'UPDATE "rocpd_region%s" SET "end" = start - 5 WHERE id % 4 = 0',
    "no events": 'DELETE FROM "rocpd_event%s" WHERE id % 2 = 0',
    "no threads": 'DELETE FROM "rocpd_info_thread%s"',
}


@pytest.mark.parametrize("what", STRANGE)
def test_strange_data_in_one_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    files = made(tmp_path)
    plain = costs(folded(files))
    execute(files[2], STRANGE[what].replace("%s", suffix_of(process(2))))
    together, alone = folded(files), one_by_one(files, monkeypatch)
    assert costs(together) == costs(alone) != plain
    assert sorted(warning.text for warning in together.warnings) == sorted(w.text for w in alone.warnings)
    with executor(Engine(jobs=2)) as workers:
        there = folded(files, workers)
    assert costs(there) == costs(alone)
    assert sorted(w.text for w in there.warnings) == sorted(w.text for w in alone.warnings)


def test_spans_of_some_profiles_are_looked_for_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in all data sets: who goes through the parts of a thousand would look a million times."""
    backend = folded(made(tmp_path)).traces.spans_backend
    assert isinstance(backend, DataSetSpans)
    read: list[Path] = []
    events = RocpdData.events

    def counted(data: RocpdData, columns: Any) -> Any:
        read.append(data.path)
        return events(data, columns)

    monkeypatch.setattr(RocpdData, "events", counted)
    every = [row for chunk in backend.chunks(("profile",), None, None) for row in chunk["span"].tolist()]
    read.clear()
    found = []
    for number, part in enumerate(backend.parts()):
        found += [row for chunk in backend.chunks(("profile",), None, part) for row in chunk["span"].tolist()]
        assert read == [dataset.path for dataset in backend.datasets[: number + 1]]
    assert sorted(found) == sorted(every)
    one = backend.parts()[1][:1]
    chunks = list(backend.chunks(("profile",), None, np.append(one, [10**9, -1])))
    assert {int(profile) for chunk in chunks for profile in chunk["profile"]} == {int(one[0])}


def test_bytes_that_are_wrong_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folded together or one by one: the same, or the same error."""
    files = made(tmp_path, 3)
    raw = files[1].read_bytes()
    chance = np.random.default_rng(5)
    n_read = 0
    for _ in range(20):
        spoiled = bytearray(raw)
        for at in chance.integers(0, len(raw), int(chance.integers(1, 6))).tolist():
            spoiled[at] = int(chance.integers(0, 256))
        files[1].write_bytes(spoiled)
        found = []
        for opened in (folded, partial(one_by_one, monkeypatch=monkeypatch)):
            try:
                found.append(costs(opened(files)))
            except CallgroveError as error:
                found.append({(str(error),): 0.0})
        assert found[0] == found[1]
        n_read += len(found[0]) > 1
    assert n_read


def test_a_database_that_breaks_off_is_left_out(tmp_path: Path) -> None:
    files = made(tmp_path)
    whole = folded(files).root_total("gpu_ops")
    files[3].write_bytes(files[3].read_bytes()[:5000])
    files[4].write_bytes(b"")
    rest = folded(files)
    assert 0 < rest.root_total("gpu_ops") < whole
    assert [name for name in ("3.db", "4.db") if any(name in w.text for w in rest.damage)] == ["3.db", "4.db"]
