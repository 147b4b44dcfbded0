"""Views of minima and maxima, of negative, huge and unsigned numbers, and of what is not finite."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from callgrove.analysis.costs import GROUPINGS, Costs, costs
from callgrove.analysis.tables import TABLES, Selection, export
from callgrove.analysis.views import bottom_up, hot_path, top, top_down
from callgrove.cli.verbs.export import SCOPES as CLI_SCOPES
from callgrove.cli.verbs.export import TABLES as CLI_TABLES
from callgrove.cli.verbs.views import GROUPS as CLI_GROUPS
from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Table

INF, LARGEST = float("inf"), 1.7976931348623157e308


def experiment(aggregation: Aggregation, scope: Scope, *profiles: dict[str, Any], dtype: Any = float) -> Experiment:
    """a calls b and c, c calls d; e stands alone."""
    builder = ExperimentBuilder("test")
    contexts: dict[str, int] = {}
    for name, parent in (("a", ""), ("b", "a"), ("c", "a"), ("d", "c"), ("e", "")):
        region = builder.region(ContextKind.FUNCTION, name)
        contexts[name] = builder.add_context(contexts.get(parent, -1), ContextKind.FUNCTION, region)
    builder.add_metric(Metric("m", scope, aggregation=aggregation))
    for number, values in enumerate(profiles):
        builder.add_profile(ProfileKind.THREAD)
        for name, value in values.items():
            builder.add_values(number, contexts[name], 0, np.array([value], dtype))
    return builder.build()


def shown(table: Table) -> list[tuple[Any, ...]]:
    rows = [dict(zip(table.names, row, strict=True)) for row in table.rows()]
    return [(row["name"], row["exclusive"], row["inclusive"]) for row in rows]


@pytest.mark.parametrize(
    ("aggregation", "of_d"), [(Aggregation.MINIMUM, 2.0), (Aggregation.MAXIMUM, 7.0)], ids=["min", "max"]
)
def test_what_has_no_minimum_or_maximum_is_no_row_and_no_number(aggregation: Aggregation, of_d: float) -> None:
    found = costs(experiment(aggregation, Scope.EXCLUSIVE, {"b": 5.0, "d": 2.0}, {"d": 7.0}))
    a = max(of_d, 5.0) if aggregation == Aggregation.MAXIMUM else 2.0
    assert set(shown(top(found))) == {("a", None, a), ("b", 5.0, 5.0), ("c", None, of_d), ("d", of_d, of_d)}
    assert [name for name, exclusive, _ in shown(top(found)) if exclusive is None] == ["a", "c"]
    assert {name for name, *_ in shown(top_down(found))} == {"a", "b", "c", "d"}
    assert shown(hot_path(found))[0][0] == "a"
    with pytest.raises(UsageError, match=r"m is a (minimum|maximum), no sum"):
        bottom_up(found)


def test_a_minimum_without_values_is_no_cost() -> None:
    empty = experiment(Aggregation.MINIMUM, Scope.EXCLUSIVE, {})
    assert empty.root_total("m") == 0
    assert not empty._has_cost("m")
    found = costs(empty)
    assert [len(view(found)) for view in (top, top_down, hot_path)] == [0, 0, 0]


def test_unsigned_counters_sort_and_subtract() -> None:
    visits = costs(experiment(Aggregation.SUM, Scope.EXCLUSIVE, {"b": 3, "d": 9}, dtype=np.uint64))
    assert shown(top(visits)) == [("d", 9, 9), ("b", 3, 3), ("a", 0, 12), ("c", 0, 9)]
    huge = {"a": 2**63 + 4096, "b": 2**63, "c": 4096, "d": 4096}
    found = costs(experiment(Aggregation.SUM, Scope.INCLUSIVE, huge, dtype=np.uint64))
    assert {name: exclusive for name, exclusive, _ in shown(top(found))} == {"a": 0, "b": 2.0**63, "c": 0, "d": 4096}


def test_infinite_cost_does_not_vanish() -> None:
    found = costs(experiment(Aggregation.SUM, Scope.INCLUSIVE, {"a": 1.0, "e": INF}))
    assert shown(top(found)) == [("e", INF, INF), ("a", 1.0, 1.0)]


def test_no_share_is_minus_zero() -> None:
    found = costs(experiment(Aggregation.SUM, Scope.EXCLUSIVE, {"b": -5.0}))
    shares = top(found).column("percent").plain()
    assert all(share or math.copysign(1, share) > 0 for share in shares)


VIEWS: tuple[Callable[[Costs], Table], ...] = (top, top_down, bottom_up, hot_path)


@pytest.mark.parametrize("scope", [Scope.INCLUSIVE, Scope.EXCLUSIVE, Scope.FUNCTION])
@pytest.mark.parametrize(
    "values",
    [
        ({"a": INF, "b": INF, "c": -INF, "d": INF}, {"a": -INF, "e": INF}),
        ({"a": LARGEST, "b": LARGEST, "c": LARGEST, "d": LARGEST}, {"a": LARGEST, "e": LARGEST}),
        ({"a": -LARGEST, "b": LARGEST, "d": math.nan}, {"a": LARGEST}),
    ],
)
def test_any_number_is_shown_without_a_warning(values: tuple[dict[str, float], ...], scope: Scope) -> None:
    """Warnings are errors here."""
    one = experiment(Aggregation.SUM, scope, *values)
    found = costs(one)
    assert all(len(view(found)) for view in VIEWS[:2])
    for view in VIEWS:
        view(found)
    for wanted in ("exclusive", "inclusive"):
        assert sum(len(chunk) for chunk in export(one, "values", Selection(scope=wanted)))


def test_the_command_line_offers_what_there_is() -> None:
    """Help must not import NumPy, so the command line has lists of its own."""
    assert CLI_TABLES == TABLES
    assert CLI_GROUPS == tuple(GROUPINGS)
    assert CLI_SCOPES == ("stored", "exclusive", "inclusive", "point", "function", "lexical")
    assert set(CLI_SCOPES) == {"stored", *(scope.word for scope in Scope if scope.word)}


def test_exclusive_cost_without_the_function_scope_is_not_taken_from_points() -> None:
    """Points of elided contexts are outside of the tree: what follows from inclusive cost is all of it."""
    builder = ExperimentBuilder("test")
    main = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    elided = builder.add_context(-1, ContextKind.ELIDED)
    builder.add_metric(Metric("m", Scope.POINT))
    builder.add_metric(Metric("m", Scope.INCLUSIVE))
    builder.add_profile(ProfileKind.THREAD)
    builder.add_values(0, [elided, elided, main], [0, 1, 1], [3.0, 3.0, 3.0])
    assert shown(top(costs(builder.build()))) == [("main", 3.0, 3.0)]
