"""What rocprofv3's views and summaries add up, right: by name, by domain, by device.

Specification: gpu-traces.md 3.5. The tool's own views divide integers, add up means, share one hundred percent between
host and GPU, and count overlapping operations twice. Here a mean is total / count, a percentage is of its domain, and
busy is the length of a union. Spans that end before they start are in no sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from callgrove.analysis.summary import By, summarise
from callgrove.analysis.summary_table import table
from callgrove.model.experiment import Experiment
from callgrove.model.table import Table
from callgrove.query.lanes import Lanes, as_column
from callgrove.query.relations import Field, Opened, Relation, Type, Wanted, fields_of

__all__ = ["sum_relations"]

TOP = "domain:t name:t total_calls total_duration:r average:r percentage:r total_ns min_ns max_ns std_ns:r"
SECTIONS = {  # of our own summary, under the tool's names of domains
    "kernels": "KERNELS",
    "copies": "MEMORY_COPIES",
    "allocations": "MEMORY_ALLOCATIONS",
    "markers": "MARKERS",
    "api": "API",
    "sync": "SYNCHRONIZATION",
    "regions": "REGIONS",
    "overhead": "OVERHEAD",
}
SUMMARY = tuple(
    Field(name, type_)
    for name, type_ in (
        ("Name", Type.TEXT),
        ("Calls", Type.INTEGER),
        ("DURATION (nsec)", Type.INTEGER),
        ("AVERAGE (nsec)", Type.REAL),
        ("PERCENT (INC)", Type.REAL),
        ("MIN (nsec)", Type.INTEGER),
        ("MAX (nsec)", Type.INTEGER),
        ("STD_DEV", Type.REAL),
    )
)
BUSY = (
    "rank agent_id agent_type_index type:t GpuTime WallTime Busy:r ProcessTime BusyOfProcess:r operations most_at_once"
)
Row = dict[str, Any]


def sum_relations() -> list[Relation]:
    one = partial(_relation, fields=SUMMARY)
    return [
        _relation("top", "calls and time by domain and name", _top, fields_of(TOP)),
        _relation("top_kernels", "calls and time by kernel", partial(_top, only="kernels"), fields_of(TOP)),
        _relation("busy", "for how long devices were busy: unions, never above 1", _busy, fields_of(BUSY)),
        one("kernel_summary", "by kernel", partial(_summary, "kernels")),
        one("memory_copy_summary", "by kind of copy", partial(_summary, "copies")),
        one("memory_allocation_summary", "by operation", partial(_summary, "allocations")),
        one("region_summary", "by call", partial(_summary, "api")),
        one("marker_summary", "by marker", partial(_summary, "markers")),
        one("domain_summary", "by domain: KERNELS, MEMORY_COPIES, HIP, HSA, ...", _domains),
    ]


def _relation(
    name: str, title: str, rows: Callable[[Experiment], Iterator[Row]], fields: tuple[Field, ...]
) -> Relation:
    def read(opened: Opened, wanted: Wanted) -> Iterator[Table]:
        assert isinstance(opened, Experiment)
        names = [field.name for field in fields]
        yield Table.from_rows(names, [[row[name] for name in names] for row in rows(opened)])

    return Relation(name, title, fields, read)


def _rows(experiment: Experiment, *by: By) -> Iterator[Row]:
    """The rows of `callgrove summary` that belong to spans, with every column."""
    made = table(summarise(experiment, by), tuple(SECTIONS))
    names = made.names
    for cells in made.rows():
        yield {"std_ns": None, "min_ns": None, "max_ns": None, **dict(zip(names, cells, strict=True))}


def _top(experiment: Experiment, only: str = "") -> Iterator[Row]:
    for row in _rows(experiment):
        if not only or row["section"] == only:
            yield {
                "domain": SECTIONS[row["section"]],
                "name": row["name"],
                "total_calls": row["count"],
                "total_duration": row["total_ns"] / 1e3,
                "average": row["mean_ns"] / 1e3,
                "percentage": row["percent"],
                **{name: row[name] for name in ("total_ns", "min_ns", "max_ns", "std_ns")},
            }


def _summary(section: str, experiment: Experiment) -> Iterator[Row]:
    for row in _rows(experiment):
        if row["section"] == section:
            yield _as_summary(row["name"], row)


def _domains(experiment: Experiment) -> Iterator[Row]:
    """Calls by their library, all else by what it is."""
    for row in _rows(experiment, By.DOMAIN):
        library = row["domain"] if row["section"] in ("api", "regions") else None
        yield _as_summary(library or SECTIONS[row["section"]], row)


def _as_summary(name: str, row: Row) -> Row:
    columns = ("count", "total_ns", "mean_ns", "percent", "min_ns", "max_ns", "std_ns")
    return dict(zip((f.name for f in SUMMARY), (name, *(row[column] for column in columns)), strict=True))


def _busy(experiment: Experiment) -> Iterator[Row]:
    numbers = _agent_ids(experiment)
    for device in summarise(experiment).devices:
        rank, agent = (number if number >= 0 else None for number in (device.rank, device.agent))
        yield {
            "rank": rank,
            "agent_id": numbers.get((rank, agent), agent),
            "agent_type_index": agent,
            "type": "GPU",
            "GpuTime": device.busy_ns,
            "WallTime": device.span_ns,
            "Busy": _ratio(device.busy_ns, device.span_ns),
            "ProcessTime": device.process_ns,
            "BusyOfProcess": _ratio(device.busy_ns, device.process_ns),
            "operations": device.n_operations,
            "most_at_once": device.most_at_once,
        }


def _agent_ids(experiment: Experiment) -> dict[tuple[int | None, int | None], int]:
    """The tool's own number of an agent, by rank and number among the GPUs."""
    lanes = Lanes(experiment)
    words = [as_column(word, lanes.column(word)).plain() for word in ("rank", "agent_type_index", "agent_abs_index")]
    return {(rank, index): number for rank, index, number in zip(*words, strict=True) if number is not None}


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
