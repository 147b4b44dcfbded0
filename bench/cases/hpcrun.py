"""Measurement files: all records of a large one against `np.fromfile`, and opening folders of more and more files."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from bench.conditions import Conditions, opened
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.arrays import Array
from callgrove.formats.hpcrun import primitives as rec
from callgrove.formats.hpcrun.files import measurement_bytes, read_measurement
from callgrove.formats.hpcrun.measurement import Epoch, Measurement, SparsePlace, SparseValues, nodes_of
from callgrove.formats.hpcrun.primitives import Header, MetricDescription, Module
from callgrove.formats.hpcrun.regions import ROOT, code_number

__all__ = ["make_file", "make_folder", "run"]

N_NODES = 400_000  # with N_METRICS values for every second one: 104 MB
N_METRICS = 48
N_FILES = 1024
N_NODES_OF_MANY = 300
LINEAR = 1.5  # at most, between the smallest scale and the largest: noise has its part


def make_file(path: Path, n_nodes: int, n_metrics: int, rank: int = 0, seed: int = 1) -> Path:
    """A file with a random tree; one that is there already is kept."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(measurement_bytes(_measurement(n_nodes, n_metrics, rank, np.random.default_rng(seed))))
    return path


def _measurement(n_nodes: int, n_metrics: int, rank: int, chance: np.random.Generator) -> Measurement:
    """Every second node has a value of every metric. Trees of one seed are the same."""
    table = np.zeros(n_nodes, rec.NODE_04)
    table["id"] = 2 * np.arange(n_nodes) + 12
    table["parent"][1:] = table["id"][(chance.random(n_nodes - 1) * np.arange(1, n_nodes)).astype(np.int64)]
    table["lm"][1:] = chance.integers(1, 20, n_nodes - 1)
    table["ip"][1:] = chance.integers(0, 1 << 22, n_nodes - 1)
    table["ip"][0] = code_number(ROOT)
    table["flags"] = rec.UNWOUND
    owners = np.arange(1, n_nodes, 2)
    raw = np.random.default_rng(rank).random(len(owners) * n_metrics).view(np.uint64)
    metric = np.tile(np.arange(n_metrics, dtype=np.uint16), len(owners))
    first = np.arange(len(owners), dtype=np.uint64) * np.uint64(n_metrics)
    values = SparseValues(raw, metric, table["id"][owners].astype(np.uint32), first)
    described = tuple(
        MetricDescription(f"METRIC {k} (sec)", "", 1, 0, 2, 0, 0, 1, 1, 1, "", "", 0, 0, 0.0, 0)
        for k in range(n_metrics)
    )
    modules = tuple(Module(k, f"/lib/lib{k}.so", 1) for k in range(1, 20))
    nodes = nodes_of(table, Path("made up"), 0)
    header = Header("04.00", (("program-name", "bench"), ("process-id", "1")))
    epoch = Epoch(None, described, modules, nodes, values, SparsePlace(0, 0, 0))
    return Measurement(header, "", (epoch,), ((1, 1, 0, 1), (2, rank, rank, 3)), ((1, "NODE"), (2, "RANK")))


def make_folder(folder: Path, n_files: int) -> Path:
    """Files of one program; ranks differ in a quarter of their trees' shapes."""
    for rank in range(n_files):
        name = f"bench-{rank:06d}-000-00000001-1-0.hpcrun"
        make_file(folder / name, N_NODES_OF_MANY, 2, rank, seed=rank % 4)
    return folder


