"""Extra-P 3's binary files, made by a writer in the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.errors import CallgroveError
from callgrove.formats.registry import open_path
from callgrove.model.study.series import Study
from tests.formats.extrap.extrap_files import Binary3, binary3


def read(folder: Path, data: bytes) -> Study:
    path = folder / "exp"
    path.write_bytes(data)
    found = open_path(path)
    assert isinstance(found, Study)
    return found


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders(order: str, tmp_path: Path) -> None:
    study = read(tmp_path, binary3(order))
    assert (study.format, study.version, study.parameters) == ("extrap-binary3", "1.0", ("p",))
    assert study.callpaths == ("main->solve", "main->main #1")  # a name that comes back under another id
    assert study.points.tolist() == [[2], [4]]  # coordinates 5 and 6 are one point
    assert study.series("main->solve", "time").mean.tolist() == [10, 20]
    assert study.series("main->main #1", "time").median.tolist() == [1.25, 1.75]
    assert study.repetitions.tolist() == [[3, 3], [3, 3]]
    assert study.units == {"time": "sec"}
    (model,) = study.models
    assert (model.callpath, model.function) == ("main->solve", "1.5 + 2.0 * p^(3/2) * log2(p)^(1)")
    assert model.statistics == {"rss": 0.5, "ar2": 0.75, "smape": 3.0}
    assert dict(study.modelers["Default Model"])["use_measure"] == "MEDIAN"


def test_options_of_sparse_files_bring_another_cost(tmp_path: Path) -> None:
    file = Binary3()
    file.add("Parameter", 0, "p").add("Metric", 0, "t", "").add("Region", 0, "f", "", 0).add("Callpath", 0, 0, -1)
    file.add("Coordinate", 0, 1, "p", 1.0)
    file.add("MultiParameterSparseModelGenerator", "Sparse", "GENERATE_MODEL_MEAN")
    file.add(5, "CHEAPEST_POINTS", 1, 0, "INCREASING_COST")
    file.add("ExperimentPoint", 0, 1, *[1.0] * 9, 0, 0)
    file.add("Model", 0, 0, 0, "MultiParameterFunction", 1.0, 1, 2.0, 1, "p", "CompoundTerm", 3.0, 0)
    file.add(*["Function"] * 6, 0.5, 0.75, 3.0, 0.125, 0, 1, "p", 1, 0.0, 1.0)
    (model,) = read(tmp_path, file.data).models
    assert (model.terms[0].coefficient, model.statistics["re"]) == (6.0, 0.125)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (Binary3().add("Parameter", 0), ("Parameter (record 1)", "at byte", "then the file ends")),
        (Binary3().add("Parameter", 0, "p").add("Parameter", 1, "p"), ("record 2", "'p'", "1 records")),
        (Binary3().add("Nonsense"), ("'Nonsense'", "ExperimentPoint")),
        (Binary3().add("Coordinate", 0, 2**60), ("fits the file",)),
        (Binary3().add("Parameter", 0, "p").add("Coordinate", 0, 1, "q", 1.0), ("finite values of p",)),
        (Binary3().add("ExperimentPoint", 0, 1, *[1.0] * 9, 0, 0), ("the id of a Coordinate",)),
        (Binary3().add("Metric", 0, "t", "").add("Metric", 0, "u", ""), ("0 again",)),
        (Binary3(), ("at least one Parameter",)),
        (Binary3().add("Parameter", 0, "p"), ("no data",)),
    ],
)
def test_what_is_refused(file: Binary3, words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(CallgroveError) as error:
        read(tmp_path, file.data)
    assert error.value.exit_code == 3
    for word in words:
        assert word in str(error.value)


def test_call_paths_that_run_in_a_circle(tmp_path: Path) -> None:
    data = binary3()
    circle = Binary3().add("Callpath", 0, 0, -1).data[-36:]
    assert circle in data
    wrong = Binary3().add("Callpath", 0, 0, 1).data[-36:]
    with pytest.raises(CallgroveError, match="a circle"):
        read(tmp_path, data.replace(circle, wrong, 1))
