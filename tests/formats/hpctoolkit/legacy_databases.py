"""Legacy HPCToolkit databases, made from a small program that is written down here.

`Program.write` makes a folder as hpcprof made it before 2021: experiment.xml 2.0, 2.1 or 2.2 with the sums over all
threads, and beside it a metric-db and a trace for every thread. `inclusive` and `exclusive` say what must be in it, by
walking the tree as the specification says; nothing here uses the reader's tables.

`python -m tests.formats.hpctoolkit.legacy_databases FOLDER` writes those of the corpus.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import quoteattr

METRICS = ("CPUTIME (sec)", "PAPI_TOT_CYC")
HOST = 0xA8C00270
FIRST_TIME_US = 1_500_000_000_000_000
DTD = """<!DOCTYPE HPCToolkitExperiment [
<!ELEMENT HPCToolkitExperiment (Header, (SecCallPathProfile|SecFlatProfile)*)>
<!ATTLIST HPCToolkitExperiment version CDATA #REQUIRED>
<!ELEMENT Metric (MetricFormula*, Info?)>
<!ATTLIST Metric i CDATA #REQUIRED n CDATA #REQUIRED show (1|0) "1" show-percent (1|0) "1">
]>
"""


@dataclass
class Node:
    """One element of the tree. `id` is given in preorder, from 2 on."""

    tag: str
    attributes: dict[str, str]
    children: list[Node] = field(default_factory=list)
    id: int = 0

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()

    def statements(self, crossing: bool) -> Iterator[Node]:
        """Statements at or below; without `crossing`, those of this frame only: not beyond a call."""
        if self.tag == "S":
            yield self
        for child in self.children:
            if crossing or child.tag != "C":
                yield from child.statements(crossing)


def frame(name: int, *children: Node, line: int = 1, file: int = 1, module: int = 1, tag: str = "PF") -> Node:
    attributes = {"n": str(name), "f": str(file), "l": str(line), "lm": str(module)}
    return Node(tag, attributes | ({"a": "1"} if tag == "Pr" else {}), list(children))


def loop(line: str, *children: Node) -> Node:
    return Node("L", {"l": line, "f": "1"}, list(children))


def call(line: int, callee: Node) -> Node:
    return Node("C", {"l": str(line)}, [callee])


def statement(line: int) -> Node:
    return Node("S", {"l": str(line)})


def small_program() -> Node:
    """main calls solve, whose loops are nested and hold an inlined function; then a call into the unknown."""
    kernel = loop("12-20", statement(13), loop("14-18", statement(15), call(16, frame(3, statement(31), line=30))))
    solve = frame(2, statement(11), kernel, frame(4, statement(41), line=40, tag="Pr"), line=10)
    lost = frame(5, statement(0), line=0, file=2, module=2)
    return frame(0, call(0, frame(1, call(5, solve), statement(6), call(7, lost), line=3)), line=0, file=2)


@dataclass
class Program:
    """What is measured: a tree, and a number of threads. Loops are known since 2.1, inlined frames since 2.2."""

    version: str = "2.2"
    n_ranks: int = 2
    n_threads: int = 2
    root: Node = field(default_factory=small_program)

    def __post_init__(self) -> None:
        unknown = {"2.0": ("L", "Pr"), "2.1": ("Pr",)}.get(self.version, ())
        self.root = _without(self.root, unknown)[0]
        self.nodes = list(self.root.walk())
        for number, node in enumerate(self.nodes):
            node.id = number + 2

    @property
    def threads(self) -> list[tuple[int, int]]:
        return [(rank, thread) for rank in range(self.n_ranks) for thread in range(self.n_threads)]

    def cost(self, thread: int, metric: int, node: Node) -> float:
        """What a statement costs a thread: some nothing, none alike; exact in six digits."""
        return (node.id * 7 + thread * 3) % 11 * (0.25 if metric == 0 else 1000.0 + thread)

    def inclusive(self, thread: int, metric: int, node: Node) -> float:
        return sum(self.cost(thread, metric, s) for s in node.statements(crossing=True))

    def exclusive(self, thread: int, metric: int, node: Node) -> float:
        """Of a statement its own, of a frame that of all its statements, of loops and inlined frames of their own."""
        if node.tag == "C":
            return 0.0
        below = [s for s in node.children if s.tag == "S"] if node.tag in ("L", "Pr") else node.statements(False)
        return sum(self.cost(thread, metric, s) for s in below)

    def value(self, thread: int, column: int, node: Node) -> float:
        """Columns: inclusive and exclusive of the first metric, then of the next."""
        return (self.exclusive if column % 2 else self.inclusive)(thread, column // 2, node)

    # -- files -------------------------------------------------------------------------------------------------

    def file_name(self, rank: int, thread: int) -> str:
        return f"app-{rank:06}-{thread:03}-{HOST:x}-{4000 + rank}-0"

    def write(self, folder: Path, metric_dbs: bool = True, traces: str = "") -> Path:
        """A folder with experiment.xml and what was asked for; traces are "", "hpctrace" or "mt"."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "experiment.xml").write_text(self.xml(metric_dbs, traces), "utf-8")
        for number, thread in enumerate(self.threads):
            if metric_dbs:
                (folder / f"1.{self.file_name(*thread)}.metric-db").write_bytes(self.metric_db(number))
            if traces == "hpctrace":
                (folder / f"{self.file_name(*thread)}.hpctrace").write_bytes(self.hpctrace(number))
        if traces == "mt":
            (folder / "experiment.mt").write_bytes(self.merged())
        return folder

    def metric_db(self, thread: int) -> bytes:
        n_metrics = 2 * len(METRICS)
        head = b"HPCPROF-metricdb__" + b"00.10" + b"b" + struct.pack(">II", len(self.nodes) + 1, n_metrics)
        rows = [[self.inclusive(thread, c // 2, self.root) * (c % 2 == 0) for c in range(n_metrics)]]
        rows += [[self.value(thread, column, node) for column in range(n_metrics)] for node in self.nodes]
        return head + b"".join(struct.pack(f">{n_metrics}d", *row) for row in rows)

    def samples(self, thread: int) -> list[tuple[int, int]]:
        """(time in microseconds, trace id): the statements in turn; the last id is none of the tree."""
        ids = [int(n.id) + 100 for n in self.nodes if n.tag == "S"]
        return [(FIRST_TIME_US + 10 * k + thread, id_) for k, id_ in enumerate([*ids, *ids[::-1], 99_999])]

    def hpctrace(self, thread: int) -> bytes:
        head = b"HPCRUN-trace______" + b"01.01" + b"b" + struct.pack(">Q", 0)
        return head + b"".join(struct.pack(">QI", *sample) for sample in self.samples(thread))

    def merged(self) -> bytes:
        parts = [self.hpctrace(number) for number in range(len(self.threads))]
        at = 8 + 16 * len(parts)
        table = b""
        for (rank, thread), part in zip(self.threads, parts, strict=True):
            table += struct.pack(">iiq", rank, thread, at)
            at += len(part)
        return struct.pack(">ii", 3, len(parts)) + table + b"".join(parts) + struct.pack(">Q", 0xFFFFFFFFDEADF00D)

    def xml(self, metric_dbs: bool = True, traces: str = "") -> str:
        lines = ['<?xml version="1.0"?>', DTD + f'<HPCToolkitExperiment version="{self.version}">']
        lines += ['<Header n="app">', "  <Info/>", "</Header>", '<SecCallPathProfile i="0" n="app">', "<SecHeader>"]
        lines += [*self._metric_tables(metric_dbs), *self._trace_table(traces), *self._name_tables(), "</SecHeader>"]
        lines += ["<SecCallPathProfileData>", self._inline(self.root, inclusive_only=True)]
        lines += [*self._elements(self.root), "</SecCallPathProfileData>", "</SecCallPathProfile>"]
        return "\n".join([*lines, "</HPCToolkitExperiment>", ""])

    def _metric_tables(self, metric_dbs: bool) -> Iterator[str]:
        first = 2 * len(METRICS)
        yield "  <MetricTable>"
        for column in range(first):
            name, mark, type_ = METRICS[column // 2], "IE"[column % 2], ("inclusive", "exclusive")[column % 2]
            id_, partner = first + column, first + (column ^ 1)
            form = ' fmt="%8.1f"' if column // 2 else ""
            yield (
                f'    <Metric i="{id_}" n="{name}:Sum ({mark})" v="derived-incr" t="{type_}" partner="{partner}"'
                f' show="1" show-percent="{int(column < 2)}"{form}>'
            )
            yield f'      <MetricFormula t="combine" frm="sum(${id_}, ${id_})"/>'
            yield f'      <MetricFormula t="finalize" frm="${id_}"/>'
            yield '      <Info><NV n="units" v="events"/></Info>'
            yield "    </Metric>"
        yield "  </MetricTable>"
        if metric_dbs:
            yield "  <MetricDBTable>"
            for column in range(first):
                name, mark, type_ = METRICS[column // 2], "IE"[column % 2], ("inclusive", "exclusive")[column % 2]
                yield (
                    f'    <MetricDB i="{column}" n="{name} ({mark})" t="{type_}" partner="{column ^ 1}"'
                    f' db-glob="*.metric-db" db-id="{column}" db-num-metrics="{first}" db-header-sz="24"/>'
                )
            yield "  </MetricDBTable>"

    def _trace_table(self, traces: str) -> Iterator[str]:
        if traces:
            times = [time for number in range(len(self.threads)) for time, _ in self.samples(number)]
            glob = ' db-glob="*.hpctrace"' if traces == "hpctrace" else ' db-glob="experiment.mt"'
            yield "  <TraceDBTable>"
            yield f'    <TraceDB i="0"{glob} db-min-time="{min(times)}" db-max-time="{max(times)}" db-header-sz="32"/>'
            yield "  </TraceDBTable>"

    def _name_tables(self) -> Iterator[str]:
        tables = {
            "LoadModule": {1: "/home/user/app", 2: "/lib/libm.so"},
            "File": {1: "./src/home/user/app.c", 2: "<unknown file>"},
            "Procedure": {0: "<program root>", 1: "main", 2: "solve", 3: "kernel", 4: "min", 5: "<unknown procedure>"},
        }
        for kind, entries in tables.items():
            yield f"  <{kind}Table>"
            for id_, name in entries.items():
                more = ' f="4"' if name == "<program root>" else ""
                yield f'    <{kind} i="{id_}" n={quoteattr(name)}{more}/>'
            yield f"  </{kind}Table>"

    def _elements(self, node: Node) -> Iterator[str]:
        own = {"i": str(node.id), "s": str(1000 + node.id), **node.attributes}
        if node.tag == "S":
            own["it"] = str(node.id + 100)
        words = " ".join(f"{name}={quoteattr(value)}" for name, value in own.items())
        yield f"<{node.tag} {words}>{self._inline(node)}"
        for child in node.children:
            yield from self._elements(child)
        yield f"</{node.tag}>"

    def _inline(self, node: Node, inclusive_only: bool = False) -> str:
        out = ""
        for column in range(2 * len(METRICS)):
            total = sum(self.value(number, column, node) for number in range(len(self.threads)))
            if total and not (inclusive_only and column % 2):
                out += f'<M n="{2 * len(METRICS) + column}" v="{total:g}"/>'
        return out


def _without(node: Node, tags: tuple[str, ...]) -> list[Node]:
    """The tree without some tags, whose children move up."""
    children = [kept for child in node.children for kept in _without(child, tags)]
    return children if node.tag in tags else [Node(node.tag, node.attributes, children)]


CORPUS = {
    "plain20.d": (Program("2.0"), True, ""),
    "loops21.d": (Program("2.1", n_threads=1), True, "mt"),
    "inlined22.d": (Program("2.2"), True, "hpctrace"),
    "summary22.d": (Program("2.2"), False, ""),
}


def write_corpus(folder: Path) -> None:
    for name, (program, metric_dbs, traces) in CORPUS.items():
        program.write(folder / name, metric_dbs, traces)


if __name__ == "__main__":
    write_corpus(Path(sys.argv[1]))
