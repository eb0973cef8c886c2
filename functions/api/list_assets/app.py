"""GET .../all-volumes, .../volumes, .../volumes/{volume}, those of skills and models, and a model's versions."""

from deltaic.http.asset_endpoints import list_assets
from deltaic.http.edge import buffered

handler = buffered("list_assets", list_assets)
