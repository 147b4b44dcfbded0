"""rocprofv3's CSV files hold the run that they were made from, under its own names and headers.

The headers are those of the specification (gpu-traces.md 3.9); everything is read back with the standard library.
"""

from __future__ import annotations

import csv
import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from callgrove.errors import CallgroveError, UsageError
from callgrove.formats.gpu.draft.writer import DraftWriter
from callgrove.formats.interface import WriteOptions
from callgrove.formats.rocprof_csv import format as writer_module
from callgrove.formats.rocprof_csv.format import FORMAT
from callgrove.formats.writing.transfer import transfer
from callgrove.model.experiment import Experiment
from tests.cli.commands import Capture, run, said
from tests.formats.gpu.gpu_databases import (
    Event,
    Run,
    execute,
    suffix_of,
    write_nsight,
    write_rocpd,
    write_rpd,
)
from tests.formats.gpu.gpu_truth import opened
from tests.formats.samples import CORPUS

API = "Guid,Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp"
OF_DISPATCH = (
    "Pid,Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,"
    "Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,"
)
HEADERS = {
    "kernel_trace.csv": "Guid,Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,"
    "Correlation_Id,Start_Timestamp,End_Timestamp,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,"
    "Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z",
    "memory_copy_trace.csv": "Guid,Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,"
    "Start_Timestamp,End_Timestamp",
    "memory_allocation_trace.csv": "Guid,Kind,Operation,Agent_Id,Allocation_Size,Address,Correlation_Id,"
    "Start_Timestamp,End_Timestamp",
    "scratch_memory_trace.csv": "Kind,Operation,Agent_Id,Queue_Id,Thread_Id,Alloc_Flags,Start_Timestamp,End_Timestamp",
    **{f"{domain}_api_trace.csv": API for domain in ("hip", "hsa", "marker", "rccl", "rocdecode", "rocjpeg")},
    "counter_collection.csv": f"{OF_DISPATCH}Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp",
    "counter_wide.csv": f"{OF_DISPATCH}Start_Timestamp,End_Timestamp,GRBM_COUNT,SQ_WAVES",
    "agent_info.csv": "Guid,Node_Id,Logical_Node_Id,Agent_Type,Cpu_Cores_Count,Simd_Count,Cpu_Core_Id_Base,"
    "Simd_Id_Base,Max_Waves_Per_Simd,Lds_Size_In_Kb,Gds_Size_In_Kb,Num_Gws,Wave_Front_Size,Num_Xcc,Cu_Count,"
    "Array_Count,Num_Shader_Banks,Simd_Arrays_Per_Engine,Cu_Per_Simd_Array,Simd_Per_Cu,Max_Slots_Scratch_Cu,"
    "Gfx_Target_Version,Vendor_Id,Device_Id,Location_Id,Domain,Drm_Render_Minor,Num_Sdma_Engines,"
    "Num_Sdma_Xgmi_Engines,Num_Sdma_Queues_Per_Engine,Num_Cp_Queues,Max_Engine_Clk_Ccompute,Max_Engine_Clk_Fcompute,"
    "Sdma_Fw_Version,Fw_Version,Capability,Cu_Per_Engine,Max_Waves_Per_Cu,Family_Id,Workgroup_Max_Size,Grid_Max_Size,"
    "Local_Mem_Size,Hive_Id,Gpu_Id,Workgroup_Max_Dim_X,Workgroup_Max_Dim_Y,Workgroup_Max_Dim_Z,Grid_Max_Dim_X,"
    "Grid_Max_Dim_Y,Grid_Max_Dim_Z,Name,Vendor_Name,Product_Name,Model_Name",
}
RUN = Run.random(3).without("memset")
Row = dict[str, str]


def written(experiment: Experiment, target: Path, dialect: str = "", overwrite: bool = False) -> list[str]:
    """What was lost."""
    return transfer(experiment, FORMAT.open_writer(target, WriteOptions(dialect, overwrite))).losses


