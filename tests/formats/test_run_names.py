"""Parameters in the names of runs: those of the document, and those that Extra-P misreads."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.errors import InputError, UsageError
from callgrove.formats.run_names import (
    NamedRun,
    agree_on_parameters,
    as_extra_p_reads,
    by_pattern,
    by_table,
    parse_name,
    parse_named_file,
    parse_point,
    suggest_pattern,
)


@pytest.mark.parametrize(
    ("name", "parameters", "repetition"),
    [
        ("mm.a1.1b1.1c1.1", {"a": 1.1, "b": 1.1, "c": 1.1}, None),
        ("mm.x1y1z1", {"x": 1, "y": 1, "z": 1}, None),
        ("mm.x1y1z1.r1", {"x": 1, "y": 1, "z": 1}, 1),
        ("mm.a1,1.b1,1.c1,1.r1", {"a": 1.1, "b": 1.1, "c": 1.1}, 1),
        ("mm.x1.1,y1,1,z1.1.r1", {"x": 1.1, "y": 1.1, "z": 1.1}, 1),
        ("mm.x1.1.y1.1.z1.1.r1", {"x": 1.1, "y": 1.1, "z": 1.1}, 1),
        ("mm.x1.y1.z1.r1", {"x": 1, "y": 1, "z": 1}, 1),
        ("x1y1z1", {"x": 1, "y": 1, "z": 1}, None),
        ("app.ranks4.r2", {"ranks": 4}, 2),
        ("x1.5y2", {"x": 1.5, "y": 2}, None),
        ("my.app.p4", {"p": 4}, None),
        ("p=4", {"p": 4}, None),
        ("p4_n8", {"p": 4, "n": 8}, None),
        ("a1.b2", {"a": 1, "b": 2}, None),
        ("app.p4.n100_r3", {"p": 4, "n": 100}, 3),
        ("n1e6", {"n": 1, "e": 6}, None),
        ("größe10", {"größe": 10}, None),
    ],
)
def test_names(name: str, parameters: dict[str, float], repetition: int | None) -> None:
    assert parse_name(name) == NamedRun(name, parameters, repetition)


@pytest.mark.parametrize("name", ["scorep-20240101_1200_123", "app.4", "app", "", "4", "x1x2", "...", "r1"[:1]])
def test_names_without_parameters(name: str) -> None:
    assert parse_name(name) is None


def test_names_of_files() -> None:
    found = parse_named_file("app.p4.n100.r1.cubex")
    assert found is not None
    assert (found.name, found.parameters, found.repetition) == ("app.p4.n100.r1.cubex", {"p": 4, "n": 100}, 1)


def test_what_extra_p_reads() -> None:
    """As its specification of names says, on those where it differs."""
    assert as_extra_p_reads("mm.x1.1,y1,1,z1.1.r1") == [("x", 1.1), ("y", 1.1), ("z", 1.1)]
    assert as_extra_p_reads("a1.b2") == [("b", 2.0)]
    assert as_extra_p_reads("app.ranks4.r1") is None
    assert as_extra_p_reads("p=4") == [("p=", 4.0)]


def test_parameters_that_never_vary_are_dropped() -> None:
    runs, notes = agree_on_parameters([NamedRun("a", {"p": 1, "n": 5}), NamedRun("b", {"p": 2, "n": 5})], strict=True)
    assert [run.parameters for run in runs] == [{"p": 1}, {"p": 2}]
    assert notes == ["n never varies, so it is not a parameter of the study"]
    pair = [NamedRun("a", {"p": 1, "n": 5, "m": 7}), NamedRun("b", {"p": 2, "n": 5, "m": 7})]
    assert agree_on_parameters(pair, strict=True)[1] == ["n, m never vary, so they are not parameters of the study"]
    runs, _ = agree_on_parameters([NamedRun("a", {"p": 1, "n": 5})], strict=True)
    assert runs[0].parameters == {"p": 1, "n": 5}


def test_orders_and_sets_of_parameters() -> None:
    swapped = [NamedRun("a", {"p": 1, "n": 5}), NamedRun("b", {"n": 6, "p": 2})]
    runs, notes = agree_on_parameters(swapped, strict=False)
    assert [list(run.parameters.items()) for run in runs] == [[("p", 1), ("n", 5)], [("p", 2), ("n", 6)]]
    assert "different orders" in notes[0]
    with pytest.raises(InputError, match=r"a and b .*strict=True"):
        agree_on_parameters(swapped, strict=True)
    with pytest.raises(InputError, match=r"a has the parameters p, but b has p, q: they differ in q"):
        agree_on_parameters([NamedRun("a", {"p": 1}), NamedRun("b", {"p": 1, "q": 2})], strict=False)
    assert (
        "exponents"
        in agree_on_parameters([NamedRun("n1e6", {"e": 6}), NamedRun("n1e7", {"e": 7})], strict=False)[1][-1]
    )


def test_patterns() -> None:
    runs = by_pattern(["run_10_4ranks", "run_2e1_8ranks.r2"], "run_{n}_{ranks}ranks")
    assert [(run.parameters, run.repetition) for run in runs] == [
        ({"n": 10, "ranks": 4}, None),
        ({"n": 20, "ranks": 8}, 2),
    ]
    with pytest.raises(InputError, match="other: does not follow the pattern"):
        by_pattern(["other"], "run_{n}")
    for pattern in ("run", "{n}{n}"):
        with pytest.raises(UsageError, match="different names in braces"):
            by_pattern(["run"], pattern)


def test_tables(tmp_path: Path) -> None:
    table = tmp_path / "points.csv"
    table.write_text("folder,p,n\na,1,10\nb,2,1e3\n")
    assert [run.parameters for run in by_table(["b"], table)] == [{"p": 2, "n": 1000}]
    with pytest.raises(InputError, match="no line for c"):
        by_table(["c"], table)
    table.write_text("folder,p\na,x\n")
    with pytest.raises(InputError, match=r"line 2: expected a folder and 1 numbers"):
        by_table(["a"], table)
    table.write_text("")
    with pytest.raises(InputError, match="first line"):
        by_table(["a"], table)
    with pytest.raises(InputError, match=r"missing: cannot be read: No such file or directory$"):
        by_table(["a"], tmp_path / "missing")
    table.write_bytes(b"folder,p\n\xff,1\n")
    with pytest.raises(InputError, match=r"cannot be read as CSV: it is not text in UTF-8$"):
        by_table(["a"], table)


def test_points() -> None:
    assert parse_point("p=4, n=1e2") == {"p": 4, "n": 100}
    for text in ("", "p", "p=", "=4", "p=x", "p=1,p=2", "p=nan"):
        with pytest.raises(UsageError, match="is no point"):
            parse_point(text)


def test_r_in_braces_is_the_repetition() -> None:
    runs = by_pattern(["t.X11.postfix.r1", "t.X11.postfix.r10"], "t.X{X}.postfix.r{r}")
    assert [(run.parameters, run.repetition) for run in runs] == [({"X": 11.0}, 1), ({"X": 11.0}, 10)]
    assert by_pattern(["r7_n4"], "r{r}_n{n}")[0].parameters == {"n": 4.0}
    with pytest.raises(UsageError, match="different names in braces"):
        by_pattern(["app.r1"], "app.r{r}")


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["t.X11.postfix.r1", "t.X22.postfix.r1", "t.X22.postfix.r2"], "t.X{X}.postfix.r{r}"),
        (["run_10_4ranks", "run_20_4ranks"], "run_{run}_4ranks"),
        (["n=1,5x2", "n=2,5x2"], "n={n},5x2"),
        (["app.r1", "app.r2"], ""),  # repetitions of nothing
        (["one", "two"], ""),
        (["p1.a", "p2.b"], ""),
        (["p1"], ""),
    ],
)
def test_patterns_are_suggested_for_names_that_differ_in_numbers(names: list[str], pattern: str) -> None:
    assert suggest_pattern(names) == pattern
    assert not pattern or len(by_pattern(names, pattern)) == len(names)
