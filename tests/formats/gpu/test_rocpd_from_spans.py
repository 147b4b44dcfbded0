"""Any trace as a database of rocprofv3: what was given is there when it is read again, and what is not is said."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.cli.main import main
from callgrove.errors import UsageError
from callgrove.examples import example, gpu_example
from callgrove.formats.gpu.rocpd.tables import COLUMNS, columns_of
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.registry import open_path, writer_of
from callgrove.formats.writing.transfer import write_experiment
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import LABEL, SpanKind
from tests.cli.commands import Capture
from tests.formats.gpu.gpu_databases import Run, write_nsight, write_rocpd, write_rpd

RUN = Run.random(7)
SPAN = ("profile", "kind", "name", LABEL, "start_ns", "end_ns", "correlation")
PLACES = ("rank", "gpu_device", "gpu_stream")


def opened(path: Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


def write_draft(path: Path, made: Run) -> Path:
    source = opened(write_nsight(path.with_suffix(".sqlite"), made))
    write_experiment(source, writer_of("rocpd-draft"), path, WriteOptions())
    return path


WRITERS: dict[str, Callable[[Path, Run], Path]] = {"nsight": write_nsight, "rpd": write_rpd, "draft": write_draft}


def written(experiment: Experiment, target: Path) -> LossReport:
    report = write_experiment(experiment, writer_of("rocpd"), target, WriteOptions())
    assert report.unexplained == []
    return report


def spans(experiment: Experiment, *, as_written: bool = False) -> Counter[tuple[Any, ...]]:
    """All spans with their places; as far as rocpd tells kinds apart, where they are compared with what it holds."""
    backend = experiment.traces.spans_backend
    assert backend is not None
    where = list(zip(*(experiment.profiles.identity_list(name) for name in PLACES), strict=True))
    same = {SpanKind.MEMSET: SpanKind.KERNEL, SpanKind.SYNC: SpanKind.REGION, SpanKind.OVERHEAD: SpanKind.REGION}
    found: Counter[tuple[Any, ...]] = Counter()
    for chunk in experiment.traces.spans(SPAN):
        for profile, kind, name, label, *rest in zip(*(chunk[column].tolist() for column in SPAN), strict=True):
            told = same.get(SpanKind(kind), kind) if as_written else kind
            text, shown = (backend.strings[number] if number >= 0 else "" for number in (name, label))
            is_marker = kind == SpanKind.MARKER
            found[(*where[profile], int(told), text if is_marker or not as_written else shown, shown, *rest)] += 1
    return found


def test_the_demo_is_a_database_of_rocprofv3_that_holds_everything(tmp_path: Path) -> None:
    made = gpu_example()
    report = written(made, tmp_path / "train.db")
    again = opened(tmp_path / "train.db")
    assert (again.format, again.version) == ("rocpd", "3")
    assert report.lines == []
    assert spans(again) == spans(made)
    assert again.profiles.identity_list("rank") == [0, 0, 0, 1, 1, 1]
    assert [w.text for w in again.warnings] == []
    copies = again.traces.side("copy", 0)
    assert copies is not None
    assert set(np.asarray(copies.columns["bytes"]).tolist()) == {4 << 20}


def test_tables_and_views_are_those_of_rocprofv3(tmp_path: Path) -> None:
    written(gpu_example(), tmp_path / "train.db")
    with closing(sqlite3.connect(tmp_path / "train.db")) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        guids = [guid for (guid,) in database.execute("SELECT DISTINCT guid FROM rocpd_event")]
        suffixes = ["_" + guid.replace("-", "_") for guid in guids]
        assert len(suffixes) == 2
        assert sorted(tables) == sorted(f"rocpd_{base}{suffix}" for base in COLUMNS for suffix in suffixes)
        for base in COLUMNS:
            (info,) = [database.execute(f'PRAGMA table_info("rocpd_{base}{suffixes[0]}")').fetchall()]
            assert [row[1] for row in info] == list(columns_of(base))
        views = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
        assert len(views) == len(COLUMNS) + 21
        for view in views:
            database.execute(f'SELECT * FROM "{view}"').fetchall()
        assert database.execute("SELECT count(*) FROM kernels").fetchone() == (24,)
        assert database.execute("SELECT count(*) FROM memory_copies").fetchone() == (6,)
        assert database.execute("SELECT count(*) FROM rocpd_kernel_dispatch WHERE tid IS NULL").fetchone() == (0,)


def test_columns_are_those_of_genuine_files(shared: Path, tmp_path: Path) -> None:
    written(gpu_example(), tmp_path / "train.db")
    genuine = shared / "data" / "own" / "rocpd" / "small" / "rank00000_results.db"
    with closing(sqlite3.connect(tmp_path / "train.db")) as ours, closing(sqlite3.connect(genuine)) as theirs:
        for base in COLUMNS:
            columns = [[row[1] for row in one.execute(f"PRAGMA table_info(rocpd_{base})")] for one in (ours, theirs)]
            assert set(columns[0]) == set(columns[1]) or not columns[1], base


@pytest.mark.parametrize("family", WRITERS)
def test_other_families_become_rocpd(family: str, tmp_path: Path) -> None:
    given = opened(WRITERS[family](tmp_path / "in.db", RUN.without("alloc")))
    report = written(given, tmp_path / "out.db")
    again = opened(tmp_path / "out.db")
    assert again.format == "rocpd"
    assert spans(again, as_written=True) == spans(given, as_written=True)
    n_fills = sum(event.kind == "memset" for event in RUN.events)
    assert f"fills of memory: {n_fills} become kernels, as rocprofv3 writes them" in report.lines
    for metric in ("gpu_time", "host_time", "gpu_busy"):
        rows = [next(k for k, m in enumerate(e.metrics) if m.name == metric) for e in (given, again)]
        totals = [e.values.totals(row).sum() for e, row in zip((given, again), rows, strict=True)]
        assert totals[0] == pytest.approx(totals[1])


def test_what_the_schema_does_not_have_is_said(tmp_path: Path) -> None:
    """Categories of another vendor's calls would make regions of them."""
    report = written(opened(write_nsight(tmp_path / "in.sqlite", RUN.without("alloc"))), tmp_path / "out.db")
    beginnings = (
        "categories of spans, which are HIP_RUNTIME_API_EXT now",
        "names of calls as the profiler has them",
        "more about ends and queues of copies",
    )
    assert [one for one in beginnings if not any(line.startswith(one) for line in report.lines)] == []


