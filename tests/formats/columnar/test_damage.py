"""Folders that are broken, foreign, newer or hostile: one sentence that names the file, and what is intact is read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from callgrove.errors import (
    CallgroveError,
    CorruptFile,
    InputError,
    MissingExtra,
    NotRecognised,
    UnsupportedVersion,
    UsageError,
)
from callgrove.examples import example, study_example
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from tests.cli.commands import Capture, rows, run, said
from tests.exhaustive import whole_or_some
from tests.formats.columnar.columnar_folders import odd_experiment, tables_of, values_of, written
from tests.formats.damage import Case, answers, chance, chosen, scratch_folder, survives
from tests.permissions import as_nobody

NEEDED = ("contexts", "regions", "strings", "files", "modules", "profiles", "identifiers", "runs", "metrics", "places")
VALUES = "values.parquet"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has everything."""
    folder = tmp_path_factory.mktemp("sound") / "odd.cgrove"
    written(odd_experiment(), folder)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "data"))


def opened(folder: Path) -> Experiment:
    found = open_path(folder)
    assert isinstance(found, Experiment)
    return found


def rewrite(folder: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """A table as another tool might have written it anew."""
    path = folder / f"{name}.parquet"
    table = change(pq.ParquetFile(path).read())
    path.unlink()
    pq.write_table(table, path)


def replaced(column: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(column)
        return table.set_column(place, column, pa.array(values(table), table.schema.field(column).type))

    return change


def edit(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "callgrove.json").read_text())
    for key, value in changes.items():
        manifest[key] = value(manifest[key]) if callable(value) else value
    (folder / "callgrove.json").write_text(json.dumps(manifest))


# -- cut and flipped -------------------------------------------------------------------------------------------------


def cases(path: Path) -> list[Case]:
    data, rng = path.read_bytes(), chance(path.name)
    found = [Case("empty", b""), Case("cut", data[: rng.randrange(len(data))]), Case("last byte", data[:-1])]
    for number in range(4):
        broken = bytearray(data)
        for _ in range(1 if number else 12):
            broken[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        found.append(Case(f"flip {number}", bytes(broken)))
    return found


@whole_or_some
def test_broken_files_are_said(sound: Path, folder: Path, whole: bool) -> None:
    """Of each file one damage, or all of them."""
    for file in sorted(sound.iterdir()):
        for case in chosen(cases(file), None if whole else 1, file.name):
            (folder / file.name).unlink()
            (folder / file.name).write_bytes(case.data)
            survives(folder, f"{file.name}: {case.label}")
        (folder / file.name).write_bytes(file.read_bytes())
    answers(folder, "whole again", ("check",))


@pytest.mark.parametrize("name", NEEDED)
def test_tables_that_everything_rests_on_must_be_there(name: str, folder: Path) -> None:
    (folder / f"{name}.parquet").unlink()
    with pytest.raises(CorruptFile, match=rf"data/{name}\.parquet: .* write the folder again") as caught:
        opened(folder)
    assert "expected a file that the manifest names, found none" in str(caught.value)


OTHERS = ("attributes", "metric_columns", "topologies", "coordinates", "index", "value_order", "samples", "spans")


@pytest.mark.parametrize("name", [*OTHERS, "values", "values-uint64", "span_sides", "attachments", "sample_lines"])
def test_the_rest_is_read_without_what_is_missing(name: str, folder: Path, sound: Path) -> None:
    whole = opened(sound)
    (folder / f"{name}.parquet").unlink()
    found = opened(folder)
    assert [warning.text for warning in found.damage] != []
    assert f"{name}.parquet" in found.damage[0].text
    assert len(found.contexts) == len(whole.contexts)
    if not name.startswith("value"):
        assert values_of(found) == values_of(whole)
    else:
        assert set(values_of(found)) <= set(values_of(whole))
        assert len(values_of(found)) >= 3


def test_without_the_index_everything_is_found_all_the_same(folder: Path, sound: Path) -> None:
    (folder / "index.parquet").unlink()
    found, whole = opened(folder), opened(sound)
    for profile in range(3):
        for metric in range(4):
            chosen = np.array([metric])
            own = found.values.backend.profile(profile, chosen)
            assert own.value.tobytes() == whole.values.backend.profile(profile, chosen).value.tobytes()
    assert found.traces.n_spans == whole.traces.n_spans


def test_one_bad_row_group_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from callgrove.formats.columnar import row_groups as group_writer

    monkeypatch.setattr(group_writer, "GROUP_ROWS", 100)
    written(example(), tmp_path / "x.cgrove")
    whole = values_of(opened(tmp_path / "x.cgrove"))
    file = pq.ParquetFile(tmp_path / "x.cgrove" / VALUES)
    column = file.metadata.row_group(1).column(3)
    data = bytearray((tmp_path / "x.cgrove" / VALUES).read_bytes())
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 0xFF
    (tmp_path / "x.cgrove" / VALUES).unlink()
    (tmp_path / "x.cgrove" / VALUES).write_bytes(data)
    found = opened(tmp_path / "x.cgrove")
    assert values_of(found) == whole[:100] + whole[200:]
    (problem,) = found.values.problems
    assert "values.parquet: row group 1" in str(problem)
    answers(tmp_path / "x.cgrove", "one bad row group", ("check",), ("info",), ("top",))
    with pytest.raises(CorruptFile, match="row group 1"):
        [found.values.profile(profile) for profile in range(len(found.profiles))]


# -- lies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows_said", [0, 1, 2**40])
def test_numbers_of_rows_that_do_not_fit(rows_said: int, folder: Path) -> None:
    edit(folder, tables=lambda tables: {**tables, "contexts": rows_said})
    with pytest.raises(CorruptFile, match=rf"contexts\.parquet: footer: expected {rows_said:,} rows by the manifest"):
        opened(folder)


WRONG_TABLES: list[tuple[str, str, Callable[[pa.Table], Any], str]] = [
    ("contexts", "parent", lambda t: [4] * len(t), "contexts that fit together|preorder"),
    ("contexts", "region", lambda t: [99] * len(t), "region 99 of row 0 is not one of 5"),
    ("contexts", "subtree_end", lambda t: [1] * len(t), "preorder"),
    ("contexts", "kind", lambda t: ["nonsense"] * len(t), "'nonsense'"),
    ("contexts", "context", lambda t: [7] * len(t), "the numbers of the rows"),
    ("regions", "name_id", lambda t: [99] * len(t), "numbers below 5, found 99 in row 0"),
    ("regions", "file_id", lambda t: [-9] * len(t), "found -9"),
    ("profiles", "run", lambda t: [3] * len(t), "found 3"),
    ("profiles", "place", lambda t: [3] * len(t), "found 3"),
    ("identifiers", "profile", lambda t: list(range(2, -1, -1)) * 2, "order of their profiles"),
    ("metrics", "parent", lambda t: [1, 0, 0, 0, 0, 0, 0], "a circle"),
    ("metrics", "scope", lambda t: ["far"] * 7, "scope"),
    ("metrics", "composite", lambda t: ['"O"'] * 7, "not a type of"),
    ("metrics", "composite", lambda t: ['[["a", "<f8", [99999999]]]'] * 7, "not a type of"),
    ("places", "parent", lambda t: [1, 0], "parents before"),
]


@pytest.mark.parametrize(
    ("name", "column", "values", "said"), WRONG_TABLES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_tables_that_contradict_themselves(
    name: str, column: str, values: Callable[[pa.Table], Any], said: str, folder: Path
) -> None:
    rewrite(folder, name, replaced(column, values))
    with pytest.raises(CorruptFile, match=said) as caught:
        opened(folder)
    assert f"{name}.parquet" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "column"),
    [("values", "profile"), ("values", "context"), ("values", "metric"), ("samples", "context")],
)
def test_ids_beyond_their_tables_are_left_out(name: str, column: str, folder: Path, sound: Path) -> None:
    if column == "profile":
        (folder / "index.parquet").unlink()  # which would not fit any more
    rewrite(folder, name, replaced(column, lambda t: [77, *t.column(column).to_pylist()[1:]]))
    found = opened(folder)
    if name == "values":
        assert len(values_of(found)) == len(values_of(opened(sound))) - 1
        assert f"{column} ids below" in str(found.values.problems[0])
    else:
        assert found.traces.samples is not None
        assert [len(line) for _, _, line in found.traces.lines()] == [2, 0, 3]
        assert "context ids below 5" in str(found.traces.samples.problems[0])
    assert answers(folder, "ids", ("check",))["check"] == 3


def test_ids_of_spans_beyond_their_tables(folder: Path) -> None:
    rewrite(folder, "spans", replaced("context", lambda t: [77] * len(t)))
    with pytest.raises(CorruptFile, match=r"spans.parquet: row group 0: expected context ids below 5"):
        list(opened(folder).traces.spans())
    rewrite(folder, "spans", replaced("kind", lambda t: ["dance"] * len(t)))
    with pytest.raises(CorruptFile, match="'dance'"):
        list(opened(folder).traces.spans(("kind",)))


@pytest.mark.parametrize(
    ("column", "said"),
    [("profile", "profile ids below 3, found spans without any"), ("kind", "a value in every row of kind, found NULL")],
)
def test_spans_belong_to_a_profile_and_have_a_kind(column: str, said: str, folder: Path) -> None:
    """They would count as those of the last one."""
    rewrite(folder, "spans", replaced(column, lambda t: [None, *t.column(column).to_pylist()[1:]]))
    with pytest.raises(CorruptFile, match=rf"spans.parquet: row group 0: expected {said}"):
        list(opened(folder).traces.spans((column,)))


def test_foreign_tables(folder: Path) -> None:
    rewrite(folder, "metrics", lambda t: pa.table({"a": [1] * len(t)}))
    with pytest.raises(CorruptFile, match=r"metrics.parquet: footer: expected a column metric, found a"):
        opened(folder)


def test_missing_and_mistyped_columns(folder: Path) -> None:
    rewrite(folder, "runs", lambda t: t.drop_columns(["source"]))
    with pytest.raises(CorruptFile, match=r"runs.parquet: footer: expected a column source"):
        opened(folder)
    rewrite(folder, "runs", lambda t: t.append_column("source", pa.array([3])))
    with pytest.raises(CorruptFile, match=r"column source: expected the type text, found int64"):
        opened(folder)


def test_tables_written_anew_by_others_are_read(folder: Path, sound: Path) -> None:
    """Another compression, no dictionaries, large strings: as long as columns and rows are the same."""
    for path in folder.glob("*.parquet"):
        table = pq.ParquetFile(path).read()
        path.unlink()
        large = pa.schema([f.with_type(pa.large_string()) if pa.types.is_string(f.type) else f for f in table.schema])
        pq.write_table(table.cast(large), path, compression="gzip", use_dictionary=False, row_group_size=2)
    (folder / "index.parquet").unlink()
    found, whole = opened(folder), opened(sound)
    assert values_of(found) == values_of(whole)
    assert {k: v for k, v in tables_of(found).items() if k != "warnings"} == {
        k: v for k, v in tables_of(whole).items() if k != "warnings"
    }


def test_enormous_tables_in_small_files_are_refused(folder: Path, tmp_path: Path) -> None:
    """A hundred million equal rows compress to nothing."""
    path = folder / "strings.parquet"
    schema = pa.schema([pa.field("string", pa.int32(), False), pa.field("text", pa.string(), False)])
    group = pa.table({"string": np.zeros(1 << 20, np.int32), "text": pa.array([""] * (1 << 20))}, schema=schema)
    path.unlink()
    with pq.ParquetWriter(path, schema, compression="zstd") as file:
        for _ in range(20):
            file.write_table(group, row_group_size=1 << 20)
    edit(folder, tables=lambda tables: {**tables, "strings": 20 << 20})
    with pytest.raises(CorruptFile, match=r"rows that [0-9,]+ bytes can hold, found 20,971,520"):
        opened(folder)
    path.unlink()
    pq.write_table(pa.concat_tables([group] * 2), path, row_group_size=2 << 20)
    edit(folder, tables=lambda tables: {**tables, "strings": 2 << 20})
    with pytest.raises(CorruptFile, match="row group 0: expected at most 1,048,576 rows"):
        opened(folder)


# -- the manifest ----------------------------------------------------------------------------------------------------


def test_a_newer_version_is_said(folder: Path, capsys: Capture) -> None:
    edit(folder, version=2)
    with pytest.raises(
        UnsupportedVersion, match="newer callgrove: version 2 of the format, and 1 is read here; update"
    ):
        opened(folder)
    assert "newer callgrove" in said(capsys, "info", folder, code=3)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"version": "1"}, "version"),
        ({"tables": {"../x": 1}}, "tables"),
        ({"tables": {"contexts": -1}}, "tables"),
        ({"tables": []}, "tables"),
        ({"tables": {}}, "tables"),
        ({"holds": "cheese"}, "holds"),
        ({"title": 3}, "title"),
        ({"origin": None}, "origin"),
        ({"warnings": [["loud", "x"]]}, "warnings"),
        ({"time_range": [1]}, "time_range"),
        ({"values": [{"table": "values", "dtype": "|O", "metric": None}]}, "values"),
        ({"values": [{"table": "values", "dtype": [["x", "<f8"]], "metric": 99}]}, "values"),
        ({"values": ["values"]}, "values"),
        ({"identifier_kinds": 3}, "identifier_kinds"),
    ],
)
def test_manifests_that_say_other_things(changes: dict[str, Any], place: str, folder: Path) -> None:
    edit(folder, **changes)
    with pytest.raises(CorruptFile, match=rf"callgrove\.json: {place}: expected"):
        opened(folder)


