"""Read and check dataset files without importing Spark: fields, variables, SQL and columns.

For example patients.yaml with `key: [patient_id]` under `write`, and `{{ day }}` in a path:

    file_text           reads patients.yaml from disk or S3
    variable_binding    replaces `{{ day }}` by the value of `--set day=2026-11-22`, which `variable_values` parses
    dataset_model       rejects the unknown field `key`, and checks types and locations; `schedule` checks the schedule
    file_checks         returns `Mistake(line 9, "write.key", "is not a field here: did you mean keys?")`
    sql_text            finds SQL that is not a query, and names in SQL that are neither sources nor steps
    named_columns       finds keys and partition columns that do not exist in the declared schemas of the sources

`run` checks whether Spark accepts the SQL, and whether the target table has these columns.
"""
