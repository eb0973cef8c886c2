"""POST .../temporary-{kind}-credentials: credentials that read the folder of a volume, a skill or a model version."""

from deltaic.http.credentials_endpoint import create_asset_credentials
from deltaic.http.edge import buffered

handler = buffered("create_asset_credentials", create_asset_credentials)
