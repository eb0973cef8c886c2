"""Publish and maintain shared tables with Spark: one module for each job, and packages that jobs share.

A job that publishes yesterday's orders, from the command line to its commit:

    entry, job_command  start the job by name, catch its errors, set its exit code
    arguments           parse the job's options
    spark               find Java and the jars, start the session, report progress and errors
    table               lease the table, read the source, write one version, create the catalog entry
    publish             run these steps in order

`views`, `maintain` and `usage` are the other jobs; `view_refresh`, `maintenance` and `usage_log` implement them.
Jobs do not serve requests, and the layer `deltaic` does not import this package.
"""
