"""`convert` and `rocprofv3-merge` to traces: all families, parts of traces, many workers, and what goes wrong."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.forkserver import ensure_running
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.cli.verbs.convert import main as merge
from callgrove.formats.timeline.perfetto.writer import PerfettoPart
from tests.cli.commands import Capture, run, said
from tests.formats.gpu.gpu_databases import Event, Run, suffix_of, write_nsight, write_rocpd, write_rpd
from tests.formats.hpctoolkit.test_release_writer_failures import full_disk
from tests.formats.samples import databases as databases_of
from tests.outside import perfetto_trace
from tests.outside.perfetto_trace import Trace
from tests.outside.trace_processor import processed


def process(number: int, n_calls: int = 40) -> Run:
    about = {"host": f"node{number:04}", "machine": f"m{number}", "guid": f"0{number:07x}-0-7-8-1"}
    return replace(Run.random(number, n_calls).without("memset"), **about)  # type: ignore[arg-type]


@pytest.fixture
def databases(tmp_path: Path) -> tuple[Path, list[Run]]:
    """Six processes with one and the same pid."""
    folder = tmp_path / "dbs"
    folder.mkdir()
    runs = [process(k) for k in range(6)]
    for k, one in enumerate(runs):
        write_rocpd(folder / f"results-{k}.db", [one])
    return folder, runs


def read(path: Path) -> Trace:
    return perfetto_trace.read(path.read_bytes())


def shown(event: Event) -> str:
    return event.label or event.name


def totals(runs: list[Run]) -> Counter[tuple[str, int, int]]:
    return Counter((shown(event), event.start, event.end) for one in runs for event in one.events)


def slices(trace: Trace) -> Counter[tuple[str, int, int]]:
    return Counter((one.name, one.start, one.end) for one in trace.slices)


def test_every_event_of_every_database_is_a_slice(
    databases: tuple[Path, list[Run]], tmp_path: Path, capsys: Capture
) -> None:
    folder, runs = databases
    run(capsys, "convert", folder, tmp_path / "all.pftrace", "-j", 1)
    trace = read(tmp_path / "all.pftrace")
    assert slices(trace) == totals(runs)
    assert len(trace.sequences) == 6
    assert sum(len(one.flows) for one in trace.slices) == sum(len(one.operations) for one in runs)


def test_the_trace_processor_agrees_with_sql_over_the_source(tmp_path: Path, capsys: Capture) -> None:
    own = process(1, 400)
    write_rocpd(tmp_path / "a.db", [own])
    run(capsys, "convert", tmp_path / "a.db", tmp_path / "a.pftrace")
    data, suffix = (tmp_path / "a.pftrace").read_bytes(), suffix_of(own)
    with sqlite3.connect(tmp_path / "a.db") as database:
        kernels = database.execute(
            f"select s.display_name, d.stream_id, count(*), sum(d.end - d.start) from rocpd_kernel_dispatch{suffix} d"
            f" join rocpd_info_kernel_symbol{suffix} s on s.id = d.kernel_id group by 1, 2"
        ).fetchall()
        regions = database.execute(
            f"select t.string, count(*), sum(r.end - r.start) from rocpd_region{suffix} r join rocpd_string{suffix} t"
            f" on t.id = r.name_id where t.string like 'hip%' group by 1"
        ).fetchall()
    on_gpu, calls, linked = processed(
        data,
        "select s.name as n, t.name as t, count(*) as c, sum(s.dur) as d from slice s join track t on t.id = s.track_id"
        " where s.category = 'KERNEL_DISPATCH' group by 1, 2",
        "select s.name as n, count(*) as c, sum(s.dur) as d from slice s join thread_track t on t.id = s.track_id"
        " where s.name like 'hip%' group by 1",
        "select count(distinct slice_in) as n from flow",
    )
    database.close()
    by_stream: Counter[tuple[object, object]] = Counter()
    for name, track, count, total in on_gpu:
        stream = int(str(track).rpartition(" ")[2])  # the name of a track ends with it
        by_stream[name, stream] += complex(int(str(count)), int(str(total)))  # type: ignore[assignment]
    assert by_stream == {(name, stream): complex(count, total) for name, stream, count, total in kernels}
    assert sorted(calls) == sorted(regions)
    assert linked == [(len(own.operations),)]


def family(name: str, folder: Path) -> Run:
    """The same run as a database of a family; the older ones have neither memory nor some kinds."""
    whole = Run.random(3)
    if name == "rocpd":
        own = whole.without("memset")
        write_rocpd(folder / "in.db", [own])
    elif name == "rpd":
        own = whole.without("alloc")
        write_rpd(folder / "in.db", own)
    elif name == "nsight":
        own = whole
        write_nsight(folder / "in.db", own)
    else:
        own = whole.without("memset")
        write_rocpd(folder / "rocpd.db", [own])
        assert main(["convert", str(folder / "rocpd.db"), str(folder / "in.db"), "--to", "rocpd-draft"]) == 0
    return own


@pytest.mark.parametrize("name", ["rocpd", "rpd", "nsight", "draft"])
def test_all_families_become_traces(name: str, tmp_path: Path, capsys: Capture) -> None:
    own = family(name, tmp_path)
    run(capsys, "convert", tmp_path / "in.db", tmp_path / "out.pftrace", "--annotations", "all")
    trace = read(tmp_path / "out.pftrace")
    kernels = Counter((e.name, e.start, e.end) for e in own.events if e.kind == "kernel")
    assert Counter((s.name, s.start, s.end) for s in trace.slices if s.args["kind"] == "kernel") == kernels
    assert Counter((s.start, s.end) for s in trace.slices if s.args["kind"] in ("api", "marker")) == Counter(
        (e.start, e.end) for e in own.events if e.kind in ("api", "marker")
    )


def test_samples_of_the_draft_schema_are_stacks_too(tmp_path: Path, capsys: Capture) -> None:
    source = next(path for path in databases_of("release") if path.name == "pth4.d")
    run(capsys, "convert", source, tmp_path / "in.db", "--to", "rocpd-draft")
    for name, origin in (("direct", source), ("through", tmp_path / "in.db")):
        run(capsys, "convert", origin, tmp_path / f"{name}.pftrace")
    direct, through = (read(tmp_path / f"{name}.pftrace") for name in ("direct", "through"))
    lasting: list[Counter[str]] = [Counter(), Counter()]
    for total, trace in zip(lasting, (direct, through), strict=True):
        for one in trace.slices:
            total[one.name] += one.end - one.start
    # the schema knows lines as frames of their own, and merges calls that differ in nothing else
    assert sum(lasting[0].values()) > 0
    assert lasting[0] == {name: lasting[1][name] for name in lasting[0]}


SELECTIONS = (("--annotations", "all"), ("--rank", "1-3", "--window", "10%:60%", "--kind", "kernel,copy"))


@pytest.mark.parametrize("options", SELECTIONS)
def test_the_bytes_do_not_depend_on_who_did_the_work(
    databases: tuple[Path, list[Run]], tmp_path: Path, capsys: Capture, options: tuple[str, ...]
) -> None:
    folder, _ = databases
    for jobs in (1, 2):
        run(capsys, "convert", folder, tmp_path / f"{jobs}.pftrace", "-j", jobs, *options)
    assert (tmp_path / "1.pftrace").read_bytes() == (tmp_path / "2.pftrace").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1.pftrace", "2.pftrace", "dbs"]


def test_parts_of_a_trace(databases: tuple[Path, list[Run]], tmp_path: Path, capsys: Capture) -> None:
    folder, runs = databases

    def part(*options: object) -> Trace:
        run(capsys, "convert", folder, tmp_path / "part.pftrace", "--force", *options)
        return read(tmp_path / "part.pftrace")

    assert slices(part("--rank", "2")) == totals(runs[2:3])
    first, last = runs[0].start + 50, runs[0].start + 1500
    inside = [
        (shown(e), e.start, e.end)
        for one in runs
        for e in one.events
        if e.start < last and (e.end > first or e.start >= first)
    ]
    assert slices(part("--window", f"@{first}:@{last}")) == Counter(inside)
    assert {one.category for one in part("--kind", "kernel").slices} == {"KERNEL_DISPATCH"}
    categories = {one.category for one in part("--category", "hip").slices}
    assert categories == {"HIP_RUNTIME_API_EXT"}
    marked = [e for one in runs for e in one.events if e.label == "step 1"]
    first, last = min(e.start for e in marked), max(e.end for e in marked)
    found = part("--start-marker", "step 1", "--end-marker", "step 1")
    assert min(one.end for one in found.slices) >= first
    assert max(one.start for one in found.slices) < last


def test_a_choice_that_leaves_nothing_says_what_there_is(tmp_path: Path, capsys: Capture) -> None:
    run_ = Run((Event("api", "hipMalloc", 1, 2), Event("kernel", "k", 3, 4)))
    path, target = write_rocpd(tmp_path / "r.db", [run_]), tmp_path / "o.pftrace"
    for words in (("--category", "NIX"), ("--kind", "sync"), ("--category", "NIX", "--kind", "api")):
        found = said(capsys, "convert", path, target, *words, code=2)
        assert "no span is left; there are api (HIP_RUNTIME_API_EXT), kernel (KERNEL_DISPATCH)" in found
    assert "--no-traces leaves nothing" in said(capsys, "convert", path, target, "--no-traces", code=2)
    assert not target.exists()


@pytest.mark.parametrize("name", ["o.pftrace", "o.json", "o.otf2"])
def test_databases_without_events_are_said_to_be_empty(name: str, tmp_path: Path, capsys: Capture) -> None:
    """One is refused; of many that is known only in the end."""
    (tmp_path / "in").mkdir()
    paths = [write_rocpd(tmp_path / "in" / f"r{k}.db", [Run((), pid=k + 1)]) for k in range(2)]
    assert "has no traces" in said(capsys, "convert", paths[0], tmp_path / name, code=2)
    assert main(["convert", str(tmp_path / "in"), str(tmp_path / name), "-j", "1"]) == 0
    assert f"{name}: shows no events: {tmp_path / 'in'} has none" in capsys.readouterr().err


def test_clocks_that_differ_are_said(tmp_path: Path, capsys: Capture) -> None:
    """Processes that a viewer shows years apart."""
    (tmp_path / "in").mkdir()
    for k, start in enumerate((1000, 10**15)):
        one = Run((Event("api", "f", start + 10, start + 20),), k + 1, f"n{k}", f"m{k}", f"018f-{k}", start=start)
        write_rocpd(tmp_path / "in" / f"r{k}.db", [one])
    for words, times in (((), 1), (("--align", "start"), 0)):
        capsys.readouterr()
        assert main(["convert", str(tmp_path / "in"), str(tmp_path / "o.pftrace"), "--force", "-j", "1", *words]) == 0
        assert capsys.readouterr().err.count("their clocks differ; --align start lets all begin at 0") == times


def test_a_kind_that_does_not_exist(tmp_path: Path, capsys: Capture) -> None:
    text = said(capsys, "convert", tmp_path, tmp_path / "x.pftrace", "--kind", "kernels", code=2)
    assert "there is no kind 'kernels'; there are entry, " in text


@pytest.mark.parametrize("name", ["perfetto", "chrome-json"])
def test_a_reader_that_has_seen_enough(name: str, databases: tuple[Path, list[Run]]) -> None:
    """`convert ... - | head`, as with every other verb."""
    command = [sys.executable, "-m", "callgrove", "convert", str(databases[0]), "-", "--to", name, "-j", "1"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_folder_of_runs_names_one_to_convert(
    databases: tuple[Path, list[Run]], tmp_path: Path, capsys: Capture
) -> None:
    """Runs that are put together have no traces any more."""
    for number in (2, 4):
        shutil.copytree(databases[0], tmp_path / "runs" / f"app.p{number}")
    text = said(capsys, "convert", tmp_path / "runs", tmp_path / "x.pftrace", code=2)
    assert "has no traces; those of a single run may be there: " in text
    assert str(tmp_path / "runs" / "app.p2") in text


def test_stdout_and_compression(databases: tuple[Path, list[Run]], tmp_path: Path, capsys: Capture) -> None:
    folder, runs = databases
    command = [sys.executable, "-m", "callgrove", "convert", str(folder), "-", "--to", "perfetto", "-j", "1"]
    done = subprocess.run(command, capture_output=True, check=True)
    run(capsys, "convert", folder, tmp_path / "z.pftrace.gz")
    assert gzip.decompress((tmp_path / "z.pftrace.gz").read_bytes()) == done.stdout
    assert slices(perfetto_trace.read(done.stdout)) == totals(runs)
    (rows,) = processed((tmp_path / "z.pftrace.gz").read_bytes(), "select count(*) as n from slice")
    assert rows == [(sum(len(one.events) for one in runs),)]


def test_rocprofv3_merge(databases: tuple[Path, list[Run]], tmp_path: Path, capsys: Capture) -> None:
    folder, runs = databases
    files = [str(folder / f"results-{k}.db") for k in (0, 1)]
    words = ["--output-format", "pftrace", "--out", str(tmp_path / "mybenchmark.pftrace"), "--in", *files]
    assert merge(words) == 0
    assert capsys.readouterr() == ("", "")
    assert slices(read(tmp_path / "mybenchmark.pftrace")) == totals(runs[:2])
    assert merge([*words, "--perfetto-buffer-size", "1"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert merge([*words, "--force", "--perfetto-buffer-size", "1"]) == 0
    assert "--perfetto-buffer-size: ignored" in capsys.readouterr().err
    assert merge(["--output-format", "pftrace", "--in", *files]) == 2
    assert "--out" in capsys.readouterr().err


def test_rocprofv3_merge_writes_several_formats(
    databases: tuple[Path, list[Run]], tmp_path: Path, capsys: Capture
) -> None:
    folder, runs = databases
    words = ["--output-format", "pftrace", "json", "csv", "pftrace", "--in", str(folder), "--out"]
    for target in ("run", "run.pftrace"):  # an ending is not doubled
        assert merge([*words, str(tmp_path / target), "--force"]) == 0
    names = {path.name for path in tmp_path.glob("run*")}
    assert {"run.pftrace", "run.json", "run_kernel_trace.csv"} <= names
    assert {name for name in names if not name.startswith("run_")} == {"run.pftrace", "run.json"}
    assert slices(read(tmp_path / "run.pftrace")) == totals(runs)
    assert merge(["--output-format", "csv", "--in", str(folder), "--out", str(tmp_path / "alone.csv")]) == 0
    assert (tmp_path / "alone_kernel_trace.csv").is_file()
    capsys.readouterr()
    assert merge(["--output-format", "pftrace", "xml", "--out", "x", "--in", str(folder)]) == 2
    assert "'xml'" in capsys.readouterr().err


def test_an_unknown_ending_asks_for_a_format(tmp_path: Path, capsys: Capture) -> None:
    assert "choose one with --to" in said(capsys, "convert", tmp_path, tmp_path / "x.trace", code=2)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("after", "jobs"), [(0, 1), (3_000, 1), (20_000, 1), (20_000, 2)])
def test_a_full_disk_leaves_the_old_target(
    databases: tuple[Path, list[Run]], tmp_path: Path, capsys: Capture, after: int, jobs: int
) -> None:
    folder, _ = databases
    target = tmp_path / "t.pftrace"
    target.write_bytes(b"old")
    ensure_running()  # a server of processes that began with the limit would keep it for the tests to come
    with full_disk(after):
        assert main(["convert", str(folder), str(target), "--force", "-j", str(jobs)]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "t.pftrace: cannot be written: File too large; nothing was changed" in message
    assert target.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dbs", "t.pftrace"]


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, after: int, by: signal.Signals = signal.SIGINT) -> Iterator[None]:
    """A signal while batch number `after` is encoded."""
    left = [after]
    original = PerfettoPart.slices

    def encode(self: PerfettoPart, batch: object) -> Iterator[bytes | memoryview]:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), by)
        yield from original(self, batch)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(PerfettoPart, "slices", encode)
        yield


@pytest.mark.parametrize(
    ("by", "code", "keep"), [(signal.SIGINT, 130, False), (signal.SIGINT, 130, True), (signal.SIGTERM, 143, False)]
)
def test_an_interrupted_run_keeps_the_old_target(
    databases: tuple[Path, list[Run]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: signal.Signals,
    code: int,
    keep: bool,
) -> None:
    folder, runs = databases
    target = tmp_path / "t.pftrace"
    target.write_bytes(b"old")
    options = ["--keep-partial"] if keep else []
    with interrupted(monkeypatch, after=3, by=by):
        assert main(["convert", str(folder), str(target), "--force", "-j", "1", *options]) == code
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert target.read_bytes() == b"old"
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == (["dbs", "t.pftrace", "t.pftrace.part"] if keep else ["dbs", "t.pftrace"])
    if keep:
        assert slices(read(tmp_path / "t.pftrace.part")) == totals(runs[:3])


def test_a_damaged_database_is_said_and_the_others_are_written(
    databases: tuple[Path, list[Run]], tmp_path: Path, capsys: Capture
) -> None:
    folder, runs = databases
    broken = folder / "results-3.db"
    broken.write_bytes(broken.read_bytes()[:5000])
    assert main(["convert", str(folder), str(tmp_path / "t.pftrace")]) == 0
    assert "results-3.db" in capsys.readouterr().err
    assert slices(read(tmp_path / "t.pftrace")) == totals([*runs[:3], *runs[4:]])
