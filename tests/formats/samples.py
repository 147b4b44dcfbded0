"""The sample files that every format's contract is tested on.

The corpus is part of the project and always there. `../shared/data` is larger and may be absent: what the registry
recognises in it is added. The databases of the corpus are copies from there and are not tested twice.
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from callgrove.binary.files import Source
from callgrove.errors import CallgroveError
from callgrove.examples import example, study_example
from callgrove.formats.columnar.format import FORMAT as COLUMNAR
from callgrove.formats.gpu.draft.writer import DraftWriter
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import FORMATS, detect, open_path
from callgrove.formats.writing.transfer import transfer, write_experiment
from callgrove.model.experiment import Experiment
from tests.formats.gpu.gpu_databases import Run, write_nsight, write_rocpd, write_rpd
from tests.formats.gpu.rocpd4_databases import write_rocpd4
from tests.requirements import ROOT, SHARED

CORPUS = ROOT / "tests" / "corpus"
LARGEST_SET = 4_000_000  # bytes
COPIED = {  # folder of the corpus -> where it was copied from
    "hpctoolkit/release": "own/hpctoolkit-release",
    "hpctoolkit/prerelease": "own/hpctoolkit-prerelease",
    "hpctrace/04.00": "own/hpcrun-04.00/mpi4.m",
    "hpctrace/02.00": "own/hpcrun-02.00/2018.09/pth4.m",
    "hpcrun/2016.12": "own/hpcrun-02.00/2016.12",
    "hpcrun/2018.09": "own/hpcrun-02.00/2018.09",
    "hpcrun/04.00": "own/hpcrun-04.00",
}
PARTS_OF_MEASUREMENTS = (".hpctrace", ".hpcstruct")  # tests of their own read all of these
SERIES = ("own/scaling/runs", "public/extrap/cubeset")  # many runs of few programs: one run of each is enough

# One public file of each of Extra-P's formats; test_extrap_reference.py compares all of them with what Extra-P reads.
OF_EXTRA_P = {
    "text/one_parameter_2.txt",
    "talpas/talpas_6.txt",
    "json/input_4.JSON",
    "json/new/input2.json",
    "jsonlines/extended1.jsonl",
    "experiments/two_parameter3.txt.extra-p",
    "input/experiment_3",
}


@dataclass(frozen=True)
class Sample:
    """One input and the format that its bytes are in. A part is what is left of a sample when the rest is missing.
    Names of public samples stay out of our snapshots."""

    name: str
    path: Path
    format: str
    public: bool = False
    part: bool = False

    def __str__(self) -> str:
        return self.name


def databases(generation: str) -> list[Path]:
    """The corpus databases of one generation of HPCToolkit: `release`, `prerelease` or `legacy`."""
    return sorted((CORPUS / "hpctoolkit" / generation).glob("*.d"))


def _of_the_corpus() -> Iterator[Sample]:
    for generation in ("prerelease", "release"):
        for path in databases(generation):
            yield Sample(f"hpctoolkit/{generation}/{path.name}", path, f"hpctoolkit-{generation}")
        whole = CORPUS / "hpctoolkit" / generation / "pth4.d"
        for part in sorted(p for p in whole.iterdir() if p.suffix in (".db", ".xml")):
            yield Sample(f"hpctoolkit/{generation}/alone-{part.name}", part, f"hpctoolkit-{generation}", part=True)
    for path in sorted((CORPUS / "hpctrace").rglob("*.hpctrace")):
        yield Sample(path.relative_to(CORPUS).as_posix(), path, "hpctrace")
    for path in sorted((CORPUS / "hpcstruct").iterdir()):
        yield Sample(path.relative_to(CORPUS).as_posix(), path, "hpcstruct")
    for path in databases("legacy"):
        yield Sample(f"hpctoolkit/legacy/{path.name}", path, "hpctoolkit-legacy")
    for part in sorted((CORPUS / "hpctoolkit" / "legacy" / "plain20.d").iterdir())[-2:]:
        yield Sample(f"hpctoolkit/legacy/alone-{part.name}", part, "hpctoolkit-legacy", part=True)
    yield from _measurements()
    for path in sorted((CORPUS / "extrap").iterdir()):
        yield Sample(f"extrap/{path.name}", path, f"extrap-{path.name.partition('.')[0]}")


def _measurements() -> Iterator[Sample]:
    """Folders of measurements, a file of each by itself, and those that were made for what no genuine file has."""
    for release in ("2016.12", "2018.09", "04.00"):
        folder = CORPUS / "hpcrun" / release / "pth4.m"
        yield Sample(f"hpcrun/{release}/pth4.m", folder, "hpcrun")
        alone = sorted(folder.glob("*.hpcrun"))[-1]
        yield Sample(f"hpcrun/{release}/alone-{alone.stem}", alone, "hpcrun")
    for path in sorted((CORPUS / "hpcrun" / "synthetic").iterdir()):
        yield Sample(f"hpcrun/synthetic/{path.stem}", path, "hpcrun")


def _of_shared() -> Iterator[Sample]:
    data = SHARED / "data"
    copies = {data / origin / p.name for folder, origin in COPIED.items() for p in (CORPUS / folder).iterdir()}
    seen: set[Path] = set()
    for path, format_name in _recognised(data):
        name = path.relative_to(data).as_posix()
        if name.startswith(SERIES) and path.is_file():
            if path.parents[1] in seen:
                continue
            seen.add(path.parents[1])
        if path not in copies and (not format_name.startswith("extrap-") or _is_chosen(path)):
            yield Sample(f"shared/{name}", path, format_name, public=name.startswith("public/"))


def _is_chosen(path: Path) -> bool:
    return any(path == SHARED / "data" / "public" / "extrap" / name for name in OF_EXTRA_P)


def _recognised(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files and folders that a format claims; nothing inside of them, and no files that are part of a folder. Of
    folders of runs, the runs are taken. Large sets of files have tests of their own."""
    for path in sorted(folder.iterdir()):
        if path.suffix in PARTS_OF_MEASUREMENTS:
            continue
        try:
            name = detect(Source.of(path), without=("runs",))[0].name
        except CallgroveError:
            name = ""
        is_set = path.is_dir() and any(entry.name == name and entry.opens_many for entry in FORMATS)
        if is_set and not any(inside.is_dir() for inside in path.iterdir()):
            if sum(file.stat().st_size for file in path.iterdir()) <= LARGEST_SET:
                yield path, name
        elif name and not is_set:
            yield path, name
        elif path.is_dir():
            yield from _recognised(path)


