"""Formats: one package per tool, found through the registry.

interface.py   what a format is: match, read, dump, check, write
registry.py    the list of formats; detection by content; opening a path
transfer.py    an experiment, streamed into a writer
hpctoolkit/    HPCToolkit databases, pre-release and released
"""
