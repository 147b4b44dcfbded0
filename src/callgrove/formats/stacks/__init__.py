"""Costs of call stacks: folded stacks and samples of Linux perf, read; folded stacks, speedscope, pprof, Graphviz,
written for viewers of flame graphs and call graphs.

    experiment --> exclusive costs of contexts --> frames: different stacks --> whole numbers --> lines, JSON, messages

The modules, in the order to read them:

    costs.py       which metrics can be written, what they cost, and how costs become whole numbers
    frames.py      the call tree as such targets see it: stacks of names
    writer.py      the writer of all these formats, and what all of them lose
    folded.py      Brendan Gregg's folded stacks, read and written
    perf_script.py samples of Linux perf as text, read
    speedscope.py  speedscope's file: profiles, and what happened over time
    pprof.py       profile.proto
    dot.py         Graphviz: the call graph, or the call tree

The others are written only. The specifications are public: flamegraph.pl's input, perf-script(1), speedscope's
file-format schema, pprof's profile.proto, the DOT language.
"""
