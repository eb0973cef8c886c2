"""Run Spark for jobs: Java, jars, session, storage access, interruption and errors.

A job on a laptop, from nothing to a session:

    java, jars          choose a Java 17; fetch the pinned jars once and verify them
    storage_access      turn AWS variables into settings of the S3 client
    session             start Spark with Delta and these settings; on a cluster, use the session that exists
    jvm                 look up classes of Spark and Delta that have no Python API
    interruption        on Ctrl-C or SIGTERM end the JVM before the lease is released
    spark_errors        turn an exception of Spark into one sentence without any row's value

`quoting`, `casting` and `sql_rules` build and check SQL text. Nothing here knows tables, leases or the catalog.
"""
