"""Pictures of experiments and studies: one page with its data inside, or one that asks a local server.

The modules, in the order to read them:

    report.py        inputs to sections, sections to a page that keeps to a size
    page.py          panels and how much detail they have; script, style and data as one HTML file
    profile.py       flame graph, hot path, spread over profiles
    profile_tree.py  the call tree of a page, its smallest subtrees folded
    commands.py      commands that show the same as a page
    chains.py        flame graphs of functions: with their callers, or with what they call
    comparison.py    two experiments side by side: call paths, functions, timelines
    timeline/        what profiles did over time, in a bounded number of boxes
    summaries.py     kernels, copies, calls and how busy devices were; models of a study
    scaling_details.py  models at points of prediction, near equals, repetitions
    notebook.py      a page inside a notebook, in a frame of its own
    server/          the page of `callgrove view`, and who answers it
    static/          ES modules and the style; they draw data objects and know nothing of the page that holds them

A new panel is a maker here (one line in report.MAKERS) and a module there (one line in static/panels.js).
"""
