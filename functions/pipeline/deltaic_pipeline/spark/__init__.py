"""Run Spark for jobs: Java, jars, session, storage access, interruption and errors.

A job on a laptop, from its start to its end, by module:

    java, jars          choose a Java 17; download the pinned jars once and verify them
    storage_access      convert AWS environment variables to settings of Spark's S3 client
    session             start Spark with Delta and these settings; on a cluster, use the existing session
    jvm                 access classes of Spark and Delta that have no Python API
    interruption        on Ctrl-C or SIGTERM, stop the JVM before the writer lease is released
    spark_errors        convert Spark's exceptions to messages of one line without row data

`quoting`, `casting` and `sql_rules` build and check SQL. This package does not depend on leases and the catalog.
"""
