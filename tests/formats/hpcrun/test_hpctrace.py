"""Single traces as experiments: who executed, what is printed, what is written, what of a damaged one is left."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from shutil import copy

import numpy as np
import pytest

from callgrove.binary.files import Source
from callgrove.errors import UsageError
from callgrove.formats.hpcrun.hpctrace_format import FORMAT, TABLE_SIZE, IdSet
from callgrove.formats.interface import ReadOptions, WriteOptions
from callgrove.formats.registry import open_path
from callgrove.formats.writing.transfer import transfer
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySamples, Samples
from tests.formats.damage import Case, answers, chance, run, survives
from tests.formats.samples import CORPUS, databases

TRACES = sorted((CORPUS / "hpctrace").rglob("*.hpctrace"))
DATA_CENTRIC = CORPUS / "hpctrace" / "data-centric.hpctrace"
OLDEST = CORPUS / "hpctrace" / "oldest.hpctrace"
NOW_NS = 1_700_000_000_000_000_000


def opened(path: Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


def unpacked(path: Path, layout: str = ">QI", start: int = 32) -> list[tuple[int, ...]]:
    """The records, without any of our code."""
    return list(struct.iter_unpack(layout, path.read_bytes()[start:]))


def test_every_real_trace_survives_convert_byte_for_byte(shared: Path, tmp_path: Path) -> None:
    for number, path in enumerate(sorted((shared / "data").rglob("*.hpctrace"))):
        target = tmp_path / f"{number}.hpctrace"
        code, _, err = run("convert", str(path), str(target))
        assert (code, err) == (0, "")
        assert target.read_bytes() == path.read_bytes(), path


def test_samples_and_times_of_real_traces(shared: Path) -> None:
    for path in sorted((shared / "data").rglob("*.hpctrace")):
        records = unpacked(path)
        experiment = opened(path)
        scale = 1000 if "hpcrun-02.00" in path.parts else 1
        lines = [line for _, _, line in experiment.traces.lines()]
        assert [t for line in lines for t in line.time_ns.tolist()] == [time * scale for time, _ in records]
        ids = np.append(experiment.contexts.source_id, 0)
        assert [c for line in lines for c in ids[line.context].tolist()] == [node for _, node in records]
        assert experiment.traces.time_range == ((records[0][0] * scale, records[-1][0] * scale) if records else None)


def test_times_are_those_that_hpcrun_itself_noted(shared: Path) -> None:
    """The header of a 04.00 profile has the first and the last time of its trace, as text."""
    paths = sorted((shared / "data" / "own" / "hpcrun-04.00").rglob("*.hpctrace"))
    assert len(paths) == 26
    for path in paths:
        header = path.with_suffix(".hpcrun").read_bytes()[: 1024 * 8]
        noted = []
        for name in (b"trace-min-time", b"trace-max-time"):
            at = header.index(name) + len(name)
            (size,) = struct.unpack_from(">I", header, at)
            noted.append(int(header[at + 4 : at + 4 + size]))
        assert opened(path).traces.time_range == (tuple(noted) if noted != [0, 0] else None)


@pytest.mark.parametrize(
    ("name", "title", "kind", "numbers"),
    [
        ("app-000003-002-007f0100-1695-0.hpctrace", "app", ProfileKind.THREAD, (0x7F0100, 3, 2)),
        ("a-b-1-000000-500-7f-1-2.hpctrace", "a-b-1", ProfileKind.GPU_STREAM, (0x7F, 0, 500)),
        ("1234567-1234567-1234-f-1-2.hpctrace", "1234567", ProfileKind.GPU_STREAM, (15, 1234567, 1234)),
        ("some.hpctrace", "some.hpctrace", ProfileKind.THREAD, (None, None, None)),
        ("x-000000-000-zz-1-0.hpctrace", "x-000000-000-zz-1-0.hpctrace", ProfileKind.THREAD, (None, None, None)),
    ],
)
def test_who_executed_is_in_the_name(
    tmp_path: Path, name: str, title: str, kind: ProfileKind, numbers: tuple[int | None, ...]
) -> None:
    copy(TRACES[0], tmp_path / name)
    found = opened(tmp_path / name)
    assert (found.title, found.profiles.kind.tolist()) == (title, [kind])
    assert tuple(found.profiles.identity_list(column)[0] for column in ("node", "rank", "thread")) == numbers


def test_a_data_centric_trace_has_a_line_for_each_metric() -> None:
    found, records = opened(DATA_CENTRIC), unpacked(DATA_CENTRIC, ">QII")
    assert [(m.name, m.source_id) for m in found.metrics] == [("metric#0", 0), ("metric#2", 2)]
    ids = np.append(found.contexts.source_id, 0)
    for _, metric, line in found.traces.lines():
        wanted = [(time, node) for time, node, id_ in records if id_ == found.metrics.rows[metric].source_id]
        assert list(zip(line.time_ns.tolist(), ids[line.context].tolist(), strict=True)) == wanted
    assert found.traces.n_samples == len(records)
    assert found.profiles.kind.tolist() == [ProfileKind.GPU_STREAM]  # its flags say so


def test_node_0_is_idle() -> None:
    found = opened(DATA_CENTRIC)
    assert found.contexts.source_id.tolist() == [11, 13, 17]
    assert sum((line.context == -1).sum() for _, _, line in found.traces.lines()) == 3


@pytest.mark.parametrize(
    ("path", "dialect", "start", "layout", "losses"),
    [
        (DATA_CENTRIC, "01.01", 32, ">QII", 0),
        (DATA_CENTRIC, "01.00", 24, ">QI", 2),
        (OLDEST, "01.00", 24, ">QI", 0),
        (OLDEST, "01.01-us", 32, ">QI", 0),
    ],
)
def test_dialects(tmp_path: Path, path: Path, dialect: str, start: int, layout: str, losses: int) -> None:
    target = tmp_path / "out.hpctrace"
    code, _, err = run("convert", str(path), str(target), "--dialect", dialect)
    assert code == 0
    assert len(err.splitlines()) == losses, err
    layout_before, start_before = (">QII", 32) if path == DATA_CENTRIC else (">QI", 24)
    scale = 1000 if path == DATA_CENTRIC and dialect == "01.00" else 1
    wanted = [(t // scale, *rest[: len(layout) - 2]) for t, *rest in unpacked(path, layout_before, start_before)]
    assert unpacked(target, layout, start) == wanted
    assert target.read_bytes()[18:23].decode() == dialect[:5]


def test_an_experiment_without_ids_of_its_own_becomes_a_trace(tmp_path: Path) -> None:
    builder = ExperimentBuilder("made up")
    builder.add_profile(ProfileKind.THREAD)
    for name in ("main", "solve"):
        builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
    line = Samples(np.array([-5, NOW_NS, NOW_NS + 1]), np.array([1, -1, 0], np.int32))
    builder.set_traces(ArraySamples(np.array([0], np.int32), np.array([-1], np.int32), (line,)))
    target = tmp_path / "out.hpctrace"
    report = transfer(builder.build(), FORMAT.open_writer(target, WriteOptions(dialect="01.01-us")))
    assert unpacked(target) == [(0, 2), (NOW_NS // 1000, 0), (NOW_NS // 1000, 1)]
    words = ("ids of contexts", "tree of contexts", "before 1970", "microseconds")
    assert len(report.losses) == 4
    for loss, word in zip(report.losses, words, strict=True):
        assert word in loss


def test_samples_of_several_profiles_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "out.hpctrace"
    code, _, err = run("convert", str(databases("release")[0]), str(target))
    assert code == 2
    assert "profiles, and an hpctrace file holds those of one" in err
    assert list(tmp_path.iterdir()) == []


def test_a_trace_in_no_order_is_sorted_and_said(tmp_path: Path) -> None:
    path = tmp_path / "t.hpctrace"
    times = [5, 3, 4, 9, 1]
    body = b"".join(struct.pack(">QI", NOW_NS + t, k + 1) for k, t in enumerate(times))
    path.write_bytes(b"HPCRUN-trace______01.01b" + bytes(8) + body)
    found = opened(path)
    (_, _, line), *_ = found.traces.lines()
    assert (line.time_ns - NOW_NS).tolist() == sorted(times)
    assert found.contexts.source_id[line.context].tolist() == [5, 2, 3, 1, 4]
    problems = list(FORMAT.check(Source.of(path), ReadOptions()))
    assert [p.severity.value for p in problems] == ["note"]
    assert "2 records are earlier" in problems[0].text


def test_the_text_of_a_trace_is_the_specification_s(shared: Path) -> None:
    for path in sorted((shared / "data" / "own").rglob("*.hpctrace")):
        first, *rows, last = "".join(FORMAT.dump_text(Source.of(path))).splitlines()
        assert (first, last) == ("hpctrace 01.01 big-endian flags=0x0", "end")
        assert rows == [f"{time} {node}" for time, node in unpacked(path)]
    rows = "".join(FORMAT.dump_text(Source.of(DATA_CENTRIC))).splitlines()[1:-1]
    assert rows == [f"{time} {node} {metric}" for time, node, metric in unpacked(DATA_CENTRIC, ">QII")]


def test_views_of_a_trace() -> None:
    source, records = Source.of(DATA_CENTRIC), unpacked(DATA_CENTRIC, ">QII")
    lines = "".join(FORMAT.dump_view(source, "text", 2)).splitlines()
    first = "hpctrace 01.01 big-endian flags=0x5"
    assert lines == [first, *(" ".join(map(str, r)) for r in records[:2]), "... and 10 more", "end"]
    for limit, wanted in ((None, records), (3, records[:3]), (0, [])):
        found = json.loads("".join(FORMAT.dump_view(source, "json", limit)))
        assert found == {
            "version": "01.01",
            "flags": 5,
            "records": [{"time": time, "node": node, "metric": metric} for time, node, metric in wanted],
        }
    summary = "".join(FORMAT.dump_view(source, "summary")).splitlines()
    times = f"time {NOW_NS} to {NOW_NS + 11_000_000} ns"
    assert summary == [first, "records 12 disordered=0", times, "nodes 4", "metrics 2", "end"]
    with pytest.raises(UsageError, match="a trace has no tree"):
        FORMAT.dump_view(source, "tree")


def test_dump_gives_every_field_where_it_lies() -> None:
    data = DATA_CENTRIC.read_bytes()
    found = [f for f in FORMAT.dump(Source.of(DATA_CENTRIC)) if f.section == "records"]
    assert len(found) == 3 * 12
    for field in found:
        wide = 8 if field.name == "time" else 4
        assert int.from_bytes(data[field.offset : field.offset + wide], "big") == field.value


def test_a_partial_last_record_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "t.hpctrace"
    path.write_bytes(TRACES[0].read_bytes()[:-5])
    found = opened(path)
    assert found.traces.n_samples == len(unpacked(TRACES[0], start=32)) - 1
    assert len(found.damage) == 1
    assert answers(path, "partial") == {"info": 0, "export": 0, "check": 3, "dump": 3, "tree": 3}


def cases(path: Path) -> list[Case]:
    data, rng = path.read_bytes(), chance("hpctrace", path.name)
    cuts = [*range(0, 50, 3), *(rng.randrange(len(data)) for _ in range(8))]
    out = [Case(f"cut at {at}", data[:at]) for at in cuts]
    for k in range(30):
        broken = bytearray(data)
        broken[rng.randrange(18, 32 if k % 2 else len(data))] ^= 1 << rng.randrange(8)
        out.append(Case(f"flip {k}", bytes(broken)))
    return out


@pytest.mark.parametrize("path", TRACES, ids=lambda p: p.name)
def test_damaged_traces_are_survived(path: Path, tmp_path: Path) -> None:
    for number, case in enumerate(cases(path)):
        damaged = tmp_path / str(number)
        damaged.write_bytes(case.data)
        survives(damaged, case.label)
        if number % 7 == 0:
            answers(damaged, case.label, ("check",), ("info",))


def test_ids_of_any_size_are_noted_once() -> None:
    found = IdSet()
    found.add(np.array([7, 3, TABLE_SIZE, 7, 2**32 - 1], np.uint32))
    found.add(np.array([2**32 - 1, 0, TABLE_SIZE - 1], np.uint32))
    assert found.ids.tolist() == [0, 3, 7, TABLE_SIZE - 1, TABLE_SIZE, 2**32 - 1]
