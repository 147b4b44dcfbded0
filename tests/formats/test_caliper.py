"""Files of Caliper: by hand, against caliper-reader on the samples, folders as studies, and what is broken."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.analysis.overview import overview
from callgrove.binary.files import Source
from callgrove.errors import InputError
from callgrove.formats.caliper import alike, cali
from callgrove.formats.caliper.cali import Dialect, split_record
from callgrove.formats.caliper.format import read_file
from callgrove.formats.interface import Dumps, Grade
from callgrove.formats.registry import detect, open_path
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.study.from_runs import combination_for, fold
from callgrove.render.facts import facts_of, next_commands
from tests.cli.commands import Capture, run, said
from tests.exhaustive import try_examples
from tests.formats.damage import answers, chance
from tests.requirements import SHARED, each_of_shared, need_peer

SAMPLES = sorted((SHARED / "data" / "public" / "caliper").rglob("*.cali"))

# Attributes: function and region (nested), kernel (not nested), time (double, in seconds), count and mpi.rank (int).
ATTRIBUTES = """\
__rec=node,id=12,attr=10,data=64,parent=3
__rec=node,id=13,attr=8,data=attribute.unit,parent=12
__rec=node,id=14,attr=8,data=attribute.alias,parent=12
__rec=node,id=15,attr=10,data=268,parent=3
__rec=node,id=16,attr=8,data=function,parent=15
__rec=node,id=17,attr=8,data=region,parent=15
__rec=node,id=18,attr=10,data=12,parent=3
__rec=node,id=19,attr=8,data=cupti.kernel.name,parent=18
__rec=node,id=20,attr=13,data=sec,parent=5
__rec=node,id=21,attr=14,data=Time,parent=20
__rec=node,id=22,attr=10,data=65,parent=21
__rec=node,id=23,attr=8,data=sum#time.duration,parent=22
__rec=node,id=24,attr=10,data=65,parent=1
__rec=node,id=25,attr=8,data=count,parent=24
__rec=node,id=26,attr=8,data=mpi.rank,parent=24
__rec=node,id=27,attr=10,data=588,parent=1
__rec=node,id=28,attr=8,data=mpi.world.size,parent=27
__rec=node,id=29,attr=10,data=588,parent=3
__rec=node,id=30,attr=8,data=user,parent=29
__rec=node,id=31,attr=8,data=min#inclusive#sum#time.duration,parent=22
__rec=node,id=32,attr=8,data=avg#sum#time.duration,parent=22
"""
PATHS = """\
__rec=node,id=40,attr=16,data=main
__rec=node,id=41,attr=17,data=solve\\, fast\\=yes\\\\no,parent=40
__rec=node,id=42,attr=19,data=axpy<a\\,b>,parent=41
__rec=node,id=43,attr=19,data=dot,parent=41
"""
RECORDS = """\
__rec=ctx,attr=23=25,data=0.5=1
__rec=ctx,ref=40,attr=23=25,data=1.25=2
__rec=ctx,ref=42,attr=23=25,data=2=3
__rec=ctx,ref=43,attr=23=25,data=4=5
__rec=ctx,ref=41,attr=23=25,data=8=9
"""
GLOBALS = "__rec=node,id=50,attr=28,data=4\n__rec=node,id=51,attr=30,data=jane,parent=50\n__rec=globals,ref=51\n"


def write(text: str, folder: Path, name: str = "data") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def read(path: Path) -> Experiment:
    opened = open_path(path)
    assert isinstance(opened, Experiment)
    return opened


def totals(experiment: Experiment, metric: str, scope: Scope = Scope.EXCLUSIVE) -> dict[str, float]:
    values = experiment.totals(metric, scope)
    return {experiment.contexts.path(c): values[c] for c in np.flatnonzero(values).tolist()}


def test_paths_labels_and_metrics(tmp_path: Path) -> None:
    experiment = read(write(ATTRIBUTES + PATHS + RECORDS + GLOBALS, tmp_path))
    assert experiment.damage == ()
    solve = "main->solve, fast=yes\\no"
    costs = totals(experiment, "sum#time.duration")
    assert costs == {
        "[no region]": 0.5,
        "main": 1.25,
        solve: 8,
        f"{solve}->axpy<a,b>": 2,
        f"{solve}->dot": 4,
    }
    metric = experiment.metrics.first("sum#time.duration")
    assert (metric.unit, metric.description, metric.scope) == ("sec", "Time", Scope.EXCLUSIVE)
    assert experiment.totals("count", Scope.EXCLUSIVE).dtype.kind == "i"
    assert experiment.default_metric == "sum#time.duration"
    assert experiment.runs[0].parameters == {"p": 4}
    assert "jane" not in repr(experiment.runs) + repr(experiment.attributes)
    assert experiment.profiles.kind.tolist() == [ProfileKind.AGGREGATE]


def test_labels_that_all_records_share_are_no_contexts(tmp_path: Path) -> None:
    text = ATTRIBUTES + PATHS + "__rec=ctx,ref=42,attr=23,data=2\n"
    experiment = read(write(text, tmp_path))
    assert list(totals(experiment, "sum#time.duration")) == ["main->solve, fast=yes\\no"]
    assert experiment.runs[0].attributes["cupti.kernel.name"] == "axpy<a,b>"


def test_ranks_are_profiles(tmp_path: Path) -> None:
    text = ATTRIBUTES + PATHS + "".join(f"__rec=ctx,ref=40,attr=26=23,data={r}={r + 0.5}\n" for r in (2, 0, 1))
    experiment = read(write(text, tmp_path))
    assert [experiment.profiles.identifiers.rows(p)[0][2] for p in range(3)] == [0, 1, 2]
    assert experiment.matrix("sum#time.duration", Scope.EXCLUSIVE).tolist() == [[0.5, 1.5, 2.5]]


def test_scopes_and_rules_by_name(tmp_path: Path) -> None:
    text = ATTRIBUTES + PATHS + "__rec=ctx,ref=40,attr=31=32,data=1=2\n"
    metrics = {metric.name: metric for metric in read(write(text, tmp_path)).metrics}
    least, mean = metrics["min#inclusive#sum#time.duration"], metrics["avg#sum#time.duration"]
    assert (least.scope, least.aggregation) == (Scope.INCLUSIVE, Aggregation.MINIMUM)
    assert (mean.scope, mean.aggregation) == (Scope.EXCLUSIVE, Aggregation.NONE)


def test_escapes() -> None:
    assert split_record(rb"__rec=node,data=a\,b\=c\\d\ne=2,parent=") == {
        "__rec": [b"node"],
        "data": [b"a,b=c\\d\ne", b"2"],
        "parent": [b""],
    }


def test_integers_stay_exact(tmp_path: Path) -> None:
    large = 2**60 + 1
    experiment = read(write(ATTRIBUTES + PATHS + f"__rec=ctx,ref=40,attr=25,data={large}\n", tmp_path))
    assert experiment.totals("count", Scope.EXCLUSIVE).tolist() == [large]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("__rec=ctx,ref=99,attr=23,data=1", "refer to nodes which the file does not define"),
        ("__rec=ctx,ref=40,attr=99,data=1", "refer to nodes which the file does not define"),
        ("__rec=ctx,ref=40,attr=23,data=1=2", "other numbers of attributes and values"),
        ("__rec=ctx,ref=40,attr=23,data=x", "not finite numbers"),
        ("__rec=ctx,ref=40,attr=23,data=inf", "not finite numbers"),
        ("__rec=node,id=60,attr=16,data=f,parent=77", "below unknown nodes"),
        ("__rec=node,id=40,attr=16,data=again", "defines again"),
        ("what is this", "not records of Caliper"),
        (f"__rec=ctx,ref={'9' * 5000},attr=23,data=1", "which the file does not define"),
    ],
)
def test_what_is_broken_is_counted(line: str, words: str, tmp_path: Path, capsys: Capture) -> None:
    path = write(ATTRIBUTES + PATHS + RECORDS + line + "\n", tmp_path)
    experiment = read(path)
    assert [w.severity for w in experiment.damage] == [Severity.DAMAGE]
    assert words in str(experiment.damage[0].text)
    assert sum(totals(experiment, "sum#time.duration").values()) == 15.75
    assert "left out: 1 " in run(capsys, "check", path, code=3)


def test_deep_paths_cost_no_more_than_their_length(tmp_path: Path) -> None:
    n = 5_000
    steps = (f"__rec=node,id={100 + k},attr=16,data=f{k % 9}" for k in range(n))
    nodes = "".join(step + (f",parent={99 + k}\n" if k else "\n") for k, step in enumerate(steps))
    experiment = read(write(ATTRIBUTES + nodes + f"__rec=ctx,ref={99 + n},attr=23,data=1\n", tmp_path))
    assert len(experiment.contexts) == n


def test_json_split(tmp_path: Path) -> None:
    content = {
        "data": [[1, 0, None, 2.5], [2, 1, 1, 0.5], [3, 0, 0, None], [4, 0, 9, 1.0], ["x", 0, 0, 1.0]],
        "columns": ["count", "mpi.rank", "path", "sum#time.duration"],
        "column_metadata": [{"is_value": True}, {"is_value": True}, {"is_value": False}, {"is_value": True}],
        "nodes": [{"label": "main", "column": "path"}, {"label": "f", "column": "path", "parent": 0}],
        "mpi.world.size": "2",
    }
    path = write(json.dumps(content), tmp_path)
    assert detect(Source.of(path))[1].grade == Grade.STRONG
    experiment = read(path)
    assert totals(experiment, "count") == {"[no region]": 1, "main": 3, "main->f": 2}
    assert totals(experiment, "sum#time.duration") == {"[no region]": 2.5, "main->f": 0.5}
    assert "left out: 2 rows" in str(experiment.damage[0].text)
    assert experiment.runs[0].parameters == {"p": 2}


def test_a_folder_is_a_study(tmp_path: Path) -> None:
    for p in (2, 4, 8, 16, 32):
        for repetition in (1, 2):
            records = f"__rec=ctx,ref=40,attr=23,data={3 * p}\n__rec=ctx,ref=41,attr=23,data={p * p}\n"
            text = ATTRIBUTES + PATHS + records + GLOBALS.replace("data=4\n", f"data={p}\n")
            write(text, tmp_path, f"run{p}-{repetition}.cali")
    (tmp_path / "README").write_text("beside")
    experiment = read(tmp_path)
    assert [(run.parameters["p"], run.repetition) for run in experiment.runs[:3]] == [(2, 1), (2, 2), (4, 1)]
    study = fold(experiment, combination=combination_for(experiment))
    series = {(row[0], row[2]): row[4] for row in study.table().rows()}
    assert series["main", 8] == 24
    (tmp_path / "broken.cali").write_text("__rec=ctx,ref=1\n")
    assert "a file was left out" in str(read(tmp_path).damage[0].text)


def test_files_that_say_different_things_are_runs_without_parameters(tmp_path: Path) -> None:
    write(ATTRIBUTES + PATHS + RECORDS + GLOBALS, tmp_path, "a.cali")
    write(ATTRIBUTES + PATHS + RECORDS, tmp_path, "b.cali")
    experiment = read(tmp_path)
    assert [run.parameters for run in experiment.runs] == [{}, {}]
    with pytest.raises(InputError, match=r"b.cali does not say mpi.world.size"):
        fold(experiment)


def test_time_series_are_counters(shared: Path) -> None:
    experiment = read(shared / "data" / "public" / "caliper" / "timeseries.cali")
    counters = experiment.traces.counters
    assert counters is not None
    assert len(counters) > 0
    facts = overview(experiment)
    assert f"{len(counters):,} values over time" in dict(facts_of(facts))["counters"]
    assert "callgrove summary t" in list(next_commands(facts, "t"))
    assert len(experiment.metrics) == 0


ASK = """
import caliperreader, json, sys
reader = caliperreader.CaliperReader()
reader.read(sys.argv[1])
out = {}
for record in reader.records:
    path = "->".join(record.get("path", []) if isinstance(record.get("path", []), list) else [record["path"]])
    for key, value in record.items():
        attribute = None if key == "path" else reader.attribute(key)
        if attribute is not None and attribute.is_value() and attribute.attribute_type() in ("int", "uint", "double"):
            out.setdefault(key, {}).setdefault(path, []).append(float(value))