@pytest.mark.parametrize(
    "changes",
    [{"span_parts": 10**9}, {"span_parts": 0}, {"sides": {"span_kernel": [["grid_x", "blob", "array"]]}}, {"sides": 3}],
)
def test_wrong_words_about_spans_cost_only_spans(changes: dict[str, Any], folder: Path) -> None:
    edit(folder, **changes)
    found = opened(folder)
    assert "callgrove.json" in found.damage[0].text
    assert len(found.contexts) == 5


@pytest.mark.parametrize("text", ["", "{", '{"format": "callgrove"', "[" * 100_000, "\0\1\2", "3"])
def test_manifests_that_are_none(text: str, folder: Path) -> None:
    (folder / "callgrove.json").write_text(text)
    with pytest.raises((CorruptFile, NotRecognised), match=r"callgrove\.json"):
        opened(folder)


def test_a_manifest_that_is_no_text(folder: Path) -> None:
    (folder / "callgrove.json").write_bytes(b'{"format": "callgrove", "title": "\xff"}')
    with pytest.raises(CorruptFile, match=r"callgrove\.json: manifest at byte 34: expected JSON, found other bytes"):
        opened(folder)


def test_a_table_that_may_not_be_read(sound: Path) -> None:
    with scratch_folder() as scratch:
        folder = Path(shutil.copytree(sound, scratch / "x"))
        scratch.chmod(0o755)
        opened(folder)  # imports what is needed while everything may be read
        (folder / "metrics.parquet").chmod(0)
        with as_nobody(), pytest.raises(InputError, match=r"metrics\.parquet: cannot be read: Permission denied$"):
            opened(folder)


