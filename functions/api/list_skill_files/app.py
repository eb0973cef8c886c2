"""GET and POST .../skills/{skill}/files: the names of a skill's files, and URLs for some of them."""

from deltaic.http.edge import buffered
from deltaic.http.files_endpoint import get_files

handler = buffered("list_skill_files", get_files)
