"""GET and POST .../files of a volume, a skill or a model version: names of files, and signed URLs."""

from deltaic.http.edge import buffered
from deltaic.http.files_endpoint import get_files

handler = buffered("list_asset_files", get_files)
