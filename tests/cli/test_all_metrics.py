"""`--all-metrics`: the columns that a profiler wants shown, against numbers made here from what threads measured."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from callgrove.cli.main import main
from tests.cli.commands import Capture, rows, run, said
from tests.formats import text_dumps
from tests.formats.hpctoolkit.databases import copied, corpus
from tests.formats.hpctoolkit.legacy_databases import METRICS, Program
from tests.formats.hpctoolkit.test_prerelease_variants import with_statistics

METRIC = "CPUTIME (sec)"
STATISTICS = ("Sum", "Mean", "StdDev", "CfVar", "Min", "Max")


def brute(values: list[float]) -> dict[str, float]:
    """The statistics of threads that have a value."""
    n, total = len(values), math.fsum(values)
    mean = total / n
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / n)
    return dict(zip(STATISTICS, (total, mean, spread, spread / mean, min(values), max(values)), strict=True))


def close(have: float | None, want: float, scale: float) -> bool:
    """A spread is a difference of large numbers: it is right to the rounding of these."""
    return have is not None and abs(have - want) <= 1e-12 * abs(want) + 2e-8 * scale


def measured(capsys: Capture, path: Path, *options: str) -> dict[tuple[int, str], list[float]]:
    """(context, scope) -> the values that threads have there."""
    scopes = {m["metric"]: m["scope"] for m in rows(capsys, "export", path, "--table", "metrics")}
    summaries = {p["profile"] for p in rows(capsys, "export", path, "--table", "profiles") if p["kind"] == "summary"}
    found: dict[tuple[int, str], list[float]] = defaultdict(list)
    for row in rows(capsys, "export", path, "--table", "values", *options):
        if row["profile"] not in summaries:
            found[row["context"], scopes[row["metric"]]].append(row["value"])
    return found


@pytest.mark.parametrize("options", [(), ("--thread", "0-2"), ("--thread", "1")])
def test_statistics_of_contexts(options: tuple[str, ...], capsys: Capture, tmp_path: Path) -> None:
    """Every context of the tree in both scopes; the stored sum of squares is wrong, as in genuine files."""
    path = copied("prerelease", tmp_path)
    with_statistics(path)
    threads = measured(capsys, path, *options)
    table = rows(capsys, "tree", path, "--source", "--limit", "all", "--all-metrics", *options)
    assert len(table) > 10
    compared = 0
    for row in table:
        for mark, scope in (("I", "inclusive"), ("E", "function")):
            values = threads.get((row["context"], scope))
            for statistic in STATISTICS:
                have = row[f"{METRIC}:{statistic} ({mark})"]
                if not values:
                    assert not have
                    continue
                want = brute(values)
                assert close(have, want[statistic], 1.0 if statistic == "CfVar" else want["Mean"]), (row, statistic)
                compared += 1
    assert compared > 100


def test_statistics_of_functions(capsys: Capture, tmp_path: Path) -> None:
    """A thread's cost in all calls of a function is one value: compared with `top` of each thread alone."""
    path = copied("prerelease", tmp_path)
    with_statistics(path)
    profiles = rows(capsys, "export", path, "--table", "profiles")
    threads = [p["thread"] for p in profiles if p["kind"] != "summary"]
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for thread in threads:
        for row in rows(capsys, "top", path, "--limit", "all", "--thread", thread):
            for scope in ("exclusive", "inclusive"):
                if row[scope]:
                    found[row["name"], scope].append(row[scope])
    table = rows(capsys, "top", path, "--limit", "all", "--all-metrics")
    assert table
    for row in table:
        for mark, scope in (("I", "inclusive"), ("E", "exclusive")):
            values = found.get((row["name"], scope), [])
            for statistic in STATISTICS if values else ():
                want = brute(values)
                scale = 1.0 if statistic == "CfVar" else want["Mean"]
                assert close(row[f"{METRIC}:{statistic} ({mark})"], want[statistic], scale), (row["name"], statistic)
            assert bool(row[f"{METRIC}:Sum ({mark})"]) == bool(values)


