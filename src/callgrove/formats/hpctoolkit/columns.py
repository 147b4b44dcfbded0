"""The columns of metrics/default.yaml, resolved to the metric ids of meta.db.

A column over a summary that the database does not hold is dropped, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from callgrove.errors import CorruptFile
from callgrove.formats.hpctoolkit.meta_db import RawMetric
from callgrove.formats.hpctoolkit.metric_columns import ColumnNode, Formula, read_columns
from callgrove.formats.hpctoolkit.release_words import COMBINATIONS
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Severity
from callgrove.model.expressions import render, renumber
from callgrove.model.metrics import Column, Scope

__all__ = ["add_columns"]

LARGEST = 16 << 20


def add_columns(builder: ExperimentBuilder, path: Path, metrics: tuple[RawMetric, ...]) -> None:
    """Read the file and give its columns to the builder. Metrics that no visible column shows become invisible."""
    if path.stat().st_size > LARGEST:
        raise CorruptFile(path, "file", expected=f"at most {LARGEST} bytes", found=f"{path.stat().st_size} bytes")
    try:
        described = read_columns(path.read_text("utf-8", "replace"))
    except ValueError as error:
        raise CorruptFile(path, "columns", expected="METRICS version 0", found=str(error)) from error
    stored = {(m.name, s.scope.name, s.formula, s.combine): s.id for m in metrics for s in m.summaries}
    keys = [(i.metric, i.scope, i.formula, COMBINATIONS.index(i.combine)) for i in described.inputs]
    ids = {number: stored[key] for number, key in enumerate(keys) if key in stored}
    dropped = 0
    shown: set[str] = set()
    for node in _walk(described.roots):
        for column, formula in _columns(node):
            if formula.variables() <= ids.keys():
                builder.add_column(replace(column, formula=render(renumber(formula, ids))))
                shown.update([node.name] if node.visible else [])
            else:
                dropped += 1
    if dropped:
        builder.warn(
            Severity.NOTE, f"{path}: {dropped} columns are over summaries that the database does not hold; left out"
        )
    builder.show_only(shown)


def _walk(nodes: tuple[ColumnNode, ...]) -> Iterator[ColumnNode]:
    """All columns, parents first."""
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _columns(node: ColumnNode) -> Iterator[tuple[Column, Formula]]:
    for variant in node.variants:
        for scope, formula in (
            (Scope.INCLUSIVE, variant.inclusive),
            (Scope.FUNCTION, variant.exclusive_standard),
            (Scope.LEXICAL, variant.exclusive_custom),
        ):
            if formula is not None:
                percent = "percent" in variant.render
                yield (
                    Column(node.name, scope, "", node.description, variant.name, node.visible, percent, variant.format),
                    formula,
                )
