"""`callgrove info`: what is this, and what to do next."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from callgrove.cli.options import TABLE_FORMATS, add_study_input

if TYPE_CHECKING:
    from callgrove.analysis.overview import Overview
    from callgrove.model.experiment import Experiment
    from callgrove.model.study import Study
    from callgrove.model.table import Table

MOST_METRICS = 8
MOST_WARNINGS = 12
ADJECTIVES = ("inlined", "elided", "unknown", "other")  # kinds that have no plural


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser, many=True)
    parser.add_argument("--metrics", action="store_true", help="list every metric with unit, scopes and description")
    parser.add_argument("--format", choices=TABLE_FORMATS, default="table", help="default: table")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file instead of stdout")


def run(args: argparse.Namespace) -> int:
    from callgrove.cli.opening import open_any, said_everything
    from callgrove.cli.options import emit
    from callgrove.cli.output import emit_text
    from callgrove.cli.study_info import study_facts, study_metrics
    from callgrove.model.study import Study
    from callgrove.model.table import Table

    code = 0
    tables: list[Table] = []
    text: list[str] = []
    for number, path in enumerate(args.paths or [None]):
        one = argparse.Namespace(**{**vars(args), "path": path, "limit": None})
        opened = open_any(one)
        if args.metrics:
            tables.append(study_metrics(opened) if isinstance(opened, Study) else _metrics(opened))
        elif args.format != "table":
            facts = study_facts(opened) if isinstance(opened, Study) else _facts_of(opened)
            tables.append(Table.from_rows(("fact", "value"), facts))
        else:
            text += ["\n" if number else "", *_shown(opened, path)]
            if not args.output:  # one after the other: what is wrong with the next one must not hide this one
                emit_text(text, None)
                text = []
        if tables and path is not None and len(args.paths) > 1:
            tables[-1] = _of_path(tables[-1], path)
        code = max(code, 0 if isinstance(opened, Study) else said_everything(opened, one))
    if tables:  # of all paths one table: two arrays are no JSON
        emit(tables, argparse.Namespace(format=args.format, output=args.output, limit=None))
    elif args.output:
        emit_text(text, args.output)
    return code


def _shown(opened: Experiment | Study, path: str | None) -> Iterator[str]:
    """What a person reads: facts, then what to do next."""
    from callgrove.analysis.overview import overview
    from callgrove.cli.study_info import study_facts, study_next
    from callgrove.model.study import Study
    from callgrove.render.visible import visible

    facts: Iterable[tuple[str, str]]
    if isinstance(opened, Study):
        facts, commands = study_facts(opened), list(study_next(opened, path))
    else:
        seen = overview(opened)
        facts, commands = _facts(seen), list(_next(seen, path)) if path is not None else []
    for word, value in facts:
        yield f"{word:<10} {visible(value)}\n"
    if commands:
        yield "next\n"
    for command in commands:
        yield f"           {command}\n"


def _facts_of(experiment: Experiment) -> Iterator[tuple[str, str]]:
    from callgrove.analysis.overview import overview

    return _facts(overview(experiment))


def _of_path(table: Table, path: str) -> Table:
    from callgrove.model.table import Column, Table

    return Table((Column("path", [path] * len(table)), *table.columns))


def _facts(facts: Overview) -> Iterator[tuple[str, str]]:
    from callgrove.cli.viewing import amount
    from callgrove.render.units import duration_ns

    yield "title", facts.title
    yield "format", f"{facts.format} {facts.version}".rstrip()
    if facts.n_runs > 1 or facts.parameters:
        yield "runs", f"{facts.n_runs:,}" + (f" over {', '.join(facts.parameters)}" if facts.parameters else "")
    places = [f"{n} {word}" for n, word in ((facts.n_nodes, "nodes"), (facts.n_ranks, "ranks")) if n > 1]
    yield "profiles", ", ".join([*_counts(facts.profiles), *places]) or "none"
    yield (
        "contexts",
        ", ".join([*_counts(facts.contexts), *([f"depth {facts.depth}"] if facts.depth else [])]) or "none",
    )
    shown = ", ".join(facts.metrics[:MOST_METRICS])
    more = (
        len(facts.metrics) - MOST_METRICS + facts.n_hidden_metrics
        if len(facts.metrics) > MOST_METRICS
        else facts.n_hidden_metrics
    )
    yield "metrics", (shown or "none") + (f" and {more} more" if more > 0 else "")
    if facts.n_values is not None:
        yield "values", f"{facts.n_values:,} stored"
    if facts.n_samples or facts.n_spans:
        events = [f"{n:,} {word}" for n, word in ((facts.n_samples, "samples"), (facts.n_spans, "spans")) if n]
        span = f" over {duration_ns(facts.time_range[1] - facts.time_range[0])}" if facts.time_range else ""
        yield "traces", ", ".join(events) + span
    if facts.n_sources:
        yield "sources", f"{facts.n_sources} copied {_plural('file', facts.n_sources)}"
    if facts.hottest is not None:
        h = facts.hottest
        write = amount(h.unit)
        yield "hottest", f"{h.name}: {write(h.exclusive)} of {write(h.total)} {h.metric} ({h.percent:.1f} %)"
    for warning in facts.warnings[:MOST_WARNINGS]:
        yield warning.severity.value, warning.text
    if len(facts.warnings) > MOST_WARNINGS:
        yield "and", f"{len(facts.warnings) - MOST_WARNINGS} more of these; `callgrove check` lists them all"


def _counts(numbers: dict[str, int]) -> list[str]:
    return [f"{n:,} {_plural(word, n)}" for word, n in numbers.items()]


def _plural(word: str, n: int) -> str:
    if n == 1 or word in ADJECTIVES:
        return word
    return f"{word.removesuffix('y')}ies" if word.endswith("y") else f"{word}s"


def _next(facts: Overview, path: str) -> Iterator[str]:
    """Commands for this very input."""
    where = shlex.quote(path)
    if facts.parameters:
        yield f"callgrove export {where} --table series"
    if facts.hottest is not None:
        yield f"callgrove top {where}"
        yield f"callgrove tree {where}"
        yield f"callgrove hot {where}"
    if len(facts.metrics) > 1:
        yield f"callgrove top {where} -m {shlex.quote(facts.metrics[1])}"
    if facts.n_spans:
        yield f"callgrove summary {where}"
    if facts.n_samples:
        yield f"callgrove export {where} --table samples --limit 10"
    if any(w.severity.value == "damage" for w in facts.warnings):
        yield f"callgrove check {where}"
    if facts.hottest is None:
        yield f"callgrove export {where} --table contexts"


def _metrics(experiment: Experiment) -> Table:
    from callgrove.model.table import Table

    metrics = experiment.metrics
    rows = []
    for name in metrics.quantities:
        first = metrics.first(name)
        shown = [c for c in metrics.columns if c.name == name and c.visible]
        rows.append(
            (
                name,
                first.unit or None,
                ", ".join(s.word or "none" for s in metrics.scopes(name)),
                "yes" if first.visible else "no",
                ", ".join(dict.fromkeys(c.statistic for c in shown if c.statistic)) or None,
                first.description or next((c.description for c in shown if c.description), None),
                first.url or None,
            )
        )
    return Table.from_rows(("name", "unit", "scopes", "visible", "columns", "description", "url"), rows)
