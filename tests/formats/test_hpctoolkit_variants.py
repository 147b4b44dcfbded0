"""Databases that the specification allows, or that other writers made, but that no sample shows.

Each is a database of the corpus with some bytes changed; what must not change is compared with the original.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from callgrove.analysis.tables import TABLES, export
from callgrove.binary.sources import Source
from callgrove.cli.main import main
from callgrove.errors import InputError, NotRecognised, RefusedInput
from callgrove.formats.registry import detect, open_path
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Scope
from tests.formats import by_source_id
from tests.formats.by_source_id import open_database
from tests.formats.databases import File, copied, corpus, edit, edit_text, lengthen, replace_summary

GENERATIONS = ("prerelease", "release")
PARTS = {
    "prerelease": ("experiment.xml", "profile.db", "cct.db", "trace.db"),
    "release": ("meta.db", "profile.db", "cct.db", "trace.db"),
}
DB_FILES = ("profile.db", "cct.db", "trace.db")


def tables(experiment: Experiment) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that can be exported."""
    return {
        name: [row for chunk in export(experiment, name) for row in chunk.rows()] for name in TABLES if name != "series"
    }


def assert_same(path: Path, generation: str, name: str = "pth4.d") -> Experiment:
    """The database says what the original says, without a warning, and `check` is content."""
    found = open_database(path)
    assert found.warnings == ()
    assert tables(found) == tables(open_database(corpus(generation, name)))
    assert main(["check", str(path)]) == 0
    return found


