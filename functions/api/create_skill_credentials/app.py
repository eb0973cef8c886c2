"""POST .../skills/{skill}/temporary-skill-credentials: credentials that read the skill's folder."""

from deltaic.http.credentials_endpoint import create_folder_credentials
from deltaic.http.edge import buffered

handler = buffered("create_skill_credentials", create_folder_credentials)
