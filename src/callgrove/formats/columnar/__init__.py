"""callgrove's own format: a folder of Parquet tables that holds everything an experiment, or a study, has.

Specification: docs/callgrove-format.md, version 1. `schema.py` declares every table; reader, writer and tests share it.

    NAME.cgrove/
      callgrove.json            the manifest: version, what it holds, how many rows each table has
      contexts.parquet ...      small tables, read when the folder is opened
      values*.parquet           values, a file for each type of value; read row group by row group
      samples.parquet           samples of all lines, one line after the other
      spans.parquet, span_*     spans, and the attributes that only some of them have
      index.parquet             which profiles each row group has, so that one of them is read without the others
      sources/                  copies of source files

The modules, in the order to read them:

    format.py             the format of the registry, and what `check` and `dump` say
    schema.py             every table, as Arrow columns and back
    folder.py             a folder that is read: manifest, Parquet files, the damage that was met
    reading.py            a folder as an experiment; values, read when asked for
    writer.py             an experiment as a folder
    studies.py            studies, read and written
    experiment_tables.py  contexts with their code, runs, profiles, and where they live
    metric_tables.py      metrics, the columns to show, and attributes of everything
    stored_formulas.py    formulas of derived metrics, and the languages that read them
    traces.py             samples; spans and their attributes, read when asked for
    traces_writer.py      spans, counters over time, attributes, devices and small tables beside spans, written
    row_groups.py         Parquet files written row group by row group, and their index

Absent is NULL in the tables and -1 (or NaN, or no offset) in the model. Texts that are not valid Unicode are escaped:
see `schema.py`. Known deviations: none, we are the only writer; tables that other tools wrote anew open as long as they
have the same columns and rows, in row groups of at most a million rows.
"""
