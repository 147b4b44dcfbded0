"""callgrove's own format: a folder of Parquet tables that holds everything an experiment, or a study, has.

Specification: docs/callgrove-format.md, version 1. `schema.py` declares every table; reader, writer and tests share it.

    NAME.cgrove/
      callgrove.json            the manifest: version, what it holds, how many rows each table has
      contexts.parquet ...      small tables, read when the folder is opened
      values*.parquet           values, a file for each type of value; read row group by row group
      samples.parquet           samples of all lines, one line after the other
      spans.parquet, span_*     spans, and what only some of them have
      index.parquet             which profiles each row group has, so that one of them is read without the others
      sources/                  copies of source files

Absent is NULL in the tables and -1 (or NaN, or no offset) in the model. Texts that are no valid Unicode are escaped:
see `texts.py`. Known deviations: none, we are the only writer; tables that other tools wrote anew open as long as they
have the same columns and rows, in row groups of at most a million rows.
"""
