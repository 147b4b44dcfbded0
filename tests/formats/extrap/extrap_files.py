"""Extra-P's files for tests: a study with everything in it, and a writer of Extra-P 3's binary format, which the
package only reads. `python -m tests.formats.extrap.extrap_files` writes the corpus anew."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from callgrove.formats.interface import WriteOptions, WritesStudies
from callgrove.formats.registry import load
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Segment, StoredModel, Study, Term

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "extrap"
FILES = {
    "extrap-text": "text.txt",
    "extrap-talpas": "talpas.txt",
    "extrap-json": "json.json",
    "extrap-json-old": "json-old.json",
    "extrap-jsonl": "jsonl.jsonl",
    "extrap-experiment": "experiment.extra-p",
}
AWKWARD = (
    "main",
    "main->solve",
    "operator<(a, b)",
    'with "quotes" and \\ backslash',
    "# hash first",
    "größe, 規模 🌲",
    "semi;colon",
    "[brackets]{braces}",
    "DATA",
    "tail # comment",
)


def plain_study(names: Sequence[str] = ("main", "main->solve")) -> Study:
    """Two parameters, six points, three repetitions, two metrics."""
    rng = np.random.default_rng(7)
    builder = StudyBuilder(("p", "n"), title="plain")
    for p in (2, 4, 8):
        for n in (10.5, 100):
            point = builder.point((p, n))
            for name in names:
                for metric in ("time", "visits"):
                    base = p * n if metric == "time" else float(p)
                    builder.add_values(name, metric, point, (base * (1 + 0.01 * rng.standard_normal(3))).tolist())
    return builder.build()


def study_with_models() -> Study:
    """The same with models, tags, units and a scaling."""
    builder = StudyBuilder(("p", "n"), title="models")
    for p in (2, 4, 8):
        for n in (10, 100):
            builder.add_values("main->solve", "time", builder.point((p, n)), [2.0 * p + n, 2.0 * p + n + 0.5])
    builder.scaling = "weak_threaded"
    builder.units["time"] = "s"
    builder.callpath_tags["main->solve"] = {"agg__category": "GPU", "gpu__overlap": True}
    terms = (Term(2.5, {"p": ("3/2", "1")}), Term(-0.25, {"p": ("1", "0"), "n": ("0", "2")}))
    costs = {"rss": 0.5, "rrss": 0.25, "nrss": 0.125, "smape": 1.5, "ar2": 0.75, "re": 0.0625}
    function = "5.0 + 2.5 * p^(3/2) * log2(p)^(1) + -0.25 * p^(1) * log2(n)^(2)"
    builder.models.append(StoredModel("main->solve", "time", function, 5.0, terms, costs, "Default Model"))
    builder.modelers["Default Model"] = {
        "use_median": False,
        "use_measure": "MEAN",
        "single_parameter_point_selection": "auto",
        "allow_combinations_of_sums_and_products": True,
        "compare_with_RSS": False,
        "$type": "MultiParameterModeler",
    }
    return builder.build()


def segmented_study() -> Study:
    """One parameter, ten points and a model of two pieces."""
    builder = StudyBuilder(("p",), title="segmented")
    for p in range(1, 11):
        builder.add_values("main", "time", builder.point((p,)), [float(p if p <= 5 else p * p + 30)])
    costs = {"rss": 0.0, "rrss": 0.0, "nrss": 0.0, "smape": 0.0, "ar2": 1.0, "re": 0.0}
    pieces = (
        Segment(float("-inf"), 5.0, "p^(1)", 0.0, (Term(1.0, {"p": ("1", "0")}),), costs),
        Segment(6.0, float("inf"), "30.0 + p^(2)", 30.0, (Term(1.0, {"p": ("2", "0")}),), costs),
    )
    text = "p^(1) for p<=5.0; 30.0 + p^(2) for p>=6.0"
    builder.models.append(StoredModel("main", "time", text, 0.0, (), costs, "Segmented", pieces))
    builder.modelers["Segmented"] = {"use_median": False, "use_measure": "MEAN", "$type": "SegmentedModeler"}
    return builder.build()


def study_in_pieces() -> Study:
    """Two parameters, and a model in which one of them has two pieces."""
    builder = StudyBuilder(("p", "n"), title="pieces")
    for p in range(1, 11):
        for n in (1, 2, 4):
            value = 3.0 + 2.0 * n * (p if p <= 5 else p * p + 30)
            builder.add_values("main", "time", builder.point((p, n)), [value])
    costs = {"rss": 0.0, "rrss": 0.0, "nrss": 0.0, "smape": 0.0, "ar2": 1.0, "re": 0.0}
    pieces = (
        Segment(float("-inf"), 5.0, "p^(1)", 0.0, (Term(1.0, {"p": ("1", "0")}),)),
        Segment(6.0, float("inf"), "30.0 + p^(2)", 30.0, (Term(1.0, {"p": ("2", "0")}),)),
    )
    terms = (Term(2.0, {"n": ("1", "0")}, {"p": pieces}), Term(0.5, {"n": ("0", "1")}))
    text = "3.0 + 2.0 * {p^(1) for p<=5.0; 30.0 + p^(2) for p>=6.0} * n^(1) + 0.5 * log2(n)^(1)"
    builder.models.append(StoredModel("main", "time", text, 3.0, terms, costs, "Pieces"))
    builder.modelers["Pieces"] = {"use_median": False, "use_measure": "MEAN", "$type": "MultiParameterModeler"}
    return builder.build()


def written(study: Study, format_name: str, target: Path) -> list[str]:
    """Writes a study; gives what was lost."""
    format_ = load(format_name)
    assert isinstance(format_, WritesStudies)
    return format_.write_study(study, target, WriteOptions()).losses


class Binary3:
    """Writes records of Extra-P 3's format, with strings and numbers as they come."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.data = struct.pack(f"{order}h", 1)
        self.add("EXTRAP_EXPERIMENT", "1.0")

    def add(self, *values: str | int | float) -> Binary3:
        for value in values:
            if isinstance(value, str):
                raw = value.encode()
                self.data += struct.pack(f"{self.order}I", len(raw)) + raw
            else:
                self.data += struct.pack(f"{self.order}{'q' if isinstance(value, int) else 'd'}", value)
        return self