def rows(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def by_start(events: Sequence[Event], kind: str) -> list[Event]:
    """As rows are ordered: by start, then in the order of the table."""
    return sorted((event for event in events if event.kind == kind), key=lambda event: event.start)


def with_everything(path: Path) -> Path:
    """A database that fills every file."""
    events = [
        *RUN.events,
        *(Event("api", f"{domain}Call", 5000 + k, 5010 + k) for k, domain in enumerate(("rccl", "hsa", "dec", "jpeg"))),
        Event("alloc", "FREE", 6000, 6001, size=0),
        Event("alloc", "ALLOC", 6002, 6003, size=77),
    ]
    kernel = next(k for k, event in enumerate(events) if event.kind == "kernel")
    own = replace(RUN, events=tuple(events), counters=((kernel, "SQ_WAVES", 2.5), (kernel, "SQ_WAVES", 3.5)))
    write_rocpd(path, [own])
    s, n = suffix_of(own), len(events)
    domains = ("RCCL_API", "HSA_CORE_API", "ROCDECODE_API", "ROCJPEG_API")
    execute(
        path,
        *(f"INSERT INTO rocpd_string{s} VALUES ({900 + k}, 'g', '{text}')" for k, text in enumerate(domains)),
        *(f"UPDATE rocpd_event{s} SET category_id = {900 + k} WHERE id = {n - 5 + k}" for k in range(4)),
        f"UPDATE rocpd_memory_allocate{s} SET agent_id = NULL, address = -1 - 1 WHERE id = {n - 1}",
        f"""UPDATE rocpd_memory_allocate{s} SET level = 'SCRATCH', extdata = '{{"flags": 2}}' WHERE id = {n}""",
        f"INSERT INTO rocpd_info_pmc{s} SELECT 6, guid, nid, pid, agent_id, NULL, NULL, NULL, 'GRBM_COUNT', 'x', NULL,"
        f" NULL, NULL, NULL, 'ABS', NULL, NULL, NULL, NULL, NULL FROM rocpd_info_pmc{s}",
        *(f"INSERT INTO rocpd_pmc_event{s} VALUES ({50 + v}, 'g', {kernel + 1}, 6, {v}, '{{}}')" for v in (10, 20)),
        f"""UPDATE rocpd_info_agent{s} SET extdata = '{{"cu_count": 304, "workgroup_max_dim": {{"x": 1024}}}}'
            WHERE type = 'GPU'""",
    )
    return path


def test_files_and_headers_are_exactly_rocprofv3s(tmp_path: Path) -> None:
    written(opened(with_everything(tmp_path / "r.db")), tmp_path / "out")
    files = {path.name.removeprefix("out_"): path for path in tmp_path.glob("out_*")}
    assert set(files) == set(HEADERS)
    for name, path in files.items():
        first, _, rest = path.read_bytes().partition(b"\n")
        assert first.decode() == ",".join(f'"{word}"' for word in HEADERS[name].split(",")), name
        assert rest.endswith(b"\n")
        assert b"\r" not in rest


def test_kernels_cell_by_cell(tmp_path: Path) -> None:
    written(opened(write_rocpd(tmp_path / "r.db", [RUN])), tmp_path / "out")
    wanted = by_start(RUN.events, "kernel")
    found = rows(tmp_path / "out_kernel_trace.csv")
    assert len(found) == len(wanted)
    for row, event in zip(found, wanted, strict=True):
        x, y, z = event.grid
        dispatch = str(RUN.events.index(event) + 1)
        assert row["Kernel_Id"] in "123"
        del row["Kernel_Id"]
        assert list(row.values()) == [
            *(RUN.guid, "KERNEL_DISPATCH", f"Agent {event.device}", "0", str(event.stream)),
            *(str(RUN.tids[event.thread]), dispatch, event.name, str(event.corr), str(event.start), str(event.end)),
            *("512", "0", "24", "0", "16", *map(str, event.block), str(x), str(y), str(z)),
        ]
    text = (tmp_path / "out_kernel_trace.csv").read_text().splitlines()[1]
    assert text.startswith(f'"{RUN.guid}","KERNEL_DISPATCH","Agent {wanted[0].device}",0,{wanted[0].stream},')


def test_copies_calls_and_markers(tmp_path: Path) -> None:
    written(opened(write_rocpd(tmp_path / "r.db", [RUN])), tmp_path / "out")
    assert [tuple(row.values()) for row in rows(tmp_path / "out_memory_copy_trace.csv")] == [
        (
            *(RUN.guid, "MEMORY_COPY", event.name, str(event.stream), "Agent 0", f"Agent {event.device}"),
            *(str(event.corr), str(event.start), str(event.end)),
        )
        for event in by_start(RUN.events, "copy")
    ]
    for name, kind, domain in (("hip", "api", "HIP_RUNTIME_API_EXT"), ("marker", "marker", "MARKER_CORE_API")):
        assert [tuple(row.values()) for row in rows(tmp_path / f"out_{name}_api_trace.csv")] == [
            (
                *(RUN.guid, domain, event.label or event.name, str(RUN.pid), str(RUN.tids[event.thread])),
                *(str(event.corr), str(event.start), str(event.end)),
            )
            for event in by_start(RUN.events, kind)
        ]


def test_allocations_scratch_counters_and_agents(tmp_path: Path) -> None:
    written(opened(with_everything(tmp_path / "r.db")), tmp_path / "out")
    free = rows(tmp_path / "out_memory_allocation_trace.csv")[-1]
    assert (free["Operation"], free["Agent_Id"], free["Address"]) == (
        *("MEMORY_ALLOCATION_FREE", ""),
        "0xfffffffffffffffe",
    )
    first = rows(tmp_path / "out_memory_allocation_trace.csv")[0]
    assert (first["Operation"], first["Address"]) == ("MEMORY_ALLOCATION_ALLOCATE", "0x0000000000000040")
    (scratch,) = rows(tmp_path / "out_scratch_memory_trace.csv")
    assert (scratch["Operation"], scratch["Alloc_Flags"]) == ("SCRATCH_MEMORY_ALLOC", "2")
    counted = rows(tmp_path / "out_counter_collection.csv")
    assert [(row["Counter_Name"], row["Counter_Value"]) for row in counted] == [
        *(("GRBM_COUNT", "30"), ("SQ_WAVES", "6")),
    ]
    assert {(row["Pid"], row["Process_Id"], row["Grid_Size"], row["Workgroup_Size"]) for row in counted} == {
        (RUN.guid, str(RUN.pid), str(256 * 8), str(64 * 2))
    }
    (wide,) = rows(tmp_path / "out_counter_wide.csv")
    assert (wide["SQ_WAVES"], wide["GRBM_COUNT"]) == ("6", "30")
    agents = rows(tmp_path / "out_agent_info.csv")
    assert [(row["Agent_Type"], row["Cu_Count"], row["Workgroup_Max_Dim_X"]) for row in agents] == [
        *(("CPU", "", ""), ("GPU", "304", "1024")),
        ("GPU", "304", "1024"),
    ]


def test_instances_of_counters_are_added_unless_they_are_ratios(tmp_path: Path, capsys: Capture) -> None:
    """rocprofv3 says ABS of every counter, writes a value for each instance, and shows their sum."""
    path = with_everything(tmp_path / "r.db")
    table = f"rocpd_info_pmc{suffix_of(RUN)}"
    for number, (value_type, value) in enumerate((("ACCUM", 30.0), ("ABS", 30.0), ("RELATIVE", 15.0))):
        execute(path, f"UPDATE {table} SET value_type = '{value_type}' WHERE name = 'GRBM_COUNT'")
        written(opened(path), tmp_path / f"out{number}")
        counted = rows(tmp_path / f"out{number}_counter_collection.csv")
        found = {row["Counter_Name"]: float(row["Counter_Value"]) for row in counted}
        assert found == {"GRBM_COUNT": value, "SQ_WAVES": 6.0}
        (wide,) = rows(tmp_path / f"out{number}_counter_wide.csv")
        assert float(wide["GRBM_COUNT"]) == value
        asked = run(capsys, "sql", path, "SELECT counter_name, value FROM counters_collection", "--format", "csv")
        assert sorted(asked.split()[1:]) == [f"GRBM_COUNT,{value}", "SQ_WAVES,6.0"]


def test_rows_are_in_order_whatever_the_order_of_the_table(tmp_path: Path) -> None:
    """By process, then start, then place in the table: equal starts with different ends stay as they are."""
    events = [
        Event("api", f"f{k}", start, start + length) for k, (start, length) in enumerate([(50, 1), (7, 1), (7, 9)])
    ]
    runs = [replace(RUN, events=tuple(events), guid=f"g-{k}", host=f"n{k}", machine=f"m{k}") for k in range(2)]
    written(opened(write_rocpd(tmp_path / "r.db", runs)), tmp_path / "out")
    found = [(row["Guid"], row["Function"]) for row in rows(tmp_path / "out_hip_api_trace.csv")]
    assert found == [(f"g-{k}", name) for k in range(2) for name in ("f1", "f2", "f0")]


HOSTILE = ['say "hi", twice', "two\nlines", "\r\x01\x1f", "=1+1", "naïve ☃ 😀", "nul\0inside", "", "x" * 70_000 + '"']


def test_names_of_any_kind_come_back(tmp_path: Path) -> None:
    """NUL becomes its picture, an empty name a word, and what is longer than 64 KiB is cut."""
    events = tuple(Event("api", f"name {k}", 10 * k, 10 * k + 5) for k in range(len(HOSTILE)))
    path = write_rocpd(tmp_path / "r.db", [replace(RUN, events=events)])
    for k, text in enumerate(HOSTILE):
        quoted = "".join(f"char({ord(c)})||" for c in text[:40]) + "''" if len(text) < 100 else f"'{text}'"
        execute(path, f"UPDATE rocpd_string{suffix_of(RUN)} SET string = {quoted} WHERE string = 'name {k}'")
    written(opened(path), tmp_path / "out")
    found = [row["Function"] for row in rows(tmp_path / "out_hip_api_trace.csv")]
    assert found[:5] == HOSTILE[:5]
    assert found[5:7] == ["nul\u2400inside", "<unnamed>"]
    assert found[7] == "x" * (1 << 16) + "…"


def test_the_dialect_with_more_columns(tmp_path: Path, capsys: Capture) -> None:
    path = write_rocpd(tmp_path / "r.db", [replace(RUN, events=(Event("copy", "C", 10, 13, 0, 1, 0, 0, 100),))])
    run(capsys, "convert", path, tmp_path / "out", "--to", "rocprof-csv", "--extended")
    (row,) = rows(tmp_path / "out_memory_copy_trace.csv")
    assert list(row)[-5:] == ["End_Timestamp", "Rank", "Host", "Size", "Bandwidth_GBs"]
    assert list(row.values())[-4:] == ["0", "node0000", "100", "33.333"]


def test_what_has_no_file_is_counted(tmp_path: Path) -> None:
    events = [
        *(Event("region", f"r{k}", k, k + 1) for k in range(3)),
        *(Event("api", "backwards", 10, 9), Event("api", "before", -5, 9)),
        *(Event("kernel", "k", 20, 30, 0, 1, 0), Event("api", "open", 7, 8), Event("api", "ompt_x", 5, 6)),
    ]
    path = write_rocpd(tmp_path / "r.db", [replace(RUN, events=tuple(events))])
    s = suffix_of(RUN)
    execute(
        path,
        f"INSERT INTO rocpd_string{s} VALUES (900, 'g', 'OMPT')",
        f"UPDATE rocpd_event{s} SET category_id = 900 WHERE id = {len(events)}",
        f"UPDATE rocpd_region{s} SET end = NULL WHERE start = 7",
    )
    losses = written(opened(path), tmp_path / "out")
    assert sorted(loss for loss in losses if "events" in loss) == [
        "1 events of kind api (OMPT): rocprofv3 has no CSV file for them",
        "1 events outside of the times that can be written (0 to 2^63 ns)",
        "1 events that end before they start",
        "3 events of kind region (OTHER): rocprofv3 has no CSV file for them",
    ]
    assert len(rows(tmp_path / "out_kernel_trace.csv")) == 1
    (unfinished,) = rows(tmp_path / "out_hip_api_trace.csv")
    assert (unfinished["Function"], unfinished["End_Timestamp"]) == ("open", "")


def test_every_family_has_its_files(tmp_path: Path) -> None:
    whole = Run.random(5)
    paths = [
        write_nsight(tmp_path / "n.sqlite", whole.without("alloc")),
        write_rpd(tmp_path / "r.rpd", whole.without("alloc")),
        tmp_path / "d.db",
    ]
    events = opened(write_rocpd(tmp_path / "source.db", [whole.without("memset")]))
    transfer(events, DraftWriter(paths[-1]))
    for path in paths:
        written(opened(path), tmp_path / path.stem)
        for kind, file in (("kernel", "kernel_trace"), ("copy", "memory_copy_trace")):
            found = rows(tmp_path / f"{path.stem}_{file}.csv")
            wanted = by_start(whole.events, kind)
            times = [(int(row["Start_Timestamp"]), int(row["End_Timestamp"])) for row in found]
            assert sorted(times) == sorted((event.start, event.end) for event in wanted), path
    kernels = rows(tmp_path / "n_kernel_trace.csv")
    assert {row["Agent_Id"] for row in kernels} <= {"GPU 0", "GPU 1"}
    assert len({row["Guid"] for row in kernels}) == 1
    queues = {(row["Queue_Id"], row["Stream_Id"]) for row in rows(tmp_path / "r_kernel_trace.csv")}
    assert queues == {("0", ""), ("1", "")}  # RPD knows queues, the others streams


# -- targets ---------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_there_gets_the_files(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    written(opened(write_rocpd(tmp_path / "r.db", [RUN])), tmp_path / "traces")
    names = {path.name for path in (tmp_path / "traces").iterdir()}
    assert {"kernel_trace.csv", "hip_api_trace.csv"} <= names <= set(HEADERS)


def test_files_of_before_are_replaced_as_a_whole_and_only_if_asked_for(tmp_path: Path) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [RUN]))
    stale, other = tmp_path / "out_rccl_api_trace.csv", tmp_path / "out_notes.csv"
    stale.write_text("old")
    other.write_text("mine")
    with pytest.raises(UsageError, match=r"out_rccl_api_trace\.csv: exists already"):
        written(experiment, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.glob("*out*")) == [other.name, stale.name]
    written(experiment, tmp_path / "out", overwrite=True)
    assert not stale.exists()
    assert other.read_text() == "mine"
    assert not list(tmp_path.glob(".*"))


