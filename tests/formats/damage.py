"""Damaged databases, and what must be true of every answer about them.

    truncations   a file cut at section boundaries and at random places
    lies          counts and offsets overwritten with numbers that a careless reader would believe
    flips         random bits inverted

Each is a selection of its grid, always the same one, or the whole of it.
`survives` asks an input everything that can be asked. Only errors made for users may escape, and not slowly.
`python -m tests.formats.damage lies FOLDER [whole]` runs a grid in a process with little memory and says what failed.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import resource
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from callgrove.analysis.costs import costs
from callgrove.analysis.overview import overview
from callgrove.analysis.tables import TABLES, Selection, export
from callgrove.binary.files import Source
from callgrove.cli.main import main
from callgrove.errors import CallgroveError, InvalidExperiment
from callgrove.formats.interface import Checks, Dumps, Format, ReadOptions
from callgrove.formats.registry import detect
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from tests.formats.hpctoolkit.databases import File, width_of
from tests.permissions import writable_copy
from tests.timing import bounded

LIES = (0, 1, 2**31 - 1, 2**32 - 1, 2**63, 2**64 - 1)
LITTLE_MEMORY = 1536 << 20
ALLOWED_CODES = (0, 3, 4)


@dataclass(frozen=True)
class Case:
    """One damaged file."""

    label: str
    data: bytes


def parts(folder: Path) -> list[Path]:
    """The files of a database that a reader parses."""
    wanted = ("experiment.xml", "meta.db", "profile.db", "cct.db", "trace.db", "metrics/default.yaml")
    return [folder / name for name in wanted if (folder / name).is_file()]


def chance(*seed: object) -> random.Random:
    """The same numbers in every run, others for every seed."""
    return random.Random("/".join(map(str, seed)))


def chosen(cases: list[Case], most: int | None, *seed: object) -> list[Case]:
    """At most so many cases, always the same ones; None: all."""
    return cases if most is None or len(cases) <= most else chance(*seed).sample(cases, most)


# -- kinds of damage -------------------------------------------------------------------------------------------------


def boundaries(path: Path) -> list[int]:
    """Where sections begin: every record table, block, index and line."""
    if path.suffix != ".db":
        lines = path.read_bytes().splitlines(keepends=True)
        return [int(n) for n in np.cumsum([len(line) for line in lines])[:-1]]
    first: dict[str, int] = {}
    for field in File.of(path).fields:
        first.setdefault(field.section, field.offset)
    return sorted(set(first.values()) - {0})


def truncations(path: Path, whole: bool = False) -> list[Case]:
    n_random, n_sections = (40, None) if whole else (7, 7)
    data, rng = path.read_bytes(), chance("truncate", path.parent.name, path.name)
    sections = [Case(f"cut at section boundary {at}", data[:at]) for at in boundaries(path)]
    places = sorted(rng.sample(range(len(data)), min(n_random, len(data))))
    return [
        Case("empty", b""),
        *chosen(sections, n_sections, path),
        *(Case(f"cut at {at}", data[:at]) for at in places),
        Case("without the last byte", data[:-1]),
    ]


def lies(path: Path, whole: bool = False) -> list[Case]:
    """Each kind of count and offset with each wrong number, in one of the records that have it."""
    most = None if whole else 10
    if path.suffix == ".xml":
        return wrong_attributes(path, most)
    file, rng = File.of(path), chance("lie", path.parent.name, path.name)
    kinds: dict[tuple[str, str], list[int]] = {}
    for number, field in enumerate(file.fields):
        if width_of(field) is not None and is_count_or_offset(field.name):
            section = "".join(c for c in field.section if not c.isdigit())
            kinds.setdefault((section, field.name), []).append(number)
    cases = []
    for numbers in kinds.values():
        for lie in LIES:
            field = file.fields[rng.choice(numbers)]
            wide = width_of(field) or 0
            wrong = (lie & ((1 << (8 * wide)) - 1)).to_bytes(wide, "little" if file.order == "<" else "big")
            data = bytearray(file.data)
            data[field.offset : field.offset + wide] = wrong
            if data != file.data:
                cases.append(Case(f"{field.section} {field.index} {field.name} = {lie}", bytes(data)))
    return chosen(cases, most, "lies", path)


WRONG_TEXTS = (
    "",
    "x",
    "-1",
    "0",
    "2147483648",
    "4294967296",
    "9" * 30,
    "0x",
    "1e9",
    "-" + "9" * 30,
    "\N{DIGIT ONE}\u0663",
)


def wrong_attributes(path: Path, most: int | None) -> list[Case]:
    """Each attribute of each tag of an XML file with each wrong text, in one of its places; and without it."""
    text, rng = path.read_text("utf-8"), chance("attribute", path.parent.name, path.name)
    places: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for tag in re.finditer(r"<(\w+)([^<>]*)>", text):
        for attribute in re.finditer(r'\s([\w-]+)="([^"]*)"', tag[2]):
            at = tag.start(2)
            places.setdefault((tag[1], attribute[1]), []).append((at + attribute.start(), at + attribute.end()))
    cases = []
    for (tag_name, name), spans in places.items():
        for wrong in (None, *WRONG_TEXTS):
            first, last = rng.choice(spans)
            written = "" if wrong is None else f' {name}="{wrong}"'
            data = (text[:first] + written + text[last:]).encode()
            cases.append(Case(f"<{tag_name} {name}={wrong!r}> at {first}", data))
    return chosen(cases, most, "attributes", path)


def is_count_or_offset(name: str) -> bool:
    """By how the specifications name their fields."""
    old = ("nItems", "nSections", "size", "offset", "tuplePtr", "num_vals", "num_nzctxs", "prof_off", "len")
    more = ("num_nzmids", "ctx_off", "start", "end", "prof_info_idx", "ctx_id", "ptr", "stride", "profIndex", "ctxId")
    new = name[:1] in "np" and name[1:2].isupper()
    return name in old or name in more or new or name[:2] == "sz" or name == "n" or name.startswith("flex[")


def flips(path: Path, whole: bool = False) -> list[Case]:
    n_single, n_many = (16, 6) if whole else (4, 1)
    data, rng = path.read_bytes(), chance("flip", path.parent.name, path.name)
    cases = []
    for k in range(n_single + n_many):
        broken = bytearray(data)
        for _ in range(1 if k < n_single else 24):
            # one flip in two falls where structure is, not values
            at = rng.randrange(len(data) if k % 2 else min(len(data), 1024))
            broken[at] ^= 1 << rng.randrange(8)
        cases.append(Case(f"flip {k}", bytes(broken)))
    return cases


# -- what must be true -----------------------------------------------------------------------------------------------


class Failure(AssertionError):
    """A promise that was broken, and by which case."""


def _attempt(label: str, ask: Callable[[], object]) -> None:
    try:
        ask()
    except InvalidExperiment as error:
        raise Failure(f"{label}: a damaged input was given to the builder: {error}") from error
    except CallgroveError as error:
        if "\n" in str(error):
            raise Failure(f"{label}: the message has more than one line: {error}") from error
    except Exception as error:
        raise Failure(f"{label}: {type(error).__name__} escaped: {error}") from error


def survives(path: Path, label: str, salvage: bool = False) -> None:
    """Everything asked through the library: open, every table, totals, overview, check, dump."""
    options = ReadOptions(salvage=salvage)
    with bounded(label):
        found: list[tuple[Format, Experiment]] = []

        def open_it() -> None:
            format_ = detect(Source.of(path))[0]
            experiment = format_.read(Source.of(path), options)
            assert isinstance(experiment, Experiment)
            found.append((format_, experiment))

        _attempt(f"{label}: open", open_it)
        for format_, experiment in found:
            for what, ask in questions(experiment):
                _attempt(f"{label}: {what}", ask)
            assert isinstance(format_, Checks)
            _attempt(f"{label}: check", lambda f=format_: list(f.check(Source.of(path), options)))  # type: ignore[misc]
            assert isinstance(format_, Dumps)
            _attempt(f"{label}: dump", lambda f=format_: sum(1 for _ in f.dump(Source.of(path))))  # type: ignore[misc]


def questions(experiment: Experiment) -> Iterator[tuple[str, Callable[[], object]]]:
    """What can be asked of an experiment, each with a name."""
    for table in TABLES[:-1]:
        yield f"table {table}", lambda t=table: _drain(experiment, t, "stored")  # type: ignore[misc]
    for scope in ("exclusive", "inclusive"):
        yield f"values {scope}", lambda s=scope: _drain(experiment, "values", s)  # type: ignore[misc]
    for quantity in experiment.metrics.quantities[:4]:
        for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
            yield f"totals of {quantity}", lambda q=quantity, s=scope: experiment.totals(q, s)  # type: ignore[misc]
    yield "overview", lambda: overview(experiment)
    yield "costs", lambda: costs(experiment)
    yield "contexts by themselves", lambda: [experiment.values.context(c) for c in range(len(experiment.contexts))[:60]]


def _drain(experiment: Experiment, table: str, scope: str) -> int:
    return sum(len(list(chunk.rows())) for chunk in export(experiment, table, Selection(scope=scope)))


VERBS = (
    ("info",),
    ("export", "--table", "values"),
    ("export", "--table", "samples"),
    ("export", "--table", "contexts"),
    ("check",),
    ("dump", "--format", "csv"),
    ("tree", "--limit", "all"),
)


NO_COST = ("no metric", "nor any to compute them from", "is a derived metric")
COSTS = ("top", "tree", "hot")


def run(*words: str) -> tuple[int, str, str]:
    """The command line in this process: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def answers(path: Path, label: str, *verbs: tuple[str, ...]) -> dict[str, int]:
    """Everything asked through the command line; gives {verb: exit code}."""
    codes = {}
    for verb, *options in verbs or VERBS:
        with bounded(f"{label}: {verb}"):
            code, _, err = run(verb, str(path), *options)
        where = f"{label}: `{' '.join((verb, *options))}`"
        lines = err.splitlines()
        # what says that it measures nothing, or has lost its tree, has no cost to show
        nothing = verb in COSTS and code == 2 and any(text in err for text in NO_COST)
        if code not in ALLOWED_CODES and not nothing:
            raise Failure(f"{where}: exit code {code}: {err}")
        if any(not line.startswith("callgrove: ") for line in lines) or "this is a bug" in err:
            raise Failure(f"{where}: not a message for users: {err}")
        if code == 3 and not lines:
            raise Failure(f"{where}: exit code 3 without a word")
        codes[verb] = code
    return codes


