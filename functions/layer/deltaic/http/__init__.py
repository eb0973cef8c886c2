"""The ASGI edge: request -> use case -> response."""
