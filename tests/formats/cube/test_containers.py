"""Everything that may hold a Cube profile: archives, byte orders, indices, anchors. All variants say the same."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from callgrove.binary.files import Source
from callgrove.errors import NotEvaluated
from callgrove.formats.registry import detect, open_path
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.profiles import ProfileKind
from tests.formats.cube import raw_cubes
from tests.formats.cube.raw_cubes import BLOCK, Cube, Node, RawMetric, archive, header, index, packed, r1
from tests.formats.cube.test_values import cells, opened, row

# Ids are shuffled, so that taking an id for a position, or one order for the other, gives other numbers.
SHUFFLED: list[Node] = [
    (5, "main", [
        (2, "foo", [(7, "bar", []), (0, "MPI_Send", [])]), (4, "bar", [(1, "foo", [])]), (6, "MPI_Barrier", []),
    ]),
    (3, "other", [(8, "foo", [])]),
]  # fmt: skip
CHAIN: list[Node] = [(3, "main", [(1, "foo", [(0, "bar", [(2, "foo", [])])])])]


def shuffled(tree: list[Node] = SHUFFLED) -> Cube:
    ids = raw_cubes.preorder(tree)
    rows = {id_: tuple(10 * id_ + k for k in range(4)) for id_ in ids if id_ % 3}
    return Cube(
        tree,
        [
            RawMetric("own", "EXCLUSIVE", "UINT64", rows),
            RawMetric("all", "INCLUSIVE", "DOUBLE", rows),
            RawMetric("simple", "SIMPLE", "INT32", rows),
        ],
    )


VARIANTS: dict[str, dict[str, bool]] = {
    "plain": {},
    "zip": {"zipped": True},
    "big": {"big": True},
    "big zip": {"big": True, "zipped": True},
    "dense": {"dense": True},
    "dense zip": {"dense": True, "zipped": True},
    "gz anchor": {"gz_anchor": True},
    "big zip gz": {"big": True, "zipped": True, "gz_anchor": True},
    "big dense": {"big": True, "dense": True},
    "gz archive": {"gz_archive": True},
}


@pytest.mark.parametrize("tree", [SHUFFLED, CHAIN], ids=["two roots", "chain"])
@pytest.mark.parametrize("variant", list(VARIANTS))
def test_all_variants_say_the_same(variant: str, tree: list[Node], tmp_path: Path) -> None:
    cube = shuffled(tree)
    found = opened(cube.write(tmp_path / "data", None, **VARIANTS[variant]))
    assert not found.warnings
    for metric in cube.metrics:
        stored = cells(found, metric.name)
        wanted = {id_: {k: v for k, v in enumerate(values) if v} for id_, values in metric.rows.items()}
        assert stored == wanted, metric.name


def test_detection_needs_no_name(tmp_path: Path) -> None:
    for number, options in enumerate(VARIANTS.values()):
        path = shuffled().write(tmp_path / f"data{number}", None, **options)
        assert detect(Source.of(path))[0].name == "cube"
    first = r1()
    first.attachments = [("remapping.spec", b"x" * 111_000)]
    assert detect(Source.of(first.write(tmp_path / "spec")))[0].name == "cube"


def place_512(cube: Cube, what: str) -> dict[str, bytes]:
    members = cube.members()
    if what == "anchor last" or what == "anchor first":
        members["anchor.xml"] += b"\n" * (-len(members["anchor.xml"]) % BLOCK)
    elif what == "attachment":
        members = {"notes.bin": bytes(range(256)) * 2, **members, "more.bin": b"y" * 1024}
    elif what == "index":
        members["0.index"] += bytes(-len(members["0.index"]) % BLOCK)
    else:
        members["0.data"] += bytes(-len(members["0.data"]) % BLOCK)
    if what == "anchor first":
        members = {"anchor.xml": members.pop("anchor.xml"), **members}
    return members


@pytest.mark.parametrize("extra", [False, True], ids=["standard", "with CubeLib's block"])
@pytest.mark.parametrize("what", ["anchor last", "anchor first", "attachment", "index", "data"])
def test_members_whose_size_is_a_multiple_of_512(what: str, extra: bool, tmp_path: Path) -> None:
    members = place_512(r1(), what)
    assert any(data and len(data) % BLOCK == 0 for data in members.values())
    path = tmp_path / "data"
    path.write_bytes(archive(members.items(), extra_block=extra))
    found = opened(path)
    assert found.totals("time", Scope.INCLUSIVE)[0] == 128
    assert found.totals("bytes", Scope.INCLUSIVE)[0] == 1000
    assert {name: a.read() for name, a in found.attachments.items()} == {
        name: data for name, data in members.items() if name.endswith(".bin")
    }


@pytest.mark.parametrize("end", [0, 1, 2, 20])
def test_any_number_of_blocks_may_end_an_archive(end: int, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(archive(r1().members().items(), end=end))
    assert not opened(path).warnings


@pytest.mark.parametrize(("checksum", "notes"), [(0, 0), (-32, 0), (7, 11)])
def test_wrong_checksums_are_told_but_for_the_known_bug(checksum: int, notes: int, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(archive(r1().members().items(), checksum=checksum))
    found = opened(path)
    assert len(found.warnings) == notes
    assert not found.damage
    assert found.totals("time", Scope.INCLUSIVE)[0] == 128


def test_repacked_archives(tmp_path: Path) -> None:
    members = r1().members()
    pax = b"".join(
        header("PaxHeaders/x", len(line), kind=b"x") + line + bytes(-len(line) % BLOCK)
        + header("short", len(data)) + data + bytes(-len(data) % BLOCK)
        for name, data in members.items()
        for line in [b"%d path=./%s\n" % (len(name) + 12, name.encode())]
    )  # fmt: skip
    long_names = b"".join(
        header("././@LongLink", len(name) + 1, kind=b"L") + name.encode() + bytes(BLOCK - len(name))
        + header("x", len(data)) + data + bytes(-len(data) % BLOCK)
        for name, data in members.items()
    )  # fmt: skip
    gnu = archive(members.items(), magic=b"ustar  \0")
    dotted = archive(members.items(), prefix="./")
    folder = header("./", 0, kind=b"5") + dotted
    for number, data in enumerate((pax, long_names, gnu, dotted, folder)):
        path = tmp_path / f"data{number}"
        path.write_bytes(data)
        assert opened(path).totals("time", Scope.INCLUSIVE)[0] == 128, number


def test_of_members_with_one_name_the_last_counts(tmp_path: Path) -> None:
    cube, path = r1(), tmp_path / "data"
    old = cube.anchor().replace("foo", "wrong").encode()
    path.write_bytes(archive([("anchor.xml", old), *cube.members().items()]))
    found = opened(path)
    assert [w.severity for w in found.warnings] == ["note"]
    assert "anchor.xml is there twice" in found.warnings[0].text
    assert found.contexts.name(1) == "foo"


def test_rows_are_found_by_their_place_and_not_by_their_order(tmp_path: Path) -> None:
    cube = r1()
    rows = [packed("DOUBLE", raw_cubes.R1_TIME_INCLUSIVE[id_], False) for id_ in raw_cubes.wide(cube.tree)]
    data = raw_cubes.zipped_data(rows, order=lambda numbers: [numbers[k] for k in (3, 0, 6, 2, 5, 1, 4)])
    found = opened(cube.write(tmp_path / "x", {"1.data": data}))
    assert not found.warnings
    assert {k: tuple(row(cells(found, "time"), k)) for k in range(7)} == raw_cubes.R1_TIME_INCLUSIVE


def test_an_unsorted_index_is_told_and_read(tmp_path: Path) -> None:
    rows = [packed("UINT64", raw_cubes.R1_VISITS[k], False) for k in (6, 0, 3)]
    changes = {"0.index": index([6, 0, 3]), "0.data": raw_cubes.plain_data(rows)}
    found = opened(r1().write(tmp_path / "x", changes))
    assert {k: tuple(row(cells(found, "visits"), k)) for k in (6, 0, 3)} == {
        k: raw_cubes.R1_VISITS[k] for k in (6, 0, 3)
    }
    assert [w.severity for w in found.warnings] == ["note"]


def test_an_index_without_a_count_is_that_of_an_empty_metric(tmp_path: Path) -> None:
    found = opened(r1().write(tmp_path / "x", {"0.index": index([])[:18], "0.data": b"CUBEX.DATA"}))
    assert not found.warnings
    assert cells(found, "visits") == {}


@pytest.mark.parametrize("kind", ["visits", "time"])
def test_a_metric_without_members_is_empty(kind: str, tmp_path: Path) -> None:
    number = {"visits": "0", "time": "1"}[kind]
    found = opened(r1().write(tmp_path / "x", {f"{number}.index": None, f"{number}.data": None}))
    assert not found.warnings
    assert cells(found, kind) == {}


def test_hidden_metrics_have_members_of_their_own(tmp_path: Path) -> None:
    ghost = RawMetric("g", "EXCLUSIVE", "DOUBLE", {1: (1, 2, 3, 4)}, more='viztype="GHOST"')
    cube = Cube(raw_cubes.R1_TREE, [ghost])
    assert "ghost_0.data" in cube.members()
    found = opened(cube.write(tmp_path / "x"))
    assert row(cells(found, "g"), 1) == [1, 2, 3, 4]
    assert not found.metrics[0].visible


# -- locations -------------------------------------------------------------------------------------------------------


def test_columns_are_in_the_order_of_ids(tmp_path: Path) -> None:
    cube = r1()
    cube.ids = (2, 0, 3, 1)
    found = opened(cube.write(tmp_path / "x"))
    assert found.profiles.source_id.tolist() == [0, 1, 2, 3]
    assert row(cells(found, "visits"), 1) == [10, 20, 30, 40]
    assert found.profiles.identity_list("rank") == [0, 1, 0, 1]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("by_id", [False, True])
def test_ids_with_gaps(by_id: bool, zipped: bool, tmp_path: Path) -> None:
    """A row has a column for each id, or one for each location: its size tells."""
    ids = (0, 1, 5, 6)
    wide_rows = {
        k: [dict(zip(ids, values, strict=True)).get(c, 99) for c in range(7)]
        for k, values in raw_cubes.R1_VISITS.items()
    }
    rows = wide_rows if by_id else raw_cubes.R1_VISITS
    cube = Cube(raw_cubes.R1_TREE, [RawMetric("visits", "EXCLUSIVE", "UINT64", rows)], ids)
    found = opened(cube.write(tmp_path / "x", zipped=zipped))
    assert cells(found, "visits")[1] == {0: 10, 1: 20, 5: 30, 6: 40}


def test_kinds_of_locations(tmp_path: Path) -> None:
    cube = r1()
    cube.version = "4.7"
    cube.system = raw_cubes.system((0, 1)).replace(
        "</systemtreenode>\n</systemtreenode>",
        '<locationgroup Id="7"><name>gpu</name><rank>3</rank><type>accelerator</type><location Id="2"><name>s</name>'
        "<rank>4</rank><type>accelerator stream</type></location></locationgroup>"
        '<locationgroup Id="8"><name>m</name><rank>0</rank><type>metrics</type><location Id="3"><name>p</name>'
        "<rank>0</rank><type>metric</type></location></locationgroup></systemtreenode></systemtreenode>",
    )  # fmt: skip
    found = opened(cube.write(tmp_path / "x"))
    assert [ProfileKind(int(k)).word for k in found.profiles.kind] == ["thread", "thread", "gpu stream", "metric"]
    assert found.profiles.identity_list("gpu_device") == [None, None, 3, None]
    assert found.profiles.identity_list("gpu_stream") == [None, None, 4, None]
    assert found.profiles.identity_list("node") == [1, 2, 2, 2]


def test_machines_and_nodes_of_old_anchors(tmp_path: Path) -> None:
    cube = Cube(raw_cubes.R1_TREE, [RawMetric("t", "", "INTEGER", {0: (5, 7)})], version="4.0")
    cube.system = (
        '<machine Id="0"><name>MSC</name><node Id="0"><name>Athena</name><process Id="0"><name>P</name><rank>0</rank>'
        '<thread Id="0"><name>T</name><rank>0</rank></thread></process><process Id="1"><name>P</name><rank>1</rank>'
        '<thread Id="1"><name>T</name><rank>1</rank></thread></process></node></machine><topologies><cart ndims="2">'
        '<dim size="5" periodic="true"/><dim size="5" periodic="false"/><coord thrdId="1">0 4</coord>'
        '<coord procId="0">1 1</coord><coord nodeId="0">2 2</coord></cart></topologies>'
    )
    found = opened(cube.write(tmp_path / "x"))
    assert found.system.kind == ("machine", "node", "process", "thread", "process", "thread")
    assert found.profiles.identity_list("rank") == [0, 1]
    assert found.profiles.identity_list("node") == [1, 1]
    (topology,) = found.system.topologies
    assert topology.periodic == (True, False)
    assert [found.system.name[k] for k in topology.system] == ["T", "P", "Athena"]
    assert topology.coordinates.tolist() == [[0, 4], [1, 1], [2, 2]]
    assert found.metrics[0].scope == Scope.EXCLUSIVE
    assert cells(found, "t") == {0: {0: 5, 1: 7}}


# -- anchors ---------------------------------------------------------------------------------------------------------


def edited(change: Callable[[str], str], path: Path) -> Experiment:
    cube = r1()
    return opened(cube.write(path, {"anchor.xml": change(cube.anchor()).encode()}))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.partition("?>\n")[2],
        lambda text: text.replace("<url></url>", "<url/>").replace("<descr></descr>", "<descr/>"),
        lambda text: text.replace('"', "'"),
        lambda text: text.replace("<metrics>", "<!-- a <comment> --><metrics>"),
        lambda text: text.replace("<name>foo", "<name><![CDATA[foo]]>"),
    ],
    ids=["BOM", "CRLF", "no declaration", "self-closing", "single quotes", "comment", "CDATA"],
)
def test_more_xml_than_cubelib_reads(change: Callable[[str], str], tmp_path: Path) -> None:
    found = edited(change, tmp_path / "x")
    assert not found.warnings
    assert found.contexts.name(1) == "foo"
    assert found.totals("time", Scope.INCLUSIVE)[0] == 128


@pytest.mark.parametrize(
    ("version", "notes"), [("4.0", 0), ("4.1", 0), ("4.3", 0), ("4.5", 0), ("4.7", 0), ("4.6", 1), ("4.9", 1)]
)
def test_versions(version: str, notes: int, tmp_path: Path) -> None:
    found = edited(lambda text: text.replace('version="4.4"', f'version="{version}"'), tmp_path / "x")
    assert found.version == version
    assert len(found.warnings) == notes


SLOPPY = """<metric id="5" type="PREDERIVED_EXCLUSIVE" convertible="false"><disp_name>D</disp_name>
<uniq_name>d</uniq_name><dtype>DOUBLE</dtype><uom>sec</uom><url>@mirror@d.html</url><descr>derived</descr>
<cubepl rowwise=false>{ if ( metric::time(e) < 3 ) { ${a} = "x & y"; }; return metric::visits(e) &lt; 2; }</cubepl>
<cubeplinit>{ global(a); ${i} = 0; while ( ${i} < 3 ) { ${i} = ${i} + 1; }; return 0; }</cubeplinit>
<cubeplaggr cubeplaggrtype=plus>max(arg1, arg2)</cubeplaggr><attr key="k" value="v"/></metric>
</metrics>"""


def test_derived_metrics_are_listed_with_their_expressions(tmp_path: Path) -> None:
    found = edited(lambda text: text.replace("</metrics>", SLOPPY), tmp_path / "x")
    (note,) = found.warnings
    where = "line 1, column 76: expected ';', found '<'"
    assert note.text.endswith(f"1 derived metric cannot be evaluated; the first is d: {where}")
    metric = found.metrics[5]
    assert metric.formula == '{ if ( metric::time(e) < 3 ) { ${a} = "x & y"; }; return metric::visits(e) < 2; }'
    assert metric.url == "@mirror@d.html"
    said = dict(metric.attributes)
    assert said["cube: cubeplinit"].count("<") == 1
    assert said["cube: cubeplaggr plus"] == "max(arg1, arg2)"
    assert said["cube: rowwise"] == "false"
    assert said["k"] == "v"
    with pytest.raises(NotEvaluated, match="d is a derived metric"):
        found.values.metric(5)


def test_regions_and_contexts(tmp_path: Path) -> None:
    def change(text: str) -> str:
        text = text.replace("<role>barrier</role>", "<role>loop</role>")
        return text.replace('<cnode id="2"', '<cnode id="2" line="17" mod="call.c"')

    found = edited(change, tmp_path / "x")
    tree, regions = found.contexts, found.contexts.regions
    assert [ContextKind(int(k)).word for k in tree.kind] == ["function"] * 6 + ["loop"]
    assert regions.files.paths[tree.column("file")[1]] == "m.c"
    assert tree.column("line").tolist()[:2] == [1, 10]
    assert regions.modules[tree.column("module")[3]] == "MPI"
    assert tree.column("file")[3] == -1
    assert (regions.files.paths[tree.call_file[2]], int(tree.call_line[2])) == ("call.c", 17)
    assert regions.details[int(tree.region[1])]["mangled_name"] == "_Z3foo"
    assert regions.text("paradigm")[int(tree.region[3])] == "mpi"


def test_attributes_titles_and_mirrors(tmp_path: Path) -> None:
    head = '<attr key="Creator" value="X &quot;1&quot;"/><doc><mirrors><murl>http://a/</murl><murl>http://b/</murl></mirrors></doc>'
    cube = r1()
    cube.head = head
    text = cube.anchor().replace("<program>", '<program title="a &amp; b">')
    found = opened(cube.write(tmp_path / "x", {"anchor.xml": text.encode()}))
    assert found.attributes["Creator"] == 'X "1"'
    assert found.attributes["cube: mirrors"] == "http://a/\nhttp://b/"
    assert found.attributes["cube: title of program"] == "a & b"


def test_ticks_of_thread_tuples_are_not_seconds(tmp_path: Path) -> None:
    rows = {0: [(1, 5.0, 5.0, 5.0, 25.0)] * 4, 1: [(1, 3.0, 3.0, 3.0, 9.0)] * 4}
    found = opened(Cube(raw_cubes.R1_TREE, [RawMetric("time", "EXCLUSIVE", "TAU_ATOMIC", rows)]).write(tmp_path / "x"))
    assert found.metrics[0].unit == "ticks"
    assert found.totals("time", Scope.INCLUSIVE)[0]["sum"] == 20


def test_one_metric_is_read_without_the_others(tmp_path: Path) -> None:
    cube = r1()
    rows = [packed("DOUBLE", raw_cubes.R1_TIME_INCLUSIVE[id_], False) for id_ in raw_cubes.wide(cube.tree)]
    broken = bytearray(raw_cubes.zipped_data(rows))
    broken[-40:] = bytes(40)
    found = opened(cube.write(tmp_path / "x", {"1.data": bytes(broken)}, zipped=True))
    assert found.totals("visits", Scope.EXCLUSIVE)[1] == 100
    assert not found.values.problems
    found.totals("time", Scope.EXCLUSIVE)
    assert found.values.problems


def test_a_scale_function_packs_its_measurements_behind_its_terms(tmp_path: Path) -> None:
    one = struct.pack("<II", 2, 1) + struct.pack("<diIi", 2.0, 2, 3, 4) + struct.pack("<diIi", 1.0, 1, 2, 3)
    one += struct.pack("<Idd", 64, 1.5, 0.25)
    cell = one + bytes(848 - len(one))
    cube = Cube(raw_cubes.R1_TREE, [RawMetric("f", "EXCLUSIVE", "SCALE_FUNC")])
    members = {"0.data": raw_cubes.plain_data([cell + bytes(848 * 3)]), "0.index": index([0])}
    found = opened(cube.write(tmp_path / "x", members))
    value = found.values.profile(0).value[0]
    assert value["terms"][:2].tolist() == [(2.0, 2, 3, 4), (1.0, 1, 2, 3)]
    assert value["measurements"][0].tolist() == (64, 1.5, 0.25)
    composite = found.metrics[0].composite
    assert composite is not None
    assert composite.describe is not None
    assert composite.describe(value)["measurements"] == [{"procs": 64, "mean": 1.5, "width": 0.25}]
    assert np.array_equal(found.values.scalar(0, found.values.profile(0).value), [2.0])


def test_a_gzipped_archive_of_several_parts(tmp_path: Path) -> None:
    data = archive(r1().members().items())
    (tmp_path / "x").write_bytes(gzip.compress(data[:3000]) + gzip.compress(data[3000:]) + bytes(100))
    assert isinstance(open_path(tmp_path / "x"), Experiment)
