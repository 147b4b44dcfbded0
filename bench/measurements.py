"""Measurement directories of any size: a real one multiplied, and one with a tree of very many contexts.

multiplied    files of the corpus as ranks of one large run, with long traces on the nodes that they have
deep          few files, each with a tree of its own: long chains of calls, and branches anywhere
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.conditions import ROOT
from callgrove.formats.hpcrun import primitives as rec
from callgrove.formats.hpcrun.files import file_name, measurement_bytes, measurement_files, read_measurement
from callgrove.formats.hpcrun.hpctrace import write_trace
from callgrove.formats.hpcrun.measurement import Epoch, Measurement, SparsePlace, SparseValues, nodes_of
from callgrove.formats.hpcrun.primitives import Header, MetricDescription, Module
from callgrove.formats.hpcrun.regions import ENTRIES, code_number
from callgrove.formats.hpcrun.regions import ROOT as ROOT_CODE
from callgrove.model.profiles import Identifier

__all__ = ["deep", "multiplied"]

CORPUS = ROOT / "tests" / "corpus" / "hpcrun" / "04.00" / "pth4.m"
BEGIN_NS = 1_700_000_000_000_000_000
NODE, RANK, THREAD = 1, 2, 3
N_MODULES = 20
CHAIN = 0.6  # of the nodes continue the chain of the one before


def multiplied(folder: Path, n_files: int, n_samples: int) -> Path:
    """Files of four threads each, made from those with samples; what is there already is kept."""
    originals = [one for one in map(read_measurement, measurement_files(CORPUS)) if _called(one)]
    for number in range(n_files):
        rank, thread = divmod(number, 4)
        path = folder / f"{file_name('bench', rank, thread, 0x7F, 1000 + rank, 0)}.hpcrun"
        if path.is_file():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        original = originals[number % len(originals)]
        identifiers: tuple[Identifier, ...] = ((NODE, 0x7F, 0, 1), (RANK, rank, rank, 3), (THREAD, thread, thread, 3))
        path.write_bytes(measurement_bytes(replace(original, identifiers=identifiers)))
        chance = np.random.default_rng(number)
        time = BEGIN_NS + np.cumsum(chance.integers(1, 2_000_000, n_samples))
        write_trace(path.with_suffix(".hpctrace"), 0, time, chance.choice(_called(original), n_samples))
    return folder


def _called(measurement: Measurement) -> list[int]:
    """Nodes with an address; the others are entries, and idle."""
    [epoch] = measurement.epochs
    found: list[int] = epoch.nodes.id[epoch.nodes.lm > 0].tolist()
    return found


def deep(folder: Path, n_files: int, n_nodes: int) -> Path:
    """Files whose trees have hardly a node in common; what is there already is kept."""
    for rank in range(n_files):
        path = folder / f"{file_name('bench', rank, 0, 0x7F, 1000 + rank, 0)}.hpcrun"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(measurement_bytes(_deep(n_nodes, rank)))
    return folder


def _deep(n_nodes: int, rank: int) -> Measurement:
    chance = np.random.default_rng(rank)
    table = np.zeros(n_nodes, rec.NODE_04)
    number = np.arange(2, n_nodes)
    table["id"] = 2 * np.arange(n_nodes) + 12
    anywhere = np.maximum(1, (chance.random(len(number)) * number).astype(np.int64))
    above = np.where(chance.random(len(number)) < CHAIN, number - 1, anywhere)
    table["parent"][1], table["parent"][2:] = table["id"][0], table["id"][above]
    table["lm"][2:] = chance.integers(1, N_MODULES, len(number))
    table["ip"][:2] = [code_number(ROOT_CODE), code_number(ENTRIES["main thread"])]
    table["ip"][2:] = chance.integers(0, 1 << 16, len(number))
    table["flags"] = rec.UNWOUND
    owner = np.arange(3, n_nodes, 2)
    first = np.arange(len(owner), dtype=np.uint64)
    raw = chance.random(len(owner)).view(np.uint64)
    values = SparseValues(raw, np.zeros(len(owner), np.uint16), table["id"][owner].astype(np.uint32), first)
    metric = MetricDescription("CPUTIME (sec)", "time", 1, 0, 2, 0, 0, 1, 1, 1, "", "", 0, 0, 0.0, 0)
    modules = tuple(Module(k, f"/lib/lib{k}.so", 1) for k in range(1, N_MODULES))
    epoch = Epoch(None, (metric,), modules, nodes_of(table, Path("made up"), 0), values, SparsePlace(0, 0, 0))
    identifiers: tuple[Identifier, ...] = ((NODE, 0x7F, 0, 1), (RANK, rank, rank, 3))
    header = Header("04.00", (("program-name", "bench"),))
    return Measurement(header, "", (epoch,), identifiers, ((NODE, "NODE"), (RANK, "RANK")))


def files_of(folder: Path) -> Iterator[tuple[Path, Path | None]]:
    """Measurement files with their traces."""
    for path in measurement_files(folder):
        trace = path.with_suffix(".hpctrace")
        yield path, trace if trace.is_file() else None
