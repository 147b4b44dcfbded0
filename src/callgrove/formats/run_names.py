"""What names of folders and files say: runs with their parameters (`app.p4.n100.r1`), and folders around inputs.

    name   = [prefix "."] pair *( *delimiter pair ) [ ("." / "_") "r" digits ]
    pair   = name [ "=" / "_" / "-" ] number          number = digits [ ("." / ",") digits ]

The whole name is tried, then without its first part before a dot, then without two, ... The grammar is that of
Extra-P's folders, read so that names with dots, decimal numbers without a prefix and parameters that begin with r work
too (specification: extrap.md section 7). `pattern` and `table` say the parameters where names follow other rules.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from callgrove.binary.files import Source
from callgrove.errors import CallgroveError, InputError, NotRecognised, Parameter, UsageError, compose_text
from callgrove.formats.detection import Claim
from callgrove.formats.interface import Grade

__all__ = [
    "EXAMPLE",
    "NamedRun",
    "agree_on_parameters",
    "as_extra_p_reads",
    "by_pattern",
    "by_table",
    "only_input",
    "parse_name",
    "parse_named_file",
    "parse_point",
    "suggest_pattern",
    "without_ingredients",
]


EXAMPLE = "app.p4.n100.r1"
_REPETITION = re.compile(r"[._]r(\d+)$")
_PAIR = re.compile(r"([^\W\d](?:[^\W\d]|[-+:%#@ ])*?)[=_-]?(\d+(?:[.,]\d+)?)(?=$|[.,_\-]|[^\W\d_])")
_DELIMITERS = ".,_-"
_BRACES = re.compile(r"\{([^{}]+)\}")
_DIGITS = re.compile(r"(\d+(?:\.\d+)?)")
_LAST_WORD = re.compile(r"([A-Za-z]+)[=_-]?$")
REPETITION = "r"  # in braces: no parameter, but the repetition of a point
_NUMBER = r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9-]*$")


@dataclass(frozen=True)
class NamedRun:
    """What a name says: the parameters in its order, and the repetition if it has one."""

    name: str
    parameters: Mapping[str, float]
    repetition: int | None = None


def parse_name(name: str) -> NamedRun | None:
    """Return the parameters in a name; None where there are none."""
    match = _REPETITION.search(name)
    stem, repetition = (name[: match.start()], int(match[1])) if match else (name, None)
    parts = stem.split(".")
    for skipped in range(len(parts)):
        pairs = _pairs(".".join(parts[skipped:]))
        if pairs:
            return NamedRun(name, pairs, repetition)
    return None


def parse_named_file(name: str) -> NamedRun | None:
    """Parse a name that may have an ending, like `app.p4.r1.cubex`."""
    run = parse_name(name)
    ending = _ENDING.search(name)
    if run is not None or ending is None:
        return run
    shorter = parse_name(name[: ending.start()])
    return replace(shorter, name=name) if shorter is not None else None


def _pairs(text: str) -> dict[str, float]:
    """Name and number, again and again until the end; empty where that fails or a name comes twice."""
    pairs: dict[str, float] = {}
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        name = match[1].strip("_-= ") if match else ""
        if match is None or not name or name in pairs:
            return {}
        pairs[name] = float(match[2].replace(",", "."))
        at = match.end()
        while at < len(text) and text[at] in _DELIMITERS and not _PAIR.match(text, at):
            at += 1
    return pairs


def parse_point(text: str) -> dict[str, float]:
    """Parse `p=4,n=100` as parameters."""
    point: dict[str, float] = {}
    for part in text.split(","):
        name, sign, number = part.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not sign or not name.strip() or value != value or name.strip() in point:
            raise UsageError(f"{text!r} is no point; write it like p=4,n=100")
        point[name.strip()] = value
    return point


def by_pattern(names: Iterable[str], pattern: str) -> list[NamedRun]:
    """Return the parameters by a pattern like `run_{n}_{ranks}ranks`; `{r}` is the repetition, which may follow as
    `.r1` where the pattern does not have it."""
    parts = _BRACES.split(pattern)
    words = parts[1::2]
    parameters = [word for word in words if word != REPETITION]
    if not parameters or len(set(words)) < len(words):
        raise UsageError(f"the pattern {pattern!r} needs different names in braces, like 'run_{{n}}_{{ranks}}ranks'")
    text = "".join(_group(part) if k % 2 else re.escape(part) for k, part in enumerate(parts))
    repeated = "" if REPETITION in words else r"(?:[._]r(?P<repetition>\d+))?"
    runs = []
    for name in names:
        match = re.fullmatch(text + repeated + r"(?:\.[A-Za-z][\w-]*)?", name)
        if match is None:
            raise InputError(f"{name}: does not follow the pattern {pattern!r}")
        numbers = [number for group, number in enumerate(match.groups(), 1) if group != _group_of_repetition(match)]
        repetition = match["repetition"]
        point = dict(zip(parameters, map(float, numbers), strict=True))
        runs.append(NamedRun(name, point, int(repetition) if repetition else None))
    return runs


def _group(word: str) -> str:
    return r"(?P<repetition>\d+)" if word == REPETITION else _NUMBER


def _group_of_repetition(match: re.Match[str]) -> int:
    return match.re.groupindex["repetition"]


def suggest_pattern(names: Sequence[str]) -> str:
    """Return a pattern that names follow which differ in numbers alone: `t.X{X}.postfix.r{r}` for t.X11.postfix.r1,
    t.X22.postfix.r1, ... Numbers are called as what stands before them. Empty where there is none."""
    parts = [_DIGITS.split(name) for name in names]
    if len(names) < 2 or len({tuple(one[::2]) for one in parts}) != 1:
        return ""
    texts, numbers = parts[0][::2], [set(column) for column in list(zip(*parts, strict=True))[1::2]]
    pattern, used = texts[0], set[str]()
    for before, values, after in zip(texts, numbers, texts[1:], strict=False):
        letters = _LAST_WORD.search(before)
        word = letters[1] if letters else f"x{len(used)}"
        varies = len(values) > 1 and word not in used
        used |= {word} if varies else set()
        pattern += (f"{{{word}}}" if varies else next(iter(values))) + after
    return pattern if used - {REPETITION} and _follow(names, pattern) else ""


def _follow(names: Sequence[str], pattern: str) -> bool:
    try:
        return bool(by_pattern(names, pattern))
    except (InputError, UsageError):
        return False


def by_table(names: Iterable[str], table: Path) -> list[NamedRun]:
    """Return the parameters by a CSV file: the folder, then a column for each parameter."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except OSError as error:
        raise InputError(f"{table}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        reason = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise InputError(f"{table}: cannot be read as CSV: {reason}") from error
    if not rows or len(rows[0]) < 2:
        raise InputError(f"{table}: expected a first line with `folder` and a name for each parameter")
    parameters = [name.strip() for name in rows[0][1:]]
    points: dict[str, dict[str, float]] = {}
    for number, row in enumerate(rows[1:], 2):
        try:
            points[row[0].strip()] = dict(zip(parameters, map(float, row[1:]), strict=True))
        except ValueError:
            wanted = f"a folder and {len(parameters)} numbers"
            raise InputError(f"{table}: line {number}: expected {wanted}, found {', '.join(row)}") from None
    wanted_names = list(names)
    if missing := [name for name in wanted_names if name not in points]:
        raise InputError(f"{table}: has no line for {missing[0]}" + (" and others" if missing[1:] else ""))
    return [NamedRun(name, points[name]) for name in wanted_names]


def agree_on_parameters(runs: Sequence[NamedRun], strict: bool) -> tuple[list[NamedRun], list[str]]:
    """Return runs with one list of parameters, without those that never vary; and what is worth saying about it."""
    first = runs[0]
    notes: list[str] = []
    names = list(first.parameters)
    for run in runs[1:]:
        if set(run.parameters) != set(names):
            different = sorted(set(run.parameters) ^ set(names))
            raise InputError(
                f"{first.name} has the parameters {', '.join(names)}, but {run.name} has {', '.join(run.parameters)}: "
                f"they differ in {', '.join(different)}; give all runs the same ones"
            )
    swapped = next((run for run in runs if list(run.parameters) != names), None)
    if swapped is not None:
        text = f"{first.name} and {swapped.name} name their parameters in different orders"
        if strict:
            raise InputError(f"{text}, and ", Parameter("strict", True), " refuses that")
        notes.append(f"{text}; the order of the first is used")
    varying = [name for name in names if len({run.parameters[name] for run in runs}) > 1] or names
    if dropped := [name for name in names if name not in varying]:
        one = len(dropped) == 1
        what = "never varies, so it is not a parameter" if one else "never vary, so they are not parameters"
        notes.append(f"{', '.join(dropped)} {what} of the study")
    if "e" in varying:
        notes.append("there is a parameter e: numbers with exponents (1e6) are not read in names")
    return [replace(run, parameters={name: run.parameters[name] for name in varying}) for run in runs], notes


def as_extra_p_reads(name: str) -> list[tuple[str, float]] | None:
    """Return the pairs that Extra-P 4.2.5 finds in a name; None where it fails."""
    start, end = name.find(".") + 1, name.find(".r")
    words = re.split(r"([0-9.,]+)", name[start : end if end != -1 else None])
    if len(words) <= 1:
        return None
    words = words if words[-1] else words[:-1]
    try:
        return [(words[k], float(words[k + 1].replace(",", ".").rstrip("."))) for k in range(0, len(words) - 1, 2)]
    except ValueError:
        return None


# -- folders that are not inputs themselves and hold some --------------------------------------------------------------
# scorep-20260101_1200_7/     profile.cubex, scorep.cfg, MANIFEST.md, perhaps traces.otf2 and traces/
# results/                    hpctoolkit-app-database/ beside notes and scripts


Detect = Callable[[Source], Claim]
MadeOf = Callable[[str], Collection[str]]
MOST_TRIED = 64  # entries that are looked at
MOST_NAMED = 5  # in a message


def only_input(folder: Source, detect: Detect, made_of: MadeOf) -> Source | None:
    """Return one input in a folder, or in a folder of it; None where there is none. Several are an error that names
    them. Only what a format is sure of counts; `made_of` tells which formats a tool makes of one."""
    if not folder.is_folder:
        return None
    named: dict[Path, str] = {}
    tries = iter(range(MOST_TRIED))
    for entry in _entries(folder.path):
        named |= _inputs_at(entry, detect, tries)
    inputs = without_ingredients(named, made_of)
    if len(inputs) > 1:
        names = ", ".join(str(path.relative_to(folder.path)) for path in inputs[:MOST_NAMED])
        more = ", ..." if len(inputs) > MOST_NAMED else ""
        raise NotRecognised(f"{folder.path}: holds several inputs: {names}{more}; ", _how_to_open(folder, inputs))
    return Source(inputs[0]) if inputs else None


def _how_to_open(folder: Source, inputs: Sequence[Path]) -> str:
    """Name one; or, where each lies in an entry of its own and these differ in numbers, say how runs are named."""
    entries = [path.relative_to(folder.path).parts[0] for path in inputs]
    pattern = suggest_pattern(entries) if len(set(entries)) == len(entries) else ""
    if not pattern:
        return "name one of them"
    as_runs = "name one of them, or open all as runs whose names have parameters: "
    return compose_text(as_runs, Parameter("folder_pattern", pattern))


def without_ingredients(inputs: Mapping[Path, str], made_of: MadeOf) -> list[Path]:
    """Return inputs, each with the name of its format, but for what one of the others was made of: measurements beside
    their database are the same run."""
    formats = set(inputs.values())
    return [path for path, name in inputs.items() if formats.isdisjoint(made_of(name))]


def _inputs_at(path: Path, detect: Detect, tries: Iterator[int]) -> dict[Path, str]:
    """Return the inputs, with the names of their formats."""
    if name := _format_of(path, detect, tries):
        return {path: name}
    files = [file for file in _entries(path) if file.is_file()] if path.is_dir() else []
    return {file: name for file in files if (name := _format_of(file, detect, tries))}


def _format_of(path: Path, detect: Detect, tries: Iterator[int]) -> str:
    if next(tries, None) is None:
        return ""
    try:
        format_, match = detect(Source.of(path))
    except CallgroveError:  # of nobody, of two, or not to be opened
        return ""
    return format_.name if match.grade > Grade.WEAK else ""


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder: files first, as what lies beside a profile may be large; none where the folder is
    not ours to read."""
    try:
        visible = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
        return sorted(visible, key=lambda entry: (entry.is_dir(), entry.name))
    except OSError:
        return []
