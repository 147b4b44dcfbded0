"""Prints the models that a file stores as Extra-P does. Runs in Extra-P's own environment:

    .peers/extrap/bin/python bench/peers/print_with_extrap.py OUT.json FILE.extra-p FORMAT [FORMAT ...]

OUT.json gets one text for each FORMAT, which is one of Extra-P's words or a format string.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")  # of libraries that it imports
logging.disable()

from extrap.fileio.experiment_io import ExperimentReader  # noqa: E402
from extrap.fileio.output import format_output  # noqa: E402


def main(out: str, path: str, *formats: str) -> None:
    experiment = ExperimentReader().read_experiment(path)
    Path(out).write_text(json.dumps([format_output(experiment, text) for text in formats]), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
