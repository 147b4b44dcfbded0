"""Questions to the tools, and answers that other programs gave: a table of tool, arguments, place in the document,
expected value, and where that comes from.

The expected values are read from the oracles beside the sample files (what CubeLib, hpcproftt, Extra-P, caliper-reader,
Perfetto, otf2 say about the same bytes, and what generators wrote), or added up from these here; none is callgrove's.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Question", "look_up", "questions", "same"]


@dataclass(frozen=True)
class Question:
    """`place` leads through the document: keys, and for tables the cells that a row has, then a column."""

    tool: str
    arguments: dict[str, Any]
    place: tuple[Any, ...]
    expected: Any
    source: str
    tolerance: float = 0.0  # relative: oracles that print fewer digits, sums in another order


def look_up(document: Any, place: tuple[Any, ...]) -> Any:
    """Return what stands at a place of a document."""
    for step in place:
        document = _find_row(document, step) if isinstance(step, Mapping) else document[step]
    return document


def _find_row(document: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    shared: dict[str, Any] = document.get("in_every_row", {})
    rows = [shared | dict(zip(document["columns"], row, strict=True)) for row in document["rows"]]
    (row,) = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return row


def same(found: Any, question: Question) -> bool:
    """Tell whether an answer is the expected one: texts and whole numbers are equal, others to the tolerance."""
    if isinstance(question.expected, float) and isinstance(found, int | float):
        return math.isclose(found, question.expected, rel_tol=max(question.tolerance, 1e-12))
    return type(found) is type(question.expected) and bool(found == question.expected)


def questions(shared: Path) -> list[Question]:
    """Return all questions."""
    oracles = shared / "acceptance" / "expected"
    return [
        *_ask_formats(),
        *_ask_cube(oracles),
        *_ask_comparison(oracles),
        *_ask_tau(oracles),
        *_ask_stacks(oracles),
        *_ask_hpctoolkit(oracles),
        *_ask_kernels(shared),
        *_ask_spans(oracles),
        *_ask_models(shared),
    ]


def _read(path: Path) -> Any:
    return json.loads(gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes())


# -- what is there -----------------------------------------------------------------------------------------------------


def _ask_formats() -> Iterator[Question]:
    """Ask what samples are: their folders are named after what wrote them, and versions are those that the READMEs and
    `cube_dump -w` name."""
    for path, name in {
        "own/cube/mpi4/profile.cubex": "cube 4.4",
        "own/hpctoolkit-release/mpi4.d": "hpctoolkit-release 4.0",
        "own/hpctoolkit-prerelease/mpi4.d": "hpctoolkit-prerelease 4.0",
        "own/hpcrun-04.00/mpi4.m": "hpcrun 04.00",
        "own/folded/pth8.folded": "folded",
        "public/tau/cpi-mpi": "tau",
        "own/otf2/otf2_2": "otf2 3.0.3",
    }.items():
        yield Question("open", {"path": path}, ("kind",), "experiment", "README of the samples")
        yield Question("open", {"path": path}, ("format",), name, "README of the samples")
    study = "public/extrap/text/two_parameter_1.txt"
    yield Question("open", {"path": study}, ("kind",), "study", "README of the samples")


# -- costs -------------------------------------------------------------------------------------------------------------


class _Cube:
    """What CubeLib says of a file: values of locations, call paths and metrics; a rank has as many locations."""

    def __init__(self, oracles: Path, name: str, threads: int) -> None:
        file = oracles / "cube" / f"own.cube.{name}.profile.cubex"
        described = _read(file.with_name(f"{file.name}.json.gz"))
        self.path, self.threads = f"own/cube/{name}/profile.cubex", threads
        self.names = {cnode: name for cnode, (_, name) in described["cnodes"].items()}
        metrics = {number: row[0] for number, row in described["metrics"].items()}
        with gzip.open(file.with_name(f"{file.name}.values.csv.gz"), "rt") as opened:
            self.rows = [(*row[:2], metrics[row[2]], float(row[4])) for row in list(csv.reader(opened))[1:]]

    def by_function(self, metric: str, rank: int | None = None) -> dict[str, float]:
        """Return exclusive costs, added up by name."""
        sums: defaultdict[str, float] = defaultdict(float)
        for location, cnode, name, value in self.rows:
            if name == metric and rank in (None, int(location) // self.threads):
                sums[self.names[cnode]] += value
        return sums


def _ask_cube(oracles: Path) -> Iterator[Question]:
    cube, source = _Cube(oracles, "mpi4", 2), "CubeLib 4.8.2: cube_dump of every value, added up"
    for metric, tolerance in (("visits", 0.0), ("bytes_sent", 0.0), ("time", 1e-9)):
        asked = {"path": cube.path, "metric": metric, "limit": 30}
        costs = cube.by_function(metric)
        yield Question("top", asked, ("total",), sum(costs.values()), source, 1e-9)
        for name, cost in sorted(costs.items(), key=lambda item: -item[1])[:8]:
            if cost:
                expected = cost if metric == "time" else int(cost)
                yield Question("top", asked, ({"name": name}, "exclusive"), expected, source, tolerance)
    for rank in range(4):
        costs = cube.by_function("visits", rank)
        asked = {"path": cube.path, "metric": "visits"}
        total = int(sum(costs.values()))
        yield Question("top", {**asked, "by": "rank"}, ({"name": f"rank {rank}"}, "exclusive"), total, source)
        for name in ("recurse", "kernel_axpy"):
            place = ({"name": name}, "exclusive")
            yield Question("top", {**asked, "ranks": str(rank)}, place, int(costs[name]), source)
    by_rank = [cube.by_function("visits", rank) for rank in range(4)]
    for name in ("recurse", "kernel_axpy", "smooth"):
        each = [costs[name] for costs in by_rank]
        asked = {"path": cube.path, "metric": "visits", "over": "rank"}
        figures = {"max": max(each), "min": min(each), "mean": sum(each) / 4, "sum": sum(each)}
        figures |= {"excess": max(each) - sum(each) / 4}
        for column, figure in figures.items():
            yield Question("imbalance", asked, ({"name": name}, column), figure, source, 1e-12)
    asked = {"path": cube.path, "metric": "time"}
    time = sum(cube.by_function("time").values())
    yield Question("explain", asked, ({"cause": "total"}, "number"), time, source, 1e-9)


def _ask_comparison(oracles: Path) -> Iterator[Question]:
    left, right = _Cube(oracles, "mpi4", 2), _Cube(oracles, "mpi8", 1)
    asked = {"path": left.path, "other": right.path, "metric": "visits", "flat": True}
    source = "CubeLib 4.8.2: cube_dump of both files, subtracted"
    before, after = left.by_function("visits"), right.by_function("visits")
    for name in ("recurse", "exchange", "MPI_Sendrecv", "MPI_Allreduce", "main", "MPI_Init"):
        figures = {"left": before[name], "right": after[name], "difference": before[name] - after[name]}
        for column, expected in figures.items():
            yield Question("compare", asked, ({"path": name}, column), int(expected), source)


def _ask_tau(oracles: Path) -> Iterator[Question]:
    oracle = _read(oracles / "inputs" / "tau-cpi-mpi.json")
    sums: defaultdict[tuple[str, str], int] = defaultdict(int)
    for key, value in oracle["by_rank"]["TIME"]["exclusive"].items():
        rank, _, path = key.partition("|")
        sums[rank, path.rpartition("->")[2]] += int(value)
    asked = {"path": "public/tau/cpi-mpi", "columns": "rank"}
    for name in ("MPI_File_open()", "MPI_Init()", "MPI_Finalize()", "MPI_Bcast()", "MPI_Reduce()"):
        for rank in oracle["ranks"]:
            place = ({"name": name}, f"rank {rank}")
            yield Question("top", asked, place, sums[str(rank), name], oracle["oracle"])


def _ask_stacks(oracles: Path) -> Iterator[Question]:
    for name in ("folded-quirks", "perf-variants"):
        oracle = _read(oracles / "inputs" / f"{name}.json")
        for metric, told in oracle["metrics"].items():
            asked = {"path": oracle["input"], **({} if metric == "*" else {"metric": metric})}
            yield Question("tree", asked, ("total",), told["total"], oracle["oracle"])
            names = [path.rpartition("->")[2] for path in told["inclusive"]]
            for path, value in told["inclusive"].items():
                short = path.rpartition("->")[2]
                if names.count(short) == 1 and name == "folded-quirks":
                    yield Question("tree", asked, ({"name": short}, "inclusive"), value, oracle["oracle"])
    oracle = _read(oracles / "inputs" / "folded-pth8.json")
    hot = oracle["metrics"]["*"]["inclusive"]
    place = ({"name": "work"}, "inclusive")
    expected = int(hot["pth->clone3->start_thread->work"])
    yield Question("hot_path", {"path": oracle["input"]}, place, expected, oracle["oracle"])
    oracle = _read(oracles / "inputs" / "perf-pth8.json")
    asked = {"path": oracle["input"]}
    n_samples, first, last = oracle["samples"]
    yield Question("info", asked, ("traces", "samples"), n_samples, oracle["oracle"])
    yield Question("info", asked, ("traces", "start_ns"), first, oracle["oracle"])
    yield Question("info", asked, ("profiles", "thread"), oracle["profiles"], oracle["oracle"])
    query = f"SELECT count(*) AS n, max(time_ns) AS last FROM samples WHERE time_ns <= {last}"
    yield Question("sql", {**asked, "query": query}, ("rows", 0, 0), n_samples, oracle["oracle"])
    yield Question("sql", {**asked, "query": query}, ("rows", 0, 1), last, oracle["oracle"])


def _ask_hpctoolkit(oracles: Path) -> Iterator[Question]:
    for name in ("own.hpctoolkit-release.mpi4.d", "own.hpctoolkit-release.pth4.d", "own.hpctoolkit-prerelease.mpi4.d"):
        oracle = _read(oracles / "hpctoolkit" / f"{name}.json.gz")
        generation, _, database = name.removeprefix("own.").partition(".")
        path, source = f"own/{generation}/{database}", "hpcproftt's dump of the database, added up"
        by_rank: defaultdict[str, float] = defaultdict(float)
        for key, value in oracle["root"].items():
            by_rank[f"rank {oracle['profiles'][key.partition(',')[0]].get('rank', 0)}"] += value
        total = sum(oracle["root"].values())
        yield Question("top", {"path": path}, ("total",), total, source, 1e-9)
        yield Question("info", {"path": path}, ("profiles", "thread"), len(oracle["profiles"]), source)
        samples = sum(row[0] for row in oracle["samples"].values())
        yield Question("info", {"path": path}, ("traces", "samples"), samples, source)
        if len(by_rank) > 1:
            for rank, value in by_rank.items():
                asked = {"path": path, "by": "rank"}
                yield Question("top", asked, ({"name": rank}, "exclusive"), value, source, 1e-9)


# -- spans -------------------------------------------------------------------------------------------------------------


def _ask_kernels(shared: Path) -> Iterator[Question]:
    folder, source = "own/rocpd/same_pid", "the generator that wrote the database (truth.json)"
    for database in _read(shared / "data" / folder / "truth.json")[:2]:
        path = f"{folder}/{database['path']}"
        asked = {"path": path, "section": "kernels"}
        largest = sorted(database["top"].items(), key=lambda item: -item[1][1])[:5]
        for name, told in largest:
            for column, expected in zip(("count", "total_ns", "min_ns", "max_ns"), told, strict=True):
                yield Question("summary", asked, ({"name": name}, column), expected, source)
        for kind, word in (("kernel", "kernels"), ("copy", "copies")):
            query = f"SELECT count(*) FROM spans WHERE kind = '{kind}'"
            yield Question("sql", {"path": path, "query": query}, ("rows", 0, 0), database[word], source)
        kernels = {name: told[1] for name, told in largest[:3]}
        for name, expected in kernels.items():
            asked = {"path": path, "kind": "kernel"}
            yield Question("timeline", asked, ({"name": name}, "time_ns"), expected, source)


def _ask_spans(oracles: Path) -> Iterator[Question]:
    query = "SELECT kind, count(*) AS n FROM spans GROUP BY kind"
    for name in ("kineto-mi250", "kineto-alexnet", "chrome-torch-cpu", "kineto-event-sync"):
        oracle = _read(oracles / "inputs" / f"{name}.json")
        asked = {"path": oracle["input"], "query": query}
        for kind, count in oracle["kinds"].items():
            yield Question("sql", asked, ({"kind": kind}, "n"), count, oracle["oracle"])
        told = {"path": oracle["input"]}
        yield Question("info", told, ("traces", "spans"), sum(oracle["kinds"].values()), oracle["oracle"])
        yield Question("info", told, ("traces", "start_ns"), oracle["first_ns"], oracle["oracle"])
    oracle = _read(oracles / "inputs" / "otf2-score-p.json")
    asked = {"path": oracle["input"], "section": "regions", "limit": 20}
    for _, name, count, total in oracle["spans"]:
        yield Question("summary", asked, ({"name": name}, "count"), count, oracle["oracle"])
        yield Question("summary", asked, ({"name": name}, "total_ns"), total, oracle["oracle"])


# -- models ------------------------------------------------------------------------------------------------------------


def _evaluate(function: str, point: Mapping[str, float]) -> float:
    """Return what a function in Extra-P's notation is at a point."""
    code = re.sub(r"log2\((\w+)\)", r"log2(\1)", function).replace("^", "**")
    value: float = eval(code, {"__builtins__": {}, "log2": math.log2}, dict(point))
    return value


