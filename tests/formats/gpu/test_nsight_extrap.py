"""Folders of Nsight exports as Extra-P reads them: its own series, and each of its defects by arithmetic."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from callgrove.errors import CallgroveError, InputError, UsageError
from callgrove.formats.gpu.nsight.extrap_paths import beginning_like
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_path
from callgrove.model.study.series import Study
from tests.cli.commands import Capture, run, said
from tests.formats.gpu.nsight_databases import Export, small
from tests.requirements import need

NS = 10**9
AS_EXTRA_P = ReadOptions(extrap_compat=True)
Values = dict[tuple[str, str], list[int]]


def study(folder: Path, options: ReadOptions = AS_EXTRA_P) -> Study:
    found = open_path(folder, "nsight", options)
    assert isinstance(found, Study)
    return found


def twice(export: Export, folder: Path) -> Path:
    """The same run at two points."""
    for number in (1, 2):
        export.write(folder / f"app.s{number}" / "profile.sqlite")
    return folder


def values(found: Study) -> Values:
    """By call path and metric, the values at the first point; times in nanoseconds."""
    out: Values = {}
    for series in found.all_series():
        scale = NS if series.metric == "time" else 1
        out[series.callpath, series.metric] = [round(value * scale) for value in series.values[0].tolist()]
    return out


def times(export: Export, folder: Path) -> dict[str, list[int]]:
    return {path: own for (path, metric), own in values(study(twice(export, folder))).items() if metric == "time"}


def launched(**kernel: int) -> Export:
    """main(0..1000) -> solve(100..900) launches a kernel that runs 11 808 ns."""
    export = Export("N1")
    export.gpu(0, "GPU")
    export.extra_prof("main", 0, 0, 1000)
    export.extra_prof("main->solve", 1, 100, 900)
    export.call("cudaLaunchKernel_v7000", 200, 250, 1)
    export.kernel("init", 300, 12108, 1, **kernel)
    return export


# -- Extra-P's own word ------------------------------------------------------------------------------------------------


def test_the_public_study_has_the_series_of_extra_p(shared: Path) -> None:
    public = shared / "data" / "public" / "extrap"
    folder, oracle = public / "nsight" / "concurrent_example", public / "oracle" / "nsight__concurrent_example.json"
    if not oracle.exists():
        need("shared", "the public study of Extra-P is absent")
    files = sorted(folder.glob("*/*"))
    before = [sha256(file.read_bytes()).digest() for file in files]
    found = study(folder)
    wanted = {
        (series["callpath"], series["metric"], *point["x"]): (point["reps"], point["mean"], point["min"], point["max"])
        for series in json.loads(oracle.read_text())["series"]
        for point in series["points"]
    }
    ours = {
        (series.callpath, series.metric, series.points[k, 0]): (
            *(len(series.values[k]), series.mean[k], series.minimum[k], series.maximum[k]),
        )
        for series in found.all_series()
        for k in range(len(series))
    }
    assert ours.keys() == wanted.keys()
    assert {key for key in wanted if ours[key] != pytest.approx(wanted[key], rel=1e-12, abs=1e-18)} == set()
    assert [sha256(file.read_bytes()).digest() for file in files] == before
    assert sorted(folder.glob("*/*")) == files


# -- paths and plain values --------------------------------------------------------------------------------------------


def test_ranges_calls_and_kernels(tmp_path: Path) -> None:
    found = times(launched(), tmp_path)
    path = "main->solve->cudaLaunchKernel_v7000->init"
    assert found == {
        "main": [1000 - 800],
        "main->solve": [800],  # a leaf keeps the time of its calls (D5)
        path: [50],
        f"{path}->GPU init": [11808],
        f"{path}->GPU init->OVERLAP": [0],
        # The kernel is cut where ranges end, at 900 and 1000: 600 ns of it lie in solve.
        "main->solve->GPU IDLE": [800 - 600],
        "main->GPU IDLE": [200 - 100],
    }


def test_pointers_are_resolved_to_names(tmp_path: Path) -> None:
    export = Export("N1")
    for text in ("EXTRA_PROF_SYMBOLS", "EP\x1fa1\x1fmain", "EP\x1fb2\x1fA::operator->", "EXTRA_PROF_SYMBOLS_END"):
        export.string(text)
    export.extra_prof("\x1fa1", 0, 0, 100)
    export.extra_prof("\x1fa1\x1fb2", 1, 10, 90)
    export.call("cudaFree_v3020", 20, 30, 1)
    export.kernel("k", 200, 201, 9)
    found = times(export, tmp_path)
    assert found == {"main": [20], "main->A::operator- >": [80], "main->A::operator- >->cudaFree_v3020": [20]}


def test_calls_outside_of_all_ranges_are_dropped_and_ranges_hold_calls_strictly(tmp_path: Path) -> None:
    export = Export("N1")
    export.extra_prof("main", 0, 10, 100)
    export.extra_prof("main->inner", 1, 20, 50)
    export.call("cudaMallocHost_v3020", 5, 9, 1)
    export.call("cudaMallocHost_v3020", 20, 30, 2)  # starts with inner, so it is main's
    export.call("cudaMallocHost_v3020", 21, 30, 3)
    export.kernel("k", 200, 201, 9)
    found = times(export, tmp_path)
    assert found == {
        "main": [90 - 30 - 10],
        "main->cudaMallocHost_v3020": [10],
        "main->inner": [30],
        "main->inner->cudaMallocHost_v3020": [9],
    }


def test_call_chains_are_used_where_there_are_no_ranges(tmp_path: Path) -> None:
    export = Export("N0b")
    export.gpu(0, "GPU")
    export.chain("CUDA", 1, "cudaLaunchKernel", "0x77", "A::operator->", "main")
    export.call("cudaLaunchKernel", 100, 200, 1, eventClass=67, callchainId=0)
    export.call("cudaLaunchKernel_v7000", 110, 190, 1)
    export.kernel("init", 300, 400, 1)
    found = times(export, tmp_path)
    path = "main->A::operator- >->cudaLaunchKernel->cudaLaunchKernel->init"
    assert found == {path: [100], f"{path}->GPU init": [100], f"{path}->GPU init->OVERLAP": [0]}


def test_without_ranges_and_chains_calls_stand_alone_with_a_note(tmp_path: Path) -> None:
    found = study(twice(small("N2"), tmp_path))
    assert values(found)["cudaLaunchKernel_v7000->gemm", "time"] == [50]
    assert any("calls alone" in warning.text for warning in found.warnings)
    assert any("1 kernel of no call path left out" in warning.text for warning in found.warnings)


def test_copies_and_sets(tmp_path: Path) -> None:
    export = Export("N1")
    export.extra_prof("main", 0, 0, 1000)
    export.call("cudaMemcpyAsync_v3020", 10, 20, 1)
    export.copy(1, 4096, 30, 70, 1)
    export.call("cudaMemcpy_v3020", 100, 200, 2)
    export.copy(2, 512, 110, 140, 2, dstKind=0)
    export.call("cudaMemcpyAsync_v3020", 300, 310, 3)
    export.copy(99, 7, 320, 330, 3)
    export.call("cudaMemset_v3020", 400, 450, 4)
    export.memset(3, 64, 410, 420, 4)
    found = values(study(twice(export, tmp_path)))
    assert found == {
        ("main", "time"): [1000],
        ("main->cudaMemcpyAsync_v3020", "time"): [10, 10],
        ("main->cudaMemcpyAsync_v3020->HOST_TO_DEVICE", "time"): [40],
        ("main->cudaMemcpyAsync_v3020->HOST_TO_DEVICE", "bytes_transferred"): [4096],
        ("main->cudaMemcpyAsync_v3020->UNKNOWN_COPY_KIND_99", "time"): [10],
        ("main->cudaMemcpyAsync_v3020->UNKNOWN_COPY_KIND_99", "bytes_transferred"): [7],
        ("main->cudaMemcpy_v3020", "time"): [100 - 30],
        ("main->cudaMemcpy_v3020->BLOCKING DEVICE_TO_HOST", "time"): [30],
        ("main->cudaMemcpy_v3020->BLOCKING DEVICE_TO_HOST", "bytes_transferred"): [512],
        ("main->cudaMemset_v3020", "time"): [50 - 10],
        ("main->cudaMemset_v3020->BLOCKING GPU MEMSET", "time"): [10],
        ("main->cudaMemset_v3020->BLOCKING GPU MEMSET", "bytes_transferred"): [64],
    }


def test_kernels_that_run_together_share_by_threads(tmp_path: Path) -> None:
    """3000 and 1000 threads: during the 60 ns they share, a quarter is not the larger one's own."""
    export = Export("N1")
    export.gpu(0, "GPU")
    export.extra_prof("main", 0, 0, 1000)
    for number, (name, threads, start) in enumerate((("large", 3000, 100), ("small", 1000, 140)), 1):
        export.call("cudaLaunchKernel_v7000", number * 20, number * 20 + 10, number)
        export.kernel(name, start, start + 100, number, gridX=threads // 100, blockX=100)
    found = times(export, tmp_path)
    above = "main->cudaLaunchKernel_v7000->"
    assert found[f"{above}large->GPU large"] == [100 - 60 // 4]
    assert found[f"{above}large->GPU large->OVERLAP"] == [60 // 4]
    assert found[f"{above}small->GPU small->OVERLAP"] == [60 * 3 // 4]


# -- defects -----------------------------------------------------------------------------------------------------------


def test_d1_one_copy_gets_the_overlap_of_all(tmp_path: Path) -> None:
    export = Export("N1")
    export.extra_prof("main", 0, 0, 1000)
    export.extra_prof("main->a", 1, 1, 20)
    export.call("cudaMemcpyAsync_v3020", 5, 10, 1)
    export.copy(1, 1, 100, 200, 1)
    export.extra_prof("main->b", 1, 21, 40)
    export.call("cudaMemcpyAsync_v3020", 25, 30, 2)
    export.copy(1, 1, 160, 260, 2)
    found = times(export, tmp_path)
    # They share 40 ns. Each sees an end of the other, so there are four halves; the first copy has them all.
    assert found["main->a->cudaMemcpyAsync_v3020->HOST_TO_DEVICE"] == [100 - 80]
    assert found["main->b->cudaMemcpyAsync_v3020->HOST_TO_DEVICE"] == [100]
    assert found["main->b->cudaMemcpyAsync_v3020->HOST_TO_DEVICE->OVERLAP->HOST_TO_DEVICE"] == [80]


def test_d2_kernels_count_once_for_every_gpu(tmp_path: Path) -> None:
    """The figures of a real run on a node with four GPUs."""
    export = launched()
    for number in (1, 2, 3):
        export.gpu(number, "GPU")
    found = times(export, tmp_path)
    path = "main->solve->cudaLaunchKernel_v7000->init"
    assert found[path] == [4 * 50]
    assert found[f"{path}->GPU init"] == [-129_888]
    assert found[f"{path}->GPU init->OVERLAP"] == [177_120]


def test_d3_waits_and_allocations_without_activity_count_twice(tmp_path: Path) -> None:
    export = Export("N1")
    export.extra_prof("main", 0, 0, 1000)
    export.call("cudaStreamSynchronize_v3020", 10, 30, 1)
    export.sync(3, 12, 28, 1)
    export.call("cudaMalloc_v3020", 40, 45, 2)
    export.call("cudaHostAlloc_v3020", 50, 57, 3)
    export.kernel("k", 900, 901, 9)
    found = times(export, tmp_path)
    assert found["main->cudaStreamSynchronize_v3020->STREAM_SYNCHRONIZE"] == [2 * 20]
    assert found["main->cudaStreamSynchronize_v3020->STREAM_SYNCHRONIZE->WAIT"] == [16]
    assert found["main->cudaMalloc_v3020"] == [2 * 5]
    assert found["main->cudaHostAlloc_v3020"] == [7]  # nothing of the host waits for devices


def test_d3_two_rows_of_a_call_count_three_times(tmp_path: Path) -> None:
    export = Export("N0b")
    export.chain("CUDA", 1, "cudaMalloc", "main")
    export.call("cudaMalloc", 100, 200, 1, eventClass=67, callchainId=0)
    export.call("cudaMalloc_v3020", 110, 190, 1)
    export.kernel("k", 900, 901, 9)
    assert times(export, tmp_path) == {"main->cudaMalloc->cudaMalloc": [3 * 100]}


@pytest.mark.parametrize(
    ("start", "end", "overlap"), [(100, 200, 50), (160, 190, 30), (180, 300, 20), (100, 300, 0), (300, 400, 0)]
)
def test_d4_waits_inside_one_activity_have_no_overlap(start: int, end: int, overlap: int, tmp_path: Path) -> None:
    """A wait from 150 to 200, in a call of 100 ns, and one kernel."""
    export = Export("N1")
    export.extra_prof("main", 0, 0, 1000)
    export.call("cudaStreamSynchronize_v3020", 140, 240, 1)
    export.sync(3, 150, 200, 1)
    export.call("cudaLaunchKernel_v7000", 50, 60, 2)
    export.kernel("k", start, end, 2)
    found = times(export, tmp_path)
    path = "main->cudaStreamSynchronize_v3020->STREAM_SYNCHRONIZE"
    ends_inside = end <= 200
    assert found[path] == [(100 if ends_inside else 200) - overlap]  # twice where nothing ends inside: D3
    assert found.get(f"{path}->OVERLAP", [0]) == [overlap]
    assert found.get(f"{path}->OVERLAP->k") == ([overlap] if ends_inside else None)


def test_d5_a_path_loses_what_only_begins_like_it(tmp_path: Path) -> None:
    export = Export("N1")
    export.extra_prof("main", 0, 0, 1000)
    export.extra_prof("main->a_b", 1, 100, 300)
    export.extra_prof("main->aXb", 1, 300, 600)
    export.extra_prof("main->aXb->in", 2, 310, 350)
    found = times(export, tmp_path)
    assert found == {"main": [500], "main->a_b": [200 - 40], "main->aXb": [300 - 40], "main->aXb->in": [40]}


@pytest.mark.parametrize(
    ("prefix", "text", "begins"),
    [
        ("memset1", "memset1+0", True),
        ("a_b", "axb->c", True),
        ("MAIN", "main->x", True),
        ("Ä", "ä", False),
        ("a%c", "abbbcd", True),
        ("a%c_e", "aczce->", False),
        ("a%c_e", "aczcxe->", True),
        ("a.b", "axb", False),
        ("main->b", "main->a", False),
    ],
)
def test_what_begins_like_a_path(prefix: str, text: str, begins: bool) -> None:
    assert beginning_like(prefix, [text]).tolist() == ([0] if begins else [])


# -- points ------------------------------------------------------------------------------------------------------------


def test_points_are_those_that_extra_p_finds_in_names(tmp_path: Path) -> None:
    for name in ("my.p10n1,5", "my.p2.n1,5.r1", "my.p2.n1,5.r2"):
        launched().write(tmp_path / name / "profile.sqlite")
    found = study(tmp_path)
    assert (found.parameters, found.points.tolist()) == (("p",), [[2.0], [10.0]])
    assert [len(series.values[0]) for series in found.all_series() if series.callpath == "main"] == [2]
    assert [len(series.values[1]) for series in found.all_series() if series.callpath == "main"] == [1]


def test_series_without_all_points_are_left_out_unless_extra_p_keeps_them(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        export = launched()
        if number < 3:
            export.extra_prof("main->twice", 1, 950, 960)
        if number < 2:
            export.extra_prof("main->once", 1, 970, 980)
        export.write(tmp_path / f"app.s{number}" / "profile.sqlite")
    found = study(tmp_path)
    assert not {"main->twice", "main->once"} & set(found.callpaths)
    assert any("2 series were not measured at every point and left out" in warning.text for warning in found.warnings)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("run", "app.p2"), "finds no parameter"),
        (("app.p1", "app.n2"), "the same ones in the same order"),
        (("app.p1", "other.p1"), "no parameter varies"),
    ],
)
def test_names_that_extra_p_cannot_use(names: tuple[str, ...], said: str, tmp_path: Path) -> None:
    for name in names:
        launched().write(tmp_path / name / "profile.sqlite")
    with pytest.raises(InputError, match=said):
        study(tmp_path)


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_a_run_that_cannot_be_read_is_left_out_and_refused_under_strict(tmp_path: Path) -> None:
    twice(launched(), tmp_path)
    broken = tmp_path / "app.s3" / "profile.sqlite"
    broken.parent.mkdir()
    broken.write_bytes(bytes(4096))
    found = study(tmp_path)
    assert found.n_points == 2
    assert [warning.severity for warning in found.warnings if "app.s3" in warning.text] == ["damage"]
    with pytest.raises(InputError, match=r"app\.s3"):
        study(tmp_path, ReadOptions(extrap_compat=True, strict=True))


def test_exports_without_any_series_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no series"):
        study(twice(Export("N2"), tmp_path))


def test_reports_that_were_not_exported_are_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "app.s1").mkdir()
    with pytest.raises(InputError, match=r"no export was found"):
        study(tmp_path)
    (tmp_path / "app.s1" / "report1.nsys-rep").write_bytes(b"x")
    with pytest.raises(InputError, match=r"nsys export --type sqlite report1\.nsys-rep"):
        study(tmp_path)


def test_reports_of_kernels_are_said_to_be_left_alone(tmp_path: Path) -> None:
    twice(launched(), tmp_path)
    (tmp_path / "app.s1" / "profile.ncu-rep").write_bytes(b"x")
    assert any("profile.ncu-rep" in warning.text for warning in study(tmp_path).warnings)


def test_absent_cells_and_backward_intervals_harm_nothing(tmp_path: Path) -> None:
    export = launched()
    export.kernel("bad", 500, 400, 1)
    export.sync(3, 700, 600, 1)
    export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=None, end=5, correlationId=None)
    export.nvtx(None, 5, 10, domainId=1, uint32Value=1)
    assert times(export, tmp_path)["main->solve"] == [800]


