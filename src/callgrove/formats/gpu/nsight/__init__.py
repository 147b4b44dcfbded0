"""Nsight Systems exports (SQLite), of every generation: tables and columns come and go.

reader.py                              events of every kind
tables.py                              the event tables, what their numbers mean, call chains and NVTX call paths
places.py                              processes, devices and lanes
extrap.py                              a folder of exports as the study that Extra-P makes of it
extrap_paths.py, extrap_activities.py  the call paths and activities of that study
"""
