"""POST .../tables/{table}/temporary-table-credentials: credentials that read the table's folder."""

from deltaic.http.credentials_endpoint import create_table_credentials
from deltaic.http.edge import buffered

handler = buffered("create_table_credentials", create_table_credentials)
