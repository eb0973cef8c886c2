"""Holds what AWS lets pass of one answer: its bytes on the wire, their pace, its time.

Lambda's limits bind before API Gateway's (10 MB, then 2 MB/s) on a streamed answer. Source: Lambda's developer guide,
"Response streaming" and "Lambda quotas"; API Gateway's, "Quotas for configuring and running a REST API".
"""

from typing import Final

FREE_BURST_BYTES: Final = 6 * 1024 * 1024
"""What leaves of a streamed answer as fast as it can be sent."""

BYTES_PER_SECOND: Final = 2 * 1024 * 1024
"""The pace of what follows."""

STREAMED_BYTES: Final = 200_000_000
"""Where Lambda ends a streamed answer, wherever that is."""

BUFFERED_BYTES: Final = 6 * 1024 * 1024
"""The most of a buffered answer: the JSON document around the body, escaped or in base64."""

BUFFERED_SECONDS: Final = 29.0
"""How long API Gateway waits for a buffered answer."""
