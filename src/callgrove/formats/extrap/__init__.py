"""Extra-P's files of measurements: seven formats, all of them studies.

Specification: `extrap.md` of this project's specifications, checked against Extra-P 4.2.5; the document "File format
documentation" of Extra-P, whose grammar is a part of what is accepted here.

    extrap-text         PARAMETER, POINTS, METRIC, REGION, DATA           text.py
    extrap-talpas       a JSON object per line, `;` where JSON has `,`    json_lines.py
    extrap-jsonl        a JSON object per line                            json_lines.py
    extrap-json         {"parameters": [...], "measurements": {...}}      json.py
    extrap-json-old     lists that refer to each other by ids             json.py
    extrap-experiment   a ZIP with experiment.json and raw values         experiment.py, models.py, archive.py
    extrap-binary3      records of Extra-P 3                              binary3.py

    study_format.py     what all have in common: recognising, checking, writing
    text_input.py       text by lines, JSON by paths, numbers with their place

Known deviations, all of them accepted only without `strict` where Extra-P refuses: see docs/extrap.md.
"""
