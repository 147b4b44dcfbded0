"""Reads Caliper files with caliper-reader; run by an interpreter that has it.

python read_with_caliper.py REPEATS FILE...     the least processor seconds of reading all, and the number of records
"""

import sys
import time

import caliperreader


def read_all(paths: list[str]) -> int:
    """Read every file by itself; return how many records there are."""
    n_records = 0
    for path in paths:
        reader = caliperreader.CaliperReader()
        reader.read(path)
        n_records += len(reader.records)
    return n_records


def main(repeats: str, *paths: str) -> None:
    best, n_records = float("inf"), 0
    for _ in range(int(repeats)):
        start = time.process_time()
        n_records = read_all(list(paths))
        best = min(best, time.process_time() - start)
    print(best, n_records)


if __name__ == "__main__":
    main(*sys.argv[1:])
