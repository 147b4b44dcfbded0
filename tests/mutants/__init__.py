"""Tests that bite: callgrove with one small defect at a time, and whether the tests notice.

    mutating.py      what a mutant is: one place in the code that is another one; put into functions that are loaded
    running.py       a forked child for each mutant, which runs the tests of its module
    __main__.py      python -m tests.mutants: a sample, always the same one (`make mutants`)
    test_mutants.py  the tests of this

Mutants live in the memory of a child: no file is changed.
"""
