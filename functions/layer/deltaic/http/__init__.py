"""Turns HTTP requests into use cases of `deltaic.sharing`, and their results into responses.

`POST .../tables/orders/query` in the function `query_table`:

    edge                wraps the endpoint as an ASGI app and as a Lambda handler
    request             share, schema and table of the route, headers, body, and the recipient that the authorizer found
    table_endpoints     reads the request's parameters and calls the use case
    response            an NDJSON response, chunk by chunk; an error in the protocol's shape
    compression         gzip, if the client accepts it
    response_cycle      sends the chunks, and ends the response if the app, the client or the time limit breaks it off
    runtime_stream      streams it to Lambda's Runtime API (`streaming` decides whether)
    observability       one log line and its metrics, without secrets

The process's clients and caches are `deltaic.sharing.runtime`; the authorizer asks `deltaic.sign_in`. No rights are
decided here, and the catalog is read through those two packages alone.
"""
