"""A store allows only web pages of configured origins to read objects by signed URLs."""

import httpx
import pytest
from deltaic_ops.local.bucket_cors import allow_origins, allows_origin, rules_of
from storage.stores import Store

PAGE, OTHER = "http://127.0.0.1:8000", "https://other.example"
PREFLIGHT = {"access-control-request-method": "GET", "access-control-request-headers": "range"}


@pytest.mark.parametrize("kind", ["ministack", "seaweedfs"])
def test_web_page_reads_a_range_by_a_signed_url(kind: str, request: pytest.FixtureRequest) -> None:
    store: Store = request.getfixturevalue(kind)
    bucket = store.bucket
    store.put("part", b"0123456789")
    allow_origins(store.client, bucket, [PAGE])
    assert allows_origin(rules_of(store.client, bucket), PAGE)
    url = store.client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "part"})
    preflight = httpx.options(url, headers={**PREFLIGHT, "origin": PAGE})
    assert preflight.headers["access-control-allow-origin"] == PAGE
    answer = httpx.get(url, headers={"origin": PAGE, "range": "bytes=2-4"})
    assert (answer.status_code, answer.content) == (206, b"234")
    assert answer.headers["access-control-allow-origin"] == PAGE
    for refused in (
        httpx.options(url, headers={**PREFLIGHT, "origin": OTHER}),
        httpx.get(url, headers={"origin": OTHER}),
    ):
        assert refused.headers.get("access-control-allow-origin") not in {OTHER, "*"}
