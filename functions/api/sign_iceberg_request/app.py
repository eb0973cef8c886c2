"""POST .../tables/{table}/sign of Iceberg's REST catalog: signed headers for a client's S3 request."""

from deltaic.http.edge import buffered
from deltaic.http.iceberg_endpoints import iceberg_error
from deltaic.http.iceberg_signing_endpoint import sign_iceberg_request

handler = buffered("sign_iceberg_request", sign_iceberg_request, iceberg_error)
