"""Cube files that we write: read back equal by us and by pycubexr, in the dialect that CubeLib's parser accepts."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.errors import UsageError
from callgrove.formats.cube.clusters import expand_clusters
from callgrove.formats.interface import LossReport, WriteOptions, Writes
from callgrove.formats.registry import load, open_path
from callgrove.formats.writing.transfer import transfer
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.values import DenseBlock, SparseBlock
from tests.formats import contract
from tests.formats.cube import raw_cubes
from tests.formats.cube.raw_cubes import Cube, RawMetric, r1
from tests.formats.cube.test_containers import SLOPPY, shuffled
from tests.formats.cube.test_values import COMPOSITE, PLAIN, cells, opened, row
from tests.formats.samples import CORPUS
from tests.requirements import SHARED, need_module

SELF_CLOSING = ("attr", "parameter", "dim")


def written(found: Experiment, target: Path, dialect: str = "", to: str = "cube") -> tuple[Experiment, LossReport]:
    format_ = load(to)
    assert isinstance(format_, Writes)
    report = transfer(found, format_.open_writer(target, WriteOptions(dialect)))
    return opened(target), report


def anchor_of(path: Path) -> str:
    with tarfile.open(path, ignore_zeros=True) as archive:  # CubeLib's block after an attachment
        member = archive.extractfile("anchor.xml")
        assert member is not None
        return member.read().decode()


def check_bytes(path: Path) -> None:
    """The rules of the specification's list of what CubeLib's parser rejects."""
    data = path.read_bytes()
    with tarfile.open(path) as archive:
        names, sizes = archive.getnames(), [m.size for m in archive.getmembers()]
        assert [m.mode for m in archive.getmembers()] == [0o600] * len(names)
    assert names[-1] == "anchor.xml"
    assert not [size for size in sizes if size % 512 == 0]
    assert data.endswith(bytes(1024))
    stems = [name.rpartition(".")[0] for name in names if name.endswith(".data")]
    for stem in stems:
        assert names.index(f"{stem}.index") == names.index(f"{stem}.data") + 1
    text = anchor_of(path)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<cube version="4.')
    assert "\r" not in text
    assert not re.search(r"<!--|<!DOCTYPE|standalone", text)
    assert set(re.findall(r"<(\w+)[^<>]*/>", text)) <= set(SELF_CLOSING)
    assert not re.search(r"<\w+(?: [^<>]*)?'", re.sub(r'"[^"]*"', "", text))
    for word in ("cnode id", "location Id", "metric id"):
        ids = [int(n) for n in re.findall(f'<{word}="(\\d+)"', text)]
        assert sorted(ids) == list(range(len(ids))), word
    names = re.findall(r"<uniq_name>(.*?)</uniq_name>", text)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.:+-]+", name) for name in names)
    for cnode in re.findall(r"<cnode[^>]*>(.*?)(?=<cnode|</cnode>)", text, re.DOTALL):
        assert re.fullmatch(r"\s*(<parameter[^>]*/>\s*)*(<attr[^>]*/>\s*)*", cnode)


@pytest.mark.parametrize("dialect", ["plain", "compressed"])
def test_the_reference_cube_survives(dialect: str, tmp_path: Path) -> None:
    found = opened(r1().write(tmp_path / "r1.cubex"))
    again, report = written(found, tmp_path / "again.cubex", dialect)
    assert report.losses == []
    check_bytes(tmp_path / "again.cubex")
    for metric in found.metrics.quantities:
        for scope in ("stored", "exclusive", "inclusive"):
            assert cells(again, metric, scope) == cells(found, metric, scope)
    assert row(cells(again, "time", "exclusive"), 0) == [10, 1, 12, 3]


@pytest.mark.parametrize("dialect", ["plain", "compressed"])
@pytest.mark.parametrize("dtype", [*PLAIN, *COMPOSITE])
def test_every_type_is_written(dtype: str, dialect: str, tmp_path: Path) -> None:
    values: Any = COMPOSITE[dtype][0] if dtype in COMPOSITE else (1, 2, 0, 100)
    cube = Cube(raw_cubes.R1_TREE, [RawMetric("m", "EXCLUSIVE", dtype, {5: values, 1: values})])
    found = opened(cube.write(tmp_path / "x.cubex", big=True))
    again, report = written(found, tmp_path / "y.cubex", dialect)
    assert report.losses == []
    assert again.metrics[0].dtype == dtype
    for profile in range(4):
        a, b = found.values.profile(profile), again.values.profile(profile)
        assert a.value.tobytes() == b.value.tobytes()
        assert a.context.tolist() == b.context.tolist()


def test_ids_and_orders_of_shuffled_trees(tmp_path: Path) -> None:
    found = opened(shuffled().write(tmp_path / "x.cubex", zipped=True, big=True))
    again, report = written(found, tmp_path / "y.cubex")
    assert report.losses == []
    assert again.contexts.source_id.tolist() == found.contexts.source_id.tolist()
    for metric in ("own", "all", "simple"):
        assert cells(again, metric) == cells(found, metric)
    assert 'type="SIMPLE"' in anchor_of(tmp_path / "y.cubex")


def test_all_metadata_survives(tmp_path: Path) -> None:
    cube = r1()
    cube.head = (
        '<attr key="Creator" value="Score-P &lt;8&gt;"/><attr key="note" value="a&#10;b"/>'
        "<doc><mirrors><murl>http://a/?x=1&amp;y=2</murl></mirrors></doc>"
    )
    cube.cnode_more = {
        1: '<parameter partype="numeric" parkey="n" parvalue="-3"/>'
        '<parameter partype="string" parkey="m&quot;" parvalue="a&lt;b&amp;c"/><attr key="c" value="d"/>',
        2: '<parameter partype="numeric" parkey="x" parvalue="1.50"/>',
    }
    cube.attachments = [("remapping.spec", b"<metrics/>"), ("a file.bin", bytes(512)), ("notes.txt", b"n" * 1024)]
    carts = (
        '<topologies><cart name="&lt;grid&gt;" ndims="1"><dim name="x" size="4" periodic="true"/>'
        '<coord locId="2">3</coord>'
        '<coord lgId="1">0</coord></cart><cart ndims="1"><dim size="2" periodic="false"/></cart></topologies>'
    )
    text = cube.anchor().replace("</metrics>", SLOPPY).replace("</system>", carts + "</system>")
    text = text.replace("<metrics>", '<metrics title="t &amp; u">').replace(
        "<descr></descr>", "<descr>what it is</descr>"
    )
    text = text.replace(
        "<class>machine</class>", '<class>machine</class><descr>big</descr><attr key="platform" value="L"/>'
    )
    found = opened(cube.write(tmp_path / "x.cubex", {"anchor.xml": text.encode()}))
    again, report = written(found, tmp_path / "y.cubex")
    assert report.losses == []
    text = anchor_of(tmp_path / "y.cubex")
    assert 'cubeplaggrtype="plus"' in text
    assert 'rowwise="false"' in text
    assert again.metrics.rows == found.metrics.rows
    assert again.contexts.parameters == found.contexts.parameters
    assert again.contexts.attributes == found.contexts.attributes
    assert again.contexts.regions.details == found.contexts.regions.details
    assert again.system.attributes == found.system.attributes
    assert again.system.kind == found.system.kind
    for a, b in zip(again.system.topologies, found.system.topologies, strict=True):
        assert (a.name, a.sizes, a.periodic, a.dimension_names) == (b.name, b.sizes, b.periodic, b.dimension_names)
        assert a.system.tolist() == b.system.tolist()
        assert a.coordinates.tolist() == b.coordinates.tolist()
    kept = {k: v for k, v in again.attributes.items() if k in found.attributes}
    assert kept == dict(found.attributes)
    assert again.attributes["CLUSTERING"] == "OFF"
    blobs = {name: a.read() for name, a in again.attachments.items()}
    assert blobs == {"remapping.spec": b"<metrics/>", "a file.bin": bytes(512), "notes.txt": b"n" * 1024 + b"\n"}


def test_rows_of_nothing_are_left_out_but_a_minimum_of_zero_is_something(tmp_path: Path) -> None:
    zero = {0: (0, 0, 0, 0), 1: (1, 0, 0, 0)}
    cube = Cube(
        raw_cubes.R1_TREE, [RawMetric("a", "EXCLUSIVE", "DOUBLE", zero), RawMetric("b", "EXCLUSIVE", "MINDOUBLE", zero)]
    )
    cube.metrics.append(RawMetric("c", "EXCLUSIVE", "DOUBLE", {0: (0, 0, 0, 0)}, 2))
    found = opened(cube.write(tmp_path / "x.cubex"))
    written(found, tmp_path / "y.cubex")
    with tarfile.open(tmp_path / "y.cubex") as archive:
        sizes = {m.name: m.size for m in archive.getmembers()}
    assert sizes["0.index"] == 22 + 4
    assert sizes["1.index"] == 22 + 8
    assert "2.index" not in sizes


def test_clustered_trees_are_written_as_stored(tmp_path: Path) -> None:
    found = opened(clustered(tmp_path / "c.cubex"))
    again, report = written(found, tmp_path / "again.cubex")
    assert report.losses == []
    assert {k: v for k, v in again.attributes.items() if k.startswith("CLUSTER")} == CLUSTERING
    assert again.contexts.source_id.tolist() == found.contexts.source_id.tolist()
    expanded, _ = written(expand_clusters(found), tmp_path / "expanded.cubex")
    assert [k for k in expanded.attributes if k.startswith("CLUSTER ")] == []
    assert expanded.attributes["CLUSTERING"] == "OFF"


CLUSTERING = {
    "CLUSTERING": "ON",
    "CLUSTER ROOT CNODE ID": "1",
    "CLUSTER PROCESS NUM": "2",
    "CLUSTER ITERATION COUNT": "3",
    "CLUSTER MAPPING 0": "2,2",
    "CLUSTER MAPPING 1": "4,2",
    "CLUSTER MAPPING 2": "4,4",
}


def clustered(path: Path, **changes: str) -> Path:
    """The cube R-clu of the specification."""
    tree: list[raw_cubes.Node] = [
        (0, "main", [
            (1, "iter", [(2, "instance=1", [(3, "work", [])]), (4, "instance=2", [(5, "work", []), (6, "bar", [])])]),
            (7, "fin", []),
        ])
    ]  # fmt: skip
    visits = {
        0: (1, 0, 1, 0),
        2: (1, 1, 2, 2),
        3: (1, 1, 2, 2),
        4: (2, 2, 1, 1),
        5: (2, 2, 1, 1),
        6: (2, 2, 1, 1),
        7: (1,) * 4,
    }
    time = {
        0: (1,) * 4, 2: (10, 11, 20, 22), 3: (4, 5, 8, 10), 4: (30, 32, 15, 16), 5: (6, 8, 3, 4), 6: (2, 4, 1, 2),
        7: (7,) * 4,
    }  # fmt: skip
    metrics = [
        RawMetric("visits", "EXCLUSIVE", "UINT64", visits),
        RawMetric("time", "EXCLUSIVE", "DOUBLE", time),
        RawMetric("lo", "EXCLUSIVE", "MINDOUBLE", {k: [v / 2 for v in r] for k, r in time.items()}),
    ]
    said = {**CLUSTERING, **{key.replace("_", " "): value for key, value in changes.items()}}
    cube = Cube(tree, metrics, head="".join(f'<attr key="{k}" value="{v}"/>' for k, v in said.items() if v))
    return cube.write(path)


def test_clusters_follow_cnodes_that_are_numbered_anew(tmp_path: Path) -> None:
    path = clustered(tmp_path / "c.cubex")
    found = opened(path)
    gap = Path(tmp_path / "gap.cubex")
    data = path.read_bytes().replace(b'<cnode id="7"', b'<cnode id="9"')
    gap.write_bytes(data.replace(b'MAPPING 0" value="2,2"', b'MAPPING 0" value="2,4"'))
    again, _ = written(opened(gap), tmp_path / "again.cubex")
    assert again.contexts.source_id.tolist() == list(range(8))
    assert again.attributes["CLUSTER MAPPING 0"] == "2,4"
    assert len(expand_clusters(again).contexts) > len(found.contexts)


def test_damage_of_the_input_is_told(tmp_path: Path) -> None:
    _, report = written(opened(r1().write(tmp_path / "x.cubex", {"0.index": b"?"})), tmp_path / "y.cubex")
    assert any(loss.startswith("damaged parts of the input: 1") for loss in report.losses)


def test_iterations_of_clusters(tmp_path: Path) -> None:
    found = expand_clusters(opened(clustered(tmp_path / "c.cubex")))
    paths = {found.contexts.path(c): int(found.contexts.source_id[c]) for c in range(len(found.contexts))}
    assert list(paths)[:4] == ["main", "main->iter", "main->iter->iteration=0", "main->iter->iteration=0->work"]
    time, low = cells(found, "time"), cells(found, "lo")
    expected = {
        "iteration=0": [10, 11, 10, 11], "iteration=0->work": [4, 5, 4, 5],
        "iteration=1": [15, 16, 10, 11], "iteration=1->work": [3, 4, 4, 5], "iteration=1->bar": [1, 2, 0, 0],
        "iteration=2": [15, 16, 15, 16], "iteration=2->work": [3, 4, 3, 4], "iteration=2->bar": [1, 2, 1, 2],
    }  # fmt: skip
    assert {name: row(time, paths[f"main->iter->{name}"]) for name in expected} == expected
    assert row(cells(found, "visits"), paths["main->iter->iteration=1->bar"]) == [1, 1, 0, 0]
    assert row(low, paths["main->iter->iteration=0"]) == [5, 5.5, 10, 11]
    assert low[paths["main->iter->iteration=1->bar"]] == {0: 1, 1: 2}
    assert row(cells(found, "time", "inclusive"), paths["main->iter"]) == [52, 60, 47, 54]
    assert row(cells(found, "time", "inclusive"), paths["main"]) == [60, 68, 55, 62]


@pytest.mark.parametrize(
    "change",
    [
        {"CLUSTER_MAPPING_1": ""},
        {"CLUSTER_MAPPING_1": "4"},
        {"CLUSTER_MAPPING_1": "4,6"},
        {"CLUSTER_MAPPING_1": "4,x"},
        {"CLUSTER_ROOT_CNODE_ID": "99"},
        {"CLUSTERING": "OFF"},
    ],
)
def test_inconsistent_clusters_leave_the_stored_tree(change: dict[str, str], tmp_path: Path) -> None:
    found = opened(clustered(tmp_path / "c.cubex", **change))
    assert len(found.contexts) == 8
    with pytest.raises(UsageError):
        expand_clusters(found)


# -- from other formats and back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", ["release", "prerelease"])
@pytest.mark.parametrize("name", ["pth4.d", "mpi4.d"])
def test_hpctoolkit_to_cube(generation: str, name: str, tmp_path: Path) -> None:
    found = open_path(CORPUS / "hpctoolkit" / generation / name)
    assert isinstance(found, Experiment)
    again, report = written(found, tmp_path / "x.cubex", "compressed")
    check_bytes(tmp_path / "x.cubex")
    for quantity, other in zip(found.metrics.quantities, again.metrics.quantities, strict=True):
        n = found.contexts.n_listed
        for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
            ours = again.matrix(other, scope)
            assert ours == pytest.approx(found.matrix(quantity, scope)[:n], rel=1e-9, abs=1e-9)
    assert again.profiles.identity_list("thread") == [
        found.profiles.identity_list("thread")[p] for p in found.profiles.measured.tolist()
    ]
    told = " ".join(report.losses)
    for word in ("names of metrics", "elided contexts", "kinds of contexts", "scopes"):
        assert word in told
    assert again.contexts.n_listed == found.contexts.n_listed


def test_cube_to_hpctoolkit_and_back(tmp_path: Path) -> None:
    found = opened(r1().write(tmp_path / "x.cubex"))
    database, report = written(found, tmp_path / "x.d", to="hpctoolkit-release")
    assert "minima and maxima" in " ".join(report.losses)
    again, _ = written(database, tmp_path / "y.cubex")
    for metric in ("visits", "time", "bytes"):
        for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
            totals = dict(
                zip(map(again.contexts.path, range(len(again.contexts))), again.totals(metric, scope), strict=True)
            )
            for context in range(7):
                path = found.contexts.path(context)
                matches = [value for other, value in totals.items() if other.endswith(path)]
                assert matches == [found.totals(metric, scope)[context]], (metric, path)


def test_values_in_any_order_and_of_any_type(tmp_path: Path) -> None:
    """Sparse blocks by profile, and integers that are none any more."""
    builder = ExperimentBuilder("test", path="made")
    main = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    leaf = builder.add_context(main, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "leaf <a>"))
    for thread in range(3):
        builder.add_profile(ProfileKind.THREAD, [(3, thread, thread, 3)])
    mean = builder.add_metric(Metric("mean (count)", Scope.EXCLUSIVE, dtype="UINT64"))
    low = builder.add_metric(Metric("low", Scope.EXCLUSIVE, aggregation=Aggregation.MINIMUM))
    builder.add_values([2, 0, 1], [leaf, main, leaf], mean, [1.5, 2.0, 4.0])
    builder.add_values([1], [leaf], low, [0.0])
    found = builder.build()
    again, report = written(found, tmp_path / "x.cubex")
    check_bytes(tmp_path / "x.cubex")
    assert [m.dtype for m in again.metrics] == ["DOUBLE", "MINDOUBLE"]
    assert cells(again, "mean_count") == {0: {0: 2.0}, 1: {1: 4.0, 2: 1.5}}
    assert cells(again, "low") == {1: {1: 0.0}}
    assert any("becomes DOUBLE" in loss for loss in report.losses)
    assert again.contexts.name(1) == "leaf <a>"
    assert again.system.kind == ("machine", "node", "process", "thread", "thread", "thread")


def test_a_part_of_the_profiles_is_spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices that do not have all locations, and bands of one row: the same file."""
    monkeypatch.setattr("callgrove.formats.cube.writer.BAND", 4)
    monkeypatch.setattr("callgrove.formats.cube.writer.WAITING", 3)
    found = opened(r1().write(tmp_path / "x.cubex"))
    format_ = load("cube")
    assert isinstance(format_, Writes)
    writer = format_.open_writer(tmp_path / "y.cubex", WriteOptions())
    writer.define(found)
    for profile in (2, 0, 3, 1):
        for block in found.values.blocks(np.array([profile])):
            assert isinstance(block, DenseBlock)
            writer.write(block if profile % 2 else block.triples())
    writer.flush()
    writer.close()
    again = opened(tmp_path / "y.cubex")
    for metric in found.metrics.quantities:
        assert cells(again, metric) == cells(found, metric)


