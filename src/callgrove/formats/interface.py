"""What a format is.

A format looks at content only (`match`), reads into the model (`read`) and, where it can, prints the raw structure
(`dump`), validates (`check`) and writes (`open_writer`). A new format is one package and one `Entry`: a line of the
registry, or what another package gives through the entry-point group `callgrove.formats`.

Messages name options by `Parameter` (errors.py), which the library and the command line spell each in its own way.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast, runtime_checkable

import numpy as np

from callgrove.arrays import Array, Ints
from callgrove.binary.files import FilePart, Source
from callgrove.execute import IN_PROCESS, Progress, Workers, silent
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Metric, Metrics
from callgrove.model.traces.events import Samples, SpanChunk, Window
from callgrove.model.values import Block

if TYPE_CHECKING:
    from callgrove.model.books import Books
    from callgrove.model.study.series import Study

__all__ = [
    "Checks",
    "ChoosesTargets",
    "DumpView",
    "Dumps",
    "DumpsText",
    "DumpsViews",
    "Entry",
    "Field",
    "Format",
    "Grade",
    "HoldsOnlyTraces",
    "Indexes",
    "KeepsFillers",
    "KeepsFormulas",
    "KeepsSummaries",
    "LossReport",
    "Match",
    "PackedSamples",
    "Problem",
    "Progress",
    "ReadOptions",
    "ReadsExperiment",
    "SampleChunk",
    "SampleLayout",
    "TakesPackedSamples",
    "WriteKeywords",
    "WriteOptions",
    "Writer",
    "Writes",
    "WritesStudies",
    "WritesTraces",
    "silent",
]


class Grade(IntEnum):
    """How sure a match is. A tie at the highest grade is an error that names both."""

    WEAK = 1  # by names or extension: used to say what is wrong with a damaged file
    STRONG = 2  # by structure
    EXACT = 3  # by magic and version


@dataclass(frozen=True)
class Match:
    """A format's claim to an input, and why."""

    grade: Grade
    reason: str


@dataclass(frozen=True)
class ReadOptions:
    """How to read. `salvage`: keep the complete part of a text that breaks off. `strict`: refuse what the tool that a
    format belongs to would refuse. `folder_pattern` and `points_file` say which parameters the runs of a folder have,
    where names do not. `fold`: of events, make a calling-context profile as well; who only wants the events leaves it
    out. `rank_env` names the variable of a recorded environment that tells a process's rank.
    `align` says how the clocks of several machines are brought together: not at all, `start`, or a table of offsets.
    `kernel_names` says which name of a kernel counts where a file has several: `short` or `demangled`; without a word,
    that by which the profiler's own tools group. `extrap_compat`: of Nsight exports, make the series that Extra-P
    makes, with its defects. `run` names runs as `choose_runs` has it: of the databases of several jobs, only those are
    opened; formats that hold one run leave that to whoever opens them. `workers` open the files of an input that has
    many."""

    salvage: bool = False
    progress: Progress = silent
    strict: bool = False
    folder_pattern: str = ""
    points_file: str = ""
    fold: bool = True
    rank_env: str = ""
    align: str = ""
    kernel_names: str = ""
    extrap_compat: bool = False
    run: str = ""
    workers: Workers = IN_PROCESS


@dataclass(frozen=True)
class WriteOptions:
    """How to write, as `callgrove.write` describes it keyword by keyword."""

    dialect: str = ""
    overwrite: bool = False
    progress: Progress = silent
    annotations: str = "default"
    track_names: str = "plain"
    real_pids: bool = False
    by_queue: bool = False
    kernel_rename: bool = False
    agent_index: str = ""
    keep_partial: bool = False
    limit: int | None = 80
    workers: Workers = IN_PROCESS
    in_place: bool = False  # write where the target will be, so that others read what was flushed: `open_writer`


class WriteKeywords(TypedDict, total=False):
    """The fields of `WriteOptions`, as type checkers know the keywords of functions that write."""

    dialect: str
    overwrite: bool
    progress: Progress
    annotations: str
    track_names: str
    real_pids: bool
    by_queue: bool
    kernel_rename: bool
    agent_index: str
    keep_partial: bool
    limit: int | None
    workers: Workers
    in_place: bool


class Format(Protocol):
    """A reader. `name` is the word of the command line, `title` what a person calls it."""

    name: str
    title: str

    def match(self, source: Source) -> Match | None:
        """Recognise an input by its content, of which at most 64 KiB are read; never raise."""

    def read(self, source: Source, options: ReadOptions) -> Experiment | Study:
        """Return the experiment or study; values and traces stay in the file until asked for."""


