"""The database of rocprofv3 (rocpd, schema 3): one set of suffixed tables per process, several in a file.

reader.py            one data set
events.py            events of every kind, of one data set or of several small ones at once
lookups.py           what the ids of events lead to: names, threads, devices, streams
tables.py            the tables and their columns
places.py            processes, agents and lanes; of many databases at once
place_columns.py     agents and lanes as columns, and where events happened
owners.py            from ids of one of several databases to rows
span_attributes.py   what only some events have: grids, bytes, arguments, counters
writer.py            many databases as one file, with the views of rocprofv3's schema
spans_writer.py      any trace of a GPU program as such a database
"""
