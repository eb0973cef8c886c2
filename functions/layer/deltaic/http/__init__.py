"""HTTP endpoints: parse requests, call the use cases of `deltaic.sharing`, and send the results as responses.

Example: modules that handle `POST .../tables/orders/query` in the Lambda function `query_table`:

    edge                wraps the endpoint as an ASGI app and as a Lambda handler
    request             reads share, schema and table from the route, headers, body, and the authorizer's recipient
    table_endpoints     parses the request's parameters and calls the use case
    response            an NDJSON response, or an error in the protocol's format
    compression         compresses the chunks with gzip, if the client accepts it
    response_cycle      sends the chunks, and ends the response after errors, disconnects and timeouts
    runtime_stream      streams the response to Lambda's Runtime API, if `streaming` selects that
    observability       writes one log line and the metrics of the request, without secrets

AWS clients and caches that a process shares are in `deltaic.sharing.runtime`. The authorizer calls `deltaic.sign_in`.
This package makes no access decisions, and reads the catalog only through `deltaic.sharing` and `deltaic.sign_in`.
"""
