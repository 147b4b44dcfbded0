"""What experiments, studies, comparisons and tables can be asked alike: to show themselves, to be written, SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, cast, overload

from callgrove.errors import UsageError

if TYPE_CHECKING:
    from callgrove.analysis.comparison import Comparison
    from callgrove.analysis.explain.findings import Explanation
    from callgrove.formats.interface import WriteKeywords
    from callgrove.model.experiment import Experiment
    from callgrove.model.runs import Numbers
    from callgrove.model.study.series import Study
    from callgrove.model.table import Table
    from callgrove.model.traces.events import Window
    from callgrove.viewer.notebook import NotebookPage

__all__ = ["ComparisonMethods", "ExplanationMethods", "SharedMethods", "TableMethods", "find_window"]

PAGE_BYTES = 5_000_000
NOTEBOOK_BYTES = 2_000_000  # of a page inside a notebook, which is saved with it


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

    @overload
    def report(self, target: str | Path, **options: Unpack[ReportKeywords]) -> Sequence[str]: ...

    @overload
    def report(self, target: None = None, **options: Unpack[ReportKeywords]) -> NotebookPage: ...

    def report(
        self, target: str | Path | None = None, **options: Unpack[ReportKeywords]
    ) -> Sequence[str] | NotebookPage:
        """Write one self-contained page of HTML, and return which views it lacks, a sentence each; without a target,
        return the page, which a notebook shows.

        `metric` is shown first, `ranks` and `threads` choose whose values are shown. The smallest parts are folded
        until the page has no more than `max_size` bytes. A target that is there already is an error unless `overwrite`.

            experiment.report("report.html", title="LULESH on 64 ranks")
        """
        from callgrove.formats.writing.targets import PendingFile

        opened, overwrite = cast("Experiment | Study", self), options.pop("overwrite", False)
        if target is None:
            return _make_page(opened, options, 640)
        pending = PendingFile(_page_place(target, opened.path), overwrite)
        with pending.or_nothing():
            page = _make_page(opened, options, 640)
            pending.place.write_text(page.text, encoding="utf-8", newline="")
            pending.complete()
        return page.notes

    def view(self, *, height: int = 640, **options: Unpack[PageKeywords]) -> NotebookPage:
        """Return the page of the report for a notebook to show as the last value of a cell, so many pixels high.

        Its data are in the notebook, so it works there without anything that runs; `callgrove view` is for what is too
        large for that. The parameters are those of `report`, and the page has at most 2 MB unless `max_size` says
        otherwise.

            experiment.view(metric="cycles", height=480)
        """
        options.setdefault("max_size", NOTEBOOK_BYTES)
        return _make_page(cast("Experiment | Study", self), options, height)


class PageKeywords(TypedDict, total=False):
    """What a page shows."""

    title: str
    metric: str | None
    ranks: Numbers | None
    threads: Numbers | None
    max_size: int


class ReportKeywords(PageKeywords, total=False):
    """What a page shows, and whether a file of its name may be replaced."""

    overwrite: bool


def _make_page(opened: Experiment | Study, options: PageKeywords, height: int) -> NotebookPage:
    """Return the page of an input, and what it lacks."""
    from callgrove.viewer.notebook import NotebookPage
    from callgrove.viewer.page import Choice
    from callgrove.viewer.report import Input, report

    told = list[str]()
    choice = Choice(options.get("metric"), options.get("ranks"), options.get("threads"))
    title, size = options.get("title", ""), options.get("max_size", PAGE_BYTES)
    inputs = [Input(opened, [opened.path or opened.title])]
    text = report(
        inputs, choice, title, size, tell=told.append, complain=lambda text: told.append(f"unexplained: {text}")
    )
    return NotebookPage(text, title or opened.title, height, tuple(told))


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


class ExplanationMethods:
    """How an explanation shows itself."""

    def __str__(self) -> str:
        """Return the sentences, each with the command that shows more below it."""
        from callgrove.model.table import visible
        from callgrove.render.findings import explanation_text

        lines = "".join(explanation_text(cast("Explanation", self))).rstrip("\n").split("\n")
        return "\n".join(map(visible, lines))

    def to_markdown(self) -> str:
        """Return the sentences and commands as a list of Markdown."""
        from callgrove.render.findings import explanation_markdown

        return "".join(explanation_markdown(cast("Explanation", self)))

    def table(self) -> Table:
        """Return a row for each sentence, the headline first: cause, subject, weight, number, unit, sentence and
        command."""
        from callgrove.render.findings import explanation_table

        return explanation_table(cast("Explanation", self))

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return self.table()._repr_html_()


def find_window(experiment: Experiment, window: Window | str | None, start: str = "", end: str = "") -> Window | None:
    """Return the window of traces that a text, or the names of markers, mean."""
    from callgrove.model.selection import choose_window
    from callgrove.render.units import duration_ns

    return choose_window(experiment, window, start, end, duration_ns)
