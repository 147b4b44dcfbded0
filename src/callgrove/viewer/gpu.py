"""The summary of a trace: the same numbers that `callgrove summary` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from callgrove.analysis.summary import summarise, tables
from callgrove.analysis.summary_sections import Summary
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import choose_profiles
from callgrove.model.study.series import Study
from callgrove.model.table import Column, Table
from callgrove.viewer.page import Texts
from callgrove.viewer.panels import Choice, Detail, Limits, Panel

__all__ = ["GpuMaker", "gpu_maker"]

LEAST_ROWS = 10
LEAST_DEVICES = 4
MOST_DAMAGE = 5
EXACT = 2**53  # beyond, the numbers of a page have fewer digits than ours


def gpu_maker(opened: Experiment | Study, choice: Choice, limits: Limits | None = None) -> GpuMaker | None:
    """Return the maker of panels of an experiment with spans."""
    if isinstance(opened, Study) or not opened.traces.n_spans:
        return None
    summary = summarise(opened, profiles=choose_profiles(opened, choice.ranks, choice.threads))
    n_runs = len(np.unique(opened.profiles.run)) if len(opened.profiles) else 0
    return GpuMaker(summary, n_runs, limits or Limits()) if summary.n_shown else None


class GpuMaker:
    """Sections of a summary, and what each device did."""

    def __init__(self, summary: Summary, n_runs: int, limits: Limits) -> None:
        self._summary, self._n_runs, self._limits = summary, n_runs, limits

    def panels(self, detail: Detail) -> Iterator[Panel]:
        most = detail.of(self._limits.section_rows, self._limits.section_rows, LEAST_ROWS)
        sections = [_section(table) for table in tables(self._summary, limit=most)]
        n_devices = detail.of(len(self._summary.devices), self._limits.devices, LEAST_DEVICES)
        data = {"sections": sections, "devices": self._devices(n_devices), "n_devices": len(self._summary.devices)}
        if self._summary.devices:
            yield Panel("devices", "Overview", data)
        title = "GPU" if self._summary.devices else "Calls"
        yield Panel("gpu", title, data, tuple(self._notes(sections, n_devices)))

    def _devices(self, n: int) -> dict[str, Any]:
        """Return what went on at once on the first devices, and on all of them together, in ns."""
        every = sorted(self._summary.devices, key=lambda device: (device.run, device.rank, device.agent))
        doing = list(dict.fromkeys(name for device in every for name in device.going_on_ns))
        shown = every[:n]
        return {
            "run": np.array([device.run for device in shown], np.int64),
            "rank": np.array([device.rank for device in shown], np.int64),
            "agent": np.array([device.agent for device in shown], np.int64),
            "busy_ns": np.array([device.busy_ns for device in shown], np.int64),
            "span_ns": np.array([device.span_ns for device in shown], np.int64),
            "most_at_once": np.array([device.most_at_once for device in shown], np.int64),
            "doing": [
                {
                    "name": name,
                    "ns": np.array([device.going_on_ns.get(name, 0) for device in shown], np.int64),
                    "total_ns": sum(device.going_on_ns.get(name, 0) for device in every),
                }
                for name in doing
            ],
            "total_span_ns": sum(device.span_ns for device in every),
            "total_busy_ns": sum(device.busy_ns for device in every),
        }

    def _notes(self, sections: list[dict[str, Any]], n_devices: int) -> Iterator[str]:
        summary = self._summary
        if self._n_runs > 1:
            yield f"{self._n_runs:,} runs are added up here; --run chooses one of them."
        for section in sections:
            if section["left"]:
                yield f"{section['name']}: {section['left']:,} more rows with less time are left out."
        if n_devices < len(summary.devices):
            yield f"Of {len(summary.devices):,} devices the first {n_devices:,} are shown one by one."
        if summary.n_flagged:
            why = "they end before they start, or have times that no clock shows"
            yield f"{summary.n_flagged:,} of {summary.n_read:,} spans are in no sum: {why}."
        yield from summary.damage[:MOST_DAMAGE]
        if len(summary.damage) > MOST_DAMAGE:
            yield f"{len(summary.damage) - MOST_DAMAGE:,} more parts are damaged; `callgrove check` lists them."
        if summary.n_unlinked:
            yield f"{summary.n_unlinked:,} operations have no launching call."


def _section(table: Table) -> dict[str, Any]:
    """Return a section by the columns it has; the first one is called like the section and holds names."""
    first, *others = table.columns
    columns = [{"name": column.name, "values": _values(column)} for column in others]
    return {"name": first.name, "rows": Texts(first.plain()), "columns": columns, "left": table.left}


def _values(column: Column) -> Any:
    """Return numbers, NaN where absent; as text where a page would lose digits of them."""
    cells = column.plain()
    if any(isinstance(cell, int) and abs(cell) >= EXACT for cell in cells):
        return Texts(["" if cell is None else str(cell) for cell in cells])
    return np.array([np.nan if cell is None else cell for cell in cells], np.float64)
