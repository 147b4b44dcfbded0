"""What was opened: the first panel of every section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from callgrove.analysis.overview import overview
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.study import Study
from callgrove.render.facts import facts_of, next_commands
from callgrove.render.study_facts import study_facts, study_next

__all__ = ["Summary", "summary_of"]

_WARNINGS = {*(severity.value for severity in Severity), "and"}


@dataclass(frozen=True)
class Summary:
    """Facts as (word, text), warnings as (severity, text), commands to go on with."""

    title: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]

    @property
    def data(self) -> dict[str, Any]:
        return {"facts": self.facts, "warnings": self.warnings, "commands": self.commands}


def summary_of(opened: Experiment | Study, paths: Sequence[str]) -> Summary:
    """The same words that `info` says."""
    path = paths[0] if len(paths) == 1 else None
    if isinstance(opened, Study):
        lines, commands = list(study_facts(opened)), list(study_next(opened, path))
    else:
        seen = overview(opened)
        lines = list(facts_of(seen))
        commands = list(next_commands(seen, path)) if path is not None else []
    facts = [(word, text) for word, text in lines if word not in _WARNINGS and word != "title"]
    opened_from = [("opened", path) for path in paths[:1]]
    if len(paths) > 1:
        opened_from.append(("and", f"{len(paths) - 1:,} more files"))
    warnings = tuple((word, text) for word, text in lines if word in _WARNINGS)
    others = tuple(command for command in commands if not command.startswith("callgrove report "))
    return Summary(_title(opened.title, paths), (*opened_from, *facts), warnings, others)


def _title(title: str, paths: Sequence[str]) -> str:
    """What is called like its file has its folder's name too: every run of Score-P is a `profile.cubex`."""
    path = PurePath(paths[0]) if len(paths) == 1 else PurePath()
    named = path.name == title and path.parent.name not in ("", "..")
    return f"{path.parent.name}/{title}" if named else title
