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

MOST_MET = 6
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
    """The same words that `info` says, and the damage that was met since: to be asked when everything was read."""
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
    warnings = (*_met(opened), *((word, text) for word, text in lines if word in _WARNINGS))
    others = tuple(command for command in commands if not command.startswith("callgrove report "))
    return Summary(_title(opened.title, paths), (*opened_from, *facts), warnings, others)


def _met(opened: Experiment | Study) -> tuple[tuple[str, str], ...]:
    """Damage that showed only when values and samples were read."""
    if isinstance(opened, Study):
        return ()
    samples = opened.traces.samples
    known = {warning.text for warning in opened.warnings}
    problems = [*opened.values.problems, *(samples.problems if samples is not None else ())]
    texts = [text for text in dict.fromkeys(map(str, problems)) if text not in known]
    more = len(texts) - MOST_MET
    rest = (("and", f"{more:,} more places met on the way; `callgrove check` lists them all"),) if more > 0 else ()
    return (*((Severity.DAMAGE.value, text) for text in texts[:MOST_MET]), *rest)


def _title(title: str, paths: Sequence[str]) -> str:
    """What is called like its file has its folder's name too: every run of Score-P is a `profile.cubex`."""
    path = PurePath(paths[0]) if len(paths) == 1 else PurePath()
    named = path.name == title and path.parent.name not in ("", "..")
    return f"{path.parent.name}/{title}" if named else title
