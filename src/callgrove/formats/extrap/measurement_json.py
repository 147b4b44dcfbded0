"""One measurement as `experiment.json` stores it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from callgrove.model.study import STATISTICS, Study

__all__ = ["json_number", "measurement"]


def measurement(
    study: Study, series: int, point: int, addresses: Mapping[int, tuple[int, int]] | None = None
) -> dict[str, object]:
    """One measurement; statistics that are not known are left out, but for the median, which Extra-P needs."""
    address = (addresses or {}).get(series * study.n_points + point)
    out: dict[str, object] = {"coordinate": study.points[point].tolist()}
    for name in STATISTICS:
        value = float(getattr(study, name)[series, point])
        if name in ("mean", "median") or not math.isnan(value) or address is not None:
            out[name] = json_number(value)
    known = int(study.repetitions[series, point])
    return out | {"repetitions": known if known >= 0 else None, "values": address}


def json_number(value: float) -> float | str:
    """A number; what JSON has none for is a text, as Extra-P writes it."""
    return value if math.isfinite(value) else str(float(value))
