"""Inputs that are open. An answer is always of the files as they are: what changed is opened again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from callgrove.binary.file_states import FileStates, look_at_files
from callgrove.errors import UsageError
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_paths
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.study.series import Study

__all__ = ["Inputs", "Opened", "Report", "name_input", "notes_of"]

MOST_OPEN = 8  # inputs that are kept open; the least recently used is closed
MOST_NOTES = 5  # of an input that are said with an answer

Opened = Experiment | Study
Report = Callable[[str, int, int | None], None]


@dataclass
class Inputs:
    """Opened inputs by their paths, with the state of the files when they were opened."""

    opened: OrderedDict[Path, tuple[Opened, FileStates]] = field(default_factory=OrderedDict)

    def open(self, path: Path, report: Report) -> Opened:
        """Return what lies at a path, opened before or now."""
        states = look_at_files([str(path)])
        known = self.opened.pop(path, None)
        if known is not None and known[1] == states:
            opened = known[0]
        else:
            opened = open_paths([str(path)], "", ReadOptions(progress=report))
        self.opened[path] = (opened, states)
        while len(self.opened) > MOST_OPEN:
            self.opened.popitem(last=False)
        return opened

    def experiment(self, path: Path, report: Report) -> Experiment:
        """Return the experiment at a path; a study is refused with what to ask instead."""
        opened = self.open(path, report)
        if isinstance(opened, Study):
            raise UsageError(f"{name_input(opened)}: holds series over parameters, no execution; ask model or predict")
        return opened

    def study(self, path: Path, report: Report) -> Study:
        """Return the study at a path, or that of the runs of an experiment over their parameters."""
        opened = self.open(path, report)
        return opened if isinstance(opened, Study) else opened.series()


def name_input(opened: Opened) -> str:
    """Return what messages call an input."""
    return opened.path or opened.title


def notes_of(opened: Opened) -> list[str]:
    """Return damage and notes of an input, the first few, and how many more there are."""
    kinds = (Severity.DAMAGE, Severity.NOTE)
    texts = [f"{warning.severity.value}: {warning.text}" for warning in opened.warnings if warning.severity in kinds]
    more = len(texts) - MOST_NOTES
    return [*texts[:MOST_NOTES], *([f"{more} more notes of this kind; info lists them"] if more > 0 else [])]