def test_nothing_is_left_of_a_writer_that_fails(tmp_path: Path) -> None:
    found = opened(r1().write(tmp_path / "x.cubex"))
    format_ = load("cube")
    assert isinstance(format_, Writes)
    with pytest.raises(UsageError, match="dialects"):
        format_.open_writer(tmp_path / "y.cubex", WriteOptions("odd"))
    with pytest.raises(UsageError, match="exists already"):
        format_.open_writer(tmp_path / "x.cubex", WriteOptions())
    writer = format_.open_writer(tmp_path / "y.cubex", WriteOptions())
    with pytest.raises(UsageError, match="define comes first"):
        writer.write(SparseBlock.empty())
    writer = format_.open_writer(tmp_path / "y.cubex", WriteOptions())
    writer.define(found)
    writer.abort()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.cubex"]


# -- another reader --------------------------------------------------------------------------------------------------


def stored_matrix(found: Experiment, row: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What the file holds, fillers included: contexts x profiles."""
    out = np.zeros((len(found.contexts), len(found.profiles)))
    block = found.values.metric(row)
    out[block.context, block.profile] = block.value
    return out


def compare_with_pycubexr(path: Path) -> int:
    """Every stored value of every plain metric, by pycubexr and by us; gives their number."""
    pycubexr = need_module("pycubexr")
    found, n = opened(path), 0
    cnodes, locations = found.contexts.source_id.tolist(), found.profiles.source_id.tolist()
    with pycubexr.CubexParser(str(path)) as other:
        nodes = {node.id: node for node in other.all_cnodes()}
        for row_, metric in enumerate(found.metrics):
            if metric.composite is not None or metric.is_derived or not len(found.values.metric(row_)):
                continue
            theirs = other.get_metric_values(other.get_metric_by_name(metric.name))
            ours = stored_matrix(found, row_)
            for context, cnode in enumerate(cnodes):
                values = theirs.cnode_values(nodes[cnode], convert_to_exclusive=False, convert_to_inclusive=False)
                plain = np.asarray(getattr(values, "_values", values), np.float64)  # minima have a class of their own
                mine = np.where(np.isfinite(ours[context]), ours[context], 0)
                assert np.array_equal(np.where(np.abs(plain) > 1e300, 0, plain), mine), (metric.name, cnode)
                n += len(locations)
    return n


def test_pycubexr_reads_what_we_write(tmp_path: Path) -> None:
    found = opened(r1().write(tmp_path / "x.cubex"))
    for dialect in ("plain", "compressed"):
        written(found, tmp_path / f"{dialect}.cubex", dialect)
        assert compare_with_pycubexr(tmp_path / f"{dialect}.cubex") == 5 * 7 * 4


@pytest.mark.parametrize("name", ["own/cube/mpi4/profile.cubex", "public/pycubexr/blast.p64.r1/profile.cubex"])
def test_pycubexr_reads_samples_that_we_wrote(name: str, shared: Path, tmp_path: Path) -> None:
    written(opened(SHARED / "data" / name), tmp_path / "x.cubex", "compressed")
    check_bytes(tmp_path / "x.cubex")
    assert compare_with_pycubexr(tmp_path / "x.cubex") > 500


def test_the_contract_of_written_samples(tmp_path: Path) -> None:
    """A generated file, as every sample: written, read back, equal."""
    contract.round_trip(opened(shuffled().write(tmp_path / "x.cubex", big=True)), tmp_path / "written.cubex")
