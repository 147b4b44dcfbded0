"""Pre-release databases that the document allows, or that other writers made, but that no sample shows.

Each is a database of the corpus with some bytes changed; what must not change is compared with the original.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from pathlib import Path

import pytest

from callgrove.binary.files import Source
from callgrove.cli.main import main
from callgrove.errors import InputError
from callgrove.formats.registry import detect, open_path
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.metrics import Aggregation, Scope
from tests.formats.comparing import DB_FILES, GENERATIONS, assert_same, exported_values, tables
from tests.formats.hpctoolkit import by_source_id
from tests.formats.hpctoolkit.by_source_id import open_database
from tests.formats.hpctoolkit.databases import File, copied, corpus, edit, edit_text, replace_summary

# -- versions, footers, magics --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [(4, 0), (4, 9), (1, 3)])
def test_version_bytes_of_the_document(version: tuple[int, int], tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    for name in DB_FILES:
        edit(path / name, lambda file: file.data.__setitem__(slice(16, 18), bytes(version)))
    assert_same(path, "prerelease")


@pytest.mark.parametrize("name", DB_FILES)
def test_a_part_of_another_version_is_left_out(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As one with another magic is: what is intact stays readable. Alone it is refused."""
    path = copied("prerelease", tmp_path)
    edit(path / name, lambda file: file.data.__setitem__(16, 5))
    [damage] = open_database(path).damage
    assert f"{path / name}: version 5.0" in damage.text
    with pytest.raises(InputError, match=r"version 5\.0"):
        open_path(path / name)
    assert main(["info", str(path / name)]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["info", str(path), "--strict"]) == 3


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


# -- identifiers and traces -----------------------------------------------------------------------------


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


# -- experiment.xml -------------------------------------------------------------------------------------

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
    assert "1 context differs from the threads, e.g. context 27" in capsys.readouterr().out


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
