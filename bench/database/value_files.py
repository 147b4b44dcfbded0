"""profile.db, and cct.db from it.

Profiles are written as they come. cct.db holds the same values by context: how many each (context, metric) has is
counted on the way, which fixes where every value goes, and a second pass over profile.db puts it there. So memory is
bounded by a batch of profiles and by one number per (context, metric).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import numpy as np

from bench.database.costs import Costs, Rows, units
from bench.database.meta_file import ID_NAMES
from bench.database.records import WORD, header, records
from callgrove.arrays import Array, Ints
from callgrove.formats.hpctoolkit.release import files as rec

__all__ = ["Totals", "write_cct", "write_profiles"]

INFOS_AT = rec.HEADER.itemsize + 2 * rec.SECTION.itemsize
CTX_INFOS_AT = 0x30  # where genuine writers put the section
N_VALUE_WORDS = rec.CONTEXT_VALUE.itemsize // 4  # of 4 bytes
RANKS_PER_NODE = 32
SUMMARY_FLAG, PHYSICAL_FLAG = 1, 1
Number = TypeVar("Number", int, Ints)
ID_TUPLE = np.dtype([("nIds", "<u8"), ("ids", rec.ID_ELEMENT, (3,))])


@dataclass(frozen=True)
class Totals:
    """Over all profiles, per context id and metric id."""

    samples: Ints
    count: Ints


def write_profiles(path: Path, costs: Costs) -> Totals:
    """profile.db: tuples, a block per profile, the summary last."""
    n = costs.n_profiles
    infos = np.zeros(1 + n, rec.PROFILE_INFO)
    tuples = _id_tuples(n)
    profiles_at = _up(INFOS_AT + rec.PROFILE_INFOS.itemsize, 8)
    tuples_at = profiles_at + infos.nbytes
    infos["pIdTuple"][1:] = tuples_at + ID_TUPLE.itemsize * np.arange(n)
    infos["flags"][0] = SUMMARY_FLAG
    shape = (len(costs.tree) + 1, costs.n_metrics)
    totals = Totals(np.zeros(shape, np.int64), np.zeros(shape, np.int64))
    with path.open("wb") as file:
        file.seek(tuples_at)
        file.write(tuples.tobytes())
        for batch in costs.batches():
            for number, rows in enumerate(batch.rows(), batch.first + 1):
                _put_block(file, infos, number, rows)
            np.add(totals.samples, batch.samples.sum(axis=0), out=totals.samples)
            np.add(totals.count, batch.stored.sum(axis=0), out=totals.count)
        _put_block(file, infos, 0, _summary(totals))
        file.write(rec.FOOTERS["prof"])
        file.seek(0)
        sections = np.array([(tuples_at - INFOS_AT, INFOS_AT), (tuples.nbytes, tuples_at)], rec.SECTION)
        file.write(header("prof").tobytes() + sections.tobytes())
        head = records(rec.PROFILE_INFOS, pProfiles=profiles_at, nProfiles=1 + n, szProfile=infos.itemsize)
        file.write(head.tobytes())
        file.seek(profiles_at)
        file.write(infos.tobytes())
    return totals


def _id_tuples(n_profiles: int) -> Array:
    """NODE, RANK, THREAD of every profile: one thread per rank."""
    out = np.zeros(n_profiles, ID_TUPLE)
    rank = np.arange(n_profiles)
    node = rank // RANKS_PER_NODE
    out["nIds"] = 3
    columns = (("NODE", PHYSICAL_FLAG, node, 0x0A00_0000 + node), ("RANK", 0, rank, rank), ("THREAD", 0, 0, 0))
    for k, (kind, flags, logical, physical) in enumerate(columns):
        out["ids"]["kind"][:, k] = ID_NAMES.index(kind)
        out["ids"]["flags"][:, k] = flags
        out["ids"]["logicalId"][:, k] = logical
        out["ids"]["physicalId"][:, k] = physical
    return out


def _put_block(file: IO[bytes], infos: Array, number: int, rows: Rows) -> None:
    """The values and the index of one profile, each 4-aligned."""
    ids, start = np.unique(rows.context, return_index=True)
    values = records(rec.PROFILE_VALUE, len(rows.value), id=rows.metric, value=rows.value)
    index = records(rec.CONTEXT_INDEX, len(ids), id=ids, start=start)
    infos["nValues"][number], infos["nCtxs"][number] = len(values), len(index)
    infos["pValues"][number] = _append(file, values)
    infos["pCtxIndices"][number] = _append(file, index)


def _append(file: IO[bytes], array: Array) -> int:
    file.write(bytes(-file.tell() % 4))
    at = file.tell()
    file.write(array.tobytes())
    return at


def _summary(totals: Totals) -> Rows:
    context, metric = np.nonzero(totals.count)
    return Rows(context, metric, totals.samples[context, metric] * units(totals.samples.shape[1])[metric])


def write_cct(path: Path, profiles: Path, totals: Totals) -> None:
    """cct.db with the values of every thread; the summary is not among them."""
    plan = CctPlan(totals.count)
    image = np.memmap(path, np.uint8, "w+", shape=(plan.end + WORD,))
    for at, part in plan.tables():
        image[at : at + part.nbytes] = part.view(np.uint8)
    places, entries = plan.index()
    image[places[:, None] + np.arange(entries.itemsize)] = entries.view(np.uint8).reshape(-1, entries.itemsize)
    words = image[: plan.end - plan.end % 4].view(np.uint32)
    free = plan.values_at[:, None] // 4 + N_VALUE_WORDS * plan.start  # where the next value goes
    for number, contexts, metrics, values in _read_back(profiles):
        where = free[contexts, metrics]
        free[contexts, metrics] += N_VALUE_WORDS
        words[where] = number
        words[where + 1], words[where + 2] = values.view(np.uint32).reshape(-1, 2).T
    image.flush()


class CctPlan:
    """Where everything in a cct.db stands, from the number of values per context id and metric id."""

    def __init__(self, count: Ints) -> None:
        self.count = count
        self.n_values, self.n_index = count.sum(axis=1), (count > 0).sum(axis=1)
        self.start = np.cumsum(count, axis=1) - count
        self.infos_at = _up(CTX_INFOS_AT + rec.CTX_INFOS.itemsize, WORD)
        self.blocks_at = self.infos_at + len(count) * rec.CTX_INFO.itemsize
        n_bytes = rec.CONTEXT_VALUE.itemsize * self.n_values
        size = n_bytes + _up(rec.METRIC_INDEX.itemsize * self.n_index, 4)
        self.values_at: Ints = self.blocks_at + np.cumsum(size) - size
        self.index_at: Ints = self.values_at + n_bytes
        self.end = int(self.blocks_at + size.sum())

    def tables(self) -> Iterator[tuple[int, Array]]:
        """Everything but the blocks."""
        yield 0, header("ctxt")
        yield rec.HEADER.itemsize, np.array([(self.blocks_at - CTX_INFOS_AT, CTX_INFOS_AT)], rec.SECTION)
        stride = rec.CTX_INFO.itemsize
        yield CTX_INFOS_AT, records(rec.CTX_INFOS, pCtxs=self.infos_at, nCtxs=len(self.count), szCtx=stride)
        infos = records(rec.CTX_INFO, len(self.count), nValues=self.n_values, pValues=self.values_at)
        infos["nMetrics"], infos["pMetricIndices"] = self.n_index, self.index_at
        yield self.infos_at, infos
        yield self.end, np.frombuffer(rec.FOOTERS["ctxt"], np.uint8)

    def index(self) -> tuple[Ints, Array]:
        """Where each index entry of any block stands, and the entries."""
        context, metric = np.nonzero(self.count)
        entries = records(rec.METRIC_INDEX, len(context), id=metric, start=self.start[context, metric])
        place = np.arange(len(context)) - np.repeat(np.cumsum(self.n_index) - self.n_index, self.n_index)
        return self.index_at[context] + rec.METRIC_INDEX.itemsize * place, entries


def _read_back(path: Path) -> Iterator[tuple[int, Ints, Ints, Array]]:
    """(number, contexts, metrics, values) of every thread of a profile.db."""
    image = np.memmap(path, np.uint8, "r")
    head = image[INFOS_AT:][: rec.PROFILE_INFOS.itemsize].view(rec.PROFILE_INFOS)[0]
    infos = np.frombuffer(image, rec.PROFILE_INFO, int(head["nProfiles"]), int(head["pProfiles"]))
    for number, info in enumerate(infos.tolist()):
        n_values, at, n_index, index_at = info[:4]
        if number:
            values = np.frombuffer(image, rec.PROFILE_VALUE, n_values, at)
            index = np.frombuffer(image, rec.CONTEXT_INDEX, n_index, index_at)
            n_each = np.diff(np.append(index["start"].astype(np.int64), n_values))
            contexts = np.repeat(index["id"].astype(np.int64), n_each)
            yield number, contexts, values["id"].astype(np.int64), values["value"].copy()


def _up(number: Number, multiple: int) -> Number:
    """The next multiple."""
    return number + -number % multiple
