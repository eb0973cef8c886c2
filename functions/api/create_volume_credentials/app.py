"""POST .../volumes/{volume}/temporary-volume-credentials: credentials that read the volume's folder."""

from deltaic.http.credentials_endpoint import create_folder_credentials
from deltaic.http.edge import buffered

handler = buffered("create_volume_credentials", create_folder_credentials)
