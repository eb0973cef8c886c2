"""Check a deployed stack without changing it, for `deltaic doctor`.

`examination` runs the checks of the other modules in order:

    account, code       clock, concurrency limit, log of API Gateway; deployed code equals this checkout
    durability          point-in-time recovery and deletion protection of tables, page-token key
    roles               functions can assume the signing role; roles deny recipients that are cut off
    bucket_checks       permissions, regions and CORS rules of buckets
    table_reads         logs of shared tables can be read, and one table of each share over the endpoint
    filters, folder_checks  row filters match the tables; volumes, skills, models and Iceberg tables exist
    freshness           followed sources are checked regularly, and views are fresh

Each returns findings (`deltaic_ops.inspection.findings`). `checks.endpoint_checks` sends requests as a recipient.
"""
