"""Refresh views: Delta tables that hold the result of a query for each combination of recipient properties.

One refresh after a source table has changed:

    catalog_session     read the view, its tables and its audiences from the catalog (definition)
    decision            decide by the refresh_state: compute all rows, only changed rows, or nothing
    evaluation          run the view's query (view_sql) for all audiences at once
    computation         compute the rows that the view gains and loses, without equal rows (row_changes)
    rewriting, commit   write one commit whose change feed has these changes only

An audience is a combination of recipient properties. `refresh` calls the modules in this order. Recipients' rights are
not checked here: a view's rows are filtered when recipients read them.
"""
