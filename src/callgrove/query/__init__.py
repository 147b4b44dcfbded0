"""SQL over experiments and studies.

relations.py      what a table is to SQL: typed columns, read in chunks of those that are wanted
own_tables.py     the tables that `export` prints
span_tables.py    spans, and what only some of them have
lanes.py          where the spans of a profile happened: process, thread, agent, stream
rocpd_views.py    spans under the names of rocprofv3's own views
rocpd_sums.py     top, busy and the summaries of these views, right
rocpd_things.py   processes, threads, kernel symbols, ...
catalog.py        all tables of all inputs
cells.py          columns as an engine takes them
engines.py        what an engine does
sqlite_engine.py  Python's own SQLite
duckdb_engine.py  DuckDB, with the extra `sql`
complaints.py     an engine's error in one sentence, with the name that was meant
asking.py         `sql`: find out which columns a query needs, load these, run it
"""
