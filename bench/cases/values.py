"""Every value of a database as four columns, against reading the same records with `np.fromfile`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bench.conditions import Conditions, columns_from_open, columns_from_path, opened
from bench.memory import peak_of_columns
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.arrays import Array, Ints
from callgrove.formats.hpctoolkit.release import files as rec
from callgrove.model.experiment import Experiment

__all__ = ["Floor", "Records", "records_of", "run", "same_values"]


@dataclass(frozen=True)
class Records:
    """The records of all blocks in the order of the file, as native columns."""

    metric: Array
    value: Array
    context: Array
    start: Array


@dataclass(frozen=True)
class Floor:
    """Reads all records of a profile.db. Where the blocks lie is found out beforehand, and not timed."""

    path: Path
    numbers: Ints  # of the profiles, in the order of their blocks
    infos: Array

    @classmethod
    def of(cls, path: Path) -> Floor:
        sections = np.fromfile(path, rec.SECTION, 2, offset=rec.HEADER.itemsize)
        head = np.fromfile(path, rec.PROFILE_INFOS, 1, offset=int(sections["ptr"][0]))[0]
        infos = np.fromfile(path, rec.PROFILE_INFO, int(head["nProfiles"]), offset=int(head["pProfiles"]))
        order = np.argsort(infos["pValues"], kind="stable")
        return cls(path, order, infos[order])

    def read(self) -> Records:
        n_values, n_index = int(self.infos["nValues"].sum()), int(self.infos["nCtxs"].sum())
        metric, value = np.empty(n_values, np.uint16), np.empty(n_values, np.float64)
        context, start = np.empty(n_index, np.uint32), np.empty(n_index, np.uint64)
        v = i = 0
        with self.path.open("rb") as file:
            for info in self.infos[["nValues", "pValues", "nCtxs", "pCtxIndices"]].tolist():
                file.seek(info[1])
                values = np.fromfile(file, rec.PROFILE_VALUE, info[0])
                metric[v : v + len(values)], value[v : v + len(values)] = values["id"], values["value"]
                v += len(values)
                file.seek(info[3])
                index = np.fromfile(file, rec.CONTEXT_INDEX, info[2])
                context[i : i + len(index)], start[i : i + len(index)] = index["id"], index["start"]
                i += len(index)
        return Records(metric, value, context, start)


def records_of(folder: Path) -> Work:
    """What reads the records of a database."""
    return Floor.of(folder / "profile.db").read


def run(conditions: Conditions) -> Iterator[Finding]:
    """Speed and memory, on rows of both kinds."""
    for rows, shape in (("sparse rows", conditions.sparse_rows), ("full rows", conditions.full_rows)):
        folder = conditions.database(shape.with_profiles(conditions.largest))
        floor, experiment = Floor.of(folder / "profile.db"), opened(folder)
        if not same_values(experiment, floor):
            raise AssertionError(f"{folder}: the columns are not what the file holds")
        works = {
            "floor": partial(records_of, folder),
            "columns": partial(columns_from_open, folder),
            "all": partial(columns_from_path, folder),
        }
        best = best_seconds(works, conditions.n_repeats)
        ratio, note = best["columns"] / best["floor"], f"{experiment.values.n_stored():,} values"
        yield Finding("values", f"columns / np.fromfile, {rows}", ratio, at_most=3, note=note)
        yield Finding("values", f"open and columns / np.fromfile, {rows}", best["all"] / best["floor"])
        peak = peak_of_columns(folder)
        ratio = peak.resident / peak.columns if peak else float("nan")
        note = "" if peak else "needs /proc"
        yield Finding("memory", f"peak of the process / columns, {rows}", ratio, at_most=2, note=note)


def same_values(experiment: Experiment, floor: Floor) -> bool:
    """Are the columns, value for value, what the records say?"""
    columns, records = experiment.values.columns(), floor.read()
    n_index, n_values = floor.infos["nCtxs"].astype(np.int64), floor.infos["nValues"].astype(np.int64)
    first_value = np.repeat(np.cumsum(n_values) - n_values, n_index)
    bounds = np.append(first_value + records.start.astype(np.int64), n_values.sum())
    context = np.repeat(records.context, np.diff(bounds))
    profile = np.repeat(floor.numbers, n_values)
    metric_ids = np.array([metric.source_id for metric in experiment.metrics])
    kept = context != 0  # the file's root is not a context
    return all(
        np.array_equal(have, want[kept])
        for have, want in (
            (columns.profile, profile),
            (experiment.contexts.source_id[columns.context], context),
            (metric_ids[columns.metric], records.metric),
            (columns.value.view(np.uint64), records.value.view(np.uint64)),
        )
    )
