"""The figures of an audit, and what was found of them: a row for each, a column for each run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from callgrove.model.table import Column, Table

__all__ = [
    "BETWEEN_RUNS",
    "FAIR",
    "FIGURES",
    "GOOD",
    "OF_DEVICES",
    "OF_HOST",
    "OF_RUNTIME",
    "Efficiencies",
    "Figure",
    "FigureKind",
    "Grade",
    "RunFigures",
    "grade",
]


class FigureKind(StrEnum):
    """What a figure is: an efficiency, of which 1 is the best; a share; how many there are; an amount with a unit."""

    EFFICIENCY = "efficiency"
    SHARE = "share"
    COUNT = "count"
    AMOUNT = "amount"


@dataclass(frozen=True)
class Figure:
    """A row: its name, its level, its kind, its unit."""

    name: str
    depth: int
    kind: FigureKind
    unit: str = ""


def _make_figures(kind: FigureKind, *rows: tuple[int, str]) -> tuple[Figure, ...]:
    return tuple(Figure(name, depth, kind) for depth, name in rows)


FIGURES = (
    *_make_figures(
        FigureKind.EFFICIENCY,
        (0, "global efficiency"),
        (1, "parallel efficiency"),
        (2, "load balance"),
        (2, "communication efficiency"),
        (3, "serialisation efficiency"),
        (3, "transfer efficiency"),
        (2, "MPI parallel efficiency"),
        (3, "MPI load balance"),
        (3, "MPI communication efficiency"),
        (2, "OpenMP parallel efficiency"),
        (1, "computation scaling"),
        (2, "instruction scaling"),
        (2, "IPC scaling"),
        (2, "frequency scaling"),
        (0, "device parallel efficiency"),
        (1, "device load balance"),
        (1, "device communication efficiency"),
        (1, "device orchestration efficiency"),
    ),
    Figure("speed-up", 0, FigureKind.AMOUNT),
    Figure("runtime", 0, FigureKind.AMOUNT, "s"),
    Figure("computation", 0, FigureKind.AMOUNT, "s"),
    *_make_figures(FigureKind.COUNT, (0, "processes"), (0, "threads")),
    Figure("IPC", 0, FigureKind.AMOUNT),
    Figure("frequency", 0, FigureKind.AMOUNT, "Hz"),
    *_make_figures(
        FigureKind.SHARE,
        (0, "MPI share of time"),
        (1, "MPI collectives and barriers"),
        (0, "OpenMP share of time"),
        (1, "OpenMP barriers"),
        (0, "computation above average"),
    ),
    Figure("devices", 0, FigureKind.COUNT),
    Figure("device runtime", 0, FigureKind.AMOUNT, "s"),
    *_make_figures(FigureKind.SHARE, (0, "copy share of device runtime"), (0, "copy time overlapped by kernels")),
)
# Figures that are missing for one reason are named by what they are of.
OF_RUNTIME = (  # figures of the host that take the times of masters
    *("parallel efficiency", "load balance", "communication efficiency", "MPI parallel efficiency", "MPI load balance"),
    *("MPI communication efficiency", "OpenMP parallel efficiency"),
)
OF_HOST = (
    *(*OF_RUNTIME, "runtime", "computation", "processes", "threads"),
    *("IPC", "frequency", "MPI share of time", "MPI collectives and barriers", "OpenMP share of time"),
    *("OpenMP barriers", "computation above average"),
)
OF_DEVICES = (
    *("devices", "device runtime", "device parallel efficiency", "device load balance"),
    *("device communication efficiency", "device orchestration efficiency", "copy share of device runtime"),
    "copy time overlapped by kernels",
)
BETWEEN_RUNS = (
    *("global efficiency", "computation scaling", "instruction scaling", "IPC scaling", "frequency scaling"),
    "speed-up",
)
GROUPS = {"figures of the host": OF_HOST, "figures of devices": OF_DEVICES, "figures between runs": BETWEEN_RUNS}
GOOD, FAIR = 0.8, 0.6  # from here on green, and yellow; red below


class Grade(StrEnum):
    """How good an efficiency is; colours go with it."""

    GOOD = "good"
    FAIR = "fair"
    POOR = "poor"


def grade(value: float) -> Grade:
    """Return how good an efficiency is."""
    return Grade.GOOD if value >= GOOD else Grade.FAIR if value >= FAIR else Grade.POOR


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run by name, and why others are missing."""

    name: str
    values: Mapping[str, float]
    missing: Mapping[str, str]

    def cell(self, figure: Figure) -> float | None:
        """Return a figure, None where it is missing; what is counted is a whole number."""
        value = self.values.get(figure.name)
        return value if value is None or figure.kind != FigureKind.COUNT else int(value)


@dataclass(frozen=True)
class Efficiencies:
    """What `pop` found: runs, the first of which is the reference, and what a reader should know."""

    runs: tuple[RunFigures, ...]
    notes: tuple[str, ...]

    def rows(self, everything: bool = True) -> list[Figure]:
        """Return the figures; unless all are wanted, those that some run has, each below the nearest above that is
        there."""
        above: list[tuple[int, bool]] = []  # levels of the figures that a row is below, and whether these are shown
        shown = []
        for figure in FIGURES:
            above = [one for one in above if one[0] < figure.depth]
            is_there = everything or any(figure.name in run.values for run in self.runs)
            if is_there:
                shown.append(replace(figure, depth=sum(there for _, there in above)))
            above.append((figure.depth, is_there))
        return shown

    def table(self) -> Table:
        """Return a row for each figure, a column for each run, and why some lack it."""
        rows = self.rows()
        columns = (
            Column("name", [row.name for row in rows]),
            Column("depth", [row.depth for row in rows]),
            Column("unit", [row.unit for row in rows]),
            *(Column(run.name, [run.cell(row) for row in rows]) for run in self.runs),
            Column("missing", [self.why_missing(row.name) or None for row in rows]),
        )
        return Table(columns, title="Efficiencies", notes=self.notes)

    def why_missing(self, figure: str) -> str:
        """Return why a figure is missing, in some run or in all; empty where none lacks it."""
        return "; ".join(self._list_reasons(figure))

    def name_missing(self) -> Iterator[str]:
        """Yield a sentence for each reason, with the figures that some run or all lack because of it."""
        reasons: dict[str, list[str]] = {}
        for figure in FIGURES:
            for reason in self._list_reasons(figure.name):
                reasons.setdefault(reason, []).append(figure.name)
        for reason, names in reasons.items():
            whole = next((title for title, every in GROUPS.items() if set(every) == set(names)), ", ".join(names))
            yield f"not available: {whole}: {reason}"

    def _list_reasons(self, figure: str) -> list[str]:
        """Return why a figure is missing, with the runs that lack it unless all do for one reason."""
        reasons: dict[str, list[str]] = {}
        for run in self.runs:
            if figure in run.missing:
                reasons.setdefault(run.missing[figure], []).append(run.name)
        if [len(names) for names in reasons.values()] == [len(self.runs)]:
            return list(reasons)
        return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
