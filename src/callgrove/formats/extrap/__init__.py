"""Extra-P's files of measurements: seven formats, all of them studies.

Specification: `extrap.md` of this project's specifications, checked against Extra-P 4.2.5; the document "File format
documentation" of Extra-P, whose grammar is a part of what is accepted here.

    extrap-text         PARAMETER, POINTS, METRIC, REGION, DATA
    extrap-talpas       a JSON object per line, `;` where JSON has `,`
    extrap-jsonl        a JSON object per line
    extrap-json         {"parameters": [...], "measurements": {...}}
    extrap-json-old     lists that refer to each other by ids
    extrap-experiment   a ZIP with experiment.json and raw values
    extrap-binary3      records of Extra-P 3

The modules, in the order to read them:

    study_format.py  what all have in common: recognising, text that knows its place, checking, writing
    text.py          extrap-text, read and written
    json_lines.py    extrap-talpas and extrap-jsonl
    json.py          extrap-json and extrap-json-old
    experiment.py    extrap-experiment: experiment.json, the ZIP around it, and the raw values
    models.py        the models in it
    binary3.py       extrap-binary3

Known deviations, all of them accepted only without `strict` where Extra-P refuses: see docs/extrap.md.
"""
