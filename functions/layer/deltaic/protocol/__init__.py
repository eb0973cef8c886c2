"""Reads and writes the Delta Sharing protocol: names, requests, capabilities, tokens and response lines.

A query in delta format, from its body to a line:

    request_body, query_request    {"limitHint": 10, "version": 3}: types and combinations, in the reference's order
    capabilities, negotiation      `responseformat=delta,parquet`: delta, if the table needs it
    gates                          version 3 is shared, by the table's entry
    sealed_tokens, continuations   the page token of the request, and the one of the next page
    wire_actions, delta_lines      a signed file as {"file": {"id": ..., "deltaSingleAction": ...}}

`parquet_lines`, `json_bodies` and `iceberg_bodies` are the other responses. Everything here is pure: no I/O, no AWS, no
knowledge of Delta logs or DynamoDB.
"""
