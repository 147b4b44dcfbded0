"""The parts of a made-up released HPCToolkit database, written straight from arrays.

tree.py         a random calling context tree
costs.py        what every profile spends where, a batch of profiles at a time
meta_file.py    meta.db and metrics/default.yaml
value_files.py  profile.db, and cct.db from it
trace_file.py   trace.db
"""
