"""Specifications of metrics: `remapping.spec`, which Score-P puts into its files, or any file of that form.

    doc > mirrors > murl*
    metrics > metric*        as in an anchor, nested, without ids; some with CubePL, some to be taken from the profile

Score-P's has about 110 metrics: time divided by what call paths do, bytes transferred, file operations, imbalance.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from callgrove.binary.xml import readable
from callgrove.errors import CorruptFile, InputError
from callgrove.formats.cube.anchor import RawMetric, read_specification
from callgrove.formats.cube.tables import is_void, metric_of, type_of
from callgrove.formats.cube.vocabulary import DERIVED, MIRRORS
from callgrove.model.cubepl import Definition, Specification
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric

__all__ = ["EMBEDDED", "find_specification", "parse_specification"]

EMBEDDED = "remapping.spec"
LARGEST = 1 << 26  # bytes; Score-P's has 111 kB


def find_specification(experiment: Experiment, given: str | Path | None = None) -> Specification | None:
    """Return the specification in a file, or the one that an experiment carries; None where it has none."""
    if given:
        with readable(Path(given)) as file:
            return parse_specification(Path(given), "specification", file.read(LARGEST + 1))
    attachment = experiment.attachments.get(EMBEDDED)
    return None if attachment is None else parse_specification(Path(experiment.path), EMBEDDED, attachment.read())


def parse_specification(path: Path, name: str, text: bytes) -> Specification:
    """Return the metrics of a specification; `name` is that of the member or file at `path`, for errors."""
    if len(text) > LARGEST:
        raise InputError(f"{path}: {name}: has more than {LARGEST >> 20} MiB, which is not a specification of metrics")
    said = read_specification(path, name, text)
    known: dict[str, Definition] = {}
    for raw in said.metrics:
        row = metric_of(raw)
        _check(path, name, raw, row, known)
        kind = type_of(raw) if type_of(raw) in DERIVED else ""
        known[row.name] = Definition(row, kind, raw.texts.get("cubeplinit", ""), tuple(raw.rules), is_void(raw))
    mirrors = {MIRRORS: "\n".join(said.mirrors)} if said.mirrors else {}
    return Specification(f"{path}: {name}", tuple(known.values()), mirrors)


def _check(path: Path, name: str, raw: RawMetric, row: Metric, known: Container[str]) -> None:
    """Raise where a metric has no name, that of another, or should have a formula and has none."""
    kind = type_of(raw)
    if not raw.texts.get("uniq_name", "").strip():
        expected, found = "a metric with a unique name", "one without"
    elif row.name in known:
        expected, found = "every unique name once", f"a second {row.name!r}"
    elif kind in DERIVED and not row.formula.strip():
        expected, found = f"a formula of {row.name}, which is {kind}", "none"
    else:
        return
    raise CorruptFile(path, name, line=raw.line, expected=expected, found=found)
