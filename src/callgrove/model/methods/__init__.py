"""What can be asked of an experiment or a study: one method for each verb of the command line, in its words.

The chapters, in the order to read them:

    shared.py    what experiments, studies, comparisons and tables have alike: showing themselves, writing, SQL
    views.py     views of costs, their pictures, comparisons
    traces.py    statistics of spans, times in a window, phases
    parts.py     experiments made of one: a part of it, further metrics, sums and differences
    exports.py   tables, data frames, graphs, a study
    studies.py   comparisons, models and predictions of a study

This package is the one door from the model to the layers above it: a method imports the plain function behind it when
it is called. Nothing else in the model knows these layers, and nothing here computes. No method prints or changes its
experiment; what a reader should know about a table is in its `notes`.
"""
