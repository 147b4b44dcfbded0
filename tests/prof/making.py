"""Databases and experiments made from measurements, for tests."""

from __future__ import annotations

from pathlib import Path

from callgrove.execute import Engine, executor
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.prof.conversion import Request, prepare, survey_of
from callgrove.prof.experiment import Attribution
from callgrove.prof.nodes import Flavour
from callgrove.prof.survey import Inputs
from tests.formats.hpcrun.hpcrun_bytes import ROOT, File04, code

MAIN, PARTIAL, IDLE, UNKNOWN = (code(text) for text in ("| Main  ", "^Partial", "NoActvty", "*Unnorm "))
Node = tuple[int, int, int, int, int]

STRUCTURE = """<?xml version="1.0"?>
<!DOCTYPE HPCToolkitStructure [
<!ELEMENT HPCToolkitStructure (LM)*>
]>
<HPCToolkitStructure i="0" version="4.9" n="">
{modules}
</HPCToolkitStructure>
"""


def opened(path: Path) -> Experiment:
    """A database that was written."""
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


def experiment_of(
    *paths: Path,
    flavour: Flavour | None = None,
    attribution: Attribution | None = None,
    inputs: Inputs | None = None,
) -> Experiment:
    """Measurements as an experiment, without a database."""
    request = Request(
        inputs or Inputs(paths, is_foreign=True),
        attribution or Attribution(),
        flavour or Flavour(),
        wants_traces=True,
    )
    with executor(Engine(1)) as workers:
        return prepare(request, survey_of(request, workers)).experiment


def nodes(*below_root: Node) -> tuple[Node, ...]:
    """A tree with the usual root, whose id is 12."""
    return (ROOT, *below_root)


def put(folder: Path, content: bytes, rank: int = 0, thread: int = 0) -> Path:
    """A measurement file with a name as hpcrun gives it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"app-{rank:06d}-{thread:03d}-0000007f-42-0.hpcrun"
    path.write_bytes(content)
    return path


def measured(folder: Path, file: File04, rank: int = 0, thread: int = 0) -> Path:
    """The same with a tuple of this rank and thread."""
    identifiers = ((1, 0x7F, 0, 1), (2, rank, rank, 3), (3, thread, thread, 3))
    return put(folder, file.changed(identifiers=identifiers), rank, thread)


def structure(folder: Path, name: str, modules: str) -> Path:
    """A structure file of a measurement directory."""
    path = folder / "structs" / f"{name}.hpcstruct"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STRUCTURE.format(modules=modules))
    return path
