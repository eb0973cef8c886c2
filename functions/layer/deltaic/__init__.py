"""Deltaic: a Delta Sharing server in which AWS Lambda functions serve every endpoint.

A query of a table, from the event of API Gateway to signed URLs:

    http         turns the event into a request of the recipient whose token the authorizer accepted
    sharing      checks the recipient's rights, and selects the version, the files and the page
    catalog      reads the recipient, its grants and the table's catalog entry from DynamoDB
    protocol     parses the request and writes the lines of the response
    delta        lists the live files of the version from the table's log
    pruning      drops files that cannot match the query's hints (`partition_filters`: files hidden from the recipient)
    storage      reads the log from S3, and signs a URL for each remaining file

`sign_in` and `identity` accept JWTs, activation links and OAuth clients. `iceberg` describes a Delta version to Iceberg
clients, `pages` serves web pages, `scheduled` runs on a schedule.
Spark jobs and the operator's commands are in other packages; see docs/architecture.md.
"""
