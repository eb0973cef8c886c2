"""HTTP endpoints: parse requests, call use cases of `deltaic.sharing`, and send their results as responses.

`POST .../tables/orders/query` in the function `query_table`:

    edge                wraps the endpoint as an ASGI app and as a Lambda handler
    request             share, schema and table from the route, headers, body, and the recipient from the authorizer
    table_endpoints     parses the request's parameters and calls the use case
    response            an NDJSON response, chunk by chunk; an error in the protocol's format
    compression         gzip, if the client accepts it
    response_cycle      sends the chunks, and ends the response if the app fails, the client leaves or the time is up
    runtime_stream      streams it to Lambda's Runtime API, if `streaming` selects that
    observability       one log line and its metrics, without secrets

The clients and caches of a process are in `deltaic.sharing.runtime`. The authorizer calls `deltaic.sign_in`. This
package decides no rights, and reads the catalog only through those two packages.
"""