def _ask_models(shared: Path) -> Iterator[Question]:
    source = "Extra-P 4.2.5 on the same file"
    for name in ("one_parameter_1", "one_parameter_2", "one_parameter_4", "two_parameter_1", "three_parameter_1"):
        path = f"public/extrap/text/{name}.txt"
        oracle = _read(shared / "data/public/extrap/oracle" / f"text__{name}.txt.json")
        yield Question("info", {"path": path}, ("parameters",), oracle["parameters"], source)
        yield Question("info", {"path": path}, ("series",), len(oracle["series"]), source)
        largest = map(max, zip(*oracle["coordinates"], strict=True))
        point = {parameter: 2.0 * value for parameter, value in zip(oracle["parameters"], largest, strict=True)}
        for series in oracle["series"][:2]:
            row = {"callpath": series["callpath"], "metric": series["metric"]}
            model = series["model"]
            asked = {"path": path, "detail": True, "metric": series["metric"], "callpath": series["callpath"]}
            for column, expected in (("smape", model["SMAPE"]), ("rss", model["RSS"]), ("ar2", model["AR2"])):
                yield Question("model", asked, (row, column), expected, source, 1e-6)
            asked = {"path": path, "at": point, "metric": series["metric"], "callpath": series["callpath"]}
            value = _evaluate(model["function"], point)
            yield Question("predict", asked, (row, "prediction"), value, source, 1e-6)
            first = series["points"][0]
            where = " AND ".join(f"{p} = {x!r}" for p, x in zip(oracle["parameters"], first["x"], strict=True))
            query = f"SELECT mean FROM series WHERE callpath = '{series['callpath']}' AND {where}"
            query += f" AND metric = '{series['metric']}'"
            yield Question("sql", {"path": path, "query": query}, ("rows", 0, 0), first["mean"], source)
