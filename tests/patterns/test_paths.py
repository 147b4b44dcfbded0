"""Conditions over call paths: against the text of every path, and what they cost."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.contexts import LONGEST_PATH
from callgrove.model.experiment import Experiment
from callgrove.patterns.columns import ContextColumns
from callgrove.patterns.expressions import match_texts
from callgrove.patterns.matching import Matcher
from callgrove.patterns.paths import CallPaths
from callgrove.patterns.syntax import NameTest
from tests.patterns.test_matching import random_trees
from tests.patterns.tree_t import small_tree, tree_t, wide_tree

EXPRESSIONS = ["a->b", "^a", "b$", "^a->.*c$", r"\bb\b", "(a|b)->(b|c)->", "", "x", "^$", "->c", "a.*b.*c", ".{9}"]


def paths_of(experiment: Experiment) -> CallPaths:
    column = ContextColumns(experiment).read("path", "")
    assert isinstance(column, CallPaths)
    return column


def assert_as_texts(experiment: Experiment, expression: str) -> None:
    """Walking along the tree must find what looking at every path by itself finds."""
    tree, column, test = experiment.contexts, paths_of(experiment), NameTest("regex", expression)
    texts = [tree.path(context) for context in range(tree.n_listed)]
    assert list(column.cells()) == texts
    np.testing.assert_array_equal(column.match(test, expression), match_texts(test, expression, texts))
    wanted = texts[len(texts) // 2]
    chosen = column.where(lambda some: np.array([text == wanted for text in some], np.bool_))
    assert chosen.tolist() == [text == wanted for text in texts]


@pytest.mark.parametrize("expression", [*EXPRESSIONS, "solve->kernel", "MPI_.*e$", r"main->\w+->MPI"])
def test_paths_of_t(expression: str) -> None:
    assert_as_texts(tree_t(), expression)


@given(random_trees(), st.sampled_from(EXPRESSIONS))
def test_walking_finds_what_texts_do(e: Experiment, expression: str) -> None:
    assert_as_texts(e, expression)


@pytest.mark.parametrize("depth", [LONGEST_PATH - 1, LONGEST_PATH, LONGEST_PATH + 1, 3 * LONGEST_PATH])
@pytest.mark.parametrize("expression", ["a->b", r"\.\.\.", "^b", "b->b$"])
def test_paths_whose_middle_is_cut(depth: int, expression: str) -> None:
    assert_as_texts(
        small_tree("\n".join(f"{' ' * level}{'ab'[level % 3 == 0]} 1" for level in range(depth))), expression
    )


def test_more_paths_than_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.patterns.paths.BATCH", 5)
    assert_as_texts(tree_t(), "kernel")


def seconds_to_choose(n: int, condition: str) -> float:
    matcher = Matcher(wide_tree(n))
    start = time.process_time()
    matcher.find(f"*[?{condition}]")
    return time.process_time() - start


def test_paths_cost_little_more_than_names() -> None:
    """Every path by itself took a hundred times as long."""
    by_name = min(seconds_to_choose(40_000, "name ~ /1/") for _ in range(3))
    by_path = min(seconds_to_choose(40_000, "path ~ /1/") for _ in range(3))
    assert by_path < 10 * by_name
