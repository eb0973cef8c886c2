"""GET and POST .../volumes/{volume}/files: the names of a volume's files, and URLs for some of them."""

from deltaic.http.edge import buffered
from deltaic.http.files_endpoint import get_files

handler = buffered("list_volume_files", get_files)