@pytest.mark.parametrize("generation", ["prerelease", "release"])
def test_sums_are_those_of_the_reference_dump(generation: str, shared: Path, capsys: Capture) -> None:
    """What HPCToolkit's own tool prints of the stored summary."""
    path = shared / "data" / "own" / f"hpctoolkit-{generation}" / "mpi4.d"
    stored = {key[1:]: float(text) for key, text in text_dumps.values_by_profile(path).items() if key[0] == 0}
    contexts = {c["context"]: c["source_id"] for c in rows(capsys, "export", path, "--table", "contexts")}
    ids = {m["scope"]: m["source_id"] for m in rows(capsys, "export", path, "--table", "metrics") if m["source_id"]}
    compared = 0
    for row in rows(capsys, "tree", path, "--source", "--limit", "all", "--all-metrics"):
        for mark, scope in (("I", "inclusive"), ("E", "function")):
            want = stored.get((contexts[row["context"]], ids[scope]), 0.0)
            assert row[f"{METRIC}:Sum ({mark})"] == pytest.approx(want, rel=1e-5)  # the dump has six digits
            compared += bool(want)
    assert compared > 20


def test_derived_columns_of_the_yaml(shared: Path, capsys: Capture) -> None:
    """Formulas of metrics/default.yaml, evaluated here as Python over the exported summary."""
    import callgrove

    path = shared / "data" / "public" / "hpctoolkit" / "dbase" / "loops-cuda-nvidia-t.d"
    experiment = callgrove.open(path)
    assert isinstance(experiment, callgrove.Experiment)
    metrics = {m["metric"]: m["source_id"] for m in rows(capsys, "export", path, "--table", "metrics")}
    summary: dict[tuple[int, int], float] = {
        (row["context"], metrics[row["metric"]]): row["value"]
        for row in rows(capsys, "export", path, "--table", "values")
        if row["profile"] == 0
    }
    table = rows(capsys, "tree", path, "--source", "--limit", "all", "--all-metrics")
    compared = 0
    for column in experiment.metrics.columns:
        name = f"{column.name}{':' * bool(column.statistic)}{column.statistic}"
        name += " (I)" if column.scope == "inclusive" else " (E)"
        if not column.visible or column.scope == "lexical":
            assert column.visible or name not in table[0]
            continue
        for row in table:

            def of(match: re.Match[str], context: int = row["context"]) -> str:
                return repr(summary.get((context, int(match[1])), 0.0))

            text = re.sub(r"\$(\d+)", of, column.formula).replace("^", "**")
            try:
                want = eval(text, {"sum": lambda *x: sum(x), "sqrt": math.sqrt})
            except ZeroDivisionError:
                want = None
            have = row[name]
            assert have == (None if want is None else pytest.approx(want, rel=1e-9, abs=1e-30)), (name, row, text)
            compared += bool(want)
    assert compared > 40


def with_metric_table(path: Path, *metrics: str) -> None:
    text = (path / "experiment.xml").read_text("utf-8")
    begin, end = text.index("<MetricTable>"), text.index("</MetricTable>")
    partials = "".join(
        f'<Metric i="{k}" n="{METRIC}:PARTIAL:0 ({w})" show="4"><MetricFormula t="combine" frm="sum(${k}, ${k})"/>'
        "</Metric>"
        for k, w in ((1, "E"), (2, "I"))
    )
    (path / "experiment.xml").write_text(
        text[:begin] + "<MetricTable>" + partials + "".join(metrics) + text[end:], "utf-8"
    )


def view(id_: int, name: str, formula: str, more: str = 'show="1" show-percent="0"') -> str:
    kind = "inclusive" if name.endswith("(I)") else "exclusive"
    return f'<Metric i="{id_}" n="{name}" t="{kind}" {more}><MetricFormula t="view" frm="{formula}"/></Metric>'


