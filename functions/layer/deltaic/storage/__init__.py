"""Reads objects, signs URLs and vends credentials, for AWS S3 and S3-compatible stores.

A file of a table in the storage `vault`, from its path in the log to a URL:

    locations       the path decoded once and resolved: bucket and key, inside one of the table's locations
    endpoints       the host of the storage, and how it addresses buckets
    sessions        the recipient's session of the signing role, renewed after a quarter of its life
    signing         a pre-signed GET URL (Signature Version 4)
    table_urls      the two together, for all files of an answer

`objects` reads log files in few parallel requests (`byte_ranges`, `connections`). `folder_objects` lists folders, and
`vending` gives credentials for one. `aws_client` calls DynamoDB, STS and other services without botocore.
`object_store_errors` maps a store's errors to the product's. What a recipient may read is decided in `deltaic.sharing`.
"""

from typing import Final

BEFORE_SNAPSHOT: Final = ("obstore.exceptions", "obstore.store")
"""Modules that are imported when the first object is read or signed; a snapshot of the process has them already."""
