"""Tables that are exported."""

from __future__ import annotations

import numpy as np

from callgrove.analysis.tables import Selection, export
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.metrics import RATE, Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind


def test_computed_rows_of_composite_values_are_exported() -> None:
    """A row that is computed stands after the stored ones, and is as composite as what it is computed from."""
    builder = ExperimentBuilder("made")
    above = builder.add_context(-1, ContextKind.FUNCTION)
    below = builder.add_context(above, ContextKind.FUNCTION)
    builder.add_profile(ProfileKind.THREAD)
    kind = Aggregation.COMPOSITE
    builder.add_metric(Metric("a", Scope.EXCLUSIVE, dtype="RATE", aggregation=kind, composite=RATE))
    builder.add_values(0, [above, below], 0, np.array([(1.0, 2.0), (3.0, 2.0)], RATE.dtype))
    (table,) = [chunk for chunk in export(builder.build(), "values", Selection(scope="inclusive")) if len(chunk)]
    assert table.column("value").plain() == [1.0, 1.5]
    assert table.column("metric").plain() == [1, 1]
    assert table.column("fields").plain()[0] == '{"numerator": 4.0, "denominator": 4.0}'
