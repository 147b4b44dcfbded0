"""The peak memory and processor time of modelling many series, in a process of its own.

`python -m bench.many_series N [METHOD]` prints JSON.
"""

from __future__ import annotations

import json
import re
import sys
import time

from bench.memory import STATUS
from bench.series import SeriesShape, study_of
from callgrove.modeling.fitting import model_study
from callgrove.modeling.options import DETECTED, ModelOptions


def main(n_series: int, method: str = "extrap") -> None:
    options = ModelOptions(method=method, measure=DETECTED if method == "improved" else "mean")
    study = study_of(SeriesShape(1, n_series))
    start = time.process_time()
    models = model_study(study, options)
    seconds = time.process_time() - start
    found = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text()) if STATUS.is_file() else None
    peak = int(found.group(1)) * 1024 if found else float("nan")
    print(json.dumps({"peak": peak, "seconds": seconds, "models": len(models)}))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
