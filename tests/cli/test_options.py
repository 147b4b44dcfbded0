"""Arguments that verbs share."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.cli.contexts import ContextOptions
from callgrove.cli.options import (
    ExecutionOptions,
    InputOptions,
    SelectionOptions,
    TableOutput,
    add_execution,
    add_input,
    add_selection,
    add_study_input,
    add_table_output,
    engine,
    int_set,
)
from callgrove.cli.parser import Parser
from callgrove.errors import UsageError
from callgrove.execute import Engine
from callgrove.model.runs import IntSet


def test_input() -> None:
    parser = Parser("callgrove top")
    add_input(parser)
    args = parser.read(["a", "--from", "cube", "--strict"], InputOptions)
    assert (args.paths, args.from_format, args.strict, args.salvage) == (["a"], "cube", True, False)


def test_many_inputs() -> None:
    parser = Parser("callgrove info")
    add_input(parser, many=True)
    assert parser.read(["a", "--salvage", "b"], InputOptions).paths == ["a", "b"]


def test_study_input() -> None:
    parser = Parser("callgrove model")
    add_study_input(parser)
    args = parser.read(["a"], InputOptions)
    assert (args.paths, args.points, args.scaling, args.study_scope) == (["a"], [], "", "exclusive")
    words = ["--point", "p=1", "x", "--scaling", "strong", "--point", "p=2", "y", "--inclusive"]
    args = parser.read(words, InputOptions)
    assert (args.paths, args.points) == ([], [["p=1", "x"], ["p=2", "y"]])
    assert (args.inputs, args.input_name) == (["x", "y"], "x and 1 more")
    assert (args.scaling, args.study_scope) == ("strong", "inclusive")
    with pytest.raises(UsageError, match="not allowed with"):
        parser.read(["a", "--points", "f.csv", "--folder-pattern", "{n}"], InputOptions)


@dataclass(frozen=True, kw_only=True)
class WithTarget(InputOptions):
    target: str


def test_runs_leave_the_place_of_path_to_what_follows() -> None:
    parser = Parser("callgrove convert")
    add_study_input(parser)
    parser.add_argument("target")
    args = parser.read(["--point", "p=1", "x", "out"], WithTarget)
    assert (args.paths, args.target) == ([], "out")
    args = parser.read(["in", "--strict", "out"], WithTarget)
    assert (args.paths, args.target) == (["in"], "out")


@dataclass(frozen=True, kw_only=True)
class SelectedRuns(SelectionOptions, ContextOptions):
    run: str | None
    derive: list[str]


def test_an_argument_without_a_field_is_an_error() -> None:
    parser = Parser("callgrove top")
    add_selection(parser)
    with pytest.raises(TypeError, match="unexpected keyword argument 'derive'"):
        parser.read([], SelectionOptions)


def test_a_field_without_an_argument_is_an_error() -> None:
    with pytest.raises(TypeError, match="'paths', 'strict', and 'salvage'"):
        Parser("callgrove top").read([], InputOptions)


def test_selection() -> None:
    parser = Parser("callgrove top")
    add_selection(parser)
    args = parser.read(["-m", "time", "--rank", "0-3,7", "--derive", "x=1", "--derive", "y=2"], SelectedRuns)
    assert (args.metric, args.metric_texts, args.derive) == ("time", ["time"], ["x=1", "y=2"])
    assert args.rank is not None
    assert [rank for rank in range(10) if rank in args.rank] == [0, 1, 2, 3, 7]
    assert (args.thread, args.run, args.node, args.contexts) == (None, None, None, [])


def test_the_same_option_again_is_or() -> None:
    parser = Parser("callgrove top")
    add_selection(parser)
    words = ["--rank", "0", "--rank", "2-3", "--device", "1", "--name", "a", "--name", "b", "--kind", "loop,line"]
    args = parser.read(words, SelectedRuns)
    assert (str(args.rank), str(args.gpu)) == ("0,2-3", "1")
    assert (args.selection.name, args.selection.kind, args.selection.rest) == (["a", "b"], ["loop", "line"], "path")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], Engine()),
        (["-j", "3"], Engine(jobs=3)),
        (["--mpi"], Engine(mpi=True)),
        (["--dask", "tcp://a:1"], Engine(dask="tcp://a:1")),
    ],
)
def test_execution(words: list[str], wanted: Engine) -> None:
    parser = Parser("callgrove prof")
    add_execution(parser)
    assert engine(parser.read(words, ExecutionOptions)) == wanted


@pytest.mark.parametrize("words", [["-j", "0"], ["-j", "-1"], ["-j", "x"], ["-j", "2", "--mpi"], ["--dask"]])
def test_wrong_execution(words: list[str]) -> None:
    parser = Parser("callgrove prof")
    add_execution(parser)
    with pytest.raises(UsageError):
        parser.read(words, ExecutionOptions)


def test_table_output() -> None:
    parser = Parser("callgrove top")
    add_table_output(parser, limit=20)
    args = parser.read([], TableOutput)
    assert (args.format, args.output, args.limit) == ("table", None, 20)
    args = parser.read(["--format", "json", "-o", "f", "--limit", "all"], TableOutput)
    assert (args.format, args.output, args.limit) == ("json", "f", None)
    assert parser.read(["--limit", "0"], TableOutput).limit == 0


def test_a_verb_has_its_own_formats() -> None:
    parser = Parser("callgrove export")
    add_table_output(parser, formats=("csv", "jsonl", "parquet"))
    assert parser.read([], TableOutput).format == "csv"
    assert parser.read(["--format", "jsonl"], TableOutput).format == "jsonl"


@pytest.mark.parametrize("text", ["", ",", "1,", "a", "3-1", "-", "-1", "1-2-3", "1 2", "٣", "1.5"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a list"):
        int_set(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0-3,7", "0-3,7"),
        ("7, 0-3", "0-3,7"),
        ("1,2,3", "1-3"),
        ("5-9,6", "5-9"),
        ("0-2,3-5", "0-5"),
        ("4", "4"),
        ("5,7-", "5,7-"),
        ("9-,3-", "3-"),
    ],
)
def test_lists_are_canonical(text: str, canonical: str) -> None:
    assert str(IntSet.parse(text)) == canonical


def test_huge_ranges_cost_nothing() -> None:
    everything = IntSet.parse("0-18446744073709551615")
    assert 2**63 in everything
    assert 2**64 not in everything
    assert 2**64 - 1 in IntSet.parse("7-")
    assert np.int32(5) in everything


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), min_size=1))
def test_a_list_contains_what_it_says(ranges: list[tuple[int, int]]) -> None:
    text = ",".join(f"{first}-{first + length}" for first, length in ranges)
    expected = {number for first, length in ranges for number in range(first, first + length + 1)}
    chosen = IntSet.parse(text)
    assert {number for number in range(-2, 40) if number in chosen} == expected
    assert IntSet.parse(str(chosen)) == chosen
