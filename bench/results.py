"""Findings, as a table and as a page."""

from __future__ import annotations

import os
import platform
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Finding", "as_markdown", "as_text", "surroundings"]


@dataclass(frozen=True)
class Finding:
    """One number, and what it has to be. Ratios have the unit `x`. NaN: not measured here, and `note` says why."""

    bench: str
    what: str
    value: float
    unit: str = "x"
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def is_kept(self) -> bool:
        """Does the number keep to its limit? What was not measured breaks none."""
        too_high = self.at_most is not None and self.value > self.at_most
        too_low = self.at_least is not None and self.value < self.at_least
        return not too_high and not too_low

    @property
    def cells(self) -> tuple[str, ...]:
        """bench, what, measured, limit, note."""
        limits = (("at least", self.at_least), ("at most", self.at_most))
        limit = ", ".join(f"{word} {bound:,}" for word, bound in limits if bound is not None)
        note = self.note if self.is_kept else f"MISSED {self.note}".rstrip()
        return self.bench, self.what, _amount(self.value, self.unit), limit, note


HEADS = ("bench", "what", "measured", "limit", "note")


def _amount(value: float, unit: str) -> str:
    if np.isnan(value):
        return "-"
    digits = f"{value:.2f}" if unit == "x" and abs(value) < 10 else f"{value:,.0f}"
    return f"{digits} {unit}".rstrip()


