"""GET /openapi.json: the endpoints, their parameters and their responses, as an OpenAPI document."""

from pathlib import Path

from deltaic.http.edge import buffered
from deltaic.http.response import Response
from deltaic.protocol.json_bodies import JSON_TYPE

DOCUMENT = Path(__file__).with_name("openapi.json").read_bytes()

handler = buffered("get_contract", lambda _: Response(headers={"content-type": JSON_TYPE}, body=DOCUMENT))
