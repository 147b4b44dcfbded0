"""Legacy databases: what is read equals what the generator measured, and what the XML says about a genuine one."""

from __future__ import annotations

import filecmp
import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from callgrove.binary.files import Source
from callgrove.cli.main import main
from callgrove.errors import CorruptFile, RefusedInput, UnsupportedVersion
from callgrove.formats.hpctoolkit.legacy.format import FORMAT
from callgrove.formats.interface import ReadOptions, WriteOptions, Writes
from callgrove.formats.registry import detect, load, open_path
from callgrove.formats.writing.transfer import transfer
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Scope
from callgrove.model.profiles import ProfileKind
from tests.exhaustive import whole_or_some
from tests.formats import damage
from tests.formats.damage import run
from tests.formats.hpctoolkit.legacy_databases import CORPUS, FIRST_TIME_US, HOST, METRICS, Program, write_corpus
from tests.formats.samples import CORPUS as CORPUS_FOLDER
from tests.permissions import writable_copy

VERSIONS = ("2.0", "2.1", "2.2")
every_version = pytest.mark.parametrize("version", VERSIONS)
SCOPES = (Scope.INCLUSIVE, Scope.FUNCTION)


def opened(path: Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    assert found.format == "hpctoolkit-legacy"
    return found


def by_id(experiment: Experiment, profile: int) -> dict[tuple[int, int], float]:
    """(node id, metric row) -> value of one profile."""
    block = experiment.values.profile(profile)
    ids = experiment.contexts.source_id[block.context].tolist()
    return dict(zip(zip(ids, block.metric.tolist(), strict=True), block.value.tolist(), strict=True))


def expected(program: Program, experiment: Experiment, thread: int) -> dict[tuple[int, int], float]:
    out = {}
    for column in range(2 * len(METRICS)):
        row = experiment.metrics.find(METRICS[column // 2], SCOPES[column % 2])
        assert row is not None
        for node in program.nodes:
            if value := program.value(thread, column, node):
                out[node.id, row] = value
    return out


def test_the_corpus_is_what_the_generator_writes(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    for name in CORPUS:
        there = CORPUS_FOLDER / "hpctoolkit" / "legacy" / name
        names = sorted(p.name for p in there.iterdir())
        assert names == sorted(p.name for p in (tmp_path / name).iterdir())
        assert filecmp.cmpfiles(there, tmp_path / name, names, shallow=False) == (names, [], [])


@every_version
def test_threads_have_what_was_measured(version: str, tmp_path: Path) -> None:
    program = Program(version)
    found = opened(program.write(tmp_path / "data"))
    assert found.version == version
    assert found.title == "app"
    threads = found.profiles.measured.tolist()
    assert list(zip(*(found.profiles.identity_list(c) for c in ("rank", "thread", "node")), strict=True))[1:] == [
        (rank, thread, HOST) for rank, thread in program.threads
    ]
    for number, profile in enumerate(threads):
        assert by_id(found, profile) == expected(program, found, number)


@every_version
def test_the_summary_is_what_the_xml_says(version: str, tmp_path: Path) -> None:
    program = Program(version)
    found = opened(program.write(tmp_path / "data"))
    [summary] = found.profiles.summaries.tolist()
    total: dict[tuple[int, int], float] = {}
    for number in range(len(program.threads)):
        for key, value in expected(program, found, number).items():
            total[key] = total.get(key, 0) + value
    assert by_id(found, summary) == pytest.approx(total)


@every_version
def test_one_context_over_all_threads(version: str, tmp_path: Path) -> None:
    program = Program(version)
    found = opened(program.write(tmp_path / "data"))
    for context, id_ in enumerate(found.contexts.source_id.tolist()):
        block = found.values.context(context)
        have = {(int(p), int(m)): float(v) for p, m, v in zip(block.profile, block.metric, block.value, strict=True)}
        want = {
            (number + 1, row): value
            for number in range(len(program.threads))
            for (node, row), value in expected(program, found, number).items()
            if node == id_
        }
        assert have == want


@every_version
def test_exclusive_is_the_cost_of_statements(version: str, tmp_path: Path) -> None:
    """Whatever lies between a statement and its frame: nested loops, inlined functions."""
    program = Program(version)
    found = opened(program.write(tmp_path / "data"))
    costs = {
        node.id: sum(program.cost(n, 0, node) for n in range(len(program.threads))) if node.tag == "S" else 0.0
        for node in program.nodes
    }
    exclusive = found.totals(METRICS[0], Scope.EXCLUSIVE)
    assert dict(zip(found.contexts.source_id.tolist(), exclusive.tolist(), strict=True)) == pytest.approx(costs)
    assert found.root_total(METRICS[0]) == pytest.approx(sum(costs.values()))


def test_the_tree_keeps_the_nesting_of_the_file(tmp_path: Path) -> None:
    program = Program("2.2")
    found = opened(program.write(tmp_path / "data"))
    tree = found.contexts
    parents = {child.id: node.id for node in program.nodes for child in node.children}
    ids = tree.source_id.tolist()
    assert {ids[c]: ids[p] for c, p in enumerate(tree.parent.tolist()) if p >= 0} == parents
    labels = [tree.label(c) for c in range(len(tree))]
    assert labels[:4] == ["<program root>", "/home/user/app", "main", "/home/user/app.c:5"]
    assert "loop at /home/user/app.c:12" in labels
    assert tree.kind[labels.index("min")] == 2  # inlined
    loop = labels.index("loop at /home/user/app.c:12")
    assert tree.column("end_line")[loop] == 20


@pytest.mark.parametrize("traces", ["hpctrace", "mt"])
def test_traces(traces: str, tmp_path: Path) -> None:
    """Microseconds become nanoseconds; ids are those of `it`; an id that no node has is idle."""
    program = Program("2.2")
    found = opened(program.write(tmp_path / "data", traces=traces))
    by_trace_id = {node.id + 100: node.id for node in program.nodes if node.tag == "S"}
    lines = {profile: line for profile, _, line in found.traces.lines()}
    assert sorted(lines) == found.profiles.measured.tolist()
    for number, profile in enumerate(found.profiles.measured.tolist()):
        want = program.samples(number)
        assert lines[profile].time_ns.tolist() == [time * 1000 for time, _ in want]
        ids = [int(found.contexts.source_id[c]) if c >= 0 else None for c in lines[profile].context.tolist()]
        assert ids == [by_trace_id.get(id_) for _, id_ in want]
    last = max(time for number in range(len(program.threads)) for time, _ in program.samples(number))
    assert found.traces.time_range == (FIRST_TIME_US * 1000, last * 1000)


def test_ticks_are_what_the_xml_says(tmp_path: Path) -> None:
    folder = Program("2.2").write(tmp_path / "data", traces="hpctrace")
    path = folder / "experiment.xml"
    path.write_text(path.read_text().replace('db-header-sz="32"/>', 'db-header-sz="32" u="1000000000"/>'))
    found = opened(folder)
    assert found.traces.time_range is not None
    assert found.traces.time_range[0] == FIRST_TIME_US


def test_without_metric_db_the_summary_answers(tmp_path: Path) -> None:
    program = Program("2.2")
    whole, alone = opened(program.write(tmp_path / "a")), opened(program.write(tmp_path / "b", metric_dbs=False))
    assert [w.severity for w in alone.warnings] == [Severity.MISSING]
    assert "no metric-db" in alone.warnings[0].text
    assert alone.profiles.kind.tolist() == [ProfileKind.AGGREGATE]
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        assert alone.totals(METRICS[0], scope) == pytest.approx(whole.totals(METRICS[0], scope))
    assert main(["top", str(tmp_path / "b"), "--rank", "0"]) == 2


def test_a_broken_thread_leaves_the_others_and_the_summary(tmp_path: Path) -> None:
    program = Program("2.2")
    folder = program.write(tmp_path / "data")
    first, *_ = sorted(folder.glob("*.metric-db"))
    first.write_bytes(first.read_bytes()[:-8])
    found = opened(folder)
    assert [str(first) in warning.text for warning in found.damage] == [True]
    assert [len(found.values.profile(p)) > 0 for p in found.profiles.measured.tolist()] == [False, True, True, True]
    whole = opened(program.write(tmp_path / "whole"))
    assert found.totals(METRICS[0], Scope.INCLUSIVE) == pytest.approx(whole.totals(METRICS[0], Scope.INCLUSIVE))


RAW = """<HPCToolkitExperiment version="2.2"><Header n="raw"/><SecCallPathProfile i="0" n="raw"><SecHeader><MetricTable>
<Metric i="0" n="CPUTIME (sec).[0,0]" v="raw" t="nil" show="1" show-percent="1"/>
<Metric i="1" n="CPUTIME (sec).[3,1]" v="raw" t="nil" show="1" show-percent="1"/>
</MetricTable><LoadModuleTable/><FileTable><File i="1" n="/a.c"/></FileTable>
<ProcedureTable><Procedure i="1" n="main"/></ProcedureTable></SecHeader><SecCallPathProfileData>
<PF i="2" s="1" l="1" lm="app" f="1" n="1"><S i="3" s="2" l="2"><M n="0" v="1.5"/><M n="1" v="2"/></S>
<C i="4" s="3" l="3"><PF i="5" s="4" l="9" lm="app" f="/b.c" n="solve">
<S i="6" s="5" l="10"><M n="1" v="0.25"/></S></PF></C>
</PF></SecCallPathProfileData></SecCallPathProfile></HPCToolkitExperiment>"""


def test_raw_metrics_are_of_threads_and_lie_on_statements(tmp_path: Path) -> None:
    (tmp_path / "experiment.xml").write_text(RAW)
    found = opened(tmp_path)
    assert found.metrics.quantities == ("CPUTIME (sec)",)
    assert [(m.scope, m.unit) for m in found.metrics] == [(Scope.EXCLUSIVE, "sec")]
    assert found.profiles.identity_list("rank") == [0, 3]
    assert found.profiles.identity_list("thread") == [0, 1]
    assert found.totals("CPUTIME (sec)", Scope.INCLUSIVE).tolist() == [3.75, 3.5, 0.25, 0.25, 0.25]
    assert found.contexts.path(3) == "main->/a.c:3->solve"


# -- detection and refusal -------------------------------------------------------------------------------------------


def test_it_does_not_tie_with_the_prerelease_format(tmp_path: Path) -> None:
    for version, name in (("2.0", "hpctoolkit-legacy"), ("3.0", "hpctoolkit-legacy"), ("4.0", "hpctoolkit-prerelease")):
        (tmp_path / "experiment.xml").write_text(RAW.replace('"2.2"', f'"{version}"'))
        assert detect(Source.of(tmp_path))[0].name == name


def edited(tmp_path: Path, old: str, new: str) -> Path:
    (tmp_path / "experiment.xml").write_text(RAW.replace(old, new, 1))
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "error", "says"),
    [
        ("<SecHeader>", '<SecFlatProfile i="0" n="x"></SecFlatProfile><SecHeader>', RefusedInput, "flat profile"),
        ('v="1.5"', 'v="much"', CorruptFile, "line 6"),
        ('i="5" ', 'i="99999999999" ', CorruptFile, "<PF>"),
        ("</PF></C>", "", CorruptFile, "salvage=True"),
    ],
)
def test_wrong_texts(old: str, new: str, error: type[Exception], says: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=re.escape(says)):
        opened(edited(tmp_path, old, new))


def test_another_version_is_refused_when_forced(tmp_path: Path) -> None:
    (tmp_path / "experiment.xml").write_text(RAW.replace('"2.2"', '"4.0"'))
    with pytest.raises(UnsupportedVersion, match=r"version 4\.0"):
        FORMAT.read(Source.of(tmp_path), ReadOptions())


def test_a_text_that_breaks_off_is_salvaged(tmp_path: Path) -> None:
    (tmp_path / "experiment.xml").write_text(RAW[: RAW.index("</PF></C>")])
    found = FORMAT.read(Source.of(tmp_path), ReadOptions(salvage=True))
    assert found.totals("CPUTIME (sec)", Scope.INCLUSIVE).tolist() == [3.75, 3.5, 0.25, 0.25, 0.25]
    assert len(found.damage) == 1


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('i="6" ', 'i="3" ', "node id 3 is used twice"),
        ('n="1" v="0.25"', 'n="7" v="0.25"', "metric 7 has values, but is in no table"),
        ('n="1"><S', 'n="8"><S', "procedure 8 is in no table"),
        ('<M n="1" v="2"/>', '<M n="1" v="2"/><M n="1" v="3"/>', "1 value is given twice"),
    ],
)
def test_what_contradicts_itself_is_said(old: str, new: str, says: str, tmp_path: Path) -> None:
    found = opened(edited(tmp_path, old, new))
    assert [says in warning.text for warning in found.damage] == [True]


