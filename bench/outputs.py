"""What every verb prints and writes, of every sample: recorded before a change of the code's layout, compared after it.

    python -m bench.outputs record FOLDER      a JSON file for each sample
    python -m bench.outputs compare OLD NEW    every command whose exit code, text or files differ; exit code 1 if any

Commands run in processes of their own checkout, so that `OLD` may be recorded in another one. Paths are replaced by
names; long texts and files are kept as digests.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

PLACE = Path(tempfile.gettempdir()) / "callgrove-outputs"
LONGEST_TEXT = 20_000
LARGEST_INPUT = 30_000_000  # bytes
TABLES = ("contexts", "values", "profiles", "metrics", "samples", "spans", "counters", "runs", "series")
TARGETS = (
    *("hpctoolkit-release", "hpctoolkit-prerelease", "hpcrun", "cube", "rocpd", "rocpd-draft", "callgrove"),
    *("perfetto", "chrome-json", "rocprof-csv", "extrap-text", "extrap-json", "extrap-jsonl", "extrap-experiment"),
)


def commands(path: str, target: str) -> Iterator[list[str]]:
    """Yield the commands to run on one input; `target` is a place that each may write to."""
    for verb in ("info", "top", "tree", "hot", "summary", "check", "dump", "model"):
        yield [verb, path]
    yield ["top", path, "--all-metrics", "--format", "csv"]
    yield ["top", path, "--by", "file", "--format", "json"]
    yield ["tree", path, "--bottom-up", "--format", "json"]
    yield ["summary", path, "--by", "rank", "--format", "csv"]
    yield ["model", path, "--format", "json"]
    yield ["diff", path, path]
    yield ["sql", path, "SELECT count(*) FROM contexts"]
    yield ["report", path, "-o", f"{target}.html"]
    for table in TABLES:
        yield ["export", path, "--table", table]
    for name in TARGETS:
        yield ["convert", path, target, "--to", name]
    for name in ("callgrove", "hpctoolkit-release", "cube", "rocpd", "perfetto"):
        yield ["part", path, target, "--to", name, "--rank", "0"]
        yield ["convert", path, target, "--to", name, "--rank", "0"]
    yield ["part", path, target, "--to", "callgrove", "--rank", "0", "--invert"]
    yield ["convert", path, target, "--to", "callgrove", "--thread", "0", "--window", "10%:60%", "--keep-contexts"]
    for verb in ("info", "top", "summary"):
        yield [verb, path, "--run", "0"]
    yield ["cut", path, target, "--to", "callgrove", "--prune", "/^MPI_/"]
    for verb in ("merge", "mean", "common"):
        yield [verb, path, path, target, "--to", "callgrove"]


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    return path.stat().st_size if path.is_file() else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def files_below(folder: Path) -> dict[str, str]:
    """Return the digests of all files that a command wrote, and remove them."""
    digests = {
        p.relative_to(folder).as_posix(): digest(p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()
    }
    shutil.rmtree(folder)
    folder.mkdir()
    return digests


def run(words: list[str], folder: Path, names: dict[str, str]) -> dict[str, Any]:
    """Return the exit code, the texts and the files of one command."""
    from callgrove.cli.main import main

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: object = main(words)
        except SystemExit as end:
            code = end.code
        except Exception as error:  # recorded: it must stay the same, too
            code = repr(error)
    out.flush()
    out.seek(0)
    texts = [out.read(), err.getvalue()]
    for place, name in names.items():
        texts = [text.replace(place, name) for text in texts]
    kept = [text if len(text) <= LONGEST_TEXT else digest(text.encode()) for text in texts]
    return {"code": code, "out": kept[0], "err": kept[1], "files": files_below(folder)}


def record_one(task: tuple[str, str, str]) -> str:
    """Run all commands on a copy of one sample and keep what they print. Its place is the same for every checkout: what
    is written may hold the path of its input."""
    name, path, result = task
    record = {}
    scratch = PLACE / digest(name.encode())
    shutil.rmtree(scratch, ignore_errors=True)
    folder = scratch / "made"
    folder.mkdir(parents=True)
    copy = _copy(Path(path), scratch)
    names = {str(copy): "INPUT", str(folder): "FOLDER", str(scratch): "SCRATCH"}
    os.environ.update(CALLGROVE_CACHE_DIR=str(scratch), COLUMNS="100")
    for words in commands(str(copy), str(folder / "target")):
        said = " ".join(words)
        for place, label in names.items():
            said = said.replace(place, label)
        record[said] = run(words, folder, names)
    shutil.rmtree(scratch)
    Path(result).write_text(json.dumps(record, indent=1, ensure_ascii=True))
    return name


def _copy(sample: Path, folder: Path) -> Path:
    copy = folder / "input" / sample.name
    copy.parent.mkdir()
    return Path(shutil.copytree(sample, copy) if sample.is_dir() else shutil.copy2(sample, copy))


def record(folder: Path) -> None:
    """Record all samples that are not too large."""
    from tests.formats.samples import samples

    folder.mkdir(parents=True, exist_ok=True)
    tasks = [
        (sample.name, str(sample.path), str(folder / (sample.name.replace("/", "+") + ".json")))
        for sample in samples()
        if size_of(sample.path) <= LARGEST_INPUT
    ]
    with get_context("spawn").Pool(2, maxtasksperchild=8) as pool:
        for k, name in enumerate(pool.imap_unordered(record_one, tasks), 1):
            print(f"{k}/{len(tasks)} {name}", flush=True)


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """Yield what differs between two records of one sample, command by command."""
    for command in {**old, **new}:
        one, other = old.get(command), new.get(command)
        if one is None or other is None:
            yield f"{command}: {'only after' if one is None else 'only before'}"
            continue
        for key in one:
            if one[key] != other[key]:
                yield f"{command}: {key}: {_shown(one[key], other[key])}"


def _shown(one: Any, other: Any) -> str:
    if isinstance(one, str) and isinstance(other, str):
        pairs = zip([*one.split("\n"), ""], [*other.split("\n"), ""], strict=False)
        one, other = next(((a, b) for a, b in pairs if a != b), (one, other))
    if isinstance(one, dict):
        names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
        return "files " + ", ".join(sorted(names)[:5])
    return f"{one!r} -> {other!r}"


def compare(old: Path, new: Path) -> int:
    """Print what differs between two recordings; return the number of differences."""
    n = 0
    for name in sorted({p.name for folder in (old, new) for p in folder.glob("*.json")}):
        if not ((old / name).exists() and (new / name).exists()):
            print(f"{name}: in one recording only")
            n += 1
            continue
        for text in differences(json.loads((old / name).read_text()), json.loads((new / name).read_text())):
            print(f"{name}: {text}")
            n += 1
    return n


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("folder", type=Path)
    comparing = actions.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    args = parser.parse_args(words)
    if args.action == "record":
        record(args.folder)
        return 0
    n = compare(args.old, args.new)
    print(f"{n} differences")
    return int(n > 0)


if __name__ == "__main__":
    sys.exit(main())
