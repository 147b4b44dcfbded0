"""What `check` notes of any input that no checksum tells: names and numbers that a measurement hardly has.

names         control characters, and bytes that are not text
values        no number at all; sizes that no counter or clock has; one that dwarfs all others; few negative ones among
              many that are not
sums          an inclusive cost that is less than that of what it includes
repetitions   in a study: one far from the others of its point, and one more than at any other point
files         in a folder: links that lead out of it or nowhere; pipes, sockets, devices

All of these are notes: a genuine tool may have written them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Floats
from callgrove.binary.files import walk_folder
from callgrove.errors import UsageError, count_of
from callgrove.formats.interface import Problem
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.study.series import Study

__all__ = ["find_implausible", "find_odd_entries"]

STRANGE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd\ud800-\udfff]")
NOT_TEXT = re.compile(r"\\x[89a-f][0-9a-f]")  # how readers write a byte that is not UTF-8
LEAST, MOST = 1e-100, 1e100  # sizes of values
DWARFS = 1000.0  # times all other values together
ENOUGH = 10  # values to compare one with
FEW = 20  # one negative value in so many is strange; in differences they are usual
TOLERANCE = 1e-6


def find_implausible(opened: Experiment | Study) -> Iterator[Problem]:
    """Yield a note for every kind of strange name and for every metric with strange values."""
    yield from _look_at_study(opened) if isinstance(opened, Study) else _look_at_experiment(opened)


def _look_at_experiment(experiment: Experiment) -> Iterator[Problem]:
    regions = experiment.contexts.regions
    names = {
        "names": regions.strings,
        "files": regions.files.paths,
        "modules": regions.modules,
        "metrics": tuple(metric.name for metric in experiment.metrics.rows),
        "places": (*experiment.system.name, *experiment.profiles.name),
    }
    yield from _look_at_names(names, experiment.path)
    statistics = [_Values() for _ in experiment.metrics.rows]
    for block in experiment.values.blocks():
        part = block.triples()
        if part.value.dtype.names is None:
            for row in np.unique(part.metric).tolist():
                statistics[row].add(part.value[part.metric == row])
    for row, metric in enumerate(experiment.metrics.rows):
        if metric.derivation is None and metric.composite is None:
            for text in (*statistics[row].tell(), *_look_at_sums(experiment, row, metric)):
                yield Problem(Severity.NOTE, experiment.path, f"values of {metric.name}", text)


def _look_at_names(names: Mapping[str, Sequence[str]], path: str) -> Iterator[Problem]:
    for what, texts in names.items():
        strange = [text for text in texts if _is_strange(text)]
        if strange:
            text = f"{len(strange)} of {len(texts)} have characters that names do not have, such as {strange[0][:60]!r}"
            yield Problem(Severity.NOTE, path, what, text)


def _is_strange(text: str) -> bool:
    if STRANGE.search(text):
        return True
    if "\\x" not in text or NOT_TEXT.search(text) is None:
        return False
    return "\\" not in NOT_TEXT.sub("", text)  # else it is a path of Windows


class _Values:
    """What is strange about the values of one metric, added up block by block."""

    def __init__(self) -> None:
        self.n = self.n_missing = self.n_negative = self.n_strange = 0
        self.largest = self.total = 0.0

    def add(self, values: Array) -> None:
        with np.errstate(all="ignore"):
            numbers = values.astype(np.float64)
            sizes = np.abs(numbers[np.isfinite(numbers)])
            self.n += len(numbers)
            self.n_missing += int(np.isnan(numbers).sum())
            self.n_negative += int((numbers < 0).sum())
            self.n_strange += int((((sizes < LEAST) & (sizes > 0)) | (sizes > MOST)).sum())
            self.largest = max(self.largest, float(sizes.max(initial=0.0)))
            self.total += float(sizes.sum())

    def tell(self) -> Iterator[str]:
        if self.n_missing:
            yield f"{self.n_missing} of {self.n} are not numbers"
        if self.n_strange:
            yield f"{self.n_strange} of {self.n} have a size that nothing measured has"
        elif self.n > ENOUGH and self.largest > DWARFS * (self.total - self.largest) and self.largest < self.total:
            yield f"one of {self.n} is {DWARFS:.0f} times larger than all others together"
        if 0 < self.n_negative * FEW <= self.n:
            yield f"{self.n_negative} of {self.n} are negative"


def _look_at_sums(experiment: Experiment, row: int, metric: Metric) -> Iterator[str]:
    """Yield how many contexts cost less than what they contain, where inclusive costs are stored."""
    if metric.scope != Scope.INCLUSIVE or metric.aggregation != Aggregation.SUM or metric.statistic:
        return
    tree = experiment.contexts
    try:
        totals: Floats = experiment.values.totals(row)[: tree.n_listed].astype(np.float64)
    except UsageError:
        return
    parent = tree.parent[: tree.n_listed]
    if not np.isfinite(totals).all() or (totals < 0).any():
        return  # differences, and what is told already
    below = np.zeros(tree.n_listed)
    inside = parent != ABSENT
    np.add.at(below, parent[inside], totals[inside])
    if n := int((below > totals * (1 + TOLERANCE) + LEAST).sum()):
        yield count_of(n, "context costs less than what it contains", "contexts cost less than what they contain")


# -- studies -----------------------------------------------------------------------------------------------------------


FEWEST = 3  # repetitions of which one can be far from the others
SCATTERS = 30.0  # times as far as those of any other point
FAR = 0.5  # of the median


def _look_at_study(study: Study) -> Iterator[Problem]:
    names = {"callpaths": study.callpaths, "metrics": study.metrics, "parameters": study.parameters}
    yield from _look_at_names(names, study.path)
    order = np.argsort(study.series_metric, kind="stable")
    bounds = np.searchsorted(study.series_metric[order], np.arange(len(study.metrics) + 1)).tolist()
    for number, metric in enumerate(study.metrics):
        rows = order[bounds[number] : bounds[number + 1]]
        cells = study.present[rows]
        statistics, counts = _Values(), study.repetitions[rows][cells]
        statistics.add(study.mean[rows][cells])
        for text in (*statistics.tell(), *_look_at_repetitions(study, rows, cells), *_look_at_counts(counts)):
            yield Problem(Severity.NOTE, study.path, f"values of {metric}", text)


def _look_at_repetitions(study: Study, rows: Array, cells: Array) -> Iterator[str]:
    """Yield where one measurement has a repetition that is off by much, and no other by anything near it."""
    median, low, high, count = (
        values[rows][cells] for values in (study.median, study.minimum, study.maximum, study.repetitions)
    )
    with np.errstate(all="ignore"):
        ratio = np.maximum(high - median, median - low) / np.abs(median)
    ratio = np.sort(ratio[(count >= FEWEST) & (median != 0) & np.isfinite(ratio)])
    if len(ratio) >= ENOUGH and ratio[-1] > FAR and ratio[-1] > SCATTERS * ratio[-2]:
        yield f"one of {len(ratio)} measurements has a repetition far from its others, and no other one has"


def _look_at_counts(counts: Array) -> Iterator[str]:
    """Yield where one measurement has one repetition more than all others, which have the same number."""
    if len(counts) > ENOUGH and int(counts.min()) > 1:
        usual, *more = np.unique(counts).tolist()
        if more == [usual + 1] and int((counts == more[0]).sum()) == 1:
            yield f"one of {len(counts)} measurements has {more[0]} repetitions, all others {usual}"


# -- folders -----------------------------------------------------------------------------------------------------------


MOST_ENTRIES = 1_000_000
MOST_TOLD = 20


def find_odd_entries(path: Path) -> Iterator[Problem]:
    """Yield what a folder holds beside files and folders: links that lead out of it, whose files are read as if they
    lay there, links that lead nowhere, and pipes, sockets and devices, which are not read."""
    if not path.is_dir():
        return
    root = Path(os.path.realpath(path))
    told = (
        Problem(Severity.NOTE, entry.path, "files", text)
        for entry in islice(walk_folder(path), MOST_ENTRIES)
        if (text := _describe_oddity(entry, root))
    )
    yield from islice(told, MOST_TOLD)


def _describe_oddity(entry: os.DirEntry[str], root: Path) -> str:
    try:
        if not (entry.is_dir() or entry.is_file()):
            is_lost = entry.is_symlink() and not Path(entry.path).exists()
            return "a link that leads nowhere" if is_lost else "a pipe, a socket or a device; it is not read"
        if entry.is_symlink() and not (real := Path(os.path.realpath(entry.path))).is_relative_to(root):
            return f"a link that leads out of the folder, to {str(real)!r}"
    except (OSError, RuntimeError):  # links that go round in circles
        return "a link that leads nowhere"
    return ""