def test_nodes_that_the_xml_does_not_list_are_elided(tmp_path: Path) -> None:
    program = Program("2.2")
    folder = program.write(tmp_path / "data")
    text = (folder / "experiment.xml").read_text()
    last = max(node.id for node in program.nodes if node.tag == "S")
    (folder / "experiment.xml").write_text(re.sub(rf'<S i="{last}".*\n</S>\n', "", text))
    found = opened(folder)
    assert found.contexts.source_id[found.contexts.n_listed :].tolist() == [last]
    for number, profile in enumerate(found.profiles.measured.tolist()):
        assert by_id(found, profile) == expected(program, found, number)


# -- damage of the files beside the XML ------------------------------------------------------------------------------


def damaged_file(tmp_path: Path, suffix: str, at: int, data: bytes) -> tuple[Path, str]:
    """A database, one file of which has other bytes at an offset; gives the folder and what the damage says."""
    folder = Program("2.2").write(tmp_path / "data", traces="mt" if suffix == ".mt" else "hpctrace")
    path = sorted(folder.glob(f"*{suffix}"))[0]
    bytes_ = bytearray(path.read_bytes())
    bytes_[at : at + len(data)] = data
    path.write_bytes(bytes_)
    found = opened(folder)
    for _ in found.values.blocks():
        pass
    return folder, "\n".join(warning.text for warning in found.damage)


