"""Read objects, sign URLs and vend credentials, for AWS S3 and S3-compatible stores.

A file of a table in the storage `vault`, from its path in the log to a URL:

    locations       the path decoded once and resolved: bucket and key, inside one of the table's locations
    endpoints       the host of the storage, and how it addresses buckets
    sessions        the recipient's session of the signing role, renewed after a quarter of its lifetime
    signing         a pre-signed GET URL (Signature Version 4)
    table_urls      signs the URLs of all files of an answer

`objects` reads log files in few parallel requests (`byte_ranges`, `connections`). `folder_objects` lists folders, and
`vending` vends credentials for one. `aws_client` calls DynamoDB, STS and other services without botocore.
`object_store_errors` maps a store's errors to the product's. `deltaic.sharing` decides what a recipient may read.
"""

from typing import Final

BEFORE_SNAPSHOT: Final = ("obstore.exceptions", "obstore.store")
"""Modules that the first read or signature imports. A snapshot of the process contains them."""
