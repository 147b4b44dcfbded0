"""The format `folded`: a line for each call stack, frames from the root joined by `;`, and what it costs.

    main;solve;kernel 20000000000
    main;solve;MPI_Allreduce 12000000000

Specification: the input of flamegraph.pl, which many tools read. One metric; numbers are whole. A `;` in a name would
be a further frame, and becomes a `:`; a line end is written as \\n. Stacks that read the same are one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from callgrove.arrays import Ints
from callgrove.formats.interface import WriteOptions
from callgrove.formats.stacks.costs import choose_metric, choose_scale, exclusive_costs, round_costs
from callgrove.formats.stacks.frames import Frames, Labels, clean_name, merge_stacks, owners
from callgrove.formats.stacks.writer import StackWriter, in_pieces
from callgrove.formats.writing.writer import WrittenOnly
from callgrove.model.experiment import Experiment

__all__ = ["FORMAT", "FoldedWriter"]


class FoldedWriter(StackWriter):
    """A file in the making."""

    def _make(self, tables: Experiment) -> Iterator[bytes]:
        name = choose_metric(tables, self.target)
        tree = tables.contexts
        costs = self._without_negative(tables, name, exclusive_costs(tables, name, self._report))
        labels = Labels.short(tree)
        key, names = labels.merge([clean_name(label, ";") for label in labels.names])
        owner = owners(tree, ~tree.folded)
        frames = merge_stacks(tree, owner, key[owner])
        of_stacks = frames.add_up(costs)
        scale = choose_scale(tables.metrics.first(name).unit, [of_stacks])
        whole = round_costs(of_stacks, scale)
        self._give(name, costs)
        yield from in_pieces(_lines(frames, names, whole.numbers))
        self._pass_on(name, whole.numbers, scale, whole.rest)
        self._say_rounding(whole, scale)
        self._report.hint(scale.say(name))
        self._say_losses_of_folded(tables, name, labels)

    def _say_losses_of_folded(self, tables: Experiment, name: str, labels: Labels) -> None:
        changed = sum(clean_name(label, ";") != label for label in labels.names)
        if changed:
            self._report.add(f"names with ; or line ends: {changed:,} are written with other characters")
        self._say_metrics(tables, name)
        if len(tables.profiles.measured) > 1:
            self._report.add(f"which of {len(tables.profiles.measured):,} profiles: their costs are added up")
        self._report.add("source files, lines and modules: a stack is made of names")
        self._say_losses(tables)


def _lines(frames: Frames, names: list[str], numbers: Ints) -> Iterator[str]:
    """Yield the stacks that cost anything, in preorder."""
    stack: list[str] = []
    columns = (frames.depth.tolist(), frames.key.tolist(), numbers.tolist())
    for depth, key, number in zip(*columns, strict=True):
        del stack[depth:]
        stack.append(names[key])
        if number:
            yield f"{';'.join(stack)} {number}\n"


class FoldedFormat(WrittenOnly):
    """Folded stacks."""

    name = "folded"
    title = "folded call stacks (a;b;c 12) for flamegraph.pl, inferno, speedscope"

    def open_writer(self, target: Path, options: WriteOptions) -> FoldedWriter:
        return FoldedWriter(target, options)


FORMAT = FoldedFormat()
