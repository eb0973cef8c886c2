"""GET and POST .../versions/{version}/files: the names of a model version's files, and URLs for some of them."""

from deltaic.http.edge import buffered
from deltaic.http.files_endpoint import get_files

handler = buffered("list_model_files", get_files)
