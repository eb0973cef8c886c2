"""Parse and write the Delta Sharing protocol: names, requests, capabilities, tokens and response lines.

Example: a query in delta format, from its body to a line of the response.

    request_body, query_request    parse {"limitHint": 10, "version": 3}, and check it in the reference server's order
    capabilities, negotiation      parse `responseformat=delta,parquet`, and choose delta if the table needs it
    gates                          check that version 3 is shared, by the table's catalog entry
    sealed_tokens, continuations   open the request's page token, and seal the one of the next page
    wire_actions, delta_lines      write a signed file as {"file": {"id": ..., "deltaSingleAction": ...}}

`parquet_lines`, `json_bodies` and `iceberg_bodies` write the other responses. The package does no I/O, and does not
depend on AWS, Delta logs or DynamoDB.
"""