@pytest.mark.parametrize(
    ("suffix", "at", "data", "says"),
    [
        (".metric-db", 0, b"X", "expected b'HPCPROF-metricdb__'"),
        (".metric-db", 18, b"01.00", "version 01.00"),
        (".metric-db", 23, b"l", "big-endian"),
        (".metric-db", 24, struct.pack(">I", 2**32 - 1), "expected 4294967295 nodes with 4 metrics"),
        (".metric-db", 24, struct.pack(">II", 2**32 - 1, 0), "expected 4294967295 nodes with 0 metrics"),
        (".hpctrace", 0, b"X", "expected b'HPCRUN-trace______'"),
        (".hpctrace", 18, b"09.00", "'09.00'"),
        (".mt", 4, struct.pack(">i", -1), "table"),
        (".mt", 4, struct.pack(">i", 2**31 - 1), "truncated"),
        (".mt", 16, struct.pack(">q", 2**62), "offsets from"),
        (".mt", 16, struct.pack(">q", 0), "offsets from"),
        (".mt", 16 + 16, b"\xff" * 8, "offsets from"),
    ],
)
def test_lies_in_headers(suffix: str, at: int, data: bytes, says: str, tmp_path: Path) -> None:
    if data == struct.pack(">II", 2**32 - 1, 0):  # a header that needs no byte of values: nodes without metrics
        folder = Program("2.2").write(tmp_path / "data")
        path = sorted(folder.glob("*.metric-db"))[0]
        path.write_bytes(path.read_bytes()[:24] + data)
        assert len(opened(folder).damage) == 1
        return
    folder, found = damaged_file(tmp_path, suffix, at, data)
    assert says in found
    assert run("check", str(folder))[0] == 3
    assert run("top", str(folder))[0] == 0


