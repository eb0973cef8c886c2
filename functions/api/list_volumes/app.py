"""GET .../all-volumes, .../volumes and .../volumes/{volume}: the volumes of a granted share."""

from deltaic.http.asset_endpoints import list_volumes
from deltaic.http.edge import buffered

handler = buffered("list_volumes", list_volumes)
