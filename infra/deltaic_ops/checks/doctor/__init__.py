"""Examine a deployed stack, one subject per module; nothing is changed.

`deltaic doctor`, in the order of `examination`:

    account             clock, concurrency limit, the role that writes API Gateway's log
    code                the deployed packages are those of this checkout
    durability          point-in-time recovery, deletion protection, the signing key
    roles               who can assume the signing roles; revoked recipients are denied
    places, reading     buckets and regions of shared tables; each log is readable by the function that needs it
    filters, assets     filters still match the tables; volumes, skills and models exist
    freshness           views are as fresh as promised; followed folders have their tables

Each returns findings (`deltaic_ops.inspection.findings`): what was examined, whether it is right, and what to do.
Requests as a recipient are `checks.verify`.
"""
