"""What experiments, studies, comparisons and tables can be asked alike: to show themselves, to be written, SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

from callgrove.errors import UsageError

if TYPE_CHECKING:
    from callgrove.analysis.comparison import Comparison
    from callgrove.formats.interface import WriteKeywords
    from callgrove.model.experiment import Experiment
    from callgrove.model.runs import Numbers
    from callgrove.model.study.series import Study
    from callgrove.model.table import Table
    from callgrove.model.traces.events import Window

__all__ = ["ComparisonMethods", "SharedMethods", "TableMethods", "find_window"]

PAGE_BYTES = 5_000_000


class TableMethods:
    """How a table shows itself."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from callgrove.render.notebook import table_html

        return table_html(cast("Table", self))

    def where(self, *conditions: str) -> Table:
        """Return the rows that fulfil any of some conditions over the columns; of a tree, with what lies above them.

        experiment.top().where("percent > 5 and name !~ /^MPI_/")
        """
        from callgrove.patterns.tables import keep_rows

        return keep_rows(cast("Table", self), conditions)


class SharedMethods:
    """What experiments and studies have in common."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from callgrove.model.study.series import Study
        from callgrove.render.notebook import experiment_html, study_html

        opened = cast("Experiment | Study", self)
        return study_html(opened) if isinstance(opened, Study) else experiment_html(opened)

    def info(self) -> Table:
        """Return what there is, as `callgrove info` prints it: one row for each fact."""
        from callgrove.analysis.overview import overview
        from callgrove.model.study.series import Study
        from callgrove.model.table import Table
        from callgrove.render.facts import facts_of, study_facts

        opened = cast("Experiment | Study", self)
        facts = study_facts(opened) if isinstance(opened, Study) else facts_of(overview(opened))
        return Table.from_rows(("fact", "value"), facts)

    def sql(self, query: str, engine: str = "") -> Table:
        """Return the answer to one SELECT over the tables that `sql_tables` lists.

        Only the columns that the query uses are read. `engine` is "duckdb" or "sqlite"; without a word, DuckDB where it
        is installed. `callgrove.sql` asks several experiments at once and gives long answers in chunks.

            experiment.sql("SELECT name, count(*) AS n FROM contexts GROUP BY name ORDER BY n DESC LIMIT 3")
        """
        from dataclasses import replace

        from callgrove.query.sql import sql

        with sql(cast("Experiment | Study", self), query, engine) as answer:
            return replace(answer.table(), notes=answer.left_out)

    def sql_tables(self) -> Table:
        """Return every table that can be asked with `sql`, with its columns."""
        from callgrove.query.sql import table_list

        return table_list([cast("Experiment | Study", self)])

    def write(self, target: str | Path, to_format: str = "", **options: Unpack[WriteKeywords]) -> Sequence[str]:
        """Write to a file or folder, and return what the format could not hold, a sentence each.

        The ending of the target chooses the format unless `to_format` names it; options are those of
        `callgrove.write`, such as `overwrite=True` and `dialect`.

            lost = experiment.write("run.cubex", overwrite=True)
        """
        from callgrove.formats.writing.transfer import write

        return write(cast("Experiment | Study", self), target, to_format, **options)

    def report(
        self,
        target: str | Path,
        *,
        title: str = "",
        metric: str | None = None,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        max_size: int = PAGE_BYTES,
        overwrite: bool = False,
    ) -> Sequence[str]:
        """Write one self-contained page of HTML, and return which views it lacks, a sentence each.

        `metric` is shown first, `ranks` and `threads` choose whose values are shown. The smallest parts are folded
        until the page has no more than `max_size` bytes. A target that is there already is an error unless `overwrite`.

            experiment.report("report.html", title="LULESH on 64 ranks")
        """
        from callgrove.formats.writing.targets import PendingFile
        from callgrove.viewer.page import Choice
        from callgrove.viewer.report import Input, report

        opened, told = cast("Experiment | Study", self), list[str]()
        pending = PendingFile(_page_place(target, opened.path), overwrite)
        with pending.or_nothing():
            inputs = [Input(opened, [opened.path or opened.title])]
            choice, complain = Choice(metric, ranks, threads), lambda text: told.append(f"unexplained: {text}")
            text = report(inputs, choice, title, max_size, tell=told.append, complain=complain)
            pending.place.write_text(text, encoding="utf-8", newline="")
            pending.complete()
        return told


def _page_place(target: str | Path, *sources: str) -> Path:
    """Return where to write a page; never into an input."""
    path = Path(target)
    if any(source and path.resolve().is_relative_to(Path(source).resolve()) for source in sources):
        raise UsageError(f"{target}: lies in the input, which is never modified; name another target")
    return path


class ComparisonMethods:
    """What a comparison of experiments can be written as."""

    def report(
        self, target: str | Path, *, title: str = "", max_size: int = PAGE_BYTES, overwrite: bool = False
    ) -> Sequence[str]:
        """Write the comparison as one self-contained page of HTML, and return what it lacks, a sentence each.

        The page has the sentence, a flame graph in two colours, call paths and functions side by side, and the
        timelines where there are traces; a section for each of the other experiments. It shows exclusive and inclusive
        costs of everything, whatever `scope`, `sort` and `only` say. The smallest parts are folded until it has no more
        than `max_size` bytes. A target that is there already is an error unless `overwrite`.

            before.compare(after).report("change.html")
        """
        from callgrove.formats.writing.targets import PendingFile
        from callgrove.viewer.report import report_comparison

        comparison, told = cast("Comparison", self), list[str]()
        sources = [side.path for side in comparison.experiments]
        pending = PendingFile(_page_place(target, *sources), overwrite)
        with pending.or_nothing():
            complain = lambda text: told.append(f"unexplained: {text}")  # noqa: E731
            text = report_comparison(comparison, title, max_size, complain=complain)
            pending.place.write_text(text, encoding="utf-8", newline="")
            pending.complete()
        return told


def find_window(experiment: Experiment, window: Window | str | None, start: str = "", end: str = "") -> Window | None:
    """Return the window of traces that a text, or the names of markers, mean."""
    from callgrove.model.selection import choose_window
    from callgrove.render.units import duration_ns

    return choose_window(experiment, window, start, end, duration_ns)
