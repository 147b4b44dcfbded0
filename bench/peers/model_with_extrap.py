"""Runs in Extra-P's environment: models all series of a file and says how much processor time that took.

python model_with_extrap.py IN.npz OUT.json     IN: parameters, points [N, P], values [S, N]
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from extrap.entities.callpath import Callpath
from extrap.entities.coordinate import Coordinate
from extrap.entities.experiment import Experiment
from extrap.entities.measurement import Measurement
from extrap.entities.metric import Metric
from extrap.entities.parameter import Parameter
from extrap.modelers.model_generator import ModelGenerator


def experiment_of(parameters: list[str], points: list[list[float]], values: list[list[float]]) -> Experiment:
    experiment = Experiment()
    for name in parameters:
        experiment.add_parameter(Parameter(name))
    metric = Metric("time")
    experiment.add_metric(metric)
    coordinates = [Coordinate(*point) for point in points]
    for coordinate in coordinates:
        experiment.add_coordinate(coordinate)
    for number, row in enumerate(values):
        callpath = Callpath(f"f{number}")
        experiment.add_callpath(callpath)
        for coordinate, value in zip(coordinates, row, strict=True):
            experiment.add_measurement(Measurement(coordinate, callpath, metric, [value]))
    return experiment


def main(given: str, out: str) -> None:
    warnings.simplefilter("ignore")
    with np.load(given) as file:
        parameters, points, values = file["parameters"].tolist(), file["points"].tolist(), file["values"].tolist()
    experiment = experiment_of(parameters, points, values)
    generator = ModelGenerator(experiment)
    start = time.process_time()
    generator.model_all()
    seconds = time.process_time() - start
    found = {
        callpath.name: [model.hypothesis.function.to_string(*parameters), float(model.hypothesis.SMAPE)]
        for (callpath, _), model in generator.models.items()
    }
    Path(out).write_text(json.dumps({"seconds": seconds, "models": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
