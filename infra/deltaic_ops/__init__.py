"""Operate Deltaic: the `deltaic` command, the console, checks, deployment and the local server.

`deltaic table create s.d.orders --location s3://lake/orders`, by package:

    cli                 parse the command, connect to the right AWS account, print the result
    inspection          read the table's log with the operator's credentials and warn about problems
    rights              explain what recipients will see
    deploy              find the stack, its outputs and its template

`declared` keeps the catalog as files, `checks` holds verify and doctor, `jobs` submits Spark jobs, `usage` reports
who read what, `load` writes files into tables, `console` is the operator's web page, `local` and `localstack` run a
server here. Rules for what may be shared are the layer's (`deltaic.catalog.admin`), not this package's.
"""