print(json.dumps(out))
"""


@each_of_shared("path", SAMPLES, ids=lambda path: path.name)
def test_sums_are_those_of_caliper_reader(path: Path, shared: Path) -> None:
    python = need_peer("caliper")
    asked = json.loads(subprocess.run([python, "-c", ASK, path], capture_output=True, text=True, check=True).stdout)
    experiment = read(path)
    for metric in experiment.metrics:
        if metric.aggregation == Aggregation.SUM and path.name != "spotdb_0.cali":
            stored = experiment.values.totals(experiment.metrics.rows.index(metric), experiment.profiles.measured)
            expected = sum(sum(values) for values in asked[metric.name].values())
            assert float(stored.sum()) == pytest.approx(expected, rel=1e-12)


def numbers_by_path(path: Path, dialect: Dialect | None = None) -> dict[tuple[str, str], list[float]]:
    """Return every number of a file's records, by the attribute and the call path, as they are read."""
    records = read_file(path, dialect)
    paths: list[str] = []
    for parent, value in zip(records.paths.parent, records.paths.value, strict=True):
        paths.append(f"{paths[parent]}->{value}" if parent >= 0 else value)
    out: dict[tuple[str, str], list[float]] = {}
    for table in records.tables:
        for name, column in table.columns.items():
            for head, number in zip(table.head.tolist(), column.tolist(), strict=True):
                at = records.heads[head][0]
                out.setdefault((name, paths[at] if at >= 0 else ""), []).append(number)
    return {key: sorted(values) for key, values in out.items()}