# -- grids -----------------------------------------------------------------------------------------------------------


def damaged(folder: Path, name: str, case: Case, scratch: Path) -> Path:
    """A copy of the database, the file `name` of which is damaged. Files are replaced, never changed: an experiment
    that was opened before may still have them mapped."""
    copy = scratch / "data"
    if not copy.is_dir():
        writable_copy(folder, copy)
    (copy / name).unlink(missing_ok=True)
    (copy / name).write_bytes(case.data)
    return copy


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """For tests that cannot have pytest's: those of Hypothesis run many times in one."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def restore(folder: Path, name: str, scratch: Path) -> None:
    damaged(folder, name, Case("", (folder / name).read_bytes()), scratch)


KINDS: dict[str, Callable[[Path, bool], list[Case]]] = {"truncations": truncations, "lies": lies, "flips": flips}


def grid(kind: str, folder: Path, scratch: Path, whole: bool = False) -> list[str]:
    """Cases of one kind for all files of a database; gives the failures, the last entry counts the cases."""
    failures, n = [], 0
    for part in parts(folder):
        name = str(part.relative_to(folder))
        if kind == "lies" and part.suffix == ".yaml":
            continue
        for case in KINDS[kind](part, whole):
            n += 1
            label = f"{folder.parent.name}/{folder.name}/{name}: {case.label}"
            copy = damaged(folder, name, case, scratch)
            try:
                survives(copy, label)
                answers(copy, label, ("check",), ("info",))
                if name in ("cct.db", "trace.db"):  # which then say how many profiles there are
                    survives(copy / name, f"{label}, alone")
            except AssertionError as failure:
                failures.append(str(failure))
                failures.append("".join(traceback.format_exception(failure.__cause__)[-4:]))
        restore(folder, name, scratch)
    return [*failures, f"{n} cases"]


def with_little_memory() -> None:
    """From here on, more memory than a damaged file deserves is refused; so are warnings."""
    resource.setrlimit(resource.RLIMIT_AS, (LITTLE_MEMORY, LITTLE_MEMORY))
    warnings.simplefilter("error")


if __name__ == "__main__":
    with_little_memory()
    with scratch_folder() as scratch:
        report = grid(sys.argv[1], Path(sys.argv[2]), scratch, whole=sys.argv[3:] == ["whole"])
    sys.stdout.write("\n".join(report) + "\n")
    sys.exit(len(report) > 1)
