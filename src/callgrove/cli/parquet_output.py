"""Tables to a Parquet file, chunk by chunk.

All chunks need the same types, and some columns are empty in the first one: types go by the names of columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from callgrove.cli.messages import note
from callgrove.cli.output import replacing
from callgrove.errors import MissingExtra
from callgrove.model.table import UNCOUNTED, Column, Table, first_rows

__all__ = ["emit_parquet"]

INTEGERS = (
    *("profile", "context", "metric", "run", "parent", "source_id", "line", "call_line", "visible", "repetitions"),
    *("time_ns", "start_ns", "end_ns", "depth", "correlation"),
)
UNSIGNED = ("offset", "node", "rank", "thread", "gpu_device", "gpu_context", "gpu_stream", "core")
TEXTS = (
    *("kind", "name", "unit", "scope", "dtype", "aggregate", "statistic", "description", "formula", "identifiers"),
    *("host", "file", "module", "path", "relation", "category", "callpath", "fields"),
)


def emit_parquet(
    tables: Iterable[Table], name: str, target: str, limit: int | None = None, n_rows: int | None = None
) -> None:
    """Write the table of a name to a file; `n_rows` is how many rows there are in all, where that is known."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra("arrow", "writing Parquet") from error
    cut, schema, file = 0, None, None
    stream = tables if limit is None else first_rows(tables, limit, n_rows)
    with replacing(Path(target)) as path, pyarrow.OSFile(bytes(path), "wb") as sink:
        try:
            for table in stream:
                schema = schema or _schema(table, name)
                file = file or parquet.ParquetWriter(sink, schema, compression="zstd")
                file.write_table(_arrow(table, schema))
                cut = table.left or cut
        finally:
            if file is not None:
                file.close()
    if cut:
        note(f"{'' if cut == UNCOUNTED else f'{cut} '}more rows were left out by --limit")


def _schema(table: Table, name: str) -> Any:
    import pyarrow

    known = {"series": {"metric": pyarrow.string()}}.get(name, {})
    return pyarrow.schema([(column.name, known.get(column.name) or _type(column)) for column in table.columns])


def _type(column: Column) -> Any:
    import pyarrow

    if column.name in TEXTS:
        return pyarrow.string()
    if column.name in INTEGERS:
        return pyarrow.int64()
    return pyarrow.uint64() if column.name in UNSIGNED else pyarrow.float64()


def _arrow(table: Table, schema: Any) -> Any:
    import pyarrow

    columns = [_cells(column, schema.field(column.name).type) for column in table.columns]
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _cells(column: Column, type_: Any) -> Any:
    import pyarrow

    cells = column.plain()
    if pyarrow.types.is_string(type_):
        cells = [cell if cell is None else cell.encode("utf-8", "backslashreplace").decode() for cell in cells]
    elif pyarrow.types.is_integer(type_):
        low, high = (-(2**63), 2**63) if pyarrow.types.is_signed_integer(type_) else (0, 2**64)
        cells = [cell if cell is None or low <= cell < high else None for cell in cells]
    else:
        cells = [cell if cell is None else float(cell) for cell in cells]
    return pyarrow.array(cells, type_)
