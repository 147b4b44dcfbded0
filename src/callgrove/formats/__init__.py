"""Formats: one package per tool, found through the registry.

interface.py   what a format is: match, read, dump, check, write
registry.py    the list of formats, and opening a path; detection.py whose content it is
plugins.py     formats of other packages
folders.py     the one input in a folder that is none itself
strangers.py   files that are not read, and what to do with them
transfer.py    an experiment, streamed into a writer; saving.py the same with one call
writing.py     what writers share: the order of calls, and that a failure leaves nothing
losses.py      what more than one format cannot hold
targets.py     files and folders that are written beside their place and renamed into it
leftovers.py   hidden places for these, and what killed processes left of theirs
hpctoolkit/    HPCToolkit databases: pre-release, released and legacy
hpcrun/        HPCToolkit measurements, traces and structure files
cube/          Cube 4 of Score-P, Scalasca and CubeLib
extrap/        Extra-P's files of series
runs/          folders of runs in any of these formats
gpu/           GPU traces in SQLite: rocpd, its draft, RPD, Nsight Systems
timeline/      traces for viewers: Perfetto, Chrome, OTF2
rocprof_csv/   the CSV files of rocprofv3
columnar/      our own folder of Parquet tables
"""