def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [RUN]))
    old = tmp_path / "out_kernel_trace.csv"
    old.write_text("old")

    def full(*_: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer_module, "rows_of", full)
    with pytest.raises(CallgroveError, match="No space left on device; nothing was changed"):
        written(experiment, tmp_path / "out", overwrite=True)
    assert old.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out_kernel_trace.csv", "r.db"]


def test_a_file_that_cannot_be_moved_brings_all_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [RUN]))
    for name in ("kernel_trace.csv", "marker_api_trace.csv"):
        (tmp_path / f"out_{name}").write_text("old")
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "marker_api_trace.csv" and self.parent.suffix == ".partial":
            raise PermissionError(errno.EACCES, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(CallgroveError, match="Permission denied"):
        written(experiment, tmp_path / "out", overwrite=True)
    found = {path.name: path.read_text() for path in tmp_path.glob("out_*")}
    assert found == {"out_kernel_trace.csv": "old", "out_marker_api_trace.csv": "old"}
    assert not list(tmp_path.glob(".*"))


def test_samples_have_no_file(tmp_path: Path, capsys: Capture) -> None:
    database = next(iter(sorted((CORPUS / "hpctoolkit" / "release").glob("*.d"))))
    text = said(capsys, "convert", database, tmp_path / "out", "--to", "rocprof-csv", code=2)
    assert "hold events of GPU traces" in text
    assert not list(tmp_path.iterdir())


def test_it_is_not_read(tmp_path: Path, capsys: Capture) -> None:
    path = write_rocpd(tmp_path / "r.db", [RUN])
    text = said(capsys, "info", path, "--from", "rocprof-csv", code=2)
    assert "can be written, but not read" in text


def test_counters_sampled_while_a_kernel_ran_are_not_added_to_those_of_the_kernel(
    tmp_path: Path, capsys: Capture
) -> None:
    """Since schema 3.0.3 they lie in the same table, and name their sample."""
    path = with_everything(tmp_path / "r.db")
    s = suffix_of(RUN)
    execute(
        path,
        f"ALTER TABLE rocpd_pmc_event{s} ADD COLUMN sample_id",
        f"INSERT INTO rocpd_track{s} (id, name_id) VALUES (1, 1)",
        *(f"INSERT INTO rocpd_sample{s} (id, track_id, timestamp) VALUES ({k}, 1, {100 + k})" for k in (71, 72)),
        *(
            f"INSERT INTO rocpd_pmc_event{s} (id, event_id, pmc_id, value, sample_id) "
            f"SELECT {k}, event_id, pmc_id, {k}, {k} FROM rocpd_pmc_event{s} WHERE value = 10"
            for k in (71, 72)
        ),
    )
    written(opened(path), tmp_path / "out")
    counted = {row["Counter_Name"]: row["Counter_Value"] for row in rows(tmp_path / "out_counter_collection.csv")}
    assert counted == {"GRBM_COUNT": "30", "SQ_WAVES": "6"}
    asked = run(capsys, "sql", path, "SELECT counter_name, value FROM counters_collection", "--format", "csv")
    assert sorted(asked.split()[1:]) == ["GRBM_COUNT,30.0", "SQ_WAVES,6.0"]
    over_time = run(capsys, "export", path, "--table", "counters", "--format", "csv")
    assert [line.split(",")[1:] for line in over_time.split()[1:]] == [
        *(["GRBM_COUNT", "171", "71.0"], ["GRBM_COUNT", "172", "72.0"])
    ]
    run(capsys, "convert", path, tmp_path / "out.json", "--annotations", "all")
    assert '"GRBM_COUNT":30' in (tmp_path / "out.json").read_text().replace(" ", "")


# -- the layout of 2026 ------------------------------------------------------------------------------------------------

OF_DISPATCH_2026 = (
    "Guid,Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,"
    "Workgroup_Size,Lds_Block_Size,Scratch_Size,Vgpr_Count,Accum_Vgpr_Count,Sgpr_Count,"
)
CAPABILITIES = (
    "Cap_Hotpluggable,Cap_Hsammupresent,Cap_Sharedwithgraphics,Cap_Queuesizepoweroftwo,Cap_Queuesize32Bit,"
    "Cap_Queueidleevent,Cap_Valimit,Cap_Watchpointssupported,Cap_Watchpointstotalbits,Cap_Doorbelltype,"
    "Cap_Aqlqueuedoublemap,Cap_Debugtrapsupported,Cap_Wavelaunchtrapoverridesupported,Cap_Wavelaunchmodesupported,"
    "Cap_Precisememoryoperationssupported,Cap_Deprecated_Sram_Edcsupport,Cap_Mem_Edcsupport,Cap_Raseventnotify,"
    "Cap_Asicrevision,Cap_Sram_Edcsupport,Cap_Svmapisupported,Cap_Coherenthostaccess,Cap_Debugsupportedfirmware,"
    "Cap_Precisealuoperationssupported,Cap_Perqueueresetsupported,"
)
BEFORE, _, AFTER = HEADERS["agent_info.csv"].partition("Capability,")
HEADERS_2026 = {  # rocm-systems 219e01e, rocpd/csv.py: its names of columns, written as `str.title` does
    "kernel_trace.csv": "Guid,Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,"
    "Correlation_Id,Start_Timestamp,End_Timestamp,Duration,Lds_Block_Size,Scratch_Size,Vgpr_Count,Accum_Vgpr_Count,"
    "Sgpr_Count,Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z",
    "memory_copy_trace.csv": HEADERS["memory_copy_trace.csv"],
    "memory_allocation_trace.csv": HEADERS["memory_allocation_trace.csv"],
    "scratch_memory_trace.csv": f"Guid,{HEADERS['scratch_memory_trace.csv']}",
    "regions_trace.csv": API,
    "counter_collection_trace.csv": f"{OF_DISPATCH_2026}Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp",
    "counter_wide.csv": f"{OF_DISPATCH_2026}Start_Timestamp,End_Timestamp,GRBM_COUNT,SQ_WAVES",
    "agent_info.csv": BEFORE
    + CAPABILITIES
    + AFTER.replace("Family_Id,Workgroup_Max_Size", "Workgroup_Max_Size,Family_Id"),
}
STREAM = "Stream_Id,"


def with_graphs(path: Path) -> Path:
    """Schema 3.0.2: every second kernel is of a graph; a copy that is of none says so by NULL."""
    s = suffix_of(RUN)
    tables = [f"rocpd_{base}{s}" for base in ("kernel_dispatch", "memory_copy")]
    execute(
        path,
        *(f"ALTER TABLE {table} ADD COLUMN {name}" for table in tables for name in ("graph_exec_id", "graph_node_id")),
        f"UPDATE {tables[0]} SET graph_exec_id = 7, graph_node_id = 100 + id WHERE id % 2",
    )
    return path


@pytest.mark.parametrize("graphs", [False, True])
def test_files_and_headers_of_2026(graphs: bool, tmp_path: Path) -> None:
    path = with_everything(tmp_path / "r.db")
    written(opened(with_graphs(path) if graphs else path), tmp_path / "out", "2026")
    files = {file.name.removeprefix("out_"): file for file in tmp_path.glob("out_*")}
    assert set(files) == set(HEADERS_2026)
    for name, file in files.items():
        want = HEADERS_2026[name]
        if graphs and name in ("kernel_trace.csv", "memory_copy_trace.csv"):
            want = want.replace(STREAM, f"{STREAM}Graph_Exec_Id,Graph_Node_Id,")
        assert file.read_text().splitlines()[0] == ",".join(f'"{word}"' for word in want.split(",")), name


def test_the_layout_is_that_of_the_profilers_version(tmp_path: Path) -> None:
    """Databases with graph ids are those of the converter that writes them; anybody may ask for the other one."""
    path = write_rocpd(tmp_path / "r.db", [RUN])
    for dialect, year in (("", "2025"), ("2026", "2026")):
        written(opened(path), tmp_path / "out", dialect, overwrite=True)
        assert (tmp_path / "out_regions_trace.csv").exists() == (year == "2026")
        assert (tmp_path / "out_hip_api_trace.csv").exists() == (year == "2025")
    with_graphs(path)
    assert not any("graph" in text for text in written(opened(path), tmp_path / "out", overwrite=True))
    assert (tmp_path / "out_regions_trace.csv").exists()
    kernels = [event for event in RUN.events if event.kind == "kernel"]
    of_graphs = sum((RUN.events.index(event) + 1) % 2 for event in kernels)
    lost = written(opened(path), tmp_path / "out", "2025", overwrite=True)
    assert [text.partition(";")[0] for text in lost if "graph" in text] == [
        f"graph_exec of kernels: {of_graphs} are left out",
        f"graph_node of kernels: {of_graphs} are left out",
    ]


def test_cells_of_2026(tmp_path: Path) -> None:
    path = with_graphs(with_everything(tmp_path / "r.db"))
    s = suffix_of(RUN)
    execute(path, f"UPDATE rocpd_memory_allocate{s} SET level = 'VIRTUAL', address = 43981 WHERE size = 0")
    written(opened(path), tmp_path / "out")
    for row, event in zip(rows(tmp_path / "out_kernel_trace.csv"), by_start(RUN.events, "kernel"), strict=True):
        assert int(row["Duration"]) == event.length
        id_ = RUN.events.index(event) + 1
        assert (row["Graph_Exec_Id"], row["Graph_Node_Id"]) == (("7", str(100 + id_)) if id_ % 2 else ("", ""))
    operations = {row["Operation"]: row["Address"] for row in rows(tmp_path / "out_memory_allocation_trace.csv")}
    assert operations["MEMORY_ALLOCATION_VMEM_FREE"] == "0x000000000000ABCD"
    assert set(operations) == {"MEMORY_ALLOCATION_VMEM_FREE", "MEMORY_ALLOCATION_ALLOCATE"}
    regions = rows(tmp_path / "out_regions_trace.csv")
    assert len(regions) == sum(event.kind in ("api", "marker", "region") for event in RUN.events) + 4
    assert {"RCCL_API", "HIP_RUNTIME_API_EXT", "MARKER_CORE_API"} <= {row["Domain"] for row in regions}


@pytest.mark.parametrize("dialect", ["2025", "2026"])
def test_agents_are_called_by_words(dialect: str, tmp_path: Path) -> None:
    """The JSON of rocprofv3 has numbers for them."""
    path = with_everything(tmp_path / "r.db")
    words = {"CPU": 1, "GPU": 2}
    for word, number in words.items():
        info = f'{{"type": {number}, "cu_count": 4, "capability": {{"HotPluggable": 1}}, "fw_version": {{"uCode": 9}}}}'
        execute(path, f"UPDATE rocpd_info_agent{suffix_of(RUN)} SET extdata = '{info}' WHERE type = '{word}'")
    written(opened(path), tmp_path / "out", dialect)
    agents = rows(tmp_path / "out_agent_info.csv")
    assert [row["Agent_Type"] for row in agents] == ["CPU", *["GPU"] * RUN.n_devices]
    if dialect == "2026":
        assert {(row["Cap_Hotpluggable"], row["Fw_Version"]) for row in agents} == {("1", "9")}


def test_what_has_no_column_is_counted(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "r.db", [RUN])
    n = sum(event.kind == "copy" for event in RUN.events)
    lost = written(opened(path), tmp_path / "out")
    why = "rocprofv3's files have no column for them"
    assert f"bytes of copies: {n} are left out; {why}; dialect='extended' adds it" in lost
    assert f"queue of copies: {n} are left out; {why}" in lost
    extended = written(opened(path), tmp_path / "out", "extended", overwrite=True)
    assert not any(text.startswith("bytes") for text in extended)
    assert sum(int(row["Size"]) for row in rows(tmp_path / "out_memory_copy_trace.csv")) == sum(
        event.size for event in RUN.events if event.kind == "copy"
    )
