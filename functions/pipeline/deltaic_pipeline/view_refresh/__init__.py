"""Refresh views: Delta tables that hold the result of a query for each combination of recipient properties.

One refresh after a source table has changed:

    catalog_session     read the view, its tables and the audiences that need rows (definition)
    decision            compare the refresh_state: compute all rows, only changed rows, or nothing
    evaluation          run the view's query (view_sql) for all audiences at once
    computation         rows that the view gains and loses, without equal rows (row_changes)
    rewriting, commit   one commit whose change feed has these changes only

`refresh` calls them in this order. Recipients' rights are not checked here: a view's rows are filtered when read.
"""