def floor(path: Path) -> list[Array]:
    """Nodes, values and index as native columns; where they lie is read from the footer, and nothing is checked."""
    size = path.stat().st_size
    sections = np.fromfile(path, rec.FOOTER, offset=size - rec.FOOTER.itemsize)[0]["sections"].astype(np.int64)
    (cct, cct_end), (sparse, sparse_end) = sections[2], sections[5]
    n_identifiers = int(np.fromfile(path, ">u2", 1, offset=sparse)[0])
    at = int(sparse) + 2 + n_identifiers * rec.IDENTIFIER.itemsize
    n_values = int(np.fromfile(path, ">u8", 1, offset=at)[0])
    values_at = at + 8 + 4
    index_at = values_at + n_values * rec.VALUE.itemsize
    tables = (
        np.fromfile(path, rec.NODE_04, int(cct_end - cct - 8) // rec.NODE_04.itemsize, offset=int(cct) + 8),
        np.fromfile(path, rec.VALUE, n_values, offset=values_at),
        np.fromfile(path, rec.INDEX, int(sparse_end - index_at) // rec.INDEX.itemsize, offset=index_at),
    )
    columns = [table[name] for table in tables for name in table.dtype.names or ()]
    return [column.astype(column.dtype.newbyteorder("=")) for column in columns]


def decoded(path: Path) -> list[Array]:
    """The same through the package, with all that it verifies."""
    [epoch] = read_measurement(path).epochs
    nodes, values = epoch.nodes, epoch.values
    assert isinstance(values, SparseValues)
    assert nodes.flags is not None
    tree: list[Array] = [nodes.id, nodes.parent, nodes.lm, nodes.ip, nodes.flags]
    return [*tree, values.raw, values.metric, values.node_id, values.first]


def columns_from_open(path: Path) -> Work:
    """The values of an open experiment as four columns."""
    return opened(path).values.columns


def _later(work: Work) -> Work:
    return work


def run(conditions: Conditions) -> Iterator[Finding]:
    yield from _one_file(conditions)
    yield from _many_files(conditions)


def _one_file(conditions: Conditions) -> Iterator[Finding]:
    n_nodes = max(2, int(N_NODES * conditions.largest))
    path = make_file(conditions.folder / f"{n_nodes}.hpcrun", n_nodes, N_METRICS)
    ours, theirs = decoded(path), floor(path)
    theirs[-2:] = [column[:-1] for column in theirs[-2:]]  # the end of the index
    if not all(np.array_equal(have, want) for have, want in zip(ours, theirs, strict=True)):
        raise AssertionError(f"{path}: the columns are not what the file holds")
    works = {
        "floor": partial(_later, partial(floor, path)),
        "decoded": partial(_later, partial(decoded, path)),
        "columns": partial(columns_from_open, path),
        "all": partial(_later, partial(opened, path)),
    }
    best = best_seconds(works, conditions.n_repeats)
    note = f"{path.stat().st_size / 1e6:,.0f} MB, floor {best['floor'] * 1e3:,.0f} ms"
    yield Finding("hpcrun", "all records / np.fromfile", best["decoded"] / best["floor"], at_most=3, note=note)
    note = f"{opened(path).values.n_stored():,} values"
    yield Finding("hpcrun", "columns / np.fromfile", best["columns"] / best["floor"], at_most=3, note=note)
    note = f"{n_nodes:,} nodes become contexts"
    yield Finding("hpcrun", "open / np.fromfile", best["all"] / best["floor"], note=note)


def _many_files(conditions: Conditions) -> Iterator[Finding]:
    sizes = {scale: max(1, int(N_FILES * scale)) for scale in conditions.scales}
    folders = {scale: make_folder(conditions.folder / f"{n}.m", n) for scale, n in sizes.items()}
    works = {scale: partial(_later, partial(opened, folder)) for scale, folder in folders.items()}
    best = best_seconds(works, max(1, conditions.n_repeats // 3))
    smallest = min(sizes)

    def per_file(scale: Fraction) -> float:
        return best[scale] / sizes[scale]

    for scale in conditions.scales[1:]:
        note = f"{sizes[scale]:,} files in {best[scale] * 1e3:,.0f} ms"
        ratio = per_file(scale) / per_file(smallest)
        what = f"time per file, open, scale {scale} / {conditions.scales[0]}"
        yield Finding("hpcrun", what, ratio, at_most=LINEAR, note=note)