@dataclass(frozen=True)
class Entry:
    """What generic code knows of a format before it is loaded."""

    name: str
    """The word of the command line."""
    title: str
    """What a person calls it."""
    location: str
    """Where the `Format` is, as `module:object`; it is imported when it is needed."""
    page: str = ""
    """The page of the documentation that tells what is in its files: `cube` is docs/cube.md."""
    reads: bool = True
    """It can be read."""
    writes: bool = False
    """It can be written."""
    opens_many: bool = False
    """Several paths, or a folder of files, open as one experiment."""
    reads_compressed: bool = False
    """It inflates compressed files itself, as a stream; those of others are inflated to a copy before they are read."""
    holds_series: bool = False
    """It is written from series over parameters instead of an execution."""
    holds_only_traces: bool = False
    """It is written from what happened over time and nothing else, so that nobody needs to make a profile for it."""
    holds_inputs: bool = False
    """Its runs are inputs, each at the path that `Run.source` names, and can be opened by themselves."""
    adds_to_folder: bool = False
    """Its files go into a folder that may be there already, beside others."""
    read_options: tuple[str, ...] = ()
    """Fields of `ReadOptions` that make a difference to it, of those that not every format has a use for."""
    write_options: tuple[str, ...] = ()
    """Fields of `WriteOptions` that make a difference to it, of those that not every format has a use for."""
    how_to_trace: str = ""
    """How its profiler records traces, said to those whose data has none."""
    paradigm: str = ""
    """The programming model of the GPU calls that it records, in the words of OTF2; empty for HIP."""
    made_into: tuple[str, ...] = ()
    """Names of the formats that its tool makes of it: beside one of these it is the same run, not another one."""
    dialects: tuple[str, ...] = ()
    """Variants that can be written, the default first."""
    suffixes: tuple[str, ...] = ()
    """Endings of a target's name that choose this format for writing; content alone decides on reading."""
    usual_names: tuple[str, ...] = ()
    """Names of files, or endings that begin with a dot: it is asked first then, and whoever knows the content wins."""
    not_beside: tuple[tuple[str, bytes], ...] = ()
    """Files by which a folder is known to be another format's, and how they begin: it is not asked then, nor loaded."""
    extra: str = ""
    """The extra of callgrove that brings what it needs."""
    module_of_extra: str = ""
    """The module that this extra brings."""
    package: str = ""
    """The package that a plug-in comes with, set when it is read; empty for formats of callgrove."""

    def load(self) -> Format:
        """Import the format and return it."""
        return _load(self.location)


@cache
def _load(location: str) -> Format:
    module, _, name = location.partition(":")
    return cast(Format, getattr(importlib.import_module(module), name))


@dataclass(frozen=True)
class Field:
    """One field of a file's raw structure. `index` counts records of one kind, -1 where there is only one."""

    file: str
    section: str
    index: int
    offset: int
    name: str
    value: int | float | str


@runtime_checkable
class Dumps(Protocol):
    """A format that prints its raw structure."""

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every field in the file's order. Damage raises after what is intact was given."""


@runtime_checkable
class DumpsText(Protocol):
    """A format whose raw structure has a text form of its own."""

    def dump_text(self, source: Source) -> Iterator[str]:
        """Yield pieces of whole lines. Damage raises after what is intact was given."""


class DumpView(StrEnum):
    """What to print of a raw structure."""

    TEXT = "text"  # every field
    JSON = "json"  # every field
    SUMMARY = "summary"
    TREE = "tree"


@runtime_checkable
class DumpsViews(DumpsText, Protocol):
    """A format that also prints parts of it, or the same for programs."""

    def dump_view(self, source: Source, view: DumpView, limit: int | None = None) -> Iterator[str]:
        """Yield pieces of whole lines; of each kind of row at most `limit`."""


@dataclass(frozen=True)
class Problem:
    """Something that `check` found."""

    severity: Severity
    file: str
    section: str
    text: str


