"""Extra-P's files of measurements: seven formats, all of them studies.

Specification: `extrap.md` of this project's specifications, checked against Extra-P 4.2.5; the document "File format
documentation" of Extra-P, whose grammar is a part of what is accepted here.

    extrap-text         PARAMETER, POINTS, METRIC, REGION, DATA           text.py, points.py
    extrap-talpas       a JSON object per line, `;` where JSON has `,`    records.py
    extrap-jsonl        a JSON object per line                            records.py
    extrap-json         {"parameters": [...], "measurements": {...}}      json_new.py
    extrap-json-old     lists that refer to each other by ids             json_old.py
    extrap-experiment   a ZIP with experiment.json and raw values         experiment.py, stored_models.py, raw_values.py
    extrap-binary3      records of Extra-P 3                              binary3.py, binary3_records.py

    sniffing.py         which of them it is, by content
    study_format.py     what all have in common: match, check, completeness
    archive.py          the ZIP of an experiment; measurement_json.py one measurement in it
    lines.py, json_tree.py, numbers.py     text by lines, JSON by paths, numbers with their place
    text_writer.py, records_writer.py, json_writer.py, json_old_writer.py, experiment_writer.py, models_writer.py
                        writers for all but the last; writing.py is what they share

Known deviations, all of them accepted only without `strict` where Extra-P refuses: see docs/extrap.md.
"""
