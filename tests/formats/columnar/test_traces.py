"""What GPU traces have beside their spans goes through a folder: whatever is made of it is what the original gives."""

from __future__ import annotations

import json
import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from callgrove.analysis.summary import summarise, table
from callgrove.arrays import Array
from callgrove.errors import CorruptFile
from callgrove.examples import gpu_example
from callgrove.formats.columnar import row_groups as group_writer
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import open_path, writer_of
from callgrove.formats.writing.transfer import write_experiment
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Column, Table
from callgrove.model.traces.events import PARENT, ArraySpans, Device, SideTable, Traces
from callgrove.query.catalog import Catalog
from callgrove.query.sql import sql
from tests.cli.commands import Capture, run, said
from tests.exhaustive import some_of
from tests.formats.columnar.columnar_folders import (
    again,
    assert_same,
    digests,
    odd_experiment,
    sides_of,
    spans_of,
    traces_of,
)
from tests.formats.columnar.columnar_folders import written as write_as
from tests.formats.samples import CORPUS, samples
from tests.requirements import ROOT

OWN = ("small", "same_pid")
MADE = ("made/rocpd-folder", "made/rpd", "made/nsight", "made/rocpd-draft")
EXAMPLE = "the example"
MANY = 10_000  # spans: then only tables that have fewer rows are compared
SHORT = ("processes", "threads", "kernel_symbols", "pmc_info", "top", "busy", "domain_summary", "counters_collection")
VIEWERS = ("perfetto", "chrome-json", "rocprof-csv")


@dataclass(frozen=True)
class Pair:
    """What was opened, and the folder that was made of it."""

    opened: Experiment
    folder: Path
    path: Path | None

    @property
    def found(self) -> Experiment:
        found = open_path(self.folder)
        assert isinstance(found, Experiment)
        return found


# The largest one has nothing that the others do not have.
@pytest.fixture(scope="module", params=some_of([*MADE, *OWN, EXAMPLE], lambda name: name != "small"))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    name, path = str(request.param), None
    if name in OWN:
        path = request.getfixturevalue("shared") / "data" / "own" / "rocpd" / name
    elif name != EXAMPLE:
        path = next(sample.path for sample in samples() if sample.name == name)
    opened = gpu_example() if path is None else open_path(path)
    assert isinstance(opened, Experiment)
    folder = tmp_path_factory.mktemp("folder") / "x.cgrove"
    assert write_as(opened, folder).losses == []
    return Pair(opened, folder, path)


# -- the same of the folder as of the original -------------------------------------------------------------------------


@pytest.mark.parametrize("to", VIEWERS)
def test_viewers_get_the_same_bytes(pair: Pair, to: str, tmp_path: Path) -> None:
    losses = []
    for number, experiment in enumerate((pair.opened, pair.found)):
        (tmp_path / str(number)).mkdir()
        losses.append(write_as(experiment, tmp_path / str(number) / "out", to).losses)
    direct, over_the_folder = (digests(tmp_path / str(number)) for number in range(2))
    assert len(direct) > 0
    assert over_the_folder == direct
    assert losses[1] == losses[0]


def test_slices_with_all_notes_are_the_same(pair: Pair, tmp_path: Path) -> None:
    """Calls of calls and names of devices are among them."""
    for name, experiment in (("direct", pair.opened), ("folder", pair.found)):
        write_experiment(experiment, writer_of("chrome-json"), tmp_path / name, WriteOptions(annotations="all"))
    assert (tmp_path / "folder").read_bytes() == (tmp_path / "direct").read_bytes()


def test_every_table_of_sql_has_the_same_rows(pair: Pair) -> None:
    found, filled = pair.found, 0
    every = SHORT if pair.opened.traces.n_spans > MANY else tuple(Catalog((pair.opened,)).relations)
    for name in every:
        if name in ("inputs", "series"):  # the one names the input, the other is of studies
            continue
        query = f'SELECT * FROM "{name}"'
        answers = [sql(experiment, query, "sqlite") for experiment in (pair.opened, found)]
        assert answers[1].names == answers[0].names
        rows = [sorted(map(repr, answer.rows())) for answer in answers]
        assert rows[1] == rows[0], name
        filled += bool(rows[0])
    assert filled > len(every) // 3