# -- pre-release: versions, footers, magics --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [(4, 0), (4, 9), (1, 3)])
def test_version_bytes_of_the_document(version: tuple[int, int], tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    for name in DB_FILES:
        edit(path / name, lambda file: file.data.__setitem__(slice(16, 18), bytes(version)))
    assert_same(path, "prerelease")


@pytest.mark.parametrize("name", DB_FILES)
def test_another_version_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied("prerelease", tmp_path)
    edit(path / name, lambda file: file.data.__setitem__(16, 5))
    with pytest.raises(InputError, match=r"version 5\.0"):
        open_path(path)
    assert main(["info", str(path)]) == 3
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("footer", [b"tfBDCART", b"TRACDBft"])
def test_trace_footer_of_the_document(footer: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied("prerelease", tmp_path)
    with (path / "trace.db").open("ab") as file:
        file.write(footer)
    assert_same(path, "prerelease")
    capsys.readouterr()
    assert main(["dump", str(path / "trace.db"), "--section", "footer", "--format", "csv"]) == 0
    assert footer.decode() in capsys.readouterr().out


@pytest.mark.parametrize(("name", "footer"), [("profile.db", b"PROFDBft"), ("cct.db", b"CCTDBftr")])
def test_footers_of_other_machines(name: str, footer: bytes, tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    edit(path / name, lambda file: file.data.__setitem__(slice(-8, None), footer))
    assert_same(path, "prerelease")


def test_magics_of_early_files(tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    edit(path / "profile.db", lambda file: file.data.__setitem__(slice(0, 16), b"HPCPROF-pmsdb___"))
    edit(path / "cct.db", lambda file: file.data.__setitem__(slice(0, 16), b"HPCPROF-cmsdb___"))
    assert_same(path, "prerelease")
    for name in ("profile.db", "cct.db"):
        (path / name).rename(tmp_path / "alone")
        assert detect(Source.of(tmp_path / "alone"))[0].name == "hpctoolkit-prerelease"


# -- pre-release: identifiers and traces -----------------------------------------------------------------------------


def test_identifiers_of_unknown_kinds(tmp_path: Path) -> None:
    """The kind's upper two bits say how to read the numbers; both survive, for kinds that nobody knows as well."""
    path = copied("prerelease", tmp_path)

    def change(file: File) -> None:
        for k, kind in enumerate((0x4000 | 9, 0x8000 | 3, 0xC000 | 0x3FFF)):
            [at, *_] = [f.offset for f in file.find("kind", "IdTuple 1", k)]
            file.put(at, kind, 2)

    edit(path / "profile.db", change)
    found = open_database(path)
    kinds = [(kind, interpretation) for kind, _, _, interpretation in found.profiles.identifiers.rows(1)]
    assert kinds == [(9, 1), (3, 2), (0x3FFF, 3)]
    exported = tables(found)["profiles"][1]
    assert "KIND9 8323328/0" in str(exported)
    assert "KIND16383 4" in str(exported)
    assert found.profiles.identity_list("thread")[1] == 0
    assert found.profiles.identity_list("node")[1] is None
    assert tables(found)["values"] == tables(open_database(corpus("prerelease")))["values"]


def test_identifier_names_of_the_file(tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    edit_text(path / "experiment.xml", ('<Identifier i="7" n="CORE"/>', '<Identifier i="7" n="SOCKET"/>'))
    found = open_database(path)
    assert found.profiles.identifiers.name(7) == "SOCKET"
    assert "SOCKET 0" in str(tables(found)["profiles"][1])
    assert found.profiles.identity_list("core") == [None] * 6


def test_traces_of_a_metric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line whose type is not 0 follows the metric of that id."""
    path = copied("prerelease", tmp_path)
    edit(path / "trace.db", lambda file: file.set(file.one("type", "TraceHeader", 1), 2, 2))
    found = open_database(path)
    metrics = {row[0]: row[3] for row in tables(found)["samples"]}
    [row] = [k for k, metric in enumerate(found.metrics) if metric.source_id == 2]
    assert metrics == {1: None, 2: row, 3: None, 4: None, 5: None}
    whole = open_database(corpus("prerelease"))
    assert [s[:3] for s in tables(found)["samples"]] == [s[:3] for s in tables(whole)["samples"]]
    assert main(["check", str(path)]) == 0


# -- pre-release: experiment.xml -------------------------------------------------------------------------------------

STATISTICS = ("count", "sum", "sum of squares", "min", "max")


def with_statistics(path: Path) -> dict[tuple[int, str, int], float]:
    """All statistics as the genuine writer stores them (A.5): every PARTIAL is printed with the first one's id, while
    the summary holds ids 3 apart; the sum of squares holds plain sums. Gives {(context, statistic, scope id): value}.
    """
    text = (path / "experiment.xml").read_text("utf-8")
    combine = dict.fromkeys(STATISTICS, "sum") | {"min": "min", "max": "max"}
    rows = []
    for word, first in (("I", 2), ("E", 1)):
        scope = "inclusive" if word == "I" else "exclusive"
        shared = f'md="CPUTIME (sec)" v="derived-incr" t="{scope}" partner="1"'
        for k, statistic in enumerate(STATISTICS):
            formula = f'<MetricFormula t="combine" frm="{combine[statistic]}(${first}, ${first})"/>'
            rows.append(
                f'<Metric i="{first}" o="{first}" n="CPUTIME (sec):PARTIAL:{k} ({word})" {shared} show="4" '
                f'show-percent="0">{formula}</Metric>'
            )
        n, s, q, low, high = (f"${first + 3 * k}" for k in range(5))
        views = {
            "Sum": s,
            "Mean": f"{s}/{n}",
            "StdDev": f"sqrt({q}/{n}-({s}/{n})^2)",
            "CfVar": f"sqrt({q}/{n}-({s}/{n})^2)/({s}/{n})",
            "Min": low,
            "Max": high,
        }
        for k, (name, formula) in enumerate(views.items()):
            i = -(2 * k + 3 - first)
            rows.append(
                f'<Metric i="{i}" o="{i}" n="CPUTIME (sec):{name} ({word})" {shared} show="1" show-percent="0">'
                f'<MetricFormula t="view" frm="{formula}"/></Metric>'
            )
    begin, end = text.index("<MetricTable>"), text.index("</MetricTable>")
    (path / "experiment.xml").write_text(text[:begin] + "<MetricTable>\n" + "\n".join(rows) + text[end:], "utf-8")

    measured: dict[tuple[int, int], list[float]] = {}
    for (profile, context, metric), value in by_source_id.values_by_profile(
        open_database(corpus("prerelease"))
    ).items():
        if profile:
            measured.setdefault((context, metric), []).append(value)
    stored: dict[tuple[int, str, int], float] = {}
    block: dict[int, list[tuple[int, float]]] = {}
    for (context, metric), values in sorted(measured.items()):
        # plain sums instead of squares, as genuine
        numbers = (float(len(values)), sum(values), sum(values), min(values), max(values))
        for k, (statistic, number) in enumerate(zip(STATISTICS, numbers, strict=True)):
            stored[context, statistic, metric] = number
            block.setdefault(context, []).append((metric + 3 * k, number))
    replace_summary(path / "profile.db", block)
    return stored


def test_several_statistics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied("prerelease", tmp_path)
    stored = with_statistics(path)
    found = open_database(path)
    assert found.damage == ()
    scopes = {1: Scope.FUNCTION, 2: Scope.INCLUSIVE}
    rows = {(m.statistic or "sum", m.scope): m for m in found.metrics}
    assert len(rows) == len(found.metrics) == 10
    for id_, scope in scopes.items():
        for k, statistic in enumerate(STATISTICS):
            row = rows[statistic, scope]
            assert row.source_id == (id_ if statistic == "sum" else id_ + 3 * k)
    assert rows["min", Scope.FUNCTION].aggregation == Aggregation.MINIMUM
    block = found.values.profile(0)
    values = {
        (int(found.contexts.source_id[c]), found.metrics[m].statistic or "sum", found.metrics[m].scope): v
        for c, m, v in zip(block.context.tolist(), block.metric.tolist(), block.value.tolist(), strict=True)
    }
    wanted = {(c, statistic, scopes[m]): v for (c, statistic, m), v in stored.items() if c != 0}
    assert values == wanted
    whole = open_database(corpus("prerelease"))
    assert found.root_total("CPUTIME (sec)") == pytest.approx(whole.root_total("CPUTIME (sec)"), rel=1e-12)
    threads = [row for row in tables(found)["values"] if row[0] != 0]
    assert Counter(row[3] for row in threads) == Counter(row[3] for row in tables(whole)["values"] if row[0] != 0)


def test_wrong_squares_are_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied("prerelease", tmp_path)
    with_statistics(path)
    assert main(["check", str(path), "--format", "csv"]) == 0
    out = capsys.readouterr().out
    assert out.count("note,") == 2
    assert "the writer stored plain sums" in out


def test_a_wrong_summary_is_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied("prerelease", tmp_path)
    whole = by_source_id.values_by_profile(open_database(corpus("prerelease")))
    block: dict[int, list[tuple[int, float]]] = {}
    for (profile, context, metric), value in sorted(whole.items()):
        if profile == 0:
            block.setdefault(context, []).append((metric, value * (1.5 if context == 27 else 1)))
    replace_summary(path / "profile.db", block)
    assert main(["check", str(path), "--format", "csv"]) == 3
    assert "differ from the threads, e.g. context 27" in capsys.readouterr().out


def test_inlined_frames_as_pr(tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    edit_text(
        path / "experiment.xml",
        (
            '<PF i="26" s="28" n="28" v="0x1260" f="0" l="6" lm="2">',
            '<Pr i="26" s="28" n="28" v="0x1260" f="0" l="6" lm="2">',
        ),
        ('l="6" s="29" v="0"/>\n</PF>', 'l="6" s="29" v="0"/>\n</Pr>'),
    )
    found, whole = open_database(path), open_database(corpus("prerelease"))
    [context] = (found.contexts.source_id == 26).nonzero()[0]
    assert found.contexts.kind[context] == ContextKind.INLINED
    assert found.contexts.relation[context] == Relation.INLINED
    assert found.contexts.parent.tolist() == whole.contexts.parent.tolist()
    assert tables(found)["values"] == tables(whole)["values"]


def test_unknown_tags(tmp_path: Path) -> None:
    """Their own tag is skipped, their children stay; so are tables and attributes that nobody knows."""
    path = copied("prerelease", tmp_path)
    edit_text(
        path / "experiment.xml",
        ('<PF i="26"', '<X i="26" zz="1"><M n="1" v="2"/><PF colour="red" i="26"'),
        ('l="6" s="29" v="0"/>\n</PF>', 'l="6" s="29" v="0"/>\n</PF></X>'),
        ("<LoadModuleTable>", '<Whatever><Item i="1"/></Whatever><LoadModuleTable>'),
        ('<?xml version="1.0"?>', '<?xml version="1.0"?><!DOCTYPE HPCToolkitExperiment [<!ELEMENT PF ANY>]>'),
    )
    assert_same(path, "prerelease")


def test_positive_ids_that_repeat(tmp_path: Path) -> None:
    """Writers before October 2021 repeated +X where later ones write -X: one context all the same (A.5)."""
    for name in ("pth4.d", "mpi4.d"):
        path = copied("prerelease", tmp_path / name, name)
        text = (path / "experiment.xml").read_text("utf-8")
        tree = text.index("<SecCallPathProfileData>")
        signed = text[tree:].replace(' i="-', ' i="')
        assert signed != text[tree:]
        (path / "experiment.xml").write_text(text[:tree] + signed, "utf-8")
        assert_same(path, "prerelease", name)


def test_attributes_in_any_order_and_escaped(tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    edit_text(
        path / "experiment.xml",
        (
            '<PF i="3" s="5" n="5" v="0x1330" f="0" l="8" lm="2">',
            "<PF lm='2' l='8'   f='0' v='0x1330' n='5' s='5' i='3'>",
        ),
        ('n="work"', 'n="work&lt;int&gt; &amp; &quot;more&quot;"'),
    )
    found = open_database(path)
    assert found.contexts.label(1) == 'work<int> & "more"'


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('<PF i="3" s="5" n="5"', '<PF i="3" s="5" n="4711"', "procedure 4711 is in no table"),
        ('v="0x1330" f="0" l="8" lm="2"', 'v="0x1330" f="4711" l="8" lm="2"', "file 4711 is in no table"),
        ('v="0x1330" f="0" l="8" lm="2"', 'v="0x1330" f="0" l="8" lm="4711"', "load module 4711 is in no table"),
        ('<S i="27" it="27"', '<S i="20" it="27"', "context id 20 is used twice"),
    ],
)
def test_what_the_tables_do_not_name(before: str, after: str, said: str, tmp_path: Path) -> None:
    """A warning and a name in its place; nothing else is lost."""
    path = copied("prerelease", tmp_path)
    edit_text(path / "experiment.xml", (before, after))
    found = open_database(path)
    assert [w.text for w in found.warnings] == [f"{path / 'experiment.xml'}: {said}"]
    if "procedure" in said:
        assert found.contexts.label(1) == "<missing>"
    assert found.root_total("CPUTIME (sec)") == pytest.approx(0.353926)
    assert main(["check", str(path)]) == 3


def test_a_value_of_an_unknown_metric_costs_only_itself(tmp_path: Path) -> None:
    """The other values of the profile stay."""
    for generation in GENERATIONS:
        path = copied(generation, tmp_path / generation)
        before = [row for row in tables(open_database(path))["values"] if row[0] == 1]

        def change(file: File) -> None:
            at = file.find("id", "profile 1 values", 7)[0].offset
            file.put(at, 999, 2)

        edit(path / "profile.db", change)
        found = open_database(path)
        after = [row for row in tables(found)["values"] if row[0] == 1]
        assert len(after) >= len(before) - 1
        assert len(set(before) - set(after)) == 1
        assert main(["check", str(path)]) == 3


# -- released: newer and other writers -------------------------------------------------------------------------------


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


# -- folders with parts that are missing, mixed or elsewhere ---------------------------------------------------------


def combinations(generation: str) -> list[tuple[str, ...]]:
    parts = PARTS[generation]
    return [kept for n in range(1, 5) for kept in itertools.combinations(parts, n)]


@pytest.mark.parametrize(
    ("generation", "kept"), [(g, kept) for g in GENERATIONS for kept in combinations(g)], ids=lambda x: str(x)
)
def test_missing_parts(generation: str, kept: tuple[str, ...], tmp_path: Path) -> None:
    """What is there is read; what is not is said, and is no damage."""
    path = copied(generation, tmp_path)
    for name in set(PARTS[generation]) - set(kept):
        (path / name).unlink()
    found, whole = open_database(path), open_database(corpus(generation))
    assert found.damage == ()
    missing = [w.text for w in found.warnings if w.severity == Severity.MISSING]
    assert len(missing) == 4 - len(kept)
    for name in set(PARTS[generation]) - set(kept):
        assert any(f"there is no {name}" in text for text in missing)
    values = {key: value for key, value in by_source_id.values_by_profile(whole).items() if key[1]}
    if "profile.db" not in kept:
        values = {key: value for key, value in values.items() if key[0]} if "cct.db" in kept else {}
    assert exported_values(found) == values
    samples = by_source_id.samples(whole) if "trace.db" in kept else {}
    assert by_source_id.samples(found) == samples
    if PARTS[generation][0] in kept:
        n = whole.contexts.n_listed
        assert tables(found)["contexts"][:n] == tables(whole)["contexts"][:n]
    assert main(["check", str(path)]) == 0
    assert main(["info", str(path)]) == 0


def exported_values(experiment: Experiment) -> by_source_id.Values:
    metrics = [m.source_id for m in experiment.metrics]
    return {
        (int(experiment.profiles.source_id[p]), int(experiment.contexts.source_id[c]), metrics[m] or 0): value
        for p, c, m, value in tables(experiment)["values"]
    }


@pytest.mark.parametrize("generation", GENERATIONS)
def test_one_context_is_answered_by_either_file(generation: str, tmp_path: Path) -> None:
    whole = open_database(corpus(generation))
    wanted = by_source_id.values_by_context(whole)
    for name in ("cct.db", "profile.db"):
        path = copied(generation, tmp_path / name)
        (path / name).unlink()
        found = open_database(path)
        assert by_source_id.values_by_context(found) == wanted
        by_profile = {key: v for key, v in exported_values(found).items() if key[0]}
        assert by_profile == wanted


@pytest.mark.parametrize("generation", GENERATIONS)
def test_no_part_at_all(generation: str, tmp_path: Path) -> None:
    path = copied(generation, tmp_path)
    for name in PARTS[generation]:
        (path / name).unlink()
    with pytest.raises(NotRecognised, match="no performance data was recognised in this folder"):
        open_path(path)


def mixed(folder: Path, tree: str, values: str) -> Path:
    path = copied(tree, folder)
    for name in DB_FILES:
        (path / name).write_bytes((corpus(values) / name).read_bytes())
    return path


@pytest.mark.parametrize(("tree", "values"), [GENERATIONS, GENERATIONS[::-1]])
def test_parts_of_both_generations(tree: str, values: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tree of one and the values of the other do not belong together: the ids differ."""
    path = mixed(tmp_path, tree, values)
    with pytest.raises(RefusedInput, match="separate the two"):
        open_path(path)
    assert main(["top", str(path)]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("values", "format_"), [("release", "hpctoolkit-release"), ("prerelease", "hpctoolkit-prerelease")]
)
def test_the_trees_of_both_generations(values: str, format_: str, tmp_path: Path) -> None:
    """Both experiment.xml and meta.db, and values of one: that one can be read, if need be by naming it."""
    path = copied("release", tmp_path)
    (path / "experiment.xml").write_bytes((corpus("prerelease") / "experiment.xml").read_bytes())
    for name in DB_FILES:
        (path / name).write_bytes((corpus(values) / name).read_bytes())
    found = open_path(path, format_)
    assert isinstance(found, Experiment)
    assert found.damage == ()
    assert tables(found) == tables(open_database(corpus(values)))
    if values == "release":
        assert detect(Source.of(path))[0].name == format_


# -- copied sources --------------------------------------------------------------------------------------------------

COPY = "src/home/user/perf/apps/pth.c"
SECRET = "SECRET_OUTSIDE_OF_THE_DATABASE"


@pytest.fixture(params=GENERATIONS)
def with_secret(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A database, and beside it a file that is none of its business; nine lines, so that line 8 exists."""
    (tmp_path / "secret").write_text(f"{SECRET}\n" * 9)
    return str(request.param), copied(str(request.param), tmp_path)


def show_sources(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["tree", str(path), "--source", "--limit", "all"])
    return code, *capsys.readouterr()


def test_sources_are_shown(with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = show_sources(with_secret[1], capsys)
    assert code == 0
    assert "pthread_mutex_unlock" in out


@pytest.mark.parametrize("climb", ["src/../../secret", "src/home/../../../secret"])
def test_a_source_that_climbs_out(
    climb: str, with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    generation, path = with_secret
    if generation == "release":
        edit(path / "meta.db", lambda file: file.replace(COPY.encode(), climb.encode()))
    else:
        edit_text(path / "experiment.xml", (f"./{COPY}", f"./{climb}"))
    code, out, err = show_sources(path, capsys)
    assert SECRET not in out + err
    assert code == 3
    assert "lies outside of the folder" in err


def test_a_source_that_is_a_link_to_elsewhere(
    with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = with_secret[1]
    (path / COPY).unlink()
    (path / COPY).symlink_to(tmp_path / "secret")
    code, out, err = show_sources(path, capsys)
    assert SECRET not in out + err
    assert code == 3


def test_a_folder_of_sources_that_is_a_link_to_elsewhere(
    with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = with_secret[1]
    elsewhere = tmp_path / "home" / "user" / "perf" / "apps"
    elsewhere.mkdir(parents=True)
    (elsewhere / "pth.c").write_text(f"{SECRET}\n" * 9)
    (path / "src").rename(path / "gone")
    (path / "src").symlink_to(tmp_path)
    code, out, err = show_sources(path, capsys)
    assert SECRET not in out + err
    assert code == 3


def test_a_source_that_is_an_absolute_path(with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is not marked as a copy is a name, and is never opened."""
    generation, path = with_secret
    target = "/etc/hostname"
    if generation == "release":

        def change(file: File) -> None:
            file.replace(COPY.encode(), target.encode())
            file.put(file.one("flags", "Files").offset, 0, 4)

        edit(path / "meta.db", change)
    else:
        edit_text(path / "experiment.xml", (f"./{COPY}", target))
    code, out, _ = show_sources(path, capsys)
    assert code == 0
    hostname = Path(target)
    assert not hostname.is_file() or hostname.read_text().strip() not in out


def test_a_source_that_is_missing(with_secret: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    (with_secret[1] / COPY).unlink()
    code, out, _ = show_sources(with_secret[1], capsys)
    assert code == 0
    assert "leaf" in out


# -- details of layout -----------------------------------------------------------------------------------------------


def test_a_trace_that_begins_beyond_the_end(tmp_path: Path) -> None:
    """Where nothing was traced, genuine files have a line that starts and ends behind the file, and no times (A.4)."""
    path = copied("prerelease", tmp_path)
    text = (path / "experiment.xml").read_text("utf-8")
    (path / "experiment.xml").write_text(re.sub(r"<TraceDB [^>]*>", "", text), "utf-8")
    data = bytearray((path / "trace.db").read_bytes()[:150])
    struct.pack_into(">I", data, 18, 1)
    struct.pack_into(">Q", data, 24, 22)
    struct.pack_into(">IHQQ", data, 128, 1, 0, 152, 152)
    (path / "trace.db").write_bytes(data)
    found = open_database(path)
    assert found.warnings == ()
    assert found.traces.n_samples == 0
    assert main(["check", str(path)]) == 0


def test_a_trace_that_is_announced_but_empty(tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)

    def change(file: File) -> None:
        for field in (*file.find("start"), *file.find("end")):
            file.set(field, 0)

    edit(path / "trace.db", change)
    assert "expected samples from 1794713074694673000" in open_database(path).damage[0].text
    assert main(["check", str(path)]) == 3


def test_records_of_cct_db_out_of_order(tmp_path: Path) -> None:
    """ContextInfo id != index: the values stay readable, the file is reported (part E)."""
    path = copied("prerelease", tmp_path)
    data = bytearray((path / "cct.db").read_bytes())
    a, b = 128 + 22 * 5, 128 + 22 * 6
    data[a : a + 22], data[b : b + 22] = data[b : b + 22], data[a : a + 22]
    (path / "cct.db").write_bytes(data)
    found, whole = open_database(path), open_database(corpus("prerelease"))
    assert "record 5 is of context 6" in found.damage[0].text
    assert by_source_id.values_by_context(found) == by_source_id.values_by_context(whole)
    assert exported_values(found) == exported_values(whole)


def test_metrics_in_any_order_inside_a_context(tmp_path: Path) -> None:
    """9 of 661 genuine thread blocks have metric ids that do not ascend (A.2)."""
    path = copied("prerelease", tmp_path)
    whole = open_database(corpus("prerelease"))
    values = by_source_id.values_by_profile(whole)
    block: dict[int, list[tuple[int, float]]] = {}
    for (profile, context, metric), value in sorted(values.items(), reverse=True):
        if profile == 0:
            block.setdefault(context, []).append((metric, value))
    replace_summary(path / "profile.db", block)
    found = open_database(path)
    assert exported_values(found) == exported_values(whole)
    assert main(["check", str(path)]) == 0
