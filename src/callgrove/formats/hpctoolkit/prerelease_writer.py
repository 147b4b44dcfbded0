"""Writes pre-release HPCToolkit databases: experiment.xml, profile.db, cct.db, trace.db [, src/].

Specification: hpctoolkit-databases.md A.8. `database_writer` streams values and samples; here is what this generation
makes of contexts, metrics and tables. experiment.xml is written last: it says when the trace begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from callgrove.formats.hpctoolkit import prerelease_records as rec
from callgrove.formats.hpctoolkit.database_writer import Written
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan, Slots
from callgrove.formats.hpctoolkit.metric_table_writer import metric_tables
from callgrove.formats.hpctoolkit.prerelease_losses import losses_of
from callgrove.formats.hpctoolkit.prerelease_parts import PrereleaseContexts, PrereleaseProfiles, PrereleaseTraces
from callgrove.formats.hpctoolkit.prerelease_plan import TagTree
from callgrove.formats.hpctoolkit.program_tables import UNKNOWN_FILE_ID, ProgramTables
from callgrove.formats.hpctoolkit.statistics import LexicalLoops
from callgrove.formats.hpctoolkit.tree_tags_writer import tree_text
from callgrove.formats.hpctoolkit.view_columns import view_columns
from callgrove.formats.hpctoolkit.xml_text import quoted
from callgrove.model.arrays import Ids, Ints
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.traces import Window

__all__ = ["PRERELEASE_SLOTS", "Prerelease"]

PRERELEASE_SLOTS = Slots((Scope.FUNCTION, Scope.INCLUSIVE), step=3)
TICKS = 1_000_000_000  # per second


class Prerelease:
    """One experiment as a pre-release database, in one of the dialects."""

    always_traces = True
    sample = rec.SAMPLE

    def __init__(self, tables: Experiment, dialect: str) -> None:
        self._tables, self._dialect = tables, dialect
        self.tree = TagTree.of(tables.contexts)
        self.plan = MetricPlan.of(tables.metrics, PRERELEASE_SLOTS, not len(tables.profiles.aggregates))
        self._adds_idle = False

    @property
    def n_ids(self) -> int:
        return max(self.tree.n_ids, self.tree.no_activity + 1 if self._adds_idle else 0)

    def losses(self) -> Iterator[str]:
        return losses_of(self._tables, self.tree, self.plan)

    def lexical_loops(self) -> LexicalLoops | None:
        return None

    def profiles_file(self) -> PrereleaseProfiles:
        return PrereleaseProfiles(self._dialect, self._tables.profiles.identifiers, self._tables.profiles.measured)

    def contexts_file(self) -> PrereleaseContexts:
        return PrereleaseContexts(self._dialect, self.n_ids)

    def traces_file(self) -> PrereleaseTraces:
        return PrereleaseTraces(self._dialect, len(self._tables.profiles.measured))

    @cached_property
    def ids_of_samples(self) -> Ints:
        return np.append(self.tree.id[: len(self._tables.contexts)], self.tree.no_activity)

    def sample_ids(self, contexts: Ids) -> Ints:
        self._adds_idle |= self.tree.idle_is_added and bool((contexts < 0).any())
        ids: Ints = self.ids_of_samples[contexts]
        return ids

    def write_tables(self, folder: Path, written: Written) -> Iterator[str]:
        columns, lost = view_columns(self.plan, self._tables.metrics, tells_statistics=True)
        if lost:
            yield f"columns over what the database does not hold: {len(lost)}, the first is {lost[0]}"
        tables = ProgramTables(self.tree, written.copies, self._adds_idle)
        with (folder / "experiment.xml").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(self._head())
            file.writelines(metric_tables(self.plan, columns))
            file.writelines(_trace_table(written.time_range))
            file.writelines(tables.text())
            file.write("<Info/>\n</SecHeader>\n<SecCallPathProfileData>\n")
            file.writelines(tree_text(self.tree, tables))
            file.writelines(self._idle(tables))
            file.write("</SecCallPathProfileData>\n</SecCallPathProfile>\n</HPCToolkitExperiment>\n")

    def _head(self) -> Iterator[str]:
        title = quoted(self._tables.title)
        yield '<?xml version="1.0"?>\n<HPCToolkitExperiment version="4.0">\n'
        yield f'<Header n={title}>\n<Info/>\n</Header>\n<SecCallPathProfile i="0" n={title}>\n<SecHeader>\n'
        yield "<IdentifierNameTable>\n"
        for number, name in enumerate(self._tables.profiles.identifiers.names):
            yield f'<Identifier i="{number}" n={quoted(name)}/>\n'
        yield "</IdentifierNameTable>\n"

    def _idle(self, tables: ProgramTables) -> Iterator[str]:
        """The context of idle samples, where the experiment has none itself."""
        if self._adds_idle:
            id_, number = self.tree.no_activity, tables.idle
            place = f'f="{UNKNOWN_FILE_ID}" l="0"'
            yield f'<PF i="{id_}" n="{number}" s="{number}" {place} lm="1">\n'
            yield f'<S i="-{id_}" s="{number}" v="0" {place} it="{id_}"/>\n</PF>\n'


def _trace_table(time_range: Window | None) -> Iterator[str]:
    yield "<TraceDBTable>\n"
    if time_range is not None:
        first, last = time_range
        yield f'<TraceDB i="0" db-min-time="{first}" db-max-time="{last}" u="{TICKS}"/>\n'
    yield "</TraceDBTable>\n"
