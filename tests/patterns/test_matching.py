"""Which contexts patterns find: on tree T, and on random trees against an enumeration of all paths."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.errors import UsageError
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment
from callgrove.patterns.matching import Matcher
from callgrove.patterns.syntax import Pattern, Step, parse_pattern
from tests.patterns.tree_t import names_of, small_tree, tree_t, wide_tree

T = tree_t()


@pytest.mark.parametrize(
    ("pattern", "found", "on_paths", "total"),
    [
        ("kernel", "kernel kernel", "kernel kernel", 116),
        ("solve -> kernel", "kernel kernel", "solve kernel solve kernel", 132),
        ("solve -> ** -> kernel", "kernel kernel", "solve kernel solve kernel", 132),
        ("main -> * -> MPI_*", "MPI_Bcast MPI_Allreduce", "main init MPI_Bcast solve MPI_Allreduce", 64),
        ("** -> kernel", "kernel kernel", "main solve kernel solve kernel", 136),
        ("*[?time > 20]", "main solve kernel MPI_Allreduce solve", "main solve kernel MPI_Allreduce solve", 152),
        ("main[?root] -> init", "init", "main init", 12),
        ("solve[?root]", "", "", 0),
        ("solve -> solve", "solve", "solve solve", 16),
        ("/^(init|write)$/", "init write", "init write", 16),
        ("/^INIT$/i", "init", "init", 8),
        ('"solve" -> "MPI_Allreduce"', "MPI_Allreduce MPI_Allreduce", "solve MPI_Allreduce solve MPI_Allreduce", 56),
        ("**[?excl(time) > 15] -> leaf?", "", "", 0),
        ("MPI_?cast", "MPI_Bcast", "MPI_Bcast", 8),
        ("*[?time > 50%]", "main solve kernel", "main solve kernel", 116),
    ],
)
def test_patterns_on_t(pattern: str, found: str, on_paths: str, total: float) -> None:
    matcher = Matcher(T)
    if not found:
        with pytest.raises(UsageError, match="no context"):
            matcher.find(pattern)
        return
    assert names_of(T, matcher.find(pattern)) == found
    assert names_of(T, matcher.find_paths(pattern)) == on_paths
    assert T.totals("time", T.metrics[0].scope)[matcher.find_paths(pattern)].sum() == total


def test_all_paths_count() -> None:
    """Also those through contexts that fit a later step."""
    e = small_tree("main 1\n  b 2\n    c 4\n      b 8\n")
    assert names_of(e, Matcher(e).find_paths("main -> ** -> b")) == "main b c b"


def test_a_text_that_is_a_name_means_that_name() -> None:
    e = small_tree("main 1\n  operator-> 2\n  foo(int*) 4\n  foo(int) 8\n  operator[] 1\n  a -> b 1")
    matcher = Matcher(e)
    for name in ("operator->", "foo(int*)", "operator[]", "a -> b"):
        assert names_of(e, matcher.find(name)) == name
    assert names_of(e, matcher.find("foo(int*")) == "foo(int*) foo(int)"


def test_what_is_nested_in_functions_is_passed_over() -> None:
    e = small_tree("""
        main 1
          [main.c:7] 1
            solve 1
              [loop at solve.c:3] 1
                [solve.c:4] 1
                  kernel 1
        """)
    matcher = Matcher(e)
    assert names_of(e, matcher.find_paths("main -> solve -> kernel")) == "main solve kernel"
    assert names_of(e, matcher.find("main -> * -> *")) == "kernel"
    assert names_of(e, matcher.find("solve -> loop* -> kernel")) == "kernel"
    assert names_of(e, matcher.find("*[?kind = 'loop']")) == "loop at solve.c:3"
    assert names_of(e, matcher.find("main -> **")) == "main solve kernel"
    with pytest.raises(UsageError, match=r"no context fits 'main -> \* -> \* -> \*'"):
        matcher.find("main -> * -> * -> *")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("kernl", "there is no context 'kernl'; did you mean 'kernel'"),
        ("main -> slove", "there is no context 'slove'; did you mean 'solve'"),
        ("kernel -> main", "no context fits 'kernel -> main'"),
        ("/^nothing/", "no context fits"),
        ("*[?name = main]", r"'main' at character 11 of .*; a text stands in single quotes: 'main'$"),
        (
            "solve[?tme > 5]",
            r"there is no metric or column 'tme' at character 8 of 'solve\[\?tme > 5\]'; did you mean 'time'",
        ),
    ],
)
def test_patterns_that_find_nothing(pattern: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Matcher(T).find_paths(pattern)


# -- against an enumeration of all paths -------------------------------------------------------------------------------


def fits(e: Experiment, step: Step, context: int) -> bool:
    nested = e.contexts.label(context).startswith("l")
    if step.name is None:
        return not nested
    return e.contexts.label(context) == step.name.text


def chains(tree: ContextTree) -> Iterator[list[int]]:
    """Every way from a context down to another one."""
    for last in range(len(tree)):
        above = tree.ancestors(last)
        for length in range(1, len(above) + 1):
            yield above[:length][::-1]


def assignments(e: Experiment, pattern: Pattern, chain: list[int]) -> Iterator[list[int]]:
    """Every set of contexts of a chain, its ends included, that a pattern takes, step by step."""

    def walk(step: int, at: int, taken: list[int]) -> Iterator[list[int]]:
        if at == len(chain):
            if taken and taken[-1] == chain[-1] and all(one.many for one in pattern.steps[step:]):
                yield taken
            return
        here, nested = chain[at], e.contexts.label(chain[at]).startswith("l")
        if nested and taken:
            yield from walk(step, at + 1, taken)
        if step == len(pattern.steps):
            return
        if pattern.steps[step].many:
            yield from walk(step + 1, at, taken)
        if fits(e, pattern.steps[step], here):
            yield from walk(step if pattern.steps[step].many else step + 1, at + 1, [*taken, here])

    return walk(0, 0, [])


@st.composite
def random_trees(draw: st.DrawFn) -> Experiment:
    """Functions a, b, c and lines l that are nested in them."""
    n = draw(st.integers(1, 9))
    depths, lines = [0], ["a 1"]
    for _ in range(n - 1):
        depths.append(draw(st.integers(1, depths[-1] + 1)))
        lines.append(" " * depths[-1] + draw(st.sampled_from(["a 1", "b 1", "c 1", "[l] 1"])))
    return small_tree("\n".join(lines))


STEPS = st.lists(st.sampled_from(["a", "b", "l", "*", "**"]), min_size=1, max_size=4)


@given(random_trees(), STEPS)
def test_matches_are_those_of_an_enumeration(e: Experiment, steps: list[str]) -> None:
    pattern = parse_pattern(" -> ".join(steps))
    ends: set[int] = set()
    members: set[int] = set()
    for chain in chains(e.contexts):
        for taken in assignments(e, pattern, chain):
            ends.add(taken[-1])
            members.update(taken)
    matcher = Matcher(e)
    try:
        found, on_paths = matcher.find(pattern), matcher.find_paths(pattern)
    except UsageError:
        found = on_paths = np.zeros(len(e.contexts), np.bool_)
    assert set(np.flatnonzero(found).tolist()) == ends
    assert set(np.flatnonzero(on_paths).tolist()) == members


def test_64_steps() -> None:
    depth = 70
    e = small_tree("\n".join(f"{' ' * level}f 1" for level in range(depth)))
    matcher = Matcher(e)
    assert matcher.find(" -> ".join(["f"] * 64)).sum() == depth - 63
    assert matcher.find_paths(" -> ".join(["**"] * 63 + ["f"])).sum() == depth


def time_to_match(n: int) -> float:
    e = wide_tree(n)
    assert e.contexts.levels  # which every tree makes once
    times = []
    for _ in range(3):
        start = time.process_time()
        Matcher(e).find_paths("f0 -> ** -> /^f[1-3]$/ -> *[?time > 1]")
        times.append(time.process_time() - start)
    return min(times)


def test_time_is_linear_in_contexts() -> None:
    """Ten times as many contexts take ten times as long; quadratic time would be a hundred times."""
    assert time_to_match(300_000) / time_to_match(30_000) < 35
