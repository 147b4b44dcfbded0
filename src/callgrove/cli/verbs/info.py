"""`callgrove info`: what is this, and what to do next; `callgrove formats`: every format, and what can be done with it
here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from callgrove.cli.options import (
    InputOptions,
    TableOutput,
    add_format,
    add_output,
    add_remap,
    add_run,
    add_study_input,
    add_table_output,
)
from callgrove.cli.output import emit
from callgrove.cli.parser import Command

if TYPE_CHECKING:
    from callgrove.formats.interface import Entry
    from callgrove.model.experiment import Experiment
    from callgrove.model.metrics import Metrics
    from callgrove.model.study.series import Study
    from callgrove.model.table import Column, Table


# -- info --------------------------------------------------------------------------------------------------------------


WORD = 10  # columns
FORMULA = 60  # characters of a formula that people are shown


@dataclass(frozen=True, kw_only=True)
class InfoOptions(InputOptions, TableOutput):
    metrics: bool
    diagnose: bool


def add_info_arguments(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser, many=True)
    add_run(parser)
    add_remap(parser)
    parser.add_argument("--metrics", action="store_true", help="list every metric with unit, scopes and description")
    parser.add_argument(
        "--diagnose",
        action="store_true",
        help="print what a report of a defect needs: versions, counts, sizes and kinds; no name or text of the input",
    )
    add_format(parser)
    add_output(parser)


def run_info(options: InfoOptions) -> int:
    from callgrove.cli.messages import with_flags
    from callgrove.cli.opening import open_any, say_damage_met
    from callgrove.cli.output import emit, emit_text
    from callgrove.model.experiment import Experiment
    from callgrove.model.table import Table
    from callgrove.render.facts import study_facts, study_metrics

    if options.diagnose:
        return _print_diagnosis(options)
    code = 0
    tables: list[Table] = []
    text: list[str] = []
    described: list[dict[str, Any]] = []
    for number, path in enumerate(options.paths or [None]):
        one = replace(options, paths=[path] if path is not None else [])
        opened = open_any(one, notes=options.metrics)
        if options.metrics:
            metrics = _make_metrics_table(opened) if isinstance(opened, Experiment) else study_metrics(opened)
            tables.append(
                _format_for_people(metrics) if options.format == "table" and len(options.paths) < 2 else metrics
            )
        elif options.format == "json":
            described.append(_describe_as_data(opened, one))
        elif options.format != "table":
            facts = _list_facts(opened) if isinstance(opened, Experiment) else study_facts(opened)
            tables.append(Table.from_rows(("fact", "value"), [(word, with_flags(text)) for word, text in facts]))
        else:
            text += ["\n" if number else "", *_write_facts(opened, path, _list_reading_options(options))]
            if not options.output:  # one after the other: what is wrong with the next one must not hide this one
                emit_text(text, None)
                text = []
        if tables and path is not None and len(options.paths) > 1:
            tables[-1] = _add_path_column(tables[-1], path)
        code = max(code, say_damage_met(opened, one) if isinstance(opened, Experiment) else 0)
    if described:
        emit_text([_write_json(described if len(described) > 1 else described[0])], options.output)
    elif tables:  # of all paths one table: two arrays are not JSON
        emit(tables, options)
    elif options.output:
        emit_text(text, options.output)
    return code


def _print_diagnosis(options: InfoOptions) -> int:
    from callgrove.cli.diagnosis import diagnose
    from callgrove.cli.output import emit, emit_text
    from callgrove.model.table import Table

    facts = diagnose(options)
    if options.format == "table":
        width = max(len(word) for word, _ in facts)
        emit_text((f"{word:<{width}}  {value}\n" for word, value in facts), options.output)
    else:
        emit(Table.from_rows(("fact", "value"), facts), options)
    return 0


def _describe_as_data(opened: Experiment | Study, options: InfoOptions) -> dict[str, Any]:
    """Return what there is for programs, with the size of what was named."""
    from callgrove.analysis.inventory import describe_experiment, describe_study
    from callgrove.cli.messages import with_flags
    from callgrove.cli.options import measure_files
    from callgrove.model.experiment import Experiment

    data = describe_experiment(opened) if isinstance(opened, Experiment) else describe_study(opened)
    data["damage"] = [with_flags(text) for text in data["damage"]]
    data["warnings"] = [{**warning, "text": with_flags(warning["text"])} for warning in data["warnings"]]
    sizes = [size for path in options.inputs for size in measure_files(path)]
    return {**data, "files": len(sizes), "bytes": sum(sizes)}


def _write_json(data: object) -> str:
    import json

    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _list_reading_options(options: InfoOptions) -> list[str]:
    """Return the options without which the input would be read differently."""
    given = (("--folder-pattern", options.folder_pattern), ("--points", options.points_file), ("--run", options.run))
    return [word for option, value in given if value for word in (option, value)]


def _write_facts(opened: Experiment | Study, path: str | None, options: Sequence[str]) -> Iterator[str]:
    """Yield the text for people: facts, then what to do next."""
    from callgrove.analysis.overview import overview
    from callgrove.cli.messages import with_flags
    from callgrove.model.experiment import Experiment
    from callgrove.model.table import visible
    from callgrove.render.facts import facts_of, next_commands, study_facts, study_next

    facts: Iterable[tuple[str, str]]
    if isinstance(opened, Experiment):
        seen = overview(opened)
        facts, commands = facts_of(seen), list(next_commands(seen, path, options)) if path is not None else []
    else:
        facts, commands = study_facts(opened), list(study_next(opened, path))
    lines = list(facts)
    width = max(WORD, *(len(word) for word, _ in lines))
    for word, value in lines:
        yield f"{word:<{width}} {visible(with_flags(value))}\n"
    if commands:
        yield "next\n"
    for command in commands:
        yield f"{'':<{width}} {command}\n"


def _list_facts(experiment: Experiment) -> Iterator[tuple[str, str]]:
    from callgrove.analysis.overview import overview
    from callgrove.render.facts import facts_of

    return facts_of(overview(experiment))


def _add_path_column(table: Table, path: str) -> Table:
    from callgrove.model.table import Column, Table

    return Table((Column("path", [path] * len(table)), *table.columns))


def _format_for_people(metrics: Table) -> Table:
    """Return the metrics without columns that are empty, or addresses for a browser; descriptions are written out at
    the end."""
    from callgrove.model.table import Table
    from callgrove.render.text_formats import Prose

    used = [column for column in metrics.columns if column.name != "url" and any(column.plain())]
    used = [_shorten_formulas(column) if column.name == "formula" else column for column in used]
    last = [Prose(column.name, column.values) for column in used if column.name == "description"]
    return Table((*(column for column in used if column.name != "description"), *last))


def _shorten_formulas(column: Column) -> Column:
    """Return formulas in one line each, their beginnings where they are long."""
    from callgrove.model.table import Column

    lines = [None if text is None else " ".join(text.split()) for text in column.plain()]
    return Column(
        column.name,
        [line if line is None or len(line) <= FORMULA else f"{line[:FORMULA].rstrip()} ..." for line in lines],
    )


def _describe_scopes(metrics: Metrics, name: str) -> str:
    return ", ".join(scope.word or "none" for scope in metrics.scopes(name))


def _make_metrics_table(experiment: Experiment) -> Table:
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
                None if first.is_derived else _describe_scopes(metrics, name),
                "yes" if first.visible else "no",
                ", ".join(dict.fromkeys(c.statistic for c in shown if c.statistic)) or None,
                first.when_derived if first.is_derived else None,
                first.formula if first.is_derived else None,
                _explain_unavailable(metrics, name),
                first.description or next((c.description for c in shown if c.description), None),
                first.url or None,
            )
        )
    names = ("name", "unit", "scopes", "visible", "columns", "derived", "formula", "unavailable", "description", "url")
    return Table.from_rows(names, rows)


def _explain_unavailable(metrics: Metrics, name: str) -> str | None:
    """Return why a metric has no values: nobody measured it, or a formula is not evaluated, its own or that of another
    metric that it needs."""
    if name in metrics.missing:
        return "it is not measured"
    if name not in metrics.unavailable:
        return None
    derivation = metrics.first(name).derivation
    if derivation is None:
        return "its formula is not evaluated"
    unknown = [operand for operand in derivation.operands if operand in metrics.unavailable and operand != name]
    return derivation.reason or (f"{unknown[0]} is not available" if unknown else "it is computed from itself")


INFO = Command(InfoOptions, add_info_arguments, run_info)


# -- formats -----------------------------------------------------------------------------------------------------------


NAMES = ("name", "title", "reads", "writes", "missing", "package")


def add_formats_arguments(parser: argparse.ArgumentParser) -> None:
    add_table_output(parser)


def run_formats(options: TableOutput) -> int:
    """Print all formats. Plug-ins are loaded, so that a broken one is named."""
    from callgrove.formats.plugins import load_plugin
    from callgrove.formats.registry import FORMATS, plugins
    from callgrove.model.table import Table

    theirs = [entry for entry in plugins() if load_plugin(entry) is not None]
    table = Table.from_rows(NAMES, map(_describe_format, (*FORMATS, *theirs)))
    if not theirs and options.is_for_people:  # for people, a column without a word is none
        table = Table(table.columns[:-1])
    emit(table, options)
    return 0


def _describe_format(entry: Entry) -> tuple[str | None, ...]:
    missing = bool(entry.module_of_extra) and find_spec(entry.module_of_extra) is None
    return (
        entry.name,
        entry.title,
        "yes" if entry.reads else "no",
        "yes" if entry.writes else "no",
        f"callgrove[{entry.extra}]" if missing else None,
        entry.package or None,
    )


FORMATS = Command(TableOutput, add_formats_arguments, run_formats)