@cache
def _gpu_folder() -> Path:
    """Where the databases that tests make lie, for as long as the tests run."""
    folder = tempfile.TemporaryDirectory(prefix="callgrove-samples-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _made() -> Iterator[Sample]:
    """Databases of made-up GPU runs, one of each family, and a folder of them."""
    folder = _gpu_folder()
    run = Run.random(11, 24)
    several = folder / "several"
    several.mkdir()
    for k in range(2):
        own = replace(run.without("memset"), guid=f"018f-{k}", host=f"node{k}", machine=f"m{k}")
        write_rocpd(several / f"r{k}.db", [own])
    yield Sample("made/rocpd", several / "r0.db", "rocpd")
    yield Sample("made/rocpd-folder", several, "rocpd")
    yield Sample("made/rocpd4", write_rocpd4(folder / "rocpd4.db", [run.without("memset")], "4.0.0"), "rocpd")
    yield Sample("made/rpd", write_rpd(folder / "run.rpd", run, monitor=((3, "1500"),)), "rpd")
    yield Sample("made/nsight", write_nsight(folder / "run.sqlite", run), "nsight")
    opened = open_path(several)
    assert isinstance(opened, Experiment)
    transfer(opened, DraftWriter(folder / "draft.db"))
    yield Sample("made/rocpd-draft", folder / "draft.db", "rocpd-draft")
    for name, made in (("experiment", example()), ("spans", opened), ("study", study_example())):
        write_experiment(made, COLUMNAR, folder / f"{name}.cgrove", WriteOptions())
        yield Sample(f"made/callgrove-{name}", folder / f"{name}.cgrove", "callgrove")


@cache
def samples() -> tuple[Sample, ...]:
    """Every sample on this machine."""
    return (*_of_the_corpus(), *_made(), *(_of_shared() if SHARED.is_dir() else ()))
