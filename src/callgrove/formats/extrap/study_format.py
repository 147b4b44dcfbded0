"""What Extra-P's formats have in common: recognising, checking, and what must hold of every study that was read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import InputError, InvalidExperiment, Parameter, RefusedInput
from callgrove.formats.extrap.sniffing import sniff
from callgrove.formats.interface import Match, Problem, ReadOptions
from callgrove.model.experiment import InputWarning, Severity
from callgrove.model.study import Study
from callgrove.model.study_builder import StudyBuilder, TooManyCells

__all__ = ["StudyFormat", "finished"]

NAMED = 3  # incomplete series that a warning names


class StudyFormat(ABC):
    """One of Extra-P's formats."""

    name: str
    title: str

    def match(self, source: Source) -> Match | None:
        found = sniff(source)
        return found[1] if found is not None and found[0] == self.name else None

    @abstractmethod
    def read(self, source: Source, options: ReadOptions) -> Study:
        """The study in a file."""

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Everything that reading has to say; nothing here is known only to a closer look."""
        for warning in self.read(source, options).warnings:
            yield Problem(warning.severity, source.path.name, self.name, warning.text)


def finished(builder: StudyBuilder, path: Path, strict: bool, complete: bool = True) -> Study:
    """The study of a builder. Where `complete` is asked for, series that lack points are said, or refused."""
    if not builder.has_values:
        raise InputError(f"{path}: there is no data: no measurement was found in it")
    try:
        study = builder.build()
    except TooManyCells as error:
        raise RefusedInput(f"{path}: {error}") from None
    except InvalidExperiment as error:
        raise InputError(f"{path}: the file contradicts itself: {'; '.join(error.problems[:NAMED])}") from error
    return _checked(study, path, strict) if complete else study


def _checked(study: Study, path: Path, strict: bool) -> Study:
    lacking = study.incomplete().tolist()
    if not lacking:
        return study
    has = study.present.sum(axis=1)
    named = [
        f"{study.callpaths[study.series_callpath[s]]!r}, {study.metrics[study.series_metric[s]]!r} has {has[s]}"
        for s in lacking[:NAMED]
    ]
    more = ", ..." if len(lacking) > NAMED else ""
    text = (
        f"{path}: {len(lacking)} of {len(study)} series lack some of the {study.n_points} points: "
        f"{', '.join(named)}{more}"
    )
    if strict:
        raise InputError(
            f"{text}; ", Parameter("strict", True), " refuses that; measure the missing points or leave the series out"
        )
    return replace(study, warnings=(*study.warnings, InputWarning(Severity.MISSING, text)))