def test_a_part_of_a_database_is_written_from_its_spans(tmp_path: Path, capsys: Capture) -> None:
    """Rows are copied of whole databases alone."""
    runs = [Run.random(seed, guid=f"018f0000-0000-7000-8000-00000000000{seed}", pid=seed) for seed in (1, 2)]
    runs = [one.without("memset") for one in runs]
    source = write_rocpd(tmp_path / "in.db", runs)
    assert main(["convert", str(source), str(tmp_path / "part.db"), "--to", "rocpd", "--rank", "1"]) == 0
    assert "unexplained" not in capsys.readouterr().err
    wanted = Counter((event.start, event.end) for event in runs[1].events)
    assert Counter((row[-3], row[-2]) for row in spans(opened(tmp_path / "part.db")).elements()) == wanted


def test_samples_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds events of GPU programs, and the input has none"):
        write_experiment(example(), writer_of("rocpd"), tmp_path / "out.db", WriteOptions())
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "out.db").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write_experiment(gpu_example(), writer_of("rocpd"), tmp_path / "out.db", WriteOptions())
    assert (tmp_path / "out.db").read_text() == "mine"


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    """Also the numbers that processes are known by, so that a file that is written twice merges as one."""
    for name in ("a.db", "b.db"):
        written(gpu_example(), tmp_path / name)
    assert (tmp_path / "a.db").read_bytes() == (tmp_path / "b.db").read_bytes()
