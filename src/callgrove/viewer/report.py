"""Inputs to sections, sections to one page that keeps to a size.

What is too much for the size is left out from the least of it on: subtrees with the smallest share are folded, long
tables end sooner, profiles are grouped. Each panel says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from callgrove._version import __version__
from callgrove.analysis.comparison import Comparison
from callgrove.analysis.explain import explain, why
from callgrove.analysis.overview import overview
from callgrove.errors import UsageError, compose_text
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.study.series import Study
from callgrove.modeling.sentences import explain_study
from callgrove.render.facts import facts_of, next_commands, study_facts, study_next
from callgrove.render.findings import say_finding
from callgrove.viewer.commands import Given
from callgrove.viewer.comparison import ComparisonMaker, Pair, TimelinesMaker, comparing_commands, pairs_of
from callgrove.viewer.page import (
    DEFAULT_SIZE,
    Choice,
    ComparesTotals,
    Detail,
    Limits,
    Panel,
    PanelMaker,
    Unavailable,
    encode,
    page,
)
from callgrove.viewer.profile import profile_maker
from callgrove.viewer.summaries import (
    GpuMaker,
    ScalingMaker,
    efficiency_maker,
    gpu_maker,
    metric_tree_maker,
    scaling_maker,
)
from callgrove.viewer.timeline.maker import timeline_maker

__all__ = ["DEFAULT_SIZE", "MAKERS", "Input", "Summary", "explain_input", "report", "report_comparison", "summary_of"]


# -- first panel: what was opened --------------------------------------------------------------------------------------


MOST_MET = 6
PAIR_FACTS = ("program", "profiles", "contexts", "traces", "duration")  # of each side of a comparison
_WARNINGS = {*(severity.value for severity in Severity), "and"}


@dataclass(frozen=True)
class Summary:
    """Facts as (word, text), warnings as (severity, text), commands to go on with; what `explain` or `why` says, as
    (sentence, command)."""

    title: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    explained: tuple[tuple[str, str], ...] = ()
    part: str = ""  # the options that chose a part of the input

    @property
    def data(self) -> dict[str, Any]:
        return {
            "facts": self.facts,
            "warnings": self.warnings,
            "commands": self.commands,
            "explained": self.explained,
            "part": self.part,
        }


def summary_of(opened: Experiment | Study, paths: Sequence[str], given: Given | None = None) -> Summary:
    """Return the words that `info` says, and the damage that was met since: to be asked when everything was read.
    `given` tells that a part of the input was chosen, and what commands need to show the same."""
    given = given or Given()
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
    part = (("note", f"this is a part of the input: {given.part}"),) if given.part else ()
    warnings = (*part, *_list_damage_met(opened), *((word, text) for word, text in lines if word in _WARNINGS))
    others = tuple(given.complete(one) for one in commands if not one.startswith("callgrove report "))
    return Summary(_title(opened.title, paths), (*opened_from, *facts), warnings, others, part=given.part)


def explain_input(
    opened: Experiment | Study,
    choice: Choice,
    makers: Sequence[PanelMaker],
    paths: Sequence[str] = (),
    given: Given | None = None,
) -> tuple[tuple[str, str], ...]:
    """Return what `explain` says of an input, with the commands that show more; nothing of some ranks or threads, and
    where nothing adds up. The summary of a trace and the models that panels show are not made again."""
    if choice.ranks is not None or choice.threads is not None:
        return ()
    summary = next((maker.summary for maker in makers if isinstance(maker, GpuMaker)), None)
    models = next((maker.models for maker in makers if isinstance(maker, ScalingMaker)), None)
    try:
        if isinstance(opened, Study):
            explained = explain_study(opened, choice.metric, models) if models else None
        else:
            explained = explain(opened, choice.metric, summary)
    except UsageError:
        return ()
    said = map(say_finding, explained.naming(paths).all) if explained else ()
    return tuple((sentence, (given or Given()).complete(command)) for sentence, command in said)


def explain_pair(pair: Pair) -> tuple[tuple[str, str], ...]:
    """Return what `why` says of two inputs, with the commands that show more; nothing of some ranks or threads."""
    if pair.asked.ranks is not None or pair.asked.threads is not None:
        return ()
    try:
        return tuple(map(say_finding, why(*pair.sides, pair.asked.metric).all))
    except UsageError:
        return ()


def _list_damage_met(opened: Experiment | Study) -> tuple[tuple[str, str], ...]:
    """Return damage that showed only when values and samples were read."""
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
    """Return the title, with the folder's name where it is that of the file: every run of Score-P is a
    `profile.cubex`."""
    path = PurePath(paths[0]) if len(paths) == 1 else PurePath()
    named = path.name == title and path.parent.name not in ("", "..")
    return f"{path.parent.name}/{title}" if named else title


# -- sections and the page ---------------------------------------------------------------------------------------------


LEAST_SHARE = 1e-6
TRIES = 12

Opened = Experiment | Study
Progress = Callable[[str, int, int | None], None]

# What makes panels of an input: each gives None where it has nothing to say. They appear in this order.
MAKERS: tuple[Callable[[Opened, Choice, Limits], PanelMaker | None], ...] = (
    profile_maker,
    metric_tree_maker,
    efficiency_maker,
    timeline_maker,
    gpu_maker,
    scaling_maker,
)


@dataclass(frozen=True)
class Input:
    """Something opened, the paths that it was opened from, and what else was given to see it."""

    opened: Opened
    paths: Sequence[str]
    given: Given = field(default_factory=Given)


@dataclass(frozen=True)
class _Section:
    """`wording` spells parameters that texts name as those who made the page call them."""

    summary: Summary
    makers: tuple[PanelMaker, ...]
    wording: Callable[[str], str] = str

    def data(self, detail: Detail) -> dict[str, Any]:
        return {
            "title": self.summary.title,
            **self.summary.data,
            "warnings": tuple((word, self.wording(text)) for word, text in self.summary.warnings),
            "panels": [self._panel(panel) for maker in self.makers for panel in maker.panels(detail)],
        }

    def _panel(self, panel: Panel) -> dict[str, Any]:
        data = panel.data
        if panel.kind == "unavailable":
            data = {**data, "reason": self.wording(data["reason"])}
        return {"kind": panel.kind, "title": panel.title, "data": data, "notes": [*map(self.wording, panel.notes)]}

    @property
    def differences(self) -> Iterator[str]:
        """What panels made last show otherwise than the totals."""
        for maker in self.makers:
            yield from maker.differences if isinstance(maker, ComparesTotals) else ()


def _ignore_progress(*said: object) -> None:
    """Do nothing: nobody watches."""


def report(
    inputs: Iterable[Input],
    choice: Choice | None = None,
    title: str = "",
    max_size: int = DEFAULT_SIZE,
    progress: Progress = _ignore_progress,
    tell: Callable[[str], None] = _ignore_progress,
    limits: Limits | None = None,
    complain: Callable[[str], None] = _ignore_progress,
    wording: Callable[[str], str] = str,
) -> str:
    """Return the page of some inputs, each with a section of its own, in at most `max_size` bytes. `tell` hears which
    views are not there, and why; `complain` which of them do not add up to their total. `limits` are those that fit the
    size, unless given; `wording` spells the parameters that texts name."""
    sections = []
    limits = limits or Limits().for_size(max_size)
    for number, one in enumerate(inputs):
        progress("reading what is shown", number, None)
        makers = [maker for make in MAKERS if (maker := make(one.opened, choice or Choice(), limits)) is not None]
        explained = explain_input(one.opened, choice or Choice(), makers, one.paths, one.given)
        summary = replace(summary_of(one.opened, one.paths, one.given), explained=explained)
        sections.append(_Section(summary, tuple(makers), wording))
        for maker in makers:
            if isinstance(maker, Unavailable):
                first = ", ".join(one.paths[:1])
                tell(compose_text(f"{first}: there is no {maker.title.lower()} view: ", maker.reason))
    name = title or ", ".join(dict.fromkeys(s.summary.title or "experiment" for s in sections))
    return _fit_page(name, sections, max_size, progress, complain)


def report_comparison(
    comparison: Comparison,
    title: str = "",
    max_size: int = DEFAULT_SIZE,
    progress: Progress = _ignore_progress,
    limits: Limits | None = None,
    complain: Callable[[str], None] = _ignore_progress,
    wording: Callable[[str], str] = str,
) -> str:
    """Return the page of a comparison, with a section for each of the experiments that the first is compared with."""
    sections = []
    limits = limits or Limits().for_size(max_size)
    for number, (pair, metric) in enumerate(pairs_of(comparison)):
        progress("comparing", number, None)
        maker = ComparisonMaker(pair, metric, limits)
        timelines = TimelinesMaker(pair, maker.first.short_names, limits)
        summary = replace(_summarise_pair(maker.first), explained=explain_pair(pair))
        sections.append(_Section(summary, (maker, timelines), wording))
    others = f"{len(sections)} others against {comparison.short_names[0]}"
    name = title or (sections[0].summary.title if len(sections) == 1 else others)
    return _fit_page(name, sections, max_size, progress, complain)


def _summarise_pair(comparison: Comparison) -> Summary:
    """Return what was compared: facts and warnings of both sides."""
    left, right = comparison.short_names
    facts: list[tuple[str, str]] = []
    warnings: list[tuple[str, str]] = []
    formats: dict[str, None] = {}
    for word, name, side in zip(("left", "right"), (left, right), comparison.experiments, strict=True):
        one = summary_of(side, [side.path or side.title])
        known = dict(one.facts)
        formats[known.pop("format", side.format)] = None
        facts += [(word, side.path or side.title)]
        facts += [(fact, known[fact]) for fact in PAIR_FACTS if fact in known]
        warnings += [(severity, f"{name}: {text}") for severity, text in one.warnings]
    both = ("format", " · ".join(formats))
    return Summary(f"{right} against {left}", (both, *facts), tuple(warnings), comparing_commands(comparison))


def _fit_page(
    name: str, sections: Sequence[_Section], max_size: int, progress: Progress, complain: Callable[[str], None]
) -> str:
    """Return the page of some sections, in as much detail as there is room for."""
    detail, smallest = Detail(), 0
    empty = len(page(name, ""))
    for attempt in range(TRIES):
        progress("writing", attempt, None)
        text = page(name, encode({"title": name, "by": __version__, "sections": [s.data(detail) for s in sections]}))
        size = len(text.encode())
        if size <= max_size:
            for difference in (text for section in sections for text in section.differences):
                complain(difference)
            return text
        smallest = size
        room = max(max_size - empty, 0) / max(size - empty, 1)
        if detail.share <= LEAST_SHARE:
            break
        detail = Detail(max(LEAST_SHARE, detail.share * 0.9 * room))
    raise UsageError(f"a page of {max_size:,} bytes shows nothing of this: the smallest that does has {smallest:,}")
