"""What two opened databases say, for comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from callgrove.analysis.tables import TABLES, export
from callgrove.cli.main import main
from callgrove.model.experiment import Experiment
from tests.formats.hpctoolkit import by_source_id
from tests.formats.hpctoolkit.by_source_id import open_database
from tests.formats.hpctoolkit.databases import corpus

GENERATIONS = ("prerelease", "release")
DB_FILES = ("profile.db", "cct.db", "trace.db")
PARTS = {"prerelease": ("experiment.xml", *DB_FILES), "release": ("meta.db", *DB_FILES)}


def rows(experiment: Experiment, table: str = "values") -> list[tuple[Any, ...]]:
    """The rows of one table."""
    return [row for chunk in export(experiment, table) for row in chunk.rows()]


def by_ids(experiment: Experiment) -> list[tuple[int, int, int, float]]:
    """Values with the file's own context ids: which contexts are elided depends on what could be read."""
    ids = experiment.contexts.source_id
    return [(profile, int(ids[context]), metric, value) for profile, context, metric, value in rows(experiment)]


def tables(experiment: Experiment) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that can be exported."""
    return {name: rows(experiment, name) for name in TABLES if name != "series"}


def assert_same(path: Path, generation: str, name: str = "pth4.d") -> Experiment:
    """The database says what the original says, without a warning, and `check` is content."""
    found = open_database(path)
    assert found.warnings == ()
    assert tables(found) == tables(open_database(corpus(generation, name)))
    assert main(["check", str(path)]) == 0
    return found


def exported_values(experiment: Experiment) -> by_source_id.Values:
    metrics = [m.source_id for m in experiment.metrics]
    return {
        (int(experiment.profiles.source_id[p]), int(experiment.contexts.source_id[c]), metrics[m] or 0): value
        for p, c, m, value in tables(experiment)["values"]
    }
