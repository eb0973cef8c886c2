"""Check a deployed stack without changing it; each module has one subject.

`deltaic doctor` runs the checks in the order of `examination`:

    account, code       clock, concurrency limit, API Gateway's log; the deployed packages equal this checkout
    durability          point-in-time recovery, deletion protection, the signing key
    roles               who can assume the signing roles; recipients that are cut off are denied
    bucket_checks       permissions, regions and CORS rules of buckets
    table_reads         logs of shared tables, and one table over the endpoint
    filters, folder_checks  filters match the tables; volumes, skills, models and Iceberg tables exist
    freshness           followed sources are checked regularly, and views are fresh

Each returns findings (`deltaic_ops.inspection.findings`). `checks.endpoint_checks` sends requests as a recipient.
"""