def as_text(findings: Sequence[Finding]) -> str:
    """A table for a terminal."""
    rows = [HEADS, *(finding.cells for finding in findings)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def surroundings() -> dict[str, str]:
    """What a ratio may depend on."""
    return {
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "cores": str(os.cpu_count()),
        "processor": platform.machine(),
        "system": platform.system(),
    }


PAGE = """\
# What the benches measured

Written by `python -m bench --write`. All numbers are ratios or counts; those of one bench are of one run, on one
machine ({surroundings}). Times are the best of {n_repeats} repeats, taken in turn. The largest database has {shape}.

{table}

## How to read it

- `values`: all values of a database as columns profile, context, metric, value. The floor is `np.fromfile` of the value
  and index records of the same profile.db, block by block, split into native columns: it does not join the two, knows
  no tree and checks nothing. That both give the same numbers is checked before anything is timed. In sparse rows a
  context has the metrics that are not zero; in full rows it has all of them.
- `memory`: the most resident memory of a fresh process that opens the database and takes the columns, everything
  included (interpreter, tree, mapped pages of the files), against the bytes of the columns.
- `growth`: time per value over databases with ever more profiles, and time per context to open ever larger trees, each
  against the smallest. 1 is linear, less is better.
- `info`: bytes that `callgrove info` asks for; and what one profile or one context costs.
- `startup`: own modules imported, files opened and processor time of `--help`, `info` and `top` on a small database;
  the floor of the time is a process that imports NumPy.
- `algebra`: a mean, a difference and merges of two databases with one tree and different costs, streamed, against
  the columns of both; `compare` and its table against opening both; and the most anonymous memory that streaming a mean
  adds to a process, against the bytes of both inputs' columns.
- `hatchet`: `GraphFrame.from_hpctoolkit_latest` in its per-profile mode (see peers.md), against opening the same
  database and taking all of its columns. Hatchet returns two of the three scopes; all of its values are compared.
- `questions`: a flat profile (`groupby_aggregate`; also pandas alone, which is no question to Hatchet), the printed
  tree, a difference, a filter and a query with what is left added up again, of trees grown at random, against Hatchet
  on the same trees; both have them in memory. All totals are compared. Hatchet groups and subtracts with pandas, in
  compiled code: these two miss what the others keep. Larger trees of four metrics are compared with an eighth of them;
  their frame has all metrics.
- `hpctrace`: a trace of one thread as columns, and as an experiment with its samples. The floor is `np.fromfile` of the
  same records, converted to native byte order.
- `chrome`: a Chrome trace as Kineto writes it, as columns of spans with exact times, against parsers of JSON on the
  same text, which round them (json, and orjson in HTA's environment); against HTA's `parse_traces`, which itself takes
  four to five times as long as orjson (15 times as fast as HTA would be a quarter of the time in which orjson parses
  the text and does nothing else); `summary` from the file against HTA's breakdowns of time, idleness, kernels and
  overlap, reading included; and the memory of a trace that is four times as long. Seconds are processor time.
- `perfetto`: the same trace as Perfetto's packets, as columns of spans with names, flows and lanes, against parsing it
  with the protobuf classes of Perfetto's package (compiled) and looking at every event once.
- `otf2`: an archive of eight locations, as columns of spans, against OTF2's own Python layer, which only goes through
  the events. Processor time, that of the process in which OTF2's library runs included.
- `caliper`: a file of many ranks and a folder of many files as one experiment, against caliper-reader, which only reads
  them one after the other; and the memory of four times as many files, which are opened with 64 open files at most.
- `stacks`: folded stacks, and samples as `perf script` prints them, opened, against reading the bytes and cutting them
  into lines. Processor time.
- `hpcrun`: a measurement file of 04.00, all records decoded and checked, and its values as columns of an experiment;
  folders of more and more files. The floor is `np.fromfile` of the same records, converted to native byte order.
- `cube`: all metrics of a generated Cube file, each value touched once, against the inflater on the same rows, and
  against pycubexr (in this environment). pycubexr puts compressed rows together by copying what it has so far, so its
  time grows with the square of the file: it is measured on smaller ones. Memory is anonymous: no pages of the file.
- `derived`: a specification of 64 derived metrics applied to a generated Cube file of 6,008 call paths on 8 locations,
  from reading the specification to all values, against opening the file and against reading its bytes; files with more
  call paths and more locations; and CubeLib's `cube_remap2 -d` where it is installed.
- `gate`: `diff --left --right --fail-above 3%` on simulated runs, as bench/cases/gate.py describes them: how many of
  1,000 reports alarm without a change, and how many see a planted one. s is the noise of a large function from run to
  run. Where there are more than 20,000 orders of runs, 999 are drawn instead of 9,999. Every number has a fixed seed.
- `modeling`: Extra-P 4.2.5's `ModelGenerator.model_all` on series in memory, against `model_study` on the same series;
  processor time, without reading them. All functions are compared. Memory is the peak of a fresh process, study
  included.
- `convert`: databases from one generation to the other, against reading all files of the input and writing files of the
  output's sizes, in processor time, that of the system included: a busy disk lets whoever writes wait, which says
  nothing of the work. The limit is for the largest. Memory is what converting takes beyond the opened input, without
  pages of files, against the larger of profile.db and cct.db. Microseconds are for each of many profiles with three
  values and two samples.
- `books`: processor time that goes into adding up what writers are given and what they pass on, against that of all
  else in the same conversion.
- `gpu`: `summary` of generated rocprofv3 databases, opening included, against SQL that groups the same tables of events
  by name (regions by category as well) in the same process, and against reading the bytes; columns read from pages
  against `fetchall` of the same columns; and all databases opened as one calling-context profile, as `top` does.
  Files are in the system's cache, unless the row says otherwise. Memory is anonymous, in a fresh process.
- `freed memory`: the time of a processor for GPU databases where freed memory goes back to the system, against that
  where the process keeps it, which the C library of Linux can be taught. Each measurement is a fresh process.
- `prof`: measurement directories to released databases. Traces: files of a real run, multiplied, with long traces; the
  floor is `np.fromfile` of the records of all files, converted to native byte order. Contexts: few files whose trees
  have nothing in common. Memory is the peak of a fresh process, pages of files included.
- `columnar`: our own folders, of a database with values and of a GPU database with spans: written, opened and streamed
  against reading the bytes; the memory of writing a quarter and the whole, anonymous, in a fresh process.
- `report`: the page of a database, without the script and style that all pages have, per context with a cost (lines are
  part of their function); pages against bounds that they must keep; the time from the database to the page against that
  from the database to the columns of all values. Timelines: files of a real run, multiplied, with long traces or many
  of them, from the opened experiment to what the page draws, against reading every sample once; the peak of a fresh
  process, pages of files included.
- `exports`: a generated rocprofv3 database as Chrome's JSON and as rocprofv3's CSV, against a script with `json.dumps`
  or `csv.writer` for each row, and against reading the database and writing as many bytes as the result has.
- `sql`: group-bys over a generated rocprofv3 database, opening included, against the same SQL by sqlite3 over the
  tables of the file; the memory is anonymous, of a fresh process.
- `traces`: generated rocprofv3 databases to Perfetto. Encoding: the same slices, ready in memory, as packets, against
  Perfetto's protobuf classes (`Trace.packet.add()`, then serialised). Converting, opening included and on one core:
  against `fetchmany` of the columns that are needed, and against reading the database and writing as many bytes as the
  trace has. Memory is the peak of a fresh process, pages of files included.
- `trust`: simulated series with noise: how often intervals of 90 % cover the true curve, how often models called good
  are within 20 % at four times the largest scale, whether noise is ever ranked first, what advice is worth against
  points chosen at random, and the improved method against Extra-P on the same series, in processor time.
- `windows`: `timeline` on a generated HPCToolkit database of 100,000 profiles with 20 samples each, and on the spans of
  a rocprofv3 database, against reading the same events alone; rows are checked to add up to the window. Time per sample
  of lines that are four times as long says how it grows.
- `timeline index`: building the index of made-up calls, 20 deep and of 400 names, in a process of its own, against
  sorting as many numbers twice with NumPy; sizes against a rocpd database; pictures and exact legends of random windows
  against adding up as many numbers as the picture has cells. Times are of the processor. Sums are checked first.
- `profiles`: opening, `info`, `top`, one rank and `report` of databases with up to a million profiles, each in a
  process of its own: how processor time for a profile grows with their number, and the peak of memory; and what verbs
  that stream take beyond opening, without mapped pages of files.
- `view`: a viewer in this process, asked through its socket: processor time of the server for a first picture, for
  pictures and legends of random windows of made-up calls, encoding included; and of the server and the main thread of
  a Chromium together, until a page is drawn and until a key press has moved the timeline.
"""


def as_markdown(findings: Sequence[Finding], n_repeats: int, shape: str, before: str = "") -> str:
    """RESULTS.md. Of the page as it was before, rows of benches stay that were not run this time."""
    lines = ["| " + " | ".join(row) + " |" for row in (HEADS, tuple("---" for _ in HEADS))]
    lines += _rows_of_others(before, {finding.bench for finding in findings})
    table = "\n".join([*lines, *("| " + " | ".join(finding.cells) + " |" for finding in findings)])
    around = ", ".join(f"{name} {value}" for name, value in surroundings().items())
    return PAGE.format(surroundings=around, n_repeats=n_repeats, shape=shape, table=table)


def _rows_of_others(page: str, benches: Container[str]) -> list[str]:
    """The rows of a page's table that belong to none of these benches."""
    rows = [line for line in page.splitlines() if line.startswith("| ") and line.endswith(" |")]
    return [row for row in rows[2:] if row.split(" | ")[0].removeprefix("| ") not in benches]
