"""What a user has to know about a model before trusting it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag

import numpy as np

from callgrove.errors import Parameter, worded
from callgrove.model.arrays import Array

__all__ = ["FEWEST_POINTS", "NOISY", "POOR_FIT", "Caution", "texts"]

FEWEST_POINTS = 5
NOISY = 0.2  # spread of the repetitions as part of their mean
POOR_FIT = 20.0  # SMAPE in percent


class Caution(IntFlag):
    """Reasons for care, as bits."""

    NOTHING = 1
    FEW_POINTS = 2
    FEW_ON_A_LINE = 4
    NO_LINES = 8
    NOT_FINITE = 16
    MISSING = 32
    NO_LOGARITHMS = 64
    NO_FIT = 128
    FEW_FOR_SEGMENTS = 256
    NOISE = 512
    POOR = 1024


_TEXTS = {
    Caution.NOTHING: "no finite value was measured, so there is no model",
    Caution.FEW_POINTS: f"fewer than {FEWEST_POINTS} points",
    Caution.FEW_ON_A_LINE: f"fewer than {FEWEST_POINTS} points along a parameter",
    Caution.NO_LINES: worded(
        "the parameters only vary together, so their influence cannot be told apart (try ", Parameter("along"), ")"
    ),
    Caution.NOT_FINITE: "values that are not finite were left out",
    Caution.MISSING: "not measured at every point",
    Caution.NO_LOGARITHMS: "coordinates below 1, so terms with logarithms were left out",
    Caution.NO_FIT: "the combined terms have no finite fit, so the model is a constant",
    Caution.FEW_FOR_SEGMENTS: "fewer than 9 points, too few to find a change of behaviour",
    Caution.NOISE: f"repetitions differ by more than {NOISY:.0%}",
    Caution.POOR: f"the model is off by more than {POOR_FIT:.0f}% (SMAPE)",
}


def texts(bits: int) -> list[str]:
    """All cautions of one model, in words."""
    return [text for caution, text in _TEXTS.items() if bits & caution]


def counted(cautions: Array) -> Iterator[tuple[Caution, str, Array]]:
    """Each caution that applies to any model, in words, with the numbers of those models."""
    for caution, text in _TEXTS.items():
        found = np.flatnonzero(cautions & caution)
        if len(found):
            yield caution, text, found
