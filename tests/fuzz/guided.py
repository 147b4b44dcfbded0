"""Fuzzing that is guided by coverage, where atheris is installed (`pip install atheris`; nothing here depends on it).

    python -m tests.fuzz.guided folded --seconds 60

Inputs are bytes of one file, begun with the sound ones of a format. Each is opened as that format and validated; what
escapes but an error for users ends the run, and its input is kept in build/guided.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

FOLDER = Path("build/guided")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided")
    parser.add_argument("format", help="one whose inputs are single files")
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        raise SystemExit("atheris is not installed; pip install atheris") from None
    with atheris.instrument_imports(include=["callgrove.binary", "callgrove.formats"]):
        from callgrove.errors import CallgroveError
        from callgrove.formats.registry import check_path, load
        from tests.fuzz.seeds import make_seeds

        load(options.format)
    corpus = FOLDER / options.format
    corpus.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="callgrove-guided-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    for seed in make_seeds(scratch)[options.format]:
        if seed.path.is_file():
            shutil.copyfile(seed.path, corpus / seed.name)
    file = scratch / "input"

    def open_one(data: bytes) -> None:
        file.write_bytes(data)
        try:
            check_path(file, options.format)
        except CallgroveError:
            return

    warnings.simplefilter("error")
    words = [f"-max_total_time={options.seconds}", "-max_len=65536", "-rss_limit_mb=2000", "-timeout=10"]
    atheris.Setup([sys.argv[0], *words, f"-artifact_prefix={FOLDER}/", str(corpus)], open_one)
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
