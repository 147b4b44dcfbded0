"""Makes a released HPCToolkit database of any size, straight from arrays: `python -m bench.generate FOLDER`.

    meta.db, metrics/default.yaml   a tree of functions, loops and lines below a main thread
    profile.db, cct.db              CPU time (and further metrics) in the scopes point, function, execution; a summary
    trace.db                        where samples are asked for

The numbers are made up, but they fit together: inclusive is the sum over the subtree, the summary is the sum over the
profiles, to the last bit. The same shape gives the same files. Memory is bounded by a batch of profiles.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from bench.database.costs import SCOPES, Costs
from bench.database.meta_file import write_columns, write_meta
from bench.database.trace_file import write_traces
from bench.database.tree import SMALLEST, random_tree
from bench.database.value_files import write_cct, write_profiles

__all__ = ["Shape", "generate"]

LARGEST_METRIC_COUNT = 1 << 16  # ids have 16 bits


@dataclass(frozen=True)
class Shape:
    """How large a database is. As it stands: 8.4 million values.

    n_metrics counts metric ids, three scopes per metric. density is the part of the tensor profiles x contexts x
    metrics that has a value. Of full rows every context in a profile has all metric ids, as Hatchet's search expects.
    """

    n_profiles: int = 1024
    n_contexts: int = 50_000
    n_metrics: int = 3
    density: float = 0.0547
    full_rows: bool = False
    n_samples: int = 0  # in the trace of each profile
    seed: int = 1

    def __post_init__(self) -> None:
        if self.n_profiles < 1 or self.n_contexts < SMALLEST or not 0 < self.density <= 1:
            raise ValueError(f"cannot make a database of {self}")
        if self.n_metrics < 1 or self.n_metrics % len(SCOPES) or self.n_metrics > LARGEST_METRIC_COUNT:
            raise ValueError(f"metric ids come in threes ({', '.join(SCOPES)}), not {self.n_metrics}")

    def with_profiles(self, scale: Fraction) -> Shape:
        """The same tree with another number of profiles."""
        return replace(self, n_profiles=max(1, round(self.n_profiles * scale)))

    def with_contexts(self, scale: Fraction) -> Shape:
        """As many profiles over another tree."""
        return replace(self, n_contexts=max(SMALLEST, round(self.n_contexts * scale)))


def generate(folder: Path, shape: Shape) -> Path:
    """The database in `folder`; one of that shape that is there already is kept."""
    done = folder / "shape.json"
    wanted = json.dumps(asdict(shape))
    if done.is_file() and done.read_text() == wanted:
        return folder
    shutil.rmtree(folder / "metrics", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    done.unlink(missing_ok=True)
    tree = random_tree(shape.n_contexts, np.random.default_rng([shape.seed, 0]))
    costs = Costs(tree, shape.n_profiles, shape.n_metrics, shape.density, shape.full_rows, shape.seed)
    write_meta(folder / "meta.db", tree, shape.n_metrics)
    write_columns(folder / "metrics" / "default.yaml", shape.n_metrics)
    totals = write_profiles(folder / "profile.db", costs)
    write_cct(folder / "cct.db", folder / "profile.db", totals)
    (folder / "trace.db").unlink(missing_ok=True)
    if shape.n_samples:
        write_traces(folder / "trace.db", tree, shape.n_profiles, shape.n_samples, shape.seed)
    done.write_text(wanted)
    return folder


def main() -> None:
    """The command line."""
    usual = Shape()
    parser = argparse.ArgumentParser(prog="python -m bench.generate", description=__doc__.partition(":")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--profiles", type=int, default=usual.n_profiles)
    parser.add_argument("--contexts", type=int, default=usual.n_contexts)
    parser.add_argument("--metrics", type=int, default=usual.n_metrics)
    parser.add_argument("--density", type=float, default=usual.density)
    parser.add_argument("--full-rows", action="store_true")
    parser.add_argument("--samples", type=int, default=usual.n_samples)
    parser.add_argument("--seed", type=int, default=usual.seed)
    args = parser.parse_args()
    shape = Shape(args.profiles, args.contexts, args.metrics, args.density, args.full_rows, args.samples, args.seed)
    print(generate(args.folder, shape))


if __name__ == "__main__":
    main()
