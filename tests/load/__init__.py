"""Load: many processes at once, and one process for a long time.

crowd.py      many processes on the same inputs, caches and targets: the same answers, nothing half, nothing left
soak.py       random verbs over all samples in one process: memory, descriptors, threads and files do not grow
__main__.py   python -m tests.load crowd|soak: long runs by hand
test_load.py  small ones
"""
