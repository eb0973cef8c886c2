"""Limits of AWS for one response: bytes on the wire.

For a streamed response Lambda's limits are lower than API Gateway's (10 MB, then 2 MB/s). Source: Lambda's developer
guide, "Response streaming" and "Lambda quotas"; API Gateway's, "Quotas for configuring and running a REST API".
"""

from typing import Final

FREE_BURST_BYTES: Final = 6 * 1024 * 1024
"""Bytes of a streamed response that Lambda sends without a rate limit; it sends the rest at 2 MB/s."""

STREAMED_BYTES: Final = 200_000_000
"""Lambda truncates a streamed response after this many bytes, even in the middle of a line."""

BUFFERED_BYTES: Final = 6 * 1024 * 1024
"""Maximum bytes of a buffered response: the JSON document with the body as an escaped string or in base64."""
