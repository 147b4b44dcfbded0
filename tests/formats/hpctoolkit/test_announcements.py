"""Small files that announce large things, tables that contradict each other, and summaries that say nothing."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest

from callgrove.analysis.tables import Selection, export
from callgrove.binary.files import Source
from callgrove.cli.main import main
from callgrove.errors import CorruptFile, NotRecognised
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import load, open_path
from callgrove.model.metrics import Scope
from tests.formats.hpctoolkit.by_source_id import open_database
from tests.formats.hpctoolkit.databases import File, copied, corpus, edit_text, replace_summary
from tests.timing import bounded

GENERATIONS = ("prerelease", "release")
every_generation = pytest.mark.parametrize("generation", GENERATIONS)
PF_LEAF = (
    '<PF i="1" n="3" s="3" f="2147483647" l="0" lm="1">\n<S i="-1" s="3" v="0" f="2147483647" l="0" it="1"/>\n</PF>'
)
METRIC_DBS = '<MetricDB i="2" n="CPUTIME (sec) (I)"/>\n<MetricDB i="1" n="CPUTIME (sec) (E)"/>'


def values(path: Path, scope: str) -> list[tuple[object, ...]]:
    chunks = export(open_path(path), "values", Selection(scope=scope))
    return sorted(row for chunk in chunks for row in chunk.rows())


# -- numbers ---------------------------------------------------------------------------------------------------------


@every_generation
@pytest.mark.parametrize("scope", ["exclusive", "inclusive"])
def test_scopes_are_computed_from_cct_db_as_from_profile_db(generation: str, scope: str, tmp_path: Path) -> None:
    """cct.db gives a profile context by context; a scope needs all of them together."""
    path = copied(generation, tmp_path)
    whole = values(path, scope)
    (path / "profile.db").unlink()
    assert values(path, scope) == whole


@every_generation
def test_an_empty_summary_does_not_answer_for_the_threads(generation: str, tmp_path: Path) -> None:
    path = copied(generation, tmp_path)
    whole = open_database(path)
    total = whole.root_total(whole.default_metric)
    names = ("num_vals", "num_nzctxs") if generation == "prerelease" else ("nValues", "nCtxs")
    section = "ProfileInfo" if generation == "prerelease" else "Profile"
    file = File.of(path / "profile.db")
    for name in names:
        file.set(file.find(name, section, 0)[0], 0)
    file.save()
    found = open_database(path)
    assert found.root_total(found.default_metric) == pytest.approx(total)
    assert main(["check", str(path)]) == 3  # it is still not what the tables promise


# -- experiment.xml --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ['<PF i="1" lm="1"/>', '<PF i="1" n="3" lm="x"/>', '<PF i="1" n="3" l="x" f="0"/>'])
def test_damage_that_shows_where_a_tag_ends(wrong: str, tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    edit_text(path / "experiment.xml", (PF_LEAF, wrong))
    with pytest.raises(CorruptFile, match="<PF> at line"):
        open_path(path)
    assert main(["check", str(path)]) == 3


def test_a_metric_that_occurs_twice_is_damage(tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    edit_text(path / "experiment.xml", (METRIC_DBS, f'{METRIC_DBS}<MetricDB i="4" n="CPUTIME (sec) (E)"/>'))
    assert main(["info", str(path)]) == 3
    with pytest.raises(CorruptFile, match="repeats 'CPUTIME"):
        open_path(path)


@pytest.mark.parametrize("number", ["²", "9" * 5000, ""])
def test_partials_with_strange_numbers(number: str, tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    edit_text(path / "experiment.xml", ("PARTIAL:0 (I)", f"PARTIAL:{number} (I)"))
    found = open_database(path)
    assert found.root_total(found.default_metric) > 0
    assert main(["check", str(path)]) == 3  # values of the summary that no table names


def one_scope(path: Path, id_: int, *views: str) -> None:
    """A metric in one scope, which has no suffix, with a count and a sum as partials."""
    before, after = (path / "experiment.xml").read_text("utf-8").split("<MetricTable>")
    rest = after.partition("</MetricTable>")[2].replace(METRIC_DBS, f'<MetricDB i="{id_}" n="X"/>')
    partial = '<Metric i="{}" n="X:PARTIAL:{}" show="4"><MetricFormula t="combine" frm="sum($1, $1)"/></Metric>'
    metrics = "".join(partial.format(id_, k) for k in (0, 1)) + "".join(views)
    (path / "experiment.xml").write_text(f"{before}<MetricTable>{metrics}</MetricTable>{rest}", "utf-8")


def test_a_mean_alone_tells_sum_and_count_apart(tmp_path: Path) -> None:
    """`Mean` is sum by count; where the sum is not shown itself, the order in the formula tells."""
    path = copied("prerelease", tmp_path)
    one_scope(path, 2, '<Metric i="-1" n="X:Mean" show="1"><MetricFormula t="view" frm="$5/$2"/></Metric>')
    replace_summary(path / "profile.db", {2: [(2, 4.0), (5, 0.5)]})
    found = open_database(path)
    rows = [(m.scope, m.statistic, m.source_id) for m in found.metrics]
    assert rows == [(Scope.INCLUSIVE, "", 2), (Scope.INCLUSIVE, "count", 2)]
    [context] = [k for k, id_ in enumerate(found.contexts.source_id.tolist()) if id_ == 2]
    assert found.totals("X", Scope.INCLUSIVE)[context] == 0.5


@pytest.mark.parametrize("id_", [2, 3])
def test_partials_that_no_view_explains(id_: int, tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    one_scope(path, id_)
    assert [m.statistic for m in open_database(path).metrics] == ["", "partial 0", "partial 1"]


# -- amplification: what is stored once cannot be read without end ---------------------------------------------------


def folder_of(tmp_path: Path, name: str, data: bytes) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    (path / name).write_bytes(data)
    return path


def profile_db(n: int, values_at: int, n_values: int, tuple_at: int, rest: bytes) -> bytes:
    """`n` profiles that all have the same block and the same tuple; `rest` follows behind their records."""
    infos_at = 0x40
    head = b"HPCTOOLKITprof\x04\x00" + struct.pack("<QQQQ", 16 + 48 * n, 0x30, 0, 0)
    index_at = values_at + 10 * n_values
    info = struct.pack("<QQI4xQQI4x", n_values, values_at, int(n_values > 0), index_at, tuple_at, 0)
    return head + struct.pack("<QIB3x", infos_at, n, 48) + info * n + rest + b"_prof.db"


def test_profiles_that_share_a_block(tmp_path: Path) -> None:
    n, n_values = 2000, 5000
    at = 0x40 + 48 * n
    rest = struct.pack("<Hd", 1, 1.0) * n_values + struct.pack("<IQ", 5, 0)
    path = folder_of(tmp_path, "profile.db", profile_db(n, at, n_values, 0, rest))
    with bounded("a wrong announcement"):
        found = open_database(path)
        assert len(found.damage) == n - 1
        assert "those of another profile" in found.damage[0].text
        assert sum(len(block) for block in found.values.blocks()) == n_values
        assert main(["dump", str(path), "-o", str(tmp_path / "out")]) == 3


def test_profiles_that_share_a_tuple(tmp_path: Path) -> None:
    n = 3000
    element = struct.pack("<BxHIQ", 3, 0, 1, 1)
    at = 0x40 + 48 * n
    path = folder_of(tmp_path, "profile.db", profile_db(n, 0, 0, at, struct.pack("<H6x", 0xFFFF) + element * 0xFFFF))
    with bounded("a wrong announcement"):
        found = open_database(path)
    assert len(found.profiles) == n
    assert len(found.profiles.identifiers.kind) < 4 * 0xFFFF
    assert "lie in one another" in found.damage[0].text


def test_a_profile_number_that_nothing_can_have(tmp_path: Path) -> None:
    infos_at, values_at = 0x30, 0x30 + 2 * 32
    head = b"HPCTOOLKITctxt\x04\x00" + struct.pack("<QQQIB3x", 80, 0x20, infos_at, 2, 32)
    infos = bytes(32) + struct.pack("<QQH6xQ", 1, values_at, 1, values_at + 12)
    block = struct.pack("<Id", 0xFF_FFFF, 1.0) + struct.pack("<HQ", 3, 0)
    path = folder_of(tmp_path, "cct.db", head + infos + block + b"__ctx.db")
    with bounded("a wrong announcement"):
        assert len(open_database(path).profiles) <= 2
        assert main(["check", str(path)]) == 3


def test_lines_that_share_samples(tmp_path: Path) -> None:
    n, n_samples = 2000, 5000
    at = 0x40 + 24 * n
    head = b"HPCTOOLKITtrce\x04\x00" + struct.pack("<QQ", 32 + 24 * n, 0x20)
    section = struct.pack("<QIB3xQQ", 0x40, n, 24, 1, 1)
    lines = struct.pack("<I4xQQ", 1, at, at + 12 * n_samples) * n
    path = folder_of(tmp_path, "trace.db", head + section + lines + struct.pack("<QI", 1, 1) * n_samples + b"trace.db")
    with bounded("a wrong announcement"):
        found = open_database(path)
        assert found.traces.n_samples <= n_samples
        assert "samples of another line" in found.damage[0].text
        assert main(["dump", str(path), "-o", str(tmp_path / "out")]) == 3


SECTIONS = ("General", "IdNames", "Metrics", "Context", "Strings", "Modules", "Files", "Functions")


def meta_db(name: str, content: bytes) -> bytes:
    """A meta.db whose sections are empty but for one."""
    plain = {"Metrics": struct.pack("<QIBBBxQHB5x", 0, 0, 32, 16, 24, 0, 0, 16), "Context": b"\0" * 10 + b"\x20"}
    plain |= {"Modules": b"\0" * 12 + b"\x10\0", "Files": b"\0" * 12 + b"\x10\0", "Functions": b"\0" * 12 + b"\x28\0"}
    body, table = bytearray(0x90), b""
    for section in SECTIONS:
        body += bytes(-len(body) % 8)
        part = content if section == name else plain.get(section, bytes(16))
        table += struct.pack("<QQ", len(part), len(body))
        body += part.ljust(16, b"\0")
    body[:0x90] = b"HPCTOOLKITmeta\x04\x00" + table
    return bytes(body) + bytes(-len(body) % 8) + b"_meta.db"


def test_functions_whose_names_lie_in_one_another(tmp_path: Path) -> None:
    n, at = 5000, meta_db("Functions", bytes(16)).rfind(b"_meta.db") - 16
    names_at = at + 16 + 40 * n
    rows = b"".join(struct.pack("<QQQQII", names_at + k, 0, 0, 0, 0, 0) for k in range(n))
    content = struct.pack("<QIH2x", at + 16, n, 40) + rows + b"f" * 500_000 + b"\0"
    path = folder_of(tmp_path, "meta.db", meta_db("Functions", content))
    with bounded("a wrong announcement"), pytest.raises(CorruptFile, match="strings that lie in one another"):
        open_path(path)


def test_more_metric_ids_than_there_are(tmp_path: Path) -> None:
    n, at = 500, 0xB0
    scope_at, name_at = at + 32, at + 48
    instances_at = name_at + 8
    instances = struct.pack("<QH6x", scope_at, 1) * 0xFFFF
    rows = struct.pack("<QQQHH4x", name_at, instances_at, 0, 0xFFFF, 0) * n
    head = struct.pack("<QIBBBxQHB5x", instances_at + len(instances), n, 32, 16, 24, scope_at, 1, 16)
    content = head + struct.pack("<QBB6x", name_at, 1, 255) + b"point\0\0\0" + instances + rows
    path = folder_of(tmp_path, "meta.db", meta_db("Metrics", content))
    with bounded("a wrong announcement"):
        with pytest.raises(CorruptFile, match="at most 65536 ids of metrics"):
            open_path(path)
        assert main(["dump", str(path), "-o", str(tmp_path / "out")]) == 3


def test_records_of_no_length(tmp_path: Path) -> None:
    content = struct.pack("<QIH2x", 0x90, 2**32 - 1, 0).ljust(64, b"\0")
    path = folder_of(tmp_path, "meta.db", meta_db("Functions", content))
    with bounded("a wrong announcement"):
        assert main(["dump", str(path), "-o", str(tmp_path / "out")]) == 3


# -- what is said ----------------------------------------------------------------------------------------------------


def test_check_reports_what_other_verbs_step_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied("prerelease", tmp_path)
    edit_text(path / "experiment.xml", ('<MetricDB i="2" n="CPUTIME (sec) (I)"/>\n', ""))
    assert main(["check", str(path)]) == 3
    assert "unknown metric id" in capsys.readouterr().out


@every_generation
def test_a_folder_without_any_part(generation: str, tmp_path: Path) -> None:
    format_ = load(f"hpctoolkit-{generation}")
    with pytest.raises(NotRecognised, match=r"there is none of .*profile\.db"):
        format_.read(Source.of(tmp_path), ReadOptions())


def test_a_file_is_not_replaced_by_a_database(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    words = ["convert", str(corpus("release")), str(tmp_path / "thesis.tex"), "--to", "hpctoolkit-release"]
    for more in ([], ["--force"]):
        assert main([*words, *more]) == 2
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("encoding", ["shift_jis", "no-such-encoding", "rot13", "idna", "punycode"])
def test_xml_in_an_encoding_that_cannot_be_read(encoding: str, tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    edit_text(path / "experiment.xml", ('<?xml version="1.0"?>', f'<?xml version="1.0" encoding="{encoding}"?>'))
    for verb in ("info", "check", "dump"):
        assert main([verb, str(path)]) == 3


def test_a_long_path_is_not_repeated_for_every_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied("prerelease", tmp_path)
    lines = "".join(f'<S i="{1000 + k}" f="0" l="{k}" s="1" v="0"/>' for k in range(1, 5000))
    long = "/" + "a" * 200_000 + ".c"
    first = '<S i="4" it="4"'
    edit_text(path / "experiment.xml", ("./src/home/user/perf/apps/pth.c", long), (first, lines + first))
    tracemalloc.start()
    try:
        assert main(["top", str(path)]) == 0
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert len(capsys.readouterr().out) < 1 << 20