def test_folders_whose_names_are_no_utf8(sound: Path, tmp_path: Path) -> None:
    target = tmp_path / os.fsdecode(b"\xff.cgrove")
    written(opened(sound), target)
    assert values_of(opened(target)) == values_of(opened(sound))


def test_the_manifest_may_be_named_itself(folder: Path, sound: Path) -> None:
    assert values_of(opened(folder / "callgrove.json")) == values_of(opened(sound))


# -- studies ---------------------------------------------------------------------------------------------------------


def test_broken_studies_are_said(tmp_path: Path) -> None:
    written(study_example(), sound := tmp_path / "sound")
    for file in sorted(sound.iterdir()):
        for case in chosen(cases(file), 3, file.name):
            folder = Path(shutil.copytree(sound, tmp_path / "data", dirs_exist_ok=True))
            (folder / file.name).write_bytes(case.data)
            try:
                found = open_path(folder)
                assert isinstance(found, Study)
            except CallgroveError as error:
                assert "\n" not in str(error)  # noqa: PT017
    rewrite(sound, "series", replaced("callpath_id", lambda t: [99] * len(t)))
    with pytest.raises(CorruptFile, match=r"series.parquet: column callpath_id: expected numbers below"):
        open_path(sound)


# -- writing ---------------------------------------------------------------------------------------------------------


