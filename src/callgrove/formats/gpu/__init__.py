"""GPU traces in SQLite: rocprofv3's rocpd, the draft schema that preceded it, RPD, Nsight Systems.

Specification: gpu-traces.md. Four families of schemas, one way to an experiment:

    sqlite_file.py   a database that is safe to read: header checked, read-only, columns by name
    sqlite_header.py what the first bytes say; schema.py: what tables are declared to be
    sqlite_connection.py                         SQLite's own way to it, and SQLite's errors
    private_copy.py  databases whose writer did not finish, read from a copy
    cells.py         any type in any cell, as numbers, times or texts
    pages.py, pages_records.py, pages_tables.py, pages_few.py     tables from the bytes of a file that nobody writes
    pages_found.py, pages_shapes.py               where rows stand, and which are alike
    lookup.py, json_cells.py                      ids of a table as numbers; JSON in cells
    joined_pages.py, joined_files.py, joined_spans.py             many small files of one run, some at a time
    files.py         what a user names (files, folders, index.yaml) -> databases, each once
    index_file.py    writes such an index
    aligning.py      clocks of several machines brought together, where the user says how
    dataset.py       what a family's reader gives: processes, lanes, devices, and events in chunks
    tables.py        event tables as events, for the readers of all families
    ranks.py         which rank a process is; jobs.py: which runs they belong to
    places.py        hosts, processes, devices and lanes of all data sets, as profiles and a system tree
    spans.py         events of any number of data sets as the spans of one experiment
    stack_samples.py samples of call stacks as contexts and lines; beside.py: small tables that stand beside spans
    extras.py        columns that no reader knows, kept
    experiment.py    data sets -> experiment
    formats.py       the formats of the registry
    checking.py, dumping.py                      what `check` and `dump` say
    rocpd.py, rpd.py, nsight.py, draft.py        the readers of the families
    rocpd_places.py, rocpd_tables.py, rocpd_events.py, rocpd_sides.py     more of rocpd's
    rocpd_opening.py, rocpd_together.py                  many of its databases at once: what they list, and their events
    rocpd_agents.py, rocpd_infos.py                      what it says of devices, and of everything else
    nsight_places.py, nsight_tables.py, nsight_lookups.py, nsight_devices.py, nsight_chains.py     more of Nsight's
    nsight_symbols.py                            call paths that Extra-Prof leaves in it
    nsight_extrap.py, nsight_extrap_paths.py, nsight_extrap_activities.py, nsight_extrap_memory.py,
    nsight_extrap_overlaps.py, nsight_extrap_rows.py, nsight_extrap_series.py    the study that Extra-P makes of it
    sqlite_target.py                             a database in the making
    rocpd_schema.py, rocpd_data_views.py, rocpd_writer.py                 many rocpd databases as one
    rocpd_spans_writer.py                        any other trace as one
    draft_tables.py, draft_infos.py, draft_lanes.py, draft_samples.py     more of the draft's reader
    draft_schema.py, draft_places.py, draft_rows.py, draft_writer.py      its writer

A row is known by its data set and its id, never by process or thread numbers: these repeat on every node. No SQL text
of a file is ever run: only base tables are read, by quoted names that were found in its schema.
"""
