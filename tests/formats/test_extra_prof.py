"""Profiles of Extra-Prof: arithmetic on a call tree, ranks and threads, older files, and what is broken."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.binary.files import Source
from callgrove.binary.msgpack import read_value
from callgrove.errors import CorruptFile
from callgrove.formats.interface import Dumps
from callgrove.formats.registry import detect, open_path
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from tests.cli.commands import Capture, run, said
from tests.formats.damage import answers, chance


def pack(value: Any) -> bytes:
    """Return a value as MessagePack, written from its specification."""
    if isinstance(value, str):
        text = value.encode()
        return (bytes([0xA0 | len(text)]) if len(text) < 32 else b"\xda" + struct.pack(">H", len(text))) + text
    if isinstance(value, list):
        head = bytes([0x90 | len(value)]) if len(value) < 16 else b"\xdc" + struct.pack(">H", len(value))
        return head + b"".join(map(pack, value))
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if value < 0:
        return struct.pack("b", value)
    return bytes([value]) if value < 128 else b"\xcf" + struct.pack(">Q", value)


def node(name: str, calls: list[Any], duration: Any, kind: int = 0, flags: int = 0, *more: Any) -> list[Any]:
    visits = [1] * len(duration) if isinstance(duration, list) else 1
    size = [8] * len(visits) if kind == 3 and isinstance(visits, list) else 0
    return [name, calls, kind, flags, duration, visits, size, *more]


OVERLAP = node("OVERLAP", [node("k2", [], [60], 2, 2)], [100], 7, 2)
KERNEL = node("k", [node("k", [OVERLAP], [5000], 2, 1)], [200], 1)
COPY = node("cudaMemcpy", [node("Memcpy HtoD", [], [300], 3)], [400])
SOLVE = node("solve", [KERNEL, COPY], [1000, 500])
TREE = node("", [node("main", [SOLVE, node("init", [], [100])], [2000])], [])


def write(folder: Path, root: list[Any] = TREE, name: str = "profile.extra-prof.msgpack", *more: Any) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_bytes(pack(["EXTRA PROF", "1.0", root, *more]))
    return folder / name


def read(path: Path) -> Experiment:
    opened = open_path(path)
    assert isinstance(opened, Experiment)
    return opened


def costs(experiment: Experiment, metric: str, scope: Scope = Scope.EXCLUSIVE) -> dict[str, float]:
    values = experiment.totals(metric, scope)
    known = np.flatnonzero(np.isfinite(values) & (values != 0)).tolist()
    return {experiment.contexts.path(c): values[c] for c in known}


def test_host_and_gpu_are_told_apart(tmp_path: Path) -> None:
    experiment = read(write(tmp_path))
    assert costs(experiment, "time") == {
        "main": 2000 - 1500 - 100,
        "main->solve": 1500 - 200 - 400,
        "main->solve->k": 200,
        "main->solve->cudaMemcpy": 400,
        "main->init": 100,
    }
    assert experiment.root_total("time") == 2000
    assert costs(experiment, "gpu_time") == {"main->solve->k->k": 5000, "main->solve->cudaMemcpy->Memcpy HtoD": 300}
    assert costs(experiment, "overlap_time") == {"main->solve->k->k->OVERLAP": 100}
    assert costs(experiment, "overlapping_time") == {"main->solve->k->k->OVERLAP->k2": 60}
    assert costs(experiment, "bytes") == {"main->solve->cudaMemcpy->Memcpy HtoD": 8}
    assert costs(experiment, "visits")["main->solve"] == 2
    assert costs(experiment, "threads") == {"main->solve": 2}
    assert experiment.metrics.first("time").unit == experiment.metrics.first("gpu_time").unit == "ns"


def test_files_of_a_folder_are_ranks(tmp_path: Path, capsys: Capture) -> None:
    for rank in (10, 2):
        write(tmp_path, name=f"profile{rank}.extra-prof.msgpack")
    experiment = read(tmp_path)
    assert experiment.profiles.identity("rank")[0].tolist() == [2, 10]
    assert experiment.root_total("time") == 4000
    (tmp_path / "profile11.extra-prof.msgpack").write_bytes(b"\x93\xaaEXTRA PROF")
    assert "a file was left out" in run(capsys, "check", tmp_path, code=3)
    assert "ends at byte" in said(capsys, "info", tmp_path / "profile11.extra-prof.msgpack", code=3)


def test_calls_of_one_name_are_one_context(tmp_path: Path) -> None:
    root = node("", [node("f", [node("g", [], 10)], 100), node("f", [node("g", [], 20)], 50)], 0)
    experiment = read(write(tmp_path, root))
    assert costs(experiment, "time") == {"f": 120, "f->g": 30}
    assert costs(experiment, "visits") == {"f": 2, "f->g": 2}


def test_threads_below_a_caller_are_said(tmp_path: Path) -> None:
    root = node("", [node("main", [node("work", [], [90, 90, 90])], [100])], [])
    experiment = read(write(tmp_path, root))
    assert costs(experiment, "time") == {"main->work": 270}
    assert "1 callers have less than their calls" in experiment.warnings[0].text


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        ([node("f", [], [10, -3])], "a number from 0 on, or numbers of threads, found \\[10, -3\\]"),
        ([["f", [], 0, 0, [10, 3], [1], [0, 0]]], "as many durations as numbers of visits"),
        ([node("f", [], -1)], "a number from 0 on"),
    ],
)
def test_numbers_that_cannot_be_are_refused(calls: list[Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=text):
        read(write(tmp_path, node("", calls, 0)))


def test_nodes_of_unknown_types_are_told(tmp_path: Path) -> None:
    calls = [node("f", [], 10, 19), node("g", [], 10, 0, 4), node("h", [], 10, 8, 3)]
    experiment = read(write(tmp_path, node("", calls, 0)))
    [warning] = experiment.warnings
    assert str(warning.text).startswith("2 nodes are of a type or have flags that are not known")


def test_counters_and_energy(tmp_path: Path) -> None:
    kernel = node("k", [], [50], 2, 1, [2.5], [[0], [7]])
    root = node("", [node("main", [kernel], [100], 0, 0, [], [[30], [9]])], [], 0, 0, [], [[0], [0]])
    names = ["inst.sum"], [["energy_cpu", 1], ["energy_gpu", 2]]
    experiment = read(write(tmp_path, root, "profile.extra-prof.msgpack", list(names[0]), names[1]))
    assert costs(experiment, "inst.sum") == {"main->k": 2.5}
    assert costs(experiment, "energy_cpu") == {"main": 30}
    assert costs(experiment, "energy_gpu") == {"main": 2, "main->k": 7}
    assert experiment.metrics.first("energy_cpu").unit == "uJ"


# What Extra-P's own reader (its branch of the next version, in April 2026: strong scaling, inclusive) makes of TREE:
# nanoseconds, visits and bytes. Version 4.2.5, which peers are, has no such reader.
EXTRA_P = {
    "main": (2000, 1, 0),
    "main->solve": (1500, 2, 0),
    "main->solve->LAUNCH k": (200, 1, 0),
    "main->solve->LAUNCH k->GPU k": (5000, 1, 0),
    "main->solve->LAUNCH k->GPU k->OVERLAP": (100, 1, 0),
    "main->solve->LAUNCH k->GPU k->OVERLAP->GPU k2": (60, 1, 0),
    "main->solve->cudaMemcpy": (400, 1, 0),
    "main->solve->cudaMemcpy->GPU Memcpy HtoD": (300, 1, 8),
    "main->init": (100, 1, 0),
}


def test_numbers_are_those_of_extra_p(tmp_path: Path) -> None:
    experiment = read(write(tmp_path))
    times: dict[str, float] = costs(experiment, "time", Scope.INCLUSIVE)
    for metric in ("gpu_time", "overlap_time", "overlapping_time"):  # all of these are `time` there
        times |= costs(experiment, metric)
    visits, sizes = costs(experiment, "visits"), costs(experiment, "bytes")
    made = {path: (times[path], visits[path], sizes.get(path, 0)) for path in visits}
    assert made == {path.replace("GPU ", "").replace("LAUNCH ", ""): numbers for path, numbers in EXTRA_P.items()}


def test_a_study_of_runs(tmp_path: Path, capsys: Capture) -> None:
    for p in (1, 2, 4, 8, 16):
        for rank in range(2):
            root = node("", [node("main", [], [1000 * p])], [])
            write(tmp_path / f"app.p{p}", root, f"profile{rank}.extra-prof.msgpack")
    table = run(capsys, "model", tmp_path, "-m", "time", "--format", "csv")
    assert "O(p^(1))" in table or "O(p)" in table, table


def test_damage(tmp_path: Path) -> None:
    data, rng = pack(["EXTRA PROF", "1.0", TREE, [], [["energy_cpu", 1]]]), chance("extra-prof")
    for k in range(24):
        broken = bytearray(data[: 12 + rng.randrange(len(data) - 12)] if k % 2 else data)
        for _ in range(0 if k % 2 else 4):
            broken[12 + rng.randrange(len(broken) - 12)] ^= 1 << rng.randrange(8)
        (tmp_path / "data").write_bytes(broken)
        answers(tmp_path / "data", f"case {k}", ("info",), ("check",), ("export", "--table", "values"))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xdd\xff\xff\xff\xff", "4294967295 elements"),
        (b"\x91" * 30_000 + b"\x90", "inside of each other"),
        (b"\xdb\x7f\xff\xff\xff", "2147483647 bytes"),
        (b"\xd4\x01\x02", "the type 0xd4"),
    ],
)
def test_lies_are_refused(data: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(data)
    with pytest.raises(CorruptFile, match=text):
        read_value(tmp_path / "data")


def test_values_of_all_kinds(tmp_path: Path) -> None:
    packed = b"\x98\xc0\xc3\xff\xd1\xff\x00\xca\x3f\x80\x00\x00\xc4\x01a\x81\xa1k\x05\xd9\x02hi"
    (tmp_path / "data").write_bytes(packed)
    assert read_value(tmp_path / "data") == ([None, True, -1, -256, 1.0, b"a", ["k", 5], "hi"], len(packed))


def test_dump(tmp_path: Path) -> None:
    path = write(tmp_path)
    format_ = detect(Source.of(path))[0]
    assert isinstance(format_, Dumps)
    names = [field.value for field in format_.dump(Source.of(path)) if field.name == "name"]
    assert names == ["", "main", "solve", "k", "k", "OVERLAP", "k2", "cudaMemcpy", "Memcpy HtoD", "init"]
