"""What a metric of a Cube file says beyond the model's own columns, as attributes of its row, and back."""

from __future__ import annotations

from dataclasses import dataclass, field

from callgrove.formats.cube.anchor import RawMetric
from callgrove.formats.cube.words import DERIVED
from callgrove.model.metrics import Metric

__all__ = ["CubeMetric"]

PREFIX = "cube: "
FORMULA = "cubepl"  # kept here where a metric has values beside it
GIVEN = ("type", "viztype", "convertible", "cacheable")  # attributes of the element
TEXTS = ("disp_name", "val", FORMULA, "cubeplinit")
RULE = "cubeplaggr "
UNIT, ROW_WISE = "uom", "rowwise"


@dataclass(frozen=True)
class CubeMetric:
    """The words of one metric: XML attributes, texts, aggregation rules, other attributes."""

    given: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    rules: tuple[tuple[str, str], ...] = ()
    row_wise: str | None = None
    unit: str | None = None  # where the file says something wrong
    others: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> str:
        """The type in capitals, such as PREDERIVED_EXCLUSIVE; empty where none is said."""
        return self.given.get("type", "").strip().upper()

    @classmethod
    def of_raw(cls, raw: RawMetric, unit: str | None = None) -> CubeMetric:
        given = {word: raw.given[word] for word in GIVEN if word in raw.given}
        texts = {word: raw.texts[word] for word in TEXTS if raw.texts.get(word)}
        if given.get("type", "").strip().upper() in DERIVED:  # then it is the metric's formula
            texts.pop(FORMULA, None)
        if raw.texts.get("disp_name") == raw.texts.get("uniq_name"):
            texts.pop("disp_name", None)
        return cls(given, texts, tuple(raw.rules), raw.row_wise, unit, tuple(raw.attributes))

    @classmethod
    def of_row(cls, metric: Metric) -> CubeMetric:
        own = [(key.removeprefix(PREFIX), value) for key, value in metric.attributes if key.startswith(PREFIX)]
        words = dict(own)
        return cls(
            {word: words[word] for word in GIVEN if word in words},
            {word: words[word] for word in TEXTS if word in words},
            tuple((key.removeprefix(RULE), value) for key, value in own if key.startswith(RULE)),
            words.get(ROW_WISE),
            words.get(UNIT),
            tuple((key, value) for key, value in metric.attributes if not key.startswith(PREFIX)),
        )

    def attributes(self) -> tuple[tuple[str, str], ...]:
        """For the metric's row in the model."""
        own = [*self.given.items(), *self.texts.items(), *((RULE + kind, text) for kind, text in self.rules)]
        own += [(word, value) for word, value in ((ROW_WISE, self.row_wise), (UNIT, self.unit)) if value is not None]
        return (*self.others, *((PREFIX + word, value) for word, value in own))