def binary3(order: str = "<") -> bytes:
    """Two points of one call path under another, and a model of it."""
    file = Binary3(order)
    file.add("Parameter", 0, "p").add("Metric", 4, "time", "sec")
    file.add("Region", 0, "main", "main.c", 1).add("Region", 1, "solve", "solve.c", 7).add(
        "Region", 9, "main", "b.c", 2
    )
    file.add("Callpath", 0, 0, -1).add("Callpath", 1, 1, 0).add("Callpath", 2, 9, 0)
    file.add("Coordinate", 0, 1, "p", 2.0).add("Coordinate", 5, 1, "p", 4.0).add("Coordinate", 6, 1, "p", 4.0)
    file.add("ModelComment", 0, "none")
    file.add("SingleParameterSimpleModelGenerator", "Default Model", "CROSSVALIDATION_NONE", 0.05)
    file.add("GENERATE_MODEL_MEDIAN", 0, 1)
    for callpath, coordinate, mean in ((1, 0, 10.0), (1, 6, 20.0), (2, 0, 1.0), (2, 5, 1.5)):
        file.add("ExperimentPoint", coordinate, 3, mean, 0.0, 0.0, 0.5, mean + 0.25, 0.0, 0.0, mean - 1, mean + 1, 4)
        file.add(callpath)
    file.add("Model", 4, 1, 0, "SingleParameterFunction", 1.5, 1, "CompoundTerm", 2.0, 2)
    file.add("SimpleTerm", "polynomial", 1.5, "SimpleTerm", "logarithm", 1.0)
    file.add(*["Function"] * 6, 0.5, 0.75, 3.0, 0, 0)
    return file.data


def write_corpus() -> None:
    CORPUS.mkdir(exist_ok=True)
    for format_name, name in FILES.items():
        (CORPUS / name).unlink(missing_ok=True)
        with_models = format_name == "extrap-experiment"
        study = study_with_models() if with_models else plain_study(("main", "main->solve", "größe, 規模"))
        assert written(study, format_name, CORPUS / name) == []
    (CORPUS / "binary3.exp").write_bytes(binary3())


if __name__ == "__main__":
    write_corpus()
