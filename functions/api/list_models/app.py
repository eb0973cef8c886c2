"""GET .../all-models, .../models, .../models/{model} and its versions: the models of a granted share."""

from deltaic.http.asset_endpoints import list_models
from deltaic.http.edge import buffered

handler = buffered("list_models", list_models)
