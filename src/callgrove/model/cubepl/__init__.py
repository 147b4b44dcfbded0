"""CubePL, the language of derived metrics in Cube files: Score-P's, Scalasca's and those of users of Cube.

    compiled = compile_metrics([Definition(row, kind, init, rules), ...])
    compiled.rows                               rows whose `derivation` evaluates their formulas

Specification: the CubePL of CubeLib 4.8, and what its tools really do. It works on the tree of any experiment: a
specification that a Cube file brings (`remapping.spec`) can be applied to one of another format.

What is decided here, where the tools are wrong or silent:

    a formula that cannot be read, circles, endless loops, negative indices     unavailable, with line and column
    metrics that a file does not have, and VOID ones                            0, as in the tools, with a note
    broken regular expressions                                                  match nothing, as in the tools; a note
    `if` in POSTDERIVED formulas                                                each cell decides by its own values
    negative exclusive values of unsigned metrics                               stay negative
    integer types of derived metrics                                            all results are doubles
    global variables that a formula assigns                                     seen by that evaluation alone
    `env()`, `random()`                                                         empty, with a note; the same each time
    metrics of single places of the system (`metric::call::X(c,f,s,g)`)         unavailable, but for the whole system
    metrics that are made inside of formulas, lists of lists                    unavailable

The modules, in the order to read them:

    nodes.py          the tree of a formula
    syntax.py         from text to a tree
    patterns.py       regular expressions without backtracking
    values.py         numbers and texts, of all cells or of each; arithmetic
    loops.py          loops whose counts do not depend on one another
    interpreter.py    statements and expressions for all cells at once
    reserved.py       what formulas can ask of a file: names, counts, parents
    derivation.py     formulas in the cells of a view
    compiling.py      from definitions to derived metrics
"""

from __future__ import annotations

from callgrove.model.cubepl.compiling import KINDS, Compiled, Definition, Specification, compile_metrics, mark_void
from callgrove.model.cubepl.derivation import CubePl, Program
from callgrove.model.cubepl.reserved import Surroundings

__all__ = [
    "KINDS",
    "Compiled",
    "CubePl",
    "Definition",
    "Program",
    "Specification",
    "Surroundings",
    "compile_metrics",
    "mark_void",
]
