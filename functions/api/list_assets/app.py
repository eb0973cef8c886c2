"""GET .../all-volumes, .../volumes, .../volumes/{volume}; also of skills, models and model versions."""

from deltaic.http.asset_endpoints import list_assets
from deltaic.http.edge import buffered

handler = buffered("list_assets", list_assets)
