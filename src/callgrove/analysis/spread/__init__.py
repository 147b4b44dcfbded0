"""How costs are spread over ranks, threads, GPUs, nodes or runs.

The modules, in the order to read them:

    entities.py    which ranks, threads, GPUs, nodes or runs there are, and which profiles belong to each
    values.py      what rows of a view cost in each entity, in one pass over the values
    imbalance.py   statistics over entities (`imbalance`), and what the slowest costs the others
    side_by_side.py  entities as rows or as columns of the flat profile: `top --by rank`, `top --columns rank`
    summary_columns.py  ranks, agents, streams as columns of the summary of a traced run: `summary --columns rank`
"""
