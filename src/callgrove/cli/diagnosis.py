"""`callgrove info --diagnose`: what to put into a report about something that does not work.

Versions, and the structure of an input as counts, sizes and kinds. Whatever is printed is a number, or a word of
callgrove's own: no name, path, title, unit, message or other text of the input, so that it may be published. An input
that cannot be opened is described as far as it goes, with the kind of the error.
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove._version import __version__
from callgrove.errors import CallgroveError, CorruptFile

if TYPE_CHECKING:
    from callgrove.cli.options import InputOptions
    from callgrove.model.experiment import Experiment, InputWarning
    from callgrove.model.study.series import Study

__all__ = ["diagnose"]

MOST_FILES = 100_000  # that are looked at
FOR_USERS = re.compile(r"([\w.-]+).*extra == 'all'")
NUMBERED = re.compile(r"\d+(\.\d+)*")
OTHER = "other"
Fact = tuple[str, str]


def diagnose(options: InputOptions) -> list[Fact]:
    """Return what a report should say of this installation and of the inputs, as pairs of a word and a text."""
    return [*_describe_installation(), *(fact for path in options.inputs for fact in _describe_input(path, options))]


# -- the installation --------------------------------------------------------------------------------------------------


def _describe_installation() -> Iterator[Fact]:
    import numpy as np

    yield "callgrove", __version__
    yield "python", f"{platform.python_implementation()} {platform.python_version()}"
    yield "system", f"{platform.system()} {platform.machine()}"
    yield "numpy", np.__version__
    installed, missing = _list_extras()
    yield "extras", ", ".join(installed) or "none"
    yield "not installed", ", ".join(missing) or "none"


def _list_extras() -> tuple[list[str], list[str]]:
    """Return the packages that extras bring, with their versions, and those that are missing."""
    try:
        declared = requires("callgrove") or []
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        return ["unknown: callgrove is not installed as a package"], []
    names = sorted({match[1] for text in declared if (match := FOR_USERS.match(text.replace('"', "'")))})
    found: list[str] = []
    missing: list[str] = []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    return found, missing


# -- an input ----------------------------------------------------------------------------------------------------------


def _describe_input(path: str, options: InputOptions) -> Iterator[Fact]:
    from dataclasses import replace

    from callgrove.cli.opening import open_any
    from callgrove.model.experiment import Experiment

    yield "input", _describe_files(Path(path))
    try:
        opened = open_any(replace(options, paths=[path]), notes=False)
    except (CallgroveError, OSError) as error:
        yield "error", _describe_error(error)
        return
    numbered = NUMBERED.fullmatch(opened.version)
    yield "format", f"{_keep_own_word(opened.format)} {numbered[0] if numbered else ''}".rstrip()
    yield from _describe_experiment(opened) if isinstance(opened, Experiment) else _describe_study(opened)
    yield "warnings", _describe_warnings(opened.warnings)


def _describe_files(path: Path) -> str:
    """Return how many files there are, how large, and which usual endings they have."""
    files = [file for file in islice(path.rglob("*"), MOST_FILES) if file.is_file()] if path.is_dir() else [path]
    sizes = [file.stat().st_size for file in files if file.exists()]
    if not sizes:
        return "nothing is there"
    usual = _list_usual_endings()
    endings = Counter(_find_ending(file, usual) for file in files)
    kind = "folder" if path.is_dir() else "file"
    return f"{kind}, files {len(sizes)}, bytes {sum(sizes)}, largest {max(sizes)}, names: {_count(endings)}"


def _list_usual_endings() -> tuple[str, ...]:
    from callgrove.formats.registry import FORMATS

    names = {name for entry in FORMATS for name in (*entry.usual_names, *entry.suffixes)}
    return tuple(sorted(names, key=lambda name: (-len(name), name)))


def _find_ending(file: Path, usual: Sequence[str]) -> str:
    return next((name for name in usual if file.name == name or (name[0] == "." and file.name.endswith(name))), OTHER)


def _keep_own_word(name: str) -> str:
    from callgrove.formats.registry import FORMATS

    return name if any(entry.name == name for entry in FORMATS) else "of a plug-in"


def _describe_error(error: Exception) -> str:
    """Return the kind of an error, and where in the file it is; its message has names."""
    place = f" at byte {error.offset}" if isinstance(error, CorruptFile) and isinstance(error.offset, int) else ""
    cause = f" of {type(error.__cause__).__name__}" if error.__cause__ is not None else ""
    return f"{type(error).__name__}{cause}{place}"


def _describe_experiment(experiment: Experiment) -> Iterator[Fact]:
    from callgrove.analysis.overview import overview

    facts = overview(experiment)
    metrics = [experiment.metrics.first(name) for name in experiment.metrics.quantities]
    yield "runs", f"{facts.n_runs}, parameters {len(facts.parameters)}"
    yield "profiles", f"{_count(facts.profiles)}; nodes {facts.n_nodes}, ranks {facts.n_ranks}"
    yield "contexts", f"{_count(facts.contexts)}; depth {facts.depth}"
    yield "metrics", f"{len(metrics)}: {_count(Counter(metric.aggregation.name.lower() for metric in metrics))}"
    scopes = Counter(s.word or "none" for m in metrics if not m.is_derived for s in experiment.metrics.scopes(m.name))
    yield "scopes", _count(scopes)
    yield "derived", f"{facts.n_derived}, not evaluated {facts.n_unavailable}"
    yield "values", "unknown" if facts.n_values is None else str(facts.n_values)
    yield "traces", f"samples {facts.n_samples}, spans {facts.n_spans}"
    yield "sources", f"{facts.n_sources}, missing {facts.n_missing_sources}"


def _describe_study(study: Study) -> Iterator[Fact]:
    known = study.repetitions[study.repetitions > 0]
    yield "parameters", str(len(study.parameters))
    yield "points", str(len(study.points))
    yield "call paths", str(len(study.callpaths))
    yield "metrics", str(len(study.metrics))
    yield "series", str(len(study))
    yield "repetitions", f"{int(known.min())} to {int(known.max())}" if len(known) else "unknown"
    yield "models", str(len(study.models))


def _describe_warnings(warnings: Sequence[InputWarning]) -> str:
    return _count(Counter(warning.severity.value for warning in warnings))


def _count(numbers: dict[str, int] | Counter[str]) -> str:
    return ", ".join(f"{word} {number}" for word, number in numbers.items() if number) or "none"
