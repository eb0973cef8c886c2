"""Read and check dataset files: fields, variables, SQL and columns. Nothing here imports Spark.

For example patients.yaml with `key: [patient_id]` under `write`, and `{{ day }}` in a path:

    file_text           reads patients.yaml from disk or S3
    variable_binding    replaces `{{ day }}` by the value of `--set day=2026-11-22`, a DATE for `variable_values`
    dataset_model       refuses the field `key`, and checks types and locations; `schedule` checks the schedule
    file_checks         returns `Mistake(line 9, "write.key", "is not a field here: did you mean keys?")`
    sql_text            finds SQL that is not a query, and names that are neither sources nor steps
    named_columns       finds keys and partition columns that the declared schemas do not have

`run` checks whether Spark accepts the SQL, and whether the target table has these columns.
"""