def test_columns_refer_to_columns_and_hidden_ones_stay_hidden(capsys: Capture, tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    with_metric_table(
        path,
        view(-1, f"{METRIC}:Sum (I)", "$2"),
        view(-3, "twice (I)", "2*$-1"),
        view(-5, "fourfold (I)", "$-3+$-3"),
        view(-7, "hidden (I)", "$2", 'show="0" show-percent="0"'),
        view(-9, "nothing (I)", "$2/0"),
    )
    table = rows(capsys, "tree", path, "--limit", "all", "--all-metrics")
    assert not any("hidden (I)" in row for row in table)
    for row in table:
        assert row["twice (I)"] == 2 * row["inclusive"]
        assert row["fourfold (I)"] == 4 * row["inclusive"]
        assert row["nothing (I)"] is None


def test_formulas_that_cannot_be_computed_are_said(capsys: Capture, tmp_path: Path) -> None:
    path = copied("prerelease", tmp_path)
    with_metric_table(
        path,
        view(-1, f"{METRIC}:Sum (I)", "$2"),
        view(-3, "broken (I)", "2*("),
        view(-5, "unknown (I)", "$77"),
        view(-7, "round (I)", "$-9"),
        view(-9, "about (I)", "$-7"),
    )
    capsys.readouterr()
    assert main(["top", str(path), "--all-metrics", "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    assert "4 columns have a formula that cannot be computed: broken (I), unknown (I), round (I), ..." in err
    assert out.splitlines()[0].endswith(f"percent,{METRIC}:Sum (I)")


def test_print_formats_and_percent(capsys: Capture, tmp_path: Path) -> None:
    """Text has the format of the file and shares; data has the numbers."""
    path = copied("prerelease", tmp_path)
    with_metric_table(
        path,
        view(-1, f"{METRIC}:Sum (I)", "$2", 'show="1" show-percent="1"'),
        view(-3, "share (I)", "$2*100", 'show="1" show-percent="0" fmt="%6.2f %%"'),
        view(-5, "odd (I)", "$2*10", 'show="1" show-percent="0" fmt="%s%n"'),
    )
    [first, *_] = rows(capsys, "tree", path, "--all-metrics")
    text = run(capsys, "tree", path, "--all-metrics")
    line = text.splitlines()[2]
    assert f"{first['share (I)']:.2f} %" in line
    total = rows(capsys, "tree", path)[0]["percent"]
    assert f"{total:.1f}%" in line
    assert "%s" not in text


def test_every_metric_of_a_legacy_database(capsys: Capture, tmp_path: Path) -> None:
    program = Program("2.2")
    path = program.write(tmp_path / "data")
    contexts = {c["context"]: c["source_id"] for c in rows(capsys, "export", path, "--table", "contexts")}
    nodes = {node.id: node for node in program.nodes}
    for options, threads in (((), range(4)), (("--rank", "1"), (2, 3))):
        for row in rows(capsys, "tree", path, "--limit", "all", "--all-metrics", *options):
            node = nodes[contexts[row["context"]]]
            for k, name in enumerate(METRICS):
                inclusive = sum(program.inclusive(t, k, node) for t in threads)
                assert row[f"{name}:Sum (I)"] == pytest.approx(inclusive)
                exclusive = sum(program.exclusive(t, k, node) for t in threads)
                assert row[f"{name}:Sum (E)"] == pytest.approx(exclusive)


def test_a_statistic_that_only_the_summary_has(capsys: Capture, tmp_path: Path) -> None:
    """Legacy files accumulate; a formula finishes. There is no thread to compute it from."""
    path = Program("2.2").write(tmp_path / "data", metric_dbs=False)
    text = (path / "experiment.xml").read_text()
    mean = (
        '<Metric i="20" n="CPUTIME (sec):Mean (I)" v="derived-incr" t="inclusive" show="1" show-percent="0">'
        '<MetricFormula t="combine" frm="sum($20, $20)"/><MetricFormula t="finalize" frm="$20/4"/></Metric>'
    )
    text = text.replace("  </MetricTable>", mean + "  </MetricTable>")
    text = re.sub(r'<M n="4" v="([^"]+)"/>', r'<M n="4" v="\1"/><M n="20" v="\1"/>', text)
    (path / "experiment.xml").write_text(text)
    for row in rows(capsys, "tree", path, "--limit", "all", "--all-metrics"):
        assert row["CPUTIME (sec):Mean (I)"] == pytest.approx(row["inclusive"] / 4)


def test_without_columns_every_quantity_has_both_costs(capsys: Capture, tmp_path: Path) -> None:
    path = copied("release", tmp_path)
    (path / "metrics" / "default.yaml").unlink()
    for row in rows(capsys, "top", path, "--limit", "all", "--all-metrics"):
        assert row[f"{METRIC} (E)"] == row["exclusive"]
        assert row[f"{METRIC} (I)"] == row["inclusive"]


def test_exclusive_columns_of_functions_add_up(capsys: Capture) -> None:
    for generation in ("prerelease", "release"):
        table: list[dict[str, Any]] = rows(capsys, "top", corpus(generation), "--limit", "all", "--all-metrics")
        for row in table:
            assert row[f"{METRIC}:Sum (E)"] == pytest.approx(row["exclusive"])
            assert row[f"{METRIC}:Sum (I)"] == pytest.approx(row["inclusive"])


def test_hot_path(capsys: Capture) -> None:
    for row in rows(capsys, "hot", corpus("release"), "--all-metrics"):
        assert row[f"{METRIC}:Sum (I)"] == pytest.approx(row["inclusive"])


def test_callers_have_no_columns(capsys: Capture) -> None:
    text = said(capsys, "tree", corpus("release"), "--bottom-up", "--all-metrics", code=2)
    assert "the rows of --bottom-up are not" in text
