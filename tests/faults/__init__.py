"""Faults of the system under callgrove: killed at a call, a full disk, a device that fails, files that change.

injection.py    one command in a forked child, at one of whose system calls strace makes a fault happen
writers.py      everything that writes files: afterwards there is the old target or the new one
readers.py      every format that is read: afterwards there is the same answer, or a sentence that names the file
__main__.py     python -m tests.faults writers|readers: all calls of all of them, by hand
test_faults.py  a sample of it
"""
