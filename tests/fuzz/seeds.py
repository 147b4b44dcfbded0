"""Small sound inputs of every format that is read: those of the corpus, and some that are made here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from callgrove.binary.files import Source
from callgrove.errors import CallgroveError
from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.interface import Dumps, WriteOptions
from callgrove.formats.registry import FORMATS, load, writer_of
from callgrove.formats.writing.transfer import write_experiment
from tests.formats.cube.raw_cubes import archive, r1
from tests.formats.gpu.gpu_databases import Run, write_nsight, write_rocpd, write_rpd
from tests.formats.gpu.rocpd4_databases import write_rocpd4
from tests.formats.samples import CORPUS, databases
from tests.formats.stacks.test_reading_stacks import sample as perf_sample
from tests.formats.test_caliper import ATTRIBUTES, GLOBALS, PATHS, RECORDS
from tests.formats.test_extra_prof import write as write_extra_prof
from tests.formats.test_tau import TEXT as TAU_TEXT
from tests.permissions import writable_copy

__all__ = ["Seed", "make_seeds", "readable_formats"]


@dataclass(frozen=True)
class Seed:
    """One sound input: `files` are those that may be damaged, relative to `path`, with the offsets of their fields."""

    format: str
    name: str
    path: Path
    files: tuple[str, ...]
    offsets: dict[str, tuple[int, ...]]


def readable_formats() -> list[str]:
    """Return the names of all formats that are read."""
    return [entry.name for entry in FORMATS if entry.reads]


def make_seeds(folder: Path) -> dict[str, list[Seed]]:
    """Put all seeds below a folder, and return those of each format."""
    seeds: dict[str, list[Seed]] = {name: [] for name in readable_formats()}
    for number, (format_, path) in enumerate([*_copy_corpus(folder), *_make(folder)]):
        seeds[format_].append(_describe(format_, f"{number:03}-{path.name}", path))
    return seeds


def _describe(format_: str, name: str, path: Path) -> Seed:
    files = (
        ("",)
        if path.is_file()
        else tuple(sorted(f.relative_to(path).as_posix() for f in path.rglob("*") if f.is_file()))
    )
    read = tuple(file for file in files if not file.startswith("src/"))
    return Seed(format_, name, path, read, _find_fields(format_, path))


def _find_fields(format_: str, path: Path) -> dict[str, tuple[int, ...]]:
    """Return where the fields of each file begin, as the format's own dump lists them."""
    chosen = load(format_)
    if not isinstance(chosen, Dumps):
        return {}
    offsets: dict[str, set[int]] = {}
    try:
        for field in chosen.dump(Source.of(path)):
            offsets.setdefault("" if path.is_file() else field.file, set()).add(field.offset)
    except CallgroveError:
        return {}
    return {file: tuple(sorted(places)) for file, places in offsets.items()}


# -- the corpus --------------------------------------------------------------------------------------------------------


def _corpus() -> Iterator[tuple[str, Path]]:
    for generation in ("release", "prerelease"):
        for path in databases(generation):
            yield f"hpctoolkit-{generation}", path
    for path in databases("legacy"):
        yield "hpctoolkit-legacy", path
    for path in sorted((CORPUS / "hpctrace").rglob("*.hpctrace")):
        yield "hpctrace", path
    for path in sorted((CORPUS / "hpcstruct").iterdir()):
        yield "hpcstruct", path
    for release in ("2016.12", "2018.09", "04.00"):
        yield "hpcrun", CORPUS / "hpcrun" / release / "pth4.m"
    for path in sorted((CORPUS / "hpcrun" / "synthetic").iterdir()):
        yield "hpcrun", path
    for path in sorted((CORPUS / "extrap").iterdir()):
        yield f"extrap-{path.name.partition('.')[0]}", path


def _copy_corpus(folder: Path) -> Iterator[tuple[str, Path]]:
    for number, (format_, path) in enumerate(_corpus()):
        place = folder / f"corpus-{number:03}"
        place.mkdir()
        if path.is_dir():
            yield format_, writable_copy(path, place / path.name)
        else:
            yield format_, Path(shutil.copyfile(path, place / path.name))


# -- made here ---------------------------------------------------------------------------------------------------------