def test_the_trailer_of_merged_traces(tmp_path: Path) -> None:
    folder = Program("2.2").write(tmp_path / "data", traces="mt")
    path = folder / "experiment.mt"
    path.write_bytes(path.read_bytes()[:-4])
    found = opened(folder)
    assert found.traces.samples is None
    assert "expected ffffffffdeadf00d" in found.damage[0].text


def test_a_record_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    folder = Program("2.2").write(tmp_path / "data", traces="hpctrace")
    path = sorted(folder.glob("*.hpctrace"))[0]
    path.write_bytes(path.read_bytes()[:-5])
    found = opened(folder)
    assert found.traces.samples is not None
    assert found.traces.samples.count.tolist()[0] == found.traces.samples.count.tolist()[1] - 1
    assert "cut off after 7 bytes" in found.damage[0].text


def test_traces_out_of_order_are_sorted(tmp_path: Path) -> None:
    program = Program("2.2")
    folder = program.write(tmp_path / "data", traces="hpctrace")
    path = sorted(folder.glob("*.hpctrace"))[0]
    data = path.read_bytes()
    path.write_bytes(data[:32] + data[44:56] + data[32:44] + data[56:])
    line = next(iter(opened(folder).traces.lines()))[2]
    assert line.time_ns.tolist() == [time * 1000 for time, _ in program.samples(0)]
    assert any("sorted" in problem.text for problem in FORMAT.check(Source.of(folder), ReadOptions()))


def test_check_finds_threads_that_disagree_with_the_xml(tmp_path: Path) -> None:
    program = Program("2.2")
    folder = program.write(tmp_path / "data")
    path = sorted(folder.glob("*.metric-db"))[0]
    data = bytearray(path.read_bytes())
    data[32 + 8 * 4 : 32 + 8 * 5] = struct.pack(">d", 1e6)  # node 2, the first metric
    path.write_bytes(data)
    assert [p.section for p in FORMAT.check(Source.of(folder), ReadOptions()) if p.severity == Severity.DAMAGE] == [
        "summary"
    ]


KINDS = {"truncations": damage.truncations, "flips": damage.flips}


