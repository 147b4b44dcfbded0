"""Nothing that an input says of people, places and programs is in what is made of it: every word of the input is looked
for in the result. Allowed are the words of formats, which stand in our own code, and the names of metrics."""

from __future__ import annotations

import gzip
import io
import json
import re
import sqlite3
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from callgrove.algebra.anonymizing import Replacements
from callgrove.analysis.tables import export
from callgrove.examples import example, gpu_example
from callgrove.formats.registry import entry_of, open_path
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from tests.cli.commands import Capture, said
from tests.exhaustive import whole_or_some
from tests.formats.damage import run
from tests.fuzz.seeds import Seed, make_seeds, readable_formats
from tests.requirements import ROOT

WORD = re.compile(rb"(?<![A-Za-z0-9_])[A-Za-z][A-Za-z0-9_]{5,}")  # shorter ones are in numbers by chance
WORD_OF_A_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{3,}")
# Magic numbers with bytes beside them, addresses, members of folders, and metrics as HPCToolkit's YAML spells them.
ARTEFACTS = re.compile(
    rb"HPC(TOOLKIT|RUN|PROF|LINK)\w*|.?OTF2|x[0-9a-f]+|\w+x20_\w+|PARTIAL|(trace|profile)_+\d+|DATA.|span_[a-z]+"
)
TRACES = ("perfetto", "chrome-json", "otf2", "rocpd")
COSTS = ("hpctoolkit-release", "cube", "folded")
KEPT = re.compile(r"GOMP_\w+|roctx[A-Z]\w+|P?MPI_\w+|hip[A-Z]\w+|cuda[A-Z]\w+|pthread_\w+|omp_\w+")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Seed]]:
    return make_seeds(tmp_path_factory.mktemp("seeds"))


@cache
def code() -> bytes:
    """What we wrote ourselves: the words of formats are in it. Examples have names of programs, as inputs do."""
    files = [file for file in (ROOT / "src").rglob("*.py") if file.name != "examples.py"]
    return b"\n".join(file.read_bytes() for file in files)


def contents(path: Path) -> bytes:
    """Everything that is in a file or folder: names of files, and content with all packing taken off."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    names = [str(file.relative_to(path.parent)).encode() for file in files if path.is_dir()]
    return b"\n".join([*names, *(unpacked(file.read_bytes()) for file in files)])


def unpacked(data: bytes) -> bytes:
    if data[:4] == b"PAR1":
        table = pq.read_table(io.BytesIO(data))
        texts = [str(column.to_pylist()) for column in table.columns if "string" in str(column.type)]
        return "\n".join([*texts, str(table.schema.metadata)]).encode()
    if data.startswith(b"SQLite format 3\0"):
        return b"\n".join(texts_in_database(data))
    if data[:2] == b"\x1f\x8b":
        return unpacked(gzip.decompress(data))
    if data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return b"\n".join([unpacked(archive.read(name)) for name in archive.namelist()])
    if data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return b"\n".join(unpacked(archive.extractfile(m).read()) for m in archive if m.isfile())  # type: ignore[union-attr]
    return data


def texts_in_database(data: bytes) -> Iterator[bytes]:
    """Every text in every row of every table: names of tables and columns are words of the format."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data)
        database.text_factory = bytes
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
            for row in database.execute(f'SELECT * FROM "{table.decode()}"'):
                yield from (cell for cell in row if isinstance(cell, bytes))


def words_that_must_go(path: Path, opened: Experiment | Study) -> set[bytes]:
    metrics = opened.metrics if isinstance(opened, Study) else [metric.name for metric in opened.metrics.rows]
    allowed = code() + "\n".join(metrics).encode()
    words = set(WORD.findall(contents(path))) | {
        word for text in texts_of(opened) for word in WORD_OF_A_NAME.findall(text.encode())
    }
    return {
        word
        for word in words
        if word not in allowed and not KEPT.fullmatch(word.decode()) and not ARTEFACTS.fullmatch(word)
    }


def texts_of(opened: Experiment | Study) -> list[str]:
    if isinstance(opened, Study):
        return [*opened.callpaths]
    regions = opened.contexts.regions
    spans = list(export(opened, "spans"))
    named = [str(cell) for chunk in spans for cell in chunk.column("name").plain()]
    return [
        *regions.strings,
        *regions.files.paths,
        *regions.modules,
        *opened.system.name,
        *opened.profiles.name,
        *named,
    ]


def targets_of(opened: Experiment | Study, name: str) -> list[str]:
    if isinstance(opened, Study):
        return ["extrap-json", "extrap-text", "extrap-experiment", "callgrove"]
    own = [name] if entry_of(name).writes else []
    return [*own, "callgrove", *(TRACES if opened.traces.n_spans else ()), *(COSTS if len(opened.metrics) else ())]


