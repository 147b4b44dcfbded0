"""Findings, and the explanation that is made of them.

A finding is a sentence in parts: texts, and amounts that are written by whoever shows it. Its weight is a share of the
time of the run: of two runs, of the first. Findings of one explanation are compared by it, so that what matters most
comes first; those that go against the change of two runs come after all others. Where they are few, background is said
as well, so that there are three sentences: what a reader would ask next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import PurePath

from callgrove.model.experiment import Experiment
from callgrove.model.methods.shared import ExplanationMethods

__all__ = [
    "LEAST_WEIGHT",
    "NS",
    "PERCENT",
    "TIMES",
    "Amount",
    "Explanation",
    "Finding",
    "Sentence",
    "find_small",
    "input_of",
    "label",
    "name_inputs",
    "percent",
    "times",
]

PERCENT, TIMES, NS = "percent", "times", "ns"
MOST = 7  # findings beside the first sentence
FEWEST = 2  # sentences beside the first one, as far as there is anything to say
LONGEST_NAME = 80  # of a function in a sentence
MOST_NAMED = 16  # paths of one input in a command
LEAST_WEIGHT = 0.01  # of the time of the run: what is less is not worth a sentence


@dataclass(frozen=True)
class Amount:
    """A number with its unit; `percent` and `times` are ratios."""

    value: float
    unit: str


Sentence = tuple[str | Amount, ...]


def percent(share: float) -> Amount:
    """Return a share of 1 as an amount."""
    return Amount(100 * share, PERCENT)


def times(ratio: float) -> Amount:
    """Return how many times as much something is."""
    return Amount(ratio, TIMES)


@dataclass(frozen=True)
class Finding:
    """One thing to know.

    cause     what kind of thing: kernel, copy, overlap, gap, imbalance, waiting, ...
    subject   what it is about: a function, a rank
    weight    what it is of the time of the run; negative where it goes against the change of two runs
    sentence  texts and amounts
    number    the amount that it is about
    command   the words of the command that shows more, behind `callgrove`
    """

    cause: str
    subject: str
    weight: float
    sentence: Sentence
    number: Amount
    command: tuple[str, ...]


@dataclass(frozen=True)
class Explanation(ExplanationMethods):
    """What there is to say: `headline` is what a run takes in all, or how much longer the second of two takes.
    `background` is no cause of anything, and said where findings are few."""

    headline: Finding
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    background: tuple[Finding, ...] = ()

    @classmethod
    def of(
        cls,
        headline: Finding,
        findings: Iterable[Finding],
        notes: Iterable[str] = (),
        background: Iterable[Finding] = (),
    ) -> Explanation:
        """Return the weightiest findings; what goes against the change comes last. Of the background, what is needed
        for three sentences is taken."""
        worth = [one for one in findings if abs(one.weight) >= LEAST_WEIGHT]
        ordered = sorted(worth, key=lambda one: (one.weight < 0, -abs(one.weight), one.subject))
        chosen = tuple(ordered[:MOST])
        return cls(headline, chosen, tuple(notes), tuple(islice(background, max(0, FEWEST - len(chosen)))))

    def naming(self, paths: Sequence[str]) -> Explanation:
        """Return the same of an input that was opened from several paths: commands name all of them, not only the
        first, which would show something else."""
        if len(paths) < 2:
            return self

        inputs, first = name_inputs(paths), PurePath(paths[0])

        def named(finding: Finding) -> Finding:
            words = [inputs if PurePath(word) == first else (word,) for word in finding.command]
            return replace(finding, command=tuple(chain.from_iterable(words)))

        findings, background = (tuple(map(named, part)) for part in (self.findings, self.background))
        return replace(self, headline=named(self.headline), findings=findings, background=background)

    @property
    def all(self) -> tuple[Finding, ...]:
        """The headline, the findings and the background."""
        return (self.headline, *self.findings, *self.background)


def find_small(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings that weigh something, but too little to be said where there is more to say."""
    small = [one for one in findings if 0 < one.weight < LEAST_WEIGHT]
    return sorted(small, key=lambda one: (-one.weight, one.subject))


def label(name: str) -> str:
    """Return a name as sentences call it: a place without its folders, a very long one without its middle."""
    short = name.rpartition("/")[2] if name.startswith("/") else name
    if name.startswith("loop at /"):
        short = f"loop at {name.rpartition('/')[2]}"
    return short if len(short) <= LONGEST_NAME else f"{short[: LONGEST_NAME // 2]}...{short[-LONGEST_NAME // 2 :]}"


def input_of(experiment: Experiment) -> str:
    """Return what a command calls an experiment."""
    return experiment.path or "PATH"


def name_inputs(paths: Sequence[str]) -> tuple[str, ...]:
    """Return what a command calls an input that was opened from these paths: all of them, or dots between the first and
    the last of very many."""
    return tuple(paths) if len(paths) <= MOST_NAMED else (paths[0], "...", paths[-1])
