"""Series with Extra-P 4.2.5's own answers, number by number (modeling.md A11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.modeling.series import X, close, grid, model_of, terms_of

FALLING = (100, 52, 27, 14.5, 8.2)
W10 = (10.2, 14.1, 22.5, 38.0, 70.6)
REPEATED = (
    [10.2, 9.8, 10.4],
    [14.1, 13.7, 14.6],
    [22.5, 21.9, 22.2],
    [38.0, 39.1, 38.3],
    [70.6, 69.9, 71.5],
)
PQ = grid((2, 4, 8, 16, 32), (10, 20, 30, 40, 50))
PQR = grid((2, 4, 8, 16, 32), (10, 20, 30, 40, 50), (1, 2, 3, 4, 5))


@dataclass(frozen=True)
class Example:
    values: Any
    terms: dict[str, float]
    smape: float
    rss: float
    ar2: float
    re: float
    x: Sequence[object] = X
    parameters: str = "p"
    options: dict[str, Any] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)


EXAMPLES = {
    "W1": Example((9, 17, 33, 65, 129), {"": 1, "p^1": 2}, 0, 0, 1, 0),
    "W2": Example((3.5,) * 5, {"": 3.5}, 0, 0, 1, 0),
    "W3": Example(
        REPEATED,
        {"": 6.083333333333321, "p^1": 1.009543010752688},
        0.23695644716955755,
        0.045565634715798976,
        0.9999749618642153,
        0.002370351707481363,
        others={"rrss": 2.8598649286795573e-05, "nrss": 0.003552966314749893},
    ),
    "W4": Example(
        (5.1, 4.9, 5.0, 5.2, 4.8),
        {"": 5.0},
        2.4007202641032395,
        0.1,
        1,
        0.041666666666666706,
        others={"rrss": 0.004016361692298098, "nrss": 0.06324555320336758},
    ),
    "W5": Example(
        FALLING,
        {"": 128.78, "log2(p)^1": -22.11},
        70.23378779994988,
        2931.3115433673506,
        0.2988020996462687,
        1.0682190037355714,
    ),
    "W6": Example(
        FALLING,
        {"": 2.3958333333333366, "p^-1": 391.68172043010736},
        2.327526618402929,
        5.198044653274492,
        0.9987565777492781,
        0.023682788662884875,
        options={"negative": True},
    ),
    "W7": Example(
        (12, 26, 58, 138, 330, 778),
        {"": 1.4091955504436868, "p^5/4": 4.293196007522836},
        1.7582544773342135,
        27.70884564182308,
        0.999920786846347,
        0.017460848979230857,
        x=(2, 4, 8, 16, 32, 64),
    ),
    "W8": Example(
        (1.0, 1.4, 2.1, 2.9, 4.2),
        {"": -0.0774204212205134, "p^1/2": 2.132435330755739},
        2.191647975414202,
        0.010647548944068531,
        0.9978185722302667,
        0.02191588142211252,
        x=(0.25, 0.5, 1, 2, 4),
    ),
    "W9": Example(
        (0, 0, 0, 1, 4),
        {"": -0.09210526315789483, "p^2": 0.001000829603333848},
        122.56885441276003,
        0.09684174589210852,
        0.9892398060119879,
        0.02511864025911077,
    ),
    "W10": Example(
        W10,
        {"": 6.141666666666668, "p^1": 1.005577956989247},
        0.6299350766131327,
        0.19392473118279277,
        0.9998926053741509,
        0.0062943091313759055,
        options={"cross_validation": False},
    ),
    "W11": Example(
        (3.0, 5.1, 8.9),
        {"": 3.0058804297946087, "p^1/2*log2(p)^1": 1.4743339210131645},
        0.48056877494712036,
        0.0022441969498320953,
        0.9997490648211145,
        0.004816429727225403,
        x=(1, 2, 4),
    ),
    "W12": Example(
        (1, 4, 16, 64, 256),
        {"": 68.2},
        123.65158142124979,
        46648.8,
        1,
        0.73359375,
        x=((1, 1), (2, 2), (4, 4), (8, 8), (16, 16)),
        parameters="pq",
    ),
    "W13": Example(
        lambda p, q: 4 + p**1.5 * (1 + 0.001 * ((q / 10) % 2)),
        {"": 4.000000000000026, "p^3/2": 1.0006},
        0.03694528882114757,
        0.04493759999998922,
        0.9999995730285499,
        0.00036946819349344205,
        x=PQ,
        parameters="pq",
    ),
    "W14": Example(
        lambda p, q: 5 + 2 * p + 0.25 * p * q, {"": 5, "p^1": 2, "p^1*q^1": 0.25}, 0, 0, 1, 0, x=PQ, parameters="pq"
    ),
    "W15": Example(
        lambda p, q, r: 7 + 0.5 * p * q + 2 * r * r,
        {"": 7, "p^1*q^1": 0.5, "r^2": 2},
        0,
        0,
        1,
        0,
        x=PQR,
        parameters="pqr",
    ),
    "refining W10": Example(
        W10,
        {"": 6.141666666666668, "p^1": 1.005577956989247},
        1.0094412505764403,
        0.7414871095366773,
        0.9995893678427971,
        0.010077689699795061,
        options={"modeler": "refining"},
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_extra_ps_answers(name: str) -> None:
    example = EXAMPLES[name]
    models = model_of(example.values, example.x, example.parameters, **example.options)
    found = terms_of(models)
    assert found.keys() == example.terms.keys()
    assert {
        term: (found[term], wanted) for term, wanted in example.terms.items() if not close(found[term], wanted)
    } == {}
    wanted = {name: getattr(example, name) for name in ("smape", "rss", "ar2", "re")} | example.others
    errors = {name: float(getattr(models.costs, name)[0]) for name in wanted}
    assert {name: (errors[name], wanted[name]) for name in wanted if not close(errors[name], wanted[name])} == {}


def test_refining_finds_exponents_that_are_no_candidates() -> None:
    """5/3 lies between 1 and 2 and is reached by mediants."""
    models = model_of(lambda p: 2 + 0.3 * p ** (5 / 3) * np.log2(p), (4, 8, 16, 32, 64, 128), modeler="refining")
    found = terms_of(models)
    assert found.keys() == {"", "p^5/3*log2(p)^1"}
    assert close(found["p^5/3*log2(p)^1"], 0.3)
    assert close(found[""], 2.0)


def test_a_series_that_changes_is_split() -> None:
    """W16: p up to 5, 30 + p^2 from 6 on, undefined between."""
    models = model_of(lambda x: x if x <= 5 else x * x + 30, range(1, 11), modeler="segmented")
    (term,) = models.functions.terms(0)
    assert (models.functions.constant[0], term.coefficient) == (0, 1)
    left, right = term.factors[0][1].pieces
    assert (left.start, left.end, right.start, right.end) == (-np.inf, 5, 6, np.inf)
    assert (str(left.terms[0][1].power), str(right.terms[0][1].power)) == ("1", "2")
    assert abs(left.constant) < 1e-9
    assert close(left.terms[0][0], 1.0)
    assert (close(right.constant, 30.0), close(right.terms[0][0], 1.0)) == (True, True)
    assert (models.costs.smape[0] < 1e-9, models.costs.rss[0] < 1e-9) == (True, True)
    predicted = models.predict(np.array([[3.0], [5.5], [8.0]]))[0]
    assert close(predicted[0], 3.0)
    assert np.isnan(predicted[1])
    assert close(predicted[2], 94.0)
