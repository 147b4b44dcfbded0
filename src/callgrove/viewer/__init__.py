"""Pictures of experiments and studies: one page with its data inside.

The modules, in the order to read them:

    report.py    inputs to sections, sections to a page that keeps to a size
    panels.py    what a page is made of, and how much of it: Panel, Detail, Choice
    page.py      script, style and document as one HTML file that loads nothing else
    profile/     flame graph, call tree, hot path, spread over profiles
    timeline/    what profiles did over time, in a bounded number of boxes
    gpu.py       kernels, copies, calls; how busy devices were, and why not
    scaling.py   models of a study, and what was measured
    static/      ES modules and the style; they draw data objects and know nothing of the page that holds them

A new panel is a maker here (one line in report.MAKERS) and a module there (one line in static/main.js).
"""
