"""Deltaic: a Delta Sharing server whose every endpoint is a function.

A query of a table, from the event of API Gateway to signed URLs:

    http         the event becomes a request of the recipient whose token the authorizer accepted
    sharing      what the recipient may see, and which version, files and page are asked for
    catalog      the grant, the table's entry and the recipient, from DynamoDB
    protocol     the request and the lines, as the Delta Sharing protocol has them
    delta        the live files of the version, from the table's log
    pruning      the files that cannot match the hints are left out (`partition_filters`: those that are not shared)
    storage      S3: the log is read, and a URL is signed for each file that is left

`sign_in` and `identity` accept JWTs, activation links and OAuth clients. `iceberg` describes a Delta version to Iceberg
clients, `pages` are for people, `scheduled` runs without a request.
Spark jobs and the operator's commands are other packages; docs/architecture.md has the whole map.
"""
