"""POST .../versions/{version}/temporary-model-version-credentials: credentials that read a version's folder."""

from deltaic.http.credentials_endpoint import create_folder_credentials
from deltaic.http.edge import buffered

handler = buffered("create_model_credentials", create_folder_credentials)
