"""Options that `convert` has from rocprofv3's own converter. What is expected comes from the databases, by SQL."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.cli.verbs.convert import main as merge
from callgrove.formats.interface import WriteOptions
from callgrove.formats.timeline.perfetto.format import FORMAT as PERFETTO
from tests.cli.commands import Capture, run, said
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_nsight, write_rocpd, write_rpd
from tests.formats.gpu.gpu_truth import opened
from tests.outside import perfetto_trace
from tests.requirements import need_module

Times = Counter[tuple[str, int, int]]  # name, start, end
KERNELS = """
select coalesce(nullif(t.string, ''), s.display_name), d.start, d.end from rocpd_kernel_dispatch{tail} d
join rocpd_info_kernel_symbol{tail} s on s.id = d.kernel_id left join rocpd_string{tail} t on t.id = d.region_name_id
"""


def process(number: int) -> Run:
    about = {"host": f"node{number}", "machine": f"m{number}", "guid": f"0{number:07x}-0-7-8-1", "pid": 100 + number}
    return replace(Run.random(number).without("memset"), **about)  # type: ignore[arg-type]


def in_ranges(path: Path, one: Run) -> None:
    """Two thirds of the kernels are in ranges, one of which is called like a call; copies are as well."""
    tail = suffix_of(one)
    execute(
        path,
        f"INSERT INTO rocpd_string{tail} VALUES (901, '', 'forward, \"p{one.pid}\"'), (902, '', 'hipMalloc')",
        f"UPDATE rocpd_kernel_dispatch{tail} SET region_name_id = 901 WHERE id % 3 = 0",
        f"UPDATE rocpd_kernel_dispatch{tail} SET region_name_id = 902 WHERE id % 3 = 1",
        f"UPDATE rocpd_memory_copy{tail} SET region_name_id = 901",
    )


def queried(path: Path, query: str) -> list[tuple[str, int, int]]:
    database = sqlite3.connect(path)
    rows = database.execute(query).fetchall()
    database.close()
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three processes: two files, of which the second is merged."""
    out = tmp_path_factory.mktemp("in")
    runs = [process(k) for k in range(3)]
    for path, own in ((out / "a.db", runs[:1]), (out / "b.db", runs[1:])):
        write_rocpd(path, own)
        for one in own:
            in_ranges(path, one)
    return out


@pytest.fixture(scope="module")
def kernels(folder: Path) -> Times:
    out: Times = Counter()
    for k, name in enumerate("abb"):
        out.update(queried(folder / f"{name}.db", KERNELS.format(tail=suffix_of(process(k)))))
    renamed = sum(n for (name, _, _), n in out.items() if name.startswith(("forward", "hipMalloc")))
    assert 0 < renamed < out.total()
    return out


def perfetto(path: Path) -> Times:
    slices = perfetto_trace.read(path.read_bytes()).slices
    return Counter((s.name, s.start, s.end) for s in slices if s.category == "KERNEL_DISPATCH")


