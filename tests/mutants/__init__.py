"""Tests that bite: callgrove with one small defect at a time, and whether the tests notice.

    mutating.py      what a mutant is: one place in the code that is another one; put into functions that are loaded
    reaching.py      a map of which tests reach which places, made once by running them
    running.py       a forked child for each mutant, which runs tests that reach it
    __main__.py      python -m tests.mutants: a sample, always the same one (`make mutants`)
    test_mutants.py  the tests of this

Mutants live in the memory of a child: no file is changed.
"""
