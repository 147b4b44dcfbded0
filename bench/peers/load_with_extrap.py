"""Loads studies with Extra-P and says what it found. Runs in Extra-P's own environment:

    .peers/extrap/bin/python bench/peers/load_with_extrap.py OUT.json KIND FILE [KIND FILE ...]

KIND is one of Extra-P's own: text, talpas, json, experiment, cube. After a colon, `cube:strong` and the like say what
becomes of the locations of a run, and `cube:inclusive` which values are read. OUT.json gets one entry per file: the
measurements and models, or the error.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")  # of libraries that it imports
logging.disable()

from extrap.fileio.experiment_io import ExperimentReader  # noqa: E402
from extrap.fileio.file_reader.cube_file_reader2 import CubeFileReader2  # noqa: E402
from extrap.fileio.file_reader.json_file_reader import JsonFileReader  # noqa: E402
from extrap.fileio.file_reader.talpas_file_reader import TalpasFileReader  # noqa: E402
from extrap.fileio.file_reader.text_file_reader import TextFileReader  # noqa: E402

READERS = {
    "text": TextFileReader,
    "talpas": TalpasFileReader,
    "json": JsonFileReader,
    "experiment": ExperimentReader,
    "cube": CubeFileReader2,
}


def found(kind: str, path: str) -> dict[str, Any]:
    """What one file holds."""
    try:
        word, _, option = kind.partition(":")
        reader = READERS[word]()
        if option == "inclusive":
            reader.use_inclusive_measurements = True
        elif option:
            reader.scaling_type = option
        experiment = reader.read_experiment(path)
    except Exception as error:  # whatever it is, it is the answer
        return {"error": f"{type(error).__name__}: {error}"}
    series = [
        [
            c.name,
            m.name,
            [[list(p.coordinate), p.mean, p.median, p.minimum, p.maximum, p.std, p.repetitions] for p in ps],
        ]
        for (c, m), ps in experiment.measurements.items()
    ]
    models = [
        [g.name, c.name, m.name, model.hypothesis.function.to_string(*experiment.parameters), model.hypothesis.SMAPE]
        for g in experiment.modelers
        for (c, m), model in g.models.items()
    ]
    values = [
        [p.values.tolist() for p in ps] for ps in experiment.measurements.values() if ps and ps[0].values is not None
    ]
    tags = {c.name: c.tags for c in experiment.callpaths if c.tags}
    return {
        "parameters": [p.name for p in experiment.parameters],
        "scaling": str(experiment.scaling) if experiment.scaling else None,
        "series": series,
        "models": models,
        "values": values,
        "tags": tags,
    }


def main(out: str, *words: str) -> None:
    pairs = zip(words[::2], words[1::2], strict=True)
    Path(out).write_text(json.dumps([found(kind, path) for kind, path in pairs], default=float), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
