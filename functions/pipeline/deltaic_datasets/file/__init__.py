"""The dataset file: what it can say, where each value stands, and what is wrong with it. Nothing here imports Spark.

For example patients.yaml with `key: [patient_id]` under `write`, and `{{ day }}` in a path:

    text            reads patients.yaml from disk or S3
    binding         replaces `{{ day }}` by the value of `--set day=2026-11-22`, which `variables` reads as a DATE
    model           refuses the field `key`, and checks types, locations and the `schedule`
    checking        returns `Mistake(line 9, "write.key", "is not a field here: did you mean keys?")`
    sql_text        finds, in a file without such mistakes, SQL that is no query and names that are no view
    named_columns   finds keys and partition columns that the declared schemas do not have

Whether Spark accepts the SQL, and whether the target table has these columns, is decided by `run`.
"""
