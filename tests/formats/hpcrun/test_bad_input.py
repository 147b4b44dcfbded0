"""Damaged measurement files: one clear error with the place, and what is intact stays readable."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.files import Source
from callgrove.errors import CallgroveError, CorruptFile, InputError, NotRecognised, UnsupportedVersion
from callgrove.formats.hpcrun.format import FORMAT
from callgrove.formats.interface import Problem, ReadOptions
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Severity
from tests.exhaustive import try_examples
from tests.formats.damage import answers, chance, run, scratch_folder, survives
from tests.formats.hpcrun.hpcrun_bytes import (
    HEADER,
    REAL,
    ROOT,
    File04,
    RawEpoch,
    RawMetric,
    RawNode,
    file_02,
    u16,
    u32,
    u64,
)
from tests.formats.hpcrun.hpcrun_opening import opened, written
from tests.formats.hpcrun.hpcrun_synthetic import FILES, FIRST_EPOCH
from tests.timing import bounded

GOOD = File04()
OLD = file_02(FIRST_EPOCH)
NODES_AT = 2048 + 8  # where the nodes of GOOD begin
SPARSE_AT = 5120
VALUES_AT = SPARSE_AT + 2 + 3 * 18 + 8 + 4
INDEX_AT = VALUES_AT + 2 * 10


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def checked(path: Path) -> list[Problem]:
    return list(FORMAT.check(Source.of(path), ReadOptions()))


def old(**changes: object) -> bytes:
    return file_02(replace(FIRST_EPOCH, **changes))  # type: ignore[arg-type]


def node(*fields: int) -> tuple[int, int, int, int, int]:
    a, b, c, d = fields
    return a, b, c, d, 1


DATA = GOOD.packed()
METRICS = (RawMetric("T (sec)", REAL),)
# case -> (bytes, what the error says, the offset that it names; -1: anywhere)
REFUSED: dict[str, tuple[bytes, str, int]] = {
    "wrong byte order": (patched(DATA, 23, b"l"), r"expected 'b'.*found 'l'", 23),
    "no footer": (DATA[:-112], "incomplete profile", -1),
    "half a footer": (DATA[:-8], "incomplete profile", -1),
    "wrong footer magic": (patched(DATA, len(DATA) - 1, b"x"), "expected 'HPCRUNsm', found 'HPCRUNsx'.*incomplete", -1),
    "only a header": (DATA[:60], "incomplete profile", 0),
    "sections out of order": (GOOD.changed(swap=(2, 4)), "sections one after the other", -1),
    "a section outside of the file": (patched(DATA, len(DATA) - 112 + 24, u64(1 << 40)), "one after the other", -1),
    "a first section that is not first": (patched(DATA, len(DATA) - 112, u64(8)), "one after the other", -1),
    "a footer elsewhere": (patched(DATA, len(DATA) - 16, u64(5)), "one after the other", -1),
    "a header that ends early": (GOOD.changed(extra={0: b"1234"}), "header .*expected the end of the section", -1),
    "a loadmap that ends early": (GOOD.changed(extra={1: b"1234"}), "loadmap .*expected the end of the section", -1),
    "nodes that end early": (
        GOOD.changed(extra={2: b"1234"}),
        "cct .*5 nodes of 19 or 18 bytes.*footer says",
        NODES_AT,
    ),
    "metrics that end early": (GOOD.changed(extra={3: b"1"}), "metric table .*the end of the section", -1),
    "kinds that end early": (GOOD.changed(extra={4: b"1"}), "id dictionary .*the end of the section", -1),
    "values that end early": (GOOD.changed(extra={5: b"1"}), "sparse metrics .*2 values and 2 nodes", -1),
    "more nodes than there is room for": (patched(DATA, 2048, u64(2**61)), "cct .*room for", 2048),
    "more pairs than there is room for": (patched(DATA, 24, u32(2**31)), "header .*room for", 24),
    "more modules than there is room for": (patched(DATA, 1024, u32(2**32 - 1)), "loadmap .*room for", 1024),
    "a string beyond the section": (patched(DATA, 1030, u32(2**31)), "loadmap .*room for", 1030),
    "more metrics than there is room for": (patched(DATA, 3072, u32(2**30)), "metric table .*room for", 3072),
    "more kinds than there is room for": (patched(DATA, 4096, u16(65535)), "id dictionary .*room for", 4096),
    "more identifiers than there is room for": (
        patched(DATA, SPARSE_AT, u16(65535)),
        "sparse metrics .*room",
        SPARSE_AT,
    ),
    "more values than there are": (
        patched(DATA, SPARSE_AT + 56, u64(2**62)),
        "sparse metrics .*values and 2 nodes",
        -1,
    ),
    "more nodes with values": (patched(DATA, SPARSE_AT + 64, u32(2**31)), "sparse metrics .*2 values and", -1),
    "old metric flags": (patched(DATA, 3072 + 4 + 17 + 23, b"\0"), "unsupported metric flags", 3072 + 4 + 17 + 23),
    "used reserved flags": (patched(DATA, 3072 + 4 + 17 + 23 + 9, b"\1"), "unsupported metric flags", -1),
    "a cycle": (
        GOOD.changed(nodes=(ROOT, node(14, 16, 1, 1), node(16, 14, 1, 2)), values=()),
        "cct .*a parent before node 14, found 16, which comes later",
        NODES_AT + 19,
    ),
    "its own parent": (GOOD.changed(nodes=(ROOT, node(14, 14, 1, 1)), values=()), "found itself", NODES_AT + 19),
    "an unknown parent": (
        GOOD.changed(nodes=(ROOT, node(14, 99, 1, 1)), values=()),
        r"found 99 \(of node 14\), which no node has",
        NODES_AT + 19,
    ),
    "a late parent": (
        GOOD.changed(nodes=(ROOT, node(14, 16, 1, 1), node(16, 12, 1, 2)), values=()),
        "which comes later",
        NODES_AT + 19,
    ),
    "an id twice": (
        GOOD.changed(nodes=(ROOT, node(14, 12, 1, 1), node(14, 12, 1, 2)), values=()),
        "node ids that occur once, found id 14 again",
        -1,
    ),
    "a wide id twice": (
        GOOD.changed(nodes=(ROOT, node(2**32 - 1, 12, 1, 1), node(2**32 - 1, 12, 1, 2)), values=()),
        "found id 4294967295 again",
        NODES_AT + 38,
    ),
    "the id 0": (GOOD.changed(nodes=(ROOT, node(0, 12, 1, 1)), values=()), "id other than 0", NODES_AT + 19),
    "values of an unknown node": (GOOD.changed(values=((99, ((0, 1.0),)),)), "found node 99", -1),
    "an index that falls": (patched(DATA, INDEX_AT + 4, u64(2)), "rise from 0 to 2", INDEX_AT + 12),
    "an index that jumps": (patched(DATA, INDEX_AT + 16, u64(9)), "rise from 0 to 2", -1),
    "an index without its end": (patched(DATA, INDEX_AT + 24, u32(5)), "the end of the index", INDEX_AT + 24),
    "an index that ends elsewhere": (patched(DATA, INDEX_AT + 28, u64(1)), "the end of the index", INDEX_AT + 24),
    "02.00: cut in the header": (OLD[:40], "header .*truncated or damaged", -1),
    "02.00: cut in a node": (OLD[:-3], "no dialect of this version fits", -1),
    "02.00: neither dialect": (OLD[:200] + b"\xff" * 40 + OLD[200:], "no dialect of this version fits", -1),
    "02.00: no epoch": (file_02() + b"EPOCH__x" + bytes(50), "expected 'EPOCH___', found 'EPOCH__x'", -1),
    "02.00: rest behind the nodes": (OLD + b"xyz", "no dialect of this version fits", len(OLD)),
    "02.00: absurd number of nodes": (OLD.replace(u64(5) + b"\0\0\0\2", u64(2**60) + b"\0\0\0\2"), "room for", -1),
    "02.00: a late parent": (
        old(nodes=(RawNode(2, 0, 0, 0, (0, 0.0)), RawNode(4, 6, 1, 1, (0, 0.0)), RawNode(6, 2, 1, 1, (0, 0.0)))),
        "which comes later",
        -1,
    ),
    "02.00: the id of a leaf and of a node": (
        old(nodes=(RawNode(2, 0, 0, 0, (0, 0.0)), RawNode(-2, 2, 1, 1, (0, 0.0)))),
        "found id 2 again",
        -1,
    ),
    "03.00: cut": (file_02(FIRST_EPOCH, version="03.00")[:-3], "cct|room for", -1),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    """The error names the file, the section, the place; `check` and the command line say the same."""
    data, says, offset = REFUSED[case]
    path = written(tmp_path, data)
    with pytest.raises(CorruptFile) as error:
        open_path(path)
    assert re.search(says, str(error.value)), str(error.value)
    assert str(error.value).startswith(f"{path}: ")
    assert error.value.offset is not None
    assert offset in (-1, error.value.offset)
    survives(path, case)
    code, _, said = run("check", str(path))
    assert code == 3
    assert "1 damaged place" in said
    assert run("info", str(path))[0] == 3


@pytest.mark.parametrize("case", REFUSED)
def test_the_other_files_of_a_folder_still_open(case: str, tmp_path: Path) -> None:
    written(tmp_path, REFUSED[case][0], "bad.hpcrun")
    written(tmp_path, DATA, "good.hpcrun")
    experiment = opened(tmp_path)
    assert len(experiment.profiles) == 1
    [warning] = experiment.warnings
    assert warning.severity == Severity.DAMAGE
    assert re.search(REFUSED[case][1], warning.text)
    assert experiment.values.totals(0).sum() == 0.75
    assert run("check", str(tmp_path))[0] == 3


def test_a_newer_version_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, patched(DATA, 18, b"05.00"))
    with pytest.raises(UnsupportedVersion, match=r"version '05\.00' at byte 18; 02\.00, 03\.00, 04\.00 can be read"):
        open_path(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"H", b"HPCRUN-profilX____04.00b" + bytes(200), b"something else"],
    ids=["empty", "one byte", "magic", "text"],
)
def test_what_is_no_profile_is_not_recognised(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(NotRecognised):
        open_path(written(tmp_path, data))
    with pytest.raises(CorruptFile, match="not an hpcrun profile"):
        open_path(tmp_path / "a.hpcrun", "hpcrun")


def test_a_cut_magic_is_still_known(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"found b'HPCRUN-prof'; not an hpcrun profile"):
        open_path(written(tmp_path, DATA[:11]))


def test_a_folder_without_any_readable_profile_is_an_error(tmp_path: Path) -> None:
    written(tmp_path, DATA[:-5])
    written(tmp_path, b"", "b.hpcrun")
    with pytest.raises(InputError, match=r"none of 2 measurement files can be read: .*incomplete profile"):
        open_path(tmp_path)


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_nodes_in_unknown_modules_are_unknown(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.changed(modules=((1, "/bin/app"),)))
    experiment = opened(path)
    [warning] = experiment.warnings
    assert warning.severity == Severity.DAMAGE
    assert warning.text == f"{path}: cct: nodes are in module 2, which the loadmap does not have; they count as unknown"
    assert [experiment.contexts.label(c) for c in range(5)][-1] == "<unknown module>+0x30"
    assert experiment.values.totals(0).sum() == 0.75
    assert run("check", str(path))[0] == 3


def test_outlined_ranges_are_a_note(tmp_path: Path) -> None:
    nodes = (*GOOD.nodes, node(30, 0, 65533, 0), node(32, 30, 65532, 7))
    [warning] = opened(written(tmp_path, GOOD.changed(nodes=nodes))).warnings
    assert warning.severity == Severity.NOTE
    assert "outlined ranges" in warning.text


def test_a_period_of_0_is_taken_for_1(tmp_path: Path) -> None:
    experiment = opened(written(tmp_path, GOOD.changed(metrics=(replace(METRICS[0], period=0),))))
    [warning] = experiment.warnings
    assert (warning.severity, "the period of T (sec) is 0" in warning.text) == (Severity.NOTE, True)
    assert experiment.values.totals(0).sum() == 0.75


@pytest.mark.parametrize(
    "values",
    [
        ((21, ((0, 0.5), (0, 0.125))), (18, ((0, 0.25),))),
        ((21, ((0, 0.5),)), (18, ((0, 0.25),)), (21, ((0, 0.125),))),
    ],
    ids=["in one node", "the node twice"],
)
def test_repeated_values_are_added_and_said(
    values: tuple[tuple[int, tuple[tuple[int, float], ...]], ...], tmp_path: Path
) -> None:
    path = written(tmp_path, GOOD.changed(values=values))
    experiment = opened(path)
    assert sorted(experiment.values.profile(0).value.tolist()) == [0.25, 0.625]
    [problem] = checked(path)
    assert "one value for each node and metric, found 1 more, which are added" in problem.text


def test_values_of_unknown_metrics_stop_the_values_of_their_file(tmp_path: Path) -> None:
    bad = written(tmp_path, GOOD.changed(values=((21, ((3, 0.5),)),)))
    with pytest.raises(CorruptFile, match="values of the 1 metrics of the table, found value 0 of metric 3"):
        opened(bad).values.profile(0)
    code, out, said = run("export", str(bad), "--table", "values")
    assert (code, "metric 3" in said) == (3, True), out
    written(tmp_path, DATA, "b.hpcrun")
    experiment = opened(tmp_path)
    assert experiment.values.totals(0).sum() == 0.75
    [problem] = experiment.values.problems
    assert "metric 3" in str(problem)


def trace(*records: tuple[int, int]) -> bytes:
    return b"HPCRUN-trace______01.01b" + bytes(8) + b"".join(u64(t) + u32(n) for t, n in records)


def with_trace(folder: Path, data: bytes) -> Path:
    written(folder, data, "a.hpctrace")
    return written(folder, DATA)


def test_a_partial_last_record_is_left_out_with_a_warning(tmp_path: Path) -> None:
    path = with_trace(tmp_path, trace((1, 18), (2, 21)) + b"\0\0\0")
    experiment = opened(path)
    [warning] = experiment.warnings
    assert (warning.severity, "partial last record" in warning.text) == (Severity.DAMAGE, True)
    [(_, _, line)] = list(experiment.traces.lines())
    assert line.time_ns.tolist() == [1, 2]


def test_samples_of_unknown_nodes_are_left_out_and_counted(tmp_path: Path) -> None:
    path = with_trace(tmp_path, trace((1, 18), (2, 99), (3, 21), (4, 98)))
    experiment = opened(path)
    [(_, _, line)] = list(experiment.traces.lines())
    assert line.time_ns.tolist() == [1, 3]
    assert experiment.traces.samples is not None
    [problem] = experiment.traces.samples.problems
    assert "expected samples on nodes of the profile, found 2 on others, which are left out" in str(problem)
    assert [p.section for p in checked(path) if p.severity == Severity.DAMAGE] == ["traces"]


def test_disordered_samples_are_sorted(tmp_path: Path) -> None:
    path = with_trace(tmp_path, trace((5, 18), (2, 21), (2, 16), (9, 18)))
    [(_, _, line)] = list(opened(path).traces.lines())
    assert line.time_ns.tolist() == [2, 2, 5, 9]
    assert [p.text for p in checked(path)] == [
        "time runs backwards, and the profile does not say so; samples are sorted when read"
    ]


def test_a_broken_trace_leaves_the_profile(tmp_path: Path) -> None:
    path = with_trace(tmp_path, b"this is no trace at all, but it is long enough")
    experiment = opened(path)
    [warning] = experiment.warnings
    assert (warning.severity, "the trace is left out" in warning.text) == (Severity.DAMAGE, True)
    assert experiment.traces.n_samples == 0


def test_a_file_that_goes_away_is_a_problem_and_no_more(tmp_path: Path) -> None:
    written(tmp_path, DATA)
    written(tmp_path, DATA, "b.hpcrun")
    experiment = opened(tmp_path)
    (tmp_path / "a.hpcrun").unlink()
    assert experiment.values.totals(0).sum() == 0.75
    [problem] = experiment.values.problems
    assert "a.hpcrun: cannot be read" in str(problem)


# -- notes of check ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (GOOD.changed(padding=b"x"), "is followed by bytes other than 0"),
        (GOOD.changed(values=((18, ((0, float("nan")),)),)), "values that are not finite"),
        (GOOD.changed(nodes=(*GOOD.nodes, node(40, 0, 1, 5))), "there are 2 roots"),
        (GOOD.changed(modules=((2, "/lib/libm.so"), (1, "/bin/app"))), "the ids of modules are not 1, 2, ..."),
        (old(nodes=(RawNode(2, 0, 0, 0, (0, 0.0)), RawNode(4, 2, 1, 1, (0, 0.0)))), "1 node has the sign"),
    ],
    ids=["padding", "not finite", "two roots", "module ids", "signs"],
)
def test_what_is_remarkable_is_a_note(data: bytes, says: str, tmp_path: Path) -> None:
    found = checked(written(tmp_path, data))
    assert {p.severity for p in found} == {Severity.NOTE}
    assert any(says in p.text for p in found), found


def test_announced_times_are_compared(tmp_path: Path) -> None:
    header = (*HEADER, ("trace-min-time", "1"), ("trace-max-time", "7"))
    path = with_trace(tmp_path, trace((1, 18), (9, 21)))
    path.write_bytes(GOOD.changed(header=header))
    assert [p.text for p in checked(path)] == ["samples run from 1 to 9; the profile announces 1 to 7"]


# -- random damage -----------------------------------------------------------------------------------------------------


def spoiled(data: bytes, kind: str, seed: int) -> bytes:
    rng = chance("hpcrun", kind, seed)
    at = rng.randrange(len(data))
    if kind == "cut":
        return data[:at]
    if kind == "number":
        return patched(data, min(at, len(data) - 8), rng.choice([u64(0), u64(2**64 - 1), u64(2**31), u32(2**32 - 1)]))
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 24])):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["cut", "number", "flip"])
def test_random_damage(name: str, kind: str, tmp_path: Path) -> None:
    for seed in range(25):
        path = written(tmp_path, spoiled(FILES[name], kind, seed), f"{seed}.hpcrun")
        survives(path, f"{name} {kind} {seed}")
        if seed % 8 == 0:
            answers(path, f"{name} {kind} {seed}", ("check",), ("info",), ("dump",), ("dump", "--tree"))


@try_examples(60)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_random_bytes_anywhere(name: str, data: st.DataObject) -> None:
    original = FILES[name]
    at = data.draw(st.integers(0, len(original) - 1))
    n, new = data.draw(st.integers(0, 12)), data.draw(st.binary(max_size=12))
    with scratch_folder() as folder:
        survives(written(folder, original[:at] + new + original[at + n :]), f"{name} {at} {n} {new!r}")


@pytest.mark.parametrize("view", ["--summary", "--tree", "--format=json", "--format=csv"])
def test_views_of_damaged_files_end_with_the_error(view: str, tmp_path: Path) -> None:
    path = written(tmp_path, DATA[:-5])
    code, _, said = run("dump", str(path), view)
    assert (code, said.count("\n")) == (3, 1)


def test_the_header_of_a_damaged_file_is_printed(tmp_path: Path) -> None:
    path = written(tmp_path, DATA[:-5])
    code, out, said = run("dump", str(path))
    assert code == 3
    assert out.startswith('hpcrun 04.00 big-endian\nheader\n  "program-name" = "app"\n')
    assert "incomplete profile" in said


def test_an_unreadable_epoch_says_where(tmp_path: Path) -> None:
    epoch = RawEpoch(metrics=METRICS, nodes=(RawNode(2, 0, 0, 0, (0.0,)), RawNode(4, 9, 1, 1, (0.0,))))
    path = written(tmp_path, file_02(FIRST_EPOCH, epoch))
    with pytest.raises(CallgroveError, match=r"epoch 1: cct at byte \d+: expected the id of a node as parent"):
        open_path(path)


def test_a_text_that_announces_gigabytes(tmp_path: Path) -> None:
    """The file is a hole of a terabyte, so there is room for it."""
    path = tmp_path / "x.hpcrun"
    at = OLD.index(b"/bin/app") - 4
    path.write_bytes(patched(OLD, at, b"\xf0\xff\xff\xf0"))
    os.truncate(path, 1 << 40)
    with bounded("a long text"), pytest.raises(CallgroveError, match="of at most 16777216 bytes"):
        open_path(path)
