"""Refresh views: Delta tables that hold the result of a query for each combination of recipient properties.

One refresh after a source table has changed:

    catalog, definition read the view, its tables and the audiences that need rows
    state, decision     compare versions: compute all rows, only what changed, or nothing
    sql, evaluating     run the view's query for all audiences at once
    computation, changes  rows that the view gains and loses, without rows that are equal
    rewriting, commit   one commit whose change feed shows these changes only

`refreshing` calls them in this order. Recipients' rights are not checked here: a view's rows are filtered when read.
"""