def test_only_folders_of_ours_are_replaced(tmp_path: Path) -> None:
    written(example(), tmp_path / "x.cgrove")
    with pytest.raises(UsageError, match="exists already"):
        written(example(), tmp_path / "x.cgrove")
    written(example(), tmp_path / "x.cgrove", overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(UsageError, match="other things than a callgrove folder"):
        written(example(), tmp_path / "other", overwrite=True)


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(example(), target := tmp_path / "x.cgrove")
    before = {path.name: path.stat().st_mtime_ns for path in target.iterdir()}

    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(CallgroveError, match="cannot be written: No space left on device; nothing was changed"):
        written(example(), target, overwrite=True)
    assert {path.name: path.stat().st_mtime_ns for path in target.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.cgrove"]


# -- without pyarrow -------------------------------------------------------------------------------------------------

WITHOUT = "import sys; sys.modules['pyarrow'] = None; from callgrove.cli.main import main; sys.exit(main(sys.argv[1:]))"


def test_without_pyarrow_the_remedy_is_named(folder: Path, tmp_path: Path) -> None:
    def without(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    for words in (("info", folder), ("convert", folder, tmp_path / "y.cgrove")):
        done = without(*words)
        assert done.returncode == MissingExtra.exit_code
        assert "pip install 'callgrove[arrow]'" in done.stderr
        assert done.stderr.count("\n") == 1
    done = without("formats", "--format", "json")
    (own,) = (row for row in json.loads(done.stdout) if row["name"] == "callgrove")
    assert own["missing"] == "callgrove[arrow]"


def test_check_says_that_a_folder_is_sound(sound: Path, capsys: Capture) -> None:
    found = rows(capsys, "check", sound)
    assert [row["severity"] for row in found if row["severity"] != "note"] == ["missing"]
    assert "contexts.parquet" in run(capsys, "dump", sound)
