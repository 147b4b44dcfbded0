"""OTF2 archives, read: against otf2-print, archives made with OTF2's own Python layer, and what damage leaves."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.analysis.messages import sum_up_messages
from callgrove.analysis.tables import export
from callgrove.cli.main import main
from callgrove.errors import CallgroveError, InputError, MissingExtra
from callgrove.formats.registry import open_path
from callgrove.formats.timeline.otf2 import archive, decoder, reader
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Table
from callgrove.model.traces.events import SpanKind
from tests.requirements import need, need_module

otf2 = need_module("otf2")
SPAN = ("profile", "kind", "category", "name", "start_ns", "end_ns", "correlation")


def opened(path: Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    assert found.format == "otf2"
    return found


def spans(found: Experiment) -> list[tuple[Any, ...]]:
    backend = found.traces.spans_backend
    assert backend is not None
    rows = [row for chunk in found.traces.spans(SPAN) for row in zip(*(chunk[c].tolist() for c in SPAN), strict=True)]
    text = [*backend.strings, None]
    return [
        (p, SpanKind(kind).word, text[category], text[name], *rest) for p, kind, category, name, *rest in sorted(rows)
    ]


def arguments(found: Experiment) -> dict[str, str]:
    table = found.traces.side("argument")
    assert table is not None
    return dict(zip(table.columns["name"], table.columns["value"], strict=True))


# -- a genuine archive -------------------------------------------------------------------------------------------------


def printed(path: Path) -> dict[int, Counter[tuple[str, int]]]:
    """By location, what otf2-print says was entered and left: names and durations."""
    out: dict[int, Counter[tuple[str, int]]] = defaultdict(Counter)
    stacks: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for line in path.read_text().splitlines():
        if match := re.match(r"(ENTER|LEAVE) +(\d+) +(\d+) +Region: \"(.*)\" <\d+>", line):
            location, time = int(match[2]), int(match[3])
            if match[1] == "ENTER":
                stacks[location].append((match[4], time))
            else:
                name, start = stacks[location].pop()
                out[location][name, time - start] += 1
    return out


def test_spans_are_those_that_otf2_print_shows(shared: Path) -> None:
    found = opened(shared / "data/own/otf2/otf2_2")
    theirs = printed(shared / "data/own/otf2/otf2_2.print.txt")
    ours: dict[int, Counter[tuple[str, int]]] = defaultdict(Counter)
    for profile, _, _, name, start, end, _ in spans(found):
        ours[profile][name, end - start] += 1
    key = lambda counts: sorted(counts.items())  # noqa: E731
    assert sorted(ours.values(), key=key) == sorted(theirs.values(), key=key)
    assert sum(sum(counts.values()) for counts in theirs.values()) == 1146
    assert found.profiles.identity_list("rank") == [0, 0, 1, 1]
    assert found.profiles.identity_list("thread") == [0, 1, 0, 1]
    assert not found.damage


def test_messages_of_a_genuine_archive(shared: Path) -> None:
    found = opened(shared / "data/own/otf2/otf2_2")
    text = (shared / "data/own/otf2/otf2_2.print.txt").read_text()
    sends = re.findall(r"MPI_SEND +(\d+) .*Receiver: (\d+) .*Tag: (\d+), Length: (\d+)", text)
    theirs = Counter((int(sender), int(receiver)) for sender, receiver, _, _ in sends)
    sums = sum_up_messages(found)
    assert {(one.sender, one.receiver): one.count for one in sums if not one.operation} == dict(theirs)
    assert sum(one.n_bytes for one in sums if not one.operation) == sum(int(size) for *_, size in sends)
    ends = Counter(re.findall(r"MPI_COLLECTIVE_END .*Operation: (\w+),", text))
    assert {one.operation: one.count for one in sums if one.operation} == dict(ends)
    flows = found.traces.side("flow")
    assert flows is not None
    assert len(flows.span) == 2 * len(sends)


def test_regions_know_their_file_line_role_and_paradigm(shared: Path) -> None:
    found = opened(shared / "data/own/otf2/otf2_2")
    rows = {row["name"]: row for chunk in export(found, "contexts") for row in _as_dicts(chunk)}
    assert (rows["smooth"]["file"], rows["smooth"]["line"]) == ("/home/user/perf/apps/mpiomp.c", 11)
    assert "MPI" in {category for _, _, category, *_ in spans(found)}


def _as_dicts(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.names, row, strict=True)) for row in table.rows()]


# -- archives made for what no genuine one here has --------------------------------------------------------------------


def made(folder: Path, fill: Callable[[Any], None], resolution: int = 10**9) -> Path:
    path = folder / "archive"
    with otf2.writer.open(str(path), timer_resolution=resolution) as trace:
        fill(trace)
    return path


def process(trace: Any, name: str, n: int = 1) -> list[Any]:
    node = trace.definitions.system_tree_node("n1", class_name="node")
    group = trace.definitions.location_group(name, system_tree_parent=node)
    return [trace.definitions.location(f"thread {k}", group=group) for k in range(n)]


def test_ticks_become_nanoseconds_in_integers(tmp_path: Path) -> None:
    def fill(trace: Any) -> None:
        writer = trace.event_writer_from_location(process(trace, "p")[0])
        region = trace.definitions.region("f")
        base = 10**15
        for start, end in ((0, 3), (3, 2_400_000_001)):
            writer.enter(base + start, region)
            writer.leave(base + end, region)

    found = opened(made(tmp_path, fill, resolution=2_400_000_000))
    assert [(start, end) for *_, start, end, _ in spans(found)] == [(0, 1), (1, 1_000_000_000)]


def test_metrics_attributes_and_parameters(tmp_path: Path) -> None:
    def fill(trace: Any) -> None:
        definitions = trace.definitions
        writer = trace.event_writer_from_location(process(trace, "p")[0])
        region, inner = definitions.region("outer"), definitions.region("inner")
        kinds = {"text": otf2.Type.STRING, "small": otf2.Type.INT8, "half": otf2.Type.DOUBLE, "big": otf2.Type.UINT64}
        attribute = {name: definitions.attribute(name, type=kind) for name, kind in kinds.items()}
        members = [
            definitions.metric_member("hits", value_type=otf2.Type.UINT64, unit="#"),
            definitions.metric_member("load", value_type=otf2.Type.DOUBLE, unit=""),
        ]
        metric = definitions.metric_class(members)
        writer.enter(10, region, attributes={attribute["text"]: "word", attribute["small"]: -3})
        writer.metric(11, metric, [2**63 + 1, 0.5])
        writer.parameter_int(12, definitions.parameter("step", otf2.ParameterType.INT64), -7)
        writer.enter(13, inner)
        writer.leave(14, inner, attributes={attribute["half"]: 0.25, attribute["big"]: 2**64 - 1})
        writer.leave(20, region)

    found = opened(made(tmp_path, fill))
    assert arguments(found) == {
        "text": "word",
        "small": "-3",
        "half": "0.25",
        "big": str(2**64 - 1),
        "step": "-7",
    }
    table = found.traces.side("argument")
    assert table is not None
    assert dict(zip(table.columns["name"], table.span.tolist(), strict=True))["step"] == 0
    counters = found.traces.counters
    assert counters is not None
    rows = {counters.names[n]: v for n, v in zip(counters.name, counters.value, strict=True)}
    assert rows == {"hits": float(2**63 + 1), "load": 0.5}


def test_messages_are_matched_in_the_order_in_which_they_were_posted(tmp_path: Path) -> None:
    def fill(trace: Any) -> None:
        definitions = trace.definitions
        locations = [process(trace, f"MPI Rank {rank}")[0] for rank in (0, 1)]
        kinds, mpi = otf2.GroupType, otf2.Paradigm.MPI
        definitions.group("", kinds.COMM_LOCATIONS, mpi, members=locations)
        everyone = definitions.group("", kinds.COMM_GROUP, mpi, members=(0, 1))
        comm = definitions.comm("WORLD", everyone)
        region = definitions.region("MPI_Call", paradigm=otf2.Paradigm.MPI)
        left, right = (trace.event_writer_from_location(location) for location in locations)
        for time, size in ((10, 100), (20, 200)):
            left.enter(time, region)
            left.mpi_send(time + 1, 1, comm, 5, size)
            left.leave(time + 2, region)
        for time, request in ((10, 1), (12, 2)):
            right.enter(time, region)
            right.mpi_irecv_request(time + 1, request)
            right.leave(time + 1, region)
        for time, request, size in ((30, 2, 200), (40, 1, 100)):  # they complete the other way round
            right.enter(time, region)
            right.mpi_irecv(time + 1, 0, comm, 5, size, request)
            right.leave(time + 2, region)
        left.mpi_send(50, 1, comm, 9, 7)  # outside of every region, and never received

    found = opened(made(tmp_path, fill))
    flows, rows = found.traces.side("flow"), spans(found)
    assert flows is not None
    by_id: dict[int, list[int]] = defaultdict(list)
    for span, flow in zip(flows.span.tolist(), np.asarray(flows.columns["id"]).tolist(), strict=True):
        by_id[flow].append(span)
    start = {
        k: t
        for chunk in found.traces.spans(("start_ns",))
        for k, t in zip(chunk["span"], chunk["start_ns"], strict=True)
    }
    assert sorted((start[a], start[b]) for a, b in by_id.values()) == [(0, 30), (10, 20)]
    sums = sum_up_messages(found, by=("tag", "communicator"))
    assert [(one.name, one.count, one.n_bytes, one.tag, one.communicator) for one in sums] == [
        ("rank 0 -> rank 1", 2, 300, 5, "WORLD"),
        ("rank 0 -> rank 1", 1, 7, 9, "WORLD"),
    ]
    assert "MPI message" in {row[3] for row in rows}
    assert any("only one end is recorded: 1" in warning.text for warning in found.warnings)


def fill_with_messages(trace: Any) -> None:
    """Write messages and reductions of four processes, some of them in a communicator of three in another order."""
    definitions, chance = trace.definitions, random.Random(3)
    locations = [process(trace, f"MPI Rank {rank}")[0] for rank in range(4)]
    kinds, mpi = otf2.GroupType, otf2.Paradigm.MPI
    definitions.group("", kinds.COMM_LOCATIONS, mpi, members=locations)
    members = {"WORLD": (0, 1, 2, 3), "part": (3, 0, 2)}
    comms = {
        name: definitions.comm(name, definitions.group("", kinds.COMM_GROUP, mpi, members=m))
        for name, m in members.items()
    }
    region = definitions.region("MPI_Call", paradigm=mpi)
    writers = [trace.event_writer_from_location(location) for location in locations]
    for rank, writer in enumerate(writers):
        for time in range(0, 3000, 10):
            name = chance.choice([name for name, ranks in members.items() if rank in ranks])
            writer.enter(time, region)
            if chance.random() < 0.8:
                peer = chance.randrange(len(members[name]))
                writer.mpi_send(time + 1, peer, comms[name], chance.randrange(3), chance.randrange(1 << 20))
            else:
                writer.mpi_collective_begin(time + 1)
                operation = chance.choice((otf2.CollectiveOp.ALLREDUCE, otf2.CollectiveOp.BCAST))
                writer.mpi_collective_end(
                    time + 2, operation, comms[name], 0, chance.randrange(99), chance.randrange(99)
                )
            writer.leave(time + 5, region)


def test_the_matrix_of_messages_is_that_of_otf2_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = shutil.which("otf2-print")
    if program is None:
        need("otf2-print", "otf2-print (Debian: otf2-tools) is not installed")
    path = made(tmp_path, fill_with_messages)
    text = subprocess.run([program, path / "traces.otf2"], capture_output=True, text=True, check=True).stdout
    theirs: Counter[tuple[str, str]] = Counter()
    for location, peer, size in re.findall(r"MPI_SEND +(\d+) .*Receiver: .*<(\d+)>\), Comm.*Length: (\d+)", text):
        theirs[f"rank {location} -> rank {peer}", "count"] += 1
        theirs[f"rank {location} -> rank {peer}", "bytes"] += int(size)
    for operation, size in re.findall(r"MPI_COLLECTIVE_END .*Operation: (\w+),.*Sent: (\d+)", text):
        theirs[operation, "count"] += 1
        theirs[operation, "bytes"] += int(size)
    assert main(["summary", str(path), "--section", "messages", "--section", "collectives", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["name"], key): row[key] for row in rows for key in ("count", "bytes")} == dict(theirs)
    assert len(rows) == 4 * 4 + 2


def test_streams_of_devices(tmp_path: Path) -> None:
    def fill(trace: Any) -> None:
        definitions = trace.definitions
        thread = process(trace, "MPI Rank 3")[0]
        kinds = otf2.LocationGroupType
        device = definitions.location_group(
            "CUDA Context 1",
            location_group_type=kinds.ACCELERATOR,
            creating_location_group=thread.group,
            system_tree_parent=thread.group.system_tree_parent,
        )
        stream = definitions.location("CUDA[2:7]", type=otf2.LocationType.ACCELERATOR_STREAM, group=device)
        role = otf2.RegionRole
        for location, name, kind in (
            (thread, "cudaLaunch", role.FUNCTION),
            (stream, "gemm", role.FUNCTION),
            (stream, "copy", role.DATA_TRANSFER),
        ):
            region = definitions.region(name, region_role=kind, paradigm=otf2.Paradigm.CUDA)
            writer = trace.event_writer_from_location(location)
            writer.enter(10 if name != "copy" else 20, region)
            writer.leave(12 if name != "copy" else 22, region)

    found = opened(made(tmp_path, fill))
    assert [(row[1], row[2], row[3]) for row in spans(found)] == [
        ("region", "CUDA", "cudaLaunch"),
        ("kernel", "CUDA", "gemm"),
        ("copy", "CUDA", "copy"),
    ]
    assert found.profiles.kind.tolist() == [ProfileKind.THREAD, ProfileKind.GPU_STREAM]
    assert [found.profiles.identity_list(name)[1] for name in ("rank", "gpu_device", "gpu_stream")] == [3, 2, 7]


def test_regions_that_are_not_left_and_leaves_of_nothing(tmp_path: Path) -> None:
    def fill(trace: Any) -> None:
        writer = trace.event_writer_from_location(process(trace, "p")[0])
        a, b = trace.definitions.region("a"), trace.definitions.region("b")
        writer.leave(5, a)
        writer.enter(10, a)
        writer.enter(20, b)
        writer.leave(30, a)

    found = opened(made(tmp_path, fill))
    assert [row[3:6] for row in spans(found)] == [("a", 5, 25), ("b", 15, 25)]
    said = "\n".join(warning.text for warning in found.warnings)
    assert "never left: 1" in said
    assert "never entered: 1" in said
    assert "another region than the one that was entered last: 1" in said


@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_locations_are_read_alike_alone_and_together(
    at_once: int, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "EVENTS_AT_ONCE", at_once)
    assert len(spans(opened(shared / "data/own/otf2/otf2_2/traces.otf2"))) == 1146


# -- damage ------------------------------------------------------------------------------------------------------------


def small(folder: Path) -> Path:
    def fill(trace: Any) -> None:
        for location in process(trace, "p", 2):
            writer = trace.event_writer_from_location(location)
            region = trace.definitions.region("f")
            for k in range(20):
                writer.enter(10 * k, region)
                writer.leave(10 * k + 5, region)

    return made(folder, fill)


@pytest.mark.parametrize("name", ["traces.otf2", "traces.def", "traces/0.evt"])
def test_cuts_and_flips_never_escape(name: str, tmp_path: Path) -> None:
    """The library may crash; it runs in a process of its own."""
    whole = small(tmp_path)
    data = (whole / name).read_bytes()
    for at in range(1, len(data), max(1, len(data) // 7)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]):
            (whole / name).write_bytes(damaged)
            try:
                found = open_path(whole, from_format="otf2")
            except CallgroveError:
                continue
            assert isinstance(found, Experiment)


@pytest.mark.parametrize("name", ["traces.def", "traces/0.evt", "traces/0.def"])
def test_a_pipe_in_an_archive_is_not_waited_for(name: str, tmp_path: Path) -> None:
    path = small(tmp_path)
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(InputError, match=f"{name}: is a device or a pipe, and no file of an archive"):
        open_path(path, from_format="otf2")


def test_only_files_of_locations_that_are_read_are_looked_at(tmp_path: Path) -> None:
    """Looking at all of them for each location takes time that grows with their square."""
    path = small(tmp_path)
    before = spans(opened(path))
    os.mkfifo(path / "traces" / "99.evt")
    assert spans(opened(path)) == before


def test_a_pipe_from_the_library_that_fails_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_pipe: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(archive, "_receive_frames", fail)
    with pytest.raises(InputError, match=r"traces\.otf2: what was read of it cannot be received: Input/output error"):
        open_path(small(tmp_path), from_format="otf2")


def test_a_missing_location_is_damage_and_the_others_are_read(tmp_path: Path) -> None:
    path = small(tmp_path)
    (path / "traces" / "1.evt").unlink()
    found = opened(path)
    assert len(spans(found)) == 20
    damage = [warning.text for warning in found.warnings if warning.severity == Severity.DAMAGE]
    assert any("location 1" in text for text in damage)
    shutil.rmtree(path / "traces")
    with pytest.raises(InputError, match="without events"):
        opened(path)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashes with it"),
        ("import signal; signal.setitimer(signal.ITIMER_PROF, 0.05)\nwhile True: pass", "does not come to an end"),
        ("import sys; sys.stderr.write('[OTF2] x.c:3: error: E: no such thing\\n'); sys.exit(1)", "E: no such thing"),
    ],
)
def test_a_library_that_crashes_hangs_or_complains(
    program: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small(tmp_path)
    (tmp_path / "program.py").write_text(program)
    monkeypatch.setattr(decoder, "__file__", str(tmp_path / "program.py"))
    with pytest.raises(InputError, match=words):
        opened(path)


def test_without_the_extra_its_name_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"callgrove\[otf2\]"):
        opened(path)
