"""The table of verbs: name, module and what the overview says. A new verb is one module and one line here."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["VERBS", "Verb"]


class Verb(NamedTuple):
    name: str
    help: str
    module: str
    group: str = ""  # under which the overview lists it


LOOK, COMPARE, DATA, WRITE, BEGIN = "look", "compare and predict", "data", "write", "begin"

VERBS = (
    Verb("info", "what is this: format, runs, profiles, metrics, damage, what to do next", "callgrove.cli.info", LOOK),
    Verb("formats", "every format, and whether it can be read and written here", "callgrove.cli.formats", LOOK),
    Verb("top", "where the cost is: a flat table of functions, lines, loops, files", "callgrove.cli.top", LOOK),
    Verb("tree", "the call tree with its cost, top-down or bottom-up", "callgrove.cli.tree", LOOK),
    Verb("hot", "the hot path: from the root along the costliest calls", "callgrove.cli.hot", LOOK),
    Verb("diff", "what differs between two or more experiments, call path by call path", "callgrove.cli.diff", COMPARE),
    Verb(
        "model", "how costs scale: functions of the parameters, as Extra-P makes them", "callgrove.cli.model", COMPARE
    ),
    Verb("predict", "what will cost most at a scale that was not measured", "callgrove.cli.predict", COMPARE),
    Verb("summary", "GPU runs: kernels, calls, copies, busy, overlap, idle", "callgrove.cli.summary", LOOK),
    Verb(
        "report",
        "pictures as one page: flame graph, call tree, spread, timeline, scaling",
        "callgrove.cli.report",
        LOOK,
    ),
    Verb("export", "one table in full: contexts, values, profiles, samples, spans, ...", "callgrove.cli.export", DATA),
    Verb("sql", "SQL over the tables of any input, and over rocprofv3's view names", "callgrove.cli.sql", DATA),
    Verb("convert", "write an experiment in another format", "callgrove.cli.convert", WRITE),
    Verb("prof", "measurement directories as a database: the job of hpcprof", "callgrove.cli.prof", WRITE),
    Verb("merge", "several experiments as one, with everything that they have", "callgrove.cli.merge", WRITE),
    Verb("mean", "the mean of several experiments", "callgrove.cli.mean", WRITE),
    Verb("cut", "a call tree with other roots, or without some calls", "callgrove.cli.cut", WRITE),
    Verb("part", "an experiment with some of its ranks, threads or runs only", "callgrove.cli.part", WRITE),
    Verb("common", "several experiments on the call tree that all of them have", "callgrove.cli.common", WRITE),
    Verb("dump", "the raw structure of a file as text", "callgrove.cli.dump", DATA),
    Verb("check", "validate, and list every damage", "callgrove.cli.check", DATA),
    Verb("demo", "make a small experiment of every kind and walk through it", "callgrove.cli.demo", BEGIN),
)
