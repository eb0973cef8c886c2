"""The Delta Sharing wire: names, requests, capabilities, predicates, tokens and lines. Pure: no I/O, no AWS."""
