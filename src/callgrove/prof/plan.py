"""All that the second pass needs to know, as arrays: workers get it once, in a folder that they map into memory.

Contexts here are those of `contexts`: level by level, with elided instructions where they belong. `final` gives the
ids of the experiment, `layout` says how samples are to be packed: as the target stores them, or in these ids.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.formats.hpcrun.primitives import MetricDescription
from callgrove.formats.interface import SampleLayout
from callgrove.model.arrays import ABSENT, Array, Bools, Ids, Ints, Offsets
from callgrove.model.metrics import Scope
from callgrove.model.traces import Samples
from callgrove.prof.nodes import Flavour
from callgrove.prof.raw_tree import RawTree
from callgrove.prof.samples_of_gpu import Templates

__all__ = ["LEFT_OUT", "PLAIN", "MetricPlan", "Plan", "load", "plain_layout", "plain_samples"]

TABLES = "tables.pickle"
LEFT_OUT = ABSENT - 1  # of samples; -1 is idle
PLAIN = np.dtype([("time", np.int64), ("ctx", np.int32)])


def plain_layout(n_contexts: int) -> SampleLayout:
    """Samples in the ids of the experiment."""
    return SampleLayout(PLAIN, np.append(np.arange(n_contexts, dtype=np.int32), np.int32(ABSENT)))


def plain_samples(records: Array) -> Samples:
    """Samples that were packed in the plain layout."""
    return Samples(records["time"].copy(), records["ctx"].copy())


@dataclass(frozen=True)
class MetricPlan:
    """`of_table`: the quantity of each metric of a table. `rows[scope]`: the metric row of each quantity."""

    of_table: dict[tuple[MetricDescription, ...], Ids]
    rows: dict[Scope, Ids]
    is_derived: Bools
    instructions: int  # quantities that GPU samples are shared by: GINS, GKER:COUNT and GKER:SAMPLED_COUNT, or -1
    runs: int
    sampled_runs: int


@dataclass(frozen=True)
class Plan:
    """The merged tree, its contexts and the metrics. `sampled` is the context of samples at each context: the one
    around an elided instruction; -1 is idle."""

    flavour: Flavour
    modules: tuple[str, ...]
    metrics: MetricPlan
    templates: Templates
    place: Ints
    offset: Offsets
    parent: Ids
    region: Ids
    first: Ids
    full: Ids
    above: Ids
    depth: Ids
    lexical: Bools
    final: Ids
    sampled: Ids
    layout: SampleLayout

    @cached_property
    def contexts_at(self) -> dict[bool, Ids]:
        """The context of samples at each node of the merged tree, LEFT_OUT where there is none: in traces of calls
        (True) that of the function, in others (False) that of the address."""
        return {
            is_call_trace: np.where(last >= 0, self.sampled[last], LEFT_OUT).astype(np.int32)
            for is_call_trace, last in ((True, self.first), (False, self.full))
        }

    @cached_property
    def tree(self) -> RawTree:
        return RawTree(self.modules, self.place, self.offset, self.parent, self.region)

    def save(self, folder: Path) -> None:
        """Write it for workers, into a folder that is made for it."""
        folder.mkdir()
        rest = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                np.save(folder / f"{field.name}.npy", value)
            else:
                rest[field.name] = value
        (folder / TABLES).write_bytes(pickle.dumps(rest))


@lru_cache(maxsize=1)
def load(folder: str) -> Plan:
    """The plan that lies in a folder of ours; arrays are mapped, so that the workers of a node share them."""
    place = Path(folder)
    rest = pickle.loads((place / TABLES).read_bytes())
    # plain arrays: views of a memmap are memmaps again, and all that small ones take is the time to make them
    arrays: dict[str, Any] = {path.stem: np.asarray(np.load(path, mmap_mode="r")) for path in place.glob("*.npy")}
    return Plan(**rest, **arrays)
