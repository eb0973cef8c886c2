"""Read objects, sign URLs and vend credentials, for AWS S3 and S3-compatible stores.

A file of a table in the storage `vault`, from its path in the log to a URL:

    locations       decodes and resolves the path: bucket and key, inside one of the table's locations
    endpoints       determines the host of the storage, and whether the bucket is in the host or in the path
    sessions        assumes the signing role for the recipient, again after a quarter of the session's lifetime
    signing         creates a pre-signed GET URL (Signature Version 4)
    table_urls      signs the URLs of all files of a response

`objects` reads Delta log files in few parallel requests (`byte_ranges`, `connections`). `folder_objects` lists folders,
and `vending` vends credentials for one. `aws_client` calls DynamoDB, STS and other services without botocore.
`object_store_errors` maps errors of a store to `deltaic.errors`. `deltaic.sharing` decides what a recipient may read.
"""

from typing import Final

BEFORE_SNAPSHOT: Final = ("obstore.exceptions", "obstore.store")
"""Modules that the first read or signature imports, so that SnapStart imports them in advance."""
