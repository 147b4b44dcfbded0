"""The command and the SQL query that reproduce an answer, for whoever doubts a number.

A command prints the same rows as JSON. A query over the same input (`callgrove sql PATH QUERY`) adds up the numbers of
a view from the values that the file has, by another way than the view itself; where a selection has no counterpart in
SQL, there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.analysis.costs import FUNCTIONS, Costs
from callgrove.assistant.arguments import Arguments
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation
from callgrove.model.profiles import ProfileKind
from callgrove.model.study.series import Study
from callgrove.render.facts import quote_word

__all__ = ["Command", "cost_query", "series_query", "span_query"]

# -- commands ----------------------------------------------------------------------------------------------------------


class Command:
    """The words of a command, of which the limit is known when the answer is cut to its budget."""

    def __init__(self, verb: str, paths: Sequence[Path], *words: str) -> None:
        self._words = [verb, *map(str, paths), *words]

    def add(self, options: Mapping[str, Any]) -> Command:
        """Add options by their names; what is None, empty or false is not said, and a list repeats its option."""
        for option, value in options.items():
            items = value if isinstance(value, list | tuple) else [value]
            for item in items:
                if item is True:
                    self._words.append(option)
                elif item is not None and item is not False and item != "":
                    self._words += _join_option(option, str(item))
        return self

    def text(self, limit: int | None = None) -> str:
        """Return the command as one line for a shell; `limit` is the number of rows that it prints."""
        rows = [] if limit is None else ["--limit", str(limit)]
        return " ".join(["callgrove", *map(quote_word, [*self._words, *rows, "--format", "json"])])


def _join_option(option: str, value: str) -> list[str]:
    """Return an option and its value; one word where the value would be taken for an option."""
    return [f"{option}={value}"] if value.startswith("-") and option.startswith("--") else [option, value]


# -- queries -----------------------------------------------------------------------------------------------------------

NESTED = (ContextKind.LINE, ContextKind.LOOP, ContextKind.CALL, ContextKind.INSTRUCTION)
KINDS = ", ".join(f"'{kind.word}'" for kind in FUNCTIONS)
OWNERS = (  # the function that each context belongs to: what is nested in it lexically does
    "WITH RECURSIVE owner(context, function) AS (SELECT context, context FROM contexts WHERE parent IS NULL "
    f"OR relation <> 'lexical' OR kind IN ({KINDS}) UNION ALL SELECT c.context, o.function FROM contexts c "
    f"JOIN owner o ON c.parent = o.context WHERE c.relation = 'lexical' AND c.kind NOT IN ({KINDS})) "
)
PLACE = "{0}.name, {0}.file, {0}.line, {0}.module"
SECTIONS = {"kernels": "kernel", "copies": "copy", "api": "api", "markers": "marker", "sync": "sync"}


def cost_query(costs: Costs, asked: Arguments, scope: str = "exclusive", over: str = "") -> str:
    """Return the query that adds up the costs of functions (exclusive) or of contexts (inclusive); empty where the
    question selects contexts by patterns or groups them otherwise, or the metric does not add up."""
    experiment, metric = costs.experiment, costs.metric
    chosen = ("name", "under", "threads", "runs", "bottom_up", "source", "columns")
    grouped = asked.get("by") not in (None, "function")
    if any(asked.get(word) for word in chosen) or grouped or metric.derivation or metric.aggregation != Aggregation.SUM:
        return ""
    where, ranks = [f"m.name = {_quote(metric.name)}"], asked.get("ranks")
    if ranks and not ranks.isdigit():
        return ""
    if ranks:
        where.append(f"p.rank = {int(ranks)}")
    if np.isin(experiment.profiles.kind, [ProfileKind.SUMMARY]).any():
        where.append("p.kind <> 'summary'")
    is_joined = len(where) > 1 or bool(over)
    joins = "JOIN metrics m ON m.metric = v.metric" + " JOIN profiles p ON p.profile = v.profile" * is_joined
    entity = f", p.{over}" if over else ""
    tail = f"WHERE {' AND '.join(where)} GROUP BY {{0}}{entity} ORDER BY {scope} DESC"
    if scope == "inclusive":
        head = f"SELECT c.context, c.name{entity}, sum(v.value) AS inclusive FROM inclusive_values v "
        return f"{head}JOIN contexts c ON c.context = v.context {joins} {tail.format('c.context, c.name')}"
    if not np.isin(experiment.contexts.kind, NESTED).any():
        head = f"SELECT c.name{entity}, sum(v.value) AS exclusive FROM exclusive_values v "
        return f"{head}JOIN contexts c ON c.context = v.context {joins} {tail.format(PLACE.format('c'))}"
    head = f"{OWNERS}SELECT f.name{entity}, sum(v.value) AS exclusive FROM exclusive_values v "
    owners = "JOIN owner o ON o.context = v.context JOIN contexts f ON f.context = o.function"
    return f"{head}{owners} {joins} {tail.format(PLACE.format('f'))}"


def span_query(experiment: Experiment, asked: Arguments) -> str:
    """Return the query that adds up spans by name: of one section of a summary, or of a whole timeline."""
    sections = asked.get("section", None)
    selecting = ("window", "ranks", "threads", "runs", "name", "kind", "exclusive", "bins", "depth")
    by = [word for word in asked.get("by") or [] if word != "name"]
    if any(asked.get(word) for word in selecting) or by or not experiment.traces.n_spans:
        return ""
    if sections is None:
        head, where = "sum(duration_ns) AS time_ns FROM spans", ""
        return f"SELECT name, {head}{where} GROUP BY name ORDER BY time_ns DESC" if not _has_samples(experiment) else ""
    if len(sections) != 1 or sections[0] not in SECTIONS:
        return ""
    head = "SELECT name, count(*) AS count, sum(duration_ns) AS total_ns FROM spans"
    return f"{head} WHERE kind = '{SECTIONS[sections[0]]}' GROUP BY name ORDER BY total_ns DESC"


def _has_samples(experiment: Experiment) -> bool:
    return bool(experiment.traces.n_samples)


def series_query(study: Study, metric: str | None, callpath: str | None) -> str:
    """Return the query for the measurements that models were made of."""
    known = [name for name in study.metrics if name == metric]
    where = [f"metric = {_quote(known[0])}"] if known else []
    if callpath:
        where.append(f"callpath LIKE {_quote(f'%{callpath}%')}")
    return "SELECT * FROM series" + f" WHERE {' AND '.join(where)}" * bool(where)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
