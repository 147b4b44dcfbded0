"""Which bytes `callgrove info` asks for, and what one profile or one context costs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

from bench.conditions import Conditions, opened
from bench.results import Finding
from bench.touched import watched
from callgrove.arrays import Ints
from callgrove.cli.main import main as callgrove
from callgrove.formats.hpctoolkit.values import DatabaseValues, SparseBlocks
from callgrove.model.experiment import Experiment

__all__ = ["run"]


def run(conditions: Conditions) -> Iterator[Finding]:
    """On the largest database."""
    folder = conditions.database(conditions.sparse_rows.with_profiles(conditions.largest))
    experiment = opened(folder)
    yield from _of_info(folder, experiment)
    yield from _of_access(experiment)


def _of_info(folder: Path, experiment: Experiment) -> Iterator[Finding]:
    by_profile, by_context = _blocks(experiment)
    with watched() as touched, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        if callgrove(["info", str(folder)]):
            raise AssertionError(f"callgrove info {folder} failed")
    threads, summaries = experiment.profiles.measured, experiment.profiles.summaries
    n_threads = int(touched.meets("profile.db", *_places(by_profile, threads)).sum())
    n_contexts = int(touched.meets("cct.db", *_places(by_context, np.arange(len(by_context)))).sum())
    yield Finding("info", "thread blocks of profile.db asked for", n_threads, "blocks", at_most=0)
    yield Finding("info", "context blocks of cct.db asked for", n_contexts, "blocks", at_most=0)
    tables = int(by_profile.values_at.min())  # they end where the first block begins
    summary = int(_size(by_profile)[summaries].sum())
    note = f"of {by_profile.file.size:,}: tables {tables:,}, summary {summary:,}"
    asked = touched.n_bytes("profile.db")
    yield Finding("info", "bytes of profile.db asked for", asked, "bytes", at_most=tables + summary, note=note)


def _of_access(experiment: Experiment) -> Iterator[Finding]:
    """Bytes asked for, against the size of the block that holds the answer."""
    by_profile, by_context = _blocks(experiment)
    profile = int(experiment.profiles.measured[-1])
    context = int(np.argmax(by_context.n_values[experiment.contexts.source_id]))
    id_ = int(experiment.contexts.source_id[context])
    with watched() as touched:
        experiment.values.profile(profile)
    ratio = touched.n_bytes("profile.db") / int(_size(by_profile)[profile])
    yield Finding("info", "one profile: bytes asked for / its block", ratio, at_most=1)
    with watched() as touched:
        experiment.values.context(context)
    ratio = touched.n_bytes("cct.db") / int(_size(by_context)[id_])
    yield Finding("info", "one context: bytes asked for / its block", ratio, at_most=1)
    elsewhere = touched.n_bytes("profile.db")
    yield Finding("info", "one context: bytes of profile.db asked for", elsewhere, "bytes", at_most=0)


def _blocks(experiment: Experiment) -> tuple[SparseBlocks, SparseBlocks]:
    backend = experiment.values.backend
    assert isinstance(backend, DatabaseValues)
    assert backend.by_profile is not None
    assert backend.by_context is not None
    return backend.by_profile, backend.by_context


def _size(blocks: SparseBlocks) -> Ints:
    """Bytes of values and index of each block."""
    values = blocks.n_values.astype(np.int64) * blocks.layout.value.itemsize
    return values + blocks.n_index.astype(np.int64) * blocks.layout.index.itemsize


def _places(blocks: SparseBlocks, numbers: Ints) -> tuple[Ints, Ints]:
    """Where these blocks begin and end: the values, and the index behind them."""
    start, index_at = blocks.values_at[numbers].astype(np.int64), blocks.index_at[numbers].astype(np.int64)
    index = blocks.n_index[numbers].astype(np.int64) * blocks.layout.index.itemsize
    return start, np.where(index > 0, index_at + index, start)