@each_of_shared("path", SAMPLES, ids=lambda path: path.name)
def test_every_number_is_that_of_caliper_reader(path: Path, shared: Path) -> None:
    python = need_peer("caliper")
    asked = json.loads(subprocess.run([python, "-c", ASK, path], capture_output=True, text=True, check=True).stdout)
    asked.pop("timeseries.starttime", None)  # records have it twice: caliper-reader takes the second, the end
    theirs = {(name, at): sorted(values) for name, by_path in asked.items() for at, values in by_path.items()}
    assert {key: numbers for key, numbers in numbers_by_path(path).items() if key[0] in asked} == theirs


def test_records_of_one_shape_are_read_as_by_lines(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_lines = [numbers_by_path(path) for path in SAMPLES]
    monkeypatch.setattr(alike, "FEWEST", 0)
    texts: list[alike.AlikeText] = []
    parse = alike.AlikeText.parse

    def note(text: alike.AlikeText) -> alike.AlikeRecords | None:
        texts.append(text)
        return parse(text)

    monkeypatch.setattr(alike.AlikeText, "parse", note)
    assert [numbers_by_path(path) for path in SAMPLES] == by_lines
    # as counted with grep, less the few lines of other shapes; two samples have too many of these
    assert sum(text.n_records for text in texts) == 2123 + 24 + 20 + 5 * 45


NUMBERS = st.sampled_from(
    ["0", "2.5", "0.000125", "17", "1.", ".5", "9007199254740993", "3" * 30, "0.1234567890123456789"]
)
BROKEN = st.sampled_from(["", "1.2.3", "-4", "1e-5", "x", "7 8", "1\\=2"])


@st.composite
def many_records(draw: st.DrawFn) -> str:
    """Records that are mostly alike, of which some have other shapes, or are broken."""
    numbers = st.one_of(NUMBERS, BROKEN) if draw(st.booleans()) else NUMBERS
    attributes = draw(st.sampled_from([["23=25"], ["23=25", "25=23"], ["23=25", "2.3=25", "=25", "23="]]))
    has_nodes = draw(st.booleans())
    lines = []
    for _ in range(draw(st.integers(1, 40))):
        kind = draw(st.integers(0, 12))
        nodes = [40, 42, 43, 99 if kind == 1 else 41]
        ref = "" if kind == 0 or not has_nodes else f"ref={draw(st.sampled_from(nodes))},"
        ref = "ref=4.0," if kind == 2 else ref
        named = draw(st.sampled_from(attributes))
        lines.append(f"__rec=ctx,{ref}attr={named},data={draw(numbers)}={draw(st.integers(0, 99))}")
        if kind == 3:
            lines.append(draw(st.sampled_from(["__rec=node,id=60,attr=16,data=f", "noise", "__re1c=ctx,ref=40", ""])))
    return "\n".join(lines) + "\n"


@try_examples(80)
@given(text=many_records())
def test_drawn_records_are_read_as_by_lines(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write(ATTRIBUTES + PATHS + "__rec=ctx,attr=25,data=1\n" + text, tmp_path_factory.getbasetemp(), "drawn.cali")
    out = []
    for fewest in (0, 1 << 30):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(alike, "FEWEST", fewest)
            out.append((numbers_by_path(path), read_file(path).left_out.counts))
    # a number with a fraction makes doubles of all that are read with it, and these need not be the same ones
    doubles = {key[0] for numbers, _ in out for key, values in numbers.items() if {float} & set(map(type, values))}
    for numbers, _ in out:
        for key in numbers:
            numbers[key] = list(map(float, numbers[key])) if key[0] in doubles else numbers[key]
    assert out[0] == out[1]


def test_files_are_read_alike_alone_and_after_others(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of nodes mean other things in other files, and what was kept may be dropped."""
    for most in (1 << 16, 5):
        monkeypatch.setattr(cali, "MOST_KNOWN", most)
        dialect = Dialect()
        assert all(numbers_by_path(path, dialect) == numbers_by_path(path) for path in SAMPLES)


@each_of_shared("name", ["lulesh-annotation-profile.json", "cpi-callpath-profile.json"])
def test_every_number_of_a_json_split(name: str, shared: Path) -> None:
    path = shared / "data/public/caliper" / name
    parts = json.loads(path.read_text())
    columns, nodes = parts["columns"], parts["nodes"]
    call_path = "path" if "path" in columns else "source.function#callpath.address"

    def spell(node: int | None) -> str:
        if node is None:
            return ""
        above = nodes[node].get("parent")
        return f"{spell(above)}->{nodes[node]['label']}" if above is not None else str(nodes[node]["label"])

    theirs: dict[tuple[str, str], list[float]] = {}
    for row in parts["data"]:
        for column, about, cell in zip(columns, parts["column_metadata"], row, strict=True):
            if about["is_value"] and cell is not None:
                theirs.setdefault((column, spell(row[columns.index(call_path)])), []).append(cell)
    assert numbers_by_path(path) == {key: sorted(values) for key, values in theirs.items()}


def test_damage(tmp_path: Path) -> None:
    """Cut anywhere and with flipped bits: only errors for users."""
    data, rng = (ATTRIBUTES + PATHS + RECORDS + GLOBALS).encode(), chance("caliper")
    for k in range(12):
        broken = bytearray(data[: rng.randrange(len(data))] if k % 2 else data)
        for _ in range(0 if k % 2 else 8):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        path = tmp_path / "data"
        path.write_bytes(broken)
        answers(path, f"case {k}", ("info",), ("check",), ("export", "--table", "values"))


def test_dump_and_refusals(tmp_path: Path, capsys: Capture) -> None:
    path = write(ATTRIBUTES + PATHS + RECORDS, tmp_path)
    format_ = detect(Source.of(path))[0]
    assert isinstance(format_, Dumps)
    fields = list(format_.dump(Source.of(path)))
    assert [f.value for f in fields if f.name == "data"][-1] == "8=9"
    empty = write("__rec=node,id=12,attr=10,data=64,parent=3\n", tmp_path, "empty")
    assert "no record with a number" in said(capsys, "info", empty, code=3)
    unknown = write("__rec=node,id=12,attr=99,data=64,parent=3\n", tmp_path, "unknown")
    assert "1 nodes of unknown attributes" in said(capsys, "info", unknown, code=3)


# Files of one program: the third one is read by the outline of the first two.


def _read_in_turn(texts: list[str], folder: Path) -> list[tuple[object, ...]]:
    """Return what one reader makes of files that it reads one after the other."""
    dialect = Dialect()
    out: list[tuple[object, ...]] = []
    for number, text in enumerate(texts):
        records = read_file(write(text, folder, f"{number}.cali"), dialect)
        tables = [
            ([records.heads[h] for h in t.head.tolist()], {n: (c.dtype, c.tolist()) for n, c in t.columns.items()})
            for t in records.tables
        ]
        facts = {name: fact.value for name, fact in records.globals.items()}
        out.append((tables, facts, list(records.attributes), records.left_out.counts))
    return out


def _program(size: int, factor: float, kernel: str = "dot") -> str:
    records = "".join(
        f"__rec=ctx,ref={node},attr=23=25,data={factor * node:.6f}={node}\n__rec=ctx,attr=23,data={factor}\n"
        for node in (40, 41, 42, 43)
    )
    return (ATTRIBUTES + PATHS + records + GLOBALS.replace("data=4", f"data={size}")).replace("=dot", f"={kernel}")


OTHERS = {
    "other numbers": _program(16, 0.125),
    "another name": _program(4, 0.5, "ddot"),
    "negative numbers": _program(4, -0.5),
    "large numbers": _program(4, 2.0**60),
    "no number": _program(4, 0.5).replace("=42\n", "=forty-two\n"),
    "a number too many and one too few": _program(4, 0.5).replace("=42\n", "=42=7\n").replace("=43\n", "\n"),
    "a record more": _program(4, 0.5) + "__rec=ctx,ref=40,attr=23,data=1\n",
    "an escaped fact": _program(4, 0.5).replace("data=jane", "data=ja\\\\ne"),
    "an unknown node": _program(4, 0.5).replace("ref=42", "ref=77"),
    "a line that breaks off": _program(4, 0.5) + "__rec=ct",
    "a fact that records name": _program(4, 0.5).replace("ref=42", "ref=42=50"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=list(OTHERS))
def test_files_that_are_alike_are_read_as_alone(other: str, tmp_path: Path) -> None:
    usual = _program(4, 0.5)
    for texts in ([usual, usual, other], [other, other, other.replace("=jane", "=joe").replace("data=4,", "data=8,")]):
        after_others = _read_in_turn(texts, tmp_path)
        assert after_others == [_read_in_turn([text], tmp_path)[0] for text in texts]


def test_alike_files_are_not_taken_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken_apart: list[int] = []
    as_before = cali.CaliReader._read_lines

    def read_lines(reader: cali.CaliReader, data: bytes) -> object:
        taken_apart.append(len(data))
        return as_before(reader, data)

    monkeypatch.setattr(cali.CaliReader, "_read_lines", read_lines)
    for run_number in range(6):
        write(_program(2**run_number, 1 / (1 + run_number)), tmp_path, f"run{run_number}.cali")
    experiment = read(tmp_path)
    assert len(taken_apart) == 2
    assert [one.parameters for one in experiment.runs] == [{"p": 2**k} for k in range(6)]
    costs = totals(experiment, "sum#time.duration")
    assert costs["main"] == pytest.approx(sum(40 / (1 + k) for k in range(6)), abs=1e-5)


def test_records_with_other_numbers_of_values_are_broken(tmp_path: Path) -> None:
    text = ATTRIBUTES + PATHS + RECORDS + "__rec=ctx,ref=40,attr=23=25,data=1\n__rec=ctx,ref=40,attr=23=25,data=2=3=4\n"
    experiment = read(write(text, tmp_path))
    assert totals(experiment, "sum#time.duration")["main"] == 1.25
    assert "2 records with other numbers" in " ".join(warning.text for warning in experiment.damage)
