"""Hatchet's queries: what they become here, and that both Hatchets find the same on tree T."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from callgrove.errors import UsageError
from callgrove.model.metrics import Scope
from callgrove.patterns.hatchet import translate_query
from callgrove.patterns.matching import Matcher
from tests.patterns.tree_t import tree_t
from tests.requirements import ROOT, need
from tests.timing import HANG_SEC

T = tree_t()
MAIN, MPI, SOLVE, KERNEL = ({"name": name} for name in ("main", "MPI_.*", "solve", "kernel"))
LARGE = {"time (inc)": "> 20"}

QUERIES: list[tuple[Any, str, str, float]] = [
    ([SOLVE, KERNEL], "solve -> kernel", "solve kernel solve kernel", 132),
    (
        'MATCH (p)->(q) WHERE p."name"="solve" AND q."name"="kernel"',
        "solve -> kernel",
        "solve kernel solve kernel",
        132,
    ),
    ([MAIN, "*", MPI], "main -> ** -> MPI_*", "main init MPI_Bcast solve MPI_Allreduce solve MPI_Allreduce", 76),
    (
        'MATCH (".", p)->("*")->(".", q) WHERE p."name" = "main" AND q."name" STARTS WITH "MPI_"',
        "main -> ** -> MPI_*",
        "main init MPI_Bcast solve MPI_Allreduce solve MPI_Allreduce",
        76,
    ),
    ([MAIN, ".", MPI], "main -> * -> MPI_*", "main init MPI_Bcast solve MPI_Allreduce", 64),
    ([MAIN, "+", MPI], "main -> * -> ** -> MPI_*", "main init MPI_Bcast solve MPI_Allreduce solve MPI_Allreduce", 76),
    ([MAIN, 2], "main -> * -> *", "main init MPI_Bcast solve kernel MPI_Allreduce solve write fwrite", 180),
    ([SOLVE, "*"], "solve -> **", "solve kernel exp MPI_Allreduce solve kernel MPI_Allreduce", 192),
    (["*", KERNEL], "** -> kernel", "main solve kernel solve kernel", 136),
    ([LARGE], "*[?time > 20]", "main solve kernel MPI_Allreduce solve", 152),
    ([("*", LARGE)], "**[?time > 20]", "main solve kernel MPI_Allreduce solve", 152),
    ([{"time": "> 6", "name": "MPI_.*"}], "MPI_*[?excl(time) > 6]", "MPI_Bcast MPI_Allreduce MPI_Allreduce", 48),
    (
        'MATCH (p) WHERE p."time (inc)" > 20 AND NOT p."name" = "main"',
        "*[?time > 20 and name != 'main']",
        "solve kernel MPI_Allreduce solve",
        148,
    ),
    ("MATCH (p) WHERE p IS LEAF", "*[?leaf]", "MPI_Bcast exp MPI_Allreduce kernel MPI_Allreduce fwrite", 88),
    ('MATCH (p) WHERE p."name" ENDS WITH "write"', "*write", "write fwrite", 12),
    ('MATCH (p) WHERE p."name" CONTAINS "er"', "*er*", "kernel kernel", 116),
    ('MATCH (p) WHERE p."name" =~ "MPI_A"', "/^MPI_A/", "MPI_Allreduce MPI_Allreduce", 40),
    ([{"depth": "<= 1", "time": 8}], "*[?depth <= 1 and excl(time) = 8]", "init write", 16),
]


@pytest.mark.parametrize(("query", "pattern", "names", "total"), QUERIES)
def test_queries_mean_what_they_mean_in_hatchet(query: Any, pattern: str, names: str, total: float) -> None:
    matcher = Matcher(T)
    for asked in (translate_query(query), pattern):
        chosen = matcher.find_paths(asked)
        assert [T.contexts.label(c) for c in chosen.nonzero()[0].tolist()] == names.split()
        assert T.totals("time", Scope.EXCLUSIVE)[chosen].sum() == total
    assert T.query(query, rest="drop").root_total("time") == total
    assert T.query(pattern, rest="drop").root_total("time") == total


@pytest.mark.parametrize("peer", ["hatchet", "hatchet-classic"])
def test_both_hatchets_find_the_same(peer: str) -> None:
    python = ROOT / ".peers" / peer / "bin" / "python"
    if not python.is_file():
        need(f"{peer}-peer", f"{peer} is not installed; `make peers` does that")
    command = [str(python), str(ROOT / "bench" / "peers" / "query_with_hatchet.py")]
    asked = json.dumps([query for query, *_ in QUERIES])
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=HANG_SEC, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    for (query, _, names, total), answer in zip(QUERIES, answers, strict=True):
        refused = peer == "hatchet-classic" and "IS LEAF" in query
        assert answer == (["InvalidQueryPath", 0.0] if refused else [sorted(names.split()), total]), query


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ([lambda row: True], "a Python function, which cannot be translated"),
        ([("*", lambda row: True)], "a Python function, which cannot be translated"),
        ("{MATCH (p)} AND {MATCH (q)}", "combined of others cannot be translated"),
        ([{"node_id": 3}], "asks for 'node_id'"),
        ([{("a", "b"): 3}], "asks for .'a', 'b'."),
        (["x"], "'x' is not a quantifier"),
        ([10**9], "is not a quantifier"),
        ([], "no step"),
        ([3.5], "a step of a query is"),
        ([{"tim": "> 3"}], "there is no metric 'tim' at character 9 .*; did you mean 'time'"),
        ([{"time": "three"}], "'three', which is not a comparison"),
        ([{"name": {}}], "there are numbers and texts"),
        ('MATCH (p)->(q) WHERE p."name" = "a" OR q."name" = "b"', "OR between 'p' and 'q'"),
        ('MATCH (p) WHERE q."name" = "a"', "there is no node 'q'"),
        ('MATCH (p) WHERE p."time" IS INF', "IS INF"),
        ("MATCH (p", r"expected '\)' at character 9"),
        ("MATCH (p) WHERE p.name = 3", "expected a column in quotes at character 19"),
        ("MATCH (p) LIMIT", "expected 'AND', 'OR' or the end at character 10"),
        (object(), "a query is a text or a list, no object"),
    ],
)
def test_what_cannot_be_mapped_is_refused_by_name(query: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        T.query(query)


def test_texts_with_slashes_and_quotes() -> None:
    text = translate_query([{"file": "/usr/.*"}, {"name": r"a\/b"}]).text
    assert text == r"*[?file ~ /^(?:\x2fusr\x2f.*)$/] -> /^(?:a\x2fb)$/"
    assert translate_query('MATCH (p) WHERE p."name" = "it\'s"').text == "*[?name = 'it''s']"
    assert translate_query('MATCH (2, p)->("+") WHERE p."time" IS NOT NAN').text == (
        "*[?excl(`time`) is not missing] -> *[?excl(`time`) is not missing] -> * -> **"
    )