def chrome(path: Path) -> Times:
    events = [e for e in json.loads(path.read_bytes())["traceEvents"] if e.get("cat") == "KERNEL_DISPATCH"]
    times = [(e["name"], round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in events if e["ph"] == "X"]
    first = min(start for _, start, _ in times)
    return Counter((name, start - first, end - first) for name, start, end in times)


def archive(path: Path) -> Times:
    otf2 = need_module("otf2")
    out: Times = Counter()
    opened_at: dict[object, list[int]] = {}
    with otf2.reader.open(str(path / "traces.otf2")) as trace:
        for location, event in trace.events:
            if location.type == otf2.LocationType.ACCELERATOR_STREAM and not isinstance(event, otf2.events.Metric):
                if isinstance(event, otf2.events.Enter):
                    opened_at.setdefault(location, []).append(event.time)
                elif isinstance(event, otf2.events.Leave):
                    out[event.region.name, opened_at[location].pop(), event.time] += 1
    return Counter({key: n for key, n in out.items() if not key[0].startswith("MEMORY_COPY")})


def table(path: Path) -> Times:
    with path.with_name(f"{path.name}_kernel_trace.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    return Counter((r["Kernel_Name"], int(r["Start_Timestamp"]), int(r["End_Timestamp"])) for r in rows)


def since_first(times: Times) -> Times:
    first = min(start for _, start, _ in times)
    return Counter({(name, start - first, end - first): n for (name, start, end), n in times.items()})


TARGETS: dict[str, tuple[str, Callable[[Path], Times]]] = {
    "perfetto": ("o.pftrace", perfetto),
    "chrome-json": ("o.json", chrome),
    "otf2": ("o.otf2", archive),
    "rocprof-csv": ("o", table),
}


@pytest.mark.parametrize("name", TARGETS)
def test_kernels_are_called_like_the_range_they_are_in(
    name: str, folder: Path, kernels: Times, tmp_path: Path, capsys: Capture
) -> None:
    target, read = TARGETS[name]
    words = ("convert", folder, tmp_path / target, "--to", name, "-j", "1")
    assert main([str(word) for word in (*words, "--kernel-rename")]) == 0
    assert "--kernel-rename" not in capsys.readouterr().err
    assert since_first(read(tmp_path / target)) == since_first(kernels)
    run(capsys, *words, "--force")
    assert not {key[0] for key in read(tmp_path / target)} & {"hipMalloc", 'forward, "p100"'}


def test_nothing_else_is_renamed(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    found = []
    for words in ((), ("--kernel-rename",)):
        run(capsys, "convert", folder, tmp_path / "o.pftrace", "--force", "-j", "1", *words)
        slices = perfetto_trace.read((tmp_path / "o.pftrace").read_bytes()).slices
        found.append([(s.name, s.category, s.start) for s in slices if s.category != "KERNEL_DISPATCH"])
        run(capsys, "convert", folder, tmp_path / "o", "--to", "rocprof-csv", "--force", *words)
    assert found[0] == found[1]
    with (tmp_path / "o_hip_api_trace.csv").open(newline="") as file:
        assert {row["Domain"] for row in csv.DictReader(file)} == {"HIP_RUNTIME_API_EXT"}


def test_the_bytes_of_renamed_kernels_do_not_depend_on_who_did_the_work(
    folder: Path, kernels: Times, tmp_path: Path, capsys: Capture
) -> None:
    for jobs in (1, 2):
        run(capsys, "convert", folder, tmp_path / f"{jobs}.pftrace", "-j", jobs, "--kernel-rename")
    assert (tmp_path / "1.pftrace").read_bytes() == (tmp_path / "2.pftrace").read_bytes()
    assert perfetto(tmp_path / "2.pftrace") == kernels
    words = ["--output-format", "csv", "--out", str(tmp_path / "m"), "--in", str(folder), "--kernel-rename"]
    assert merge(words) == 0
    assert table(tmp_path / "m") == kernels


def test_a_part_is_renamed_like_the_whole(folder: Path, kernels: Times, tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "convert", folder, tmp_path / "o.pftrace", "--kind", "kernel", "--rank", "1", "--kernel-rename")
    own = queried(folder / "b.db", KERNELS.format(tail=suffix_of(process(1))))
    assert perfetto(tmp_path / "o.pftrace") == Counter(own)


def test_who_gives_chunks_gets_them_renamed_too(folder: Path, kernels: Times, tmp_path: Path) -> None:
    experiment = opened(folder)
    writer = PERFETTO.open_writer(tmp_path / "o.pftrace", WriteOptions(kernel_rename=True))
    writer.define(experiment)
    for chunk in experiment.traces.spans(writer.columns):
        writer.write(chunk)
    writer.close()
    assert perfetto(tmp_path / "o.pftrace") == kernels


@pytest.mark.parametrize("write", [write_rpd, write_nsight, None])
@pytest.mark.parametrize("name", ["perfetto", "rocprof-csv"])
def test_kernels_in_no_range_keep_their_names(
    name: str, write: Callable[[Path, Run], Path] | None, tmp_path: Path, capsys: Capture
) -> None:
    """Said once, however many files there are."""
    (tmp_path / "in").mkdir()
    for k in range(2):
        path, own = tmp_path / "in" / f"{k}.db", process(k).without("alloc")
        if write is None:
            write_rocpd(path, [own])
        else:
            write(path, own)
    messages, files = [], []
    for words in ((), ("--kernel-rename",)):
        folder = tmp_path / f"out{len(words)}"
        folder.mkdir()
        assert main(["convert", str(tmp_path / "in"), str(folder / "o"), "--to", name, "-j", "1", *words]) == 0
        messages.append(capsys.readouterr().err.splitlines())
        files.append([(path.name, path.read_bytes()) for path in sorted(folder.iterdir())])
    assert files[0] == files[1]
    (more,) = [line for line in messages[1] if line not in messages[0]]
    assert "--kernel-rename: changes nothing" in more
    assert len(messages[1]) == len(messages[0]) + 1


# -- what devices are called -------------------------------------------------------------------------------------------

LABEL = {
    "absolute": "'Agent ' || {0}.absolute_index",
    "relative": "'Agent ' || {0}.logical_index",
    "type-relative": "{0}.type || ' ' || {0}.type_index",
}


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes whose devices have three different numbers, which are not the same in both."""
    out = tmp_path_factory.mktemp("agents")
    for k in range(2):
        path, tail = write_rocpd(out / f"{k}.db", [process(k)]), suffix_of(process(k))
        numbers = f"absolute_index = id + {4 + 10 * k}, logical_index = id + {k}"
        execute(path, f"UPDATE rocpd_info_agent{tail} SET {numbers}")
    return out


def of_both(folder: Path, query: str, by: str, *names: str) -> Counter[tuple[object, ...]]:
    """What both databases answer; `names` stand for agents whose label is asked for."""
    labels = {name: LABEL[by].format(name) for name in names}
    found: Counter[tuple[object, ...]] = Counter()
    for k in range(2):
        found.update(queried(folder / f"{k}.db", query.format(tail=suffix_of(process(k)), **labels)))
    return found


def column(path: Path, *names: str) -> Counter[tuple[object, ...]]:
    with path.open(newline="", encoding="utf-8") as file:
        return Counter(tuple(row[name] for name in names) for row in csv.DictReader(file, strict=True))


@pytest.mark.parametrize(("words", "by"), [((), "relative"), *((("--agent-index-value", by), by) for by in LABEL)])
def test_csv_files_call_agents_by_the_number_asked_for(
    words: tuple[str, ...], by: str, agents: Path, tmp_path: Path, capsys: Capture
) -> None:
    run(capsys, "convert", agents, tmp_path / "o", "--to", "rocprof-csv", *words)
    of_one = "select {a}, CAST({time} AS TEXT) from rocpd_{table}{{tail}} e join rocpd_info_agent{{tail}} a"
    for table, file in (("kernel_dispatch", "kernel_trace"), ("memory_allocate", "memory_allocation_trace")):
        query = of_one.format(a="{a}", time="e.start", table=table) + " on a.id = e.agent_id"
        assert column(tmp_path / f"o_{file}.csv", "Agent_Id", "Start_Timestamp") == of_both(agents, query, by, "a")
    query = (
        "select {a}, {b} from rocpd_memory_copy{tail} e join rocpd_info_agent{tail} a on a.id = e.src_agent_id"
        " join rocpd_info_agent{tail} b on b.id = e.dst_agent_id"
    )
    copies = column(tmp_path / "o_memory_copy_trace.csv", "Source_Agent_Id", "Destination_Agent_Id")
    assert copies == of_both(agents, query, by, "a", "b")


NAMED = [
    (("--track-names", "rocpd"), "relative", "COMPUTE {0} QUEUE [0]", "ALLOCATE BYTES on {0} (REAL)"),
    *(
        (
            ("--track-names", "rocpd", "--agent-index-value", by),
            by,
            "COMPUTE {0} QUEUE [0]",
            "ALLOCATE BYTES on {0} (REAL)",
        )
        for by in LABEL
    ),
    ((), "type-relative", "{0} queue 0", "{0} memory REAL"),
    (("--agent-index-value", "absolute"), "absolute", "{0} queue 0", "{0} memory REAL"),
]


@pytest.mark.parametrize(("words", "by", "queue", "memory"), NAMED)
def test_tracks_call_agents_by_the_number_asked_for(
    words: tuple[str, ...], by: str, queue: str, memory: str, agents: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Also what is said of copies. Plain names keep the number among GPUs unless another one is asked for."""
    options = ("--group-by-queue", "--annotations", "all", *words)
    for jobs in (1, 2) if by == "absolute" else (1,):
        run(capsys, "convert", agents, tmp_path / f"{jobs}.pftrace", "-j", jobs, *options)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    trace = perfetto_trace.read((tmp_path / "1.pftrace").read_bytes())
    kernels = [one for one in trace.slices if one.category == "KERNEL_DISPATCH"]
    query = "select {a}, e.start from rocpd_kernel_dispatch{tail} e join rocpd_info_agent{tail} a on a.id = e.agent_id"
    expected = of_both(agents, query, by, "a")
    assert Counter((one.args["agent"], one.start) for one in kernels) == expected
    assert {trace.tracks[one.track].name for one in kernels} == {queue.format(agent) for agent, _ in expected}
    assert {trace.path(one.track)[-2] for one in kernels} == {agent for agent, _ in expected}
    query = "select {a} from rocpd_memory_allocate{tail} e join rocpd_info_agent{tail} a on a.id = e.agent_id"
    wanted = {memory.format(agent) for (agent,) in of_both(agents, query, by, "a")}
    assert {trace.tracks[uuid].name for uuid in trace.counters} == wanted
    query = (
        "select {a}, {b}, e.start from rocpd_memory_copy{tail} e join rocpd_info_agent{tail} a on a.id = e.src_agent_id"
        " join rocpd_info_agent{tail} b on b.id = e.dst_agent_id"
    )
    copies = Counter((s.args["src"], s.args["dst"], s.start) for s in trace.slices if s.category == "MEMORY_COPY")
    assert copies == of_both(agents, query, by, "a", "b")


def test_devices_without_such_numbers_are_called_as_people_do(tmp_path: Path, capsys: Capture) -> None:
    write_nsight(tmp_path / "n.db", process(1))
    run(capsys, "convert", tmp_path / "n.db", tmp_path / "o", "--to", "rocprof-csv", "--agent-index-value", "absolute")
    used = {(f"GPU {event.device}",) for event in process(1).events if event.kind == "kernel"}
    assert set(column(tmp_path / "o_kernel_trace.csv", "Agent_Id")) == used
    run(capsys, "convert", tmp_path / "n.db", tmp_path / "o.pftrace", "--agent-index-value", "absolute")
    tracks = perfetto_trace.read((tmp_path / "o.pftrace").read_bytes()).tracks.values()
    assert {name for (name,) in used} <= {track.name for track in tracks}


def test_a_number_that_agents_do_not_have(agents: Path, tmp_path: Path, capsys: Capture) -> None:
    text = said(capsys, "convert", agents, tmp_path / "o.pftrace", "--agent-index-value", "logical", code=2)
    assert "'logical'" in text


def test_options_for_buffers_are_ignored_with_one_notice(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    buffers = ["--perfetto-backend", "inprocess", "--perfetto-buffer-size", "1024", "--perfetto-shmem-size-hint", "64"]
    buffers += ["--perfetto-buffer-fill-policy", "discard"]
    run(capsys, "convert", folder, tmp_path / "plain.pftrace", "-j", "1")
    assert main(["convert", str(folder), str(tmp_path / "o.pftrace"), "-j", "1", *buffers]) == 0
    (notice,) = capsys.readouterr().err.splitlines()
    assert all(word in notice for word in buffers[::2])
    assert (tmp_path / "o.pftrace").read_bytes() == (tmp_path / "plain.pftrace").read_bytes()
    several = ["--output-format", "pftrace", "json", "--out", str(tmp_path / "m"), "--in", str(folder), *buffers]
    assert merge(several) == 0
    assert capsys.readouterr().err.splitlines() == [notice]


OPTIONS = {  # each with the formats that it changes something in
    ("--annotations", "all"): ("perfetto", "chrome-json", "otf2"),
    ("--track-names", "rocpd"): ("perfetto", "chrome-json", "otf2"),
    ("--group-by-queue",): ("perfetto", "chrome-json", "otf2"),
    ("--kernel-rename",): ("perfetto", "chrome-json", "otf2", "rocprof-csv"),
    ("--agent-index-value", "absolute"): ("perfetto", "chrome-json", "otf2", "rocprof-csv"),
    ("--real-pids",): ("perfetto", "chrome-json"),
    ("--keep-partial",): ("perfetto", "chrome-json", "rocprof-csv"),
}


@pytest.mark.parametrize("words", OPTIONS, ids=" ".join)
def test_options_of_traces_are_refused_where_they_change_nothing(
    words: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """Before anything is read: there is no such input."""
    for name in ("perfetto", "chrome-json", "otf2", "rocprof-csv", "cube", "hpctoolkit-release", "extrap-text"):
        found = said(
            capsys,
            "convert",
            tmp_path / "none",
            tmp_path / "o",
            "--to",
            name,
            *words,
            code=3 - (name not in OPTIONS[words]),
        )
        if name in OPTIONS[words]:
            assert f"{tmp_path / 'none'}: " in found
        else:
            assert found == f"{words[0]} makes no difference to {name}; it is for {', '.join(OPTIONS[words])}"


def test_an_ending_that_may_mean_a_trace(tmp_path: Path, capsys: Capture) -> None:
    """.json is a trace, or the series of a study: that is known when the input is."""
    study = tmp_path / "study.txt"
    study.write_text("PARAMETER p\nPOINTS 1 2 4 8 16\nREGION r\nDATA 1\nDATA 2\nDATA 4\nDATA 8\nDATA 16\n")
    run(capsys, "convert", study, tmp_path / "a.json")
    found = said(capsys, "convert", study, tmp_path / "b.json", "--annotations", "all", code=2)
    assert found.startswith("--annotations makes no difference to extrap-json; ")
    assert not (tmp_path / "b.json").exists()


def test_rocprofv3_merge_says_what_changes_nothing(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    command = ["--in", str(folder), "--group-by-queue", "--perfetto-buffer-size", "1"]
    assert merge([*command, "--out", str(tmp_path / "a"), "--output-format", "csv"]) == 0
    assert "callgrove: --group-by-queue makes no difference to rocprof-csv; " in capsys.readouterr().err
    assert merge([*command, "--out", str(tmp_path / "b"), "--output-format", "csv", "pftrace"]) == 0
    assert "no difference" not in capsys.readouterr().err
