"""Writes released HPCToolkit databases: meta.db, profile.db, cct.db [, trace.db], metrics/default.yaml [, src/].

Specification: hpctoolkit-databases.md B.9. `database_writer` streams values and samples; here is what this generation
makes of contexts, metrics and tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.formats.hpctoolkit import release_records as rec
from callgrove.formats.hpctoolkit.columns_writer import columns_text
from callgrove.formats.hpctoolkit.database_writer import Written
from callgrove.formats.hpctoolkit.losses import DESCRIPTION
from callgrove.formats.hpctoolkit.meta_db_writer import write_meta_db
from callgrove.formats.hpctoolkit.metric_plan import MetricPlan, Slots
from callgrove.formats.hpctoolkit.release_losses import losses_of
from callgrove.formats.hpctoolkit.release_parts import ReleasedContexts, ReleasedProfiles, ReleasedTraces
from callgrove.formats.hpctoolkit.release_plan import SCOPES_IN_ORDER, FileTree
from callgrove.formats.hpctoolkit.release_words import COLUMNS_FILE
from callgrove.formats.hpctoolkit.statistics import SUM, LexicalLoops
from callgrove.model.arrays import Ids, Ints
from callgrove.model.experiment import Experiment

__all__ = ["RELEASED_SLOTS", "Released"]

MOST_ID_NAMES = 0xFF
RELEASED_SLOTS = Slots(SCOPES_IN_ORDER)


class Released:
    """One experiment as a released database."""

    always_traces = False
    sample = rec.SAMPLE

    def __init__(self, tables: Experiment) -> None:
        self._tables = tables
        self.tree = FileTree.of(tables.contexts)
        self.plan = MetricPlan.of(tables.metrics, RELEASED_SLOTS, not len(tables.profiles.aggregates))
        self.n_ids = self.tree.n_ids
        self._sampled = np.zeros(self.n_ids, np.bool_)

    def losses(self) -> Iterator[str]:
        return losses_of(self._tables, self.tree, self.plan)

    def lexical_loops(self) -> LexicalLoops | None:
        lexical, by_thread = self.plan.lexical_of_function, set(self.plan.statistics) != {SUM}
        if not lexical or not self.tree.loop_ids.any():
            return None
        return LexicalLoops(self.tree.loop_ids, self.tree.loop_around_ids, lexical, by_thread)

    def profiles_file(self) -> ReleasedProfiles:
        return ReleasedProfiles(self._tables.profiles.identifiers, self._tables.profiles.measured)

    def contexts_file(self) -> ReleasedContexts:
        return ReleasedContexts(self.n_ids)

    def traces_file(self) -> ReleasedTraces:
        return ReleasedTraces(len(self._tables.profiles.measured))

    @property
    def ids_of_samples(self) -> Ints:
        return self.tree.sample_ids

    def sample_ids(self, contexts: Ids) -> Ints:
        ids: Ints = self.tree.sample_ids[contexts]
        self._sampled[ids] = True
        return ids

    def write_tables(self, folder: Path, written: Written) -> Iterator[str]:
        tables = self._tables
        names = tables.profiles.identifiers.names[:MOST_ID_NAMES]
        description = tables.attributes.get(DESCRIPTION, "")
        write_meta_db(folder / "meta.db", tables.title, description, names, self.plan, self.tree, written.copies)
        text, lost = columns_text(self.plan, tables.metrics)
        if lost:
            yield f"columns over what the database does not hold: {len(lost)}, the first is {lost[0]}"
        path = folder / COLUMNS_FILE
        path.parent.mkdir()
        path.write_bytes(text.encode())
        if n_nowhere := self._nowhere(written.n_per_context):
            yield f"samples on {n_nowhere} contexts without place in the tree and values: they read as idle"

    def _nowhere(self, n_per_context: Ints) -> int:
        """How many contexts have samples, but neither a place in the tree nor values: nothing keeps their id."""
        known = n_per_context > 0
        known[self.tree.id[:-1][self.tree.listed]] = known[0] = True
        return int((self._sampled & ~known).sum())
