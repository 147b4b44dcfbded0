"""How series are modelled. The defaults are Extra-P's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from callgrove.errors import UsageError
from callgrove.model.study.series import MEASURES

__all__ = ["DETECTED", "METHODS", "MODELERS", "SELECTIONS", "ModelOptions", "parse_exponents"]

MODELERS = ("default", "refining", "segmented")
METHODS = ("extrap", "improved")
SELECTIONS = ("auto", "all", "smallest")
DETECTED = "detected"  # a measure of the improved method: the mean, or the undisturbed value where noise is one-sided


@dataclass(frozen=True)
class ModelOptions:
    """What Extra-P offers for its modellers, and which method finds the functions.

    method             extrap: Extra-P's functions. improved: those that most of the evidence speaks for
    modeler            default: all terms of a list. refining: terms found by bisection. segmented: may split in two
    measure            what is modelled of the values at a point; `detected`, with the improved method, chooses by noise
    logarithms         are terms with log2 allowed
    negative           are terms with negative exponents (falling costs) searched as well
    powers, logs       own exponents instead of the usual list; `retain` keeps the list, `combined` takes only products
    cross_validation   choose by the error at points left out; without, by the error at the points of the fit
    compare_with_rss   choose by the residual sum of squares instead of SMAPE
    contribution       a term counts only if somewhere it makes up this part of the measurement
    selection          several parameters: which points the models of single parameters see
    mixed              several parameters: are sums of products allowed, or only one product and one sum
    """

    modeler: str = "default"
    measure: str = "mean"
    method: str = "extrap"
    logarithms: bool = True
    negative: bool = False
    powers: tuple[Fraction, ...] = field(default=())
    logs: tuple[Fraction, ...] = field(default=())
    retain: bool = False
    combined: bool = False
    cross_validation: bool = True
    compare_with_rss: bool = False
    contribution: float = 0.0005
    selection: str = "auto"
    mixed: bool = True

    def __post_init__(self) -> None:
        _one_of("modeler", self.modeler, MODELERS)
        _one_of("method", self.method, METHODS)
        _one_of("measure", self.measure, (*MEASURES, DETECTED) if self.is_improved else MEASURES)
        _one_of("point selection", self.selection, SELECTIONS)
        if not (math.isfinite(self.contribution) and self.contribution >= 0):
            raise UsageError(f"the least contribution of a term is a number from 0 on, not {self.contribution}")
        if self.is_improved and self.modeler != "default":
            raise UsageError(f"the improved method searches in its own way; the modeler {self.modeler!r} is Extra-P's")

    @property
    def is_improved(self) -> bool:
        """Whether functions are those of the improved method."""
        return self.method == "improved"

    @property
    def statistic(self) -> str:
        """The statistic of repetitions that stands for a point in plots and errors."""
        return "mean" if self.measure == DETECTED else self.measure


def parse_exponents(text: str) -> tuple[Fraction, ...]:
    """Parse a list like `1/2,1,1.5`."""
    try:
        exponents = tuple(Fraction(part.strip()) for part in text.split(",") if part.strip())
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"{text!r} is not a list of exponents like 1/2,1,1.5") from None
    if any(abs(exponent) > 100 for exponent in exponents):
        raise UsageError(f"{text!r} has an exponent beyond 100, which no cost has")
    return exponents


def _one_of(word: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise UsageError(f"there is no {word} {given!r}; there are {', '.join(known)}")