WRITTEN = (  # format, name, what it holds
    ("cube", "small.cubex", lambda: example(ranks=2)),
    ("rocpd", "gpu.db", gpu_example),
    ("rocpd-draft", "draft.db", gpu_example),
    ("perfetto", "gpu.pftrace", gpu_example),
    ("chrome-json", "gpu.json", gpu_example),
    ("otf2", "gpu", gpu_example),
    ("folded", "small.folded", lambda: example(ranks=1)),
    ("callgrove", "small.cgrove", lambda: example(ranks=1)),
    ("callgrove", "gpu.cgrove", gpu_example),
    ("callgrove", "study.cgrove", study_example),
)
KINETO = b"""{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": [
{"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 1.5, "dur": 20, "args": {"External id": 1}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 3, "dur": 4,
 "args": {"correlation": 5}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 3, "ts": 9, "dur": 8.25,
 "args": {"correlation": 5, "device": 0, "stream": 3, "grid": [1, 2, 3]}},
{"ph": "s", "id": 5, "cat": "ac2g", "name": "ac2g", "pid": 7, "tid": 7, "ts": 3},
{"ph": "f", "id": 5, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 3, "ts": 9, "bp": "e"},
{"ph": "B", "name": "step", "pid": 7, "tid": 8, "ts": 1},
{"ph": "C", "name": "memory", "pid": 7, "ts": 2, "args": {"bytes": 12}},
{"ph": "E", "pid": 7, "tid": 8, "ts": 30}
]}
"""
CALIPER_JSON = b"""{"data": [[1.5, 0, null], [2, 1, 3]], "columns": ["time", "path", "rank"],
"column_metadata": [{"is_value": true}, {"is_value": false}, {"is_value": true}],
"nodes": [{"label": "main", "column": "path"}, {"label": "solve", "column": "path", "parent": 0}], "jobsize": "4"}
"""


def _make(folder: Path) -> Iterator[tuple[str, Path]]:
    for format_, name, make in WRITTEN:
        place = folder / f"made-{name}"
        place.mkdir()
        write_experiment(make(), writer_of(format_), place / name, WriteOptions())
        yield format_, place / name
    yield from _make_databases(folder)
    yield from _make_texts(folder)
    yield from _make_cubes(folder)


def _make_databases(folder: Path) -> Iterator[tuple[str, Path]]:
    run = Run.random(11, 24)
    several = folder / "several"
    several.mkdir()
    for k in range(2):
        write_rocpd(
            several / f"r{k}.db", [replace(run.without("memset"), guid=f"018f-{k}", host=f"node{k}", machine=f"m{k}")]
        )
    yield "rocpd", several
    yield "rocpd", write_rocpd4(folder / "rocpd4.db", [run.without("memset")], "4.0.0")
    yield "rpd", write_rpd(folder / "run.rpd", run, monitor=((3, "1500"),))
    yield "nsight", write_nsight(folder / "run.sqlite", run)
    yield "extra-prof", write_extra_prof(folder)
    for rank in (0, 1):
        write_extra_prof(folder / "extra-prof", name=f"profile{rank}.extra-prof.msgpack")
    yield "extra-prof", folder / "extra-prof"


def _make_texts(folder: Path) -> Iterator[tuple[str, Path]]:
    perf = (
        "# comment\n"
        + perf_sample("12.000000100", "leaf+0x6 (/app)", "main+0x1 (/app)")
        + perf_sample("12.000002", "f+0x1 (inlined)", "main+0x2 (/app)", thread="7/9", event="5 page-faults")
    )
    texts: tuple[tuple[str, str, bytes], ...] = (
        ("perf-script", "perf.txt", (perf + "app 9 [000] 13.000000: 1 cycles:u: 40 lone+0x1 (/app)\n").encode()),
        ("caliper", "run.cali", (ATTRIBUTES + PATHS + RECORDS + GLOBALS).encode()),
        ("caliper", "run.json", CALIPER_JSON),
        ("tau", "profile.0.0.0", TAU_TEXT.encode()),
        ("folded", "tiny.folded", b"main;solve;[libc] 12\nmain;io_[k] 3.5\nmain 1\n"),
        ("chrome-json", "kineto.json", KINETO),
    )
    for format_, name, content in texts:
        (folder / name).write_bytes(content)
        yield format_, folder / name
    for metric in ("MULTI__TIME", "MULTI__PAPI_FP_OPS"):
        (folder / "tau" / metric).mkdir(parents=True)
        (folder / "tau" / metric / "profile.0.0.0").write_bytes(
            TAU_TEXT.replace("TIME", metric.removeprefix("MULTI__")).encode()
        )
    yield "tau", folder / "tau"


def _make_cubes(folder: Path) -> Iterator[tuple[str, Path]]:
    for name, how in (("plain", False), ("zipped", True)):
        (folder / f"{name}.cubex").write_bytes(archive(r1().members(zipped=how).items()))
        yield "cube", folder / f"{name}.cubex"
    for p in (2, 4):
        run = folder / "runs" / f"app.p{p}.r1"
        run.mkdir(parents=True)
        shutil.copyfile(folder / "plain.cubex", run / "profile.cubex")
    yield "runs", folder / "runs"
