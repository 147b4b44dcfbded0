"""What views and selections mean: totals, ranks and threads, metrics, limits, callers, source lines.

Numbers are compared with sums made here from the exported table of values, which other tests compare with the files.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from callgrove.cli.main import main
from tests.cli.commands import Capture, rows, run
from tests.formats.samples import CORPUS, databases

DATABASES = [*databases("prerelease"), *databases("release")]
every_database = pytest.mark.parametrize("path", DATABASES, ids=lambda p: f"{p.parent.name}/{p.name}")
PTH4 = CORPUS / "hpctoolkit" / "release" / "pth4.d"
METRIC = "CPUTIME (sec)"


def exported(capsys: Capture, path: Path, scope: str, *options: str) -> list[dict[str, Any]]:
    return rows(capsys, "export", path, "--table", "values", "--scope", scope, *options)


def tree_of(capsys: Capture, path: Path) -> tuple[set[int], set[int]]:
    """The contexts of the tree, and its roots."""
    contexts = [c for c in rows(capsys, "export", path, "--table", "contexts") if c["kind"] != "elided"]
    return {c["context"] for c in contexts}, {c["context"] for c in contexts if c["parent"] is None}


@every_database
def test_four_views_have_one_total(path: Path, capsys: Capture) -> None:
    _, roots = tree_of(capsys, path)
    measured = {p["profile"] for p in rows(capsys, "export", path, "--table", "profiles") if p["kind"] != "summary"}
    inclusive = exported(capsys, path, "inclusive")
    total = sum(v["value"] for v in inclusive if v["context"] in roots and v["profile"] in measured)
    for by in ("function", "line", "loop", "context", "file", "module"):
        table = rows(capsys, "top", path, "--by", by, "--limit", "all")
        assert sum(row["exclusive"] for row in table) == pytest.approx(total, rel=1e-9)
        assert sum(row["percent"] for row in table) == pytest.approx(100, rel=1e-9)
    for source in ((), ("--source",)):
        tree = rows(capsys, "tree", path, "--limit", "all", *source)
        assert sum(row["exclusive"] for row in tree) == pytest.approx(total, rel=1e-9)
        assert sum(row["inclusive"] for row in tree if row["depth"] == 0) == pytest.approx(total, rel=1e-9)
    callers = rows(capsys, "tree", path, "--bottom-up", "--limit", "all")
    assert sum(row["exclusive"] for row in callers if row["depth"] == 0) == pytest.approx(total, rel=1e-9)


@every_database
def test_tree_is_in_preorder(path: Path, capsys: Capture) -> None:
    """A row's depth is at most one more than that of the row above; siblings stand by falling cost; a child never
    costs more than its parent."""
    tree = rows(capsys, "tree", path, "--source", "--limit", "all")
    chain: list[dict[str, Any]] = []
    last_sibling: dict[int, float] = {}
    for row in tree:
        assert row["depth"] <= len(chain)
        del chain[row["depth"] :]
        last_sibling = {depth: cost for depth, cost in last_sibling.items() if depth <= row["depth"]}
        assert row["inclusive"] <= last_sibling.get(row["depth"], float("inf"))
        last_sibling[row["depth"]] = row["inclusive"]
        if chain:
            assert row["inclusive"] <= chain[-1]["inclusive"] * (1 + 1e-9)
        chain.append(row)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("--rank", "0"), lambda p: p["rank"] == 0),
        (("--rank", "0,2-3"), lambda p: p["rank"] in (0, 2, 3)),
        (("--thread", "0"), lambda p: p["thread"] == 0),
        (("--rank", "1-2", "--thread", "3"), lambda p: p["rank"] in (1, 2) and p["thread"] == 3),
        (("--rank", "0-99999999999"), lambda p: True),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else "",
)
@pytest.mark.parametrize("path", [p for p in DATABASES if "mpi4" in p.name], ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_selection_is_the_sum_over_its_profiles(
    path: Path, options: tuple[str, ...], wanted: Any, capsys: Capture
) -> None:
    profiles = rows(capsys, "export", path, "--table", "profiles")
    chosen = {p["profile"] for p in profiles if p["kind"] != "summary" and wanted(p)}
    selected = rows(capsys, "export", path, "--table", "profiles", *options)
    assert {p["profile"] for p in selected} == chosen
    listed, _ = tree_of(capsys, path)
    sums: dict[str, Counter[int]] = {}
    for scope in ("exclusive", "inclusive"):
        sums[scope] = Counter()
        for value in exported(capsys, path, scope):
            if value["profile"] in chosen and value["context"] in listed:
                sums[scope][value["context"]] += value["value"]
    for row in rows(capsys, "tree", path, "--source", "--limit", "all", *options):
        for scope, found in sums.items():
            assert row[scope] == pytest.approx(found[row["context"]], rel=1e-9, abs=1e-15)
    only = exported(capsys, path, "stored", *options)
    assert only == [v for v in exported(capsys, path, "stored") if v["profile"] in chosen]
    samples = rows(capsys, "export", path, "--table", "samples", *options)
    assert samples == [s for s in rows(capsys, "export", path, "--table", "samples") if s["profile"] in chosen]


@every_database
def test_a_metric_by_a_part_of_its_name(path: Path, capsys: Capture) -> None:
    whole = run(capsys, "top", path, "-m", METRIC, "--format", "csv")
    for asked in ("cputime", "CPU", "(sec)"):
        assert run(capsys, "top", path, "-m", asked, "--format", "csv") == whole
    assert run(capsys, "top", path, "--format", "csv") == whole
    values = exported(capsys, path, "exclusive", "-m", "cpu")
    assert values == exported(capsys, path, "exclusive")


@every_database
def test_a_limit_keeps_the_costliest(path: Path, capsys: Capture) -> None:
    everything = rows(capsys, "top", path, "--limit", "all")
    assert rows(capsys, "top", path, "--limit", "3") == everything[:3]
    assert [row["exclusive"] for row in everything] == sorted((row["exclusive"] for row in everything), reverse=True)
    assert run(capsys, "top", path, "--limit", "2").splitlines()[-1] == f"… and {len(everything) - 2} more"
    capsys.readouterr()
    assert main(["top", str(path), "--limit", "2", "--format", "csv"]) == 0
    assert f"callgrove: {len(everything) - 2} more rows were left out by --limit" in capsys.readouterr().err
    tree = rows(capsys, "tree", path, "--limit", "all")
    for limit in range(1, len(tree)):
        kept = rows(capsys, "tree", path, "--limit", limit)
        assert len(kept) <= limit
        assert [row for row in tree if row in kept] == kept
        depths = [row["depth"] for row in kept]
        assert all(b <= a + 1 for a, b in pairwise(depths))  # with all that lies above
    assert rows(capsys, "top", path, "--limit", "0") == []


@every_database
def test_bottom_up_splits_a_function_among_its_callers(path: Path, capsys: Capture) -> None:
    table = rows(capsys, "tree", path, "--bottom-up", "--limit", "all")
    flat = {(row["name"], row["module"]): row["exclusive"] for row in rows(capsys, "top", path, "--limit", "all")}
    for number, row in enumerate(table):
        if row["depth"] == 0:
            assert row["exclusive"] == pytest.approx(flat[row["name"], row["module"]], rel=1e-9)
        callers = 0.0
        for below in table[number + 1 :]:
            if below["depth"] <= row["depth"]:
                break
            callers += below["exclusive"] if below["depth"] == row["depth"] + 1 else 0
        assert callers == 0 or callers == pytest.approx(row["exclusive"], rel=1e-9)


def test_source_shows_lines_with_their_text(capsys: Capture) -> None:
    text = (PTH4 / "src/home/user/perf/apps/pth.c").read_text().splitlines()
    for generation in ("prerelease", "release"):
        tree = rows(capsys, "tree", CORPUS / "hpctoolkit" / generation / "pth4.d", "--source", "--limit", "all")
        assert any(row["kind"] == "line" for row in tree)
        for row in tree:
            assert row["source"] == (text[row["line"] - 1].strip() if row["line"] else None)
    assert not any(row["kind"] == "line" for row in rows(capsys, "tree", PTH4))


def test_hot_follows_the_costliest_calls(capsys: Capture) -> None:
    for path in DATABASES:
        tree = rows(capsys, "tree", path, "--limit", "all")
        hot = rows(capsys, "hot", path)
        assert hot[0] == tree[0]
        assert [row["depth"] for row in hot] == list(range(len(hot)))
        for above, below in pairwise(hot):
            assert below["inclusive"] >= 0.5 * above["inclusive"]
        assert (
            len(rows(capsys, "hot", path, "--share", "0")) >= len(hot) >= len(rows(capsys, "hot", path, "--share", "1"))
        )


@pytest.mark.parametrize(("table", "options"), [("contexts", ()), ("samples", ()), ("samples", ("--thread", "1"))])
def test_export_says_how_many_rows_are_left(
    table: str, options: tuple[str, ...], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the table comes in many chunks, which are not read."""
    n = len(rows(capsys, "export", PTH4, "--table", table, *options))
    monkeypatch.setattr("callgrove.analysis.tables.CHUNK", 2)
    capsys.readouterr()
    assert main(["export", str(PTH4), "--table", table, "--limit", "3", *options]) == 0
    assert f"callgrove: {n - 3} more rows were left out by --limit" in capsys.readouterr().err


def test_info_writes_to_a_file(capsys: Capture, tmp_path: Path) -> None:
    for options in ((), ("--format", "json"), ("--metrics",)):
        printed = run(capsys, "info", PTH4, PTH4, *options)
        assert run(capsys, "info", PTH4, PTH4, *options, "-o", tmp_path / "facts") == ""
        assert (tmp_path / "facts").read_text("utf-8") == printed
