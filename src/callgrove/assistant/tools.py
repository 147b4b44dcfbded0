"""The tools: questions of the verbs, with their words as arguments. Each calls the method of an experiment or a study
that the verb calls, and says which command prints the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from callgrove.analysis.explain import Explanation, why
from callgrove.analysis.inventory import describe_experiment, describe_study
from callgrove.analysis.method_results import View
from callgrove.analysis.spread.imbalance import Question as Spread
from callgrove.analysis.spread.imbalance import choose_compared, imbalance
from callgrove.analysis.spread.side_by_side import top_table
from callgrove.analysis.views import bottom_up, hot_path, top_down
from callgrove.assistant.answers import BUDGET, Answer, Document, compose
from callgrove.assistant.arguments import Argument, Arguments, read_arguments
from callgrove.assistant.commands import Command, cost_query, series_query, span_query
from callgrove.assistant.folders import Folders
from callgrove.assistant.inputs import Inputs, Opened, Report, name_input, notes_of
from callgrove.binary.files import Source
from callgrove.errors import CallgroveError, NotRecognised, RefusedInput, UsageError, spell
from callgrove.formats.registry import detect
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.study.series import Study
from callgrove.model.table import Table
from callgrove.query.sql import sql

__all__ = ["TOOLS", "Session", "Tool"]

MOST_ROWS = 10_000  # that a caller may ask for
LARGEST_BUDGET = 50_000  # tokens
MOST_LISTED = 200  # entries of a folder that is not an input
QUERY_SECONDS = 30.0

# -- what tools have in common -----------------------------------------------------------------------------------------

PATH = Argument("path", "string", "the file or folder, under the folders that may be read", required=True)
METRIC = Argument("metric", "string", "a metric, or a part of its name (default: the first time)")
RANKS = Argument("ranks", "string", "only these ranks: 3, or 0-3,7")
THREADS = Argument("threads", "string", "only these threads: 0, or 0-3")
RUNS = Argument("runs", "string", "only these of several runs: by number, parameters (p=4,n=100) or name")
NAME = Argument("name", "strings", "only functions of these names: globs like MPI_*, or /regular expressions/")
UNDER = Argument("under", "strings", "only what lies below these: a name, or a path like main -> ** -> solve")
WINDOW = Argument("window", "string", "a part of the traces: 250ms:1.5s, or 10%:20%")
CALLPATH = Argument("callpath", "string", "only call paths that contain this text")
SHOWN = Argument("budget", "integer", "tokens that the answer may have", BUDGET, 300, LARGEST_BUDGET)
GROUPS = ("function", "line", "loop", "context", "file", "module")
ENTITIES = ("rank", "thread", "gpu", "node", "run")
PROFILES = (RANKS, THREADS, RUNS)


def limit_of(default: int) -> Argument:
    """Return the argument that cuts rows."""
    return Argument("limit", "integer", "rows, the largest first", default, 1, MOST_ROWS)


@dataclass
class Session:
    """What tools are asked about: the folders that may be read, and the inputs that are open."""

    folders: Folders
    inputs: Inputs = field(default_factory=Inputs)

    def call(self, name: str, given: Mapping[str, Any] | None, report: Report) -> Document:
        """Return the answer of a tool as a document within its budget."""
        tool = TOOLS.get(name)
        if tool is None:
            raise UsageError(f"there is no tool {name!r}; there are {', '.join(TOOLS)}")
        asked = read_arguments(name, tool.parameters, given)
        return compose(tool.answer(Question(self, asked, report)), asked["budget"])


@dataclass(frozen=True)
class Question:
    """The arguments of a call, and what they are about."""

    session: Session
    asked: Arguments
    report: Report
    _admitted: dict[str, Path] = field(default_factory=dict)

    def path(self, word: str = "path") -> Path:
        """Return a path that may be read; a large folder is looked through once for each question."""
        if word not in self._admitted:
            self._admitted[word] = self.session.folders.admit(self.asked[word])
        return self._admitted[word]

    def open(self, word: str = "path") -> Opened:
        return self.session.inputs.open(self.path(word), self.report)

    def experiment(self, word: str = "path") -> Experiment:
        return self.session.inputs.experiment(self.path(word), self.report)

    def study(self) -> Study:
        return self.session.inputs.study(self.path(), self.report)

    def part(self) -> Experiment:
        """Return the experiment, or the part of it that `name` and `under` choose."""
        words = {word: self.asked[word] for word in ("name", "under") if self.asked.get(word)}
        return self.experiment().select(**words) if words else self.experiment()

    def words(self, *names: str) -> dict[str, Any]:
        """Return arguments by name, for a method that calls them the same."""
        return {name: self.asked[name] for name in names}


@dataclass(frozen=True)
class Tool:
    """A tool: what it is for, its arguments, and the function that answers."""

    told: str
    own: tuple[Argument, ...]
    answer: Callable[[Question], Answer]

    @property
    def parameters(self) -> tuple[Argument, ...]:
        """All arguments; every tool has a budget."""
        return (*self.own, SHOWN)


def spell_parameters(text: str) -> str:
    """Return a message of the library in the words of tools."""
    names = {"sql_tables()": "sql without a query"}
    return spell(text, lambda one: names.get(one.name, str(one)))


def _options(asked: Arguments, **options: str) -> dict[str, Any]:
    """Return options of the command line with what was given for them."""
    return {option: asked.get(name) for name, option in options.items()}


def _choose(asked: Arguments) -> dict[str, Any]:
    """Return the options of selections that many verbs share."""
    shared = {"metric": "-m", "ranks": "--rank", "threads": "--thread", "runs": "--run"}
    return _options(asked, **shared, name="--name", under="--under")


def _facts(opened: Opened, table: Table) -> Document:
    return {"input": name_input(opened), **({"title": table.title} if table.title else {})}


def _notes(opened: Opened, *more: str) -> list[str]:
    return [spell_parameters(text) for text in dict.fromkeys((*more, *notes_of(opened)))]


# -- what is there -----------------------------------------------------------------------------------------------------


def answer_open(question: Question) -> Answer:
    """Say what a path is, and what can be asked of it; without one, which folders may be read."""
    folders = question.session.folders
    if question.asked["path"] is None:
        return _list_entries(folders.roots, folders)
    path = question.path()
    try:
        opened = question.open()
    except NotRecognised:
        if not path.is_dir():
            raise
        return _list_entries([path], folders)
    facts = {"path": str(path), "kind": "study" if isinstance(opened, Study) else "experiment"}
    facts |= {row["fact"]: row["value"] for row in opened.info() if row["fact"] not in ("note", "damage", "missing")}
    return Answer({**facts, "ask": list(_suggest(opened))}, Command("info", [path]), notes=_notes(opened))


def _suggest(opened: Opened) -> list[str]:
    if isinstance(opened, Study):
        return ["explain", "model", "predict", "sql"]
    tools = ["explain", "top", "tree", "hot_path", "imbalance"]
    tools += ["timeline"] * bool(opened.traces.n_samples or opened.traces.n_spans)
    tools += ["summary"] * bool(opened.traces.n_spans)
    tools += ["model", "predict"] * any(run.parameters for run in opened.runs)
    return [*tools, "compare", "sql"]


def _list_entries(places: Sequence[Path], folders: Folders) -> Answer:
    """List folders that are not inputs by themselves: their inputs, and other entries."""
    rows: list[tuple[str, str]] = []
    notes: list[str] = []
    for place in places:
        inside = _list_names(place) if place.is_dir() else [""]
        rows += [(str(place / name), _recognise(place / name, folders)) for name in inside[:MOST_LISTED]]
        if len(inside) > MOST_LISTED:
            notes.append(f"{place} has more than {MOST_LISTED} entries; name one of them")
    table = Table.from_rows(("path", "format"), rows)
    facts = {"kind": "folders", "folders": [str(place) for place in places]}
    return Answer(facts, Command("info", places), table, notes=notes, limit_said=False)


def _list_names(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(islice((entry.name for entry in entries), MOST_LISTED + 1))


def _recognise(place: Path, folders: Folders) -> str:
    """Return the format of an entry; of what lies outside, nothing but that."""
    try:
        return detect(Source.of(str(folders.admit(str(place)))))[0].name
    except RefusedInput:
        return "leads outside of the folders that may be read"
    except CallgroveError:
        return "folder" if place.is_dir() else "not recognised"


def answer_info(question: Question) -> Answer:
    """Say all that is known without reading values."""
    opened = question.open()
    facts = describe_study(opened) if isinstance(opened, Study) else describe_experiment(opened)
    for name in ("damage", "warnings"):
        facts[name] = [spell_parameters(one if isinstance(one, str) else one["text"]) for one in facts[name]]
    return Answer(facts, Command("info", [question.path()]), limit_said=False)


# -- where the cost is -------------------------------------------------------------------------------------------------


def _cost_answer(question: Question, view: View, make: Callable[[int | None], Table], command: Command) -> Answer:
    """Return the answer of a view of costs: its rows, and what they are shares of."""
    costs, asked, experiment = view.costs, question.asked, view.costs.experiment
    by_entity = {"by": asked.get("by"), "columns": asked.get("columns")}
    table = view.explain(make(asked.get("limit")), added_up="run" not in by_entity.values())
    facts: Document = {"input": name_input(experiment), "metric": costs.metric.name, "unit": costs.metric.unit or None}
    facts |= {"no_total": no_total} if (no_total := costs.say_no_total()) else {"total": float(costs.total)}
    notes = _notes(experiment, *table.notes)
    return Answer(facts, command.add(_choose(asked)), table, make, notes=notes)


def _view(question: Question) -> View:
    return View.of(question.part(), **question.words("metric", "ranks", "threads", "runs"))


def answer_top(question: Question) -> Answer:
    """Show the costliest functions, lines, files, ranks."""
    asked, view = question.asked, _view(question)
    options = _options(asked, by="--by", columns="--columns")
    answer = _cost_answer(
        question,
        view,
        lambda limit: top_table(view.costs, asked["by"], asked["columns"], limit),
        Command("top", [question.path()]).add(options),
    )
    answer.query = cost_query(view.costs, asked)
    return answer


def answer_tree(question: Question) -> Answer:
    """Show the call tree, the costliest calls first."""
    asked, view = question.asked, _view(question)
    if asked["bottom_up"] and asked["source"]:
        raise UsageError("source shows lines of contexts; a bottom-up tree has rows of callers, which have none")

    def make(limit: int | None) -> Table:
        return bottom_up(view.costs, limit) if asked["bottom_up"] else top_down(view.costs, asked["source"], limit)

    options = _options(asked, bottom_up="--bottom-up", source="--source")
    answer = _cost_answer(question, view, make, Command("tree", [question.path()]).add(options))
    answer.query = cost_query(view.costs, asked, "inclusive")
    return answer


def answer_hot_path(question: Question) -> Answer:
    """Follow the costliest calls from the root."""
    asked, view = question.asked, _view(question)
    path = hot_path(view.costs, asked["share"])
    command = Command("hot", [question.path()]).add({"--share": asked["share"]})
    answer = _cost_answer(question, view, path.head, command)
    answer.query = cost_query(view.costs, asked, "inclusive")
    return answer


def answer_imbalance(question: Question) -> Answer:
    """Show how costs are spread over ranks, threads, devices, nodes or runs."""
    asked, view = question.asked, _view(question)
    over = choose_compared(view.costs, asked["over"]).over
    made = imbalance(view.costs, Spread(over, asked["by"], Scope(asked["scope"]), asked["limit"])).table
    options = {"--over": over, **_options(asked, by="--by", scope="--scope")}
    answer = _cost_answer(question, view, made.head, Command("imbalance", [question.path()]).add(options))
    answer.facts["over"] = over
    is_plain = over in ("rank", "thread") and asked["scope"] == "exclusive"
    answer.query = cost_query(view.costs, asked, over=over) if is_plain else ""
    return answer


def answer_compare(question: Question) -> Answer:
    """Show what differs between two inputs, call path by call path."""
    asked = question.asked
    left, right = question.open(), question.open("other")
    if isinstance(left, Study) != isinstance(right, Study):
        raise UsageError("an execution cannot be compared with series over parameters; name two of the same kind")
    if isinstance(left, Study):
        assert isinstance(right, Study)
        made: Any = left.compare(right, **question.words("metric", "sort"))
    else:
        assert isinstance(right, Experiment)
        made = left.compare(right, **question.words("metric", "scope", "flat", "sort"))
    table = made.table(asked["limit"])
    options = _options(asked, metric="-m", flat="--flat", sort="--sort")
    options |= {} if isinstance(left, Study) else {"--scope": asked["scope"]}
    command = Command("diff", [question.path(), question.path("other")]).add(options)
    facts = {"left": name_input(left), "right": name_input(right), "sentence": made.sentence}
    return Answer(facts, command, table, notes=_notes(left, *table.notes, *notes_of(right)))


# -- what happened when ------------------------------------------------------------------------------------------------


def answer_timeline(question: Question) -> Answer:
    """Show what went on in a window of the traces, as exact times."""
    asked, experiment = question.asked, question.experiment()
    words = question.words("window", "depth", "exclusive", "bins", "metric", "ranks", "threads", "runs")
    table = experiment.timeline(by=asked["by"] or ("name",), kind=asked["kind"], limit=asked["limit"], **words)
    named = {"window": "--window", "by": "--by", "depth": "--depth", "bins": "--bins", "exclusive": "--exclusive"}
    options = {**_choose(asked), **_options(asked, **named), "--kind": ",".join(asked["kind"] or ())}
    command = Command("timeline", [question.path()]).add(options)
    query = span_query(experiment, asked)
    return Answer(_facts(experiment, table), command, table, query=query, notes=_notes(experiment, *table.notes))


def answer_summary(question: Question) -> Answer:
    """Show statistics of spans: kernels, copies, calls, how busy devices were."""
    asked, experiment = question.asked, question.experiment()
    sections, words = asked["section"] or (), question.words("window", "ranks", "runs")
    table = experiment.summary(sections, asked["by"] or (), limit=asked["limit"], name=asked["name"] or (), **words)
    options = {**_choose(asked), **_options(asked, section="--section", by="--by", window="--window")}
    command = Command("summary", [question.path()]).add(options)
    notes = _notes(experiment, *table.notes)
    query = span_query(experiment, {**asked, "section": list(sections)})
    return Answer(_facts(experiment, table), command, table, query=query, notes=notes, limit=asked["limit"])


# -- how it scales -----------------------------------------------------------------------------------------------------

SHORT_MODEL = (
    *("callpath", "metric", "function", "order", "smape", "ar2", "points", "run_share", "prediction", "low", "high"),
    *("trust", "reason"),
)


def answer_model(question: Question) -> Answer:
    """Show costs as functions of the parameters, as Extra-P makes them."""
    asked, study = question.asked, question.study()
    models = study.model(asked["metric"], asked["callpath"])
    table = models.table(asked["limit"])
    if not asked["detail"]:
        table = Table(tuple(table.column(name) for name in SHORT_MODEL if name in table.names), table.left)
    command = Command("model", [question.path()]).add(_options(asked, metric="-m", callpath="--callpath"))
    query = series_query(study, asked["metric"], asked["callpath"])
    facts = {"input": name_input(study), "parameters": list(study.parameters)}
    return Answer(facts, command, table, query=query, notes=_notes(study))


def answer_predict(question: Question) -> Answer:
    """Show what will cost most at a scale that was not measured."""
    asked, study = question.asked, question.study()
    table = study.predict(asked["at"], asked["metric"], asked["callpath"], limit=asked["limit"])
    point = ",".join(f"{name}={value!r}" for name, value in asked["at"].items())
    options = {"--at": point, **_options(asked, metric="-m", callpath="--callpath")}
    command = Command("predict", [question.path()]).add(options)
    facts = {"input": name_input(study), "at": asked["at"]}
    query = series_query(study, asked["metric"], asked["callpath"])
    return Answer(facts, command, table, query=query, notes=_notes(study, *table.notes))


# -- anything else -----------------------------------------------------------------------------------------------------


def answer_sql(question: Question) -> Answer:
    """Answer one SELECT over the tables of an input, or list these tables."""
    asked, opened, path = question.asked, question.open(), question.path()
    facts: Document = {"input": name_input(opened)}
    if not asked["query"]:
        listed = opened.sql_tables()
        columns: dict[str, list[str]] = {}
        for row in listed:
            columns.setdefault(row["table"], []).append(row["column"])
        table = Table.from_rows(("table", "columns"), [(name, ", ".join(own)) for name, own in columns.items()])
        return Answer(facts, Command("sql", [path], "--tables"), table, limit_said=False)
    with sql(opened, asked["query"], progress=question.report, seconds=QUERY_SECONDS) as answer:
        rows = list(islice(answer.rows(), asked["limit"] + 1))
        names, notes = answer.names, [*answer.left_out]
        notes += [f"this input has nothing for {name}" for name, n in answer.loaded.items() if not n]
    table = Table.from_rows(names, rows[: asked["limit"]])
    if len(rows) > asked["limit"]:
        table = Table(table.columns, left=-1)
    command = Command("sql", [path], asked["query"])
    return Answer(facts, command, table, notes=_notes(opened, *notes))


def answer_explain(question: Question) -> Answer:
    """Say in sentences what dominates, is uneven, waits, will not scale; of two inputs, why one takes longer."""
    asked, opened = question.asked, question.open()
    paths = [question.path()]
    if asked["other"] is None:
        made: Explanation = opened.explain(asked["metric"])
    else:
        made = why(question.experiment(), question.experiment("other"), asked["metric"])
        paths.append(question.path("other"))
    command = Command("explain" if asked["other"] is None else "why", paths).add({"-m": asked["metric"]})
    notes = _notes(opened, *made.notes)
    return Answer({"input": name_input(opened)}, command, made.table(), notes=notes, limit_said=False)


ORDERS = ("difference", "ratio", "left", "right", "path")
SECTIONS = (
    *("kernels", "copies", "api", "sync", "allocations", "markers", "regions", "overhead", "counters", "busy"),
    *("overlap", "gaps", "longest-gaps", "latency", "memory", "messages", "collectives"),
)
LINES = ("name", "profile", "rank", "thread", "node", "kind", "class", "context", "depth")
DIVISIONS = ("rank", "agent", "stream", "domain", "marker")
DETAIL = Argument("detail", "boolean", "all columns: terms with exponents, and further measures of error", False)
OTHER = Argument("other", "string", "the second input", required=True)
AT = Argument("at", "point", 'a value for every parameter: {"p": 4096, "n": 500}', required=True)
SHARE = Argument("share", "number", "go on while a call has this share of its caller's cost", 0.5, 0, 1)
BY = Argument("by", "string", "what a row stands for", "function", choices=GROUPS)

TOOLS: Mapping[str, Tool] = {
    "open": Tool(
        "Say what a file or folder is, and what can be asked of it; without a path, which folders may be read.",
        (Argument("path", "string", "a file or folder; left out: the folders that may be read"),),
        answer_open,
    ),
    "info": Tool(
        "All facts about an input as data: format, runs, ranks, contexts, metrics, values, traces, damage.",
        (PATH,),
        answer_info,
    ),
    "top": Tool(
        "Where the cost is: functions, lines, files or ranks by exclusive cost; percent is of the whole.",
        (
            *(PATH, METRIC, Argument("by", "string", BY.told, "function", choices=(*GROUPS, *ENTITIES))),
            Argument("columns", "string", "one more column for each rank, thread, ...", choices=ENTITIES),
            *(limit_of(20), *PROFILES, NAME, UNDER),
        ),
        answer_top,
    ),
    "tree": Tool(
        "The call tree with inclusive and exclusive cost, the costliest calls first.",
        (
            *(PATH, METRIC, Argument("bottom_up", "boolean", "from costly functions up to their callers", False)),
            Argument("source", "boolean", "source lines and call sites, too", False),
            *(limit_of(40), *PROFILES, NAME, UNDER),
        ),
        answer_tree,
    ),
    "hot_path": Tool(
        "The path from the root along the costliest calls.",
        (PATH, METRIC, SHARE, *PROFILES, NAME, UNDER),
        answer_hot_path,
    ),
    "imbalance": Tool(
        "How costs are spread over ranks, threads, GPUs, nodes or runs: mean, max, who is slowest, what that costs.",
        (
            *(PATH, METRIC, Argument("over", "string", "what is compared", choices=ENTITIES), BY),
            Argument("scope", "string", "which cost", "exclusive", choices=("exclusive", "inclusive")),
            *(limit_of(20), *PROFILES, NAME, UNDER),
        ),
        answer_imbalance,
    ),
    "compare": Tool(
        "What differs between two inputs, call path by call path: difference is left less right.",
        (
            *(PATH, OTHER, Argument("metric", "string", "a metric, or LEFT=RIGHT where the other calls it so")),
            Argument("scope", "string", "which cost", "exclusive", choices=("exclusive", "inclusive")),
            Argument("flat", "boolean", "functions, whoever called them", False),
            *(Argument("sort", "string", "what comes first", "difference", choices=ORDERS), limit_of(20)),
        ),
        answer_compare,
    ),
    "timeline": Tool(
        "What went on in a window of the traces: exact times in ns by function, kernel, rank, class of activity.",
        (
            *(PATH, METRIC, WINDOW, Argument("by", "strings", "what tells rows apart (default: name)", choices=LINES)),
            Argument("kind", "strings", "only these kinds: function, kernel, copy, api, marker, ..."),
            Argument("depth", "integer", "the N-th function from the root", None, 0, 10_000),
            Argument("exclusive", "boolean", "each moment belongs to the innermost of nested spans", False),
            Argument("bins", "integer", "divide the window into so many parts", None, 1, MOST_ROWS),
            *(limit_of(20), *PROFILES),
        ),
        answer_timeline,
    ),
    "summary": Tool(
        "Statistics of a traced run: kernels, copies, calls, busy and idle time of devices, overlap, gaps, messages.",
        (
            *(PATH, Argument("section", "strings", "only these sections", choices=SECTIONS)),
            *(Argument("by", "strings", "divide rows by this", choices=DIVISIONS), WINDOW),
            *(Argument("limit", "integer", "rows of each section", 10, 1, MOST_ROWS), RANKS, RUNS, NAME),
        ),
        answer_summary,
    ),
    "model": Tool(
        "How costs scale: functions of the parameters as Extra-P makes them, and how far to trust each.",
        (PATH, METRIC, CALLPATH, limit_of(20), DETAIL),
        answer_model,
    ),
    "predict": Tool(
        "What will cost most at a scale that was not measured, with intervals and trust.",
        (PATH, AT, METRIC, CALLPATH, limit_of(20)),
        answer_predict,
    ),
    "sql": Tool(
        "One SELECT over the tables of an input (read-only); without a query, its tables and their columns.",
        (PATH, Argument("query", "string", "a SELECT"), limit_of(100)),
        answer_sql,
    ),
    "explain": Tool(
        "A few sentences: what dominates, is uneven, waits, will not scale; with other: why that one is slower.",
        (PATH, Argument("other", "string", "a second run: say why it takes longer than the first"), METRIC),
        answer_explain,
    ),
}
