"""The format `dot`: the call graph of functions, or the call tree, for Graphviz.

Specification: the DOT language; attributes of Graphviz. The dialect `graph` has a node for each function and an edge
for each pair of a caller and what it calls, `tree` a node for each call path.

    "f0" [label="kernel\\n116 sec (51.8%)\\nof 136 sec (60.7%)", exclusive="116.0", inclusive="136.0", ...]
    "f1" -> "f0" [label="136 sec", cost="136.0", ...]

Only the largest nodes are written, by inclusive cost. An edge between two of them that leads through others is dashed.
What the others cost by themselves stands in a node of its own, so that exclusive costs add up to the total. Colours are
by exclusive cost, what became less is blue; the width of an edge is its share of all costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ints, combine_upwards, levels, subtree_ends
from callgrove.errors import Parameter, compose_text
from callgrove.formats.interface import WriteOptions
from callgrove.formats.stacks.costs import Scale, choose_metric, exclusive_costs
from callgrove.formats.stacks.frames import Frames, Labels, clean_name, merge_stacks, owners
from callgrove.formats.stacks.pprof import is_function
from callgrove.formats.stacks.writer import StackWriter, in_pieces
from callgrove.formats.writing.writer import WrittenOnly
from callgrove.model.experiment import Experiment

__all__ = ["FORMAT", "DotWriter"]


TREE = "tree"
PALE, MORE, LESS = (255, 255, 255), (213, 94, 0), (0, 114, 178)  # told apart by all eyes
LONGEST_NAME = 60  # characters that a node shows
FONT, LARGER = 10, 10  # points: at least, and more where all cost is


class DotWriter(StackWriter):
    """A file in the making."""

    def _make(self, tables: Experiment) -> Iterator[bytes]:
        name = choose_metric(tables, self.target)
        tree = tables.contexts
        costs = exclusive_costs(tables, name, self._report)
        labels = Labels.short(tree)
        owner = owners(tree, is_function(tree))
        stacks = merge_stacks(tree, owner, labels.of[owner])
        drawing = _Drawing(stacks, stacks.add_up(costs), by_stack=self._options.dialect == TREE)
        kept = drawing.choose(self._options.limit)
        self._give(name, costs)
        unit = tables.metrics.first(name).unit
        yield from in_pieces(_lines(drawing, kept, name, unit, _Words(tables, labels, stacks)))
        self._pass_on(name, np.append(drawing.exclusive[kept], drawing.rest(kept)), Scale(1.0, unit, unit))
        self._say_left_out(drawing, kept, name, unit)
        self._say_metrics(tables, name)
        if len(tables.profiles.measured) > 1:
            self._report.add(f"which of {len(tables.profiles.measured):,} profiles: their costs are added up")
        self._report.add("loops, source lines and instructions: costs are those of their functions")
        self._say_losses(tables)

    def _say_left_out(self, drawing: _Drawing, kept: Bools, name: str, unit: str) -> None:
        n_left = int((~kept & (drawing.weight > 0)).sum())
        if n_left:
            what = "call paths" if drawing.by_stack else "functions"
            share = f"{_amount(drawing.rest(kept), unit)} of {name} by themselves"
            more = ("; ", Parameter("limit"), " writes more")
            self._report.add(
                compose_text(
                    f"{what} that cost less than the {int(kept.sum()):,} shown: {n_left:,} with {share}", *more
                )
            )


class _Drawing:
    """What is drawn: a node for each function, or for each stack."""

    def __init__(self, stacks: Frames, exclusive: Array, *, by_stack: bool) -> None:
        self.by_stack, self.stacks = by_stack, stacks
        by_level = levels(stacks.depth)
        self._ends = subtree_ends(stacks.parent)
        self._below = combine_upwards(exclusive, stacks.parent, by_level)
        weights = combine_upwards(np.abs(exclusive.astype(np.float64)), stacks.parent, by_level)
        self.of = np.arange(len(stacks)) if by_stack else np.unique(stacks.key, return_inverse=True)[1].reshape(-1)
        n = int(self.of.max(initial=-1)) + 1
        once = self._find_outermost(self.of)
        self.first = np.full(n, len(stacks), np.int64)
        np.minimum.at(self.first, self.of, np.arange(len(stacks)))
        self.exclusive, self.inclusive = np.zeros(n, exclusive.dtype), np.zeros(n, exclusive.dtype)
        self.weight: Floats = np.zeros(n)
        np.add.at(self.exclusive, self.of, exclusive)
        np.add.at(self.inclusive, self.of[once], self._below[once])
        np.add.at(self.weight, self.of[once], weights[once])
        self.whole = float(np.abs(exclusive.astype(np.float64)).sum())

    def _find_outermost(self, group: Ints) -> Bools:
        """Return which stacks are in no other one of the same group: recursion counts once."""
        out = np.zeros(len(group), np.bool_)
        ends: dict[int, int] = {}
        for node, (of, end) in enumerate(zip(group.tolist(), self._ends.tolist(), strict=True)):
            if ends.get(of, 0) <= node:
                out[node], ends[of] = True, end
        return out

    def choose(self, limit: int | None) -> Bools:
        """Return the nodes that cost most, with all that is below them; those that cost nothing are left out."""
        kept = self.weight > 0
        if limit is not None and int(kept.sum()) > limit:
            order = np.lexsort((self.first, -self.weight))
            kept = np.zeros(len(kept), np.bool_)
            kept[order[:limit]] = True
        return kept

    def rest(self, kept: Bools) -> float:
        """Return what the nodes cost by themselves that are not kept."""
        return float(self.exclusive[~kept].sum())

    def edges(self, kept: Bools) -> Iterator[tuple[int, int, bool, float]]:
        """Yield caller, callee, whether one calls the other directly, and what is reached by it."""
        stacks = self.stacks
        is_kept = kept[self.of]
        above = np.full(len(stacks), ABSENT, np.int64)
        direct = np.ones(len(stacks), np.bool_)
        for level in levels(stacks.depth)[1:]:
            up = stacks.parent[level]
            above[level] = np.where(is_kept[up], up, above[up])
            direct[level] = is_kept[up]
        rows = np.flatnonzero(is_kept & (above >= 0))
        pair = np.full(len(stacks), ABSENT, np.int64)
        n = len(kept)
        keys = (self.of[above[rows]] * n + self.of[rows]) * 2 + direct[rows]
        different, pair[rows] = np.unique(keys, return_inverse=True)
        pair[pair < 0] = len(different) + np.arange(int((pair < 0).sum()))  # all others stand by themselves
        once = self._find_outermost(pair)[rows]
        cost = np.zeros(len(different), self._below.dtype)
        np.add.at(cost, pair[rows[once]], self._below[rows[once]])
        for key, value in zip(different.tolist(), cost.tolist(), strict=True):
            yield key // 2 // n, key // 2 % n, bool(key % 2), value


class _Words:
    """What nodes are called, and where they are."""

    def __init__(self, tables: Experiment, labels: Labels, stacks: Frames) -> None:
        self._tree, self._labels, self._stacks = tables.contexts, labels, stacks

    def name(self, stack: int) -> str:
        return clean_name(self._labels.names[int(self._stacks.key[stack])])

    def place(self, stack: int) -> str:
        tree = self._tree
        region = int(tree.region[self._labels.context[int(self._stacks.key[stack])]])
        if region < 0 or tree.regions.file[region] < 0:
            return ""
        path, line = tree.regions.files.paths[tree.regions.file[region]], int(tree.regions.line[region])
        return clean_name(f"{path}:{line}" if line > 0 else path)


def _lines(drawing: _Drawing, kept: Bools, name: str, unit: str, words: _Words) -> Iterator[str]:
    total = float(drawing.exclusive.sum())
    title = f"{clean_name(name)}: {_amount(total, unit)} in all"
    yield 'digraph "callgrove" {\n'
    yield f"  graph [label={_quote(title)}, labelloc=t, fontname=Helvetica, fontsize=14]\n"
    yield "  node [shape=box, style=filled, fontname=Helvetica]\n  edge [fontname=Helvetica, fontsize=9]\n"
    for node in np.flatnonzero(kept).tolist():
        yield _node(drawing, node, unit, words)
    if n_left := int((~kept & (drawing.weight > 0)).sum()):
        rest = drawing.rest(kept)
        label = f"{n_left:,} more\n{_amount(rest, unit)} ({_percent(rest, drawing.whole)}) by themselves"
        yield f'  "rest" [label={_quote(label)}, exclusive="{rest!r}", style=dashed]\n'
    for caller, callee, is_direct, cost in drawing.edges(kept):
        share = abs(cost) / drawing.whole if drawing.whole else 0.0
        style = f"penwidth={0.5 + 5 * share:.2f}, weight={1 + int(100 * share)}" + (
            "" if is_direct else ", style=dashed"
        )
        yield f'  "f{caller}" -> "f{callee}" [label={_quote(_amount(cost, unit))}, cost="{cost!r}", {style}]\n'
    yield "}\n"


def _node(drawing: _Drawing, node: int, unit: str, words: _Words) -> str:
    exclusive, inclusive = drawing.exclusive[node].item(), drawing.inclusive[node].item()
    first, whole = int(drawing.first[node]), drawing.whole
    full = words.name(first)
    short = full if len(full) <= LONGEST_NAME else f"{full[: LONGEST_NAME - 1]}…"
    label = f"{short}\n{_amount(exclusive, unit)} ({_percent(exclusive, whole)})"
    if inclusive != exclusive:
        label += f"\nof {_amount(inclusive, unit)} ({_percent(inclusive, whole)})"
    share = abs(exclusive) / whole if whole else 0.0
    tooltip = "\n".join(filter(None, (full, words.place(first))))
    numbers = f'exclusive="{exclusive!r}", inclusive="{inclusive!r}"'
    look = f'fillcolor="{_colour(exclusive, share)}", fontsize={FONT + LARGER * sqrt(share):.1f}'
    return f'  "f{node}" [label={_quote(label)}, tooltip={_quote(tooltip)}, {numbers}, {look}]\n'


def _colour(cost: float, share: float) -> str:
    """Return white where nothing costs, towards orange where much does, blue where it is less than nothing."""
    target, part = MORE if cost >= 0 else LESS, 0.75 * sqrt(min(share, 1.0))
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(PALE, target, strict=True))


def _amount(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}".strip()


def _percent(value: float, whole: float) -> str:
    return f"{100 * value / whole if whole else 0.0:.1f}%"


def _quote(text: str) -> str:
    """Return a text in quotes, in which no character has a meaning but the line end."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class DotFormat(WrittenOnly):
    """Call graphs for Graphviz."""

    name = "dot"
    title = "Graphviz file: the call graph of functions, or the call tree"

    def open_writer(self, target: Path, options: WriteOptions) -> DotWriter:
        return DotWriter(target, options)


FORMAT = DotFormat()
