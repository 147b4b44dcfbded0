"""`callgrove summary`: what a traced run did, and how busy its devices were."""

from __future__ import annotations

import argparse

from callgrove.cli.options import add_input, add_table_output, emit

SECTIONS = (
    *("kernels", "api", "copies", "allocations", "markers", "regions"),
    *("counters", "busy", "overlap", "gaps", "latency"),
)
DIVISIONS = ("rank", "agent", "stream", "domain", "marker")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    group = parser.add_argument_group("selection")
    group.add_argument("--section", action="append", choices=SECTIONS, help="only this one; may be given again")
    group.add_argument("--by", action="append", default=[], choices=DIVISIONS, help="divide rows; may be given again")
    add_table_output(parser)


def run(args: argparse.Namespace) -> int:
    from callgrove.analysis.summary import By, summarise, table
    from callgrove.cli.messages import note
    from callgrove.cli.opening import open_experiment, said_everything

    experiment = open_experiment(args)
    found = summarise(experiment, [By(word) for word in args.by])
    emit(table(found, args.section or SECTIONS), args)
    for text in _quality(found.n_spans, found.n_backwards, found.n_unlinked):
        note(text)
    return said_everything(experiment, args)


def _quality(n_spans: int, n_backwards: int, n_unlinked: int) -> list[str]:
    """What a reader of the table should know about the data."""
    notes = [f"{n_spans:,} spans read"]
    if n_backwards:
        notes.append(f"{n_backwards:,} spans end before they start: their durations are not added up")
    if n_unlinked:
        notes.append(f"{n_unlinked:,} operations have no launching call")
    return notes
