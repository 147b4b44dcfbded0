"""Flame graphs as SVG: the call tree as boxes, each as wide as what it costs with all that it calls.

    +-------------------------------------------+
    | main                                      |     roots on top, or at the bottom; the costliest call on the left;
    +--------------------------+------+---+-----+     what is left free below a box is its cost by itself
    | solve                    | init |...|
    +----------------+---------+------+---+

Calls that are too narrow to be seen are drawn together, as one grey box that says how many there are and what they
cost: widths add up, and nothing is lost. Of differences, widths are the sizes of all changes below a call; what became
more is orange, what became less is blue. Bottom-up, a box is a function, and its callers are next to it: widths are
exclusive cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from callgrove.analysis.costs import Costs
from callgrove.analysis.views import Folded, describe_contexts, fold_lines, grow_callers
from callgrove.arrays import Bools, Floats, Ints, combine_upwards
from callgrove.errors import UsageError
from callgrove.model.table import Table
from callgrove.render.cost_texts import shorten_place
from callgrove.render.svg import (
    LESS,
    MORE,
    MUTED,
    OTHER,
    Picture,
    add_title,
    colour_of,
    draw_rect,
    draw_text,
    fit_name,
    ink_on,
    mix,
)
from callgrove.render.units import amount, percent

__all__ = ["Box", "FlameOptions", "draw_flame", "lay_out"]


LEVEL = 18  # pixels of a row of boxes
HEAD, FOOT, EDGE = 34, 22, 8
FONT = 11
LEAST = 0.5  # pixels of a box that is drawn by itself
MOST_CALLERS = 100_000  # rows of callers that are looked at
NARROWEST, WIDEST = 200, 20_000


@dataclass(frozen=True)
class FlameOptions:
    """How a flame graph is drawn."""

    width: int = 1200
    bottom_up: bool = False
    roots_below: bool = False
    title: str = ""

    def __post_init__(self) -> None:
        if not NARROWEST <= self.width <= WIDEST:
            raise UsageError(f"a width of {self.width} pixels cannot be drawn; choose {NARROWEST} to {WIDEST}")


@dataclass(frozen=True)
class Box:
    """A call with its width: a share of all, from 0 to 1. `n_calls` is more than 0 where it stands for that many that
    are too narrow."""

    name: str
    level: int
    start: float
    width: float
    inclusive: float
    exclusive: float
    place: str = ""
    n_calls: int = 0


@dataclass
class _Call:
    """A call and what it calls; or one function and its callers. `n_calls` as in a box; `leaves_out`:
    some callers were not looked at."""

    name: str
    weight: float
    inclusive: float
    exclusive: float
    place: str = ""
    n_calls: int = 0
    leaves_out: bool = False
    calls: list[_Call] = field(default_factory=list)

    @classmethod
    def together(cls, n_calls: int, weight: float, cost: float) -> _Call:
        """Return what stands for calls that are too narrow."""
        return cls(f"{n_calls:,} more", weight, cost, cost, "", n_calls)


def draw_flame(costs: Costs, options: FlameOptions) -> Picture:
    """Return the flame graph of costs, which must add up."""
    if not costs.is_additive:
        raise UsageError(f"{costs.metric.name} does not add up, so no box has a width; choose another metric")
    if costs.has_missing:
        raise UsageError(f"{costs.metric.name} has no value in some contexts, so boxes have no widths")
    top = _gather(costs, options)
    boxes = list(_place_boxes(top))
    n_levels = max((box.level for box in boxes), default=-1) + 1
    height = HEAD + n_levels * LEVEL + FOOT
    title = options.title or f"{costs.experiment.title}: {costs.metric.name}, {_say_total(costs)}"
    bold = 'font-size="14" font-weight="bold"'
    parts = [draw_text(EDGE, 22, fit_name(title, options.width - 2 * EDGE, 14), more=bold)]
    drawing = _Drawing(costs, options, n_levels)
    parts += [drawing.draw(box) for box in boxes]
    said = _say(boxes, options, top.leaves_out)
    parts.append(draw_text(EDGE, height - 7, said, more=f'fill="{MUTED}" font-size="{FONT}"'))
    return Picture.of(options.width, height, title, parts, (said,))


def _say_total(costs: Costs) -> str:
    write, (gain, loss) = amount(costs.metric.unit), costs.gain_and_loss
    return f"{write(gain)} more and {write(-loss)} less" if costs.is_signed else f"{write(costs.total)} in all"


def _say(boxes: Sequence[Box], options: FlameOptions, leaves_out: bool) -> str:
    """Return what a reader should know of the picture."""
    if not boxes:
        return "nothing here costs anything"
    what = "callers are below the functions that they call" if options.bottom_up else "calls are below their callers"
    what = what.replace("below", "above") if options.roots_below else what
    n_narrow = sum(box.n_calls for box in boxes)
    what += f"; grey: {n_narrow:,} that are too small to be drawn by themselves" if n_narrow else ""
    return what + (f"; callers beyond the {MOST_CALLERS:,} costliest are not drawn" if leaves_out else "")


# -- layout ------------------------------------------------------------------------------------------------------------


def lay_out(costs: Costs, options: FlameOptions) -> list[Box]:
    """Return all boxes: those of a level do not overlap, and lie within the box above."""
    return list(_place_boxes(_gather(costs, options)))


def _gather(costs: Costs, options: FlameOptions) -> _Call:
    """Return what lies in all boxes."""
    least = LEAST / (options.width - 2 * EDGE)
    return _gather_callers(costs, least) if options.bottom_up else _gather_calls(costs, least)


def _place_boxes(top: _Call) -> Iterator[Box]:
    """Yield the boxes of what lies in `top`, the widest first, those that stand for narrow ones last."""
    waiting: list[tuple[_Call, int, float]] = [(top, -1, 0.0)] if top.weight else []
    while waiting:
        call, level, start = waiting.pop()
        if level >= 0:
            about = call.inclusive, call.exclusive, call.place, call.n_calls
            yield Box(call.name, level, start / top.weight, call.weight / top.weight, *about)
        for inner in sorted(call.calls, key=lambda one: (one.n_calls > 0, -one.weight)):
            waiting.append((inner, level + 1, start))
            start += inner.weight


def _weigh(costs: Costs) -> Floats:
    """Return what calls are as wide as: costs at and below them, which add up whatever an input says of inclusive ones;
    of differences, the sizes of all changes. What lies a little below zero otherwise is rounding."""
    tree, n = costs.tree, costs.tree.n_listed
    exclusive: Floats = np.nan_to_num(costs.exclusive.astype(np.float64), posinf=0.0, neginf=0.0)
    weights = np.zeros(len(tree))
    weights[:n] = np.abs(exclusive) if costs.is_signed else np.maximum(exclusive, 0.0)
    return combine_upwards(weights, tree.parent, tree.levels)[:n]


def _gather_calls(costs: Costs, least: float) -> _Call:
    """Return all calls that are wide enough, each below its caller; the others are added up. Only wide ones, of which
    there cannot be many, are looked at one by one."""
    folded, weights = fold_lines(costs), _weigh(costs)
    shown = np.flatnonzero(folded.shown & (weights > 0))
    top = _Call("", float(weights[shown[folded.parent[shown] < 0]].sum()), costs.total, 0.0)
    is_wide = weights >= least * top.weight
    wide = shown[is_wide[shown]]
    calls = {-1: top}
    for context, (name, place) in zip(wide.tolist(), _describe(costs, wide.tolist()), strict=True):
        pair = float(folded.inclusive[context]), float(folded.exclusive[context])
        calls[context] = _Call(name, float(weights[context]), *pair, place)
        calls[int(folded.parent[context])].calls.append(calls[context])  # callers come first and are as wide at least
    _add_narrow(calls, folded, weights, shown[~is_wide[shown]], is_wide)
    return top


def _add_narrow(calls: dict[int, _Call], folded: Folded, weights: Floats, narrow: Ints, is_wide: Bools) -> None:
    """Add to each caller one box for the narrow calls right below it."""
    above = folded.parent[narrow]
    outer = (above < 0) | is_wide[np.maximum(above, 0)]
    rows = narrow[outer]
    parents, number = np.unique(above[outer], return_inverse=True)
    sums = (
        np.bincount(number),
        np.bincount(number, weights[rows], len(parents)),
        np.bincount(number, folded.inclusive[rows].astype(np.float64), len(parents)),
    )
    for parent, n, weight, cost in zip(parents.tolist(), *(column.tolist() for column in sums), strict=True):
        calls[parent].calls.append(_Call.together(n, weight, cost))


def _describe(costs: Costs, contexts: list[int]) -> Iterator[tuple[str, str]]:
    """Yield the name and the place of contexts."""
    yield from _name_rows(Table(describe_contexts(costs.tree, contexts)))


def _name_rows(table: Table) -> Iterator[tuple[str, str]]:
    columns = (table[name] for name in ("name", "file", "line", "module", "kind"))
    for name, file, line, module, kind in zip(*columns, strict=True):
        place = (f"{file}:{line}" if line else file) if file else module or ""
        yield shorten_place(name, kind), place


def _gather_callers(costs: Costs, least: float) -> _Call:
    """Return functions, each with its callers; those that are too narrow are added up."""
    callers = grow_callers(costs, MOST_CALLERS)
    table = callers.table
    top = _Call("", 0.0, costs.total, 0.0, leaves_out=table.left > callers.functions_left)
    path = [top]
    columns = (table[name] for name in ("depth", "exclusive", "inclusive"))
    for (name, place), depth, exclusive, inclusive in zip(_name_rows(table), *columns, strict=True):
        call = _Call(name, abs(float(exclusive)), float(inclusive), float(exclusive), place)
        path[depth + 1 :] = [call]
        path[depth].calls.append(call)
    if callers.functions_left:
        top.calls.append(_Call.together(callers.functions_left, abs(callers.rest), callers.rest))
    top.weight = sum(call.weight for call in top.calls)
    _merge_narrow(top, least * top.weight)
    return top


def _merge_narrow(top: _Call, least: float) -> None:
    waiting = [top]
    while waiting:
        call = waiting.pop()
        wide = [one for one in call.calls if one.weight >= least and not one.n_calls]
        narrow = [one for one in call.calls if one.weight < least or one.n_calls]
        if narrow:
            sums = sum(one.weight for one in narrow), sum(one.exclusive for one in narrow)
            call.calls = [*wide, _Call.together(sum(one.n_calls or 1 for one in narrow), *sums)]
        waiting += wide


# -- drawing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Drawing:
    costs: Costs
    options: FlameOptions
    n_levels: int

    def draw(self, box: Box) -> str:
        room = self.options.width - 2 * EDGE
        level = self.n_levels - 1 - box.level if self.options.roots_below else box.level
        x, y, width = EDGE + box.start * room, HEAD + level * LEVEL, box.width * room
        fill = self._colour(box)
        gap = 0.5 if width > 2 else 0.0
        elements = [draw_rect(x, y, max(width - gap, 0.0), LEVEL - 1, fill)]
        if name := fit_name(box.name, width - 6, FONT):
            look = f'font-size="{FONT}" fill="{ink_on(fill)}"'
            elements.append(draw_text(x + 3, y + LEVEL - 6, name, more=look))
        return add_title(self._tell(box), *elements)

    def _colour(self, box: Box) -> str:
        if box.n_calls:
            return OTHER
        if self.costs.is_signed:
            cost = box.exclusive if self.options.bottom_up else box.inclusive
            size = min(abs(cost) / (box.width * self.costs.whole or 1.0), 1.0)
            return mix(LESS if cost < 0 else MORE, "#c9cdd2", 0.15 + 0.7 * (1 - size))
        return colour_of(box.name)

    def _tell(self, box: Box) -> str:
        """Return what is shown where the mouse is: exact values."""
        unit, whole = self.costs.metric.unit, self.costs.whole
        write = amount(unit)
        shown = box.exclusive if self.options.bottom_up else box.inclusive
        share = f", {percent(shown / whole)} of all" if whole else ""
        lines = [box.name, f"{write(shown)}{share} ({shown!r} {unit}".rstrip() + ")"]
        if not self.options.bottom_up and not box.n_calls:
            lines.append(f"{write(box.exclusive)} by itself")
        return "\n".join([*lines, box.place] if box.place else lines)
