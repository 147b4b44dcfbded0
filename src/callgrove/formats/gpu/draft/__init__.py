"""The draft schema of multi-node profiling data: 11 tables, one `strings` table for all names.

reader.py      events and samples of call stacks
schema.py      its tables, event columns, and the JSON in `additional_info`
lanes.py       processes, devices and lanes
writer.py      writes it, streaming; rows.py spans as its rows
"""