def test_what_extra_p_left_in_a_file_is_not_looked_at(tmp_path: Path) -> None:
    """A view of that name which fails when it is run, and a table with nonsense."""
    twice(launched(), tmp_path)
    for file in tmp_path.glob("*/*.sqlite"):
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE VIEW EXTRAP_GPU_INFO AS SELECT missing FROM nowhere")
            connection.execute("CREATE TABLE EXTRAP_RESOLVED_CALLPATHS (correlationId, callpath, stackDepth, duration)")
            connection.execute("INSERT INTO EXTRAP_RESOLVED_CALLPATHS VALUES (1, 'wrong', 0, 1)")
    assert not any("wrong" in path for path in study(tmp_path).callpaths)


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_option_is_for_one_folder_of_nsight_exports(tmp_path: Path, capsys: Capture) -> None:
    command = ("export", twice(launched(), tmp_path), "--table", "series", "--extrap-compat")
    assert "main->solve,time,1.0,1," in run(capsys, *command)
    assert "without --point, --value, --scaling" in said(capsys, *command, "--scaling", "weak", code=2)
    assert "or another --from" in said(capsys, *command, "--from", "rocpd", code=2)
    assert "--folder-pattern can be used with runs, and this is nsight" in said(
        capsys, *command, "--folder-pattern", "app.s{s}", code=2
    )


def test_other_formats_have_no_such_reading(tmp_path: Path) -> None:
    file = small("N1").write(tmp_path / "run.sqlite")
    with pytest.raises(CallgroveError, match="can be used with nsight, and this is rocpd"):
        open_path(file, "rocpd", AS_EXTRA_P)
    with pytest.raises(UsageError, match="one folder of runs"):
        open_path(file, "nsight", AS_EXTRA_P)
