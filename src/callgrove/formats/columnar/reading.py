"""A folder as an experiment. Tables are read now; values, samples, spans, counters and attachments when asked for.

The tables were made by the builder once and come back as they are, so it is not asked again: the same invariants are
checked instead. Contexts, regions, profiles, places, runs and metrics must be whole; everything else may be missing or
broken, and is then left out with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from callgrove.arrays import Ids
from callgrove.errors import CorruptFile
from callgrove.formats.columnar.attributes import Attributes
from callgrove.formats.columnar.folder import Folder, Manifest, StoredTable, warnings_from
from callgrove.formats.columnar.metric_tables import read_metrics
from callgrove.formats.columnar.place_tables import read_profiles, read_runs, read_system
from callgrove.formats.columnar.program_tables import read_contexts
from callgrove.formats.columnar.row_groups import TableIndex
from callgrove.formats.columnar.samples import read_samples
from callgrove.formats.columnar.schema import EXPERIMENT, FORMAT_NAME, FORMAT_VERSION, MANIFEST, SOURCES
from callgrove.formats.columnar.span_tables import read_beside
from callgrove.formats.columnar.spans import read_counters, read_spans, split_of
from callgrove.formats.columnar.values import read_values
from callgrove.model.experiment import Attachment, Experiment, Sources, problems_of_experiment
from callgrove.model.metrics import Metrics
from callgrove.model.profiles import Profiles
from callgrove.model.traces.events import Traces, Window
from callgrove.model.values import Values

__all__ = ["origin_of", "read_experiment", "version_text"]

Index = Callable[[StoredTable], TableIndex | None]


def version_text(manifest: Manifest) -> str:
    """Return the version of a folder, with what it was made from: `1.1 (hpctoolkit-release 4.0)`."""
    made_from = " ".join(filter(None, manifest.origin))
    version = f"{FORMAT_VERSION}.{manifest.minor}"
    return f"{version} ({made_from})" if made_from else version


def origin_of(format_: str, version: str) -> tuple[str, str]:
    """Return what an experiment was made from, also where it was a folder before."""
    if format_ != FORMAT_NAME:
        return format_, version
    match = re.fullmatch(r"\d+\.\d+ \((\S*) ?(.*)\)", version, re.DOTALL)
    return (match[1], match[2]) if match else ("", "")


def read_experiment(path: Path, manifest: Manifest) -> Experiment:
    folder = Folder(path, manifest, EXPERIMENT)
    attributes = folder.or_warn(lambda: Attributes.read(folder), Attributes({}))
    metrics = read_metrics(folder, attributes)
    system = read_system(folder, attributes)
    runs = read_runs(folder, attributes)
    profiles, part = read_profiles(folder, attributes, len(runs), len(system))
    contexts = read_contexts(folder, attributes)
    lost: Index = lambda table: None  # noqa: E731
    index = folder.or_warn(lambda: TableIndex.read_all(folder), lost)
    values = read_values(folder, profiles, len(contexts), metrics, index)
    experiment = Experiment(
        title=manifest.title,
        format=FORMAT_NAME,
        version=version_text(manifest),
        runs=runs,
        profiles=profiles,
        system=system,
        contexts=contexts,
        metrics=metrics,
        values=Values(values, metrics, profiles, len(contexts)),
        traces=_traces(folder, profiles, part, len(contexts), metrics, index),
        sources=Sources(path / SOURCES, contexts.regions.files.copied),
        attributes=dict(attributes.of("experiment")),
        attachments=folder.or_warn(lambda: _attachments(folder), {}),
        warnings=(*warnings_from(manifest, path), *folder.warnings),
        path=str(path),
    )
    if problems := problems_of_experiment(experiment, []):
        raise CorruptFile(path, "tables", expected="an experiment without contradictions", found=problems[0])
    return experiment


def _traces(folder: Folder, profiles: Profiles, part: Ids, n_contexts: int, metrics: Metrics, index: Index) -> Traces:
    n = len(profiles)
    samples = folder.or_warn(lambda: read_samples(folder, n, n_contexts, len(metrics)), None)
    spans = folder.or_warn(lambda: read_spans(folder, part, n_contexts, index), None)
    counters = partial(read_counters, folder, n) if folder.has("counters") else None
    splits = spans is not None and folder.manifest.more.get("splits") is True
    split = split_of(spans, counters) if spans is not None and splits else None
    sizes = spans.part_sizes() if spans is not None and splits else ()
    return Traces(samples, spans, counters, _time_range(folder), split, read_beside(folder), sizes)


def _time_range(folder: Folder) -> Window | None:
    stored = folder.manifest.more.get("time_range")
    if stored is None:
        return None
    if not (isinstance(stored, list) and len(stored) == 2 and all(type(one) is int for one in stored)):
        raise CorruptFile(folder.path / MANIFEST, "time_range", expected="two times", found=repr(stored)[:60])
    return stored[0], stored[1]


@dataclass(frozen=True)
class StoredAttachment:
    """An attachment whose bytes are in a row group of its own."""

    table: StoredTable
    row: int

    def read(self) -> bytes:
        group = self.table.groups_of(self.row, self.row + 1)[0]
        data: bytes = self.table.group(group, ("data",)).cells("data")[self.row - int(self.table.first_rows[group])]
        return data


def _attachments(folder: Folder) -> dict[str, Attachment]:
    table = folder.table("attachments")
    groups = [table.group(number, ("name",)) for number in range(table.n_groups)]
    names = [name for group in groups for name in group.names("name")]
    return {name: StoredAttachment(table, row) for row, name in enumerate(names)}