@whole_or_some
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["inlined22.d", "loops21.d"])
def test_grids_of_damage(kind: str, name: str, whole: bool, tmp_path: Path) -> None:
    """One file of each kind is damaged; only errors for users escape, and not slowly."""
    folder = CORPUS_FOLDER / "hpctoolkit" / "legacy" / name
    one_of_each = {path.suffix: path for path in sorted(folder.iterdir())}
    for part in one_of_each.values():
        for case in KINDS[kind](part, whole)[:: 1 if whole else 3]:
            path = damage.damaged(folder, part.name, case, tmp_path)
            damage.survives(path, f"{part.name}: {case.label}")
        damage.restore(folder, part.name, tmp_path)


@whole_or_some
def test_wrong_attributes(whole: bool, tmp_path: Path) -> None:
    folder = CORPUS_FOLDER / "hpctoolkit" / "legacy" / "inlined22.d"
    for case in damage.wrong_attributes(folder / "experiment.xml", None if whole else 30):
        path = damage.damaged(folder, "experiment.xml", case, tmp_path)
        damage.survives(path, case.label)
        damage.answers(path, case.label, ("check",), ("info",))


# -- a genuine database ----------------------------------------------------------------------------------------------


@pytest.fixture
def cpi(shared: Path) -> Path:
    return shared / "data" / "public" / "hatchet" / "hpctoolkit-cpi-database"


def stated(path: Path) -> dict[tuple[int, int], float]:
    """(node id, metric id) -> the number that experiment.xml has, read with the standard library."""
    found = {}
    for element in ElementTree.parse(path).iter():
        for value in element.findall("M"):
            if "i" in element.attrib:
                found[int(element.attrib["i"]), int(value.attrib["n"])] = float(value.attrib["v"])
    return found


def test_a_genuine_database_agrees_with_its_xml(cpi: Path) -> None:
    found = opened(cpi)
    rows = {metric.summary_id: row for row, metric in enumerate(found.metrics)}
    want = {(id_, rows[metric]): value for (id_, metric), value in stated(cpi / "experiment.xml").items()}
    assert by_id(found, int(found.profiles.summaries[0])) == want
    for (id_, row), value in want.items():
        context = int(np.flatnonzero(found.contexts.source_id == id_)[0])
        block = found.values.context(context)
        assert f"{block.value[block.metric == row].sum():.6g}" == f"{value:.6g}"
    assert found.values.totals(0, found.profiles.measured).sum() > 0
    assert list(FORMAT.check(Source.of(cpi), ReadOptions())) == []


def test_a_genuine_database_without_its_metric_db(cpi: Path, tmp_path: Path) -> None:
    for path in writable_copy(cpi, tmp_path / "data").glob("*.metric-db"):
        path.unlink()
    whole, alone = opened(cpi), opened(tmp_path / "data")
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        have, want = (e.totals("CPUTIME (usec)", scope) for e in (alone, whole))
        assert have == pytest.approx(want, rel=1e-5, abs=20)
    assert run("tree", str(tmp_path / "data"))[0] == 0


def exclusive_by_path(experiment: Experiment, quantity: str) -> dict[str, float]:
    """Exclusive cost by the functions and loops on the way: what lines, calls and roots are called differs."""
    tree, cost = experiment.contexts, experiment.totals(quantity, Scope.EXCLUSIVE)
    shown = (ContextKind.FUNCTION, ContextKind.INLINED, ContextKind.LOOP)
    paths: list[str] = []
    out: dict[str, float] = {}
    for context in range(tree.n_listed):
        above = paths[tree.parent[context]] if tree.parent[context] >= 0 else ""
        named = tree.kind[context] in shown and tree.label(context) != "<program root>"
        paths.append(above + (f"/{tree.label(context)}" if named else ""))
        out[paths[-1]] = out.get(paths[-1], 0.0) + float(cost[context])
    return {path: value for path, value in out.items() if value}


@pytest.mark.parametrize("generation", ["hpctoolkit-release", "hpctoolkit-prerelease"])
@pytest.mark.parametrize("name", ["plain20", "loops21", "inlined22"])
def test_costs_survive_where_function_scopes_nest_otherwise(name: str, generation: str, tmp_path: Path) -> None:
    """In 2.x a loop inside of another one counts for the function alone; in later databases for both."""
    source = opened(CORPUS_FOLDER / "hpctoolkit" / "legacy" / f"{name}.d")
    written = load(generation)
    assert isinstance(written, Writes)
    transfer(source, written.open_writer(tmp_path / "new.d", WriteOptions()))
    target = open_path(tmp_path / "new.d")
    assert isinstance(target, Experiment)
    for quantity in source.metrics.quantities:
        before, after = (exclusive_by_path(experiment, quantity) for experiment in (source, target))
        assert after == pytest.approx(before)
        assert sum(after.values()) == pytest.approx(target.root_total(quantity))
