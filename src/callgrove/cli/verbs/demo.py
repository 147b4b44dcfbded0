"""`callgrove demo`: make a small experiment of every kind that can be written, and walk through it."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from callgrove.cli.parser import Command
from callgrove.errors import CallgroveError, UsageError

NAME = "stencil.d"
GPU_NAME = "train.db"
STUDY_NAME = "scaling.txt"
INPUTS = (NAME, GPU_NAME, STUDY_NAME)
REPORT_NAME = "report.html"
WALK = (
    ("What is it?", ["info", NAME]),
    ("Where does the time go?", ["top", NAME, "--limit", "8"]),
    ("Along which path?", ["hot", NAME]),
    ("The call tree of rank 3 alone:", ["tree", NAME, "--rank", "3", "--limit", "15"]),
    ("Who calls the costly functions?", ["tree", NAME, "--bottom-up", "--limit", "8"]),
    ("Down to the source lines:", ["top", NAME, "--by", "line", "--limit", "6"]),
    ("How efficiently does it use its processes and threads?", ["pop", NAME]),
    ("Is it sound?", ["check", NAME]),
    ("A run on GPUs: how busy are they, and where does their time go?", ["summary", GPU_NAME, "--limit", "12"]),
    ("How does the first program scale?", ["model", STUDY_NAME]),
    ("What will cost most on 4096 ranks?", ["predict", STUDY_NAME, "--at", "p=4096,n=500"]),
    (
        "A page with pictures of all three, to open in a browser:",
        ["report", *INPUTS, "--title", "demo", "-o", REPORT_NAME],
    ),
    ("As data:", ["export", NAME, "--table", "values", "--scope", "exclusive", "--limit", "4"]),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    keep: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", metavar="FOLDER", help="write the examples to this folder and keep them")


def run(options: Options) -> int:
    if options.keep is not None:
        folder = Path(options.keep)
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*INPUTS, REPORT_NAME):
            if (folder / name).exists():
                raise UsageError(f"{folder / name}: is there already; remove it or choose another folder")
        code = _walk(folder)
        print(f"\nEverything is in {folder}; begin with {folder / REPORT_NAME}.")
        return code
    with tempfile.TemporaryDirectory(prefix="callgrove-demo-") as folder_name:
        return _walk(Path(folder_name))


def make_inputs(folder: Path) -> None:
    """Write the made-up experiments into a folder."""
    from callgrove.examples import example, gpu_example, study_example
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import writer_of
    from callgrove.formats.writing.transfer import write_experiment

    write_experiment(example(), writer_of("hpctoolkit-release"), folder / NAME, WriteOptions())
    write_experiment(gpu_example(), writer_of("rocpd"), folder / GPU_NAME, WriteOptions())
    write_experiment(study_example(), writer_of("extrap-text"), folder / STUDY_NAME, WriteOptions())


def _walk(folder: Path) -> int:
    from callgrove.cli.main import main

    make_inputs(folder)
    print(f"A made-up run of a stencil program on 4 ranks with 2 threads each, as the HPCToolkit database {NAME}.")
    print(f"One of a training program on 2 GPUs, as the database {GPU_NAME}, like those of rocprofv3.")
    print(f"And times of the first program at 25 combinations of ranks and grid sizes, as the text file {STUDY_NAME}.")
    with contextlib.chdir(folder):
        for question, words in WALK:
            print(f"\n{question}\n$ callgrove {shlex.join(words)}")
            sys.stdout.flush()
            if main(words) != 0:
                raise CallgroveError(f"the demo failed at `callgrove {shlex.join(words)}`")
    return 0


DEMO = Command(Options, add_arguments, run)