def test_summaries_are_the_same(pair: Pair, capsys: Capture) -> None:
    assert repr(list(table(summarise(pair.found)).rows())) == repr(list(table(summarise(pair.opened)).rows()))
    if pair.path is not None:
        direct, found = (run(capsys, "summary", path, "--format", "json") for path in (pair.path, pair.folder))
        assert found == direct


def test_a_report_can_be_made(pair: Pair, tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "report", pair.folder, "-o", tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size > 10_000


def test_parts_are_read_several_at_a_time(pair: Pair) -> None:
    old, new = pair.opened.traces, pair.found.traces
    n = len(old.parts())
    if old.split is None or new.split is None:
        assert pair.path is None
        return
    assert len(new.part_sizes) == n
    assert min(new.part_sizes) > 0
    columns = ("profile", "kind", "category", "name", "start_ns", "end_ns", "correlation", PARENT)
    for first, end in {(0, n), (n // 2, n), (0, 1)}:
        own, theirs = pickle.loads(pickle.dumps(new.split(first, end))), old.split(first, end)
        assert [part.tolist() for part in own.parts()] == [part.tolist() for part in theirs.parts()]
        assert sorted(spans_of(own, columns), key=repr) == sorted(spans_of(theirs, columns), key=repr)
        assert sides_of(own) == sides_of(theirs)
        for part in range(end - first):
            assert list(own.devices(part)) == list(theirs.devices(part))
        if own.counters is not None and theirs.counters is not None:
            assert own.counters.profile.tolist() == theirs.counters.profile.tolist()


# -- side tables in pieces ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InPieces(ArraySpans):
    """Spans of one part whose side tables are given piece by piece, and whose devices are known."""

    pieces: Sequence[SideTable] = ()
    asked: list[str] = field(default_factory=list)

    def side(self, name: str, part: int | None = None) -> SideTable | None:
        raise AssertionError("a whole side table was asked for")

    def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
        self.asked.append(name)
        yield from self.pieces if name == "copy" else ()

    def devices(self, part: int) -> Sequence[Device]:
        return [Device(0, "GPU", 3, "MI300A", {"logical_index": "7", "odd \udc80": ""}), Device(1, "NIC", -1)]


def in_pieces(pieces: Sequence[SideTable]) -> Experiment:
    n = max((int(piece.span.max(initial=0)) for piece in pieces), default=0) + 1
    builder = ExperimentBuilder("made")
    builder.add_profile(ProfileKind.GPU_STREAM)
    zeros, ids = np.zeros(n, np.int32), np.arange(n)
    columns: dict[str, Array] = dict.fromkeys(("profile", "kind", "category", "name", "depth", "context"), zeros)
    columns |= {"context": zeros - 1, "start_ns": ids, "end_ns": ids + 1, "correlation": ids, PARENT: ids - 1}
    builder.set_traces(spans=InPieces(columns, ("x",), {}, pieces=pieces))
    return builder.build()


def objects(*cells: object) -> np.typing.NDArray[np.object_]:
    out = np.empty(len(cells), object)
    out[:] = cells
    return out


@pytest.mark.parametrize("groups", [3, 1000])
def test_later_pieces_may_have_what_earlier_ones_had_not(
    groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_writer, "GROUP_ROWS", groups)
    first = {"size": np.array([1, 2], np.int8), "text": objects(None, None), "any": objects(None, None)}
    second = {
        "size": np.array([2**40, -1]),
        "text": objects("a", None),
        "any": objects(("x", "y"), ()),
        "names": objects(("x", "y"), ()),
        "more": np.array([0.5, 1.5]),
    }
    third = {
        "size": np.array([3, 4]),
        "text": objects(None, "b"),
        "any": objects(7, None),
        "names": objects(("z",), ()),
        "more": np.array([7, 8]),
    }
    pieces = [SideTable(np.array([2 * k, 2 * k + 1]), c) for k, c in enumerate((first, second, third))]
    old = in_pieces(pieces)
    found = again(old, tmp_path).traces
    whole = found.side("copy", 0)
    assert whole is not None
    assert np.asarray(whole.columns["size"]).tolist() == [1, 2, 2**40, -1, 3, 4]
    assert list(whole.columns["text"]) == [None, None, "a", None, None, "b"]
    assert list(whole.columns["names"]) == [(), (), ("x", "y"), (), ("z",), ()]
    assert list(whole.columns["any"]) == [None, None, ["x", "y"], [], 7, None]
    np.testing.assert_array_equal(np.asarray(whole.columns["more"]), [np.nan, np.nan, 0.5, 1.5, 7, 8])
    chunks = list(found.side_chunks("copy", 0))
    assert len(chunks) == (2 if groups == 3 else 1)
    assert np.concatenate([chunk.span for chunk in chunks]).tolist() == list(range(6))
    assert list(found.devices(0)) == list(old.traces.devices(0))
    backend = old.traces.spans_backend
    assert isinstance(backend, InPieces)
    assert backend.asked.count("copy") == 2  # once more for the piece that had something new


def test_mixed_cells_come_back(tmp_path: Path) -> None:
    pieces = [
        SideTable(np.array([0]), {"x": np.array([2**64 - 1], np.uint64), "y": objects("text")}),
        SideTable(np.array([1]), {"x": np.array([-5]), "y": objects(("a", "b"))}),
    ]
    whole = again(in_pieces(pieces), tmp_path).traces.side("copy", 0)
    assert whole is not None
    assert list(whole.columns["x"]) == [2**64 - 1, -5]
    assert list(whole.columns["y"]) == ["text", ["a", "b"]]


def test_spans_that_fall_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_writer, "GROUP_ROWS", 3)
    found = again(in_pieces([SideTable(np.arange(6), {"bytes": np.arange(6)})]), tmp_path)
    path = tmp_path / "x.cgrove" / "span_copy.parquet"
    rows = pq.ParquetFile(path).read()
    path.unlink()
    pq.write_table(rows.take([3, 4, 5, 0, 1, 2]), path, row_group_size=3)
    found_again = open_path(tmp_path / "x.cgrove")
    assert isinstance(found_again, Experiment)
    with pytest.raises(CorruptFile, match=r"span_copy\.parquet.*spans that rise"):
        list(found_again.traces.side_chunks("copy", 0))
    assert found.format == found_again.format


# -- tables beside -----------------------------------------------------------------------------------------------------


def with_table(columns: Sequence[Column]) -> Experiment:
    builder = ExperimentBuilder("made")
    builder.add_profile(ProfileKind.THREAD)
    builder.set_traces(tables={"queues": lambda: Table(tuple(columns))})
    return builder.build()


def test_cells_of_all_kinds_come_back(tmp_path: Path) -> None:
    old = with_table(
        [
            Column("id", np.array([-1, 5, 2**62]), 5),
            Column("real", [0.5, None, float("inf")]),
            Column("name", ["", None, "\udcff\U0010ffff"]),
            Column("mixed", [1, "one", None]),
            Column("large", [2**64, None, 0]),
            Column("nothing", [None, None, None]),
        ]
    )
    found = again(old, tmp_path).traces.tables["queues"]()
    assert found.names == ("id", "real", "name", "mixed", "large", "nothing")
    assert list(found.rows()) == list(old.traces.tables["queues"]().rows())
    assert next(found.rows())[0] == -1, "what is not absent stays"


def test_no_rows_come_back(tmp_path: Path) -> None:
    found = again(with_table([Column("id", []), Column("name", [])]), tmp_path).traces.tables["queues"]()
    assert (found.names, len(found)) == (("id", "name"), 0)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    sample = next(sample for sample in samples() if sample.name == "made/callgrove-spans")
    return Path(shutil.copytree(sample.path, tmp_path / "data"))


def rewritten(folder: Path, name: str, column: str, change: Callable[[list[object]], list[object]]) -> None:
    path = folder / f"{name}.parquet"
    rows = pq.ParquetFile(path).read()
    place = rows.schema.get_field_index(column)
    cells = pa.array(change(rows.column(column).to_pylist()), rows.schema.field(column).type)
    path.unlink()
    pq.write_table(rows.set_column(place, column, cells), path)


def repeated(cell: object, cells: list[object]) -> list[object]:
    return [cell] * len(cells)


def test_without_devices_the_rest_is_there(broken: Path, tmp_path: Path) -> None:
    (broken / "devices.parquet").unlink()
    found = open_path(broken)
    assert isinstance(found, Experiment)
    assert "devices.parquet" in found.damage[0].text
    assert list(found.traces.devices(0)) == []
    write_as(found, tmp_path / "out", "chrome-json")


@pytest.mark.parametrize(("column", "wrong"), [("part", 99), ("device", 5)])
def test_devices_of_nowhere_are_damage(column: str, wrong: int, broken: Path) -> None:
    rewritten(broken, "devices", column, lambda cells: [*cells[:-1], wrong])
    found = open_path(broken)
    assert isinstance(found, Experiment)
    assert "devices.parquet" in found.damage[0].text


def test_attributes_of_devices_must_be_texts(broken: Path, capsys: Capture) -> None:
    for wrong in ("{", "[]", '{"a": 1}'):
        rewritten(broken, "devices", "attributes", partial(repeated, wrong))
        assert "devices.parquet" in run(capsys, "check", broken, "--format", "csv", code=3)


def test_a_missing_table_is_said_to_who_asks(broken: Path, capsys: Capture) -> None:
    (broken / "trace_processes.parquet").unlink()
    assert "trace_processes.parquet" in said(capsys, "sql", broken, "SELECT * FROM processes", code=3)
    assert "trace_processes.parquet" in run(capsys, "check", broken, "--format", "csv", code=3)
    run(capsys, "summary", broken)


@pytest.mark.parametrize("told", [[["x"]], [], [["x", "int3"]], 7, [["x", "text"], ["x", "text"]]])
def test_columns_that_are_none_are_left_out_with_a_warning(told: object, broken: Path) -> None:
    manifest = json.loads((broken / "callgrove.json").read_text())
    manifest["beside"]["processes"] = told
    (broken / "callgrove.json").write_text(json.dumps(manifest))
    found = open_path(broken)
    assert isinstance(found, Experiment)
    assert "processes" not in found.traces.tables
    assert "places" in found.traces.tables
    assert "beside processes" in found.damage[0].text


def test_the_manual_names_all_tables_and_keys(pair: Pair) -> None:
    manual = (ROOT / "docs" / "callgrove-format.md").read_text()
    manifest = json.loads((pair.folder / "callgrove.json").read_text())
    for name in (*manifest, *manifest["tables"]):
        assert f"`{name}`" in manual or name.startswith("values-"), name


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def first_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of version 1.0, as they were written then: of the odd experiment, and of the example."""
    folder = tmp_path_factory.mktemp("first")
    with zipfile.ZipFile(CORPUS / "callgrove" / "1.0.zip") as archive:
        archive.extractall(folder)
    return folder


def test_folders_of_the_first_version_open(first_folders: Path, capsys: Capture, tmp_path: Path) -> None:
    for name, made in (("odd", odd_experiment()), ("gpu", gpu_example())):
        found = open_path(first_folders / f"{name}.cgrove")
        assert isinstance(found, Experiment)
        assert found.damage == ()
        assert found.version.startswith("1.0 (")
        told, expected = traces_of(found), traces_of(made)
        told["spans"], expected["spans"] = ([span[:-1] for span in one["spans"]] for one in (told, expected))
        assert told == expected
        assert {span[-1] for span in spans_of(found.traces, (PARENT,))} == {-1}
        for side in ("kernel", "copy"):
            pieces = [piece.span for piece in found.traces.side_chunks(side, 0)]
            assert all((np.diff(piece) >= 0).all() for piece in pieces)
        run(capsys, "check", first_folders / f"{name}.cgrove")
        (tmp_path / name).mkdir()
        assert_same(found, again(found, tmp_path / name))


def test_a_newer_minor_version_opens(broken: Path) -> None:
    manifest = json.loads((broken / "callgrove.json").read_text())
    assert (manifest["version"], manifest["minor"]) == (1, 2)
    manifest |= {"minor": 9, "something": {"new": True}}
    (broken / "callgrove.json").write_text(json.dumps(manifest))
    assert open_path(broken).version.startswith("1.9 (")


def test_traces_without_devices_have_none() -> None:
    assert list(Traces().devices(0)) == []