@whole_or_some
@pytest.mark.parametrize("name", readable_formats())
def test_no_word_of_the_input_is_left(name: str, whole: bool, seeds: dict[str, list[Seed]], tmp_path: Path) -> None:
    n_written = 0
    for number, seed in enumerate(seeds[name][: None if whole else 1]):
        opened = open_path(seed.path, from_format=name)
        for target in dict.fromkeys(targets_of(opened, name)):
            out = tmp_path / f"{number}-{target}"
            if anonymize(seed.path, out, "--from", name, "--to", target) != 0:
                continue  # the format cannot hold such an input
            n_written += 1
            result = contents(out)
            left = {word for word in words_that_must_go(seed.path, opened) if word in result}
            assert left == set(), (seed.name, target)
    assert n_written


@pytest.mark.parametrize("target", [*TRACES, "callgrove"])
def test_names_that_stay_would_be_noticed(target: str, tmp_path: Path) -> None:
    gpu_example().write(tmp_path / "in.cgrove")
    opened = open_path(tmp_path / "in.cgrove")
    assert run("convert", str(tmp_path / "in.cgrove"), str(tmp_path / "out"), "--to", target)[0] == 0
    result = contents(tmp_path / "out")
    assert len({word for word in words_that_must_go(tmp_path / "in.cgrove", opened) if word in result}) > 2


def anonymize(*words: object) -> int:
    code_, _, text = run("anonymize", *map(str, words))
    assert "this is a bug" not in text
    return code_


def numbers_of(opened: Experiment, table: str) -> list[tuple[Any, ...]]:
    chunks = list(export(opened, table))
    columns = [
        c for c in chunks[0].names if all(not isinstance(cell, str) for k in chunks for cell in k.column(c).plain())
    ]
    return [row for chunk in chunks for row in zip(*(chunk.column(c).plain() for c in columns), strict=True)]


@pytest.mark.parametrize("make", [example, gpu_example], ids=["costs", "spans"])
def test_structure_and_numbers_stay(make: Any, tmp_path: Path) -> None:
    before = make()
    before.write(tmp_path / "in.cgrove")
    assert anonymize(tmp_path / "in.cgrove", tmp_path / "out.cgrove") == 0
    after = open_path(tmp_path / "out.cgrove")
    assert isinstance(after, Experiment)
    for table in ("contexts", "metrics", "values", "samples", "spans", "counters"):
        assert numbers_of(after, table) == numbers_of(before, table), table
    assert [metric.name for metric in after.metrics.rows] == [metric.name for metric in before.metrics.rows]
    assert after.contexts.kind.tolist() == before.contexts.kind.tolist()


def test_the_map_belongs_to_the_user(tmp_path: Path, capsys: Capture) -> None:
    example().write(tmp_path / "in.cgrove")
    map_file = tmp_path / "names.json"
    map_file.write_text('{"function": {"solve": "hot one"}}')
    for out in ("a.folded", "b.folded"):
        assert anonymize(tmp_path / "in.cgrove", tmp_path / out, "--map", map_file) == 0
    text = (tmp_path / "a.folded").read_text()
    assert text == (tmp_path / "b.folded").read_text()
    assert "hot one" in text
    known = json.loads(map_file.read_text())
    assert known["function"]["solve"] == "hot one"
    assert known["file"]["/home/user/stencil/halo.c"].endswith(".c")
    assert "MPI_Waitall" in text
    assert "MPI_Waitall" not in str(known)
    capsys.readouterr()
    map_file.write_text("[1]")
    assert "is not a map of names" in said(
        capsys, "anonymize", tmp_path / "in.cgrove", tmp_path / "c", "--map", map_file, "--to", "cube", code=3
    )


def test_what_stays_can_be_chosen(tmp_path: Path, capsys: Capture) -> None:
    example().write(tmp_path / "in.cgrove")
    assert anonymize(tmp_path / "in.cgrove", tmp_path / "a.folded", "--keep", "") == 0
    assert "MPI_" not in (tmp_path / "a.folded").read_text()
    assert anonymize(tmp_path / "in.cgrove", tmp_path / "b.folded", "--keep", "sol.*") == 0
    assert "solve" in (tmp_path / "b.folded").read_text()
    capsys.readouterr()
    assert "is not a regular expression" in said(
        capsys, "anonymize", tmp_path / "in.cgrove", tmp_path / "c.folded", "--keep", "(", code=2
    )


def test_frames_of_stacks_are_replaced_as_functions_are() -> None:
    names = Replacements({"function": {"iterate": "function_7"}})
    assert names.cell(["main", "iterate"]) == [names.text("function", "main"), "function_7"]
    assert names.cell(("iterate", 3)) == ["function_7", 3]
    assert names.cell([]) == []


def test_names_in_angle_brackets_stay_only_where_tools_write_them() -> None:
    names = Replacements()
    assert [names.text("file", one) for one in ("<string>", "<frozen our solver>")] == ["<string>", "file_1"]
    assert names.text("function", "<omp task wait>") == "<omp task wait>"


def test_replacements_are_never_names_of_the_input() -> None:
    names = Replacements({"function": {"a": "function_1"}})
    assert names.text("function", "b") == "function_2"
    assert names.text("function", "b") == "function_2"
    assert [names.text("text", text) for text in ("", "12", "0x7f", "1.5e3", "true")] == [
        "",
        "12",
        "0x7f",
        "1.5e3",
        "true",
    ]
