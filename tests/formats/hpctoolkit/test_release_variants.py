"""Released databases of newer and other writers: longer records, and words that nobody knows yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.model.contexts import ContextKind
from callgrove.model.metrics import Scope
from tests.formats.comparing import PARTS, assert_same, tables
from tests.formats.hpctoolkit.by_source_id import open_database
from tests.formats.hpctoolkit.databases import File, copied, corpus, edit, lengthen


def repoint(file: File, moved: dict[int, int]) -> None:
    """Let pointers to records that were moved follow them."""
    for field in file.fields:
        if field.name in ("pScope", "pModule", "pFile") or field.name.startswith("flex["):
            assert isinstance(field.value, int)
            if field.value in moved:
                file.set(field, moved[field.value])


def lengthen_meta(file: File) -> None:
    """Every array of meta.db: first those that are pointed to, then those that point to them."""

    def array(section: str) -> dict[int, int]:
        n = int(file.one("n", section).value)
        return lengthen(file, file.one("pArray", section), n, file.one("stride", section), 16)

    repoint(file, array("Modules") | array("Files") | lengthen(file, file.one("pScopes"), 4, file.one("szScope")))
    repoint(file, array("Functions"))
    lengthen(file, file.one("pScopeInsts"), 4, file.one("szScopeInst"))
    lengthen(file, file.one("pSummaries"), 4, file.one("szSummary"))
    lengthen(file, file.one("pMetrics"), 1, file.one("szMetric"))
    lengthen(file, file.one("pEntryPoints"), int(file.one("nEntryPoints").value), file.one("szEntryPoint"))


@pytest.mark.parametrize("name", ["pth4.d", "mpi4.d", "mpi4.foreign.d"])
def test_longer_records(name: str, tmp_path: Path) -> None:
    """A newer minor version may lengthen records; the stored strides say by how much (B.1)."""
    path = copied("release", tmp_path, name)
    edit(path / "meta.db", lengthen_meta)
    for part, first, n, stride in (
        ("profile.db", "pProfiles", "nProfiles", "szProfile"),
        ("cct.db", "pCtxs", "nCtxs", "szCtx"),
        ("trace.db", "pTraces", "nTraces", "szTrace"),
    ):
        file = File.of(path / part)
        lengthen(file, file.one(first), int(file.one(n).value), file.one(stride))
        file.save()
    for part in PARTS["release"]:
        edit(path / part, lambda file: file.data.__setitem__(15, 7))
    found = open_database(path)
    assert found.version == "4.7"
    assert_same(path, "release", name)


def test_records_that_are_too_short(tmp_path: Path) -> None:
    path = copied("release", tmp_path)
    edit(path / "profile.db", lambda file: file.set(file.one("szProfile"), 47))
    assert "records of at least 48 bytes" in open_database(path).damage[0].text


def test_a_scope_that_nobody_knows(tmp_path: Path) -> None:
    """Its values are kept under a name that says so; nothing is computed from it."""
    path = copied("release", tmp_path)
    edit(path / "meta.db", lambda file: file.replace(b"lex_aware\0", b"gpu_only\0"))
    found, whole = open_database(path), open_database(corpus("release"))
    assert found.damage == ()
    assert [(m.name, m.scope, m.source_id) for m in found.metrics][2] == ("CPUTIME (sec) [gpu_only]", Scope.NONE, 2)
    assert tables(found)["values"] == tables(whole)["values"]
    assert found.root_total("CPUTIME (sec)") == whole.root_total("CPUTIME (sec)")


@pytest.mark.parametrize(
    ("name", "section", "value"),
    [
        ("relation", "Ctx", 7),
        ("lexicalType", "Ctx", 9),
        ("propagation", "Ctx", 0xFFFF),
        ("type", "Scope", 9),
        ("propagationIndex", "Scope", 77),
        ("combine", "Metric", 9),
        ("entryPoint", "EntryPoint", 77),
    ],
)
def test_enumerated_values_that_nobody_knows(name: str, section: str, value: int, tmp_path: Path) -> None:
    path = copied("release", tmp_path)

    def change(file: File) -> None:
        for field in file.find(name, section):
            file.set(field, value, 2 if name in ("entryPoint", "propagation") else 1)

    edit(path / "meta.db", change)
    found, whole = open_database(path), open_database(corpus("release"))
    assert found.damage == ()
    assert found.contexts.parent.tolist() == whole.contexts.parent.tolist()
    by_thread = [row[:2] + row[3:] for row in tables(found)["values"] if row[0]]
    assert by_thread == [row[:2] + row[3:] for row in tables(whole)["values"] if row[0]]
    if name == "lexicalType":
        assert (found.contexts.kind[1 : found.contexts.n_listed] == ContextKind.UNKNOWN).all()


@pytest.mark.parametrize(("part", "name", "width"), [("meta.db", "flags", 4), ("profile.db", "flags", 4)])
def test_flags_that_nobody_knows(part: str, name: str, width: int, tmp_path: Path) -> None:
    path = copied("release", tmp_path)

    def change(file: File) -> None:
        for field in file.find(name):
            assert isinstance(field.value, int)
            if field.section in ("Modules", "Files", "Functions", "Profile"):
                file.put(field.offset, field.value | 0xFFFF_FFF0, width)
            if field.section == "Ctx":
                file.put(field.offset, field.value | 0xF0, 1)
            if field.section.startswith("IdTuple"):
                file.put(field.offset, field.value | 0xFFF0, 2)

    edit(path / part, change)
    assert_same(path, "release")


def test_an_identifier_kind_that_has_no_name(tmp_path: Path) -> None:
    path = copied("release", tmp_path)
    edit(path / "profile.db", lambda file: file.put(file.find("kind", "IdTuple 1", 1)[0].offset, 200, 1))
    found = open_database(path)
    assert found.profiles.identifiers.rows(1)[1][0] == 200
    assert "KIND200 0" in str(tables(found)["profiles"][1])


def test_a_database_without_the_lexical_scope(tmp_path: Path) -> None:
    """Those of 2022 have three scopes (B.6): the array simply ends earlier."""
    path = copied("release", tmp_path)

    def change(file: File) -> None:
        instances = file.find("propMetricId")
        at, size = instances[2].offset - 8, 16
        file.data[at : at + size] = file.data[at + size : at + 2 * size]
        file.set(file.one("nScopeInsts"), 3, 2)
        summaries = file.find("statMetricId")
        at, size = summaries[2].offset - 0x12, 24
        file.data[at : at + size] = file.data[at + size : at + 2 * size]
        file.set(file.one("nSummaries"), 3, 2)

    edit(path / "meta.db", change)
    found = open_database(path)
    assert [m.scope for m in found.metrics] == [Scope.POINT, Scope.FUNCTION, Scope.INCLUSIVE]