@runtime_checkable
class Checks(Protocol):
    """A format that validates more than reading does."""

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield every problem; an empty answer means the input is sound."""


@dataclass
class LossReport:
    """What the target could not hold; `convert` prints it.

    `unexplained` are differences between what a writer was given and what it wrote that no loss accounts for.
    """

    losses: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)  # nothing is lost, but something else may serve better
    unexplained: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        if text not in self.losses:
            self.losses.append(text)

    @property
    def lines(self) -> list[str]:
        """The losses, with one line for many of one kind."""
        from callgrove.formats.writing.writer import group_lines  # detection does without it

        return group_lines(self.losses)

    def hint(self, text: str) -> None:
        self.hints.append(text)


@dataclass(frozen=True)
class SampleChunk:
    """Consecutive samples of one profile; `metric` is -1 for samples of contexts."""

    profile: int
    metric: int
    samples: Samples


Chunk = Block | SampleChunk | SpanChunk


@dataclass(frozen=True)
class SampleLayout:
    """How a target stores samples: records with the fields `time` (eight bytes) and `ctx`; `ids` are its numbers of
    contexts, the last one that of idle. It can be pickled: workers pack what they read."""

    record: np.dtype[Any]
    ids: Ints


@dataclass(frozen=True)
class PackedSamples:
    """All samples of one profile in a target's layout, in the order of time, in memory or in a file. `ends` are the
    first and the last time, nothing where there are no samples; `has_idle`: is one of them idle? `measured` is from
    when to when there was anything, also samples that are not among these."""

    profile: int
    records: Array | FilePart
    ends: Window | None
    has_idle: bool
    measured: Window | None = None


@dataclass(frozen=True)
class SamplePlaces:
    """Where samples of profiles lie in a file of a target in the making, if there are `counts` of each, in bytes.
    Processes of this machine may write them there, at most so many, and hand them in as a part of that file."""

    path: str
    offsets: Ints
    counts: Ints


class Writer(Protocol):
    """A streaming writer: memory does not grow with the data. The target appears when `close` succeeds.

    `takes_spans` says whether it wants spans at all: those of a large trace take long to read.
    """

    takes_spans: bool

    @property
    def books(self) -> Books | None:
        """What was given and what was passed on, where the writer adds it up."""

    def define(self, tables: Experiment) -> None:
        """Define everything but values and traces: these are given by `write`, chunk after chunk."""

    def write(self, chunk: Chunk) -> None:
        """Write values of one block, samples of one line, or spans."""

    def flush(self) -> None:
        """Make what was written so far durable, where the format allows partial files."""

    def close(self) -> LossReport:
        """Finish the target and move it into place."""

    def abort(self) -> None:
        """Leave no trace of the target."""


@runtime_checkable
class KeepsSummaries(Protocol):
    """A writer that takes stored summaries, which are not among the chunks, from the experiment itself."""

    keeps_summaries: bool


@runtime_checkable
class KeepsFillers(Protocol):
    """A writer whose format tells values from numbers that nobody measured (see `HasFillers`): it gets both."""

    keeps_fillers: bool


@runtime_checkable
class HoldsOnlyTraces(Protocol):
    """A writer whose format has no place for values of metrics, and none for formulas."""

    holds_only_traces: bool


@runtime_checkable
class KeepsFormulas(Protocol):
    """A writer whose format holds formulas of derived metrics. Of others it gets values, where these add up."""

    def keeps_formula(self, metric: Metric, metrics: Metrics) -> bool:
        """Return whether the target can hold the formula of a derived metric, if it has all that this names."""


@runtime_checkable
class TakesPackedSamples(Protocol):
    """A writer to which samples may also come as the bytes that it would make of them."""

    def sample_layout(self) -> SampleLayout:
        """Return the layout; it is known once the tables are defined."""

    def sample_places(self, counts: Ints) -> SamplePlaces | None:
        """Return where the samples of each profile go, if there are so many; asked before any are written."""

    def write_packed(self, samples: PackedSamples) -> None:
        """Write packed samples, instead of a `SampleChunk`."""


@runtime_checkable
class WritesTraces(Protocol):
    """A writer of what happened over time, and of nothing else: it reads traces itself, in the order that it needs."""

    def write_traces(self, progress: Progress = silent) -> None:
        """Write all samples, spans and counters of the experiment that was defined."""


@runtime_checkable
class ReadsExperiment(Protocol):
    """A writer that reads values and traces of the experiment that was defined itself, in the order that it needs, when
    it is closed: nobody needs to give them."""

    reads_experiment: bool


@runtime_checkable
class Writes(Protocol):
    """A format that can be written."""

    def open_writer(self, target: Path, options: WriteOptions) -> Writer:
        """Return a writer for a target that does not exist yet, or may be replaced."""


@runtime_checkable
class ChoosesTargets(Protocol):
    """A format whose target is not simply a file."""

    def refuse_target(self, target: Path) -> None:
        """Refuse a target that is there already and cannot be replaced by what this format writes, as far as that can
        be told before anything is read."""


@runtime_checkable
class Indexes(Protocol):
    """A format of which many files are one run, and a list of them opens like the files themselves."""

    def write_index(self, source: Source, target: Path, options: WriteOptions, *, copies: bool = False) -> int:
        """Write a list of the files behind a source, and return how many it names. Copies are made if wanted."""


@runtime_checkable
class WritesStudies(Protocol):
    """A format that holds series instead of an execution."""

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        """Write a study. It fits in memory, so it is written at once; a failure leaves the target as it was."""
