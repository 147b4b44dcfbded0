"""Nsight Systems exports (SQLite), of every generation: tables and columns come and go.

reader.py              events of every kind
tables.py              the event tables, and what their numbers mean
places.py              processes, devices and lanes
call_chains.py         who called an API, what was sampled, call paths in NVTX ranges
extrap.py              a folder of exports as the study that Extra-P makes of it
extrap_paths.py, extrap_activities.py    the call paths and activities of that study
"""
