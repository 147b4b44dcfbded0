"""What the metrics of a legacy experiment.xml mean.

    CPUTIME (usec):Sum (I)        the sum over all threads, inclusive: the summary
    CPUTIME (usec):Mean (E)       another statistic of the summary, as far as it is accumulated
    CPUTIME (usec).[3,0] (I)      of rank 3, thread 0 alone
    CPUTIME (usec) (I)            of a MetricDB: a column of every thread's metric-db

A value of type `derived-incr` is accumulated; its `finalize` formula makes the number to show of it. The scope is the
attribute `t`. Metrics without one (`nil`) have the cost where it arose: on statements, on nothing above them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from callgrove.formats.hpctoolkit.database import unit_of
from callgrove.formats.hpctoolkit.experiment_xml import XmlMetric
from callgrove.formats.hpctoolkit.legacy_xml import LegacyXml, MetricDb
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.metrics import Aggregation, Column, Metric, Scope

__all__ = ["MetricRows", "add_metrics"]

NAME = re.compile(r"(?P<base>.+?)(?:\.\[(?P<rank>\d{1,9}),(?P<thread>\d{1,9})\])?(?:(?P<mark> \([IE]\)))?", re.DOTALL)
STATISTICS = ("Sum", "Mean", "StdDev", "CfVar", "Min", "Max", "Num")
SCOPES = {"inclusive": Scope.INCLUSIVE, "exclusive": Scope.FUNCTION}
MARKS = {" (I)": Scope.INCLUSIVE, " (E)": Scope.FUNCTION}
AGGREGATIONS = {"sum": Aggregation.SUM, "min": Aggregation.MINIMUM, "max": Aggregation.MAXIMUM}
Thread = tuple[int, int]  # rank, thread


@dataclass(frozen=True)
class Meaning:
    """The parts of a metric's name."""

    quantity: str
    scope: Scope
    statistic: str = ""
    thread: Thread | None = None


@dataclass
class MetricRows:
    """Where values go: ids of inline values and columns of metric-db files as metric rows."""

    summary: dict[int, int] = field(default_factory=dict)  # id of an M in the summary -> row
    threads: dict[int, tuple[Thread, int]] = field(default_factory=dict)  # id of an M of one thread -> (thread, row)
    files: list[tuple[MetricDb, int]] = field(default_factory=list)


def meaning(name: str, type_: str) -> Meaning:
    """What a metric's name and type say."""
    found = NAME.fullmatch(name)
    if found is None:
        return Meaning(name, SCOPES.get(type_, Scope.EXCLUSIVE))
    base, _, statistic = found["base"].rpartition(":")
    known = bool(base) and statistic in STATISTICS
    scope = SCOPES.get(type_) or MARKS.get(found["mark"] or "", Scope.EXCLUSIVE)
    thread = (int(found["rank"]), int(found["thread"])) if found["rank"] else None
    return Meaning(base if known else found["base"], scope, statistic if known else "", thread)


def add_metrics(builder: ExperimentBuilder, xml: LegacyXml) -> MetricRows:
    """Rows for every quantity and scope, for statistics of the summary, and the columns that the file shows."""
    rows: dict[tuple[str, Scope, str], int] = {}
    out = MetricRows()
    shown = {meaning(m.name, m.type).quantity for m in xml.metrics if m.show}
    summed = {(w.quantity, w.scope): m for m in xml.metrics if (w := meaning(m.name, m.type)).statistic in ("", "Sum")}
    for db in xml.metric_dbs:
        word = meaning(db.name, db.type)
        key = (word.quantity, word.scope, "")
        if key not in rows:
            rows[key] = builder.add_metric(_row(word, summed.get(key[:2]), shown, db.id))
        out.files.append((db, rows[key]))
    for metric in xml.metrics:
        word = meaning(metric.name, metric.type)
        word = replace(word, statistic=_stored_statistic(word, metric))
        key = (word.quantity, word.scope, word.statistic)
        if key not in rows:
            own = metric.id if word.thread is None else None
            rows[key] = builder.add_metric(_row(word, metric, shown, own))
        if word.thread is None:
            out.summary.setdefault(metric.id, rows[key])
            builder.add_column(_column(metric))
        else:
            out.threads.setdefault(metric.id, (word.thread, rows[key]))
    builder.name_summaries(out.summary)
    return out


def _stored_statistic(word: Meaning, metric: XmlMetric) -> str:
    """The statistic that is stored: one that a formula finishes is only accumulated so far."""
    if word.statistic in ("", "Sum"):
        return ""
    finished = metric.formulas.get("finalize", "").strip() in ("", f"${metric.id}")
    statistic = word.statistic.lower()
    return {"num": "count"}.get(statistic, statistic) if finished else f"{statistic}, accumulated"


def _row(word: Meaning, metric: XmlMetric | None, shown: set[str], source_id: int | None) -> Metric:
    combine = metric.formulas.get("combine", "sum").partition("(")[0].strip() if metric else "sum"
    return Metric(
        word.quantity,
        word.scope,
        unit=unit_of(word.quantity) if word.statistic in ("", "min", "max", "mean") else "",
        aggregation=AGGREGATIONS.get(combine, Aggregation.NONE) if word.statistic else Aggregation.SUM,
        description=metric.description if metric else "",
        visible=not word.statistic and (not shown or word.quantity in shown),
        show_percent=metric.show_percent if metric else True,
        number_format=metric.number_format if metric else "",
        statistic=word.statistic,
        source_id=source_id,
    )


def _column(metric: XmlMetric) -> Column:
    word = meaning(metric.name, metric.type)
    return Column(
        word.quantity,
        word.scope,
        metric.formulas.get("finalize", f"${metric.id}"),
        metric.description,
        word.statistic,
        metric.show != 0,
        metric.show_percent,
        metric.number_format,
        metric.id,
        metric.partner,
    )
